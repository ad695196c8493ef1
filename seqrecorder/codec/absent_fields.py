"""What stands for a field in the records that lack it: one rule, in numpy and in graphs.

TensorFlow's parser gives nothing for an absent feature and for an empty one alike. But messages that stand one after
the other merge, and of several entries of a map under one key the last counts
(https://protobuf.dev/programming-guides/encoding/#last-one-wins). So where a sentinel, a message with one value of a
feature, stands before a record, its value shows if the record does not hold that feature, be it empty. Only records
for which it matters are parsed again so.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.broken_record import Broken
from seqrecorder.codec.columns import Column
from seqrecorder.codec.graph_ops import checked, default_of, spread_rows
from seqrecorder.schema.field import value_features
from seqrecorder.wire.byte_rows import bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field


@attrs.frozen
class Vectors:
    """The operations that the rule is made of, in numpy or in a graph.

    Attributes:
        checked: from a field, a value, whether all is well in each record, a message and what follows it (words, and
            values of each record) to the value; else it fails, of the first record that is not well.
        constant: from a field and its values to those; of None to int64.
        filled: from numbers of each record and an int to that int for each.
        lacks: whether some flags may be true.
        some: from flags to them, or None where all are true.
        where: as `numpy.where`.
        concat: as `numpy.concatenate`.
        equal: as `numpy.equal`; in graphs of TensorFlow 1 `==` compares no values.
        chosen: from values and a mask to those that it wants.
        take: from values and places to the values there.
        starts: from the sizes of parts to where each begins.
        ranges: from starts and sizes to the numbers from each start on.
        longest: from several vectors to the largest number of each record.
        with_defaults: from a field, the values of some records, and which these are, to a value for each record.
    """

    checked: Any
    constant: Any
    filled: Any
    lacks: Any
    some: Any
    where: Any
    concat: Any
    equal: Any
    chosen: Any
    take: Any
    starts: Any
    ranges: Any
    longest: Any
    with_defaults: Any


def _checked(field: Field, value: Any, ok: NDArray[np.bool_], message: str, *parts: Any) -> Any:
    if ok.all():
        return value
    place = int((~ok).argmax())
    said = [part if isinstance(part, str) else str(int(part[place])) for part in parts]
    raise Broken(place, field.name, " ".join([message, *said]))


def _ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.repeat(starts - bounds(sizes)[:-1], sizes) + np.arange(int(sizes.sum()))


def _with_defaults(field: Field, values: NDArray[Any], have: NDArray[np.bool_]) -> NDArray[Any]:
    if have.all():
        return values
    out = np.empty((have.size, *field.rest), values.dtype)
    out[have] = values
    out[~have] = field.exact(field.default)
    return out


NUMPY = Vectors(
    checked=_checked,
    constant=lambda field, values: np.asarray(values, np.int64) if field is None else values,
    filled=lambda like, value: np.full(like.shape, value, np.int64),
    lacks=np.any,
    some=lambda flags: None if flags.all() else flags,
    where=np.where,
    concat=np.concatenate,
    equal=np.equal,
    chosen=operator.getitem,
    take=operator.getitem,
    starts=lambda sizes: bounds(sizes)[:-1],
    ranges=_ranges,
    longest=lambda several: np.max(np.stack(several), 0),
    with_defaults=_with_defaults,
)


@attrs.frozen(eq=False)
class Presence:
    """Which records have a value of a field.

    Attributes:
        absent: bool `(n,)`: those that say and hold nothing, for which the default stands; None where none may.
        present: bool `(n,)`: those that have a value, be it the default; None where all must.
        excused: bool `(n,)`: those that have no steps and need not agree with others; None for none.
    """

    absent: Any = None
    present: Any = None
    excused: Any = None


def presence_of(xp: Vectors, field: Field, sizes: Any, stated: Any, held: Any) -> tuple[Any, Presence]:
    """Return the sizes of a field that may be empty, checked, and which records have a value.

    Args:
        xp: what this is made of: `NUMPY`, or `seqrecorder.codec.absent_fields.of_graphs()`.
        field: a feature list, or context of unknown length.
        sizes: parts of each record, `(n,)`.
        stated: of an optional field: 1 where a record says that it has a value, 0 where it says None, and -1 where it
            says nothing, because others wrote it; None where none says anything.
        held: which records hold the feature, bool `(n,)`; None where the parser has seen to it.
    """
    if not field.may_lack:
        return (sizes if held is None else xp.checked(field, sizes, held, _missing(field))), Presence()
    if not field.optional:
        return sizes, Presence(~held, excused=None if field.has_filling else ~held)
    stated = xp.filled(sizes, -1) if stated is None else stated
    says_none = xp.equal(stated, 0)
    sizes = xp.checked(field, sizes, ~says_none | xp.equal(sizes, 0), _contradiction(field), stated, "and", sizes)
    absent = (stated < 0) & ~held
    present = ~says_none if field.has_default else ~says_none & ~absent
    return sizes, Presence(absent, present, ~present if field.has_filling else ~present | absent)


def fixed_values(xp: Vectors, field: Field, values: Any, have: Any, stated: Any) -> tuple[Column, Presence]:
    """Return the column of a context field of known shape, in which no value is none at all.

    Args:
        xp: as for `presence_of`.
        field: the field.
        values: of those records that have one.
        have: which do, bool `(n,)`; all others lack the feature.
        stated: as for `presence_of`.
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
    return Column(values, present=xp.some(present)), Presence(present=present)


def _missing(field: Field) -> str:
    kind = "feature list" if field.is_list else "context feature"
    names = ", ".join(map(repr, value_features(field)))
    return f"the {kind} {names} is missing, and the class gives no default"


def _contradiction(field: Field) -> str:
    return f"a value where {field.presence!r} is 1 and none where it is 0 is expected, got"


def with_absent(
    xp: Vectors, field: Field, column: Column, sizes: Any, presence: Presence, *, kept: slice = slice(None)
) -> tuple[Column, Any]:
    """Return a column in which defaults stand for what records lack, and its sizes before cropping.

    Args:
        xp: as for `presence_of`.
        field: a feature list, or context of unknown length.
        column: what the records hold.
        sizes: parts of each record, checked, before they are cropped.
        presence: which records have a value.
        kept: the steps of the default that are left once it is cropped.
    """
    if field.has_filling and xp.lacks(presence.absent):
        column = _filled(xp, field, column, presence.absent, kept)
        if field.is_list:
            sizes = xp.where(presence.absent, xp.constant(None, len(field.default)), sizes)
    present = None if presence.present is None else xp.some(presence.present)
    if present is None:
        return column, sizes
    name = "steps" if field.is_list else "counts"
    return attrs.evolve(column, present=present, **{name: xp.chosen(getattr(column, name), present)}), sizes


def _filled(xp: Vectors, field: Field, column: Column, lacks: Any, kept: slice) -> Column:
    """Return a column in which the default of its field stands for each record that lacks it."""
    value = field.exact(field.default)
    if field.is_list:
        value = value[kept]
    values, counts, indices = flat_default(field, value)
    name = "steps" if field.is_list else "counts"
    own = xp.constant(None, len(value) if field.is_list or field.sparse is None else counts[0])
    sizes = getattr(column, name)
    # The default's parts stand before all others.
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
    """Return a value flat, how many elements each of its parts holds, and their indices where it is sparse."""
    if field.sparse is not None:
        vectors = value if field.is_list else [value]
        indices = np.concatenate([np.empty(0, np.int64), *(vector.indices for vector in vectors)])
        nothing = np.empty(0, field.element.numpy)
        values = np.concatenate([nothing, *(vector.values for vector in vectors)])
        return values, [vector.indices.size for vector in vectors], indices
    if field.is_list and field.is_ragged:
        nothing = np.empty((0, *field.rest), field.element.numpy)
        return np.concatenate([nothing, *value]), list(map(len, value)), None
    return value, [len(value)], None


def agreed(
    xp: Vectors,
    fields: Sequence[Field],
    sizes: Mapping[str, Any],
    excused: Mapping[str, Any],
    lengths: Mapping[str, Any],
) -> Any:
    """Return the length of each record in an alignment group, once its fields were found to agree.

    Args:
        xp: as for `presence_of`.
        fields: of the group.
        sizes: by field, the steps of each record.
        excused: by field, the records that lack it.
        lengths: by field, what is left of the steps once they are cropped.
    """
    sure = next((field for field in fields if field.name not in excused), None)

    def common(of: Mapping[str, Any]) -> Any:
        return of[sure.name] if sure else xp.longest([of[field.name] for field in fields])

    size, length = common(sizes), common(lengths)
    for field in fields:
        if field is sure or len(fields) == 1:
            continue
        agrees = xp.equal(sizes[field.name], size)
        if field.name in excused:
            agrees |= excused[field.name]
        others = ", ".join(repr(other.name) for other in fields if other is not field)
        message = f"as many steps as of {others} are expected (align=None frees a field), got"
        length = xp.checked(field, length, agrees, message, sizes[field.name], "of", size)
    return length


# In graphs ------------------------------------------------------------------------------------------------------------


def held_features(
    serialized: Any, doubtful: Mapping[str, Any], context: Mapping[str, Any], lists: Mapping[str, Any]
) -> dict[str, Any]:
    """Return which records hold each of some features, bool `(n,)`; of those that are not doubtful True.

    Args:
        serialized: string, `(n,)`.
        doubtful: by feature, the records that give nothing for it and may lack it, bool `(n,)`.
        context: what those of the features are parsed as that are in the context, each a `tf.io.RaggedFeature`.
        lists: likewise of the feature lists.
    """
    import tensorflow as tf

    if not doubtful:
        return {}
    some = tf.reduce_any(tf.stack(list(doubtful.values())), 0)
    everywhere = tf.ones_like(some)
    if tf.executing_eagerly() and not bool(tf.reduce_any(some)):
        return dict.fromkeys(doubtful, everywhere)
    rows = tf.where(some)
    probes = tf.strings.join([_sentinel(context, lists), tf.gather_nd(serialized, rows)])
    parsed, sequences, _ = tf.io.parse_sequence_example(probes, dict(context) or None, dict(lists) or None)
    held = {}
    for name, features in {**parsed, **sequences}.items():
        is_own = tf.equal(features.row_lengths(), 0)
        held[name] = tf.tensor_scatter_nd_update(everywhere, rows, is_own) | ~doubtful[name]
    return held


def _sentinel(context: Mapping[str, Any], lists: Mapping[str, Any]) -> bytes:
    """Return the message that has one value of each feature."""
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
    """Return the operations by which tensors are given what stands for fields that records lack."""
    import tensorflow as tf

    def constant(field: Field | None, values: Any) -> Any:
        if field is None:
            return tf.constant(values, tf.int64)
        held = values.tolist() if field.element.is_text else field.element.to_graph(values)
        return tf.constant(held, field.element.graph, values.shape)

    return Vectors(
        checked=lambda field, value, ok, message, *parts: checked(
            value, ok, f"field {field.name!r}: {message}", *parts
        ),
        constant=constant,
        filled=lambda like, value: tf.fill(tf.shape(like), tf.constant(value, tf.int64)),
        lacks=lambda _: True,
        some=lambda flags: flags,
        where=tf.where,
        concat=tf.concat,
        equal=tf.equal,
        chosen=tf.boolean_mask,
        take=tf.gather,
        starts=lambda sizes: tf.cumsum(sizes, exclusive=True),
        ranges=lambda starts, sizes: tf.ragged.range(starts, starts + sizes).flat_values,
        longest=lambda several: tf.reduce_max(tf.stack(several), 0),
        with_defaults=lambda field, values, have: spread_rows(values, have, default_of(field)),
    )
