"""Records from CSV files, built by the `from_csv_row` hook of a record class.

CSV files that need no hook are tables: see `from_table`.
"""

from __future__ import annotations

import codecs
import csv
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from seqrecorder.errors import DatasetNotFoundError, OptionError, SchemaError, SkipRecord, SourceError
from seqrecorder.schema.utf8 import check_utf8
from seqrecorder.sources.text import STDIN, UNPACKING_ERRORS, opened_text
from seqrecorder.storage.files import local_path
from seqrecorder.writing.columns import SkippingSource
from seqrecorder.writing.load_hooks import check_params, hook_params

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence


T = TypeVar("T")


def advice_on_width(header: str, more: int) -> str:
    """Write advice on a row that has `more` columns too many.

    The advice is empty if neither the separator nor row names explain them.
    """
    mark = next((mark for mark in ";\t|" if mark in header), "")
    frame = f" (columns between {mark!r}? give the frame of pandas.read_csv(sep={mark!r}, decimal=','))"
    names = " (row names without a column name, as R's write.table has them? write with row.names=FALSE)"
    return frame if mark else names * (more == 1)


class Row(dict[str, str]):
    """Row of a CSV file: a dictionary from column name to text, which also accepts column positions as keys.

    >>> row = Row(name="a", label="3")
    >>> row["label"], row[0]
    ('3', 'a')
    """

    def __missing__(self, key: object) -> str:
        if isinstance(key, int):
            return list(self.values())[key]
        raise KeyError(f"{key!r}: the columns are {', '.join(map(repr, self))}")


class CsvRecords(SkippingSource, Generic[T]):
    """Records of a CSV file, read line by line on each iteration.

    Attributes:
        skipped: number of rows for which `from_csv_row` raised `SkipRecord` in the last iteration.
    """

    def __init__(self, path: Any, record_class: type[T], params: dict[str, Any], encoding: str) -> None:
        self.path, self.record_class, self.encoding = path, record_class, encoding
        self.params, self.skipped = hook_params(record_class, "from_csv_row", params), 0

    def __iter__(self) -> Iterator[T]:
        """Yield a record for each row, except rows that the hook skips."""
        self.begin()
        with opened_text(self.path, self.encoding, newline="") as file:
            rows = csv.DictReader(file, strict=True)
            try:
                names = self._header(rows)
                for row in rows:
                    if None in row or None in row.values():
                        more = len(row.get(None, ()))
                        text = f"expected {len(names)} columns ({', '.join(names)}), got {'more' if more else 'fewer'}"
                        text += advice_on_width("".join(names), more)
                        raise SourceError(f"{self.path}, line {rows.line_num}: {text}")
                    self._check_encoding(row.values(), rows.line_num)
                    try:
                        yield self._record(row, rows.line_num)
                    except SkipRecord as skip:
                        self.skip(skip)
            except (csv.Error, UnicodeError, *UNPACKING_ERRORS) as error:
                where = f"{self.path}, row that begins in line {rows.line_num + 1}"  # counts up to the last valid row
                advice = "; check its quotes" if isinstance(error, csv.Error) else ""
                raise SourceError(f"{where}: not {self.encoding} CSV: {error}{advice}") from error

    def _check_encoding(self, texts: Iterable[str], line: int) -> None:
        try:
            check_utf8("".join(texts), self.encoding.removesuffix("-sig"))
        except SourceError as error:
            raise SourceError(f'{self.path}, line {line}: {error}: pass encoding=, such as encoding="cp1252"') from None

    def _header(self, rows: csv.DictReader[str]) -> Sequence[str]:
        names = rows.fieldnames
        if not names:
            raise SourceError(f"{self.path}: expected a line of column names, got an empty file")
        self._check_encoding(names, rows.line_num)
        doubled = [name for i, name in enumerate(names) if name in names[:i]]
        if doubled:
            raise SourceError(f"{self.path}: expected columns of different names, got {doubled[0]!r} twice")
        return names

    def _record(self, row: dict[str, str], line: int) -> T:
        name, advice = self.record_class.__name__, "(raise seqrecorder.SkipRecord to leave the row out)"
        where = f"{self.path}, line {line}: {name}.from_csv_row"
        try:
            record = self.record_class.from_csv_row(Row(row), **self.params)  # type: ignore[attr-defined]  # see from_csv
        except SkipRecord:
            raise
        except Exception as error:
            raise SourceError(f"{where} failed: {type(error).__name__}: {error} {advice}") from error
        if not isinstance(record, self.record_class):
            raise SourceError(f"{where}: expected a {name}, got {record!r} {advice}")
        return record


def from_csv(
    path: str | os.PathLike[str], record_class: type[T], *, encoding: str = "utf-8-sig", **params: Any
) -> CsvRecords[T]:
    r"""Read records from a CSV file with a header line by calling `record_class.from_csv_row(row, **params)`.

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
        path: path of the file, decompressed if it ends in `.gz`, `.bz2`, `.xz` or `.zst`; `-` is the standard input.
        record_class: record class with a class method `from_csv_row(row, **params)`. The row maps column names, and
            positions (int), to text. The method returns a record or raises `SkipRecord`.
        encoding: encoding of the file; a byte order mark is dropped, also with `utf-8`.
        **params: keyword arguments for the hook.

    Raises:
        SchemaError: the class has no `from_csv_row`.
        OptionError: the encoding is unknown, or the hook does not accept a parameter.
        DatasetNotFoundError: the file does not exist.
        SourceError: during iteration, a line does not match the header, or the hook fails; the error names the line.
    """
    if not callable(getattr(record_class, "from_csv_row", None)):
        raise SchemaError(f"{record_class!r} has no class method from_csv_row(row); from_table needs none")
    check_params(record_class, params, ("from_csv_row",))
    try:
        encoding = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    except LookupError as error:
        raise OptionError(f"encoding: {error}") from None
    if path != STDIN and not local_path(path).is_file():
        raise DatasetNotFoundError(f"there is no file {str(path)!r}", path=path)
    return CsvRecords(path if path == STDIN else local_path(path), record_class, params, encoding)
