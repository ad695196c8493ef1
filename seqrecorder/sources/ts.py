"""Time series in sktime's format: `.ts` files, of the archives of UCR and UEA."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from seqrecorder.errors import OptionError, SourceError
from seqrecorder.schema.casting import cast_values
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.text_records import text_records
from seqrecorder.sources.text_values import value_of_text
from seqrecorder.storage.text_files import lines_of, name_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from seqrecorder.schema.field import Field
    from seqrecorder.sources.text_records import Piece, TextRecords

T = TypeVar("T")
_MISSING = ("?", "NaN")


def from_ts(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    record_class: type[T],
    *,
    label: str | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> TextRecords[T]:
    r"""Return the series of `.ts` files (https://www.sktime.net, the archives of UCR and UEA).

    >>> import pathlib, tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     label: str = sr.context(str)
    ...     values: np.ndarray = sr.feature_list("float32")
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "Steps_TRAIN.ts"
    >>> _ = file.write_text("@problemName Steps\n@classLabel true up down\n@data\n1,2,?:up\n3,2:down\n")
    >>> list(sr.from_ts(file, Series))[0]
    Series(label='up', values=array([ 1.,  2., nan], dtype=float32))

    One feature list takes all dimensions: without a shape of one, with the shape `(d,)` of d, which then are equally
    long. Several feature lists without a shape take a dimension each, in the order of their declaration; with `align=`
    they may be of different lengths. Missing values (`?`) are NaN. The class is the label's text, or its place in
    `@classLabel` where the field is of integers; the target of a regression is a number. A field with `key=True` is the
    name of the file, without its ending, with the number of the series: `Steps_TRAIN-0`; or the number alone.

    Args:
        path: see `from_jsonl`.
        record_class: of the records.
        label: the context field of the class; None takes the only one that is required and no key.
        on_error: `skip` leaves series out that are no records, logs the first and counts them, in the manifest too.

    Raises:
        DatasetNotFoundError: there is no such file.
        OptionError: the class has no such fields.
        SourceError: while iterating: a line does not fit the header or the class; the line is named.
    """
    return text_records(path, record_class, _Series(Schema.of(record_class), label).parse, on_error)


def series_in(file: Any) -> Iterator[tuple[str | None, list[Any]]]:
    """Yield the label of each series of a file, None where it has none, and the values of each dimension.

    Raises:
        SourceError: there is no header, or one that is not understood; or a line has other than numbers.
    """
    header: dict[str, str] = {}
    for number, text in _lines_of_series(file, header):
        try:
            yield _series_of(header, text)
        except SourceError as error:
            raise SourceError(f"{name_of(file)}, line {number}: {error}") from error


def _lines_of_series(file: Any, header: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Yield the lines behind the header, which is put into a dictionary, with their numbers."""
    in_data = False
    for number, line in lines_of(file):
        text = line.strip()
        if not text or text.startswith(("#", "%")):
            continue
        if in_data:
            yield number, text
        elif not text.startswith("@"):
            raise SourceError(f"{name_of(file)}, line {number}: expected a header until @data, got {text:.80}")
        elif text.lower() == "@data":
            in_data = True
            if header.get("timestamps", "").lower() == "true":
                raise SourceError(f"{name_of(file)}: @timeStamps true: series with times of their own are not read")
        else:
            name, _, value = text[1:].partition(" ")
            header[name.lower()] = value.strip()
    if not in_data:
        raise SourceError(f"{name_of(file)}: expected a line @data, got none")


def _series_of(header: dict[str, str], text: str) -> tuple[str | None, list[Any]]:
    """Return the label of a line, and the values of its dimensions."""
    classes = header.get("classlabel", "").split()
    has_label = classes[:1] == ["true"] or header.get("targetlabel", "").lower() == "true"
    dimensions = text.split(":")
    label = dimensions.pop().strip() if has_label else None
    return label, [_numbers(part) for part in dimensions]


class _Series:
    """How lines become series."""

    def __init__(self, schema: Schema, label: str | None) -> None:
        self.schema = schema
        self.lists = [field for field in schema.fields if field.is_list and not field.has_default]
        contexts = [field for field in schema.fields if not field.is_list and not field.shape]
        if not self.lists or any(len(field.shape) > 1 or field.is_ragged for field in self.lists):
            raise OptionError(f"{schema.name}: expected a feature list without a shape or with (d,), or several")
        if any(field.shape for field in self.lists) and len(self.lists) > 1:
            raise OptionError(f"{schema.name}: several feature lists take a dimension each, without a shape")
        self.key = schema.key_field
        wanted = [field for field in contexts if field != self.key and not field.has_default and not field.optional]
        if label is not None:
            wanted = [field for field in contexts if field.name == label]
            if not wanted:
                raise OptionError(f"label: {schema.name} has no context field {label!r}")
        if len(wanted) > 1:
            raise OptionError(f"{schema.name}: which field is the class? label= one of {[f.name for f in wanted]}")
        self.label: Field | None = wanted[0] if wanted else None

    def parse(self, file: Any) -> Iterator[Piece]:
        """Yield each line with a series.

        Raises:
            SourceError: there is no header, or one that is not understood.
        """
        header: dict[str, str] = {}
        stem = Path(name_of(file)).stem
        for count, (number, text) in enumerate(_lines_of_series(file, header)):
            key = None if self.key is None else f"{stem}-{count}" if self.key.element.is_text else count
            yield number, len(text), functools.partial(self._values, header, text, key)

    def _values(self, header: dict[str, str], text: str, key: str | int | None) -> dict[str, Any]:
        """Return the values of a series.

        Raises:
            SourceError: the line has other dimensions than the class, or no number.
            Mismatch: a number does not fit its field.
        """
        found, series = _series_of(header, text)
        labels = header.get("classlabel", "").split()
        values: dict[str, Any] = {}
        if self.label is not None:
            if found is None:
                raise SourceError(f"field {self.label.name!r}: the header has no @classLabel true")
            values[self.label.name] = self._class(self.label, found, labels[1:])
        if self.key is not None:
            values[self.key.name] = key
        first = self.lists[0]
        expected = len(self.lists) if not first.shape else first.shape[0]
        if len(series) != expected:
            raise SourceError(f"expected {expected} dimensions, as {self.schema.name} has, got {len(series)}")
        if first.shape:
            if len({part.size for part in series}) > 1:
                raise SourceError(
                    f"dimensions of {[part.size for part in series]} values: give each a feature list with align="
                )
            values[first.name] = _exact(first, np.stack(series, 1))
        else:
            values |= {field.name: _exact(field, part) for field, part in zip(self.lists, series, strict=True)}
        return values

    @staticmethod
    def _class(field: Field, found: str, labels: list[str]) -> Any:
        if field.element.numpy.kind not in "iu" or not labels:
            return value_of_text(field, found)
        if found not in labels:
            raise SourceError(f"field {field.name!r}: expected one of the classes {', '.join(labels)}, got {found!r}")
        return labels.index(found)


def _numbers(text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    cells = [cell.strip() for cell in text.split(",")] if text.strip() else []
    try:
        return np.array(["nan" if cell in _MISSING else cell for cell in cells], np.float64)
    except ValueError as error:
        raise SourceError(f"expected numbers between commas: {error}") from None


def _exact(field: Field, values: Any) -> Any:
    """Return numbers of text, which tells no dtype, as a field declares them.

    Raises:
        Mismatch: one does not fit.
    """
    return cast_values(values.reshape(-1), field.element).reshape(values.shape)
