"""The best length classes against trying all of them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket import Bucket, optimal_boundaries

histograms = st.dictionaries(st.integers(0, 40), st.integers(0, 30), max_size=9).map(lambda d: sorted(d.items()))


def padded_steps(histogram, boundaries):
    classes = {}
    for length, count in histogram:
        if count:
            classes.setdefault(sum(length >= b for b in boundaries), []).append((length, count))
    return sum(max(members)[0] * sum(count for _, count in members) for members in classes.values())


def columns(histogram):
    return [length for length, _ in histogram], [count for _, count in histogram]


@settings(max_examples=250, deadline=None)
@given(histograms, st.integers(1, 6), st.sampled_from([1, 2**57]))
def test_no_other_classes_need_fewer_padded_steps(histogram, buckets, scale):
    """Exact, also where the sum of the steps does not fit into int64."""
    histogram = [(length * scale, count) for length, count in histogram]
    boundaries = optimal_boundaries(*columns(histogram), buckets)
    assert boundaries == sorted(set(boundaries))
    assert len(boundaries) < buckets
    candidates = [length + 1 for length, _ in histogram[:-1]]
    least = min(
        padded_steps(histogram, chosen)
        for size in range(min(buckets - 1, len(candidates)) + 1)
        for chosen in itertools.combinations(candidates, size)
    )
    assert padded_steps(histogram, boundaries) == least


@given(st.permutations(range(8)), st.integers(1, 5))
def test_order_and_repetition_of_lengths_do_not_matter(order, buckets):
    """A histogram may come in any order, in parts."""
    lengths, counts = np.array([1, 4, 4, 9, 30, 31, 31, 80]), np.array([5, 1, 3, 8, 2, 2, 2, 1])
    order = list(order)
    assert optimal_boundaries(lengths[order], counts[order], buckets) == optimal_boundaries(
        [1, 4, 9, 30, 31, 80], [5, 4, 8, 2, 4, 1], buckets
    )


def test_few_lengths_get_a_class_each():
    """More classes than lengths are of no use."""
    assert optimal_boundaries([7], [3], 8) == []
    assert optimal_boundaries([], [], 8) == []
    assert optimal_boundaries([0, 5, 9], [1, 1, 1], 8) == [1, 6]
    assert optimal_boundaries([0], [4], 2) == []
    assert optimal_boundaries([3, 5], [0, 4], 2) == []


def test_the_largest_lengths_do_not_overflow():
    """int64 lengths and counts up to their maximum."""
    largest = np.iinfo(np.int64).max
    lengths, counts = [1, largest - 1, largest], [largest, 1, largest]
    assert optimal_boundaries(lengths, counts, 2) == [2]
    assert optimal_boundaries(lengths, counts, 3) == [2, largest]
    assert optimal_boundaries(np.array([3, 2**63 - 1], np.uint64), [1, 1], 2) == [4]


def test_ten_thousand_lengths():
    """Eight buckets of ten thousand distinct lengths leave 87 % of the steps real."""
    generator = np.random.default_rng(0)
    lengths = np.sort(generator.choice(100_000, 10_000, replace=False))
    counts = generator.integers(1, 1000, 10_000)
    boundaries = optimal_boundaries(lengths, counts, 8)
    real = int((lengths * counts).sum())
    assert real / padded_steps(zip(lengths.tolist(), counts.tolist(), strict=True), boundaries) > 0.87


def test_boundaries_that_do_not_ascend_are_refused():
    """They would leave buckets that no length can be in."""
    with pytest.raises(OptionError, match=r"boundaries\[1\]: expected more than 5"):
        Bucket(4, boundaries=[5, 5])
