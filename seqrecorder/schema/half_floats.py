"""Conversion between float32 and the 16-bit types float16 and bfloat16, with NaNs converted by their bits.

On some processors, a cast quiets signalling NaNs, which changes their bits. `codec.graph_ops.narrow` does the same
conversion in a graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


# IEEE 754 bit masks of the sign, the exponent and the fraction.
_F16_SIGN, _F16_NAN, _F16_FRACTION, _F32_EXPONENT = 0x8000, 0x7C00, 0x3FF, 0x7F800000


def widen(values: NDArray[Any]) -> NDArray[np.float32]:
    """Convert float16, bfloat16 or float32 values to float32, keeping the bits of every NaN.

    >>> widen(np.array([1.5], np.float16))
    array([1.5], dtype=float32)
    """
    if values.dtype.itemsize == 4:  # noqa: PLR2004 - float32
        return values.astype("<f4", copy=False)
    bits = np.ascontiguousarray(values).view(np.uint16).astype(np.uint32)
    if values.dtype.name == "bfloat16":
        return (bits << 16).view(np.float32)
    wide: NDArray[np.float32] = values.astype(np.float32)
    odd = (bits & _F16_NAN) == _F16_NAN
    if odd.any():
        exact = ((bits & _F16_SIGN) << 16) | _F32_EXPONENT | ((bits & _F16_FRACTION) << 13)
        wide = np.where(odd, exact, wide.view(np.uint32)).astype(np.uint32).view(np.float32)
    return wide


def narrow(values: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert float32 values to float16 or bfloat16, as the inverse of `widen`.

    NaNs are converted by their bits, since a cast can change them.
    """
    with np.errstate(all="ignore"):
        narrowed: NDArray[Any] = values.astype(dtype)
    nan = np.isnan(values)
    if not nan.any():
        return narrowed
    wide = values[nan].view(np.uint32)
    if dtype.name == "bfloat16":
        bits = wide >> 16
        bits |= np.where((bits & 0x7F) == 0, np.uint32(0x40), np.uint32(0))  # otherwise it would become an infinity
    else:
        fraction = (wide >> 13) & _F16_FRACTION
        fraction = np.where(fraction == 0, np.uint32(0x200), fraction)
        bits = ((wide >> 16) & _F16_SIGN) | _F16_NAN | fraction
    narrowed.view(np.uint16)[nan] = bits.astype(np.uint16)
    return narrowed
