"""Records that are dealt to splits as they come, so that each split has its share of every stratum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.dataset.ranks import mixed
from seqrecorder.dataset.splits import key_hashes
from seqrecorder.schema.display import cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_SHOWN = 40
_OF_ALL = 0.25  # what is lacking of all records, beside what is lacking of a stratum


@attrs.define
class Stratum:
    """The records of one value.

    Attributes:
        name: the value, as text; long ones are cut.
        counts: of the records, or their sources, in each split.
    """

    name: str
    counts: list[int]


class StratifiedDealer:
    """Deals records to splits, each to one of those that lack most of its stratum; and by chance where several do.

    A split of a stratum is off its share by a few records at most, and so is a split of all; what is held grows with
    the number of strata, and of groups. It depends on the order of the records.

    >>> dealer = StratifiedDealer({"train": 0.75, "eval": 0.25}, seed=0)
    >>> names = dealer.assign(["a"] * 40 + ["b"] * 8, np.arange(48))
    >>> names.count("eval"), names[40:].count("eval")
    (12, 2)

    Args:
        shares: of each split.
        seed: of chance.
        strata: what was dealt before, by the hash of the value.
        groups: for each split, the hashes of the groups that are in it.
    """

    def __init__(
        self,
        shares: Mapping[str, float],
        seed: int,
        strata: Mapping[int, Stratum] | None = None,
        groups: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self._names = list(shares)
        self._shares = list(shares.values())
        self._salt = int(key_hashes(["strata"], seed)[0])
        self.strata = {value: Stratum(known.name, list(known.counts)) for value, known in (strata or {}).items()}
        dealt = [stratum.counts for stratum in self.strata.values()]
        self._totals = [sum(counts) for counts in zip(*dealt, strict=True)] or [0] * len(self._names)
        places = {name: place for place, name in enumerate(self._names)}
        self._place_of = {group: places[name] for name, members in (groups or {}).items() for group in members}

    def assign(
        self, values: Sequence[Any], positions: NDArray[np.int64], groups: Sequence[int] | None = None
    ) -> list[str]:
        """Return the split of each record.

        Args:
            values: what their strata go by.
            positions: which numbers the records have, for chance.
            groups: hashes; records of a group go where its first one went. None where each is on its own.

        Raises:
            OptionError: a value is of a type that has no hash here.
        """
        chance = self._chance(positions)
        names = []
        for number, (value, code) in enumerate(zip(values, key_hashes(values).tolist(), strict=True)):
            stratum = self.strata.get(code)
            if stratum is None:
                stratum = self.strata[code] = Stratum(cut(str(value), _SHOWN), [0] * len(self._names))
            place = None if groups is None else self._place_of.get(groups[number])
            if place is None:
                place = self._choose(stratum.counts, chance[number])
                if groups is not None:
                    self._place_of[groups[number]] = place
            stratum.counts[place] += 1
            self._totals[place] += 1
            names.append(self._names[place])
        return names

    def _choose(self, counts: Sequence[int], chance: Sequence[float]) -> int:
        size, total = sum(counts) + 1, sum(self._totals) + 1
        # Without chance every fifth record would be of eval, which some order of the data may follow too.
        lacks = [
            share * size - count + _OF_ALL * (share * total - of_all) + drawn if share > 0 else -math.inf
            for share, count, of_all, drawn in zip(self._shares, counts, self._totals, chance, strict=True)
        ]
        return lacks.index(max(lacks))

    def _chance(self, positions: NDArray[np.int64]) -> list[list[float]]:
        """Return a number in [0, 1) for each record and split."""
        count = len(self._names)
        numbers = positions.astype(np.uint64)[:, None] * np.uint64(count) + np.arange(count, dtype=np.uint64)
        drawn: list[list[float]] = (mixed(numbers + np.uint64(self._salt)) / 2.0**64).tolist()
        return drawn

    @property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """For each split, the hashes of its groups, ascending."""
        members: dict[str, list[int]] = {name: [] for name in self._names}
        for group, place in self._place_of.items():
            members[self._names[place]].append(group)
        return {name: tuple(sorted(groups)) for name, groups in members.items()}
