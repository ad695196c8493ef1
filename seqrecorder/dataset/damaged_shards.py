"""Recovery of damaged shards: copy the intact records to a new file, and report the losses.

TensorFlow's reader stops at the first damaged record of a file. With `on_corrupt="skip"`, the intact records of a
damaged shard are therefore copied once, and the pipeline reads the copy. Copies stay in a temporary directory until the
process ends.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import shutil
from typing import TYPE_CHECKING, BinaryIO

import attrs
import numpy as np

from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.codec.layouts import PEEKED, likely_layout
from seqrecorder.errors import RecordError, ShardReadError
from seqrecorder.storage.crc32c import FOOTER, HEADER
from seqrecorder.storage.files import has_digest, read_lengths, remember
from seqrecorder.storage.processes_and_signals import scratch
from seqrecorder.storage.shard_reader import RecordReader
from seqrecorder.storage.shard_writer import ShardWriter
from seqrecorder.storage.tfrecord import UNKNOWN, Loss, advice, find_records, open_stream, read_batches, walk_frames
from seqrecorder.wire.byte_rows import Messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.layouts import Layout
    from seqrecorder.dataset.manifest import ShardInfo
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.files import Compression
    from seqrecorder.storage.tfrecord import Findings

_LOG = logging.getLogger("seqrecorder")
_SHOWN = 5  # maximum number of losses in a message

REPLACED = "its SHA-256 is not the manifest's, but its records are intact, so they are not those that were written"
"""Message for a shard that another program replaced."""


@attrs.frozen
class Recovered:
    """Result of the recovery of a shard.

    Attributes:
        records: number of recovered records.
        lengths: lengths of the recovered records, int64 `(records, groups)`; zeros without a schema.
        losses: losses, in file order.
        is_damaged: whether damage was found; a truncated shard may look intact.
        layout: layout of sequences in the messages; None if there was no record from which to detect it.
    """

    records: int
    lengths: NDArray[np.int64] = attrs.field(eq=False)
    losses: tuple[Loss, ...]
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
    records: int = UNKNOWN,
    is_unique: bool = False,
) -> Recovered:
    """Copy the intact records of a shard to another file, in order.

    Args:
        source: path of the damaged shard, which stays unchanged.
        target: path of the new file, which has the same compression.
        lengths_target: path of the new lengths file.
        compression: compression of the shard.
        schema: schema of the records; None to consider all records with a valid CRC intact.
        layout: layout of sequences in the messages; None detects it.
        records: number of records that were written; `UNKNOWN` (-1) if unknown.
        is_unique: whether no record was written twice, so that all duplicates are surplus copies; see `_find_copies`.

    Raises:
        ShardReadError: the shard cannot be opened.
        ShardWriteError: the disk is full, or failed.
    """
    with open_stream(source, compression) as shard:
        findings = find_records(shard.file, shard.size, shard.problem)
        layout = layout or _detect_layout(shard.file, findings, schema)
        keys, lengths, reasons = _read_keys(shard.file, findings, schema, layout)
        singles = [loss.record for loss in findings.losses if loss.records != UNKNOWN]
        excess = keys.size + len(singles) - records if records != UNKNOWN else 0
        slots = np.delete(np.arange(keys.size + len(singles)), singles)
        seams = [loss.record + (loss.records != UNKNOWN) for loss in findings.losses]
        copies = _find_copies(keys, np.isin(slots, seams), None if is_unique else max(0, excess))
        kept = np.setdiff1d(np.arange(keys.size), [*copies.tolist(), *reasons])
        writer = ShardWriter(target, lengths_target, compression)
        try:
            done = 0
            for batch in read_batches(shard.file, findings.starts[kept], findings.lengths[kept]):
                writer.write(batch, lengths[kept[done : done + len(batch)]])
                done += len(batch)
            table = writer.close(lengths.shape[1])
        finally:
            writer.abandon()
        losses = [*findings.losses, *_list_rejects(findings, slots, reasons), *_list_copies(findings, slots, copies)]
        numbered = _number(losses, slots, copies, records=records, size=shard.size)
        losses = [_add_bad_bytes(loss, shard.unreadable, compression) for loss in numbered]
    return Recovered(len(table), table, tuple(losses), bool(findings.losses), layout)


def _detect_layout(file: BinaryIO, findings: Findings, schema: Schema | None) -> Layout | None:
    """Detect the layout from the first records of a shard.

    Returns:
        The layout, or None if there are no records or there is no schema.
    """
    first = slice(PEEKED)
    samples = [row for batch in read_batches(file, findings.starts[first], findings.lengths[first]) for row in batch]
    if schema is None or not samples:
        return None
    return likely_layout(samples, schema)


def _add_bad_bytes(loss: Loss, unreadable: Sequence[tuple[int, int]], compression: Compression) -> Loss:
    """Extend the reason for a loss with the ranges of bytes that the disk cannot read.

    Only ranges that overlap the loss are added. In a compressed file, all ranges are added, because the position of the
    loss is counted in uncompressed bytes.
    """
    bad = [f"{a} to {b}" for a, b in unreadable if compression is not None or (a < loss.stop and b > loss.start)]
    if not bad:
        return loss
    ranges = f"{', '.join(bad[:_SHOWN])}{'...' if len(bad) > _SHOWN else ''}"
    return attrs.evolve(loss, reason=f"{loss.reason}; the disk cannot read bytes {ranges} of the file")


def _read_keys(
    file: BinaryIO, findings: Findings, schema: Schema | None, layout: Layout | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, str]]:
    """Hash each record, and compute its lengths.

    Returns:
        The hashes, the lengths (-1 for undecodable records), and a mapping from the position of each undecodable record
        to the reason.
    """
    groups = max(1, len(schema.groups)) if schema is not None else 1
    codec = RecordDecoder(schema, layout or "steps") if schema is not None else None
    keys: list[int] = []
    reasons: dict[int, str] = {}
    tables = [np.empty((0, groups), np.int64)]
    for batch in read_batches(file, findings.starts, findings.lengths):
        bad = {} if codec is None else _rejects(codec, batch)
        reasons |= {len(keys) + position: reason for position, reason in bad.items()}
        good = np.array([position not in bad for position in range(len(batch))])
        table = np.full((len(batch), groups), -1)
        table[good] = _lengths(codec, list(itertools.compress(batch, good)), groups)
        tables.append(table)
        keys += map(hash, batch)
    return np.array(keys, np.int64), np.concatenate(tables), reasons


def _rejects(codec: RecordDecoder, batch: Sequence[bytes]) -> dict[int, str]:
    """Find the records that cannot be decoded; return a mapping from position to reason."""
    with contextlib.suppress(RecordError):
        codec.decode_batch(batch)
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


def _find_copies(keys: NDArray[np.int64], behind_damage: NDArray[np.bool_], most: int | None) -> NDArray[np.int64]:
    """Find the records that are copies of earlier records and must therefore be skipped.

    >>> _find_copies(np.array([7, 7, 1, 2, 3, 1, 2, 3]), np.zeros(8, bool), 3)
    array([5, 6, 7])

    Args:
        keys: hash of each record; records with equal bytes have equal hashes.
        behind_damage: mask of records that directly follow damage.
        most: number of surplus records; None if the original records are known to be distinct, so that every duplicate
            is a copy. Otherwise, all duplicates count as copies if every run of them directly follows damage, as
            happens when bytes are written twice. If not, only the longest runs do, up to `most` records in total.

    Returns:
        Indices of the copies, ascending.
    """
    repeated = np.setdiff1d(np.arange(keys.size), np.unique(keys, return_index=True)[1])
    stretches = _stretches(repeated)
    if most is None or most >= repeated.size or all(behind_damage[stretch[0]] for stretch in stretches):
        return repeated
    return np.sort(np.concatenate(sorted(stretches, key=len, reverse=True))[:most])


def _stretches(numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Split ascending numbers into runs of consecutive numbers."""
    return np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)


def _list_rejects(findings: Findings, slots: NDArray[np.int64], reasons: dict[int, str]) -> Iterator[Loss]:
    for number, reason in reasons.items():
        start, length = int(findings.starts[number]), int(findings.lengths[number])
        yield Loss(start - HEADER, start + length + FOOTER, int(slots[number]), 1, reason)


def _list_copies(findings: Findings, slots: NDArray[np.int64], copies: NDArray[np.int64]) -> Iterator[Loss]:
    for stretch in _stretches(copies) if copies.size else ():
        first, last = int(stretch[0]), int(stretch[-1])
        start, stop = int(findings.starts[first]), int(findings.starts[last] + findings.lengths[last])
        reason = f"{stretch.size} whole records: these records are there twice"
        yield Loss(start - HEADER, stop + FOOTER, int(slots[first]), 0, reason)


def _number(
    losses: Sequence[Loss], slots: NDArray[np.int64], copies: NDArray[np.int64], *, records: int, size: int
) -> list[Loss]:
    """Compute, for each loss, the number that its first record had when the shard was written.

    A hole is a damaged range with an unknown number of records. That number can be computed if there is only one hole
    and the number of written records is known. Otherwise, the records of holes are not counted. A slot is the index of
    a record among all records outside of holes.

    If records are missing although there is no hole, a loss at the end of the shard is added for them.
    """
    copied = slots[copies]
    total = max([-1, *slots[-1:].tolist(), *(loss.record for loss in losses if loss.records == 1)]) + 1 - copied.size
    holes = [loss.record for loss in losses if loss.records == UNKNOWN]
    lacking = max(0, records - total)
    is_known = len(holes) <= 1 and records != UNKNOWN
    count = lacking if is_known or not holes or (lacking == 0 and records != UNKNOWN) else UNKNOWN
    numbered, shift = [], 0
    for loss in sorted(losses, key=lambda loss: (loss.start, loss.stop)):
        record = loss.record - int(np.searchsorted(copied, loss.record)) + shift
        is_hole = loss.records == UNKNOWN
        numbered.append(attrs.evolve(loss, record=record, records=count if is_hole else loss.records))
        shift += max(0, count) if is_hole else 0
    if lacking and not holes:
        numbered.append(Loss(size, size, total, lacking, "the shard ends too early"))
    return numbered


@attrs.frozen
class _Reading:
    """Properties of a shard on which the copy of its intact records depends.

    Together with the state of the file, they are the key under which the copy is cached.
    """

    compression: Compression
    shard: ShardInfo | None
    has_lengths: bool
    is_unique: bool
    schema: Schema | None


def without_damage(
    path: Path,
    compression: Compression,
    *,
    schema: Schema | None = None,
    shard: ShardInfo | None = None,
    is_unique: bool = False,
) -> tuple[Path, int] | None:
    """Copy the intact records of a shard if it is damaged, and log the losses.

    Args:
        path: path of the shard.
        compression: compression of the shard.
        schema: schema of the records, to compute their lengths; None for bare shards.
        shard: entry of the shard in the manifest; None for bare shards.
        is_unique: whether no record was written twice, so that all duplicates are surplus copies.

    Returns:
        The path and the number of records of the copy; None if the shard is intact. The lengths are at
        `lengths_of_copy(path)`.

    Raises:
        ShardReadError: the shard is missing; or it is intact, but has changed since it was written.
        ShardWriteError: the disk is full.
    """
    has_lengths = shard is None or has_digest(path.with_name(shard.lengths_name), shard.lengths_sha256)
    reading = _Reading(compression, shard, has_lengths, is_unique, schema)
    copy, losses = _copy_once(path, reading)
    if copy is not None and not copy[0].exists():  # the system may have removed old temporary files
        copy, losses = _copy(path, reading)
    if losses:
        _report(path, losses, None if shard is None or copy is None else shard.records - copy[1])
    return copy


def lengths_of_copy(copy: Path) -> Path:
    """Build the path of the lengths file of a copy."""
    return copy.with_name(f"{copy.name}.lengths")


def _copy(path: Path, reading: _Reading) -> tuple[tuple[Path, int] | None, tuple[Loss, ...]]:
    shard, compression = reading.shard, reading.compression
    is_sound = is_intact(path, compression) if shard is None else has_digest(path, shard.sha256)
    if reading.has_lengths and is_sound:
        return None, ()
    written = None
    if shard is not None and reading.schema is not None:
        groups = max(1, len(reading.schema.groups))
        with contextlib.suppress(ShardReadError):  # the lengths file may be damaged as well
            written = read_lengths(path.with_name(shard.lengths_name), groups, shard.records, shard.lengths_sha256)
    copy = scratch() / path.name
    try:
        done = recover_shard(
            path,
            copy,
            lengths_of_copy(copy),
            compression=compression,
            schema=reading.schema,
            records=UNKNOWN if shard is None else shard.records,
            is_unique=reading.is_unique,
        )
        if shard is not None and not is_sound:
            is_same = done.records == shard.records and has_digest(copy, shard.sha256)
            cut = ", or the shard was cut between two records" if done.records < shard.records else ""
            if not is_same and not _may_be_ours(done, shard.records, written, path.stat().st_size, compression):
                raise ShardReadError(f"{path}: {REPLACED}{cut}; {advice(path.parent.parent)}", path=path)
    except BaseException:
        shutil.rmtree(copy.parent, ignore_errors=True)
        raise
    return (copy, done.records), done.losses


_copy_once = remember(most=4096)(_copy)


def _may_be_ours(
    done: Recovered, records: int, written: NDArray[np.int64] | None, size: int, compression: Compression
) -> bool:
    """Check whether the recovered records may belong to the shard that was written, although its digest differs.

    Damage suggests that they do, because a file that replaced the shard would be intact. A truncated shard can look
    intact, too, but it lacks its last records.
    """
    if done.records == records:
        return compression is not None and done.is_damaged  # programs may compress the same records to different bytes
    if done.is_damaged or size == 0:
        return True
    if written is None or not 0 < done.records < records:
        return False
    is_telling = bool((written != written[0]).any())
    return is_telling and np.array_equal(done.lengths, written[: done.records])


def is_intact(path: Path, compression: Compression) -> bool:
    """Check whether a shard can be read to its end, without consulting the manifest."""
    try:
        walk = walk_frames(path, compression)
        return not walk.problem and RecordReader(path, compression).read_all() == walk.lengths.size
    except ShardReadError:
        return False


def _report(path: Path, losses: Sequence[Loss], lost: int | None) -> None:
    counts = [loss.records for loss in losses]
    count = lost if lost is not None else "an unknown number of" if UNKNOWN in counts else sum(counts)
    shown = "; ".join(map(str, losses[:_SHOWN]))
    shown += f"; and {len(losses) - _SHOWN} more ranges" if len(losses) > _SHOWN else ""
    about = {"shard": str(path), "losses": losses}
    _LOG.warning("%s: left out %s damaged records: %s", path, count, shown, extra=about)
