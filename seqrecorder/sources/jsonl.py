"""Lines of JSON, an object a record: `from_jsonl`, the way back of `to_jsonl`."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from seqrecorder.errors import OptionError, SourceError, did_you_mean
from seqrecorder.schema.conversion import time_of_text
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.text_records import text_records
from seqrecorder.storage.files import lines_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from seqrecorder.schema.field import Field
    from seqrecorder.sources.text_records import Piece, TextRecords

T = TypeVar("T")


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
    lines = _Lines(Schema.of(record_class), columns or {}, extra)
    return text_records(path, record_class, lines.parse, on_error, convert=exact_text)


class _Lines:
    """How lines of JSON become records."""

    def __init__(self, schema: Schema, columns: Mapping[str, str], extra: str) -> None:
        if extra not in ("error", "ignore"):
            raise OptionError(f"extra: expected 'error' or 'ignore', got {extra!r}")
        fields = {field.name: field for field in schema.fields}
        for name in columns:
            if name not in fields:
                raise OptionError(f"columns: {schema.name} has no field {name!r}{did_you_mean(name, fields)}")
        keys = {columns.get(name, name): name for name in fields}
        self._field_of = keys if columns or extra == "ignore" else None
        self._extra = extra == "ignore"
        self._sparse = {key: fields[name] for key, name in keys.items() if fields[name].sparse is not None}
        self._decode = json.JSONDecoder().decode

    def parse(self, file: Any) -> Iterator[Piece]:
        """Yield each line that is not empty."""
        for number, line in lines_of(file):
            if line.strip():
                yield number, len(line), functools.partial(self._values, line)

    def _values(self, line: str) -> dict[str, Any]:
        """Return the values of the fields of a line, as JSON has them.

        Raises:
            SourceError: it is no JSON, or no object.
        """
        try:
            row = self._decode(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise SourceError(f"no JSON: {error}") from None
        if not isinstance(row, dict):
            raise SourceError(f"expected an object of field to value, got {type(row).__name__}")
        for key, field in self._sparse.items():
            if f"{key}/indices" in row and f"{key}/values" in row:
                row[key] = _pairs(field, row.pop(f"{key}/indices"), row.pop(f"{key}/values"))
        if self._field_of is None:
            return row
        names = self._field_of
        values = {names[key]: value for key, value in row.items() if key in names}
        if not self._extra:
            for key in row:
                if key in values and key not in names:
                    raise SourceError(f"key {key!r}: columns= takes the field of this name from another key")
            values |= {key: value for key, value in row.items() if key not in names}
        return values


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
