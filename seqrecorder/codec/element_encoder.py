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

    # All fields at a time, whose order in a message is of no concern.
    numbers = [field for field in schema.fields if not field.element.is_text]
    texts = [field for field in schema.fields if field.element.is_text]
    names = tf.constant([field.feature for field in (*numbers, *texts)])
    values = [tf.strings.reduce_join(_delimited(_ONE, tf.reshape(element[field.name], [-1]))) for field in texts]
    if numbers:
        buffers = tf.stack([_buffer(element[field.name]) for field in numbers])
        values = [*tf.unstack(_delimited(_ONE, buffers)), *values]
    features = _delimited(_TWO, _delimited(_ONE, tf.stack(values)))
    entries = _delimited(_ONE, tf.strings.join([_delimited(_ONE, names), features]))
    return _delimited(_ONE, tf.strings.reduce_join(entries))


def _buffer(tensor: Any) -> Any:
    """Return the little-endian buffer of a tensor of numbers, string scalar."""
    import tensorflow as tf

    # A serialized tensor ends with its buffer; what stands before it has another size for each shape.
    serialized = tf.io.serialize_tensor(tensor)
    content = tf.size(tensor, tf.int64) * tensor.dtype.size
    start = tf.cast(tf.strings.length(serialized), tf.int64) - content
    return tf.strings.substr(serialized, start, content)


def _delimited(tag: bytes, payload: Any) -> Any:
    """Return length-delimited fields of a message, one for each payload."""
    import tensorflow as tf

    sizes = varints(tf.cast(tf.strings.length(payload), tf.int64))
    return tf.strings.join([tf.fill(tf.shape(payload), tag), sizes, payload])
