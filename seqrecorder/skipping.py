"""Reading around damage: where a shard is damaged, what is whole in it is copied once, and the copy is read instead.

TensorFlow's reader gives up a file at its first damaged record. So nothing in a `tf.data` pipeline needs to know of
damage: it reads files that are sound. Copies stand in a temporary directory until the process ends; sound shards are
read where they are.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seqrecorder.damage import UNKNOWN, Loss
from seqrecorder.digests import sha256
from seqrecorder.errors import ShardReadError
from seqrecorder.file_state import FileState, remember
from seqrecorder.framing import walk_frames
from seqrecorder.recovery import recover_shard
from seqrecorder.shards import RecordReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.framing import Compression
    from seqrecorder.schema import Schema

_LOG = logging.getLogger("seqrecorder")
_SHOWN = 5


@attrs.frozen
class Repaired:
    """The copy of a damaged shard.

    Attributes:
        path: of the copy.
        lengths_path: of its lengths.
        records: how many are in it.
        positions: which of the shard's records they are, ascending; None where it is unknown how many are lost.
        stored: how many records the shard held before it was damaged, -1 where that is not known.
    """

    path: Path
    lengths_path: Path
    records: int
    positions: NDArray[np.int64] | None = attrs.field(eq=False)
    stored: int


@attrs.frozen
class _Reading:
    """How a shard is to be read."""

    compression: Compression
    records: int
    has_lengths: bool
    fingerprint: str
    schema: Schema | None = attrs.field(eq=False)


def without_damage(
    path: Path,
    compression: Compression,
    *,
    schema: Schema | None = None,
    records: int = UNKNOWN,
    lengths: tuple[Path, str] | None = None,
) -> Repaired | None:
    """Return a copy of a shard without what is damaged, or None where all is whole; and log what was left out.

    Args:
        path: of the shard.
        compression: of the shard.
        schema: of its records, for their lengths; None for shards of others.
        records: how many it should hold, -1 where nothing says so.
        lengths: the file of lengths and its SHA-256, where there is one.

    Raises:
        ShardReadError: the shard is missing.
    """
    has_lengths = lengths is None or _has_digest(*lengths)
    fingerprint = "" if schema is None else schema.fingerprint
    reading = _Reading(compression, records, has_lengths, fingerprint, schema)
    copy, losses = _copied(FileState.of(path), reading)
    if losses:
        _report(path, losses)
    return copy


@remember(most=4096)
def _copied(state: FileState, reading: _Reading) -> tuple[Repaired | None, tuple[Loss, ...]]:
    path, compression = state.path, reading.compression
    if reading.has_lengths and _is_whole(path, compression, reading.records):
        return None, ()
    directory = Path(tempfile.mkdtemp(dir=_scratch(os.getpid())))
    copy, lengths = directory / path.name, directory / f"{path.name}.lengths"
    done = recover_shard(path, copy, lengths, compression=compression, schema=reading.schema, expected=reading.records)
    lost = [loss.records for loss in done.losses]
    stored = UNKNOWN if UNKNOWN in lost else done.records + sum(lost)
    return Repaired(copy, lengths, done.records, done.positions(), stored), done.losses


@functools.cache
def _scratch(process: int) -> str:
    directory = tempfile.mkdtemp(prefix="seqrecorder-")

    def remove() -> None:
        if os.getpid() == process:  # else a forked child, whose parent still reads
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory


def _has_digest(path: Path, digest: str) -> bool:
    try:
        return sha256(path) == digest
    except ShardReadError:
        return False


def _is_whole(path: Path, compression: Compression, records: int) -> bool:
    walk = walk_frames(path, compression)
    if walk.problem or records not in (UNKNOWN, walk.lengths.size):
        return False
    try:
        return sum(map(len, RecordReader(path, compression, walk.window))) == walk.lengths.size
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
