"""What is looked at: a dataset or a selection of its records, split by split, as columns."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.dataset.corpus import Corpus, open  # noqa: A004 - as `seqrecorder.open`
from seqrecorder.dataset.progress import Progress
from seqrecorder.dataset.selection import Selection
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.schema import Schema


def selections_of(source: Any, split: str | None = None) -> dict[str, Selection]:
    """Return the records of a dataset's directory, a corpus or a selection, by split, in the manifest's order.

    Args:
        source: where they are.
        split: the one that is wanted; all by default.

    Raises:
        DatasetNotFoundError: there is no such dataset or split.
        OptionError: a split of a selection, which says itself what is selected.
    """
    if not isinstance(source, Selection):
        corpus = source if isinstance(source, Corpus) else open(source)
        return {name: corpus[name] for name in (corpus if split is None else [split])}
    if split is not None:
        raise OptionError(f"split: a selection is of its splits already, got {split!r}; select of corpus[{split!r}]")
    positions, found = source.positions, {}
    for name, places in source.store.splits.items():
        mask = (positions >= places.start) & (positions < places.stop)
        if mask.any():
            found[name] = source if mask.all() else source[mask]
    return found


@contextlib.contextmanager
def watched(progress: bool | None, label: str, parts: Mapping[str, Selection]) -> Iterator[Progress]:  # noqa: FBT001 - see `sr.write`
    """Show how many records of some selections are through: see `Progress`."""
    bar = Progress(progress, label)
    bar.expect(sum(map(len, parts.values())))
    try:
        yield bar
    finally:
        bar.close()


def columns_of(
    selection: Selection, fields: Sequence[str] | None, bar: Progress | None = None
) -> tuple[Schema, Iterator[tuple[dict[str, Column], int]]]:
    """Return the schema of some fields, and the columns of the selected records with how many these are."""
    schema = selection.schema.select(fields)

    def chunks() -> Iterator[tuple[dict[str, Column], int]]:
        for columns in selection.columns(fields):
            records = _records(schema, columns)
            yield columns, records
            if bar is not None:
                bar.advance(records)

    return schema, chunks()


def _records(schema: Schema, columns: Mapping[str, Column]) -> int:
    """Return of how many records columns are."""
    field = schema.fields[0]
    column = columns[field.name]
    if column.present is not None:
        return int(column.present.size)
    lengths = column.steps if field.is_list else column.counts
    return int(np.size(column.values, 0) if lengths is None else lengths.size)
