"""Distributions in bins, as pictures show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.analysis.distribution import Distribution

_HISTOGRAM = 30
_EXACT = 2.0**50
"""Below, there is a float64 between any two whole numbers."""
_GROUPED = 1e4


def shares_below(distribution: Distribution, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return which share of the values is at most each of some points; values of a bucket lie evenly in it."""
    total = max(1, distribution.total)
    if distribution.values is not None:
        ends = np.concatenate([[0], np.cumsum(distribution.counts)])
        places = np.searchsorted(distribution.values.astype(np.float64), points, side="right")
        return np.asarray(ends[places] / total, np.float64)
    low, high, counts = distribution.buckets()
    ends = np.cumsum(counts)
    edges = np.stack([low, high], 1).ravel()
    return np.interp(points, edges, np.stack([ends - counts, ends], 1).ravel() / total)


def edges_of(distribution: Any, *, is_whole: bool) -> Any:
    """Return edges of bins, float64, that hold all but the hundredth part of the values at the ends."""
    low, high = (float(distribution.quantile(q)) for q in (0.005, 0.995))
    if is_whole and max(-low, high) < _EXACT:
        low, high = np.floor(low), np.ceil(high)
        wide = max(1.0, np.ceil((high - low + 1) / (2 * _HISTOGRAM)))
        return np.arange(low - 0.5, high + 0.5 + wide, wide)
    return _between(low, high, _HISTOGRAM + 1) if high > low else np.array([low - 0.5, low + 0.5])


def _between(low: float, high: float, count: int) -> Any:
    """Return `numpy.linspace`, of ends whose difference may be too large for a float."""
    parts = np.linspace(0, 1, count)
    return low * (1 - parts) + high * parts


def shares_of(distribution: Any, edges: Any) -> Any:
    """Return which share of the values each bin holds; the outermost ones hold what is beyond, too."""
    below = shares_below(distribution, edges)
    below[0], below[-1] = 0.0, 1.0 if distribution.total else 0.0
    return np.diff(below)


def ticks_of(edges: Any) -> list[tuple[float, str]]:
    """Return round places on the axis of some bins, with what is written there."""
    whole = 0.5 if float(edges[0]) % 1 == 0.5 else 0.0  # noqa: PLR2004 - edges between whole numbers
    low, high = float(edges[0]) + whole, float(edges[-1]) - whole
    raw = max(high / 5 - low / 5, 1e-12 * max(-low, high), float(np.finfo(np.float64).tiny))
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= raw)
    step = max(1.0, step) if whole else step
    first, last = np.ceil(low / step), np.floor(high / step)
    if last - first < 1:
        return [(place, number(place)) for place in sorted({low, high})]
    return [(place, f"{place:,.10g}") for place in (np.arange(first, last + 1) * step + 0.0).tolist()]


def number(value: Any) -> str:
    """Return a number in four digits."""
    if value is None or not np.isfinite(value):
        return "-"
    return f"{float(value):,.4g}" if abs(value) < _GROUPED else f"{float(value):.4g}"
