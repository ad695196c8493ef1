"""What was lost of a shard: the ranges of bytes that hold none of its records, numbered by what it held."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.storage.tfrecord.format import FOOTER, HEADER
from seqrecorder.storage.tfrecord.scan import UNKNOWN, Loss

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from seqrecorder.dataset.recovery.positions import Places
    from seqrecorder.dataset.recovery.runs import Found
    from seqrecorder.storage.tfrecord.format import Compression
    from seqrecorder.storage.tfrecord.scan import Findings

_TOO_EARLY = "the shard ends too early"
_SHOWN = 3


def left_out(findings: Findings, found: Found, places: Places) -> Iterator[Loss]:
    """Yield the ranges of whole records that are not taken: those that were written stand elsewhere in the file."""
    is_taken = np.zeros(found.slots.size, bool)
    is_taken[places.order] = True
    taken = set(found.keys[is_taken].tolist())
    numbers = np.flatnonzero(~is_taken)
    for stretch in np.split(numbers, np.flatnonzero(np.diff(found.slots[numbers]) != 1) + 1):
        if not stretch.size:
            continue
        first, last = int(stretch[0]), int(stretch[-1])
        start = int(findings.starts[first]) - HEADER
        stop = int(findings.starts[last] + findings.lengths[last]) + FOOTER
        is_double = set(found.keys[stretch].tolist()) <= taken
        reason = "these records are there twice" if is_double else "no such records were written"
        yield Loss(start, stop, int(found.slots[first]), 0, f"{stretch.size} whole records: {reason}")


def numbered_losses(losses: Sequence[Loss], found: Found, places: Places, records: int, size: int) -> tuple[Loss, ...]:
    """Return the losses in the order of the file, with the numbers of records that the shard as it was written had.

    Args:
        losses: what was lost, with slots for numbers.
        found: what was found.
        places: where it stood.
        records: how many records were written, `UNKNOWN` (-1) where nothing says so.
        size: of the file, in bytes.
    """
    losses = sorted(losses, key=lambda loss: (loss.start, loss.stop))
    if places.positions is None or records == UNKNOWN:
        return _by_slots(losses, found.total - (found.slots.size - places.order.size), records, size)
    return _by_positions(losses, places.of_slots, records, size)


def _by_positions(losses: Sequence[Loss], of_slots: NDArray[np.int64], records: int, size: int) -> tuple[Loss, ...]:
    """Give each range that is missing to the damage that stands in its place in the file."""
    known = np.flatnonzero(of_slots >= 0)
    known = known[np.argsort(of_slots[known])]
    numbered = [
        attrs.evolve(loss, record=int(of_slots[loss.record]))
        if loss.records == 1 and of_slots[loss.record] >= 0
        else attrs.evolve(loss, record=_before(of_slots, loss.record), records=0)
        for loss in losses
    ]
    gaps = [number for number, loss in enumerate(losses) if loss.records == UNKNOWN or not _is_single(loss, of_slots)]
    edges = np.concatenate([[-1], of_slots[known], [records]])
    for place in np.flatnonzero(np.diff(edges) > 1).tolist():
        first, stop = int(edges[place]) + 1, int(edges[place + 1])
        behind = int(known[place - 1]) if place else -1
        choices = [number for number in gaps if losses[number].record > behind] or gaps
        if not choices:
            numbered.append(Loss(size, size, first, stop - first, _TOO_EARLY))
            continue
        loss = numbered[choices[0]]
        record = first if loss.records == 0 else min(first, loss.record)
        numbered[choices[0]] = attrs.evolve(loss, record=record, records=loss.records + stop - first)
    return tuple(numbered)


def _is_single(loss: Loss, of_slots: NDArray[np.int64]) -> bool:
    return loss.records == 0 or (loss.records == 1 and of_slots[loss.record] >= 0)


def _before(of_slots: NDArray[np.int64], slot: int) -> int:
    """Return the position behind that of the last slot before one, as far as it is known."""
    known = np.flatnonzero(of_slots[:slot] >= 0)
    return int(of_slots[known[-1]]) + 1 if known.size else 0


def _by_slots(losses: Sequence[Loss], slots: int, records: int, size: int) -> tuple[Loss, ...]:
    """Number by what was found, and count the records of the one range whose frames are gone."""
    unknown = [loss for loss in losses if loss.records == UNKNOWN]
    lacking = max(0, records - slots) if records != UNKNOWN else UNKNOWN
    count = lacking if len(unknown) == 1 or lacking == 0 else UNKNOWN
    numbered, shift = [], 0
    for loss in losses:
        lost = count if loss.records == UNKNOWN else loss.records
        numbered.append(attrs.evolve(loss, record=loss.record + shift, records=lost))
        shift += max(0, count) if loss.records == UNKNOWN else 0
    if lacking > 0 and not unknown:
        numbered.append(Loss(size, size, slots, lacking, _TOO_EARLY))
    return tuple(numbered)


def named_unreadable(
    losses: Sequence[Loss], unreadable: Sequence[tuple[int, int]], compression: Compression
) -> tuple[Loss, ...]:
    """Say of losses which of the bytes the disk does not give.

    Args:
        losses: what was lost.
        unreadable: the ranges of bytes of the file that cannot be read.
        compression: of the shard; where it has one, the bytes of losses are not those of the file.
    """
    named = []
    for loss in losses:
        bad = [(a, b) for a, b in unreadable if compression is not None or (a < loss.stop and b > loss.start)]
        places = ", ".join(f"{first} to {stop}" for first, stop in bad[:_SHOWN]) + ("..." if len(bad) > _SHOWN else "")
        reason = f"{loss.reason}; the disk cannot read bytes {places} of the file" if bad else loss.reason
        named.append(attrs.evolve(loss, reason=reason))
    return tuple(named)
