"""Values that were stored as buffers, as tensors or as images, of many records: in numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.broken_record import Broken
from seqrecorder.codec.decode_values import decode_images
from seqrecorder.codec.encode_values import tensor_header
from seqrecorder.codec.process_state import check_threads_of_tensorflow
from seqrecorder.wire.byte_rows import Spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field

    Check = Callable[[NDArray[np.bool_]], None]

_SHOWN = 16  # bytes in a message


def from_buffer(
    field: Field, octets: NDArray[np.uint8], sizes: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[Any]:
    """Return the values of buffers that lie one behind the other."""
    dtype = field.element.numpy
    if dtype.kind == "b" and (octets > 1).any():
        place = int((octets > 1).argmax())
        row = int(rows[np.searchsorted(np.cumsum(sizes), place, side="right")])
        raise Broken(row, field.name, f"bytes 0 and 1 are expected in {field.feature!r}, got {octets[place]}")
    return viewed(octets, dtype)


def viewed(octets: NDArray[np.uint8], dtype: Any) -> NDArray[Any]:
    """Return bytes as numbers that can be changed, without a copy if they begin at a multiple of their size."""
    numbers: NDArray[Any] = np.ascontiguousarray(octets).view(dtype)
    return numbers if numbers.flags.aligned and numbers.flags.writeable else numbers.copy()


def tensor_contents(field: Field, items: Spans, rows: NDArray[np.int64]) -> Spans:
    """Return where the buffers in serialized tensors are, which must be as `tf.io.serialize_tensor` gives them."""
    dtype, width = field.element.graph, field.count * field.element.itemsize
    sizes, heads = items.sizes, np.zeros(len(items), np.int64)
    wrong = np.zeros(len(items), bool)
    for size in np.unique(sizes).tolist():  # all of one size have one header
        some = np.flatnonzero(sizes == size)
        header = _header_of(field, dtype, width, size)
        if header is None:
            wrong[some] = True
            continue
        octets = items.data[items.starts[some][:, None] + np.arange(len(header))]
        wrong[some] = (octets != np.frombuffer(header, np.uint8)).any(1)
        heads[some] = len(header)
    if wrong.any():
        place = int(wrong.argmax())
        start = items.data[items.starts[place] : items.stops[place]][:_SHOWN].tolist()
        message = (
            f"tensors of {dtype} and shape {field.shape} are expected in {field.feature!r}, as tf.io.serialize_tensor "
            f"gives them; got {sizes[place]} bytes, which begin with {start}"
        )
        raise Broken(int(rows[place]), field.name, message)
    return Spans(items.data, items.starts + heads, items.stops)


def _header_of(field: Field, dtype: str, width: int, size: int) -> bytes | None:
    """Return the header of a tensor that has so many bytes in all; None where none has."""
    if not field.is_ragged:
        header = tensor_header(dtype, field.rest, width)
        return header if len(header) + width == size else None
    longest = len(tensor_header(dtype, (1 << 31, *field.rest), 1 << 31))
    for count in range(max(0, (size - longest) // width), size // width + 1):
        header = tensor_header(dtype, (count, *field.rest), count * width)
        if len(header) + count * width == size:
            return header
    return None


def images_of(field: Field, items: Spans, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return images, which TensorFlow decodes, all of one size."""
    import tensorflow as tf

    check_threads_of_tensorflow("decode images")
    octets = items.data.data
    encoded = [bytes(octets[i:j]) for i, j in zip(items.starts.tolist(), items.stops.tolist(), strict=True)]
    with tf.device("CPU:0"):
        try:
            images: NDArray[Any] = decode_images(tf.constant(encoded, tf.string, [len(encoded)]), field).numpy()
        except tf.errors.OpError as error:
            for row, one in zip(rows.tolist(), encoded, strict=True):
                try:
                    decode_images(tf.constant([one]), field)
                except tf.errors.OpError as own:
                    raise Broken(row, field.name, str(own.message)) from None
            raise Broken(int(rows[0]), field.name, str(error.message)) from None
    return images
