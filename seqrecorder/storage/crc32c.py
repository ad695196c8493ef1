"""CRC-32C, and the frames of TFRecord files that it protects.

A frame consists of a uint64 length, its CRC, the data, and their CRC, all little-endian (source:
tensorflow/core/lib/io/record_writer.h).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.wire.byte_rows import interleave, of_list, of_matrix, sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Places = NDArray[np.int64]


_other: Any = None
_extend: Any = None
with contextlib.suppress(ImportError, RuntimeWarning):  # the package is an optional extra
    _package = importlib.import_module("google_crc32c")
    if _package.implementation == "c":  # its Python implementation is slower than this module
        _other, _extend = _package.value, _package.extend

IS_COMPILED = _other is not None
"""True if the package from the extra `fast` computes the CRCs."""


_MASK_DELTA = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78  # Castagnoli polynomial, bits reversed
_ONES = 0xFFFFFFFF
_OCTETS = 256
_START = 4  # bytes at the start of a span that the initial register of ones inverts
_FOLDS = ((4323, 5259, 5685), (65, 155, 170, 195, 209))
"""Distances in bytes by which folding can move a byte forward. Each tuple comes from a sparse multiple of the
polynomial: its largest exponent minus each of the other exponents."""


_LEAST_SCALE = 2
_LONG = 4096  # bytes from which spans are folded
_BLOCK = 32  # bytes of a short span to look up together
_GROUP_BYTES = 1 << 20  # bytes to fold together, so that they stay in the cache
_PIECE_BYTES = 1 << 22  # bytes of one span to fold at a time: longer pieces need fewer operations per byte
_SPREAD = 1.25  # ratio of the longest to the shortest span in a group
_LOOKED_UP = 1 << 19  # bytes to look up at a time, so that they stay in the cache
_TABLE_WIDTH = 512  # bytes; folding leaves fewer
_ROW = 256  # bytes of one span per row of a lookup, so that the table stays in the cache
_MOST_OF_ONE = 1 << 15  # bytes from which a single buffer is folded like any long span


def _crc_table() -> NDArray[np.uint32]:
    table = np.arange(_OCTETS).astype(np.uint32)
    for _ in range(8):
        table = np.where(table & 1 == 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


OCTET_TABLE = _crc_table()
"""CRC register after each possible byte, starting from zero."""


def masked_crc32c(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Compute the masked CRC-32C of each row of a uint8 matrix with 8 columns, such as the lengths of records.

    >>> rows = np.frombuffer((5).to_bytes(8, "little"), np.uint8)[None]
    >>> hex(masked_crc32c(rows)[0])
    '0x3e04b2ea'
    """
    words: NDArray[np.uint32] = np.ascontiguousarray(rows).view("<u4")
    return _masked(_of_rows(words ^ np.array([_ONES, 0], np.uint32)))


def masked_crc32c_of_spans(data: NDArray[np.uint8], starts: Places, lengths: Places) -> NDArray[np.uint32]:
    """Compute the masked CRC-32C of each span of a buffer.

    >>> spans = np.array([0, 3]), np.array([3, 0])
    >>> [hex(crc) for crc in masked_crc32c_of_spans(np.frombuffer(b"abc", np.uint8), *spans)]
    ['0x21f1576e', '0xa282ead8']

    Args:
        data: buffer, uint8.
        starts: offset of each span.
        lengths: length of each span in bytes; spans may overlap.
    """
    if _other is not None:
        data = np.ascontiguousarray(data)
        pieces = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        crcs = np.fromiter((_other(data[start:end]) for start, end in pieces), np.uint32, lengths.size)
        return _masked(crcs ^ np.uint32(_ONES))
    if not lengths.size:
        return np.empty(0, np.uint32)
    registers = np.empty(lengths.size, np.uint32)
    is_long = lengths >= _LONG
    if not is_long.all():
        short = np.flatnonzero(~is_long)
        registers[short] = _of_short(data, starts[short], lengths[short])
    for group in _groups(np.flatnonzero(is_long), lengths):
        registers[group] = _of_long(data, starts[group], lengths[group])
    return _masked(registers)


def masked_crc32c_of_one(octets: NDArray[np.uint8]) -> int:
    """Compute the masked CRC-32C of one buffer, faster than `masked_crc32c_of_spans`.

    >>> hex(masked_crc32c_of_one(np.frombuffer(b"abc", np.uint8)))
    '0x21f1576e'
    """
    if _other is not None:
        return _masked_int(_other(np.ascontiguousarray(octets)))
    size = octets.size
    if not _START <= size < _MOST_OF_ONE:
        return int(masked_crc32c_of_spans(octets, np.zeros(1, np.int64), np.array([size]))[0])
    count = -(-size // _ROW)
    rows = np.zeros(count * _ROW, np.uint8)  # leading zeros do not change a register of zero
    rows[-size:] = octets
    rows[-size:][:_START] ^= np.uint8(_OCTETS - 1)
    entries = rows.reshape(count, _ROW) + _descending()
    first: int
    first, *rest = np.bitwise_xor.reduce(_table().take(entries), axis=1).tolist()
    one, two, three, four = _behind_row()
    for row in rest:  # advance the register over the zeros of a row
        first = row ^ one[first & 255] ^ two[first >> 8 & 255] ^ three[first >> 16 & 255] ^ four[first >> 24]
    return _masked_int(first ^ _ONES)


def _masked_int(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _ONES


def register_over(octets: NDArray[np.uint8]) -> int:
    """Compute the CRC register after a buffer, starting from zero.

    The call may overwrite the buffer.

    >>> register_over(np.zeros(5, np.uint8))
    0
    """
    if _extend is not None:
        return int(_extend(_ONES, octets)) ^ _ONES
    rest = _folded(octets[None])[0]
    return int(np.bitwise_xor.reduce(_table().take(rest + _OCTETS * np.arange(rest.size)[::-1])))


def unmasked(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Convert masked CRCs to registers.

    >>> hex(unmasked(np.array([0x3E04B2EA], np.uint32))[0])
    '0x1bf6b23f'
    """
    rotated = crcs - np.uint32(_MASK_DELTA)
    return np.asarray(((rotated >> 17) | (rotated << 15)) ^ np.uint32(_ONES), np.uint32)


@functools.cache
def _descending() -> NDArray[np.int64]:
    """Compute, for each byte of a row, the offset in `_table` at which its entries begin.

    The offset is 256 times the number of bytes that follow in the row.
    """
    return _OCTETS * np.arange(_ROW)[::-1]


@functools.cache
def _behind_row() -> list[list[int]]:
    """Build the tables that advance a CRC register over a row of zero bytes.

    There is one table per byte of the register, lowest byte first. The new register is the XOR of one entry of each
    table.
    """
    table = _table().reshape(-1, _OCTETS)
    return [table[_ROW - 1 - byte].tolist() for byte in range(_START)]


def _masked(registers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Convert registers to masked CRCs."""
    crc = registers ^ np.uint32(_ONES)
    masked: NDArray[np.uint32] = np.asarray(((crc >> 15) | (crc << 17)) + np.uint32(_MASK_DELTA), np.uint32)
    return masked


@functools.cache
def _table_of_pairs() -> NDArray[np.uint32]:
    """Tabulate the CRC register after each possible pair of bytes.

    The register is zero before the pair.
    """
    first = np.tile(OCTET_TABLE, _OCTETS)  # the lower byte comes first
    second = np.repeat(np.arange(_OCTETS, dtype=np.uint32), _OCTETS)
    return np.asarray(OCTET_TABLE[(first ^ second) & 0xFF] ^ (first >> np.uint32(8)), np.uint32)


# Short spans ----------------------------------------------------------------------------------------------------------


def _of_short(data: NDArray[np.uint8], starts: Places, lengths: Places, size: int = _LOOKED_UP) -> NDArray[np.uint32]:
    """Compute the CRC register after each span of fewer than `_LONG` bytes.

    The register starts with all bits set.
    """
    out = np.empty(lengths.size, np.uint32)
    group_of = np.cumsum(lengths + _BLOCK) // size
    cuts = (np.flatnonzero(np.diff(group_of)) + 1).tolist()
    for first, last in itertools.pairwise([0, *cuts, lengths.size]):
        out[first:last] = _looked_up(data, starts[first:last], lengths[first:last])
    return out ^ _after_ones()[lengths]


def _looked_up(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Compute the CRC register after each span, starting from zero.

    A span is cut into blocks from its end. The first block is padded with zeros in front, which do not change the
    register, since it starts from zero.
    """
    counts = np.maximum((lengths + (_BLOCK - 1)) // _BLOCK, 1)
    ends = np.cumsum(counts)
    behind = np.repeat(ends - 1, counts) - np.arange(int(ends[-1]))  # number of blocks after each block
    places = np.repeat(starts + lengths, counts) - _BLOCK * (behind + 1)
    if int(places[0]) < 0 or int(places.min()) < 0:
        low, high = max(0, int(starts.min())), int((starts + lengths).max())
        data = np.concatenate([np.zeros(_BLOCK, np.uint8), data[low:high]])
        places += _BLOCK - low
    items: NDArray[np.void] = np.ndarray((data.size - _BLOCK + 1,), f"V{_BLOCK}", data.data, strides=(1,))
    blocks = items[places]
    firsts = ends - counts
    kept = _after_zeros().take(counts * _BLOCK - lengths)
    blocks[firsts] = (blocks[firsts].view("<u8") & kept.view("<u8")).view(blocks.dtype)
    registers = _of_rows(blocks.view("<u4").reshape(-1, _BLOCK // 4))
    more = np.flatnonzero(behind)
    octets = registers[more].view(np.uint8).reshape(-1, _START)
    places = behind[more] * (_START * _OCTETS)
    table, moved = _moved(), np.zeros(more.size, np.uint32)
    for number in range(_START):
        moved ^= table.take(places + (octets[:, number] + np.int64(number * _OCTETS)))
    registers[more] = moved
    return np.bitwise_xor.reduceat(registers, firsts)


def _of_rows(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Compute the CRC register after each row of a matrix of 32-bit words.

    The register is zero before each row.
    """
    first, last = _first_pairs(), _table_of_pairs()
    registers = np.zeros(len(words), np.uint32)
    for column in words.T:
        word = column ^ registers
        registers = first.take((word & np.uint32(0xFFFF)).astype(np.int64))  # numpy is slower with other index types
        registers ^= last.take((word >> np.uint32(16)).astype(np.int64))
    return registers


@functools.cache
def _first_pairs() -> NDArray[np.uint32]:
    """Tabulate the CRC register after a pair of bytes and two zero bytes, for each possible pair.

    The register is zero before the pair.
    """
    return _with_zeros(_table_of_pairs(), 2)


def _with_zeros(registers: NDArray[np.uint32], count: int) -> NDArray[np.uint32]:
    for _ in range(count):
        registers = OCTET_TABLE[registers & 0xFF] ^ (registers >> np.uint32(8))
    return registers


@functools.cache
def _moved() -> NDArray[np.uint32]:
    """Build the tables that advance a CRC register over 0, 1, ... blocks of zero bytes.

    The shape is `(blocks, 4, 256)`, flattened, with one table per byte of the register. The new register is the XOR of
    one entry of each of the four tables.
    """
    octets = np.arange(_OCTETS, dtype=np.uint32)
    table = np.empty((_LONG // _BLOCK, _START, _OCTETS), np.uint32)
    table[0] = octets << (8 * np.arange(_START, dtype=np.uint32))[:, None]
    table[1] = _with_zeros(table[0], _BLOCK)
    for number in range(2, len(table)):
        before = table[number - 1]
        table[number] = 0
        for octet in range(_START):
            table[number] ^= table[1, octet][(before >> np.uint32(8 * octet)) & 0xFF]
    return table.reshape(-1)


@functools.cache
def _after_zeros() -> NDArray[np.void]:
    """Build the masks that clear 0, 1, ... leading bytes of a block."""
    masks = np.where(np.arange(_BLOCK) < np.arange(_BLOCK + 1)[:, None], 0, _OCTETS - 1).astype(np.uint8)
    return masks.view(f"V{_BLOCK}")[:, 0]


@functools.cache
def _after_ones() -> NDArray[np.uint32]:
    """Tabulate the CRC register after each number of zero bytes, from 0 to `_LONG`.

    The register starts with all bits set.
    """
    table, registers = OCTET_TABLE.tolist(), [_ONES]
    for _ in range(_LONG):
        registers.append(table[registers[-1] & 0xFF] ^ (registers[-1] >> 8))
    return np.array(registers, np.uint32)


@functools.cache
def _table() -> NDArray[np.uint32]:
    """Tabulate the CRC register after one byte and a number of zero bytes.

    There is one row per number of zero bytes, and one column per possible byte: the shape is `(_TABLE_WIDTH, 256)`,
    flattened. The register is zero before the byte.
    """
    table = np.empty((_TABLE_WIDTH, _OCTETS), np.uint32)
    table[0] = OCTET_TABLE
    for zeros in range(1, _TABLE_WIDTH):
        table[zeros] = _with_zeros(table[zeros - 1], 1)
    return table.reshape(-1)


# Long spans -----------------------------------------------------------------------------------------------------------


def _groups(numbers: Places, lengths: Places, size: int = _GROUP_BYTES) -> Iterator[Places]:
    """Yield groups of spans of similar length.

    The spans of a group are folded together, as the rows of one matrix.
    """
    numbers = numbers[np.argsort(lengths[numbers], kind="stable")]
    sizes = lengths[numbers]
    first = 0
    while first < numbers.size:
        most = int(np.searchsorted(sizes, sizes[first] * _SPREAD, side="right"))
        last = min(most, first + max(1, size // int(sizes[first])))
        yield numbers[first:last]
        first = last


def _of_long(data: NDArray[np.uint8], starts: Places, lengths: Places, size: int = _PIECE_BYTES) -> NDArray[np.uint32]:
    """Compute the register after each span by folding."""
    width = int(lengths.max())
    rest = np.zeros((lengths.size, 0), np.uint8)
    # Very long spans are folded piece by piece, each appended to the rest of the last one.
    for first in range(0, width, size):
        last = min(width, first + size)
        before = rest.shape[1]
        rows = np.empty((lengths.size, before + last - first), np.uint8)
        rows[:, :before] = rest
        for row, begin, length in zip(rows, (starts + lengths - width).tolist(), lengths.tolist(), strict=True):
            start = max(first, width - length)
            row[before : before + start - first] = 0  # leading zeros change nothing
            row[before + start - first :] = data[begin + start : begin + last]
            if start == width - length:
                row[before + start - first :][:_START] ^= np.uint8(_OCTETS - 1)
        rest = _folded(rows)
    entries = rest + _OCTETS * np.arange(rest.shape[1], dtype=np.int32)[::-1]
    registers: NDArray[np.uint32] = np.bitwise_xor.reduce(_table().take(entries), axis=1)
    return registers


def _folded(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Shorten each row to a few bytes that lead to the same CRC register as the whole row.

    The register starts from zero. Earlier bytes are folded into later ones, so the rows are overwritten. The result is
    a view of the last bytes of each row, fewer than `_TABLE_WIDTH`.
    """
    first, width = 0, rows.shape[1]
    for fold in _FOLDS:
        scale, near, far = _LEAST_SCALE, fold[0], fold[-1]
        while 2 * scale * far < width - first:
            scale *= 2
        while scale >= _LEAST_SCALE:
            while width - first > scale * far:
                size = min(scale * near, width - first - scale * far)
                block = rows[:, first : first + size]
                for places in fold:
                    rows[:, first + scale * places : first + scale * places + size] ^= block
                first += size
            scale //= 2
    return rows[:, first:]


LENGTH = struct.Struct("<Q")
"""Length at the start of a frame."""


HEADER = 12
"""Size in bytes of the header of a frame: the length and its CRC."""


FOOTER = 4
"""Size in bytes of the footer of a frame: the CRC of the data."""


_LARGE = 64 << 10  # mean record size in bytes above which records are written one by one, without a copy


def frames(data: Sequence[bytes]) -> NDArray[np.uint8]:
    """Frame records and concatenate the frames.

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
    """Yield the frames of records in pieces, without copying large records."""
    if not len(data):
        return
    if int(sizes(data).sum()) <= _LARGE * len(data):
        yield frames(data).data
        return
    for item in data:
        yield _header(len(item))
        yield item
        yield masked_crc32c_of_one(np.frombuffer(item, np.uint8)).to_bytes(FOOTER, "little")


def is_framed(frame: bytes | memoryview) -> bool:
    """Check whether bytes are one framed record with two valid CRCs.

    >>> is_framed(frames([b"abc"]).tobytes()), is_framed(bytes(19))
    (True, False)
    """
    size = len(frame) - HEADER - FOOTER
    if size < 0 or frame[:HEADER] != _header(size):
        return False
    crc = masked_crc32c_of_one(np.frombuffer(frame, np.uint8, size, HEADER))
    return crc == int.from_bytes(frame[-FOOTER:], "little")


def frame_headers(lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Build the headers of frames for records of these lengths.

    The result is a uint8 array of shape `(n, HEADER)`.
    """
    octets = lengths.astype("<u8").view(np.uint8).reshape(-1, LENGTH.size)
    return np.hstack([octets, masked_crc32c(octets).astype("<u4").view(np.uint8).reshape(-1, HEADER - LENGTH.size)])


@functools.lru_cache(maxsize=4096)
def _header(size: int) -> bytes:
    return frame_headers(np.array([size])).tobytes()


_TOGETHER = 1 << 22  # bytes to check at a time: more bytes need fewer operations per byte
_COMPILED_FROM = 4096  # mean bytes of a frame above which compiled code is faster without a copy of all frames


def damaged_frames(
    data: NDArray[np.uint8], starts: Places, stops: Places, *, together: int = _TOGETHER
) -> NDArray[np.bool_]:
    """Return the mask of the frames in which the CRC of the length or of the data is wrong.

    >>> frame = np.frombuffer(bytes.fromhex("0300000000000000b099490e6162636e57f121"), np.uint8)
    >>> damaged_frames(frame, np.array([12]), np.array([15]))
    array([False])

    Args:
        data: concatenated frames, uint8.
        starts: offset of the data of each frame.
        stops: end of the data of each frame.
        together: bytes to check at a time.
    """
    damaged = np.zeros(starts.size, bool)
    first = 0
    while first < starts.size:
        most = int(starts[first]) + together
        last = max(first + 1, int(np.searchsorted(stops, most, side="right")))
        here = starts[first:last], stops[first:last]
        large = together if _other is None else _COMPILED_FROM
        if int(here[1][-1] - here[0][0]) > large * (last - first) or not _are_whole(data, *here):
            damaged[first:last] = damaged_one_by_one(data, *here)
        first = last
    return damaged


def _are_whole(data: NDArray[np.uint8], starts: Places, stops: Places) -> bool:
    begin = int(starts[0]) - HEADER
    octets = data[begin : int(stops[-1]) + FOOTER].copy()
    words: NDArray[np.uint32] = np.ndarray((octets.size - FOOTER + 1,), "<u4", octets.data, strides=(1,))
    starts, stops = starts - begin, stops - begin
    for crcs in (starts - FOOTER, stops):
        words[crcs] = unmasked(words[crcs])
    for begins in (starts - HEADER, starts):  # the register starts with ones at each span
        words[begins] ^= np.uint32(_ONES)
    return not register_over(octets)


def damaged_one_by_one(data: NDArray[np.uint8], starts: Places, stops: Places) -> NDArray[np.bool_]:
    """Check the CRCs of frames that need not be adjacent, and return the mask of the damaged frames.

    For adjacent frames, `damaged_frames` gives the same result.
    """

    def stored(places: Places) -> NDArray[np.uint32]:
        return np.ascontiguousarray(data[places[:, None] + np.arange(FOOTER)]).view("<u4").reshape(-1)

    headers = data[starts[:, None] + np.arange(-HEADER, -FOOTER)]
    lengths = masked_crc32c(headers) != stored(starts - FOOTER)
    contents = masked_crc32c_of_spans(data, starts, stops - starts) != stored(stops)
    damaged: NDArray[np.bool_] = np.logical_or(lengths, contents)
    return damaged
