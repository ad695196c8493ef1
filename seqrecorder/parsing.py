"""Serialized records to tensors, in graphs: TensorFlow's parser, then what it leaves undone.

`Parser` finishes what the parse ops give: dtype, step shape, buffers, packing, sparsity, defaults and presence.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.columns import Column
from seqrecorder.errors import SchemaError
from seqrecorder.fields import DEFAULT_GROUP
from seqrecorder.finishing import (
    check_items,
    checked,
    decode_buffers,
    default_of,
    first_of_sparse,
    longest_of,
    pad_steps,
    sparse_to_dense,
    spread_rows,
    sums_of_rows,
    to_declared,
    whole_rows,
    with_shape,
    zero,
)
from seqrecorder.specs import Specs, require_bounds
from seqrecorder.tensors import decode_images, decode_tensors

if TYPE_CHECKING:
    from seqrecorder.fields import Field
    from seqrecorder.schema import Schema
    from seqrecorder.specs import Layout

SEQUENCE_LENGTH = "sequence_length"


def length_name(group: str) -> str:
    """Return the key under which a batch carries the lengths of an alignment group."""
    return SEQUENCE_LENGTH if group == DEFAULT_GROUP else f"{group}_length"


class Parser:
    """Parses serialized records of one schema and layout.

    Args:
        schema: the fields.
        layout: how sequences lie in the messages.

    Raises:
        OptionError: the layout cannot hold the bounds of ragged or sparse steps.
    """

    def __init__(self, schema: Schema, layout: Layout = "steps") -> None:
        require_bounds(schema.fields, layout)
        self.schema = schema
        self.layout: Layout = layout
        self.specs = Specs(schema, layout)

    def parse_columns(self, serialized: Any) -> dict[str, Column]:
        """Return every field of a vector of serialized records flat."""
        features = _parse(serialized, *self.specs.flat())[0]
        return {field.name: self._column(field, features) for field in self.schema.fields}

    def parse_batch(self, serialized: Any, *, pad_ragged: bool = False) -> dict[str, Any]:
        """Return the tensors of a padded batch.

        Args:
            serialized: string vector.
            pad_ragged: whether ragged values are padded too, each to the longest of the batch.

        Raises:
            SchemaError: a field has the name under which lengths are given.
        """
        return self._batch(serialized, pad_ragged=pad_ragged)[0]

    def parse(self, serialized: Any) -> dict[str, Any]:
        """Return the tensors of one record: the batch of one, without its leading dimension."""
        import tensorflow as tf

        batch, lengths = self._batch(tf.reshape(serialized, [1]))
        out: dict[str, Any] = {}
        for field in self.schema.fields:
            value = batch[field.name]
            if field.sparse is not None and not field.dense:
                steps = [lengths[field.name][0]] if field.is_list else []
                out[field.name] = first_of_sparse(value, [*steps, field.sparse])
            elif field.is_list and isinstance(value, tf.Tensor):
                # A batch never has T = 0; a single record may.
                out[field.name] = value[0, : lengths[field.name][0]]
            else:
                out[field.name] = value[0]
            if field.optional:
                out[f"{field.name}_present"] = batch[f"{field.name}_present"][0]
        return out

    def lengths(self, serialized: Any, group: str) -> Any:
        """Return the length of each record of a string vector in a group, parsing one field if that is enough."""
        import tensorflow as tf

        members = self._members(group)
        names = [field.name for field in _certain(members)[:1] or members]
        columns = Parser(self.schema.select(names), self.layout).parse_columns(serialized)
        return functools.reduce(tf.maximum, [_of_all_rows(column, column.steps) for column in columns.values()])

    # Batches --------------------------------------------------------------------------------------------------------

    def _batch(self, serialized: Any, *, pad_ragged: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the tensors of a padded batch, and the lengths of each feature list."""
        import tensorflow as tf

        fields = self.schema.fields
        features, steps = _parse(serialized, *self.specs.batch())
        columns = {
            field.name: self._column(field, features)
            for field in fields
            if not self.specs.padded_by_op(field) and not self.specs.whole_by_op(field)
        }
        lengths = {
            field.name: _of_all_rows(columns[field.name], columns[field.name].steps)
            if field.name in columns
            else self._op_lengths(field, steps, features)
            for field in fields
            if field.is_list
        }
        of_group = {group: self._group_lengths(group, lengths) for group in self.schema.groups}
        rows = tf.shape(serialized, tf.int64)[0]
        out: dict[str, Any] = {}
        for field in fields:
            longest = longest_of(of_group[field.group]) if field.is_list else None
            if field.name in columns:
                out[field.name] = _padded(field, columns[field.name], rows, longest, pad_ragged=pad_ragged)
            else:
                value = to_declared(features[field.feature], field)
                out[field.name] = pad_steps(value, longest) if field.is_list else value
            if field.optional:
                known = columns.get(field.name)
                out[f"{field.name}_present"] = known.present if known else self._op_presence(field, features, lengths)
        for group, value in of_group.items():
            if length_name(group) in out:
                raise SchemaError(
                    f"{self.schema.name} has a field {length_name(group)!r}, which is the name of a batch's lengths: "
                    "name the attribute otherwise (`name=` keeps the feature's name)"
                )
            out[length_name(group)] = value
        return out, lengths

    @staticmethod
    def _op_lengths(field: Field, steps: dict[str, Any], features: dict[str, Any]) -> Any:
        import tensorflow as tf

        sizes = tf.cast(steps[field.feature], tf.int64)
        return _consistent(sizes, field, _stated(field, features, sizes), sizes > 0) if field.optional else sizes

    @staticmethod
    def _op_presence(field: Field, features: dict[str, Any], lengths: dict[str, Any]) -> Any:
        have = lengths[field.name] > 0
        return _presence(_stated(field, features, have), have, field)

    def _members(self, group: str) -> list[Field]:
        return [field for field in self.schema.fields if field.is_list and field.group == group]

    def _group_lengths(self, group: str, lengths: dict[str, Any]) -> Any:
        """Return the lengths of an alignment group, checking that its fields agree: one that may lack has 0 there."""
        import tensorflow as tf

        members = self._members(group)
        certain = _certain(members)
        named = certain[0] if certain else members[0]
        length = (
            lengths[named.name] if certain else functools.reduce(tf.maximum, [lengths[field.name] for field in members])
        )
        for field in members:
            mine = lengths[field.name]
            if field is not named:
                length = checked(
                    length,
                    (mine == length) | (mine == 0) if field.may_lack else mine == length,
                    f"fields {named.name!r} and {field.name!r}: equal lengths are expected (align=None frees one), got",
                    length,
                    mine,
                )
        return length

    # One field ------------------------------------------------------------------------------------------------------

    def _column(self, field: Field, features: dict[str, Any]) -> Column:
        """Return a field flat, with values of its declared dtype."""
        if field.sparse is not None:
            column = self._sparse_column(field, features)
        elif not field.is_list:
            column = self._context_column(field, features[field.feature])
        elif self.specs.in_one_feature(field):
            column = self._packed_column(field, features[field.feature])
        else:
            column = self._list_column(field, features[field.feature])
        return self._with_absent(field, column, features)

    def _context_column(self, field: Field, ragged: Any) -> Column:
        items = ragged.row_lengths()
        values, sizes = _elements(field, ragged.values)
        if field.is_ragged:
            counts = whole_rows(field, items) if sizes is None else sums_of_rows(sizes, ragged.row_splits)
            return Column(with_shape(values, field), counts=counts)
        values = check_items(with_shape(values, field), field, items, 1 if field.in_items else field.count)
        return Column(values, present=items > 0)

    def _packed_column(self, field: Field, ragged: Any) -> Column:
        import tensorflow as tf

        if self.layout == "example":
            splits, flat = ragged.row_splits, ragged.values
        else:
            splits, flat = tf.gather(ragged.values.row_splits, ragged.row_splits), ragged.flat_values
        values, sizes = _elements(field, flat, whole=True)
        items = splits[1:] - splits[:-1]
        if sizes is not None:
            steps = sums_of_rows(sizes, splits)
        else:
            steps = items if field.in_items else whole_rows(field, items)
        return Column(with_shape(values, field), steps=steps)

    @staticmethod
    def _list_column(field: Field, ragged: Any) -> Column:
        steps, inner = ragged.row_lengths(), ragged.values  # one row per step
        items = inner.row_lengths()
        values, sizes = _elements(field, inner.values)
        if field.is_ragged:
            counts = whole_rows(field, items) if sizes is None else sums_of_rows(sizes, inner.row_splits)
            return Column(with_shape(values, field), steps=steps, counts=counts)
        expected = 1 if field.in_items else field.count
        return Column(check_items(with_shape(values, field), field, items, expected, required=True), steps=steps)

    def _sparse_column(self, field: Field, features: dict[str, Any]) -> Column:
        indices, values = (features[f"{field.feature}/{part}"] for part in ("indices", "values"))
        steps = None
        expected = f"field {field.name!r}: as many indices as values are expected in {field.feature!r}, got"
        if field.is_list:
            steps = checked(
                indices.row_lengths(),
                indices.row_lengths() == values.row_lengths(),
                expected,
                indices.row_lengths(),
                values.row_lengths(),
            )
            indices, values = indices.values, values.values
        elements, sizes = _elements(field, values.values)
        have = values.row_lengths() if sizes is None else sums_of_rows(sizes, values.row_splits)
        counts = checked(indices.row_lengths(), indices.row_lengths() == have, expected, indices.row_lengths(), have)
        flat = checked(
            indices.values,
            (indices.values >= 0) & (indices.values < field.sparse),
            f"field {field.name!r}: indices in [0, {field.sparse}) are expected, got",
            indices.values,
        )
        return Column(elements, steps=steps, counts=counts, indices=flat)

    def _with_absent(self, field: Field, column: Column, features: dict[str, Any]) -> Column:
        """Apply what is stored about presence, and the default of context fields of known shape."""
        import tensorflow as tf

        sizes = column.steps if field.is_list else column.counts
        have = column.present if sizes is None else sizes > 0
        if not field.optional:
            if sizes is None and field.has_default:
                return Column(spread_rows(column.values, have, default_of(field)))
            return column
        stated = _stated(field, features, have)
        stated = _consistent(stated, field, stated, have, fixed=sizes is None)
        present = _presence(stated, have, field)
        if sizes is not None:
            kept = tf.boolean_mask(sizes, present)
            steps, counts = (kept, column.counts) if field.is_list else (None, kept)
            return attrs.evolve(column, steps=steps, counts=counts, present=present, stated=stated)
        values = column.values
        if field.has_default:
            values = tf.boolean_mask(spread_rows(values, have, default_of(field)), present)
        return Column(values, present=present, stated=stated)


def _parse(serialized: Any, context: dict[str, Any], lists: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all features, and the steps of those feature lists that the op pads."""
    import tensorflow as tf

    parsed, sequences, steps = tf.io.parse_sequence_example(serialized, context or None, lists or None)
    return {**parsed, **sequences}, steps


def _certain(members: list[Field]) -> list[Field]:
    return [field for field in members if not field.may_lack]


def _elements(field: Field, flat: Any, *, whole: bool = False) -> tuple[Any, Any]:
    """Return flat values of the declared dtype, and how many values of the known dimensions each item held.

    Sizes are None where each item is one value, or the items are the elements themselves.
    """
    if field.storage in ("png", "jpeg"):
        return decode_images(flat, field), None
    if field.storage == "tensor":
        return decode_tensors(flat, field)
    if field.buffered:
        return decode_buffers(flat, field, fixed=not (whole or field.is_ragged or field.sparse is not None))
    return to_declared(flat, field), None


def _stated(field: Field, features: dict[str, Any], like: Any) -> Any:
    """Return what records say of an optional field: 1 a value, 0 None, -1 nothing (they were written by others)."""
    import tensorflow as tf

    stated = features.get(field.presence or "")
    return tf.fill(tf.shape(like), tf.constant(-1, tf.int64)) if stated is None else stated


def _consistent(value: Any, field: Field, stated: Any, have: Any, *, fixed: bool = False) -> Any:
    """Return `value` once what records say of an optional field was found to agree with what they hold."""
    ok = (stated != 0) | ~have
    if fixed:
        ok &= (stated <= 0) | have
    return checked(
        value,
        ok,
        f"field {field.name!r}: a value where {field.presence!r} is 1 and none where it is 0 is expected, got",
        stated,
        have,
    )


def _presence(stated: Any, have: Any, field: Field) -> Any:
    import tensorflow as tf

    return tf.where(stated < 0, tf.ones_like(have) if field.has_default else have, stated > 0)


def _of_all_rows(column: Column, sizes: Any) -> Any:
    """Return sizes of all records, 0 where there is no value."""
    import tensorflow as tf

    if column.present is None:
        return sizes
    return tf.scatter_nd(tf.where(column.present), sizes, tf.shape(column.present, tf.int64))


# Flat to padded -----------------------------------------------------------------------------------------------------


def _padded(field: Field, column: Column, rows: Any, longest: Any, *, pad_ragged: bool) -> Any:
    """Return a flat field as a tensor of a batch."""
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
    sizes = _of_all_rows(column, column.steps if field.is_list else column.counts)
    ragged = tf.RaggedTensor.from_row_lengths(values, sizes, validate=False)
    if field.is_ragged and not pad_ragged:
        return ragged
    width = longest if field.is_list else longest_of(sizes)
    # A vector, since lengths are tensors in a graph; -1 stands for the batch's size.
    shape = tf.stack([tf.cast(n, tf.int64) for n in [-1, width, *inner, *field.rest]])
    dense = ragged.to_tensor(shape=shape, default_value=zero(field))
    return tf.ensure_shape(dense, [None, None, *([None] if inner else []), *field.rest])


def _fill(field: Field, column: Column) -> Any:
    """Return context values of known shape of all records: zeros or empty text for None."""
    import tensorflow as tf

    values = column.values
    if column.present is not None and field.optional:
        values = spread_rows(values, column.present, zero(field))
    elif column.present is not None:
        values = checked(
            values,
            column.present,
            f"field {field.name!r}: the context feature {field.feature!r} is missing, and the class gives no default",
        )
    return tf.ensure_shape(values, [None, *field.rest])


def _sparse_tensor(field: Field, column: Column, rows: Any, longest: Any) -> Any:
    import tensorflow as tf

    if field.is_list:
        steps = _of_all_rows(column, column.steps)
        record = tf.repeat(tf.range(rows), steps)
        step = tf.range(tf.shape(record, tf.int64)[0]) - tf.gather(tf.cumsum(steps, exclusive=True), record)
        positions = [tf.repeat(record, column.counts), tf.repeat(step, column.counts), column.indices]
        shape = [rows, longest, field.sparse]
    else:
        positions = [tf.repeat(tf.range(rows), _of_all_rows(column, column.counts)), column.indices]
        shape = [rows, field.sparse]
    return tf.SparseTensor(tf.stack(positions, 1), column.values, tf.stack([tf.cast(n, tf.int64) for n in shape]))
