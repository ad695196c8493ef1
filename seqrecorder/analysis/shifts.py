"""How far splits are apart: in the values of a field, in the lengths of records, and in words."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.analysis.distances import codes_of, distance, numbers_distance
from seqrecorder.schema.display import cut

if TYPE_CHECKING:
    from seqrecorder.analysis.distances import Distance
    from seqrecorder.analysis.field_stats import FieldStats
    from seqrecorder.analysis.record_stats import Stats

LABEL_VALUES = 50
"""A scalar context field of at most so many values is taken for a label."""


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
