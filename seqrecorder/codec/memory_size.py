"""About how many bytes records take in memory: what bounds how many wait, and are encoded at once.

It is asked for all records, and must not cost more than encoding them: fields are asked by `map`, which takes 60 ns a
record and field (a Python expression for each record 150 ns, looking at each value in turn 1.5 microseconds). Where the
records are encoded next, their values are taken once for both, and the lengths of their arrays too.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.schema.conversion import SparseVector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

_SCALAR = 8
_SAMPLE = 16  # arrays of a block
_nbytes = attrgetter("nbytes")

# Raised by what is not in the form that records hold, or is None.
_UNEXPECTED = (AttributeError, TypeError, ValueError)


@attrs.frozen(eq=False)
class Taken:
    """The values of one field of some records.

    Attributes:
        values: one of each record.
        lengths: int64, the length of each value, where each should be an array of the field's rows; else None.
    """

    values: list[Any]
    lengths: NDArray[np.int64] | None = None


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
        try:
            return numbers * len(records) + sum(size_of(map(get, records)) for get, size_of in asked)
        except _UNEXPECTED:
            return sum(_one_by_one(record, names) for record in records)

    return size


def taker(schema: Schema) -> Callable[[Sequence[Any]], tuple[int, Mapping[str, Taken]]]:
    """Return the function that takes the values of each field, and says about how many bytes they are together.

    Of texts in lists there are many: their size is told from those of some records. Where something is no such record,
    no values are taken.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> size, taken = taker(sr.Schema.of(Sentence))([Sentence([1, 2]), Sentence([3])])
    >>> size, taken["ids"].lengths.tolist()
    (24, [2, 1])
    """
    fields = [(field.name, attrgetter(field.name), _measure_of(field)) for field in schema.fields]

    def take(records: Sequence[Any]) -> tuple[int, Mapping[str, Taken]]:
        total, taken = 0, {}
        for name, get, measure in fields:
            try:
                values = list(map(get, records))
            except AttributeError:
                return sum(_one_by_one(record, [name for name, _, _ in fields]) for record in records), {}
            try:
                size, lengths = measure(values)
            except _UNEXPECTED:
                size, lengths = sum(map(_size, values)), None
            taken[name] = Taken(values, lengths)
            total += size
        return total, taken

    return take


def join_taken(blocks: Sequence[Mapping[str, Taken]]) -> Mapping[str, Taken]:
    """Return the values of consecutive blocks as those of one; none where a block has none."""
    if len(blocks) == 1 or not all(blocks):
        return blocks[0] if len(blocks) == 1 else {}
    joined = {}
    for name in blocks[0]:
        values: list[Any] = []
        for block in blocks:
            values += block[name].values
        lengths = [block[name].lengths for block in blocks]
        known = [part for part in lengths if part is not None]
        joined[name] = Taken(values, np.concatenate(known) if len(known) == len(blocks) else None)
    return joined


def _size_of(field: Field) -> Callable[[Iterable[Any]], int]:
    """Return the sum of a field's sizes; it may fail where values are not in the form that records hold."""
    if field.sparse is not None or (field.is_list and field.is_ragged):
        return lambda values: sum(map(_size, values))
    if not field.is_list and not field.shape:  # text: numbers are not asked
        return lambda values: sum(map(len, values))
    if field.element.is_text:
        return lambda values: _text_size(np.concatenate(list(values), axis=None).tolist())
    return lambda values: sum(map(_nbytes, values))


def _measure_of(field: Field) -> Callable[[list[Any]], tuple[int, NDArray[np.int64] | None]]:
    """Return the sum of a field's sizes, and the lengths that were asked for it; it may fail as that of `_size_of`."""
    if _is_number(field):
        return lambda values: (_SCALAR * len(values), None)
    if field.sparse is None and field.is_list != field.is_ragged:
        return lambda values: _size_of_rows(field, values)
    size_of = _size_of(field)
    return lambda values: (size_of(values), None)


def _size_of_rows(field: Field, values: Sequence[Any]) -> tuple[int, NDArray[np.int64]]:
    """Return about how many bytes arrays of the field's rows take, and their lengths."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    elements = int(lengths.sum()) * field.count
    if not field.element.is_text:
        return elements * field.element.itemsize, lengths
    some = np.concatenate(values[:: -(-len(values) // _SAMPLE)], axis=None)
    return _text_size(some.tolist()) * elements // max(1, some.size), lengths


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
        size = len("".join(values))  # 4 ns a token; `sum(map(len, values))` 13
    except TypeError:  # bytes, or something that is no text
        size = sum(map(_size, values))
    return size + _SCALAR * len(values)
