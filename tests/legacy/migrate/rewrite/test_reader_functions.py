"""Functions that read from a queue they are given, themselves or through another such function."""

import pytest

from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.verify import tried

THROUGH = """\
import tensorflow as tf


def read(filename_queue):
    reader = tf.TFRecordReader()
    key, value = reader.read(filename_queue)
    return key, value


def measured(queue, factor, small=False):
    key, value = read(queue)
    size = tf.strings.length(value) * factor
    if small:
        size = size - 1
    return key, value, size


def doubled(source, factor):
    return measured(source, factor * 2)


def batches(files):
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    key, value, size = measured(queue, 3, small=True)
    return tf.train.batch([key, value, size], 2)


def others(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    key, value, size = doubled(queue, 5)
    return tf.train.batch([value, size], 3, allow_smaller_final_batch=True)
"""


@pytest.mark.usefixtures("warm_trials")
def test_a_function_may_read_through_another_one(tmp_path):
    """Each takes the record where it took the queue, at any depth, and all other arguments stay."""
    done = rewrite(THROUGH)
    assert (done.status, done.functions) == ("converted", ("batches", "others"))
    assert "def measured(key, value, factor, small=False):\n    key, value = read(key, value)\n" not in done.text
    trials = tried(THROUGH, done.text, done.functions, "graph", tmp_path)
    assert [(each.function, each.outcome) for each in trials] == [("batches", "equal"), ("others", "equal")]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("    size = tf", "    tf.summary.scalar('waiting', queue.size())\n    size = tf", "queue-given"),
        ("    key, value = read(queue)\n", "    if small:\n        key, value = read(queue)\n", "queue-given"),
        ("    key, value = read(queue)\n", "    read(queue)\n    key, value = read(queue)\n", "queue-given"),
        ("measured(source, factor * 2)", "[measured(source, factor) for _ in range(2)]", "queue-given"),
        ("def batches", "kept = [measured]\n\n\ndef batches", "helper-used"),
        ("    size = size - 1", "    SIZES.append(size)", "escapes"),
    ],
)  # fmt: skip
def test_a_function_that_does_more_with_its_queue_stays(old, new, code):
    """It uses the queue besides, reads under a condition or several times, or is called by other names."""
    done = rewrite(THROUGH.replace(old, new, 1))
    assert (done.status, done.findings[0].code) == ("flagged", code)


def test_a_reader_that_hangs_on_what_a_function_is_given_is_not_given_on():
    """Its options would be written where only the caller of the caller is."""
    script = THROUGH.replace("def read(filename_queue)", "def read(filename_queue, up_to=2)")
    script = script.replace("reader.read(filename_queue)", "reader.read_up_to(filename_queue, up_to)")
    assert {finding.code for finding in rewrite(script).findings} == {"queue-given"}


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
    start, _, rest = THROUGH.partition("    key, value, size = measured(queue, 3, small=True)\n")
    stacked = f"{start}    {reading}\n    size = tf.stack(sizes)\n{rest}".replace("[key, value, size]", "[size]")
    done = rewrite(stacked)
    assert done.status == "flagged"
    assert {finding.code for finding in done.findings} <= {"several-readers", "queue-used"}
    assert rewrite(stacked.replace("tf.train.batch([size], 2)", "size")).status == "flagged"
