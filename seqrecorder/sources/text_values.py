"""Values of text, as a field declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.errors import SourceError
from seqrecorder.schema.times import time_of_text

if TYPE_CHECKING:
    from seqrecorder.schema.field import Field

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def value_of_text(field: Field, text: str, where: str = "") -> Any:
    """Return what a text says, for a field: a number, a bool, a time, or itself.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     x: float = sr.context("float32")
    >>> value_of_text(sr.Schema.of(Point)["x"], "0.5")
    0.5

    Raises:
        SourceError: it says no such value.
    """
    kind = field.element.numpy.kind
    try:
        if field.element.is_text:
            return text if field.element.name == "str" else text.encode()
        if kind == "b":
            return _TRUTH[text.strip().lower()]
        if kind in "iu":
            return int(text)
        if kind == "M":
            return time_of_text(text, field.element)
        return complex(text) if kind == "c" else float(text)
    except (ValueError, KeyError):
        place = f"{where}: " if where else ""
        raise SourceError(f"{place}field {field.name!r}: expected {field.element.name}, got {text!r}") from None
