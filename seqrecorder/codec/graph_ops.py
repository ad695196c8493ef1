"""What TensorFlow's parser leaves undone: small graph functions from wire values to declared ones.

Every check goes through `checked`, so that it runs in each kind of graph, and eagerly.
"""

from __future__ import annotations

import contextlib
import contextvars
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field


_record = contextvars.ContextVar("record", default="")


@contextlib.contextmanager
def records_called(name: str) -> Iterator[None]:
    """Begin the messages of `checked`, wherever it is called inside the block, with what a record is called."""
    token = _record.set(name)
    try:
        yield
    finally:
        _record.reset(token)


def checked(value: Any, ok: Any, *message: Any) -> Any:
    """Return `value`, a tensor or several, once all of `ok` have been found true.

    The value depends on the assertion: in a graph, one that nothing depends on may be pruned and never run.
    """
    import tensorflow as tf

    if _record.get():
        message = (f"{_record.get()}:", *message)
    ok = tf.convert_to_tensor(ok)
    if ok.shape.rank != 0:
        ok = tf.reduce_all(ok) if ok.shape.rank is None else tf.raw_ops.All(input=ok, axis=list(range(ok.shape.rank)))
    # The op itself: `tf.debugging.Assert` puts a conditional around it, which takes longer to trace than all the rest.
    check = tf.raw_ops.Assert(condition=ok, data=list(message))
    with tf.control_dependencies([] if check is None else [check]):
        return tf.nest.map_structure(tf.identity, value)


def wire_type(field: Field) -> Any:
    """Return the TensorFlow dtype of the list that a field is stored in."""
    import tensorflow as tf

    if field.in_items:
        return tf.string
    return {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}[field.element.wire]


def wire_filler(field: Field) -> Any:
    """Return the value for records that lack the field, as the wire holds it: an array of the field's shape."""
    element = field.element
    value = field.default if field.has_default else element.zero()
    if not element.is_text:
        filler: NDArray[Any] = np.array(np.broadcast_to(np.asarray(value, element.numpy), field.rest))
        return element.to_wire(filler).reshape(field.rest)
    items = np.broadcast_to(np.asarray(value, object), field.rest)
    encoded = np.empty(items.shape, object)
    encoded[...] = np.vectorize(_encoded, otypes=[object])(items)
    return encoded


def _encoded(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def default_of(field: Field) -> Any:
    """Return the default of a field of known shape as a tensor."""
    import tensorflow as tf

    if field.element.is_text:
        return tf.constant(wire_filler(field), tf.string)
    value = np.array(np.broadcast_to(np.asarray(field.default, field.element.numpy), field.rest))
    return tf.constant(field.element.to_graph(value), tf.as_dtype(field.element.graph))


def zero(field: Field) -> Any:
    """Return the tensor that padding consists of."""
    import tensorflow as tf

    return tf.zeros([], tf.as_dtype(field.element.graph))


def spread_rows(values: Any, present: Any, filler: Any) -> Any:
    """Return one row per record: the next of `values` where `present`, else the filler."""
    import tensorflow as tf

    have = tf.cast(present, tf.int64)
    filler = tf.broadcast_to(filler, tf.shape(values)[1:])
    return tf.gather(tf.concat([filler[tf.newaxis], values], 0), tf.cumsum(have) * have)


# Vectors: one op each, where their namesakes in `tf` take several, or longer to trace than to run -------------------


def rows_at(values: Any, places: Any) -> Any:
    """Return the rows of values at some places."""
    import tensorflow as tf

    return tf.raw_ops.Gather(params=values, indices=places)


def numbers(stop: Any, start: Any = None) -> Any:
    """Return the integers up to a scalar tensor, from 0 or another on, of its dtype."""
    import tensorflow as tf

    start = tf.constant(0, stop.dtype) if start is None else start
    return tf.raw_ops.Range(start=start, limit=stop, delta=tf.constant(1, stop.dtype))


def count_up_to(ascending: Any, values: Any, *, less: bool = False) -> Any:
    """Return how many entries of an ascending vector are less than each value, or that at most: int32."""
    import tensorflow as tf

    row = tf.raw_ops.ExpandDims(input=ascending, axis=0)
    values = row if values is ascending else tf.raw_ops.ExpandDims(input=values, axis=0)
    search = tf.raw_ops.LowerBound if less else tf.raw_ops.UpperBound
    return tf.raw_ops.Squeeze(input=search(sorted_inputs=row, values=values), axis=[0])


def differences(ends: Any) -> Any:
    """Return what is between each entry of a vector and the next."""
    import tensorflow as tf

    first, second, last = (tf.constant([place]) for place in (0, 1, -1))
    later = tf.raw_ops.StridedSlice(input=ends, begin=second, end=last, strides=second, end_mask=1)
    return later - tf.raw_ops.StridedSlice(input=ends, begin=first, end=last, strides=second)


def joined(*vectors: Any) -> Any:
    """Return vectors one after the other."""
    import tensorflow as tf

    return tf.raw_ops.ConcatV2(values=vectors, axis=0)


# Elements ---------------------------------------------------------------------------------------------------------


def to_declared(values: Any, field: Field) -> Any:
    """Return wire values as the declared dtype, keeping every bit of those that were stored."""
    import tensorflow as tf

    name = field.element.name
    if field.element.is_text or field.element.is_time or name in ("int64", "float32"):
        return values
    if name == "uint64":
        return tf.bitcast(values, tf.uint64)
    expected = f"field {field.name!r}: values of {name} are expected in {field.feature!r}, got"
    if name in ("float16", "bfloat16"):
        narrowed = narrow(values, name)
        infinite = tf.math.is_inf(tf.cast(narrowed, tf.float32)) & tf.math.is_finite(values)
        return checked(narrowed, ~infinite, expected, values)
    if name == "bool":
        return checked(tf.not_equal(values, 0), tf.equal(values, 0) | tf.equal(values, 1), expected, values)
    info = np.iinfo(field.element.numpy)
    inside = (values >= int(info.min)) & (values <= int(info.max))
    return checked(tf.cast(values, tf.as_dtype(name)), inside, expected, values)


def narrow(values: Any, name: str) -> Any:
    """Narrow float32 by bit operations where a cast would change a NaN: the inverse of `widen`.

    Values that were not widened are rounded to nearest even.
    """
    import tensorflow as tf

    bits = tf.bitcast(values, tf.uint32)
    nan = _both(bits, 0x7FFFFFFF) > tf.constant(0x7F800000, tf.uint32)
    if name == "bfloat16":
        rounded = _shift(tf.where(nan, bits, bits + tf.constant(0x7FFF, tf.uint32) + _both(_shift(bits, 16), 1)), 16)
        lost = nan & tf.equal(_both(rounded, 0x7F), 0)  # a payload only in the low bits would become an infinity
        return tf.bitcast(tf.cast(tf.where(lost, _either(rounded, 0x40), rounded), tf.uint16), tf.bfloat16)
    payload = _both(_shift(bits, 13), 0x3FF)
    payload = tf.where(tf.equal(payload, 0), tf.constant(0x200, tf.uint32), payload)
    exact = tf.bitwise.bitwise_or(_either(_both(_shift(bits, 16), 0x8000), 0x7C00), payload)
    plain = tf.cast(tf.bitcast(tf.cast(values, tf.float16), tf.uint16), tf.uint32)
    return tf.bitcast(tf.cast(tf.where(nan, exact, plain), tf.uint16), tf.float16)


def _both(bits: Any, mask: int) -> Any:
    """Return the bits that are set in `mask` too."""
    import tensorflow as tf

    return tf.bitwise.bitwise_and(bits, tf.constant(mask, bits.dtype))


def _either(bits: Any, mask: int) -> Any:
    import tensorflow as tf

    return tf.bitwise.bitwise_or(bits, tf.constant(mask, bits.dtype))


def _shift(bits: Any, count: int) -> Any:
    import tensorflow as tf

    return tf.bitwise.right_shift(bits, tf.constant(count, bits.dtype))


def decode_buffers(buffers: Any, field: Field, *, fixed: bool) -> tuple[Any, Any]:
    """Return the flat values of little-endian buffers, and how many values of the known dimensions each held.

    Args:
        buffers: string vector.
        field: the declaration of the values.
        fixed: whether each holds exactly one value of the known dimensions; then there are no sizes to return.
    """
    import tensorflow as tf

    sizes = tf.strings.length(buffers, unit="BYTE")
    width = field.element.itemsize * field.count
    wanted = "" if fixed else "a multiple of "
    # Where no graph needs it, large buffers are not joined: that holds them three times.
    is_apart = tf.executing_eagerly() and (fixed or buffers.shape[0] == 1)
    joined = checked(
        buffers if is_apart else tf.strings.reduce_join(buffers),
        tf.equal(sizes if fixed else sizes % width, width if fixed else 0),
        f"field {field.name!r}: buffers of {wanted}{width} bytes are expected in {field.feature!r}, got",
        sizes,
    )
    values = _from_buffer(joined, field)
    return tf.reshape(values, [-1]) if is_apart else values, None if fixed else tf.cast(sizes // width, tf.int64)


def whole_buffers(buffers: Any, field: Field) -> tuple[Any, Any]:
    """Return buffers, once each was found to hold whole values of the known dimensions, and how many each holds."""
    import tensorflow as tf

    width = field.element.itemsize * field.count
    sizes = tf.cast(tf.strings.length(buffers, unit="BYTE"), tf.int64)
    expected = f"field {field.name!r}: buffers of a multiple of {width} bytes are expected in {field.feature!r}, got"
    return checked(buffers, tf.equal(sizes % width, 0), expected, sizes), sizes // width


def _from_buffer(joined: Any, field: Field) -> Any:
    import tensorflow as tf

    name = field.element.graph
    if name == "bool":  # any byte would be copied into the bool as it is
        values = tf.io.decode_raw(joined, tf.uint8)
        expected = f"field {field.name!r}: bytes 0 and 1 are expected in {field.feature!r}, got"
        return checked(values > 0, values <= 1, expected, values)
    target = tf.as_dtype(name)
    signed = {"uint32": tf.int32, "uint64": tf.int64, "bfloat16": tf.uint16}.get(name)
    if signed is not None:  # decode_raw lacks these
        return tf.bitcast(tf.io.decode_raw(joined, signed), target)
    return tf.io.decode_raw(joined, target)


# Rows -------------------------------------------------------------------------------------------------------------


def with_shape(values: Any, field: Field) -> Any:
    """Return flat values as `(S, *known dimensions)`."""
    import tensorflow as tf

    return tf.reshape(values, [-1, *field.rest])


def sums_of_rows(sizes: Any, splits: Any) -> Any:
    """Return the sum of sizes within each row of splits."""
    import tensorflow as tf

    ends = tf.concat([[0], tf.cumsum(tf.cast(sizes, tf.int64))], 0)
    return differences(rows_at(ends, splits))


def check_items(values: Any, field: Field, items: Any, expected: int, *, or_none: Any = None) -> Any:
    """Return `values` once each feature was found to hold as many items as expected, or none where it may."""
    import tensorflow as tf

    ok = tf.equal(items, expected)
    return checked(
        values,
        ok if or_none is None else ok | (tf.equal(items, 0) & or_none),
        f"field {field.name!r}: {expected} values per feature are expected in {field.feature!r}, got",
        items,
    )


def whole_rows(values: Any, field: Field, items: Any) -> tuple[Any, Any]:
    """Return flat values, and how many of the known dimensions `items` elements are, which has to come out even."""
    import tensorflow as tf

    if field.count == 1:
        return values, items
    values = checked(
        values,
        tf.equal(items % field.count, 0),
        f"field {field.name!r}: multiples of {field.count} values are expected in {field.feature!r}, got",
        items,
    )
    return values, items // field.count


def longest_of(lengths: Any) -> Any:
    """Return the largest length, and 1 where all are 0: layers such as Masking and LSTM fail on T = 0."""
    import tensorflow as tf

    return tf.maximum(tf.raw_ops.Max(input=lengths, axis=0), 1)


def pad_steps(value: Any, missing: Any) -> Any:
    """Pad dimension 1 by some steps."""
    import tensorflow as tf

    second = np.zeros([value.shape.rank, 2], np.int64)
    second[1, 1] = 1
    padded = tf.raw_ops.Pad(input=value, paddings=second * missing)
    padded.set_shape([None, None, *value.shape[2:]])
    return padded


def ascending(field: Field, indices: Any, values: Any, counts: Any) -> tuple[Any, Any]:
    """Return indices and values of sparse vectors by ascending index.

    Args:
        field: sparse; its indices are to be within its size, and each is to stand once in a vector.
        indices: int64, `(n,)`, of all vectors, one after the other.
        values: `(n,)`.
        counts: int64: indices of each vector.
    """
    import tensorflow as tf

    size = field.sparse or 0
    inside = (indices >= 0) & (indices < size)
    indices = checked(indices, inside, f"field {field.name!r}: indices in [0, {size}) are expected, got", indices)
    rows = tf.shape(counts, tf.int64)[0]
    vector = tf.repeat(tf.range(rows), counts)
    places = tf.stack([vector, indices], 1)
    shape = tf.stack([rows, tf.constant(size, tf.int64)])
    numbers = tf.sparse.SparseTensor(places, tf.range(tf.size(indices)), shape)
    order = tf.sparse.reorder(numbers).values
    indices = tf.gather(indices, order)
    distinct = (indices[1:] > indices[:-1]) | (vector[1:] > vector[:-1])
    indices = checked(indices, distinct, f"field {field.name!r}: distinct indices are expected, got", indices)
    return indices, tf.gather(values, order)


def sparse_to_dense(sparse: Any, field: Field) -> Any:
    """Return a sparse batch dense, zeros or empty text elsewhere."""
    import tensorflow as tf

    default = "" if field.element.is_text else None
    dense = tf.sparse.to_dense(sparse, default)
    return tf.ensure_shape(dense, [None, None, field.sparse] if field.is_list else [None, field.sparse])


def first_of_sparse(value: Any, shape: list[Any]) -> Any:
    """Return the first row of a sparse batch, cut to its length."""
    import tensorflow as tf

    return tf.SparseTensor(value.indices[:, 1:], value.values, tf.stack([tf.cast(n, tf.int64) for n in shape]))
