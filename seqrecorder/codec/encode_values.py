"""Values encoded as messages of their own: serialized tensors, PNG and JPEG images.

A serialized tensor is what `tf.io.serialize_tensor` gives: TensorProto (tensorflow/core/framework/tensor.proto) with
its element type, shape and `tensor_content`, the little-endian buffer. All tensors of one shape share their header.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.process_state import check_threads_of_tensorflow
from seqrecorder.wire.byte_rows import varint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field

_TOGETHER = 4 << 20  # bytes of images that are encoded at a time, beside which TensorFlow has a copy of them

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
    buffer = np.ascontiguousarray(column.values).reshape(-1).view(np.uint8)
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
    with tf.device("CPU:0"):
        if storage == "jpeg":
            return [tf.io.encode_jpeg(image).numpy() for image in values]
        several = max(1, _TOGETHER * len(values) // max(1, values.nbytes))
        pieces = (values[first : first + several] for first in range(0, len(values), several))
        return list(itertools.chain.from_iterable(tf.io.encode_png(piece).numpy() for piece in pieces))
