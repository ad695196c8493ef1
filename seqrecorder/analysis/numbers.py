"""`Numbers`: what is known of many numbers, by channel: moments, extremes, zeros, NaN, quantiles; mergeable.

Moments are merged by the formulas of Chan, Golub and LeVeque (1983), so that two halves give what the whole gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.distribution import Distribution, keys_of
from seqrecorder.schema.dtypes import widen

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_CHANNELS = 64
"""Of so many channels each has quantiles of its own; of more, all have common ones."""
_EXACT_FLOATS, _EXACT_CODES = 1 << 12, 1 << 16
_BLOCK = 1 << 16  # values that stay in the processor's cache


@attrs.define(eq=False, repr=False)
class Numbers:
    """What is known of numbers `(n, channels)`.

    Everything but `nan`, `positive_infinity` and `negative_infinity` is of the finite ones. Booleans count as 0 and 1,
    times in their unit, complex numbers by their magnitude. Arrays have an entry per channel.

    Attributes:
        dtype: of the numbers.
        count: how many are finite, int64.
        mean: float64; 0 where there are none.
        squares: sum of the squared distances from the mean, float64.
        minimum: float64, int64 or uint64; the largest of the dtype where there are none.
        maximum: likewise, the least.
        zeros: how many are 0, int64.
        nan: how many are NaN, or NaT, int64.
        positive_infinity: int64.
        negative_infinity: int64.
        distributions: one a channel, up to `MOST_CHANNELS`; of more channels one of all.
    """

    dtype: np.dtype[Any]
    count: NDArray[np.int64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    minimum: NDArray[Any]
    maximum: NDArray[Any]
    zeros: NDArray[np.int64]
    nan: NDArray[np.int64]
    positive_infinity: NDArray[np.int64]
    negative_infinity: NDArray[np.int64]
    distributions: tuple[Distribution, ...]

    @classmethod
    def empty(cls, dtype: np.dtype[Any], channels: int = 1) -> Numbers:
        """Return what is known of no numbers of a dtype."""
        work = _plain(np.empty(0, dtype)).dtype
        least, most = (-np.inf, np.inf) if work.kind == "f" else (np.iinfo(work).min, np.iinfo(work).max)
        limit = _EXACT_FLOATS if work.kind == "f" else _EXACT_CODES

        def nothing() -> NDArray[np.int64]:
            return np.zeros(channels, np.int64)

        return cls(
            dtype,
            nothing(),
            np.zeros(channels),
            np.zeros(channels),
            np.full(channels, most, work),
            np.full(channels, least, work),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            tuple(Distribution(limit, np.empty(0, work)) for _ in range(channels if channels <= MOST_CHANNELS else 1)),
        )

    @property
    def variance(self) -> NDArray[np.float64]:
        """Mean squared distance from the mean, as `numpy.var` gives it; NaN where there are no numbers."""
        with np.errstate(invalid="ignore"):
            return self.squares / np.where(self.count, self.count, np.nan)

    def add(self, values: NDArray[Any]) -> None:
        """Take in some numbers `(n, channels)` of the dtype."""
        plain = _plain(values)
        rows = max(1, _BLOCK // max(1, plain.shape[1]))
        whole, keys = self._real(plain), None
        if whole is None and plain.shape[1] == len(self.distributions):
            is_beyond = all(part.values is None for part in self.distributions)
            keys = np.empty(plain.T.shape, np.uint16) if is_beyond else None
        for start in range(0, len(plain), rows):
            # Channel by channel in memory: along short rows numpy takes three times as long.
            block = np.ascontiguousarray(plain[start : start + rows].T)
            self._add_block(block)
            if keys is not None:
                keys[:, start : start + rows] = keys_of(block)
        if keys is None:
            self._add_to_distributions(plain, whole)
            return
        for channel, part in enumerate(self.distributions):
            part.add_keys(keys[channel, :])

    def _add_block(self, block: NDArray[Any]) -> None:
        """Take in numbers `(channels, n)`."""
        real = self._real(block)
        if real is None:
            count = np.full(len(block), block.shape[1], np.int64)
            kept = least = most = block
        else:
            count = real.sum(1)
            if block.dtype.kind == "f":
                self.positive_infinity = self.positive_infinity + (block == np.inf).sum(1)
                self.negative_infinity = self.negative_infinity + (block == -np.inf).sum(1)
                self.nan = self.nan + np.isnan(block).sum(1)
            else:
                self.nan = self.nan + (block.shape[1] - count)
            kept = np.where(real, block, block.dtype.type(0))
            least, most = (np.where(real, block, end) for end in _ends(block.dtype))
            self.zeros = self.zeros - (block.shape[1] - count)  # those that stand for what is left out
        self.zeros = self.zeros + (kept == 0).sum(1)
        self.minimum = np.minimum(self.minimum, least.min(1))
        self.maximum = np.maximum(self.maximum, most.max(1))
        some = np.maximum(count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            wide = kept.astype(np.float64)
            mean = wide.sum(1) / some
            wide -= mean[:, np.newaxis]
            if real is not None:
                wide *= real
            rest = wide.sum(1) / some  # what rounding has left
            squares = np.maximum(np.einsum("ij,ij->i", wide, wide) - count * rest * rest, 0)
            self._merge_moments(count, mean + rest, squares)

    def _real(self, block: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Return which numbers are finite; None where all are."""
        if self.dtype.kind in "mM":
            real = block != np.iinfo(np.int64).min  # NaT
        elif block.dtype.kind != "f":
            return None
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                if np.isfinite(np.add.reduce(block, axis=None)):
                    return None
            real = np.isfinite(block)
        return None if real.all() else real

    def _merge_moments(self, count: NDArray[np.int64], mean: NDArray[np.float64], squares: NDArray[np.float64]) -> None:
        total = self.count + count
        share = count / np.maximum(total, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.where(self.count > 0, mean - self.mean, 0)
            self.squares = self.squares + squares + apart * apart * self.count * share
            self.mean = np.where(self.count > 0, self.mean + apart * share, np.where(count > 0, mean, self.mean))
        self.count = total

    def _add_to_distributions(self, plain: NDArray[Any], whole: NDArray[np.bool_] | None) -> None:
        if len(self.distributions) < plain.shape[1]:
            self.distributions[0].add(plain.ravel() if whole is None else plain[whole])
            return
        for channel, distribution in enumerate(self.distributions):
            values = plain[:, channel]
            distribution.add(values if whole is None else values[whole[:, channel]])

    def merge(self, other: Numbers) -> None:
        """Take in what another knows of other numbers."""
        self._merge_moments(other.count, other.mean, other.squares)
        self.minimum = np.minimum(self.minimum, other.minimum)
        self.maximum = np.maximum(self.maximum, other.maximum)
        for name in ("zeros", "nan", "positive_infinity", "negative_infinity"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, its in zip(self.distributions, other.distributions, strict=True):
            mine.merge(its)

    def copy(self) -> Numbers:
        """Return the same, to be added to by itself."""
        return attrs.evolve(self, distributions=tuple(part.copy() for part in self.distributions))

    def total(self) -> Numbers:
        """Return what is known of the numbers of all channels together."""
        if self.count.size == 1:
            return self
        whole = Numbers.empty(self.dtype)
        names = ("count", "mean", "squares", "minimum", "maximum", "zeros", "nan")
        for channel in range(self.count.size):
            here = slice(channel, channel + 1)
            one = {name: getattr(self, name)[here] for name in (*names, "positive_infinity", "negative_infinity")}
            nothing = Numbers.empty(self.dtype).distributions
            whole.merge(attrs.evolve(self, **one, distributions=nothing))
        for part in self.distributions:
            whole.distributions[0].merge(part)
        return whole


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as float32, float64, int64 or uint64."""
    kind = values.dtype.kind
    plain: NDArray[Any] = values
    if kind in "mM":
        return np.ascontiguousarray(values).view(np.int64)
    if kind == "c":
        plain = np.abs(values)
        return plain.astype(np.float64)
    if kind == "f" and values.dtype.itemsize >= 4 and values.dtype.isnative:  # noqa: PLR2004 - float32 and wider
        return values
    if kind in "fV":  # bfloat16 is a type of another library's
        plain = widen(values)
    else:
        plain = values.astype(np.uint64 if values.dtype.name == "uint64" else np.int64, copy=False)
    return plain


def _ends(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return what is no minimum and no maximum of any numbers."""
    if dtype.kind == "f":
        return dtype.type(np.inf), dtype.type(-np.inf)
    return dtype.type(np.iinfo(dtype).max), dtype.type(np.iinfo(dtype).min)
