"""Reading many shards in turn: each is open only while some of its records are read.

TensorFlow's reader keeps its file open, with a buffer and a thread. Records that were dealt to thousands of shards come
from all of them in turn, and a process may have only some thousand files open.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

import numpy as np

from seqrecorder.errors import ShardReadError
from seqrecorder.storage.read_around import open_source, reason_at
from seqrecorder.storage.shard import damage_error
from seqrecorder.storage.tfrecord.crc32c import masked_crc32c, masked_crc32c_of_spans
from seqrecorder.storage.tfrecord.format import FOOTER, GZIP_MAGIC, HEADER, unpacked_limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.storage.tfrecord.format import Compression

_LENGTH = 8
_PACKED = 1 << 14  # bytes of a GZIP stream that are read at a time


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


def read_in_turn(path: Path, compression: Compression, window: int, block: int) -> Iterator[list[bytes]]:
    """Yield the serialized records of one shard, which is closed whenever some are given.

    >>> import tempfile, pathlib, tensorflow as tf
    >>> path = pathlib.Path(tempfile.mkdtemp(), "three")
    >>> with tf.io.TFRecordWriter(str(path)) as writer:
    ...     for word in (b"one", b"two", b"three"):
    ...         writer.write(word)
    >>> list(read_in_turn(path, None, 2, 1024))
    [[b'one', b'two'], [b'three']]

    Args:
        path: of the shard.
        compression: of the shard.
        window: records to a list; the last one may have fewer.
        block: about how many bytes of records are kept in memory.

    Raises:
        ShardReadError: the shard cannot be read, or is damaged.
    """
    waiting: list[bytes] = []
    rest, done = b"", 0
    try:
        source: _Source = _Plain(path) if compression is None else _Packed(path)
        while True:
            while len(waiting) < window:
                wanted = _missing(rest)
                more = source.read(max(block, wanted))
                if len(more) < wanted:
                    if not rest and not more:
                        break
                    raise _DamagedError
                rest += more
                records, rest = _cut(rest)
                waiting += records
            given, waiting = waiting[:window], waiting[window:]
            if not given:
                return
            yield given
            done += len(given)
    except (_DamagedError, zlib.error) as error:
        raise damage_error(path, compression, done + len(waiting), str(error)) from error
    except OSError as error:
        raise ShardReadError(f"{path}: cannot be read: {reason_at(path, error)}", path=path) from error


class _DamagedError(Exception):
    """A frame is not what it should be."""


def _missing(rest: bytes) -> int:
    """Return how many bytes are missing of the first frame, of which some may be there."""
    if len(rest) < HEADER:
        return HEADER - len(rest)
    header = np.frombuffer(rest, np.uint8, HEADER)[None]
    if (masked_crc32c(header[:, :_LENGTH]) != _stored(header[:, _LENGTH:])).any():
        raise _DamagedError
    return HEADER + int.from_bytes(rest[:_LENGTH], "little") + FOOTER - len(rest)


def _cut(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the records whose frames are whole, and the bytes that follow them."""
    starts, ends, place = [], [], 0
    while place + HEADER <= len(data):
        end = place + HEADER + int.from_bytes(data[place : place + _LENGTH], "little")
        if end + FOOTER > len(data):
            break
        starts.append(place + HEADER)
        ends.append(end)
        place = end + FOOTER
    if not starts:
        return [], data
    octets = np.frombuffer(data, np.uint8)
    first, last = np.array(starts), np.array(ends)
    headers = octets[first[:, None] + np.arange(-HEADER, 0)]
    is_whole = (masked_crc32c(headers[:, :_LENGTH]) == _stored(headers[:, _LENGTH:])).all() and (
        masked_crc32c_of_spans(octets, first, last - first) == _stored(octets[last[:, None] + np.arange(FOOTER)])
    ).all()
    if not is_whole:
        raise _DamagedError
    return [data[start:end] for start, end in zip(starts, ends, strict=True)], data[place:]


def _stored(octets: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the CRCs in the rows of four bytes."""
    return np.ascontiguousarray(octets).view("<u4").reshape(-1)
