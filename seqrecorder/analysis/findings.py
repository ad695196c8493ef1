"""What is remarkable in a dataset: one finding a rule and place, with what it means."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.binning import shares_below
from seqrecorder.analysis.distances import codes_of, distance, numbers_distance
from seqrecorder.analysis.summary import Summary
from seqrecorder.analysis.texts import Texts
from seqrecorder.schema.display import cut, number_of, some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from seqrecorder.analysis.distances import Distance
    from seqrecorder.analysis.field_stats import FieldStats
    from seqrecorder.analysis.numbers import Numbers
    from seqrecorder.analysis.record_stats import Stats
    from seqrecorder.analysis.survey import Survey

_WIDTH = 48
_FEW = 5
_RARE_SPLIT = 0.02
_MOST_MISSING = 0.05
_FREQUENT = 0.9
_FAR = 20.0
_LONG = 5.0
_PADDED = 0.2
_GATHERED = 3
"""Records of each value, on average, from which on a field may name groups."""
_PLACEHOLDERS = {"nan", "none", "null", "n/a", "na", "nil", "?", "unknown", "unk", "-", "todo", "#n/a", "undefined"}
LABEL_VALUES = 50
"""A scalar context field of at most so many values is taken for a label."""
LEVELS = {"error": "Wrong", "warning": "Look at it", "note": "Good to know"}
"""What each level of findings is called."""


@attrs.frozen
class Finding:
    """One remarkable thing.

    Attributes:
        rule: its name.
        level: `error`, `warning` or `note`.
        about: the field, split or file that it is about; empty for the dataset.
        message: what was found.
        section: of the report that shows it.
    """

    rule: str
    level: str
    about: str
    message: str
    section: str


def find(found: Survey) -> tuple[Finding, ...]:
    """Return all that is remarkable, the gravest first."""
    every = [*_damage(found), *_leaks(found)]
    if found.stats is not None:
        rules: list[Callable[[Stats], Iterator[Finding]]] = [_groups, _splits, _lengths, _labels, _shifts]
        every += [*_copies(found), *_fields(found, found.stats)]
        every += [finding for rule in rules for finding in rule(found.stats)]
    return tuple(sorted(every, key=lambda finding: list(LEVELS).index(finding.level)))


def is_label(stats: Stats, name: str) -> bool:
    """Whether a field has few values, of which splits share most."""
    distinct = stats.fields[name].distinct
    few = distinct is not None and 1 < distinct <= LABEL_VALUES
    return few and _is_code(stats.fields[name]) and not _values_apart(stats, name)


def _is_code(stats: FieldStats) -> bool:
    field = stats.field
    scalar = not field.is_list and not field.shape and field.sparse is None and not (field.key or field.chunk)
    return scalar and (field.element.is_text or field.element.numpy.kind in "iub")


def _values_apart(stats: Stats, name: str) -> list[tuple[str, str, list[Any], int]]:
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
    apart = {pair[:2] for pair in _values_apart(stats, name)} if _is_code(stats.fields[name]) else set()
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


def _damage(found: Survey) -> Iterator[Finding]:
    if found.problems:
        first = cut(str(found.problems[0]), 3 * _WIDTH)
        text = f"{number_of(len(found.problems), 'problem')} in the files: {first}"
        yield Finding("damaged files", "error", "", text, "damage")
    lost = {split: count for split, count in found.lost.items() if count}
    if lost:
        text = ", ".join(f"{number_of(count, 'record')} of {split}" for split, count in lost.items())
        yield Finding(
            "unreadable records", "error", "", f"{text} cannot be read; no other figure counts them.", "damage"
        )


def _leaks(found: Survey) -> Iterator[Finding]:
    meaning = {
        "keys": "the same keys are in both",
        "contents": "records of the same contents, whatever their keys, are in both",
        "groups": "the same groups are in both",
        "times": "records of either lie in the time of the other",
    }
    for shared in () if found.leakage is None else found.leakage.shared:
        where = " and ".join(shared.splits)
        such = "" if shared.what == "contents" else f", such as {cut(', '.join(map(str, shared.examples)), _WIDTH)}"
        text = f"{shared.count:,}: {meaning[shared.what]}{such}."
        yield Finding(f"shared {shared.what}", "error", where, text, "leakage")


def _copies(found: Survey) -> Iterator[Finding]:
    if found.copied:
        text = f"{number_of(found.copied, 'record')} with exactly the contents of another one of the same split."
        yield Finding("exact copies", "warning", "", text, "worst")


def _groups(stats: Stats) -> Iterator[Finding]:
    """Find what splits almost keep apart, groups and times of which only some are in both; and labels that they do."""
    for name, field in stats.fields.items():
        if field.field.element.is_time:
            parts = {split: part.fields[name] for split, part in stats.splits.items()}
            for (one, a), (other, b) in itertools.combinations(parts.items(), 2):
                if np.all(a.count) and np.all(b.count):
                    yield from _overlap(name, {one: a, other: b})
        if not _is_code(field) or field.distinct is None or _GATHERED * field.distinct > field.present:
            continue
        for one, other, common, least in _values_apart(stats, name):
            about = f"{name}, {one} and {other}"
            if common:
                such = cut(some(list(map(str, common))), _WIDTH)
                text = (
                    f"{len(common):,} of {least:,} values are in both, such as {such}; if these are groups, they leak."
                )
                yield Finding("groups nearly apart", "warning", about, text, "leakage")
            elif field.distinct <= LABEL_VALUES:
                text = "no value is in both, which is right for a group, and wrong for a label."
                yield Finding("values apart", "note", about, text, "fields")


def _overlap(name: str, parts: dict[str, FieldStats]) -> Iterator[Finding]:
    (one, a), (other, b) = sorted(parts.items(), key=lambda item: np.min(item[1].minimum))
    start, stop = (np.asarray(end).view(np.int64).astype(np.float64) for end in (b.minimum, a.maximum))
    late, early = (
        1 - shares_below(a.values.distributions[0], start - 1),  # type: ignore[union-attr]
        shares_below(b.values.distributions[0], stop),  # type: ignore[union-attr]
    )
    if start <= stop and max(late, early) < _MOST_MISSING * 2:
        text = (
            f"{other} begins at {np.min(b.minimum)}, before {one} ends at {np.max(a.maximum)}; but for "
            f"{max(late, early):.1%} of the values they lie apart in time."
        )
        yield Finding("times nearly apart", "warning", f"{name}, {one} and {other}", text, "leakage")


def _splits(stats: Stats) -> Iterator[Finding]:
    for split, part in stats.splits.items() if len(stats.splits) > 1 else ():
        if part.records < _RARE_SPLIT * stats.records:
            text = f"has {number_of(part.records, 'record')} of {stats.records:,}."
            yield Finding("small split", "error" if not part.records else "warning", split, text, "contents")


def _lengths(stats: Stats) -> Iterator[Finding]:
    for group, numbers in stats.groups.items():
        lengths = Summary(numbers)
        empty = int(numbers.zeros[0])
        if empty:
            text = f"{number_of(empty, 'record')} have no step."
            yield Finding("empty records", "warning", group if len(stats.groups) > 1 else "", text, "worst")
        common = lengths.quantile(0.99) if lengths.count else 0.0
        if lengths.maximum is not None and lengths.maximum > max(_LONG * common, 20):
            text = f"the longest record has {lengths.maximum:,} steps; 99% have at most {common:,.0f}."
            yield Finding("very long records", "warning", "", text, "lengths")
        for one, other, far in length_shifts(stats, group):
            if far.differs:
                means = [Summary(stats.splits[split].groups[group]).mean for split in (one, other)]
                text = f"{_far(far)}; on average {means[0]:,.1f} and {means[1]:,.1f} steps."
                yield Finding("lengths differ", "warning", f"{one} and {other}", text, "lengths")


def _fields(found: Survey, stats: Stats) -> Iterator[Finding]:
    for name, field in stats.fields.items():
        yield from _presence(found, stats, field)
        if isinstance(field.values, Texts):
            yield from _placeholders(field)
        else:
            yield from _numbers(field)
            padded = found.padded.get(name, 0)
            if padded > _PADDED * max(1, field.present):
                text = f"{padded:,} of {number_of(field.present, 'record')} end in steps of zeros: is padding stored?"
                yield Finding("stored padding", "warning", name, text, "fields")
        constant = np.atleast_1d(field.constant)
        if constant.any() and field.records > 1 and np.sum(field.count) > 1:
            which = "has one value all over" if constant.all() else _channels(constant)
            value = f": {cut(str(field.top(1)[0][0]), _WIDTH)}" if constant.all() and len(field.top(2)) == 1 else ""
            yield Finding("constant values", "warning", name, f"{which}{value}.", "fields")
        if field.gaps is not None:
            duplicates = int(field.gaps.zeros[0])
            if field.backwards:
                text = f"goes backwards at {number_of(field.backwards, 'step')}."
                yield Finding("time goes backwards", "error", name, text, "fields")
            if duplicates:
                text = f"stands still at {number_of(duplicates, 'step')} of {field.gaps.count[0]:,}."
                yield Finding("duplicate times", "warning", name, text, "fields")


def _presence(found: Survey, stats: Stats, field: FieldStats) -> Iterator[Finding]:
    """Find values that are None or missing, and splits that differ in that."""
    if not field.records:
        return
    for rule, count, of, noun in (
        ("None", field.none, field.records, "records"),
        ("missing values", int(np.sum(field.missing)), int(np.sum(field.missing) + np.sum(field.count)), "values"),
    ):
        if not count:
            continue
        share = _none_share if rule == "None" else _missing_share
        shares = {split: share(part.fields[field.name]) for split, part in stats.splits.items()}
        level = "warning" if count > _MOST_MISSING * of else "note"
        text = f"{count:,} of {of:,} {noun} ({count / of:.1%})"
        missing = np.atleast_1d(field.missing) / np.maximum(
            1, np.atleast_1d(field.missing) + np.atleast_1d(field.count)
        )
        if missing.size > 1 and missing.max() > 2 * count / of:
            text += f", {missing.max():.0%} of channel {int(missing.argmax())}"
        if rule != "None":
            text += _where(found, field.name, field.sizes)
        if max(shares.values()) - min(shares.values()) > _MOST_MISSING:
            level = "warning"
            text += "; by split " + ", ".join(f"{split} {share:.1%}" for split, share in shares.items())
        yield Finding(rule, level, field.name, f"{text}.", "missing" if noun == "values" else "fields")


def _where(found: Survey, name: str, sizes: Numbers | None) -> str:
    """Return at which steps most values are missing, if they lie together."""
    counts = found.missing.get(name)
    if counts is None or sizes is None or not counts.any():
        return ""
    (first, last), (begin, end) = (
        np.searchsorted(np.cumsum(each) / each.sum(), [0.05, 0.95]).tolist()
        for each in (counts, found.steps_of_bins(sizes))
    )
    if 2 * (last - first) > end - begin:
        return ""
    return f", nine tenths of them at steps {first * found.width:,} to {(last + 1) * found.width - 1:,}"


def _none_share(field: FieldStats) -> float:
    return field.none / max(1, field.records)


def _missing_share(field: FieldStats) -> float:
    missing = int(np.sum(field.missing))
    return missing / max(1, missing + int(np.sum(field.count)))


def _placeholders(field: FieldStats) -> Iterator[Finding]:
    counted = {text: times for text, times in field.top(1 << 20) if isinstance(text, str)}
    for rule, found in (
        ("empty texts", {text: times for text, times in counted.items() if not text.strip()}),
        ("placeholders", {text: n for text, n in counted.items() if text.strip().lower() in _PLACEHOLDERS}),
    ):
        if found:
            such = f": {some([repr(text) for text in found])}" if rule == "placeholders" else ""
            text = f"{sum(found.values()):,} of {field.count:,} texts{such}."
            yield Finding(rule, "note", field.name, text, "fields")


def _numbers(field: FieldStats) -> Iterator[Finding]:
    infinities = int(np.sum(field.infinities))
    if infinities:
        yield Finding("infinite values", "error", field.name, f"{infinities:,} values are infinite.", "fields")
    if not np.any(field.count) or field.field.element.is_time:
        return
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        low, high, middle = (np.atleast_1d(field.quantile(q)) for q in (0.01, 0.99, 0.5))
        ends = np.stack([np.atleast_1d(end).astype(np.float64) for end in (field.minimum, field.maximum)])
        far = np.nan_to_num(np.abs(ends - middle) / np.maximum(high - low, 1e-300), posinf=0.0)
        far = np.where(high > low, far, 0.0)
    if far.max() > _FAR:
        end, at = np.unravel_index(int(far.argmax()), far.shape)
        where = f" in channel {at}" if far.shape[1] > 1 else ""
        text = (
            f"{('the least', 'the largest')[int(end)]} value{where}, {ends[end, at]:.6g}, is far from all others: 98% "
            f"lie from {low[at]:.4g} to {high[at]:.4g}."
        )
        yield Finding("outliers", "warning", field.name, text, "fields")


def _labels(stats: Stats) -> Iterator[Finding]:
    for name, field in stats.fields.items():
        if not is_label(stats, name):
            continue
        counts = dict(field.top(LABEL_VALUES))
        value, most = next(iter(counts.items()))
        if most > _FREQUENT * field.count:
            text = f"{cut(str(value), _WIDTH)} is the value of {most / field.count:.1%} of the records."
            yield Finding("unbalanced labels", "warning", name, text, "labels")
        rare = [str(value) for value, times in counts.items() if times < _FEW]
        if rare and len(rare) < len(counts):
            text = f"{some([cut(value, _WIDTH) for value in rare])}: fewer than {_FEW} records."
            yield Finding("rare labels", "note", name, text, "labels")
        for split, part in stats.splits.items():
            absent = [str(value) for value in counts if value not in dict(part.fields[name].top(LABEL_VALUES))]
            if absent and part.records > len(counts):
                text = f"{split} has no record of {some([cut(value, _WIDTH) for value in absent])}."
                yield Finding("labels not in every split", "warning", name, text, "labels")


def _shifts(stats: Stats) -> Iterator[Finding]:
    for name, field in stats.fields.items():
        if field.field.element.is_text and not is_label(stats, name):
            continue
        for one, other, far in shifts_of(stats, name):
            if far.differs:
                label = is_label(stats, name)
                rule, section = ("labels differ", "labels") if label else ("values differ", "fields")
                channel = "" if far.channel is None else f" in channel {far.channel}"
                text = f"{_far(far)}{channel}{_means(stats, name, (one, other), far)}."
                yield Finding(rule, "warning", f"{name}, {one} and {other}", text, section)


def _far(far: Distance) -> str:
    return f"{far.measure} distance {far.value:.2f}, above {far.threshold:.2f}"


def _means(stats: Stats, name: str, splits: tuple[str, str], far: Distance) -> str:
    if far.measure.startswith("Jensen") or stats.fields[name].field.element.is_time:
        return ""
    at = far.channel or 0
    means = [float(np.atleast_1d(stats.splits[split].fields[name].mean)[at]) for split in splits]
    return f"; the means are {means[0]:.4g} and {means[1]:.4g}"


def _channels(mask: Any) -> str:
    which = np.flatnonzero(mask).tolist()
    one = len(which) == 1
    return f"channel{'' if one else 's'} {some(list(map(str, which)), 6)} never change{'s' if one else ''}"
