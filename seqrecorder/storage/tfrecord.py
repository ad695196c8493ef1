"""TFRecord files: detection of compression, walks over frames, and recovery of records from damaged files.

TensorFlow reads the frames and checks the data. This module checks the lengths first, because TensorFlow mistakes a
truncated header for a normal end of file, and a forged length with a valid CRC can crash its process.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import attrs
import numpy as np

from seqrecorder.errors import ShardReadError
from seqrecorder.storage.crc32c import FOOTER, HEADER, LENGTH, damaged_frames, masked_crc32c, masked_crc32c_of_one
from seqrecorder.storage.files import (
    Compression,
    ReadAround,
    faults_around,
    is_url,
    open_source,
    origin_of,
    reason_at,
    remember,
    writing,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Places = NDArray[np.int64]


_BUFFER_BYTES = 1 << 18  # read buffer of TensorFlow


def tf_records(path: Any, compression: str | None, span: tuple[Any, Any] | None = None) -> Any:
    """Return a `tf.data.Dataset` of the records of a TFRecord file, or of a span of an uncompressed file.

    >>> import tempfile, tensorflow as tf
    >>> path = f"{tempfile.mkdtemp()}/two.tfrecord"
    >>> with tf.io.TFRecordWriter(path) as writer:
    ...     writer.write(b"one")
    ...     writer.write(b"two")
    >>> list(tf_records(path, None).as_numpy_iterator())
    [b'one', b'two']

    Args:
        path: path of the file: a string, or a string scalar.
        compression: None, `GZIP` or `ZLIB`.
        span: int64 scalars: offset of the first record, and end of the last wanted record. The dataset continues past
            that end, so the caller must stop.
    """
    import tensorflow as tf

    if span is not None:
        records = tf.raw_ops.TFRecordDatasetV2(
            filenames=tf.reshape(path, [1]),  # one dataset per offset
            compression_type="",
            buffer_size=tf.clip_by_value(span[1] - span[0], 1, _BUFFER_BYTES),
            byte_offsets=span[0][tf.newaxis],
        )
        return tf.data.experimental.from_variant(records, tf.TensorSpec([], tf.string))
    records = tf.raw_ops.TFRecordDataset(filenames=path, compression_type=compression or "", buffer_size=_BUFFER_BYTES)
    return tf.data.experimental.from_variant(records, tf.TensorSpec([], tf.string))


def checked_path(path: Any) -> Any:
    """Return the path of a file, or an explanation in its place if the file is missing.

    TensorFlow's error about a file with this name then shows the explanation.

    >>> checked_path("/no/file").numpy().decode()
    '/no/file is gone: if its dataset was replaced, read that again'

    Args:
        path: path of the file: a string, or a string scalar.
    """
    import tensorflow as tf

    # Without wildcards in the path, TensorFlow only checks that it exists.
    matches = tf.io.matching_files(tf.strings.regex_replace(path, r"([\\*?\[])", r"\\\1"))
    return tf.where(
        tf.size(matches) > 0, path, tf.strings.join([path, " is gone: if its dataset was replaced, read that again"])
    )


def opened(path: Any) -> Any:
    """Build an empty `tf.data.Dataset` that raises an error if a file cannot be opened.

    The error contains the path. The elements are strings, so that a dataset of records can be concatenated to it.

    >>> import os
    >>> list(opened(os.devnull))
    []

    Args:
        path: path of the file: a string, or a string scalar.
    """
    import tensorflow as tf

    byte = tf.raw_ops.FixedLengthRecordDatasetV2(
        filenames=checked_path(path),
        header_bytes=tf.constant(0, tf.int64),
        record_bytes=tf.constant(1, tf.int64),
        footer_bytes=tf.constant(0, tf.int64),
        buffer_size=tf.constant(1, tf.int64),
        compression_type="",
    )
    return tf.data.experimental.from_variant(byte, tf.TensorSpec([], tf.string)).take(1).skip(1)


GZIP_WBITS = zlib.MAX_WBITS | 16
"""Window bits of zlib for a stream with a GZIP header."""
GZIP_MAGIC = b"\x1f\x8b\x08"
_ZLIB_START = 1 << 10  # compressed bytes that suffice to decompress the first header
_RECORD_LIMIT = 2**31 - 1

# GZIP compresses zeros by a factor of up to 1,032, and up to 230 at level 1, which seqrecorder uses. So a large record
# of 256 times the size of the file is taken for a bomb.
_BOMB_RATIO = 256
_BOMB_BYTES = 16 << 20  # decompressed size that is always allowed


_LONGEST_BLOCK = 1 << 18  # bytes to read at a time in a walk


def unpacked_limit(size: int) -> int:
    """Compute how many bytes a GZIP shard of `size` bytes may decompress to.

    If there are more, the shard is taken for a GZIP bomb.
    """
    return max(_BOMB_BYTES, _BOMB_RATIO * size)


def detect_compression(path: Path) -> Compression:
    """Detect the compression of a shard from its first bytes.

    A plain shard can start with gzip's magic bytes if its first record has one of certain lengths; in that
    case, the CRC of the length decides.

    Raises:
        ShardReadError: the file is missing, or its first bytes cannot be read.
    """
    start = _first_bytes(path, HEADER)
    if not start.startswith(GZIP_MAGIC):
        return None
    return None if len(start) == HEADER and _length_is_genuine(start) else "GZIP"


def is_packed_with_zlib(path: Path) -> bool:
    """Check whether a file is a TFRecord file with ZLIB compression.

    Old programs wrote such files, which seqrecorder cannot read.

    Raises:
        ShardReadError: the file is missing, or its first bytes cannot be read.
    """
    start = _first_bytes(path, _ZLIB_START)
    try:
        header = zlib.decompressobj().decompress(start, HEADER)
    except zlib.error:
        return False
    return len(header) == HEADER and _length_is_genuine(header)


def unreadable(path: Path, error: OSError) -> ShardReadError:
    """Build the error for a shard that the system cannot read, with the range of its first unreadable bytes."""
    return ShardReadError(f"{path}: cannot be read: {reason_at(path, error)}", path=path)


def _first_bytes(path: Path, count: int) -> bytes:
    try:
        with open_source(path) as file:
            return file.read(count)
    except OSError as error:
        raise unreadable(path, error) from error


def _length_is_genuine(header: bytes) -> bool:
    return bool(_are_genuine(np.frombuffer(header, np.uint8)[None])[0])


@attrs.frozen
class Walk:
    """Result of a walk over the frames of a shard.

    Attributes:
        lengths: size of the data of each intact record in bytes.
        problem: damage that ended the walk; empty if the shard is intact.
        offset: offset in the (uncompressed) shard at which the walk ended.
    """

    lengths: NDArray[np.int64] = attrs.field(eq=False)
    problem: str
    offset: int

    def __str__(self) -> str:
        doubt = "" if self.offset else " (is it a TFRecord file?)"
        return f"after {self.lengths.size} records, at byte {self.offset}{doubt}, it {self.problem}"


def frame_starts(path: Path) -> NDArray[np.int64] | None:
    """Find the offset of each frame of an uncompressed shard, and the end of the last frame.

    The offsets follow from the lengths in the frames. No CRCs are checked.

    Args:
        path: path of the shard.

    Returns:
        The offsets, int64 `(records + 1,)`; None if the frames do not add up to the size of the file.

    Raises:
        OSError: the file cannot be read.
    """
    with open_source(path, buffering=0) as file:
        walk = walk_plain(file, os.fstat(file.fileno()).st_size, check=False)
    return None if walk.problem else np.append(0, np.cumsum(walk.lengths + (HEADER + FOOTER)))


def _hops(file: BinaryIO, size: int, start: int) -> Iterator[tuple[int, bytes, list[int], int]]:
    """Follow the lengths in the headers from one frame to the next.

    This ends at the end of the file, or at an incomplete header.

    Yields:
        The offset of a block in the file, its bytes, the offsets of the frames in the block, and the offset of the next
        frame in the file.
    """
    unpack, margin, block = LENGTH.unpack_from, HEADER + FOOTER, _LONGEST_BLOCK
    while start < size:
        file.seek(start)
        data = file.read(min(block, size - start))
        offset, last, offsets = 0, len(data) - HEADER, list[int]()
        while offset <= last:
            offsets.append(offset)
            offset += unpack(data, offset)[0] + margin
        yield start, data, offsets, start + offset
        if not offsets:
            return
        # If frames are far longer than a block, reading only their headers is faster, even on disks.
        block = HEADER if offset > _LONGEST_BLOCK + len(data) else _LONGEST_BLOCK
        start += offset


def walk_frames(path: Path, compression: Compression) -> Walk:
    """Walk over the frames of a shard by the lengths in their headers.

    The lengths are checked against their CRCs and the size of the file. The CRCs of the data are not checked.

    Raises:
        ShardReadError: the file cannot be opened.
    """
    try:
        size = path.stat().st_size
        with open_source(path) as file:
            if compression is None:
                return walk_plain(file, size)
            if size == 0:
                return Walk(np.empty(0, np.int64), "is empty, where even a GZIP stream without records has bytes", 0)
            with gzip.GzipFile(fileobj=file) as stream:
                return _walk_stream(stream, min(_RECORD_LIMIT, unpacked_limit(size)))
    except OSError as error:
        raise unreadable(path, error) from error


def walk_plain(file: BinaryIO, size: int, offset: int = 0, *, check: bool = True) -> Walk:
    """Walk over the frames of an open, uncompressed file, starting at `offset`.

    The CRCs of the lengths are verified only if `check` is True.
    """
    lengths: list[NDArray[np.int64]] = []
    problem = ""
    for start, data, offsets, end in _hops(file, size, offset):
        # The last frame of a block may end outside the file, so its length is checked separately.
        whole = len(offsets) if end <= size else len(offsets) - 1
        edges = np.array([*offsets[:whole], end - start if end <= size else offsets[-1]], np.int64)
        forged = np.empty(0, np.int64)
        if check:
            headers = np.frombuffer(data, np.uint8)[np.array(offsets, np.int64)[:, None] + np.arange(HEADER)]
            forged = np.flatnonzero(~_are_genuine(headers))
        if forged.size:
            whole, problem = int(forged[0]), "holds no TFRecord header here (CRC differs)"
        elif end > size:
            problem = f"ends inside a record of {end - start - offsets[-1] - HEADER - FOOTER} bytes"
        elif not offsets:
            problem = f"ends inside a record's header, {len(data)} bytes of {HEADER}"
        lengths.append(np.diff(edges[: whole + 1]) - (HEADER + FOOTER))
        offset = start + int(edges[whole])
        if problem:
            break
    return Walk(np.concatenate([np.empty(0, np.int64), *lengths]), problem, offset)


def _are_genuine(headers: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Check the CRC of the length in each header."""
    stored = np.ascontiguousarray(headers[:, LENGTH.size :]).view("<u4").reshape(-1)
    genuine: NDArray[np.bool_] = masked_crc32c(headers[:, : LENGTH.size]) == stored
    return genuine


def _walk_stream(stream: gzip.GzipFile, limit: int) -> Walk:
    """Walk over the frames of a GZIP stream, whose size is unknown until its end."""
    offset, lengths = 0, list[int]()
    problem = ""
    try:
        while header := stream.read(HEADER):
            length = int.from_bytes(header[: LENGTH.size], "little")
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
        problem = f"has a damaged GZIP stream: {error}"
    return Walk(np.array(lengths, np.int64), problem, offset)


def advice(path: Path | str) -> str:
    """Write advice on a damaged shard, for the end of an error message.

    Args:
        path: path or URL of the dataset, its directory in the cache, or the path of a bare shard.
    """
    if url := path if is_url(path) else origin_of(Path(path)):
        return f"the file is a copy in the cache: remove it, and it is fetched from {url} again"
    return f"`seqrecorder verify {path}` lists the damage, `seqrecorder salvage` copies the intact records"


def check_size(path: Path, size: int | None, dataset: Path) -> None:
    """Raise `ShardReadError` unless a shard exists and, if `size` is not None, has this size in bytes."""
    try:
        got = path.stat().st_size
    except OSError as error:
        raise ShardReadError(
            f"{path}: a shard of the dataset is missing ({error.strerror}); {advice(dataset)}", path=path
        ) from None
    if size not in (None, got):
        raise ShardReadError(f"{path}: expected {size} bytes by the manifest, got {got}; {advice(dataset)}", path=path)


def check_frames(path: Path, compression: Compression, hint: Path | str) -> None:
    """Raise `ShardReadError` if the lengths in a shard's frames would make TensorFlow read beyond the end of the file.

    This takes a tenth of the time of a walk, since it leaves the CRCs for TensorFlow to check. A GZIP stream is not
    checked, since its lengths cannot lead beyond the end of the file.

    Args:
        path: path of the shard.
        compression: compression of the shard.
        hint: path that the error message advises the user to verify.
    """
    if compression is None and not _lengths_lead_to_end(path):
        check_walk(path, compression, -1, hint)
        raise ShardReadError(f"{path}: changes while it is read; {advice(hint)}", path=path)


@remember(most=1 << 16)
def _lengths_lead_to_end(path: Path) -> bool:
    try:
        return frame_starts(path) is not None
    except OSError as error:
        raise unreadable(path, error) from error


def check_walk(path: Path, compression: Compression, records: int, hint: Path | str) -> Walk:
    """Walk over the frames of a shard, without using cached results, and raise an error for any damage.

    Args:
        path: path of the shard.
        compression: compression of the shard.
        records: expected number of records; -1 if unknown.
        hint: path that the error message advises the user to verify.

    Raises:
        ShardReadError: the shard is damaged, or has an unexpected number of records.
    """
    walk = walk_frames(path, compression)
    if walk.problem:
        raise ShardReadError(f"{path}: {walk}; {advice(hint)}", path=path)
    if records >= 0 and walk.lengths.size != records:
        raise ShardReadError(f"{path}: expected {records} records, got {walk.lengths.size}; {advice(hint)}", path=path)
    return walk


@remember(most=1 << 16)
def count_records(path: Path, compression: Compression) -> int:
    """Count the records of a bare shard by a walk over its frames.

    The count is cached until the file changes.

    Raises:
        ShardReadError: the shard is damaged.
    """
    return check_walk(path, compression, -1, path).lengths.size


UNKNOWN = -1
"""Placeholder for an unknown number of records, as in a range whose frames are gone."""

_SCAN_BYTES = 1 << 20  # bytes to read at a time in the search for records
_BUFFER = 1 << 16
_BATCH_BYTES = 8 << 20  # bytes of records to check or read together
_REBUILT_BYTES = 16 << 20  # largest record that is recovered without its header
_GZIP_HEADER = 10
_FRAME = HEADER + FOOTER


@attrs.frozen
class Loss:
    """Range of bytes without an intact record.

    Attributes:
        start: offset of the range in the (uncompressed) shard.
        stop: end of the range.
        record: index of the first lost record in the shard, which is exact only if all earlier losses are counted.
        records: number of lost records; `UNKNOWN` (-1) if their frames are gone, 0 for duplicates and foreign records.
        reason: kind of damage.
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
    """Result of the search for records in a shard.

    Attributes:
        starts: offset of the data of each intact record.
        lengths: size of the data of each intact record in bytes.
        losses: ranges without an intact record, in order.
    """

    starts: NDArray[np.int64] = attrs.field(eq=False)
    lengths: NDArray[np.int64] = attrs.field(eq=False)
    losses: tuple[Loss, ...]


@attrs.frozen
class Opened:
    """Shard that is open as a file of uncompressed bytes.

    Attributes:
        file: file object with the bytes.
        size: number of bytes.
        problem: reason why decompression ended early; empty if it did not.
        unreadable: ranges that the disk could not read, in the part of the file that was read.
    """

    file: BinaryIO
    size: int
    problem: str
    unreadable: list[tuple[int, int]]


@contextlib.contextmanager
def open_stream(path: Path, compression: Compression) -> Iterator[Opened]:
    """Open a shard as a seekable file of uncompressed bytes.

    A compressed shard is decompressed as far as possible, to a temporary file. Unreadable bytes are replaced by zeros.

    >>> import os
    >>> from pathlib import Path
    >>> with open_stream(Path(os.devnull), None) as shard:
    ...     shard.size, shard.problem
    (0, '')

    Raises:
        ShardReadError: the file cannot be opened.
        ShardWriteError: a compressed shard cannot be decompressed to a temporary file.
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
    """Decompress a GZIP file as far as possible.

    The result is the reason why decompression ended early; it is empty if there is none.
    """
    limit = unpacked_limit(size)
    data = file.read(_SCAN_BYTES)
    before = unpacker = zlib.decompressobj(GZIP_WBITS)
    if not data.startswith(GZIP_MAGIC):
        # Skip a damaged header: TensorFlow writes the usual one of ten bytes.
        data, unpacker = data[_GZIP_HEADER:], zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        while data:
            before = unpacker.copy()
            with faults_around("write", tempfile.gettempdir()):
                plain.write(unpacker.decompress(data, _SCAN_BYTES))
            if plain.tell() > limit:
                return f"unpacks to more than {limit} bytes, which is taken for a GZIP bomb"
            data = unpacker.unconsumed_tail
            if unpacker.eof:
                data = unpacker.unused_data + file.read(_SCAN_BYTES)
                if not data.startswith(GZIP_MAGIC):
                    return ""  # only the checksum can remain, if the header was lost; records have their own
                unpacker = zlib.decompressobj(GZIP_WBITS)
            data = data or file.read(_SCAN_BYTES)
    except zlib.error as error:
        # zlib discards the output of a call that fails. Fed byte by byte, it returns all that precedes the damage.
        with contextlib.suppress(zlib.error):
            plain.writelines(before.decompress(data[at : at + 1]) for at in range(len(data)))
        return f"the GZIP stream is damaged: {error}"
    return "the GZIP stream ends too early"


def find_records(file: BinaryIO, size: int, problem: str = "") -> Findings:
    """Find the intact records of a shard.

    >>> import io
    >>> find_records(io.BytesIO(b"no records"), 10).losses[0].stop
    10

    Args:
        file: uncompressed bytes of the shard.
        size: number of bytes.
        problem: reason for an early end, if any (see `open_stream`).
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
            # No frame follows where this one should end, so neither its length nor its data can be trusted.
            broken_at, reason = int(begins[-1]) - HEADER, "the CRC of a record differs, and no frame follows it"
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
            # Only the header is damaged, since the bytes up to the next frame are a record with a valid CRC.
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
            start = losses.pop().start  # bytes of a truncated record
        losses.append(Loss(start, size, number, UNKNOWN, problem))
    nothing = np.empty(0, np.int64)
    return Findings(np.concatenate([nothing, *starts]), np.concatenate([nothing, *lengths]), tuple(losses))


def _whole_frames(file: BinaryIO, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the mask of the intact records among consecutive frames."""
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
    """Check the CRC of a record's data, without its header."""
    file.seek(start)
    data = np.frombuffer(file.read(length + FOOTER), np.uint8)
    return masked_crc32c_of_one(data[:length]) == int.from_bytes(data[length:].tobytes(), "little")


def _next_frame(file: BinaryIO, size: int, offset: int) -> int:
    """Find the next frame at or after an offset.

    The result is the offset of the frame, or `size` if there is none. A frame must have a valid header. In addition,
    its data must be intact, or another valid header or the end of the file must follow.
    """
    while offset + _FRAME <= size:
        file.seek(offset)
        block = np.frombuffer(file.read(_SCAN_BYTES + HEADER - 1), np.uint8)
        candidates = block.size - HEADER + 1
        rows = np.lib.stride_tricks.sliding_window_view(block, HEADER)
        stored = np.ascontiguousarray(rows[:, 8:]).view("<u4").reshape(-1)
        genuine: list[int] = np.flatnonzero(masked_crc32c(rows[:, :8]) == stored).tolist()
        for start in genuine:
            length = int.from_bytes(block[start : start + 8].tobytes(), "little")
            end = offset + start + _FRAME + length
            if end <= size and _is_sound(file, size, offset + start + HEADER, length, end):
                return offset + start
        offset += candidates
    return size


def _is_sound(file: BinaryIO, size: int, start: int, length: int, end: int) -> bool:
    if end == size or _is_whole(file, start, length):
        return True
    file.seek(end)
    header = np.frombuffer(file.read(HEADER), np.uint8)
    return header.size == HEADER and int(masked_crc32c(header[None, :8])[0]) == int.from_bytes(header[8:], "little")


def read_batches(
    file: BinaryIO, starts: NDArray[np.int64], lengths: NDArray[np.int64], most_bytes: int = _BATCH_BYTES
) -> Iterator[list[bytes]]:
    """Yield the data of the records at these offsets, in lists of about `most_bytes` bytes.

    A list ends as soon as it has at least `most_bytes` bytes. The last list may be smaller.
    """
    batch: list[bytes] = []
    batch_bytes = 0
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        file.seek(start)
        batch.append(file.read(length))
        batch_bytes += length
        if batch_bytes >= most_bytes:
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch
