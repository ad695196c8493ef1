"""`Selection`: some records of a dataset, in some order, as positions; it holds no values until asked."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from seqrecorder.dataset.conditions import Condition, condition, ranked, require_fields
from seqrecorder.dataset.exports import Exports
from seqrecorder.dataset.partition import folds_of, split_by_shares
from seqrecorder.dataset.selected_shards import resolve_selection, whole_splits
from seqrecorder.dataset.shard_set import Selected
from seqrecorder.dataset.time_parts import folds_in_time, split_in_time
from seqrecorder.errors import DatasetError, OptionError, RecordNotFoundError
from seqrecorder.schema.display import cut, html_table, number_of
from seqrecorder.storage.read_ahead import ahead, threads_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.codec.decoder import RecordDecoder
    from seqrecorder.dataset.partition import Folds, Parts
    from seqrecorder.dataset.record_store import RecordStore
    from seqrecorder.dataset.shard_set import Check, OnCorrupt, Origin
    from seqrecorder.dataset.time_parts import Straddling
    from seqrecorder.schema.schema import Schema

_SIZE = 8192
_SHOWN = 10
_WIDTH = 40


class Selection(Exports, Selected):
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

    def __init__(self, store: RecordStore, positions: range | NDArray[np.int64]) -> None:
        self._store = store
        self._positions = _as_range(positions)

    # What it is --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def schema(self) -> Schema:
        """The schema of the records."""
        return self._store.schema

    @property
    def positions(self) -> NDArray[np.int64]:
        """The positions in the dataset, int64 `(n,)`: they count through the splits in the manifest's order."""
        return self._array(0, len(self))

    @property
    def store(self) -> RecordStore:
        """The records of the dataset."""
        return self._store

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
        place = cut(str(self._store.manifest.path), 120)
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
        return html_table(repr(self)[1:-1], heads, list(zip(*columns, strict=True)))

    @property
    def is_whole(self) -> bool:
        """Whether these are all records of some splits in written order, one split after the other."""
        return whole_splits(self._store, self._positions) is not None

    def reading(self, schema: object) -> Selection:
        """Return the same records, to be read as another class.

        Raises:
            SchemaMismatchError: the data cannot be read as that.
        """
        return Selection(self._store.reading(schema), self._positions)

    # Some of it --------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: int | str | bytes) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Sequence[Any] | NDArray[Any]) -> Selection: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._of(self._positions[index])
        if isinstance(index, (str, bytes)):
            return self._of_key(index)
        if isinstance(index, (list, tuple, range, np.ndarray)):
            return self._of(self._chosen(index))
        try:
            place = operator.index(index)
        except TypeError:
            raise OptionError(
                f"expected a position, a key of text or bytes, a slice, positions or a mask, got {index!r:.100}"
            ) from None
        if not -len(self) <= place < len(self):
            raise RecordNotFoundError(f"{self!r} has no record {place}: it has {number_of(len(self), 'record')}")
        return self._store.record(int(self._positions[place]))

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
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
        chosen: NDArray[np.int64] = self.positions[places]
        return chosen

    def at(self, places: NDArray[np.int64]) -> Selection:
        """Return the records at some places; `selection[places]` is the same."""
        return self._of(self._chosen(places))

    def _of(self, positions: range | NDArray[np.int64]) -> Selection:
        return Selection(self._store, positions)

    def where(
        self, predicate: Callable[[Any], Any] | None = None, /, *, fields: Sequence[str] | None = None, **values: Any
    ) -> Selection:
        """Return the records for which all conditions hold, in the same order.

        Args:
            predicate: called with each record; it is to return whether it is wanted.
            fields: names of the fields that the predicate looks at: only these are parsed, and its records have no
                others. None is all.
            values: by the name of a context field without a shape, the value that is wanted, or several in a list,
                tuple, set, range or array. None is a value of optional fields.

        Raises:
            OptionError: there is no condition, or a value that the field cannot have.
            SchemaError: there is no field of a name.
            RecordError: a record cannot be decoded.
        """
        return self._that(condition(self.schema, predicate, fields, values))

    def _that(self, wanted: Condition) -> Selection:
        store = self._store.forward()
        decoder = store.decoder(wanted.fields)
        masks = [wanted.of(store.columns(decoder, positions)) for positions in self.windows()]
        return self[np.concatenate(masks)] if masks else self

    def sample(self, size: float, *, seed: int) -> Selection:
        """Return records drawn without replacement, in the same order.

        A record is drawn by its split and its position in that, so that of data to which others were appended mostly
        the same ones are drawn.

        Args:
            size: how many as an int, or their share as a float.
            seed: the same seed draws the same records.

        Raises:
            OptionError: there are not so many.
        """
        if isinstance(size, bool) or not isinstance(size, (int, float, np.integer, np.floating)):
            raise OptionError(f"sample: expected a number of records as an int, or a share as a float, got {size!r}")
        count = round(size * len(self)) if isinstance(size, (float, np.floating)) and 0 <= size <= 1 else size
        if not isinstance(count, (int, np.integer)) or not 0 <= count <= len(self):
            raise OptionError(
                f"sample: expected an int of at most {len(self)} records, or a share in [0, 1] as a float, got {size!r}"
            )
        if count == len(self):
            return self
        ranks = ranked(self._store.splits, self.positions, seed)
        return self[np.sort(np.argpartition(ranks, count)[:count])]

    def sorted_by(
        self, by: str | Callable[[Any], Any], *, fields: Sequence[str] | None = None, reverse: bool = False
    ) -> Selection:
        """Return the records in ascending order of a value; equal ones stay in their order.

        Args:
            by: name of a context field without a shape, or what gives a record's value.
            fields: names of the fields that a callable looks at; None is all.
            reverse: whether the order descends.

        Raises:
            OptionError: values have no order, as None has none.
            SchemaError: there is no field of a name.
        """
        if isinstance(by, str):
            if fields is not None:
                raise OptionError(f"fields: are for a callable; {by!r} is itself the field")
            (values,) = self.values_of([by])
        elif callable(by):
            values = [by(record) for record in self.records(fields)]
        else:
            raise OptionError(f"sorted_by: expected the name of a field, or a callable, got {by!r}")
        try:
            order = sorted(range(len(self)), key=values.__getitem__, reverse=reverse)
        except TypeError as error:
            raise OptionError(
                f"sorted_by: values without an order: {error}; leave them out with `where` first"
            ) from None
        return self[np.array(order, np.int64)]

    def split(
        self,
        shares: Mapping[str, float] | None = None,
        *,
        by: str | Callable[[Any], Any] | None = None,
        stratify: str | Callable[[Any], Any] | None = None,
        at: Mapping[str, Any] | None = None,
        time: str | None = None,
        end: str | None = None,
        straddling: Straddling = "error",
        seed: int = 0,
    ) -> Parts[Selection]:
        """Return parts of the records by name, each in the same order: by shares, or in time.

        >>> import tempfile, seqrecorder as sr
        >>> @sr.record
        ... class Verse:
        ...     book: int = sr.context("int64")
        >>> corpus = tempfile.mkdtemp()
        >>> _ = sr.write([Verse(number // 4) for number in range(40)], corpus)
        >>> parts = sr.open(corpus).all().split({"train": 0.8, "eval": 0.2}, by="book")
        >>> parts, parts.shares.missed
        (<Parts: train 32, eval 8>, 0.0)

        Args:
            shares: by name; they add up to 1. Without `by`, no share is missed by a record, nor by two in a stratum.
            by: name of a context field, or what gives a record's value: records of one value stay together. Without
                `stratify`, shares are missed by less than the largest group where there are enough small ones.
            stratify: likewise; records of each value are dealt in these shares, groups as near as that goes.
            at: the time from which on each part is, by name, in ascending order; `...` for the first.
            time: name of the field of a record's time; of a feature list the first step's.
            end: name of the field of the time at which a record ends; the last step of `time`, or that time itself.
            straddling: what becomes of records that begin in one part and end in another: `error`, or `drop`.
            seed: the same selection and seed give the same parts.

        Returns:
            A dictionary that `write` takes; its `shares` say how far each share was missed.

        Raises:
            OptionError: options make no sense, or there are fewer groups than parts.
            SchemaError: there is no field of a name.
        """
        if (shares is None) == (at is None):
            raise OptionError("split: expected shares, as {'train': 0.8, 'eval': 0.2}, or times as `at`")
        if at is not None:
            _require_none({"by": by, "stratify": stratify}, "at")
            return split_in_time(self, at, time, end, straddling)
        _require_none({"time": time, "end": end}, "shares")
        return split_by_shares(self, shares, by, stratify, seed)

    def folds(
        self,
        count: int,
        *,
        by: str | Callable[[Any], Any] | None = None,
        stratify: str | Callable[[Any], Any] | None = None,
        time: str | None = None,
        end: str | None = None,
        straddling: Straddling = "error",
        seed: int = 0,
    ) -> Folds[Selection]:
        """Return pairs of selections for cross-validation: what is fitted on, and what is held out.

        Each record is held out once. With `time` the folds walk forward: of `count + 1` parts in time, each but the
        first is held out once, and what lies wholly before it is fitted on.

        Args:
            count: how many folds.
            by: as for `split`: groups are never on both sides.
            stratify: as for `split`.
            time: as for `split`.
            end: as for `split`.
            straddling: as for `split`; such records are held out, and not fitted on before.
            seed: as for `split`.

        Returns:
            A list of pairs; its `shares` say how far equal shares were missed.

        Raises:
            OptionError: options make no sense, or there are fewer records or groups than folds.
            SchemaError: there is no field of a name.
        """
        if time is not None:
            _require_none({"by": by, "stratify": stratify}, "time")
            return folds_in_time(self, count, time, end, straddling)
        _require_none({"end": end}, "no time")
        return folds_of(self, count, by, stratify, seed)

    def __or__(self, other: object) -> Selection:
        """Return the records of both, each once: in written order where both are, else those of the left one first."""
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        if _ascends(left) and _ascends(right):
            return self._of(np.union1d(left, right))
        both = np.concatenate([left, right])
        return self._of(both[np.sort(np.unique(both, return_index=True)[1])])

    def __and__(self, other: object) -> Selection:
        """Return the records that are in the other one too, in the order of the left one."""
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        return self._of(left[np.isin(left, right)])

    def __sub__(self, other: object) -> Selection:
        """Return the records that are not in the other one, in the order of the left one."""
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        return self._of(left[np.isin(left, right, invert=True)])

    def _with(self, other: Selection) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self._store != other._store:
            raise OptionError(f"selections of one dataset are joined, got {self!r} and {other!r}; `merge` writes both")
        return self.positions, other.positions

    # Its values --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        return self.records()

    def records(self, fields: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the records as objects, as iterating over the selection does.

        Args:
            fields: names of the fields to decode; records are then of a class with those fields alone. None is all.

        Raises:
            SchemaError: there is no field of a name.
            ShardReadError: while iterating: a record that is selected is damaged.
            RecordError: while iterating: one cannot be decoded.
        """
        decoder = self._store.decoder(fields)
        return self._decoded(decoder)

    def _decoded(self, decoder: RecordDecoder) -> Iterator[Any]:
        store = self._store.forward()
        mean = store.manifest.bytes // max(1, store.manifest.records)
        parts = ((positions, store.read(positions)) for positions in self.windows())

        def decode(part: tuple[NDArray[np.int64], list[bytes]]) -> list[Any]:
            return store.records(decoder, *part)

        for part, records in ahead(decode, parts, threads_for(mean)):
            yield from records.result()
            del part, records

    def columns(self, fields: Sequence[str] | None = None, size: int = _SIZE) -> Iterator[dict[str, Column]]:
        """Yield the records as columns, many at a time, in the order of the selection.

        >>> import tempfile, numpy as np, seqrecorder as sr
        >>> @sr.record
        ... class Sentence:
        ...     ids: np.ndarray = sr.feature_list("int64")
        >>> corpus = tempfile.mkdtemp()
        >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
        >>> for columns in sr.open(corpus)["train"].columns(["ids"]):
        ...     print(columns["ids"].values, columns["ids"].steps)
        [1 2 3 4] [3 1]

        Args:
            fields: names of the fields that are parsed; None is all.
            size: how many records at most; of large ones they are fewer, about 16 MiB.

        Raises:
            OptionError: `size` is no positive int.
            SchemaError: there is no field of a name.
            ShardReadError: while iterating: a record that is selected is damaged.
            RecordError: while iterating: one cannot be decoded.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise OptionError(f"size: expected an int of 1 or more, got {size!r}")
        decoder = self._store.decoder(fields)
        store = self._store.forward()
        return (store.columns(decoder, positions) for positions in self.windows(size))

    def values_of(self, fields: Sequence[str]) -> list[list[Any]]:
        """Return the values of context fields without a shape, a list for each field.

        Raises:
            OptionError: a field is of another kind.
            SchemaError: there is no field of a name.
        """
        require_fields(self.schema, fields)
        out: list[list[Any]] = [[] for _ in fields]
        for columns in self.columns(fields):
            for values, name in zip(out, fields, strict=True):
                values.extend(scalars(columns[name]))
        return out

    def lengths(self, group: str | None = None) -> NDArray[np.int64]:
        """Return how many steps each record has, int64 `(n,)`, from the lengths files: nothing is parsed.

        Args:
            group: the alignment group; None is the first one.

        Raises:
            OptionError: there is no such group.
        """
        groups = self._store.manifest.schema.groups
        if not groups or group not in (None, *groups):
            raise OptionError(f"group: expected one of {', '.join(groups) or '(none: no feature list)'}, got {group!r}")
        return self._store.lengths(self.positions, groups[0] if group is None else group)

    def resolve(
        self,
        *,
        schema: object = None,
        check: Check = "manifest",
        on_corrupt: OnCorrupt = "error",
        lengths_only: bool = False,
    ) -> Origin:
        """Return the shards that `read` reads; see `seqrecorder.dataset.selected_shards`."""
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

    def _array(self, start: int, stop: int) -> NDArray[np.int64]:
        part = self._positions[start:stop]
        return np.arange(part.start, part.stop, part.step) if isinstance(part, range) else part

    def windows(self, size: int = _SIZE) -> Iterator[NDArray[np.int64]]:
        """Yield the positions, as many at a time as are held at once."""
        window = self._store.window(size)
        for start in range(0, len(self), window):
            yield self._array(start, start + window)


def _require_none(options: Mapping[str, Any], beside: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise OptionError(f"{given[0]} does not go with {beside}; leave one of them out")


def scalars(column: Column) -> list[Any]:
    """Return the values of a context field without a shape, None where a record has none."""
    values: list[Any] = column.values.tolist() if column.values.dtype == object else list(column.values)
    if column.present is None:
        return values
    rest = iter(values)
    return [next(rest) if here else None for here in column.present.tolist()]


def _ascends(positions: NDArray[np.int64]) -> bool:
    return bool((np.diff(positions) > 0).all())


def _as_range(positions: range | NDArray[np.int64]) -> range | NDArray[np.int64]:
    """Return positions as a range if they are one after the other; an array that nobody can change else."""
    if isinstance(positions, range):
        return positions
    if positions.size and int(positions[-1]) - int(positions[0]) == positions.size - 1 and _ascends(positions):
        return range(int(positions[0]), int(positions[-1]) + 1)
    own: NDArray[np.int64] = positions
    if own.flags.writeable or own.base is not None:
        own = own.copy()
        own.flags.writeable = False
    return own
