"""Which split a record goes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.dataset.split_shares import BY_FUNCTION, Balanced, Balancer, Splitting
from seqrecorder.dataset.splits import Ratios, key_hashes
from seqrecorder.errors import OptionError, RecordError
from seqrecorder.storage.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.encoder import Sources

DEFAULT_SPLIT = "train"


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
    ) -> None:
        self._schema, self.seed, self._part = schema, seed, part
        self._first, self._old_splits = 0, tuple[str, ...]()
        balanced = isinstance(split_by, Balanced)
        if old is not None:
            splits, split_by = _continued(old, splits, split_by, seed)
            self.seed, self._first, self._old_splits = old.splitting.seed, old.splitting.sources, tuple(old.splits)
            balanced = old.splitting.groups is not None
        split_by = split_by.by if isinstance(split_by, Balanced) else split_by
        self.ratios = Ratios(splits) if isinstance(splits, Mapping) else None
        self._name_of = None if splits is None or self.ratios else _getter(splits, "splits", schema)
        if split_by is not None and self.ratios is None:
            raise OptionError("split_by needs splits with shares, such as splits={'train': 0.9, 'eval': 0.1}")
        key = schema.key_field
        self._splits_given, self._by_given = splits, split_by if split_by is not None else (key and key.name)
        by = split_by if split_by is not None else (key.name if key is not None else None)
        self._key_of = None if by is None else _getter(by, "split_by", schema)
        self._by = BY_FUNCTION if callable(split_by) else split_by
        self._balancer: Balancer | None = None
        if balanced and self.ratios is not None:
            counts = {} if old is None else {name: split.records for name, split in old.splits.items()}
            self._balancer = Balancer(self.ratios.shares, counts, (old and old.splitting.groups) or {})

    @property
    def needs(self) -> list[str] | None:
        """Names of the attributes that decide splits; None where a function is asked, which may look at any."""
        if callable(self._splits_given) or callable(self._by_given):
            return None
        name = self._by_given if self.ratios is not None else self._splits_given
        return [] if name is None else [str(name)]

    @property
    def names(self) -> list[str]:
        """Names of the splits that are declared, so that they are there even without a record."""
        return [] if self.ratios is None else list(self.ratios.shares)

    def splitting(self, count: int) -> Splitting:
        """Return what the manifest says of this, after `count` records."""
        shares = dict(self.ratios.shares) if self.ratios else None
        groups = self._balancer.groups if self._balancer else None
        return Splitting(self.seed, shares, self._by, self._first + count, groups)

    def check_given(self, split: Any) -> None:
        """Raise `OptionError` for a split that was given with a record and cannot be."""
        if self.ratios is not None and split not in self.ratios.shares:
            raise OptionError(f"split {split!r} is not one of {', '.join(self.ratios.shares)}")
        check_name(split, "split")

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
            hashes = key_hashes(self._keys(sources, given), self.seed)
            names = self._balancer.assign(hashes.tolist()) if self._balancer else self.ratios.assign_all(hashes)
            left = iter(names)
            return names if named == {None} else [split or next(left) for split in given]
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


def _continued(old: Manifest, splits: Any, split_by: Any, seed: int) -> tuple[Any, Any]:
    """Return `splits` and `split_by` for an append, which must be those of the old dataset or left out."""
    was = old.splitting
    if seed not in (0, was.seed):
        raise OptionError(f"append=True: the dataset has seed={was.seed}; leave `seed` out, got {seed}")
    if was.shares is None:
        if isinstance(splits, Mapping):
            raise OptionError("append=True: the splits of the dataset were named record by record, and have no shares")
        return splits, split_by
    if splits is not None and splits != was.shares:
        raise OptionError(f"append=True keeps the splits of the dataset, {dict(was.shares)}: leave `splits` out")
    if isinstance(split_by, Balanced):
        if was.groups is None:
            raise OptionError("append=True: the dataset was split by hash, and not balanced: leave `split_by` out")
        split_by = split_by.by
    if was.by == BY_FUNCTION and not callable(split_by):
        raise OptionError("append=True: the dataset was split by a function of the record; pass the same as split_by=")
    if split_by is not None and (BY_FUNCTION if callable(split_by) else split_by) != was.by:
        raise OptionError(f"append=True: the dataset was split by {was.by or 'its key'}; leave `split_by` out")
    return was.shares, was.by if split_by is None else split_by


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
