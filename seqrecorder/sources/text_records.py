"""Records of files of text, read piece by piece; a piece that is no record is named, or left out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from seqrecorder.codec.columns import gather
from seqrecorder.errors import OptionError, RecordError, SourceError
from seqrecorder.schema.mismatch import Mismatch
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.paths import files_named, natural_order
from seqrecorder.storage.text_files import STDIN, name_of
from seqrecorder.writing.column_source import SkippingSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")
_LOG = logging.getLogger("seqrecorder")


class TextRecords(SkippingSource, Generic[T]):
    """The records of files, read each time they are iterated over.

    Attributes:
        skipped: how many pieces of the files the last iteration left out, since they are no records.
    """

    def __init__(
        self,
        paths: Sequence[Any],
        record_class: type[T],
        parse: Callable[[Any], Iterator[tuple[int | str, Callable[[], T]]]],
        on_error: Literal["raise", "skip"],
        *,
        unit: str = "line",
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise OptionError(f"on_error: expected 'raise' or 'skip', got {on_error!r}")
        self.paths, self.record_class, self._parse, self.on_error = paths, record_class, parse, on_error
        self.schema, self._unit = Schema.of(record_class), unit
        self.skipped = 0

    def __repr__(self) -> str:
        return f"<{self.schema.name} records of {', '.join(map(name_of, self.paths))}>"

    def __iter__(self) -> Iterator[T]:
        """Yield the records; the line of one that cannot be made is named."""
        self.skipped = 0
        for path in self.paths:
            yield from self.made(path, self._parse(path))

    def made(self, path: Any, pieces: Iterable[tuple[int | str, Callable[[], T]]]) -> Iterator[T]:
        """Yield the records of pieces of a file.

        Raises:
            SourceError: one is no record, and is not to be left out.
        """
        for line, make in pieces:
            try:
                record = make()
                _check(self.schema, record)
            except (RecordError, Mismatch, ValueError) as error:
                message = error.message if isinstance(error, RecordError) else str(error)
                problems = "; ".join(map(str, error.problems)) if isinstance(error, RecordError) else ""
                key = f" (key {error.key!r})" if isinstance(error, RecordError) and error.key is not None else ""
                said = f"{name_of(path)}, {self._unit} {line}{key}: {message}{': ' * bool(problems)}{problems}"
                if self.on_error == "raise":
                    raise SourceError(f"{said} (on_error='skip' leaves it out)") from error
                self.skipped += 1
                if self.skipped == 1:
                    _LOG.warning("on_error='skip': the first that is left out: %s", said)
            else:
                yield record


def text_paths(path: Any) -> list[Any]:
    """Return the files that a path, a glob or a list names; the standard input for `-`.

    Raises:
        DatasetNotFoundError: there is no such file.
    """
    return [path] if path == STDIN else list(files_named(path, natural_order))


def _check(schema: Schema, record: Any) -> None:
    """Raise `RecordError` with all fields of a record that do not fit; what `load` is to fill is looked at later."""
    if not any(field.deferred and getattr(record, field.name) is None for field in schema.fields):
        gather(schema, [record])
