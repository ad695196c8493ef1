"""Looking at a shard before TensorFlow opens it, once for each state of the file that this process meets.

TensorFlow takes a cut inside a frame's header for a normal end, and takes memory for whatever length a frame states:
one of 2^35 ends the process. So the lengths of the frames must lead from the first byte of the file to its last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqrecorder.errors import ShardReadError
from seqrecorder.storage.bad_sectors import reason_at
from seqrecorder.storage.file_state import FileState, remember
from seqrecorder.storage.tfrecord.format import lengths_lead_to_end, walk_frames

if TYPE_CHECKING:
    from pathlib import Path

    from seqrecorder.storage.tfrecord.format import Compression, Walk


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

    It costs a tenth of a walk, since no CRC is looked at: what they are for, TensorFlow does while reading. A GZIP
    stream has no bytes to be led out of.

    Args:
        path: of the shard.
        compression: of the shard.
        hint: what to verify.
    """
    if compression is None and not _lengths_lead_to_end(FileState.of(path)):
        check_walk(path, compression, -1, hint)
        raise ShardReadError(f"{path}: changes while it is read; {advice(hint)}", path=path)


@remember(most=1 << 16)
def _lengths_lead_to_end(state: FileState) -> bool:
    try:
        return lengths_lead_to_end(state.path)
    except OSError as error:
        raise ShardReadError(
            f"{state.path}: cannot be read: {reason_at(state.path, error)}", path=state.path
        ) from error


def check_walk(path: Path, compression: Compression, records: int, hint: Path | str) -> Walk:
    """Walk over the frames of a shard, whatever is known of it, and return what was found.

    Args:
        path: of the shard.
        compression: of the shard.
        records: how many it should have, -1 where nothing says so.
        hint: what to verify.

    Raises:
        ShardReadError: it is damaged, or has another number of records than expected.
    """
    walk = walk_frames(path, compression)
    if walk.problem:
        raise ShardReadError(
            f"{path}: after {walk.lengths.size} records, at byte {walk.offset}, it {walk.problem}; {advice(hint)}",
            path=path,
        )
    if records >= 0 and walk.lengths.size != records:
        raise ShardReadError(f"{path}: expected {records} records, got {walk.lengths.size}; {advice(hint)}", path=path)
    return walk


def count_records(path: Path, compression: Compression) -> int:
    """Return how many records a bare shard holds, by a walk over its frames that is done once for each state of it.

    Raises:
        ShardReadError: it is damaged.
    """
    return _count(FileState.of(path), compression)


@remember(most=1 << 16)
def _count(state: FileState, compression: Compression) -> int:
    return check_walk(state.path, compression, -1, state.path).lengths.size
