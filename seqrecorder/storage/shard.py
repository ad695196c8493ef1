"""One shard: a TFRecord file, and the lengths of its records beside it.

The lengths file holds little-endian int64, a row a record and a column an alignment group, so that batches
can be planned without parsing.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.errors import ShardReadError, ShardWriteError
from seqrecorder.storage.bad_sectors import open_source, reason_at
from seqrecorder.storage.digests import Follower, sha256
from seqrecorder.storage.fault_points import faults_around
from seqrecorder.storage.file_state import FileState, remember
from seqrecorder.storage.files import advice_on, error_at
from seqrecorder.storage.names import MANIFEST
from seqrecorder.storage.record_blocks import DamageError, read_blocks
from seqrecorder.storage.shard_files import (
    FramedFile,
    OpenShards,
    TensorFlowFile,
    tensorflow_is_faster,
)
from seqrecorder.storage.tfrecord.format import walk_frames
from seqrecorder.storage.tfrecord.scan import find_records, opened
from seqrecorder.wire.byte_rows import Messages, sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.storage.tfrecord.format import Compression

_ROWS_WAITING = 8192  # rows of lengths that are kept in memory
_EXACT_BINS = 512
_LENGTH_BYTES = 8  # of one length
_NOT_AS_WRITTEN = "its SHA-256 is not the manifest's, so the lengths are not those that were written"
_BITS_KEPT = 5


class ShardWriter:
    """Writes one shard and its lengths.

    Args:
        path: the shard's file.
        lengths_path: the file of its lengths.
        compression: None or `GZIP`.
        open_shards: of all shards that are written at a time; None where this is the only one.

    Attributes:
        records: how many were added.
        payload: their bytes, before compression.
        follower: goes behind the file; gives its digest once it is closed.
    """

    def __init__(
        self, path: Path, lengths_path: Path, compression: Compression, open_shards: OpenShards | None = None
    ) -> None:
        self.path, self.lengths_path = path, lengths_path
        self._compression = compression
        self.records = 0
        self.payload = 0
        self.follower = Follower(path)
        self._rows: list[NDArray[np.int64]] = []
        self._waiting_rows = 0
        self._waiting: list[bytes] = []
        self._open_shards = open_shards or OpenShards()
        self._stays_open = self._open_shards.take_place()
        self._file: FramedFile | TensorFlowFile | None = None
        try:
            with self._writing("open", path):
                self._file = FramedFile(path, compression, stays_open=self._stays_open)
        except ShardWriteError:
            self.abandon()
            raise

    @contextlib.contextmanager
    def _writing(self, operation: str, path: Path) -> Iterator[None]:
        """Put fault points around an operation, and name the shard and its bytes when it fails."""
        try:
            with faults_around(operation, path):
                yield
        except OSError as error:
            doing = f"write, after {self.records} records and {self.payload:,} bytes,"
            advice = advice_on(error.errno) or "free some space or choose another destination"
            advice = f"nothing was published; {advice}, and write again"
            raise error_at(ShardWriteError, doing, path, error, advice) from error

    def write(self, data: Sequence[bytes], lengths: NDArray[np.int64]) -> None:
        """Append serialized records and their lengths (records, groups).

        Raises:
            ShardWriteError: the disk is full, or failed; the shard and its bytes are named.
        """
        size = int(sizes(data).sum())
        if self._stays_open:
            self._write_now(data)
        else:
            self._waiting += data
        self.records += len(data)
        self.payload += size
        self._rows.append(np.ascontiguousarray(lengths, "<i8"))
        self._waiting_rows += len(data)
        if self._stays_open:
            self.follower.follow(self.payload)
            if self._waiting_rows >= _ROWS_WAITING:
                self._append_rows()
        else:
            self._open_shards.wait(self, len(data), size)

    def _write_now(self, data: Sequence[bytes]) -> None:
        with self._writing("write", self.path):
            if not self.records and self._stays_open and self._compression is None and tensorflow_is_faster(data):
                self._opened.close()
                self._file = TensorFlowFile(self.path)
            self._opened.write(data)

    def write_waiting(self) -> None:
        """Append the records that wait, and their lengths.

        Raises:
            ShardWriteError: the disk is full, or failed.
        """
        data, self._waiting = self._waiting, []
        if data:
            self._write_now(data)
            self.follower.follow(self.payload)
            self._append_rows()

    @property
    def _opened(self) -> FramedFile | TensorFlowFile:
        if self._file is None:  # pragma: no cover - nothing is written after the end
            raise RuntimeError(f"{self.path} is closed")
        return self._file

    def _append_rows(self) -> None:
        rows, self._rows, self._waiting_rows = self._rows, [], 0
        with self._writing("open", self.lengths_path), self.lengths_path.open("ab") as file:  # noqa: SIM117
            with self._writing("write", self.lengths_path):
                file.write(b"".join(row.tobytes() for row in rows))
                file.flush()

    def close(self, groups: int = 1) -> NDArray[np.int64]:
        """Write everything out and return the lengths of all records (records, groups).

        Args:
            groups: columns of the lengths.

        Raises:
            ShardWriteError: the disk is full, or failed; the shard and its bytes are named.
        """
        self.write_waiting()
        with self._writing("flush", self.path):
            file, self._file = self._opened, None
            try:
                file.flush()
            finally:
                file.close()
                self._leave()
        self._append_rows()
        return read_lengths(self.lengths_path, groups, self.records)

    def abandon(self) -> None:
        """Close the file without caring for its contents."""
        self.follower.wait()
        self._waiting = []
        self._leave()
        file, self._file = self._file, None
        if file is not None:
            # The staging directory goes, and this file with it.
            with contextlib.suppress(OSError):
                file.close()

    def _leave(self) -> None:
        if self._stays_open:
            self._open_shards.give_place()
        self._stays_open = False


def histogram(lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return `(largest length, records)` of each bin, ascending: exact up to 512 distinct lengths.

    >>> histogram(np.array([3, 5, 3]))
    [(3, 2), (5, 1)]
    """
    if int(lengths.max(initial=0)) <= lengths.size:  # then counting is faster than sorting, and takes no more memory
        every = np.bincount(lengths)
        values = np.flatnonzero(every)
        counts = every[values]
    else:
        values, counts = np.unique(lengths, return_counts=True)
    if values.size > _EXACT_BINS:
        # Bins that grow with the length: the upper five bits of each length, rounded up.
        shift = np.maximum(0, np.floor(np.log2(np.maximum(values, 1))).astype(np.int64) + 1 - _BITS_KEPT)
        edges = ((values >> shift) + ((values & ((1 << shift) - 1)) > 0)) << shift
        values, inverse = np.unique(edges, return_inverse=True)
        counts = np.bincount(inverse, weights=counts).astype(np.int64)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def read_lengths(path: Path, groups: int, records: int, digest: str | None = None) -> NDArray[np.int64]:
    """Return the lengths file of a shard as int64 (records, groups).

    Args:
        path: of the lengths file.
        groups: its columns.
        records: its rows.
        digest: its SHA-256, in hexadecimal; None to believe whatever is there.

    Raises:
        ShardReadError: the file is missing, of another size, or not what was written.
    """
    expected = records * groups * _LENGTH_BYTES
    try:
        size, data = path.stat().st_size, None
        if size == expected:  # of a pipe, which would be waited for, it never is
            with open_source(path, buffering=0) as file:
                data = bytearray(file.read())
    except OSError as error:
        raise _lengths_error(path, f"the lengths of a shard cannot be read: {reason_at(path, error)}") from error
    if data is None or len(data) != expected:
        raise _lengths_error(path, f"expected {records} rows of {groups} lengths, got {size} bytes")
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise _lengths_error(path, _NOT_AS_WRITTEN)
    return np.frombuffer(data, "<i8").reshape(records, groups)


def check_lengths(path: Path, digest: str) -> None:
    """Raise `ShardReadError` unless a lengths file has a SHA-256; it is looked at once for each state of the file."""
    try:
        found = _digest(FileState.of(path))
    except ShardReadError as error:
        raise _lengths_error(path, f"the lengths of a shard: {error.message}") from error
    if found != digest:
        raise _lengths_error(path, _NOT_AS_WRITTEN)


@remember(most=1 << 16)
def _digest(state: FileState) -> str:
    return sha256(state.path)


def _lengths_error(path: Path, message: str) -> ShardReadError:
    dataset = path.parent.parent
    return ShardReadError(
        f"{path}: {message}; `seqrecorder verify {dataset}` says what else is damaged, `seqrecorder salvage` works the "
        "lengths out anew",
        path=path,
    )


@attrs.frozen
class RecordReader:
    """Iterates over the serialized records of one shard, in lists.

    Args:
        path: the shard's file.
        compression: None or `GZIP`.
        window: records to a list; the last one may have fewer.
        block: bytes that are read at a time.
    """

    path: Path
    compression: Compression
    window: int = 1024
    block: int = 4 << 20

    def __iter__(self) -> Iterator[list[bytes]]:
        for messages in self.windows():
            yield messages.rows()

    def read_all(self) -> int:
        """Return the number of records, all of which have been read: each has the CRC that follows it.

        Raises:
            ShardReadError: one has not; it is named.
        """
        return sum(map(len, self.blocks()))

    def windows(self) -> Iterator[Messages]:
        """Yield the same as messages in buffers."""
        return map(Messages.together, self.pieces())

    def pieces(self, *, check: bool = True) -> Iterator[list[Messages]]:
        """Yield the same, each window as one piece or more of records whose frames are side by side; see `blocks`."""
        held: list[Messages] = []
        missing = self.window
        for messages in self.blocks(check=check):
            first = 0
            while len(messages) - first >= missing:
                yield [*held, messages.some(slice(first, first + missing))]
                first += missing
                held, missing = [], self.window
            if first < len(messages):
                held.append(messages.some(slice(first, None)))
                missing -= len(messages) - first
        if held:
            yield held

    def blocks(self, *, check: bool = True) -> Iterator[Messages]:
        """Yield the same, as many as a block of bytes holds.

        Args:
            check: whether frames are asked if they are damaged; else `whole_records` tells.

        Raises:
            ShardReadError: the shard cannot be read, or is damaged.
        """
        done = 0
        try:
            for messages in read_blocks(self.path, self.compression, self.block, check=check):
                done += len(messages)
                yield messages
                del messages  # while the next ones are read, none are held
        except DamageError as error:
            raise damage_error(self.path, self.compression, done, str(error)) from error


def damage_error(path: Path, compression: Compression, done: int, said: str) -> ShardReadError:
    """Return the error for a damaged shard, with the place of the damage.

    Args:
        path: of the shard.
        compression: of the shard.
        done: how many records were read before.
        said: what is said where no damage is found.
    """
    return ShardReadError(
        f"{path}: damaged after {done} or more records: {_first_loss(path, compression) or said}; "
        f"`seqrecorder verify {_place(path)}` lists all damage, `seqrecorder salvage` saves what is whole",
        path=path,
    )


def _first_loss(path: Path, compression: Compression) -> str:
    """Return where the damage is, which TensorFlow does not say; nothing where none is found."""
    try:
        walk = walk_frames(path, compression)
    except ShardReadError as error:
        return error.message.removeprefix(f"{path}: ")
    if walk.problem:
        return f"record {walk.lengths.size} at byte {walk.offset}: the file {walk.problem}"
    with opened(path, compression) as shard:
        return next(map(str, find_records(shard.file, shard.size, shard.problem).losses), "")


def _place(path: Path) -> Path:
    """Return what to verify: the dataset of a shard, or the shard alone."""
    dataset = path.parent.parent
    return dataset if (dataset / MANIFEST).exists() else path


def peek(path: Path, compression: Compression, count: int) -> list[bytes]:
    """Return the first records of a shard, at most `count`."""
    return next(iter(RecordReader(path, compression, count)), [])
