"""How near the parts of data came to the shares that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.schema.display import cut, html_table, text_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
