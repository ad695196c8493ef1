"""Dictionaries of field to value, as records in columns."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.columns import gather, maker_from_mapping
from seqrecorder.codec.encode import columns_of_dictionaries
from seqrecorder.errors import RecordError
from seqrecorder.writing.column_source import ColumnSource
from seqrecorder.writing.record_copies import CannotWait, copied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.schema import Schema

_ROWS = 8192
_BYTES = 4 << 20
_NUMBERS = {int, float, bool, type(None)}


class Dictionaries(ColumnSource):
    """Dictionaries of field to value.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     x: int = sr.context("int64")
    >>> [int(point.x) for point in Dictionaries([{"x": 3}], sr.Schema.of(Point))]
    [3]

    Args:
        rows: an iterable of them. What each holds is taken before the next one is asked for, unless they are a list.
        schema: what the records are.
    """

    def __init__(self, rows: Iterable[Any], schema: Schema) -> None:
        self.rows, self.schema = rows, schema

    def columns(self) -> Iterator[tuple[dict[str, Column], int]]:
        """Yield the columns of as many as are held at once."""
        make, done = maker_from_mapping(self.schema), 0
        for rows in self._chunks():
            columns = columns_of_dictionaries(self.schema, rows)
            if columns is None:  # the class says what does not fit, if anything
                records = list(map(make, rows, itertools.count(done)))
                try:
                    columns = gather(self.schema, records)
                except RecordError as error:
                    error.position = None if error.position is None else error.position + done
                    raise
            yield columns, len(rows)
            done += len(rows)

    def _chunks(self) -> Iterator[list[Any]]:
        """Yield some rows at a time, which nothing changes meanwhile."""
        held = type(self.rows) in (list, tuple)
        chunk: list[Any] = []
        size = 0
        for row in self.rows:
            taken, waits = row, True
            if not held:
                try:
                    taken = {name: copied(value) for name, value in row.items()} if type(row) is dict else copied(row)
                except CannotWait:
                    waits = False
            chunk.append(taken)
            size += sum(map(_weight, taken.values())) if type(taken) is dict else 0
            if not waits or len(chunk) == _ROWS or size >= _BYTES:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk


def _weight(value: Any) -> int:
    """Return about how many bytes a value takes."""
    kind = type(value)
    if kind is np.ndarray:
        return int(value.nbytes)
    if kind in (list, tuple) and value and type(value[0]) not in _NUMBERS:
        return sum(map(_weight, value))
    return sys.getsizeof(value)
