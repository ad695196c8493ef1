"""Numbers in another dtype, by the licence of `cast=True`: rounded to a narrower float, and otherwise kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.schema.mismatch import Mismatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.schema.dtypes import ElementType

_TRUTH = (0, 1)


def cast_values(values: NDArray[Any], element: ElementType) -> NDArray[Any]:
    """Return numbers in the declared dtype where that is licensed, and as they are where it is not.

    >>> from seqrecorder.schema.dtypes import element_type
    >>> cast_values(np.array([1.0, -2.0]), element_type("int16"))
    array([ 1, -2], dtype=int16)

    Floats are rounded to narrower floats, whole floats become integers, and 0 and 1 are bools and the reverse.

    Args:
        values: flat.
        element: the declared type.

    Raises:
        Mismatch: a value does not fit: it is out of range, or a fraction for an integer.
    """
    source, target = values.dtype, element.numpy
    to_float = element.has_nan and target.kind != "c"
    if source == target or source.kind not in "fiub" or not (to_float or target.kind in "iub"):
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        result: NDArray[Any] = values.astype(target)
        if source.kind == "f" and to_float:
            fits = np.isfinite(result.astype(np.float64)) | ~np.isfinite(values)
            expected = f"{element.name} (finite)"
        elif source.kind == "f" and target.kind in "iu":
            limits = np.iinfo(target)
            # The upper limit may round up to the first number that does not fit.
            fits = (values == np.trunc(values)) & (values >= float(limits.min)) & (values < float(limits.max) + 1)
            expected = f"whole numbers in [{limits.min}, {limits.max}] for {element.name}"
        elif target.kind == "b":
            fits = np.isin(values, _TRUTH)
            expected = "0 or 1 for bool"
        else:
            return result if source.kind == "b" else values  # integers are checked in any case
    if not fits.all():
        first = int(np.argmin(fits))
        raise Mismatch(expected, repr(values[first].item()), (first,))
    return result
