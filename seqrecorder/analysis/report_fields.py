"""The sections of a report on lengths and on the values of each field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seqrecorder.analysis.binning import edges_of, number, shares_of, ticks_of
from seqrecorder.analysis.distances import LABEL_VALUES, LEAST, codes_of, length_shifts, shifts_of
from seqrecorder.analysis.report_parts import MOST_BARS, MOST_FIELDS, figure, first_splits, table, told
from seqrecorder.analysis.summary import Summary
from seqrecorder.analysis.survey import BINS
from seqrecorder.analysis.texts import Texts
from seqrecorder.schema.display import bars, number_of, outlines, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.analysis.field_stats import FieldStats
    from seqrecorder.analysis.record_stats import Stats
    from seqrecorder.analysis.survey import Survey

_MOST_CHANNELS = 16


def lengths_section(found: Survey, stats: Stats) -> str:
    """Return the lengths of the records by split, and what strategies of batching waste on them."""
    if not stats.groups:
        return "<p>There is no feature list, so that records have no lengths.</p>"
    buckets = (
        next((plan for plan in found.plans[1] if type(plan.strategy).__name__ == "Bucket"), None)
        if found.plans
        else None
    )
    marks = sorted({steps for _, steps in buckets.shapes if steps}) if buckets is not None else []
    marks = marks if len(marks) <= BINS else []
    parts = []
    for at, group in enumerate(list(stats.groups)[:MOST_FIELDS]):
        summaries = {name: Summary(part.groups[group]) for name, part in first_splits(stats).items()}
        if not any(each.count for each in summaries.values()):
            continue
        whole = {name: each.numbers.distributions[0] for name, each in summaries.items()}
        edges = edges_of(stats.groups[group].distributions[0], is_whole=True)
        which = "" if len(stats.groups) == 1 else f" in {group}"
        longest = max(each.maximum or 0 for each in summaries.values())
        title = f"Length of records in steps{which}"
        caption = f"{title}, as a share of each split's records."
        caption += f" The last bin holds everything up to {longest:,}." if longest > edges[-1] else ""
        caption += " Grey lines: boundaries of buckets." if marks and not at else ""
        rows = [
            (name, f"{s.count:,}", number(s.minimum), *(number(s.quantile(q)) for q in (0.25, 0.5, 0.75, 0.99)),
             number(s.maximum), number(s.mean), f"{int(s.numbers.zeros[0]):,}")
            for name, s in summaries.items()
        ]  # fmt: skip
        heads = ("split", "records", "shortest", "25%", "median", "75%", "99%", "longest", "mean", "empty")
        drawn = outlines(
            title, edges, {n: shares_of(d, edges) for n, d in whole.items()}, ticks_of(edges), [] if at else marks
        )
        parts.append(figure(drawn, caption, table(title, heads, rows)) + told(length_shifts(stats, group)))
    body = f'<div class="grid">{"".join(f"<div>{part}</div>" for part in parts)}{_plans(found)}</div>'
    return body if found.plans else body + "<p>Strategies cannot be compared: files are missing or damaged.</p>"


def _plans(found: Survey) -> str:
    if found.plans is None:
        return ""
    split, plans = found.plans
    heads, *rows = plans.lines()
    caption = f"Padding: the share of each {split} batch that is filler, by strategy."
    drawn = bars(caption, [row[0] for row in rows], {"padding": [1 - plan.efficiency for plan in plans]})
    return f"<div>{figure(drawn, caption, table(caption, heads, rows))}</div>"


def fields_section(stats: Stats, shown: Sequence[str]) -> str:
    """Return the distribution of each field by split, and how far these are apart."""
    rule = (
        f"<p>Two splits are said to differ when their distance exceeds both {LEAST} and what chance would exceed once "
        "in a thousand times. Kolmogorov-Smirnov: the largest difference of the cumulative shares. Difference of "
        "means: the same of normal distributions with these means. Jensen-Shannon: the root of the divergence in "
        "bits. The first and the last bin also hold all values beyond.</p>"
    )
    more = len(stats.fields) - len(shown)
    cards = "".join(f'<div class="card">{_field(stats, name)}</div>' for name in shown)
    return f'{rule}<div class="grid">{cards}</div>{f"<p>And {more:,} more fields.</p>" if more else ""}'


def _field(stats: Stats, name: str) -> str:
    field, parts = stats.fields[name], {split: part.fields[name] for split, part in first_splits(stats).items()}
    codes = codes_of(field)
    head = f"<h3>{plain(name)}</h3><p class='soft'>{field.field.element.name}, {field.field.kind.replace('_', ' ')}</p>"
    if not np.any(field.count):
        return f"{head}<p>No value at all.</p>"
    title, caption = f"{name}: share of each split's values", "Share of each split's values"
    if field.field.key:
        return f"{head}<p>{number_of(len(codes or {}), 'distinct value')}.</p>"
    if codes is not None:
        some = list(codes)[:MOST_BARS]
        counts = {split: codes_of(part) or dict(part.top(LABEL_VALUES)) for split, part in parts.items()}
        shares = {
            split: [each.get(code, 0) / max(1, sum(each.values())) for code in some] for split, each in counts.items()
        }
        if field.distinct is None or field.distinct > len(some):
            of = "" if field.distinct is None else f" of {field.distinct:,}"
            sums = [f"{sum(each):.1%} of {split}" for split, each in shares.items()]
            caption += f": the {len(some)} most frequent{of}, which are {' and '.join(sums)}"
        names = [str(code) if str(code).strip() else repr(code) for code in some]
        rows = [
            (name, *(f"{counts[split].get(code, 0):,}" for split in parts))
            for name, code in zip(names, some, strict=True)
        ]
        body = figure(bars(title, names, shares), f"{caption}.", table(f"{name}: how often", ("value", *parts), rows))
    else:
        body = _histogram(title, caption, field, parts)
    if field.field.element.is_time and len(parts) > 1:
        body += "<p class='soft'>Times are not compared: splits may well lie apart in time.</p>"
    return head + body + told(shifts_of(stats, name)) + _channels(field)


def _histogram(title: str, caption: str, field: FieldStats, parts: Mapping[str, FieldStats]) -> str:
    whole = field.whole
    assert not isinstance(whole, Texts)  # noqa: S101 - texts are codes
    dtype = field.field.element.numpy
    edges = edges_of(whole, is_whole=dtype.kind in "iu")
    known = {split: part.whole for split, part in parts.items() if not isinstance(part.whole, Texts)}
    shares = {split: shares_of(each, edges) for split, each in known.items() if each.total}
    ticks = ticks_of(edges)
    if dtype.kind in "mM":
        texts = [str(np.array(int(place), np.int64).view(dtype)) for place in np.linspace(edges[0], edges[-1], 4)]
        days = {text.partition("T")[0] for text in texts}
        if len(days) == 1 and dtype.kind == "M":
            caption += f", on {days.pop()}"
            texts = [text.partition("T")[2] for text in texts]
        brief = [text.partition(".")[0] for text in texts]
        texts = brief if len({*brief}) == len(brief) else texts
        ticks = list(zip(np.linspace(edges[0], edges[-1], 4).tolist(), texts, strict=True))
    channels = ", all channels together" if np.size(field.count) > 1 else ""
    heads = ("split", "values", "missing", "least", "1%", "median", "99%", "largest", "mean", "deviation")
    rows = [(split, *_figures(part)) for split, part in parts.items()]
    return figure(outlines(title, edges, shares, ticks), f"{caption}{channels}.", table(title, heads, rows))


def _figures(field: FieldStats) -> list[str]:
    numbers = field.values.total() if not isinstance(field.values, Texts) else None
    if numbers is None or not numbers.count[0]:
        return ["0", f"{int(np.sum(field.missing)):,}", *["-"] * 7]
    dtype, part = field.field.element.numpy, numbers.distributions[0]
    values = [numbers.minimum[0], *(part.quantile(q) for q in (0.01, 0.5, 0.99)), numbers.maximum[0], numbers.mean[0]]
    if dtype.kind in "mM":
        cells = [str(np.array(round(float(value)), np.int64).view(dtype)) for value in values] + ["-"]
    else:
        cells = [number(value) for value in [*values, np.sqrt(numbers.variance[0])]]
    return [f"{int(numbers.count[0]):,}", f"{int(numbers.nan[0]):,}", *cells]


def _channels(field: FieldStats) -> str:
    channels = np.atleast_1d(field.count).size
    if isinstance(field.values, Texts) or channels == 1 or field.field.element.is_time:
        return ""
    figures = [np.atleast_1d(getattr(field, name)) for name in ("missing", "minimum", "mean", "maximum", "std")]
    rows = [(str(at), *(number(each[at]) for each in figures)) for at in range(min(channels, _MOST_CHANNELS))]
    caption = f"{field.name} by channel" + (
        f", the first {_MOST_CHANNELS} of {channels:,}" if channels > _MOST_CHANNELS else ""
    )
    return table(
        caption, ("channel", "missing", "least", "mean", "largest", "deviation"), rows, summary="Channels as a table"
    )
