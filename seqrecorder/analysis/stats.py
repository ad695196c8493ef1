"""`stats`: what is known of the records of a dataset, by field, channel and split, after one pass over them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.kept_stats import kept_stats, to_bytes
from seqrecorder.analysis.record_stats import Stats
from seqrecorder.analysis.sources import columns_of, selections_of, watched
from seqrecorder.codec.columns import Column
from seqrecorder.dataset.corpus import open as open_corpus
from seqrecorder.dataset.statistics_file import write_statistics
from seqrecorder.errors import OptionError, SeqrecorderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.dataset.progress import Progress
    from seqrecorder.dataset.selection import Selection
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

_LOG = logging.getLogger("seqrecorder")
_MOST_VALUES = 1000
"""Of the field that records are told apart by: each has statistics of its own."""


def stats(
    source: Any,
    split: str | None = None,
    *,
    by: str | None = None,
    fields: Sequence[str] | None = None,
    progress: bool | None = None,
) -> Stats:
    """Return what is known of the records of a dataset, after one pass over them.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     label: int = sr.context("int32")
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write({"train": [Sentence(0, [1, 2, 3]), Sentence(1, [4])], "eval": [Sentence(1, [5])]}, corpus)
    >>> stats = sr.stats(corpus, by="label")
    >>> stats
    <Stats Sentence: 3 records (train 2, eval 1), steps 1 / 1.7 / 3, 2 fields>
    >>> stats["ids"].mean, stats["ids"].quantile(0.5), stats["label"].top()
    (3.0, 3.0, [(1, 2), (0, 1)])
    >>> stats.splits["train"]["ids"].maximum, stats.by[1]["ids"].minimum
    (4, 4)

    Counts, extremes and frequencies are exact; means and deviations as numpy's in float64; quantiles are exact up to
    some thousand distinct values, and within 0.4 % beyond (`FieldStats.quantile`). NaN and padding are in none of them.
    Statistics that `write(..., stats=True)` has kept with a dataset are taken as they are.

    Args:
        source: a dataset's directory, what `seqrecorder.open` gives, or a selection of its records.
        split: name of the one split to look at; all by default.
        by: name of a scalar context field of text, whole numbers or bools, for each of whose values there are
            statistics, too.
        fields: names of the fields to look at; all by default.
        progress: as for `write`: None shows a bar on a terminal when tqdm is installed.

    Raises:
        OptionError: `by` is no such field, or has more than 1,000 values.
        DatasetNotFoundError: there is no such dataset or split.
        RecordError: a record cannot be decoded.
    """
    names = None if fields is None else [*fields, *([] if by is None else [by])]
    known = kept_stats(source, split) if names is None and by is None else None
    if known is not None:
        return known
    total: Stats | None = None
    selections = selections_of(source, split)
    with watched(progress, "statistics", selections) as bar:
        for name, selection in selections.items():
            part = _stats_of(selection, names, by, bar)
            if total is None:
                total = Stats.of_nothing(part.schema)
            total.merge(attrs.evolve(part, splits={name: attrs.evolve(part, by={})}))
    if total is None:
        raise OptionError(f"stats: expected records, got none: {source!r}")
    return total


def keep_stats(manifest: Manifest, known: Stats | None) -> None:
    """Keep the statistics of a dataset that was published; that they could not be kept is logged, and is no error.

    Args:
        manifest: of the dataset.
        known: those that were kept before an append, and still hold for the records that were there; None for none.
    """
    try:
        corpus, parts = open_corpus(manifest.path), {}
        for name in corpus:
            old = None if known is None else known.splits.get(name)
            if old is not None and list(old.fields) != [field.name for field in corpus.schema.fields]:
                old = None  # a field is new, of which they say nothing
            parts[name] = _stats_of(corpus[name][0 if old is None else old.records :], None, None)
            if old is not None:
                parts[name] = old + parts[name]
        write_statistics(manifest.path, manifest.to_json().encode(), to_bytes(parts))
    except (SeqrecorderError, OSError) as error:
        _LOG.warning("%s: its statistics could not be kept: %s", manifest.path, error)


def _stats_of(selection: Selection, names: Sequence[str] | None, by: str | None, bar: Progress | None = None) -> Stats:
    schema, chunks = columns_of(selection, names, bar)
    part = Stats.of_nothing(schema)
    label = None if by is None else _field_of_labels(schema, by)
    for columns, records in chunks:
        part.add(columns, records)
        if label is not None:
            _add_by(part.by, schema, label, columns, records)
    return part


def _field_of_labels(schema: Schema, by: str) -> Field:
    field = schema[by]
    scalar = not field.is_list and not field.shape and field.sparse is None
    if not scalar or not (field.element.is_text or field.element.numpy.kind in "iub"):
        raise OptionError(f"by: expected a scalar context field of text, whole numbers or bools, got {by!r}, {field!r}")
    return field


def _add_by(parts: dict[Any, Stats], schema: Schema, field: Field, columns: Mapping[str, Column], records: int) -> None:
    """Take in the columns of some records, apart for each value of a field."""
    labels = columns[field.name]
    present = np.ones(records, bool) if labels.present is None else labels.present
    values = labels.values.tolist()
    places: dict[Any, list[int]] = {}
    for place, value in zip(np.flatnonzero(present).tolist(), values, strict=True):
        places.setdefault(value, []).append(place)
    if not present.all():
        places[None] = np.flatnonzero(~present).tolist()
    if len(parts.keys() | places.keys()) > _MOST_VALUES:
        raise OptionError(f"by: expected a field of at most {_MOST_VALUES:,} values, got more of {field.name!r}")
    for value, rows in places.items():
        chosen = np.zeros(records, bool)
        chosen[rows] = True
        part = parts.setdefault(value, Stats.of_nothing(schema))
        part.add({name: _records_of(column, chosen) for name, column in columns.items()}, len(rows))


def _records_of(column: Column, chosen: NDArray[np.bool_]) -> Column:
    """Return the column of those records that are chosen, bool `(records,)`."""
    present, keep = None, chosen
    if column.present is not None:
        present, keep = column.present[chosen], chosen[column.present]
    inner: dict[str, Any] = {}
    for name in ("steps", "counts"):
        lengths = getattr(column, name)
        if lengths is not None:
            inner[name] = lengths[keep]
            keep = np.repeat(keep, lengths)
    if column.indices is not None:
        inner["indices"] = column.indices[keep]
    return Column(column.values[keep], present=present, **inner)
