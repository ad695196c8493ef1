"""How near splits come to their shares, and groups that are dealt so that they do."""

from __future__ import annotations

import math
from types import NoneType
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.dataset.splits import Ratios
from seqrecorder.dataset.strata import Stratum
from seqrecorder.dataset.time_rule import TimeRule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_FAR = 1 / 4  # of a share
_DEVIATIONS = 3


@attrs.frozen
class Balanced:
    """Deals whole groups so that the splits come near their shares, also where there are few groups or large ones.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Verse:
    ...     book: str = sr.context(str)
    >>> verses = [Verse(f"book {number}") for number in range(10) for _ in range(5)]
    >>> shares = {"train": 0.8, "eval": 0.2}
    >>> manifest = sr.write(verses, tempfile.mkdtemp(), splits=shares, split_by=sr.Balanced("book"))
    >>> {name: split.records for name, split in manifest.splits.items()}
    {'train': 40, 'eval': 10}

    A group goes to the split that is furthest below its share when its first record comes, and stays there: the
    manifest keeps where each group went (16 characters a group), and an append goes on from there. So splits depend on
    the order of the records, other than those of a hash; they come nearest where records of a group stand together.

    Attributes:
        by: the name of a field, or a function of the record, that gives the group.
    """

    by: Any


class Balancer:
    """Deals groups to splits, by the hashes of their keys.

    >>> balancer = Balancer({"train": 0.5, "eval": 0.5}, {}, {})
    >>> balancer.assign([7, 7, 8, 7, 9])
    ['eval', 'eval', 'train', 'eval', 'train']

    Args:
        shares: of each split.
        counts: how many records each split has by now.
        groups: for each split, the hashes of its groups.
    """

    def __init__(
        self, shares: Mapping[str, float], counts: Mapping[str, int], groups: Mapping[str, Sequence[int]]
    ) -> None:
        self._shares = {name: shares[name] for name in sorted(shares) if shares[name] > 0}
        self._counts = {name: counts.get(name, 0) for name in shares}
        self._total = sum(self._counts.values())
        self._split_of = {group: name for name, members in groups.items() for group in members}

    def assign(self, hashes: Sequence[int]) -> list[str]:
        """Return the split of each record, by the hash of its group."""
        names = []
        for group in hashes:
            name = self._split_of.get(group)
            if name is None:
                name = self._split_of[group] = max(self._shares, key=self._lack)
            self.count(name)
            names.append(name)
        return names

    def _lack(self, name: str) -> float:
        return self._shares[name] * (self._total + 1) - self._counts[name]

    def count(self, name: str) -> None:
        """Learn that a split has one record more."""
        self._counts[name] += 1
        self._total += 1

    @property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """For each split, the hashes of its groups, ascending."""
        members: dict[str, list[int]] = {name: [] for name in self._counts}
        for group, name in self._split_of.items():
            members[name].append(group)
        return {name: tuple(sorted(groups)) for name, groups in members.items()}


def missed_shares(shares: Mapping[str, float], counts: Mapping[str, int]) -> dict[str, tuple[float, float]]:
    """Return the splits that miss their shares widely: the share asked for, and that of the records.

    That is by more than a quarter of the share, and by more than three standard deviations of as many records that are
    dealt one by one.

    >>> missed_shares({"train": 0.8, "eval": 0.2}, {"train": 970, "eval": 30})
    {'eval': (0.2, 0.03)}
    """
    total = sum(counts.get(name, 0) for name in shares)
    missed = {}
    for name, share in shares.items():
        off = abs(counts.get(name, 0) - share * total)
        if off > _FAR * share * total and off > _DEVIATIONS * math.sqrt(total * share * (1 - share)):
            missed[name] = share, counts.get(name, 0) / total
    return missed


BY_FUNCTION = "()"
"""What `Splitting.by` says of a function, which a manifest cannot hold; no attribute has such a name."""


@attrs.frozen
class Splitting:
    """How records found their splits, so that an append continues in the same way.

    Attributes:
        seed: of the hash.
        shares: share of each split; None where splits were named record by record.
        by: name of the attribute that was hashed, as `split_by` gave it, or `BY_FUNCTION`; None for the key field, or
            the position where there is none.
        sources: how many source records were seen, which is the next one's position.
        groups: for each split, the hashes of its groups, where `Balanced` dealt them or strata were; else None.
        stratify: what strata go by, named like `by`; None without any.
        strata: by the hash of its value, how many of a stratum each split has.
        time: `TimeRule.to_dict` of splits in time; None of others.
    """

    seed: int = 0
    shares: Mapping[str, float] | None = None
    by: str | None = None
    sources: int = 0
    groups: Mapping[str, Sequence[int]] | None = None
    stratify: str | None = None
    strata: Mapping[int, Stratum] | None = None
    time: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON holds; there, groups have 16 hexadecimal digits each."""
        names = ["seed", "shares", "by", "sources"]
        names += [name for name in ("stratify", "time") if getattr(self, name) is not None]
        data: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.shares is not None:
            data["shares"] = dict(self.shares)
        if self.strata is not None:
            data["strata"] = [[f"{value:016x}", part.name, part.counts] for value, part in self.strata.items()]
        if self.groups is not None:
            hashes = {name: map("{:016x}".format, members) for name, members in self.groups.items()}
            data["groups"] = {name: "".join(members) for name, members in hashes.items()}
        return data


def splitting_of(data: Mapping[str, Any], count: Callable[[Any], int]) -> Splitting:
    """Return what `Splitting.to_dict` gave; a `ValueError` says what is damaged.

    Args:
        data: of the JSON.
        count: checks and returns a number of records.
    """
    seed, shares, by = data["seed"], data["shares"], data["by"]
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ValueError(f"expected a seed, got {seed!r}")  # noqa: TRY004 - all damage is one error
    if shares is not None:
        shares = dict(Ratios(shares).shares)
    if not isinstance(by, (str, NoneType)):
        raise ValueError(f"expected the name of what was hashed, got {by!r}")  # noqa: TRY004 - as above
    groups = data.get("groups")
    if groups is not None:
        groups = {str(name): _hashes(text) for name, text in groups.items()}
        if shares is None or set(groups) - set(shares):
            raise ValueError(f"expected groups of the splits that have shares, got those of {sorted(groups)}")
    stratify, strata = data.get("stratify"), data.get("strata")
    if not isinstance(stratify, (str, NoneType)) or (stratify is None) != (strata is None):
        raise ValueError(f"expected strata, and the name of what they go by, got {stratify!r}")
    if strata is not None:
        if shares is None:
            raise ValueError("expected shares beside strata")
        strata = {_hash(value): _stratum(name, counts, len(shares), count) for value, name, counts in strata}
    rule = data.get("time")
    if rule is not None:
        TimeRule(**rule)
    return Splitting(seed, shares, by, count(data["sources"]), groups, stratify, strata, rule)


def _stratum(name: Any, counts: Any, splits: int, count: Callable[[Any], int]) -> Stratum:
    if not isinstance(name, str) or not isinstance(counts, list) or len(counts) != splits:
        raise ValueError(f"expected a stratum and its counts, got {name!r:.80} and {counts!r:.80}")
    return Stratum(name, [count(number) for number in counts])


def _hash(text: Any) -> int:
    (value,) = _hashes(text)
    return value


def _hashes(text: Any) -> tuple[int, ...]:
    if not isinstance(text, str) or len(text) % 16 or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"expected hashes of 16 hexadecimal digits each, got {text!r:.80}")
    return tuple(int(text[start : start + 16], 16) for start in range(0, len(text), 16))
