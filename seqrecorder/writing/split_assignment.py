"""Which split a record goes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.dataset.manifest import BY_FUNCTION, Splitting
from seqrecorder.dataset.splits import (
    DROPPED,
    Balanced,
    Ratios,
    SplitsInTime,
    StratifiedDealer,
    Stratum,
    TimeRule,
    key_hash,
    key_hashes,
)
from seqrecorder.errors import OptionError, RecordError
from seqrecorder.storage.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.encoder import Sources

DEFAULT_SPLIT = "train"
_OF_ALL = key_hash(None)  # the one stratum of what is balanced, and not stratified


class Router:
    """Gives records their splits.

    Args:
        schema: what the records are.
        splits: a share for each split; or the name of an attribute, or a function of the record, that gives the split's
            name; or None for one split.
        split_by: the name of an attribute, or a function of the record, that gives the key to hash; None takes the key
            field, else the position.
        seed: of the hash.
        old: the dataset that is appended to, whose records stay where they are, and whose rules hold.
        part: what the records are a part of, inside of which positions count; None for all there is.
        stratify: the name of an attribute, or a function of the record, that gives its stratum; None for no strata.
        time: which times are of which split; None for splits that have none.

    Attributes:
        ratios: the shares, or None where splits are named record by record.
        seed: of the hash.

    Raises:
        OptionError: options make no sense, alone or for the old dataset.
    """

    def __init__(
        self,
        schema: Schema,
        splits: Any,
        split_by: Any,
        seed: int,
        old: Manifest | None = None,
        *,
        part: int | str | None = None,
        stratify: Any = None,
        time: TimeRule | None = None,
    ) -> None:
        self._schema, self.seed, self._part = schema, seed, part
        self._first, self._old_splits = 0, tuple[str, ...]()
        balanced = isinstance(split_by, Balanced)
        if old is not None:
            splits, split_by, stratify, time = _continued(old, splits, split_by, stratify, time, seed=seed)
            self.seed, self._first, self._old_splits = old.splitting.seed, old.splitting.sources, tuple(old.splits)
            balanced = old.splitting.groups is not None
        split_by = split_by.by if isinstance(split_by, Balanced) else split_by
        self._in_time = None if time is None else SplitsInTime(time, schema)
        splits = splits if time is None else None
        self.ratios = Ratios(splits) if isinstance(splits, Mapping) else None
        self._name_of = None if splits is None or self.ratios else _getter(splits, "splits", schema)
        if split_by is not None and self.ratios is None:
            raise OptionError("split_by needs splits with shares, such as splits={'train': 0.9, 'eval': 0.1}")
        key = schema.key_field
        self._splits_given, self._by_given = splits, split_by if split_by is not None else (key and key.name)
        by = split_by if split_by is not None else (key.name if key is not None else None)
        self._key_of = None if by is None else _getter(by, "split_by", schema)
        self._by = BY_FUNCTION if callable(split_by) else split_by
        self._dealer: StratifiedDealer | None = None
        if stratify is not None and self.ratios is None:
            raise OptionError("stratify needs splits with shares, such as splits={'train': 0.9, 'eval': 0.1}")
        # Chunks of one source share its key, and stay together.
        self._is_grouped = balanced or split_by is not None or any(field.chunk for field in schema.fields)
        self._stratify = stratify
        self._stratum_of = None if stratify is None else _getter(stratify, "stratify", schema)
        if self.ratios is not None and (balanced or stratify is not None):
            strata, groups = (None, None) if old is None else (old.splitting.strata, old.splitting.groups)
            if old is not None and stratify is None:
                counts = [old.splits[name].records if name in old.splits else 0 for name in self.ratios.shares]
                strata = {_OF_ALL: Stratum("", counts)}
            self._dealer = StratifiedDealer(self.ratios.shares, self.seed, strata, groups)

    @property
    def needs(self) -> list[str] | None:
        """Names of the attributes that decide splits; None where a function is asked, which may look at any."""
        if callable(self._splits_given) or callable(self._by_given) or callable(self._stratify):
            return None
        if self._in_time is not None:
            return self._in_time.needs
        if self._dealer is not None:
            asked = (self._by_given if self._is_grouped else None, self._stratify)
            return [str(name) for name in asked if name]
        name = self._by_given if self.ratios is not None else self._splits_given
        return [] if name is None else [str(name)]

    @property
    def by_position(self) -> bool:
        """Whether the positions of records decide their splits."""
        return self.ratios is not None and self._key_of is None

    @property
    def names(self) -> list[str]:
        """Names of the splits that are declared, so that they are there even without a record."""
        if self._in_time is not None:
            return self._in_time.names
        return [] if self.ratios is None else list(self.ratios.shares)

    @property
    def is_in_time(self) -> bool:
        """Whether the time of a record decides."""
        return self._in_time is not None

    @property
    def drops(self) -> bool:
        """Whether records are left out for their time."""
        return self._in_time is not None and self._in_time.rule.straddling == "drop"

    def splitting(self, count: int) -> Splitting:
        """Return what the manifest says of this, after `count` records."""
        shares = dict(self.ratios.shares) if self.ratios else None
        groups = self._dealer.groups if self._dealer and self._is_grouped else None
        if self._dealer is None or self._stratify is None:
            rule = None if self._in_time is None else self._in_time.rule.to_dict(self._schema)
            return Splitting(self.seed, shares, self._by, self._first + count, groups, time=rule)
        stratify = BY_FUNCTION if callable(self._stratify) else str(self._stratify)
        return Splitting(self.seed, shares, self._by, self._first + count, groups, stratify, self._dealer.strata)

    def check_given(self, split: Any) -> None:
        """Raise `OptionError` for a split that was given with a record and cannot be."""
        if self.ratios is not None and split not in self.ratios.shares:
            raise OptionError(f"split {split!r} is not one of {', '.join(self.ratios.shares)}")
        if self._in_time is not None:
            raise OptionError("time: the split of a record follows from its time; name none for it")
        check_name(split, "split")

    @property
    def cuts(self) -> bool:
        """Whether records are cut at the times at which splits begin."""
        return self._in_time is not None and self._in_time.rule.straddling == "cut"

    def cut(self, sources: Sources) -> Sources:
        """Return records in pieces, each of one split.

        Raises:
            RecordError: a record has no times that ascend.
        """
        if self._in_time is None or not self.cuts:
            return sources
        return sources.become(*self._in_time.cut(sources.records, sources.positions))

    def keep(self, sources: Sources) -> list[int] | None:
        """Return the indices of the records that belong to a split, or None for all.

        Raises:
            RecordError: a record has no time.
        """
        if self._in_time is None or not self.drops or not len(sources.records):
            return None
        places = self._in_time.assign(sources.records, sources.positions)
        return None if (places != DROPPED).all() else np.flatnonzero(places != DROPPED).tolist()

    def assign(self, sources: Sources, given: Sequence[str | None]) -> list[str] | str:
        """Return the name of each record's split; or the one name, where that is known for all.

        Args:
            sources: the records, one at least.
            given: the split that each was given, if any.

        Raises:
            RecordError: a record has no such attribute, or gives no name.
            OptionError: nothing says which split of the old dataset a record belongs to.
        """
        first = given[0]
        named = {first} if given.count(first) == len(given) else set(given)  # counting takes a fifth of the time
        if first is not None and len(named) == 1:
            return first
        if self.ratios is not None:
            if self._dealer is not None:
                return self._dealt(self._dealer, sources, given)
            hashes = key_hashes(self._keys(sources, given), self.seed)
            names = self.ratios.assign_all(hashes)
            left = iter(names)
            return names if named == {None} else [split or next(left) for split in given]
        if self._in_time is not None:
            places = self._in_time.assign(sources.records, sources.positions)
            return [self._in_time.names[place] for place in places.tolist()]
        if self._name_of is not None:
            rows = zip(sources.positions.tolist(), sources.records, given, strict=True)
            return [split or self._named(position, record) for position, record, split in rows]
        if self._old_splits not in ((), (DEFAULT_SPLIT,)) and None in named:
            raise OptionError(
                f"append=True: the dataset has the splits {', '.join(self._old_splits)}, named record by record, so "
                "that no rule is known; say where new records belong: give a mapping of split names to records, "
                "splits= with the name of an attribute or a function of the record, or write(record, split=...)"
            )
        return DEFAULT_SPLIT if named == {None} else [split or DEFAULT_SPLIT for split in given]

    def _dealt(self, dealer: StratifiedDealer, sources: Sources, given: Sequence[str | None]) -> list[str]:
        free = [place for place, split in enumerate(given) if split is None]
        some = sources.only(free)
        values: list[Any] = [None] * len(free)
        if self._stratum_of is not None:
            rows = zip(some.positions.tolist(), some.records, strict=True)
            values = [_asked(self._stratum_of, "its stratum", position, record) for position, record in rows]
        groups = None
        if self._is_grouped:
            groups = key_hashes(self._keys(some, [None] * len(free)), self.seed).tolist()
        names = [split or "" for split in given]
        for place, name in zip(free, dealer.assign(values, self._first + some.positions, groups), strict=True):
            names[place] = name
        return names

    def _keys(self, sources: Sources, given: Sequence[str | None]) -> list[Any]:
        """Return the keys of the records that were given no split."""
        rows = zip(sources.positions.tolist(), sources.records, given, strict=True)
        if self._key_of is None:
            places = [self._first + position for position, _, split in rows if split is None]
            return places if self._part is None else [(self._part, place) for place in places]
        return [_asked(self._key_of, "its key", position, record) for position, record, split in rows if split is None]

    def _named(self, position: int, record: Any) -> str:
        name = _asked(self._name_of, "its split", position, record)
        if not isinstance(name, str):
            raise RecordError(f"its split: expected a name, got {name!r}", position=position)
        return check_name(name, "split")


def _continued(
    old: Manifest, splits: Any, split_by: Any, stratify: Any, time: TimeRule | None, *, seed: int
) -> tuple[Any, Any, Any, TimeRule | None]:
    """Return the rules of splits for an append, which must be those of the old dataset or left out."""
    was = old.splitting
    _kept("seed", seed or None, was.seed)
    if time is not None and time.to_dict(old.schema) != was.time:
        raise OptionError("append=True: the dataset has other splits in time, or none; leave splits and time out")
    if time is not None:
        splits = None
    elif was.shares is not None:
        splits = _kept("splits", splits, dict(was.shares))
    elif isinstance(splits, Mapping):
        raise OptionError("append=True: the splits of the dataset were named record by record, and have no shares")
    if isinstance(split_by, Balanced):
        _kept("split_by", "balanced", "by hash" if was.groups is None else "balanced")
        split_by = split_by.by
    if was.shares is not None:
        split_by = _kept("split_by", split_by, was.by)
    rule = None if was.time is None else TimeRule(**was.time)
    return splits, split_by, _kept("stratify", stratify, was.stratify), rule


def _kept(option: str, given: Any, known: Any) -> Any:
    """Return an option as the dataset has it; of a function it knows only that it was one."""
    if given is None and known == BY_FUNCTION:
        raise OptionError(f"append=True: the dataset was written with a function; pass the same as {option}=")
    if given is not None and (BY_FUNCTION if callable(given) else given) != known:
        raise OptionError(f"append=True: the dataset was written with {option}={known!r}; leave it out, got {given!r}")
    return known if given is None else given


def _asked(function: Callable[[Any], Any] | None, what: str, position: int, record: Any) -> Any:
    if function is None:  # pragma: no cover - asked only where it is set
        raise RuntimeError(what)
    try:
        return function(record)
    except Exception as error:
        raise RecordError(f"{what}: {type(error).__name__}: {error}", position=position) from error


def _getter(source: Any, option: str, schema: Schema) -> Callable[[Any], Any]:
    if callable(source):
        getter: Callable[[Any], Any] = source
        return getter
    if not isinstance(source, str):
        raise OptionError(f"{option}: expected the name of an attribute or a function of the record, got {source!r}")
    known = [attribute.name for attribute in attrs.fields(schema.record_class)]
    if source not in known:
        raise OptionError(f"{option}: {schema.name} has no attribute {source!r}; it has {', '.join(known)}")
    return lambda record: getattr(record, source)
