"""Where records come from while they are written: any iterable of them, or a mapping of splits to iterables."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.construct import maker_from_mapping
from seqrecorder.codec.dictionaries import takes_columns
from seqrecorder.codec.tables import is_table, table_of
from seqrecorder.dataset.selection import Selection
from seqrecorder.errors import (
    DatasetError,
    OptionError,
    RecordError,
    SourceError,
)
from seqrecorder.storage.names import check_names
from seqrecorder.writing.column_source import ColumnSource, SkippingSource, TableRecords
from seqrecorder.writing.dictionaries import Dictionaries
from seqrecorder.writing.record_copies import CannotWait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from seqrecorder.schema.schema import Schema


class RecordStream:
    """Source records in blocks, each with the name of its split, or None where the source does not say.

    >>> stream = RecordStream({"train": "abc", "eval": "d"})
    >>> stream.take(2), stream.take(2), stream.take(2), stream.take(2)
    (('train', ['a', 'b']), ('train', ['c']), ('eval', ['d']), (None, []))

    Args:
        records: an iterable of records or of dictionaries, a table, a `ColumnSource`, or a mapping of a split's name
            to such.
        schema: what the records are; needed for dictionaries and tables.

    Attributes:
        splits: the names, where the source has them.
        columns: what gives its records in columns, or encoded, each with the name of its split; `take` gives the
            others.
        turn: a split and its dictionaries, where they are to be written before more is taken.
        size: how many records there are; None where the source does not know.
        skipped: how many rows `from_csv` left out, of the parts that came to their end.
        cannot_wait: whether no snapshot could be taken of the record that was taken last.
    """

    def __init__(self, records: Any, schema: Schema | None = None) -> None:
        if isinstance(records, RecordStream):
            raise OptionError("a RecordStream is consumed once: give the records themselves")
        self.splits = check_names(records, "split") if isinstance(records, Mapping) else ()
        parts = list(records.values()) if isinstance(records, Mapping) else [records]
        self._schema = schema
        self.columns: list[tuple[str | None, ColumnSource | Selection]] = []
        self._parts: Iterator[tuple[str | None, Any]]
        rows: list[tuple[str | None, Any]] = []
        for split, part in zip(self.splits or (None,), parts, strict=True):
            if isinstance(part, (ColumnSource, Selection)):
                self.columns.append((split, part))
            elif is_table(part):
                if schema is None:
                    raise OptionError(f"a {type(part).__name__} does not say what its records are: pass schema=Class")
                self.columns.append((split, TableRecords(table_of(part), schema)))
            elif not isinstance(part, Iterable) or isinstance(part, (type, Mapping)):
                raise OptionError(
                    "records: expected an iterable of records or dictionaries, a table, or a mapping of names of splits"
                    f" to such, got {type(part).__name__}"
                )
            else:
                rows.append((split, part))
        sizes = [len(part) if isinstance(part, Sized) else None for _, part in rows]
        self.size = None if None in sizes or self.columns else sum(filter(None, sizes))
        self.turn: tuple[str | None, Dictionaries] | None = None
        self.skipped = 0
        self.cannot_wait = False
        self._taken = 0
        self._parts = iter(rows)
        self._part: Any = None
        self._split: str | None = None
        self._records: Iterator[Any] | None = None  # of the part
        self._left = 0  # records of the part, if it is a list
        self._failure: Exception | None = None
        self._first: tuple[str | None, list[Any]] | None = None

    def peek(self) -> Any:
        """Return the first record, or None if there is none; it still comes with `take`."""
        if self._first is None:
            self._first = self.take(1)
        return next(iter(self._first[1]), None)

    @property
    def held(self) -> bool:
        """Whether what comes next is of a list, taken from before: no code of the program runs to make it."""
        return self._left > 0

    def take(self, most: int, snapshot: Callable[[Any], Any] | None = None) -> tuple[str | None, list[Any]]:
        """Return the name of a split and its next records, at most so many; no record at the end.

        Args:
            most: how many at most.
            snapshot: is called with each record before the next one is asked for, and what it returns takes its place.
                Where it raises `CannotWait`, the record is the last that is taken.

        Raises:
            SourceError: the source failed; the number of the record is named.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return first
        block: list[Any] = []
        self.cannot_wait = False
        while not block:
            if self._failure is not None:
                raise self._failed(self._failure)
            try:
                if self._records is None:
                    self._records = self._begin_part()
                if self._records is None:
                    return self._split, []
                records = itertools.islice(self._records, most)
                if snapshot is None:
                    block.extend(records)
                else:
                    self._take_snapshots(records, snapshot, block)
            except Exception as error:  # noqa: BLE001 - what came before it is given first
                self._failure = error
            else:
                if len(block) < most and not self.cannot_wait:
                    self._end_part()
            self._taken += len(block)
            self._left = max(0, self._left - len(block))
        return self._split, block

    def _begin_part(self) -> Iterator[Any] | None:
        """Return the records of the next part; None if there is none, or it has dictionaries."""
        self._split, self._part = next(self._parts, (None, None))
        return None if self._part is None else self._iterate(self._part)

    def _iterate(self, part: Iterable[Any]) -> Iterator[Any] | None:
        """Return the records of a part; None where they are dictionaries, which come in columns."""
        held = type(part) in (list, tuple)
        records = iter(part)
        if self._schema is not None:
            first = list(itertools.islice(part if held else records, 1))
            records = records if held else itertools.chain(first, records)
            if first and isinstance(first[0], Mapping):
                if takes_columns(self._schema):
                    rows = part if held else self._guarded(records)
                    self.turn = self._split, Dictionaries(rows, self._schema)
                    return None
                make = maker_from_mapping(self._schema)
                return map(make, records, itertools.count(self._taken))
        self._left = len(part) if held else 0  # type: ignore[arg-type]  # lists and tuples have a length
        return records

    def _guarded(self, rows: Iterator[Any]) -> Iterator[Any]:
        """Yield rows; raise what says at which of them their source failed."""
        try:
            for row in rows:
                yield row
                self._taken += 1
        except Exception as error:  # noqa: BLE001 - raised as what the source did
            failure = self._failed(error)
        else:
            return
        raise failure

    def _take_snapshots(self, records: Iterable[Any], snapshot: Callable[[Any], Any], block: list[Any]) -> None:
        for record in records:
            try:
                block.append(snapshot(record))
            except CannotWait:
                self.cannot_wait = True
                block.append(record)
                return

    def _end_part(self) -> None:
        self._records, self._left = None, 0
        # What `from_csv` left out, which is known when it has come to its end.
        if isinstance(self._part, SkippingSource):
            self.skipped += self._part.skipped

    def _failed(self, error: Exception) -> Exception:
        if isinstance(error, (SourceError, DatasetError, OptionError, RecordError)):
            return error
        ours = SourceError(
            f"the source of records failed at record {self._taken}: {type(error).__name__}: {error};"
            " nothing was published"
        )
        ours.__cause__ = error
        return ours
