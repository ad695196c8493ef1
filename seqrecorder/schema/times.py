"""Points and spans of time, as Python, pandas and Arrow have them, to numpy's: exact, and never of a time zone.

A datetime64 has no zone. What has one is refused wherever it comes from: moving it to UTC would change what the clock
shows, and dropping the zone would change the moment. Only a field of `datetime64[unit, UTC]` says that it is to be
moved: it takes what has a zone, and numpy's times as those of UTC; Python's without a zone may be of any.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.schema.mismatch import Mismatch, check_kept, describe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.schema.dtypes import ElementType

ADVICE = (
    "convert to UTC, where that is meant, and drop the zone (pandas: .dt.tz_convert(None)), or declare "
    "'datetime64[unit, UTC]'"
)
NO_ZONE = "times without a zone; say of which they are (pandas: .dt.tz_localize(...))"
_OFFSET = re.compile(r"(.*\d)(?:Z|([+-])(\d\d):?(\d\d))")


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
    if element.zone is not None:
        return
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
    if element.zone is not None:
        values = [_in_utc(value, place, element) for place, value in enumerate(values)]
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


def _in_utc(value: Any, place: int, element: ElementType) -> Any:
    """Return a date and time of UTC, without the zone."""
    if getattr(value, "tzinfo", None) is None:
        raise Mismatch(f"{element.name} (with a time zone)", f"{describe(value)}: {NO_ZONE}", (place,))
    if hasattr(value, "tz_convert"):  # pandas, which has nanoseconds
        return value.tz_convert(None)
    return value.astimezone(dt.timezone.utc).replace(tzinfo=None)


def time_of_text(text: str, element: ElementType) -> Any:
    """Return the time that a text of ISO 8601 says.

    >>> from seqrecorder.schema.dtypes import element_type
    >>> time_of_text("2024-01-01T01:00:00+01:00", element_type("datetime64[s, UTC]"))
    np.datetime64('2024-01-01T00:00:00')

    Raises:
        Mismatch: it has a zone and the type has none, or the reverse.
        ValueError: it says no time.
    """
    found = _OFFSET.fullmatch(text) if "T" in text or ":" in text or text.endswith("Z") else None
    if element.zone is None:
        if found is not None:
            raise Mismatch(f"{element.name} (without a time zone)", f"{text!r}; {ADVICE}")
        return np.datetime64(text)
    if found is None:
        raise Mismatch(f"{element.name} (with a time zone)", f"{text!r}: {NO_ZONE}")
    plain, sign, hours, minutes = found.groups()
    offset = 0 if sign is None else int(f"{sign}1") * (60 * int(hours) + int(minutes))
    return np.datetime64(plain) - np.timedelta64(offset, "m") if offset else np.datetime64(plain)


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
