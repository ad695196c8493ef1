"""Sentences in columns, a token a line: the formats of CoNLL."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs

from seqrecorder.errors import OptionError, SourceError, did_you_mean
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.text_records import text_records
from seqrecorder.sources.text_values import value_of_text, values_of_texts
from seqrecorder.storage.files import lines_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from seqrecorder.schema.field import Field
    from seqrecorder.sources.text_records import Piece, TextRecords

T = TypeVar("T")
_DOCUMENT = "-DOCSTART-"
_COMMENT = re.compile(r"#\s*(\w+)\s*=\s*(.*)")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b")
_SPAN = re.compile(r"\d+[-.]\d+")
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
    r"""Return the sentences of files with a token a line and an empty line behind each sentence.

    >>> import pathlib, tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     tokens: np.ndarray = sr.feature_list(str)
    ...     tags: np.ndarray = sr.feature_list(str)
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = file.write_text("-DOCSTART- -X- O\n\nPeter NNP B-PER\nsleeps VBZ O\n\n")
    >>> list(sr.from_conll(file, Sentence, columns=["tokens", None, "tags"]))
    [Sentence(tokens=array(['Peter', 'sleeps'], dtype=object), tags=array(['B-PER', 'O'], dtype=object))]

    Lines that begin with `#` and are no token by the number of their columns are comments: `# name = text` is the value
    of the context field `name`, if there is one. `-DOCSTART-` lines and `# newdoc` begin documents. In CoNLL-U, with
    ten columns between tabs, words that are split (`3-4`) and words that are left out (`5.1`) are no tokens.

    Args:
        path: see `from_jsonl`.
        record_class: of the records.
        columns: the feature list of each column, from the first on; None leaves a column out, and so does the end of
            the list. Numbers are read as the field declares.
        document: a context field that holds the number of the document, from 0 on: `split_by=` it keeps documents
            whole.
        separator: between columns; None is tabs where a line has one, so that values may hold blanks, else blanks.
        on_error: `skip` leaves sentences out that are no records, logs the first and counts them, in the manifest too.

    Raises:
        DatasetNotFoundError: there is no such file.
        OptionError: there is no field of a name.
        SourceError: while iterating: a line has too few columns, or a value does not fit; the line is named.
    """
    sentences = _Sentences(Schema.of(record_class), columns, document, separator)
    return text_records(path, record_class, sentences.parse, on_error)


@attrs.define
class Sentence:
    """The tokens of a sentence, as text.

    Attributes:
        rows: the columns of each token.
        numbers: of their lines, from 1 on.
        comments: `# name = text` before and between them.
        document: its number, from 0 on.
        size: characters of its tokens.
    """

    rows: list[list[str]] = attrs.field(factory=list)
    numbers: list[int] = attrs.field(factory=list)
    comments: dict[str, str] = attrs.field(factory=dict)
    document: int = 0
    size: int = 0


def split_sentences(file: Any, separator: str | None, least: int = 1) -> Iterator[Sentence]:
    """Yield the sentences of a file.

    Args:
        file: its path, or `-`.
        separator: between columns, as for `from_conll`.
        least: columns that a token has at least.
    """
    documents, width = -1, 0  # of the token before
    sentence = Sentence()
    for number, line in lines_of(file):
        stripped, cells = line.strip(), _cells(line, separator)
        if not stripped:
            if sentence.rows:
                sentence.document = max(0, documents)
                yield sentence
                sentence = Sentence()
        elif cells[0] == _DOCUMENT:
            documents += 1
        elif stripped[0] == "#" and _is_comment(stripped, cells, width, least):
            documents += bool(_NEW_DOCUMENT.match(stripped))
            found = _COMMENT.match(stripped)
            sentence.comments |= {found[1]: found[2]} if found else {}
        elif len(cells) != CONLLU_COLUMNS or not _SPAN.fullmatch(cells[0]):
            sentence.rows.append(cells)
            sentence.numbers.append(number)
            width = len(cells)
            sentence.size += len(line)
    if sentence.rows:
        sentence.document = max(0, documents)
        yield sentence


def _is_comment(line: str, cells: list[str], width: int, least: int) -> bool:
    """Whether a line that begins with `#` is a comment; a token may begin so too."""
    if _COMMENT.match(line) or _NEW_DOCUMENT.match(line):
        return True
    return len(cells) != width if width else cells[0] == "#" or len(cells) < least


def _cells(line: str, separator: str | None) -> list[str]:
    if separator is not None:
        return line.split(separator)
    return line.split("\t") if "\t" in line else line.split() or [""]


class _Sentences:
    """How lines become sentences."""

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
        """Yield each sentence, by the number of its first line."""
        for found in split_sentences(file, self.separator, self.width):
            yield found.numbers[0], found.size, functools.partial(self._values, found)

    def _values(self, found: Sentence) -> dict[str, Any]:
        """Return the values of a sentence.

        Raises:
            SourceError: a line has too few columns, or holds no number where one is declared.
        """
        rows, numbers = found.rows, found.numbers
        values: dict[str, Any] = {
            name: value_of_text(self.contexts[name], text)
            for name, text in found.comments.items()
            if name in self.contexts
        }
        try:
            for place, field in self.columns:
                values[field.name] = values_of_texts(field, [cells[place] for cells in rows])
        except (IndexError, SourceError):
            for number, cells in zip(numbers, rows, strict=True):
                if len(cells) < self.width:
                    raise SourceError(
                        f"expected {self.width} columns, got {len(cells)} in line {number}: {cells}"
                    ) from None
                for place, field in self.columns:
                    value_of_text(field, cells[place], f"line {number}")
            raise  # pragma: no cover - one of them was not good
        if self.document is not None:
            is_text = self.contexts[self.document].element.is_text
            values[self.document] = str(found.document) if is_text else found.document
        return values
