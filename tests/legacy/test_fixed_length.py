"""Records of one length: against FixedLengthRecordReader."""

import pytest
import tensorflow as tf
from queue_runs import queue_run, rest_after, v1

from seqrecorder import legacy

SIZES = [
    {"record_bytes": 7},
    {"record_bytes": 7, "header_bytes": 5, "footer_bytes": 4},
    {"record_bytes": 7, "hop_bytes": 3, "header_bytes": 2},
    {"record_bytes": 3, "hop_bytes": 8, "footer_bytes": 11},
    {"record_bytes": 50, "header_bytes": 1},
    {"record_bytes": 2, "header_bytes": 20, "footer_bytes": 20, "hop_bytes": 1},
]


@pytest.fixture
def paths(tmp_path):
    """Files of sizes that records fill, and of others."""
    for size in (31, 32, 33, 47, 48, 49, 400):
        (tmp_path / f"{size}").write_bytes(bytes(number % 251 for number in range(size)))
    return [str(tmp_path / f"{size}") for size in (400, 31, 49, 32, 48, 33, 47)]


@pytest.mark.parametrize("sizes", SIZES)
def test_sizes(paths, sizes):
    """Records, with hops, headers and footers, without what is left at the end, are those of the old reader."""

    def input_fn():
        queue = v1.train.string_input_producer(paths, num_epochs=1, shuffle=False)
        return tuple(v1.FixedLengthRecordReader(**sizes).read(queue))

    expected = [tuple(pair) for pair in queue_run(input_fn)]
    assert len(expected) >= 7
    assert list(legacy.fixed_length_records(paths, **sizes).as_numpy_iterator()) == expected


def test_a_position_inside_a_file_is_saved(paths, tmp_path):
    """An iterator goes on in the middle of a file, between records that overlap."""
    dataset = legacy.fixed_length_records(paths, 7, hop_bytes=3)
    everything = list(dataset.as_numpy_iterator())
    rest, _ = rest_after(dataset, 41, tmp_path)
    assert [(key.item(), value.item()) for key, value in rest] == everything[41:]


def test_files_that_are_not_there(tmp_path):
    """A missing file is an error where it is read."""
    with pytest.raises(tf.errors.NotFoundError):
        list(legacy.fixed_length_records(tmp_path / "missing", 4))
