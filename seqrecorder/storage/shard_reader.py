"""Reading one shard: its records, block by block or by position, with CRC checks.

`shard_writer` writes shards, `tfrecord` walks over their frames, and `files` reads the lengths of their records.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import zlib
from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.errors import OptionError, ShardReadError
from seqrecorder.storage.crc32c import (
    FOOTER,
    HEADER,
    LENGTH,
    damaged_frames,
    damaged_one_by_one,
    is_framed,
    masked_crc32c_of_one,
)
from seqrecorder.storage.files import MANIFEST, PlacedFile, open_source, remember
from seqrecorder.storage.tfrecord import (
    GZIP_MAGIC,
    GZIP_WBITS,
    advice,
    check_frames,
    check_size,
    find_records,
    frame_starts,
    open_stream,
    unpacked_limit,
    unreadable,
    walk_frames,
)
from seqrecorder.wire.byte_rows import ROOM, Messages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.storage.files import Compression


_WIDEST = 16  # size of the widest number in bytes
_PACKED = 1 << 16  # compressed bytes read at a time
_LEAST_BLOCK, _MOST_BLOCK = 1 << 20, 8 << 20
_MANY_RECORDS = 128  # records per block, within the two limits above

ALONE = 1 << 12
"""Block size at which large records are read one by one. Without compression, each record has its own buffer: it is
checked while it is in the cache, and the numbers at its end are read without a copy."""


class _Plain:
    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def read(self, rest: bytes, count: int, ahead: int = 0) -> tuple[NDArray[np.uint8], int]:
        """Read the next bytes of the file into a new buffer, after the unread bytes `rest`.

        Return the buffer and the number of bytes in it. `ROOM` spare bytes follow them. The buffer starts `ahead` bytes
        after an aligned address.
        """
        with open_source(self._path, buffering=0) as file:
            left = file.seek(0, 2) - self._offset  # limits the memory that a forged length can request
            file.seek(self._offset)
            size = len(rest)
            total = size + max(0, min(count, left))
            data = np.empty(ahead + total + ROOM, np.uint8)[ahead:]
            data[:size] = np.frombuffer(rest, np.uint8)
            room = data.data[:-ROOM]
            while size < total and (more := file.readinto(room[size:])):
                size += more
        self._offset += size - len(rest)
        data[size:] = 0
        return data, size


class _Packed:
    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._unpacked = path, 0, 0
        self._tail = b""
        self._unpacker = zlib.decompressobj(GZIP_WBITS)
        self._limit = unpacked_limit(path.stat().st_size)

    def read(self, rest: bytes, count: int) -> tuple[NDArray[np.uint8], int]:
        """Read the next decompressed bytes, as `_Plain.read` does."""
        pieces = [rest]
        with open_source(self._path, buffering=0) as file:
            file.seek(self._offset)
            while count > 0:
                if not self._tail:
                    self._tail = file.read(_PACKED)
                    self._offset += len(self._tail)
                if not self._tail and not self._unpacker.eof:
                    raise zlib.error("the stream ends too early")
                if self._unpacker.eof:
                    if not self._tail.startswith(GZIP_MAGIC):
                        break
                    self._unpacker = zlib.decompressobj(GZIP_WBITS)
                piece = self._unpacker.decompress(self._tail, count)
                self._tail = self._unpacker.unused_data if self._unpacker.eof else self._unpacker.unconsumed_tail
                pieces.append(piece)
                count, self._unpacked = count - len(piece), self._unpacked + len(piece)
                if self._unpacked > self._limit:
                    raise zlib.error(f"it unpacks to more than {self._limit} bytes")
        size = sum(map(len, pieces))
        return np.frombuffer(b"".join([*pieces, bytes(ROOM)]), np.uint8), size


def block_for(mean: int) -> int:
    """Choose the block size in bytes for records of a mean size.

    Small blocks stay in the cache, but decoding has a cost per block, so large records are read in larger blocks.

    >>> block_for(100), block_for(1 << 30)
    (1048576, 8388608)
    """
    return min(_MOST_BLOCK, max(_LEAST_BLOCK, _MANY_RECORDS * mean))


def read_blocks(path: Path, compression: Compression, block: int, *, check: bool = True) -> Iterator[Messages]:
    """Yield the serialized records of a shard, block by block.

    >>> import tempfile, pathlib, tensorflow as tf
    >>> path = pathlib.Path(tempfile.mkdtemp(), "three")
    >>> with tf.io.TFRecordWriter(str(path)) as writer:
    ...     for word in (b"one", b"two", b"three"):
    ...         writer.write(word)
    >>> [messages.rows() for messages in read_blocks(path, None, 40)]
    [[b'one', b'two'], [b'three']]

    Args:
        path: path of the shard.
        compression: compression of the shard.
        block: bytes to read at a time; more if a record is larger.
        check: whether to check the CRCs here. If False, call `whole_records` later, in any thread.

    Raises:
        DamageError: a frame is damaged.
        zlib.error: the compressed stream is damaged.
        OSError: the shard cannot be read.
    """
    if block == ALONE and compression is None:
        yield from _one_by_one(path)
        return
    rest = b""
    source = _Plain(path) if compression is None else _Packed(path)
    while True:
        before, wanted = len(rest), _missing(rest)
        data, size = source.read(rest, max(block - before, wanted))
        if size - before < wanted:
            if not size:
                return
            raise DamageError("the file ends inside a record")
        messages, end = _cut(data, size)
        rest = data[end:size].tobytes()
        del data
        whole = whole_records(messages) if check else len(messages)
        if whole < len(messages):
            yield messages.take(slice(whole))
            raise DamageError("the CRC of a record or its length differs")
        if whole:
            yield messages
        del messages  # free the block before the next one is read, since it may be large


def _one_by_one(path: Path) -> Iterator[Messages]:
    source = _Plain(path)
    while True:
        head, size = source.read(b"", HEADER)
        if not size:
            return
        wanted = _missing(head[:size].tobytes())
        stop = wanted - FOOTER
        # Align the end of the record to the widest number. Then a buffer of numbers at its end is aligned, too,
        # and an array can be a view of it.
        data, got = source.read(b"", wanted, -stop % _WIDEST)
        if size < HEADER or got < wanted:
            raise DamageError("the file ends inside a record")
        if masked_crc32c_of_one(data[:stop]) != int.from_bytes(data[stop:wanted].tobytes(), "little"):
            raise DamageError("the CRC of a record or its length differs")
        yield Messages(data, np.zeros(1, np.int64), np.array([stop]))
        del data  # free it before the next one is read


def whole_records(messages: Messages) -> int:
    """Count the intact records at the start of a buffer of consecutive frames."""
    damaged = damaged_frames(messages.data, messages.starts, messages.stops)
    return int(damaged.argmax()) if damaged.any() else len(messages)


class DamageError(Exception):
    """Damage to a frame of a shard."""


def _missing(rest: bytes) -> int:
    """Compute the number of bytes missing from the first frame of `rest`."""
    if len(rest) < HEADER:
        return HEADER - len(rest)
    crc = masked_crc32c_of_one(np.frombuffer(rest, np.uint8, LENGTH.size))
    if crc != int.from_bytes(rest[LENGTH.size : HEADER], "little"):
        raise DamageError("the CRC of a length differs")
    return HEADER + int.from_bytes(rest[: LENGTH.size], "little") + FOOTER - len(rest)


def _cut(data: NDArray[np.uint8], size: int) -> tuple[Messages, int]:
    """Cut a buffer of frames into records, by the lengths in the frames.

    The second result is the offset of the bytes that remain, which are not a complete frame.
    """
    ends, offset, length_at, view = [], 0, LENGTH.unpack_from, data.data
    while offset + HEADER <= size:
        end = offset + HEADER + length_at(view, offset)[0]
        if end + FOOTER > size:
            break
        ends.append(end)
        offset = end + FOOTER
    last = np.array(ends, np.int64)
    first = np.concatenate([np.zeros(1, np.int64), last[:-1] + FOOTER])[: last.size] + HEADER
    return Messages(data, first, last), offset


@attrs.frozen
class RecordReader:
    """Iterable over lists of the serialized records of one shard.

    Args:
        path: path of the shard.
        compression: None or `GZIP`.
        window: number of records per list; the last list may be shorter.
        block: bytes to read at a time.
    """

    path: Path
    compression: Compression
    window: int = 1024
    block: int = 4 << 20

    def __iter__(self) -> Iterator[list[bytes]]:
        for messages in self.windows():
            yield messages.rows()

    def read_all(self) -> int:
        """Read and count all records, and check their CRCs.

        Raises:
            ShardReadError: a record is damaged; the message names it.
        """
        return sum(map(len, self.blocks()))

    def windows(self) -> Iterator[Messages]:
        """Yield windows of records, each in one buffer."""
        return map(Messages.together, self.pieces())

    def pieces(self, *, check: bool = True) -> Iterator[list[Messages]]:
        """Yield each window as a list of buffers, each of which contains consecutive frames.

        `check` has the same meaning as for `blocks`.
        """
        window: list[Messages] = []
        missing = self.window
        for messages in self.blocks(check=check):
            first = 0
            while len(messages) - first >= missing:
                yield [*window, messages.take(slice(first, first + missing))]
                first += missing
                window, missing = [], self.window
            if first < len(messages):
                window.append(messages.take(slice(first, None)))
                missing -= len(messages) - first
        if window:
            yield window

    def blocks(self, *, check: bool = True) -> Iterator[Messages]:
        """Yield the records of each block.

        Args:
            check: whether to check the CRCs here. If False, call `whole_records` later.

        Raises:
            ShardReadError: the shard cannot be read, or is damaged.
        """
        done = 0
        try:
            for messages in read_blocks(self.path, self.compression, self.block, check=check):
                done += len(messages)
                yield messages
                del messages  # free the block before the next one is read
        except (DamageError, zlib.error) as error:
            raise damage_error(self.path, self.compression, done, str(error)) from error
        except OSError as error:
            raise unreadable(self.path, error) from error


def damage_error(path: Path, compression: Compression, done: int, message: str) -> ShardReadError:
    """Build the error for a damaged shard, with the offset of the damage.

    Args:
        path: path of the shard.
        compression: compression of the shard.
        done: number of records read before the damage.
        message: reason to report if a second walk finds no damage.
    """
    dataset = path.parent.parent
    verified = dataset if (dataset / MANIFEST).exists() else path
    loss = _first_loss(path, compression) or message
    return ShardReadError(f"{path}: damaged after {done} or more records: {loss}; {advice(verified)}", path=path)


def _first_loss(path: Path, compression: Compression) -> str:
    """Describe the first damage to a shard; return an empty string if there is none."""
    try:
        walk = walk_frames(path, compression)
    except ShardReadError as error:
        return error.message.removeprefix(f"{path}: ")
    if walk.problem:
        return f"record {walk.lengths.size} at byte {walk.offset}: the file {walk.problem}"
    with open_stream(path, compression) as shard:
        return next(map(str, find_records(shard.file, shard.size, shard.problem).losses), "")


def peek(path: Path, compression: Compression, count: int) -> list[bytes]:
    """Read up to `count` records from the start of a shard."""
    return next(iter(RecordReader(path, compression, count)), [])


_GAP = 1 << 14
"""Largest gap in bytes that is read instead of skipped: reading a few more pages costs less than another call."""
_RUN = 16 << 20
"""Bytes to read at a time, unless a record is larger."""
_MAPPED = 8 << 20
"""Size in bytes from which a record is mapped instead of read, so that a slice need not wait for the whole record."""
_READ_FIRST = 1 << 20  # bytes per read, so that a long record needs little memory
_SHORT_STREAM = 1024  # records per window of a GZIP shard


@remember(most=4096)
def _is_framed_at(path: Path, start: int, stop: int) -> bool:
    file = PlacedFile(path)
    # Read first: unreadable bytes raise an error here, whereas in a map they kill the process by a signal.
    for offset in range(start, stop, _READ_FIRST):
        file.read_at(offset, min(_READ_FIRST, stop - offset))
    return is_framed(file.map(start, stop - start))


class SoughtShard:
    """Random access to the records of an uncompressed shard.

    Args:
        path: path of the shard.
        records: number of records.
        size: size of the file in bytes.
        dataset: path of the dataset, for the advice in errors.
    """

    def __init__(self, path: Path, records: int, size: int, dataset: Path) -> None:
        check_size(path, size, dataset)
        self.path, self.records, self.size, self.dataset = path, records, size, dataset
        try:
            self._file = PlacedFile(path)
        except OSError as error:  # the file was removed in the meantime
            raise unreadable(self.path, error) from error

    @functools.cached_property
    def starts(self) -> NDArray[np.int64]:
        """Offset of each frame, followed by the end of the last frame.

        The array is int64, of shape `(records + 1,)`.

        Raises:
            ShardReadError: the frames do not add up to the size of the file.
        """
        try:
            starts = frame_starts(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error
        if starts is None:
            check_frames(self.path, None, self.dataset)  # raises an error with the reason
        if starts is None or starts.size != self.records + 1:
            got = "frames that lead out of the file" if starts is None else f"{starts.size - 1}"
            hint = advice(self.dataset)
            raise ShardReadError(f"{self.path}: expected {self.records} records, got {got}; {hint}", path=self.path)
        return starts

    def read_one(self, row: int) -> bytes | memoryview:
        """Read one record.

        A long record is mapped into memory, and the result of its CRC check is cached until the file changes.

        Raises:
            ShardReadError: the record is damaged.
        """
        start, stop = self.starts[row : row + 2].tolist()
        if stop - start >= _MAPPED and self.path.exists():  # the file may have been removed
            check_size(self.path, self.size, self.dataset)  # access beyond the end of a mapped file would crash
            with contextlib.suppress(OSError):  # no mapping here, or a bad disk, which reading reports
                if _is_framed_at(self.path, start, stop):
                    return self._file.map(start, stop - start)[HEADER:-FOOTER]
        frame = self._bytes(start, stop - start)
        if not is_framed(frame):
            raise self._damaged(row)
        return frame[HEADER:-FOOTER]

    def messages(self, rows: NDArray[np.int64]) -> Messages:
        """Read records into a buffer.

        Args:
            rows: numbers of the records in the shard, ascending.

        Raises:
            ShardReadError: a record is damaged.
        """
        runs = [Messages(run.data, run.starts + HEADER, run.stops - FOOTER) for run in self._runs(rows)]
        return Messages.together(runs)

    def _checked(self, rows: NDArray[np.int64], frames: Messages) -> Messages:
        """Check the CRCs of frames; return the frames."""
        data, starts, stops = frames.data, frames.starts + HEADER, frames.stops - FOOTER
        lengths = data[starts[:, None] + np.arange(-HEADER, -HEADER + LENGTH.size)].view("<i8")[:, 0]
        whole = lengths == stops - starts
        if (frames.starts[1:] == frames.stops[:-1]).all():
            whole &= ~damaged_frames(data, starts, stops)
        else:
            whole &= ~damaged_one_by_one(data, starts, stops)
        if not whole.all():
            raise self._damaged(int(rows[(~whole).argmax()]))
        return frames

    def _runs(self, rows: NDArray[np.int64]) -> Iterator[Messages]:
        """Yield the frames of these records, one buffer after another.

        The CRCs of the frames are checked.
        """
        begins, ends = self.starts[rows], self.starts[rows + 1]
        gaps = begins[1:] - ends[:-1]
        left_out = np.concatenate([[0], np.cumsum(np.where(gaps > _GAP, gaps, 0))])
        places, first = begins - left_out, 0  # offsets of the frames once the gaps are skipped
        while first < rows.size:
            last = int(np.searchsorted(ends - left_out, places[first] + _RUN, side="right"))
            last = max(first + 1, last)
            cuts = first + 1 + np.flatnonzero(gaps[first : last - 1] > _GAP)
            pieces = itertools.pairwise([first, *cuts.tolist(), last])
            data = [self._bytes(int(begins[i]), int(ends[j - 1] - begins[i])) for i, j in pieces]
            starts = places[first:last] - places[first]
            stops = starts + ends[first:last] - begins[first:last]
            frames = Messages(np.frombuffer(b"".join([*data, bytes(ROOM)]), np.uint8), starts, stops)
            yield self._checked(rows[first:last], frames)
            first = last

    def _bytes(self, start: int, count: int) -> bytes:
        try:
            data = self._file.read_at(start, count)
        except OSError as error:
            raise unreadable(self.path, error) from error
        if len(data) < count:
            text = f"{self.path}: expected {self.size} bytes, got {start + len(data)}; {advice(self.dataset)}"
            raise ShardReadError(text, path=self.path)
        return data

    def _damaged(self, row: int) -> ShardReadError:
        return ShardReadError(
            f"{self.path}: record {row} at byte {int(self.starts[row])} is damaged (its CRC differs); "
            f"{advice(self.dataset)}",
            path=self.path,
        )


class StreamedShard:
    """Forward-only access to the records of a GZIP shard.

    Args:
        path: path of the shard.
        compression: compression of the shard.
        records: number of records.
        size: size of the file in bytes.
        dataset: path of the dataset, for the advice in errors.
    """

    def __init__(self, path: Path, compression: Compression, records: int, size: int, dataset: Path) -> None:
        check_size(path, size, dataset)
        self.path, self.records = path, records
        self.compression: Compression = compression
        self._next, self._window = 0, list[bytes]()
        self._windows = iter(RecordReader(path, compression, _SHORT_STREAM))

    def read_one(self, row: int) -> bytes:
        """Raise `OptionError`, since a GZIP stream has no random access."""
        del row
        raise cannot_be_sought(self.path)

    def messages(self, rows: NDArray[np.int64]) -> Messages:
        """Read records into a buffer.

        Args:
            rows: numbers of the records in the shard, ascending within and across calls.

        Raises:
            ShardReadError: the shard is damaged.
            OptionError: a record precedes one that was read already.
        """
        out = []
        for row in rows.tolist():
            first = self._next - len(self._window)
            if row < first:
                raise cannot_be_sought(self.path)
            while row >= self._next:
                self._window = next(self._windows, [])
                if not self._window:
                    raise damage_error(self.path, self.compression, self._next, f"{self.records} records are expected")
                first, self._next = self._next, self._next + len(self._window)
            out.append(self._window[row - first])
        return Messages.of(out)


def cannot_be_sought(path: Path) -> OptionError:
    """Build the error for random access to a GZIP shard."""
    return OptionError(
        f"{path} is packed with GZIP, so that records can be read in their written order only, and not by position or "
        "key; write the dataset again without compression"
    )
