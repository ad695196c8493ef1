r"""Base-128 varints (https://protobuf.dev/programming-guides/encoding), of one number and of many at once in numpy.

Each varint is made at the end of a row of 16 bytes, behind what always stands before it, and the rows are then put
together. Rows of small numbers are looked up: token ids, labels and counts are small, and a table holds the rows of all
below 32,768.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.wire.byte_rows import Blob, bounds, of_matrix, of_prefixes
from seqrecorder.wire.spans import LARGE_SPAN, MASKS, WORD, Spans, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Flags = NDArray[np.bool_]


VARINT_BITS = 7
LARGEST_IN_A_BYTE = 0x7F

_WORD = 8  # bytes
_ROW = 16  # bytes: the longest varint has 10, and what stands before it at most 6
_CONTINUED = np.uint64(0x8080_8080_8080_8080)
_ITEM = f"V{_ROW}"  # rows as items, which are placed five times as fast as rows of a matrix
_KNOWN = 1 << 15
_MANY = 1 << 20


@attrs.frozen
class Head:
    """What stands before each varint, in ascending bytes of a word.

    Attributes:
        size: bytes, at most 6.
        constant: what it is for a varint of no bytes.
        growing: what is added to it for each byte of the varint.
    """

    size: int
    constant: int
    growing: int


BARE = Head(0, 0, 0)


def varint(value: int) -> bytes:
    r"""Return a non-negative int as a varint.

    >>> varint(300)
    b'\xac\x02'
    """
    out = bytearray()
    while value > LARGEST_IN_A_BYTE:
        out.append(value & 0x7F | 0x80)
        value >>= VARINT_BITS
    out.append(value)
    return bytes(out)


def varint_lengths(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many bytes the varint of each int64 takes: 1 to 10, negative ones 10."""
    return widths(values)[0]


def widths(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return how many bytes the varint of each int64 takes, and the most of them."""
    unsigned = values.view(np.uint64)
    lengths = np.ones(values.shape, np.int64)
    if not values.size:
        return lengths, 1
    largest, widest, bound = int(unsigned.max()), 1, 1 << VARINT_BITS
    while largest >= bound:
        lengths += unsigned >= np.uint64(bound)
        widest += 1
        bound <<= VARINT_BITS
    return lengths, widest


def varints(values: NDArray[np.int64], head: Head = BARE) -> Blob:
    r"""Return each int64 as a varint of its two's complement, one to a row.

    >>> list(varints(np.array([1, 300])))
    [b'\x01', b'\xac\x02']

    Args:
        values: int64, of shape `(N,)`.
        head: what stands before each.
    """
    values = np.ascontiguousarray(values, np.int64).reshape(-1)
    return _varints(values, head) if values.size <= _MANY else _in_parts(values, head)


def _in_parts(values: NDArray[np.int64], head: Head) -> Blob:
    """Return varints of many values, part by part: their rows take 16 bytes each, whatever comes of them."""
    starts = range(0, values.size, _MANY)
    total = sum(int(widths(values[start : start + _MANY])[0].sum()) for start in starts) + head.size * values.size
    data, lengths, stop = np.empty(total, np.uint8), np.empty(values.size, np.int64), 0
    for start in starts:
        part = _varints(values[start : start + _MANY], head)
        data[stop : stop + part.data.size] = part.data
        lengths[start : start + _MANY] = part.lengths
        stop += part.data.size
    return Blob(data, lengths)


def _varints(values: NDArray[np.int64], head: Head) -> Blob:
    unsigned = values.view(np.uint64)
    largest = int(unsigned.max(initial=0))
    if largest <= LARGEST_IN_A_BYTE:
        return of_matrix(_known(head, head.size + 1)[0].take(values, axis=0))
    if largest < _KNOWN:
        rows, lengths = _known(head)
        return of_prefixes(rows.take(values, axis=0), lengths.take(values))
    large = np.flatnonzero(unsigned >= np.uint64(_KNOWN))
    if 2 * large.size > values.size:
        return of_prefixes(*_computed(values, head))
    known, known_lengths = _known(head)
    # Those that are too large take the last row, and then their own.
    rows, lengths = known.take(values, axis=0, mode="clip"), known_lengths.take(values, mode="clip")
    others, lengths[large] = _computed(values[large], head)
    rows.view(_ITEM)[large] = others.view(_ITEM)
    return of_prefixes(rows, lengths)


def fill_varints(matrix: NDArray[np.uint8], values: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    """Write each varint, of known length, to the beginning of a row that is as wide as the longest, or wider."""
    rest = values.view(np.uint64)
    last = matrix.shape[1] - 1
    for column in range(last + 1):
        low = rest.astype(np.uint8)  # the low byte; its top bit is replaced next
        if column < last:
            low &= 0x7F
            low |= (lengths > column + 1).view(np.uint8) << 7
            rest = rest >> np.uint64(VARINT_BITS)
        matrix[:, column] = low


@functools.cache
def _known(head: Head, width: int = _ROW) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the rows of all ints that are small, and their lengths; or the first bytes of those of one byte."""
    values = np.arange(_KNOWN if width == _ROW else LARGEST_IN_A_BYTE + 1)
    rows, lengths = _computed(values, head)
    return np.ascontiguousarray(rows[:, :width]), lengths


def _computed(values: NDArray[np.int64], head: Head) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return rows that begin with head and varint, and how many bytes these have."""
    lengths, widest = widths(values)
    before = lengths.view(np.uint64) * np.uint64(head.growing) + np.uint64(head.constant)
    words = np.zeros((values.size, _ROW // _WORD), "<u8")
    if widest > _WORD:
        words[:, 0] = before
        rows = words.view(np.uint8)
        fill_varints(rows[:, head.size : head.size + widest], values, lengths)
    else:
        varint_bytes = _words(values, lengths, widest)
        words[:, 0] = before | varint_bytes << np.uint64(8 * head.size)
        if head.size + widest > _WORD:
            words[:, 1] = varint_bytes >> np.uint64(8 * (_WORD - head.size))
        rows = words.view(np.uint8)
    return rows, lengths + head.size


def _words(values: NDArray[np.int64], lengths: NDArray[np.int64], widest: int) -> NDArray[np.uint64]:
    """Return the varints of values that take at most 8 bytes, each in one word."""
    unsigned = values.view(np.uint64)
    words: NDArray[np.uint64] = unsigned & np.uint64(0x7F)
    for column in range(1, widest):
        words |= (unsigned & np.uint64(0x7F << (VARINT_BITS * column))) << np.uint64(column)
    # All bytes but the last say that more follow.
    words |= (np.uint64(1) << (np.uint64(8) * (lengths.view(np.uint64) - np.uint64(1)))) - np.uint64(1) & _CONTINUED
    return words


# Back from bytes ------------------------------------------------------------------------------------------------------

_NUMBER_BYTES = 10

_PIECE = 1 << 20  # bytes

_TOPS = np.uint64(0x8080_8080_8080_8080)

_LASTS = np.array([int(_TOPS) & ((1 << 8 * max(0, size - 1)) - 1) for size in range(WORD + 1)], np.uint64)
"""By the bytes of a number, the top bits of all of them but the last."""
_LONG = 0x80
_GROUPS = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), 1),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), 2),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), 4),
)
"""Neighbours of groups of seven bits, then of fourteen and of twenty-eight, and by how much the second one moves."""


def integers(spans: Spans) -> tuple[NDArray[np.int64], Places, Flags]:
    """Return the int64 numbers of packed varints, how many each span holds, and which does not end with one."""
    data, sizes = spans.data, spans.sizes
    nothing_wrong = np.zeros(sizes.size, bool)
    longest = int(sizes.max(initial=0))
    if sizes.size and int(sizes.min()) >= 1 and longest <= WORD:  # perhaps one number each
        words = words_of(data, longest)[spans.starts]
        if longest > 1:
            words &= MASKS.astype(words.dtype).take(sizes)
        if ((words & _TOPS.astype(words.dtype)) == _LASTS.astype(words.dtype).take(sizes)).all():
            return _compact(words), np.ones(sizes.size, np.int64), nothing_wrong
    octets, edges = spans.joined(), bounds(sizes)
    total = int(edges[-1])
    ends = octets[:total] < _LONG
    is_open = nothing_wrong
    filled = np.flatnonzero(sizes)
    is_open[filled] = ~ends[edges[1:][filled] - 1]
    if ends.all():
        return octets[:total].astype(np.int64), sizes, is_open
    counts = np.zeros(sizes.size, np.int64)
    if total > _PIECE + LARGE_SPAN * sizes.size:
        counts[:] = [np.count_nonzero(ends[i:j]) for i, j in itertools.pairwise(edges.tolist())]
    else:
        counts[filled] = np.add.reduceat(ends, edges[:-1][filled], dtype=np.int64)
    values = np.empty(int(counts.sum()), np.uint64)
    done = place = 0
    while done < values.size:  # in pieces, so that what that takes stays in the cache
        last = np.flatnonzero(ends[place : place + _PIECE]) + place
        if not last.size:  # as many bytes without an end are no number
            last = np.array([place + int(ends[place:].argmax())])
        first = np.concatenate([[place], last[:-1] + 1])
        lengths = last - first + 1
        longest = int(lengths.max())
        some = words_of(octets, min(longest, WORD))[first]
        words = _compact(some & MASKS.astype(some.dtype)[np.minimum(lengths, WORD)]).view(np.uint64)
        for more in range(WORD, min(longest, _NUMBER_BYTES)):
            longer = np.flatnonzero(lengths > more)
            words[longer] |= (octets[first[longer] + more] & 0x7F).astype(np.uint64) << np.uint64(7 * more)
        too_long = first[lengths > _NUMBER_BYTES]
        is_open[np.searchsorted(edges, too_long, side="right") - 1] = True
        values[done : done + last.size] = words
        done, place = done + last.size, int(last[-1]) + 1
    return values.view(np.int64), counts, is_open


def _compact(words: NDArray[Any]) -> NDArray[np.int64]:
    """Return the numbers in words of one to eight groups of seven bits, each under a top bit."""
    for low, high, shift in _GROUPS[: words.itemsize.bit_length() - 1]:
        moved = words & high.astype(words.dtype)
        moved >>= words.dtype.type(shift)
        words = words & low.astype(words.dtype)
        words |= moved
    return words.astype(np.int64)
