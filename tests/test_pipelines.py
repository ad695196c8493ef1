"""Stages made of raw operations against the methods of `tf.data` that they stand for."""

import numpy as np
import pytest
import tensorflow as tf

from seqrecorder.pipelines import opened, rebatched, tf_records


def elements(dataset):
    return [[np.asarray(part).tolist() for part in tf.nest.flatten(element)] for element in dataset.as_numpy_iterator()]


@pytest.mark.parametrize(("sizes", "drop_remainder"), [(3, False), (3, True), ([1, 4, 2], False), ([1, 4, 2], True)])
def test_rebatched_gives_what_rebatch_gives(sizes, drop_remainder):
    """The same elements, for one size and for sizes in turn, from windows of any size; one size is static."""
    windows = tf.data.Dataset.range(11).map(lambda i: (tf.fill([i % 4], i), tf.strings.as_string(tf.fill([i % 4], i))))
    mine, theirs = (
        rebatched(windows, sizes, drop_remainder=drop_remainder),
        windows.rebatch(sizes, drop_remainder=drop_remainder),
    )
    assert elements(mine) == elements(theirs)
    assert mine.element_spec[0].shape.as_list() == [3 if sizes == 3 and drop_remainder else None]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_tf_records_gives_what_tf_record_dataset_gives(compression, tmp_path):
    """Plain or compressed, with a path from outside or from a tensor."""
    path = str(tmp_path / "shard")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for data in (b"one", b"", b"three"):
            writer.write(data)
    expected = elements(tf.data.TFRecordDataset(path, compression))
    assert elements(tf_records(path, compression or None)) == expected
    assert elements(tf_records(tf.constant(path), compression or None)) == expected


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    """Nothing comes of a file that can be opened; of another an error, with its path."""
    (tmp_path / "there").write_bytes(b"ten bytes.")
    assert elements(opened(str(tmp_path / "there"))) == []
    with pytest.raises(tf.errors.NotFoundError, match="absent"):
        elements(opened(str(tmp_path / "absent")))
