"""What a strategy is told of its records."""

import numpy as np

import seqrecorder as sr
from seqrecorder.feed import Feed
from seqrecorder.origin import resolve
from seqrecorder.streams import StreamOptions


@sr.record
class Clip:
    """A class whose records are 10 kB large."""

    samples: np.ndarray = sr.feature_list("float32", shape=(500,))


def test_fewer_large_batches_are_in_memory_at_a_time(tmp_path):
    """Four batches of up to 16 MiB of records, two of more."""
    sr.write((Clip(np.ones((5, 500), np.float32)) for _ in range(10)), tmp_path / "clips")
    feed = Feed(resolve(tmp_path / "clips", None), None, None, StreamOptions(1))
    limit = (16 << 20) // feed.origin.mean_bytes
    assert [feed.parallel(size) for size in (1, limit, limit + 1, 100 * limit)] == [4, 4, 2, 2]
