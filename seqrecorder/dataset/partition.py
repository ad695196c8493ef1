"""Dealing the records of a selection into parts: by shares, whole groups, strata, and in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from seqrecorder.dataset.ranks import ranked
from seqrecorder.dataset.split_shares import Shares, shares_of
from seqrecorder.dataset.splits import Ratios
from seqrecorder.errors import OptionError
from seqrecorder.storage.names import check_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.dataset.selected_values import SelectedValues


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
