"""Functions that read from a queue they are given."""

import pytest

from seqrecorder.legacy.migrate.rewrite.script import rewrite

READING = """\
import tensorflow as tf


def measured(queue, factor, small=False):
    reader = tf.TFRecordReader()
    key, value = reader.read(queue)
    size = tf.strings.length(value) * factor
    if small:
        size = size - 1
    return key, value, size


def batches(files):
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    key, value, size = measured(queue, 3, small=True)
    return tf.train.batch([key, value, size], 2)
"""
THROUGH = """

def through(queue):
    return measured(queue, 3)


def others(files):
    key, value, size = through(files)"""


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("    size = tf", "    tf.summary.scalar('waiting', queue.size())\n    size = tf", "queue-used"),
        ("def batches", "kept = [measured]\n\n\ndef batches", "helper-used"),
        ("    return key", "    SIZES.append(size)\n    return key", "escapes"),
        ("measured(queue, 3, small=True)", "through(queue)" + THROUGH, "queue-given"),
    ],
)
def test_a_function_that_does_more_with_its_queue_stays(old, new, code):
    """It uses the queue besides, is called by other names, keeps a record, or is called through another function."""
    assert rewrite(READING).status == "converted"
    done = rewrite(READING.replace(old, new, 1))
    assert (done.status, done.findings[0].code) == ("flagged", code)


@pytest.mark.parametrize(
    "reading",
    [
        "sizes = []\n    for _ in range(3):\n        sizes.append(measured(queue, 3)[2])",
        "sizes = []\n    while len(sizes) < 3:\n        sizes.append(measured(queue, 3)[2])",
        "sizes = [measured(queue, 3)[2] for _ in range(3)]",
        "sizes = list(map(lambda n: measured(queue, n)[2], range(3)))",
        "sizes = [measured(queue, 3)[2], measured(queue, 4)[2]]",
        "sizes = [measured(queue, 3)[2] if files[1:] else 0]",
        "sizes = [files[1:] and measured(queue, 3)[2]]",
        "if files[1:]:\n        sizes = [measured(queue, 3)[2]]\n    else:\n        sizes = [0]",
    ],
)
def test_a_function_that_is_called_again_or_perhaps_is_not_rewritten(reading):
    """Each call makes a reader, which takes a record of its own; where none is made, no end of records is met."""
    start, _, rest = READING.partition("    key, value, size = measured(queue, 3, small=True)\n")
    stacked = f"{start}    {reading}\n    size = tf.stack(sizes)\n{rest}".replace("[key, value, size]", "[size]")
    done = rewrite(stacked)
    assert done.status == "flagged"
    assert {finding.code for finding in done.findings} <= {"several-readers", "queue-used"}
    assert rewrite(stacked.replace("tf.train.batch([size], 2)", "size")).status == "flagged"
