"""Values of text, as a field declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.errors import SourceError
from seqrecorder.schema.conversion import time_of_text

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    try:
        return values_of_texts(field, [text])[0]
    except SourceError as error:
        raise SourceError(f"{where}: {error}" if where else str(error)) from None


def values_of_texts(field: Field, texts: Sequence[str]) -> list[Any]:
    """Return what each of some texts says.

    Raises:
        SourceError: one says no value of the field.
    """
    element, kind = field.element, field.element.numpy.kind
    if element.name == "str":
        return list(texts)
    done: list[Any] = []
    try:
        if element.is_text:
            done.extend(map(str.encode, texts))
        elif kind == "b":
            done.extend(_TRUTH[text.strip().lower()] for text in texts)
        elif kind == "M":
            done.extend(time_of_text(text, element) for text in texts)
        elif kind == "m":
            done.extend(np.array(int(text)).astype(element.numpy)[()] for text in texts)
        else:
            done.extend(map(int if kind in "iu" else complex if kind == "c" else float, texts))
    except (ValueError, KeyError, OverflowError):
        said = f"field {field.name!r}: expected {element.name}, got {texts[len(done)]!r}"
        raise SourceError(said) from None
    return done
