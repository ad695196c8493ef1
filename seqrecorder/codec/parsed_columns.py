"""One field of many records flat, in graphs: from what TensorFlow's parser gave, to a column of its declared dtype.

`seqrecorder.codec.column_decoder` is the same in numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.codec.columns import Column
from seqrecorder.codec.cropping import cropped_positions, cropped_stretches
from seqrecorder.codec.decode_values import decode_images, tensor_buffers
from seqrecorder.codec.graph_ops import (
    ascending,
    check_items,
    checked,
    decode_buffers,
    differences,
    sums_of_rows,
    to_declared,
    whole_buffers,
    whole_rows,
    with_shape,
)

if TYPE_CHECKING:
    from seqrecorder.codec.cropping import Crop
    from seqrecorder.codec.parsing_spec import Layout, Specs
    from seqrecorder.schema.field import Field


def column_of(field: Field, features: dict[str, Any], specs: Specs, crop: Crop) -> tuple[Column, Any]:
    """Return a field flat, with values of its declared dtype, and how many parts each record has before cropping.

    Parts are steps; of context, values.
    """
    if field.sparse is not None:
        return _sparse_column(field, features, crop)
    if not field.is_list:
        values, counts = _ragged_values(field, features[field.feature])
        return Column(values, counts=counts), counts
    if specs.in_one_feature(field):
        return _packed_column(field, features[field.feature], specs.layout, crop)
    return _list_column(field, features[field.feature], crop)


def fixed_values_of(field: Field, features: dict[str, Any], stated: Any, held: Any) -> tuple[Any, Any]:
    """Return the values of a context field of known shape, and which records have one.

    Args:
        field: the field.
        features: what the op gave.
        stated: as for `seqrecorder.codec.absent_fields.presence_of`.
        held: which records hold the feature; None where a later check finds what is missing.
    """
    or_none = True if held is None else ~held if stated is None else ~held | (stated >= 0)
    ragged = features[field.feature]
    items = differences(ragged.row_splits)
    expected = 1 if field.in_items else field.count
    flat = check_items(ragged.values, field, items, expected, or_none=or_none)
    return with_shape(_elements(field, flat)[0], field), items > 0


def _packed_column(field: Field, ragged: Any, layout: Layout, crop: Crop) -> tuple[Column, Any]:
    """Return the column, and the steps of each record before they are cropped."""
    import tensorflow as tf

    if layout == "example":
        splits, flat = ragged.row_splits, ragged.values
    else:
        splits, flat = tf.gather(ragged.values.row_splits, ragged.row_splits), ragged.flat_values
    if crop and field.buffered:
        return _cut_buffers(field, splits, flat, crop)
    values, sizes = _elements(field, flat, whole=True)
    if sizes is not None:
        steps = sums_of_rows(sizes, splits)
    else:
        items = differences(splits)
        values, steps = (values, items) if field.in_items else whole_rows(values, field, items)
    values = with_shape(values, field)
    if not crop:
        return Column(values, steps=steps), steps
    kept, positions = cropped_positions(steps, crop)
    return Column(tf.gather(values, positions), steps=kept), steps


def _list_column(field: Field, ragged: Any, crop: Crop) -> tuple[Column, Any]:
    """Return the column, and the steps of each record before they are cropped."""
    whole = differences(ragged.row_splits)
    steps, inner = _kept(whole, ragged.values, crop)  # one row per step
    if field.is_ragged:
        values, counts = _ragged_values(field, inner)
        return Column(values, steps=steps, counts=counts), whole
    expected = 1 if field.in_items else field.count
    flat = check_items(inner.values, field, differences(inner.row_splits), expected)
    return Column(with_shape(_elements(field, flat)[0], field), steps=steps), whole


def _sparse_column(field: Field, features: dict[str, Any], crop: Crop) -> tuple[Column, Any]:
    """Return the column, and the steps of each record before they are cropped, None for context."""
    import tensorflow as tf

    indices, values = (features[f"{field.feature}/{part}"] for part in ("indices", "values"))
    steps = whole = None
    expected = f"field {field.name!r}: as many indices as values are expected in {field.feature!r}, got"
    if field.is_list:
        found, have = differences(indices.row_splits), differences(values.row_splits)
        whole = checked(found, tf.equal(found, have), expected, found, have)
        steps, indices = _kept(whole, indices.values, crop)
        values = _kept(whole, values.values, crop)[1]
    elements, sizes = _elements(field, values.values)
    found = differences(indices.row_splits)
    have = differences(values.row_splits) if sizes is None else sums_of_rows(sizes, values.row_splits)
    counts = checked(found, tf.equal(found, have), expected, found, have)
    flat, elements = ascending(field, indices.values, elements, counts)
    return Column(elements, steps=steps, counts=counts, indices=flat), counts if whole is None else whole


def _cut_buffers(field: Field, splits: Any, buffers: Any, crop: Crop) -> tuple[Column, Any]:
    """Return a column of which only the steps that are kept are decoded, and the steps of each record before that.

    Args:
        field: whole sequences as buffers.
        splits: of the buffers of each record; as a rule it has one.
        buffers: string vector.
        crop: what is kept.
    """
    import tensorflow as tf

    buffers, sizes = whole_buffers(buffers, field)
    ends = tf.concat([[0], tf.cumsum(sizes)], 0)
    begins = tf.gather(ends, splits)
    whole = differences(begins)
    kept, first, step = cropped_stretches(whole, crop)
    last = tf.minimum(whole, first + kept * step)
    first = tf.minimum(first, last)
    before = ends[:-1] - tf.repeat(begins[:-1], differences(splits))  # steps of the record in buffers before

    def inside(places: Any) -> Any:
        return tf.clip_by_value(tf.repeat(places, differences(splits)) - before, 0, sizes)

    start, stop = inside(first), inside(last)
    width = field.element.itemsize * field.count
    parts = tf.strings.substr(buffers, start * width, (stop - start) * width)
    values = with_shape(_elements(field, parts, whole=True)[0], field)
    if step > 1:
        places = tf.cumsum(last - first, exclusive=True)
        values = tf.gather(values, tf.ragged.range(places, places + kept * step - step + 1, step).flat_values)
    return Column(values, steps=kept), whole


def _ragged_values(field: Field, ragged: Any) -> tuple[Any, Any]:
    """Return values of unknown length flat, and how many each item of a ragged tensor holds."""
    values, sizes = _elements(field, ragged.values)
    if sizes is None:
        values, counts = whole_rows(values, field, differences(ragged.row_splits))
    else:
        counts = sums_of_rows(sizes, ragged.row_splits)
    return with_shape(values, field), counts


def _kept(whole: Any, inner: Any, crop: Crop) -> tuple[Any, Any]:
    """Return the steps that are kept of each record, and those of `inner`, a row per step."""
    import tensorflow as tf

    if not crop:
        return whole, inner
    steps, positions = cropped_positions(whole, crop)
    return steps, tf.gather(inner, positions)


def _elements(field: Field, flat: Any, *, whole: bool = False) -> tuple[Any, Any]:
    """Return flat values of the declared dtype, and how many values of the known dimensions each item held.

    Sizes are None where each item is one value, or the items are the elements themselves.
    """
    if field.storage in ("png", "jpeg"):
        return decode_images(flat, field), None
    if field.storage == "tensor":
        return decode_buffers(tensor_buffers(flat, field), field, fixed=not field.is_ragged)
    if field.buffered:
        return decode_buffers(flat, field, fixed=not (whole or field.is_ragged or field.sparse is not None))
    return to_declared(flat, field), None
