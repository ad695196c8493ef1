"""Tensors to serialized messages, in graphs: elements of any `tf.data` pipeline as records that `Parser` reads.

What must be done for each element by itself are two operations a field. All else is done for a window of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.decode_values import varints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

# Tags of length-delimited fields 1 and 2, which are all that an Example of bytes takes.
_ONE, _TWO = b"\x0a", b"\x12"


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
