"""Frames made in numpy: the bytes that TensorFlow writes."""

import numpy as np
import pytest
import tensorflow as tf

from seqrecorder.storage.shard import RecordReader, ShardWriter
from seqrecorder.storage.tfrecord.encode import are_short, frames


@pytest.mark.parametrize("most", [0, 1, 40, 255, 256, 257, 511, 512, 513, 4096, 4097])
def test_frames_are_those_that_tensorflow_writes(tmp_path, most):
    """Records of every length up to a bound, empty ones too, get the bytes of tf.io.TFRecordWriter."""
    random = np.random.default_rng(most)
    data = [random.bytes(int(size)) for size in [0, most, *random.integers(0, most + 1, 300), 0]]
    with tf.io.TFRecordWriter(str(tmp_path / "shard")) as writer:
        for item in data:
            writer.write(item)
    assert frames(data).tobytes() == (tmp_path / "shard").read_bytes()


def test_no_records_have_no_frames():
    """No record gives no byte."""
    assert frames([]).size == 0


@pytest.mark.parametrize("sizes", [[10, 5000, 10], [5000, 10], [10, 10], [5000, 5000]])
def test_shards_of_short_and_large_records_are_read(tmp_path, sizes):
    """Whichever records come first, and whatever follows, TensorFlow reads what was written."""
    path = tmp_path / "x.tfrecord"
    shard = ShardWriter(path, tmp_path / "x.lengths", None)
    written = []
    for number, size in enumerate(sizes):
        data = [bytes([number + i]) * (size + i) for i in range(3)]
        assert are_short(data) == (size < 100)
        shard.write(data, np.zeros((3, 1), np.int64))
        written += data
    shard.close()
    assert [item for data in RecordReader(path, None) for item in data] == written
