"""The first records of files that are no tables, as dictionaries from which a schema is inferred."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.sources.conll import CONLLU_COLUMNS, split_sentences
from seqrecorder.sources.ts import series_in
from seqrecorder.storage.paths import files_named, natural_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seqrecorder.sources.conll import Sentence

_PIECES = 1 << 14  # of text
_CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""The columns of CoNLL-U (https://universaldependencies.org/format.html)."""
_CONLL_ENDINGS = (".conll", ".conllu", ".conllx")
_PACKED = (".gz", ".bz2", ".xz", ".zst")


def rows_of_files(source: Any, columns: Sequence[str | None] | None, most: int) -> Any:
    """Return the first records of files of CoNLL or `.ts`; any other source as it is.

    Args:
        source: what `Schema.infer` takes.
        columns: the names of the columns of CoNLL; None leaves one out. They say that a file is of that kind.
        most: how many records, at most.

    Raises:
        DatasetNotFoundError: there is no such file.
        OptionError: columns are given for what has none.
        SourceError: a file cannot be read.
    """
    plain = _unpacked(source)
    if is_of_series(source):
        return _series(source, min(most, _PIECES))
    if plain and (columns is not None or plain.endswith(_CONLL_ENDINGS)):
        return _sentences(source, columns, min(most, _PIECES))
    if columns is not None:
        raise OptionError("columns: names those of a file of CoNLL; a table has names")
    return source


def is_of_series(source: Any) -> bool:
    """Whether a path, or a glob, ends as the name of a `.ts` file does; the label of a series is no key."""
    return _unpacked(source).endswith(".ts")


def _unpacked(source: Any) -> str:
    """Return a path without the ending that says how it is packed; nothing for what is none."""
    name = str(source) if isinstance(source, (str, Path)) else ""
    return name.removesuffix(next((ending for ending in _PACKED if name.endswith(ending)), ""))


def _series(path: Any, most: int) -> list[dict[str, Any]]:
    files = files_named(path, natural_order)
    found = list(itertools.islice(itertools.chain.from_iterable(map(series_in, files)), most))
    together = all(len({part.size for part in parts}) == 1 for _, parts in found)
    rows = []
    for label, parts in found:
        row: dict[str, Any] = {} if label is None else {"label": label}
        if together:
            row["values"] = parts[0] if len(parts) == 1 else np.stack(parts, 1)
        else:
            row |= {f"dimension_{number}": part for number, part in enumerate(parts, 1)}
        rows.append(row)
    return rows


def _sentences(path: Any, columns: Sequence[str | None] | None, most: int) -> list[dict[str, Any]]:
    files = files_named(path, natural_order)
    parts = itertools.chain.from_iterable(split_sentences(file, None) for file in files)
    found = list(itertools.islice(parts, most))
    width = min((len(cells) for sentence in found for cells in sentence.rows), default=0)
    if columns is None:
        columns = _CONLLU if width == CONLLU_COLUMNS else [f"column_{number}" for number in range(1, width + 1)]
    if isinstance(columns, str) or not any(columns) or len(columns) > width:
        raise OptionError(f"columns: expected at most {width} names, of the columns of {path}, got {columns!r}")
    whole = [all(_are_ints(sentence, place) for sentence in found) for place in range(len(columns))]
    return [{**sentence.comments, **dict(_lists(sentence, columns, whole))} for sentence in found]


def _are_ints(sentence: Sentence, place: int) -> bool:
    return all(cells[place].lstrip("-").isdecimal() for cells in sentence.rows)


def _lists(sentence: Sentence, columns: Sequence[str | None], whole: Sequence[bool]) -> Iterator[tuple[str, list[Any]]]:
    for place, name in enumerate(columns):
        if name is not None:
            cells = [row[place] for row in sentence.rows]
            yield name, list(map(int, cells)) if whole[place] else cells
