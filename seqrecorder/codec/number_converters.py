"""From the bytes of one record's numbers to an array of the declared dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.wire.read import (
    Unusual,
    varint_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field

    Converter = Callable[[bytes], NDArray[Any]]

FLOAT_BYTES = 4
_SHORT = 1 << 12  # bytes that are copied, lest they keep a large record


def kind_of_numbers(field: Field) -> str:
    """Return the list of the format that holds a field: `int64`, `float` or `bytes`."""
    return "bytes" if field.buffered else field.element.wire


def converter_of(field: Field) -> Converter:
    """Return the function from packed bytes to values of the declared dtype."""
    element = field.element
    dtype = element.numpy
    if element.is_text:
        return lambda _: np.empty(0, object)
    if field.buffered:
        return lambda octets: _from_buffer(octets, dtype)
    if element.wire == "float":
        return lambda octets: _floats(octets, dtype)
    return lambda octets: _integers(octets, dtype)


def _from_buffer(octets: bytes | memoryview, dtype: np.dtype[Any]) -> NDArray[Any]:
    if len(octets) % dtype.itemsize:
        raise Unusual
    if dtype.kind == "b" and (np.frombuffer(octets, np.uint8) > 1).any():
        raise Unusual
    return _writable(octets, dtype)


def _writable(octets: bytes | memoryview, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return bytes as numbers that can be changed, without a copy where they can, and numpy's places for them suit."""
    if isinstance(octets, memoryview) and not octets.readonly and len(octets) > _SHORT:
        values: NDArray[Any] = np.frombuffer(octets, dtype)
        if values.flags.aligned:
            return values
    return np.frombuffer(bytearray(octets), dtype)


def _floats(octets: bytes | memoryview, dtype: np.dtype[Any]) -> NDArray[Any]:
    if len(octets) % FLOAT_BYTES:
        raise Unusual
    values = _writable(octets, np.dtype("<f4"))
    if dtype == np.float32:
        return values
    if not np.isfinite(values).all():
        raise Unusual  # the bits of a NaN are kept elsewhere
    with np.errstate(over="ignore"):
        narrow = values.astype(dtype)
    if not np.isfinite(narrow.astype(np.float32)).all():
        raise Unusual
    return narrow


def _integers(octets: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    return in_range(varint_values(np.frombuffer(octets, np.uint8)), dtype)


def in_range(values: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers of the wire in the declared dtype."""
    if dtype == np.int64:
        return values
    if dtype.kind in "mM" or dtype == np.uint64:
        return values.view(dtype)
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if values.size and not (limits[0] <= int(values.min()) and int(values.max()) <= limits[1]):
        raise Unusual
    return values.astype(dtype)
