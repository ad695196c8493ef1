"""`open`, and `Selection`: some records of a dataset, in some order, which holds no values until asked."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from seqrecorder.dataset import exports
from seqrecorder.dataset.folds import (
    Folds,
    Parts,
    folds_in_time,
    folds_of,
    matching,
    split_by_shares,
    split_in_time,
    values_by,
)
from seqrecorder.dataset.manifest import lengths_picture
from seqrecorder.dataset.record_store import RecordStore, Rows, ascends
from seqrecorder.dataset.shard_set import Selected
from seqrecorder.dataset.splits import lowest_ranked
from seqrecorder.errors import DatasetError, OptionError, RecordNotFoundError
from seqrecorder.schema.display import cut, html_table, number_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from typing_extensions import TypeVar as TypeVarWithDefault

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.folds import Straddling
    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.dataset.shard_set import Origin
    from seqrecorder.schema.schema import Schema

    R = TypeVarWithDefault("R", default=Any)
else:
    R = TypeVar("R")
"""The class of the records."""

T = TypeVar("T")

_SHOWN = 10
_WIDTH = 40
_DRAWN = 1 << 20  # records whose lengths a notebook draws


class Selection(Selected, Generic[R]):
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

    The way back from what the `to_` methods give is `seqrecorder.from_table`, or `write` with `schema=`.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return self._rows == other._rows if isinstance(other, Selection) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._rows)

    @property
    def schema(self) -> Schema:
        """The schema of the records."""
        return self._rows.schema

    def __repr__(self) -> str:
        store = self._rows.store
        names = ", ".join(name for name, split in store.splits.items() if self._rows.touches(split))
        where = cut(store.manifest.where, 120)
        return (
            f"<Selection of {number_of(len(self), 'record')}: {cut(self.schema.name, _WIDTH)}, "
            f"of {cut(names, _WIDTH) or 'no split'} of {where!r}{', cut in time' if store.pieces else ''}>"
        )

    def _repr_html_(self) -> str:
        fields = [field for field in self.schema.fields if not field.is_list and not field.shape and not field.sparse]
        groups = list(self._rows.store.manifest.schema.groups)
        first = self[:_SHOWN]
        heads = ["position", *(field.name for field in fields), *(f"steps ({group})" for group in groups)]
        try:
            columns: list[list[Any]] = [self._rows.array(0, _SHOWN).tolist()]
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

    # Some of it --------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: int | str | bytes) -> R: ...
    @overload
    def __getitem__(self, index: slice | range | list[Any] | tuple[Any, ...] | NDArray[Any]) -> Selection[R]: ...

    def __getitem__(self, index: Any) -> Any:
        rows = self._rows
        if isinstance(index, slice):
            return Selection(Rows(rows.store, rows.positions[index]))
        if isinstance(index, (str, bytes)):
            return rows.store.record(self._position_of_key(index))
        if isinstance(index, (list, tuple, range, np.ndarray)):
            return self._chosen(index)
        try:
            if isinstance(index, bool):
                raise TypeError
            position = operator.index(index)
        except TypeError:
            raise OptionError(
                f"expected a position, a key of text or bytes, a slice, positions or a mask, got {index!r:.100}"
            ) from None
        if not -len(self) <= position < len(self):
            raise RecordNotFoundError(f"{self!r} has no record {position}: it has {number_of(len(self), 'record')}")
        return rows.store.record(int(rows.positions[position]))

    def __getitems__(self, indices: Sequence[int]) -> list[R]:
        """Return the records at some places: torch's loaders fetch batches so."""
        return list(self._chosen(list(indices)))

    def _chosen(self, index: Any) -> Selection[R]:
        if isinstance(index, (list, tuple)) and index and all(isinstance(item, (str, bytes)) for item in index):
            keys = np.array([self._position_of_key(key) for key in index], np.int64)
            return Selection(Rows(self._rows.store, keys))
        places = np.asarray(index)
        if places.ndim == 1 and not places.size:
            return self._take(np.empty(0, np.int64))
        if places.dtype == bool and places.shape == (len(self),):
            return self._take(np.flatnonzero(places))
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
        return self._take(np.where(places < 0, places + len(self), places).astype(np.int64, copy=False))

    def _take(self, places: NDArray[np.int64]) -> Selection[R]:
        return Selection(self._rows.take(places))

    def __contains__(self, key: object) -> bool:
        return bool(self._rows.find_key(key).size)

    def _position_of_key(self, key: str | bytes) -> int:
        if self.schema.key_field is None:
            raise OptionError(f"{self.schema.name} has no field with key=True, so that no record is found by a key")
        positions = self._rows.find_key(key)
        if not positions.size:
            raise RecordNotFoundError(f"{self!r} has no record of the key {key!r:.200}")
        return int(positions[0])

    def __or__(self, other: object) -> Selection[R]:
        """Return the records of both, each once: in written order where both are, else those of the left one first."""
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        if ascends(left) and ascends(right):
            return self._at(np.union1d(left, right))
        both = np.concatenate([left, right])
        return self._at(both[np.sort(np.unique(both, return_index=True)[1])])

    def __and__(self, other: object) -> Selection[R]:
        """Return the records that are in the other one too, in the order of the left one."""
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        return self._at(left[np.isin(left, right)])

    def __sub__(self, other: object) -> Selection[R]:
        """Return the records that are not in the other one, in the order of the left one."""
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        return self._at(left[np.isin(left, right, invert=True)])

    def _with(self, other: Selection) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self._rows.store != other._rows.store:
            raise OptionError(f"selections of one dataset are joined, got {self!r} and {other!r}; `merge` writes both")
        return self._rows.array(), other._rows.array()

    def _at(self, positions: NDArray[np.int64]) -> Selection[R]:
        return Selection(Rows(self._rows.store, positions))

    def _resolve(self, **options: Any) -> Origin:
        return self._rows.resolve(**options)

    # Its values --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[R]:
        return self._rows.records()

    def records(self, fields: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the records as objects, as iterating over the selection does.

        Args:
            fields: names of the fields to decode; records are then of a class with those fields alone. None is all.

        Raises:
            SchemaError: there is no field of a name.
            ShardReadError: while iterating: a record that is selected is damaged.
            RecordError: while iterating: one cannot be decoded.
        """
        return self._rows.records(fields)

    def columns(self, fields: Sequence[str] | None = None, size: int = 8192) -> Iterator[dict[str, Column]]:
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
            size: how many records at most; of large ones they are fewer, about 4 MiB.

        Raises:
            OptionError: `size` is no positive int.
            SchemaError: there is no field of a name.
            ShardReadError: while iterating: a record that is selected is damaged.
            RecordError: while iterating: one cannot be decoded.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise OptionError(f"size: expected an int of 1 or more, got {size!r}")
        return self._rows.columns(fields, size)

    def lengths(self, group: str | None = None) -> NDArray[np.int64]:
        """Return how many steps each record has, int64 `(n,)`, from the lengths files: nothing is parsed.

        Args:
            group: the alignment group; None is the first one.

        Raises:
            OptionError: there is no such group.
        """
        store = self._rows.store
        groups = store.manifest.schema.groups
        if not groups or group not in (None, *groups):
            raise OptionError(f"group: expected one of {', '.join(groups) or '(none: no feature list)'}, got {group!r}")
        return store.lengths(self._rows.array(), groups[0] if group is None else group)

    # For other libraries -----------------------------------------------------------------------------------------

    def to_arrow(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a stream of record batches, a `pyarrow.RecordBatchReader`: a row a record.

        >>> import tempfile, numpy as np, seqrecorder as sr
        >>> @sr.record
        ... class Sentence:
        ...     ids: np.ndarray = sr.feature_list("int64")
        >>> corpus = tempfile.mkdtemp()
        >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
        >>> sr.open(corpus)["train"].to_arrow().read_all().to_pydict()
        {'ids': [[1, 2, 3], [4]]}

        Feature lists are list columns, steps with a shape fixed-size lists, None and NaT are null, and NaN stays NaN.
        Of a sparse field there are the two columns `<field>/indices` and `<field>/values`.

        Raises:
            OptionError: Arrow has no type for a field: complex numbers, and times in units other than D, s, ms, us and
                ns; NaT in a field that may be None, too; or pyarrow is not installed.
            SchemaError: there is no field of a name.
        """
        return exports.to_arrow(self._rows, fields)

    def to_pandas(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a `pandas.DataFrame`, a row a record: see `to_arrow`.

        Raises:
            OptionError: pandas or pyarrow is not installed, Arrow has no type for a field, or one that may be None is
                NaN or NaT, which a frame cannot tell from that.
        """
        return exports.to_pandas(self._rows, fields)

    def to_polars(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a `polars.DataFrame`, a row a record: see `to_arrow`.

        Raises:
            OptionError: polars or pyarrow is not installed, or Arrow has no type for a field.
        """
        return exports.to_polars(self._rows, fields)

    def to_hf(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a `datasets.Dataset` of Hugging Face, in memory: see `to_arrow`.

        Raises:
            OptionError: datasets is not installed, or Arrow has no type for a field.
        """
        return exports.to_hf(self._rows, fields)

    def to_parquet(self, path: str | os.PathLike[str], fields: Sequence[str] | None = None, **options: Any) -> None:
        """Write the records as a Parquet file, a row a record, batch by batch; the file is there when it is complete.

        Its pages have checksums, unless `write_page_checksum=False` is among the options. Seconds become milliseconds.

        Args:
            path: of the file, which is replaced.
            fields: names of fields; None is all.
            options: for `pyarrow.parquet.ParquetWriter`, such as `compression="zstd"`.

        Raises:
            OptionError: pyarrow is not installed, or has no type for a field.
            ShardWriteError: the disk is full, or failed.
        """
        exports.to_parquet(self._rows, path, fields, options)

    def to_jsonl(self, path: str | os.PathLike[str], fields: Sequence[str] | None = None) -> None:
        """Write the records as lines of JSON, an object a record, batch by batch; `from_jsonl` is the way back.

        NaN and NaT become null, and times texts of ISO 8601.

        Args:
            path: of the file, which is replaced; packed where it ends in `.gz`, `.bz2`, `.xz` or `.zst`.
            fields: names of fields; None is all.

        Raises:
            OptionError: JSON holds no bytes, complex numbers, spans of time and infinities, nor NaN and NaT of a field
                that may be None: the field is named.
            ShardWriteError: the disk is full, or failed.
        """
        exports.to_jsonl(self._rows, path, fields)

    def to_columns(self, fields: Sequence[str] | None = None) -> dict[str, Column]:
        """Return the records as numpy arrays: for each field flat values, and the lengths of its rows.

        >>> import tempfile, numpy as np, seqrecorder as sr
        >>> @sr.record
        ... class Sentence:
        ...     ids: np.ndarray = sr.feature_list("int64")
        >>> corpus = tempfile.mkdtemp()
        >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
        >>> ids = sr.open(corpus)["train"].to_columns()["ids"]
        >>> ids.values, ids.steps
        (array([1, 2, 3, 4]), array([3, 1]))

        Raises:
            SchemaError: there is no field of a name.
        """
        return exports.to_columns(self._rows, fields)

    # Other selections --------------------------------------------------------------------------------------------

    def where(
        self, predicate: Callable[[Any], Any] | None = None, /, *, fields: Sequence[str] | None = None, **values: Any
    ) -> Selection[R]:
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
        return self._take(np.flatnonzero(matching(self._rows, predicate, fields, values)))

    def sample(self, size: float, *, seed: int) -> Selection[R]:
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
        return self._take(lowest_ranked(self._rows.store.splits, self._rows.positions, seed, int(count)))

    def sorted_by(
        self, by: str | Callable[[Any], Any], *, fields: Sequence[str] | None = None, reverse: bool = False
    ) -> Selection[R]:
        """Return the records in ascending order of a value; equal ones stay in their order.

        Args:
            by: name of a context field without a shape, or what gives a record's value.
            fields: names of the fields that a callable looks at; None is all.
            reverse: whether the order descends.

        Raises:
            OptionError: values have no order, as None has none.
            SchemaError: there is no field of a name.
        """
        if isinstance(by, str) and fields is not None:
            raise OptionError(f"fields: are for a callable; {by!r} is itself the field")
        values = values_by(self._rows, by, "sorted_by", fields)
        try:
            order = sorted(range(len(self)), key=values.__getitem__, reverse=reverse)
        except (TypeError, ValueError) as error:  # of an array, whether it is less has no one answer
            raise OptionError(
                f"sorted_by: values without an order: {error}; leave them out with `where` first"
            ) from None
        return self._take(np.array(order, np.int64))

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
    ) -> Parts[Selection[R]]:
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
            straddling: what becomes of records that begin in one part and end in another: `error`, `drop`, or `cut`:
                then each part has its steps of a record that has a time for each step.
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
            in_time, report = split_in_time(self._rows, at, time, end, straddling)
            return Parts({name: Selection(rows) for name, rows in in_time.items()}, report)
        _require_none({"time": time, "end": end}, "shares")
        parts, report = split_by_shares(self._rows, shares, by, stratify, seed)
        return Parts({name: self._take(places) for name, places in parts.items()}, report)

    def folds(
        self,
        count: int,
        *,
        by: str | Callable[[Any], Any] | None = None,
        stratify: str | Callable[[Any], Any] | None = None,
        time: str | None = None,
        end: str | None = None,
        straddling: Straddling | None = None,
        seed: int = 0,
    ) -> Folds[Selection[R]]:
        """Return pairs of selections for cross-validation: what is fitted on, and what is held out.

        Each record is held out once. With `time` the folds walk forward: of `count + 1` parts in time, each but the
        first is held out once, and what lies wholly before it is fitted on. With `by` and `time`, each fold holds out
        some of the groups in its time, and fits on the other groups before it.

        >>> import tempfile, numpy as np, seqrecorder as sr
        >>> @sr.record
        ... class Stock:
        ...     day: np.ndarray = sr.feature_list("int64")
        >>> corpus = tempfile.mkdtemp()
        >>> _ = sr.write([Stock(range(6)), Stock(range(6))], corpus)
        >>> for past, future in sr.open(corpus).all().folds(2, time="day"):
        ...     print([record.day.tolist() for record in past], [record.day.tolist() for record in future])
        [[0, 1], [0, 1]] [[2, 3], [2, 3]]
        [[0, 1, 2, 3], [0, 1, 2, 3]] [[4, 5], [4, 5]]

        Args:
            count: how many folds.
            by: as for `split`: groups are never on both sides.
            stratify: as for `split`.
            time: as for `split`.
            end: as for `split`.
            straddling: as for `split`; with `drop`, such records are held out, and not fitted on before. None is
                `cut` where records have a time for each step and begin together, else `error`.
            seed: as for `split`.

        Returns:
            A list of pairs; its `shares` say how far equal shares were missed.

        Raises:
            OptionError: options make no sense, or there are fewer records or groups than folds.
            SchemaError: there is no field of a name.
        """
        if time is not None:
            _require_none({"stratify": stratify}, "time")
            in_time, report = folds_in_time(self._rows, count, time, end, straddling, by=by, seed=seed)
            return Folds([(Selection(past), Selection(holdout)) for past, holdout in in_time], report)
        _require_none({"end": end}, "no time")
        pairs, report = folds_of(self._rows, count, by, stratify, seed)
        return Folds([(self._take(fit), self._take(holdout)) for fit, holdout in pairs], report)


def _require_none(options: Mapping[str, Any], beside: str) -> None:
    names = [name for name, value in options.items() if value is not None]
    if names:
        raise OptionError(f"{names[0]} does not go with {beside}; leave one of them out")


def rows_of(selection: Selection[Any]) -> Rows:
    """Return the rows inside a selection, for the other rooms; users have no need of them."""
    return selection._rows  # noqa: SLF001 - the one door


class Corpus(Generic[R]):
    """A dataset whose records are to be selected: `seqrecorder.open` makes it.

    Args:
        store: its records.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    @property
    def manifest(self) -> Manifest:
        """Manifest of the dataset."""
        return self._store.manifest

    @property
    def schema(self) -> Schema:
        """The schema of the records."""
        return self._store.schema

    def __repr__(self) -> str:
        return f"<Corpus: {repr(self.manifest)[1:-1]}>"

    def _repr_html_(self) -> str:
        return self.manifest._repr_html_()

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
            return Selection(Rows(self._store, parts[0]))
        each = [np.arange(part.start, part.stop) for part in parts]
        return Selection(Rows(self._store, np.concatenate([np.empty(0, np.int64), *each])))

    def all(self) -> Selection[R]:
        """Return all records, split by split in the manifest's order."""
        return Selection(Rows(self._store, range(self._store.order.records)))


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
