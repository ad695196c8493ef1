"""The records of a shard from its first to its last, checked, in blocks of bytes.

The file is open only while a block is read: records that were dealt to thousands of shards come from all of them in
turn, and a process may have only some thousand files open.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Protocol

import numpy as np

from seqrecorder.errors import ShardReadError
from seqrecorder.storage.bad_sectors import open_source, reason_at
from seqrecorder.storage.tfrecord.crc32c import masked_crc32c_of_one
from seqrecorder.storage.tfrecord.damaged_frames import damaged_frames
from seqrecorder.storage.tfrecord.format import FOOTER, GZIP_MAGIC, HEADER, unpacked_limit
from seqrecorder.wire.byte_rows import ROOM, Messages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.storage.tfrecord.format import Compression

_HEADER = struct.Struct("<Q")
_LENGTH = 8
_WIDEST = 16  # bytes of a number
_PACKED = 1 << 16  # bytes of a GZIP stream that are read at a time
_LEAST_BLOCK, _MOST_BLOCK = 1 << 20, 8 << 20
_MANY = 128

ALONE = 1 << 12
"""A block of so few bytes that large records come one by one; without compression each in a buffer of its own, from
which numbers at its end are read without a copy, and checked while it is in the caches."""


class _Source(Protocol):
    def read(self, rest: bytes, count: int) -> tuple[NDArray[np.uint8], int]:
        """Return a buffer and how much of it is read: what was left before, and as many bytes, or all that there are.

        `ROOM` bytes are behind them.
        """
        ...


class _Plain:
    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def read(self, rest: bytes, count: int) -> tuple[NDArray[np.uint8], int]:
        with open_source(self._path, buffering=0) as file:
            left = file.seek(0, 2) - self._offset  # what a forged length asks for is not made room for
            file.seek(self._offset)
            size = len(rest)
            total = size + max(0, min(count, left))
            data = np.empty(total + ROOM, np.uint8)
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
        self._unpacker = _new_unpacker()
        self._limit = unpacked_limit(path.stat().st_size)

    def read(self, rest: bytes, count: int) -> tuple[NDArray[np.uint8], int]:
        parts = [rest]
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
                    self._unpacker = _new_unpacker()
                part = self._unpacker.decompress(self._tail, count)
                self._tail = self._unpacker.unused_data if self._unpacker.eof else self._unpacker.unconsumed_tail
                parts.append(part)
                count, self._unpacked = count - len(part), self._unpacked + len(part)
                if self._unpacked > self._limit:
                    raise zlib.error(f"it unpacks to more than {self._limit} bytes")
        size = sum(map(len, parts))
        return np.frombuffer(b"".join([*parts, bytes(ROOM)]), np.uint8), size


def _new_unpacker() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def block_for(mean: int) -> int:
    """Return how many bytes to read at a time of records that have so many: the fewer, the longer they stay in caches.

    Many records are decoded with little more to do than one, so large ones come in larger blocks.

    >>> block_for(100), block_for(1 << 30)
    (1048576, 8388608)
    """
    return min(_MOST_BLOCK, max(_LEAST_BLOCK, _MANY * mean))


def read_blocks(path: Path, compression: Compression, block: int, *, check: bool = True) -> Iterator[Messages]:
    """Yield the serialized records of one shard, as many as a block of bytes holds.

    >>> import tempfile, pathlib, tensorflow as tf
    >>> path = pathlib.Path(tempfile.mkdtemp(), "three")
    >>> with tf.io.TFRecordWriter(str(path)) as writer:
    ...     for word in (b"one", b"two", b"three"):
    ...         writer.write(word)
    >>> [messages.rows() for messages in read_blocks(path, None, 40)]
    [[b'one', b'two'], [b'three']]

    Args:
        path: of the shard.
        compression: of the shard.
        block: bytes that are read at a time; more where a record has more.
        check: whether frames are asked if they are damaged; else `whole_records` tells, in whatever thread.

    Raises:
        DamageError: a frame is not what it should be.
        ShardReadError: the shard cannot be read.
    """
    rest = b""
    try:
        if block == ALONE and compression is None:
            yield from _one_by_one(path)
            return
        source: _Source = _Plain(path) if compression is None else _Packed(path)
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
                yield messages.some(slice(whole))
                raise DamageError("the CRC of a record or its length differs")
            if whole:
                yield messages
            del messages  # while the next ones are read, none are held: they may be large
    except zlib.error as error:
        raise DamageError(str(error)) from error
    except OSError as error:
        raise ShardReadError(f"{path}: cannot be read: {reason_at(path, error)}", path=path) from error


def _one_by_one(path: Path) -> Iterator[Messages]:
    offset = 0
    while True:
        with open_source(path, buffering=0) as file:
            left = file.seek(0, 2) - offset - HEADER  # what a forged length asks for is not made room for
            file.seek(offset)
            header = file.read(HEADER)
            if not header:
                return
            wanted = _missing(header)
            if len(header) < HEADER or wanted > left:
                raise DamageError("the file ends inside a record")
            stop = wanted - FOOTER
            # The content ends at a multiple of the width of every number. So does a buffer of numbers that is its last
            # field, and so it also begins: an array can be a view of it.
            ahead = -stop % _WIDEST
            data = np.empty(ahead + wanted + ROOM, np.uint8)[ahead:]
            done, room = 0, data.data[:wanted]
            while done < wanted and (more := file.readinto(room[done:])):
                done += more
        data[done:] = 0
        if masked_crc32c_of_one(data[:stop]) != int.from_bytes(room[stop:], "little"):
            raise DamageError("the CRC of a record or its length differs")
        offset += HEADER + wanted
        yield Messages(data, np.zeros(1, np.int64), np.array([stop]))
        del data, room  # while the next one is read, none is held


def whole_records(messages: Messages) -> int:
    """Return how many records there are before the first that is damaged, of records whose frames are side by side."""
    damaged = damaged_frames(messages.data, messages.starts, messages.stops)
    return int(damaged.argmax()) if damaged.any() else len(messages)


class DamageError(Exception):
    """A frame is not what it should be."""


def _missing(rest: bytes) -> int:
    """Return how many bytes are missing of the first frame, of which some may be there."""
    if len(rest) < HEADER:
        return HEADER - len(rest)
    crc = masked_crc32c_of_one(np.frombuffer(rest, np.uint8, _LENGTH))
    if crc != int.from_bytes(rest[_LENGTH:HEADER], "little"):
        raise DamageError("the CRC of a length differs")
    return HEADER + int.from_bytes(rest[:_LENGTH], "little") + FOOTER - len(rest)


def _cut(data: NDArray[np.uint8], size: int) -> tuple[Messages, int]:
    """Return the records whose frames end in a buffer, by their lengths, and where the bytes behind them begin."""
    ends, place, length_at, view = [], 0, _HEADER.unpack_from, data.data
    while place + HEADER <= size:
        end = place + HEADER + length_at(view, place)[0]
        if end + FOOTER > size:
            break
        ends.append(end)
        place = end + FOOTER
    last = np.array(ends, np.int64)
    first = np.concatenate([np.zeros(1, np.int64), last[:-1] + FOOTER])[: last.size] + HEADER
    return Messages(data, first, last), place
