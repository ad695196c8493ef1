"""Lines of JSON, an object a record: `from_jsonl`, the way back of `to_jsonl`."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from seqrecorder.codec.columns import gather
from seqrecorder.codec.construct import maker_from_mapping
from seqrecorder.codec.dictionaries import columns_of_dictionaries, takes_columns
from seqrecorder.errors import OptionError, SourceError, did_you_mean
from seqrecorder.schema.schema import Schema
from seqrecorder.schema.times import time_of_text
from seqrecorder.sources.text_records import TextRecords, text_paths
from seqrecorder.storage.text_files import lines_of
from seqrecorder.writing.column_source import ColumnSource

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field

T = TypeVar("T")
_LINES = 4096
_CHARACTERS = 2 << 20  # of lines that are looked at together


def from_jsonl(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    record_class: type[T],
    *,
    columns: Mapping[str, str] | None = None,
    extra: Literal["error", "ignore"] = "error",
    on_error: Literal["raise", "skip"] = "raise",
) -> TextRecords[T]:
    r"""Return the records of lines of JSON, each an object of field to value.

    >>> import pathlib, tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     key: str = sr.context(str, key=True)
    ...     scores: np.ndarray = sr.feature_list("float32")
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "sentences.jsonl"
    >>> _ = file.write_text('{"id": "a", "scores": [0.5, null]}\n{"id": "b", "scores": []}\n')
    >>> list(sr.from_jsonl(file, Sentence, columns={"key": "id"}))[0]
    Sentence(key='a', scores=array([0.5, nan], dtype=float32))

    A null of a float is NaN, times are texts of ISO 8601, and of a sparse field there are the two keys
    `<field>/indices` and `<field>/values`. Numbers become the declared type where they fit; text tells no width of
    floats.

    Args:
        path: of a file, a glob, or a list of files, packed where they end in `.gz`, `.bz2`, `.xz` or `.zst`; `-` is the
            standard input.
        record_class: of the records.
        columns: the key of a field, where that has another name.
        extra: what becomes of keys that are no field: `error`, or `ignore`.
        on_error: `skip` leaves lines out that are no records, logs the first and counts them, in the manifest too.

    Raises:
        DatasetNotFoundError: there is no such file.
        SourceError: while iterating: a line is no record; the file, the line, the key and the reason are named.
    """
    schema = Schema.of(record_class)
    lines, paths = _Lines(schema, columns or {}, extra), text_paths(path)
    if takes_columns(schema):
        return JsonRecords(paths, record_class, lines, on_error)
    return TextRecords(paths, record_class, lines.parse, on_error)


class JsonRecords(TextRecords[T], ColumnSource):
    """The records of lines of JSON, in columns."""

    def __init__(
        self, paths: Sequence[Any], record_class: type[T], lines: _Lines, on_error: Literal["raise", "skip"]
    ) -> None:
        super().__init__(paths, record_class, lines.parse, on_error)
        self._lines = lines

    def columns(self) -> Iterator[tuple[dict[str, Column], int]]:
        """Yield the columns of some lines at a time; where one is no record, they are looked at one by one."""
        self.skipped = 0
        for path in self.paths:
            for chunk in _chunks(path):
                columns, size = self._lines.columns([line for _, line in chunk]), len(chunk)
                if columns is None:
                    records = list(self.made(path, map(self._lines.piece, chunk)))
                    columns, size = gather(self.schema, records), len(records)
                if size:
                    yield columns, size

    def __iter__(self) -> Iterator[T]:
        """Yield the records."""
        return ColumnSource.__iter__(self)


def _chunks(path: Any) -> Iterator[list[tuple[int, str]]]:
    """Yield lines that are not empty, with their numbers, as many as are looked at together."""
    chunk, size = [], 0
    for number, line in lines_of(path):
        if line.strip():
            chunk.append((number, line))
            size += len(line)
        if len(chunk) == _LINES or size >= _CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _Lines:
    """How lines of JSON become records."""

    def __init__(self, schema: Schema, columns: Mapping[str, str], extra: str) -> None:
        if extra not in ("error", "ignore"):
            raise OptionError(f"extra: expected 'error' or 'ignore', got {extra!r}")
        self.fields = {field.name: field for field in schema.fields}
        for name in columns:
            if name not in self.fields:
                raise OptionError(f"columns: {schema.name} has no field {name!r}{did_you_mean(name, self.fields)}")
        self.schema, self.extra = schema, extra
        self.keys = {name: columns.get(name, name) for name in self.fields}
        self.field_of = {key: name for name, key in self.keys.items()}
        self.sparse = {self.keys[name]: field for name, field in self.fields.items() if field.sparse is not None}
        self._decode = json.JSONDecoder().decode
        self._make = maker_from_mapping(schema)

    def columns(self, lines: Sequence[str]) -> dict[str, Column] | None:
        """Return the columns of lines; None where one is no record, or is to be looked at on its own."""
        try:
            rows = [self._paired(row) for row in map(self._decode, lines)]
        except (ValueError, AttributeError, TypeError, RecursionError):
            return None
        extra = self.extra == "ignore"
        return columns_of_dictionaries(self.schema, rows, keys=self.keys, extra=extra, convert=exact_text)

    def _paired(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return an object with the pairs of its sparse fields."""
        for key, field in self.sparse.items():
            if f"{key}/indices" in row and f"{key}/values" in row:
                row[key] = _pairs(field, row.pop(f"{key}/indices"), row.pop(f"{key}/values"))
        return row

    def parse(self, file: Any) -> Iterator[tuple[int, Callable[[], Any]]]:
        """Yield the number of each line, and what makes its record."""
        for chunk in _chunks(file):
            yield from map(self.piece, chunk)

    def piece(self, line: tuple[int, str]) -> tuple[int, Callable[[], Any]]:
        """Return the number of a line, and what makes its record."""
        return line[0], functools.partial(self.record, line[1])

    def record(self, line: str) -> Any:
        """Return the record of a line.

        Raises:
            SourceError: it is no JSON, or no object.
            RecordError: it is no record; all bad fields are named.
        """
        try:
            row = self._decode(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise SourceError(f"no JSON: {error}") from None
        if not isinstance(row, dict):
            raise SourceError(f"expected an object of field to value, got {type(row).__name__}")
        values = {}
        for key, value in self._paired(row).items():
            found = self.field_of.get(key)
            if found is not None:
                values[found] = exact_text(self.fields[found], value)
            elif self.extra == "error":
                values[key] = value
        return self._make(values, 0)


def exact_text(field: Field, value: Any) -> Any:
    """Return a value of JSON with NaN for the nulls of floats, and times for texts of ISO 8601."""
    if field.element.numpy.kind == "M":
        return _times(field, value)
    if field.element.has_nan:
        nested = bool(field.is_list or field.shape or field.sparse)
        return _with_nan(value) if (nested and value is not None) or not field.optional else value
    return value


def _with_nan(value: Any) -> Any:
    if value is None:
        return float("nan")
    if isinstance(value, list):
        return [_with_nan(item) for item in value] if None in value or any(map(_is_nested, value)) else value
    return value


def _is_nested(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _times(field: Field, value: Any) -> Any:
    if isinstance(value, str):
        return time_of_text(value, field.element)
    return [_times(field, item) for item in value] if isinstance(value, list) else value


def _pairs(field: Field, indices: Any, values: Any) -> Any:
    """Return what a sparse field takes of two lists, for each step if it is a feature list."""
    if indices is None or not field.is_list:
        return None if indices is None else (indices, values)
    return list(zip(indices, values, strict=True))
