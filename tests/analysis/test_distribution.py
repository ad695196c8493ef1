"""Frequencies of numbers: exact up to a limit, then within a stated bound, in whatever order they come."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrecorder.analysis.numbers import RELATIVE_ERROR, Distribution, Numbers, ticks_of

SHARES = np.array([0.0, 0.01, 0.25, 0.5, 0.77, 1.0])


def counted(values: np.ndarray, limit: int = 1 << 30) -> Distribution:
    made = Distribution(limit, np.empty(0, values.dtype))
    made.add(values)
    return made


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=60), st.integers(0, 60), st.integers(1, 40))
def test_the_state_depends_on_the_values_alone(given_values, cut, limit):
    """Whether they come at once, in two parts or merged, backwards or not: the same counts, with a limit or without."""
    values = np.array(given_values)
    whole = counted(values, limit)
    parts = counted(values[:cut], limit) + counted(values[cut:], limit)
    backwards = counted(values[cut:][::-1], limit)
    backwards.add(values[:cut])
    for other in (parts, backwards):
        assert (other.values is None) == (whole.values is None) == (np.unique(values).size > limit)
        assert np.array_equal(other.steps()[0], whole.steps()[0])
        assert np.array_equal(other.steps()[1], whole.steps()[1])


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_beyond_the_limit_keep_their_bound(scale, dtype, random):
    """Each lies within the stated error of the order statistics that it lies between."""
    values = (random.normal(size=5001) * scale).astype(dtype)
    ordered = np.sort(values.astype(np.float64))
    found = counted(values, limit=100)
    assert found.distinct is None
    assert found.top(3) == []
    places = SHARES * (values.size - 1)
    low, high = ordered[np.floor(places).astype(int)], ordered[np.ceil(places).astype(int)]
    bound = (RELATIVE_ERROR + 1e-6) * np.maximum(np.abs(low), np.abs(high))
    assert (np.abs(found.quantile(SHARES) - np.quantile(ordered, SHARES)) <= bound).all()
    assert found.total == values.size


def test_buckets_without_values_take_no_memory(random):
    """Of the 65,536 buckets, only runs that hold some value are kept: a wide dataset has many distributions."""
    found = counted(random.normal(size=20_000), limit=100)
    assert found.counts.size < 1 << 14
    assert (found + found).counts.size == found.counts.size


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_whole_numbers_are_counted_exactly(dtype, random):
    """Codes and numbers far apart alike."""
    for values in (random.integers(0, 50, 500), random.integers(0, 2**62, 50), np.array([], np.int64)):
        found = counted(values.astype(dtype))
        distinct, counts = np.unique(values, return_counts=True)
        assert np.array_equal(found.values, distinct)
        assert np.array_equal(found.counts, counts)
    top = counted(np.array([5, 3, 3, 5, 1], dtype)).top(2)
    assert top == [(3, 2), (5, 2)]


def test_what_has_no_values_has_no_quantiles():
    """NaN stands for them."""
    assert np.isnan(counted(np.empty(0)).quantile(0.5))


def test_many_channels_are_counted_as_each_alone(random):
    """Beyond the limit channels are counted together; each has what it would have alone, with NaN and without."""
    values = random.normal(size=(6000, 3)).astype("f4")
    parts = [values, values * 2, np.where(values > 2, np.nan, values)]
    together = Numbers.empty(values.dtype, 3)
    for part in parts:
        together.add(part)
    everything = np.concatenate(parts)
    for channel, found in enumerate(together.distributions):
        alone = counted(everything[:, channel][~np.isnan(everything[:, channel])], limit=100)
        assert np.array_equal(found.counts, alone.counts)
        assert np.array_equal(found.buckets, alone.buckets)


@pytest.mark.parametrize(
    ("edges", "texts"),
    [
        ([-0.5, 99.5], ["0", "20", "40", "60", "80"]),
        ([-0.5, 1.5], ["0", "1"]),
        ([36.02, 99.79], ["40", "60", "80"]),
        ([-0.31, 0.29], ["-0.2", "0", "0.2"]),
        ([1e6 + 0.1, 1e6 + 5.1], ["1,000,001", "1,000,002", "1,000,003", "1,000,004", "1,000,005"]),
        ([-1.7e308, 1.7e308], ["-1e+308", "0", "1e+308"]),
        ([1.7e308, 1.7e308], ["1.7e+308"]),
        ([0.0, 5e-324], ["0", "4.941e-324"]),
    ],
)
def test_ticks_are_round(edges, texts):
    """Axes have few, round numbers, those of whole numbers whole ones, whatever their ends."""
    assert [text for _, text in ticks_of(np.array(edges))] == texts
