"""Records of files of text, read piece by piece; a piece that is no record is named, or left out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from seqrecorder.codec.columns import gather
from seqrecorder.codec.construct import maker_from_mapping
from seqrecorder.codec.dictionaries import columns_of_dictionaries, takes_columns
from seqrecorder.errors import OptionError, RecordError, SourceError
from seqrecorder.schema.mismatch import Mismatch
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.paths import files_named, natural_order
from seqrecorder.storage.text_files import STDIN, name_of
from seqrecorder.writing.column_source import ColumnSource, SkippingSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from seqrecorder.codec.columns import Column

    Piece = tuple[int, int, Callable[[], dict[str, Any]]]
    """Its line, its characters, and what gives the dictionary of its record."""

T = TypeVar("T")
_LOG = logging.getLogger("seqrecorder")
_PIECES = 4096
_CHARACTERS = 2 << 20  # of pieces that are looked at together


class TextRecords(SkippingSource, Generic[T]):
    """The records of files, read each time they are iterated over.

    Args:
        paths: of the files.
        record_class: of the records.
        parse: yields the pieces of a file.
        on_error: `raise`, or `skip` pieces that are no records.
        convert: makes what a field takes of a value of a piece.

    Attributes:
        skipped: how many pieces of the files the last iteration left out, since they are no records.
    """

    def __init__(
        self,
        paths: Sequence[Any],
        record_class: type[T],
        parse: Callable[[Any], Iterator[Piece]],
        on_error: Literal["raise", "skip"],
        *,
        convert: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise OptionError(f"on_error: expected 'raise' or 'skip', got {on_error!r}")
        self.paths, self.record_class, self._parse, self.on_error = paths, record_class, parse, on_error
        self.schema, self._convert = Schema.of(record_class), convert
        self._make, self._fields = maker_from_mapping(self.schema), {field.name: field for field in self.schema.fields}
        self.skipped = 0

    def __repr__(self) -> str:
        return f"<{self.schema.name} records of {', '.join(map(name_of, self.paths))}>"

    def __iter__(self) -> Iterator[T]:
        """Yield the records; the line of one that cannot be made is named."""
        self.skipped = 0
        for path in self.paths:
            yield from self._made(path, self._parse(path))

    def _made(self, path: Any, pieces: Iterable[Piece]) -> Iterator[T]:
        """Yield the records of pieces of a file.

        Raises:
            SourceError: one is no record, and is not to be left out.
        """
        for line, _, values_of in pieces:
            try:
                record = self._record(values_of())
            except (RecordError, Mismatch, ValueError) as error:
                message = error.message if isinstance(error, RecordError) else str(error)
                problems = "; ".join(map(str, error.problems)) if isinstance(error, RecordError) else ""
                key = f" (key {error.key!r})" if isinstance(error, RecordError) and error.key is not None else ""
                said = f"{name_of(path)}, line {line}{key}: {message}{': ' * bool(problems)}{problems}"
                if self.on_error == "raise":
                    raise SourceError(f"{said} (on_error='skip' leaves it out)") from error
                self.skipped += 1
                if self.skipped == 1:
                    _LOG.warning("on_error='skip': the first that is left out: %s", said)
            else:
                yield record

    def _record(self, values: dict[str, Any]) -> T:
        """Return the record of the values of fields.

        Raises:
            RecordError: it is none; all bad fields are named. What `load` is to fill is looked at later.
        """
        if self._convert is not None:
            of = self._fields.get
            values = {
                name: value if (field := of(name)) is None else self._convert(field, value)
                for name, value in values.items()
            }
        record: T = self._make(values, 0)
        if not any(field.deferred and getattr(record, field.name) is None for field in self.schema.fields):
            gather(self.schema, [record])
        return record


class ColumnTextRecords(TextRecords[T], ColumnSource):
    """The records of files, in columns."""

    def columns(self) -> Iterator[tuple[dict[str, Column], int]]:
        """Yield the columns of some pieces at a time; where one is no record, they are looked at one by one."""
        self.skipped = 0
        for path in self.paths:
            for pieces in _chunks(self._parse(path)):
                try:
                    rows = [values_of() for _, _, values_of in pieces]
                except (RecordError, Mismatch, ValueError):
                    columns = None
                else:
                    columns = columns_of_dictionaries(self.schema, rows, convert=self._convert)
                size = len(pieces)
                if columns is None:
                    records = list(self._made(path, pieces))
                    columns, size = gather(self.schema, records), len(records)
                if size:
                    yield columns, size

    def __iter__(self) -> Iterator[T]:
        """Yield the records."""
        return ColumnSource.__iter__(self)


def text_records(
    path: Any,
    record_class: type[T],
    parse: Callable[[Any], Iterator[Piece]],
    on_error: Literal["raise", "skip"],
    *,
    convert: Callable[[Any, Any], Any] | None = None,
) -> TextRecords[T]:
    """Return the records of a file, a glob, a list of files or the standard input: in columns, if no hook sees them.

    Raises:
        DatasetNotFoundError: there is no such file.
    """
    paths = [path] if path == STDIN else list(files_named(path, natural_order))
    kind = ColumnTextRecords[T] if takes_columns(Schema.of(record_class)) else TextRecords[T]
    return kind(paths, record_class, parse, on_error, convert=convert)


def _chunks(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Yield as many pieces as are looked at together."""
    chunk: list[Piece] = []
    size = 0
    for piece in pieces:
        chunk.append(piece)
        size += piece[1]
        if len(chunk) == _PIECES or size >= _CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
