"""What a selection gives: values, exports, and the selections made of it (`where`, `split`, `folds`)."""

from __future__ import annotations

import abc
import functools
import importlib
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import attrs
import numpy as np

from seqrecorder.codec.arrow import arrow_batch, arrow_schema, one_array, pyarrow
from seqrecorder.codec.columns import Column, builder, scatter
from seqrecorder.codec.json import check_json, json_lines
from seqrecorder.dataset.splits import Ratios, Shares, lowest_ranked, ranked, shares_of, time_field, time_of
from seqrecorder.errors import OptionError
from seqrecorder.schema.conversion import Mismatch
from seqrecorder.storage.files import check_names, open_text, replaced_file
from seqrecorder.storage.threads import ahead
from seqrecorder.wire.byte_rows import bounds

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from typing_extensions import Self

    from seqrecorder.dataset.record_store import RecordStore
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema
    from seqrecorder.wire.byte_rows import Messages


S = TypeVar("S", bound="SelectedValues")


class Parts(dict[str, S]):
    """The parts of a selection by name, as `write` takes them.

    Attributes:
        shares: how near they came to their shares.
    """

    def __init__(self, parts: Mapping[str, S], shares: Shares) -> None:
        super().__init__(parts)
        self.shares = shares

    def __repr__(self) -> str:
        return f"<Parts: {', '.join(f'{name} {len(part):,}' for name, part in self.items())}>"

    def _repr_html_(self) -> str:
        return self.shares._repr_html_()

    def __reduce__(self) -> tuple[object, ...]:
        return (Parts, (dict(self), self.shares))


class Folds(list[tuple[S, S]]):
    """Pairs of selections: what is fitted on, and what is held out.

    Attributes:
        shares: how near the held ones came to equal shares.
    """

    def __init__(self, folds: Sequence[tuple[S, S]], shares: Shares) -> None:
        super().__init__(folds)
        self.shares = shares

    def __repr__(self) -> str:
        return f"<Folds: {', '.join(f'{len(fit):,} + {len(held):,}' for fit, held in self)}>"

    def _repr_html_(self) -> str:
        return self.shares._repr_html_()

    def __reduce__(self) -> tuple[object, ...]:
        return (Folds, (list(self), self.shares))


def split_by_shares(selection: S, shares: Any, by: Any, stratify: Any, seed: int) -> Parts[S]:
    """Return the parts of a selection that have some shares of it; see `Selection.split`."""
    if not isinstance(shares, Mapping):
        raise OptionError(f"split: expected shares by name, as {{'train': 0.8, 'eval': 0.2}}, got {shares!r}")
    check_names(list(shares), "split")
    wanted = dict(Ratios(shares).shares)
    part, report = _dealt(selection, wanted, by, stratify, seed)
    return Parts({name: selection.at(np.flatnonzero(part == place)) for place, name in enumerate(wanted)}, report)


def folds_of(selection: S, count: Any, by: Any, stratify: Any, seed: int) -> Folds[S]:
    """Return folds of equal shares; see `Selection.folds`."""
    names = [f"fold {number}" for number in range(check_folds(count))]
    if len(selection) < count:
        raise OptionError(f"folds: {count} folds need as many records, there are {len(selection)}")
    part, report = _dealt(selection, dict(zip(names, [1 / count] * count, strict=True)), by, stratify, seed)
    pairs = [(np.flatnonzero(part != place), np.flatnonzero(part == place)) for place in range(count)]
    return Folds([(selection.at(fit), selection.at(held)) for fit, held in pairs], report)


def check_folds(count: Any) -> int:
    """Return how many folds there are to be, or raise `OptionError`."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 2:  # noqa: PLR2004 - one is none
        raise OptionError(f"folds: expected an int of 2 or more, got {count!r}")
    return int(count)


def values_by(selection: SelectedValues, by: Any, option: str) -> list[Any]:
    """Return the value of each record: of a field, or what a callable gives.

    Raises:
        OptionError: it is neither, or the values cannot be compared.
    """
    if isinstance(by, str):
        return selection.values_of([by])[0]
    if callable(by):
        return [by(record) for record in selection]
    raise OptionError(f"{option}: expected the name of a field, or a callable, got {by!r}")


def _coded(selection: SelectedValues, by: Any, option: str) -> tuple[NDArray[np.int64], list[Any]]:
    """Return the number of each record's value, and the values by their numbers."""
    known: dict[Any, int] = {}
    try:
        codes = [known.setdefault(value, len(known)) for value in values_by(selection, by, option)]
    except TypeError as error:
        raise OptionError(f"{option}: expected values that can be told apart by their hash: {error}") from None
    return np.array(codes, np.int64), list(known)


def _dealt(
    selection: SelectedValues, shares: Mapping[str, float], by: Any, stratify: Any, seed: int
) -> tuple[NDArray[np.int64], Shares]:
    """Return the number of each record's part, and how near they came to their shares."""
    ranks = ranked(selection.store.splits, selection.positions, seed)
    strata, kinds = (np.zeros(len(selection), np.int64), [None])
    if stratify is not None:
        strata, kinds = _coded(selection, stratify, "stratify")
    targets = np.array(list(shares.values()))
    if by is None:
        part = _deal_records(targets, strata, ranks, len(kinds))
    else:
        groups, names = _coded(selection, by, "by")
        if None in names:
            raise OptionError(
                "by: some records have no group (None): leave them out by `where`, or group by a callable"
            )
        if len(names) < np.count_nonzero(targets):
            raise OptionError(
                f"by: {len(names)} groups for {np.count_nonzero(targets)} parts, of which each needs one or more"
            )
        part = _deal_groups(targets, groups, strata, ranks)[groups] if names else groups
    counts = np.zeros((max(1, len(kinds)), targets.size), np.int64)
    np.add.at(counts, (strata, part), 1)
    got = shares_of(shares, counts.sum(0).tolist())
    each = (
        {kind: shares_of(shares, row.tolist()) for kind, row in zip(kinds, counts, strict=True)}
        if stratify is not None
        else {}
    )
    return part, Shares(dict(shares), got, each)


def _deal_records(
    targets: NDArray[np.float64], strata: NDArray[np.int64], ranks: NDArray[np.uint64], kinds: int
) -> NDArray[np.int64]:
    """Return the part of each record: of each stratum as near to the shares as whole records allow, and so of all.

    What rounding leaves of one stratum is carried to the next, so that no share is missed by a record in all, and none
    by two in a stratum.
    """
    order = np.lexsort((ranks, strata))
    part = np.empty(strata.size, np.int64)
    carried = np.zeros(targets.size)
    start = 0
    for size in np.bincount(strata, minlength=kinds).tolist():
        ideal = targets * size + carried
        counts = np.maximum(0, np.floor(ideal + 1e-9)).astype(np.int64)
        while counts.sum() > size:  # what was carried made them more than there are
            counts[np.argmax(np.where(counts > 0, counts - ideal, -np.inf))] -= 1
        for place in np.argsort(counts - ideal, kind="stable")[: size - int(counts.sum())].tolist():
            counts[place] += 1
        carried = ideal - counts
        part[order[start : start + size]] = np.repeat(np.arange(targets.size), counts)
        start += size
    return part


def _deal_groups(
    targets: NDArray[np.float64], groups: NDArray[np.int64], strata: NDArray[np.int64], ranks: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Return the part of each group: the largest first, each to the part that lacks most of what it has.

    Lacks are weighed by stratum, so that a rare one counts as much as a frequent one.
    """
    count = int(groups.max()) + 1
    held = np.zeros((count, int(strata.max()) + 1))
    np.add.at(held, (groups, strata), 1)
    held = np.column_stack([held, held.sum(1)])  # all records are one stratum more, so that parts are equally large
    first = np.full(count, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(first, groups, ranks)
    totals = held.sum(0)
    lacks = targets[:, None] * totals
    weighed = held / totals**2
    part = np.empty(count, np.int64)
    waiting = int(np.count_nonzero(targets))  # parts that have no group
    is_empty = targets > 0
    order = np.lexsort((first, -held[:, :-1].max(1), -held[:, -1]))
    for done, group in enumerate(order.tolist()):
        gain = lacks @ weighed[group]
        gain[targets <= 0] = -np.inf
        if count - done <= waiting:  # each of the last ones goes to a part that has none
            gain[~is_empty] = -np.inf
        place = int(gain.argmax())
        part[group] = place
        lacks[place] -= held[group]
        waiting -= int(is_empty[place])
        is_empty[place] = False
    return part


_SEVERAL = (list, tuple, set, frozenset, range, np.ndarray)


@attrs.frozen
class Condition:
    """What is asked of each record.

    Attributes:
        schema: of the fields that are parsed for it.
        predicate: what is called with a record of these; None where nothing is.
        values: by field, the values that are wanted.
    """

    schema: Schema
    predicate: Callable[[Any], Any] | None
    values: Mapping[str, Sequence[Any]]

    @property
    def fields(self) -> list[str]:
        """The names of the fields that are parsed for it."""
        return [field.name for field in self.schema.fields]

    def of(self, columns: Mapping[str, Column]) -> NDArray[np.bool_]:
        """Return for which records it holds, bool `(n,)`."""
        masks = [_is_among(columns[name], values) for name, values in self.values.items()]
        if self.predicate is not None:
            given = [scatter(field, columns[field.name]) for field in self.schema.fields]
            masks.append(np.array([_answer(self.predicate, record) for record in builder(self.schema)(given)], bool))
        wanted: NDArray[np.bool_] = np.logical_and.reduce(masks)
        return wanted


def _answer(predicate: Callable[[Any], Any], record: Any) -> bool:
    answer = predicate(record)
    if getattr(answer, "shape", ()):
        raise OptionError(
            f"where: expected True or False of the predicate, got an array of shape {answer.shape}: use its any() "
            "or all()"
        )
    return bool(answer)


def condition(
    schema: Schema,
    predicate: Callable[[Any], Any] | None,
    fields: Sequence[str] | None,
    values: Mapping[str, Any],
) -> Condition:
    """Return the condition of the arguments of `Selection.where`; raises what that does."""
    if predicate is not None and not callable(predicate):
        raise OptionError(f"where: expected a callable, and values by the names of fields, got {predicate!r:.100}")
    if predicate is None and (fields is not None or not values):
        raise OptionError("where: expected a predicate, or values as in `where(label=3)`, got neither")
    require_fields(schema, list(values))
    wanted = {name: _values(schema[name], value) for name, value in values.items()}
    asked = list(wanted)
    if predicate is not None:
        asked += [field.name for field in schema.select(fields).fields]
    return Condition(schema.select(asked), predicate, wanted)


def require_fields(schema: Schema, names: Sequence[str]) -> None:
    """Raise `OptionError` for fields that do not have one value in each record, `SchemaError` for unknown ones."""
    for name in names:
        field = schema[name]
        if field.is_list or field.shape or field.sparse is not None:
            raise OptionError(
                f"{name!r}: expected a context field without a shape, got a {field.kind} of shape {field.shape}; "
                "`where` takes a predicate for others: where(lambda record: ..., fields=[...])"
            )


def _values(field: Field, given: Any) -> list[Any]:
    several = list(given) if isinstance(given, _SEVERAL) else [given]
    try:
        return [field.exact(value) for value in several]
    except (Mismatch, TypeError, ValueError, OverflowError) as error:
        expected = error.expected if isinstance(error, Mismatch) else field.element.name
        got = error.got if isinstance(error, Mismatch) else repr(given)
        raise OptionError(f"where: field {field.name!r}: expected {expected}, got {got}") from None


def _is_among(column: Column, wanted: Sequence[Any]) -> NDArray[np.bool_]:
    """Return which records have one of some values."""
    some = [value for value in wanted if value is not None]
    if column.values.dtype == object:
        known = set(some)
        own = np.array([value in known for value in column.values.tolist()], bool)
    else:
        own = np.isin(column.values, np.array(some, column.values.dtype))
    if column.present is None:
        return own
    out = np.full(column.present.shape, None in wanted)
    out[column.present] = own
    return out


Straddling = Literal["error", "drop"]


def split_in_time(selection: S, at: Any, time: Any, end: Any, straddling: Any) -> Parts[S]:
    """Return parts that follow one another in time; see `Selection.split`."""
    if not isinstance(at, Mapping) or not at or next(iter(at.values())) is not ... or ... in list(at.values())[1:]:
        raise OptionError(
            "at: expected the time from which on each part is, and ... for the first, as in "
            f"{{'train': ..., 'eval': '2026-01-01'}}, got {at!r}"
        )
    check_names(list(at), "split")
    starts, ends, field = times_of(selection, time, end)
    bounds = np.array([time_of(field, bound) for bound in list(at.values())[1:]], starts.dtype)
    if (bounds[1:] <= bounds[:-1]).any():
        raise OptionError(f"at: expected times that ascend, got {at!r}")
    first, last = np.searchsorted(bounds, starts, "right"), np.searchsorted(bounds, ends, "right")
    straddles = first != last
    _check_straddling(straddles, straddling, starts, ends)
    places = [np.flatnonzero((first == place) & ~straddles) for place in range(len(at))]
    got = {name: part.size / max(1, len(selection)) for name, part in zip(at, places, strict=True)}
    shares = Shares(got, got, left_out=int(straddles.sum()))
    return Parts({name: selection.at(part) for name, part in zip(at, places, strict=True)}, shares)


def folds_in_time(selection: S, count: Any, time: Any, end: Any, straddling: Any) -> Folds[S]:
    """Return walk-forward folds; see `Selection.folds`."""
    count = check_folds(count)
    starts, ends, _ = times_of(selection, time, end)
    ordered = np.sort(starts)
    size = ordered.size // (count + 1)
    if not size:
        raise OptionError(f"folds: {count} folds in time need {count + 1} records or more, there are {ordered.size}")
    bounds = ordered[[ordered.size - (count - number) * size for number in range(count)]]
    if (bounds[1:] <= bounds[:-1]).any() or bounds[0] <= ordered[0]:
        values, counts = np.unique(starts, return_counts=True)
        together = f"{counts.max():,} of {starts.size:,} records begin at {values[counts.argmax()]}"
        cut = "write(selection, path, splits={...}, time=..., straddling='cut')"
        raise OptionError(
            f"folds: expected records that begin at {count + 1} times or more, far enough apart for {count} folds; "
            f"{together}, and folds hold whole records: ask for fewer folds, or cut the series in time: {cut}"
        )
    pairs, straddling_once = [], np.zeros(ordered.size, bool)
    for number, bound in enumerate(bounds):
        straddles = (starts < bound) & (ends >= bound)
        held = starts >= bound
        if number + 1 < count:
            held &= starts < bounds[number + 1]
        straddling_once |= straddles
        pairs.append((np.flatnonzero(ends < bound), np.flatnonzero(held)))
    _check_straddling(straddling_once, straddling, starts, ends)
    names = [f"fold {number}" for number in range(count)]
    got = {name: held.size / ordered.size for name, (_, held) in zip(names, pairs, strict=True)}
    wanted = dict(zip(names, [size / ordered.size] * count, strict=True))
    shares = Shares(wanted, got, left_out=int(straddling_once.sum()))
    return Folds([(selection.at(fit), selection.at(held)) for fit, held in pairs], shares)


def times_of(selection: SelectedValues, time: Any, end: Any) -> tuple[NDArray[Any], NDArray[Any], Field]:
    """Return when each record begins and ends, and the field that says so."""
    field = time_field(selection.schema, time, "time")
    other = field if end is None else time_field(selection.schema, end, "end")
    starts: list[NDArray[Any]] = [np.empty(0, field.element.numpy)]
    ends: list[NDArray[Any]] = [np.empty(0, other.element.numpy)]
    for columns in selection.columns(list({field.name, other.name})):
        for wanted, parts, is_end in ((field, starts, False), (other, ends, True)):
            column = columns[wanted.name]
            values = column.values
            if column.present is not None or (wanted.is_list and (column.steps == 0).any()):
                raise OptionError(f"time: some records have no {wanted.name!r}; leave them out by `where` first")
            if wanted.is_list:
                stops = np.cumsum(column.steps)
                values = values[stops - 1] if is_end else values[stops - column.steps]
            parts.append(values)
    begin, finish = np.concatenate(starts), np.concatenate(ends)
    unknown = np.isnat if begin.dtype.kind in "mM" else np.isnan
    if unknown(begin).any() or unknown(finish).any():
        raise OptionError("time: some records have a time that is none (NaT, NaN); leave them out by `where` first")
    if (finish < begin).any():
        place = int(np.argmax(finish < begin))
        raise OptionError(
            f"end: record {place} of the selection ends at {finish[place]}, before it begins: {begin[place]}"
        )
    return begin, finish, field


def _check_straddling(straddles: NDArray[np.bool_], straddling: Any, starts: Any, ends: Any) -> None:
    if straddling not in ("error", "drop"):
        raise OptionError(
            f"straddling: expected 'error' or 'drop', got {straddling!r}; a selection holds whole records, which "
            "`write` cuts: write(selection, path, splits={...}, time=..., straddling='cut')"
        )
    if straddles.any() and straddling == "error":
        place = int(straddles.argmax())
        raise OptionError(
            f"{int(straddles.sum())} records lie on both sides of a time, such as record {place} of the selection, "
            f"from {starts[place]} to {ends[place]}; leave them out by straddling='drop', or write them in parts"
        )


T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    R = TypeVarWithDefault("R", default=Any)
else:
    R = TypeVar("R")
"""The class of the records."""

_SIZE = 8192


class SelectedValues(abc.ABC, Generic[R]):
    """Records of a dataset by their positions, in some order, and their values once these are asked for.

    Args:
        store: the records of the dataset.
        positions: of the records that are selected, a range where they are one.
    """

    def __init__(self, store: RecordStore, positions: range | NDArray[np.int64]) -> None:
        self._store = store
        self._positions = _as_range(positions)

    @abc.abstractmethod
    def at(self, places: NDArray[np.int64]) -> Self:
        """Return the records at some places."""

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

    def __iter__(self) -> Iterator[R]:
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
        return itertools.chain.from_iterable(self._decoded(functools.partial(self._store.records, decoder)))

    def _decoded(self, decode: Callable[[NDArray[np.int64], Messages], T], size: int = _SIZE) -> Iterator[T]:
        """Yield what is made of the records, many at a time, in the order of the selection; threads do it ahead."""
        store = self._store.forward()
        parts = ((positions, store.messages(positions)) for positions in self.windows(size))
        for part, made in ahead(lambda part: decode(*part), parts, size=lambda part: part[1].nbytes):
            yield made.result()
            del part, made

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
            size: how many records at most; of large ones they are fewer, about 4 MiB.

        Raises:
            OptionError: `size` is no positive int.
            SchemaError: there is no field of a name.
            ShardReadError: while iterating: a record that is selected is damaged.
            RecordError: while iterating: one cannot be decoded.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise OptionError(f"size: expected an int of 1 or more, got {size!r}")
        return self._decoded(functools.partial(self._store.decode, self._store.decoder(fields)), size)

    def joined_columns(self, fields: Sequence[str] | None = None) -> Iterator[dict[str, Column]]:
        """Yield what `columns` does; texts that no record may lack are rows of bytes, and no objects."""
        return self._decoded(functools.partial(self._store.decode, self._store.decoder(fields, joined=True)))

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

    def _array(self, start: int, stop: int) -> NDArray[np.int64]:
        part = self._positions[start:stop]
        return np.arange(part.start, part.stop, part.step) if isinstance(part, range) else part

    def windows(self, size: int = _SIZE) -> Iterator[NDArray[np.int64]]:
        """Yield the positions, as many at a time as are held at once."""
        window = self._store.window(size)
        for start in range(0, len(self), window):
            yield self._array(start, start + window)


def scalars(column: Column) -> list[Any]:
    """Return the values of a context field without a shape, None where a record has none."""
    values: list[Any] = column.values.tolist() if column.values.dtype == object else list(column.values)
    if column.present is None:
        return values
    rest = iter(values)
    return [next(rest) if here else None for here in column.present.tolist()]


def ascends(positions: NDArray[np.int64]) -> bool:
    """Check whether each position is greater than the one before."""
    return bool((np.diff(positions) > 0).all())


def _as_range(positions: range | NDArray[np.int64]) -> range | NDArray[np.int64]:
    """Return positions as a range if they are one after the other; an array that nobody can change else."""
    if isinstance(positions, range):
        return positions
    if positions.size and int(positions[-1]) - int(positions[0]) == positions.size - 1 and ascends(positions):
        return range(int(positions[0]), int(positions[-1]) + 1)
    own: NDArray[np.int64] = positions
    if own.flags.writeable or own.base is not None:
        own = own.copy()
        own.flags.writeable = False
    return own


_MOST_SECONDS = (2**63 - 1) // 1000  # that int64 can count in milliseconds, as polars and Parquet do


class Exports(SelectedValues[R]):
    """The methods that hand a selection on; nothing but what is asked for is parsed, and no object made for a record.

    `fields` are names of fields, in whatever order; None is all of them. The way back is `seqrecorder.from_table`, or
    `write` with `schema=`.
    """

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
        return _reader(self, fields)

    def to_pandas(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a `pandas.DataFrame`, a row a record: see `to_arrow`.

        Raises:
            OptionError: pandas or pyarrow is not installed, Arrow has no type for a field, or one that may be None is
                NaN or NaT, which a frame cannot tell from that.
        """
        _library("pandas")
        table = _reader(self, fields).read_all()
        for field in self.schema.select(fields).fields:
            is_scalar = not (field.is_list or field.shape or field.sparse is not None)
            if is_scalar and field.optional and field.element.has_nan:
                values = one_array(table[field.name].drop_null()).to_numpy(zero_copy_only=False)
                if np.isnan(values).any():
                    raise OptionError(
                        f"field {field.name!r}: pandas cannot tell NaN from None, which it may be; leave it out "
                        "(fields=), or go to polars"
                    )
        try:
            return table.to_pandas(integer_object_nulls=True)  # integers that may be None would become floats
        except (ValueError, OverflowError) as error:
            days = [field.name for field in self.schema.fields if field.element.name == "datetime64[D]"]
            raise OptionError(
                f"pandas has the days of Python, of the years 1 to 9999, for {', '.join(map(repr, days))}: {error}; "
                "leave the field out (fields=), or go to polars"
            ) from error

    def to_polars(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a `polars.DataFrame`, a row a record: see `to_arrow`.

        Raises:
            OptionError: polars or pyarrow is not installed, or Arrow has no type for a field.
        """
        polars = _library("polars")
        return polars.from_arrow(_within_milliseconds(_reader(self, fields)).read_all())

    def to_hf(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a `datasets.Dataset` of Hugging Face, in memory: see `to_arrow`.

        Raises:
            OptionError: datasets is not installed, or Arrow has no type for a field.
        """
        datasets = _library("datasets")
        return datasets.Dataset(_reader(self, fields).read_all())

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
        optional = {field.name for field in self.schema.fields if field.optional}
        reader = _for_parquet(_within_milliseconds(_reader(self, fields)), optional)
        from pyarrow import parquet

        options.setdefault("write_page_checksum", True)
        with replaced_file(path) as part, parquet.ParquetWriter(part, reader.schema, **options) as writer:
            for batch in reader:
                writer.write_batch(batch)

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
        schema = self.schema.select(fields)
        check_json(schema)
        with replaced_file(path) as part, open_text(part) as file:
            for columns in self.columns(fields):
                file.writelines(f"{line}\n" for line in json_lines(schema, columns))

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
        schema = self.schema.select(fields)
        parts = list(self.columns(fields))
        return {field.name: _joined(field, [part[field.name] for part in parts]) for field in schema.fields}


def _reader(selection: SelectedValues, fields: Sequence[str] | None) -> Any:
    pa = pyarrow()
    schema = selection.schema.select(fields)
    batches = (arrow_batch(schema, columns) for columns in selection.joined_columns(fields))
    return pa.RecordBatchReader.from_batches(arrow_schema(schema), batches)


def _within_milliseconds(reader: Any) -> Any:
    """Return a stream whose seconds were all found to be so near to 1970 that they have milliseconds."""
    pa = pyarrow()

    def units(kind: Any) -> Any:
        while pa.types.is_nested(kind):
            kind = kind.value_type
        return getattr(kind, "unit", None)

    def checked(batch: Any) -> Any:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if units(array.type) != "s":
                continue
            while pa.types.is_nested(array.type):
                array = array.flatten()  # noqa: PLW2901 - what is inside
            seconds = array.drop_null().view(pa.int64()).to_numpy()
            if seconds.size and not -_MOST_SECONDS <= seconds.min() <= seconds.max() <= _MOST_SECONDS:
                raise OptionError(
                    f"field {name!r}: expected times that can be counted in milliseconds, got one further from 1970; "
                    "leave the field out (fields=), or go to Arrow"
                )
        return batch

    return pa.RecordBatchReader.from_batches(reader.schema, map(checked, reader))


def _for_parquet(reader: Any, optional: set[str]) -> Any:
    """Return a stream whose vectors that may be missing are lists: not every pyarrow can read them otherwise."""
    pa = pyarrow()
    kinds, names = list(reader.schema.types), reader.schema.names
    vectors = [i for i, kind in enumerate(kinds) if pa.types.is_fixed_size_list(kind) and names[i] in optional]
    if not vectors:
        return reader
    for place in vectors:
        kinds[place] = pa.large_list(kinds[place].value_type)
    schema = pa.schema(list(zip(names, kinds, strict=True)))

    def changed(batch: Any) -> Any:
        arrays = list(batch.columns)
        for place in vectors:
            present = arrays[place].is_valid().to_numpy(zero_copy_only=False)
            ends = pa.array(bounds(present * arrays[place].type.list_size))
            mask = pa.array(~present)
            arrays[place] = pa.LargeListArray.from_arrays(ends, arrays[place].flatten(), mask=mask)
        return pa.record_batch(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, map(changed, reader))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OptionError(f"this needs {name}: pip install {name}") from None


def _joined(field: Field, parts: Sequence[Column]) -> Column:
    """Return one column of several, which follow each other."""
    lengths = np.empty(0, np.int64)
    empty = Column(
        np.empty((0, *field.rest), field.element.numpy),
        steps=lengths if field.is_list else None,
        counts=lengths if field.is_ragged or field.sparse is not None else None,
        indices=lengths if field.sparse is not None else None,
    )

    def joined(name: str) -> Any:
        if getattr(empty, name) is None:
            return None
        return np.concatenate([getattr(empty, name), *(getattr(part, name) for part in parts)])

    present = None
    if any(part.present is not None for part in parts):
        present = np.concatenate([_presence(part) for part in parts])
    return Column(joined("values"), joined("steps"), joined("counts"), joined("indices"), present)


def _presence(column: Column) -> Any:
    if column.present is not None:
        return column.present
    lengths = next((part for part in (column.steps, column.counts) if part is not None), column.values)
    return np.ones(len(lengths), bool)


class Subsets(Exports[R]):
    """The methods that make selections of a selection, of some of its records or of all in another order."""

    def where(
        self, predicate: Callable[[Any], Any] | None = None, /, *, fields: Sequence[str] | None = None, **values: Any
    ) -> Self:
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

    def _that(self, wanted: Condition) -> Self:
        store = self._store.forward()
        decoder = store.decoder(wanted.fields)
        masks = [wanted.of(store.columns(decoder, positions)) for positions in self.windows()]
        return self.at(np.flatnonzero(np.concatenate(masks))) if masks else self

    def sample(self, size: float, *, seed: int) -> Self:
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
        return self.at(lowest_ranked(self._store.splits, self._positions, seed, int(count)))

    def sorted_by(
        self, by: str | Callable[[Any], Any], *, fields: Sequence[str] | None = None, reverse: bool = False
    ) -> Self:
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
        except (TypeError, ValueError) as error:  # of an array, whether it is less has no one answer
            raise OptionError(
                f"sorted_by: values without an order: {error}; leave them out with `where` first"
            ) from None
        return self.at(np.array(order, np.int64))

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
    ) -> Parts[Self]:
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
    ) -> Folds[Self]:
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


def _require_none(options: Mapping[str, Any], beside: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise OptionError(f"{given[0]} does not go with {beside}; leave one of them out")
