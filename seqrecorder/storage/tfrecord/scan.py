"""What is whole in a damaged shard: every record that its own CRC vouches for, and the byte ranges that hold none.

Where a frame is broken, the search goes on byte by byte for the next length that its CRC vouches for. So a hole costs
the records it touches, and no more. A record that holds frames itself, such as a TFRecord file in a bytes field, may
be found by its inner frames where its own header is lost; checking against a schema tells them apart.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import zlib
from typing import TYPE_CHECKING, BinaryIO

import attrs
import numpy as np

from seqrecorder.errors import ShardReadError
from seqrecorder.storage.bad_sectors import ReadAround
from seqrecorder.storage.fault_points import faults_around
from seqrecorder.storage.files import writing
from seqrecorder.storage.tfrecord.crc32c import masked_crc32c, masked_crc32c_of_one
from seqrecorder.storage.tfrecord.damaged_frames import damaged_frames
from seqrecorder.storage.tfrecord.format import FOOTER, GZIP_MAGIC, HEADER, unpacked_limit, walk_plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.storage.tfrecord.format import Compression

UNKNOWN = -1
"""How many records a range held whose frames are gone."""

_BLOCK = 1 << 20
_BUFFER = 1 << 16
_BATCH_BYTES = 8 << 20
_REBUILT_BYTES = 16 << 20
_GZIP_HEADER = 10
_FRAME = HEADER + FOOTER


@attrs.frozen
class Loss:
    """A range of bytes that holds no whole record.

    Attributes:
        start: where it begins, in bytes of the (uncompressed) shard.
        stop: where it ends.
        record: number, in the shard, of the first record that is lost; exact where what was lost before is known.
        records: how many are lost; `UNKNOWN` (-1) where their frames are gone, 0 of what comes twice or is not ours.
        reason: what is wrong there.
    """

    start: int
    stop: int
    record: int
    records: int
    reason: str

    def __str__(self) -> str:
        if self.records == UNKNOWN:
            what = f"from record {self.record} on"
        elif self.records == 0:
            what = "no record of its own"
        else:
            last = self.record + self.records - 1
            what = f"record {self.record}" if self.records == 1 else f"records {self.record} to {last}"
        return f"bytes {self.start} to {self.stop} ({what}): {self.reason}"


@attrs.frozen
class Findings:
    """What was found in a shard.

    Attributes:
        starts: where the data of each whole record begin.
        lengths: their bytes.
        losses: the ranges that hold no whole record, in order.
    """

    starts: NDArray[np.int64] = attrs.field(eq=False)
    lengths: NDArray[np.int64] = attrs.field(eq=False)
    losses: tuple[Loss, ...]


@attrs.frozen
class Opened:
    """A shard as plain bytes.

    Attributes:
        file: the bytes.
        size: how many there are.
        problem: why unpacking ended early, "" where it did not.
        unreadable: the ranges of bytes of the file that the disk cannot read, as far as reading has come.
    """

    file: BinaryIO
    size: int
    problem: str
    unreadable: list[tuple[int, int]]


@contextlib.contextmanager
def opened(path: Path, compression: Compression) -> Iterator[Opened]:
    """Open a shard as plain bytes that can be searched, a compressed one as far as it can be unpacked.

    Zeros stand for what the disk cannot read.

    >>> import os
    >>> from pathlib import Path
    >>> with opened(Path(os.devnull), None) as shard:
    ...     shard.size, shard.problem
    (0, '')

    Raises:
        ShardReadError: the file cannot be opened.
        ShardWriteError: a compressed one cannot be unpacked into a temporary file.
    """
    with contextlib.ExitStack() as stack:
        try:
            source = stack.enter_context(ReadAround(path))
        except OSError as error:
            raise ShardReadError(f"{path}: cannot be read: {error}", path=path) from error
        file: BinaryIO = stack.enter_context(io.BufferedReader(source, _BUFFER))
        if compression is None:
            yield Opened(file, source.size, "", source.unreadable)
            return
        with writing(f"unpack {path.name} into a temporary file in", tempfile.gettempdir()):
            plain = stack.enter_context(tempfile.TemporaryFile())
            problem = _unpack(file, plain, source.size)
        yield Opened(plain, plain.tell(), problem, source.unreadable)


def _unpack(file: BinaryIO, plain: BinaryIO, size: int) -> str:
    """Unpack as far as that goes, and return why it ended early."""
    limit = unpacked_limit(size)
    data = file.read(_BLOCK)
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    if not data.startswith(GZIP_MAGIC):
        # The header says nothing that is needed: what TensorFlow writes has the usual one of ten bytes.
        data, unpacker = data[_GZIP_HEADER:], zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        while data:
            with faults_around("write", tempfile.gettempdir()):
                plain.write(unpacker.decompress(data, _BLOCK))
            if plain.tell() > limit:
                return f"unpacks to more than {limit} bytes, which is taken for a GZIP bomb"
            data = unpacker.unconsumed_tail
            if unpacker.eof:
                data = unpacker.unused_data + file.read(_BLOCK)
                if not data.startswith(GZIP_MAGIC):
                    return ""  # at most the checksum, where the header was lost; the records have their own
                unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
            data = data or file.read(_BLOCK)
    except zlib.error as error:
        return f"the GZIP stream is damaged: {error}"
    return "the GZIP stream ends too early"


def find_records(file: BinaryIO, size: int, problem: str = "") -> Findings:
    """Find the records of a shard that are whole.

    >>> import io
    >>> find_records(io.BytesIO(b"no records"), 10).losses[0].stop
    10

    Args:
        file: the bytes of the shard, uncompressed.
        size: how many there are.
        problem: why they end early, if they do (see `opened`).
    """
    starts: list[NDArray[np.int64]] = []
    lengths: list[NDArray[np.int64]] = []
    losses: list[Loss] = []
    offset, number = 0, 0
    while offset < size:
        walk = walk_plain(file, size, offset)
        begins = offset + np.cumsum(walk.lengths + _FRAME) - walk.lengths - FOOTER
        whole = _whole_frames(file, begins, walk.lengths)
        broken_at, reason, doubtful = walk.offset, walk.problem, bool(whole.size) and not whole[-1]
        if doubtful:
            # No frame follows where its length says, so that the length, or what it spans, is not to be trusted.
            broken_at, reason = int(begins[-1]) - HEADER, "the CRC of a record differs, and no other follows it"
            begins, whole = begins[:-1], whole[:-1]
        sizes = walk.lengths[: whole.size]
        for position in np.flatnonzero(~whole).tolist():
            start, stop = int(begins[position]) - HEADER, int(begins[position] + sizes[position]) + FOOTER
            losses.append(Loss(start, stop, number + position, 1, "the CRC of a record differs"))
        starts.append(begins[whole])
        lengths.append(sizes[whole])
        number += whole.size
        if not walk.problem and not doubtful:
            break
        offset = _next_frame(file, size, broken_at + (HEADER if doubtful else 1))
        between = offset - broken_at - _FRAME
        if not doubtful and 0 <= between <= _REBUILT_BYTES and _is_whole(file, broken_at + HEADER, between):
            # The header alone is damaged: what lies between it and the next one is a record that its CRC vouches for.
            starts.append(np.array([broken_at + HEADER]))
            lengths.append(np.array([between]))
            number += 1
        else:
            count = 1 if offset == size and not walk.problem else UNKNOWN
            losses.append(Loss(broken_at, offset, number, count, reason))
            number += max(0, count)
    if problem:
        start = size
        if losses and losses[-1].stop == size and losses[-1].records == UNKNOWN:
            start = losses.pop().start  # the bytes of a record that was cut
        losses.append(Loss(start, size, number, UNKNOWN, problem))
    nothing = np.empty(0, np.int64)
    return Findings(np.concatenate([nothing, *starts]), np.concatenate([nothing, *lengths]), tuple(losses))


def _whole_frames(file: BinaryIO, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of some records, one behind the other, have the CRC that follows them."""
    whole = np.zeros(starts.size, bool)
    stops = starts + lengths
    first = 0
    while first < starts.size:
        last = first + max(1, int(np.searchsorted(stops[first:] - starts[first], _BATCH_BYTES, side="right")))
        base = int(starts[first]) - HEADER
        file.seek(base)
        data = np.frombuffer(file.read(int(stops[last - 1]) + FOOTER - base), np.uint8)
        whole[first:last] = ~damaged_frames(data, starts[first:last] - base, stops[first:last] - base)
        first = last
    return whole


def _is_whole(file: BinaryIO, start: int, length: int) -> bool:
    """Whether a record has the CRC that follows it, whatever stands before it."""
    file.seek(start)
    data = np.frombuffer(file.read(length + FOOTER), np.uint8)
    return masked_crc32c_of_one(data[:length]) == int.from_bytes(data[length:].tobytes(), "little")


def _next_frame(file: BinaryIO, size: int, offset: int) -> int:
    """Return where the next frame begins whose length its CRC vouches for, and whose data or successor are sound."""
    while offset + _FRAME <= size:
        file.seek(offset)
        block = np.frombuffer(file.read(_BLOCK + HEADER - 1), np.uint8)
        places = block.size - HEADER + 1
        rows = np.lib.stride_tricks.sliding_window_view(block, HEADER)
        stored = np.ascontiguousarray(rows[:, 8:]).view("<u4").reshape(-1)
        genuine: list[int] = np.flatnonzero(masked_crc32c(rows[:, :8]) == stored).tolist()
        for place in genuine:
            length = int.from_bytes(block[place : place + 8].tobytes(), "little")
            end = offset + place + _FRAME + length
            if end <= size and _is_sound(file, size, offset + place + HEADER, length, end):
                return offset + place
        offset += places
    return size


def _is_sound(file: BinaryIO, size: int, start: int, length: int, end: int) -> bool:
    if end == size or _is_whole(file, start, length):
        return True
    file.seek(end)
    header = np.frombuffer(file.read(HEADER), np.uint8)
    return header.size == HEADER and int(masked_crc32c(header[None, :8])[0]) == int.from_bytes(header[8:], "little")


def read_found(
    file: BinaryIO, starts: NDArray[np.int64], lengths: NDArray[np.int64], most_bytes: int = _BATCH_BYTES
) -> Iterator[list[bytes]]:
    """Yield the data of records that were found, in lists of about so many bytes."""
    batch: list[bytes] = []
    held = 0
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        file.seek(start)
        batch.append(file.read(length))
        held += length
        if held >= most_bytes:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
