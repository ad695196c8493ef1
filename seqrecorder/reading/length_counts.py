"""How many records there are of each length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@attrs.frozen(eq=False)
class LengthCounts:
    """How many records there are of each length.

    Attributes:
        values: int64 `(n,)`: lengths in steps, ascending, each once.
        counts: int64 `(n,)`: records of each, one or more.
    """

    values: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, lengths: NDArray[np.int64]) -> LengthCounts:
        """Return the counts of lengths.

        >>> LengthCounts.of(np.array([5, 3, 5])).counts.tolist()
        [1, 2]
        """
        if lengths.size and lengths.max() <= lengths.size:  # then counting is faster than sorting
            every = np.bincount(lengths)
            return cls(np.flatnonzero(every), every[every > 0])
        return cls(*np.unique(lengths, return_counts=True))

    @property
    def records(self) -> int:
        """Number of all records."""
        return int(self.counts.sum())

    @property
    def longest(self) -> int | None:
        """The most steps of a record; None where there is none."""
        return int(self.values[-1]) if self.values.size else None

    @property
    def mean(self) -> float:
        """Steps of a record on average."""
        return float(self.values @ self.counts) / max(1, self.records)

    def longer(self, least: int) -> LengthCounts:
        """Return those of the records that have more steps."""
        kept = self.values > least
        return LengthCounts(self.values[kept], self.counts[kept])
