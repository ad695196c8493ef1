"""The planner of buckets against `bucket_by_sequence_length`, record by record."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slow_records import written
from vector_windows import assert_resumes_before_every_batch, epochs_of, in_epochs, plain, rows, streams_of, windows_of

import seqrecorder as sr
from seqrecorder.reading.batching.bucket import bucket_batches, in_turns
from seqrecorder.reading.order_and_seeds import permutation


def record_by_record(windows, boundaries, batch_sizes, drop_remainder):
    return windows.unbatch().bucket_by_sequence_length(
        lambda _, length: tf.cast(length, tf.int32),
        boundaries,
        batch_sizes,
        padded_shapes=([], []),
        drop_remainder=drop_remainder,
    )


@st.composite
def buckets(draw):
    boundaries = sorted(draw(st.sets(st.integers(1, 20), max_size=4)))
    sizes = st.integers(1, 5)
    batch_sizes = draw(
        st.lists(sizes, min_size=len(boundaries) + 1, max_size=len(boundaries) + 1)
        | sizes.map(lambda size: [size] * (len(boundaries) + 1))
    )
    return boundaries, batch_sizes


def log_normal(records, window, seed=0):
    generator = np.random.default_rng(seed)
    lengths = np.clip(generator.lognormal(2, 0.8, records), 0, 60).astype(int).tolist()
    return [lengths[at : at + window] for at in range(0, records, window)]


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(buckets(), streams_of(st.integers(0, 22)), st.booleans())
def test_the_batches_are_those_of_bucket_by_sequence_length_in_its_order(chosen, streams, drop_remainder):
    """Whatever the lengths, windows, boundaries and sizes; epoch after epoch."""
    boundaries, sizes = chosen
    fast = bucket_batches(epochs_of(streams), boundaries, sizes, drop_remainder=drop_remainder)
    slow = in_epochs(streams, lambda w: record_by_record(w, boundaries, sizes, drop_remainder))
    expected = rows(slow)
    assert rows(fast) == expected
    assert rows(fast) == expected, "a second iteration gives the same"


@pytest.mark.parametrize("drop_remainder", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_long_stream_gives_the_same_in_windows_of_any_size(drop_remainder):
    """Windows far larger and far smaller than a batch, and leftovers that live through many of them."""
    boundaries, sizes = [4, 6, 9, 14, 25], [64, 24, 16, 16, 8, 3]
    streams = [log_normal(1000, window) for window in (3, 64, 1500)]
    slow = in_epochs(streams, lambda w: record_by_record(w, boundaries, sizes, drop_remainder))
    fast = bucket_batches(epochs_of(streams), boundaries, sizes, drop_remainder=drop_remainder)
    assert rows(fast) == rows(slow)


def test_resumes_exactly_before_every_batch(tmp_path, stride):
    """The whole remainder follows, in a fresh iterator of a pipeline built anew."""

    def build():
        turns = epochs_of([log_normal(16, 5)])
        return bucket_batches(turns, [6, 12], [4, 3, 2])

    assert_resumes_before_every_batch(build, tmp_path, stride)


def test_resumes_exactly_inside_epochs_with_static_batches(tmp_path, stride):
    """Saved in any epoch, an iterator goes on with that epoch."""

    def build():
        streams = [log_normal(9, 4, seed) for seed in range(2)]
        return bucket_batches(epochs_of(streams), [7], [3, 3], drop_remainder=True)

    assert_resumes_before_every_batch(build, tmp_path, stride)


def test_no_windows_and_empty_windows_give_no_batches():
    """Neither a stream without windows nor one of empty windows has anything to flush."""
    streams = [[], [[]], [[], []]]
    assert rows(bucket_batches(epochs_of(streams), [3], [2, 2])) == []


def test_all_records_in_one_bucket_are_batched_in_order():
    """Here buckets change nothing."""
    batches = bucket_batches(epochs_of([[[5, 5, 5], [], [5, 5]]]), [3, 9], [2, 2, 2])
    assert rows(batches) == [[(0, 5), (1, 5)], [(2, 5), (3, 5)], [(4, 5)]]


def test_lengths_beyond_int32_are_in_the_last_bucket():
    """Lengths are int64, though `bucket_by_sequence_length` compares int32."""
    expected = [[(0, 2**40), (2, 2**62)], [(1, 1)]]
    assert rows(bucket_batches(epochs_of([[[2**40, 1, 2**62]]]), [2**35], [2, 2])) == expected


@pytest.mark.parametrize(
    ("sizes", "drop_remainder", "shape"),
    [([4, 4], True, [4]), ([4, 4], False, [None]), ([4, 2], True, [None])],
)
def test_the_size_of_a_batch_is_static_where_it_is_certain(sizes, drop_remainder, shape):
    """A device that needs static shapes can then be fed."""
    batches = bucket_batches(epochs_of([[[1]]]), [3], sizes, drop_remainder=drop_remainder)
    assert [batches.element_spec.rows.shape.as_list(), batches.element_spec.lengths.shape.as_list()] == [shape, shape]
    assert [spec.shape.as_list() for spec in plain(batches).element_spec] == [shape, shape]
    assert [spec.dtype for spec in plain(batches).element_spec] == [tf.string, tf.int64]


def test_windows_of_static_size_are_taken():
    """`batch(drop_remainder=True)` gives vectors of a known size."""
    records = windows_of([[[1, 9, 1, 9, 1]]])(0).unbatch().batch(2, drop_remainder=True)
    assert rows(bucket_batches(in_turns(records), [3], [2, 2])) == [[(0, 1), (2, 1)], [(1, 9), (3, 9)]]


def test_rows_are_permuted_within_their_windows():
    """Each window as if it had come permuted, by the number of its epoch and its place there; leftovers stay first."""
    streams = [log_normal(200, 30, seed) for seed in range(2)]
    windows = windows_of(streams)

    def permuted(stream):
        def permute(index, window):
            order = permutation(stream + 5, index, tf.range(tf.size(window[0])))
            return tuple(tf.gather(part, order) for part in window)

        return in_turns(windows(stream).enumerate().map(permute), stream)

    slow = bucket_batches(tf.data.Dataset.range(2).flat_map(permuted), [4, 9], [3, 4, 5])
    fast = bucket_batches(epochs_of(streams, first=5), [4, 9], [3, 4, 5], permute=True)
    unpermuted = bucket_batches(epochs_of(streams), [4, 9], [3, 4, 5])
    assert rows(fast) == rows(slow) != rows(unpermuted)


@pytest.mark.parametrize(
    "strategy",
    [sr.Bucket(1, boundaries=[4]), sr.Bucket(1, boundaries="sorted"), sr.TokenBudget(9)],
    ids=["buckets", "sorted", "budget"],
)
def test_written_lengths_that_are_wrong_are_noticed(tmp_path, strategy):
    """Batches are planned by the lengths beside the shards; a record of another length is an error."""
    path = written([3, 4], tmp_path / "traces")
    (lengths,) = path.rglob("*.lengths")
    lengths.write_bytes(np.array([4, 3], "<i8").tobytes())
    with pytest.raises(tf.errors.InvalidArgumentError, match="the lengths files disagree with a record of .*verify"):
        list(sr.read(path, batch=strategy, check="none"))
