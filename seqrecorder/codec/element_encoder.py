"""Tensors to serialized messages, in graphs: elements of any `tf.data` pipeline as records that `Parser` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.codec.decode_values import varints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seqrecorder.schema.schema import Schema

# Tags of length-delimited fields 1 and 2, which are all that an Example of bytes takes.
_ONE, _TWO = b"\x0a", b"\x12"


def encode_element(schema: Schema, element: Mapping[str, Any]) -> Any:
    r"""Return an element as a serialized `tf.train.Example`, which a `Parser` with the layout `example` reads.

    Numbers lie in it as one little-endian buffer for each field, so every bit is kept.

    >>> import tensorflow as tf, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Text:
    ...     ids: np.ndarray = sr.feature_list("int32", storage="raw")
    >>> serialized = encode_element(sr.Schema.of(Text), {"ids": tf.constant([1, 2])})
    >>> tf.train.Example.FromString(serialized.numpy()).features.feature["ids"].bytes_list.value[0]
    b'\x01\x00\x00\x00\x02\x00\x00\x00'

    Args:
        schema: fields of numbers with the storage `raw`, and of bytes.
        element: by field, a tensor of its dtype.

    Returns:
        A string scalar.
    """
    import tensorflow as tf

    entries = []
    for field in schema.fields:
        values = _delimited(_ONE, _values_of(element[field.name]))
        feature = _delimited(_TWO, _delimited(_ONE, tf.strings.reduce_join(values)))
        name = field.feature.encode()
        entries.append(_delimited(_ONE, tf.strings.join([_delimited(_ONE, tf.constant(name)), feature])))
    return _delimited(_ONE, tf.strings.join(entries))


def _values_of(tensor: Any) -> Any:
    """Return the bytes values that hold a tensor, string vector."""
    import tensorflow as tf

    if tensor.dtype == tf.string:
        return tf.reshape(tensor, [-1])
    # Such a message ends with the buffer; what stands before it has another size for each shape.
    serialized = tf.io.serialize_tensor(tensor)
    content = tf.size(tensor, tf.int64) * tensor.dtype.size
    start = tf.cast(tf.strings.length(serialized), tf.int64) - content
    return tf.strings.substr(serialized, start, content)[tf.newaxis]


def _delimited(tag: bytes, payload: Any) -> Any:
    """Return length-delimited fields of a message, one for each payload."""
    import tensorflow as tf

    sizes = varints(tf.cast(tf.strings.length(payload), tf.int64))
    return tf.strings.join([tf.fill(tf.shape(payload), tag), sizes, payload])
