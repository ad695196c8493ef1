"""Recovering one shard: the records that are whole go to another file, and what was lost is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.damage import UNKNOWN, Loss, find_records, opened, read_found
from seqrecorder.errors import RecordError
from seqrecorder.framing import FOOTER, HEADER
from seqrecorder.parsing import Parser
from seqrecorder.records import RecordCodec
from seqrecorder.shards import ShardWriter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.framing import Compression
    from seqrecorder.schema import Schema
    from seqrecorder.specs import Layout

_MOST = 1 << 40
"""Records of a shard, at most, as far as positions go."""


@attrs.frozen
class Recovered:
    """What came out of a shard.

    Attributes:
        records: how many were recovered.
        lengths: of the records that were recovered, int64 of shape (records, groups); zeros where no schema is known.
        losses: what was lost, in order.
    """

    records: int
    lengths: NDArray[np.int64] = attrs.field(eq=False)
    losses: tuple[Loss, ...]

    def positions(self) -> NDArray[np.int64] | None:
        """Return which records of the shard were recovered, ascending; None where it is unknown how many were lost.

        >>> Recovered(3, np.zeros((3, 1), np.int64), (Loss(48, 96, 1, 2, "a hole"),)).positions().tolist()
        [0, 3, 4]
        >>> Recovered(3, np.zeros((3, 1), np.int64), (Loss(48, 96, 1, UNKNOWN, "a hole"),)).positions() is None
        True
        """
        known = sorted((loss.record, loss.records) for loss in self.losses if loss.records != UNKNOWN)
        # What a loss counts may come from a manifest, and so be anything.
        lost = np.cumsum([0, *(min(count, _MOST) for _, count in known)])
        before = np.array([min(record, _MOST) for record, _ in known], np.int64) - lost[:-1]
        left = np.arange(self.records)
        left += lost[np.searchsorted(before, left, side="right")]
        holes = [loss.record for loss in self.losses if loss.records == UNKNOWN]
        return None if holes and left.size and min(holes) <= left[-1] else left


def recover_shard(
    source: Path,
    target: Path,
    lengths_target: Path,
    *,
    compression: Compression,
    schema: Schema | None = None,
    layout: Layout = "steps",
    expected: int = UNKNOWN,
) -> Recovered:
    """Write the records of a shard that are whole, and can be read as the schema, to another file.

    Args:
        source: the damaged shard; it is only read.
        target: the file to write, of the same compression.
        lengths_target: the file of lengths to write.
        compression: of the shard.
        schema: what its records hold; without one every record counts that its CRC vouches for.
        layout: how sequences lie in the messages.
        expected: how many records it had; `UNKNOWN` (-1) where nothing says so.

    Raises:
        ShardReadError: the shard cannot be opened.
        ShardWriteError: the disk is full, or failed.
    """
    groups = max(1, len(schema.groups)) if schema is not None else 1
    codec = RecordCodec(schema, layout) if schema is not None else None
    rejected: list[Loss] = []
    with opened(source, compression) as (file, size, problem):
        findings = find_records(file, size, problem)
        writer = ShardWriter(target, lengths_target, compression)
        try:
            done = 0
            for batch in read_found(file, findings):
                reasons = {} if codec is None else _rejects(codec, batch)
                for position, reason in reasons.items():
                    start, length = int(findings.starts[done + position]), int(findings.lengths[done + position])
                    rejected.append(Loss(start - HEADER, start + length + FOOTER, done + position, 1, reason))
                kept = [data for position, data in enumerate(batch) if position not in reasons]
                writer.write(kept, _lengths(schema, layout, kept, groups))
                done += len(batch)
            table = writer.close(groups)
        finally:
            writer.abandon()
    losses = _numbered(findings.losses, rejected, len(findings.starts), expected, size)
    return Recovered(len(table), table, losses)


def _rejects(codec: RecordCodec, batch: Sequence[bytes]) -> dict[int, str]:
    """Return the positions of the records that cannot be read, and why."""
    try:
        codec.decode_batch(batch)
    except RecordError:
        pass
    else:
        return {}
    reasons = {}
    for position, data in enumerate(batch):
        try:
            codec.decode_batch([data])
        except RecordError as error:
            reasons[position] = " ".join([error.message, *map(str, error.problems)])
    return reasons


def _lengths(schema: Schema | None, layout: Layout, data: Sequence[bytes], groups: int) -> NDArray[np.int64]:
    if schema is None or not schema.groups or not data:
        return np.zeros((len(data), groups), np.int64)
    parser = Parser(schema, layout)
    return np.stack([parser.lengths(data, group).numpy() for group in schema.groups], 1)


def _numbered(
    losses: Sequence[Loss], rejected: Sequence[Loss], found: int, expected: int, size: int
) -> tuple[Loss, ...]:
    """Number the losses by what the shard held, and count the records of the one range whose frames are gone."""
    lost = sum(loss.records for loss in losses if loss.records != UNKNOWN)
    unknown = [loss for loss in losses if loss.records == UNKNOWN]
    count = UNKNOWN
    if expected != UNKNOWN and unknown and (len(unknown) == 1 or expected <= found + lost):
        count = max(0, expected - found - lost)
    numbered, shift = [], 0
    for loss in losses:
        records = count if loss.records == UNKNOWN else loss.records
        numbered.append(attrs.evolve(loss, record=loss.record + shift, records=records))
        shift += count if loss.records == UNKNOWN and count != UNKNOWN else 0
    if expected > found + lost and not unknown:
        numbered.append(Loss(size, size, found + lost, expected - found - lost, "the shard ends too early"))
    # What was rejected was found, and so is numbered among what was found.
    starts = np.array([loss.start for loss in numbered], np.int64)
    held = np.concatenate([[0], np.cumsum([max(0, loss.records) for loss in numbered])]).astype(np.int64)
    for loss in rejected:
        before = int(held[np.searchsorted(starts, loss.start)])
        numbered.append(attrs.evolve(loss, record=loss.record + before))
    return tuple(sorted(numbered, key=lambda loss: loss.start))
