"""Pieces: as many records as are encoded best at once, of a list of records or of columns.

A piece should stay in the processor's cache: 20,000 records of 900 bytes took 61 ms in pieces and 77 ms as a whole, 128
of 1.2 MB 137 and 170 ms, later 38 in pieces of 8 MiB and 42 of 4. Short records want many in one: 16,384 encode nine
times faster than 64.

How many records fit is told from some of them. To ask all took a quarter of the time of encoding records of 25 texts,
and a tenth of that of numbers; to gather 1,024 at a time, whose bytes are known then, and join them, a tenth of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.columns import Column
from seqrecorder.rows import bounds
from seqrecorder.rows import cut as cut_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

PIECE_RECORDS = 16384
PIECE_BYTES = 8 << 20
_SAMPLE = 64  # records, evenly spaced: no 256 large ones one behind the other are overlooked
_SLACK = 2  # a sample errs


def parts(records: Sequence[Any], size_of: Callable[[Sequence[Any]], int]) -> Iterator[Sequence[Any]]:
    """Yield the records that are encoded at once, one part behind the other.

    >>> [len(part) for part in parts([b"x"] * 40_000, lambda part: sum(map(len, part)))]
    [16384, 16384, 7232]

    Args:
        records: records that are in memory as a whole.
        size_of: says how many bytes some of them take.
    """
    start = 0
    while start < len(records):
        part = records[start : start + PIECE_RECORDS]
        while (fitting := _fitting(part, size_of)) < len(part):
            part = part[:fitting]
        yield part
        start += len(part)


def _fitting(part: Sequence[Any], size_of: Callable[[Sequence[Any]], int]) -> int:
    """Return how many of some records to take at once, which is all of them if they take about as much as a piece."""
    sample = part[:: -(-len(part) // _SAMPLE)]
    fitting = max(1, PIECE_BYTES * len(sample) // max(1, size_of(sample)))
    return fitting if fitting * _SLACK < len(part) else len(part)


def cut(columns: Mapping[str, Column], size: int) -> Iterator[tuple[int, dict[str, Column]]]:
    """Yield how many records the next piece of larger columns has, and its columns; arrays are views.

    Args:
        columns: the columns.
        size: how many records they are of.
    """
    most = max(1, min(PIECE_RECORDS, PIECE_BYTES * size // max(1, bytes_of(columns))))
    rows = np.minimum(np.arange(0, size + most, most), size)
    pieces = {name: _cut(column, rows) for name, column in columns.items()}
    for number, count in enumerate(np.diff(rows).tolist()):
        yield count, {name: piece[number] for name, piece in pieces.items()}


def bytes_of(columns: Mapping[str, Column]) -> int:
    """Return about how many bytes the values of columns take."""
    total = 0
    for column in columns.values():
        total += column.values.nbytes
        if column.features is not None and column.values.dtype == object:
            total += column.features.data.size
        elif column.values.dtype == object and column.values.size:
            texts = column.values.reshape(-1).tolist()
            total += len(type(texts[0])().join(texts))  # three times as fast as to ask each
    return total


def _cut(column: Column, rows: NDArray[np.int64]) -> list[Column]:
    """Return the column cut at the records of these numbers."""
    at: dict[str, NDArray[np.int64]] = {"present": rows}
    inner = rows if column.present is None else bounds(column.present)[rows]
    for name in ("steps", "counts"):
        lengths = getattr(column, name)
        if lengths is not None:
            at[name] = inner
            inner = bounds(lengths)[inner]
    at["indices"] = at["values"] = inner
    arrays = {name: getattr(column, name) for name in at}
    pieces = [
        Column(**{name: array[at[name][i] : at[name][i + 1]] for name, array in arrays.items() if array is not None})
        for i in range(rows.size - 1)
    ]
    if column.features is None:
        return pieces
    features = cut_rows(column.features, inner)  # one of each value
    return [attrs.evolve(piece, features=part) for piece, part in zip(pieces, features, strict=True)]
