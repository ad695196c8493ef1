"""The numbers of many packed messages at once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.wire.byte_rows import bounds
from seqrecorder.wire.spans import LARGE_SPAN, MASKS, WORD, Spans, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Flags = NDArray[np.bool_]


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
