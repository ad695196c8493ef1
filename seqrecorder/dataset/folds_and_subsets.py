"""Implementation of the methods `where`, `split` and `folds` of selections.

The code that splits a dataset while it is written is in `split_shares` and `splits_in_time`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from seqrecorder.codec.columns import Column, builder, scatter
from seqrecorder.dataset.record_store import require_scalars
from seqrecorder.dataset.split_shares import Ratios, Shares, ranked, shares_of
from seqrecorder.dataset.splits_in_time import Piece, SplitsInTime, TimeRule, time_field
from seqrecorder.errors import OptionError, RecordError
from seqrecorder.schema.exact_values import Mismatch
from seqrecorder.storage.files import check_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seqrecorder.dataset.record_store import Rows
    from seqrecorder.schema.field import Field

    Places = NDArray[np.int64]
    """Indices into the rows, ascending."""


_LOG = logging.getLogger("seqrecorder")

S = TypeVar("S", bound=Sized)


class Parts(dict[str, S]):
    """Mapping from name to part of a selection, which `write` accepts.

    Attributes:
        shares: requested and actual proportions of the parts.
    """

    def __init__(self, parts: Mapping[str, S], shares: Shares) -> None:
        super().__init__(parts)
        self.shares = shares

    def __repr__(self) -> str:
        return f"<Parts: {', '.join(f'{name} {len(part):,}' for name, part in self.items())}>"

    def _repr_html_(self) -> str:
        return self.shares._repr_html_()


class Folds(list[tuple[S, S]]):
    """List of folds: pairs of a training and a held-out selection.

    Attributes:
        shares: requested and actual proportions of the held-out selections.
    """

    def __init__(self, folds: Sequence[tuple[S, S]], shares: Shares) -> None:
        super().__init__(folds)
        self.shares = shares

    def __repr__(self) -> str:
        return f"<Folds: {', '.join(f'{len(fit):,} + {len(holdout):,}' for fit, holdout in self)}>"

    def _repr_html_(self) -> str:
        return self.shares._repr_html_()


def split_by_shares(rows: Rows, shares: Any, by: Any, stratify: Any, seed: int) -> tuple[dict[str, Places], Shares]:
    """Deal rows into parts in given proportions.

    Returns:
        The indices of the rows of each part, and the requested and actual proportions.
    """
    if not isinstance(shares, Mapping):
        raise OptionError(f"split: expected shares by name, as {{'train': 0.8, 'eval': 0.2}}, got {shares!r}")
    check_names(list(shares), "split")
    wanted = dict(Ratios(shares).shares)
    part, report = _deal(rows, wanted, by, stratify, seed)
    return {name: np.flatnonzero(part == number) for number, name in enumerate(wanted)}, report


def folds_of(rows: Rows, count: Any, by: Any, stratify: Any, seed: int) -> tuple[list[tuple[Places, Places]], Shares]:
    """Deal rows into folds of about equal size.

    Returns:
        The indices of the rows to train on and of the rows to hold out in each fold, and the requested and actual
        proportions.
    """
    share = 1 / _check_folds(count)
    if len(rows) < count:
        raise OptionError(f"folds: {count} folds need as many records, there are {len(rows)}")
    part, report = _deal(rows, {f"fold {number}": share for number in range(count)}, by, stratify, seed)
    return [(np.flatnonzero(part != number), np.flatnonzero(part == number)) for number in range(count)], report


def _check_folds(count: Any) -> int:
    """Check the number of folds, and convert it to an int.

    Raises:
        OptionError: the number is invalid.
    """
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 2:  # noqa: PLR2004 - one fold has nothing to train on
        raise OptionError(f"folds: expected an int of 2 or more, got {count!r}")
    return int(count)


def values_by(rows: Rows, by: Any, option: str, fields: Sequence[str] | None = None) -> list[Any]:
    """Compute a value per record: the value of a field, or the result of a function that reads `fields`.

    Raises:
        OptionError: `by` is neither a name nor callable, or the field has no single value per record.
    """
    if isinstance(by, str):
        return rows.scalars([by])[0]
    if callable(by):
        return [_called(by, record, position, option, fields) for position, record in enumerate(rows.records(fields))]
    raise OptionError(f"{option}: expected the name of a field, or a callable, got {by!r}")


def _code(rows: Rows, by: Any, option: str) -> tuple[NDArray[np.int64], list[Any]]:
    """Assign a number to each distinct value.

    Returns:
        The number of each record's value, and the list of distinct values.
    """
    known: dict[Any, int] = {}
    values = values_by(rows, by, option)
    try:
        codes = [known.setdefault(value, len(known)) for value in values]
    except TypeError as error:
        raise OptionError(f"{option}: expected values that can be told apart by their hash: {error}") from None
    return np.array(codes, np.int64), list(known)


def _deal(
    rows: Rows, shares: Mapping[str, float], by: Any, stratify: Any, seed: int
) -> tuple[NDArray[np.int64], Shares]:
    """Deal records, or groups of records, into parts.

    Returns:
        The index of the part of each record, and the requested and actual proportions.
    """
    ranks = ranked(rows.store.splits, rows.array(), seed)
    if by is None and rows.schema.key_field and any(field.chunk for field in rows.schema.fields):
        by = rows.schema.key_field.name
    one = np.zeros(len(rows), np.int64), [None]
    strata, kinds = one if stratify is None else _code(rows, stratify, "stratify")
    targets = np.array(list(shares.values()))
    if by is None:
        part = _deal_records(targets, strata, ranks, len(kinds))
    else:
        groups, names = _code(rows, by, "by")
        if None in names:
            raise OptionError("by: records have no group (None): leave them out by `where`, or group by a callable")
        if len(names) < np.count_nonzero(targets):
            raise OptionError(f"by: {len(names)} groups for {np.count_nonzero(targets)} parts; each needs one or more")
        part = _deal_groups(targets, groups, strata, ranks)[groups] if names else groups
    counts = np.zeros((len(kinds), targets.size), np.int64)
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
    """Deal the records of each stratum into parts, as close to the proportions as whole records allow.

    Rounding errors carry over to the next stratum, so the size of a part is off by less than one record overall, and by
    less than two in each stratum.
    """
    order = np.lexsort((ranks, strata))
    part = np.empty(strata.size, np.int64)
    carried = np.zeros(targets.size)
    start = 0
    for size in np.bincount(strata, minlength=kinds).tolist():
        ideal = targets * size + carried
        counts = np.maximum(0, np.floor(ideal + 1e-9)).astype(np.int64)
        while counts.sum() > size:  # rounding errors carried over may exceed the size of the stratum
            counts[np.argmax(np.where(counts > 0, counts - ideal, -np.inf))] -= 1
        for index in np.argsort(counts - ideal, kind="stable")[: size - int(counts.sum())].tolist():
            counts[index] += 1
        carried = ideal - counts
        part[order[start : start + size]] = np.repeat(np.arange(targets.size), counts)
        start += size
    return part


def _deal_groups(
    targets: NDArray[np.float64], groups: NDArray[np.int64], strata: NDArray[np.int64], ranks: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Deal groups into parts, the largest group first.

    Each group goes to the part with the largest deficit in the strata of the group. Deficits are weighted, so that rare
    strata matter as much as frequent ones. If necessary, the last groups go to parts that are still empty.
    """
    count = int(groups.max()) + 1
    sizes = np.zeros((count, int(strata.max()) + 1))
    np.add.at(sizes, (groups, strata), 1)
    sizes = np.column_stack([sizes, sizes.sum(1)])  # all records together form one more stratum
    first = np.full(count, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(first, groups, ranks)
    totals = sizes.sum(0)
    lacks = targets[:, None] * totals
    weighed = sizes / totals**2
    part = np.empty(count, np.int64)
    waiting = int(np.count_nonzero(targets))  # number of parts without a group so far
    is_empty = targets > 0
    for done, group in enumerate(np.lexsort((first, -sizes[:, :-1].max(1), -sizes[:, -1])).tolist()):
        gain = lacks @ weighed[group]
        gain[targets <= 0] = -np.inf
        if count - done <= waiting:  # the last groups go to parts that are still empty
            gain[~is_empty] = -np.inf
        target = int(gain.argmax())
        part[group] = target
        lacks[target] -= sizes[group]
        waiting -= int(is_empty[target])
        is_empty[target] = False
    return part


_SEVERAL = (list, tuple, set, frozenset, range, np.ndarray)


def _called(function: Any, record: Any, position: int, option: str, fields: Sequence[str] | None) -> Any:
    """Call a function of the user; raise `RecordError` if it fails."""
    try:
        return function(record)
    except Exception as error:
        only = f"; fields={fields!r} leaves out the others" if fields and isinstance(error, AttributeError) else ""
        raise RecordError(f"{option}: {type(error).__name__}: {error}{only}", position=position) from error


def _answer(predicate: Callable[[Any], Any], record: Any, position: int, fields: Sequence[str] | None) -> bool:
    answer = _called(predicate, record, position, "where", fields)
    if getattr(answer, "shape", ()):
        got = f"an array of shape {answer.shape}; use its any() or all()"
        raise OptionError(f"where: expected True or False of the predicate, got {got}")
    return bool(answer)


def matching(
    rows: Rows, predicate: Callable[[Any], Any] | None, fields: Sequence[str] | None, values: Mapping[str, Any]
) -> NDArray[np.bool_]:
    """Find the rows that meet the conditions of `Selection.where`.

    The arguments and errors are the same as in that method.

    Returns:
        Mask of the rows.
    """
    if predicate is not None and not callable(predicate):
        raise OptionError(f"where: expected a callable, and values by the names of fields, got {predicate!r:.100}")
    if predicate is None and (fields is not None or not values):
        raise OptionError("where: expected a predicate, or values as in `where(label=3)`, got neither")
    require_scalars(rows.schema, list(values))
    wanted = {name: _values(rows.schema[name], value) for name, value in values.items()}
    asked = list(wanted)
    if predicate is not None:
        asked += [field.name for field in rows.schema.select(fields).fields]
    schema = rows.schema.select(asked)
    build, masks, store = builder(schema), [np.empty(0, bool)], rows.store.forward()
    decoder = store.decoder(asked)
    for positions in rows.chunks():
        columns = store.columns(decoder, positions)
        mask = np.logical_and.reduce([_is_among(columns[name], among) for name, among in wanted.items()], initial=True)
        if predicate is not None:
            records = build([scatter(field, columns[field.name]) for field in schema.fields])
            numbered = enumerate(records, sum(map(len, masks)))
            mask = mask & np.array([_answer(predicate, record, at, fields) for at, record in numbered], bool)
        masks.append(mask)
    return np.concatenate(masks)


def _values(field: Field, wanted: Any) -> list[Any]:
    several = list(wanted) if isinstance(wanted, _SEVERAL) else [wanted]
    try:
        return [field.exact(value) for value in several]
    except (Mismatch, TypeError, ValueError, OverflowError) as error:
        expected = error.expected if isinstance(error, Mismatch) else field.element.name
        got = error.got if isinstance(error, Mismatch) else repr(wanted)
        raise OptionError(f"where: field {field.name!r}: expected {expected}, got {got}") from None


def _is_among(column: Column, wanted: Sequence[Any]) -> NDArray[np.bool_]:
    """Check, for each record, whether its value is among the wanted values.

    Returns:
        Mask of the records.
    """
    values = [value for value in wanted if value is not None]
    if column.values.dtype == object:
        known = set(values)
        own = np.array([value in known for value in column.values.tolist()], bool)
    else:
        own = np.isin(column.values, np.array(values, column.values.dtype))
    if column.present is None:
        return own
    out = np.full(column.present.shape, None in wanted)
    out[column.present] = own
    return out


Straddling = Literal["error", "drop", "cut"]


def split_in_time(rows: Rows, at: Any, time: Any, end: Any, straddling: Any) -> tuple[dict[str, Rows], Shares]:
    """Split rows into consecutive time ranges.

    Returns:
        Mapping from name to part, and the actual proportions.
    """
    time_field(rows.schema, time, "time")
    rule = TimeRule.of(at, time, end, straddling, "at:")
    if straddling == "cut":
        edges = _step_edges(rows, rule)
        places = [np.flatnonzero(edges[:, part + 1] > edges[:, part]) for part in range(len(at))]
        parts = {name: rows.take(part).cut(Piece(rule, name)) for name, part in zip(at, places, strict=True)}
        counts, left_out = np.diff(edges, axis=1).sum(0).tolist(), 0
    else:
        starts, ends, _ = times_of(rows, time, end)
        bounds = SplitsInTime(rule, rows.schema).bounds
        first, last = np.searchsorted(bounds, starts, "right"), np.searchsorted(bounds, ends, "right")
        straddles = first != last
        _check_straddling(straddles, rule, starts, ends)
        parts = {name: rows.take(np.flatnonzero((first == part) & ~straddles)) for part, name in enumerate(at)}
        counts, left_out = list(map(len, parts.values())), int(straddles.sum())
    got = {name: count / max(1, sum(counts) + left_out) for name, count in zip(at, counts, strict=True)}
    return parts, Shares(got, got, left_out=left_out)


def _step_edges(rows: Rows, rule: TimeRule) -> NDArray[np.int64]:
    """Find the first step of each split in each record.

    Returns:
        The first steps, followed by the length of the record, int64 `(n, splits + 1)`.
    """
    in_time = SplitsInTime(rule, rows.schema)
    edges, done = [np.empty((0, len(rule.starts) + 1), np.int64)], 0
    for columns in rows.columns([rule.time]):
        column = columns[rule.time]
        steps = _steps_of(column, rule.time, least=0)
        edges.append(in_time.edges(column.values, steps, range(done, done + steps.size)))
        done += steps.size
    all_edges = np.concatenate(edges)
    if lost := int((all_edges[:, -1] == 0).sum()):
        _LOG.warning("time: left out %d of %d records, which have no %r", lost, done, rule.time)
    return all_edges


def _steps_of(column: Column, name: str, least: int = 1) -> NDArray[np.int64]:
    if column.present is not None or (column.steps < least).any():
        raise OptionError(f"time: some records have no {name!r}; leave them out by `where` first")
    steps: NDArray[np.int64] = column.steps
    return steps


def timeline(rows: Rows, time: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Count the steps at each time.

    Returns:
        The distinct times, ascending, and the number of steps at each of them.
    """
    field = time_field(rows.schema, time, "time")
    if not field.is_list:
        raise OptionError(f"time: expected a time for each step, got {field!r}")
    times, counts = np.empty(0, field.element.numpy), np.empty(0, np.int64)
    for columns in rows.columns([field.name]):
        own, many = np.unique(columns[field.name].values, return_counts=True)
        times, places = np.unique(np.concatenate([times, own]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, many]), times.size).astype(np.int64)
    return times, counts


def folds_in_time(
    rows: Rows, count: Any, time: Any, end: Any, straddling: Any, *, by: Any, seed: int
) -> tuple[list[tuple[Rows, Rows]], Shares]:
    """Split rows into walk-forward folds.

    With groups (`by`), a fold holds out the records of its own groups in its period, and trains on earlier records of
    all other groups.

    Returns:
        Pairs of the rows to train on and the rows to hold out, and the requested and actual proportions.
    """
    count = _check_folds(count)
    if not len(rows):
        raise OptionError(f"folds: {count} folds in time need {count + 1} records or more, there are 0")
    part = None
    if by is not None:
        part, _ = _deal(rows, {f"fold {number}": 1 / count for number in range(count)}, by, None, seed)
    starts, ends, field = times_of(rows, time, end)
    bounds = None if straddling == "cut" else _fold_bounds(*np.unique(starts, return_counts=True), count)
    cuts = straddling == "cut" or (straddling is None and bounds is None and field.is_list and end is None)
    if cuts:
        bounds = _fold_bounds(*timeline(rows, time), count)
    if bounds is None:
        raise _too_few_times(starts, count, "steps" if cuts else "records")
    parts = {f"{number}": start for number, start in enumerate([..., *bounds])}
    rule = TimeRule.of(parts, time, end, "cut" if cuts else straddling or "error")
    if cuts:
        edges = _step_edges(rows, rule)
        before, held_out = edges[:, 1:-1] > 0, np.diff(edges)[:, 1:] > 0
        straddles = np.zeros(len(rows), bool)
    else:
        before = ends[:, None] < bounds
        held_out = np.searchsorted(bounds, starts, "right")[:, None] == np.arange(1, count + 1)
        straddles = np.asarray(((starts[:, None] < bounds) & ~before).any(1))
        _check_straddling(straddles, rule, starts, ends)
    pairs = []
    for number in range(count):
        sides = before[:, number], held_out[:, number]
        if part is not None:
            sides = sides[0] & (part != number), sides[1] & (part == number)
        if part is not None and not all(side.any() for side in sides):
            lacks = "to fit on" if sides[1].any() else "to hold out"
            text = "its groups and times share none; ask for fewer folds, or give another seed"
            raise OptionError(f"folds: fold {number} has no record {lacks}: {text}")
        past, own = (rows.take(np.flatnonzero(side)) for side in sides)
        if cuts:
            first = TimeRule({"past": None, "held": bounds[number]}, time, None, "cut")
            past, own = past.cut(Piece(first, "past")), own.cut(Piece(rule, f"{number + 1}"))
        pairs.append((past, own))
    names = [f"fold {number}" for number in range(count)]
    sizes = [len(own) / max(1, len(rows)) for _, own in pairs]
    share = 1 / (1 if cuts else count + 1) / (1 if part is None else count)
    wanted: dict[str, float] = dict.fromkeys(names, share)
    return pairs, Shares(wanted, dict(zip(names, sizes, strict=True)), left_out=int(straddles.sum()))


def _fold_bounds(times: NDArray[Any], counts: NDArray[np.int64], folds: int) -> NDArray[Any] | None:
    """Compute start times of folds, so that the folds contain about equally many records or steps.

    Returns:
        The start times, or None if there are too few distinct times.
    """
    total = int(counts.sum())
    size = total // (folds + 1)
    firsts = np.searchsorted(np.cumsum(counts), [total - (folds - fold) * size for fold in range(folds)], "right")
    bounds = times[np.minimum(firsts, times.size - 1)]
    if not size or (bounds[1:] <= bounds[:-1]).any() or bounds[0] <= times[0]:
        return None
    return bounds


def _too_few_times(starts: NDArray[Any], count: int, what: str) -> OptionError:
    if starts.size <= count and what == "records":
        return OptionError(f"folds: {count} folds in time need {count + 1} records or more, there are {starts.size}")
    values, counts = np.unique(starts, return_counts=True)
    return OptionError(
        f"folds: expected {what} at {count + 1} times or more, far enough apart for {count} folds; {counts.max():,} of "
        f"{starts.size:,} records begin at {values[counts.argmax()]}, and folds hold whole records: ask for fewer "
        "folds, or cut series that have a time for each step by straddling='cut'"
    )


def times_of(rows: Rows, time: Any, end: Any) -> tuple[NDArray[Any], NDArray[Any], Field]:
    """Read the start time and the end time of each record.

    Returns:
        The start times, the end times, and the field with the start times.
    """
    field = time_field(rows.schema, time, "time")
    other = field if end is None else time_field(rows.schema, end, "end")
    starts: list[NDArray[Any]] = [np.empty(0, field.element.numpy)]
    ends: list[NDArray[Any]] = [np.empty(0, other.element.numpy)]
    for columns in rows.columns(list({field.name, other.name})):
        for wanted, parts, is_end in ((field, starts, False), (other, ends, True)):
            column = columns[wanted.name]
            values = column.values
            if column.present is not None:
                raise OptionError(f"time: some records have no {wanted.name!r}; leave them out by `where` first")
            if wanted.is_list:
                steps = _steps_of(column, wanted.name)
                stops = np.cumsum(steps)
                values = values[stops - 1] if is_end else values[stops - steps]
            parts.append(values)
    begin, finish = np.concatenate(starts), np.concatenate(ends)
    unknown = np.isnat if begin.dtype.kind in "mM" else np.isnan
    if unknown(begin).any() or unknown(finish).any():
        raise OptionError("time: some records have a time that is none (NaT, NaN); leave them out by `where` first")
    if (finish < begin).any():
        index = int(np.argmax(finish < begin))
        raise OptionError(f"end: record {index} ends at {finish[index]}, before it begins: {begin[index]}")
    return begin, finish, field


def _check_straddling(straddles: NDArray[np.bool_], rule: TimeRule, starts: Any, ends: Any) -> None:
    if straddles.any() and rule.straddling == "error":
        index = int(straddles.argmax())
        raise OptionError(
            f"{int(straddles.sum())} records lie on both sides of a time, such as record {index} of the selection, "
            f"from {starts[index]} to {ends[index]}; leave them out by straddling='drop', or cut them by 'cut'"
        )
