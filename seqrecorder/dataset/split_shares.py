"""Shares of splits: groups that are dealt to come near them, and how near splits came."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.schema.display import cut, html_table, text_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from seqrecorder.dataset.strata import Stratum


_FAR = 1 / 4  # of a share
_DEVIATIONS = 3
_POINTS, _FEW = 0.05, 5  # of a stratum's share


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

    A group goes to the split that is furthest below its share when its first record comes, but for chance of one
    record, and stays there: the
    manifest keeps where each group went (16 characters a group), and an append goes on from there. So splits depend on
    the order of the records, other than those of a hash; they come nearest where records of a group stand together.

    Attributes:
        by: the name of a field, or a function of the record, that gives the group.
    """

    by: Any


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


def missed_strata(shares: Mapping[str, float], strata: Iterable[Stratum]) -> list[tuple[float, str, str, int, float]]:
    """Return the strata whose shares are missed by more than 5 points and 5 records, as only whole groups miss them.

    Returns:
        Of each the points, its name, the split that is furthest off, the records of the stratum, and the split's share
        of them; the largest misses first.
    """
    missed = []
    for stratum in strata:
        total = sum(stratum.counts)
        for (name, share), count in zip(shares.items(), stratum.counts, strict=True):
            off = abs(count - share * total)
            if off > max(_FEW, _POINTS * total):
                missed.append((off / total, stratum.name, name, total, count / total))
    return sorted(missed, reverse=True)


_WIDTH = 40


@attrs.frozen(repr=False)
class Shares:
    """How near parts came to their shares, in all and in each stratum: print it.

    Attributes:
        wanted: the share of each part that was asked for.
        got: the share of the records that it has.
        strata: by stratum, the share of its records that each part has; empty where nothing was stratified.
        left_out: how many records are in no part, as those that straddle a time.
    """

    wanted: Mapping[str, float]
    got: Mapping[str, float]
    strata: Mapping[Any, Mapping[str, float]] = attrs.field(factory=dict)
    left_out: int = 0

    @property
    def missed(self) -> float:
        """By how much the share of a part is missed at most, in all or in a stratum."""
        parts = [self.got, *self.strata.values()]
        return max((abs(part[name] - share) for part in parts for name, share in self.wanted.items()), default=0.0)

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [("wanted", self.wanted), ("all", self.got)]
        rows += [(cut(str(stratum), _WIDTH), part) for stratum, part in self.strata.items()]
        return [(head, *(f"{part[name]:.3f}" for name in self.wanted)) for head, part in rows]

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{cut(name, _WIDTH)} {self.got[name]:.3f} of {self.wanted[name]:.3f}" for name in self.wanted
        )
        return f"<Shares: {parts}; missed by at most {self.missed:.3f}>"

    def __str__(self) -> str:
        return text_table([("share", *self.wanted), *self._rows()], right=True)

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], ("share", *self.wanted), self._rows())


def shares_of(names: Mapping[str, float], counts: Sequence[int]) -> dict[str, float]:
    """Return the share of each part, of how many records each has."""
    total = max(1, sum(counts))
    return {name: count / total for name, count in zip(names, counts, strict=True)}
