"""Length classes that need the least padding.

A batch is padded to its longest row, so a set of length classes costs, in steps, the sum over records of the
largest length of the record's class. `optimal_boundaries` minimises that sum exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from seqrecorder.reading.record_length import LengthCounts

_INT64_MAX = int(np.iinfo(np.int64).max)


def optimal_boundaries(lengths: ArrayLike, counts: ArrayLike, buckets: int) -> list[int]:
    """Return the boundaries of at most `buckets` length classes that need the least padded steps.

    >>> optimal_boundaries([2, 3, 50, 60], [100, 100, 10, 10], buckets=2)
    [4]
    >>> optimal_boundaries([2, 3, 50, 60], [100, 100, 10, 10], buckets=3)
    [3, 4]

    Bucket `i` holds `boundaries[i - 1] <= length < boundaries[i]`, as in
    `tf.data.Dataset.bucket_by_sequence_length`, and each boundary is the largest length of its bucket plus
    one, so that `pad_to_bucket_boundary` pads no further than needed.

    Args:
        lengths: int64, `(n,)`, in steps, not negative. Repeated lengths are added up.
        counts: int64, `(n,)`, how many records have each length. Lengths of no record are ignored.
        buckets: how many classes at most, 1 or more. One class for each length is the most that is used.

    Returns:
        Ascending boundaries, one fewer than there are classes.
    """
    distinct, weights = _histogram(lengths, counts)
    n = len(distinct)
    if n <= buckets:
        return [int(length) + 1 for length in distinct[:-1]]

    before = np.concatenate([weights[:1] * 0, np.cumsum(weights)])  # records shorter than distinct[i]
    # best[j] is the least number of padded steps for the j shortest lengths in so many classes.
    best = before[1:] * distinct
    best = np.concatenate([best[:1] * 0, best])
    cuts = []
    for classes in range(2, buckets + 1):
        best, cut = _add_class(best, before, distinct, classes)
        cuts.append(cut)

    boundaries = []
    end = n
    for cut in reversed(cuts):
        end = int(cut[end])
        boundaries.append(int(distinct[end - 1]) + 1)
    return boundaries[::-1]


def quantile_boundaries(lengths: ArrayLike, counts: ArrayLike, buckets: int) -> list[int]:
    """Return the boundaries of at most `buckets` length classes that hold about as many records each.

    >>> quantile_boundaries([2, 3, 50, 60], [100, 100, 10, 10], buckets=2)
    [4]

    Args:
        lengths: as for `optimal_boundaries`, like all that follows.
        counts: see there.
        buckets: see there.
    """
    distinct, weights = _histogram(lengths, counts)
    if not len(distinct):
        return []
    upto = np.cumsum(weights)
    wanted = [upto[-1] * share // buckets for share in range(1, buckets)]
    ends = np.searchsorted(upto, wanted)
    # A class ends with the length at its quantile; the last length always ends the last class.
    return sorted({int(distinct[end]) + 1 for end in ends.tolist() if end < len(distinct) - 1})


def check_boundaries(boundaries: Sequence[int]) -> None:
    """Raise `OptionError` unless boundaries are positive, ascending and distinct.

    >>> check_boundaries([10, 20])
    """
    steps = [0, *boundaries]
    for position, (low, high) in enumerate(itertools.pairwise(steps)):
        if not low < high <= _INT64_MAX:
            raise OptionError(
                f"boundaries[{position}]: expected more than {low} (boundaries are positive lengths in "
                f"ascending order, without repetition), got {high}; sort them and remove repetitions"
            )


def given_boundaries(value: Any, computed: Sequence[str]) -> str | tuple[int, ...]:
    """Return boundaries, or the word that says how they are computed.

    Args:
        value: ascending ints, or a word.
        computed: the words.

    Raises:
        OptionError: it is neither.
    """
    expected = f"boundaries: expected {', '.join(map(repr, computed))} or ascending"
    if isinstance(value, str):
        if value not in computed:
            raise OptionError(f"{expected} lengths, got {value!r}")
        return value
    if not isinstance(value, Iterable):
        raise OptionError(f"{expected} ints, got {value!r}")
    given = tuple(value)
    if any(isinstance(b, bool) or not isinstance(b, (int, np.integer)) for b in given):
        raise OptionError(f"{expected} ints, got {value!r}")
    ints = tuple(int(b) for b in given)
    check_boundaries(ints)
    return ints


def boundaries_for(boundaries: str | tuple[int, ...], lengths: LengthCounts | None, buckets: int) -> tuple[int, ...]:
    """Return boundaries, computed where a word says so; none where no lengths are known.

    Args:
        boundaries: `"auto"`, `"quantile"`, or those that are given.
        lengths: of all records, None where these are not known.
        buckets: how many there may be.
    """
    if not isinstance(boundaries, str):
        return boundaries
    if lengths is None or not lengths.records:
        return ()
    compute = optimal_boundaries if boundaries == "auto" else quantile_boundaries
    return tuple(compute(lengths.values, lengths.counts, buckets))


def _histogram(lengths: ArrayLike, counts: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct lengths that records have, and their counts, in a dtype that cannot overflow."""
    flat, weights = np.asarray(lengths, np.int64), np.asarray(counts, np.int64)
    distinct, inverse = np.unique(flat[weights > 0], return_inverse=True)
    total = sum(weights.tolist())
    # All records at the largest length are the most padded steps; past int64 numpy uses Python's integers.
    exact = np.int64 if total * max(1, int(flat.max(initial=0))) <= _INT64_MAX else object
    summed = np.zeros(len(distinct), exact)
    np.add.at(summed, inverse, weights[weights > 0].astype(exact))
    return distinct.astype(exact), summed


def _add_class(
    best: NDArray[Any], before: NDArray[Any], distinct: NDArray[Any], classes: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the least costs with one class more, and where that last class begins.

    With `best[i]` steps for the `i` shortest lengths, a class of the lengths `i` to `j - 1` costs
    `(before[j] - before[i]) * distinct[j - 1]`. That cost satisfies the quadrangle inequality, so the best
    `i` does not decrease with `j` (F. F. Yao, "Efficient dynamic programming using quadrangle inequalities",
    1980).
    Solving every second `j`, then those between their neighbours, takes O(n log n) comparisons, level by
    level in whole arrays.
    """
    n = len(distinct)
    cost = best.copy()
    cut = np.full(n + 2, classes - 1, np.int64)
    cut[n + 1] = n - 1  # right of the last row
    step = 1 << n.bit_length()
    while step:
        # Rows that are odd multiples of `step`: the even ones are solved, and bound the search.
        rows = np.arange(step, n + 1, 2 * step)
        low = cut[rows - step]
        high = np.minimum(cut[np.minimum(rows + step, n + 1)], rows - 1)
        keep = rows >= classes  # fewer lengths than classes
        rows, low, high = rows[keep], low[keep], high[keep]
        step >>= 1
        if not rows.size:
            continue
        width = high - low + 1
        first = np.cumsum(width) - width
        row = np.repeat(np.arange(rows.size), width)
        start = np.arange(row.size) - first[row] + low[row]
        end = rows[row]
        steps = best[start] + (before[end] - before[start]) * distinct[end - 1]
        cost[rows] = np.minimum.reduceat(steps, first)
        # The leftmost of equal minima, for which the monotony above holds.
        at = np.flatnonzero(steps == cost[rows][row])
        hit, leftmost = np.unique(row[at], return_index=True)
        cut[rows[hit]] = start[at[leftmost]]
    return cost, cut[: n + 1]
