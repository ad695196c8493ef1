"""`Texts`: how often which texts came, in bounded memory; mergeable.

Up to a limit of distinct texts every one is counted. Beyond it only those that come often are kept, each of whose
counts is too low by `error` at most (Misra and Gries 1982; merged as by Agarwal et al. 2012).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 1 << 16
_LONGEST, _SHOWN = 256, 48


@attrs.define(eq=False, repr=False)
class Texts:
    """How often which texts came.

    >>> texts = Texts()
    >>> texts.add(["to", "be", "or", "not", "to", "be"])
    >>> texts.top(2), texts.distinct, texts.longest
    ([('be', 2), ('to', 2)], 4, 3)

    Attributes:
        limit: of the distinct texts that are kept.
        counts: how often each came; what is longer than 256 characters or bytes is known by its beginning and a digest.
        total: how many came.
        exceeded: whether there were more distinct ones than the limit.
        error: by how much counts may be too low.
        shortest: characters or bytes of the shortest text; None where there is none.
        longest: of the longest.
    """

    limit: int = LIMIT
    counts: Counter[Any] = attrs.field(factory=Counter)
    total: int = 0
    exceeded: bool = False
    error: int = 0
    shortest: int | None = None
    longest: int | None = None

    @property
    def distinct(self) -> int | None:
        """How many distinct texts came; None where there are more than the limit."""
        return None if self.exceeded else len(self.counts)

    @property
    def empty(self) -> int:
        """How many texts were empty, as far as they are counted."""
        return self.counts[""] + self.counts[b""]

    def add(self, values: Sequence[Any]) -> None:
        """Count some texts."""
        if not values:
            return
        found = Counter(values)
        sizes = list(map(len, found))
        self._reach(min(sizes), max(sizes))
        if max(sizes) > _LONGEST:
            for text in [text for text in found if len(text) > _LONGEST]:
                found[_abbreviated(text)] = found.pop(text)
        self.counts.update(found)
        self.total += len(values)
        self._prune()

    def merge(self, other: Texts) -> None:
        """Count what another has counted, too."""
        if other.shortest is not None and other.longest is not None:
            self._reach(other.shortest, other.longest)
        self.counts.update(other.counts)
        self.total += other.total
        self.exceeded |= other.exceeded
        self.error += other.error
        self._prune()

    def copy(self) -> Texts:
        """Return the same, to be added to by itself."""
        return attrs.evolve(self, counts=self.counts.copy())

    def _reach(self, shortest: int, longest: int) -> None:
        self.shortest = shortest if self.shortest is None else min(self.shortest, shortest)
        self.longest = longest if self.longest is None else max(self.longest, longest)

    def _prune(self) -> None:
        if len(self.counts) <= self.limit:
            return
        self.exceeded = True
        least = sorted(self.counts.values())[-self.limit - 1]
        self.counts = Counter({text: count - least for text, count in self.counts.items() if count > least})
        self.error += least

    def top(self, count: int) -> list[tuple[Any, int]]:
        """Return the texts that came most often, with how often; texts that came equally often in their order."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:count]


def _abbreviated(text: Any) -> Any:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    end = f"... ({len(text):,} in all, {hashlib.blake2b(data, digest_size=8).hexdigest()})"
    return text[:_SHOWN] + end.encode() if isinstance(text, bytes) else text[:_SHOWN] + end
