"""`convert` and `seqrecorder legacy convert`: what is written, the data, and what is refused."""

import gzip
import importlib
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder import legacy
from seqrecorder.cli.main import main
from seqrecorder.errors import LiftError, OptionError

sys.path.insert(0, str(Path(__file__).parent))
with legacy.compat():
    old_readers = importlib.import_module("old_readers")

v1 = tf.compat.v1
LINES = """
import tensorflow as tf


def lines(files, batch_size):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    return tf.train.batch([line], batch_size)
"""

SCRIPT = """
import tensorflow as tf

tf.app.flags.DEFINE_integer("rows", 4, "of a batch")


def read(files, rows=None):
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, serialized = tf.TFRecordReader().read(queue)
    context, sequence = tf.parse_single_sequence_example(
        serialized, {"length": tf.FixedLenFeature([], tf.int64)},
        {"tokens": tf.FixedLenSequenceFeature([], tf.int64)})
    tensors = [context["length"], sequence["tokens"]]
    return tf.train.batch(tensors, rows or tf.app.flags.FLAGS.rows, dynamic_pad=True)


def train(files):
    batch = read(files)
    with tf.Session() as session:
        return session.run(batch)
"""


def _numpy(text):
    return f"import numpy as np\nread = lambda: {text}"


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "old_script.py"
    path.write_text(SCRIPT)
    return path


def test_functions_are_listed(script, capsys):
    """Without a call, the functions of the script are shown with their arguments; it does not stay imported."""
    before = sys.modules.get("old_script")  # which a page of the guide may have imported here
    flags = {*v1.app.flags.FLAGS}
    assert main(["legacy", "convert", str(script)]) == 0
    assert {*v1.app.flags.FLAGS} == flags
    assert capsys.readouterr().out.splitlines()[1:] == ["  read(files, rows=None)", "  train(files)"]
    assert sys.modules.get("old_script") is before


def test_a_module_is_written(script, files, tmp_path, capsys):
    """`--write` writes a module that gives the batches; a second time it refuses to replace it."""
    written = tmp_path / "reader.py"
    arguments = ["legacy", "convert", str(script), "--call", f"read({files['sequences']})", "--write", str(written)]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "on its first records: 4 batches equal, in the same order, bit for bit, to the end" in shown
    assert f"written to {written}" in shown
    lengths = [batch[0].numpy().tolist() for batch in module(written).inputs(batch_size=9)]
    assert lengths[0] == [1, 2, 3, 4, 5, 1, 2, 3, 4]
    assert main(arguments) == 1
    assert "reader.py exists; give another name" in capsys.readouterr().err


def test_several_calls(script, files, tmp_path):
    """What differs between them is a parameter of one module."""
    written = tmp_path / "reader.py"
    calls = [f"read({files['sequences']}, {rows})" for rows in (2, 5)]
    options = [option for call in calls for option in ("--call", call)]
    assert main(["legacy", "convert", str(script), *options, "--write", str(written)]) == 0
    assert "batch_size=2" in written.read_text()
    assert not (tmp_path / "reader_2.py").exists()


def test_json(script, files, capsys):
    """Programs get one document."""
    assert main(["legacy", "convert", str(script), "--call", f"read({files['sequences']})", "--json"]) == 0
    [conversion] = json.loads(capsys.readouterr().out)["conversions"]
    assert conversion["printed"]
    assert conversion["source"].startswith('"""Batches of read, by tf.data.')


def test_data_are_written(script, files, tmp_path, capsys):
    """`--data` writes each record once, and prints a script that reads the same batches."""
    target = tmp_path / "corpus"
    call = f"read({files['sequences']})"
    assert main(["legacy", "convert", str(script), "--call", call, "--data", str(target)]) == 0
    shown = capsys.readouterr().out
    text = shown[shown.index("import numpy") :]
    namespace = {"__name__": "read_script"}
    exec(text, namespace)  # noqa: S102 - what was printed
    assert sr.info(target).records == 18
    old = {"__name__": "old"}
    with legacy.compat():
        exec(SCRIPT.replace('tf.app.flags.DEFINE_integer("rows", 4, "of a batch")', ""), old)  # noqa: S102 - ours
    expected = legacy.lift(lambda: old["read"](files["sequences"], 4))
    for batch, (lengths, tokens) in zip(namespace["dataset"].take(4), expected.take(4), strict=True):
        np.testing.assert_array_equal(batch["tokens"], tokens)
        np.testing.assert_array_equal(batch["length"], lengths)
    assert main(["legacy", "convert", str(script), "--call", call, "--data", str(target)]) == 1
    assert "it is not empty; choose another" in capsys.readouterr().err
    assert main(["legacy", "convert", str(script), "--call", call, "--data", str(target), "--overwrite"]) == 0


def test_module_and_data_are_written(script, files, tmp_path, capsys):
    """With `--write` and `--data`, the report still ends with the script that reads the data."""
    outputs = ["--write", str(tmp_path / "reader.py"), "--data", str(tmp_path / "corpus")]
    assert main(["legacy", "convert", str(script), "--call", f"read({files['sequences']})", *outputs]) == 0
    shown = capsys.readouterr().out
    assert f"written to {tmp_path / 'reader.py'}" in shown
    compile(shown.partition("it is read by")[2], "script", "exec")


def test_shares_of_the_data(script, files, tmp_path):
    """Splits have the shares that were asked for."""
    target = tmp_path / "corpus"
    options = ["--share", "train=0.5", "--share", "eval=0.5", "--split-by", "id"]
    call = f"read({files['sequences']})"
    assert main(["legacy", "convert", str(script), "--call", call, "--data", str(target), *options]) == 0
    assert set(sr.info(target).splits) == {"train", "eval"}


@pytest.mark.parametrize("option", [["--share", "a=1"], ["--split-by", "id"], ["--overwrite"]])
def test_options_of_data_need_data(script, option, capsys):
    """Options of the dataset are refused without one, and not ignored."""
    assert main(["legacy", "convert", str(script), "--call", "read([])", *option]) == 1
    assert "are for a dataset: give --data DIR" in capsys.readouterr().err


def test_the_same_batches_of_buckets(converted, tmp_path):
    """The script that reads the data has the buckets, the shuffle and the epochs of the old function."""
    script = converted(old_readers.buckets, "sequences").write_data(tmp_path / "again")
    assert "batch=sr.Bucket(2, boundaries=[3, 5])" in script
    assert "epochs=4" in script
    exec(script, {"__name__": "read_script"})  # noqa: S102 - what was printed


def _tokens(files):
    queue = v1.train.string_input_producer(files["sequences"], num_epochs=1, shuffle=False)
    _, serialized = v1.TFRecordReader().read(queue)
    return v1.parse_single_sequence_example(
        serialized,
        {"length": tf.io.FixedLenFeature([], tf.int64)},
        {"tokens": tf.io.FixedLenSequenceFeature([], tf.int64)},
    )


def _by_length_of_a_list(files):
    tokens = _tokens(files)[1]["tokens"]
    sizes = legacy.contrib.training.bucket_by_sequence_length(
        tf.shape(tokens)[0], [tokens], [4, 3, 2], [3, 5], dynamic_pad=True
    )
    return sizes[1][0]


def _by_a_feature(files, **options):
    context, steps = _tokens(files)
    length = tf.cast(context["length"], tf.int32)
    batches = legacy.contrib.training.bucket_by_sequence_length(
        length, [steps["tokens"]], 2, [3, 5], dynamic_pad=True, **options
    )
    return batches[1][0]


def _kept_in_buckets(files):
    context, steps = _tokens(files)
    keep, length = context["length"] > 2, tf.shape(steps["tokens"])[0]
    tensors = [steps["tokens"]]
    return legacy.contrib.training.bucket_by_sequence_length(
        length, tensors, 2, [4], dynamic_pad=True, keep_input=keep
    )[1][0]


def _kept(files):
    context, _ = _tokens(files)
    return v1.train.maybe_batch([context["length"]], context["length"] > 2, 2)


def _pieces(files):
    return v1.train.batch([_tokens(files)[1]["tokens"]], 4, enqueue_many=True)


@pytest.mark.parametrize(
    ("function", "batch", "difference"),
    [
        (_by_length_of_a_list, "sr.Bucket((4, 3, 2), boundaries=[3, 5], drop_remainder=True)", None),
        (
            _by_a_feature,
            "sr.Bucket(2, boundaries=[3, 5], drop_remainder=True)",
            "selects a bucket by a value of its own",
        ),
        pytest.param(
            old_readers.numbered_buckets,
            "sr.Bucket(2, boundaries=[1, 2]",
            "selects a bucket by a value of its own",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            _kept_in_buckets,
            "sr.Bucket(2, boundaries=[4], drop_remainder=True)",
            "leaves out records (keep_input)",
            marks=pytest.mark.nightly,
        ),
        (_kept, "sr.Pad(2, drop_remainder=True)", "leaves out records (keep_input)"),
        (_pieces, "sr.Pad(4, drop_remainder=True)", "enqueue_many divides what is read"),
    ],
)
def test_what_the_data_do_not_reproduce(files, tmp_path, function, batch, difference):
    """The report and the script that reads the data say in which way the batches of `sr.read` differ."""
    conversion = legacy.convert(function, files["sequences"] if "old" in function.__module__ else files)
    script = conversion.write_data(tmp_path / "corpus")
    assert f"batch={batch}" in " ".join(script.split()).replace("( ", "(").replace(", )", ")")
    stored, *comments = [line for line in script.splitlines() if line.startswith("# ")]
    assert stored.startswith("# features come as stored: ")
    reported = [line for line in conversion.report.splitlines() if line.startswith("with --data: ")]
    assert [line.removeprefix("# ") for line in comments] == [line.removeprefix("with --data: ") for line in reported]
    assert len(comments) == (difference is not None)
    assert difference is None or difference in comments[0]
    exec(script, {"__name__": "read_script"})  # noqa: S102 - what was printed


def test_the_script_reads_what_was_parsed(tmp_path):
    """Features in the files that the function does not parse are not in the batches of the script."""
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path) as file:
        for number in range(4):
            message = tf.train.SequenceExample()
            message.context.feature["unused"].int64_list.value.append(number)
            message.context.feature["label"].int64_list.value.append(number)
            message.feature_lists.feature_list["steps"].feature.add().int64_list.value.append(10 + number)
            file.write(message.SerializeToString())

    def input_fn():
        v1 = tf.compat.v1
        serialized = v1.TFRecordReader().read(v1.train.string_input_producer([path], num_epochs=1))[1]
        context, steps = tf.io.parse_single_sequence_example(
            serialized,
            {"label": tf.io.FixedLenFeature([], tf.int64)},
            {"steps": tf.io.FixedLenSequenceFeature([], tf.int64)},
        )
        return v1.train.batch([context["label"], steps["steps"]], 2, dynamic_pad=True)

    script = legacy.convert(input_fn).write_data(tmp_path / "corpus")
    names = {}
    exec(script, names)  # noqa: S102 - what was printed
    assert [set(batch) for batch in names["dataset"]] == [{"label", "steps", "sequence_length"}] * 2


def test_raw_bytes_become_numbers(converted, tmp_path):
    """A feature that `decode_raw` makes numbers of is declared as such."""
    conversion = converted(old_readers.mnist, "examples")
    script = conversion.write_data(tmp_path / "corpus")
    assert 'image_raw: np.ndarray = sr.context("uint8", shape=(12,), storage="raw")' in script
    assert sr.open(tmp_path / "corpus")["train"][0].image_raw.tolist() == [*range(12)]


def test_big_endian_bytes_stay_bytes(tmp_path):
    """A declared buffer is little-endian: numbers of the other order stay bytes, and the report says so."""
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path) as file:
        message = tf.train.Example()
        for name, dtype in (("big", ">i2"), ("small", "u1")):
            message.features.feature[name].bytes_list.value.append(np.array([1, 2, 3], dtype).tobytes())
        file.write(message.SerializeToString())

    def input_fn():
        serialized = v1.TFRecordReader().read(v1.train.string_input_producer([path], num_epochs=1))[1]
        features = {name: tf.io.FixedLenFeature([], tf.string) for name in ("big", "small")}
        features = tf.io.parse_single_example(serialized, features)
        tensors = [
            v1.decode_raw(features[name], dtype, little_endian=False)
            for name, dtype in (("big", tf.int16), ("small", tf.uint8))
        ]
        return v1.train.batch(tensors, 1, shapes=[[3], [3]])

    conversion = legacy.convert(input_fn)
    script = conversion.write_data(tmp_path / "corpus")
    [record] = sr.open(tmp_path / "corpus")["train"]
    assert record.big == b"\0\1\0\2\0\3"
    assert record.small.tolist() == [1, 2, 3]
    difference = "decode_raw(little_endian=False): such features stay bytes; decode them in dataset.map()"
    assert f"with --data: {difference}" in conversion.report.splitlines()
    assert f"# {difference}" in script.splitlines()


def test_what_has_no_records_has_no_data(converted, tmp_path):
    """Rows of CSV are no Examples; the way out is named."""
    conversion = converted(old_readers.csv_rows, "csv")
    with pytest.raises(LiftError, match="parses no Example.*sr.from_csv"):
        conversion.write_data(tmp_path / "corpus")


def test_large_constants_stand_beside_the_module(tmp_path):
    """Arrays of a script are kept in a file that the module reads."""
    table = np.arange(3000, dtype=np.float32).reshape(1000, 3)

    def inputs():
        row, number = v1.train.slice_input_producer([table, np.arange(1000)], num_epochs=1, shuffle=False)
        return v1.train.batch([row, number], 100)

    conversion = legacy.convert(inputs)
    conversion.write(tmp_path / "reader.py")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reader.npz", "reader.py"]
    rows = np.concatenate([batch[0] for batch in module(tmp_path / "reader.py").inputs()])
    np.testing.assert_array_equal(rows, table)
    (tmp_path / "reader.py").unlink()
    with pytest.raises(OptionError, match=r"reader\.npz exists"):
        conversion.write(tmp_path / "reader.py")


def test_modules_of_one_directory_keep_their_constants(tmp_path):
    """Each module of two calls has its own file, in one command too."""
    script, written = tmp_path / "old_script.py", tmp_path / "reader.py"
    script.write_text("""
import numpy as np
import tensorflow as tf


def inputs(first):
    [number] = tf.train.slice_input_producer([np.arange(first, first + 1000)], num_epochs=1, shuffle=False)
    return tf.train.batch([number], 100)
""")
    calls = ["--call", "inputs(0)", "--call", "inputs(5000)"]
    assert main(["legacy", "convert", str(script), *calls, "--write", str(written)]) == 0
    for name, first in (("reader.py", 0), ("reader_2.py", 5000)):
        assert next(iter(module(tmp_path / name).inputs()))[0] == first


@pytest.mark.parametrize(
    ("text", "call", "message"),
    [
        (SCRIPT, "train(['a'])", "the function starts a Session before it returns its tensors; name the function that"),
        (SCRIPT, "read(", "give one call, such as 'inputs(...)'"),
        (SCRIPT, "read([])", "read([]): ValueError: string_input_producer requires a non-null input tensor"),
        (SCRIPT, "reed(['a'])", "NameError: name 'reed' is not defined"),
        (SCRIPT, "read", "--call 'read' is a function; call it, as in 'read()'"),
        (SCRIPT, "read(['/no/such/file'])", "gives no batch: NotFoundError: /no/such/file; No such file"),
        ("import no_such_library", "read()", "imports no_such_library, which is not installed: install it"),
        ("import cPickle", "read()", "imports cPickle, a module of Python 2: import the one that Python 3 has instead"),
        ("from json import gone", "read()", "does not run: cannot import name 'gone' from 'json'"),
        (
            "from json import gone",
            "read()",
            "install it, or run from the project's root; or remove imports that reading does not",
        ),
        ("1 / 0", "read()", "ZeroDivisionError: division by zero; importing a script must only define functions"),
        (
            _numpy("np.zeros(3).tostring()"),
            "read()",
            "has no attribute 'tostring'; NumPy has removed it: write tobytes in",
        ),
        (_numpy("np.int(3)"), "read()", "has no attribute 'int'.; NumPy has removed it: write Python's int in"),
        (_numpy("np.lib.pad([1], 1)"), "read()", "has no attribute 'pad'; NumPy has removed it: write np.pad in"),
        (_numpy("np.zeros(3).lines"), "read()", "has no attribute 'lines'\n"),
        ("import tensorflow as tf\nread = lambda: tf.constant(1)", "read()", "depend on no queue or reader"),
    ],
)
def test_refused(tmp_path, capsys, text, call, message):
    """What cannot be converted is named, with the way out."""
    script = tmp_path / "old_script.py"
    script.write_text(text)
    assert main(["legacy", "convert", str(script), "--call", call, "--write", str(tmp_path / "reader.py")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "reader.py").exists()


def test_records_beside_their_batch_are_refused(files):
    """What `lift` refuses is not printed either."""

    def inputs():
        queue = v1.train.string_input_producer(files["text"], num_epochs=1, shuffle=False)
        line = v1.TextLineReader().read(queue).value
        return line, v1.train.batch([line], 2)

    with pytest.raises(LiftError, match="several operations take from TextLineReader"):
        legacy.convert(inputs)


def test_readers_that_divide_files_stay_lifted(files):
    """Each reader has its share of the files; printed twice, the files would come twice."""

    def inputs():
        queue = v1.train.string_input_producer([files["text"][0]] * 4, num_epochs=1, shuffle=False)
        return [v1.IdentityReader().read(queue).value for _ in range(2)]

    conversion = legacy.convert(inputs)
    assert not conversion.printed
    assert "several operations take from its source" in conversion.report


LIFTED = LINES.replace("[line]", "[tf.py_func(lambda text: text, [line], tf.string)]").replace(
    "batch_size)\n", "batch_size, shapes=[[]])\n"
)


@pytest.mark.parametrize("name", ["old-reader", "02_lifted", "class", "lifted_lines"])
def test_lifted_modules_import_scripts_of_any_name(files, tmp_path, monkeypatch, name):
    """A lifted function stays in its script, whose name need not be one of Python."""
    (tmp_path / f"{name}.py").write_text(LIFTED)
    call = ["--call", f"lines({files['text']}, 2)", "--write", str(tmp_path / "reader.py")]
    assert main(["legacy", "convert", str(tmp_path / f"{name}.py"), *call]) == 0
    monkeypatch.syspath_prepend(tmp_path)
    assert next(iter(module(tmp_path / "reader.py").inputs())).shape == (2,)
    assert ("import lifted_lines as old" in (tmp_path / "reader.py").read_text()) == (name == "lifted_lines")
    del sys.modules[name]


def test_lifted_functions_without_a_name_are_not_written(files, tmp_path):
    """A module cannot import a lambda, a local function, or a function of the program that runs."""
    namespace = {"__name__": "__main__"}
    with legacy.compat():
        exec(LIFTED, namespace)  # noqa: S102 - ours
    lines = namespace["lines"]
    for function, arguments in ((lambda: lines(files["text"], 2), ()), (lines, (files["text"], 2))):
        conversion = legacy.convert(function, *arguments)
        assert conversion.source == ""
        assert not conversion.printed
        with pytest.raises(OptionError, match="define it in a file of its own, with a name"):
            conversion.write(tmp_path / "reader.py")
    assert not any(tmp_path.iterdir())


def _records(path, *records):
    with tf.io.TFRecordWriter(str(path)) as file:
        for record in records:
            file.write(record)
    return path


def _example(**values):
    message = tf.train.Example()
    for name, numbers in values.items():
        message.features.feature[name].int64_list.value.extend(numbers)
    return message.SerializeToString()


def parsed(paths, features, batch=1, **options):
    """Batches of the features in some files of Examples."""
    queue = v1.train.string_input_producer([*map(str, paths)], num_epochs=1, **{"shuffle": False, **options})
    example = tf.io.parse_single_example(v1.TFRecordReader().read(queue)[1], features)
    return v1.train.batch([example[name] for name in sorted(features)], batch, dynamic_pad=True)


def test_shapes_and_the_order_of_files_are_differences(tmp_path):
    """The drafted class has no shapes of several dimensions, and `sr.read` keeps the order of the files."""
    paths = [_records(tmp_path / name, _example(m=range(6), one=[1], pair=[1, 2], v=range(4))) for name in "ab"]
    features = {
        "m": tf.io.FixedLenFeature([2, 3], tf.int64),
        "one": tf.io.FixedLenFeature([1], tf.int64),
        "pair": tf.io.FixedLenFeature([2], tf.int64),
        "v": tf.io.FixedLenSequenceFeature([2], tf.int64, allow_missing=True),
    }
    conversion = legacy.convert(parsed, paths, features, shuffle=True)
    reported = [line for line in conversion.report.splitlines() if line.startswith("with --data: ")]
    assert reported == [
        "with --data: 'm' comes without its shape [2, 3]: reshape it in dataset.map()",
        "with --data: 'one' comes without its shape [1]: reshape it in dataset.map()",
        "with --data: 'v' comes without its shape [None, 2]: reshape it in dataset.map()",
        "with --data: the function shuffles its files; sr.read keeps their order: add shuffle=, a number of records",
    ]
    script = conversion.write_data(tmp_path / "corpus")
    assert 'pair: np.ndarray = sr.context("int64", shape=(2,))' in script
    assert all(line.replace("with --data: ", "# ") in script.splitlines() for line in reported)


def _rows(size):
    message = tf.train.Example()
    message.features.feature["texts"].bytes_list.value.extend([b"t"] * size)
    message.features.feature["x"].int64_list.value.extend(range(size))
    return message.SerializeToString()


def _steps(**lists):
    message = tf.train.SequenceExample()
    for name, numbers in lists.items():
        for number in numbers:
            message.feature_lists.feature_list[name].feature.add().int64_list.value.append(number)
    return message.SerializeToString()


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("compared", ["whole", "lacking"])
def test_lists_that_may_be_missing_stay_so(tmp_path, batched, compared):
    """A record without such a list is read as in the original, also if no compared record lacked it."""
    whole, lacking = _steps(pos=[7], tokens=[1, 2]), _steps(tokens=[3])
    paths = {
        "whole": str(_records(tmp_path / "whole", whole, whole)),
        "lacking": str(_records(tmp_path / "lacking", whole, lacking)),
        "bare": str(_records(tmp_path / "bare", whole, _steps(pos=[7]))),
    }
    spec = {
        "pos": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "tokens": tf.io.FixedLenSequenceFeature([], tf.int64),
    }

    def inputs():
        queue = v1.train.string_input_producer([paths[compared]], num_epochs=1, shuffle=False)
        record = v1.TFRecordReader().read(queue).value
        if batched:
            steps = tf.io.parse_sequence_example(v1.train.batch([record], 2), sequence_features=spec)[1]
            return steps["pos"], steps["tokens"]
        steps = tf.io.parse_single_sequence_example(record, sequence_features=spec)[1]
        return v1.train.batch([steps["pos"], steps["tokens"]], 2, dynamic_pad=True)

    conversion = legacy.convert(inputs)
    conversion.write(tmp_path / "reader.py")
    read = module(tmp_path / "reader.py").inputs
    for name, expected in (("whole", [[7], [7]]), ("lacking", [[7], [0]])):
        [(pos, _)] = read([paths[name]])
        assert pos.numpy().tolist() == expected
    with pytest.raises(tf.errors.InvalidArgumentError, match="tokens"):
        list(read([paths["bare"]]))


def test_padding_values_of_parsed_features_stay(tmp_path):
    """Lists of one length need no padding while they are compared; other files do."""
    paths = {
        name: str(_records(tmp_path / name, *map(_rows, sizes)))
        for name, sizes in (("same", (2, 2)), ("other", (1, 2)))
    }
    spec = {
        "texts": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True, default_value="none"),
        "x": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=-1),
    }

    def inputs():
        queue = v1.train.string_input_producer([paths["same"]], num_epochs=1, shuffle=False)
        batch = tf.io.parse_example(v1.train.batch([v1.TFRecordReader().read(queue).value], 2), spec)
        return batch["texts"], batch["x"]

    conversion = legacy.convert(inputs)
    conversion.write(tmp_path / "reader.py")
    [(texts, x)] = module(tmp_path / "reader.py").inputs([paths["other"]])
    assert texts.numpy().tolist() == [[b"t", b"none"], [b"t", b"t"]]
    assert x.numpy().tolist() == [[0, -1], [0, 1]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "NotFoundError: .*bad; No such file or directory; mend the file or record"),
        (
            lambda path: path.write_bytes(path.read_bytes()[:-3]),
            "DataLossError: truncated record at 0.*; `seqrecorder verify .*/bad` lists the damage, `seqrecorder salv",
        ),
        (
            lambda path: path.write_bytes(gzip.compress(path.read_bytes())),
            r"corrupted record at 0 \(Is this .*; a GZIP file needs tf.TFRecordReader\(options=.*; `seqrecorder verify",
        ),
        (lambda path: _records(path, b"\xff no message"), "read: SchemaMismatchError: unknown: the bytes are neither"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, bad, message):
    """A missing or damaged file after a good one is named as such, also if its bytes are no text."""
    paths = [_records(tmp_path / "good", _example(x=[1])), tmp_path / "bad"]
    if bad is not None:
        bad(_records(paths[1], _example(x=[2])))
    with pytest.raises(LiftError, match=message):
        legacy.convert(parsed, paths, {"x": tf.io.FixedLenFeature([1], tf.int64)})


def test_bytes_that_are_no_text_are_quoted(tmp_path):
    """TensorFlow quotes a record that is no message, which Python cannot decode."""
    path = _records(tmp_path / "bad", b"\xff no message")
    with pytest.raises(LiftError, match=r"gives no batch: ValueError: Could not .* value: '\\xff no message', so"):
        legacy.convert(parsed, [path], {"x": tf.io.FixedLenFeature([1], tf.int64)})


def test_two_kinds_of_files(files, tmp_path):
    """Files of one reader are cut as it reads them, those of another stay whole; there is no one class of records."""

    def inputs():
        examples = parsed([_records(tmp_path / "good", _example(x=[1]))], {"x": tf.io.FixedLenFeature([1], tf.int64)})
        queue = v1.train.string_input_producer(files["text"], num_epochs=1, shuffle=False)
        return v1.train.batch([v1.TextLineReader().read(queue)[1], examples[0]], 1)

    conversion = legacy.convert(inputs)
    assert "on its first records: 1 batches equal" in conversion.report
    with pytest.raises(LiftError, match="the function reads several lists of files"):
        conversion.write_data(tmp_path / "corpus")


def test_lines_that_tf_data_splits_otherwise(tmp_path):
    """Carriage returns inside of lines: the module reads as TensorFlow 1 did."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\rb\r\nc\n\nd\r\r\n")

    def inputs():
        queue = v1.train.string_input_producer([str(path)], num_epochs=2, shuffle=False)
        return v1.train.batch([v1.TextLineReader().read(queue).value], 4)

    conversion = legacy.convert(inputs)
    assert conversion.printed
    assert "sr.legacy.text_lines" in conversion.source
    assert [batch.numpy().tolist() for batch in conversion.dataset] == [[b"a\rb", b"c", b"", b"d\r"]] * 2


def convert_to(tmp_path, capsys, script, call):
    """Convert a call of a script; return what was printed."""
    assert main(["legacy", "convert", str(script), "--call", call, "--write", str(tmp_path / "reader.py")]) == 0
    return capsys.readouterr().out


def test_scripts_inside_of_packages(files, tmp_path, capsys):
    """A script may import by its place in a package."""
    package = tmp_path / "project" / "readers"
    package.mkdir(parents=True)
    (package / "names.py").write_text("BATCH = 3\n")
    script = package / "input.py"
    script.write_text("from .names import BATCH\n" + LINES)
    assert "3 batches equal" in convert_to(tmp_path, capsys, script, f"lines({files['text']!r}, BATCH)")


def test_what_is_printed_finds_the_new_tensorflow(files, tmp_path, capsys):
    """Where the old script finds TensorFlow 1, the module finds the one that it will run with."""
    script = tmp_path / "old.py"
    chosen = "tf.compat.v2.where(tf.strings.length(line) > 14, [line, line], line)"
    script.write_text(LINES.replace("[line]", f"[{chosen}]"))
    assert "batches equal" in convert_to(tmp_path, capsys, script, f"lines({files['text']!r}, 2)")
    assert "tf.where(" in (tmp_path / "reader.py").read_text()


def test_seeds_that_python_draws(files, tmp_path, capsys):
    """Each call of the function finds the random numbers that the first one found."""
    script = tmp_path / "old.py"
    seeded = LINES.replace("shuffle=False", "seed=random.randint(1, 2**31)")
    script.write_text("import random\n" + seeded)
    assert "in the same order" in convert_to(tmp_path, capsys, script, f"lines({files['text']!r}, 2)")
    assert "seed=" in (tmp_path / "reader.py").read_text()


def test_models_beside_the_input(files, tmp_path, capsys):
    """What is gone of TensorFlow 1 may be named when a script is imported."""
    script = tmp_path / "old.py"
    model = "\nclass Model(tf.estimator.Estimator):\n    mode = tf.estimator.ModeKeys.TRAIN\n"
    script.write_text(LINES + model)
    assert "batches equal" in convert_to(tmp_path, capsys, script, f"lines({files['text']!r}, 2)")


def test_seeds_of_graphs(files, tmp_path, capsys):
    """A seed that the program set before it called the function is part of what is printed."""
    script = tmp_path / "old.py"
    script.write_text(LINES.replace("shuffle=False", "seed=4"))
    call = f"lines({files['text']!r}, 2)"
    options = ["--graph-seed", "11", "--write", str(tmp_path / "reader.py")]
    assert main(["legacy", "convert", str(script), "--call", call, *options]) == 0
    assert "in the same order" in capsys.readouterr().out
    assert "seed=4, graph_seed=11" in (tmp_path / "reader.py").read_text()


def test_segments_of_sequences_become_unroll(files, tmp_path):
    """What cut sequences into segments is read as such from the data."""

    def inputs():
        queue = v1.train.string_input_producer(files["sequences"], num_epochs=2, shuffle=False)
        context, steps = v1.parse_single_sequence_example(
            v1.TFRecordReader().read(queue).value,
            {"length": tf.io.FixedLenFeature([], tf.int64), "id": tf.io.FixedLenFeature([], tf.string)},
            {"tokens": tf.io.FixedLenSequenceFeature([], tf.int64)},
        )
        batch = legacy.contrib.training.batch_sequences_with_states(
            context["id"], {"tokens": steps["tokens"]}, {}, context["length"], {}, 2, 3
        )
        return batch.sequences["tokens"]

    conversion = legacy.convert(inputs)
    assert not conversion.printed
    script = conversion.write_data(tmp_path / "corpus")
    assert 'batch=sr.Unroll(3, 2, tail="drain")' in script
    exec(script, {"__name__": "read_script"})  # noqa: S102 - what was printed


@pytest.mark.parametrize("lengths", [(2, 3), (0, 3)])
def test_threads_decided_the_order_of_segments(lengths):
    """The report says so, and the error of an example without steps is quoted."""

    def inputs(threads):
        length = v1.train.input_producer(lengths, num_epochs=1, shuffle=False).dequeue()
        steps = {"x": tf.range(length)}
        segments = legacy.contrib.training.batch_sequences_with_states
        return segments("key", steps, {}, length, {}, 2, 1, num_threads=threads).sequences["x"]

    if not all(lengths):
        with pytest.raises(
            LiftError, match=r"no batch: Inv\w+: assertion failed: \[batch_.* \[0\] \[steps; at least 1 is"
        ):
            legacy.convert(inputs, 1)
        return
    assert legacy.convert(inputs, 1).report.endswith("order: as in the original")
    report = legacy.convert(inputs, 3).report
    assert "order not fixed: 3 threads decided which example came first" in report
    assert "3 batches equal, the same records in random order, to the end" in report


def test_records_are_declared_in_the_module(converted):
    """A module that parses records names their class, which it does not need."""
    source = converted(old_readers.frames, "sequences").source
    assert source.index("class Record:") < source.index("import tensorflow")
    assert "import seqrecorder" not in source
