"""Batches under a budget of steps against their specification in plain Python."""

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vector_windows import (
    arrivals,
    assert_resumes_before_every_batch,
    epochs_of,
    rows,
    streams_of,
)

from seqrecorder.reading.batching.token_budget import TokenBudget, budget_batches


def padded(length, multiple):
    """How many steps a row has in a batch of which it is the longest."""
    return -(-max(1, length) // multiple) * multiple


def cut(by_length, max_steps, width, multiple, max_batch_size):
    """Take from the short end, each time as many as fit."""
    batches = []
    while by_length:
        size = min(multiple, len(by_length))
        while (
            size + multiple <= min(len(by_length), max_batch_size or len(by_length))
            and (size + multiple) * padded(by_length[size + multiple - 1][1], width) <= max_steps
        ):
            size += multiple
        batches.append(by_length[:size])
        by_length = by_length[size:]
    return batches


def specified(stream, first, multiple, drop_remainder, *cutting):
    left_over = []
    for window in arrivals(stream, first):
        queued = left_over + window
        planned = len(queued) // multiple * multiple
        yield cut(sorted(queued[:planned], key=lambda row: row[1]), *cutting)
        left_over = queued[planned:]
    if left_over and not drop_remainder:
        yield [sorted(left_over, key=lambda row: row[1])]


@st.composite
def options(draw):
    multiple = draw(st.integers(1, 3))
    return {
        "max_steps": draw(st.integers(12, 40)) * multiple,
        "pad_to_multiple_of": draw(st.integers(1, 4)),
        "batch_size_multiple": multiple,
        "max_batch_size": draw(st.none() | st.integers(multiple, 8)),
        "drop_remainder": draw(st.booleans()),
    }


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(options(), streams_of(st.integers(0, 12), max_rows=30), st.booleans())
def test_each_window_is_cut_greedily_under_the_budget(chosen, streams, at_random):
    """Whatever the options; chance changes the order of the batches of a window and nothing else."""
    batches = rows(budget_batches(epochs_of(streams), TokenBudget(**chosen), at_random=at_random))
    multiple, width = chosen["batch_size_multiple"], chosen["pad_to_multiple_of"]
    cutting = chosen["max_steps"], width, multiple, chosen["max_batch_size"]

    at = first = 0
    seen = []
    for stream in streams:
        for window in specified(stream, first, multiple, chosen["drop_remainder"], *cutting):
            given_ = batches[at : at + len(window)]
            at += len(window)
            assert (sorted(given_) if at_random else given_) == (sorted(window) if at_random else window)
        first += sum(map(len, stream))
        seen.append(at)
    assert at == len(batches)

    for number, batch in enumerate(batches):
        assert len(batch) * padded(batch[-1][1], width) <= chosen["max_steps"]
        assert len(batch) <= (chosen["max_batch_size"] or len(batch))
        assert len(batch) % multiple == 0 or (number + 1 in seen and not chosen["drop_remainder"])


def test_every_record_comes_exactly_once():
    """Long streams in windows of any size, with leftovers."""
    lengths = [(7 * i * i + 3 * i) % 50 + 1 for i in range(997)]
    streams = [[lengths[at : at + window] for at in range(0, 997, window)] for window in (5, 100, 997)]
    batches = budget_batches(epochs_of(streams), TokenBudget(800, batch_size_multiple=8), at_random=True)
    given_ = [row for batch in rows(batches) for row in batch]
    assert sorted(given_) == [(i, lengths[i % 997]) for i in range(3 * 997)]


@pytest.mark.parametrize("drop_remainder", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_resumes_exactly_before_every_batch(drop_remainder, tmp_path, stride):
    """The whole remainder follows, in a fresh iterator of a pipeline built anew."""

    def build():
        turns = epochs_of([[[3, 1, 4, 1, 5, 9], [], [2, 6, 5, 3, 5, 8, 9], [7, 9]]])
        budget = TokenBudget(18, batch_size_multiple=2, drop_remainder=drop_remainder)
        return budget_batches(turns, budget, at_random=True)

    assert_resumes_before_every_batch(build, tmp_path, stride)


def test_a_record_over_the_budget_is_an_error_that_says_what_to_do():
    """It could be in no batch; the pipeline neither hangs nor drops it."""
    batches = budget_batches(epochs_of([[[3, 4], [9]]]), TokenBudget(16, batch_size_multiple=2))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"at most 8 steps .*raise it; got\] \[9\]"):
        rows(batches)
