"""How far splits are apart: Kolmogorov and Smirnov's distance of numbers, Jensen and Shannon's of labels and texts.

Either is between 0 and 1. Two splits are said to differ where it is above 0.1, and above what two samples of one
distribution with as many records exceed once in a thousand times.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.binning import shares_below
from seqrecorder.analysis.texts import Texts
from seqrecorder.schema.display import cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seqrecorder.analysis.distribution import Distribution
    from seqrecorder.analysis.field_stats import FieldStats
    from seqrecorder.analysis.numbers import Numbers
    from seqrecorder.analysis.record_stats import Stats

LEAST = 0.1
"""A smaller distance is none worth to be told."""
MOST_CODES = 20
"""Whole numbers of so many distinct values are taken for codes."""
LABEL_VALUES = 50
"""A scalar context field of at most so many values is taken for a label."""
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


def is_label(stats: Stats, name: str) -> bool:
    """Whether a field has few values, of which splits share most."""
    distinct = stats.fields[name].distinct
    few = distinct is not None and 1 < distinct <= LABEL_VALUES
    return few and is_code(stats.fields[name]) and not values_apart(stats, name)


def is_code(stats: FieldStats) -> bool:
    """Whether a field is a scalar of texts or whole numbers, which may stand for something."""
    field = stats.field
    scalar = not field.is_list and not field.shape and field.sparse is None and not (field.key or field.chunk)
    return scalar and (field.element.is_text or field.element.numpy.kind in "iub")


def values_apart(stats: Stats, name: str) -> list[tuple[str, str, list[Any], int]]:
    """Return the splits that share at most half of their values, with those in both and how many the fewer are."""
    parts = {split: dict(part.fields[name].top(1 << 20)) for split, part in stats.splits.items()}
    found = []
    for (one, a), (other, b) in itertools.combinations(parts.items(), 2):
        common, least = [value for value in a if value in b], min(len(a), len(b))
        if least and len(common) <= least / 2:
            found.append((one, other, common, least))
    return found


def shifts_of(stats: Stats, name: str) -> list[tuple[str, str, Distance]]:
    """Return how far a field's values are apart in the first split and the others; nothing where they have to be."""
    field = stats.fields[name].field
    if field.key or field.chunk or field.element.is_time:
        return []
    apart = {pair[:2] for pair in values_apart(stats, name)} if is_code(stats.fields[name]) else set()
    named = [(split, part.fields[name]) for split, part in stats.splits.items()]
    coded = codes_of(stats.fields[name]) is not None
    told = [
        (named[0][0], split, distance(named[0][1], part, coded=coded))
        for split, part in named[1:]
        if (named[0][0], split) not in apart
    ]
    return [(one, other, each) for one, other, each in told if each is not None]


def length_shifts(stats: Stats, group: str) -> list[tuple[str, str, Distance]]:
    """Return how far the lengths of the records are apart in the first split and each other one."""
    (first, a), *others = stats.splits.items()
    lengths = a.groups[group].distributions[0]
    told = [
        (first, name, numbers_distance(lengths, b.groups[group].distributions[0], a.records, b.records))
        for name, b in others
    ]
    return [(one, other, each) for one, other, each in told if each is not None]


def told_distance(far: Distance) -> str:
    """Return a distance in words."""
    return f"{far.measure} {far.value:.3f}, limit {far.threshold:.3f}"


def told_difference(stats: Stats, name: str, splits: tuple[str, str], far: Distance) -> str:
    """Return the means of two splits; of codes the shares of the one that differs most."""
    parts = [stats.splits[split].fields[name] for split in splits]
    if not far.measure.startswith("Jensen"):
        means = [float(np.atleast_1d(part.mean)[far.channel or 0]) for part in parts]
        return f"mean {means[0]:.4g} in {splits[0]}, {means[1]:.4g} in {splits[1]}"
    one, other = ({code: n / max(1, sum(each.values())) for code, n in each.items()} for each in map(_counts, parts))
    code = max([*one, *other], key=lambda code: abs(one.get(code, 0) - other.get(code, 0)))
    shares = f"{one.get(code, 0):.1%} of {splits[0]}, {other.get(code, 0):.1%} of {splits[1]}"
    return f"{cut(str(code), 48)} is {shares}"


def _counts(field: FieldStats) -> dict[Any, int]:
    return codes_of(field) or {}
