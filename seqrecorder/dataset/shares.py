"""The share of one reader of several: which files it reads, and which of their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


def share_of(records: Sequence[int], index: int, count: int) -> tuple[slice, slice | None]:
    """Return which files one of several readers reads, and which of their records; None for all.

    No two shares differ by more than one record. Readers have whole files, in turn, where that makes such shares. Else
    each has a stretch of the records, file behind file, so that no more files are read by several than there are
    readers. Where there are fewer files than readers, both are put into as many groups as leave such shares, and the
    records of a group's files are dealt to its readers.

    >>> share_of([50, 50, 50, 50], 1, 2)
    (slice(1, None, 2), None)
    >>> share_of([60, 50, 40], 1, 2)
    (slice(1, 3, None), slice(15, 90, None))
    >>> share_of([99], 1, 2)
    (slice(0, None, 1), slice(1, None, 2))

    Args:
        records: of each file; -1 where they were not counted, and no share is of any known size then.
        index: which reader.
        count: of all readers.

    Returns:
        Slices of the files, and of the records of those, in the order of the files.
    """
    if len(records) < count:
        groups = next((n for n in range(len(records), 1, -1) if _is_even(_dealt(records, n, count))), 1)
        return slice(index % groups, None, groups), slice(
            index // groups, None, len(range(index % groups, count, groups))
        )
    if -1 in records or _is_even([sum(records[n::count]) for n in range(count)]):
        return slice(index, None, count), None
    ends = np.cumsum([0, *records])
    first, stop = (int(ends[-1]) * n // count for n in (index, index + 1))
    file = int(np.searchsorted(ends, first, side="right")) - 1
    last = max(file + 1, int(np.searchsorted(ends, stop, side="left")))
    start = int(ends[file])
    return slice(file, last), slice(first - start, stop - start)


def _dealt(records: Sequence[int], groups: int, readers: int) -> list[int]:
    """Return the least and the most that readers have of each group's files, into which both are put in turn."""
    sizes = [(sum(records[group::groups]), len(range(group, readers, groups))) for group in range(groups)]
    return [share for size, of in sizes for share in (size // of, -(-size // of))]


def _is_even(shares: Sequence[int]) -> bool:
    return max(shares) - min(shares) <= 1
