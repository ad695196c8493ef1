"""Records to bytes, in numpy from end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.columns import Column, gather, group_lengths
from seqrecorder.codec.encode_values import encode_images, encode_tensors
from seqrecorder.codec.pieces import parts, sizer
from seqrecorder.codec.process_state import keep_freed_memory
from seqrecorder.errors import RecordError
from seqrecorder.wire.write import LARGE, Leaf, check_limit, serialize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


class RecordEncoder:
    """Encodes the records of one schema.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> encoder = RecordEncoder(sr.Schema.of(Word))
    >>> encoder.encode_batch([Word("to")]) == [sr.Schema.of(Word).encode(Word("to"))]
    True

    Args:
        schema: the fields.
    """

    def __init__(self, schema: Schema) -> None:
        keep_freed_memory()
        self.schema = schema
        self._size = sizer(schema)

    def encode_batch(self, records: Sequence[Any]) -> list[bytes]:
        """Return one serialized SequenceExample per record.

        Raises:
            RecordError: the first record that cannot be encoded; the position is that in `records`.
        """
        out: list[bytes] = []
        for count in parts(records, self._size):
            try:
                out += self.encode(records[len(out) : len(out) + count])[0]
            except RecordError as error:
                error.position = None if error.position is None else error.position + len(out)
                raise
        return out

    def encode(self, records: Sequence[Any]) -> tuple[Sequence[bytes], NDArray[np.int64]]:
        """Return serialized records and their lengths, int64 `(records, groups)`; raises what `encode_batch` does."""
        return self.encode_columns(gather(self.schema, records, apart=True), len(records))

    def encode_columns(self, columns: dict[str, Column], size: int) -> tuple[Sequence[bytes], NDArray[np.int64]]:
        """Return serialized records and their lengths for the columns of `size` records, which fit the schema."""
        try:
            leaves = [leaf for field in self.schema.fields for leaf in to_leaves(field, columns[field.name], size)]
            data = serialize(leaves, size)
        except RecordError as error:
            if self.schema.key_field is not None and error.position is not None:
                error.key = columns[self.schema.key_field.name].values[error.position]
            raise
        return data, group_lengths(self.schema, columns, size)


def to_leaves(field: Field, column: Column, size: int) -> list[Leaf]:
    """Return the wire features of a field over `size` records."""
    leaves = _sparse_leaves(field, column) if field.sparse is not None else [_leaf(field, column)]
    if field.presence:
        known = np.ones(size, np.int64) if column.present is None else column.present.astype(np.int64)
        leaves.append(Leaf(field.presence, "int64", "context", known))
    return leaves


def _leaf(field: Field, column: Column) -> Leaf:
    name, place = field.feature, _place(field)
    steps, present = column.steps, column.present
    if column.features is not None:
        return Leaf(name, field.element.wire, place, column.features, 1, steps, present)
    if field.storage in ("png", "jpeg"):
        return Leaf(name, "bytes", place, encode_images(column.values, field.storage), 1, steps, present)
    if field.storage == "tensor":
        return Leaf(name, "bytes", place, encode_tensors(field, column), 1, steps, present)
    if field.buffered:
        return Leaf(name, "bytes", place, _buffers(field, column), 1, steps, present)
    counts: Any = field.count if column.counts is None else column.counts * field.count
    if place == "packed":
        counts = steps * field.count
    return Leaf(name, field.element.wire, place, _wire_values(field, column.values), counts, steps, present)


def _place(field: Field) -> Any:
    if not field.is_list:
        return "context"
    return "packed" if field.packed else "steps"


def _wire_values(field: Field, values: NDArray[Any]) -> Any:
    if field.element.is_text:
        return values.ravel().tolist()
    return field.element.to_wire(values).reshape(-1)


def _buffers(field: Field, column: Column) -> Any:
    """Return one little-endian buffer per record or step: a matrix where all are equally long, else a list."""
    if isinstance(column.values, list):
        return [np.ascontiguousarray(value).reshape(-1).view(np.uint8).data for value in column.values]
    if column.counts is not None and column.present is None and not field.is_list:
        check_limit(column.counts * field.element.itemsize * field.count)  # before the copies that follow
    values = np.ascontiguousarray(column.values)
    bytes_ = values.reshape(-1).view(np.uint8)
    width = field.element.itemsize * field.count
    counts = column.steps if field.packed else column.counts
    if counts is None:
        return bytes_.reshape(-1, width)
    is_large = bytes_.size > LARGE * counts.size and (field.packed or not field.is_list)
    data: Any = bytes_.data if is_large else bytes_.tobytes()
    ends = np.cumsum(counts * width).tolist()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _sparse_leaves(field: Field, column: Column) -> list[Leaf]:
    indices_name, values_name = f"{field.feature}/indices", f"{field.feature}/values"
    place, steps, present = _place(field), column.steps, column.present
    indices = Leaf(indices_name, "int64", place, column.indices, column.counts, steps, present)
    if field.buffered:
        return [indices, Leaf(values_name, "bytes", place, _buffers(field, column), 1, steps, present)]
    values = _wire_values(field, column.values)
    return [indices, Leaf(values_name, field.element.wire, place, values, column.counts, steps, present)]
