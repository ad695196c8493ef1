"""Fields that say when a record is, and times as values of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.schema.conversion import exact_scalar
from seqrecorder.schema.mismatch import Mismatch

if TYPE_CHECKING:
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


def time_field(schema: Schema, name: Any, option: str) -> Field:
    """Return the field of a record's time.

    Raises:
        OptionError: it is none of times or numbers.
        SchemaError: there is no field of the name.
    """
    if not isinstance(name, str):
        raise OptionError(f"{option}: expected the name of the field that says when a record is, got {name!r}")
    field = schema[name]
    if field.shape or field.sparse is not None or field.element.is_text or field.element.numpy.kind in "bc":
        raise OptionError(f"{option}: expected a field of times or numbers without a shape, got {field!r}")
    return field


def time_of(field: Field, given: Any) -> Any:
    """Return a time as a value of a field.

    Raises:
        OptionError: it cannot be one.
    """
    try:
        value = np.datetime64(given) if field.element.is_time and isinstance(given, str) else given
        kind = field.element.numpy
        return (
            np.asarray(value).astype(kind)[()]
            if isinstance(value, np.datetime64)
            else exact_scalar(value, field.element)
        )
    except (Mismatch, TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"at: expected a time as {field.element.name}, got {given!r} ({error})") from None
