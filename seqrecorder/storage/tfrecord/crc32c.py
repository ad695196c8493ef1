"""CRC-32C (Castagnoli) as TFRecord files hold it, in numpy: of many short rows, or of spans of any length.

A stored CRC is masked: `((crc >> 15) | (crc << 17)) + 0xa282ead8`. Source: tensorflow/core/lib/hash/crc32c.h.
TensorFlow checks CRCs while it reads; what looks for whole records in a damaged file must check them before.

A CRC register is linear over GF(2): zero bytes in front of a message leave a register of zero as it is, and the
register of two messages, one after the other, is the first one's shifted by the second one's length, plus the second
one's. So spans are cut into rows of equal width, all rows advance together, a column at a time, and neighbours are
joined pairwise. Where the package google-crc32c is installed, it does that instead.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_other: Any = None
with contextlib.suppress(ImportError):  # an optional extra
    _other = importlib.import_module("google_crc32c").value

_MASK_DELTA = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
_ONES = 0xFFFFFFFF
_WIDTHS = (16, 64, 256)
_PIECE = 4 << 20


def _crc_table() -> NDArray[np.uint32]:
    table = np.arange(256).astype(np.uint32)
    for _ in range(8):
        table = np.where(table & 1 == 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


OCTET_TABLE = _crc_table()
"""The register after each byte, from zero before it."""

_OCTETS = 256
_LONG = 64  # mean bytes of spans that are copied one by one


def masked_crc32c(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the masked CRC-32C of each row of a uint8 matrix (rows are short: the work is per column).

    >>> rows = np.frombuffer((5).to_bytes(8, "little"), np.uint8)[None]
    >>> hex(masked_crc32c(rows)[0])
    '0x3e04b2ea'
    """
    return mask(_advance(rows, _ONES))


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
        pieces = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        crcs = np.fromiter((_other(data[start:end].tobytes()) for start, end in pieces), np.uint32, lengths.size)
        return mask(crcs ^ np.uint32(_ONES))
    registers = np.zeros(lengths.size, np.uint32)
    done = np.zeros(lengths.size, np.int64)
    # In pieces, so that what is gathered at a time stays small however long a span is.
    while (left := lengths - done).any():
        take = np.minimum(left, _PIECE)
        ends = np.cumsum(take)
        part = np.flatnonzero((take > 0) & (ends - take < ends[0] + _PIECE))
        joined = _registers(data, starts[part] + done[part], take[part])
        registers[part] = _shift(registers[part], take[part]) ^ joined
        done[part] += take[part]
    start = _shift(np.full(lengths.size, _ONES, np.uint32), lengths)
    return mask(registers ^ start)


def mask(registers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the masked CRC of each register."""
    crc = registers ^ np.uint32(_ONES)
    masked: NDArray[np.uint32] = np.asarray(((crc >> 15) | (crc << 17)) + np.uint32(_MASK_DELTA), np.uint32)
    return masked


def _advance(rows: NDArray[np.uint8], register: int) -> NDArray[np.uint32]:
    """Return the register after each row, from the same register before it."""
    registers = np.full(rows.shape[0], register, np.uint32)
    rows = np.ascontiguousarray(rows)
    pairs = rows.shape[1] // 2
    if pairs:
        table = _table_of_pairs()
        for column in np.ascontiguousarray(rows[:, : 2 * pairs].reshape(-1, pairs, 2).view("<u2")[..., 0].T):
            registers = table.take((registers & np.uint32(0xFFFF)) ^ column) ^ (registers >> np.uint32(16))
    for column in rows[:, 2 * pairs :].T:
        registers = OCTET_TABLE[(registers ^ column) & 0xFF] ^ (registers >> np.uint32(8))
    return registers


@functools.cache
def _table_of_pairs() -> NDArray[np.uint32]:
    """Return the register after each pair of bytes, from zero before it."""
    first = np.tile(OCTET_TABLE, _OCTETS)  # of the byte that is lower, and so comes first
    second = np.repeat(np.arange(_OCTETS, dtype=np.uint32), _OCTETS)
    return np.asarray(OCTET_TABLE[(first ^ second) & 0xFF] ^ (first >> np.uint32(8)), np.uint32)


def _registers(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the register after each span, from zero before it."""
    mean = int(lengths.mean()) if lengths.size else 0
    width = next((width for width in _WIDTHS if width >= mean), _WIDTHS[-1])
    counts = -(-lengths // width)
    ends = np.cumsum(counts) * width
    # Each span stands at the end of its rows, with zeros before it.
    padded = np.zeros(int(counts.sum()) * width, np.uint8)
    if mean >= _LONG:
        for start, length, end in zip(starts.tolist(), lengths.tolist(), ends.tolist(), strict=True):
            padded[end - length : end] = data[start : start + length]
    else:
        target = np.repeat(ends - np.cumsum(lengths), lengths) + np.arange(int(lengths.sum()))
        source = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
        padded[target] = data[source]
    registers = _advance(padded.reshape(-1, width), 0)
    power = width.bit_length() - 1
    while (counts > 1).any():
        registers, counts = _joined(registers, counts, power)
        power += 1
    result = np.zeros(lengths.size, np.uint32)
    result[counts == 1] = registers
    return result


def _joined(
    registers: NDArray[np.uint32], counts: NDArray[np.int64], power: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Join neighbours, each of 2^power bytes, of every span; a span of an odd number begins with zeros."""
    halves = (counts + 1) // 2
    places = np.repeat(np.cumsum(2 * halves) - np.cumsum(counts), counts) + np.arange(registers.size)
    even = np.zeros(2 * int(halves.sum()), np.uint32)
    even[places] = registers
    return _apply(_operator(power), even[::2]) ^ even[1::2], halves


def _shift(registers: NDArray[np.uint32], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return each register after as many zero bytes."""
    power, left = 0, lengths.copy()
    while left.any():
        registers = np.where(left & 1 == 1, _apply(_operator(power), registers), registers)
        left >>= 1
        power += 1
    return registers


@functools.cache
def _operator(power: int) -> NDArray[np.uint32]:
    """Return what 2^power zero bytes make of a register, as a table of four times 256."""
    single = np.uint32(1) << np.arange(32, dtype=np.uint32)
    if power == 0:
        columns = OCTET_TABLE[single & 0xFF] ^ (single >> 8)
    else:
        half = _operator(power - 1)
        columns = _apply(half, _apply(half, single))
    table = np.zeros((4, 256), np.uint32)
    for bit in range(32):
        table[bit // 8] ^= np.where(np.arange(256) >> (bit % 8) & 1 == 1, columns[bit], 0).astype(np.uint32)
    return table


def _apply(table: NDArray[np.uint32], registers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    result: NDArray[np.uint32] = (
        table[0][registers & 0xFF]
        ^ table[1][(registers >> 8) & 0xFF]
        ^ table[2][(registers >> 16) & 0xFF]
        ^ table[3][registers >> 24]
    )
    return result
