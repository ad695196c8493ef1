"""Sentences in columns, a token a line: the formats of CoNLL."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from seqrecorder.errors import OptionError, SourceError, did_you_mean
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.text_records import text_records
from seqrecorder.sources.text_values import value_of_text, values_of_texts
from seqrecorder.storage.text_files import lines_of

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
_CONLLU_COLUMNS = 10


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
        documents, width = -1, 0  # of the token before
        comments: dict[str, str] = {}
        rows: list[list[str]] = []
        numbers: list[int] = []
        size = 0
        for number, line in lines_of(file):
            stripped, cells = line.strip(), self._cells(line)
            if not stripped:
                if rows:
                    values_of = functools.partial(self._values, rows, numbers, comments, max(0, documents))
                    yield numbers[0], size, values_of
                    rows, numbers, comments, size = [], [], {}, 0
            elif cells[0] == _DOCUMENT:
                documents += 1
            elif stripped[0] == "#" and self._is_comment(stripped, cells, width):
                documents += bool(_NEW_DOCUMENT.match(stripped))
                found = _COMMENT.match(stripped)
                comments |= {found[1]: found[2]} if found else {}
            elif len(cells) != _CONLLU_COLUMNS or not _SPAN.fullmatch(cells[0]):
                rows.append(cells)
                numbers.append(number)
                width, size = len(cells), size + len(line)
        if rows:
            yield numbers[0], size, functools.partial(self._values, rows, numbers, comments, max(0, documents))

    def _is_comment(self, line: str, cells: list[str], width: int) -> bool:
        """Whether a line that begins with `#` is a comment; a token may begin so too."""
        if _COMMENT.match(line) or _NEW_DOCUMENT.match(line):
            return True
        return len(cells) != width if width else cells[0] == "#" or len(cells) < self.width

    def _cells(self, line: str) -> list[str]:
        if self.separator is not None:
            return line.split(self.separator)
        return line.split("\t") if "\t" in line else line.split() or [""]

    def _values(
        self, rows: list[list[str]], numbers: list[int], comments: dict[str, str], document: int
    ) -> dict[str, Any]:
        """Return the values of a sentence.

        Raises:
            SourceError: a line has too few columns, or holds no number where one is declared.
        """
        values: dict[str, Any] = {
            name: value_of_text(self.contexts[name], text) for name, text in comments.items() if name in self.contexts
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
            values[self.document] = str(document) if self.contexts[self.document].element.is_text else document
        return values
