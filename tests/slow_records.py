"""What the tests of strategies share: records made from their numbers, and the check of exact resumption."""

import functools

import numpy as np
import tensorflow as tf

import seqrecorder as sr


@sr.record
class Trace:
    key: str = sr.context(str, key=True)
    x: np.ndarray = sr.feature_list("float32", shape=(2,))
    weight: float = sr.context("float32")
    word: list = sr.feature_list(str)
    flag: np.ndarray = sr.feature_list(bool)


@functools.cache
def trace_of(number, length):
    """Return a record of which no two steps are alike, and no step is like padding."""
    steps = np.arange(length) + 1000 * (number + 1)
    words = np.array([f"w{step}".encode() for step in steps], object)
    x = np.stack([steps, -steps], 1).astype(np.float32) / 1000
    return Trace(f"k{number}", x, number + 0.5, [word.decode() for word in words], np.ones(length, bool))


def written(lengths, path, shards=1):
    """Write records of some lengths, and return where."""
    sr.write({"train": (trace_of(number, length) for number, length in enumerate(lengths))}, path, shards=shards)
    return path


def as_numpy(batch):
    return {name: np.asarray(value) for name, value in batch.items()}


def only(names, batches):
    """Return batches with some of their names."""
    return [{name: batch[name] for name in names} for batch in batches]


def assert_same(batches, expected):
    """Assert that batches are those expected: as many, the same names, dtypes, shapes and values."""
    got = [as_numpy(batch) for batch in batches]
    assert len(got) == len(expected)
    for number, (mine, other) in enumerate(zip(got, expected, strict=True)):
        assert sorted(mine) == sorted(other)
        for name, value in other.items():
            assert mine[name].dtype == value.dtype, name
            want = (
                np.vectorize(lambda v: v if isinstance(v, bytes) else v.encode(), otypes=[object])(value)
                if (value.dtype == object and value.size)
                else value
            )
            np.testing.assert_array_equal(mine[name], want, err_msg=f"batch {number}, {name}", strict=True)


def spread(count, stride):
    """Return the positions from 0 to `count` at which a checkpoint is tried, both ends among them."""
    return sorted({*range(0, count + 1, stride), count})


def assert_resumes_exactly(build, directory, stride):
    """Save before each batch; a fresh iterator of another pipeline must give the whole remainder.

    The first one has the state before the first batch, and gives all of them without being saved in between.

    Returns:
        All batches.
    """
    iterator = iter(build())
    saved, whole = [], []
    while True:
        saved.append(tf.train.Checkpoint(iterator=iterator).write(str(directory / f"{len(whole)}")))
        batch = next(iterator, None)
        if batch is None:
            break
        whole.append(as_numpy(batch))
    anew = build()
    for number in spread(len(whole), stride):
        iterator = iter(anew)
        tf.train.Checkpoint(iterator=iterator).read(saved[number]).assert_consumed()
        assert_same(iterator, whole[number:])
    return whole
