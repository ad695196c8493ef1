"""The TFRecord frame: uint64 length, its CRC, the data, their CRC; all little-endian.

Source: tensorflow/core/lib/io/record_writer.h; the CRCs are those of `seqrecorder.storage.tfrecord.crc32c`. TensorFlow
writes and reads the frames and checks the data; this module looks at the frames' lengths first, because TensorFlow
takes a cut inside a header for a normal end, and a forged length with a valid CRC can kill its process.
"""

from __future__ import annotations

import functools
import gzip
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import attrs
import numpy as np

from seqrecorder.errors import OptionError, ShardReadError
from seqrecorder.storage.bad_sectors import open_source, reason_at
from seqrecorder.storage.tfrecord.crc32c import masked_crc32c, masked_crc32c_of_one, masked_crc32c_of_spans
from seqrecorder.wire.byte_rows import interleave, of_list, of_matrix, sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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


_LENGTH = struct.Struct("<Q")
_LONGEST_BLOCK = 1 << 18
_WINDOW_RECORDS = 4096
_WINDOW_BYTES = 16 << 20
_KNOWN = 4096  # lengths whose headers are looked up
_LARGE = 64 << 10  # mean bytes of records that are written one by one


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
    return bool(_are_genuine(np.frombuffer(header, np.uint8)[None])[0])


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
    with open_source(path, buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        return size == max((end for *_, end in _hops(file, size, 0)), default=0)


def frame_starts(path: Path) -> NDArray[np.int64] | None:
    """Return where each frame of a plain shard begins, and where the last one ends, going by the frames' lengths.

    Args:
        path: of the shard.

    Returns:
        int64, `(records + 1,)`; None where the lengths do not lead to the last byte of the file.

    Raises:
        OSError: the file cannot be read.
    """
    parts: list[NDArray[np.int64]] = []
    with open_source(path, buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        for start, _, places, end in _hops(file, size, 0):
            if not places or end > size:
                return None
            parts.append(start + np.array(places, np.int64))
    return np.concatenate([*parts, np.array([size], np.int64)])


def _hops(file: BinaryIO, size: int, start: int) -> Iterator[tuple[int, bytes, list[int], int]]:
    """Go from frame to frame by their lengths, as far as whole headers are there.

    Yields:
        Where a block of the file begins, its bytes, where in it frames begin, and in the file the one behind them.
    """
    unpack, margin, block = _LENGTH.unpack_from, HEADER + FOOTER, _LONGEST_BLOCK
    while start < size:
        file.seek(start)
        data = file.read(min(block, size - start))
        place, last, places = 0, len(data) - HEADER, list[int]()
        while place <= last:
            places.append(place)
            place += unpack(data, place)[0] + margin
        yield start, data, places, start + place
        if not places:
            return
        # Where frames are far longer than a block, reading nothing but headers is faster, on disks too.
        block = HEADER if place > _LONGEST_BLOCK + len(data) else _LONGEST_BLOCK
        start += place


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
    parts: list[NDArray[np.int64]] = []
    problem = ""
    for start, data, places, end in _hops(file, size, offset):
        # The last frame of a block may end anywhere: its length is looked at by itself.
        whole = len(places) if end <= size else len(places) - 1
        bounds = np.array([*places[:whole], end - start if end <= size else places[-1]], np.int64)
        headers = np.frombuffer(data, np.uint8)[np.array(places, np.int64)[:, None] + np.arange(HEADER)]
        forged = np.flatnonzero(~_are_genuine(headers))
        if forged.size:
            whole, problem = int(forged[0]), "holds no TFRecord header here (CRC differs)"
        elif end > size:
            problem = f"ends inside a record of {end - start - places[-1] - HEADER - FOOTER} bytes"
        elif not places:
            problem = f"ends inside a record's header, {len(data)} bytes of {HEADER}"
        parts.append(np.diff(bounds[: whole + 1]) - (HEADER + FOOTER))
        offset = start + int(bounds[whole])
        if problem:
            break
    return Walk(np.concatenate([np.empty(0, np.int64), *parts]), problem, offset)


def _are_genuine(headers: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return whether the length in each header has its CRC."""
    stored = np.ascontiguousarray(headers[:, _LENGTH.size :]).view("<u4").reshape(-1)
    genuine: NDArray[np.bool_] = masked_crc32c(headers[:, : _LENGTH.size]) == stored
    return genuine


def _walk_stream(stream: gzip.GzipFile, limit: int) -> Walk:
    """Walk over the frames of a GZIP stream, of which nobody knows the end before it is there."""
    offset, lengths = 0, list[int]()
    problem = ""
    try:
        while header := stream.read(HEADER):
            length = int.from_bytes(header[: _LENGTH.size], "little")
            end = offset + HEADER + length + FOOTER
            if len(header) < HEADER:
                problem = f"ends inside a record's header, {len(header)} bytes of {HEADER}"
            elif not _length_is_genuine(header):
                problem = "holds no TFRecord header here (CRC differs)"
            elif length > limit:
                problem = f"holds a record of {length} bytes, over the {limit} that a GZIP file of its size is read to"
            elif stream.seek(end) < end:
                problem = f"ends inside a record of {length} bytes"
            if problem:
                break
            lengths.append(length)
            offset = end
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        problem = f"the GZIP stream is damaged: {error}"
    return Walk(np.array(lengths, np.int64), problem, offset)


def frames(data: Sequence[bytes]) -> NDArray[np.uint8]:
    """Return records with their frames, one behind the other.

    >>> frames([b"abc", b""]).tobytes().hex(" ", -8)
    '0300000000000000 b099490e6162636e 57f1210000000000 00000029039807d8 ea82a2'

    Args:
        data: serialized records.
    """
    rows = of_list(data)
    crcs = masked_crc32c_of_spans(rows.data, np.cumsum(rows.lengths) - rows.lengths, rows.lengths)
    footers = crcs.astype("<u4").view(np.uint8).reshape(-1, FOOTER)
    return interleave([of_matrix(frame_headers(rows.lengths)), rows, of_matrix(footers)]).data


def framed(data: Sequence[bytes]) -> Iterator[Any]:
    """Yield the bytes of records with their frames, in pieces: of large ones no copies are made."""
    if not len(data):
        return
    if int(sizes(data).sum()) <= _LARGE * len(data):
        yield frames(data).data
        return
    for item in data:
        yield _header(len(item))
        yield item
        yield masked_crc32c_of_one(np.frombuffer(item, np.uint8)).to_bytes(FOOTER, "little")


def is_framed(frame: bytes) -> bool:
    """Return whether bytes are one record with its frame, both of whose CRCs are right.

    >>> is_framed(frames([b"abc"]).tobytes()), is_framed(bytes(19))
    (True, False)
    """
    size = len(frame) - HEADER - FOOTER
    if size < 0 or frame[:HEADER] != _header(size):
        return False
    crc = masked_crc32c_of_one(np.frombuffer(frame, np.uint8, size, HEADER))
    return crc == int.from_bytes(frame[-FOOTER:], "little")


def frame_headers(lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return what stands before records of these lengths, uint8 `(n, HEADER)`."""
    return _known_headers().take(lengths, axis=0) if int(lengths.max(initial=0)) < _KNOWN else _new_headers(lengths)


@functools.lru_cache(maxsize=_KNOWN)
def _header(size: int) -> bytes:
    return frame_headers(np.array([size])).tobytes()


@functools.cache
def _known_headers() -> NDArray[np.uint8]:
    return _new_headers(np.arange(_KNOWN))


def _new_headers(lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    octets = lengths.astype("<u8").view(np.uint8).reshape(-1, _LENGTH.size)
    return np.hstack([octets, masked_crc32c(octets).astype("<u4").view(np.uint8).reshape(-1, HEADER - _LENGTH.size)])
