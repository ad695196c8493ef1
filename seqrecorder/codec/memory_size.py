"""About how many bytes records take in memory: what bounds how many wait, and are encoded at once.

It is asked for all records, and must not cost more than encoding them: fields are asked by `map`, without an expression
of Python for each record. Of texts in lists there are many: their size is told from those of some records.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.schema.sparse_vector import SparseVector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

_SCALAR = 8
_SAMPLE = 16  # arrays of a block
_nbytes, _elements = attrgetter("nbytes"), attrgetter("size")

# Raised by what is not in the form that records hold, or is None.
_UNEXPECTED = (AttributeError, TypeError, ValueError)


def sizer(schema: Schema) -> Callable[[Sequence[Any]], int]:
    """Return the function that says about how many bytes records take together; 0 for what is no such record.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     key: str = sr.context(str)
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> sizer(sr.Schema.of(Sentence))([Sentence("abc", [1, 2]), Sentence("d", [3])])
    28
    """
    numbers = _SCALAR * sum(map(_is_number, schema.fields))
    asked = [(attrgetter(field.name), _size_of(field)) for field in schema.fields if not _is_number(field)]
    names = [field.name for field in schema.fields]

    def size(records: Sequence[Any]) -> int:
        total = numbers * len(records)
        for get, size_of in asked:
            try:
                values = list(map(get, records))
            except AttributeError:
                return sum(_one_by_one(record, names) for record in records)
            try:
                total += size_of(values)
            except _UNEXPECTED:
                total += sum(map(_size, values))
        return total

    return size


def _size_of(field: Field) -> Callable[[Sequence[Any]], int]:
    """Return the sum of a field's sizes; it may fail where values are not in the form that records hold."""
    if field.sparse is not None or (field.is_list and field.is_ragged):
        return lambda values: sum(map(_size, values))
    if not field.is_list and not field.shape:  # text: numbers are not asked
        return lambda values: sum(map(len, values))
    if field.element.is_text:
        return _size_of_arrays_of_texts
    return lambda values: sum(map(_nbytes, values))


def _size_of_arrays_of_texts(values: Sequence[Any]) -> int:
    elements: int = sum(map(_elements, values))
    if not elements:
        return 0
    some = np.concatenate(values[:: -(-len(values) // _SAMPLE)], axis=None)
    return _text_size(some.tolist()) * elements // max(1, some.size)


def _is_number(field: Field) -> bool:
    return not (field.is_list or field.shape or field.sparse is not None or field.element.is_text)


def _one_by_one(record: Any, names: Sequence[str]) -> int:
    try:
        return sum(_size(getattr(record, name)) for name in names)
    except AttributeError:  # encoding says what is wrong
        return 0


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return _text_size(value.ravel().tolist())
        return int(value.nbytes)
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    if isinstance(value, SparseVector):
        return _size(value.indices) + _size(value.values)
    return len(value) if isinstance(value, (str, bytes)) else _SCALAR


def _text_size(values: Sequence[Any]) -> int:
    try:
        size = len("".join(values))  # faster than a sum of their lengths
    except TypeError:  # bytes, or something that is no text
        size = sum(map(_size, values))
    return size + _SCALAR * len(values)
