"""`report`: one HTML page that describes a dataset, with the findings at the top.

`seqrecorder.analysis.survey` collects the facts, and `seqrecorder.analysis.findings` judges them.
"""

from __future__ import annotations

from importlib import resources
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.findings import (
    LABEL_VALUES,
    LEAST,
    LEVELS,
    Finding,
    codes_of,
    find,
    in_splits,
    is_label,
    length_shifts,
    shifts_of,
    tally,
)
from seqrecorder.analysis.numbers import Summary, Texts, edges_of, number, shares_of, ticks_of
from seqrecorder.analysis.survey import BINS, survey
from seqrecorder.errors import printable
from seqrecorder.schema.display import (
    POINTS,
    as_curves,
    bars,
    bytes_text,
    curves,
    cut,
    html_table,
    number_of,
    outlines,
    plain,
    strips,
)
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.files import local_path, write_file

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from seqrecorder.analysis.findings import Distance
    from seqrecorder.analysis.leakage import Shared
    from seqrecorder.analysis.stats import FieldStats, Stats
    from seqrecorder.analysis.survey import Survey


MOST_FIELDS = 40
"""Maximum number of fields whose values a report shows."""
MOST_BARS = 10
_MOST_SPLITS = 8


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Any]], *, summary: str = "As a table") -> str:
    """Render a table.

    If `summary` is not empty, the table is collapsed under it. On narrow pages, each row becomes a block.
    """
    head = "".join(f'<th role="columnheader" scope="col">{plain(head)}</th>' for head in heads)
    lines = "".join(
        '<tr role="row">'
        + "".join(
            f'<td role="cell" data-h="{plain(head)}">{plain(cell, 80)}</td>'
            for head, cell in zip(heads, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    body = f'<table role="table"><caption>{plain(caption, 120)}</caption><thead role="rowgroup"><tr role="row">{head}'
    body += f'</tr></thead><tbody role="rowgroup">{lines}</tbody></table>'
    return f"<details><summary>{summary}</summary>{body}</details>" if summary else body


def figure(picture: str, caption: str, table: str) -> str:
    """Render a picture with a caption, and a table as its text alternative."""
    return f"<figure>{picture}<figcaption>{plain(caption, 300)}</figcaption>{table}</figure>"


def distances_list(shifts: Sequence[tuple[str, str, Distance]]) -> str:
    """Render the distances between splits as a list."""
    items = "".join(
        f"<li{' class=differs' if far.differs else ''}>{plain(one, 30)} and {plain(other, 30)}: {far.measure} "
        f"{far.value:.3f}{'' if far.channel is None else f' in channel {far.channel}'}, limit {far.threshold:.3f}"
        f"{': differs' if far.differs else ''}</li>"
        for one, other, far in shifts[: _MOST_SPLITS - 1]
    )
    return f"<ul class='told'>{items}</ul>" if items else ""


def first_splits(stats: Stats) -> dict[str, Stats]:
    """Select the first splits, at most as many as one picture can show."""
    return dict(list(stats.splits.items())[:_MOST_SPLITS])


STYLE = resources.files("seqrecorder.analysis").joinpath("report.css").read_text(encoding="utf-8").replace("\n", "")


_MOST_CHANNELS = 16


def lengths_section(facts: Survey, stats: Stats) -> str:
    """Render the record lengths by split, and the padding of each batching strategy."""
    if not stats.groups:
        return "<p>There are no feature lists, so records have no lengths.</p>"
    plans = facts.plans[1] if facts.plans else ()
    buckets = next((plan for plan in plans if type(plan.strategy).__name__ == "Bucket"), None)
    marks = sorted({steps for _, steps in buckets.shapes if steps}) if buckets is not None else []
    marks = marks if len(marks) <= BINS else []
    charts = []
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
        charts.append(figure(drawn, caption, table(title, heads, rows)) + distances_list(length_shifts(stats, group)))
    body = f'<div class="grid">{"".join(f"<div>{part}</div>" for part in charts)}{_plans(facts)}</div>'
    return body if facts.plans else body + "<p>Strategies cannot be compared: files are missing or damaged.</p>"


def _plans(facts: Survey) -> str:
    if facts.plans is None:
        return ""
    split, plans = facts.plans
    heads, *rows = plans.lines()
    caption = f"Padding: the share of each {split} batch that is filler, by strategy."
    drawn = bars(caption, [row[0] for row in rows], {"padding": [1 - plan.efficiency for plan in plans]})
    return f"<div>{figure(drawn, caption, table(caption, heads, rows))}</div>"


def fields_section(stats: Stats, shown: Sequence[str]) -> str:
    """Render the distribution of each field by split, and the distances between splits."""
    rule = (
        f"<p>Two splits differ if their distance exceeds both {LEAST} and the value that chance exceeds once in a "
        "thousand times. Kolmogorov-Smirnov: the largest difference of the cumulative shares. Difference of means: the "
        "same for normal distributions with these means. Jensen-Shannon: the root of the divergence in bits. The first "
        "and last bin include all values beyond them.</p>"
    )
    more = len(stats.fields) - len(shown)
    cards = "".join(f'<div class="card">{_field(stats, name)}</div>' for name in shown)
    return f'{rule}<div class="grid">{cards}</div>{f"<p>And {more:,} more fields.</p>" if more else ""}'


def _field(stats: Stats, name: str) -> str:
    field, fields = stats.fields[name], {split: part.fields[name] for split, part in first_splits(stats).items()}
    codes = codes_of(field)
    head = f"<h3>{plain(name)}</h3><p class='soft'>{field.field.element.name}, {field.field.kind.replace('_', ' ')}</p>"
    if not np.any(field.count):
        return f"{head}<p>No values.</p>"
    title, caption = f"{name}: share of each split's values", "Share of each split's values"
    if field.field.key:
        return f"{head}<p>{number_of(len(codes or {}), 'distinct value')}.</p>"
    if codes is not None:
        shown = list(codes)[:MOST_BARS]
        counts = {split: codes_of(part) or dict(part.top(LABEL_VALUES)) for split, part in fields.items()}
        shares = {
            split: [each.get(code, 0) / max(1, sum(each.values())) for code in shown] for split, each in counts.items()
        }
        if field.distinct is None or field.distinct > len(shown):
            of = "" if field.distinct is None else f" of {field.distinct:,}"
            sums = [f"{sum(each):.1%} of {split}" for split, each in shares.items()]
            caption += f": the {len(shown)} most frequent{of}, which are {' and '.join(sums)}"
        names = [str(code) if str(code).strip() else repr(code) for code in shown]
        rows = [
            (name, *(f"{counts[split].get(code, 0):,}" for split in fields))
            for name, code in zip(names, shown, strict=True)
        ]
        body = figure(bars(title, names, shares), f"{caption}.", table(f"{name}: counts", ("value", *fields), rows))
    elif field.field.element.is_time and field.distinct is None:
        body = f"<p>Too many distinct times for a histogram.</p>{_summary(title, fields)}"
    else:
        body = _histogram(title, caption, field, fields)
    if field.field.element.is_time and len(fields) > 1:
        body += "<p class='soft'>Times are not compared, since splits may cover different periods.</p>"
    return head + body + distances_list(shifts_of(stats, name)) + _channels(field)


def _histogram(title: str, caption: str, field: FieldStats, fields: Mapping[str, FieldStats]) -> str:
    dtype = field.field.element.numpy
    edges, shares = field.binned(fields)
    ticks = ticks_of(edges)
    if dtype.kind in "mM":
        texts = [str(field.native(int(edge))) for edge in np.linspace(edges[0], edges[-1], 4)]
        days = {text.partition("T")[0] for text in texts}
        if len(days) == 1 and dtype.kind == "M":
            caption += f", on {days.pop()}"
            texts = [text.partition("T")[2] for text in texts]
        brief = [text.partition(".")[0] for text in texts]
        texts = brief if len({*brief}) == len(brief) else texts
        ticks = list(zip(np.linspace(edges[0], edges[-1], 4).tolist(), texts, strict=True))
    channels = ", all channels together" if np.size(field.count) > 1 else ""
    return figure(outlines(title, edges, shares, ticks), f"{caption}{channels}.", _summary(title, fields))


def _summary(title: str, fields: Mapping[str, FieldStats]) -> str:
    heads = ("split", "values", "missing", "minimum", "1%", "median", "99%", "maximum", "mean", "deviation")
    return table(title, heads, [(split, *_figures(part)) for split, part in fields.items()])


def _figures(field: FieldStats) -> list[str]:
    numbers = field.values.total() if not isinstance(field.values, Texts) else None
    if numbers is None or not numbers.count[0]:
        return ["0", f"{int(np.sum(field.nan)):,}", *["-"] * 7]
    dtype, part = field.field.element.numpy, numbers.distributions[0]
    least, most = numbers.minimum[0], numbers.maximum[0]
    values = [least, *np.clip(part.quantile([0.01, 0.5, 0.99]), float(least), float(most)), most, numbers.mean[0]]
    if dtype.kind in "mM":
        cells = [str(field.native(round(value))) for value in values] + ["-"]
        cells[1:4] = ["-"] * 3 if part.values is None else cells[1:4]
    else:
        cells = [number(value) for value in [*values, np.sqrt(numbers.variance[0])]]
    return [f"{int(numbers.count[0]):,}", f"{int(numbers.nan[0]):,}", *cells]


def _channels(field: FieldStats) -> str:
    channels = np.atleast_1d(field.count).size
    if isinstance(field.values, Texts) or channels == 1 or field.field.element.is_time:
        return ""
    figures = [np.atleast_1d(getattr(field, name)) for name in ("nan", "minimum", "mean", "maximum", "std")]
    rows = [(str(at), *(number(each[at]) for each in figures)) for at in range(min(channels, _MOST_CHANNELS))]
    shown = f", the first {_MOST_CHANNELS} of {channels:,}" if channels > _MOST_CHANNELS else ""
    heads = ("channel", "missing", "minimum", "mean", "maximum", "deviation")
    return table(f"{field.name} by channel{shown}", heads, rows, summary="Channels as a table")


_MOST_WORDS, _MOST_LISTS = 12, 3
_NOTE = (
    "<p>Headings give the split, the position of the record in it (counting from 0) and its key. For more than three "
    "channels, the thick line is the mean, and the thin lines are minimum and maximum. Bars at the bottom mark steps "
    "with missing values.</p>"
)


def records_section(facts: Survey) -> str:
    """Render the longest and emptiest records, the records with the most missing values, and exact copies."""
    blocks = [_NOTE]
    for kind, (scores, positions) in facts.worst.items():
        pairs = zip(positions.tolist(), scores.tolist(), strict=True)
        cards = "".join(_record(facts, position, _fact(kind, score)) for position, score in pairs)
        title = {"longest": "Longest", "emptiest": "Shortest and emptiest", "most missing": "Most missing values"}[kind]
        blocks.append(f'<h3>{title}</h3><div class="grid">{cards or "<p>None.</p>"}</div>')
    copies = "".join(
        _record(facts, group[0], f"{len(group):,} identical records; another is at {_label(facts, group[1])}")
        for group in facts.copies
    )
    blocks.append(f'<h3>Exact copies within a split</h3><div class="grid">{copies or "<p>None.</p>"}</div>')
    return "".join(blocks)


def _fact(kind: str, score: int) -> str:
    if kind == "emptiest":
        without = -(-score >> 40)
        return f"{number_of((without << 40) - score, 'step')}, {number_of(without, 'field')} without a value"
    return number_of(score, "step") + (" with missing values" if kind == "most missing" else "")


def _label(facts: Survey, position: int) -> str:
    split, number = facts.split_of(position)
    return f"{split}, position {number:,}"


def _record(facts: Survey, position: int, fact: str) -> str:
    record = facts.record(position)
    if record is None:
        return ""
    schema = Schema.of(record)
    key = "" if schema.key_field is None else f", key {plain(getattr(record, schema.key_field.name), 40)}"
    lists, rows = list[tuple[bool, str, Any]](), list[tuple[str, str]]()
    for field in schema.fields:
        value = getattr(record, field.name)
        if not field.is_list:
            if field.is_scalar and not field.key and len(rows) < _MOST_LISTS:
                rows.append((field.name, str(value)))
        elif value is None or not len(value):
            rows.append((field.name, "None" if value is None else "no steps"))
        elif field.is_image:
            rows.append((field.name, number_of(len(value), "image")))
        elif field.element.is_text or field.is_ragged or field.sparse is not None:
            rows.append((field.name, f"{len(value):,}: " + " ".join(map(str, value[:_MOST_WORDS]))))
        else:
            numbers = as_curves(field, value)
            rows.append((field.name, _brief(numbers)))
            lists.append((field.element.is_time, field.name, numbers))
    lists.sort(key=itemgetter(0))
    drawn = "".join(_drawn(name, numbers) for _, name, numbers in lists[:_MOST_LISTS])
    behind = table(f"values of {_label(facts, position)}", ("field", "value"), rows[:MOST_BARS])
    title = f"<h4>{plain(_label(facts, position))}{key}</h4><p>{plain(fact, 120)}</p>"
    return f'<div class="card">{title}{drawn}{behind}</div>'


def _drawn(name: str, numbers: Any) -> str:
    note = f", drawn from {POINTS} of {len(numbers):,} steps" if len(numbers) > POINTS else ""
    return f"<p class='soft'>{plain(name)}{note}</p>{curves(name, numbers)}"


def _brief(numbers: Any) -> str:
    known = numbers[np.isfinite(numbers)]
    ends = f", {number(known.min())} to {number(known.max())}" if known.size else ""
    missing = int(np.isnan(numbers).sum())
    return f"{number_of(len(numbers), 'step')}{ends}" + (f", {missing:,} missing" if missing else "")


_MOST_FINDINGS, _MOST_PROBLEMS, _MOST_LABELS = 100, 50, 20
_MOST_BYTES = 2_000_000
_POLICY = "default-src 'none';style-src 'unsafe-inline';img-src data:"
_SECTIONS = {
    "findings": "Findings",
    "contents": "Contents",
    "lengths": "Lengths and padding",
    "fields": "Values by field",
    "missing": "Missing values",
    "labels": "Labels",
    "leakage": "Overlap of splits",
    "worst": "Extreme records",
    "damage": "Damage",
}


def page(facts: Survey, findings: Sequence[Finding]) -> str:
    """Render the page of a survey, with fewer fields if it would otherwise exceed 2 MB."""
    worst = "" if facts.stats is None or facts.store is None else records_section(facts)
    sizes = (_page(facts, findings, worst, most) for most in (MOST_FIELDS, 20, 10, 5))
    fitting = next((html for html in sizes if len(html.encode()) < _MOST_BYTES), None)
    return _page(facts, findings, worst, 1) if fitting is None else fitting


def _page(facts: Survey, findings: Sequence[Finding], worst: str, most: int) -> str:
    bodies = {"findings": _findings(findings)}
    if facts.stats is not None and facts.store is not None:
        stats, shown = facts.stats, _shown_fields(facts.stats, findings, most)
        bodies |= {
            "contents": _contents(facts, stats),
            "lengths": lengths_section(facts, stats),
            "fields": fields_section(stats, shown),
            "missing": _missing(facts, stats, shown),
            "labels": _labels(stats, shown),
            "leakage": _leakage(facts),
            "worst": worst,
        }
    bodies["damage"] = _damage(facts)
    links = "".join(f'<a href="#{name}">{_SECTIONS[name]}</a>' for name in bodies)
    sections = "".join(
        f'<section id="{name}" aria-labelledby="h-{name}"><h2 id="h-{name}">{_SECTIONS[name]}</h2>{body}</section>'
        for name, body in bodies.items()
    )
    title = plain(facts.where, 200)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>Report on {title}</title><style>{STYLE}</style></head><body>"
        f'<header><p>seqrecorder report</p><h1>{title}</h1><nav aria-label="Sections">{links}</nav></header>'
        f"<main>{sections}</main></body></html>\n"
    )


def _shown_fields(stats: Stats, findings: Sequence[Finding], most: int) -> list[str]:
    """Choose at most `most` fields to show, preferring fields with findings."""
    about = {finding.about.split(",")[0] for finding in findings}
    ranked = sorted(stats.fields, key=lambda name: name not in about)[:most]
    return [name for name in stats.fields if name in ranked]


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "<p>Nothing remarkable was found.</p>"
    items = "".join(
        f'<li class="{each.level}"><span class="level">{LEVELS[each.level]}</span> '
        f'<a href="#{each.section}">{plain(each.rule)}</a>'
        f"{' <b>' + plain(each.about, 80) + '</b>' if each.about else ''}: {plain(each.message, 400)}</li>"
        for each in findings[:_MOST_FINDINGS]
    )
    more = len(findings) - _MOST_FINDINGS
    rest = f"<p>And {more:,} more.</p>" if more > 0 else ""
    return f"<p>{tally(findings)}</p><ol class='findings'>{items}</ol>{rest}"


def _contents(facts: Survey, stats: Stats) -> str:
    assert facts.store is not None  # noqa: S101 - otherwise, the page lacks this section
    manifest = facts.store.manifest
    rows = []
    for name, part in first_splits(stats).items():
        info = manifest.splits[name]
        lost = facts.lost.get(name, 0)
        rows.append((name, f"{part.records:,}", f"{lost:,}", f"{part.records / max(1, stats.records):.1%}",
                     f"{info.steps:,}", bytes_text(info.bytes), f"{len(info.shards):,}"))  # fmt: skip
    fields = [
        (field.name, field.kind.replace("_", " "), field.element.name, str(field.shape) if field.shape else "scalar",
         ", ".join(option for option in ("key", "chunk", "optional") if getattr(field, option)))
        for field in stats.schema.fields[:MOST_FIELDS]
    ]  # fmt: skip
    of = len(stats.schema.fields)
    heads = ("split", "records read", "unreadable", "share of records", "steps", "size", "shards")
    return (
        table(f"{number_of(stats.records, 'readable record')} (class {stats.schema.name})", heads, rows, summary="")
        + table(
            f"{number_of(of, 'field')}" + (f", the first {MOST_FIELDS}" if of > MOST_FIELDS else ""),
            ("field", "kind", "dtype", "shape", "options"),
            fields,
            summary="",
        )
    )  # fmt: skip


def _missing(facts: Survey, stats: Stats, shown: Sequence[str]) -> str:
    rows, strip = [], {}
    for name in shown:
        field = stats.fields[name]
        if field.none or np.sum(field.nan):
            fields = {split: part.fields[name] for split, part in first_splits(stats).items()}
            missing = {split: int(np.sum(part.nan)) for split, part in fields.items()}
            without = {split: part.none for split, part in fields.items()}
            rows.append((name, *(in_splits(each) if any(each.values()) else "none" for each in (missing, without))))
        counts = facts.missing.get(name)
        if counts is not None and counts.any() and field.sizes is not None:
            steps = facts.steps_of_bins(field.sizes)
            strip[name] = (counts / np.maximum(1, steps))[: max(1, np.count_nonzero(steps))]
    if not rows:
        return "<p>No value is missing, and no field is None.</p>"
    columns = ("field", "NaN or NaT values", "records without the field")
    counted = table("Missing values by split", columns, rows, summary="")
    if not strip:
        return counted
    caption = "Share of steps with a missing value, by step"
    last = max(map(len, strip.values()))
    heads = ("steps from", *strip)
    cells = [
        (f"{at * facts.width:,}", *(f"{each[at]:.1%}" if at < len(each) else "-" for each in strip.values()))
        for at in range(last)
    ]
    end = f"step {(last - 1) * facts.width:,} {'and later' if last == BINS else f'to {last * facts.width - 1:,}'}"
    drawn = strips(caption, strip, ("step 0", end))
    darkest = max(float(each.max()) for each in strip.values())
    scale = f"Empty cells 0%, the fullest colour {darkest:.1%}; the last cell covers"
    return figure(drawn, f"{caption}. {scale} {end}.", table(caption, heads, cells)) + counted


def _labels(stats: Stats, shown: Sequence[str]) -> str:
    names = [name for name in shown if is_label(stats, name)]
    if not names:
        return f"<p>No scalar context field has 2 to {LABEL_VALUES} values.</p>"
    splits = first_splits(stats)
    blocks = []
    for name in names:
        counts = {split: dict(part.fields[name].top(LABEL_VALUES)) for split, part in splits.items()}
        rows = [
            (str(value), *(_counted(each, value) for each in counts.values()))
            for value, _ in stats.fields[name].top(_MOST_LABELS)
        ]
        more = max(0, (stats.fields[name].distinct or 0) - _MOST_LABELS)
        title = f"{name}: records per value, and their share of the split" + (f"; {more} more values" if more else "")
        blocks.append(table(title, ("value", *splits), rows, summary="") + distances_list(shifts_of(stats, name)))
    return "".join(blocks)


def _counted(counts: Mapping[Any, int], value: Any) -> str:
    return f"{counts.get(value, 0):,} ({counts.get(value, 0) / max(1, sum(counts.values())):.1%})"


def _leakage(facts: Survey) -> str:
    if facts.leakage is None:
        return "<p>There is only one split.</p>"
    looked = ", ".join(facts.leakage.looked_for)
    if facts.leakage.is_clean:
        return f"<p>No overlap found. Checked: {plain(looked)}.</p>"
    rows = [(" and ".join(each.splits), each.what, f"{each.count:,}", _examples(each)) for each in facts.leakage.shared]
    kinds = {each.what for each in facts.leakage.shared}
    pairs = "<p>Each pair gives the positions of a record in the first and in the second split, counting from 0.</p>"
    looked = " and ".join(what + " (none shared)" * (what not in kinds) for what in facts.leakage.looked_for)
    heads = ("splits", "what", "count", "examples")
    return (pairs if "contents" in kinds else "") + table(f"Checked: {looked}.", heads, rows, summary="")


def _examples(shared: Shared) -> str:
    more = shared.what != "times" and shared.count > len(shared.examples)
    shown = ", ".join(map(str, shared.examples))
    return f"{shown} (first {len(shared.examples)} of {shared.count:,})" if more else shown


def _damage(facts: Survey) -> str:
    lost = {split: count for split, count in facts.lost.items() if count}
    if not facts.problems and not lost:
        return "<p>Every file matches the manifest, and every record is readable.</p>"
    rows = [(problem.path, problem.message) for problem in facts.problems[:_MOST_PROBLEMS]]
    more = len(facts.problems) - len(rows)
    unread = "".join(f"<p>{number_of(n, 'record')} of {plain(split)} cannot be read.</p>" for split, n in lost.items())
    listed = table(number_of(len(facts.problems), "problem"), ("file", "problem"), rows, summary="") if rows else ""
    advice = "<p><code>seqrecorder salvage</code> copies the intact records to a new dataset.</p>"
    return unread + listed + (f"<p>And {more:,} more.</p>" if more > 0 else "") + advice


@attrs.frozen(repr=False)
class Report:
    """Report on a dataset: print it to see the findings, or save it as an HTML page.

    Attributes:
        path: path of the dataset.
        findings: findings, the most serious first.
        html: source of the page, which is self-contained and has no scripts.
        stats: statistics of all readable records; None if the manifest is unreadable.
    """

    path: str
    findings: tuple[Finding, ...]
    html: str
    stats: Stats | None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the HTML page to a file."""
        write_file(local_path(path), self.html.encode())

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        return ((LEVELS[each.level], each.rule, each.about, cut(each.message, 160)) for each in self.findings)

    def __repr__(self) -> str:
        return f"<Report on {cut(self.path, 120)!r}: {tally(self.findings)}>"

    def __str__(self) -> str:
        lines = [f"{level}: {rule}{f' ({on})' if on else ''}: {text}" for level, rule, on, text in self._rows()]
        return "\n".join([repr(self)[1:-1], *map(printable, lines)])

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], ("", "rule", "about", "finding"), self._rows())


def report(
    source: Any,
    destination: str | os.PathLike[str] | None = None,
    *,
    by: str | None = None,
    time: str | None = None,
    batch_size: int = 64,
    progress: bool | None = None,
) -> Report:
    """Describe a dataset on an HTML page, with remarkable findings at the top.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     key: str = sr.context(str, key=True)
    ...     price: np.ndarray = sr.feature_list("float64")
    >>> corpus = tempfile.mkdtemp()
    >>> series = [Series(f"s{n}", np.random.default_rng(n % 9).normal(size=20)) for n in range(10)]
    >>> _ = sr.write(series, corpus)
    >>> print(sr.report(corpus))  # doctest: +ELLIPSIS
    Report on '...': 1 finding: 1 to look at
    Look at it: exact copies: 1 record in train repeats an earlier one exactly (first: s9 = s0).

    The page shows record lengths, the padding of each batching strategy, the values of each field by split, differences
    and overlaps between splits, missing values, labels, the most extreme records, and damaged files (which do not raise
    an error). It is under 2 MB, self-contained and without scripts. Records are read several times. Memory use is that
    of the statistics plus, for each record, 16 bytes and the key.

    Args:
        source: directory of a dataset, result of `seqrecorder.open`, or selection of its records.
        destination: path to write the page to; None to write nothing (`Report.save` can write it later).
        by: name of a context field whose values no two splits should share (see `leakage`).
        time: name of the field with the time of a record; splits should not overlap in time (see `leakage`).
        batch_size: batch size with which batching strategies are compared.
        progress: whether to show a progress bar; None shows one on terminals if tqdm is installed.

    Raises:
        DatasetNotFoundError: the dataset does not exist.
        OptionError: there are no records.
        SchemaError: `by` or `time` names a field that the dataset does not have.
    """
    facts = survey(source, by=by, time=time, batch_size=batch_size, progress=progress)
    findings = find(facts)
    result = Report(facts.where, findings, page(facts, findings), facts.stats)
    if destination is not None:
        result.save(destination)
    return result
