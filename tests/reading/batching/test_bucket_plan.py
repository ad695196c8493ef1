"""Sorted windows against their specification in plain Python."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vector_windows import (
    arrivals,
    assert_resumes_before_every_batch,
    epochs_of,
    rows,
    streams_of,
)

from seqrecorder.reading.batching.bucket import sorted_batches


def specified(stream, batch_size, boundaries, drop_remainder, first=0):
    """The batches of each window, shortest first; of the remainder, a window of its own, one for each bucket."""
    left_over = []
    for window in [*arrivals(stream, first), None]:
        queued = left_over + (window or [])
        batches, left_over = [], []
        for low, high in itertools.pairwise([0, *boundaries, 10**9]):
            bucket = sorted((row for row in queued if low <= row[1] < high), key=lambda row: row[1])
            whole = len(bucket) // batch_size * batch_size
            batches += [bucket[at : at + batch_size] for at in range(0, whole, batch_size)]
            left_over += bucket[whole:]
            if window is None and not drop_remainder and bucket[whole:]:
                batches.append(bucket[whole:])
        yield batches


def specified_for_all(streams, batch_size, boundaries, drop_remainder):
    first = 0
    for stream in streams:
        yield from specified(stream, batch_size, boundaries, drop_remainder, first)
        first += sum(map(len, stream))


def lengths_of(batches):
    return [[length for _, length in batch] for batch in batches]


BOUNDARIES = st.sets(st.integers(1, 9), max_size=3).map(sorted)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 5), BOUNDARIES, streams_of(st.integers(0, 9)), st.booleans())
def test_each_window_is_sorted_and_cut_bucket_by_bucket(batch_size, boundaries, streams, drop_remainder):
    """The longest rows of a bucket are left over, and make its incomplete batch at the end."""
    batches = sorted_batches(epochs_of(streams), batch_size, boundaries, drop_remainder=drop_remainder)
    windows = list(specified_for_all(streams, batch_size, boundaries, drop_remainder))
    assert rows(batches) == [batch for window in windows for batch in window]


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 4), BOUNDARIES, streams_of(st.integers(0, 9)), st.integers(0, 2**62))
def test_chance_changes_the_order_of_the_batches_of_a_window_and_nothing_else(batch_size, boundaries, streams, number):
    """Every record is there once, in a batch of the lengths that it has in order; twice the same order."""
    batches = sorted_batches(epochs_of(streams, number), batch_size, boundaries, permute=True, at_random=True)
    shuffled = rows(batches)
    assert rows(batches) == shuffled
    in_order = itertools.chain.from_iterable(specified_for_all(streams, batch_size, boundaries, drop_remainder=False))
    assert sorted(itertools.chain.from_iterable(shuffled)) == sorted(itertools.chain.from_iterable(in_order))
    at = 0
    for window in specified_for_all(streams, batch_size, boundaries, drop_remainder=False):
        assert sorted(lengths_of(shuffled[at : at + len(window)])) == sorted(lengths_of(window))
        at += len(window)
    assert at == len(shuffled)


def test_windows_and_epochs_have_orders_of_their_own():
    """They are drawn from the number of the epoch and the place of the window in it."""
    stream = [list(range(40))] * 2
    epochs = rows(sorted_batches(epochs_of([stream] * 2, 7), 2, at_random=True))
    orders = [tuple(batch[0][1] for batch in epochs[at : at + 20]) for at in range(0, 80, 20)]
    assert len(set(orders)) == 4
    assert {tuple(sorted(order)) for order in orders} == {tuple(range(0, 40, 2))}
    assert orders[0][:6] == (32, 4, 8, 30, 38, 28), "the order drawn from a number never changes"


@pytest.mark.parametrize("drop_remainder", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_resumes_exactly_before_every_batch(drop_remainder, tmp_path, stride):
    """The whole remainder follows, in a fresh iterator of a pipeline built anew."""

    def build():
        turns = epochs_of([[[3, 1, 4, 1, 5, 9], [], [2, 6, 5, 3, 5, 8, 9], [7, 9]]])
        return sorted_batches(turns, 2, [4], permute=True, at_random=True, drop_remainder=drop_remainder)

    assert build().element_spec.rows.shape.as_list() == [2 if drop_remainder else None]
    assert_resumes_before_every_batch(build, tmp_path, stride)
