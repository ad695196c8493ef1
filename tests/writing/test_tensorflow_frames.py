"""Frames and CRCs made in numpy: the bytes that TensorFlow writes."""

import numpy as np
import pytest
import tensorflow as tf
from tfrecord_files import framed

from seqrecorder.storage import crc32c
from seqrecorder.storage.crc32c import frames
from seqrecorder.storage.tfrecord import walk_frames


@pytest.mark.parametrize("most", [0, 1, 40, 255, 256, 257, 511, 512, 513, 4096, 4097])
def test_frames_are_those_that_tensorflow_writes(tmp_path, most):
    """Records of every length up to a bound, empty ones too, get the bytes of tf.io.TFRecordWriter."""
    random = np.random.default_rng(most)
    data = [random.bytes(int(size)) for size in [0, most, *random.integers(0, most + 1, 300), 0]]
    with tf.io.TFRecordWriter(str(tmp_path / "shard")) as writer:
        for item in data:
            writer.write(item)
    assert frames(data).tobytes() == framed(data) == (tmp_path / "shard").read_bytes()


def test_crcs_are_those_that_tensorflow_writes(tmp_path):
    """Spans of any length have the CRCs of TensorFlow's frames, whose lengths are walked without a fault."""
    random = np.random.default_rng(3)
    lengths = np.array([0, 1, 15, 16, 17, 255, 256, 257, 5000, 70_001, 3])
    with tf.io.TFRecordWriter(str(tmp_path / "shard")) as writer:
        for length in lengths.tolist():
            writer.write(random.bytes(length))
    data = np.fromfile(tmp_path / "shard", np.uint8)
    starts = np.cumsum(lengths + 16) - lengths - 4
    stored = [int.from_bytes(data[end : end + 4].tobytes(), "little") for end in starts + lengths]
    assert crc32c.masked_crc32c_of_spans(data, starts, lengths).tolist() == stored
    walk = walk_frames(tmp_path / "shard", None)
    assert (walk.lengths.tolist(), walk.problem) == (lengths.tolist(), "")
