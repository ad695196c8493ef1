"""Values that were stored as messages of their own: tensors, and elements of datasets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.encode import tensor_header
from seqrecorder.codec.graph_ops import checked
from seqrecorder.codec.layouts import numbered_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.codec.layouts import Layout
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


_BASE, _DIGITS = 128, 5  # of varints of 32 bits: no record is larger
_PLACES = [_BASE**place for place in range(_DIGITS)]
_SHOWN = 16


def tensor_buffers(encoded: Any, field: Field) -> Any:
    """Return the little-endian buffers in serialized tensors, which must be of the field's dtype and shape.

    A tensor can be written in other ways, too, such as one value and a shape of any size, for which
    `tf.io.parse_tensor` takes that much memory. Here bytes are what `tf.io.serialize_tensor` gives, or refused.

    Args:
        encoded: string vector.
        field: the declaration of the values.
    """
    import tensorflow as tf

    dtype, width = field.element.graph, field.count * field.element.itemsize
    if field.is_ragged:
        headers, counts = _headers(encoded, dtype, field.rest, width)
        content = counts * width
    else:
        headers = tf.fill(tf.shape(encoded), tensor_header(dtype, field.rest, width))
        content = tf.fill(tf.shape(encoded), tf.constant(width, tf.int64))
    starts, sizes = (tf.cast(tf.strings.length(part, unit="BYTE"), tf.int64) for part in (headers, encoded))
    begins = tf.strings.substr(encoded, tf.zeros_like(starts), starts)
    encoded = checked(
        encoded,
        tf.equal(sizes, starts + content) & tf.equal(begins, headers),
        f"field {field.name!r}: tensors of {dtype} and shape {field.shape} are expected in {field.feature!r}, as "
        "tf.io.serialize_tensor gives them; got",
        sizes,
        "bytes, which begin with",
        tf.io.decode_raw(encoded, tf.uint8, fixed_length=_SHOWN),
    )
    return tf.strings.substr(encoded, starts, content)


def _headers(encoded: Any, dtype: str, rest: tuple[int, ...], width: int) -> tuple[Any, Any]:
    """Return the headers of serialized tensors of shape `(n, *rest)`, and n of each, int64."""
    import tensorflow as tf

    # The size of the first dimension begins at the same place in all of them.
    first = tensor_header(dtype, (1, *rest), 0)
    begin = first.index(b"\x12\x02\x08\x01", 2) + 3
    after = first[begin + 1 :]
    digits = tf.cast(tf.io.decode_raw(encoded, tf.uint8, fixed_length=begin + _DIGITS)[:, begin:], tf.int64)
    is_last = tf.cast(digits < _BASE, tf.int64)
    belongs = tf.math.cumprod(1 - is_last, 1, exclusive=True)
    counts = tf.reduce_sum(belongs * (digits % _BASE) * _PLACES, 1)
    nothing = tensor_header(dtype, (0, *rest), 0)
    counts = tf.minimum(counts, tf.cast(tf.strings.length(encoded), tf.int64))
    counts = tf.where(tf.equal(encoded, nothing), tf.zeros_like(counts), counts)
    size, tag = varints(counts), first[:3]
    shape_size = tf.strings.length(size) + len(after) + 3
    dimension = ["\x12", varints(tf.cast(tf.strings.length(size) + 1, tf.int64)), "\x08", size, after]
    some = [tag, varints(tf.cast(shape_size, tf.int64)), *dimension, "\x22", varints(counts * width)]
    return tf.where(tf.equal(counts, 0), nothing, tf.strings.join(some)), counts


def varints(numbers: Any) -> Any:
    """Return numbers as they stand in protobuf messages: strings of up to `_DIGITS` bytes.

    Args:
        numbers: int64, `(n,)`, not negative.
    """
    import tensorflow as tf

    table = tf.constant([bytes([byte]) for byte in range(256)])
    rest = [numbers // place for place in _PLACES]
    bytes_ = [tf.gather(table, part % _BASE + _BASE * tf.cast(part >= _BASE, tf.int64)) for part in rest]
    more = [tf.where(part > 0, byte, "") for part, byte in zip(rest[1:], bytes_[1:], strict=True)]
    return tf.strings.join([bytes_[0], *more])


# Tags of length-delimited fields; the first two are all that an Example of bytes takes.
_ONE, _TWO, _THREE = b"\x0a", b"\x12", b"\x1a"


def serialize_fields(schema: Schema, element: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the fields of an element, string scalars, and how many values each has, int64 scalars.

    Args:
        schema: fields of numbers with the storage `raw`, and of bytes.
        element: by field, a tensor of its dtype.
    """
    import tensorflow as tf

    serialized = tuple(_serialized(field, element[field.name]) for field in schema.fields)
    return serialized, tuple(tf.size(element[field.name], tf.int64) for field in schema.fields)


def _serialized(field: Field, tensor: Any) -> Any:
    import tensorflow as tf

    if not field.element.is_text:
        return tf.io.serialize_tensor(tensor)
    if not (field.is_list or field.shape):
        return tensor
    count = tf.reshape(tf.size(tensor), [1, 1])
    message = tf.io.encode_proto(count, [tf.reshape(tensor, [1, -1])], ["value"], "tensorflow.BytesList")
    return tf.reshape(message, [])


def encode_elements(schema: Schema, serialized: tuple[Any, ...], sizes: tuple[Any, ...]) -> Any:
    r"""Return elements as serialized `tf.train.Example`s, which a `Parser` with the layout `example` reads.

    Numbers lie in them as one little-endian buffer for each field, so every bit is kept.

    >>> import tensorflow as tf, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Text:
    ...     ids: np.ndarray = sr.feature_list("int32", storage="raw")
    >>> schema = sr.Schema.of(Text)
    >>> parts = serialize_fields(schema, {"ids": tf.constant([1, 2])})
    >>> [example] = encode_elements(schema, *(tuple(tf.stack([scalar]) for scalar in part) for part in parts)).numpy()
    >>> tf.train.Example.FromString(example).features.feature["ids"].bytes_list.value[0]
    b'\x01\x00\x00\x00\x02\x00\x00\x00'

    Args:
        schema: as for `serialize_fields`.
        serialized: what that returns, string `(n,)` for each field.
        sizes: likewise, int64 `(n,)`.

    Returns:
        A string tensor `(n,)`.
    """
    import tensorflow as tf

    lists = []
    for field, part, size in zip(schema.fields, serialized, sizes, strict=True):
        if not field.element.is_text:
            # A serialized tensor ends with its buffer; what stands before it has another size for each shape.
            content = size * tf.dtypes.as_dtype(field.element.graph).size
            buffer = tf.strings.substr(part, tf.cast(tf.strings.length(part), tf.int64) - content, content)
            lists.append(_delimited(_ONE, buffer))
        else:
            lists.append(part if field.is_list or field.shape else _delimited(_ONE, part))
    names = _delimited(_ONE, tf.constant([[field.feature] for field in schema.fields]))
    features = _delimited(_TWO, _delimited(_ONE, tf.stack(lists)))
    entries = _delimited(_ONE, tf.strings.join([tf.broadcast_to(names, tf.shape(features)), features]))
    return _delimited(_ONE, tf.strings.reduce_join(entries, 0))


def gather_numbered(serialized: Any, fields: Sequence[Field], layout: Layout) -> Any:
    """Add lists to messages as `seqrecorder.codec.layouts.gather_numbered` does, inside a graph."""
    import tensorflow as tf

    def submessages(messages: Any, kind: str, names: list[str], dtype: Any = tf.string) -> Any:
        messages = tf.concat([messages, [""]], 0)  # the op fails on none at all
        found = tf.io.decode_proto(messages, f"tensorflow.{kind}", names, [dtype] * len(names))
        return found.sizes[:-1], [part[:-1] for part in found.values]

    def packed(lists: Any, kind: str, dtype: Any) -> Any:
        return tf.io.encode_proto(*submessages(lists, kind, ["value"], dtype), ["value"], f"tensorflow.{kind}")

    size = tf.size(serialized)
    _, [context] = submessages(serialized, "SequenceExample", ["context"])
    counts, [entries] = submessages(tf.strings.reduce_join(context, 1), "Features", ["feature"])
    is_entry = tf.sequence_mask(counts[:, 0], tf.shape(entries)[1])
    rows = tf.where(is_entry)[:, 0]
    _, parts = submessages(tf.boolean_mask(entries, is_entry), "Features.FeatureEntry", ["key", "value"])
    keys, values = (tf.strings.reduce_join(part, 1) for part in parts)
    added = [serialized]
    for field in fields:
        name = numbered_names(field).pattern.decode()
        hit = tf.strings.regex_full_match(keys, name)
        numbers = tf.strings.to_number(tf.strings.regex_replace(tf.boolean_mask(keys, hit), name, r"\1"), tf.int64)
        order = tf.argsort(numbers, stable=True)
        order = tf.gather(order, tf.argsort(tf.gather(tf.boolean_mask(rows, hit), order), stable=True))
        row, features = (tf.gather(tf.boolean_mask(part, hit), order) for part in (rows, values))

        def joined(parts: Any, row: Any = row) -> Any:
            return tf.strings.unsorted_segment_join(parts, row, size)

        if layout != "steps":
            _, lists = submessages(features, "Feature", ["bytes_list", "float_list", "int64_list"])
            items, floats, ints = (joined(tf.strings.reduce_join(part, 1)) for part in lists)
            # TensorFlow's parser sees the first chunk of packed numbers alone.
            lists = [items, packed(floats, "FloatList", tf.float32), packed(ints, "Int64List", tf.int64)]
            parts = zip((_ONE, _TWO, _THREE), lists, strict=True)
            value = tf.strings.join([tf.where(tf.equal(part, ""), "", _delimited(tag, part)) for tag, part in parts])
            value = value if layout == "example" else _delimited(_ONE, value)
        else:
            value = joined(_delimited(_ONE, features))
        key = _delimited(_ONE, tf.fill([size], field.feature))
        entry = _delimited(_ONE, tf.strings.join([key, _delimited(_TWO, value)]))
        entry = _delimited(_ONE if layout == "example" else _TWO, entry)
        has_any = tf.math.unsorted_segment_sum(tf.ones_like(row), row, size) > 0
        added.append(tf.where(has_any, entry, ""))
    return tf.strings.join(added)


def lengths_of(schema: Schema, sizes: tuple[Any, ...]) -> Any:
    """Return the steps of elements in each alignment group, int64 `(n, groups)`.

    Args:
        schema: as for `serialize_fields`.
        sizes: as for `encode_elements`.
    """
    import tensorflow as tf

    of = dict(zip((field.name for field in schema.fields), sizes, strict=True))
    firsts = [schema.members(group)[0] for group in schema.groups]
    if not firsts:
        return tf.zeros([tf.size(sizes[0]), 0], tf.int64)
    return tf.stack([of[field.name] // math.prod(field.rest) for field in firsts], 1)


def _delimited(tag: bytes, payload: Any) -> Any:
    """Return length-delimited fields of a message, one for each payload."""
    import tensorflow as tf

    sizes = varints(tf.cast(tf.strings.length(payload), tf.int64))
    return tf.strings.join([tf.fill(tf.shape(payload), tag), sizes, payload])
