"""Readers in plainer words."""

import pytest

from seqrecorder.legacy.migrate.rewrite.script import rewrite

KEPT = """\
import tensorflow as tf


class Rows:
    def __init__(self, files):
        self.files = files
        self.reader = tf.TextLineReader()

    def batches(self):
        queue = tf.train.string_input_producer(self.files)
        _, line = self.reader.read(queue)
        return tf.train.batch([line], 2)


"""


@pytest.mark.parametrize(
    ("calls", "status"),
    [
        ("", "converted"),
        ("batch = Rows(['a']).batches()\n", "converted"),
        ("train, test = Rows(['a']), Rows(['b'])\nbatches = train.batches(), test.batches()\n", "converted"),
        ("rows = Rows(['a'])\nbatches = rows.batches(), rows.batches()\n", "flagged"),
        ("rows = Rows(['a'])\nbatches = [rows.batches() for _ in range(2)]\n", "flagged"),
        ("rows = Rows(['a'])\nfor _ in range(2):\n    print(rows.batches())\n", "flagged"),
    ],
)
def test_a_reader_that_an_object_keeps_reads_for_one_call(calls, status):
    """Of several calls each goes on in the file that another one has begun, as no dataset does."""
    assert rewrite(KEPT + calls).status == status
    assert rewrite(KEPT.replace("TextLine", "WholeFile") + calls).status == "converted"
