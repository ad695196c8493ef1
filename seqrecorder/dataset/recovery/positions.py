"""Where the records that are left of a damaged shard stood in it, as far as that is certain.

No run of records is believed to stand where it was written until something says so: the lengths that were written
beside the shard are those of the records at the place where they stood; and what begins with the first byte of the file
is its beginning, as what ends with its last byte is its end where the file has the size that it had.

Where several places are left for a run, positions are unknown, or even the order. Moves are not seen where all of this
agrees with them: where all records have one length, and the cuts lie at the same bytes of records that are equally
large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.dataset.recovery.runs import Found, Run, runs_of, tandems
from seqrecorder.storage.tfrecord.scan import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_FEW_GAPS = 2
"""So few gaps leave the runs in order: what moves records cuts the file in three places."""
_MOST_CUTS = 64
_MOST_SEGMENTS = 64
_MOST_PLACES = 1 << 26
"""Of all runs together: 512 MiB."""


@attrs.frozen(eq=False)
class Written:
    """What is known of a shard as it was written.

    Attributes:
        records: their number, `UNKNOWN` (-1) where nothing says so.
        lengths: int64 (records, groups), of all of them; None where that is not known.
        same_size: whether the damaged file has the size that was written.
    """

    records: int = UNKNOWN
    lengths: NDArray[np.int64] | None = None
    same_size: bool = False


@attrs.frozen(eq=False)
class Places:
    """Which records to take, and where they stood.

    Attributes:
        order: the numbers of those that were found and come once, in the order in which they were written, as far as
            it is known.
        positions: of each of them, ascending; None where that is not certain.
        is_ordered: whether the order is certain.
        of_slots: the position of each slot, -1 where that is not certain.
    """

    order: NDArray[np.int64]
    positions: NDArray[np.int64] | None
    is_ordered: bool
    of_slots: NDArray[np.int64]


def place(found: Found, written: Written) -> Places:
    """Return which of the records that were found to take, and where they stood.

    >>> doubled = Found(np.arange(5), 5, np.array([3]), np.array([11, 12, 13, 12, 13]))
    >>> there = place(doubled, Written(3))
    >>> there.order, there.positions
    (array([0, 1, 2]), array([0, 1, 2]))

    Args:
        found: what was found.
        written: what is known of the shard as it was written.
    """
    compared = None
    if found.lengths is not None and written.lengths is not None:
        compared = _Compared(found.lengths, found, written.lengths)
    cuts = set(tandems(found)) if UNKNOWN < written.records < found.total else set()
    if compared is not None:
        cuts |= compared.cuts(found.intervals(cuts), found.pieces(cuts))
    runs, was_twice = runs_of(found, cuts)
    starts = [_starts(run, found, written, compared, len(runs)) for run in runs]
    if written.records != UNKNOWN:
        runs, starts = _fitted(runs, starts, written.records)
    gaps = set(found.gaps.tolist())
    is_simple = len(runs) <= 1 or (not cuts and not was_twice and len(gaps) <= _FEW_GAPS)
    places = _places(runs, starts, found, written.records, in_order=is_simple)
    if places.positions is None and {0, found.total} <= gaps and written.records != UNKNOWN:
        places = attrs.evolve(places, is_ordered=False)  # what has no beginning and no end may have been turned
    return _once(places, found, written.records)


def _once(places: Places, found: Found, records: int) -> Places:
    """Leave out what still comes twice of records of which none was written twice: then nothing is certain."""
    firsts = np.sort(np.unique(found.keys[places.order], return_index=True)[1])
    if firsts.size == places.order.size or not (found.is_unique or not found.has_twins(found.pieces(()))):
        return places
    return Places(places.order[firsts], None, records == UNKNOWN, np.full(found.total, -1))


def _starts(
    run: Run, found: Found, written: Written, compared: _Compared | None, count: int
) -> NDArray[np.int64] | None:
    """Return where a run may have begun, None for anywhere."""
    places = None
    if compared is not None and count * written.records <= _MOST_PLACES:
        places = compared.places(run.slots)
    claim = _claim(run, found, written)
    if claim is None and run.slots.size == written.records:
        claim = 0
    if claim is not None and (places is None or claim in places):
        return np.array([claim])
    return places


def _claim(run: Run, found: Found, written: Written) -> int | None:
    """Return where a run begins that holds the first bytes of the file, or the last; None for others."""
    claims = set()
    # Without any gap the file was cut by what knows of records, and could have left out any of them.
    is_cut = not found.gaps.size and found.slots.size == found.total != written.records
    first, last = run.offset_of(0), run.offset_of(found.total - 1)
    if first is not None and 0 not in found.gaps and (not is_cut or written.records == UNKNOWN):
        claims.add(-first)
    if last is not None and found.total not in found.gaps and written.same_size and not is_cut:
        claims.add(written.records - 1 - last)
    claim = claims.pop() if len(claims) == 1 else -1
    fits = claim >= 0 and (written.records == UNKNOWN or claim + run.slots.size <= written.records)
    return claim if fits else None


def _fitted(
    runs: Sequence[Run], starts: Sequence[NDArray[np.int64] | None], records: int
) -> tuple[list[Run], list[NDArray[np.int64] | None]]:
    """Return the runs for which there is room beside those whose place is certain, and where they may begin."""
    left, places = list(runs), list(starts)
    while True:
        known = [
            (int(where[0]), run.slots.size)
            for run, where in zip(left, places, strict=True)
            if where is not None and where.size == 1
        ]
        begins = np.array([-1, *sorted(start for start, _ in known), records], np.int64)
        ends = np.array([0, *sorted(start + size for start, size in known), records], np.int64)
        if (ends[:-1] > begins[1:]).any():
            return left, [None] * len(left)  # something is wrong with what seemed certain
        room = int((begins[1:] - ends[:-1]).max())
        for number, (run, where) in enumerate(zip(left, places, strict=True)):
            if where is None and run.slots.size > room:
                places[number] = np.empty(0, np.int64)
            elif where is not None and where.size > 1:
                behind = np.searchsorted(ends, where, side="right")
                places[number] = where[begins[np.minimum(behind, begins.size - 1)] >= where + run.slots.size]
        kept = [number for number, where in enumerate(places) if where is None or where.size]
        left, places = [left[number] for number in kept], [places[number] for number in kept]
        if sum(map(_is_one, places)) == len(known):
            return left, places


def _is_one(places: NDArray[np.int64] | None) -> bool:
    return places is not None and places.size == 1


def _places(
    runs: Sequence[Run], starts: Sequence[NDArray[np.int64] | None], found: Found, records: int, *, in_order: bool
) -> Places:
    """Return the records of the runs, in order."""
    numbers = sorted(range(len(runs)), key=lambda number: runs[number].part)
    sizes = [runs[number].slots.size for number in numbers]
    places = [starts[number] for number in numbers]
    if in_order and sum(sizes) == records:
        places = [np.array([start]) for start in np.cumsum([0, *sizes[:-1]]).tolist()]
    known = [where for where in places if where is not None and where.size]
    if len(known) == len(places):
        by_place = sorted(range(len(places)), key=lambda number: int(known[number][0]))
        firsts = [int(known[number][0]) for number in by_place]
        lasts = [int(known[number][-1]) + sizes[number] for number in by_place]
        if all(last <= first for last, first in zip(lasts, firsts[1:], strict=False)):
            in_order, numbers, places = True, [numbers[n] for n in by_place], [places[n] for n in by_place]
    keys, of_slots = found.keys_of_slots(), np.full(found.total, -1)
    order: list[NDArray[np.int64]] = []
    certain = True
    for number, where in zip(numbers, places, strict=True):
        slots = runs[number].slots
        if where is not None and where.size == 1:
            there = np.flatnonzero(slots >= 0)
            of_slots[slots[there]] = int(where[0]) + there
        slots = slots[slots >= 0]
        slots = slots[keys[slots] != 0]
        certain &= _is_one(where) or not slots.size
        order.append(slots)
    slots = np.concatenate([np.empty(0, np.int64), *order])
    positions = of_slots[slots] if certain else None
    if positions is not None and (np.diff(positions) <= 0).any():
        positions, in_order = None, False
    is_ordered = positions is not None or in_order or records == UNKNOWN
    return Places(np.searchsorted(found.slots, slots), positions, is_ordered, of_slots)


class _Compared:
    """The lengths of what was found beside those that were written."""

    def __init__(self, lengths: NDArray[np.int64], found: Found, written: NDArray[np.int64]) -> None:
        random = np.random.default_rng(0)
        factors = random.integers(1, 1 << 63, written.shape[1], np.uint64) | np.uint64(1)
        power = random.integers(1, 1 << 63, 1, np.uint64) | np.uint64(1)
        self.ids = np.zeros(found.total, np.uint64)
        self.ids[found.slots] = (lengths.astype(np.uint64) * factors).sum(1, dtype=np.uint64)
        self.known = np.zeros(found.total, bool)
        self.known[found.slots] = (lengths >= 0).all(1)
        ids = (written.astype(np.uint64) * factors).sum(1, dtype=np.uint64)
        self.is_constant = bool((ids == ids[:1]).all())
        self.one = ids[:1]
        size = max(ids.size, found.total)
        self.powers = np.cumprod(np.concatenate([[np.uint64(1)], np.broadcast_to(power, size)]), dtype=np.uint64)
        self.sums = np.concatenate([[np.uint64(0)], np.cumsum(ids * self.powers[: ids.size], dtype=np.uint64)])

    def places(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where a run may begin by its lengths."""
        places = np.arange(max(0, self.sums.size - slots.size))
        known = (slots >= 0) & self.known[slots]
        ids = np.where(known, self.ids[slots], np.uint64(0))
        if self.is_constant:
            return places if (ids[known] == self.one).all() else places[:0]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]])))
        segments = sorted(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True), key=lambda s: s[0] - s[1])
        for first, last in segments[:_MOST_SEGMENTS]:
            # Sums of ids times powers, of all that was written: a hash of any stretch is a difference of two.
            wanted = (ids[first:last] * self.powers[: last - first]).sum(dtype=np.uint64)
            there = self.sums[places + last] - self.sums[places + first]
            places = places[there == self.powers[places + first] * wanted]
        return places

    def cuts(self, intervals: Sequence[tuple[int, int]], pieces: Sequence[tuple[int, int]]) -> set[int]:
        """Return where to cut what stands nowhere as it is, so that each part stands somewhere, or is one record."""
        cuts: set[int] = set()
        for start, stop in intervals:
            if self.places(np.arange(start, stop)).size:
                continue
            for first, last in pieces:
                if start <= first < stop and len(cuts) < _MOST_CUTS:
                    cuts |= {first, last} | self._cuts(first, last)
        return cuts

    def _cuts(self, start: int, stop: int) -> set[int]:
        cuts: set[int] = set()
        while start < stop and len(cuts) < _MOST_CUTS and not self.places(np.arange(start, stop)).size:
            fits, too_long = 0, stop - start
            while too_long - fits > 1:
                middle = (fits + too_long) // 2
                if self.places(np.arange(start, start + middle)).size:
                    fits = middle
                else:
                    too_long = middle
            start += max(1, fits)
            cuts.add(start)
        return cuts
