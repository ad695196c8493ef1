"""Looking at a shard before TensorFlow opens it, once for each state of the file that this process meets.

TensorFlow takes a cut inside a frame's header for a normal end, and takes memory for whatever length a frame states:
one of 2^35 ends the process. So the lengths of the frames must lead from the first byte of the file to its last.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING

import attrs

from seqrecorder.errors import ShardReadError
from seqrecorder.framing import lengths_lead_to_end, walk_frames

if TYPE_CHECKING:
    from pathlib import Path

    from seqrecorder.framing import Compression, Walk

# Clocks of files advance by 4 ms or more: a file that was written just now may be written again at the same time.
_SETTLED_NS = 1_000_000_000


@attrs.frozen
class FileState:
    """A file as it is now: what was found out of an equal one is true of it.

    Attributes:
        path: of the file.
        compression: as a shard.
        size: in bytes.
        time: of the last change of the contents, in nanoseconds.
        inode: of the file.
        moment: 0; or, where the file changed too lately to tell its changes apart, one that never comes again.
    """

    path: Path
    compression: Compression
    size: int
    time: int
    inode: int
    moment: int

    @classmethod
    def of(cls, path: Path, compression: Compression) -> FileState:
        """Return the state of a file.

        Raises:
            ShardReadError: it is missing, or cannot be looked at.
        """
        try:
            stat = path.stat()
        except OSError as error:
            raise ShardReadError(f"{path}: cannot be read: {error.strerror}", path=path) from None
        settled = time.time_ns() - stat.st_mtime_ns > _SETTLED_NS
        moment = 0 if settled else time.perf_counter_ns()
        return cls(path, compression, stat.st_size, stat.st_mtime_ns, stat.st_ino, moment)


def advice(place: Path | str) -> str:
    """Return what to do about a damaged shard, for the end of a message."""
    return f"`seqrecorder verify {place}` lists what is damaged, `seqrecorder salvage` saves what is whole"


def check_size(path: Path, size: int, dataset: Path) -> None:
    """Raise `ShardReadError` unless a dataset has a shard, and of that size."""
    try:
        got = path.stat().st_size
    except OSError as error:
        raise ShardReadError(
            f"{path}: a shard of the dataset is missing ({error.strerror}); {advice(dataset)}", path=path
        ) from None
    if got != size:
        raise ShardReadError(
            f"{path}: expected {size} bytes, as the manifest says, got {got}; {advice(dataset)}", path=path
        )


def check_frames(path: Path, compression: Compression, hint: Path | str) -> None:
    """Raise `ShardReadError` where the lengths of a shard's frames lead TensorFlow out of the file.

    It costs 0.08 microseconds a record, a tenth of a walk, since no CRC is looked at: what they are for, TensorFlow
    does while reading. A GZIP stream has no bytes to be led out of.

    Args:
        path: of the shard.
        compression: of the shard.
        hint: what to verify.
    """
    if compression is None and not _lengths_lead_to_end(FileState.of(path, compression)):
        check_walk(path, compression, -1, hint)
        raise ShardReadError(f"{path}: changes while it is read; {advice(hint)}", path=path)


@functools.lru_cache(maxsize=1 << 16)
def _lengths_lead_to_end(state: FileState) -> bool:
    try:
        return lengths_lead_to_end(state.path)
    except OSError as error:
        raise ShardReadError(f"{state.path}: cannot be read: {error.strerror}", path=state.path) from error


def check_walk(path: Path, compression: Compression, records: int, hint: Path | str) -> int:
    """Walk over the frames of a shard and return how many records it has.

    Args:
        path: of the shard.
        compression: of the shard.
        records: how many it should have, -1 where nothing says so.
        hint: what to verify.

    Raises:
        ShardReadError: it is damaged, or has another number of records than expected.
    """
    walk = cached_walk(path, compression)
    if walk.problem:
        raise ShardReadError(
            f"{path}: after {walk.lengths.size} records, at byte {walk.offset}, it {walk.problem}; {advice(hint)}",
            path=path,
        )
    if records >= 0 and walk.lengths.size != records:
        raise ShardReadError(f"{path}: expected {records} records, got {walk.lengths.size}; {advice(hint)}", path=path)
    return walk.lengths.size


def cached_walk(path: Path, compression: Compression) -> Walk:
    """Return `walk_frames` of a file, remembered while the file stays the same."""
    return _walk(FileState.of(path, compression))


@functools.lru_cache(maxsize=4096)
def _walk(state: FileState) -> Walk:
    return walk_frames(state.path, state.compression)
