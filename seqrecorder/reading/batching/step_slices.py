"""Batches of slices of records, for `Unroll` and `Window`.

A plan assigns slices of a window of records to the rows of batches. Its records are parsed once, into flat columns, and
a batch is one gather per column. No step is ever a `tf.data` element of its own.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.graph_ops import (
    NUMBERS,
    Padding,
    checked,
    decode_buffers,
    of_all_rows,
    padded,
    whole_buffers,
    with_shape,
)
from seqrecorder.codec.parse import Parser
from seqrecorder.errors import OptionError
from seqrecorder.schema.dtypes import element_type

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from seqrecorder.reading.batching.strategy import Feed
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

ELEMENTS = "the elements"
"""Name of the schema that `batch` derives from elements, for which there is no record class to change."""

_STEPS = 8192
"""Number of steps to gather at a time, unless a single batch has more; fewer would not be worth a call per gather."""


def groups_of_steps(strategy: object, schema: Schema, *, several: bool = False) -> tuple[str, ...]:
    """Check that the fields can be cut into slices, and return their alignment groups.

    Raises:
        OptionError: there is no feature list to cut, a field does not fit, or there are several groups although
            `several` is False.
    """
    name, cut = type(strategy).__name__, lists_to_cut(schema, several=several)
    if not cut:
        raise OptionError(
            f"{name}: expected a feature list, neither sparse nor ragged, among the read fields of {schema.name}"
        )
    wrong = [f for f in schema.fields if f.name not in cut and (f.is_list or f.is_ragged or (f.sparse and not f.dense))]
    if wrong:
        bad, kind = wrong[0], "sparse" if wrong[0].sparse is not None else "ragged"
        problem = f"has lengths of its own, beside those of group {schema[cut[0]].group!r}, and cannot be cut"
        if bad.is_ragged or bad.sparse is not None:
            of_context = f"and {name} takes only dense context fields of known shape"
            problem = f"is {kind} and cannot be cut" if bad.is_list else f"is {kind}, {of_context}"
        raise OptionError(f"{name}: field {bad.name!r} {problem}; {advise_dropping(schema, [f.name for f in wrong])}")
    return schema.groups


def advise_dropping(schema: Schema, names: Collection[str]) -> str:
    """Write advice on how to leave fields out.

    The advice names an option of `read`. For elements passed to `batch`, it is to drop the fields in `map` first.
    """
    rest = [field.name for field in schema.fields if field.name not in names and field.feature not in NUMBERS]
    return "drop it in `.map()` first" if schema.name == ELEMENTS else f"leave it out: fields={rest}"


def lists_to_cut(schema: Schema, *, several: bool = False) -> list[str]:
    """List the feature lists that are neither sparse nor ragged.

    Unless `several` is true, the result is limited to the first of them and the lists that are aligned with it.
    """
    lists = [field for field in schema.fields if field.is_list and field.sparse is None and not field.is_ragged]
    return [field.name for field in lists if several or field.group == lists[0].group]


@attrs.frozen(eq=False)
class Steps:
    """Concatenated steps of one feature list, for the records of a plan.

    Attributes:
        pool: values of all steps, `(1 + S, *shape)`; the first row is the padding.
        first: int64, `(k + 1,)`: index of the first step of each record, not counting the padding.
        sizes: int64, `(k + 1,)`: number of steps of each record; the last entry is 0 and stands for no record.
    """

    pool: Any
    first: Any
    sizes: Any

    def gather(self, rows: Any, positions: Any) -> Any:
        """Gather steps of records, with padding beyond the end of a record.

        Args:
            rows: int64, `(b,)`: index of the record of each row.
            positions: int64, `(b, t)`, not negative: positions of the steps in that record.
        """
        import tensorflow as tf

        at = tf.gather(self.first, rows)[:, tf.newaxis] + positions + 1
        return tf.gather(self.pool, tf.where(positions < tf.gather(self.sizes, rows)[:, tf.newaxis], at, 0))


@attrs.frozen(eq=False)
class StoredSteps:
    """Steps of one feature list of one record, kept as the stored buffer.

    Only steps that are gathered are decoded.

    Attributes:
        field: declaration of the list.
        buffer: string scalar.
        size: int64 scalar: number of steps.
    """

    field: Field
    buffer: Any
    size: Any

    def gather(self, rows: Any, positions: Any) -> Any:
        """Decode the buffer from the first to the last of the given steps, and gather them (see `Steps.gather`).

        If rows are far apart, each is decoded separately.
        """
        import tensorflow as tf

        del rows
        first, last = self._span(positions)
        near = last - first <= 2 * tf.size(positions, tf.int64)
        row = tf.TensorSpec([positions.shape[1], *self.field.rest], self.field.element.graph)
        each = functools.partial(tf.map_fn, self._decode, positions, fn_output_signature=row)
        return tf.cond(near, functools.partial(self._decode, positions), each)

    def _span(self, positions: Any) -> tuple[Any, Any]:
        """Find the range of steps that contains all positions within the record.

        The result is the first of these positions, and the end of the range. Positions beyond the record are ignored.
        """
        import tensorflow as tf

        inside = positions < self.size
        last = tf.reduce_max(tf.where(inside, positions + 1, 0))
        return tf.minimum(tf.reduce_min(tf.where(inside, positions, self.size)), last), last

    def _decode(self, positions: Any) -> Any:
        import tensorflow as tf

        first, last = self._span(positions)
        width = self.field.element.itemsize * self.field.count
        part = tf.strings.substr(self.buffer, first * width, (last - first) * width)
        values = with_shape(decode_buffers(part[tf.newaxis], self.field, fixed=False)[0], self.field)
        return tf.gather(_with_nothing(values, first=True), tf.where(positions < self.size, positions - first + 1, 0))


@attrs.frozen(eq=False)
class Parsed:
    """Parsed records of a plan.

    Attributes:
        names: names of all tensors of the fields, in declaration order.
        context: values of the k records in each context field, `(k + 1, *shape)`; the last value is 0 and stands for no
            record.
        lists: `Steps` or `StoredSteps` of each feature list, by name.
        lengths: int64, `(k + 1,)`, or `(k + 1, groups)` for several groups; the last entry is 0 and stands for no
            record.
    """

    names: tuple[str, ...]
    context: dict[str, Any]
    lists: dict[str, Any]
    lengths: Any

    def fields(self, rows: Any, positions: Any) -> dict[str, Any]:
        """Gather the tensors of all fields for the rows of a batch (see `Steps.gather`)."""
        import tensorflow as tf

        values = {name: tf.gather(context, rows) for name, context in self.context.items()}
        values |= {name: steps.gather(rows, positions) for name, steps in self.lists.items()}
        return {name: values[name] for name in self.names}


def buffered_apart(feed: Feed) -> list[Field]:
    """List the buffered fields that can be decoded slice by slice.

    The list is empty if a window may have several records, or if fields are derived or cropped.
    """
    if feed.origin.window(2) > 1 or feed.parser.derivations or feed.parser.crops:
        return []
    fields = [field for field in feed.parser.schema.fields if field.is_list and field.packed and field.buffered]
    return [field for field in fields if not (field.may_lack or field.is_ragged or field.sparse is not None)]


def parse_records(parser: Parser, serialized: Any, lengths: Any, where: str, apart: Sequence[Field] = ()) -> Parsed:
    """Parse the records of a plan.

    Args:
        parser: parser of the fields.
        serialized: string, `(k,)`.
        lengths: int64, `(k,)`, or `(k, groups)` for several groups: lengths that the plan expects; any
            other length raises an error.
        where: label of a record in error messages.
        apart: fields to keep as stored buffers; if there are any, the plan must have exactly one record.
    """
    import tensorflow as tf

    schema = parser.schema
    as_bytes: dict[str, Any] = {"element": element_type("bytes"), "shape": (), "storage": "auto", "align": None}
    stored = {field.name: attrs.evolve(field, **as_bytes) for field in apart}
    if stored:
        fields = tuple(stored.get(field.name, field) for field in schema.fields)
        parser = Parser(attrs.evolve(schema, fields=fields), parser.layout, where=parser.where)
    columns, parsed = parser.parse_columns(serialized)
    rows = tf.shape(serialized, tf.int64)[0]
    context: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    for field in schema.fields:
        column = columns[field.name]
        planned = lengths
        if field.is_list and lengths.shape.rank != 1:
            planned = lengths[:, schema.groups.index(field.group)]
        message = f"{where}: lengths", planned, f"are expected of field {field.name!r} and those aligned with it, got"
        if field.name in stored:
            buffers, steps = whole_buffers(column.values, field)
            size = tf.reduce_sum(steps)
            size = checked(size, tf.equal(size, lengths[0]), *message, size)
            # Usually there is one buffer; do not copy it.
            buffer = tf.cond(tf.size(steps) == 1, lambda b=buffers: b[0], lambda b=buffers: tf.strings.reduce_join(b))
            lists[field.name] = StoredSteps(field, buffer, size)
            continue
        if field.optional:
            context[f"{field.name}_present"] = column.present
        if not field.is_list:
            context[field.name] = padded(field, column, rows, None, Padding())
            continue
        steps = of_all_rows(column, column.steps)
        have = parsed[field.group]
        sizes = tf.concat([checked(steps, tf.equal(have, planned), *message, have), [0]], 0)
        lists[field.name] = Steps(_with_nothing(column.values, first=True), tf.cumsum(sizes, exclusive=True), sizes)
    names = []
    for field in schema.fields:
        names += [field.name, f"{field.name}_present"] if field.optional else [field.name]
    context = {name: _with_nothing(value, first=False) for name, value in context.items()}
    return Parsed(tuple(names), context, lists, _with_nothing(lengths, first=False))


def _with_nothing(values: Any, *, first: bool) -> Any:
    """Add a row of zeros or empty text before or after values."""
    import tensorflow as tf

    nothing = tf.zeros([1, *values.shape[1:]], values.dtype)
    return tf.concat([nothing, values] if first else [values, nothing], 0)


def only_needed(serialized: Any, lengths: Any, rows: Any) -> tuple[Any, Any, Any]:
    """Drop the records that no row refers to, and renumber the rows.

    Args:
        serialized: string, `(k,)`.
        lengths: int64, `(k,)`.
        rows: int64, index of a record in `[0, k]`; k means no record.
    """
    import tensorflow as tf

    size = tf.size(serialized, tf.int64)
    needed = tf.scatter_nd(rows[:, tf.newaxis], tf.ones_like(rows), [size + 1])[:-1] > 0
    number = tf.cumsum(tf.cast(tf.concat([needed, [True]], 0), tf.int64)) - 1
    return tf.boolean_mask(serialized, needed), tf.boolean_mask(lengths, needed), tf.gather(number, rows)


def cut_batches(
    feed: Feed,
    plans: Any,
    batch_size: int,
    width: int,
    assemble: Callable[[Parsed, Any, Any], dict[str, Any]],
    *,
    whole: bool,
    apart: Sequence[Field] = (),
) -> Any:
    """Parse the records of plans, cut them into batches, and shape the batches into elements.

    A checkpoint contains little more than the current plan and its serialized records.

    Args:
        feed: records to read.
        plans: `tf.data.Dataset` of `(serialized: string [k], lengths: int64 [k], rows: int64 [m], indices: int64 [m,
            ...])`: the records with their lengths, and two entries per row of the batches: the index of its record (k
            for no record), and the index of its slice in that record.
        batch_size: rows per batch; the last batch of a plan may have fewer.
        width: steps of a row.
        assemble: function that builds the tensors of rows from parsed records, `rows` and `indices`.
        whole: whether all batches have the same number of rows.
        apart: fields to keep as stored buffers; if there are any, each plan has one record, and batches continue across
            plans.
    """
    import tensorflow as tf

    # A function call costs more than a small batch, so each call gathers several batches.
    together = batch_size * max(1, _STEPS // (batch_size * width))

    def cut(serialized: Any, lengths: Any, rows: Any, indices: Any) -> Any:
        records = parse_records(feed.parser, serialized, lengths, feed.origin.record, apart)

        def gather(start: Any) -> Any:
            end = start + together
            return assemble(records, rows[start:end], indices[start:end])

        return tf.data.Dataset.range(0, tf.size(rows, tf.int64), together).map(gather)

    gathered = plans.filter(lambda *plan: tf.size(plan[2]) > 0).flat_map(cut)
    return feed.map_batches(gathered.rebatch(batch_size, drop_remainder=whole), feed.shape, batch_size)
