"""What is left of a damaged shard, as runs of records: cut at every damage, and joined where they hold the same.

Bytes that are damaged may be doubled or moved. So a run that stands a second time is left out, and of two that overlap
the records that are in both come once.
"""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_LOST = 0  # in the place of a key
_SURE = 8
"""So many records in a row are the same by chance in no data, also where single ones repeat."""
_PAIRS = 1 << 12


@attrs.frozen(eq=False)
class Found:
    """What was found in a shard. Slots number the records that were found and those that are known to be lost singly.

    Attributes:
        slots: int64, ascending: the slot of each record that was found.
        total: how many slots there are.
        gaps: int64, ascending: the slots before which an unknown number of records is lost; `total` for the end.
        keys: int64, not 0: of each record that was found, the same for the same bytes.
        lengths: int64 (records, groups), -1 for a record that cannot be read; None where there are none to compare.
        is_unique: whether no record was written twice.
    """

    slots: NDArray[np.int64]
    total: int
    gaps: NDArray[np.int64]
    keys: NDArray[np.int64]
    lengths: NDArray[np.int64] | None = None
    is_unique: bool = False

    def keys_of_slots(self) -> NDArray[np.int64]:
        """Return the key of each slot, 0 where its record is lost."""
        keys = np.full(self.total, _LOST, np.int64)
        keys[self.slots] = self.keys
        return keys

    def intervals(self, cuts: Iterable[int]) -> list[tuple[int, int]]:
        """Return the slots between gaps, cut in more places."""
        edges = sorted({0, self.total, *self.gaps.tolist(), *cuts})
        return list(itertools.pairwise(edges))

    def pieces(self, cuts: Iterable[int]) -> list[tuple[int, int]]:
        """Return the slots between any losses, single ones too."""
        pieces = []
        for start, stop in self.intervals(cuts):
            here = self.slots[np.searchsorted(self.slots, start) : np.searchsorted(self.slots, stop)]
            ends = np.flatnonzero(np.diff(here) != 1)
            firsts, lasts = here[np.concatenate([[0], ends + 1])[: here.size]], here[[*ends.tolist(), -1][: here.size]]
            pieces += list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))
        return pieces

    def has_twins(self, pieces: list[tuple[int, int]]) -> bool:
        """Return whether a record stands twice in one piece."""
        owners = np.searchsorted([start for start, _ in pieces], self.slots, side="right")
        order = np.lexsort([owners, self.keys])
        keys, owners = self.keys[order], owners[order]
        return bool(((keys[1:] == keys[:-1]) & (owners[1:] == owners[:-1])).any())


@attrs.define(eq=False)
class Run:
    """Records that stood one behind the other.

    Attributes:
        slots: of each record, -1 where there is none.
        part: first and last slot, not included, of the longest part that stands in the file like this.
    """

    slots: NDArray[np.int64]
    part: tuple[int, int]

    @classmethod
    def of(cls, start: int, stop: int) -> Run:
        """Return a run of consecutive slots."""
        return cls(np.arange(start, stop), (start, stop))

    def offset_of(self, slot: int) -> int | None:
        """Return which record of the run has a slot, None where it has not."""
        places = np.flatnonzero(self.slots == slot)
        return int(places[0]) if places.size else None

    def joined(self, other: Run, offset: int, keys: NDArray[np.int64]) -> Run | None:
        """Return this run and another as one, None where they hold different records in the same places.

        Args:
            other: another run.
            offset: where it begins, in this one.
            keys: of each slot.
        """
        first, last = min(0, offset), max(self.slots.size, offset + other.slots.size)
        here, there = np.full((2, last - first), -1)
        here[-first : self.slots.size - first] = self.slots
        there[offset - first : offset - first + other.slots.size] = other.slots
        mine, yours = (np.where(slots < 0, _LOST, keys[slots]) for slots in (here, there))
        if ((mine != yours) & (mine != _LOST) & (yours != _LOST)).any():
            return None
        longest = max(self.part, other.part, key=lambda part: (part[1] - part[0], -part[0]))
        return Run(np.where((mine != _LOST) | (there < 0), here, there), longest)


def tandems(found: Found) -> list[int]:
    """Return where to cut pieces whose records are followed by the same ones again, without a gap between.

    >>> tandems(Found(np.arange(6), 6, np.empty(0, np.int64), np.array([7, 1, 2, 1, 2, 3])))
    [3]
    """
    keys, cuts = found.keys_of_slots(), []
    for start, stop in found.pieces(()):
        seen: dict[int, int] = {}
        for slot, key in enumerate(keys[start:stop].tolist(), start):
            before = seen.get(key)
            if before is not None and np.array_equal(keys[before:slot], keys[slot : min(stop, 2 * slot - before)]):
                cuts.append(slot)
                seen = {}
            seen[key] = slot
    return cuts


def runs_of(found: Found, cuts: Iterable[int] = ()) -> tuple[list[Run], bool]:
    """Return the runs, each record in one of them, and whether records were found twice.

    >>> found = Found(np.arange(5), 5, np.array([3]), np.array([11, 12, 13, 12, 13]))
    >>> [run], _ = runs_of(found)
    >>> run.slots
    array([0, 1, 2])

    Args:
        found: what was found.
        cuts: slots where runs are cut besides the gaps.
    """
    cuts = list(cuts)
    intervals = [(start, stop) for start, stop in found.intervals(cuts) if start < stop]
    if np.unique(found.keys).size == found.keys.size:
        return [Run.of(*interval) for interval in intervals], False
    keys, pieces = found.keys_of_slots(), found.pieces(cuts)
    left_out, overlaps = _copies(found, keys, pieces)
    related = left_out | {number for pair in overlaps for number in pair[:2]}
    firsts = [start for start, _ in intervals]
    places = [bisect.bisect(firsts, start) - 1 for start, _ in pieces]
    touched = {places[number] for number in related}
    single = {n: Run.of(*piece) for n, piece in enumerate(pieces) if places[n] in touched and n not in left_out}
    for pair in overlaps:
        _join(single, pieces, pair, keys)
    for one in sorted(single):
        two = one + 1
        if two in single and places[one] == places[two]:  # between them records are lost singly
            _join(single, pieces, (one, two, pieces[two][0] - pieces[one][0]), keys)
    whole = [Run.of(*interval) for number, interval in enumerate(intervals) if number not in touched]
    return whole + list({id(run): run for run in single.values()}.values()), bool(related)


def _join(
    runs: dict[int, Run], pieces: list[tuple[int, int]], pair: tuple[int, int, int], keys: NDArray[np.int64]
) -> None:
    """Join the runs of two pieces, the second of which begins some records behind the first, where that can be."""
    one, two, offset = pair
    here, there = runs[one].offset_of(pieces[one][0]), runs[two].offset_of(pieces[two][0])
    if runs[one] is runs[two] or here is None or there is None:
        return
    both = runs[one].joined(runs[two], here + offset - there, keys)
    if both is not None:
        before = (runs[one], runs[two])
        runs.update({number: both for number, run in runs.items() if run in before})


def _copies(
    found: Found, keys: NDArray[np.int64], pieces: list[tuple[int, int]]
) -> tuple[set[int], list[tuple[int, int, int]]]:
    """Return which pieces stand in others, and the pairs that overlap, with the second's distance from the first."""
    starts = np.array([start for start, _ in pieces], np.int64)
    owners = np.searchsorted(starts, found.slots, side="right") - 1
    order = np.lexsort([found.slots, owners, found.keys])
    sorted_keys, owner, offset = found.keys[order], owners[order], (found.slots - starts[owners])[order]
    same = sorted_keys[1:] == sorted_keys[:-1]
    twice = same & (owner[1:] == owner[:-1])
    # A record that stands twice in one piece does not say which of its places is meant.
    pairs = np.flatnonzero(same & ~np.isin(sorted_keys[1:], sorted_keys[1:][twice]))
    rows = np.stack([owner[pairs], owner[pairs + 1], offset[pairs] - offset[pairs + 1]], 1)
    relations, votes = np.unique(rows, axis=0, return_counts=True)
    sure = _SURE if twice.any() and not found.is_unique else 1
    left_out: set[int] = set()
    overlaps = []
    for one, two, distance in relations[np.argsort(-votes, kind="stable")][:_PAIRS].tolist():
        (a, b), (c, d) = pieces[one], pieces[two]
        first, last = max(0, distance), min(b - a, distance + d - c)
        equal = np.array_equal(keys[a + first : a + last], keys[c + first - distance : c + last - distance])
        if not equal or last - first < sure or {one, two} & left_out:
            continue
        if last - first == d - c:
            left_out.add(two)
        elif last - first == b - a:
            left_out.add(one)
        else:
            overlaps.append((one, two, distance))
    return left_out, [pair for pair in overlaps if not left_out & set(pair[:2])]
