"""Queues that are filled with whole arrays become slices of them, unless what fills them may differ each time."""

import pytest

from seqrecorder.legacy.migrate.normalize.queues_of_arrays import queues_of_arrays, runners_started_by_hand
from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.verify import tried

ARRAYS = """\
import numpy as np
import tensorflow as tf


def numbers():
    return np.arange(10)


def in_batches(scale=2):
    xs = np.arange(30.0).reshape(10, 3) * scale
    queue = tf.FIFOQueue(4, [tf.float32, tf.int32], shapes=[[3], []])
    filling = queue.enqueue_many([xs, numbers()])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [filling] * 2))
    x, y = queue.dequeue()
    return tf.train.batch([x + 1, y], 4)


def alone(scale=2):
    queue = tf.FIFOQueue(4, "float")
    filling = queue.enqueue_many([numbers() * scale])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [filling]))
    x = queue.dequeue()
    return x
"""


@pytest.mark.usefixtures("warm_trials")
def test_arrays_are_sliced_as_their_queue_gave_them(tmp_path):
    """Over and over, in the dtypes of the queue: in batches and alone."""
    done = rewrite(ARRAYS)
    assert (done.status, done.findings) == ("converted", ())
    assert done.text.count("from_tensor_slices(") == 2
    trials = tried(ARRAYS, done.text, done.functions, "graph", tmp_path)
    assert [trial for trial in trials if trial.outcome == "differs"] == []
    assert [trial.outcome for trial in trials] == ["equal"] * 2


RUN = "runner = tf.train.QueueRunner(queue, [filling])\nthreads = runner.create_threads(session, start=True)\n"
STARTED = "import tensorflow as tf\n" + RUN


def test_a_runner_that_is_started_by_hand_is_started_as_all_are():
    """It is known then as the one that fills a queue."""
    said = runners_started_by_hand(STARTED)
    assert "tf.train.add_queue_runner(runner)\nthreads = tf.train.start_queue_runners(session, start=True)\n" in said


@pytest.mark.parametrize(
    "text",
    [
        STARTED.replace(", start=True", ""),
        STARTED + "print(runner)\n",
        STARTED + "tf.train.start_queue_runners(session)\n",
        STARTED.replace("session", "session, None, True"),
    ],
)
def test_a_runner_stays_that_is_not_just_started(text):
    """One that is started elsewhere, or used for more, or among others."""
    assert runners_started_by_hand(text) == text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.arange(10)", "tf.random_normal([10])"),
        ("np.arange(30.0)", "tf.random_uniform([30])"),
        ("def numbers", "def other(x):\n    return tf.train.string_input_producer(x)\n\n\ndef numbers"),
        ("    queue = tf.FIFOQueue(4", "    xs = tf.Variable(xs)\n    queue = tf.FIFOQueue(4"),
        ("    queue = tf.FIFOQueue(4", "    for xs in [xs]:\n        pass\n    queue = tf.FIFOQueue(4"),
    ],
)
def test_what_may_differ_each_time_is_no_array(old, new):
    """Tensors of chance, variables, and what may be of a record are put in anew each time."""
    assert ", shapes=[[3], []])\n" in queues_of_arrays(ARRAYS.replace(old, new))
