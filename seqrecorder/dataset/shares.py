"""The share of one reader of several: which files it reads, and which of their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seqrecorder.dataset.written_order import in_written_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seqrecorder.dataset.shard_set import ShardFile


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


def ours_in_written_order(files: Sequence[ShardFile], ours: slice) -> NDArray[np.bool_]:
    """Return which records of files, as they were written one behind the other, are some of those file behind file.

    Args:
        files: of which some are read.
        ours: a slice of their records, in the order of the files.
    """
    chosen = np.zeros(sum(file.records for file in files), bool)
    chosen[ours] = True
    parts, start = [], 0
    for group in in_written_order(files):
        size = sum(file.records for file in group)
        here, start = chosen[start : start + size], start + size
        if len(group) > 1:
            numbers = [np.arange(file.records) if file.kept is None else file.kept for file in group]
            places = [file.start + file.step * number for file, number in zip(group, numbers, strict=True)]
            here = here[np.argsort(np.concatenate(places), kind="stable")]
        parts.append(here)
    return np.concatenate([np.empty(0, bool), *parts])
