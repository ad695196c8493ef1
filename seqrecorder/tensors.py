"""Values stored as messages of their own: serialized tensors, PNG and JPEG images.

A serialized tensor is what `tf.io.serialize_tensor` gives: TensorProto (tensorflow/core/framework/tensor.proto) with
its element type, shape and `tensor_content`, the little-endian buffer. All tensors of one shape share their header.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.forks import check_threads_of_tensorflow
from seqrecorder.varints import varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seqrecorder.columns import Column
    from seqrecorder.fields import Field

# tensorflow/core/framework/types.proto
_DATA_TYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "bfloat16": 14,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}


def tensor_header(graph_type: str, shape: tuple[int, ...], size: int) -> bytes:
    """Return what stands before the buffer of `size` bytes in a serialized tensor.

    >>> tensor_header("float32", (2,), 8).hex()
    '08011204120208022208'
    """
    dimensions = b""
    for length in shape:
        dimension = b"\x08" + varint(length) if length else b""  # proto3 leaves zeros out
        dimensions += b"\x12" + varint(len(dimension)) + dimension
    header = b"\x08" + varint(_DATA_TYPES[graph_type]) + b"\x12" + varint(len(dimensions)) + dimensions
    return header + b"\x22" + varint(size) if size else header


def encode_tensors(field: Field, column: Column) -> Any:
    """Return one serialized tensor per record or step: a uint8 matrix where all have one shape, else a list."""
    values = np.ascontiguousarray(column.values)
    if field.element.is_time:
        values = values.view(np.int64)
    buffer = values.reshape(-1).view(np.uint8)
    width = field.count * field.element.itemsize
    if column.counts is None:
        header = np.frombuffer(tensor_header(field.element.graph, field.rest, width), np.uint8)
        rows = buffer.reshape(-1, width)
        return np.hstack([np.broadcast_to(header, (len(rows), header.size)), rows])
    data, start, out = buffer.tobytes(), 0, []
    for count in column.counts.tolist():
        size = count * width
        out.append(tensor_header(field.element.graph, (count, *field.rest), size) + data[start : start + size])
        start += size
    return out


def encode_images(values: NDArray[np.uint8], storage: str) -> list[bytes]:
    """Return each image of shape (height, width, channels) as PNG (exact) or JPEG (lossy) bytes."""
    import tensorflow as tf

    check_threads_of_tensorflow("encode images")
    encode = tf.io.encode_png if storage == "png" else tf.io.encode_jpeg
    with tf.device("CPU:0"):
        return [encode(image).numpy() for image in values]


def decode_images(encoded: Any, field: Field) -> Any:
    """Return uint8 images (N, height, width, channels) for a vector of encoded ones, inside a graph or eagerly."""
    return _each(encoded, *_image_decoder(field.storage, field.rest))


def decode_tensors(encoded: Any, field: Field) -> tuple[Any, Any]:
    """Return flat values `(S, *known dimensions)` and the leading size of each serialized tensor.

    Args:
        encoded: string vector of serialized tensors, written by this library or by `tf.io.serialize_tensor`.
        field: the declaration of the values.
    """
    import tensorflow as tf

    decode, spec = _tensor_decoder(field.element.graph, field.rest, field.is_ragged)
    if not field.is_ragged:
        return _each(encoded, decode, spec), None
    # An empty tensor goes first: no tensor at all gives no shape to what map_fn stacks.
    first = tf.constant([tensor_header(field.element.graph, (0, *field.rest), 0)])
    rows = _each(tf.concat([first, encoded], 0), decode, spec)
    return rows.values, rows.row_lengths()[1:]


@functools.cache
def _image_decoder(storage: str, shape: tuple[int, ...]) -> tuple[Callable[[Any], Any], Any]:
    import tensorflow as tf

    def decode(image: Any) -> Any:
        read = tf.io.decode_png if storage == "png" else tf.io.decode_jpeg
        return tf.ensure_shape(read(image, channels=shape[2]), shape)

    return decode, tf.TensorSpec(shape, tf.uint8)


@functools.cache
def _tensor_decoder(graph_type: str, rest: tuple[int, ...], ragged: bool) -> tuple[Callable[[Any], Any], Any]:  # noqa: FBT001 - a part of a key
    import tensorflow as tf

    dtype, shape = tf.as_dtype(graph_type), (None, *rest) if ragged else rest

    def decode(item: Any) -> Any:
        return tf.ensure_shape(tf.io.parse_tensor(item, dtype), shape)

    return decode, tf.RaggedTensorSpec(shape, dtype, ragged_rank=0) if ragged else tf.TensorSpec(shape, dtype)


def _each(encoded: Any, decode: Callable[[Any], Any], spec: Any) -> Any:
    """Return what decoding each of a string vector gives, as one tensor of a spec, inside a graph or eagerly."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return _eager(decode, spec)(encoded)
    return tf.map_fn(decode, encoded, fn_output_signature=spec)


@functools.cache
def _eager(decode: Callable[[Any], Any], spec: Any) -> Callable[[Any], Any]:
    """Return a graph that decodes each of a vector: eagerly, `tf.map_fn` takes 700 microseconds for each."""
    import tensorflow as tf

    def decode_all(encoded: Any) -> Any:
        with tf.device("CPU:0"):
            return tf.map_fn(decode, encoded, fn_output_signature=spec)

    graph: Callable[[Any], Any] = tf.function(
        decode_all, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    return graph
