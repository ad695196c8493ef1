"""`Selection`: some records of a dataset, in some order, as positions; it holds no values until asked."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Generic, overload

import numpy as np

from seqrecorder.dataset.manifest import lengths_picture
from seqrecorder.dataset.record_store import RecordStore, resolve_selection, whole_splits
from seqrecorder.dataset.shard_set import Selected
from seqrecorder.dataset.subsets import R, Subsets, T, ascends
from seqrecorder.errors import DatasetError, OptionError, RecordNotFoundError
from seqrecorder.schema.display import cut, html_table, number_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.dataset.shard_set import Check, OnCorrupt, Origin
    from seqrecorder.schema.schema import Schema


_SHOWN = 10
_WIDTH = 40
_DRAWN = 1 << 20


class Selection(Subsets[R], Selected):
    """Some records of a dataset, in some order; `seqrecorder.open` gives the first ones, and these give others.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     key: str = sr.context(str, key=True)
    ...     label: int = sr.context("int32")
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence("a", 3, [1, 2]), Sentence("b", 5, [4]), Sentence("c", 3, [])], corpus)
    >>> train = sr.open(corpus)["train"]
    >>> len(train), train[1].key, train["c"].ids, "x" in train
    (3, 'b', array([], dtype=int64), False)
    >>> [record.key for record in train.where(label=3)], train[::-1].lengths().tolist()
    (['a', 'c'], [0, 1, 2])

    A position gives a record, a key (of text or bytes) too; a slice, an array of positions, a mask or a list of keys
    gives a selection. `|`, `&` and `-` join selections of one dataset, and leave out. It pickles as the place of the
    dataset and the positions, and is what `torch.utils.data.DataLoader` and `grain.MapDataset.source` take. It goes
    wherever a path and a split go: `seqrecorder.read(train.where(label=3), batch=...)`.

    Args:
        store: the records of the dataset.
        positions: of the records that are selected, a range where they are one.
    """

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented
        return self._store == other._store and np.array_equal(self.positions, other.positions)

    def __hash__(self) -> int:
        return hash((self._store, len(self)))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._store, self._positions))

    def __repr__(self) -> str:
        names = ", ".join(name for name, split in self._store.splits.items() if self._touches(split))
        place = cut(self._store.manifest.where, 120)
        return (
            f"<Selection of {number_of(len(self), 'record')}: {cut(self.schema.name, _WIDTH)}, "
            f"of {cut(names, _WIDTH) or 'no split'} of {place!r}>"
        )

    def _repr_html_(self) -> str:
        fields = [field for field in self.schema.fields if not field.is_list and not field.shape and not field.sparse]
        groups = list(self._store.manifest.schema.groups)
        first = self[:_SHOWN]
        heads = ["position", *(field.name for field in fields), *(f"steps ({group})" for group in groups)]
        try:
            columns: list[list[Any]] = [first.positions.tolist()]
            records = list(first.records([field.name for field in fields])) if fields else []
            columns += [[cut(str(getattr(r, field.name)), _WIDTH) for r in records] for field in fields]
            columns += [first.lengths(group).tolist() for group in groups]
        except (DatasetError, OptionError):  # damaged, or packed: a notebook shows what it can
            return html_table(repr(self)[1:-1], heads, [])
        table = html_table(repr(self)[1:-1], heads, list(zip(*columns, strict=True)))
        if not groups or len(self) > _DRAWN:
            return table
        lengths, counts = np.unique(self.lengths(), return_counts=True)
        return table + lengths_picture({"selected": list(zip(lengths.tolist(), counts.tolist(), strict=True))})

    @property
    def is_whole(self) -> bool:
        """Check whether these are all records of some splits in written order, one split after the other."""
        return whole_splits(self._store, self._positions) is not None

    def reading(self, schema: object) -> Selection[Any]:
        """Return the same records, to be read as another class.

        Raises:
            SchemaMismatchError: the data cannot be read as that.
        """
        return Selection(self._store.reading(schema), self._positions)

    # Some of it --------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: int | str | bytes) -> R: ...
    @overload
    def __getitem__(self, index: slice | range | list[Any] | tuple[Any, ...] | NDArray[Any]) -> Selection[R]: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._of(self._positions[index])
        if isinstance(index, (str, bytes)):
            return self._of_key(index)
        if isinstance(index, (list, tuple, range, np.ndarray)):
            return self._of(self._chosen(index))
        try:
            if isinstance(index, bool):
                raise TypeError
            place = operator.index(index)
        except TypeError:
            raise OptionError(
                f"expected a position, a key of text or bytes, a slice, positions or a mask, got {index!r:.100}"
            ) from None
        if not -len(self) <= place < len(self):
            raise RecordNotFoundError(f"{self!r} has no record {place}: it has {number_of(len(self), 'record')}")
        return self._store.record(int(self._positions[place]))

    def __getitems__(self, indices: Sequence[int]) -> list[R]:
        """Return the records at some places: what torch's loaders fetch batches by."""
        return list(self._of(self._chosen(list(indices))))

    def _chosen(self, index: Any) -> range | NDArray[np.int64]:
        if isinstance(index, (list, tuple)) and index and all(isinstance(item, (str, bytes)) for item in index):
            return np.array([self._place_of_key(key) for key in index], np.int64)
        places = np.asarray(index)
        if places.ndim == 1 and not places.size:
            return np.empty(0, np.int64)
        if places.dtype == bool and places.shape == (len(self),):
            masked: NDArray[np.int64] = self.positions[places]
            return masked
        if places.ndim != 1 or places.dtype.kind not in "iu":
            raise OptionError(
                f"expected positions as ints, a mask of {len(self)} bools, or keys as a list, got an array of "
                f"{places.dtype} and shape {places.shape}"
            )
        outside = (places < -len(self)) | (places >= len(self))
        if outside.any():
            raise RecordNotFoundError(
                f"{self!r} has no record {int(places[outside][0])}: it has {number_of(len(self), 'record')}"
            )
        places = np.where(places < 0, places + len(self), places).astype(np.int64, copy=False)
        if isinstance(self._positions, range):  # of which an array may be larger than what is chosen
            return self._positions.start + self._positions.step * places
        chosen: NDArray[np.int64] = self._positions[places]
        return chosen

    def at(self, places: NDArray[np.int64]) -> Selection[R]:
        """Return the records at some places; `selection[places]` is the same."""
        return self._of(self._chosen(places))

    def _of(self, positions: range | NDArray[np.int64]) -> Selection[R]:
        return Selection(self._store, positions)

    def __or__(self, other: object) -> Selection[R]:
        """Return the records of both, each once: in written order where both are, else those of the left one first."""
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        if ascends(left) and ascends(right):
            return self._of(np.union1d(left, right))
        both = np.concatenate([left, right])
        return self._of(both[np.sort(np.unique(both, return_index=True)[1])])

    def __and__(self, other: object) -> Selection[R]:
        """Return the records that are in the other one too, in the order of the left one."""
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        return self._of(left[np.isin(left, right)])

    def __sub__(self, other: object) -> Selection[R]:
        """Return the records that are not in the other one, in the order of the left one."""
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        return self._of(left[np.isin(left, right, invert=True)])

    def _with(self, other: Selection) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self._store != other._store:
            raise OptionError(f"selections of one dataset are joined, got {self!r} and {other!r}; `merge` writes both")
        return self.positions, other.positions

    # To be read --------------------------------------------------------------------------------------------------

    def resolve(
        self,
        *,
        schema: object = None,
        check: Check = "manifest",
        on_corrupt: OnCorrupt = "error",
        lengths_only: bool = False,
    ) -> Origin:
        """Return the shards that `read` reads; see `seqrecorder.dataset.record_store`."""
        options: Any = {"check": check, "on_corrupt": on_corrupt, "lengths_only": lengths_only}
        return resolve_selection(self._store, self._positions, schema=schema, **options)

    # By key ------------------------------------------------------------------------------------------------------

    def __contains__(self, key: object) -> bool:
        return bool(self._places_of_key(key).size)

    def _of_key(self, key: str | bytes) -> Any:
        return self._store.record(self._place_of_key(key))

    def _place_of_key(self, key: str | bytes) -> int:
        if self.schema.key_field is None:
            raise OptionError(f"{self.schema.name} has no field with key=True, so that no record is found by a key")
        places = self._places_of_key(key)
        if not places.size:
            raise RecordNotFoundError(f"{self!r} has no record of the key {key!r:.200}")
        return int(places[0])

    def _places_of_key(self, key: object) -> NDArray[np.int64]:
        """Return the positions in the dataset of the records that have a key, in the order of the selection."""
        found = [self._store.find_key(name, key) for name, split in self._store.splits.items() if self._touches(split)]
        places = np.concatenate([np.empty(0, np.int64), *found])
        if isinstance(self._positions, range):
            return places[[place in self._positions for place in places.tolist()]] if places.size else places
        return self._positions[np.isin(self._positions, places)] if places.size else places

    # Positions ---------------------------------------------------------------------------------------------------

    def _touches(self, split: range) -> bool:
        positions = self._positions
        if isinstance(positions, range):
            ends = sorted([positions[0], positions[-1]]) if positions else [0, -1]
            return len(split) > 0 and ends[0] < split.stop and ends[1] >= split.start
        return bool(((positions >= split.start) & (positions < split.stop)).any())


class Corpus(Generic[R]):
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

    def __getitem__(self, splits: str | tuple[str, ...]) -> Selection[R]:
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

    def all(self) -> Selection[R]:
        """Return all records, split by split in the manifest's order."""
        return Selection(self._store, range(self._store.order.records))


@overload
def open(path: str | os.PathLike[str], *, schema: type[T]) -> Corpus[T]: ...  # noqa: A001 - see below
@overload
def open(path: str | os.PathLike[str], *, schema: Any = ...) -> Corpus[Any]: ...  # noqa: A001 - see below
def open(path: str | os.PathLike[str], *, schema: Any = None) -> Corpus[Any]:  # noqa: A001 - as `gzip.open` is
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
