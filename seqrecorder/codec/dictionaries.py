"""Dictionaries to columns, without an object for each; what is not plainly a record is left to its class.

The class of the records says what does not fit, and how. So a column is made here only where it would be the same.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import Column, check_alignment, collect, with_texts
from seqrecorder.codec.construct import only_stores
from seqrecorder.schema.conversion import Mismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from seqrecorder.errors import FieldProblem
    from seqrecorder.schema.dtypes import ElementType
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

_HELD = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}
"""Up to which each dtype holds all integers."""


def columns_of_dictionaries(
    schema: Schema,
    rows: Sequence[Any],
    *,
    convert: Callable[[Field, Any], Any] | None = None,
) -> dict[str, Column] | None:
    """Return the columns of dictionaries of field to value; None where the class of the records is to look at them.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> columns_of_dictionaries(sr.Schema.of(Sentence), [{"ids": [1, 2]}, {"ids": [3]}])["ids"]
    Column(values=int64 (3,), steps=int64 (2,))
    >>> columns_of_dictionaries(sr.Schema.of(Sentence), [{"ids": [1.5]}])

    Args:
        schema: what the records are.
        rows: the dictionaries.
        convert: makes what a field takes of a value of JSON; then a null of a float is NaN.
    """
    if set(map(type, rows)) - {dict} or not takes_columns(schema):
        return None
    columns, found = dict[str, Column](), 0
    try:
        for field in schema.fields:
            values, have = _values(field, rows)
            column = _column(field, values, convert)
            if column is None:
                return None
            columns[field.name], found = column, found + have
    except (Mismatch, KeyError, TypeError, ValueError, OverflowError):
        return None
    problems: dict[int, list[FieldProblem]] = {}
    check_alignment(schema, columns, len(rows), problems)
    return None if problems or (found < sum(map(len, rows))) else columns


def _values(field: Field, rows: Sequence[dict[str, Any]]) -> tuple[list[Any], int]:
    """Return the value of each row, and how many rows have one of their own.

    Raises:
        KeyError: a row lacks it, and may not.
    """
    key = field.name
    try:
        return [row[key] for row in rows], len(rows)
    except KeyError:
        if not field.may_lack:
            raise
    default = None if field.default is attrs.NOTHING else field.default
    return [row.get(key, default) for row in rows], sum(key in row for row in rows)


def takes_columns(schema: Schema) -> bool:
    """Whether nothing but the fields makes a record: no code of the class, no attribute that is not stored."""
    hooked = any(hasattr(schema.record_class, name) for name in ("load", "split"))
    return only_stores(schema.record_class, len(schema.fields)) and not hooked


def _column(field: Field, values: list[Any], convert: Callable[[Field, Any], Any] | None) -> Column | None:
    present = None
    if field.optional:
        have = np.fromiter((value is not None for value in values), bool, len(values))
        if not have.all():
            present, values = have, [value for value in values if value is not None]
    column = _plain(field, values, nulls=convert is not None)
    if column is None:
        if convert is not None:
            values = [convert(field, value) for value in values]
        column = collect(field, [field.exact(value) for value in values])
    return column if column is None or present is None else attrs.evolve(column, present=present)


def _plain(field: Field, values: list[Any], *, nulls: bool) -> Column | None:
    """Return the column of values that are lists of Python's own numbers and texts; None if they are not."""
    if field.sparse is not None:
        return None
    lengths: list[NDArray[np.int64]] = []
    for _ in range(int(field.is_list) + len(field.shape)):
        if set(map(type, values)) - {list}:
            return None
        lengths.append(np.fromiter(map(len, values), np.int64, len(values)))
        values = list(chain.from_iterable(values))
    free = len(lengths) - len(field.rest)
    if any((found != size).any() for found, size in zip(lengths[free:], field.rest, strict=True)):
        return None
    flat = _flat(field.element, values, nulls=nulls)
    if flat is None:
        return None
    column = Column(
        flat.reshape(-1, *field.rest),
        steps=lengths[0] if field.is_list else None,
        counts=lengths[int(field.is_list)] if field.is_ragged else None,
    )
    return with_texts(field, column) if field.element.is_text else column


def _flat(element: ElementType, values: list[Any], *, nulls: bool) -> NDArray[Any] | None:
    """Return the array of scalars that are plainly of an element type."""
    kinds, kind = set(map(type, values)), element.numpy.kind
    if not kinds:
        return np.empty(0, element.numpy)
    if element.is_text:
        if kinds - {str if element.name == "str" else bytes}:
            return None
        texts = np.empty(len(values), object)
        texts[:] = values
        return texts
    if kind in "iu" and kinds == {int}:
        limits = np.iinfo(element.numpy)
        return np.array(values, element.numpy) if limits.min <= min(values) and max(values) <= limits.max else None
    if kind == "b" and kinds == {bool}:
        return np.array(values, bool)
    if element.name not in _HELD or kinds - {float, int, type(None) if nulls else float}:
        return None
    if int in kinds and max(abs(value) for value in values if type(value) is int) > _HELD[element.name]:
        return None
    wide = np.array(values, np.float64)  # of None, NaN
    with np.errstate(over="ignore"):
        narrow: NDArray[Any] = wide.astype(element.numpy)
        return narrow if (np.isfinite(narrow.astype(np.float64)) | ~np.isfinite(wide)).all() else None
