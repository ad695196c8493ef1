"""The TFRecord frame: uint64 length, its CRC, the data, their CRC; all little-endian.

Source: tensorflow/core/lib/io/record_writer.h; the CRCs are those of `seqrecorder.storage.tfrecord.crc32c`. TensorFlow
writes and reads the frames and checks the data; this module looks at the frames' lengths first, because TensorFlow
takes a cut inside a header for a normal end, and a forged length with a valid CRC can kill its process.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from typing import TYPE_CHECKING, BinaryIO, Literal

import attrs
import numpy as np

from seqrecorder.errors import OptionError, ShardReadError
from seqrecorder.storage.bad_sectors import open_source, reason_at
from seqrecorder.storage.tfrecord.crc32c import masked_crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

Compression = Literal["GZIP"] | None

HEADER = 12
"""Bytes before the data of a record: length and its CRC."""
FOOTER = 4
"""Bytes after the data of a record: their CRC."""

GZIP_MAGIC = b"\x1f\x8b\x08"
_ZLIB_START = 1 << 10
_RECORD_LIMIT = 2**31 - 1

# GZIP packs zeros up to 1,032 to 1, at level 1, which is what seqrecorder writes, 230 to 1. So a large record that is
# 256 times the whole file was made to fill memories.
_BOMB_RATIO = 256
_BOMB_BYTES = 16 << 20


_WALKED = 1 << 14
_LENGTH = struct.Struct("<Q")
_LONGEST_BLOCK = 1 << 18
_WINDOW_RECORDS = 4096
_WINDOW_BYTES = 16 << 20


def unpacked_limit(size: int) -> int:
    """Return to how many bytes a GZIP shard of `size` bytes may unpack before it is taken for a bomb."""
    return max(_BOMB_BYTES, _BOMB_RATIO * size)


def check_compression(compression: str | None) -> Compression:
    """Return the compression, or raise `OptionError`: None and `GZIP` are known."""
    if compression in (None, "", "NONE"):
        return None
    if isinstance(compression, str) and compression.upper() == "GZIP":
        return "GZIP"
    raise OptionError(f"compression: expected None or 'GZIP', got {compression!r}")


def detect_compression(path: Path) -> Compression:
    """Return the compression of a shard by its first bytes.

    A plain shard could begin with gzip's magic only if its first record had one certain length; its CRC tells.

    Raises:
        ShardReadError: the file is missing, or its first bytes cannot be read.
    """
    start = _first_bytes(path, HEADER)
    if not start.startswith(GZIP_MAGIC):
        return None
    return None if len(start) == HEADER and _length_is_genuine(start) else "GZIP"


def is_packed_with_zlib(path: Path) -> bool:
    """Return whether a file is a TFRecord file in ZLIB, which old programs wrote and nothing here reads.

    Raises:
        ShardReadError: the file is missing, or its first bytes cannot be read.
    """
    start = _first_bytes(path, _ZLIB_START)
    try:
        header = zlib.decompressobj().decompress(start, HEADER)
    except zlib.error:
        return False
    return len(header) == HEADER and _length_is_genuine(header)


def _first_bytes(path: Path, count: int) -> bytes:
    try:
        with open_source(path) as file:
            return file.read(count)
    except OSError as error:
        raise ShardReadError(f"{path}: cannot be read: {reason_at(path, error)}", path=path) from error


def _length_is_genuine(header: bytes) -> bool:
    row = np.frombuffer(header[:8], np.uint8)[None]
    return int(masked_crc32c(row)[0]) == int.from_bytes(header[8:], "little")


@attrs.frozen
class Walk:
    """What a walk over the frames of a shard found.

    Attributes:
        lengths: data bytes of each whole record.
        problem: what is wrong at the end of the walk, empty where the shard ends as it should.
        offset: where in the (uncompressed) shard the walk ended.
    """

    lengths: NDArray[np.int64] = attrs.field(eq=False)
    problem: str
    offset: int

    @property
    def window(self) -> int:
        """How many records to hold at once: no more than about 16 MiB of the largest."""
        largest = int(self.lengths.max(initial=1))
        return max(1, min(_WINDOW_RECORDS, _WINDOW_BYTES // max(1, largest)))


def lengths_lead_to_end(path: Path) -> bool:
    """Return whether the lengths of a plain shard's frames lead from its first byte to its last, whatever their CRCs.

    Raises:
        OSError: the file cannot be read.
    """
    return max((end for _, end in _places(path)), default=0) == path.stat().st_size


def frame_starts(path: Path) -> NDArray[np.int64] | None:
    """Return where each frame of a plain shard begins, and where the last one ends, going by the frames' lengths.

    Args:
        path: of the shard.

    Returns:
        int64, `(records + 1,)`; None where the lengths do not lead to the last byte of the file.

    Raises:
        OSError: the file cannot be read.
    """
    found = list(_places(path))
    ends = [end for _, end in found] or [0]
    if ends[-1] != path.stat().st_size:
        return None
    return np.concatenate([*(places for places, _ in found), np.array(ends[-1:], np.int64)])


def _places(path: Path) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield where some frames of a plain shard begin, and where the last of them ends, until that is no frame's."""
    unpack, margin = _LENGTH.unpack_from, HEADER + FOOTER
    with open_source(path, buffering=0) as file:
        size, offset, block = os.fstat(file.fileno()).st_size, 0, _LONGEST_BLOCK
        while offset < size:
            file.seek(offset)
            data = file.read(block)
            place, last, places = 0, len(data) - _LENGTH.size, list[int]()
            while place <= last:
                places.append(place)
                place += unpack(data, place)[0] + margin
            if not places:
                return  # fewer bytes than a length has
            # Where frames are far longer than a block, reading nothing but lengths is faster, on disks too.
            block = _LENGTH.size if place > _LONGEST_BLOCK + len(data) else _LONGEST_BLOCK
            yield offset + np.array(places, np.int64), offset + place
            offset += place


def walk_frames(path: Path, compression: Compression) -> Walk:
    """Walk over the frames of a shard, reading headers only, and check the lengths against their CRCs and the size.

    Raises:
        ShardReadError: the file cannot be opened.
    """
    try:
        size = path.stat().st_size
        with open_source(path) as file:
            if compression is None:
                return walk_plain(file, size)
            if size == 0:
                return Walk(
                    np.empty(0, np.int64),
                    "the file is empty, where even a GZIP stream of no record has bytes",
                    0,
                )
            with gzip.GzipFile(fileobj=file) as stream:
                return _walk_stream(stream, min(_RECORD_LIMIT, unpacked_limit(size)))
    except OSError as error:
        raise ShardReadError(f"{path}: cannot be read: {reason_at(path, error)}", path=path) from error


def walk_plain(file: BinaryIO, size: int, offset: int = 0) -> Walk:
    """Walk over the frames of an open file without compression, from an offset on."""
    parts: list[Walk] = []
    file.seek(offset)
    while True:
        part = _walk_some(file, size, offset)
        parts.append(part)
        offset = part.offset
        if part.problem or offset == size:
            return Walk(np.concatenate([walk.lengths for walk in parts]), part.problem, offset)


def _walk_some(file: BinaryIO, size: int, offset: int) -> Walk:
    """Walk over so many frames that what is no TFRecord file is noticed soon."""
    start, problem = offset, ""
    lengths: list[int] = []
    headers: list[bytes] = []
    while offset < size and len(headers) < _WALKED:
        header = file.read(HEADER)
        if len(header) < HEADER:
            problem = f"ends inside a record's header, {len(header)} bytes of {HEADER}"
            break
        length = int.from_bytes(header[:8], "little")
        if offset + HEADER + length + FOOTER > size:
            genuine = _length_is_genuine(header)
            problem = (
                f"ends inside a record of {length} bytes" if genuine else "holds no TFRecord header here (CRC differs)"
            )
            break
        headers.append(header)
        lengths.append(length)
        offset += HEADER + length + FOOTER
        file.seek(offset)
    return _checked(headers, lengths, problem, offset, start)


def _walk_stream(stream: gzip.GzipFile, limit: int) -> Walk:
    offset, lengths, headers = 0, [], []
    problem = ""
    try:
        while header := stream.read(HEADER):
            if len(header) < HEADER:
                problem = f"ends inside a record's header, {len(header)} bytes of {HEADER}"
                break
            if not _length_is_genuine(header):
                problem = "holds no TFRecord header here (CRC differs)"
                break
            length = int.from_bytes(header[:8], "little")
            if length > limit:
                problem = f"holds a record of {length} bytes, over the {limit} that a GZIP file of its size is read to"
                break
            end = _skip(stream, length + FOOTER)
            if end < length + FOOTER:
                problem = f"ends inside a record of {length} bytes"
                break
            headers.append(header)
            lengths.append(length)
            offset += HEADER + length + FOOTER
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        problem = f"the GZIP stream is damaged: {error}"
    return _checked(headers, lengths, problem, offset)


def _skip(stream: gzip.GzipFile, count: int) -> int:
    done = 0
    while done < count:
        block = stream.read(min(count - done, 1 << 20))
        if not block:
            break
        done += len(block)
    return done


def _checked(headers: list[bytes], lengths: list[int], problem: str, offset: int, start: int = 0) -> Walk:
    sizes = np.array(lengths, np.int64)
    if headers:
        table = np.frombuffer(b"".join(headers), np.uint8).reshape(-1, HEADER)
        stored = np.ascontiguousarray(table[:, 8:]).view("<u4").reshape(-1)
        bad = np.flatnonzero(masked_crc32c(table[:, :8]) != stored)
        if bad.size:
            first = int(bad[0])
            ends = np.concatenate([[start], start + np.cumsum(sizes + HEADER + FOOTER)])
            return Walk(sizes[:first], "holds no TFRecord header here (CRC differs)", int(ends[first]))
    return Walk(sizes, problem, offset)
