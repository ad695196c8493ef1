"""Rows of bytes in one flat numpy array, the spans of messages in them, and varints.

numpy cannot copy ragged rows in one call. Rows are therefore copied as blocks of one width, in ascending order, through
views with overlapping elements. A block may write beyond the end of its row; the next row overwrites those bytes.

For short rows, this is faster than a masked matrix, an index per byte, or a slice per row. The fastest way to turn rows
into `bytes` objects is `BytesIO.read`. The modules `read` and `write` define the formats of messages.
"""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from typing_extensions import Self

    Offsets = NDArray[np.int64]
    Flags = NDArray[np.bool_]


_BLOCK = 128  # bytes: maximum width of a block; longer rows are copied in several blocks
_LARGE_ROW = 4096  # mean bytes; larger rows are joined as bytes objects, which saves a copy


@attrs.frozen(eq=False)
class Blob(Sequence[bytes]):
    """Rows of bytes in one array, as a sequence that creates bytes objects on access.

    >>> rows = of_list([b"a", b"bc", b""])
    >>> rows[1], list(rows[1:]), rows[::-1]
    (b'bc', [b'bc', b''], [b'', b'bc', b'a'])

    Attributes:
        data: concatenated rows, uint8.
        lengths: size of each row in bytes, int64.
    """

    data: NDArray[np.uint8]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return self.lengths.size

    def __iter__(self) -> Iterator[bytes]:
        return iter(split_rows(self))

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return self.part(start, stop) if step == 1 else split_rows(self)[index]
        position = range(len(self))[index]
        first = int(self.lengths[:position].sum())
        return self.data[first : first + int(self.lengths[position])].tobytes()

    def spread(self, present: NDArray[np.bool_]) -> Blob:
        """Insert an empty row for each False in `present`."""
        return Blob(self.data, _spread_lengths(self.lengths, present))

    def part(self, start: int, stop: int) -> Blob:
        """Return the rows from `start` to `stop`, without a copy."""
        first = int(self.lengths[:start].sum())
        lengths = self.lengths[start:stop]
        return Blob(self.data[first : first + int(lengths.sum())], lengths)


@attrs.frozen(eq=False)
class Unjoined:
    """Byte rows whose pieces are not joined yet, so that `joined` copies large rows only once.

    Attributes:
        buffers: buffers of each row, to be concatenated.
        lengths: size of each row in bytes, int64.
    """

    buffers: Sequence[Sequence[Any]]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return self.lengths.size

    def spread(self, present: NDArray[np.bool_]) -> Unjoined:
        """Insert an empty row for each False in `present`."""
        buffers = iter(self.buffers)
        rows = [next(buffers) if have else () for have in present.tolist()]
        return Unjoined(rows, _spread_lengths(self.lengths, present))


def _spread_lengths(lengths: NDArray[np.int64], present: NDArray[np.bool_]) -> NDArray[np.int64]:
    spread = np.zeros(present.shape, np.int64)
    spread[present] = lengths
    return spread


def cut(blob: Blob, rows: NDArray[np.int64]) -> list[Blob]:
    """Cut a blob at these row numbers and return the pieces, without copying any bytes.

    >>> [list(part) for part in cut(of_list([b"a", b"bc", b""]), np.array([0, 1, 3]))]
    [[b'a'], [b'bc', b'']]
    """
    edges = bounds(blob.lengths)[rows].tolist()
    spans = zip(edges, edges[1:], rows.tolist(), rows[1:].tolist(), strict=False)
    return [Blob(blob.data[start:end], blob.lengths[i:j]) for start, end, i, j in spans]


def of_matrix(matrix: NDArray[np.uint8]) -> Blob:
    """Return the rows of a matrix as a blob."""
    rows, width = matrix.shape
    return Blob(matrix.reshape(-1), np.full(rows, width, np.int64))


def of_prefixes(matrix: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Blob:
    """Return the first `lengths[i]` bytes of each row i of a contiguous matrix."""
    width = matrix.shape[1]
    if not lengths.size or int(lengths.min()) == width:
        return of_matrix(matrix)
    size = int(lengths.sum())
    out = np.empty(size + width, np.uint8)
    _overlapping(out, width)[np.cumsum(lengths) - lengths] = matrix.view(f"V{width}")[:, 0]
    return Blob(out[:size], lengths)


def scattered(data: NDArray[np.uint8], rows: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Copy `data`, and write row i of a contiguous matrix at offset `starts[i]` of the copy."""
    out: NDArray[np.uint8] = data.copy()
    width = rows.shape[1]
    _overlapping(out, width)[starts] = rows.view(f"V{width}")[:, 0]
    return out


def of_list(rows: Sequence[bytes]) -> Blob:
    """Convert a sequence of bytes objects to a `Blob`; a `Blob` is returned unchanged."""
    return rows if isinstance(rows, Blob) else Blob(np.frombuffer(b"".join(rows), np.uint8), sizes(rows))


def sizes(rows: Sequence[bytes]) -> NDArray[np.int64]:
    """Return the size of each row in bytes, int64."""
    return rows.lengths if isinstance(rows, Blob) else np.fromiter(map(len, rows), np.int64, len(rows))


def split_rows(blob: Blob) -> list[bytes]:
    """Split a blob into one bytes object per row."""
    return list(map(io.BytesIO(blob.data.tobytes()).read, blob.lengths.tolist()))


def bounds(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Compute the offsets at which rows of these lengths begin, followed by the end of the last row.

    >>> bounds(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    edges = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=edges[1:])
    return edges


def in_groups(rows: Blob, counts: NDArray[np.int64]) -> Blob:
    """Concatenate rows in groups: row i of the result joins the next `counts[i]` rows."""
    if counts.size == 1:  # fast path: one record, which may have very many rows
        return Blob(rows.data, np.array([rows.data.size]))
    return Blob(rows.data, np.diff(bounds(rows.lengths)[bounds(counts)]))


def total_lengths(blobs: Sequence[Blob | Unjoined]) -> NDArray[np.int64]:
    """Add the row lengths of several blobs, row by row."""
    total: NDArray[np.int64] = blobs[0].lengths.copy()
    for blob in blobs[1:]:
        total += blob.lengths
    return total


def interleave(blobs: Sequence[Blob]) -> Blob:
    """Concatenate the rows of several blobs, row by row.

    >>> split_rows(interleave([of_list([b"a", b"bcd"]), of_list([b"", b"EF"])]))
    [b'a', b'bcdEF']
    """
    lengths = np.stack([blob.lengths for blob in blobs], 1)
    size = int(lengths.sum())
    data = _copied_in_blocks(blobs, lengths, size)
    return Blob(data, total_lengths(blobs))  # faster than `lengths.sum(1)`


def joined(fields: Sequence[Blob | Unjoined]) -> Sequence[bytes]:
    """Concatenate the rows of several fields, row by row.

    If rows are large, or a field is `Unjoined`, each row is joined as a bytes object, which saves a copy.

    >>> list(joined([of_list([b"a", b"bcd"]), Unjoined([[b""], [b"E", b"F"]], np.array([0, 2]))]))
    [b'a', b'bcdEF']
    """
    blobs = [part for part in fields if isinstance(part, Blob)]
    if len(blobs) == len(fields) and sum(part.data.size for part in blobs) <= _LARGE_ROW * len(fields[0]) * len(fields):
        return interleave(blobs)
    pieces = [zip(_views(part)) if isinstance(part, Blob) else part.buffers for part in fields]
    return [b"".join(itertools.chain.from_iterable(row)) for row in zip(*pieces, strict=True)]


def _views(blob: Blob) -> list[memoryview]:
    data, ends = np.ascontiguousarray(blob.data).data, np.cumsum(blob.lengths).tolist()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _copied_in_blocks(blobs: Sequence[Blob], lengths: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    source = np.concatenate([*[blob.data for blob in blobs], np.zeros(_BLOCK, np.uint8)])
    bases = np.cumsum([0, *[blob.data.size for blob in blobs[:-1]]]).tolist()
    begins = np.stack(
        [np.cumsum(blob.lengths) - blob.lengths + base for blob, base in zip(blobs, bases, strict=True)], 1
    ).reshape(-1)
    every = lengths.reshape(-1)
    out = np.empty(size + _BLOCK, np.uint8)
    _copy_blocks(source, begins, out, np.cumsum(every) - every, every)
    return out[:size]


def copied_rows(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], room: int
) -> NDArray[np.uint8]:
    """Copy rows from a buffer into one array, with `room` additional bytes at the end.

    >>> copied_rows(np.arange(200, dtype=np.uint8), np.array([5, 1]), np.array([1, 2]), 128)[:3].tolist()
    [5, 1, 2]

    Args:
        data: buffer, uint8, with at least 128 bytes after the last row.
        starts: offset of each row.
        lengths: size of each row in bytes.
        room: number of additional bytes, at least 128; their contents are undefined.
    """
    edges = bounds(lengths)
    out = np.empty(int(edges[-1]) + room, np.uint8)
    _copy_blocks(data, starts, out, edges[:-1], lengths)
    return out


def _copy_blocks(
    source: NDArray[np.uint8],
    begins: NDArray[np.int64],
    out: NDArray[np.uint8],
    targets: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Copy rows block by block, in ascending order of their targets.

    A block may write beyond the end of its row; the next row overwrites those bytes.
    """
    longest = int(lengths.max(initial=1))
    block = min(_BLOCK, longest)
    if longest > block:
        blocks = (lengths + (block - 1)) // block
        within = (np.arange(int(blocks.sum())) - np.repeat(np.cumsum(blocks) - blocks, blocks)) * block
        begins, targets = np.repeat(begins, blocks) + within, np.repeat(targets, blocks) + within
    _overlapping(out, block)[targets] = _overlapping(source, block)[begins]


def _overlapping(data: NDArray[np.uint8], width: int) -> NDArray[np.void]:
    """Return a view with one element per offset, which holds the `width` bytes at that offset."""
    view: NDArray[np.void] = np.ndarray((data.size - width + 1,), f"V{width}", data.data, strides=(1,))
    return view


ROOM = 160
"""Number of spare bytes after the last message, since tags, lengths and words are read before offsets are checked."""

WORD = 8

LARGE_SPAN = 1024  # mean bytes; larger spans are copied one by one

MASKS = np.array([(1 << 8 * size) - 1 for size in range(WORD + 1)], np.uint64)


@attrs.frozen(eq=False)
class Spans:
    """Bounds of messages inside a buffer.

    Attributes:
        data: buffer, uint8, with `ROOM` bytes after the last message.
        starts: offset at which each message begins, int64; -1 for a missing message.
        stops: offset at which each message ends, int64.
    """

    data: NDArray[np.uint8]
    starts: Offsets
    stops: Offsets

    def __len__(self) -> int:
        return self.starts.size

    @property
    def sizes(self) -> Offsets:
        """Size of each message in bytes."""
        return self.stops - self.starts

    def take(self, which: Any) -> Self:
        """Select spans, without a copy."""
        return type(self)(self.data, self.starts[which], self.stops[which])

    def joined(self) -> NDArray[np.uint8]:
        """Concatenate the bytes of all spans, with `ROOM` additional bytes at the end.

        The bytes of a single span are not copied.
        """
        sizes = self.sizes
        if sizes.size == 1:
            return self.data[int(self.starts[0]) : int(self.stops[0]) + ROOM]
        if int(sizes.sum()) > LARGE_SPAN * sizes.size:
            view = self.data.data
            pieces = [view[i:j] for i, j in zip(self.starts.tolist(), self.stops.tolist(), strict=True)]
            return np.frombuffer(bytearray().join([*pieces, bytes(ROOM)]), np.uint8)
        return copied_rows(self.data, self.starts, sizes, ROOM)


@attrs.frozen(eq=False)
class Messages(Spans):
    """Bounds of messages in a buffer, none of which is missing.

    In contrast to other `Spans`, no offset in `starts` is -1.
    """

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> Messages:
        """Copy bytes objects into a buffer of messages."""
        edges = bounds(np.fromiter(map(len, rows), np.int64, len(rows)))
        return cls(np.frombuffer(b"".join([*rows, bytes(ROOM)]), np.uint8), edges[:-1], edges[1:])

    @property
    def nbytes(self) -> int:
        """Total size of the messages in bytes."""
        return int(self.sizes.sum())

    def __getitem__(self, number: int) -> bytes:
        return self.data[int(self.starts[number]) : int(self.stops[number])].tobytes()

    def view(self, number: int) -> memoryview:
        """Return a view of a message, without a copy."""
        return self.data[int(self.starts[number]) : int(self.stops[number])].data

    def rows(self) -> list[bytes]:
        """Copy the messages to bytes objects."""
        view = self.data.data
        return [bytes(view[i:j]) for i, j in zip(self.starts.tolist(), self.stops.tolist(), strict=True)]

    @staticmethod
    def together(several: Sequence[Messages]) -> Messages:
        """Concatenate the messages of several buffers."""
        if len(several) == 1:
            return several[0]
        bases = bounds(np.array([one.data.size for one in several]))[:-1].tolist()
        shifted = list(zip(several, bases, strict=True))
        return Messages(
            np.concatenate([np.empty(0, np.uint8), *(one.data for one in several), np.zeros(ROOM, np.uint8)]),
            np.concatenate([np.empty(0, np.int64), *(one.starts + base for one, base in shifted)]),
            np.concatenate([np.empty(0, np.int64), *(one.stops + base for one, base in shifted)]),
        )

    def replaced(self, numbers: Offsets, rows: Sequence[bytes]) -> Messages:
        """Replace the messages at these positions with `rows`."""
        others = Messages.of(rows)
        starts, stops = self.starts.copy(), self.stops.copy()
        starts[numbers], stops[numbers] = others.starts + self.data.size, others.stops + self.data.size
        return Messages(np.concatenate([self.data, others.data]), starts, stops)


def words_of(data: NDArray[np.uint8], size: int = WORD) -> NDArray[Any]:
    """View the bytes at every offset as an unsigned little-endian number.

    All numbers have the same width: 1, 2, 4 or 8 bytes, whichever is the smallest with room for `size` bytes.
    """
    width = next(width for width in (1, 2, 4, WORD) if size <= width)
    view: NDArray[Any] = np.ndarray((data.size - width + 1,), f"<u{width}", data.data, strides=(1,))
    return view


VARINT_BITS = 7
LARGEST_IN_A_BYTE = 0x7F

_WORD = 8  # bytes of a word
_ROW = 16  # bytes: a head has at most 6, a varint at most 10
_CONTINUED = np.uint64(0x8080_8080_8080_8080)
_KNOWN = 1 << 15  # smaller numbers are looked up in a table of varints


@attrs.frozen
class Head:
    """Bytes before each varint, as a little-endian word.

    Attributes:
        size: number of bytes, at most 6.
        constant: the word for an empty varint.
        growing: increase of the word per byte of the varint.
    """

    size: int
    constant: int
    growing: int


BARE = Head(0, 0, 0)


def varint(value: int) -> bytes:
    r"""Encode a non-negative int as a varint.

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
    """Compute the size of the varint of each int64: 1 to 10 bytes, always 10 for negative numbers."""
    return widths(values)[0]


def widths(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Compute the size of the varint of each int64, and the largest size."""
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
    r"""Encode each int64 as a varint, in a row of its own.

    A negative number is encoded as its two's complement.

    >>> list(varints(np.array([1, 300])))
    [b'\x01', b'\xac\x02']

    Args:
        values: numbers, int64 `(N,)`.
        head: bytes before each varint.
    """
    values = np.ascontiguousarray(values, np.int64).reshape(-1)
    largest = int(values.view(np.uint64).max(initial=0))
    if largest <= LARGEST_IN_A_BYTE:
        return of_matrix(_known(head, head.size + 1)[0].take(values, axis=0))
    if largest < _KNOWN:  # a lookup takes half the time
        rows, lengths = _known(head)
        return of_prefixes(rows.take(values, axis=0), lengths.take(values))
    return of_prefixes(*_computed(values, head))


def fill_varints(matrix: NDArray[np.uint8], values: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    """Write each value as a varint at the start of its row.

    The argument `lengths` contains the lengths of the varints. The matrix must be as wide as the longest of them.
    """
    rest = values.view(np.uint64)
    last = matrix.shape[1] - 1
    for column in range(last + 1):
        low = rest.astype(np.uint8)  # the low byte, whose top bit is replaced next
        if column < last:
            low &= 0x7F
            low |= (lengths > column + 1).view(np.uint8) << 7
            rest = rest >> np.uint64(VARINT_BITS)
        matrix[:, column] = low


@functools.cache
def _known(head: Head, width: int = _ROW) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Build lookup tables for the varints of small numbers.

    The first table contains, for each number, a row that begins with the head and the varint. The second contains the
    size of both together. The tables cover the numbers below `_KNOWN`. If `width` is less than `_ROW`, they cover only
    the numbers whose varint is a single byte.
    """
    values = np.arange(_KNOWN if width == _ROW else LARGEST_IN_A_BYTE + 1)
    rows, lengths = _computed(values, head)
    return np.ascontiguousarray(rows[:, :width]), lengths


def _computed(values: NDArray[np.int64], head: Head) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode each value as the head and a varint, at the start of a row.

    The second result contains, for each row, the size of the head and the varint together.
    """
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
    """Encode each value as a varint in a 64-bit word.

    The varints must have at most 8 bytes.
    """
    unsigned = values.view(np.uint64)
    words: NDArray[np.uint64] = unsigned & np.uint64(0x7F)
    for column in range(1, widest):
        words |= (unsigned & np.uint64(0x7F << (VARINT_BITS * column))) << np.uint64(column)
    # The top bit marks every byte of a varint except the last.
    words |= (np.uint64(1) << (np.uint64(8) * (lengths.view(np.uint64) - np.uint64(1)))) - np.uint64(1) & _CONTINUED
    return words


# Decoding -------------------------------------------------------------------------------------------------------------

_NUMBER_BYTES = 10

_TOPS = np.uint64(0x8080_8080_8080_8080)

_LASTS = np.array([int(_TOPS) & ((1 << 8 * max(0, size - 1)) - 1) for size in range(WORD + 1)], np.uint64)
"""Mask of the top bits of all bytes except the last, indexed by the number of bytes of a varint."""
_LONG = 0x80
_GROUPS = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), 1),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), 2),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), 4),
)
"""Steps that merge pairs of 7, 14 and 28-bit groups: mask of the lower group, mask and shift of the upper one."""


def integers(spans: Spans) -> tuple[NDArray[np.int64], Offsets, Flags]:
    """Decode the packed varints in each span.

    Return the int64 numbers of all spans, their count per span, and the mask of the spans with a broken varint.
    """
    data, sizes = spans.data, spans.sizes
    nothing_wrong = np.zeros(sizes.size, bool)
    longest = int(sizes.max(initial=0))
    if sizes.size and int(sizes.min()) >= 1 and longest <= WORD:  # possibly one number per span
        words = words_of(data, longest)[spans.starts]
        if longest > 1:
            words &= MASKS.astype(words.dtype).take(sizes)
        if ((words & _TOPS.astype(words.dtype)) == _LASTS.astype(words.dtype).take(sizes)).all():
            return _compact(words), np.ones(sizes.size, np.int64), nothing_wrong
    octets, edges = spans.joined(), bounds(sizes)
    total = int(edges[-1])
    last = np.flatnonzero(octets[:total] < _LONG)
    filled = np.flatnonzero(sizes)
    is_open = nothing_wrong
    is_open[filled] = octets[edges[1:][filled] - 1] >= _LONG
    if last.size == total:
        return octets[:total].astype(np.int64), sizes, is_open
    counts = np.diff(np.searchsorted(last, edges))
    first = np.append(0, last + 1)[:-1]
    lengths = last - first + 1
    longest = int(lengths.max(initial=1))
    raw = words_of(octets, min(longest, WORD))[first]
    words = _compact(raw & MASKS.astype(raw.dtype)[np.minimum(lengths, WORD)]).view(np.uint64)
    for more in range(WORD, min(longest, _NUMBER_BYTES)):
        longer = np.flatnonzero(lengths > more)
        words[longer] |= (octets[first[longer] + more] & 0x7F).astype(np.uint64) << np.uint64(7 * more)
    too_long = first[lengths > _NUMBER_BYTES]
    is_open[np.searchsorted(edges, too_long, side="right") - 1] = True
    return words.view(np.int64), counts, is_open


def _compact(words: NDArray[Any]) -> NDArray[np.int64]:
    """Decode words of one to eight varint bytes to numbers, by dropping the top bit of each byte."""
    for low, high, shift in _GROUPS[: words.itemsize.bit_length() - 1]:
        moved = words & high.astype(words.dtype)
        moved >>= words.dtype.type(shift)
        words = words & low.astype(words.dtype)
        words |= moved
    return words.astype(np.int64)


FEATURE_TAG = {"bytes": 0x0A, "float": 0x12, "int64": 0x1A}
"""Mapping of each kind of list to its tag in a Feature."""


def feature_header(width: int, kind: str, *, wrapped: bool) -> bytes:
    r"""Encode the header before the values of a feature.

    A bytes feature has a single value, and a float feature has packed values.

    >>> feature_header(4, "float", wrapped=False)
    b'\x12\x06\n\x04'

    Args:
        width: size of the value or values in bytes.
        kind: `bytes` or `float`.
        wrapped: whether to add the header of the Feature itself, as in a FeatureList.
    """
    item = b"\x0a" + varint(width)
    feature = bytes([FEATURE_TAG[kind]]) + varint(len(item) + width) + item
    return b"\x0a" + varint(len(feature) + width) + feature if wrapped else feature
