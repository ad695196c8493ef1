"""How the steps of a batch are filled up: with what, up to which width, and on which side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import longest_of, sparse_to_dense, spread_rows, zero
from seqrecorder.errors import OptionError
from seqrecorder.schema.conversion import Mismatch, exact_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


def to_longest(_: str, lengths: Any) -> Any:
    """Return the longest of a batch, and 1 where all are empty."""
    return longest_of(lengths)


@attrs.frozen(eq=False)
class Padding:
    """How the steps of a batch are filled up.

    Attributes:
        values: by field, what is put where there is no step; zeros (empty text) where none is named.
        width: from the name of an alignment group and the lengths of a batch, to the steps of the padded sequences.
        left: the alignment groups whose padding comes first.
        ragged: whether ragged values are padded too, each dimension to the longest of the batch; else they stay ragged.
        static: by alignment group, the steps that `width` gives for every batch, where that is known.
    """

    values: Mapping[str, Any] = attrs.field(factory=dict)
    width: Callable[[str, Any], Any] = to_longest
    left: frozenset[str] = frozenset()
    ragged: bool = False
    static: Mapping[str, int] = attrs.field(factory=dict)

    def filler(self, field: Field) -> Any:
        """Return what padding of a field consists of, as a scalar tensor."""
        import tensorflow as tf

        dtype = tf.as_dtype(field.element.graph)
        if field.name not in self.values:
            return tf.zeros([], dtype)
        value = self.values[field.name]
        if not field.element.is_text:
            value = field.element.to_graph(np.asarray(value, field.element.numpy))
        return tf.constant(value, dtype)

    def fill(self, field: Field, value: Any, lengths: Any) -> Any:
        """Return a padded field `(B, T, ...)` with its filler after `lengths` steps, where it has one of its own."""
        import tensorflow as tf

        if field.name not in self.values:
            return value
        real = tf.sequence_mask(lengths, tf.shape(value)[1])
        real = tf.reshape(real, tf.concat([tf.shape(real), [1] * (value.shape.rank - 2)], 0))
        return tf.where(real, value, self.filler(field))

    def place(self, field: Field, value: Any, lengths: Any) -> Any:
        """Return a padded field with its padding on the side where it belongs."""
        import tensorflow as tf

        if field.group not in self.left:
            return value
        width = tf.shape(value, tf.int64)[1]
        at = tf.math.floormod(tf.range(width) + lengths[:, tf.newaxis], width)
        return tf.ensure_shape(tf.gather(value, at, batch_dims=1), value.shape)


def of_all_rows(column: Column, sizes: Any) -> Any:
    """Return sizes of all records, 0 where there is no value."""
    import tensorflow as tf

    if column.present is None:
        return sizes
    return tf.scatter_nd(tf.where(column.present), sizes, tf.shape(column.present, tf.int64))


def padded(field: Field, column: Column, rows: Any, longest: Any, padding: Padding) -> Any:
    """Return a flat field as a tensor of a batch.

    Args:
        field: the declaration.
        column: the values, flat.
        rows: int64 scalar: records of the batch.
        longest: int64 scalar: steps of the padded sequences; of no concern to context.
        padding: how.
    """
    import tensorflow as tf

    if field.sparse is not None:
        sparse = _sparse_tensor(field, column, rows, longest)
        return sparse_to_dense(sparse, field) if field.dense else sparse
    if not field.is_list and not field.is_ragged:
        return _fill(field, column)
    values, inner = column.values, []
    if field.is_ragged and field.is_list:
        values = tf.RaggedTensor.from_row_lengths(values, column.counts, validate=False)
        # At least one element wide, for the same reason as T >= 1.
        inner = [longest_of(column.counts)]
    sizes = of_all_rows(column, column.steps if field.is_list else column.counts)
    ragged = tf.RaggedTensor.from_row_lengths(values, sizes, validate=False)
    if field.is_ragged and not padding.ragged:
        return ragged
    width = longest if field.is_list else longest_of(sizes)
    # A vector, since lengths are tensors in a graph; -1 stands for the batch's size.
    shape = tf.stack([tf.cast(n, tf.int64) for n in [-1, width, *inner, *field.rest]])
    dense = ragged.to_tensor(shape=shape, default_value=padding.filler(field))
    return tf.ensure_shape(dense, [None, None, *([None] if inner else []), *field.rest])


def _fill(field: Field, column: Column) -> Any:
    """Return context values of known shape of all records: zeros or empty text for None."""
    import tensorflow as tf

    values = column.values
    if column.present is not None:
        values = spread_rows(values, column.present, zero(field))
    return tf.ensure_shape(values, [None, *field.rest])


def _sparse_tensor(field: Field, column: Column, rows: Any, longest: Any) -> Any:
    import tensorflow as tf

    if field.is_list:
        steps = of_all_rows(column, column.steps)
        record = tf.repeat(tf.range(rows), steps)
        step = tf.range(tf.shape(record, tf.int64)[0]) - tf.gather(tf.cumsum(steps, exclusive=True), record)
        positions = [tf.repeat(record, column.counts), tf.repeat(step, column.counts), column.indices]
        shape = [rows, longest, field.sparse]
    else:
        positions = [tf.repeat(tf.range(rows), of_all_rows(column, column.counts)), column.indices]
        shape = [rows, field.sparse]
    return tf.SparseTensor(tf.stack(positions, 1), column.values, tf.stack([tf.cast(n, tf.int64) for n in shape]))


def check_values(schema: Schema, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return padding values as their fields hold them.

    Raises:
        OptionError: a value does not fit its field, or the field is not padded.
        SchemaError: there is no field of a name.
    """
    exact = {}
    for name, value in values.items():
        field = schema[name]
        if field.sparse is not None or not (field.is_list or field.is_ragged):
            raise OptionError(f"padding_values: field {name!r} is not padded; leave it out")
        try:
            exact[name] = exact_scalar(value, field.element)
        except Mismatch as problem:
            raise OptionError(f"padding_values: field {name!r}: {problem}") from None
    return exact
