"""Graph functions that decode serialized tensors, encode elements of datasets, and gather numbered features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.encode import tensor_header
from seqrecorder.codec.graph_ops import expect
from seqrecorder.codec.layouts import numbered_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.codec.layouts import Layout
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


_BASE, _DIGITS = 128, 5  # varints of 32 bits, enough for the size of any record
_POWERS = [_BASE**digit for digit in range(_DIGITS)]
_SHOWN = 16  # bytes of a bad tensor to show in an error


def tensor_buffers(encoded: Any, field: Field) -> Any:
    """Extract the little-endian buffers of serialized tensors, and check that dtype and shape fit the field.

    Only the output of `tf.io.serialize_tensor` is accepted. Other encodings of a tensor can claim any shape for a
    single value, and `tf.io.parse_tensor` would allocate memory for that shape.

    Args:
        encoded: serialized tensors, string `(n,)`.
        field: declaration of the values.
    """
    import tensorflow as tf

    dtype, width = field.element.graph, field.count * field.element.itemsize
    if field.is_ragged:
        headers, counts = _headers(encoded, dtype, field.rest, width)
        content = counts * width
    else:
        headers = tf.fill(tf.shape(encoded), tensor_header(dtype, field.rest, width))
        content = tf.fill(tf.shape(encoded), tf.constant(width, tf.int64))
    starts, sizes = (tf.cast(tf.strings.length(texts, unit="BYTE"), tf.int64) for texts in (headers, encoded))
    begins = tf.strings.substr(encoded, tf.zeros_like(starts), starts)
    fits = tf.equal(sizes, starts + content) & tf.equal(begins, headers)
    what = f"tensors of {dtype} and shape {field.shape}, as tf.io.serialize_tensor gives them,"
    shown = tf.io.decode_raw(encoded, tf.uint8, fixed_length=_SHOWN)
    encoded = expect(encoded, fits, field, what, sizes, "bytes, which begin with", shown)
    return tf.strings.substr(encoded, starts, content)


def _headers(encoded: Any, dtype: str, rest: tuple[int, ...], width: int) -> tuple[Any, Any]:
    """Build the headers that serialized tensors of shape `(n, *rest)` should have.

    `n` is read from each of the serialized tensors.

    Returns:
        The headers, and the `n` of each tensor, int64.
    """
    import tensorflow as tf

    # The first dimension is at the same offset in all headers.
    first = tensor_header(dtype, (1, *rest), 0)
    begin = first.index(b"\x12\x02\x08\x01", 2) + 3
    after = first[begin + 1 :]
    digits = tf.cast(tf.io.decode_raw(encoded, tf.uint8, fixed_length=begin + _DIGITS)[:, begin:], tf.int64)
    is_last = tf.cast(digits < _BASE, tf.int64)
    belongs = tf.math.cumprod(1 - is_last, 1, exclusive=True)
    counts = tf.reduce_sum(belongs * (digits % _BASE) * _POWERS, 1)
    nothing = tensor_header(dtype, (0, *rest), 0)
    counts = tf.minimum(counts, tf.cast(tf.strings.length(encoded), tf.int64))
    counts = tf.where(tf.equal(encoded, nothing), tf.zeros_like(counts), counts)
    size, tag = varints(counts), first[:3]
    shape_size = tf.strings.length(size) + len(after) + 3
    dimension = ["\x12", varints(tf.cast(tf.strings.length(size) + 1, tf.int64)), "\x08", size, after]
    nonempty = [tag, varints(tf.cast(shape_size, tf.int64)), *dimension, "\x22", varints(counts * width)]
    return tf.where(tf.equal(counts, 0), nothing, tf.strings.join(nonempty)), counts


def varints(numbers: Any) -> Any:
    """Encode each number as a protobuf varint, a string of at most `_DIGITS` bytes.

    Args:
        numbers: non-negative numbers, int64 `(n,)`.
    """
    import tensorflow as tf

    table = tf.constant([bytes([byte]) for byte in range(256)])
    rest = [numbers // power for power in _POWERS]
    bytes_ = [tf.gather(table, n % _BASE + _BASE * tf.cast(n >= _BASE, tf.int64)) for n in rest]
    more = [tf.where(n > 0, byte, "") for n, byte in zip(rest[1:], bytes_[1:], strict=True)]
    return tf.strings.join([bytes_[0], *more])


# Tags of the length-delimited fields 1, 2 and 3.
_ONE, _TWO, _THREE = b"\x0a", b"\x12", b"\x1a"


def serialize_fields(schema: Schema, element: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Serialize the fields of an element to string scalars.

    Args:
        schema: schema of number fields with `raw` storage and of bytes fields.
        element: mapping of field name to a tensor of the field's dtype.

    Returns:
        The strings, and the number of values in each field, as int64 scalars.
    """
    import tensorflow as tf

    serialized = tuple(_serialize(field, element[field.name]) for field in schema.fields)
    return serialized, tuple(tf.size(element[field.name], tf.int64) for field in schema.fields)


def _serialize(field: Field, tensor: Any) -> Any:
    import tensorflow as tf

    if not field.element.is_text:
        return tf.io.serialize_tensor(tensor)
    if not (field.is_list or field.shape):
        return tensor
    count = tf.reshape(tf.size(tensor), [1, 1])
    message = tf.io.encode_proto(count, [tf.reshape(tensor, [1, -1])], ["value"], "tensorflow.BytesList")
    return tf.reshape(message, [])


def encode_elements(schema: Schema, serialized: tuple[Any, ...], sizes: tuple[Any, ...]) -> Any:
    r"""Encode elements as serialized `tf.train.Example`s, for a `Parser` with layout `example`.

    Numbers are stored as one little-endian buffer per field, which keeps every bit.

    >>> import tensorflow as tf, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Text:
    ...     ids: np.ndarray = sr.feature_list("int32", storage="raw")
    >>> schema = sr.Schema.of(Text)
    >>> fields, sizes = serialize_fields(schema, {"ids": tf.constant([1, 2])})
    >>> [example] = encode_elements(schema, (fields[0][None],), (sizes[0][None],)).numpy()
    >>> tf.train.Example.FromString(example).features.feature["ids"].bytes_list.value[0]
    b'\x01\x00\x00\x00\x02\x00\x00\x00'

    Args:
        schema: schema passed to `serialize_fields`.
        serialized: strings from `serialize_fields`, `(n,)` for each field.
        sizes: sizes from `serialize_fields`, int64 `(n,)` for each field.

    Returns:
        The serialized examples, string `(n,)`.
    """
    import tensorflow as tf

    lists = []
    for field, text, size in zip(schema.fields, serialized, sizes, strict=True):
        if not field.element.is_text:
            # A serialized tensor ends with its buffer, but the size of its header depends on the shape.
            content = size * tf.dtypes.as_dtype(field.element.graph).size
            buffer = tf.strings.substr(text, tf.cast(tf.strings.length(text), tf.int64) - content, content)
            lists.append(_delimited(_ONE, buffer))
        else:
            lists.append(text if field.is_list or field.shape else _delimited(_ONE, text))
    names = _delimited(_ONE, tf.constant([[field.feature] for field in schema.fields]))
    features = _delimited(_TWO, _delimited(_ONE, tf.stack(lists)))
    entries = _delimited(_ONE, tf.strings.join([tf.broadcast_to(names, tf.shape(features)), features]))
    return _delimited(_ONE, tf.strings.reduce_join(entries, 0))


def gather_numbered(serialized: Any, fields: Sequence[Field], layout: Layout) -> Any:
    """Gather the numbered features of messages into lists, inside a graph.

    The lists are added to the messages, as `layouts.gather_numbered` does for one message.
    """
    import tensorflow as tf

    def submessages(messages: Any, kind: str, names: list[str], dtype: Any = tf.string) -> Any:
        messages = tf.concat([messages, [""]], 0)  # the op fails on an empty vector
        decoded = tf.io.decode_proto(messages, f"tensorflow.{kind}", names, [dtype] * len(names))
        return decoded.sizes[:-1], [values[:-1] for values in decoded.values]

    def packed(lists: Any, kind: str, dtype: Any) -> Any:
        return tf.io.encode_proto(*submessages(lists, kind, ["value"], dtype), ["value"], f"tensorflow.{kind}")

    size = tf.size(serialized)
    _, [context] = submessages(serialized, "SequenceExample", ["context"])
    counts, [entries] = submessages(tf.strings.reduce_join(context, 1), "Features", ["feature"])
    is_entry = tf.sequence_mask(counts[:, 0], tf.shape(entries)[1])
    rows = tf.where(is_entry)[:, 0]
    _, columns = submessages(tf.boolean_mask(entries, is_entry), "Features.FeatureEntry", ["key", "value"])
    keys, values = (tf.strings.reduce_join(column, 1) for column in columns)
    added = [serialized]
    for field in fields:
        name = numbered_names(field).pattern.decode()
        hit = tf.strings.regex_full_match(keys, name)
        numbers = tf.strings.to_number(tf.strings.regex_replace(tf.boolean_mask(keys, hit), name, r"\1"), tf.int64)
        order = tf.argsort(numbers, stable=True)
        order = tf.gather(order, tf.argsort(tf.gather(tf.boolean_mask(rows, hit), order), stable=True))
        row, features = (tf.gather(tf.boolean_mask(column, hit), order) for column in (rows, values))

        def join_rows(texts: Any, row: Any = row) -> Any:
            return tf.strings.unsorted_segment_join(texts, row, size)

        if layout != "steps":
            _, lists = submessages(features, "Feature", ["bytes_list", "float_list", "int64_list"])
            items, floats, ints = (join_rows(tf.strings.reduce_join(column, 1)) for column in lists)
            # TensorFlow's parser reads only the first chunk of packed numbers.
            lists = [items, packed(floats, "FloatList", tf.float32), packed(ints, "Int64List", tf.int64)]
            tagged = zip((_ONE, _TWO, _THREE), lists, strict=True)
            value = tf.strings.join([tf.where(tf.equal(text, ""), "", _delimited(tag, text)) for tag, text in tagged])
            value = value if layout == "example" else _delimited(_ONE, value)
        else:
            value = join_rows(_delimited(_ONE, features))
        key = _delimited(_ONE, tf.fill([size], field.feature))
        entry = _delimited(_ONE, tf.strings.join([key, _delimited(_TWO, value)]))
        entry = _delimited(_ONE if layout == "example" else _TWO, entry)
        has_any = tf.math.unsorted_segment_sum(tf.ones_like(row), row, size) > 0
        added.append(tf.where(has_any, entry, ""))
    return tf.strings.join(added)


def lengths_of(schema: Schema, sizes: tuple[Any, ...]) -> Any:
    """Count the steps of each element in each alignment group.

    Args:
        schema: schema passed to `serialize_fields`.
        sizes: sizes from `serialize_fields`, int64 `(n,)` for each field.

    Returns:
        Numbers of steps, int64 `(n, groups)`.
    """
    import tensorflow as tf

    of = dict(zip((field.name for field in schema.fields), sizes, strict=True))
    firsts = [schema.members(group)[0] for group in schema.groups]
    if not firsts:
        return tf.zeros([tf.size(sizes[0]), 0], tf.int64)
    return tf.stack([of[field.name] // math.prod(field.rest) for field in firsts], 1)


def _delimited(tag: bytes, payload: Any) -> Any:
    """Encode each payload as a length-delimited field of a message."""
    import tensorflow as tf

    sizes = varints(tf.cast(tf.strings.length(payload), tf.int64))
    return tf.strings.join([tf.fill(tf.shape(payload), tag), sizes, payload])
