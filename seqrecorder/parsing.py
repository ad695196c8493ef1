"""Serialized records to tensors, in graphs: TensorFlow's parser, then what it leaves undone.

`Parser` finishes what the parse ops give: dtype, step shape, buffers, packing, sparsity, defaults and presence.

The parse op is what reading large records waits for. Tried instead, for the fixed steps of a float32 field: to cut them
out of the records as bytes, with a look at the header of each. 3,000 records of 41 kB took 107 ms so and 150 in the op,
and the int64 beside them 108 either way: too little for a second parser.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.columns import Column
from seqrecorder.cropping import cropped_positions
from seqrecorder.errors import SchemaError
from seqrecorder.fields import DEFAULT_GROUP
from seqrecorder.finishing import (
    check_items,
    checked,
    decode_buffers,
    default_of,
    first_of_sparse,
    pad_steps,
    spread_rows,
    sums_of_rows,
    to_declared,
    whole_rows,
    with_shape,
)
from seqrecorder.padding import Padding, of_all_rows, padded
from seqrecorder.specs import Specs, require_bounds
from seqrecorder.tensors import decode_images, decode_tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from seqrecorder.cropping import Crop
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
        crops: by alignment group, the steps that are kept of its sequences, where not all are.
        where: what TensorFlow's errors are to call a record that is not as the schema says; "" for nothing.

    Raises:
        OptionError: the layout cannot hold the bounds of ragged or sparse steps.
    """

    def __init__(
        self, schema: Schema, layout: Layout = "steps", crops: Mapping[str, Crop] | None = None, where: str = ""
    ) -> None:
        require_bounds(schema.fields, layout)
        self.where = where
        self.schema = schema
        self.layout: Layout = layout
        self.crops: Mapping[str, Crop] = {group: crop for group, crop in (crops or {}).items() if crop}
        self.specs = Specs(schema, layout, self.crops)

    def of_fields(self, names: Iterable[str]) -> Parser:
        """Return the parser of some of the fields."""
        return Parser(self.schema.select(names), self.layout, self.crops, self.where)

    def _filled(self, serialized: Any) -> Any:
        """Return records with what older data lack: protobuf merges messages that stand one after the other."""
        import tensorflow as tf

        return tf.strings.join([serialized, self.schema.fill]) if self.schema.fill else serialized

    def _parse(
        self, serialized: Any, context: dict[str, Any], lists: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return all features, and the steps of those feature lists that the op pads."""
        import tensorflow as tf

        names = tf.fill(tf.shape(serialized), self.where) if self.where else None
        parsed, sequences, steps = tf.io.parse_sequence_example(
            self._filled(serialized), context or None, lists or None, example_names=names
        )
        return {**parsed, **sequences}, steps

    def parse_columns(self, serialized: Any) -> dict[str, Column]:
        """Return every field of a vector of serialized records flat."""
        features = self._parse(serialized, *self.specs.flat())[0]
        return {field.name: self._column(field, features) for field in self.schema.fields}

    def parse_batch(self, serialized: Any, padding: Padding | None = None) -> dict[str, Any]:
        """Return the tensors of a padded batch.

        Args:
            serialized: string vector.
            padding: how; None pads sequences to the longest, at the end, and leaves ragged values ragged.

        Raises:
            SchemaError: a field has the name under which lengths are given.
        """
        return self._batch(serialized, padding or Padding())[0]

    def parse(self, serialized: Any) -> dict[str, Any]:
        """Return the tensors of one record: the batch of one, without its leading dimension."""
        import tensorflow as tf

        batch, lengths = self._batch(tf.reshape(serialized, [1]), Padding())
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
        columns = self.of_fields(names).parse_columns(serialized)
        return functools.reduce(tf.maximum, [of_all_rows(column, column.steps) for column in columns.values()])

    # Batches --------------------------------------------------------------------------------------------------------

    def _batch(self, serialized: Any, padding: Padding) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the tensors of a padded batch, and the lengths of each feature list."""
        import tensorflow as tf

        fields = self.schema.fields
        features, steps = self._parse(serialized, *self.specs.batch())
        columns = {
            field.name: self._column(field, features)
            for field in fields
            if not self.specs.padded_by_op(field) and not self.specs.whole_by_op(field)
        }
        lengths = {
            field.name: of_all_rows(columns[field.name], columns[field.name].steps)
            if field.name in columns
            else self._op_lengths(field, steps, features)
            for field in fields
            if field.is_list
        }
        of_group = {group: self._group_lengths(group, lengths) for group in self.schema.groups}
        widths = {group: padding.width(group, length) for group, length in of_group.items()}
        rows = tf.shape(serialized, tf.int64)[0]
        out: dict[str, Any] = {}
        for field in fields:
            if field.name in columns:
                value = padded(field, columns[field.name], rows, widths.get(field.group), padding)
            else:
                value = to_declared(features[field.feature], field)
                if field.is_list:
                    value = padding.fill(field, pad_steps(value, widths[field.group]), lengths[field.name])
            if field.is_list and isinstance(value, tf.Tensor):
                value = padding.place(field, value, of_group[field.group])
            out[field.name] = value
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
        crop = self.crops.get(field.group, ()) if field.is_list else ()
        if field.sparse is not None:
            column, whole = self._sparse_column(field, features, crop)
        elif not field.is_list:
            column, whole = self._context_column(field, features[field.feature]), None
        elif self.specs.in_one_feature(field):
            column, whole = self._packed_column(field, features[field.feature], crop)
        else:
            column, whole = self._list_column(field, features[field.feature], crop)
        return self._with_absent(field, column, features, whole)

    def _context_column(self, field: Field, ragged: Any) -> Column:
        items = ragged.row_lengths()
        values, sizes = _elements(field, ragged.values)
        if field.is_ragged:
            counts = whole_rows(field, items) if sizes is None else sums_of_rows(sizes, ragged.row_splits)
            return Column(with_shape(values, field), counts=counts)
        values = check_items(with_shape(values, field), field, items, 1 if field.in_items else field.count)
        return Column(values, present=items > 0)

    def _packed_column(self, field: Field, ragged: Any, crop: Crop) -> tuple[Column, Any]:
        """Return the column, and the steps of each record before they are cropped."""
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
        values = with_shape(values, field)
        if not crop:
            return Column(values, steps=steps), steps
        kept, positions = cropped_positions(steps, crop)
        return Column(tf.gather(values, positions), steps=kept), steps

    @staticmethod
    def _list_column(field: Field, ragged: Any, crop: Crop) -> tuple[Column, Any]:
        """Return the column, and the steps of each record before they are cropped."""
        whole = ragged.row_lengths()
        steps, inner = _kept(whole, ragged.values, crop)  # one row per step
        items = inner.row_lengths()
        values, sizes = _elements(field, inner.values)
        if field.is_ragged:
            counts = whole_rows(field, items) if sizes is None else sums_of_rows(sizes, inner.row_splits)
            return Column(with_shape(values, field), steps=steps, counts=counts), whole
        expected = 1 if field.in_items else field.count
        return Column(check_items(with_shape(values, field), field, items, expected, required=True), steps=steps), whole

    @staticmethod
    def _sparse_column(field: Field, features: dict[str, Any], crop: Crop) -> tuple[Column, Any]:
        """Return the column, and the steps of each record before they are cropped, None for context."""
        indices, values = (features[f"{field.feature}/{part}"] for part in ("indices", "values"))
        steps = whole = None
        expected = f"field {field.name!r}: as many indices as values are expected in {field.feature!r}, got"
        if field.is_list:
            whole = checked(
                indices.row_lengths(),
                indices.row_lengths() == values.row_lengths(),
                expected,
                indices.row_lengths(),
                values.row_lengths(),
            )
            steps, indices = _kept(whole, indices.values, crop)
            values = _kept(whole, values.values, crop)[1]
        elements, sizes = _elements(field, values.values)
        have = values.row_lengths() if sizes is None else sums_of_rows(sizes, values.row_splits)
        counts = checked(indices.row_lengths(), indices.row_lengths() == have, expected, indices.row_lengths(), have)
        flat = checked(
            indices.values,
            (indices.values >= 0) & (indices.values < field.sparse),
            f"field {field.name!r}: indices in [0, {field.sparse}) are expected, got",
            indices.values,
        )
        return Column(elements, steps=steps, counts=counts, indices=flat), whole

    def _with_absent(self, field: Field, column: Column, features: dict[str, Any], whole: Any) -> Column:
        """Apply what is stored about presence, and the default of context fields of known shape.

        Args:
            field: the field.
            column: its values.
            features: what the parser gave.
            whole: the steps of each record before they were cropped; None for context.
        """
        import tensorflow as tf

        sizes = column.steps if field.is_list else column.counts
        have = column.present if sizes is None else (sizes if whole is None else whole) > 0
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


def _kept(whole: Any, inner: Any, crop: Crop) -> tuple[Any, Any]:
    """Return the steps that are kept of each record, and those of `inner`, a row per step."""
    import tensorflow as tf

    if not crop:
        return whole, inner
    steps, positions = cropped_positions(whole, crop)
    return steps, tf.gather(inner, positions)


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
