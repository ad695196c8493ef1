"""`Distribution`: how often which numbers came; mergeable, and a function of the values alone, not of their order.

Up to a limit of distinct values it counts each of them. Beyond that it counts how many share sign, exponent and seven
bits of the significand, which are the first sixteen bits of a float32: sums of counts are the same in every order, and
a value is known to 2^-8 of itself. (DDSketch, Masson et al. 2019, has the same kind of bound through logarithms.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RELATIVE_ERROR = 2.0**-8
"""How far a quantile may be from the order statistics that it is of, relative to them, beyond the limit."""
_BUCKETS = 1 << 16
_LARGEST = float(np.finfo(np.float32).max)
_DENSE = 1 << 15  # values from which on bincount, which makes all buckets anew, is faster than to add to some


@attrs.define(eq=False, repr=False)
class Distribution:
    """How often which numbers came; NaN and infinities are none.

    >>> import numpy as np
    >>> counts = Distribution(limit=100)
    >>> counts.add(np.array([3, 1, 3]))
    >>> counts.top(1), counts.distinct, float(counts.quantile(0.5))
    ([(3, 2)], 2, 3.0)

    Attributes:
        limit: of the distinct values that are counted one by one.
        values: ascending, those that came; None beyond the limit.
        counts: how often each came, int64; beyond the limit of the buckets `(65536,)`.
    """

    limit: int
    values: NDArray[Any] | None = attrs.field(factory=lambda: np.empty(0, np.int64))
    counts: NDArray[np.int64] = attrs.field(factory=lambda: np.empty(0, np.int64))

    @property
    def total(self) -> int:
        """How many values were counted."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int | None:
        """How many distinct values came; None where there are more than the limit."""
        return None if self.values is None else self.values.size

    def add(self, values: NDArray[Any]) -> None:
        """Count some values: int64, uint64 or float64 `(n,)`, always of one dtype, and finite."""
        if self.values is not None:
            if values.dtype.kind == "f" and np.unique(values[: 2 * self.limit]).size > self.limit:
                self._spread()
            else:
                self._count(*_counted(values))
                return
        self.add_keys(keys_of(values))

    def add_keys(self, keys: NDArray[np.uint16]) -> None:
        """Count values, of which there have been more than the limit before, by their buckets (see `keys_of`)."""
        if keys.size < _DENSE:
            np.add.at(self.counts, keys.astype(np.intp), 1)
        else:
            self.counts += np.bincount(keys, minlength=_BUCKETS)

    def merge(self, other: Distribution) -> None:
        """Count what another has counted, too."""
        if other.values is not None:
            if self.values is not None:
                self._count(other.values, other.counts)
            else:
                np.add.at(self.counts, keys_of(other.values), other.counts)
        else:
            self._spread()
            self.counts += other.counts

    def copy(self) -> Distribution:
        """Return a distribution that counts on by itself."""
        return attrs.evolve(self, counts=self.counts.copy())

    def _count(self, values: NDArray[Any], counts: NDArray[np.int64]) -> None:
        """Count distinct values, ascending, each so many times."""
        if self.values is None or not self.values.size:
            self.values, self.counts = values, counts
        elif values.size:
            united, places = np.unique(np.concatenate([self.values, values]), return_inverse=True)
            sums = np.zeros(united.size, np.int64)
            np.add.at(sums, places.reshape(-1), np.concatenate([self.counts, counts]))
            self.values, self.counts = united, sums
        if self.values.size > self.limit:
            self._spread()

    def _spread(self) -> None:
        """Count buckets instead of values from now on."""
        if self.values is not None:
            buckets = np.zeros(_BUCKETS, np.int64)
            np.add.at(buckets, keys_of(self.values), self.counts)
            self.values, self.counts = None, buckets

    def steps(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return values, ascending, and how often each came; the middles of buckets beyond the limit."""
        if self.values is not None:
            return self.values.astype(np.float64), self.counts
        order = self._ascending()
        middles = ((order.astype(np.uint32) << 16) | 0x8000).view(np.float32).astype(np.float64)
        middles[(order & 0x7FFF) == 0] = 0.0  # zero itself, and denormals
        return middles, self.counts[order]

    def buckets(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Return where each bucket begins and ends, ascending, and how many values it holds; beyond the limit only."""
        order = self._ascending()
        ends = np.stack([order, order + 1]).astype(np.uint32) << 16
        low, high = np.sort(np.minimum(ends, 0x7F7FFFFF | (ends & 0x80000000)).view(np.float32).astype(np.float64), 0)
        return low, high, self.counts[order]

    def _ascending(self) -> NDArray[np.int64]:
        """Return the buckets that hold a value, in the order of their values."""
        order = np.concatenate([np.arange(_BUCKETS - 1, _BUCKETS // 2 - 1, -1), np.arange(_BUCKETS // 2)])
        filled: NDArray[np.int64] = order[self.counts[order] > 0]
        return filled

    def quantile(self, q: Any) -> Any:
        """Return quantiles as `numpy.quantile` interpolates them, from order statistics known to `RELATIVE_ERROR`.

        Args:
            q: one or more shares of the values, from 0 to 1.

        Returns:
            float64, of the shape of `q`; NaN where there are no values.
        """
        shares = np.asarray(q, np.float64)
        values, counts = self.steps()
        if not values.size:
            return np.full(shares.shape, np.nan)[()]
        ends = np.cumsum(counts)
        places = shares * (ends[-1] - 1)
        below = np.floor(places).astype(np.int64)
        low, high = (
            values[np.searchsorted(ends, at, side="right")] for at in (below, np.ceil(places).astype(np.int64))
        )
        part = places - below
        with np.errstate(over="ignore"):
            return np.where(part > 0, low * (1 - part) + high * part, low)[()]

    def top(self, count: int) -> list[tuple[Any, int]]:
        """Return the values that came most often, with how often; none beyond the limit."""
        if self.values is None:
            return []
        order = np.argsort(-self.counts, kind="stable")[:count]
        return list(zip(self.values[order].tolist(), self.counts[order].tolist(), strict=True))

    def histogram(self, edges: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return how many values lie between some edges, ascending; the last edge belongs to the last bin."""
        values, counts = self.steps()
        return np.histogram(values, edges, weights=counts)[0].astype(np.int64)


def keys_of(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Return the bucket of each value: the first sixteen bits of the nearest float32."""
    with np.errstate(under="ignore"):
        narrow = values if values.dtype == np.float32 else np.clip(values, -_LARGEST, _LARGEST).astype(np.float32)
    return (np.ascontiguousarray(narrow).view(np.uint32) >> 16).astype(np.uint16)


def _counted(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values, ascending, and how often each comes."""
    if values.size and values.dtype.kind in "iu":
        least, most = int(values.min()), int(values.max())
        if most - least < max(1 << 16, 2 * values.size):  # codes: counting is many times faster than sorting
            counts = np.bincount((values - values.dtype.type(least)).astype(np.intp))
            codes = np.flatnonzero(counts)
            return codes.astype(values.dtype) + values.dtype.type(least), counts[codes]
    found, counts = np.unique(values, return_counts=True)
    return found, counts.astype(np.int64)
