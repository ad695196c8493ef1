"""Sources of records: any iterable or a mapping of iterables, and CSV files through `from_csv_row`."""

from __future__ import annotations

import codecs
import csv
import itertools
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from seqrecorder.codec.arrow import is_arrow
from seqrecorder.errors import (
    DatasetError,
    DatasetNotFoundError,
    OptionError,
    SchemaError,
    SkipRecord,
    SourceError,
)
from seqrecorder.storage.names import check_names
from seqrecorder.storage.paths import local_path
from seqrecorder.writing.encoder import check_params, hook_params
from seqrecorder.writing.snapshots import CannotWait

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

T = TypeVar("T")


class Row(dict[str, str]):
    """A line of a CSV file: a dictionary of column to text, in which an int stands for the position of a column.

    >>> row = Row(name="a", label="3")
    >>> row["label"], row[0]
    ('3', 'a')
    """

    def __missing__(self, key: object) -> str:
        if isinstance(key, int):
            return list(self.values())[key]
        raise KeyError(f"{key!r}: the columns are {', '.join(map(repr, self))}")


class CsvRecords(Generic[T]):
    """The records of a CSV file, read line by line each time they are iterated over.

    Attributes:
        skipped: how many rows the last iteration left out, because `from_csv_row` raised `SkipRecord`.
    """

    def __init__(self, path: Path, record_class: type[T], params: dict[str, Any], encoding: str) -> None:
        self.path, self.record_class, self.encoding = path, record_class, encoding
        self.params = hook_params(record_class, "from_csv_row", params)
        self.skipped = 0

    def __iter__(self) -> Iterator[T]:
        """Yield a record for each row that is not left out."""
        self.skipped = 0
        with self.path.open(encoding=self.encoding, newline="") as file:
            rows = csv.DictReader(file, strict=True)
            try:
                names = self._header(rows)
                for row in rows:
                    if None in row or None in row.values():
                        raise SourceError(
                            f"{self.path}, line {rows.line_num}: expected {len(names)} columns"
                            f" ({', '.join(names)}), got {'more' if None in row else 'fewer'}"
                        )
                    try:
                        yield self._record(row, rows.line_num)
                    except SkipRecord:
                        self.skipped += 1
            except (csv.Error, UnicodeDecodeError) as error:
                line = rows.line_num
                raise SourceError(f"{self.path}, line {line}: not {self.encoding} CSV: {error}") from error

    def _header(self, rows: csv.DictReader[str]) -> Sequence[str]:
        names = rows.fieldnames
        if not names:
            raise SourceError(f"{self.path}: expected a line of column names, got an empty file")
        doubled = [name for i, name in enumerate(names) if name in names[:i]]
        if doubled:
            raise SourceError(f"{self.path}: expected columns of different names, got {doubled[0]!r} twice")
        return names

    def _record(self, row: dict[str, str], line: int) -> T:
        hook = f"{self.record_class.__name__}.from_csv_row"
        try:
            record = self.record_class.from_csv_row(Row(row), **self.params)  # type: ignore[attr-defined]  # see from_csv
        except SkipRecord:
            raise
        except Exception as error:
            raise SourceError(
                f"{self.path}, line {line}: {hook} failed: {type(error).__name__}: {error}"
                " (raise seqrecorder.SkipRecord to leave the row out)"
            ) from error
        if not isinstance(record, self.record_class):
            raise SourceError(
                f"{self.path}, line {line}: {hook}: expected a {self.record_class.__name__}, got {record!r}"
                " (raise seqrecorder.SkipRecord to leave the row out)"
            )
        return record


def from_csv(
    path: str | os.PathLike[str], record_class: type[T], *, encoding: str = "utf-8-sig", **params: Any
) -> CsvRecords[T]:
    r"""Return the records of a CSV file with a header line, made by `record_class.from_csv_row(row, **params)`.

    >>> import pathlib, tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    ...     @classmethod
    ...     def from_csv_row(cls, row, upper=False):
    ...         if not row["text"]:
    ...             raise sr.SkipRecord
    ...         return cls(row["text"].upper() if upper else row["text"])
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "words.csv"
    >>> _ = file.write_text('text\nto\n""\nbe\n')
    >>> records = from_csv(file, Word, upper=True)
    >>> [word.text for word in records], records.skipped
    (['TO', 'BE'], 1)

    Args:
        path: of the file.
        record_class: has a class method `from_csv_row(row, **params)`, which takes a dictionary of column to text (an
            int stands for the position of a column) and returns a record, or raises `SkipRecord`.
        encoding: of the file; a byte order mark is dropped.
        params: for the hook, which gets those that it names.

    Raises:
        SchemaError: the class has no `from_csv_row`.
        DatasetNotFoundError: there is no such file.
        SourceError: while iterating: a line is not as the header says, or the hook failed; the line is named.
    """
    if not callable(getattr(record_class, "from_csv_row", None)):
        raise SchemaError(f"{record_class.__name__} has no from_csv_row: give it a class method from_csv_row(row)")
    check_params(record_class, params, ("from_csv_row",))
    try:
        codecs.lookup(encoding)
    except LookupError as error:
        raise OptionError(f"encoding: {error}") from None
    file = local_path(path)
    if not file.is_file():
        raise DatasetNotFoundError(f"there is no file {str(path)!r}", path=path)
    return CsvRecords(file, record_class, params, encoding)


class RecordStream:
    """Source records in blocks, each with the name of its split, or None where the source does not say.

    >>> stream = RecordStream({"train": "abc", "eval": "d"})
    >>> stream.take(2), stream.take(2), stream.take(2), stream.take(2)
    (('train', ['a', 'b']), ('train', ['c']), ('eval', ['d']), (None, []))

    Args:
        records: an iterable of records, or a mapping of a split's name to such.

    Attributes:
        splits: the names, where the source has them.
        size: how many records there are; None where the source does not know.
        skipped: how many rows `from_csv` left out, of the parts that came to their end.
        cannot_wait: whether no snapshot could be taken of the record that was taken last.
    """

    def __init__(self, records: Any) -> None:
        if isinstance(records, RecordStream):
            raise OptionError("a RecordStream is consumed once: give the records themselves")
        self.splits = check_names(records, "split") if isinstance(records, Mapping) else ()
        parts = list(records.values()) if isinstance(records, Mapping) else [records]
        for part in parts:
            if is_arrow(part):
                raise OptionError(
                    f"records: expected an iterable of records, got a {type(part).__name__}; give tables to"
                    " Writer.write_batch: with seqrecorder.Writer(path, Class) as writer: writer.write_batch(table)"
                )
            if not isinstance(part, Iterable) or isinstance(part, (type, Mapping)):
                raise OptionError(
                    "records: expected an iterable of records, or a mapping of names of splits to such, got"
                    f" {type(part).__name__}"
                )
        sizes = [len(part) if isinstance(part, Sized) else None for part in parts]
        self.size = None if None in sizes else sum(filter(None, sizes))
        self.skipped = 0
        self.cannot_wait = False
        self._taken = 0
        self._parts = zip(self.splits or (None,), parts, strict=True)
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
                    self._split, self._part = next(self._parts, (None, None))
                    if self._part is None:
                        return None, []
                    self._records = iter(self._part)
                    self._left = len(self._part) if type(self._part) in (list, tuple) else 0
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
        if isinstance(self._part, CsvRecords):
            self.skipped += self._part.skipped

    def _failed(self, error: Exception) -> Exception:
        if isinstance(error, (SourceError, DatasetError)):
            return error
        ours = SourceError(
            f"the source of records failed at record {self._taken}: {type(error).__name__}: {error};"
            " nothing was published"
        )
        ours.__cause__ = error
        return ours
