"""`open` and `Selection`: access to selected records of a dataset, in any order, read on demand.

Reading by position is in `record_store`, and conversion for other libraries is in `exports`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from seqrecorder.dataset import exports
from seqrecorder.dataset.checked_shards import Selected
from seqrecorder.dataset.folds_and_subsets import (
    Folds,
    Parts,
    folds_in_time,
    folds_of,
    matching,
    split_by_shares,
    split_in_time,
    values_by,
)
from seqrecorder.dataset.manifest import explaining_replacement, lengths_picture
from seqrecorder.dataset.record_store import RecordStore, Rows, ascends
from seqrecorder.dataset.split_shares import lowest_ranked
from seqrecorder.errors import DatasetError, OptionError, RecordNotFoundError, check_count
from seqrecorder.schema.display import cut, html_table, number_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from typing_extensions import TypeVar as TypeVarWithDefault

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.checked_shards import Origin
    from seqrecorder.dataset.folds_and_subsets import Straddling
    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.schema.schema import Schema

    R = TypeVarWithDefault("R", default=Any)
else:
    R = TypeVar("R")
"""The record class."""

T = TypeVar("T")

_SHOWN = 10  # records that a notebook shows
_WIDTH = 40  # characters per cell in a notebook
_DRAWN = 1 << 20  # largest selection whose lengths a notebook draws


class Selection(Selected, Generic[R]):
    """Selected records of a dataset, in a fixed order; `seqrecorder.open(path)[split]` returns one.

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

    Index with a position or a key (a str or bytes) to get a record. Index with a slice, an array of positions, a mask
    or a list of keys to get a selection. `|`, `&` and `-` are the union, intersection and difference of selections of
    one dataset. A selection is pickled as the location of the dataset and the positions of its records. It is a valid
    source for `torch.utils.data.DataLoader` and `grain.MapDataset.source`. It can be passed in place of a path and a
    split: `seqrecorder.read(train.where(label=3), batch=...)`.

    To write the result of a `to_` method as a dataset, use `seqrecorder.from_table`, or `write` with `schema=`.
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
        """Schema of the records."""
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
        except (DatasetError, OptionError):  # damaged or packed records: a notebook shows what it can
            return html_table(repr(self)[1:-1], heads, [])
        table = html_table(repr(self)[1:-1], heads, list(zip(*columns, strict=True)))
        if not groups or len(self) > _DRAWN:
            return table
        lengths, counts = np.unique(self.lengths(), return_counts=True)
        return table + lengths_picture({"selected": list(zip(lengths.tolist(), counts.tolist(), strict=True))})

    # Indexing and set operations -----------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: int | str | bytes) -> R: ...
    @overload
    def __getitem__(self, index: slice | range | list[Any] | tuple[Any, ...] | NDArray[Any]) -> Selection[R]: ...

    def __getitem__(self, index: Any) -> Any:
        rows = self._rows
        if isinstance(index, (str, bytes)):
            return rows.store.record(self._position_of_key(index))
        if isinstance(index, (list, tuple, range, np.ndarray)):
            return self._chosen(index)
        try:
            if isinstance(index, slice):
                return Selection(Rows(rows.store, rows.positions[index]))
            if isinstance(index, bool):
                raise TypeError
            position = operator.index(index)
        except (TypeError, ValueError):
            expected = "a position, a key of text or bytes, a slice of ints, positions or a mask"
            raise OptionError(f"expected {expected}, got {index!r:.100}") from None
        if not -len(self) <= position < len(self):
            raise RecordNotFoundError(f"{self!r} has no record {position} of {len(self):,}; for integer keys: where()")
        return rows.store.record(int(rows.positions[position]))

    def __getitems__(self, indices: Sequence[int]) -> list[R]:
        """Return the records at several positions; torch's `DataLoader` calls this method to fetch a batch."""
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
            expected = f"positions as ints, a mask of {len(self)} bools, or keys as a list"
            raise OptionError(f"expected {expected}, got an array of {places.dtype} and shape {places.shape}")
        outside = (places < -len(self)) | (places >= len(self))
        if outside.any():
            raise RecordNotFoundError(f"{self!r} has no record {int(places[outside][0])} of {len(self):,}")
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
        """Return the union of two selections.

        It is in written order if both sides are. Otherwise, the records of the left side come first.
        """
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        if ascends(left) and ascends(right):
            return self._at(np.union1d(left, right))
        both = np.concatenate([left, right])
        return self._at(both[np.sort(np.unique(both, return_index=True)[1])])

    def __and__(self, other: object) -> Selection[R]:
        """Return the intersection, in the order of the left side."""
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        return self._at(left[np.isin(left, right)])

    def __sub__(self, other: object) -> Selection[R]:
        """Return the difference, in the order of the left side.

        These are the records of the left side that the right side lacks.
        """
        if not isinstance(other, Selection):
            return NotImplemented
        left, right = self._with(other)
        return self._at(left[np.isin(left, right, invert=True)])

    def _with(self, other: Selection) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self._rows.store != other._rows.store:
            advice = "`merge` writes both; split parts of cut series again instead of intersecting them"
            raise OptionError(f"expected two selections of one dataset, got {self!r} and {other!r}; {advice}")
        return self._rows.array(), other._rows.array()

    def _at(self, positions: NDArray[np.int64]) -> Selection[R]:
        return Selection(Rows(self._rows.store, positions))

    def _resolve(self, **options: Any) -> Origin:
        with explaining_replacement(self._rows.store.manifest):
            return self._rows.resolve(**options)

    # Records and columns -----------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[R]:
        return self._rows.records()

    def records(self, fields: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the records as objects, in the order of the selection.

        Iterating over the selection does the same, but decodes all fields.

        Args:
            fields: names of the fields to decode; the records are then instances of a class with only those fields.
                None decodes all.

        Raises:
            SchemaError: a field does not exist.
            ShardReadError: a selected record is damaged (raised while iterating).
            RecordError: a record cannot be decoded (raised while iterating).
        """
        return self._rows.records(fields)

    def columns(self, fields: Sequence[str] | None = None, size: int = 8192) -> Iterator[dict[str, Column]]:
        """Yield the records as batches of columns, in the order of the selection.

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
            fields: names of the fields to parse; None parses all.
            size: maximum number of records in a batch; batches of large records have fewer, about 4 MiB.

        Raises:
            OptionError: `size` is not a positive int.
            SchemaError: a field does not exist.
            ShardReadError: a selected record is damaged (raised while iterating).
            RecordError: a record cannot be decoded (raised while iterating).
        """
        return self._rows.columns(fields, check_count("size", size))

    def lengths(self, group: str | None = None) -> NDArray[np.int64]:
        """Read the number of steps of each record, int64 `(n,)`, from the lengths files, without parsing records.

        Args:
            group: alignment group; None for the first one.

        Raises:
            OptionError: the group does not exist.
        """
        store = self._rows.store
        groups = store.manifest.schema.groups
        if not groups or group not in (None, *groups):
            raise OptionError(f"group: expected one of {', '.join(groups) or '(none: no feature list)'}, got {group!r}")
        return store.lengths(self._rows.array(), groups[0] if group is None else group)

    # Conversion for other libraries ------------------------------------------------------------------------------

    def to_arrow(self, fields: Sequence[str] | None = None) -> Any:
        """Convert the records to a stream of Arrow record batches (a `pyarrow.RecordBatchReader`), one row per record.

        >>> import tempfile, numpy as np, seqrecorder as sr
        >>> @sr.record
        ... class Sentence:
        ...     ids: np.ndarray = sr.feature_list("int64")
        >>> corpus = tempfile.mkdtemp()
        >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
        >>> sr.open(corpus)["train"].to_arrow().read_all().to_pydict()
        {'ids': [[1, 2, 3], [4]]}

        Feature lists become list columns, and steps with a shape become fixed-size lists. None and NaT become null; NaN
        stays NaN. A sparse field becomes two columns, `<field>/indices` and `<field>/values`.

        Raises:
            OptionError: Arrow has no type for a field (complex numbers, and times in units other than D, s, ms, us and
                ns); an optional field contains NaT; or pyarrow is not installed.
            SchemaError: a field does not exist.
        """
        return exports.to_arrow(self._rows, fields)

    def to_pandas(self, fields: Sequence[str] | None = None) -> Any:
        """Convert the records to a `pandas.DataFrame`, one row per record; see `to_arrow` for the types.

        Raises:
            OptionError: pandas or pyarrow is not installed, Arrow has no type for a field, or an optional field
                contains NaN or NaT, which a frame cannot distinguish from None.
        """
        return exports.to_pandas(self._rows, fields)

    def to_polars(self, fields: Sequence[str] | None = None) -> Any:
        """Convert the records to a `polars.DataFrame`, one row per record; see `to_arrow` for the types.

        Raises:
            OptionError: polars or pyarrow is not installed, or Arrow has no type for a field.
        """
        return exports.to_polars(self._rows, fields)

    def to_hf(self, fields: Sequence[str] | None = None) -> Any:
        """Convert the records to a Hugging Face `datasets.Dataset` in memory; see `to_arrow` for the types.

        Raises:
            OptionError: datasets is not installed, or Arrow has no type for a field.
        """
        return exports.to_hf(self._rows, fields)

    def to_parquet(self, path: str | os.PathLike[str], fields: Sequence[str] | None = None, **options: Any) -> None:
        """Write the records to a Parquet file, one row per record, batch by batch.

        The file appears only when it is complete. Its pages have checksums, unless `options` contains
        `write_page_checksum=False`. Times in seconds are stored in milliseconds.

        Args:
            path: path of the file; an existing file is replaced.
            fields: names of the fields to write; None writes all.
            options: keyword arguments for `pyarrow.parquet.ParquetWriter`, such as `compression="zstd"`.

        Raises:
            OptionError: pyarrow is not installed, or Arrow has no type for a field.
            ShardWriteError: the disk is full or failed.
        """
        exports.to_parquet(self._rows, path, fields, options)

    def to_jsonl(self, path: str | os.PathLike[str], fields: Sequence[str] | None = None) -> None:
        """Write the records to a JSON Lines file, one object per record, batch by batch; `from_jsonl` reads it.

        NaN and NaT become null, and times become ISO 8601 strings.

        Args:
            path: path of the file; an existing file is replaced. The suffixes `.gz`, `.bz2`, `.xz` and `.zst` select a
                compression.
            fields: names of the fields to write; None writes all.

        Raises:
            OptionError: a field has values that JSON cannot represent: bytes, complex numbers, timedeltas, infinities,
                or NaN or NaT in an optional field. The message names the field.
            ShardWriteError: the disk is full, or failed.
        """
        exports.to_jsonl(self._rows, path, fields)

    def to_columns(self, fields: Sequence[str] | None = None) -> dict[str, Column]:
        """Read all records into NumPy arrays: for each field, its concatenated values and the lengths of its rows.

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
            SchemaError: a field does not exist.
        """
        return exports.to_columns(self._rows, fields)

    # Derived selections ------------------------------------------------------------------------------------------

    def where(
        self, predicate: Callable[[Any], Any] | None = None, /, *, fields: Sequence[str] | None = None, **values: Any
    ) -> Selection[R]:
        """Select the records that meet all conditions, keeping their order.

        Args:
            predicate: function that takes a record and returns True to select it.
            fields: names of the fields to parse; the records passed to the predicate have only these. None parses all.
            values: wanted values, as keyword arguments named after context fields without a shape. A list, tuple, set,
                range or array matches any of its items; None matches missing values of an optional field.

        Raises:
            OptionError: there is no condition, or a field cannot have the wanted value.
            SchemaError: a field does not exist.
            RecordError: a record cannot be decoded, or the predicate failed; the error names the position in this
                selection.
        """
        return self._take(np.flatnonzero(matching(self._rows, predicate, fields, values)))

    def sample(self, size: float, *, seed: int) -> Selection[R]:
        """Draw records at random without replacement, keeping their order.

        Whether a record is drawn depends on its split and its position within the split, so most of the drawn records
        stay the same after a small append.

        Args:
            size: number of records (an int), or their proportion of the selection (a float).
            seed: seed of the draw; equal seeds draw the same records.

        Raises:
            OptionError: `size` exceeds the selection, or is neither a count nor a proportion.
        """
        if isinstance(size, bool) or not isinstance(size, (int, float, np.integer, np.floating)):
            raise OptionError(f"sample: expected a number of records as an int, or a share as a float, got {size!r}")
        count = round(size * len(self)) if isinstance(size, (float, np.floating)) and 0 <= size <= 1 else size
        if not isinstance(count, (int, np.integer)) or not 0 <= count <= len(self):
            raise OptionError(f"sample: expected an int up to {len(self)}, or a share in [0, 1] as float, got {size!r}")
        if count == len(self):
            return self
        return self._take(lowest_ranked(self._rows.store.splits, self._rows.positions, seed, int(count)))

    def sorted_by(
        self, by: str | Callable[[Any], Any], *, fields: Sequence[str] | None = None, reverse: bool = False
    ) -> Selection[R]:
        """Sort the records by a value; records with equal values keep their relative order.

        NaN and NaT come last, in either direction.

        Args:
            by: name of a context field without a shape, or a function that computes a value from a record.
            fields: names of the fields to parse for the function; None for all fields.
            reverse: whether to sort in descending order.

        Raises:
            RecordError: a function failed; the error names the position of the record in this selection.
            OptionError: the values cannot be compared, for example because one is None.
            SchemaError: a field does not exist.
        """
        if isinstance(by, str) and fields is not None:
            raise OptionError(f"fields: are for a callable; {by!r} is itself the field")
        values = values_by(self._rows, by, "sorted_by", fields)
        try:
            # NaN and NaT differ from themselves.
            pairs = [((value != value) != reverse, value) for value in values]  # noqa: PLR0124
            order = sorted(range(len(self)), key=pairs.__getitem__, reverse=reverse)
        except (TypeError, ValueError) as error:  # comparing two arrays gives more than one answer
            raise OptionError(f"sorted_by: values without an order: {error}; leave them out with `where`") from None
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
        """Split the records into named parts, by proportion or by time; each part keeps the order of the records.

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
            shares: mapping from part name to its proportion of the records; the proportions must add up to 1. Without
                `by`, the size of a part is off by less than one record overall, and by less than two in each stratum.
            by: name of a context field, or a function that returns the group of a record. The records of a group stay
                together. If there are enough small groups and no `stratify`, the size of a part is off by less than the
                size of the largest group. By default, chunks are grouped by their key.
            stratify: name of a context field, or a function that returns the stratum of a record. Each stratum is split
                in the same proportions, as closely as whole groups allow.
            at: mapping from part name to the time at which the part starts, in ascending order; the first part has
                `...` instead of a time.
            time: name of the field with the time of a record; for a feature list, the time of its first step.
            end: name of the field with the end time of a record; by default, the last step of `time`, or `time` itself
                if it is a context field.
            straddling: treatment of records that start in one part and end in another: `error`, `drop`, or `cut`, which
                divides the steps among the parts and needs a time for each step.
            seed: seed of the draw; equal selections and seeds give the same parts.

        Returns:
            A dictionary of the parts, which `write` accepts; its attribute `shares` contains the actual proportions.

        Raises:
            RecordError: a function failed; the error names the position of the record in this selection.
            OptionError: the options contradict each other, or there are fewer groups than parts.
            SchemaError: a field does not exist.
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
        """Split the records into folds for cross-validation: pairs of a training and a held-out selection.

        Each record is held out once. With `time`, the folds walk forward: the records are divided into `count + 1`
        consecutive periods, each period except the first is held out once, and the training records lie wholly before
        it. With both `time` and `by`, each fold holds out a proportion of the groups in its period, and trains on the
        earlier records of all other groups.

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
            count: number of folds.
            by: field name or function for the group of a record, as in `split`; a group is never on both sides of a
                fold.
            stratify: field name or function for the stratum of a record, as in `split`.
            time: name of the field with the time of a record, as in `split`.
            end: name of the field with the end time of a record, as in `split`.
            straddling: treatment of records that straddle periods, as in `split`. With `drop`, they are left out of
                training, but still held out. The default is `cut` if records have a time for each step but start at too
                few distinct times to stay whole, and `error` otherwise.
            seed: seed of the draw.

        Returns:
            A list of pairs; its attribute `shares` contains the actual proportions.

        Raises:
            RecordError: a function failed; the error names the position of the record in this selection.
            OptionError: the options contradict each other, or there are fewer records or groups than folds.
            SchemaError: a field does not exist.
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
    """Return the rows of a selection, for the other packages of seqrecorder."""
    return selection._rows  # noqa: SLF001 - the only access from outside


class Corpus(Mapping[str, Selection[R]]):
    """Open dataset: a mapping from split name to `Selection`, as returned by `seqrecorder.open`.

    Args:
        store: records of the dataset.
    """

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    @property
    def manifest(self) -> Manifest:
        """Manifest of the dataset."""
        return self._store.manifest

    @property
    def schema(self) -> Schema:
        """Schema of the records."""
        return self._store.schema

    def __repr__(self) -> str:
        return f"<Corpus: {repr(self.manifest)[1:-1]}>"

    def _repr_html_(self) -> str:
        return self.manifest._repr_html_()

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the splits."""
        return iter(self._store.splits)

    def __len__(self) -> int:
        """Return the number of splits."""
        return len(self._store.splits)

    def __contains__(self, split: object) -> bool:
        return split in self._store.splits

    def get(self, split: str, default: Any = None, /) -> Any:
        """Select the records of one split, or return `default` if it does not exist."""
        return self[split] if split in self else default  # noqa: SIM401 - it would call itself

    def __getitem__(self, splits: str | tuple[str, ...]) -> Selection[R]:
        """Select the records of one split, or of several splits in the given order.

        Raises:
            DatasetNotFoundError: a split does not exist.
            OptionError: a name is not a str.
        """
        names = splits if isinstance(splits, tuple) else (splits,)
        parts = [self._store.splits[self.manifest.split(name).name] for name in names]
        if len(parts) == 1:
            return Selection(Rows(self._store, parts[0]))
        each = [np.arange(part.start, part.stop) for part in parts]
        return Selection(Rows(self._store, np.concatenate([np.empty(0, np.int64), *each])))

    def all(self) -> Selection[R]:
        """Select all records, split by split in the order of the manifest."""
        return Selection(Rows(self._store, range(self._store.order.records)))


@overload
def open(path: str | os.PathLike[str], *, schema: type[T]) -> Corpus[T]: ...  # noqa: A001 - see below
@overload
def open(path: str | os.PathLike[str], *, schema: Any = ...) -> Corpus[Any]: ...  # noqa: A001 - see below
def open(path: str | os.PathLike[str], *, schema: Any = None) -> Corpus[Any]:  # noqa: A001 - as `gzip.open` is
    """Open a dataset to select records from it; this reads only the manifest.

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
        path: directory or URL of the dataset.
        schema: record class to read the records as; None builds a class from the manifest.

    Raises:
        DatasetNotFoundError: there is no dataset at the path.
        ManifestError: the manifest is damaged, or its format is newer than this release.
        SchemaMismatchError: the data cannot be read as `schema`.
    """
    return Corpus(RecordStore(path, schema))
