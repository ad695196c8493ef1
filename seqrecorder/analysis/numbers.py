"""Mergeable statistics of numbers and texts: moments, extremes, quantiles, frequencies.

Moments are merged by the formulas of Chan, Golub and LeVeque (1983), so the merged statistics of two halves equal those
of the whole. Statistics by field and split are in `seqrecorder.analysis.stats`.
"""

from __future__ import annotations

import hashlib
import operator
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.schema.half_floats import widen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


RELATIVE_ERROR = 2.0**-8
"""Maximum relative error of the values between which a quantile interpolates, once values are counted in buckets."""
_BUCKETS = 1 << 16  # the upper 16 bits of a float32: sign, exponent and 7 bits of the fraction
_LARGEST = float(np.finfo(np.float32).max)


@attrs.define(eq=False, repr=False)
class Distribution:
    """Frequencies of finite numbers.

    Each distinct value has a count of its own. If there are more than `limit` distinct values, they are sorted into
    buckets, and each bucket has a count.

    >>> import numpy as np
    >>> counts = Distribution(limit=100)
    >>> counts.add(np.array([3, 1, 3]))
    >>> counts.top(1), counts.distinct, float(counts.quantile(0.5))
    ([(3, 2)], 2, 3.0)

    Attributes:
        limit: maximum number of distinct values that are counted one by one.
        values: distinct values, ascending; None beyond the limit.
        buckets: beyond the limit, the nonempty buckets (see `buckets_of`), ascending.
        counts: count of each value, or of each nonempty bucket, int64.
    """

    limit: int
    values: NDArray[Any] | None = attrs.field(factory=lambda: np.empty(0, np.int64))
    buckets: NDArray[np.uint16] = attrs.field(factory=lambda: np.empty(0, np.uint16))
    counts: NDArray[np.int64] = attrs.field(factory=lambda: np.empty(0, np.int64))

    @property
    def total(self) -> int:
        """Number of values counted."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int | None:
        """Number of distinct values; None beyond the limit."""
        return None if self.values is None else self.values.size

    def add(self, values: NDArray[Any]) -> None:
        """Count finite values.

        The values have the shape `(n,)` and the dtype int64, uint64, float32 or float64. Every call must use the same
        dtype.
        """
        few = values.dtype.kind != "f" or self.values is None or np.unique(values[: 2 * self.limit]).size <= self.limit
        if self.values is not None and few:
            self._count(*_counted(values))
        else:
            self._count_buckets(np.bincount(buckets_of(values), minlength=_BUCKETS))

    def __add__(self, other: Distribution) -> Distribution:
        both = attrs.evolve(self)  # A shallow copy suffices: arrays are replaced, never written to.
        if self.values is not None and other.values is not None:
            both._count(other.values, other.counts)
        else:
            both._count_buckets(other._added_to(np.zeros(_BUCKETS, np.int64)))
        return both

    def _count(self, values: NDArray[Any], counts: NDArray[np.int64]) -> None:
        """Add the counts of distinct, ascending values."""
        if self.values is None or not self.values.size:
            self.values, self.counts = values, counts
        elif values.size:
            united, indices = np.unique(np.concatenate([self.values, values]), return_inverse=True)
            sums = np.zeros(united.size, np.int64)
            np.add.at(sums, indices.reshape(-1), np.concatenate([self.counts, counts]))
            self.values, self.counts = united, sums
        if self.values.size > self.limit:
            self._count_buckets(np.zeros(_BUCKETS, np.int64))

    def _added_to(self, every: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add the counts to the array `every`, and return it.

        The array contains one count for each possible bucket.
        """
        if self.values is None:
            every[self.buckets] += self.counts
        else:
            np.add.at(every, buckets_of(self.values), self.counts)
        return every

    def _count_buckets(self, every: NDArray[np.int64]) -> None:
        """Count buckets from now on, and no longer values.

        `every` contains additional counts, one for each possible bucket, which are included.
        """
        every = self._added_to(every)
        filled = np.flatnonzero(every != 0)
        self.values, self.buckets, self.counts = None, filled.astype(np.uint16), every[filled]

    def steps(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the values and their counts, in ascending order.

        If there are more distinct values than `limit`, the middles of buckets are returned instead of values.
        """
        if self.values is not None:
            return self.values.astype(np.float64), self.counts
        keys = _keys_of(self.buckets)
        middles = ((keys << 16) | 0x8000).view(np.float32).astype(np.float64)
        middles[(keys & 0x7FFF) == 0] = 0.0  # the bucket of zero and denormals
        return middles, self.counts

    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Return the smallest value, the largest value and the count of each bucket.

        Buckets are in ascending order. The result is only valid if there are more distinct values than `limit`, and
        buckets are therefore counted.
        """
        keys = _keys_of(self.buckets)
        ends = np.stack([keys, keys + 1]) << 16
        low, high = np.sort(np.minimum(ends, 0x7F7FFFFF | (ends & 0x80000000)).view(np.float32).astype(np.float64), 0)
        return low, high, self.counts

    def quantile(self, q: Any) -> Any:
        """Compute quantiles, interpolated like `numpy.quantile`, with a relative error of at most `RELATIVE_ERROR`.

        Args:
            q: share of the values from 0 to 1, or an array of shares.

        Returns:
            float64 of the shape of `q`; NaN if there are no values.
        """
        shares = np.asarray(q, np.float64)
        values, counts = self.steps()
        if not values.size:
            return np.full(shares.shape, np.nan)[()]
        ends = np.cumsum(counts)
        places = shares * (ends[-1] - 1)
        below = np.floor(places).astype(np.int64)
        low, high = (values[np.searchsorted(ends, x, side="right")] for x in (below, np.ceil(places).astype(np.int64)))
        part = places - below
        with np.errstate(over="ignore"):
            return np.where(part > 0, low * (1 - part) + high * part, low)[()]

    def top(self, count: int) -> list[tuple[Any, int]]:
        """Return the most frequent values with their counts.

        The list is empty if there are more distinct values than `limit`.
        """
        if self.values is None:
            return []
        order = np.argsort(-self.counts, kind="stable")[:count]
        return list(zip(self.values[order].tolist(), self.counts[order].tolist(), strict=True))


def buckets_of(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Map values to the numbers of their buckets.

    A value is rounded to float32, and its bucket is given by the upper 16 bits of the result. Bits are then flipped so
    that the numbers of buckets are in the same order as the values.
    """
    with np.errstate(under="ignore"):
        narrow = values if values.dtype == np.float32 else np.clip(values, -_LARGEST, _LARGEST).astype(np.float32)
    keys = (np.ascontiguousarray(narrow).view(np.int32) >> 16).astype(np.int16)
    buckets: NDArray[np.uint16] = (keys ^ ((keys >> 15) | np.int16(-0x8000))).view(np.uint16)
    return buckets


def _keys_of(buckets: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Map buckets to the upper 16 bits of their float32 values, the inverse of `buckets_of`."""
    wide = buckets.astype(np.uint32)
    return np.where(wide & 0x8000, wide ^ 0x8000, wide ^ 0xFFFF)


def _counted(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values, in ascending order, and their counts."""
    if values.size and values.dtype.kind in "iu":
        least, most = int(values.min()), int(values.max())
        if most - least < max(1 << 16, 2 * values.size):  # narrow range: bincount is many times faster than sorting
            counts = np.bincount((values - values.dtype.type(least)).astype(np.intp))
            codes = np.flatnonzero(counts)
            return codes.astype(values.dtype) + values.dtype.type(least), counts[codes]
    distinct, counts = np.unique(values, return_counts=True)
    return distinct, counts.astype(np.int64)


LIMIT = 1 << 16  # maximum number of distinct texts that are counted exactly
_LONGEST, _SHOWN = 256, 48  # texts of more than 256 characters are counted by their first 48 and a digest


@attrs.define(eq=False, repr=False)
class Tally:
    """Frequencies of texts or other values.

    If there are more than `limit` distinct values, rare ones are dropped.

    Attributes:
        limit: maximum number of distinct values to keep; None for all.
        counts: count of each value.
        total: number of values counted.
        error: maximum amount by which a count is too low, at most `total / limit`.
    """

    limit: int | None = None
    counts: Counter[Any] = attrs.field(factory=Counter)
    total: int = 0
    error: int = 0

    def count(self, values: Mapping[Any, int] | Iterable[Any], total: int) -> None:
        """Add values to the counts.

        `values` can also be a mapping from values to their counts. `total` is the number of values, including values
        that an earlier limit has removed from the mapping.
        """
        self.counts.update(values)
        self.total += total
        if self.limit is not None and len(self.counts) > self.limit:
            least = sorted(self.counts.values())[-self.limit - 1]
            self.counts = Counter({value: count - least for value, count in self.counts.items() if count > least})
            self.error += least

    def top(self, count: int | None = None) -> list[tuple[Any, int]]:
        """Return the most frequent values with their counts.

        Ties are broken by the order of the values.
        """
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:count]


@attrs.define(eq=False, repr=False)
class Texts(Tally):
    """Frequencies of texts.

    >>> texts = Texts()
    >>> texts.add(["to", "be", "or", "not", "to", "be"])
    >>> texts.top(2), texts.distinct, texts.longest
    ([('be', 2), ('to', 2)], 4, 3)

    Texts of more than 256 characters or bytes are replaced by their beginning and a digest.

    Attributes:
        shortest: length of the shortest text in characters or bytes; None if there are no texts.
        longest: length of the longest text; None if there are no texts.
    """

    limit: int | None = LIMIT
    shortest: int | None = None
    longest: int | None = None

    @property
    def distinct(self) -> int | None:
        """Number of distinct texts; None beyond the limit."""
        return None if self.error else len(self.counts)

    @property
    def empty(self) -> int:
        """Number of empty texts.

        It may be too low if rare values have been dropped (see `error`).
        """
        return self.counts[""] + self.counts[b""]

    def add(self, values: Sequence[Any]) -> None:
        """Count texts."""
        if not values:
            return
        counted = Counter(values)
        sizes = list(map(len, counted))
        self._reach(min(sizes), max(sizes))
        if max(sizes) > _LONGEST:
            for text in [text for text in counted if len(text) > _LONGEST]:
                counted[_abbreviated(text)] = counted.pop(text)
        self.count(counted, len(values))

    def __add__(self, other: Texts) -> Texts:
        both = attrs.evolve(self, counts=self.counts.copy(), error=self.error + other.error)
        if other.shortest is not None and other.longest is not None:
            both._reach(other.shortest, other.longest)
        both.count(other.counts, other.total)
        return both

    def _reach(self, shortest: int, longest: int) -> None:
        self.shortest = shortest if self.shortest is None else min(self.shortest, shortest)
        self.longest = longest if self.longest is None else max(self.longest, longest)


def _abbreviated(text: Any) -> Any:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    end = f"... ({len(text):,} in all, {hashlib.blake2b(data, digest_size=8).hexdigest()})"
    return text[:_SHOWN] + end.encode() if isinstance(text, bytes) else text[:_SHOWN] + end


QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)
"""Quantiles in summaries."""


class Summary:
    """Summary of whole numbers, such as lengths.

    Attributes:
        numbers: statistics of the numbers.
        count: count of the numbers.
        minimum: smallest number; None if there are none.
        maximum: largest number; None if there are none.
        mean: mean; NaN if there are no numbers.
        std: standard deviation; NaN if there are no numbers.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.numbers, self.count = numbers, int(numbers.count[0])
        self.minimum = int(numbers.minimum[0]) if self.count else None
        self.maximum = int(numbers.maximum[0]) if self.count else None
        self.mean = float(numbers.mean[0]) if self.count else float("nan")
        self.std = float(np.sqrt(numbers.variance[0]))

    @property
    def total(self) -> int:
        """Sum of the numbers.

        If there are too many distinct values to count, this is the rounded product of mean and count.
        """
        values, counts = self.numbers.distributions[0].steps()
        exact = self.numbers.distributions[0].values is not None
        return int(values.astype(np.int64) @ counts) if exact else round(self.mean * self.count)

    def quantile(self, q: float) -> float:
        """Compute a quantile, with the accuracy of `FieldStats.quantile`."""
        if not self.count:
            return float("nan")
        return float(np.clip(self.numbers.distributions[0].quantile(q), self.minimum, self.maximum))

    def brief(self) -> str:
        """Format minimum, mean and maximum in a few characters."""
        return f"{self.minimum:,} / {self.mean:,.1f} / {self.maximum:,}" if self.count else "none"

    def __repr__(self) -> str:
        return f"<Summary {self.count:,}: {self.brief()}>"

    def to_dict(self) -> dict[str, Any]:
        """Convert the summary to a dictionary of JSON types."""
        figures = {name: getattr(self, name) for name in ("count", "minimum", "maximum", "mean", "std")}
        return {**figures, "quantiles": {str(q): self.quantile(q) for q in QUANTILES}}


_HISTOGRAM = 30  # number of bins; up to twice as many for whole numbers
_EXACT = 2.0**50
"""Bound below which bin edges between whole numbers are exact in float64."""
_GROUPED = 1e4  # numbers of at least this size are shown with an exponent instead of commas


def shares_below(distribution: Distribution, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the share of values up to each point.

    Inside a bucket, values are assumed to be spread evenly.
    """
    total = max(1, distribution.total)
    if distribution.values is not None:
        ends = np.concatenate([[0], np.cumsum(distribution.counts)])
        places = np.searchsorted(distribution.values.astype(np.float64), points, side="right")
        return np.asarray(ends[places] / total, np.float64)
    low, high, counts = distribution.ends()
    ends = np.cumsum(counts)
    return np.interp(points, np.stack([low, high], 1).ravel(), np.stack([ends - counts, ends], 1).ravel() / total)


def edges_of(distribution: Any, *, is_whole: bool) -> Any:
    """Choose the edges of bins (float64) that cover the central 99 % of the values."""
    low, high = (float(distribution.quantile(q)) for q in (0.005, 0.995))
    if is_whole and max(-low, high) < _EXACT:
        low, high = np.floor(low), np.ceil(high)
        wide = max(1.0, np.ceil((high - low + 1) / (2 * _HISTOGRAM)))
        return np.arange(low - 0.5, high + 0.5 + wide, wide)
    return _between(low, high, _HISTOGRAM + 1) if high > low else np.array([low - 0.5, low + 0.5])


def _between(low: float, high: float, count: int) -> Any:
    """Compute `numpy.linspace` without overflow in the difference between the ends."""
    shares = np.linspace(0, 1, count)
    return low * (1 - shares) + high * shares


def shares_of(distribution: Any, edges: Any) -> Any:
    """Compute the share of values in each bin.

    The first bin also includes all smaller values, and the last bin all larger ones.
    """
    below = shares_below(distribution, edges)
    below[0], below[-1] = 0.0, 1.0 if distribution.total else 0.0
    return np.diff(below)


def ticks_of(edges: Any) -> list[tuple[float, str]]:
    """Choose round values for the axis of a histogram, with their labels."""
    whole = 0.5 if float(edges[0]) % 1 == 0.5 else 0.0  # noqa: PLR2004 - edges between whole numbers
    low, high = float(edges[0]) + whole, float(edges[-1]) - whole
    raw = max(high / 5 - low / 5, 1e-12 * max(-low, high), float(np.finfo(np.float64).tiny))
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= raw)
    step = max(1.0, step) if whole else step
    first, last = np.ceil(low / step), np.floor(high / step)
    if last - first < 1:
        return [(value, number(value)) for value in sorted({low, high})]
    return [(value, f"{value:,.10g}") for value in (np.arange(first, last + 1) * step + 0.0).tolist()]


def number(value: Any) -> str:
    """Format a number with four significant digits."""
    if value is None or not np.isfinite(value):
        return "-"
    return f"{float(value):,.4g}" if abs(value) < _GROUPED else f"{float(value):.4g}"


MOST_CHANNELS = 64
"""Maximum number of channels with separate quantiles; more channels share one distribution."""
_EXACT_FLOATS, _EXACT_CODES = 1 << 12, 1 << 16
_BLOCK = 1 << 16  # values per block, so that a block stays in the processor cache
_COUNTERS = ("zeros", "nan", "infinite")


@attrs.define(eq=False, repr=False)
class Numbers:
    """Moments, extremes, counts and frequencies of numbers `(n, channels)`.

    All statistics except `nan` and `infinite` cover finite numbers only. Bools are treated as 0 and 1, times as
    integers in their unit, and complex numbers as magnitudes. Arrays have one entry per channel.

    Attributes:
        dtype: dtype of the numbers.
        count: count of finite numbers, int64.
        mean: mean, float64; 0 if there are no numbers.
        squares: sum of squared distances from the mean, float64.
        minimum: minimum, as floats, int64 or uint64; the largest value of the dtype if there are no numbers.
        maximum: maximum, of the same type; the smallest value of the dtype if there are no numbers.
        zeros: count of zeros, int64.
        nan: count of NaN or NaT, int64.
        infinite: count of infinities, int64.
        distributions: one distribution per channel, or a single one if there are more than `MOST_CHANNELS` channels.
    """

    dtype: np.dtype[Any]
    count: NDArray[np.int64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    minimum: NDArray[Any]
    maximum: NDArray[Any]
    zeros: NDArray[np.int64]
    nan: NDArray[np.int64]
    infinite: NDArray[np.int64]
    distributions: tuple[Distribution, ...]

    @classmethod
    def empty(cls, dtype: np.dtype[Any], channels: int = 1) -> Numbers:
        """Create empty statistics for a dtype."""
        work = _plain(np.empty(0, dtype)).dtype
        limit = _EXACT_FLOATS if work.kind == "f" else _EXACT_CODES
        none, (most, least) = np.zeros(channels, np.int64), (np.full(channels, end, work) for end in _ends(work))
        drawn = (Distribution(limit, np.empty(0, work)) for _ in range(channels if channels <= MOST_CHANNELS else 1))
        # The arrays can be shared, since they are replaced, never written to.
        zero = np.zeros(channels)
        return cls(dtype, none, zero, zero, most, least, none, none, none, tuple(drawn))

    @property
    def variance(self) -> NDArray[np.float64]:
        """Variance, like `numpy.var`; NaN if there are no numbers."""
        with np.errstate(invalid="ignore"):
            return self.squares / np.where(self.count, self.count, np.nan)

    def add(self, values: NDArray[Any]) -> None:
        """Add numbers `(n, channels)` of dtype `dtype`."""
        plain = _plain(values)
        rows = max(1, _BLOCK // max(1, plain.shape[1]))
        for start in range(0, len(plain), rows):
            # Transpose to long rows, because numpy takes three times as long to reduce short ones.
            self._add_block(np.ascontiguousarray(plain[start : start + rows].T))
        self._add_to_distributions(plain, self._real(plain))

    def _add_block(self, block: NDArray[Any]) -> None:
        """Add a block of numbers `(channels, n)` to moments, extremes and counts."""
        real = self._real(block)
        if real is None:
            count = np.full(len(block), block.shape[1], np.int64)
            kept = least = most = block
        else:
            count = real.sum(1)
            if block.dtype.kind == "f":
                self.infinite = self.infinite + np.isinf(block).sum(1)
                self.nan = self.nan + np.isnan(block).sum(1)
            else:
                self.nan = self.nan + (block.shape[1] - count)
            kept = np.where(real, block, block.dtype.type(0))
            least, most = (np.where(real, block, end) for end in _ends(block.dtype))
            self.zeros = self.zeros - (block.shape[1] - count)  # without the zeros that replace nonfinite numbers
        self.zeros = self.zeros + (kept == 0).sum(1)
        self.minimum = np.minimum(self.minimum, least.min(1))
        self.maximum = np.maximum(self.maximum, most.max(1))
        divisor = np.maximum(count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            wide = kept.astype(np.float64)
            mean = wide.sum(1) / divisor
            wide -= mean[:, np.newaxis]
            if real is not None:
                wide *= real
            rest = wide.sum(1) / divisor  # correct the rounding error of the mean
            squares = np.maximum(np.einsum("ij,ij->i", wide, wide) - count * rest * rest, 0)
            self._merge_moments(count, mean + rest, squares)

    def _real(self, block: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Return a mask of the finite numbers.

        The result is None if all numbers are finite.
        """
        if self.dtype.kind in "mM":
            real = block != np.iinfo(np.int64).min  # the value of NaT
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

    def __add__(self, other: Numbers) -> Numbers:
        both = attrs.evolve(
            self,
            minimum=np.minimum(self.minimum, other.minimum),
            maximum=np.maximum(self.maximum, other.maximum),
            **{name: getattr(self, name) + getattr(other, name) for name in _COUNTERS},
            distributions=tuple(map(operator.add, self.distributions, other.distributions)),
        )
        both._merge_moments(other.count, other.mean, other.squares)
        return both

    def total(self) -> Numbers:
        """Merge the statistics of all channels."""
        if self.count.size == 1:
            return self
        whole = nothing = Numbers.empty(self.dtype)
        names = ("count", "mean", "squares", "minimum", "maximum", *_COUNTERS)
        for channel in range(self.count.size):
            one = {name: getattr(self, name)[channel : channel + 1] for name in names}
            whole += attrs.evolve(self, **one, distributions=nothing.distributions)
        return attrs.evolve(whole, distributions=(sum(self.distributions, nothing.distributions[0]),))


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Convert numbers to float32, float64, int64 or uint64."""
    kind = values.dtype.kind
    plain: NDArray[Any] = values
    if kind in "mM":
        return np.ascontiguousarray(values).view(np.int64)
    if kind == "c":
        plain = np.abs(values)
        return plain.astype(np.float64)
    if kind == "f" and values.dtype.itemsize >= 4 and values.dtype.isnative:  # noqa: PLR2004 - float32 and wider
        return values
    if kind in "fV":  # "V": bfloat16, a dtype of ml_dtypes
        plain = widen(values)
    else:
        plain = values.astype(np.uint64 if values.dtype.name == "uint64" else np.int64, copy=False)
    return plain


def _ends(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the neutral elements of minimum and maximum."""
    if dtype.kind == "f":
        return dtype.type(np.inf), dtype.type(-np.inf)
    return dtype.type(np.iinfo(dtype).max), dtype.type(np.iinfo(dtype).min)
