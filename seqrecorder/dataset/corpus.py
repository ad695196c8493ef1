"""`open`: a dataset whose records are to be selected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.dataset.record_store import RecordStore
from seqrecorder.dataset.selection import Selection

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.schema.schema import Schema


class Corpus:
    """A dataset whose records are to be selected: `seqrecorder.open` makes it.

    Args:
        store: its records.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    @property
    def manifest(self) -> Manifest:
        """What the dataset contains."""
        return self._store.manifest

    @property
    def schema(self) -> Schema:
        """The schema of the records."""
        return self._store.schema

    def __repr__(self) -> str:
        return f"<Corpus: {repr(self.manifest)[1:-1]}>"

    def _repr_html_(self) -> str:
        return self.manifest._repr_html_()

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._store,))

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the splits."""
        return iter(self._store.splits)

    def __len__(self) -> int:
        """Return how many splits there are."""
        return len(self._store.splits)

    def __contains__(self, split: object) -> bool:
        return split in self._store.splits

    def __getitem__(self, splits: str | tuple[str, ...]) -> Selection:
        """Return the records of a split, or of several, one after the other.

        Raises:
            DatasetNotFoundError: there is no split of a name.
            OptionError: it is no name.
        """
        names = splits if isinstance(splits, tuple) else (splits,)
        parts = [self._store.splits[self.manifest.split(name).name] for name in names]
        if len(parts) == 1:
            return Selection(self._store, parts[0])
        each = [np.arange(part.start, part.stop) for part in parts]
        return Selection(self._store, np.concatenate([np.empty(0, np.int64), *each]))

    def all(self) -> Selection:
        """Return all records, split by split in the manifest's order."""
        return Selection(self._store, range(self._store.order.records))


def open(path: str | os.PathLike[str], *, schema: Any = None) -> Corpus:  # noqa: A001 - as `gzip.open` is
    """Open a dataset to select records from; only its manifest is read until more is needed.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> path = tempfile.mkdtemp()
    >>> _ = sr.write({"train": [Word("to"), Word("be")], "eval": [Word("or")]}, path)
    >>> corpus = sr.open(path)
    >>> [len(corpus["train"]), len(corpus["train", "eval"]), len(corpus.all())]
    [2, 3, 3]

    Args:
        path: the dataset's directory, or its URL.
        schema: the record class to read as; by default one that is rebuilt from the manifest.

    Raises:
        DatasetNotFoundError: there is no dataset.
        ManifestError: its manifest is damaged, or of a newer format.
        SchemaMismatchError: the data cannot be read as `schema`.
    """
    return Corpus(RecordStore(path, schema))
