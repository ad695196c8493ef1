"""Findings of a report: rules that detect problems of a field, split or file of a dataset.

The facts come from `seqrecorder.analysis.survey`. `seqrecorder.analysis.report` builds the page that shows them.
"""

from __future__ import annotations

import itertools
import math
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.numbers import Summary, Texts, shares_below
from seqrecorder.schema.display import cut, join, number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from seqrecorder.analysis.numbers import Distribution, Numbers
    from seqrecorder.analysis.stats import FieldStats, Stats
    from seqrecorder.analysis.survey import Survey


LEAST = 0.1
"""Smallest distance between two splits that is reported."""
MOST_CODES = 20
"""Maximum number of distinct values for which the whole numbers of a field count as codes."""
LABEL_VALUES = 50
"""Maximum number of distinct values for which a scalar context field counts as a label."""
_MOST_COMPARED = 50  # codes compared one by one; all rarer codes are counted together
_SMIRNOV = 1.95  # critical value of D * sqrt(n * m / (n + m)) at a significance of 0.001
_NORMAL = 3.09  # 0.999 quantile of the standard normal distribution


@attrs.frozen
class Distance:
    """Distance between two distributions.

    Attributes:
        measure: name of the measure: `Kolmogorov-Smirnov`; `Difference of means`, if numbers are counted in buckets and
            this distance is the larger one; or `Jensen-Shannon`, the square root of that divergence in bits.
        value: distance, from 0 to 1.
        threshold: distance above which the distributions differ.
        channel: index of the channel with the largest distance; None for a field without channels.
    """

    measure: str
    value: float
    threshold: float
    channel: int | None = None

    @property
    def differs(self) -> bool:
        """Check whether the distance exceeds the threshold."""
        return self.value > self.threshold


def codes_of(stats: FieldStats) -> dict[Any, int] | None:
    """Map each text, bool or code of a field to its count, the most frequent first.

    Codes are whole numbers with at most `MOST_CODES` distinct values. The result is None for other numbers.
    """
    element = stats.field.element
    if element.is_text:
        return dict(stats.top(1 << 20))
    is_code = element.numpy.kind in "iub" and not stats.by_channel
    if not is_code or stats.distinct is None or stats.distinct > MOST_CODES:
        return None
    return dict(stats.top(MOST_CODES))


def distance(one: FieldStats, other: FieldStats, *, coded: bool) -> Distance | None:
    """Compute the distance between the values of a field in two splits.

    If `coded` is true, the values are compared as codes; otherwise, they are compared as numbers. The result is None if
    a split has no values, or if texts would have to be compared as numbers.
    """
    if coded:
        return codes_distance(codes_of(one) or {}, codes_of(other) or {}, one.present, other.present)
    if isinstance(one.values, Texts) or isinstance(other.values, Texts):
        return None
    pairs = zip(one.values.distributions, other.values.distributions, strict=True)
    apart = [numbers_distance(a, b, one.present, other.present) for a, b in pairs]
    for channel, each in enumerate(apart):
        coarse = one.values.distributions[channel].values is None or other.values.distributions[channel].values is None
        if each is not None and coarse and (value := _means_apart(one.values, other.values, channel)) > each.value:
            apart[channel] = attrs.evolve(each, measure="Difference of means", value=value)
    known = [(channel, each) for channel, each in enumerate(apart) if each is not None]
    if not known:
        return None
    channel, largest = max(known, key=lambda pair: pair[1].value)
    return attrs.evolve(largest, channel=channel if len(apart) > 1 else None)


def numbers_distance(one: Distribution, other: Distribution, n: int, m: int) -> Distance | None:
    """Compute the largest difference between two cumulative distributions.

    Args:
        one: first distribution.
        other: second distribution.
        n: number of records in the first split. The threshold depends on the number of records rather than of values,
            because the values of one record are not independent.
        m: number of records in the second split.
    """
    if not (one.total and other.total):
        return None
    # Cumulative shares of bucketed values are exact only at the edges of buckets.
    coarse = [each.ends()[1] for each in (one, other) if each.values is None]
    points = np.unique(np.concatenate(coarse or [one.steps()[0], other.steps()[0]]))
    value = float(np.abs(shares_below(one, points) - shares_below(other, points)).max())
    return Distance("Kolmogorov-Smirnov", value, max(LEAST, _SMIRNOV * float(np.sqrt(1 / n + 1 / m))))


def _means_apart(one: Numbers, other: Numbers, channel: int) -> float:
    """Compute the Kolmogorov-Smirnov distance between two normal distributions.

    `one` and `other` provide their means. Both distributions have the same standard deviation: the square root of the
    average of the two variances.
    """
    apart = abs(float(one.mean[channel] - other.mean[channel]))
    spread = float(np.sqrt((one.variance[channel] + other.variance[channel]) / 2))
    return math.erf(apart / (spread * math.sqrt(8))) if spread else 0.0


def codes_distance(one: Mapping[Any, int], other: Mapping[Any, int], n: int, m: int) -> Distance | None:
    """Compute the distance between the frequencies of codes in two splits.

    The distance is the square root of the Jensen-Shannon divergence, in bits. `one` and `other` map each code to its
    count. `n` and `m` are the numbers of records in the two splits (see `numbers_distance`).
    """
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
    freedom = max(1, int((middle > 0).sum()) - 1)  # chi-squared quantile after Wilson and Hilferty (1931)
    ninth = 2 / (9 * freedom)
    chance = freedom * (1 - ninth + _NORMAL * ninth**0.5) ** 3 * (1 / n + 1 / m) / (8 * np.log(2))
    return Distance("Jensen-Shannon", value, max(LEAST, float(np.sqrt(chance))))


def is_label(stats: Stats, name: str) -> bool:
    """Check whether a field looks like a label.

    A label is a code with few distinct values. Each pair of splits has more than half of these values in common.
    """
    distinct = stats.fields[name].distinct
    few = distinct is not None and 1 < distinct <= LABEL_VALUES
    return few and is_code(stats.fields[name]) and not values_apart(stats, name)


def is_code(stats: FieldStats) -> bool:
    """Check whether a field is a scalar of text, whole numbers or bools, and neither a key nor a chunk number."""
    field = stats.field
    is_code = field.element.is_text or field.element.numpy.kind in "iub"
    return is_code and field.is_scalar and not (field.key or field.chunk)


def values_apart(stats: Stats, name: str) -> list[tuple[str, str, list[Any], int]]:
    """Find pairs of splits that have few values of a field in common.

    At most half of the distinct values in one of the splits also occur in the other. This is measured in the split that
    has fewer distinct values. Each result consists of the names of the two splits, the values that they share, and the
    number of distinct values in the split that has fewer.
    """
    counts = {split: dict(part.fields[name].top(1 << 20)) for split, part in stats.splits.items()}
    pairs = []
    for (one, a), (other, b) in itertools.combinations(counts.items(), 2):
        common, least = [value for value in a if value in b], min(len(a), len(b))
        if least and len(common) <= least / 2:
            pairs.append((one, other, common, least))
    return pairs


def shifts_of(stats: Stats, name: str) -> list[tuple[str, str, Distance]]:
    """Compute the distances between the values of a field in the first split and in each other split.

    The list is empty for keys, chunk numbers and times, whose values must differ between splits.
    """
    field = stats.fields[name].field
    if field.key or field.chunk or field.element.is_time:
        return []
    apart = {pair[:2] for pair in values_apart(stats, name)} if is_code(stats.fields[name]) else set()
    coded = codes_of(stats.fields[name]) is not None

    def compare(one: Stats, other: Stats) -> Distance | None:
        return distance(one.fields[name], other.fields[name], coded=coded)

    return [shift for shift in _from_first(stats, compare) if shift[:2] not in apart]


def length_shifts(stats: Stats, group: str) -> list[tuple[str, str, Distance]]:
    """Compute the distances between the record lengths in the first split and in each other split."""

    def compare(one: Stats, other: Stats) -> Distance | None:
        a, b = (part.groups[group].distributions[0] for part in (one, other))
        return numbers_distance(a, b, one.records, other.records)

    return _from_first(stats, compare)


def _from_first(stats: Stats, compare: Callable[[Stats, Stats], Distance | None]) -> list[tuple[str, str, Distance]]:
    """Compare the first split with each other split, leaving out splits without values."""
    (first, whole), *others = stats.splits.items()
    distances = [(split, compare(whole, part)) for split, part in others]
    return [(first, split, far) for split, far in distances if far is not None]


def distance_text(far: Distance) -> str:
    """Describe a distance and its limit."""
    return f"{far.measure} {far.value:.3f}, limit {far.threshold:.3f}"


def difference_text(stats: Stats, name: str, splits: tuple[str, str], far: Distance) -> str:
    """Describe the difference between two splits.

    Numbers are described by their means. Texts and codes are described by the value whose proportions differ most.
    """
    fields = [stats.splits[split].fields[name] for split in splits]
    if not far.measure.startswith("Jensen"):
        means = [float(np.atleast_1d(part.mean)[far.channel or 0]) for part in fields]
        return f"mean {means[0]:.4g} in {splits[0]}, {means[1]:.4g} in {splits[1]}"
    counts = [codes_of(part) or {} for part in fields]
    one, other = ({code: n / max(1, sum(each.values())) for code, n in each.items()} for each in counts)
    code = max([*one, *other], key=lambda code: abs(one.get(code, 0) - other.get(code, 0)))
    shares = f"{one.get(code, 0):.1%} of {splits[0]}, {other.get(code, 0):.1%} of {splits[1]}"
    return f"{cut(str(code), 48)} is {shares}"


_WIDTH = 48  # characters of a value in a message
# Thresholds of the rules, chosen by judgement, not derived.
_FEW = 5  # records; a label with fewer is rare
_RARE_SPLIT = 0.02  # share of all records; a split with less is small
_MOST_MISSING = 0.05  # share of missing values; more than this is a warning
_FREQUENT = 0.9  # share of records; if one label has more, labels are unbalanced
_FAR = 20.0  # distance from the median beyond which an extreme is an outlier, in widths of the central 98 %
_LONG = 5.0  # multiple of the 99th percentile of lengths; a longer record is very long
_PADDED = 0.2  # share of records; if more end in zeros, padding is suspected
_GATHERED = 3
"""Minimum mean number of records per value of a field for its values to be considered as groups."""
_PLACEHOLDERS = {"nan", "none", "null", "n/a", "na", "nil", "?", "unknown", "unk", "-", "todo", "#n/a", "undefined"}
LEVELS = {"error": "Wrong", "warning": "Look at it", "note": "Good to know"}
"""Headings of the levels of findings, the most serious first."""
_TALLIES = {"error": "wrong", "warning": "to look at", "note": "good to know"}


@attrs.frozen
class Finding:
    """Remarkable fact about a dataset.

    Attributes:
        rule: name of the rule.
        level: `error`, `warning` or `note`.
        about: field, split or file concerned; empty for the whole dataset.
        message: description of the fact.
        section: section of the report with the details.
    """

    rule: str
    level: str
    about: str
    message: str
    section: str


def find(facts: Survey) -> tuple[Finding, ...]:
    """Apply all rules to the facts of a survey.

    The result contains the findings, the most serious first.
    """
    every = [*_damage(facts), *_leaks(facts)]
    if facts.stats is not None:
        rules: list[Callable[[Stats], Iterator[Finding]]] = [_groups, _splits, _labels, _shifts]
        every += [*_copies(facts), *_fields(facts, facts.stats), *_lengths(facts, facts.stats)]
        every += [finding for rule in rules for finding in rule(facts.stats)]
    return tuple(sorted(every, key=lambda finding: list(LEVELS).index(finding.level)))


def tally(findings: Sequence[Finding]) -> str:
    """Count the findings, in total and per level."""
    levels = [finding.level for finding in findings]
    counts = [f"{levels.count(level):,} {name}" for level, name in _TALLIES.items() if level in levels]
    return f"{number_of(len(levels), 'finding')}{': ' * bool(counts)}{', '.join(counts)}"


def in_splits(counts: Mapping[str, int]) -> str:
    """Format counts by split.

    >>> in_splits({"train": 664, "eval": 0})
    '664 in train, 0 in eval'
    """
    return ", ".join(f"{count:,} in {split}" for split, count in counts.items())


def _damage(facts: Survey) -> Iterator[Finding]:
    if facts.problems:
        first = cut(str(facts.problems[0]), 3 * _WIDTH)
        more = number_of(len(facts.problems) - 1, "other problem")
        text = f"{first}{f'; the section Damage has {more}' if len(facts.problems) > 1 else ''}."
        yield Finding("damaged files", "error", "", text, "damage")
    lost = {split: count for split, count in facts.lost.items() if count}
    if lost:
        some_lost = " and ".join(number_of(count, f"{split} record") for split, count in lost.items())
        they = "it is" if sum(lost.values()) == 1 else "they are"
        text = f"{some_lost} cannot be read; {they} excluded from all statistics."
        yield Finding("unreadable records", "error", "", text, "damage")


def _leaks(facts: Survey) -> Iterator[Finding]:
    every = () if facts.leakage is None else facts.leakage.shared
    keyed = {shared.splits for shared in every if shared.what == "keys"}
    rule = facts.store.manifest.splitting.time if facts.store else None
    for shared in every:
        one, other = shared.splits
        are, lie = ("is", "lies") if shared.count == 1 else ("are", "lie")
        such = cut(", ".join(map(str, shared.examples)), _WIDTH)
        if shared.what == "contents":
            apart = facts.leakage is not None and "keys" in facts.leakage.looked_for and shared.splits not in keyed
            has = "has" if shared.count == 1 else "have"
            text = f"{number_of(shared.count, 'record')} {has} identical contents in {one} and {other}"
            text += ", under different keys." if apart else "."
        elif shared.what == "times":
            text = f"{number_of(shared.count, 'record')} of one split {lie} within the time range of the other: {such}."
        else:
            text = f"{number_of(shared.count, shared.what[:-1])} {are} in both {one} and {other}, such as {such}."
        pieces = shared.what == "keys" and bool(rule and rule["straddling"] == "cut")
        text += " Their records were cut where a split begins." if pieces else ""
        level = "note" if pieces else "error"
        yield Finding(f"shared {shared.what}", level, f"{one} and {other}", text, "leakage")


def _copies(facts: Survey) -> Iterator[Finding]:
    if facts.copied:
        repeats = "repeats" if sum(facts.copied.values()) == 1 else "repeat"
        first, second = (cut(facts.name_of(position), _WIDTH) for position in facts.copies[0][:2])
        text = f"{_records_in(facts.copied)} {repeats} an earlier one exactly (first: {second} = {first})."
        yield Finding("exact copies", "warning", "", text, "worst")


def _groups(stats: Stats) -> Iterator[Finding]:
    """Find fields whose values hardly overlap, or do not overlap at all, between two splits.

    There are three cases: the times of two splits overlap slightly, two splits share at most half of the codes of a
    field, or they share none of them. Codes are texts, whole numbers or bools.
    """
    for name, field in stats.fields.items():
        if field.field.element.is_time and not field.field.rest:
            fields = {split: part.fields[name] for split, part in stats.splits.items()}
            for (one, a), (other, b) in itertools.combinations(fields.items(), 2):
                if np.all(a.count) and np.all(b.count):
                    yield from _overlap(name, {one: a, other: b})
        if not is_code(field) or field.distinct is None or _GATHERED * field.distinct > field.present:
            continue
        for one, other, common, least in values_apart(stats, name):
            about = f"{name}, {one} and {other}"
            if common:
                such = cut(join(list(map(str, common))), _WIDTH)
                fewer, more = (other, one) if stats.splits[other].fields[name].distinct == least else (one, other)
                text = f"{len(common):,} of the {number_of(least, 'value')} of {name} in {fewer} ({such}) "
                text += f"are also in {more}. If splits should not share a {name}, this is leakage."
                yield Finding("groups nearly disjoint", "warning", about, text, "leakage")
            elif field.distinct <= LABEL_VALUES:
                text = "the splits have no common value. This is expected for a group, and a mistake for a label."
                yield Finding("disjoint values", "note", about, text, "fields")


def _overlap(name: str, fields: dict[str, FieldStats]) -> Iterator[Finding]:
    (one, a), (other, b) = sorted(fields.items(), key=lambda item: np.min(item[1].minimum))
    start, stop = (np.asarray(end).view(np.int64).astype(np.float64) for end in (b.minimum, a.maximum))
    parts = [part.values.distributions[0] for part in (a, b)]  # type: ignore[union-attr]
    if start > stop or any(part.values is None for part in parts):  # shares of coarse times would be wrong
        return
    share = max(1 - shares_below(parts[0], start - 1), shares_below(parts[1], stop))
    if share < _MOST_MISSING * 2:
        text = f"{other} begins at {np.min(b.minimum)}, before {one} ends at {np.max(a.maximum)}; "
        text += f"the overlap holds at most {share:.1%} of the values of a split."
        yield Finding("times nearly disjoint", "warning", f"{name}, {one} and {other}", text, "leakage")


def _splits(stats: Stats) -> Iterator[Finding]:
    for split, part in stats.splits.items() if len(stats.splits) > 1 else ():
        if part.records < _RARE_SPLIT * stats.records:
            text = f"{part.records:,} of {number_of(stats.records, 'record')}."
            yield Finding("small split", "error" if not part.records else "warning", split, text, "contents")


def _lengths(facts: Survey, stats: Stats) -> Iterator[Finding]:
    for group, numbers in stats.groups.items():
        lengths = Summary(numbers)
        empty = {split: int(part.groups[group].zeros[0]) for split, part in stats.splits.items()}
        if any(empty.values()):
            text = f"{_records_in(empty)} {'has' if sum(empty.values()) == 1 else 'have'} no steps (empty or None)."
            yield Finding("empty records", "warning", group if len(stats.groups) > 1 else "", text, "worst")
        common = lengths.quantile(0.99) if lengths.count else 0.0
        if lengths.maximum is not None and lengths.maximum > max(_LONG * common, 20):
            steps, positions = facts.worst["longest"]
            longest = cut(facts.name_of(positions[0]), _WIDTH) if steps[0] == lengths.maximum else "The longest record"
            text = f"{longest} has {lengths.maximum:,} steps, {lengths.maximum / lengths.total:.1%} of all steps; "
            text += f"99% of the records have at most {common:,.0f}."
            yield Finding("very long records", "warning", "", text, "lengths")
        for one, other, far in length_shifts(stats, group):
            if far.differs:
                means = [f"{Summary(stats.splits[split].groups[group]).mean:,.1f} in {split}" for split in (one, other)]
                text = f"mean {', '.join(means)} ({distance_text(far)})."
                yield Finding("lengths differ", "warning", f"{one} and {other}", text, "lengths")


def _fields(facts: Survey, stats: Stats) -> Iterator[Finding]:
    for name, field in stats.fields.items():
        yield from _presence(facts, stats, field)
        if isinstance(field.values, Texts):
            yield from _placeholders(field)
        else:
            yield from _numbers(field)
            padded = facts.padded.get(name, 0)
            if padded > _PADDED * max(1, field.present):
                text = f"{padded:,} of {number_of(field.present, 'record')} end in zeros: does the data hold padding?"
                yield Finding("stored padding", "warning", name, text, "fields")
        constant = np.atleast_1d(field.constant & (field.field.sparse is None))  # the values of sparse labels are all 1
        if constant.any() and field.records > 1 and np.sum(field.count) > 1:
            yield Finding("constant values", "warning", name, _unchanging(field, constant), "fields")
        if field.gaps is not None and field.field.element.numpy.kind == "M":  # durations can go up and down
            duplicates = int(field.gaps.zeros[0])
            back = {at[1]: each for at, each in facts.backwards.items() if at[0] == name}
            if back:
                steps = number_of(field.backwards, "step")
                first = cut(facts.name_of(next(iter(back.values()))[1]), _WIDTH)
                records = _records_in({split: count for split, (count, _) in back.items()})
                text = f"goes backwards at {steps} in {records} (first: {first})."
                yield Finding("time goes backwards", "error", name, text, "fields")
            if duplicates:
                text = f"repeats the time of the step before at {duplicates:,} of {field.gaps.count[0]:,} steps."
                yield Finding("duplicate times", "warning", name, text, "fields")


def _presence(facts: Survey, stats: Stats, field: FieldStats) -> Iterator[Finding]:
    """Find None and missing values of a field, and compare their frequency between splits."""
    if not field.records:
        return
    for rule, noun, section, measure in (
        ("None", "records", "fields", attrgetter("none", "records")),
        ("missing values", "values", "missing", _missing_values),
    ):
        count, of = measure(field)
        if not count:
            continue
        fields = {split: measure(part.fields[field.name]) for split, part in stats.splits.items()}
        shares = [lost / max(1, every) for lost, every in fields.values()]
        level = "warning" if count > _MOST_MISSING * of else "note"
        text = f"{count:,} of {of:,} {noun} ({count / of:.1%})"
        missing = np.atleast_1d(field.nan) / np.maximum(1, np.atleast_1d(field.nan) + np.atleast_1d(field.count))
        if len(fields) > 1:
            text += f": {in_splits({split: lost for split, (lost, _) in fields.items()})}"
        if missing.size > 1 and missing.max() > 2 * count / of:
            text += f", {missing.max():.0%} of channel {int(missing.argmax())}"
        if noun == "values":
            text += _where(facts, field.name, field.sizes)
        if max(shares) - min(shares) > _MOST_MISSING:
            level = "warning"
            named = zip(fields, shares, strict=True)
            text += "; as shares: " + ", ".join(f"{share:.1%} of {split}" for split, share in named)
        yield Finding(rule, level, field.name, f"{text}.", section)


def _missing_values(field: FieldStats) -> tuple[int, int]:
    missing = int(np.sum(field.nan))
    return missing, missing + int(np.sum(field.count))


def _where(facts: Survey, name: str, sizes: Numbers | None) -> str:
    """Describe the range of steps that contains most missing values, if it is narrow."""
    counts = facts.missing.get(name)
    if counts is None or sizes is None or not counts.any():
        return ""
    shares = [np.cumsum(each) / each.sum() for each in (counts, facts.steps_of_bins(sizes))]
    (first, last), (begin, end) = (np.searchsorted(each, [0.05, 0.95]).tolist() for each in shares)
    if 2 * (last - first) > end - begin:
        return ""
    start, stop = first * facts.width, (last + 1) * facts.width - 1
    more = " and later" if last == counts.size - 1 else f" to {stop:,}" if start < stop else ""
    return f", 90% of them at step{'s' * bool(more)} {start:,}{more}"


def _records_in(counts: Mapping[str, int]) -> str:
    return " and ".join(f"{number_of(count, 'record')} in {split}" for split, count in counts.items() if count)


def _placeholders(field: FieldStats) -> Iterator[Finding]:
    counted = {text: times for text, times in field.top(1 << 20) if isinstance(text, str)}
    for rule, counts in (
        ("empty texts", {text: times for text, times in counted.items() if not text.strip()}),
        ("placeholders", {text: n for text, n in counted.items() if text.strip().lower() in _PLACEHOLDERS}),
    ):
        if counts:
            such = f": {join([repr(text) for text in counts])}" if rule == "placeholders" else ""
            text = f"{sum(counts.values()):,} of {field.count:,} texts{such}."
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
        end, at = map(int, np.unravel_index(int(far.argmax()), far.shape))
        where = f" in channel {at}" if far.shape[1] > 1 else ""
        values = field.values.distributions  # type: ignore[union-attr]
        part = values[min(at, len(values) - 1)]
        exact = None if part.values is None else part.counts[part.values.astype(np.float64) == ends[end, at]]
        times = "" if exact is None else f" ({number_of(int(exact.sum()), 'time')})"
        text = f"the {('minimum', 'maximum')[end]}{where}, {ends[end, at]:.6g}{times}, is far from other values: "
        text += f"98% lie between {low[at]:.4g} and {high[at]:.4g}."
        yield Finding("outliers", "warning", field.name, text, "fields")


def _labels(stats: Stats) -> Iterator[Finding]:
    for name, field in stats.fields.items():
        if not is_label(stats, name):
            continue
        counts = dict(field.top(LABEL_VALUES))
        value, most = next(iter(counts.items()))
        if most > _FREQUENT * field.count:
            text = f"{most / field.count:.1%} of the records have the value {cut(str(value), _WIDTH)}."
            yield Finding("unbalanced labels", "warning", name, text, "labels")
        rare = [str(value) for value, times in counts.items() if times < _FEW]
        if rare and len(rare) < len(counts):
            text = f"{join([cut(value, _WIDTH) for value in rare])}: fewer than {_FEW} records each."
            yield Finding("rare labels", "note", name, text, "labels")
        for split, part in stats.splits.items():
            absent = [str(value) for value in counts if value not in dict(part.fields[name].top(LABEL_VALUES))]
            if absent and part.records > len(counts):
                text = f"values without a record in {split}: {join([cut(value, _WIDTH) for value in absent])}."
                yield Finding("labels not in every split", "warning", name, text, "labels")


def _shifts(stats: Stats) -> Iterator[Finding]:
    for name, field in stats.fields.items():
        if field.field.element.is_text and not is_label(stats, name):
            continue
        for one, other, far in shifts_of(stats, name):
            if far.differs:
                rule, section = ("labels differ", "labels") if is_label(stats, name) else ("values differ", "fields")
                channel = "" if far.channel is None else f" in channel {far.channel}"
                text = f"{difference_text(stats, name, (one, other), far)} ({distance_text(far)}{channel})."
                yield Finding(rule, "warning", f"{name}, {one} and {other}", text, section)


def _unchanging(field: FieldStats, constant: Any) -> str:
    """Describe which channels are constant.

    If all of these channels have the same value, the text contains it.
    """
    if field.field.element.is_text or constant.size == 1:
        return f"is always {cut(str(field.top(1)[0][0]), _WIDTH)}."
    which = np.flatnonzero(constant)
    values = np.atleast_1d(field.minimum)[which]
    value = str(values[0]) if field.field.element.is_time else f"{float(values[0]):.6g}"
    what = f"always {value}" if (values == values[0]).all() else "constant"
    one = which.size == 1
    names = join(list(map(str, which.tolist())), 6)
    which_one = "Every channel" if constant.all() else f"Channel{'' if one else 's'} {names} (counting from 0)"
    return f"{which_one} {'is' if one or constant.all() else 'are'} {what}."
