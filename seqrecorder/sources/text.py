"""Records from text files: JSON lines, CoNLL and `.ts`.

Invalid records raise an error or are skipped. CSV files are in `seqrecorder.sources.csv` and
`seqrecorder.sources.tables`.
"""

from __future__ import annotations

import cmath
import collections
import contextlib
import functools
import io
import itertools
import json
import lzma
import operator
import re
import sys
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, Literal, TypeVar

import attrs
import numpy as np

from seqrecorder.codec.columns import gather, maker_from_mapping
from seqrecorder.codec.encode import columns_of_dictionaries, takes_columns
from seqrecorder.errors import DatasetNotFoundError, OptionError, RecordError, SourceError, did_you_mean
from seqrecorder.schema.exact_values import Mismatch, cast_values, time_of_text
from seqrecorder.schema.schema import Schema
from seqrecorder.schema.utf8 import check_utf8
from seqrecorder.storage.files import files_named, local_path, natural_order, open_packed
from seqrecorder.writing.columns import ColumnSource, SkippingSource, check_choice, check_columns

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.dtypes import ElementType
    from seqrecorder.schema.field import Field


# Text files -----------------------------------------------------------------------------------------------------------

STDIN = "-"


UNPACKING_ERRORS = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""Errors that reading raises if a file is unreadable, or is not compressed as its suffix says."""


def lines_of(path: Any) -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a UTF-8 file without line ends, each with its number, counted from 1.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_text("one\ntwo\n")
    >>> list(lines_of(file))
    [(1, 'one'), (2, 'two')]

    Args:
        path: path of the file, decompressed if it ends in `.gz`, `.bz2`, `.xz` or `.zst`; `-` is the standard input.

    Raises:
        DatasetNotFoundError: the file does not exist.
        SourceError: the file is not compressed as its suffix says; the error names the line. Invalid UTF-8 raises an
            error only in `check_utf8`, so that the other lines can be read.
    """
    number = 0
    with opened_text(path) as text:
        try:
            for line in text:
                number += 1
                yield number, line.rstrip("\n")
        except UNPACKING_ERRORS as error:
            raise SourceError(f"{name_of(path)}, after line {number}: {error}") from error


@contextlib.contextmanager
def opened_text(path: Any, encoding: str = "utf-8-sig", newline: str | None = None) -> Iterator[IO[str]]:
    """Open a text file for reading, decompressed as in `lines_of`.

    Invalid bytes become surrogates (see `check_utf8`); `encoding` and `newline` are arguments of `open`.

    Raises:
        DatasetNotFoundError: the file does not exist.
        SourceError: the file cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        if path == STDIN:
            binary: Any = sys.stdin.buffer
        else:
            file = local_path(path)
            if not file.is_file():
                raise DatasetNotFoundError(f"there is no file {str(path)!r}", path=path)
            try:
                binary = stack.enter_context(open_packed(file, "rb"))
            except OSError as error:
                raise SourceError(f"{file}: cannot be read: {error}") from error
        text = io.TextIOWrapper(binary, encoding=encoding, errors="surrogateescape", newline=newline)
        stack.callback(text.detach)  # otherwise the wrapper would close the standard input
        yield text


def name_of(path: Any) -> str:
    """Return the name of a file for messages."""
    return "the standard input" if path == STDIN else str(local_path(path))


if TYPE_CHECKING:
    Piece = tuple[int, int, Callable[[], dict[str, Any]]]
    """Text of a record: line number, number of characters, and a function that parses the values of the fields."""


T = TypeVar("T")
_PIECES = 4096  # maximum number of pieces to convert at once
_CHARACTERS = 2 << 20  # maximum number of characters to convert at once
_BAD = (RecordError, Mismatch, ValueError, RecursionError)  # errors that an invalid piece raises


class TextRecords(SkippingSource, Generic[T]):
    """Records from text files, read on each iteration.

    Args:
        paths: paths of the files.
        record_class: class of the records.
        parse: function that yields the pieces of a file, one per record.
        on_error: `raise` an error for an invalid piece, or `skip` it.
        convert: function that converts a parsed value to the type of its field; None if parsed values already fit.

    Attributes:
        skipped: number of invalid pieces that the last iteration skipped.
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
        check_choice("on_error", on_error, ("raise", "skip"))
        self.paths, self.record_class, self._parse, self.on_error = paths, record_class, parse, on_error
        self.schema, self._convert = Schema.of(record_class), convert
        self._make, self._fields = maker_from_mapping(self.schema), {field.name: field for field in self.schema.fields}
        self.skipped = 0

    def __repr__(self) -> str:
        return f"<{self.schema.name} records of {', '.join(map(name_of, self.paths))}>"

    def __iter__(self) -> Iterator[T]:
        """Yield the records.

        The message of an error contains the line of the invalid record.
        """
        self.begin()
        for path in self.paths:
            yield from self._records(path, self._parse(path))

    def _records(self, path: Any, pieces: Iterable[Piece]) -> Iterator[T]:
        """Yield a record for each piece of a file.

        Raises:
            SourceError: a piece is invalid, unless `on_error` is `skip`.
        """
        for line, _, values_of in pieces:
            try:
                record = self._record(values_of())
            except _BAD as error:
                key, message = "", "nested too deeply" if isinstance(error, RecursionError) else str(error)
                if isinstance(error, RecordError):
                    key = "" if error.key is None else f" (key {error.key!r})"
                    message = ": ".join(filter(None, [error.message, "; ".join(map(str, error.problems))]))
                text = f"{name_of(path)}, line {line}{key}: {message}"
                if self.on_error == "raise":
                    raise SourceError(f"{text} (on_error='skip' leaves it out)") from error
                self.leave_out(text)
            else:
                yield record

    def _record(self, values: dict[str, Any]) -> T:
        """Build a record from the values of its fields.

        Raises:
            RecordError: values do not fit; all bad fields are named. A record that `load` completes is checked later.
        """
        if self._convert is not None:
            of = self._fields.get
            convert = self._convert
            values = {name: v if (field := of(name)) is None else convert(field, v) for name, v in values.items()}
        record: T = self._make(values, 0)
        if not any(field.deferred and getattr(record, field.name) is None for field in self.schema.fields):
            gather(self.schema, [record])
        return record


class ColumnTextRecords(TextRecords[T], ColumnSource):
    """Records from text files, which are converted column by column in batches."""

    def columns(self) -> Iterator[tuple[dict[str, Column], int]]:
        """Yield columns in batches.

        If a batch contains text that is no valid record, its records are built one by one.
        """
        self.begin()
        for path in self.paths:
            for pieces in in_chunks(self._parse(path), operator.itemgetter(1), _PIECES, _CHARACTERS):
                try:
                    rows = [values_of() for _, _, values_of in pieces]
                except _BAD:
                    columns = None
                else:
                    columns = columns_of_dictionaries(self.schema, rows, convert=self._convert)
                size = len(pieces)
                if columns is None:
                    records = list(self._records(path, pieces))
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
    """Open text files or the standard input as records.

    They are read in columns if their class has only stored fields and no code of its own needs to run.

    Raises:
        DatasetNotFoundError: the file does not exist.
    """
    paths = [path] if path == STDIN else list(files_named(path, natural_order))
    kind = ColumnTextRecords[T] if takes_columns(Schema.of(record_class)) else TextRecords[T]
    return kind(paths, record_class, parse, on_error, convert=convert)


def in_chunks(items: Iterable[T], size_of: Callable[[T], int], most: int, size: int) -> Iterator[list[T]]:
    """Group items into lists of `most` items.

    A list ends earlier as soon as the sizes of its items add up to `size`. The last list may also be shorter.
    """
    chunk, total = list[T](), 0
    for item in items:
        chunk.append(item)
        total += size_of(item)
        if len(chunk) == most or total >= size:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def value_of_text(field: Field, text: str) -> Any:
    """Parse a string as a value of a field: a number, a bool, a time or text.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     x: float = sr.context("float32")
    >>> value_of_text(sr.Schema.of(Point)["x"], "0.5")
    0.5

    Raises:
        SourceError: the string is not a value of the field.
    """
    return values_of_texts(field, [text])[0]


def values_of_texts(field: Field, texts: Sequence[str], lines: Sequence[int] = ()) -> list[Any]:
    """Parse strings as values of a field.

    `lines` contains the line number of each string, for error messages.

    Raises:
        SourceError: a string is not a value of the field.
    """
    element, kind = field.element, field.element.numpy.kind
    if element.name == "str":
        return list(texts)
    done: list[Any] = []
    try:
        if element.is_text:
            done.extend(map(str.encode, texts))
        elif kind == "b":
            done.extend(_TRUTH[text.strip().lower()] for text in texts)
        elif kind == "M":
            done.extend(time_of_text(text, element) for text in texts)
        elif kind == "m":
            done.extend(np.array(_number(text, int), np.int64).astype(element.numpy)[()] for text in texts)
        else:
            number = int if kind in "iu" else complex if kind == "c" else float
            done.extend(_number(text, number) for text in texts)
    except (ValueError, KeyError, OverflowError):
        where = f"line {lines[len(done)]}: " if lines else ""
        raise SourceError(f"{where}field {field.name!r}: expected {element.name}, got {texts[len(done)]!r}") from None
    return done


def _number(text: str, convert: Callable[[str], Any] = float) -> Any:
    """Parse a number in ASCII digits without underscores.

    Raises:
        ValueError: the text is not a number, or overflows to infinity; only "inf" and "infinity" may be infinite.
    """
    value = convert(text)
    if "_" in text or not text.isascii() or (convert is not int and cmath.isinf(value) and "n" not in text.lower()):
        raise ValueError(f"{text!r} is not a number, or too large for a float")
    return value


def from_jsonl(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    record_class: type[T],
    *,
    columns: Mapping[str, str] | None = None,
    extra: Literal["error", "ignore"] = "error",
    on_error: Literal["raise", "skip"] = "raise",
) -> TextRecords[T]:
    r"""Read records from JSON lines, each an object that maps field names to values.

    >>> import pathlib, tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     key: str = sr.context(str, key=True)
    ...     scores: np.ndarray = sr.feature_list("float32")
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "sentences.jsonl"
    >>> _ = file.write_text('{"id": "a", "scores": [0.5, null]}\n{"id": "b", "scores": []}\n')
    >>> list(sr.from_jsonl(file, Sentence, columns={"key": "id"}))[0]
    Sentence(key='a', scores=array([0.5, nan], dtype=float32))

    A null becomes NaN for floats and NaT for times. Times are ISO 8601 strings. A sparse field has two keys,
    `<field>/indices` and `<field>/values`. Numbers must fit the declared type; floats are rounded to it, and
    `Infinity` is a float. A duplicate key in a line is an error.

    Args:
        path: path of a file, glob, or list of files, decompressed if they end in `.gz`, `.bz2`, `.xz` or `.zst`; `-` is
            the standard input.
        record_class: record class or `Schema` of the records.
        columns: mapping from field name to key, if they differ.
        extra: `error` to reject keys without a field, or `ignore` to leave them out.
        on_error: `raise`, or `skip` to leave out invalid lines, log the first, and count them; the manifest stores the
            count.

    Raises:
        DatasetNotFoundError: the file does not exist.
        SourceError: during iteration, a line is not a record; the error names the file, line, key and reason.
    """
    lines = _Lines(Schema.of(record_class), columns, extra)
    return text_records(path, record_class, lines.parse, on_error, convert=exact_text)


class _Lines:
    """Parser of JSON lines."""

    def __init__(self, schema: Schema, column_of: Mapping[str, str] | None, extra: str) -> None:
        check_choice("extra", extra, ("error", "ignore"))
        fields = {field.name: field for field in schema.fields}
        columns: Mapping[str, Any] = check_columns(schema, column_of, several=False)
        keys = {columns.get(name, name): name for name in fields}
        self._field_of = keys if columns or extra == "ignore" else None
        self._extra = extra == "ignore"
        self._sparse = {key: fields[name] for key, name in keys.items() if fields[name].sparse is not None}
        self._decode = json.JSONDecoder(parse_float=_number, object_pairs_hook=_unique).decode

    def parse(self, file: Any) -> Iterator[Piece]:
        """Yield the lines that are not blank, as pieces."""
        for number, line in lines_of(file):
            if line.strip():
                yield number, len(line), functools.partial(self._values, line)

    def _values(self, line: str) -> dict[str, Any]:
        """Parse a line to a mapping from field name to JSON value.

        Raises:
            SourceError: the line is not JSON, or not an object.
        """
        check_utf8(line)
        try:
            row = self._decode(line)
        except json.JSONDecodeError as error:
            raise SourceError(f"invalid JSON: {error}") from None
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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        ((doubled, _),) = collections.Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {doubled!r} occurs twice")
    return row


def exact_text(field: Field, value: Any) -> Any:
    """Convert null to NaN or NaT, and ISO 8601 strings to times.

    Other JSON values are returned unchanged.
    """
    element = field.element
    plain = (value is None and field.optional) or not (element.has_nan or element.is_time)
    return value if plain else _of_json(element, value)


def _of_json(element: ElementType, value: Any) -> Any:
    if isinstance(value, list):
        plain = element.has_nan and None not in value and not any(isinstance(item, list) for item in value)
        return value if plain else [_of_json(element, item) for item in value]
    if value is None:
        return np.array("NaT", element.numpy)[()] if element.is_time else float("nan")
    return time_of_text(value, element) if isinstance(value, str) and element.numpy.kind == "M" else value


def _pairs(field: Field, indices: Any, values: Any) -> Any:
    """Pair the indices and values of a sparse field.

    For a feature list, those of each step are paired.
    """
    if indices is None or not field.is_list:
        return None if indices is None else (indices, values)
    return list(zip(indices, values, strict=True))


_DOCUMENT = "-DOCSTART-"
_COMMENT = re.compile(r"#\s*(\w+)\s*=\s*(.*)")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b")
_SURE_COMMENT = re.compile(r"#\s+(\w+\s+=(\s|$)|newdoc\b)")
_SPAN = re.compile(r"[0-9]+[-.][0-9]+")
_BLANKS = " \t"  # other characters that Python strips, such as no-break spaces, belong to tokens
_BLANK = re.compile(" +")
_HEAD = 1000  # number of lines to search for the first token
CONLLU_COLUMNS = 10


def from_conll(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    record_class: type[T],
    *,
    columns: Sequence[str | None],
    document: str | None = None,
    separator: str | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> TextRecords[T]:
    r"""Read sentences from CoNLL files, which have one token per line and an empty line after each sentence.

    >>> import pathlib, tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     tokens: np.ndarray = sr.feature_list(str)
    ...     tags: np.ndarray = sr.feature_list(str)
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = file.write_text("-DOCSTART- -X- O\n\nPeter NNP B-PER\nsleeps VBZ O\n\n")
    >>> list(sr.from_conll(file, Sentence, columns=["tokens", None, "tags"]))
    [Sentence(tokens=array(['Peter', 'sleeps'], dtype=object), tags=array(['B-PER', 'O'], dtype=object))]

    A line that begins with `#` is a comment, unless it has all the columns of a token. A line `# name = text` is always
    a comment, and sets the context field `name`, if the class has one. If such a comment is followed by an empty line,
    it makes a record without tokens. A `-DOCSTART-` or `# newdoc` line begins a document. In CoNLL-U, with ten columns,
    the lines of multiword tokens (`3-4`) and empty nodes (`5.1`) are ignored.

    The numbers of documents begin anew in each file. If several files have equal keys (`# sent_id = 1`), read one file
    at a time, and prefix its keys with its name: `attrs.evolve(record, sent_id=f"{file.stem}-{record.sent_id}")`.

    Args:
        path: path of a file, glob, or list of files, as in `from_jsonl`.
        record_class: record class or `Schema` of the records.
        columns: name of the feature list for each column, in order. None leaves a column out, and columns beyond the
            end of the list are left out, too. Numbers are parsed as the field declares.
        document: name of a context field for the number of the document, counted from 0; None for no such field. Pass
            the field as `split_by` to keep documents whole.
        separator: separator of columns; None for tabs in lines that contain one (so that values may contain spaces),
            and for spaces in other lines. A no-break space and other Unicode spaces belong to tokens.
        on_error: `raise`, or `skip` to leave out invalid sentences, log the first, and count them; the manifest stores
            the count.

    Raises:
        DatasetNotFoundError: the file does not exist.
        OptionError: a name in `columns` or `document` is not the name of a field.
        SourceError: during iteration, a line has too few columns, or a different number of columns than the first line
            of its sentence, or a value does not fit; the error names the line.
    """
    sentences = _Sentences(Schema.of(record_class), columns, document, separator)
    return text_records(path, record_class, sentences.parse, on_error)


@attrs.define
class Sentence:
    """Sentence of a CoNLL file, as text.

    Attributes:
        rows: columns of each token.
        numbers: line number of each token, counted from 1; if there are no tokens, that of the empty line.
        comments: mapping from name to text, for each `# name = text` before or between the tokens.
        document: number of the document, counted from 0.
        size: number of characters in the lines of the tokens.
    """

    rows: list[list[str]] = attrs.field(factory=list)
    numbers: list[int] = attrs.field(factory=list)
    comments: dict[str, str] = attrs.field(factory=dict)
    document: int = 0
    size: int = 0


def split_sentences(file: Any, separator: str | None, least: int = 1) -> Iterator[Sentence]:
    """Yield the sentences of a file.

    Args:
        file: path of the file, or `-`.
        separator: separator of columns, as in `from_conll`.
        least: minimum number of columns of a token.
    """
    documents, lines = -1, lines_of(file)
    head = list(itertools.islice(lines, _HEAD))
    tokens = (line for _, line in head if line.strip(_BLANKS) and line[0] != "#" and not line.startswith(_DOCUMENT))
    before = next(tokens, "")  # the last line that is a token for certain; initially the first one
    sentence = Sentence()
    for number, line in itertools.chain(head, lines, [(0, "")]):  # the empty line at the end closes the last sentence
        stripped, cells = line.strip(_BLANKS), _cells(line, separator)
        if not stripped:
            if sentence.rows or sentence.comments:
                sentence.numbers, sentence.document = sentence.numbers or [number], max(0, documents)
                yield sentence
                sentence = Sentence()
        elif cells[0] == _DOCUMENT:
            documents += 1
        elif stripped[0] == "#" and _is_comment(line, before, separator, least):
            documents += bool(_NEW_DOCUMENT.match(stripped))
            comment = _COMMENT.match(stripped)
            sentence.comments |= {comment[1]: comment[2]} if comment else {}
        elif len(cells) != CONLLU_COLUMNS or not _SPAN.fullmatch(cells[0]):
            sentence.rows.append(cells)
            sentence.numbers.append(number)
            before = line
            sentence.size += len(line)


def _is_comment(line: str, before: str, separator: str | None, least: int) -> bool:
    """Check whether a line that begins with `#` is a comment, not a token with all its columns."""
    if _SURE_COMMENT.match(line):
        return True
    width = len(_cells(line, separator))
    if not before:
        return width < least
    return width != len(_cells(before, separator)) or (separator is None and ("\t" in line) != ("\t" in before))


def _cells(line: str, separator: str | None) -> list[str]:
    if separator is not None:
        return line.split(separator)
    return line.split("\t") if "\t" in line else _BLANK.split(line.strip(_BLANKS))


class _Sentences:
    """Parser of CoNLL sentences."""

    def __init__(
        self, schema: Schema, columns: Sequence[str | None], document: str | None, separator: str | None
    ) -> None:
        fields = {field.name: field for field in schema.fields}
        if isinstance(columns, str) or not any(columns):
            raise OptionError(f"columns: expected a list of names of feature lists, got {columns!r}")
        for name in (*columns, document):
            if name is not None and name not in fields:
                raise OptionError(f"{schema.name} has no field {name!r}{did_you_mean(name, fields)}")
        self.schema, self.document, self.separator = schema, document, separator
        self.columns: list[tuple[int, Field]] = [(i, fields[name]) for i, name in enumerate(columns) if name]
        for _, field in self.columns:
            if not field.is_list or field.shape or field.sparse is not None:
                raise OptionError(f"columns: expected feature lists without a shape, got {field!r}")
        self.contexts = {name: field for name, field in fields.items() if not field.is_list and not field.shape}
        self.width = max(i for i, _ in self.columns) + 1

    def parse(self, file: Any) -> Iterator[Piece]:
        """Yield the sentences, each with the number of its first line."""
        for sentence in split_sentences(file, self.separator, self.width):
            if sentence.rows or sentence.comments.keys() & self.contexts.keys():
                yield sentence.numbers[0], sentence.size, functools.partial(self._values, sentence)

    def _values(self, sentence: Sentence) -> dict[str, Any]:
        """Parse a sentence to a mapping from field name to value.

        Raises:
            SourceError: a line has a wrong number of columns, or a text is not a value of its field.
        """
        rows, numbers = sentence.rows, sentence.numbers
        check_utf8("".join(itertools.chain(*rows, sentence.comments.values())))
        texts, known = sentence.comments.items(), self.contexts
        values = {name: value_of_text(known[name], text) for name, text in texts if name in known}
        for number, cells in zip(numbers, rows, strict=False):
            if len(cells) < self.width:
                raise SourceError(f"expected {self.width} columns, got {len(cells)} in line {number}: {cells}")
            if len(cells) != len(rows[0]):
                got = f"got {len(cells)} in line {number}: {cells} (separator= sets the separator of columns)"
                raise SourceError(f"expected {len(rows[0])} columns, as in line {numbers[0]}, {got}")
        for index, field in self.columns:
            values[field.name] = values_of_texts(field, [cells[index] for cells in rows], numbers)
        if self.document is not None:
            values[self.document] = value_of_text(self.contexts[self.document], str(sentence.document))
        return values


_MISSING = ("?", "NaN")
_REMEDY = "are not supported: make a table with a row per step and columns series, time and value, for from_rows"


def from_ts(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    record_class: type[T],
    *,
    label: str | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> TextRecords[T]:
    r"""Read time series from `.ts` files (https://www.sktime.net), the format of the UCR and UEA archives.

    >>> import pathlib, tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     label: str = sr.context(str)
    ...     values: np.ndarray = sr.feature_list("float32")
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "Steps_TRAIN.ts"
    >>> _ = file.write_text("@problemName Steps\n@classLabel true up down\n@data\n1,2,?:up\n3,2:down\n")
    >>> list(sr.from_ts(file, Series))[0]
    Series(label='up', values=array([ 1.,  2., nan], dtype=float32))

    The class has either one feature list for all dimensions of a series, or one per dimension. One list for all has no
    shape if there is one dimension, and the shape `(d,)` if there are d dimensions of equal length. Several lists have
    no shape, and contain the dimensions in the order of declaration; with `align=`, their lengths may differ.

    Missing values (`?`) are NaN. The label is text, or its index in `@classLabel` if its field is an integer. The
    target of a regression is a number. A field with `key=True` must be text, and contains the name of the file without
    its suffix and the number of the series, such as `Steps_TRAIN-0`.

    Args:
        path: path of a file, glob, or list of files, as in `from_jsonl`.
        record_class: record class or `Schema` of the records.
        label: name of the context field for the label; None for the only required context field that is not the key.
        on_error: `raise`, or `skip` to leave out invalid series, log the first, and count them; the manifest stores the
            count.

    Raises:
        DatasetNotFoundError: the file does not exist.
        OptionError: the fields of the class do not fit this format.
        SourceError: during iteration, a line does not match the header or the class; the error names the line.
    """
    return text_records(path, record_class, _Series(Schema.of(record_class), label).parse, on_error)


def series_in(file: Any) -> Iterator[tuple[str | float | None, list[Any]]]:
    """Yield the label and the dimensions of each series in a file.

    A label is text, a number if it is the target of a regression, or None. The dimensions are a list.

    Raises:
        SourceError: the header is missing or not supported, or a value is not a number.
    """
    header: dict[str, str] = {}
    for number, text in _lines_of_series(file, header):
        try:
            label, dimensions = _series_of(header, text)
            is_class = label is None or header.get("targetlabel", "").lower() != "true"
            yield label if is_class else _number(str(label)), dimensions
        except ValueError as error:
            raise SourceError(f"{name_of(file)}, line {number}: {error}") from error


def _lines_of_series(file: Any, header: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Parse the header of a file, and yield the number and the text of each data line.

    The header is stored in the dictionary `header`.
    """
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
                raise SourceError(f"{name_of(file)}: @timeStamps true: series with times of their own {_REMEDY}")
            if "attribute" in header:
                raise SourceError(f"{name_of(file)}: @attribute: files of the .tsf format {_REMEDY}")
        else:
            name, _, value = text[1:].partition(" ")
            header[name.lower()] = value.strip()
    if not in_data:
        raise SourceError(f"{name_of(file)}: expected a line @data, got none")


def _series_of(header: dict[str, str], text: str) -> tuple[str | None, list[Any]]:
    """Parse a data line to its label and the values of each dimension."""
    check_utf8(text)
    classes, dimensions = header.get("classlabel", "").split(), text.split(":")
    has_label = classes[:1] == ["true"] or header.get("targetlabel", "").lower() == "true"
    label = dimensions.pop().strip() if has_label else None
    series = [_numbers(part) for part in dimensions]
    length = header.get("serieslength", "") if header.get("equallength", "").lower() == "true" else ""
    wrong = next((part.size for part in series if length and str(part.size) != length), None)
    if wrong is not None:
        raise SourceError(f"expected {length} values, as @seriesLength says, got {wrong}")
    return label, series


class _Series:
    """Parser of the series in `.ts` files."""

    def __init__(self, schema: Schema, label: str | None) -> None:
        self.schema = schema
        self.lists = [field for field in schema.fields if field.is_list and not field.has_default]
        contexts = [field for field in schema.fields if not field.is_list and not field.shape]
        if not self.lists or any(len(field.shape) > 1 or field.is_ragged for field in self.lists):
            raise OptionError(f"{schema.name}: expected a feature list without a shape or with (d,), or several")
        if any(field.shape for field in self.lists) and len(self.lists) > 1:
            raise OptionError(f"{schema.name}: several feature lists take a dimension each, without a shape")
        self.key = schema.key_field
        if self.key is not None and not self.key.element.is_text:
            expected = "text, since keys of series are the file's name and a number, such as 'Steps_TRAIN-0'"
            raise OptionError(f"key {self.key.name!r}: expected {expected}, got {self.key.element.name}")
        wanted = [field for field in contexts if field != self.key and not field.has_default and not field.optional]
        if label is not None:
            wanted = [field for field in contexts if field.name == label]
            if not wanted:
                raise OptionError(f"label: {schema.name} has no context field {label!r}")
        if len(wanted) > 1:
            raise OptionError(f"{schema.name}: which field is the class? label= one of {[f.name for f in wanted]}")
        self.label: Field | None = wanted[0] if wanted else None

    def parse(self, file: Any) -> Iterator[Piece]:
        """Yield the series, each with its line number.

        Raises:
            SourceError: the header is missing or not supported.
        """
        header: dict[str, str] = {}
        stem = Path(name_of(file)).stem
        for count, (number, text) in enumerate(_lines_of_series(file, header)):
            yield number, len(text), functools.partial(self._values, header, text, f"{stem}-{count}")

    def _values(self, header: dict[str, str], text: str, key: str) -> dict[str, Any]:
        """Parse a data line to a mapping from field name to value.

        Raises:
            SourceError: the dimensions of the line and the class differ, or a value is not a number.
            Mismatch: a number does not fit its field.
        """
        label, series = _series_of(header, text)
        labels, values = header.get("classlabel", "").split(), dict[str, Any]()
        if self.label is not None:
            if label is None:
                raise SourceError(f"field {self.label.name!r}: the header has no @classLabel true")
            values[self.label.name] = self._class(self.label, label, labels[1:])
        if self.key is not None:
            values[self.key.name] = value_of_text(self.key, key)
        first = self.lists[0]
        expected = len(self.lists) if not first.shape else first.shape[0]
        if len(series) != expected:
            raise SourceError(f"expected {expected} dimensions, as {self.schema.name} has, got {len(series)}")
        if first.shape:
            if len({part.size for part in series}) > 1:
                raise SourceError(f"dimensions of {[x.size for x in series]} values: give each list its align=")
            values[first.name] = _exact(first, np.stack(series, 1))
        else:
            values |= {field.name: _exact(field, part) for field, part in zip(self.lists, series, strict=True)}
        return values

    @staticmethod
    def _class(field: Field, label: str, labels: list[str]) -> Any:
        if field.element.numpy.kind not in "iu" or not labels:
            return value_of_text(field, label)
        if label not in labels:
            raise SourceError(f"field {field.name!r}: expected one of the classes {', '.join(labels)}, got {label!r}")
        return labels.index(label)


def _numbers(text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    cells = [cell.strip() for cell in text.split(",")] if text.strip() else []
    try:
        numbers = ["nan" if cell in _MISSING else cell for cell in cells]
        values = np.array(numbers, np.float64)
        if "_" in text or not text.isascii() or np.isinf(values).any():
            values = np.array(list(map(_number, numbers)), np.float64)
    except ValueError as error:
        raise SourceError(f"expected numbers between commas: {error}") from None
    return values


def _exact(field: Field, values: Any) -> Any:
    """Cast numbers parsed from text to the type of a field, and check that they fit.

    Raises:
        Mismatch: a number does not fit.
    """
    return cast_values(values.reshape(-1), field.element).reshape(values.shape)
