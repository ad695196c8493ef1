"""What a strategy is told of its records."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.feed import Feed
from seqrecorder.origin import resolve
from seqrecorder.streams import StreamOptions


@sr.record
class Clip:
    """A class whose records are 10 kB large."""

    samples: np.ndarray = sr.feature_list("float32", shape=(500,))


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    sr.write((Clip(np.ones((5, 500), np.float32)) for _ in range(10)), tmp_path / "clips")
    nothing: Any = None
    return Feed(resolve(tmp_path / "clips", None), nothing, nothing, StreamOptions(1))


@pytest.mark.parametrize(("size", "most"), [(1, 4 * 16), (2, 5), (1600, 5), (1800, 3)])
def test_batches_are_made_ahead_as_their_size_allows(feed: Feed, size: int, most: int) -> None:
    """Batches come in order; four wait for the consumer, two of over 16 MiB, and some groups of 16 of up to 16 KiB."""
    made: list[int] = []

    def make(number: Any) -> Any:
        def note(value: Any) -> Any:
            made.append(int(value))
            return value

        return tf.numpy_function(note, [number], tf.int64)

    batches = iter(feed.made(tf.data.Dataset.range(200), make, size))
    first = int(next(batches))
    time.sleep(0.2)  # let those that are made ahead be made
    assert 1 < len(made) <= most
    assert [first, *map(int, batches)] == sorted(made) == list(range(200))


def test_the_limits_of_sizes(feed: Feed) -> None:
    """The sizes above are on both sides of the limits."""
    record = feed.origin.mean_bytes
    assert record < 1 << 14 < 2 * record
    assert 1600 * record < 16 << 20 < 1800 * record
