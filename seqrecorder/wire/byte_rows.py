"""Rows of bytes, held as one flat array and the rows' lengths; joined and cut in numpy.

numpy has no copy of ragged rows, so rows are copied as blocks of one width, in ascending order, through views whose
elements overlap: what a block writes beyond the end of its row is overwritten by the row behind it.

That is faster, for short rows, than a matrix compressed by a mask, an index for each byte, or a slice for each row; the
latter wins for rows of kilobytes, where memory is the limit. Rows become `bytes` fastest through `BytesIO.read`, which
copies them twice: large ones are sliced.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_BLOCK = 128
_LARGE_ROW = 4096  # mean bytes from which rows are copied one by one


@attrs.frozen(eq=False)
class Blob(Sequence[bytes]):
    """Rows of bytes, a sequence that makes bytes objects of those that are asked for.

    >>> rows = of_list([b"a", b"bc", b""])
    >>> rows[1], list(rows[1:]), rows[::-1]
    (b'bc', [b'bc', b''], [b'', b'bc', b'a'])

    Attributes:
        data: uint8, the rows one behind the other.
        lengths: int64, bytes of each row.
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
        """Return the rows where they are present, and empty ones elsewhere."""
        return Blob(self.data, _spread_lengths(self.lengths, present))

    def part(self, start: int, stop: int) -> Blob:
        """Return some of the rows, without a copy."""
        first = int(self.lengths[:start].sum())
        lengths = self.lengths[start:stop]
        return Blob(self.data[first : first + int(lengths.sum())], lengths)


@attrs.frozen(eq=False)
class Unjoined:
    """Rows of bytes of which each is in several places still, so that large ones are copied only once, by `joined`.

    Attributes:
        buffers: for each row, bytes and other buffers of bytes, which are to stand one behind the other.
        lengths: int64, bytes of each row.
    """

    buffers: Sequence[Sequence[Any]]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return self.lengths.size

    def spread(self, present: NDArray[np.bool_]) -> Unjoined:
        """Return the rows where they are present, and empty ones elsewhere."""
        buffers = iter(self.buffers)
        rows = [next(buffers) if have else () for have in present.tolist()]
        return Unjoined(rows, _spread_lengths(self.lengths, present))


def _spread_lengths(lengths: NDArray[np.int64], present: NDArray[np.bool_]) -> NDArray[np.int64]:
    spread = np.zeros(present.shape, np.int64)
    spread[present] = lengths
    return spread


def cut(blob: Blob, rows: NDArray[np.int64]) -> list[Blob]:
    """Return the rows from each of these numbers up to the next, without a copy.

    >>> [list(part) for part in cut(of_list([b"a", b"bc", b""]), np.array([0, 1, 3]))]
    [[b'a'], [b'bc', b'']]
    """
    edges = bounds(blob.lengths)[rows].tolist()
    spans = zip(edges, edges[1:], rows.tolist(), rows[1:].tolist(), strict=False)
    return [Blob(blob.data[start:end], blob.lengths[i:j]) for start, end, i, j in spans]


def of_matrix(matrix: NDArray[np.uint8]) -> Blob:
    """Return the rows of a matrix."""
    rows, width = matrix.shape
    return Blob(matrix.reshape(-1), np.full(rows, width, np.int64))


def of_prefixes(matrix: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Blob:
    """Return the first `lengths[i]` bytes of each row of a contiguous matrix."""
    width = matrix.shape[1]
    if not lengths.size or int(lengths.min()) == width:
        return of_matrix(matrix)
    size = int(lengths.sum())
    out = np.empty(size + width, np.uint8)
    _overlapping(out, width)[np.cumsum(lengths) - lengths] = matrix.view(f"V{width}")[:, 0]
    return Blob(out[:size], lengths)


def scattered(data: NDArray[np.uint8], rows: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return a copy of `data` with each row of a contiguous matrix written where it starts."""
    out: NDArray[np.uint8] = data.copy()
    width = rows.shape[1]
    _overlapping(out, width)[starts] = rows.view(f"V{width}")[:, 0]
    return out


def of_list(rows: Sequence[bytes]) -> Blob:
    """Return rows that are bytes objects; a `Blob` is returned as it is."""
    return rows if isinstance(rows, Blob) else Blob(np.frombuffer(b"".join(rows), np.uint8), sizes(rows))


def sizes(rows: Sequence[bytes]) -> NDArray[np.int64]:
    """Return the bytes of each row, int64."""
    return rows.lengths if isinstance(rows, Blob) else np.fromiter(map(len, rows), np.int64, len(rows))


def split_rows(blob: Blob) -> list[bytes]:
    """Return the rows as bytes objects."""
    if blob.data.size > _LARGE_ROW * len(blob):
        return list(map(bytes, _views(blob)))
    return list(map(io.BytesIO(blob.data.tobytes()).read, blob.lengths.tolist()))


def bounds(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Return where rows of these lengths begin, and behind that where the last one ends.

    >>> bounds(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    edges = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=edges[1:])
    return edges


def in_groups(rows: Blob, counts: NDArray[np.int64]) -> Blob:
    """Return rows that are each made of the next `counts[i]` rows."""
    if counts.size == 1:  # of very many rows, whose bounds would take much memory
        return Blob(rows.data, np.array([rows.data.size]))
    return Blob(rows.data, np.diff(bounds(rows.lengths)[bounds(counts)]))


def total_lengths(parts: Sequence[Blob | Unjoined]) -> NDArray[np.int64]:
    """Return the lengths of the rows of all parts, side by side."""
    total: NDArray[np.int64] = parts[0].lengths.copy()
    for part in parts[1:]:
        total += part.lengths
    return total


def interleave(parts: Sequence[Blob]) -> Blob:
    """Return rows made of the rows of all parts, side by side.

    >>> split_rows(interleave([of_list([b"a", b"bcd"]), of_list([b"", b"EF"])]))
    [b'a', b'bcdEF']
    """
    lengths = np.stack([part.lengths for part in parts], 1)
    size = int(lengths.sum())
    if size > _LARGE_ROW * lengths.size:
        data = _copied_one_by_one(parts, lengths, size)
    else:
        data = _copied_in_blocks(parts, lengths, size)
    return Blob(data, total_lengths(parts))  # faster than `lengths.sum(1)`


def joined(parts: Sequence[Blob | Unjoined]) -> Sequence[bytes]:
    """Return what `interleave` does; large rows as bytes objects, which saves a copy of them.

    >>> list(joined([of_list([b"a", b"bcd"]), Unjoined([[b""], [b"E", b"F"]], np.array([0, 2]))]))
    [b'a', b'bcdEF']
    """
    blobs = [part for part in parts if isinstance(part, Blob)]
    if len(blobs) == len(parts) and sum(part.data.size for part in blobs) <= _LARGE_ROW * len(parts[0]) * len(parts):
        return interleave(blobs)
    pieces = [zip(_views(part)) if isinstance(part, Blob) else part.buffers for part in parts]
    return [b"".join(itertools.chain.from_iterable(row)) for row in zip(*pieces, strict=True)]


def _views(blob: Blob) -> list[memoryview]:
    data, ends = np.ascontiguousarray(blob.data).data, np.cumsum(blob.lengths).tolist()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _copied_in_blocks(parts: Sequence[Blob], lengths: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    source = np.concatenate([*[part.data for part in parts], np.zeros(_BLOCK, np.uint8)])
    bases = np.cumsum([0, *[part.data.size for part in parts[:-1]]]).tolist()
    begins = np.stack(
        [np.cumsum(part.lengths) - part.lengths + base for part, base in zip(parts, bases, strict=True)], 1
    ).reshape(-1)
    every = lengths.reshape(-1)
    out = np.empty(size + _BLOCK, np.uint8)
    _copy_blocks(source, begins, out, np.cumsum(every) - every, every)
    return out[:size]


def copied_rows(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], room: int
) -> NDArray[np.uint8]:
    """Return rows that lie in a buffer one behind the other, and so many bytes behind the last one.

    >>> copied_rows(np.arange(200, dtype=np.uint8), np.array([5, 1]), np.array([1, 2]), 128)[:3].tolist()
    [5, 1, 2]

    Args:
        data: uint8, with 128 bytes or more behind the last row.
        starts: where each row begins.
        lengths: bytes of each.
        room: 128 or more; what is in it is not said.
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
    """Copy rows in ascending order of targets, block by block: what one has too much is overwritten by the next row."""
    longest = int(lengths.max(initial=1))
    block = min(_BLOCK, longest)
    if longest > block:
        blocks = (lengths + (block - 1)) // block
        within = (np.arange(int(blocks.sum())) - np.repeat(np.cumsum(blocks) - blocks, blocks)) * block
        begins, targets = np.repeat(begins, blocks) + within, np.repeat(targets, blocks) + within
    _overlapping(out, block)[targets] = _overlapping(source, block)[begins]


def _overlapping(data: NDArray[np.uint8], width: int) -> NDArray[np.void]:
    """Return a view of `width` bytes from every byte on."""
    view: NDArray[np.void] = np.ndarray((data.size - width + 1,), f"V{width}", data.data, strides=(1,))
    return view


def _copied_one_by_one(parts: Sequence[Blob], lengths: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
    out = np.empty(size, np.uint8)
    targets = (np.cumsum(lengths) - lengths.reshape(-1)).reshape(lengths.shape)
    for column, part in enumerate(parts):
        source = np.cumsum(part.lengths) - part.lengths
        view, data = out.data, np.ascontiguousarray(part.data).data
        rows = zip(targets[:, column].tolist(), source.tolist(), part.lengths.tolist(), strict=True)
        for start, begin, length in rows:
            view[start : start + length] = data[begin : begin + length]
    return out
