"""The order in which records were written: which file holds the record at a position, and where in it."""

from __future__ import annotations

import bisect
import functools
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Dealt(Protocol):
    """A shard, as manifests describe it."""

    @property
    def records(self) -> int:
        """Number of records."""
        ...

    @property
    def start(self) -> int:
        """Position of the first record in written order."""
        ...

    @property
    def step(self) -> int:
        """Distance of two records in written order."""
        ...


F = TypeVar("F", bound=Dealt)


def in_written_order(files: Sequence[F]) -> list[list[F]]:
    """Return the files of a split in groups: each is a file of its own, or files among which records were dealt."""
    groups: list[list[F]] = []
    for file in files:
        first = groups[-1][0] if groups else None
        if first and file.step == first.step > 1 and 0 < file.start - first.start < file.step:
            groups[-1].append(file)
        else:
            groups.append([file])
    return groups


class WrittenOrder:
    """The positions of the records of some splits, counted through all of them.

    Args:
        splits: the files of each.
    """

    def __init__(self, splits: Sequence[Sequence[Dealt]]) -> None:
        groups = [group for files in splits for group in in_written_order(files)]
        self._counts = [np.array([file.records for file in group], np.int64) for group in groups]
        sizes = [int(counts.sum()) for counts in self._counts]
        self._starts = np.cumsum([0, *sizes])
        self._first_positions: list[int] = self._starts.tolist()
        self._first_files: list[int] = np.cumsum([0, *map(len, groups)]).tolist()
        self._orders: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self.records = int(self._starts[-1])

    def find(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the file of each position, counted through all splits, and the record's number in it.

        Args:
            positions: int64, `(n,)`, each in `[0, records)`.
        """
        if len(self._counts) == 1:
            return self._in_group(0, positions)
        groups = np.searchsorted(self._starts, positions, side="right") - 1
        files, rows = np.empty_like(positions), np.empty_like(positions)
        for group in np.unique(groups).tolist():
            here = groups == group
            files[here], rows[here] = self._in_group(group, positions[here] - self._starts[group])
        return files, rows

    def find_one(self, position: int) -> tuple[int, int]:
        """Return the file of one position, and the record's number in it: `find` of one, in a tenth of its time."""
        group = bisect.bisect_right(self._first_positions, position) - 1
        place, count = position - self._first_positions[group], self._counts[group].size
        if count == 1:
            return self._first_files[group], place
        if self._even[group]:
            return self._first_files[group] + place % count, place // count
        files, rows = self._in_group(group, np.array([place], np.int64))
        return int(files[0]), int(rows[0])

    @functools.cached_property
    def _even(self) -> list[bool]:
        """Whether each file of a group has the records that were dealt to it, none of them lost."""
        ideal = ((int(each.sum()) - np.arange(each.size) + each.size - 1) // each.size for each in self._counts)
        return [bool((counts == wanted).all()) for counts, wanted in zip(self._counts, ideal, strict=True)]

    def _in_group(self, group: int, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        counts, first = self._counts[group], self._first_files[group]
        count = counts.size
        if count == 1:
            return np.full_like(places, first), places
        if self._even[group]:
            return first + places % count, places // count
        if group not in self._orders:  # files that were salvaged lack records
            files = np.repeat(np.arange(count), counts)
            rows = np.concatenate([np.arange(size) for size in counts.tolist()])
            order = np.lexsort((files, rows))
            self._orders[group] = files[order], rows[order]
        files, rows = self._orders[group]
        return first + files[places], rows[places]
