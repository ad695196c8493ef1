"""Decoding of serialized records to columns and record objects, in numpy.

`parse` decodes inside graphs, and uses the rules for missing values that are defined here.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import operator
import types
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import Column, builder, group_lengths, keep_freed_memory, objects, scatter
from seqrecorder.codec.flat_values import (
    FLOAT_BYTES,
    Broken,
    Reader,
    Values,
    declared,
    from_buffer,
    kind_of,
    require_all,
    view_as,
)
from seqrecorder.codec.graph_ops import checked, constant, spread_rows
from seqrecorder.codec.layouts import describe_message, gather_numbered, lacks_features, require_bounds
from seqrecorder.errors import FieldProblem, RecordError
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.exact_values import Mismatch, SparseVector
from seqrecorder.schema.field import Field, value_features
from seqrecorder.wire.byte_rows import Messages, Spans, bounds
from seqrecorder.wire.read import (
    Steps,
    WireError,
    entries,
    equal_steps,
    feature_values,
    find_entries,
    halves,
    list_values,
    message_spans,
    one_int64,
    packed_int64,
    payloads,
    usual_form,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Builder
    from seqrecorder.codec.layouts import Layout
    from seqrecorder.schema.schema import Schema
    from seqrecorder.wire.read import FeatureSpans


class Vectors(types.SimpleNamespace):
    """Array operations that the rules for missing values need, in numpy or in a graph.

    Attributes:
        checked: return a value if the flags of all records are true; otherwise fail for the first record with a false
            flag. Arguments: field, value, flags, message, and details (words, and vectors with a value per record).
        constant: convert values of a field; without a field, convert to int64.
        filled: create a vector as long as another one, filled with an int.
        lacks: check whether any flag may be true.
        to_mask: return the flags, or None if all are true.
        where: `numpy.where`.
        concat: `numpy.concatenate`.
        equal: `numpy.equal`; in graphs of TensorFlow 1, `==` does not compare values.
        chosen: select values by a mask.
        take: select values by indices.
        starts: compute the offset of each row from the sizes of the rows.
        ranges: concatenate the ranges with the given starts and sizes.
        longest: compute the elementwise maximum of several vectors.
        with_defaults: spread the values of present records to all records, and fill in the default of the field.
    """


def _checked(field: Field, value: Any, ok: NDArray[np.bool_], message: str, *details: Any) -> Any:
    details = tuple(item if isinstance(item, str) else item.astype(np.int64) for item in details)
    require_all(ok, range(ok.size), field, message, *details)
    return value


def _with_defaults(field: Field, values: NDArray[Any], have: NDArray[np.bool_]) -> NDArray[Any]:
    if have.all():
        return values
    out = np.empty((have.size, *field.rest), values.dtype)
    out[have] = values
    default = field.exact(field.default)
    out[~have] = objects([default]) if field.any_size else default
    return out


NUMPY = Vectors(
    checked=_checked,
    constant=lambda field, values: np.asarray(values, np.int64) if field is None else values,
    filled=lambda like, value: np.full(like.shape, value, np.int64),
    lacks=np.any,
    to_mask=lambda flags: None if flags.all() else flags,
    where=np.where,
    concat=np.concatenate,
    equal=np.equal,
    chosen=operator.getitem,
    take=operator.getitem,
    starts=lambda sizes: bounds(sizes)[:-1],
    ranges=lambda starts, sizes: np.repeat(starts - bounds(sizes)[:-1], sizes) + np.arange(int(sizes.sum())),
    longest=lambda several: np.max(np.stack(several), 0),
    with_defaults=_with_defaults,
)


@attrs.frozen(eq=False)
class Presence:
    """Masks of the records that have a value of a field.

    Attributes:
        absent: mask of the records with neither feature nor flag, whose value is the default, bool `(n,)`; None if
            there are none.
        present: mask of the records with a value, including the default, bool `(n,)`; None if all must have a value.
        excused: mask of the records without steps, whose length is not compared with that of other fields, bool `(n,)`;
            None if there are none.
    """

    absent: Any = None
    present: Any = None
    excused: Any = None


def presence_of(xp: Vectors, field: Field, sizes: Any, stated: Any, holds: Any) -> tuple[Any, Presence]:
    """Check the sizes of a field that may be empty, and find the records that have a value.

    Args:
        xp: array operations, `NUMPY` or `of_graphs()`.
        field: feature list, or context field of unknown length.
        sizes: number of steps in each record (of a context field, the number of values), `(n,)`.
        stated: presence flags of an optional field: 1 for a value, 0 for None, -1 if the flag is missing because
            another program wrote the record; or None instead of flags if no record has one.
        holds: mask of the records that have the feature, bool `(n,)`; None if the parser has already checked that every
            record has it.
    """
    if not field.may_lack:
        return (sizes if holds is None else xp.checked(field, sizes, holds, _missing(field))), Presence()
    if not field.optional:
        return sizes, Presence(~holds, excused=None if field.has_filling else ~holds)
    stated = xp.filled(sizes, -1) if stated is None else stated
    says_none = xp.equal(stated, 0)
    sizes = xp.checked(field, sizes, ~says_none | xp.equal(sizes, 0), _contradiction(field), stated, "and", sizes)
    absent = (stated < 0) & ~holds
    present = ~says_none if field.has_default else ~says_none & ~absent
    return sizes, Presence(absent, present, ~present if field.has_filling else ~present | absent)


def fixed_values(xp: Vectors, field: Field, values: Any, have: Any, stated: Any) -> tuple[Column, Presence]:
    """Build the column of a context field of known shape, in which an empty feature means a missing value.

    Args:
        xp: array operations, `NUMPY` or `of_graphs()`.
        field: declaration of the field.
        values: values of the records that have one.
        have: mask of the records with a value, bool `(n,)`; the feature of all others is missing or empty.
        stated: presence flags of an optional field, as in `presence_of`.
    """
    if not field.may_lack:
        return Column(xp.checked(field, values, have, _missing(field))), Presence()
    if not field.optional:
        return Column(xp.with_defaults(field, values, have)), Presence()
    stated = xp.filled(have, -1) if stated is None else stated
    ok = (stated < 0) | xp.equal(have, stated > 0)
    values = xp.checked(field, values, ok, _contradiction(field), stated, "and", have)
    present = ~xp.equal(stated, 0) if field.has_default else have
    if field.has_default:
        values = xp.chosen(xp.with_defaults(field, values, have), present)
    return Column(values, present=xp.to_mask(present)), Presence(present=present)


def _missing(field: Field) -> str:
    kind = "feature list" if field.is_list else "context feature"
    names = ", ".join(map(repr, value_features(field)))
    return f"the {kind} {names} is missing, and the class gives no default"


def _contradiction(field: Field) -> str:
    return f"a value where {field.presence!r} is 1 and none where it is 0 is expected, got"


def with_absent(
    xp: Vectors, field: Field, column: Column, sizes: Any, presence: Presence, *, kept: slice = slice(None)
) -> tuple[Column, Any]:
    """Fill in the default of a field for records that lack the field.

    Args:
        xp: array operations, `NUMPY` or `of_graphs()`.
        field: feature list, or context field of unknown length.
        column: column of the values that the records contain.
        sizes: number of steps (of a context field, of values) in each record before cropping, already checked.
        presence: masks of the records that have a value.
        kept: slice of the steps of the default that cropping keeps.

    Returns:
        The column, and the number of steps or values in each record before cropping.
    """
    if field.has_filling and xp.lacks(presence.absent):
        column = _insert_default(xp, field, column, presence.absent, kept)
        if field.is_list:
            sizes = xp.where(presence.absent, xp.constant(None, len(field.default)), sizes)
    present = None if presence.present is None else xp.to_mask(presence.present)
    if present is None:
        return column, sizes
    name = "steps" if field.is_list else "counts"
    return attrs.evolve(column, present=present, **{name: xp.chosen(getattr(column, name), present)}), sizes


def _insert_default(xp: Vectors, field: Field, column: Column, lacks: Any, kept: slice) -> Column:
    """Insert the default of the field for each record that lacks it."""
    value = field.exact(field.default)
    if field.is_list:
        value = value[kept]
    values, counts, indices = flat_default(field, value)
    name = "steps" if field.is_list else "counts"
    own = xp.constant(None, len(value) if field.is_list or field.sparse is None else counts[0])
    sizes = getattr(column, name)
    # The elements of the default are in front, so they are at offset 0.
    starts = xp.where(lacks, xp.constant(None, 0), own + xp.starts(sizes))
    sizes = xp.where(lacks, own, sizes)
    order = xp.ranges(starts, sizes)
    out: dict[str, Any] = {name: sizes}
    if field.is_list and column.counts is not None:
        every = xp.concat([xp.constant(None, counts), column.counts], 0)
        out["counts"] = xp.take(every, order)
        order = xp.ranges(xp.take(xp.starts(every), order), out["counts"])
    out["values"] = xp.take(xp.concat([xp.constant(field, values), column.values], 0), order)
    if indices is not None:
        out["indices"] = xp.take(xp.concat([xp.constant(None, indices), column.indices], 0), order)
    return attrs.evolve(column, **out)


def flat_default(field: Field, value: Any) -> tuple[Any, list[int], Any]:
    """Flatten the default of a field.

    Returns:
        The elements, the lengths of the rows, and the indices of a sparse field (None for other fields).
    """
    if field.sparse is not None:
        vectors = value if field.is_list else [value]
        indices = np.concatenate([np.empty(0, np.int64), *(vector.indices for vector in vectors)])
        nothing = np.empty(0, field.element.numpy)
        values = np.concatenate([nothing, *(vector.values for vector in vectors)])
        return values, [vector.indices.size for vector in vectors], indices
    if field.is_list and field.is_ragged:
        nothing = np.empty((0, *field.rest), field.element.numpy)
        return np.concatenate([nothing, *value]), list(map(len, value)), None
    return objects(value) if field.any_size else value, [len(value)], None


def reconcile(
    xp: Vectors,
    fields: Sequence[Field],
    sizes: Mapping[str, Any],
    excused: Mapping[str, Any],
    lengths: Mapping[str, Any],
) -> Any:
    """Compute the length of each record in an alignment group.

    If the fields of the group disagree, this is an error.

    Args:
        xp: array operations, `NUMPY` or `of_graphs()`.
        fields: fields of the group.
        sizes: mapping of field name to the number of steps of each record.
        excused: mapping of field name to the mask of the records that lack the field.
        lengths: mapping of field name to the number of steps of each record after cropping.
    """
    sure = next((field for field in fields if field.name not in excused), None)

    def common(of: Mapping[str, Any]) -> Any:
        return of[sure.name] if sure else xp.longest([of[field.name] for field in fields])

    size, length = common(sizes), common(lengths)
    names = [repr(field.name) for field in fields]
    for at, field in enumerate(fields):
        if field is sure or len(fields) == 1:
            continue
        agrees = xp.equal(sizes[field.name], size)
        if field.name in excused:
            agrees |= excused[field.name]
        others = ", ".join(names[:at] + names[at + 1 :])
        message = f"as many steps as of {others} are expected (align=None frees a field, length=(...) in sr.batch), got"
        length = xp.checked(field, length, agrees, message, sizes[field.name], "of", size)
    return length


# In graphs ------------------------------------------------------------------------------------------------------------


def find_features(
    serialized: Any, doubtful: Mapping[str, Any], context: Mapping[str, Any], lists: Mapping[str, Any]
) -> dict[str, Any]:
    """Find the records that have each feature.

    Args:
        serialized: serialized records, string `(n,)`.
        doubtful: mapping of feature to the mask of the records that parse to nothing and may lack it, bool `(n,)`.
        context: mapping of name to `tf.io.RaggedFeature`, for the context features.
        lists: mapping of name to `tf.io.RaggedFeature`, for the feature lists.

    Returns:
        Mapping of feature to the mask of the records that have it, bool `(n,)`.
    """
    import tensorflow as tf

    if not doubtful:
        return {}
    is_doubtful = tf.reduce_any(tf.stack(list(doubtful.values())), 0)
    everywhere = tf.ones_like(is_doubtful)
    if tf.executing_eagerly() and not bool(tf.reduce_any(is_doubtful)):
        return dict.fromkeys(doubtful, everywhere)
    rows = tf.where(is_doubtful)
    probes = tf.strings.join([_sentinel(context, lists), tf.gather_nd(serialized, rows)])
    parsed, sequences, _ = tf.io.parse_sequence_example(probes, dict(context) or None, dict(lists) or None)
    holds = {}
    for name, features in {**parsed, **sequences}.items():
        is_own = tf.equal(features.row_lengths(), 0)
        holds[name] = tf.tensor_scatter_nd_update(everywhere, rows, is_own) | ~doubtful[name]
    return holds


def _sentinel(context: Mapping[str, Any], lists: Mapping[str, Any]) -> bytes:
    """Serialize a message with one value of each feature."""
    import tensorflow as tf

    message = tf.train.SequenceExample()
    features = [(message.context.feature[name], spec) for name, spec in context.items()]
    features += [(message.feature_lists.feature_list[name].feature.add(), spec) for name, spec in lists.items()]
    for feature, spec in features:
        values = {tf.int64: feature.int64_list, tf.float32: feature.float_list, tf.string: feature.bytes_list}
        values[spec.dtype].value.append(b"" if spec.dtype == tf.string else 0)
    serialized: bytes = message.SerializeToString()
    return serialized


@functools.cache
def of_graphs() -> Vectors:
    """Return the array operations implemented with TensorFlow."""
    import tensorflow as tf

    return Vectors(
        checked=lambda field, value, ok, message, *details: checked(
            value, ok, f"field {field.name!r}: {message}", *details
        ),
        constant=lambda field, values: tf.constant(values, tf.int64) if field is None else constant(field, values),
        filled=lambda like, value: tf.fill(tf.shape(like), tf.constant(value, tf.int64)),
        lacks=lambda _: True,
        to_mask=lambda flags: flags,
        where=tf.where,
        concat=tf.concat,
        equal=tf.equal,
        chosen=tf.boolean_mask,
        take=tf.gather,
        starts=lambda sizes: tf.cumsum(sizes, exclusive=True),
        ranges=lambda starts, sizes: tf.ragged.range(starts, starts + sizes).flat_values,
        longest=lambda several: tf.reduce_max(tf.stack(several), 0),
        with_defaults=lambda field, values, have: spread_rows(values, have, constant(field, field.default)),
    )


class _UnusualError(Exception):
    """Records that are not in canonical form, or not valid messages."""

    def __init__(self, which: NDArray[np.bool_]) -> None:
        super().__init__()
        self.numbers = np.flatnonzero(which)


class ColumnDecoder:
    """Decoder of records to columns, for one schema and layout.

    Args:
        schema: schema of the records.
        layout: layout of sequences in the messages.
        joined: whether to decode texts of required fields to rows of a `Blob` instead of objects.
    """

    def __init__(self, schema: Schema, layout: Layout, *, joined: bool = False) -> None:
        self.schema, self.layout, self._joined = schema, layout, joined
        self._context: dict[bytes, str] = {}
        self._lists: dict[bytes, str] = {}
        for field in schema.fields:
            target = self._lists if self._in_lists(field) else self._context
            for name in value_features(field):
                is_index = field.sparse is not None and name.endswith("/indices")
                target[name.encode()] = "int64" if is_index else kind_of(field)
            if field.presence and layout == "steps":
                self._context[field.presence.encode()] = "int64"

    def _in_lists(self, field: Field) -> bool:
        return field.is_list and self.layout != "example"

    def decode(self, messages: Messages) -> dict[str, Column]:
        """Decode messages to columns.

        Raises:
            Broken: a record cannot be decoded; the error is about the first such record.
        """
        broken: Broken | None = None
        while True:
            try:
                columns = self._decode(messages)
            except Broken as error:
                # An earlier record may be broken in a later field.
                if error.record == 0:
                    raise
                broken, messages = error, messages.take(slice(error.record))
            else:
                if broken is not None:
                    raise broken
                return columns

    def _decode(self, messages: Messages) -> dict[str, Column]:
        rewritten = np.zeros(len(messages), bool)
        while True:
            try:
                return self._columns(messages)
            except _UnusualError as error:
                numbers = error.numbers
            if rewritten[numbers].any():
                again = int(numbers[rewritten[numbers]][0])
                raise Broken(again, "", "numbers of at most 10 bytes are expected")
            messages = messages.replaced(numbers, [self._usual_form(messages, n) for n in numbers.tolist()])
            rewritten[numbers] = True

    def _usual_form(self, messages: Messages, number: int) -> bytes:
        try:
            return usual_form(messages[number], self._context, self._lists)
        except WireError as error:
            raise Broken(number, "", str(error)) from None

    def _columns(self, messages: Messages) -> dict[str, Column]:
        context, lists, unusual = halves(messages)
        spans, strange = entries(context, list(self._context))
        in_lists, strange_lists = entries(lists, list(self._lists))
        unusual = unusual | strange | strange_lists
        if unusual.any():
            raise _UnusualError(unusual)
        columns: dict[str, Column] = {}
        sizes: dict[str, NDArray[np.int64]] = {}
        excused: dict[str, NDArray[np.bool_]] = {}
        for field in self.schema.fields:
            stated = self._stated(field, spans)
            features = in_lists if self._in_lists(field) else spans
            if not field.is_counted:
                columns[field.name] = self._fixed(field, features[field.feature.encode()], stated)
                continue
            column, holds = self._decode_field(field, features)
            known, presence = presence_of(NUMPY, field, column.sizes, stated, holds)
            columns[field.name], sizes[field.name] = with_absent(NUMPY, field, column, known, presence)
            if presence.excused is not None:
                excused[field.name] = presence.excused
        for group in self.schema.groups:
            reconcile(NUMPY, self.schema.members(group), sizes, excused, sizes)
        return columns

    def _stated(self, field: Field, spans: dict[bytes, Spans]) -> NDArray[np.int64] | None:
        """Read the presence flags of an optional field: 1 for a value, 0 for None, -1 if there is no flag."""
        span = spans.get((field.presence or "").encode()) if field.presence else None
        if span is None:
            return None
        stated = np.full(len(span), -1, np.int64)
        rows = np.flatnonzero(span.starts >= 0)
        flag = Field(field.name, field.presence or "", "context", element_type("int64"), ())
        stated[rows] = self._read(flag, span.take(rows), rows, len(span)).values
        return stated

    def _fixed(self, field: Field, span: Spans, stated: Any) -> Column:
        """Decode a context field of known shape.

        A feature without values is an error, unless the presence flag says that the value is None.
        """
        rows = np.flatnonzero(span.starts >= 0)
        required = np.ones(rows.size, bool) if stated is None else stated[rows] != 0
        values = self._read(field, span.take(rows), rows, len(span), required)
        have = np.zeros(len(span), bool)
        have[rows] = values.units > 0
        return fixed_values(NUMPY, field, values.values, have, stated)[0]

    def _read(self, field: Field, features: Spans, rows: Any, size: int, required: Any = True) -> Values:  # noqa: FBT002
        """Read the values of features.

        `rows` contains, for each feature, the number of its record. `size` is the number of records.
        """
        payload_spans, unusual = payloads(features, kind_of(field))
        _require_usual(unusual, rows, size)
        check = functools.partial(_require_usual, rows=rows, size=size)
        return self._reader(field, rows).read(payload_spans, check, any_number=field.is_counted, required=required)

    def _reader(self, field: Field, rows: NDArray[np.int64]) -> Reader:
        joined = self._joined and field.sparse is None and not field.may_lack
        return Reader(field, rows, joined=joined)

    def _decode_field(self, field: Field, spans: dict[bytes, Spans]) -> tuple[Column, NDArray[np.bool_]]:
        """Decode a field to a column.

        Records that lack the field get empty values.

        Returns:
            The column, and the mask of the records that have the field.
        """
        if field.sparse is not None:
            return self._decode_sparse(field, spans)
        span = spans[field.feature.encode()]
        holds = span.starts >= 0
        size = len(span)
        rows = np.flatnonzero(holds)
        own = span if rows.size == size else span.take(rows)
        if not field.is_list or self.layout == "example":
            values = self._read(field, own, rows, size)
            sizes = _spread(values.units, rows, size)
            column = Column(values.values, steps=sizes) if field.is_list else Column(values.values, counts=sizes)
            return column, holds
        if field.packed or self.layout == "packed":
            features, each, unusual = find_entries(own)
            _require_usual(unusual, rows, size)
            values = self._read(field, features, np.repeat(rows, each), size)
            steps = np.diff(bounds(values.units)[bounds(each)])
            return Column(values.values, steps=_spread(steps, rows, size)), holds
        check = functools.partial(_require_usual, rows=rows, size=size)
        values, each = self._reader(field, rows).read_steps(own, check)
        column = Column(values.values, steps=_spread(each, rows, size))
        return attrs.evolve(column, counts=values.units) if field.is_ragged else column, holds

    def _decode_sparse(self, field: Field, spans: dict[bytes, Spans]) -> tuple[Column, NDArray[np.bool_]]:
        index_name, value_name = (name.encode() for name in value_features(field))
        size, holds = len(spans[index_name]), np.ones(len(spans[index_name]), bool)
        expected = f"as many indices as values are expected in {field.feature!r}, got"
        features: list[Spans] = []
        eaches: list[NDArray[np.int64]] = []
        for name in (index_name, value_name):
            span = spans[name]
            holds &= span.starts >= 0
            own = Spans(span.data, np.maximum(span.starts, 0), np.maximum(span.stops, 0))  # a missing feature is empty
            each = np.ones(size, np.int64)
            if field.is_list:
                own, each, unusual = find_entries(own)
                _require_usual(unusual, np.arange(size), size)
            features.append(own)
            eaches.append(each)
        if (eaches[0] != eaches[1]).any():
            # TensorFlow may read past the end of a feature, and would then count one more value.
            for feature, each, kind in zip(features, eaches, ("int64", kind_of(field)), strict=True):
                _require_usual(payloads(feature, kind)[1], np.repeat(np.arange(size), each), size)
            require_all(eaches[0] == eaches[1], range(size), field, expected, eaches[0], "and", eaches[1])
        rows = np.repeat(np.arange(size), eaches[0])
        whole = Field(field.name, field.feature, "context", element_type("int64"), (None,))
        positions, values = (
            self._read(each, feature, rows, size) for each, feature in zip((whole, field), features, strict=True)
        )
        indices, counts = positions.values, positions.units
        require_all(counts == values.units, rows, field, expected, counts, "and", values.units)
        indices, flat = _ascending(field, indices, values.values, counts, rows)
        steps = eaches[0] if field.is_list else None
        return Column(flat, steps=steps, counts=counts, indices=indices), holds


def _spread(sizes: NDArray[np.int64], rows: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    if rows.size == size:
        return sizes
    out = np.zeros(size, np.int64)
    out[rows] = sizes
    return out


def _require_usual(unusual: NDArray[np.bool_], rows: NDArray[np.int64], size: int) -> None:
    if unusual.any():
        which = np.zeros(size, bool)
        which[rows[unusual]] = True
        raise _UnusualError(which)


def _ascending(
    field: Field, indices: NDArray[np.int64], values: NDArray[Any], counts: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Sort the indices and values of sparse vectors by index."""
    size = field.sparse or 0
    vector = np.repeat(np.arange(counts.size), counts)
    inside, rows = (indices >= 0) & (indices < size), rows[vector]
    require_all(inside, rows, field, f"indices in [0, {size}) are expected, got", indices)
    same = vector[1:] == vector[:-1]
    if (indices[1:] <= indices[:-1])[same].any():
        order = np.lexsort((indices, vector))
        indices, values = indices[order], values[order]
        distinct = ~same | (indices[1:] != indices[:-1])
        require_all(distinct, rows, field, "distinct indices are expected, got", indices, "twice")
    return indices, values


# One record ----------------------------------------------------------------------------------------------------------

_STORAGES = ("auto", "raw", "packed", "buffer")
_LARGEST = 1 << 20  # bytes of a record; copies of a larger one cost more than the overhead of a batch
_SHORT = 1 << 12  # bytes; values up to this are copied, because a view would keep a large record alive


def _require(ok: object) -> None:
    """Raise an error unless a condition is true.

    After such an error, the batch decoder decodes the record instead.
    """
    if not ok:
        raise WireError("the batch decoder is to look at it")


class SingleDecoder:
    """Decoder of one record at a time, used by selections and `Schema.decode`.

    For a short record, numpy's overhead takes 20 to 70 times as long as the decoding itself, so each field has a
    function that does without numpy. Records with errors are left to `ColumnDecoder`, which reports them.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> schema = sr.Schema.of(Word)
    >>> SingleDecoder(schema).values(schema.encode(Word("to")))
    ['to']

    Args:
        schema: schema of the records.
    """

    def __init__(self, schema: Schema) -> None:
        self._known = all(field.storage in _STORAGES and not field.is_numbered for field in schema.fields)
        self.gives_views = any(map(_is_whole, schema.fields))
        self._readers = [
            (field.is_list, _is_whole(field), _optional(field, _value_reader(field))) for field in schema.fields
        ]
        others = [(*value_features(field), field.presence or "") for field in schema.fields if not _is_whole(field)]
        self._others = {name.encode() for names in others for name in names}
        self._groups = [
            [index for index, field in enumerate(schema.fields) if field.is_list and field.group == group]
            for group in schema.groups
        ]

    def values(self, data: Any) -> list[Any] | None:
        """Read the values of a record; return None to leave it to the batch decoder.

        Args:
            data: bytes of a small record, or a view of a large one; the arrays can then be views into it.
        """
        kind = type(data)
        is_view = kind is memoryview
        if not self._known or not (is_view or kind is bytes) or is_view is not (len(data) > _LARGEST):
            return None
        try:
            halves = message_spans(data)
            rest = (data, *halves) if kind is bytes else self._without_buffers(data, *halves)
            values = []
            for is_list, is_whole, read in self._readers:
                octets, context, lists = (data, *halves) if is_whole else rest
                values.append(read(octets, lists if is_list else context, context))
        except (WireError, Broken, Mismatch, UnicodeDecodeError, KeyError):  # KeyError: a feature is missing
            return None
        for group in self._groups:
            sizes = {len(values[index]) for index in group if values[index] is not None}
            if len(sizes) > 1:
                return None
        return values

    def _without_buffers(self, data: memoryview, *halves: FeatureSpans) -> tuple[bytes, FeatureSpans, FeatureSpans]:
        """Copy the features of all fields that are not stored as whole buffers."""
        pieces, size = list[memoryview](), 0
        moved: list[FeatureSpans] = []
        for half in halves:
            moved.append({})
            for name, (start, stop) in half.items():
                if name in self._others:
                    moved[-1][name] = size, size + stop - start
                    pieces.append(data[start:stop])
                    size += stop - start
        _require(size <= _LARGEST)
        context, lists = moved
        return b"".join(pieces), context, lists


def _optional(
    field: Field, read: Callable[[bytes, FeatureSpans], Any]
) -> Callable[[bytes, FeatureSpans, FeatureSpans], Any]:
    """Wrap the function that reads a field, so that it returns None or the default for a message without the field."""
    if not field.may_lack:
        return lambda data, features, _: read(data, features)
    presence, names = (field.presence or "").encode(), [name.encode() for name in value_features(field)]

    def value(data: bytes, features: FeatureSpans, context: FeatureSpans) -> Any:
        has_values = any(name in features for name in names)
        if not has_values and not (field.optional and presence in context):
            return _absent(field)
        if not field.optional:
            return read(data, features)
        stated = one_int64(feature_values(data, *context[presence], "int64")[0])
        if stated == 1:
            return read(data, features)
        _require(not stated and not has_values)  # an empty value is valid; any other contradicts the flag
        return None

    return value


def _absent(field: Field) -> Any:
    """Return the value of a field for records that were written before the field was added."""
    if not field.has_default:
        return None
    _require(field.is_scalar)
    value = field.exact(field.default)
    return bool(value) if field.element.name == "bool" else value


def _is_whole(field: Field) -> bool:
    """Check whether a field is a buffer of numbers of fixed width."""
    if field.sparse is not None or (field.is_list and (field.is_ragged or not field.packed)):
        return False
    has_many = field.is_list or field.shape
    return bool(has_many and not field.element.is_text and (field.buffered or field.element.wire == "float"))


def _value_reader(field: Field) -> Callable[[bytes, FeatureSpans], Any]:
    """Build the function that reads a field from a message and its features."""
    if field.sparse is not None:
        return _sparse_reader(field)
    kind = kind_of(field)
    if field.is_list:
        return _step_reader(field) if field.is_single and kind != "float" else _list_reader(field)
    if not field.shape:
        return _scalar_reader(field)
    name = field.feature.encode()

    def read(data: bytes, features: FeatureSpans) -> Any:
        payload = feature_values(data, *features[name], kind)[0]
        values = _from_octets(field, payload) if kind == "float" else _elements(field, [payload])[0]
        _require(values.size % field.count == 0 if field.is_ragged else values.size == field.count)
        return values.reshape((-1,) * field.is_ragged + field.rest)

    return read


def _scalar_reader(field: Field) -> Callable[[bytes, FeatureSpans], Any]:
    name, kind, element = field.feature.encode(), kind_of(field), field.element
    limits = np.iinfo(element.numpy) if element.numpy.kind in "iu" and element.name != "uint64" else None
    texts: dict[str, Callable[[bytes], Any]] = {"str": bytes.decode, "bytes": bytes}
    as_text = texts.get(element.name)

    def read(data: bytes, features: FeatureSpans) -> Any:
        payload = feature_values(data, *features[name], kind)[0]
        if as_text is not None:
            _require(len(payload) == 1)
            return as_text(bytes(payload[0]))
        if limits is not None and kind == "int64":
            value = one_int64(payload)
            _require(limits.min <= value <= limits.max)
            return element.numpy.type(value)
        values, _ = _elements(field, [payload])
        _require(values.size == 1)
        return bool(values[0]) if element.name == "bool" else values[0]

    return read


def _step_reader(field: Field) -> Callable[[bytes, FeatureSpans], Any]:
    """Build the reader of a list with one integer or text per step."""
    name, kind = field.feature.encode(), field.element.wire
    steps = Steps(kind, bytes.decode if field.element.name == "str" else None)

    def read(data: bytes, features: FeatureSpans) -> Any:
        values = steps.read(data, *features[name])
        if kind == "bytes":
            return objects(values)
        return declared(field, np.array(values, np.int64), _ALL, _ALL)

    return read


def _list_reader(field: Field) -> Callable[[bytes, FeatureSpans], Any]:
    """Build the reader of a feature list of vectors, floats or buffers.

    The list can be ragged. It can be packed, or stored with one feature per step.
    """
    name, kind = field.feature.encode(), kind_of(field)
    width = field.count * (field.element.itemsize if field.buffered else FLOAT_BYTES)
    is_wide = not (field.packed or field.is_ragged or field.element.is_text or kind == "int64")

    def read(data: bytes, features: FeatureSpans) -> Any:
        start, stop = features[name]
        matrix = equal_steps(data, start, stop, width, kind) if is_wide else None
        if matrix is not None:
            return _from_octets(field, matrix.tobytes()).reshape(-1, *field.rest)
        steps = list_values(data, start, stop, kind)
        values, counts = _elements(field, steps)
        if field.packed:
            _require(len(steps) == 1 and values.size % field.count == 0)
        elif field.is_ragged:
            _require(not (counts % field.count).any())
            units = values.reshape(-1, *field.rest)
            return scatter(field, Column(units, steps=np.array([len(steps)]), counts=counts // field.count))[0]
        else:
            _require((counts == field.count).all())
        return values.reshape(-1, *field.rest)

    return read


def _sparse_reader(field: Field) -> Callable[[bytes, FeatureSpans], Any]:
    names = [name.encode() for name in value_features(field)]

    def read(data: bytes, features: FeatureSpans) -> Any:
        pairs = [(features[name], kind) for name, kind in zip(names, ("int64", kind_of(field)), strict=True)]
        if field.is_list:
            where, what = (list_values(data, *span, kind) for span, kind in pairs)
        else:
            where, what = ([feature_values(data, *span, kind)[0]] for span, kind in pairs)
        indices, counts = packed_int64(where)
        values, sizes = _elements(field, what)
        _require(np.array_equal(counts, sizes))
        if not field.is_list:
            return SparseVector(indices, values, field.sparse or 0)
        return scatter(field, Column(values, steps=np.array([len(where)]), counts=counts, indices=indices))[0]

    return read


_ALL = np.array([1 << 62])
"""Element counts for error messages: every element belongs to the first feature."""


def _elements(field: Field, features: Sequence[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Concatenate the elements of features (see `feature_values`).

    Returns:
        The elements, and the number of elements in each feature.
    """
    kind = kind_of(field)
    if kind == "int64":
        numbers, counts = packed_int64(features)
        return declared(field, numbers, _ALL, _ALL), counts
    if kind == "bytes" and not field.element.is_text:
        _require(all(len(feature) == 1 for feature in features))
        features = [feature[0] for feature in features]
    sizes = np.fromiter(map(len, features), np.int64, len(features))
    if field.element.is_text:
        items = [bytes(item) for feature in features for item in feature]
        return objects(list(map(bytes.decode, items)) if field.element.name == "str" else items), sizes
    width = field.element.itemsize if kind == "bytes" else FLOAT_BYTES
    _require(not (sizes % width).any())
    octets = features[0] if len(features) == 1 else b"".join(features)
    return _from_octets(field, octets), sizes // width


def _from_octets(field: Field, octets: Any) -> NDArray[Any]:
    """Convert bytes to the elements of a field.

    A buffered field expects the bytes of a buffer, and any other field those of float32 numbers. If the bytes belong to
    a large record, the result can be a view of them. Otherwise, it is a copy.
    """
    _require(len(octets) % (field.element.itemsize if field.buffered else FLOAT_BYTES) == 0)
    dtype = field.element.numpy
    is_plain = dtype == np.float32 or (field.buffered and dtype.kind != "b")
    if is_plain and isinstance(octets, memoryview) and isinstance(octets.obj, mmap.mmap):
        return np.frombuffer(octets, dtype)  # not aligned, but copying would read the whole file
    if not isinstance(octets, memoryview) or octets.readonly or len(octets) <= _SHORT:
        octets = bytearray(octets)  # a writable copy
    flat = np.frombuffer(octets, np.uint8)
    return from_buffer(field, flat, _ALL, _ALL) if field.buffered else declared(field, view_as(flat, "<f4"), _ALL, _ALL)


class RecordDecoder:
    """Decoder of records and columns, for one schema.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> RecordDecoder(sr.Schema.of(Word)).decode_batch([sr.Schema.of(Word).encode(Word("to"))])
    [Word(text='to')]

    Args:
        schema: schema of the records.
        layout: layout of sequences in serialized records; this library writes `steps`.
        joined: whether columns contain texts of required fields as rows of a `Blob` instead of objects.
    """

    def __init__(self, schema: Schema, layout: Layout = "steps", *, joined: bool = False) -> None:
        keep_freed_memory()
        if layout != "steps":  # layout `steps` can store all bounds
            require_bounds(schema.fields, layout)
        self.schema: Schema = schema
        self.layout: Layout = layout
        self._columns = ColumnDecoder(schema, layout, joined=joined)
        self._numbered = [field for field in schema.fields if field.is_numbered]

    def decode_batch(self, data: Sequence[bytes]) -> list[Any]:
        """Decode one record per serialized SequenceExample."""
        if len(data) == 1 and self.layout == "steps":
            values = self._single.values(data[0])
            if values is not None:
                return self.build([[value] for value in values])
        others = set(map(type, data)) - {bytes}
        if others:
            position = next(i for i, item in enumerate(data) if type(item) is not bytes)
            raise RecordError(f"cannot be decoded: expected bytes, got {others.pop().__name__}", position=position)
        return self.build(self.decode_values(Messages.of(data)))

    def decode_one(self, data: bytes | memoryview) -> Any:
        """Decode one record.

        Long arrays can be views of `data` if it is a memoryview.
        """
        values = self._single.values(data) if isinstance(data, memoryview) else None
        if values is not None:
            return self.build([[value] for value in values])[0]
        return self.decode_batch([bytes(data)])[0]

    @functools.cached_property
    def _single(self) -> SingleDecoder:
        return SingleDecoder(self.schema)

    @functools.cached_property
    def build(self) -> Builder:
        """Function that creates records from the values of each field."""
        return builder(self.schema)

    @property
    def gives_views(self) -> bool:
        """True if arrays of a large single record can be views of its bytes."""
        return self.layout == "steps" and self._single.gives_views

    def decode_values(self, messages: Messages) -> list[list[Any]]:
        """Decode messages to the values of each field.

        Raises:
            RecordError: a record cannot be decoded; the error is about the first such record.
        """
        if len(messages) == 1 and self.gives_views:
            values = self._single.values(messages.view(0))
            if values is not None:
                return [[value] for value in values]
        columns = self.decode_columns(messages)
        return [scatter(field, columns[field.name]) for field in self.schema.fields]

    def decode_columns(self, messages: Messages) -> dict[str, Column]:
        """Decode messages to columns.

        Raises:
            RecordError: a record cannot be decoded; the error is about the first such record.
        """
        messages = self._gather_numbered(messages) if self._numbered else messages
        try:
            return self._columns.decode(messages)
        except Broken as error:
            raise self._failure(messages[error.record], error) from None

    def _gather_numbered(self, messages: Messages) -> Messages:
        """Gather the numbered features of each message into lists, and add the lists to the message.

        An invalid message is left unchanged, so that the decoder reports it.
        """
        rows = []
        for number in range(len(messages)):
            rows.append(messages[number])
            with contextlib.suppress(WireError):
                rows[-1] = gather_numbered(rows[-1], self._numbered, self.layout)
        return Messages.of(rows)

    def lengths(self, messages: Messages, group: str) -> NDArray[np.int64]:
        """Read the length of each record in an alignment group.

        Only the fields of the group are decoded.

        Raises:
            RecordError: a record cannot be decoded; the error is about the first such record.
        """
        decoder = RecordDecoder(self.schema.select([field.name for field in self.schema.members(group)]), self.layout)
        return group_lengths(decoder.schema, decoder.decode_columns(messages), len(messages))[:, 0]

    def _failure(self, data: bytes, error: Broken) -> RecordError:
        """Build the error for a record that cannot be decoded; it names all missing fields."""
        first, spans = f"cannot be decoded as {self.schema.name}: {describe_message(data)}", None
        with contextlib.suppress(WireError):
            spans = message_spans(data)
        missing = [
            FieldProblem(field.name, (), f"the {field.kind} {field.feature!r}, or a default in the class", "nothing")
            for field in self.schema.fields
            if spans is not None and not field.may_lack and lacks_features(spans, field, self.layout)
        ]
        if missing:
            return RecordError(first, position=error.record, problems=missing)
        if error.problem is not None:
            return RecordError(first, position=error.record, problems=[error.problem])
        what = f"field {error.field!r}: {error.message}" if error.field else error.message
        return RecordError(f"{first}; {what}", position=error.record)
