"""Records that are made up for a function, from what it asks."""

import numpy as np
import tensorflow as tf

from seqrecorder.legacy.migrate.verify.records import watched, write_file

v1 = tf.compat.v1


def test_raw_bytes_of_steps_are_as_many_as_stated(tmp_path):
    """Each of so many steps has the bytes of one, where the shape of all of them together is stated."""
    with watched() as asked, tf.Graph().as_default():
        asked.reader = "TFRecordReader"
        lists = {"frames": tf.io.FixedLenSequenceFeature([], tf.string)}
        _, steps = v1.parse_single_sequence_example(v1.placeholder(tf.string, []), sequence_features=lists)
        v1.decode_raw(steps["frames"], tf.float32).set_shape([4, 6])
    write_file(tmp_path / "records", asked, 3, np.random.default_rng(0))
    for record in tf.data.TFRecordDataset(str(tmp_path / "records")):
        _, steps = tf.io.parse_single_sequence_example(record, sequence_features=lists)
        assert tf.io.decode_raw(steps["frames"], tf.float32).shape == (4, 6)
