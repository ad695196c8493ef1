"""`Mismatch`: a value that its field cannot hold exactly, said in the words of the errors that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.schema.dtypes import ElementType


class Mismatch(Exception):  # noqa: N818 - becomes a FieldProblem of a RecordError
    """A value that its field cannot hold exactly."""

    def __init__(self, expected: str, got: str, index: tuple[int, ...] = ()) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected, self.got, self.index = expected, got, index

    def inside(self, *outer: int) -> Mismatch:
        """Return the same mismatch, seen from further out."""
        return Mismatch(self.expected, self.got, (*outer, *self.index))


def describe(value: object) -> str:
    """Return the type and the beginning of a value."""
    text = repr(value)
    limit = 60
    return f"{type(value).__name__} {text if len(text) <= limit else text[:limit] + '...'}"


def advice(given: object, record_class: str = "Record") -> str:
    """Return what to do with something that was given for a record, as the end of a message."""
    if isinstance(given, Mapping):
        return f"; make a record of each: {record_class}(**row), or give all to seqrecorder.write with schema="
    if isinstance(given, (list, tuple)):
        return f"; make a record of each: {record_class}(*row)"
    is_column = isinstance(given, (str, bytes, int, float)) or hasattr(given, "dtype")
    if is_column or hasattr(type(given), "__arrow_c_stream__"):
        return "; a table goes to seqrecorder.write as it is, columns go to Writer.write_batch"
    return ""


def check_kept(before: NDArray[Any], after: NDArray[Any], element: ElementType) -> None:
    """Raise `Mismatch` for the first value that a conversion to `element` and back has changed."""
    kept = (before == after) | ((before != before) & (after != after))  # noqa: PLR0124 - finds NaN and NaT
    if not np.all(kept):
        index = tuple(int(i) for i in np.argwhere(~np.asarray(kept))[0])
        advice = f"; give {element.name} (`.astype`; of tables `cast=True`), or declare {before.dtype}"
        raise Mismatch(
            f"values that {element.name} holds exactly",
            f"{before[index]!r} of dtype {before.dtype}{advice}",
            index,
        )
