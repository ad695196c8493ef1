"""Points and spans of time, as Python, pandas and Arrow have them, to numpy's: exact, and never of a time zone.

A datetime64 has no zone. What has one is refused wherever it comes from: moving it to UTC would change what the clock
shows, and dropping the zone would change the moment.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.schema.mismatch import Mismatch, check_kept, describe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.schema.dtypes import ElementType

ADVICE = "convert to UTC, where that is meant, and drop the zone (pandas: .dt.tz_convert(None))"


def zone_of(kind: Any) -> str | None:
    """Return the time zone of another library's type of times, or of lists of them; None where it has none.

    Args:
        kind: a type of pyarrow, a dtype of polars or pandas, or anything.
    """
    while kind is not None:
        zone = getattr(kind, "tz", None) or getattr(kind, "time_zone", None)
        if zone is not None:
            return str(zone)
        inner = getattr(kind, "value_type", None)  # of a list or a dictionary of pyarrow's
        kind = getattr(kind, "inner", None) if inner is None else inner
    return None


def check_zone(array: Any, element: ElementType) -> None:
    """Raise `Mismatch` where another library's array is of times with a zone, which numpy would move to UTC."""
    for kind in (getattr(array, "dtype", None), getattr(array, "type", None)):
        zone = zone_of(kind)
        if zone is not None:
            raise Mismatch(f"{element.name} (without a time zone)", f"times of the zone {zone!r}; {ADVICE}")


def times_of_objects(values: Any, element: ElementType) -> NDArray[Any]:
    """Return an array of a time type for dates, datetimes or timedeltas, all of one class.

    Args:
        values: of Python's classes, or of pandas', which derive from them and have nanoseconds.
        element: a datetime64 or timedelta64.

    Raises:
        Mismatch: one has a time zone, or is finer than the unit.
    """
    zoned = next((i for i, v in enumerate(values) if getattr(v, "tzinfo", None) is not None), None)
    if zoned is not None:
        expected = f"{element.name} (without a time zone)"
        raise Mismatch(expected, f"{describe(values[zoned])}; {ADVICE}", (zoned,))
    to_numpy = "to_datetime64" if element.numpy.kind == "M" else "to_timedelta64"
    if hasattr(type(values[0]), to_numpy):  # pandas: numpy would stop at microseconds
        return _times_of_numpy([getattr(value, to_numpy)() for value in values], element)
    is_date = isinstance(values[0], dt.date) and not isinstance(values[0], dt.datetime)
    prefix = "datetime64" if element.numpy.kind == "M" else "timedelta64"
    return cast_times(np.array(values, f"{prefix}[{'D' if is_date else 'us'}]"), element)


def _times_of_numpy(values: list[Any], element: ElementType) -> NDArray[Any]:
    if len({value.dtype for value in values}) == 1:
        return cast_times(np.array(values), element)
    result = np.empty(len(values), element.numpy)
    for position, value in enumerate(values):  # each by itself: a common unit may not reach as far
        try:
            result[position] = cast_times(np.asarray(value), element)
        except Mismatch as problem:
            raise problem.inside(position) from None
    return result


def cast_times(array: NDArray[Any], element: ElementType) -> NDArray[Any]:
    """Return numpy's times in the declared unit.

    Raises:
        Mismatch: one is finer than the unit or beyond its range, or the units have no fixed ratio.
    """
    if not np.can_cast(array.dtype, element.numpy, "same_kind"):  # years and months have no fixed number of days
        raise Mismatch(element.name, f"dtype {array.dtype}")
    converted = array.astype(element.numpy)
    check_kept(array, converted.astype(array.dtype), element)
    return converted
