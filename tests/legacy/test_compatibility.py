"""`compat`: what old scripts find, and that nothing else changes."""

import builtins
import sys

import pytest
import tensorflow as tf

from seqrecorder import legacy

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
            found = []
            try:
                while True:
                    found.append(session.run(lengths).tolist())
            except tf.errors.OutOfRangeError:
                return found
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


def test_what_is_not_there_says_what_is():
    """Another name of contrib is an AttributeError or an ImportError, with what comes closest."""
    with legacy.compat() as old:
        with pytest.raises(AttributeError, match=r"'bucket_by_length' \(did you mean 'bucket_by_sequence_length'"):
            old.contrib.training.bucket_by_length  # noqa: B018
        with pytest.raises(AttributeError, match="tensorflow.contrib has no 'layers'"):
            tf.contrib.layers  # noqa: B018
        with pytest.raises(ImportError):
            from tensorflow.contrib.layers import fully_connected  # noqa: F401


def test_tools_that_look_around(script):
    """The module that stands for TensorFlow 1 lists its names, and its switches do nothing."""
    with legacy.compat() as old:
        assert {"TFRecordReader", "contrib", "python_io", "placeholder"} <= set(dir(old))
        assert old.compat.v1 is old
        assert old.disable_eager_execution() is None
        assert __import__(script, globals={}, locals={}, fromlist=["run"], level=0).seen == []
