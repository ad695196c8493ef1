"""Reading around damage: where a shard is damaged, what is whole in it is copied once, and the copy is read instead.

TensorFlow's reader gives up a file at its first damaged record. So nothing in a `tf.data` pipeline needs to know of
damage: it reads files that are sound. Copies stand in a temporary directory until the process ends; sound shards are
read where they are.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from typing import TYPE_CHECKING

import attrs

from seqrecorder.dataset.recovery.positions import Written
from seqrecorder.dataset.recovery.shard import recover_shard
from seqrecorder.errors import ShardReadError
from seqrecorder.storage.digests import sha256
from seqrecorder.storage.file_state import FileState, remember
from seqrecorder.storage.scratch import scratch
from seqrecorder.storage.shard import RecordReader, read_lengths
from seqrecorder.storage.tfrecord.check import advice
from seqrecorder.storage.tfrecord.format import walk_frames
from seqrecorder.storage.tfrecord.scan import UNKNOWN, Loss

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.dataset.recovery.shard import Recovered
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.tfrecord.format import Compression

_LOG = logging.getLogger("seqrecorder")
_SHOWN = 5


@attrs.frozen
class Repaired:
    """The copy of a damaged shard.

    Attributes:
        path: of the copy.
        lengths_path: of its lengths.
        records: how many are in it.
        positions: which of the shard's records they are, ascending; None where that is not certain.
        stored: how many records the shard held before it was damaged, -1 where that is not known.
        is_ordered: whether they are certain to come in the order in which they were written.
    """

    path: Path
    lengths_path: Path
    records: int
    positions: NDArray[np.int64] | None = attrs.field(eq=False)
    stored: int
    is_ordered: bool


@attrs.frozen
class Expected:
    """What a manifest says of a shard.

    Attributes:
        records: their number.
        size: of the file, in bytes.
        digest: SHA-256 of the file.
        lengths_path: of its lengths.
        lengths_digest: SHA-256 of these.
    """

    records: int
    size: int
    digest: str
    lengths_path: Path
    lengths_digest: str

    def written(self, groups: int, size: int, compression: Compression) -> Written:
        """Return what is known of the shard as it was written, where the file has some size now."""
        lengths = None
        with contextlib.suppress(ShardReadError):
            lengths = read_lengths(self.lengths_path, groups, self.records, self.lengths_digest)
        return Written(self.records, lengths, compression is None and size == self.size)


@attrs.frozen
class _Reading:
    """How a shard is to be read."""

    compression: Compression
    expected: Expected | None
    has_lengths: bool
    fingerprint: str
    schema: Schema | None = attrs.field(eq=False)


def without_damage(
    path: Path, compression: Compression, *, schema: Schema | None = None, expected: Expected | None = None
) -> Repaired | None:
    """Return a copy of a shard without what is damaged, or None where all is whole; and log what was left out.

    Args:
        path: of the shard.
        compression: of the shard.
        schema: of its records, for their lengths; None for shards of others.
        expected: what the manifest says of it; None for shards of others.

    Raises:
        ShardReadError: the shard is missing; or it is whole, and not the one that was written.
        ShardWriteError: there is no room for the copy.
    """
    has_lengths = expected is None or _has_digest(expected.lengths_path, expected.lengths_digest)
    fingerprint = "" if schema is None else schema.fingerprint
    reading = _Reading(compression, expected, has_lengths, fingerprint, schema)
    state = FileState.of(path)
    copy, losses = _copied(state, reading)
    if copy is not None and not copy.path.exists():  # some systems remove temporary files that are old
        copy, losses = _copy(state, reading)
    if losses:
        _report(path, losses)
    return copy


@remember(most=4096)
def _copied(state: FileState, reading: _Reading) -> tuple[Repaired | None, tuple[Loss, ...]]:
    return _copy(state, reading)


def _copy(state: FileState, reading: _Reading) -> tuple[Repaired | None, tuple[Loss, ...]]:
    path, compression, expected = state.path, reading.compression, reading.expected
    is_sound = _is_whole(path, compression) if expected is None else _has_digest(path, expected.digest)
    if reading.has_lengths and is_sound:
        return None, ()
    groups = len(reading.schema.groups) if reading.schema is not None else 0
    written = Written() if expected is None else expected.written(max(1, groups), state.size, compression)
    directory = scratch()
    copy, lengths = directory / path.name, directory / f"{path.name}.lengths"
    try:
        done = recover_shard(path, copy, lengths, compression=compression, schema=reading.schema, written=written)
        if expected is not None and not is_sound and not _is_ours(done, expected, copy, compression):
            raise ShardReadError(
                f"{path}: its SHA-256 is not the manifest's, and the records in it are whole, so they are not those "
                f"that were written; {advice(path)}",
                path=path,
            )
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    lost = [loss.records for loss in done.losses]
    stored = UNKNOWN if UNKNOWN in lost else done.records + sum(lost)
    return Repaired(copy, lengths, done.records, done.positions, stored, done.is_ordered), done.losses


def _is_ours(done: Recovered, expected: Expected, copy: Path, compression: Compression) -> bool:
    """Return whether what was recovered may be what was written, and is not what others put in its place."""
    if done.records == expected.records:
        # A copy of all records has the bytes of the shard, if it is that shard; compressed, only as far as TensorFlow
        # packs as it did.
        return _has_digest(copy, expected.digest) or (compression is not None and done.is_damaged)
    if done.records == 0:
        return not any(loss.records == 0 for loss in done.losses)
    # Without damage it was cut by what knows of records: their lengths must say where.
    return done.is_damaged or done.positions is not None


def _has_digest(path: Path, digest: str) -> bool:
    try:
        FileState.of(path)  # refuses pipes, which would be waited for
        return sha256(path) == digest
    except ShardReadError:
        return False


def _is_whole(path: Path, compression: Compression) -> bool:
    try:
        walk = walk_frames(path, compression)
        if walk.problem:
            return False
        return RecordReader(path, compression, walk.window).read_all() == walk.lengths.size
    except ShardReadError:
        return False


def _report(path: Path, losses: Sequence[Loss]) -> None:
    counts = [loss.records for loss in losses]
    count = "an unknown number of" if UNKNOWN in counts else str(sum(counts))
    shown = "; ".join(map(str, losses[:_SHOWN]))
    more = f"; and {len(losses) - _SHOWN} more ranges" if len(losses) > _SHOWN else ""
    _LOG.warning(
        "%s: left out %s damaged records: %s%s", path, count, shown, more, extra={"shard": str(path), "losses": losses}
    )
