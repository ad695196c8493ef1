"""Pieces: how large records are, and how many of a list, or of columns, are encoded at once.

A piece should stay in the processor's cache, and in memory that the process holds already: new pages cost time, and the
process may hold few, since protobuf (upb) has the C library give all free memory back after every so many messages.
Large records want large pieces, for which numpy asks for huge pages. Short records want many in one.

All records are sized before they are encoded: a sample can miss the few large ones that make a piece of gigabytes. It
must not cost more than encoding them, so fields are asked by `map`, without an expression of Python for each record. Of
texts in lists there are many: their size is told from those of some records.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import Column
from seqrecorder.schema.conversion import SparseVector
from seqrecorder.wire.byte_rows import bounds
from seqrecorder.wire.byte_rows import cut as cut_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

PIECE_RECORDS = 16384
PIECE_BYTES = 6 << 20
_MANY_RECORDS, _MANY_BYTES = 2048, 1 << 20  # where a piece has both, it is large enough
_BLOCK_RECORDS = 1024  # sized at once, as far as the bytes of those before allow
_BLOCKS = 4
_GROWTH = 16

_SCALAR = 8
_SAMPLE = 16  # arrays of a block
_nbytes, _elements = attrgetter("nbytes"), attrgetter("size")

# Raised by what is not in the form that records hold, or is None.
_UNEXPECTED = (AttributeError, TypeError, ValueError)


# Cutting --------------------------------------------------------------------------------------------------------------


def parts(records: Sequence[Any], size_of: Callable[[Sequence[Any]], int]) -> Iterator[int]:
    """Yield how many records are encoded at once, one part behind the other.

    >>> list(parts([b"x"] * 40_000, lambda block: sum(map(len, block))))
    [16384, 16384, 7232]

    Args:
        records: records that are in memory as a whole.
        size_of: says how many bytes a block of them takes.
    """
    start = stop = size = 0
    most = 1
    while stop < len(records):
        block = records[stop : min(stop + most, start + PIECE_RECORDS)]
        block_size = size_of(block)
        if block_size > PIECE_BYTES and len(block) > 1:  # some are larger than those before: they are looked at closely
            most = max(1, len(block) // _GROWTH)
            continue
        if stop > start and size + block_size > PIECE_BYTES:
            yield stop - start
            start, size = stop, 0
        stop, size = stop + len(block), size + block_size
        if stop - start == PIECE_RECORDS or (stop - start >= _MANY_RECORDS and size >= _MANY_BYTES):
            yield stop - start
            start, size = stop, 0
        fits = PIECE_BYTES * len(block) // (_BLOCKS * max(1, block_size))
        most = max(1, min(_BLOCK_RECORDS, _GROWTH * most, fits))
    if stop > start:
        yield stop - start


def cut(columns: Mapping[str, Column], size: int) -> Iterator[tuple[int, dict[str, Column]]]:
    """Yield how many records the next piece of larger columns has, and its columns; arrays are views.

    Args:
        columns: the columns.
        size: how many records they are of.
    """
    each = max(1, bytes_of(columns)) / max(1, size)
    most = max(1, min(PIECE_RECORDS, int(PIECE_BYTES / each), max(_MANY_RECORDS, int(_MANY_BYTES / each))))
    rows = np.minimum(np.arange(0, size + most, most), size)
    pieces = {name: _cut(column, rows) for name, column in columns.items()}
    for number, count in enumerate(np.diff(rows).tolist()):
        yield count, {name: piece[number] for name, piece in pieces.items()}


def bytes_of(columns: Mapping[str, Column]) -> int:
    """Return about how many bytes the values of columns take."""
    total = 0
    for column in columns.values():
        total += column.values.nbytes
        if column.features is not None:
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


# Sizes ----------------------------------------------------------------------------------------------------------------


def sizer(schema: Schema) -> Callable[[Sequence[Any]], int]:
    """Return the function that says about how many bytes records take together; 0 for what is no such record.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     key: str = sr.context(str)
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> sizer(sr.Schema.of(Sentence))([Sentence("abc", [1, 2]), Sentence("d", [3])])
    28
    """
    numbers = _SCALAR * sum(map(_is_number, schema.fields))
    asked = [(attrgetter(field.name), _size_of(field)) for field in schema.fields if not _is_number(field)]
    names = [field.name for field in schema.fields]

    def size(records: Sequence[Any]) -> int:
        total = numbers * len(records)
        for get, size_of in asked:
            try:
                values = list(map(get, records))
            except AttributeError:
                return sum(_one_by_one(record, names) for record in records)
            try:
                total += size_of(values)
            except _UNEXPECTED:
                total += sum(map(_size, values))
        return total

    return size


def _size_of(field: Field) -> Callable[[Sequence[Any]], int]:
    """Return the sum of a field's sizes; it may fail where values are not in the form that records hold."""
    is_ragged = field.is_list and field.is_ragged
    if field.sparse is not None or (is_ragged and field.element.is_text):
        return lambda values: sum(map(_size, values))
    if is_ragged:
        return lambda values: sum(map(_nbytes, chain.from_iterable(values)))
    if not field.is_list and not field.shape:  # text: numbers are not asked
        return lambda values: sum(map(len, values))
    if field.element.is_text:
        return _size_of_arrays_of_texts
    return lambda values: sum(map(_nbytes, values))


def _size_of_arrays_of_texts(values: Sequence[Any]) -> int:
    elements: int = sum(map(_elements, values))
    if not elements:
        return 0
    some = np.concatenate(values[:: -(-len(values) // _SAMPLE)], axis=None)
    return _text_size(some.tolist()) * elements // max(1, some.size)


def _is_number(field: Field) -> bool:
    return not (field.is_list or field.shape or field.sparse is not None or field.element.is_text)


def _one_by_one(record: Any, names: Sequence[str]) -> int:
    try:
        return sum(_size(getattr(record, name)) for name in names)
    except AttributeError:  # encoding says what is wrong
        return 0


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return _text_size(value.ravel().tolist())
        return int(value.nbytes)
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    if isinstance(value, SparseVector):
        return _size(value.indices) + _size(value.values)
    return len(value) if isinstance(value, (str, bytes)) else _SCALAR


def _text_size(values: Sequence[Any]) -> int:
    try:
        size = len("".join(values))  # faster than a sum of their lengths
    except TypeError:  # bytes, or something that is no text
        size = sum(map(_size, values))
    return size + _SCALAR * len(values)
