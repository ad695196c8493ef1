"""Recovering one shard: the records that are whole go to another file, and what was lost is said."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, BinaryIO

import attrs
import numpy as np

from seqrecorder.codec.decoder import RecordDecoder
from seqrecorder.codec.message_layout import PEEKED, likely_layout
from seqrecorder.dataset.recovery.lost_ranges import left_out, named_unreadable, numbered_losses
from seqrecorder.dataset.recovery.positions import Written, place
from seqrecorder.dataset.recovery.runs import Found
from seqrecorder.errors import RecordError
from seqrecorder.storage.shard import ShardWriter
from seqrecorder.storage.tfrecord.format import FOOTER, HEADER
from seqrecorder.storage.tfrecord.scan import UNKNOWN, Loss, find_records, opened, read_found
from seqrecorder.wire.message_objects import message_of
from seqrecorder.wire.spans import Messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.parsing_spec import Layout
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.tfrecord.format import Compression
    from seqrecorder.storage.tfrecord.scan import Findings

_NOTHING = Written()


@attrs.frozen
class Recovered:
    """What came out of a shard.

    Attributes:
        records: how many were recovered.
        lengths: of the records that were recovered, int64 of shape (records, groups); zeros where no schema is known.
        losses: what was lost, in the order of the file.
        positions: which of the shard's records were recovered, ascending; None where that is not certain.
        is_ordered: whether they are certain to come in the order in which they were written.
        is_damaged: whether anything in the shard is broken; else it is sound, however many records it lacks.
        layout: how sequences lie in its messages; None where that was to be detected, and there is no record.
    """

    records: int
    lengths: NDArray[np.int64] = attrs.field(eq=False)
    losses: tuple[Loss, ...]
    positions: NDArray[np.int64] | None = attrs.field(eq=False)
    is_ordered: bool
    is_damaged: bool
    layout: Layout | None


def recover_shard(
    source: Path,
    target: Path,
    lengths_target: Path,
    *,
    compression: Compression,
    schema: Schema | None = None,
    layout: Layout | None = "steps",
    written: Written = _NOTHING,
) -> Recovered:
    """Write the records of a shard that are whole, each once, and can be read as the schema, to another file.

    Args:
        source: the damaged shard; it is only read.
        target: the file to write, of the same compression.
        lengths_target: the file of lengths to write.
        compression: of the shard.
        schema: what its records hold; without one every record counts that its CRC vouches for.
        layout: how sequences lie in the messages; None detects it.
        written: what is known of the shard as it was written.

    Raises:
        ShardReadError: the shard cannot be opened.
        ShardWriteError: the disk is full, or failed.
    """
    with opened(source, compression) as shard:
        findings = find_records(shard.file, shard.size, shard.problem)
        layout = layout or _layout(shard.file, findings, schema)
        looked = _Looked.at(shard.file, findings, schema, layout)
        places = place(looked.found, written)
        is_kept = ~np.isin(places.order, list(looked.reasons))
        kept = places.order[is_kept]
        writer = ShardWriter(target, lengths_target, compression)
        try:
            done = 0
            for batch in read_found(shard.file, findings.starts[kept], findings.lengths[kept]):
                writer.write(batch, looked.lengths[kept[done : done + len(batch)]])
                done += len(batch)
            table = writer.close(looked.lengths.shape[1])
        finally:
            writer.abandon()
        losses = numbered_losses(
            [*findings.losses, *looked.rejected(findings), *left_out(findings, looked.found, places)],
            *(looked.found, places, written.records, shard.size),
        )
    positions = None if places.positions is None else places.positions[is_kept]
    return Recovered(
        len(table),
        table,
        named_unreadable(losses, shard.unreadable, compression),
        positions,
        places.is_ordered,
        bool(findings.losses),
        layout,
    )


def _layout(file: BinaryIO, findings: Findings, schema: Schema | None) -> Layout | None:
    """Detect the layout by the first records of a shard; None where it has none."""
    first = slice(PEEKED)
    samples = [row for batch in read_found(file, findings.starts[first], findings.lengths[first]) for row in batch]
    if schema is None or not samples:
        return None
    return likely_layout([message for message in map(message_of, samples) if message is not None], schema)


@attrs.frozen(eq=False)
class _Looked:
    """What is in the records that were found.

    Attributes:
        found: their slots and keys.
        lengths: int64 (records, groups), -1 for what cannot be read.
        reasons: why records cannot be read, by their number.
    """

    found: Found
    lengths: NDArray[np.int64]
    reasons: dict[int, str]

    @classmethod
    def at(cls, file: BinaryIO, findings: Findings, schema: Schema | None, layout: Layout | None) -> _Looked:
        """Look at every record that was found."""
        groups = max(1, len(schema.groups)) if schema is not None else 1
        codec = RecordDecoder(schema, layout or "steps") if schema is not None else None
        keys: list[int] = []
        reasons: dict[int, str] = {}
        parts = [np.empty((0, groups), np.int64)]
        for batch in read_found(file, findings.starts, findings.lengths):
            bad = {} if codec is None else _rejects(codec, batch)
            reasons.update({len(keys) + position: reason for position, reason in bad.items()})
            good = np.array([position not in bad for position in range(len(batch))])
            part = np.full((len(batch), groups), -1)
            part[good] = _lengths(codec, list(itertools.compress(batch, good)), groups)
            parts.append(part)
            keys += [hash(data) or 1 for data in batch]
        single = [loss.record for loss in findings.losses if loss.records != UNKNOWN]
        gaps = [loss.record for loss in findings.losses if loss.records == UNKNOWN]
        slots = np.delete(np.arange(len(keys) + len(single)), single)
        lengths = np.concatenate(parts)
        found = Found(
            slots,
            len(keys) + len(single),
            np.array(gaps, np.int64),
            np.array(keys, np.int64),
            lengths if schema is not None else None,
            schema is not None and schema.key_field is not None,
        )
        return cls(found, lengths, reasons)

    def rejected(self, findings: Findings) -> Iterator[Loss]:
        """Yield what cannot be read as a loss each."""
        for number, reason in self.reasons.items():
            start, length = int(findings.starts[number]), int(findings.lengths[number])
            yield Loss(start - HEADER, start + length + FOOTER, int(self.found.slots[number]), 1, reason)


def _rejects(codec: RecordDecoder, batch: Sequence[bytes]) -> dict[int, str]:
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


def _lengths(codec: RecordDecoder | None, data: Sequence[bytes], groups: int) -> NDArray[np.int64]:
    if codec is None or not codec.schema.groups or not data:
        return np.zeros((len(data), groups), np.int64)
    messages = Messages.of(data)
    return np.stack([codec.lengths(messages, group) for group in codec.schema.groups], 1)
