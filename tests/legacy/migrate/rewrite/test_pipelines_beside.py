"""Pipelines side by side in one function, and work in one arm of a condition before its batch."""

import pytest
from old_scripts import READ, script

from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.verify import tried

SIDES = """\
import tensorflow as tf


def together(dataset_files, other_files, train=True):
    reader = tf.WholeFileReader()
    unused = tf.TextLineReader()
    queue = tf.train.string_input_producer(dataset_files, num_epochs=1, shuffle=False)
    other = tf.train.string_input_producer(other_files, num_epochs=2, shuffle=False)
    _, value = reader.read(queue)
    size = tf.strings.length(value)
    _, value = reader.read(other)
    text = tf.substr(value, 0, 3)
    sizes = tf.train.batch([size], 1)
    texts = tf.train.batch([text, value], 2, allow_smaller_final_batch=True)
    return sizes, texts


def shown(files):
    value, size = read(files)
    return value, size


def read(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, value = tf.TFRecordReader().read(queue)
    return value, tf.strings.length(value)


def of_read(files):
    value, size = read(files)
    return tf.train.batch([value, size], 2)


def batched(value, size, least):
    return tf.train.batch([value, size], 3, capacity=least + 32, allow_smaller_final_batch=True)


def blocks(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    with tf.device("/cpu:0"):
        _, value = tf.TFRecordReader().read(queue)
        size = tf.strings.length(value)
        least = 5
    return batched(value, size, least)


def slices(scale=2):
    arrays = [tf.range(8) * scale, tf.range(8)]
    x, y = tf.train.slice_input_producer(arrays, shuffle=False)
    [z] = tf.train.slice_input_producer([arrays[0]], shuffle=False)
    pairs = tf.train.batch([x, y], 3)
    return pairs, tf.train.batch([z], 3)
"""


@pytest.mark.usefixtures("warm_trials")
def test_pipelines_side_by_side_are_rewritten(tmp_path):
    """Pipelines that share nothing are told apart."""
    done = rewrite(SIDES)
    made = ("together", "shown", "of_read", "blocks", "slices")
    assert (done.status, done.functions) == ("converted", made)
    assert [line for line in done.text.splitlines() if "zip(" in line or "Reader()" in line] == []
    assert "def batched(dataset, least):" in done.text
    trials = tried(SIDES, done.text, done.functions, "graph", tmp_path)
    assert [trial for trial in trials if trial.outcome == "differs"] == []
    assert [trial.outcome for trial in trials] == ["equal"] * 5


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("escapes", "    if files.pop():\n        record = record + 'x'\n"),
        ("escapes", "    if files:\n        files = 2\n        record = record + files\n"),
        ("escapes", "    if files:\n        print(record)\n"),
    ],
)
def test_work_in_arms_stays(code, body):
    """What one arm alone does to a record before it batches it cannot be mapped in front of both."""
    batch = "        x = tf.train.batch([record], 3)\n"
    done = rewrite(script(READ + body + batch + "    else:\n" + batch + "    return x\n"))
    assert (done.status, [finding.code for finding in done.findings]) == ("flagged", [code])


def test_pipelines_side_by_side_have_to_be_apart():
    """Two sources stay whose records are worked on under one condition, for a batch each."""
    both = READ + READ.replace("queue", "other").replace("record", "value")
    work = "    if files:\n        record = tf.reverse(record, [0])\n        value = tf.reverse(value, [0])\n"
    batches = "    x = tf.train.batch([record], 3)\n    y = tf.train.batch([value], 3)\n    return x, y\n"
    done = rewrite(script(both + work + batches))
    assert [finding.code for finding in done.findings] == ["several-sources"]


def test_what_a_reviewer_would_ask_for():
    """The length of a list is asked of the list, and comments that still speak of queues are pointed at."""
    made = "    # Queues them.\n    files = [f for f in files]\n"
    done = rewrite(script(made + READ + "    return tf.train.batch([record], 3)  # fills a queue\n"))
    assert "dataset = dataset.shuffle(len(files)).repeat()  # a new order each epoch" in done.text
    lines = done.text.splitlines()
    [told] = [note for note in done.notes if note.startswith("still speak of queues")]
    assert [lines[int(number) - 1].strip() for number in told.rpartition("lines ")[2].split(", ")] == ["# Queues them."]
    either = made + "    if files:\n        files = files[0]\n" + READ
    assert "tf.size(files" in rewrite(script(either + "    return tf.train.batch([record], 3)\n")).text
