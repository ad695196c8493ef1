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
from seqrecorder.storage.tfrecord.crc32c import masked_crc32c
from seqrecorder.storage.tfrecord.damaged_frames import damaged_frames
from seqrecorder.storage.tfrecord.format import FOOTER, GZIP_MAGIC, HEADER, unpacked_limit
from seqrecorder.wire.many_messages import ROOM, Messages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.storage.tfrecord.format import Compression

_HEADER = struct.Struct("<Q")
_LENGTH = 8
_PACKED = 1 << 16  # bytes of a GZIP stream that are read at a time


class _Source(Protocol):
    def read(self, count: int) -> bytes:
        """Return the next bytes: as many, or all that are left."""
        ...


class _Plain:
    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def read(self, count: int) -> bytes:
        with open_source(self._path, buffering=0) as file:
            left = file.seek(0, 2) - self._offset  # what a forged length asks for is not made room for
            file.seek(self._offset)
            parts = []
            while left > 0 and count > 0 and (part := file.read(min(count, left))):
                parts.append(part)
                count, left, self._offset = count - len(part), left - len(part), self._offset + len(part)
        return b"".join(parts)


class _Packed:
    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._unpacked = path, 0, 0
        self._tail = b""
        self._unpacker = _new_unpacker()
        self._limit = unpacked_limit(path.stat().st_size)

    def read(self, count: int) -> bytes:
        parts = []
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
        return b"".join(parts)


def _new_unpacker() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def read_blocks(path: Path, compression: Compression, block: int) -> Iterator[Messages]:
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

    Raises:
        DamageError: a frame is not what it should be.
        ShardReadError: the shard cannot be read.
    """
    rest = b""
    try:
        source: _Source = _Plain(path) if compression is None else _Packed(path)
        while True:
            wanted = _missing(rest)
            more = source.read(max(block - len(rest), wanted))
            if len(more) < wanted:
                if not rest and not more:
                    return
                raise DamageError("the file ends inside a record")
            data = b"".join([rest, more, bytes(ROOM)])
            size = len(rest) + len(more)
            del rest, more
            messages, end, problem = _cut(data, size)
            rest = data[end:size]
            del data
            if len(messages):
                yield messages
            del messages  # while the next ones are read, none are held: they may be large
            if problem:
                raise DamageError(problem)
    except zlib.error as error:
        raise DamageError(str(error)) from error
    except OSError as error:
        raise ShardReadError(f"{path}: cannot be read: {reason_at(path, error)}", path=path) from error


class DamageError(Exception):
    """A frame is not what it should be."""


def _missing(rest: bytes) -> int:
    """Return how many bytes are missing of the first frame, of which some may be there."""
    if len(rest) < HEADER:
        return HEADER - len(rest)
    header = np.frombuffer(rest, np.uint8, HEADER)[None]
    if (masked_crc32c(header[:, :_LENGTH]) != _stored(header[:, _LENGTH:])).any():
        raise DamageError("the CRC of a length differs")
    return HEADER + int.from_bytes(rest[:_LENGTH], "little") + FOOTER - len(rest)


def _cut(data: bytes, size: int) -> tuple[Messages, int, str]:
    """Return the records whose frames are whole, where the bytes behind them begin, and what is wrong with those."""
    ends, place, length_at = [], 0, _HEADER.unpack_from
    while place + HEADER <= size:
        end = place + HEADER + length_at(data, place)[0]
        if end + FOOTER > size:
            break
        ends.append(end)
        place = end + FOOTER
    octets, last = np.frombuffer(data, np.uint8), np.array(ends, np.int64)
    first = np.concatenate([np.zeros(1, np.int64), last[:-1] + FOOTER])[: last.size] + HEADER
    wrong = damaged_frames(octets, first, last)
    messages = Messages(octets, first, last)
    if wrong.any():
        return messages.some(slice(int(wrong.argmax()))), place, "the CRC of a record or its length differs"
    return messages, place, ""


def _stored(octets: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the CRCs in the rows of four bytes."""
    return np.ascontiguousarray(octets).view("<u4").reshape(-1)
