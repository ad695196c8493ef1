"""Parts of a selection in time: what lies wholly before a time, and what lies wholly after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqrecorder.dataset.partition import Folds, Parts, S, check_folds
from seqrecorder.dataset.split_shares import Shares
from seqrecorder.dataset.time_rule import time_field, time_of
from seqrecorder.errors import OptionError
from seqrecorder.storage.names import check_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.dataset.selected_values import SelectedValues
    from seqrecorder.schema.field import Field

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
        raise OptionError(f"folds: so many records have one time that it does not part {count} folds; ask for fewer")
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
