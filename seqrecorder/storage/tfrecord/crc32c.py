"""CRC-32C (Castagnoli) as TFRecord files hold it, in numpy: of many short rows, or of spans of any length.

A stored CRC is masked: `((crc >> 15) | (crc << 17)) + 0xa282ead8`. Source: tensorflow/core/lib/hash/crc32c.h.

A CRC register is linear over GF(2): spans are cut into blocks, whose registers come from tables, four bytes of each at
a time, and that of a span is the exclusive or of those of its blocks, each moved by as many zeros as bytes follow it.

Long spans are folded first. A multiple of the CRC's polynomial is `x^5685 + x^1362 + x^426 + 1`, and so is what has all
its exponents times a power of two. Hence a byte at the front may be moved to three places behind it, 4323 to 5685 bytes
on or that many times 2, 4, ..., without changing the CRC: plain exclusive ors of long blocks, until a shorter row is
left; and of that until a short one is, by `x^209 + x^144 + x^54 + x^39 + x^14 + 1`. Where the package google-crc32c is
installed, it does all of that instead.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_other: Any = None
_extend: Any = None
with contextlib.suppress(ImportError, RuntimeWarning):  # an optional extra
    _package = importlib.import_module("google_crc32c")
    if _package.implementation == "c":  # else it is slower than what is here
        _other, _extend = _package.value, _package.extend

IS_COMPILED = _other is not None
"""Whether the package of the extra `fast` makes the CRCs."""

_MASK_DELTA = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
_ONES = 0xFFFFFFFF
_OCTETS = 256
_START = 4  # bytes of a span that a register of ones inverts

_FOLDS = ((4323, 5259, 5685), (65, 155, 170, 195, 209))
"""To how many bytes behind its place a byte may be moved: the exponent of each multiple less its smaller ones."""
_LEAST_SCALE = 2
_LONG = 4096  # bytes from which on a span is folded
_BLOCKS = (64, 32)  # bytes; the latter for spans of at most _SHORT, and of fewer than _SMALL as a mean
_BLOCK, _SHORT, _SMALL = _BLOCKS[0], 1024, 96
_GROUP_BYTES = 1 << 20  # of spans that are folded together: they stay in the cache
_PIECE_BYTES = 1 << 22  # of one span that are folded at a time: the longer, the fewer operations a byte
_SPREAD = 1.25  # longest of them over shortest
_LOOKED_UP = 1 << 19  # bytes that are looked up at once, likewise
_LEAST_TABLE = 512
_ROW = 256  # bytes of one span that are looked up as one of several rows: what they are looked up in stays in the cache
_MOST_OF_ONE = 1 << 15


def _crc_table() -> NDArray[np.uint32]:
    table = np.arange(_OCTETS).astype(np.uint32)
    for _ in range(8):
        table = np.where(table & 1 == 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


OCTET_TABLE = _crc_table()
"""The register after each byte, from zero before it."""


def masked_crc32c(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the masked CRC-32C of each row of a uint8 matrix (rows are short: the work is per column).

    >>> rows = np.frombuffer((5).to_bytes(8, "little"), np.uint8)[None]
    >>> hex(masked_crc32c(rows)[0])
    '0x3e04b2ea'
    """
    registers = np.full(rows.shape[0], _ONES, np.uint32)
    rows = np.ascontiguousarray(rows)
    pairs = rows.shape[1] // 2
    if pairs:
        table = _table_of_pairs()
        for column in np.ascontiguousarray(rows[:, : 2 * pairs].reshape(-1, pairs, 2).view("<u2")[..., 0].T):
            registers = table.take((registers & np.uint32(0xFFFF)) ^ column) ^ (registers >> np.uint32(16))
    for column in rows[:, 2 * pairs :].T:
        registers = OCTET_TABLE[(registers ^ column) & 0xFF] ^ (registers >> np.uint32(8))
    return _masked(registers)


def masked_crc32c_of_spans(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return the masked CRC-32C of each span of a buffer.

    >>> spans = np.array([0, 3]), np.array([3, 0])
    >>> [hex(crc) for crc in masked_crc32c_of_spans(np.frombuffer(b"abc", np.uint8), *spans)]
    ['0x21f1576e', '0xa282ead8']

    Args:
        data: the buffer, uint8.
        starts: where each span begins.
        lengths: its bytes; spans may overlap.
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
    """Return the masked CRC-32C of some bytes, in less time than of many spans.

    >>> hex(masked_crc32c_of_one(np.frombuffer(b"abc", np.uint8)))
    '0x21f1576e'
    """
    if _other is not None:
        return _masked_int(_other(np.ascontiguousarray(octets)))
    size = octets.size
    if not _START <= size < _MOST_OF_ONE:
        return int(masked_crc32c_of_spans(octets, np.zeros(1, np.int64), np.array([size]))[0])
    count = -(-size // _ROW)
    rows = np.zeros(count * _ROW, np.uint8)  # zeros before a span change nothing
    rows[-size:] = octets
    rows[-size:][:_START] ^= np.uint8(_OCTETS - 1)
    entries = rows.reshape(count, _ROW) + _descending()
    first: int
    first, *rest = np.bitwise_xor.reduce(_table(_ROW).take(entries), axis=1).tolist()
    one, two, three, four = _behind_row()
    for row in rest:  # each register goes on over the zeros of a row
        first = row ^ one[first & 255] ^ two[first >> 8 & 255] ^ three[first >> 16 & 255] ^ four[first >> 24]
    return _masked_int(first ^ _ONES)


def _masked_int(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _ONES


def register_over(octets: NDArray[np.uint8]) -> int:
    """Return the register after some bytes, from zero before them; they may be overwritten.

    >>> register_over(np.zeros(5, np.uint8))
    0
    """
    if _extend is not None:
        return int(_extend(_ONES, octets)) ^ _ONES
    rest = _folded(octets[None])[0]
    table = _table(_width(rest.size))
    return int(np.bitwise_xor.reduce(table.take(rest + _OCTETS * np.arange(rest.size)[::-1])))


def unmasked(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the registers that masked CRCs were made of.

    >>> hex(unmasked(np.array([0x3E04B2EA], np.uint32))[0])
    '0x1bf6b23f'
    """
    rotated = crcs - np.uint32(_MASK_DELTA)
    return np.asarray(((rotated >> 17) | (rotated << 15)) ^ np.uint32(_ONES), np.uint32)


@functools.cache
def _descending() -> NDArray[np.int64]:
    """Return 256 times how many bytes follow each of a row."""
    return _OCTETS * np.arange(_ROW)[::-1]


@functools.cache
def _behind_row() -> list[list[int]]:
    """Return what becomes of each byte of a register, the lowest first, over as many zeros as a row has bytes."""
    table = _table(_ROW).reshape(-1, _OCTETS)
    return [table[_ROW - 1 - byte].tolist() for byte in range(_START)]


def _masked(registers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the masked CRC of each register."""
    crc = registers ^ np.uint32(_ONES)
    masked: NDArray[np.uint32] = np.asarray(((crc >> 15) | (crc << 17)) + np.uint32(_MASK_DELTA), np.uint32)
    return masked


@functools.cache
def _table_of_pairs() -> NDArray[np.uint32]:
    """Return the register after each pair of bytes, from zero before it."""
    first = np.tile(OCTET_TABLE, _OCTETS)  # of the byte that is lower, and so comes first
    second = np.repeat(np.arange(_OCTETS, dtype=np.uint32), _OCTETS)
    return np.asarray(OCTET_TABLE[(first ^ second) & 0xFF] ^ (first >> np.uint32(8)), np.uint32)


# Short spans ----------------------------------------------------------------------------------------------------------


def _of_short(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the register after each span."""
    out = np.empty(lengths.size, np.uint32)
    parts = np.cumsum(lengths + _BLOCK) // _LOOKED_UP
    cuts = (np.flatnonzero(np.diff(parts)) + 1).tolist()
    for first, last in itertools.pairwise([0, *cuts, lengths.size]):
        out[first:last] = _looked_up(data, starts[first:last], lengths[first:last])
    return out ^ _after_ones(_width(int(lengths.max())))[lengths]


def _looked_up(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the register after each span, from zero before it.

    A span is cut into blocks from its end on, before which zeros are put, as these change nothing.
    """
    longest = int(lengths.max(initial=0))
    block = _BLOCKS[longest <= _SHORT and int(lengths.sum()) < _SMALL * lengths.size]
    counts = np.maximum((lengths + (block - 1)) // block, 1)
    ends = np.cumsum(counts)
    behind = np.repeat(ends - 1, counts) - np.arange(int(ends[-1]))  # blocks
    places = np.repeat(starts + lengths, counts) - block * (behind + 1)
    if int(places[0]) < 0 or int(places.min()) < 0:
        low, high = max(0, int(starts.min())), int((starts + lengths).max())
        data = np.concatenate([np.zeros(block, np.uint8), data[low:high]])
        places += block - low
    items: NDArray[np.void] = np.ndarray((data.size - block + 1,), f"V{block}", data.data, strides=(1,))
    blocks = items[places]
    firsts = ends - counts
    kept = _after_zeros(block).take(counts * block - lengths)
    blocks[firsts] = (blocks[firsts].view("<u8") & kept.view("<u8")).view(blocks.dtype)
    registers = _of_rows(blocks.view("<u4").reshape(-1, block // 4))
    if longest <= block:
        return registers
    more = np.flatnonzero(behind)
    octets = registers[more].view(np.uint8).reshape(-1, _START)
    places = behind[more] * (_START * _OCTETS)
    table, moved = _moved(block), np.zeros(more.size, np.uint32)
    for number in range(_START):
        moved ^= table.take(places + (octets[:, number] + np.int64(number * _OCTETS)))
    registers[more] = moved
    return np.bitwise_xor.reduceat(registers, firsts)


def _of_rows(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the register after each row of a matrix of words, from zero before it."""
    first, last = _first_pairs(), _table_of_pairs()
    registers = np.zeros(len(words), np.uint32)
    for column in words.T:
        word = column ^ registers
        registers = first.take((word & np.uint32(0xFFFF)).astype(np.int64))  # numpy converts others more slowly
        registers ^= last.take((word >> np.uint32(16)).astype(np.int64))
    return registers


@functools.cache
def _first_pairs() -> NDArray[np.uint32]:
    """Return the register after each pair of bytes with two zeros behind it."""
    return _with_zeros(_table_of_pairs(), 2)


def _with_zeros(registers: NDArray[np.uint32], count: int) -> NDArray[np.uint32]:
    for _ in range(count):
        registers = OCTET_TABLE[registers & 0xFF] ^ (registers >> np.uint32(8))
    return registers


@functools.cache
def _moved(block: int) -> NDArray[np.uint32]:
    """Return what each byte of a register becomes by so many blocks of zeros: `(blocks, 4, 256)`, flat."""
    octets = np.arange(_OCTETS, dtype=np.uint32)
    table = np.empty((_LONG // _BLOCK, _START, _OCTETS), np.uint32)
    table[0] = octets << (8 * np.arange(_START, dtype=np.uint32))[:, None]
    table[1] = _with_zeros(table[0], block)
    for number in range(2, len(table)):
        before = table[number - 1]
        table[number] = 0
        for place in range(_START):
            table[number] ^= table[1, place][(before >> np.uint32(8 * place)) & 0xFF]
    return table.reshape(-1)


@functools.cache
def _after_zeros(block: int) -> NDArray[np.void]:
    """Return masks of a block that leave nothing of its first bytes, by how many they are."""
    masks = np.where(np.arange(block) < np.arange(block + 1)[:, None], 0, _OCTETS - 1).astype(np.uint8)
    return masks.view(f"V{block}")[:, 0]


@functools.cache
def _after_ones(width: int) -> NDArray[np.uint32]:
    """Return the registers of up to `width` zeros after ones."""
    table, found = OCTET_TABLE.tolist(), [_ONES]
    for _ in range(width):
        found.append(table[found[-1] & 0xFF] ^ (found[-1] >> 8))
    return np.array(found, np.uint32)


def _width(longest: int) -> int:
    return max(_LEAST_TABLE, 1 << (longest - 1).bit_length() if longest else 0)


@functools.cache
def _table(width: int) -> NDArray[np.uint32]:
    """Return the registers of each byte with up to `width - 1` zeros behind."""
    table = np.empty((width, _OCTETS), np.uint32)
    table[0] = OCTET_TABLE
    for zeros in range(1, width):
        table[zeros] = _with_zeros(table[zeros - 1], 1)
    return table.reshape(-1)


# Long spans -----------------------------------------------------------------------------------------------------------


def _groups(numbers: NDArray[np.int64], lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield spans that are folded together: about equally long ones."""
    numbers = numbers[np.argsort(lengths[numbers], kind="stable")]
    sizes = lengths[numbers]
    first = 0
    while first < numbers.size:
        most = int(np.searchsorted(sizes, sizes[first] * _SPREAD, side="right"))
        last = min(most, first + max(1, _GROUP_BYTES // int(sizes[first])))
        yield numbers[first:last]
        first = last


def _of_long(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the register after each span."""
    width = int(lengths.max())
    rest = np.zeros((lengths.size, 0), np.uint8)
    # Very long ones are folded piece by piece, behind what is left of those before.
    for first in range(0, width, _PIECE_BYTES):
        last = min(width, first + _PIECE_BYTES)
        before = rest.shape[1]
        rows = np.empty((lengths.size, before + last - first), np.uint8)
        rows[:, :before] = rest
        for row, begin, length in zip(rows, (starts + lengths - width).tolist(), lengths.tolist(), strict=True):
            start = max(first, width - length)
            row[before : before + start - first] = 0  # before a span zeros change nothing
            row[before + start - first :] = data[begin + start : begin + last]
            if start == width - length:
                row[before + start - first :][:_START] ^= np.uint8(_OCTETS - 1)
        rest = _folded(rows)
    entries = rest + _OCTETS * np.arange(rest.shape[1], dtype=np.int32)[::-1]
    registers: NDArray[np.uint32] = np.bitwise_xor.reduce(_table(_width(rest.shape[1])).take(entries), axis=1)
    return registers


def _folded(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the ends of rows, after all before them was moved there."""
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
