"""`compat`: what old scripts find, and that nothing else changes."""

import builtins
import subprocess
import sys

import pytest
import tensorflow as tf

from seqrecorder import legacy
from seqrecorder.cli.main import main

SCRIPT = """
from __future__ import absolute_import, division, print_function
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib import training
from tensorflow.contrib.slim.python.slim.data import dataset_data_provider, parallel_reader
from tensorflow.python.ops import data_flow_ops
import tensorflow.contrib.learn as learn
import tensorflow.compat.v1 as tf1

tf1.disable_v2_behavior()
tf.reset_default_graph()
seen = []


def inputs():
    queue = tf.train.range_input_producer(9, num_epochs=1, shuffle=False)
    number = queue.dequeue()
    x = tf.placeholder_with_default(number, [])
    width = tf.constant([[1, 2]]).get_shape()[1].value
    seen.append(width)
    return tf.contrib.training.bucket_by_sequence_length(tf.to_int32(x), [x], 2, [4])


def run():
    with tf.Graph().as_default():
        lengths, _ = inputs()
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            outputs = []
            try:
                while True:
                    outputs.append(session.run(lengths).tolist())
            except tf.errors.OutOfRangeError:
                return outputs
"""
EXPECTED = [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.fixture
def script(tmp_path, monkeypatch):
    """An old script that can be imported."""
    (tmp_path / "an_old_script.py").write_text(SCRIPT)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "an_old_script"
    sys.modules.pop("an_old_script", None)


def test_an_old_script_runs(script):
    """It finds its names, of contrib and of TensorFlow 1, and works lifted and in a session, also after the end."""
    with legacy.compat():
        old = __import__(script)
        lifted = [lengths.numpy().tolist() for lengths, _ in legacy.lift(old.inputs)]
        assert lifted == old.run() == EXPECTED
    assert [lengths.numpy().tolist() for lengths, _ in legacy.lift(old.inputs)] == EXPECTED
    assert old.seen == [2, 2, 2]
    assert old.parallel_reader.parallel_read is old.slim.parallel_reader.parallel_read
    assert old.tf.contrib.training is old.training


MAIN = """
import sys
import tensorflow as tf

x = tf.placeholder_with_default(tf.train.range_input_producer(limit=5, shuffle=False).dequeue(), [])
y = tf.slice(tf.range(1, 10), [0], [x])
batched = tf.train.batch(tensors=[y], batch_size=3, dynamic_pad=True)
[result] = tf.contrib.learn.run_n({"y": batched}, n=1, feed_dict=None)
print(__name__, sys.argv[1:], result["y"].tolist())
"""


def test_a_script_is_run_from_the_command_line(tmp_path, capsys):
    """`seqrecorder legacy run` runs a script of TensorFlow 1 with its arguments, and leaves nothing behind."""
    script = tmp_path / "script.py"
    script.write_text(MAIN)
    path = list(sys.path)
    assert main(["legacy", "run", str(script), "--steps", "3"]) == 0
    assert capsys.readouterr().out == "__main__ ['--steps', '3'] [[0, 0], [1, 0], [1, 2]]\n"
    assert sys.path == path
    assert tf.executing_eagerly()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "give the path of a Python file"),
        (b"print 'a'", "python -m fissix -w "),
        ("\u200bimport os".encode(), "U+200B (script.py, line 1); remove it: LC_ALL=C sed -i 's/\\xe2\\x80\\x8b//g' "),
        (
            "\ufeff\ufeffimport os".encode(),
            "U+FEFF (script.py, line 1); remove it: LC_ALL=C sed -i 's/\\xef\\xbb\\xbf//g' ",
        ),
        ("import os".encode("utf-16"), "it is UTF-16: iconv -f UTF-16 -t UTF-8 "),
    ],
)
def test_scripts_that_cannot_run(tmp_path, capsys, text, message):
    """A file that is missing, of Python 2, or with hidden characters, is a problem that is named with its remedy."""
    if text is not None:
        (tmp_path / "script.py").write_bytes(text)
    assert main(["legacy", "run", str(tmp_path / "script.py")]) == 1
    assert message in capsys.readouterr().err


def test_hidden_characters_are_removed(tmp_path, capsys):
    """The command that an error names mends the script; one byte order mark is none of its business."""
    script = tmp_path / "script.py"
    script.write_text("\u200b\u200bprint('here')")
    assert main(["legacy", "run", str(script)]) == 1
    command = capsys.readouterr().err.partition("remove it: ")[2].strip()
    subprocess.run(command, shell=True, check=True)  # noqa: S602 - the command that was printed
    assert main(["legacy", "run", str(script)]) == 0
    script.write_text("\ufeffprint('there')")
    assert main(["legacy", "run", str(script)]) == 0
    assert capsys.readouterr().out == "here\nthere\n"


def test_records_are_iterated_over(tmp_path):
    """`tf.python_io.tf_record_iterator` gives the records of a file, compressed or not, as bytes."""
    with legacy.compat() as old:
        kinds = old.python_io.TFRecordCompressionType
        for kind in (kinds.NONE, kinds.GZIP, kinds.ZLIB):
            path, options = str(tmp_path / str(kind)), old.python_io.TFRecordOptions(kind)
            with old.python_io.TFRecordWriter(path, options) as writer:
                for size in range(4):
                    writer.write(b"x" * size)
            assert list(old.python_io.tf_record_iterator(path, options)) == [b"x" * size for size in range(4)]


def test_errors_of_scripts_are_shown_as_python_does(tmp_path, capsys):
    """Whatever a script raises comes with the place in the script, and with nothing of what runs it."""
    script = tmp_path / "script.py"
    for line in ("open('/no/such/file')", "tf.contrib.layers.conv2d(1)", "tf.contrib.training.bucket([], 0, 1, 1)"):
        script.write_text(f"import tensorflow as tf\n\n{line}\n")
        assert main(["legacy", "run", str(script)]) == 1
        shown = capsys.readouterr().err
        assert f'File "{script}", line 3, in <module>\n    {line}\n' in shown
        assert "runpy" not in shown


def test_layers_of_keras_2_are_asked_for(tmp_path, capsys):
    """A script that makes layers of TensorFlow 1 is shown where it does, and what they need."""
    script = tmp_path / "script.py"
    script.write_text("import tensorflow as tf\n\ntf.layers.dense(tf.zeros([1, 2]), 3)\n")
    assert main(["legacy", "run", str(script)]) == 1
    errors = capsys.readouterr().err
    assert "line 3" in errors
    assert "pip install tf_keras" in errors


def test_scripts_may_start_anew(tmp_path, capsys):
    """A script resets the default graph, by either name; then its variables and queues are gone."""
    (tmp_path / "script.py").write_text(
        """
import tensorflow as tf
from tensorflow.python.framework import ops

for reset in (tf.reset_default_graph, ops.reset_default_graph, tf.reset_default_graph):
    reset()
    scale = tf.get_variable("scale", initializer=2)
    number = tf.train.range_input_producer(3, num_epochs=1, shuffle=False).dequeue() * scale
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        print(session.run(number), session.run(number), len(tf.get_collection("queue_runners")))
        coordinator.request_stop()
        coordinator.join(threads)
"""
    )
    before = len(tf.compat.v1.get_default_graph().get_operations())
    assert main(["legacy", "run", str(tmp_path / "script.py")]) == 0
    assert capsys.readouterr().out == "0 2 1\n" * 3
    assert tf.executing_eagerly()
    assert len(tf.compat.v1.get_default_graph().get_operations()) <= before


def test_run_n_ends_with_the_queues():
    """`run_n` gives as many steps as there are."""
    with tf.Graph().as_default():
        number = tf.compat.v1.train.range_input_producer(2, num_epochs=1, shuffle=False).dequeue()
        outputs = legacy.contrib.learn.run_n({"number": number}, n=5)
    assert [step["number"] for step in outputs] == [0, 1]


def test_nothing_is_left_behind():
    """After the end, and inside for other modules, everything is as it was."""
    importing, modules = builtins.__import__, set(sys.modules)
    with legacy.compat() as old:
        assert tf.contrib.training.bucket is old.contrib.training.bucket
        assert tf.compat.v1.contrib is old.contrib
        assert tf.data.Dataset is not old.data.Dataset
        with legacy.compat():  # inside itself
            assert tf.contrib.learn.ModeKeys.EVAL == "eval"
        assert tf.contrib.learn.ModeKeys.EVAL == "eval"
    assert builtins.__import__ is importing
    assert not hasattr(tf, "contrib")
    assert not hasattr(tf.compat.v1, "contrib")
    assert not [name for name in set(sys.modules) - modules if name.startswith("tensorflow.contrib")]
    assert tf.executing_eagerly()
    assert tf.compat.v1.resource_variables_enabled()
    assert isinstance(tf.TensorShape([1])[0], int)
    assert tf.is_tensor(tf.constant(1) == tf.constant(1))


def test_the_first_import_of_the_old_names_changes_nothing(warm_python):
    """TensorFlow puts another module in the place of `tf.compat.v1` when that is first imported: not in the middle."""
    code = """
import sys
import tensorflow as tf
from seqrecorder import legacy

assert "tensorflow.compat.v1" not in sys.modules
with legacy.compat() as old:
    tf.compat.v1.marked = True
    exec("import tensorflow.compat.v1 as tf; assert tf.marked", {"__name__": "script"})
    assert old.marked and tf.compat.v1.marked and tf.compat.v1.contrib is old.contrib
assert not hasattr(tf.compat.v1, "contrib")
"""
    warm_python.run([sys.executable, "-c", code], check=True)


MODEL = """
import tensorflow as tf
import tensorflow.contrib.seq2seq as seq2seq
from tensorflow.contrib import rnn, training
from tensorflow.contrib.layers.python.layers import utils

slim = tf.contrib.slim


class Cell(rnn.RNNCell):
    pass


@tf.contrib.framework.add_arg_scope
def model(images, scope=None):
    return slim.fully_connected(images, 3)


def inputs():
    number = tf.train.range_input_producer(2, num_epochs=1, shuffle=False).dequeue()
    return tf.train.batch([number], 2)
"""


def test_modules_with_a_model_can_be_imported():
    """Names of contrib that are not there can be imported, subclassed and decorate; called, they say what there is."""
    model: dict = {"__name__": "script"}
    with legacy.compat():
        exec(MODEL, model)  # noqa: S102 - as a script would run it
        assert [batch.numpy().tolist() for batch in legacy.lift(model["inputs"])] == [[0, 1]]
    for call, named in (
        (lambda: model["Cell"](3), "contrib.rnn has no 'RNNCell'"),
        (lambda: model["model"](3), "contrib.framework has no 'add_arg_scope'"),
        (lambda: model["slim"].fully_connected(1, 3), "contrib.slim has no 'fully_connected'"),
        (model["seq2seq"].BasicDecoder, "contrib.seq2seq has no 'BasicDecoder'"),
        (model["utils"].collect, "contrib.layers.utils has no 'collect'"),
        (
            lambda: model["training"].bucket_by_length([]),
            r"'bucket_by_length' \(did you mean 'bucket_by_sequence_length'",
        ),
    ):
        with pytest.raises(AttributeError, match=f"{named}.*has only the functions that read data"):
            call()


def test_what_is_not_there_says_what_is():
    """Another name of TensorFlow is an AttributeError, and another module an ImportError."""
    with legacy.compat() as old:
        with pytest.raises(AttributeError, match="tensorflow has no 'cosine'.*tensorflow.compat.v1 does not have it"):
            old.cosine  # noqa: B018
        with pytest.raises(ModuleNotFoundError, match="^No module named 'tensorflow.examples'$"):
            exec("from tensorflow.examples import tutorials", {"__name__": "script"})  # noqa: S102


def test_names_that_tensorflow_1_0_renamed():
    """Older scripts find the functions that have other names now, and the axis may come first."""
    with legacy.compat() as old, tf.Graph().as_default(), old.Session() as session:
        outputs = session.run(
            {
                "mul": old.mul(2, old.sub(5, old.neg(1))),
                "pack": old.pack([1, 2]),
                "select": old.select([True, False], [1, 1], [2, 2]),
                "concat": old.concat(1, [[[1]], [[2]]]),
                "as_now": old.concat([[1], [2]], 0),
                "split": old.split(0, 2, [3, 4]),
                "split_as_now": old.split([3, 4], 2),
                "resize": tf.shape(old.image.resize_images(tf.zeros([2, 3, 1]), 4, 5, method=0)),
                "resize_as_now": tf.shape(old.image.resize_images(tf.zeros([2, 3, 1]), [4, 5], 1)),
            }
        )
        assert old.train.SummaryWriter is old.summary.FileWriter
        assert old.image.per_image_whitening is old.image.per_image_standardization
        old.scalar_summary("loss", 1.0)
        old.image_summary("images", tf.zeros([1, 2, 2, 1]), 1)
        with pytest.raises(AttributeError, match="tensorflow.train has no 'Summary_writer'"):
            old.train.Summary_writer  # noqa: B018
    assert {name: [part.tolist() for part in value] if isinstance(value, list) else value.tolist()
            for name, value in outputs.items()} == {
        "mul": 12,
        "pack": [1, 2],
        "select": [1, 2],
        "concat": [[1, 2]],
        "as_now": [1, 2],
        "split": [[3], [4]],
        "split_as_now": [[3], [4]],
        "resize": [4, 5, 1],
        "resize_as_now": [4, 5, 1],
    }  # fmt: skip
    with legacy.compat() as old:
        from seqrecorder.legacy.compatibility import RENAMED

        for name in RENAMED:
            module, _, last = name.rpartition(".")
            assert callable(getattr(getattr(old, module) if module else old, last))


def test_tools_that_look_around(script):
    """The module that stands for TensorFlow 1 lists its names, and its switches do nothing."""
    with legacy.compat() as old:
        assert {"TFRecordReader", "contrib", "python_io", "placeholder"} <= set(dir(old))
        assert old.compat.v1 is old
        assert old.disable_eager_execution() is None
        assert __import__(script, globals={}, locals={}, fromlist=["run"], level=0).seen == []


@pytest.mark.parametrize(
    "line",
    [
        "from tensorflow.contrib.training.python.training.bucket_ops import bucket_by_sequence_length",
        "from tensorflow.contrib.slim.python.slim.data.tfexample_decoder import TFExampleDecoder",
        "from tensorflow.contrib.slim.python.slim import parallel_reader; parallel_reader.parallel_read",
        "from tensorflow.contrib.learn.python.learn.learn_io.graph_io import read_batch_features",
        "import tensorflow as tf; tf.contrib.learn.io.read_batch_features",
    ],
)
def test_deep_paths(line):
    """The paths inside contrib's packages that scripts imported from lead to the same functions."""
    with legacy.compat():
        exec(line, {"__name__": "old"})  # noqa: S102 - as a script would run it
