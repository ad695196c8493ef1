"""Sources that several operations empty: each gets its turn of one dataset."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import describe

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 2**31 - 1


class SharedSources:
    """What empties which source, in one walk over a graph.

    Args:
        counts: how many operations empty a source, by its name, where these are several; as a walk before this one
            found.

    Attributes:
        seeds: for what has none: several that share a source have to see it in one order. Zeros for another order in
            each iteration.
    """

    def __init__(self, counts: dict[str, int]) -> None:
        self.seeds = (random.randint(1, _MOST), random.randint(1, _MOST)) if counts else (0, 0)  # noqa: S311 - no secret
        self._counts = counts
        self._places: dict[str, list[str]] = {}
        self._whole: dict[str, tuple[str, Any]] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How many operations were found that empty a source, by its name, where these are several."""
        return {name: len(places) for name, places in self._places.items() if len(places) > 1}

    @property
    def are_shared(self) -> bool:
        """Whether some sources are known to be emptied by several operations."""
        return bool(self._counts)

    @property
    def names(self) -> frozenset[str]:
        """The names of all sources that were emptied."""
        return frozenset(self._places)

    def take(
        self, source: Any, place: str, make: Callable[[], Any], way: str, note: Callable[[str, str, str], None]
    ) -> Any:
        """Return a dataset of what a source gives to one of those that empty it: all, or what comes in its turn.

        Args:
            source: a queue, a reader, or an operation that stands for a dataset.
            place: where it is emptied.
            make: makes the dataset of all that it gives; is asked once.
            way: how it is emptied, if that can differ.
            note: takes what was found, what is done, and why the order is not fixed, where there are several.

        Raises:
            LiftError: it is emptied in different ways.
        """
        places = self._places.setdefault(source.name, [])
        places.append(place)
        if source.name not in self._whole:
            self._whole[source.name] = way, make()
        known, whole = self._whole[source.name]
        if known != way:
            raise LiftError(
                f"{describe(source)} is read in different ways, in {places[0]}, and in {place}",
                advice="read from it once, and use the result in both places",
                op=source.name,
            )
        count = self._counts.get(source.name, 1)
        if count == 1:
            return whole
        why = f"which of the {count} operations that empty it got which element was left to chance"
        note(
            f"{describe(source)} is emptied by {count} operations",
            f"number {len(places)} of every {count} elements, for {place}",
            why,
        )
        return whole.shard(count, len(places) - 1)

    def take_with_another(self, name: str, place: str, way: str) -> None:
        """Note that a source is emptied in a place where another's dataset holds what it gives."""
        self._places.setdefault(name, []).append(place)
        self._whole[name] = way, None
