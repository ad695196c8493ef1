"""Whether records hold a feature at all, and what stands for one that they lack.

TensorFlow's parser gives nothing for an absent feature and for an empty one alike. But messages that stand one after
the other merge, and of several entries of a map under one key the last counts
(https://protobuf.dev/programming-guides/encoding/#last-one-wins). So where a sentinel, a message with one value of a
feature, stands before a record, its value shows if the record does not hold that feature, be it empty. Only records
for which it matters are parsed again so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.absent_fields import flat_default
from seqrecorder.codec.columns import Column
from seqrecorder.codec.cropping import kept_of
from seqrecorder.codec.graph_ops import checked, default_of, spread_rows
from seqrecorder.schema.field import value_features

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.codec.cropping import Crop
    from seqrecorder.schema.field import Field


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


@attrs.frozen
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


def presence_of(field: Field, sizes: Any, stated: Any, held: Any) -> tuple[Any, Presence]:
    """Return the sizes of a field that may be empty, checked, and which records have a value.

    Args:
        field: a feature list, or context of unknown length.
        sizes: parts of each record, `(n,)`.
        stated: of an optional field: 1 where a record says that it has a value, 0 where it says None, and -1 where it
            says nothing, because others wrote it; None where none says anything.
        held: which records hold the feature, bool `(n,)`; None where the parser has seen to it.
    """
    import tensorflow as tf

    if not field.may_lack:
        return (sizes if held is None else checked(sizes, held, *_missing(field))), Presence()
    if not field.optional:
        return sizes, Presence(~held, excused=None if field.has_filling else ~held)
    if stated is None:
        stated = tf.fill(tf.shape(sizes), tf.constant(-1, tf.int64))
    sizes = checked(sizes, (stated != 0) | (sizes == 0), *_contradiction(field), stated, sizes)
    absent = (stated < 0) & ~held
    present = (stated != 0) if field.has_default else (stated != 0) & ~absent
    return sizes, Presence(absent, present, ~present if field.has_filling else ~present | absent)


def with_absent(field: Field, column: Column, sizes: Any, presence: Presence, crop: Crop) -> tuple[Column, Any]:
    """Return a column in which defaults stand for what records lack, and its sizes before cropping.

    Args:
        field: a feature list, or context of unknown length.
        column: what the records hold.
        sizes: parts of each record, checked, before they are cropped.
        presence: which records have a value.
        crop: the steps that are kept.
    """
    import tensorflow as tf

    with tf.control_dependencies([sizes]):
        column = attrs.evolve(column, values=tf.identity(column.values))
    if field.has_filling:
        column = filled(field, column, presence.absent, crop)
        if field.is_list:
            sizes = tf.where(presence.absent, tf.constant(len(field.default), tf.int64), sizes)
    if presence.present is None:
        return column, sizes
    kept = tf.boolean_mask(column.steps if field.is_list else column.counts, presence.present)
    column = attrs.evolve(column, present=presence.present, **{"steps" if field.is_list else "counts": kept})
    return column, sizes


def fixed_values(field: Field, values: Any, have: Any, stated: Any) -> tuple[Column, Presence]:
    """Return the column of a context field of known shape, in which no value is none at all.

    Args:
        field: the field.
        values: of those records that have one.
        have: which do, bool `(n,)`.
        stated: as for `presence_of`.
    """
    import tensorflow as tf

    if not field.may_lack:
        return Column(checked(values, have, *_missing(field))), Presence()
    if not field.optional:
        return Column(spread_rows(values, have, default_of(field))), Presence()
    if stated is None:
        stated = tf.fill(tf.shape(have), tf.constant(-1, tf.int64))
    ok = (stated < 0) | (have == (stated > 0))
    values = checked(values, ok, *_contradiction(field), stated, have)
    present = (stated != 0) if field.has_default else have
    if field.has_default:
        values = tf.boolean_mask(spread_rows(values, have, default_of(field)), present)
    return Column(values, present=present), Presence(present=present)


def _missing(field: Field) -> tuple[str]:
    kind = "feature list" if field.is_list else "context feature"
    names = ", ".join(map(repr, value_features(field)))
    return (f"field {field.name!r}: the {kind} {names} is missing, and the class gives no default",)


def _contradiction(field: Field) -> tuple[str]:
    return (f"field {field.name!r}: a value where {field.presence!r} is 1 and none where it is 0 is expected, got",)


def filled(field: Field, column: Column, lacks: Any, crop: Crop = ()) -> Column:
    """Return a column in which the default of its field stands for each record that lacks it.

    Args:
        field: one that `has_filling`.
        column: the values of all records, none of those that lack it.
        lacks: bool, `(n,)`.
        crop: the steps that are kept.
    """
    import tensorflow as tf

    value = field.exact(field.default)
    if crop:
        value = value[kept_of(len(value), crop)]  # of a random crop `Crop` refuses such fields
    values, counts, indices = flat_default(field, value)
    sizes = column.steps if field.is_list else column.counts
    own = tf.constant(len(value) if field.is_list or field.sparse is None else counts[0], tf.int64)
    sizes, order = _spread(own, sizes, lacks)
    out = {"steps" if field.is_list else "counts": sizes}
    if field.is_list and column.counts is not None:
        counts = tf.concat([tf.constant(counts, tf.int64), column.counts], 0)
        starts = tf.gather(tf.cumsum(counts, exclusive=True), order)
        out["counts"] = tf.gather(counts, order)
        order = tf.ragged.range(starts, starts + out["counts"]).flat_values
    out["values"] = tf.gather(tf.concat([_tensor(field, values), column.values], 0), order)
    if indices is not None:
        out["indices"] = tf.gather(tf.concat([tf.constant(indices, tf.int64), column.indices], 0), order)
    return attrs.evolve(column, **out)


def _spread(own: Any, sizes: Any, lacks: Any) -> tuple[Any, Any]:
    """Return how many parts each record has, and their order, once the default's parts stand before all others."""
    import tensorflow as tf

    begins = tf.where(lacks, tf.zeros_like(sizes), own + tf.cumsum(sizes, exclusive=True))
    spread = tf.where(lacks, own, sizes)
    return spread, tf.ragged.range(begins, begins + spread).flat_values


def _tensor(field: Field, values: Any) -> Any:
    """Return values as a graph holds them."""
    import tensorflow as tf

    held = values.tolist() if field.element.is_text else field.element.to_graph(values)
    return tf.constant(held, field.element.graph, values.shape)


def agreed(
    fields: Sequence[Field], sizes: Mapping[str, Any], excused: Mapping[str, Any], lengths: Mapping[str, Any]
) -> Any:
    """Return the length of each record in an alignment group, once its fields were found to agree.

    Args:
        fields: of the group.
        sizes: by field, the steps of each record.
        excused: by field, the records that lack it.
        lengths: by field, what is left of the steps once they are cropped.
    """
    import tensorflow as tf

    sure = next((field for field in fields if field.name not in excused), None)

    def common(of: Mapping[str, Any]) -> Any:
        return of[sure.name] if sure else tf.reduce_max(tf.stack([of[field.name] for field in fields]), 0)

    size, length = common(sizes), common(lengths)
    for field in fields:
        if field is sure or len(fields) == 1:
            continue
        agrees = sizes[field.name] == size
        if field.name in excused:
            agrees |= excused[field.name]
        others = ", ".join(repr(other.name) for other in fields if other is not field)
        message = f"field {field.name!r}: as many steps as of {others} are expected (align=None frees a field), got"
        length = checked(length, agrees, message, sizes[field.name], "of", size)
    return length
