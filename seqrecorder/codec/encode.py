"""Encoding of records, columns and dictionaries to serialized SequenceExamples, in numpy.

Decoding is in `decode`; the bytes of messages are written by `wire.write`.
"""

from __future__ import annotations

import contextlib
import math
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import (
    Column,
    check_alignment,
    check_threads_of_tensorflow,
    collect,
    gather,
    group_lengths,
    keep_freed_memory,
    nested,
    objects,
    only_stores,
    split,
    split_present,
    with_texts,
)
from seqrecorder.errors import RecordError
from seqrecorder.schema.exact_values import Mismatch, SparseVector, exact_array
from seqrecorder.schema.field import value_features
from seqrecorder.wire.byte_rows import bounds, varint
from seqrecorder.wire.byte_rows import cut as cut_rows
from seqrecorder.wire.write import LARGE, Leaf, check_limit, serialize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.errors import FieldProblem
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


_TOGETHER = 4 << 20  # bytes of images encoded at a time, because TensorFlow holds a copy of them

# DataType in tensorflow/core/framework/types.proto
_DATA_TYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "bfloat16": 14,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}


def tensor_header(graph_type: str, shape: tuple[int, ...], size: int) -> bytes:
    """Build the header of a serialized tensor whose buffer has `size` bytes.

    >>> tensor_header("float32", (2,), 8).hex()
    '08011204120208022208'
    """
    dimensions = b""
    for length in shape:
        dimension = b"\x08" + varint(length) if length else b""  # proto3 does not store zeros
        dimensions += b"\x12" + varint(len(dimension)) + dimension
    header = b"\x08" + varint(_DATA_TYPES[graph_type]) + b"\x12" + varint(len(dimensions)) + dimensions
    return header + b"\x22" + varint(size) if size else header


def encode_tensors(field: Field, column: Column) -> Any:
    """Serialize one tensor per record or step.

    The result is a uint8 matrix if the shape of the tensors is known from the declaration, and a list otherwise.
    """
    buffer = np.ascontiguousarray(column.values).reshape(-1).view(np.uint8)
    width = field.count * field.element.itemsize
    if column.counts is None:
        header = np.frombuffer(tensor_header(field.element.graph, field.rest, width), np.uint8)
        rows = buffer.reshape(-1, width)
        return np.hstack([np.broadcast_to(header, (len(rows), header.size)), rows])
    out = []
    for count, data in zip(column.counts.tolist(), split(buffer.tobytes(), column.counts * width), strict=True):
        out.append(tensor_header(field.element.graph, (count, *field.rest), len(data)) + data)
    return out


def encode_images(values: NDArray[Any], storage: str) -> list[bytes]:
    """Encode each image of shape (height, width, channels) as PNG (exact) or JPEG (lossy) bytes.

    Args:
        values: images, `(n, height, width, channels)`; or an object array of images and encoded bytes.
        storage: `png` or `jpeg`.
    """
    if values.dtype == object:
        pixels = [value for value in values.tolist() if not isinstance(value, bytes)]
        encoded = chain.from_iterable(encode_images(value[np.newaxis], storage) for value in pixels)
        return [value if isinstance(value, bytes) else next(encoded) for value in values.tolist()]
    import tensorflow as tf

    check_threads_of_tensorflow("encode images")
    with tf.device("CPU:0"):
        if storage == "jpeg":
            return [tf.io.encode_jpeg(image).numpy() for image in values]
        several = max(1, _TOGETHER * len(values) // max(1, values.nbytes))
        pieces = (values[first : first + several] for first in range(0, len(values), several))
        return list(chain.from_iterable(tf.io.encode_png(piece).numpy() for piece in pieces))


PIECE_RECORDS = 16384  # maximum number of records in a piece
PIECE_BYTES = 6 << 20  # maximum size of a piece, unless a single record is larger
_MANY_RECORDS, _MANY_BYTES = 2048, 1 << 20  # a piece of this many records and bytes is large enough

_SCALAR = 8  # bytes to count for a single number
_NUMBERS = {int, float, bool, type(None)}
_SAMPLE = 16  # arrays of texts measured in a block
_nbytes, _elements = attrgetter("nbytes"), attrgetter("size")

# Errors of size estimates for values that are None or not in exact form.
_UNEXPECTED = (AttributeError, TypeError, ValueError)
_DEEPEST = 32  # maximum nesting of lists; no field takes deeper values


# Cutting --------------------------------------------------------------------------------------------------------------


def records_in_piece(size: int, octets: int) -> int:
    """Choose the number of records to encode at once.

    >>> records_in_piece(40_000, 400_000), records_in_piece(40_000, 40_000_000)
    (16384, 2048)

    Args:
        size: number of all records.
        octets: size of all records in bytes.
    """
    each = max(1, octets) / max(1, size)
    return max(1, min(PIECE_RECORDS, int(PIECE_BYTES / each), max(_MANY_RECORDS, int(_MANY_BYTES / each))))


def cut(columns: Mapping[str, Column], size: int) -> Iterator[tuple[int, dict[str, Column]]]:
    """Cut columns into pieces of successive records.

    The pieces are views. For each piece, this yields the number of its records, and its columns.

    Args:
        columns: mapping of field name to column.
        size: number of records.
    """
    most = records_in_piece(size, bytes_of(columns))
    rows = np.minimum(np.arange(0, size + most, most), size)
    pieces = {name: _cut(column, rows) for name, column in columns.items()}
    for number, count in enumerate(np.diff(rows).tolist()):
        yield count, {name: piece[number] for name, piece in pieces.items()}


def bytes_of(columns: Mapping[str, Column]) -> int:
    """Estimate the size of the values of columns in bytes."""
    total = 0
    for column in columns.values():
        total += column.values.nbytes
        if column.features is not None:
            total += column.features.data.size
        elif column.values.dtype == object and column.values.size:
            texts = column.values.reshape(-1).tolist()
            try:
                total += len(type(texts[0])().join(texts))  # three times as fast as summing lengths
            except (TypeError, AttributeError):  # images, as pixels or encoded bytes
                total += sum(map(value_size, texts))
    return total


def _cut(column: Column, rows: NDArray[np.int64]) -> list[Column]:
    """Cut a column at the given record numbers."""
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
    features = cut_rows(column.features, inner)  # one feature per value
    return [attrs.evolve(piece, features=blob) for piece, blob in zip(pieces, features, strict=True)]


# Sizes ----------------------------------------------------------------------------------------------------------------


def sizer(schema: Schema) -> Callable[[Sequence[Any]], int]:
    """Build the function that estimates the total size of records in bytes.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     key: str = sr.context(str)
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> sizer(sr.Schema.of(Sentence))([Sentence("abc", [1, 2]), Sentence("d", [3])])
    28
    """
    numbers = _SCALAR * sum(map(_is_number, schema.fields))
    asked = [(field.name, attrgetter(field.name), _size_of(field)) for field in schema.fields if not _is_number(field)]

    def size(records: Sequence[Any]) -> int:
        total = numbers * len(records)
        for name, get, size_of in asked:
            try:
                values = list(map(get, records))
            except AttributeError:  # encoding reports the bad value
                values = [getattr(record, name, None) for record in records]
            try:
                total += size_of(values)
            except _UNEXPECTED:
                total += sum(map(value_size, values))
        return total

    return size


def _size_of(field: Field) -> Callable[[Sequence[Any]], int]:
    """Build the function that sums the sizes of the values of a field.

    The function may fail if a value lacks the declared type or shape.
    """
    is_ragged = field.is_list and field.is_ragged
    if field.sparse is not None or (is_ragged and field.element.is_text):
        return lambda values: sum(map(value_size, values))
    if is_ragged:
        return lambda values: sum(map(_nbytes, chain.from_iterable(values)))
    if field.is_scalar:  # text, because `sizer` counts numbers itself
        return lambda values: sum(map(len, values))
    if field.element.is_text:
        return _size_of_arrays_of_texts
    return lambda values: sum(map(_nbytes, values))


def _size_of_arrays_of_texts(values: Sequence[Any]) -> int:
    elements: int = sum(map(_elements, values))
    if not elements:
        return 0
    sample = np.concatenate(values[:: -(-len(values) // _SAMPLE)], axis=None)
    return _text_size(sample.tolist()) * elements // max(1, sample.size)


def _is_number(field: Field) -> bool:
    return field.is_scalar and not field.element.is_text


def value_size(value: Any, depth: int = 0) -> int:
    """Estimate the encoded size of a value in bytes."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return _text_size(value.ravel().tolist())
        return int(value.nbytes)
    if isinstance(value, (list, tuple)) and depth < _DEEPEST:
        is_flat = value and type(value[0]) in _NUMBERS
        return _SCALAR * len(value) if is_flat else sum(value_size(item, depth + 1) for item in value)
    if isinstance(value, SparseVector):
        return value_size(value.indices) + value_size(value.values)
    return len(value) if isinstance(value, (str, bytes)) else _SCALAR


def _text_size(values: Sequence[Any]) -> int:
    try:
        size = len("".join(values))  # faster than summing their lengths
    except TypeError:  # bytes, or not text
        size = sum(map(value_size, values))
    return size + _SCALAR * len(values)


def columns_of_dictionaries(
    schema: Schema, rows: Sequence[Any], *, convert: Callable[[Field, Any], Any] | None = None
) -> dict[str, Column] | None:
    """Convert dictionaries of field values to columns, without creating records.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> columns_of_dictionaries(sr.Schema.of(Sentence), [{"ids": [1, 2]}, {"ids": [3]}])["ids"]
    Column(values=int64 (3,), steps=int64 (2,))
    >>> columns_of_dictionaries(sr.Schema.of(Sentence), [{"ids": [1.5]}])

    Args:
        schema: schema of the records.
        rows: dictionaries, one per record.
        convert: function that converts a JSON value to a value of the field; if given, null in float fields becomes
            NaN.

    Returns:
        Mapping of field name to column, or None if the record class must check the values.
    """
    if set(map(type, rows)) - {dict} or not takes_columns(schema):
        return None
    columns, used = dict[str, Column](), 0
    try:
        for field in schema.fields:
            values, have = _values(field, rows)
            column = _column(field, values, convert)
            if column is None:
                return None
            columns[field.name], used = column, used + have
    except (Mismatch, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    problems: dict[int, list[FieldProblem]] = {}
    check_alignment(schema, columns, len(rows), problems)
    return None if problems or (used < sum(map(len, rows))) else columns


def _values(field: Field, rows: Sequence[dict[str, Any]]) -> tuple[list[Any], int]:
    """Collect the values of a field from rows.

    Returns:
        The value of each row, and the number of rows that have the field. The value of a row without
        the field is the default of the field, or None if it has no default.

    Raises:
        KeyError: a row lacks a required field.
    """
    key = field.name
    try:
        return [row[key] for row in rows], len(rows)
    except KeyError:
        if not field.may_lack:
            raise
    default = None if field.default is attrs.NOTHING else field.default
    return [row.get(key, default) for row in rows], sum(key in row for row in rows)


def takes_columns(schema: Schema) -> bool:
    """Check whether records consist only of their stored fields, and are created without running user code."""
    hooked = any(hasattr(schema.record_class, name) for name in ("load", "split"))
    return only_stores(schema.record_class, len(schema.fields)) and not hooked


def _column(field: Field, values: list[Any], convert: Callable[[Field, Any], Any] | None) -> Column | None:
    present, values = split_present(field, values)
    column = None
    with contextlib.suppress(Mismatch):
        column = _plain(field, values, nulls=convert is not None)
    if column is None:
        if convert is not None:
            values = [convert(field, value) for value in values]
        column = collect(field, [field.exact(value) for value in values])
    return column if column is None or present is None else attrs.evolve(column, present=present)


def _plain(field: Field, values: list[Any], *, nulls: bool) -> Column | None:
    """Build a column from nested lists; return None for other values.

    Raises:
        Mismatch: a value does not fit.
    """
    if field.sparse is not None or field.any_size:
        return None
    lengths: list[NDArray[np.int64]] = []
    for _ in range(int(field.is_list) + len(field.shape)):
        if set(map(type, values)) - {list}:
            return None
        lengths.append(np.fromiter(map(len, values), np.int64, len(values)))
        values = list(chain.from_iterable(values))
    free = len(lengths) - len(field.rest)
    if any((counts != size).any() for counts, size in zip(lengths[free:], field.rest, strict=True)):
        return None
    if nulls and field.element.has_nan and None in values:
        values = [math.nan if value is None else value for value in values]
    flat = objects(values) if field.element.is_text else exact_array(values, field.element)
    if flat.ndim != 1:
        return None
    column = nested(field, flat.reshape(-1, *field.rest), lengths)
    return with_texts(field, column) if field.element.is_text else column


class RecordEncoder:
    """Encoder of the records of one schema.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> encoder = RecordEncoder(sr.Schema.of(Word))
    >>> encoder.encode_batch([Word("to")]) == [sr.Schema.of(Word).encode(Word("to"))]
    True

    Args:
        schema: schema of the records.
    """

    def __init__(self, schema: Schema) -> None:
        keep_freed_memory()
        self.schema = schema
        self._size = sizer(schema)

    def encode_batch(self, records: Sequence[Any]) -> list[bytes]:
        """Encode each record to a serialized SequenceExample.

        Raises:
            RecordError: a record cannot be encoded; the error has the position of the first such record in `records`.
        """
        out: list[bytes] = []
        most = records_in_piece(len(records), self._size(records))
        for start in range(0, len(records), most):
            try:
                out += self.encode(records[start : start + most])[0]
            except RecordError as error:
                error.position = None if error.position is None else error.position + start
                raise
        return out

    def encode(self, records: Sequence[Any]) -> tuple[Sequence[bytes], NDArray[np.int64]]:
        """Encode records.

        Returns:
            The bytes of each record, and the lengths of the records, int64 `(records, max(1, groups))`.
        """
        return self.encode_columns(gather(self.schema, records), len(records))

    def encode_columns(self, columns: dict[str, Column], size: int) -> tuple[Sequence[bytes], NDArray[np.int64]]:
        """Encode valid columns of `size` records.

        Returns:
            The bytes of each record, and the lengths of the records, int64 `(size, max(1, groups))`.
        """
        try:
            leaves = [leaf for field in self.schema.fields for leaf in to_leaves(field, columns[field.name], size)]
            data = serialize(leaves, size)
        except RecordError as error:
            if self.schema.key_field is not None and error.position is not None:
                error.key = columns[self.schema.key_field.name].values[error.position]
            raise
        return data, group_lengths(self.schema, columns, size)


def to_leaves(field: Field, column: Column, size: int) -> list[Leaf]:
    """Convert a column of `size` records to wire features."""
    leaves = [_leaf(field, column)]
    if field.sparse is not None:
        name, layout = f"{field.feature}/indices", _layout(field)
        leaves = [Leaf(name, "int64", layout, column.indices, column.counts, column.steps, column.present), *leaves]
    if field.presence:
        known = np.ones(size, np.int64) if column.present is None else column.present.astype(np.int64)
        leaves.append(Leaf(field.presence, "int64", "context", known))
    return leaves


def _leaf(field: Field, column: Column) -> Leaf:
    name, layout = value_features(field)[-1], _layout(field)
    steps, present = column.steps, column.present
    if column.features is not None:
        return Leaf(name, field.element.wire, layout, column.features, 1, steps, present)
    if field.is_image:
        return Leaf(name, "bytes", layout, encode_images(column.values, field.storage), 1, steps, present)
    if field.storage == "tensor":
        return Leaf(name, "bytes", layout, encode_tensors(field, column), 1, steps, present)
    if field.buffered:
        return Leaf(name, "bytes", layout, _buffers(field, column), 1, steps, present)
    counts: Any = field.count if column.counts is None else column.counts * field.count
    if layout == "packed":
        counts = steps * field.count
    return Leaf(name, field.element.wire, layout, _wire_values(field, column.values), counts, steps, present)


def _layout(field: Field) -> Any:
    if not field.is_list:
        return "context"
    return "packed" if field.packed else "steps"


def _wire_values(field: Field, values: NDArray[Any]) -> Any:
    if field.element.is_text:
        return values.ravel().tolist()
    return field.element.to_wire(values).reshape(-1)


def _buffers(field: Field, column: Column) -> Any:
    """Build one little-endian buffer per record or step.

    The result is a matrix if the length of the buffers is known from the declaration, and a list otherwise.
    """
    if column.counts is not None and column.present is None and not field.is_list:
        check_limit(column.counts * field.element.itemsize * field.count)  # before the large copies below
    values = np.ascontiguousarray(column.values)
    bytes_ = values.reshape(-1).view(np.uint8)
    width = field.element.itemsize * field.count
    counts = column.steps if field.packed else column.counts
    if counts is None:
        return bytes_.reshape(-1, width)
    is_large = bytes_.size > LARGE * counts.size and (field.packed or not field.is_list)
    return split(bytes_.data if is_large else bytes_.tobytes(), counts * width)
