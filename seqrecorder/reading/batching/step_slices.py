"""Stretches of steps cut out of whole records: what `Unroll` and `Window` have in common.

A plan says, for a window of serialized records, which stretch of which record is which row of which batch. The records
of a plan are parsed once, into flat columns; a batch is one gather from each of them. So a step, however many there
are, is never an element of its own.
"""

from __future__ import annotations

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
    from collections.abc import Callable, Sequence

    from seqrecorder.reading.strategy import Feed
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

_STEPS = 8192
"""Steps gathered at a time, unless one batch has more."""


def groups_of_steps(strategy: object, schema: Schema, *, several: bool = False) -> tuple[str, ...]:
    """Return the alignment groups of the fields that are read.

    Raises:
        OptionError: there is no feature list, a field that cannot be cut, or more than one group, unless there may be
            several.
    """
    name = type(strategy).__name__
    if not schema.groups:
        raise OptionError(
            f"{name}: none of the fields of {schema.name} that are read is a feature list; name one in fields="
        )
    group = schema.groups[0]
    problems = {}
    for field in schema.fields:
        if field.sparse is not None:
            problems[field.name] = "is sparse"
        elif field.is_ragged:
            problems[field.name] = "is ragged"
        elif field.is_list and field.group != group and not several:
            problems[field.name] = f"has lengths of its own, beside those of group {group!r}"
    if problems:
        bad, problem = next(iter(problems.items()))
        rest = [other.name for other in schema.fields if other.name not in problems and other.feature not in NUMBERS]
        raise OptionError(f"{name}: field {bad!r} {problem} and cannot be cut; leave it out: fields={rest}")
    return schema.groups


@attrs.frozen(eq=False)
class Steps:
    """The steps of one feature list in a plan's records, flat.

    Attributes:
        pool: the values, `(1 + S, *shape)`; the first is the padding.
        first: int64, `(k + 1,)`: where each record begins, not counting the padding.
        sizes: int64, `(k + 1,)`: steps of each record; the last stands for no record.
    """

    pool: Any
    first: Any
    sizes: Any

    def gather(self, rows: Any, positions: Any) -> Any:
        """Return the steps at positions of records, padding where there are none.

        Args:
            rows: int64, `(b,)`.
            positions: int64, `(b, t)`, not negative.
        """
        import tensorflow as tf

        at = tf.gather(self.first, rows)[:, tf.newaxis] + positions + 1
        return tf.gather(self.pool, tf.where(positions < tf.gather(self.sizes, rows)[:, tf.newaxis], at, 0))


@attrs.frozen(eq=False)
class StoredSteps:
    """The steps of one feature list in one record, as the buffer that is stored: only what is gathered is decoded.

    Attributes:
        field: the declaration.
        buffer: string scalar.
        size: int64 scalar: steps.
    """

    field: Field
    buffer: Any
    size: Any

    def gather(self, rows: Any, positions: Any) -> Any:
        """Return steps as `Steps.gather` does; those between the first and the last of them are decoded."""
        import tensorflow as tf

        del rows
        inside = positions < self.size
        last = tf.reduce_max(tf.where(inside, positions + 1, 0))
        first = tf.minimum(tf.reduce_min(tf.where(inside, positions, self.size)), last)
        width = self.field.element.itemsize * self.field.count
        part = tf.strings.substr(self.buffer, first * width, (last - first) * width)
        values = with_shape(decode_buffers(part[tf.newaxis], self.field, fixed=False)[0], self.field)
        return tf.gather(_with_nothing(values, first=True), tf.where(inside, positions - first + 1, 0))


@attrs.frozen(eq=False)
class Parsed:
    """The records of a plan, parsed.

    Attributes:
        names: of all that the fields give, in declaration order.
        context: what is given once for each record, `(k + 1, *shape)`; the last stands for no record.
        lists: the feature lists: `Steps` or `StoredSteps`.
        lengths: int64, `(k + 1,)`, of several groups `(k + 1, groups)`; the last stands for no record and is 0.
    """

    names: tuple[str, ...]
    context: dict[str, Any]
    lists: dict[str, Any]
    lengths: Any

    def fields(self, rows: Any, positions: Any) -> dict[str, Any]:
        """Return all that the fields give for rows of a batch (see `Steps.gather`)."""
        import tensorflow as tf

        return {
            name: self.lists[name].gather(rows, positions)
            if name in self.lists
            else tf.gather(self.context[name], rows)
            for name in self.names
        }


def buffered_apart(feed: Feed) -> list[Field]:
    """Return the fields of which stretches are decoded, and not whole records: buffers of records that come alone."""
    if feed.origin.window(2) > 1 or feed.parser.derivations or feed.parser.crops:
        return []
    fields = [field for field in feed.parser.schema.fields if field.is_list and field.packed and field.buffered]
    return [field for field in fields if not (field.may_lack or field.is_ragged or field.sparse is not None)]


def _as_stored(field: Field) -> Field:
    return attrs.evolve(field, element=element_type("bytes"), shape=(), storage="auto", align=None)


def parse_records(parser: Parser, serialized: Any, lengths: Any, where: str, apart: Sequence[Field] = ()) -> Parsed:
    """Parse the records of a plan.

    Args:
        parser: of the fields.
        serialized: string, `(k,)`.
        lengths: int64, `(k,)`, of several groups `(k, groups)`: what was planned with; records of other lengths are an
            error.
        where: what errors call the dataset.
        apart: fields of the one record of a plan that are left as they are stored.
    """
    import tensorflow as tf

    schema = parser.schema
    stored = {field.name: _as_stored(field) for field in apart}
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
            # As a rule there is one, which is not to be copied.
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
    return Parsed(
        tuple(names),
        {name: _with_nothing(value, first=False) for name, value in context.items()},
        lists,
        _with_nothing(lengths, first=False),
    )


def _with_nothing(values: Any, *, first: bool) -> Any:
    """Return values with a row of zeros (empty text) before or after them."""
    import tensorflow as tf

    nothing = tf.zeros([1, *values.shape[1:]], values.dtype)
    return tf.concat([nothing, values] if first else [values, nothing], 0)


def only_needed(serialized: Any, lengths: Any, rows: Any) -> tuple[Any, Any, Any]:
    """Return those records that occur in rows, and the rows counted among them.

    Args:
        serialized: string, `(k,)`.
        lengths: int64, `(k,)`.
        rows: int64, in `[0, k]`; k stands for no record.
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
    """Return the shaped batches of plans.

    Little but the current plan, with its records as they are stored, is saved in a checkpoint.

    Args:
        feed: the records.
        plans: a `tf.data.Dataset` of `(serialized: string [k], lengths: int64 [k], rows: int64 [m], indices: int64
            [m, ...])`: the records, and for each row of the batches in turn its record (k for none) and which of the
            record's stretches it holds.
        batch_size: rows of a batch; the last of a plan may have fewer.
        width: steps of a row.
        assemble: from the parsed records, and some rows and their indices, to the tensors of these rows.
        whole: whether no batch has fewer rows.
        apart: fields that are left as they are stored; a plan has one record then, and batches go on in the next plan.
    """
    import tensorflow as tf

    # A function called for each batch costs more than a small batch does: several are gathered at a time. Of what is
    # stored, stretches that lie anywhere are cut one by one.
    together = batch_size * max(1, _STEPS // (batch_size * width))
    together = 1 if apart and feed.options.shuffle else together

    def cut(serialized: Any, lengths: Any, rows: Any, indices: Any) -> Any:
        records = parse_records(feed.parser, serialized, lengths, feed.origin.record, apart)

        def gather(start: Any) -> Any:
            end = start + together
            return assemble(records, rows[start:end], indices[start:end])

        return tf.data.Dataset.range(0, tf.size(rows, tf.int64), together).map(gather)

    gathered = plans.filter(lambda *plan: tf.size(plan[2]) > 0).flat_map(cut)
    batches = gathered.rebatch(batch_size, drop_remainder=whole)
    return feed.map_batches(batches, feed.shape, batch_size)
