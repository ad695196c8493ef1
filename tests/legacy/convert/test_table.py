"""A table of readers: each is traced, printed and proved against its own queue run."""

import importlib
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from seqrecorder import legacy

HERE = Path(__file__).parent
v1 = tf.compat.v1
GOLDEN = HERE / "golden"
sys.path.insert(0, str(HERE))
with legacy.compat():
    old_readers = importlib.import_module("old_readers")

LIFTED = {
    "by_python": "PyFunc",
    "by_priority": "priorities",
    "by_loop": "While",
    "random_vectors": "it holds random values",
}
"""Readers that have no form in tf.data, and what the report names."""
OURS = {
    *("csv_dict", "seeded_files", "keys_of_records", "keys_of_several"),
    *("fixed_with_hop", "fixed_with_tail", "seeded_arrays"),
}
"""Readers whose modules need seqrecorder: for keys, for seeded orders, for records that do not fill a file."""

# They print and prove nothing that another reader of the table does not; several seconds of queues each.
AT_NIGHT = (
    *("csv_endless", "csv_many_at_once", "kept_rows", "ids_of_words", "two_files_in_step"),
    *("mnist_in_order", "one_at_a_time", "several_readers", "several_shuffled_readers", "raw_batches"),
    *("keys_of_records", "reshaped_batch", "distorted", "padding_queue", "parsed_steps", "by_condition"),
    *("prefetched_captions", "many_examples_at_once", "padding_queue_of_threads", "cropped_and_distorted"),
    *("buckets_of_a_dict", "shuffled_values_of_shuffled_files", "labelled_images_in_order", "planes"),
)


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(reader, id=reader.__name__, marks=pytest.mark.nightly if reader.__name__ in AT_NIGHT else ())
        for reader in old_readers.KINDS
    ],
)
def test_readers_are_printed_and_proved(files, converted, reader, monkeypatch):
    """The module gives what the queues gave, or the report says why the function stays lifted."""
    kind = old_readers.KINDS[reader]
    golden = GOLDEN / f"{reader.__name__}.txt"
    if golden.exists() and files[kind]:
        monkeypatch.chdir(Path(files[kind][0]).parent)
        conversion = legacy.convert(reader, [Path(path).name for path in files[kind]])
    else:
        conversion = converted(reader, kind)
    first = conversion.report.splitlines()[0]
    assert "batches equal" in conversion.report
    if reader.__name__ in LIFTED:
        assert not conversion.printed
        assert LIFTED[reader.__name__] in first
        assert "sr.legacy.lift(" in conversion.source
        return
    assert conversion.printed, conversion.report
    lines = conversion.source.splitlines()
    assert first == f"printed: {len(lines)} lines"
    assert max(map(len, lines)) < 100
    assert "\n\n\n\n" not in conversion.source
    assert ("import seqrecorder" in conversion.source) == (reader.__name__ in OURS)
    compile(conversion.source, "reader.py", "exec")
    assert not golden.exists() or conversion.source == golden.read_text()


def test_functions_that_do_the_same_are_printed_once(converted):
    """Two files that are read alike share the function that parses their lines."""
    source = converted(old_readers.the_same_of_two_files, "csv").source
    assert source.count("def parse") == 1
    assert source.count(".map(parse,") == 2


def test_threads_that_differ_take_turns(converted):
    """Each record goes to the function of one thread, the next to that of the next."""
    source = converted(old_readers.threads_that_differ, "sequences").source
    assert "tf.switch_case(tf.cast(number % 2, tf.int32), [lambda: parse(record), lambda: parse_2(record)])" in (
        " ".join(source.split()).replace("( ", "(").replace(", )", ")")
    )


def test_threads_that_do_not_alternate_take_turns(files):
    """Of three threads, the first and the last are alike: every third record goes to the one between them."""

    def inputs():
        queue = v1.train.string_input_producer(files["text"], num_epochs=2, shuffle=False)
        line = v1.TextLineReader().read(queue).value
        examples = [[tf.strings.join([line, end])] for end in ("", "!", "")]
        return v1.train.batch_join(examples, 2)

    conversion = legacy.convert(inputs)
    assert conversion.printed
    assert "number % 3" in conversion.source


def test_threads_that_keep_differently_take_turns(files):
    """Each thread has its own condition for what it enqueues."""

    def inputs():
        queue = v1.train.string_input_producer(files["text"], num_epochs=2, shuffle=False)
        length = tf.strings.length(v1.TextLineReader().read(queue).value)
        return v1.train.maybe_batch_join([[length], [length * 2]], length > 12, 2)

    conversion = legacy.convert(inputs)
    assert conversion.printed
    assert ".filter(lambda keep, *_: keep)" in conversion.source


def test_paths_read_several_at_a_time(files):
    """`IdentityReader.read_up_to` gives vectors of one path, for its files hold one record each."""

    def inputs():
        queue = v1.train.string_input_producer(files["text"], num_epochs=2, shuffle=False)
        return v1.train.batch(list(v1.IdentityReader().read_up_to(queue, 2)), 2, enqueue_many=True)

    conversion = legacy.convert(inputs)
    assert conversion.printed
    assert ".map(lambda path: (path, path))" in conversion.source


def test_attributes_of_operations_are_printed(files):
    """Each attribute that is not the default is an argument, whichever it is."""

    def inputs():
        queue = v1.train.string_input_producer(files["text"], num_epochs=1, shuffle=False)
        line = v1.TextLineReader().read(queue).value
        number = tf.cast(tf.strings.length(line), tf.uint8)
        jpeg = tf.raw_ops.EncodeJpeg(image=tf.fill([2, 2, 3], number))
        image = tf.raw_ops.DecodeJpeg(contents=jpeg, channels=3, try_recover_truncated=True)
        pair = tf.io.decode_raw(tf.strings.join([line, line]), tf.int16, little_endian=False)[:1]
        return v1.train.batch([tf.ensure_shape(image, [2, 2, 3]), tf.ensure_shape(pair, [1])], 2)

    source = legacy.convert(inputs).source
    assert "tf.io.decode_jpeg(jpeg, channels=3, try_recover_truncated=True)" in source
    assert "tf.int16, little_endian=False)" in source


def test_values_of_python_beside_batches(files):
    """A function may return numbers and None with its batches."""

    def inputs():
        queue = v1.train.string_input_producer(files["text"], num_epochs=1, shuffle=False)
        lines = v1.train.batch([v1.TextLineReader().read(queue).value], 2)
        return {"length": tf.strings.length(lines), "weights": None, "size": 2, "rate": 0.5}

    conversion = legacy.convert(inputs)
    assert conversion.printed
    assert '"weights": None, "size": 2, "rate": 0.5}' in conversion.source
    assert next(iter(conversion.dataset))["size"].numpy() == 2


def test_constant_sparse_tensors_stay_lifted():
    """A queue of them has no form in tf.data."""
    conversion = legacy.convert(lambda: v1.train.batch([tf.sparse.from_dense([1, 0, 2])], 2))
    assert "it holds constant sparse tensors" in conversion.report.splitlines()[0]


def test_branches_are_functions(converted):
    """Both sides of a `tf.cond` are printed, with what they take as arguments."""
    source = converted(old_readers.chosen_by_chance, "examples").source
    assert "tf.cond(" in source
    assert "lambda: image_if_true(image, scale, label)" in source
    assert "tf.random.uniform([1], 0, 4, dtype=tf.int32)" in source


def test_golden_modules_are_of_the_table():
    """Each of them is compared."""
    names = {reader.__name__ for reader in old_readers.KINDS}
    assert names >= {path.stem for path in GOLDEN.glob("*.txt")}
    assert names >= set(AT_NIGHT)


def test_what_is_compared_is_worth_it(files):
    """A reader that prints something else is told from the original: the proof sees each change of a module."""
    reader = old_readers.padded_sequences
    paths = files["sequences"][:2]
    source = legacy.convert(reader, paths).source
    assert "padded_batch(batch_size, drop_remainder=True)" in source
    for old, new in (
        ("drop_remainder=True", "drop_remainder=False"),
        ("num_epochs=2", "num_epochs=3"),
        ("batch_size=4", "batch_size=5"),
        ('return context["length"]', 'return context["length"] + 1'),
        ('steps["tokens"], steps["labels"]', 'steps["labels"], steps["tokens"]'),
        # The files in another order; a shuffle without a seed may happen to keep theirs.
        ("dataset.repeat(num_epochs)", "dataset.concatenate(dataset.take(1)).skip(1).repeat(num_epochs)"),
        ("tf.data.TFRecordDataset(dataset)", "tf.data.TFRecordDataset(dataset).skip(1)"),
    ):
        assert old in source
        namespace = {}
        exec(source.replace(old, new), namespace)  # noqa: S102 - what was printed
        comparison = legacy.compare(lambda: reader(paths), namespace["inputs"])
        assert not comparison.equal or not comparison.ordered, (old, new)
