"""Distances of two distributions: Kolmogorov and Smirnov's for numbers, Jensen and Shannon's for labels and texts.

Either is between 0 and 1. Two splits are said to differ where it is above 0.1, and above what two samples of one
distribution with as many records exceed once in a thousand times.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.binning import shares_below
from seqrecorder.analysis.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seqrecorder.analysis.distribution import Distribution
    from seqrecorder.analysis.field_stats import FieldStats
    from seqrecorder.analysis.numbers import Numbers

LEAST = 0.1
"""A smaller distance is none worth to be told."""
MOST_CODES = 20
"""Whole numbers of so many distinct values are taken for codes."""
_MOST_COMPARED = 50
_SMIRNOV = 1.95  # of D times the root of nm / (n + m), the value that is exceeded once in a thousand times
_NORMAL = 3.09  # likewise, of a normal distribution


@attrs.frozen
class Distance:
    """How far two distributions are apart.

    Attributes:
        measure: `Kolmogorov-Smirnov`; `Difference of means`, where that tells more of numbers that are close together
            and were counted in buckets; or `Jensen-Shannon`: the root of the divergence in bits.
        value: from 0 to 1.
        threshold: above which they differ.
        channel: the one in which they are farthest apart; None where there are none.
    """

    measure: str
    value: float
    threshold: float
    channel: int | None = None

    @property
    def differs(self) -> bool:
        """Whether they are farther apart than by chance."""
        return self.value > self.threshold


def codes_of(stats: FieldStats) -> dict[Any, int] | None:
    """Return how often each text, bool or code came, the frequent ones first; None for other numbers."""
    element = stats.field.element
    if element.is_text:
        return dict(stats.top(1 << 20))
    is_code = element.numpy.kind in "iub" and not stats.field.rest
    if not is_code or stats.distinct is None or stats.distinct > MOST_CODES:
        return None
    return dict(stats.top(MOST_CODES))


def distance(one: FieldStats, other: FieldStats, *, coded: bool) -> Distance | None:
    """Return how far the values of a field in two splits are apart; None where one of them has none."""
    if coded:
        return codes_distance(codes_of(one) or {}, codes_of(other) or {}, one.present, other.present)
    if isinstance(one.values, Texts) or isinstance(other.values, Texts):
        return None
    pairs = zip(one.values.distributions, other.values.distributions, strict=True)
    found = [numbers_distance(a, b, one.present, other.present) for a, b in pairs]
    for at, each in enumerate(found):
        coarse = one.values.distributions[at].values is None or other.values.distributions[at].values is None
        if each is not None and coarse and (value := _means_apart(one.values, other.values, at)) > each.value:
            found[at] = attrs.evolve(each, measure="Difference of means", value=value)
    known = [(at, each) for at, each in enumerate(found) if each is not None]
    if not known:
        return None
    at, largest = max(known, key=lambda pair: pair[1].value)
    return attrs.evolve(largest, channel=at if len(found) > 1 else None)


def numbers_distance(one: Distribution, other: Distribution, n: int, m: int) -> Distance | None:
    """Return the largest difference of two cumulative distributions.

    Args:
        one: a distribution.
        other: the other one.
        n: of how many records the first one is; numbers of one record are not independent.
        m: the other one.
    """
    if not (one.total and other.total):
        return None
    coarse = [each.buckets()[1] for each in (one, other) if each.values is None]  # at their edges shares are exact
    points = np.unique(np.concatenate(coarse or [one.steps()[0], other.steps()[0]]))
    value = float(np.abs(shares_below(one, points) - shares_below(other, points)).max())
    return Distance("Kolmogorov-Smirnov", value, max(LEAST, _SMIRNOV * float(np.sqrt(1 / n + 1 / m))))


def _means_apart(one: Numbers, other: Numbers, channel: int) -> float:
    """Return Kolmogorov and Smirnov's distance of normal distributions with these means and their common deviation."""
    apart = abs(float(one.mean[channel] - other.mean[channel]))
    spread = float(np.sqrt((one.variance[channel] + other.variance[channel]) / 2))
    return math.erf(apart / (spread * math.sqrt(8))) if spread else 0.0


def codes_distance(one: Mapping[Any, int], other: Mapping[Any, int], n: int, m: int) -> Distance | None:
    """Return the root of Jensen and Shannon's divergence of two frequencies, in bits; arguments as above."""
    totals = sum(one.values()), sum(other.values())
    if not all(totals):
        return None
    both = sorted({*one, *other}, key=lambda code: (-one.get(code, 0) - other.get(code, 0), str(code)))[:_MOST_COMPARED]
    shares = np.array([[each.get(code, 0) / total for code in both] for each, total in zip((one, other), totals)])  # noqa: B905
    shares = np.concatenate([shares, np.clip(1 - shares.sum(1, keepdims=True), 0, 1)], 1)
    middle = shares.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(shares > 0, shares * np.log2(shares / middle), 0.0)
    value = float(np.sqrt(max(0.0, terms.sum() / 2)))
    freedom = max(1, int((middle > 0).sum()) - 1)  # Wilson and Hilferty (1931): a quantile of chi squared
    ninth = 2 / (9 * freedom)
    chance = freedom * (1 - ninth + _NORMAL * ninth**0.5) ** 3 * (1 / n + 1 / m) / (8 * np.log(2))
    return Distance("Jensen-Shannon", value, max(LEAST, float(np.sqrt(chance))))
