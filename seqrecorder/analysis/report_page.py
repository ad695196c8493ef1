"""The page of a report: one HTML file, without scripts and without anything from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.analysis.distances import LABEL_VALUES, is_label, shifts_of
from seqrecorder.analysis.findings import LEVELS, in_splits, tally
from seqrecorder.analysis.report_fields import fields_section, lengths_section
from seqrecorder.analysis.report_parts import MOST_FIELDS, STYLE, figure, first_splits, table, told
from seqrecorder.analysis.report_records import records_section
from seqrecorder.analysis.survey import BINS
from seqrecorder.schema.display import bytes_text, number_of, plain, strips

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.analysis.findings import Finding
    from seqrecorder.analysis.leakage import Shared
    from seqrecorder.analysis.record_stats import Stats
    from seqrecorder.analysis.survey import Survey

_MOST_FINDINGS, _MOST_PROBLEMS, _MOST_LABELS = 100, 50, 20
_MOST_BYTES = 2_000_000
_POLICY = "default-src 'none';style-src 'unsafe-inline';img-src data:"
_SECTIONS = {
    "findings": "Findings",
    "contents": "What it holds",
    "lengths": "Lengths and padding",
    "fields": "Values, field by field",
    "missing": "Missing values",
    "labels": "Labels",
    "leakage": "What splits share",
    "worst": "The ten most extreme records",
    "damage": "Damage",
}


def page(found: Survey, findings: Sequence[Finding]) -> str:
    """Return the HTML of what was found: of so many fields that it has less than 2 MB."""
    sizes = (_page(found, findings, most) for most in (MOST_FIELDS, 20, 10, 5))
    return next((html for html in sizes if len(html.encode()) < _MOST_BYTES), _page(found, findings, 1))


def _page(found: Survey, findings: Sequence[Finding], most: int) -> str:
    bodies = {"findings": _findings(findings)}
    if found.stats is not None and found.store is not None:
        stats, shown = found.stats, _shown_fields(found.stats, findings, most)
        bodies |= {
            "contents": _contents(found, stats),
            "lengths": lengths_section(found, stats),
            "fields": fields_section(stats, shown),
            "missing": _missing(found, stats, shown),
            "labels": _labels(stats, shown),
            "leakage": _leakage(found),
            "worst": records_section(found),
        }
    bodies["damage"] = _damage(found)
    links = "".join(f'<a href="#{name}">{_SECTIONS[name]}</a>' for name in bodies)
    sections = "".join(
        f'<section id="{name}" aria-labelledby="h-{name}"><h2 id="h-{name}">{_SECTIONS[name]}</h2>{body}</section>'
        for name, body in bodies.items()
    )
    title = plain(found.where, 200)
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
    """Return the fields that the report shows: those that something was found of first, where they are many."""
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
    return (
        f"<p>{tally(findings)}</p><ol class='findings'>{items}</ol>{f'<p>And {more:,} more.</p>' if more > 0 else ''}"
    )


def _contents(found: Survey, stats: Stats) -> str:
    assert found.store is not None  # noqa: S101 - the page has no such section else
    manifest = found.store.manifest
    rows = []
    for name, part in first_splits(stats).items():
        info = manifest.splits[name]
        lost = found.lost.get(name, 0)
        rows.append((name, f"{part.records:,}", f"{lost:,}", f"{part.records / max(1, stats.records):.1%}",
                     f"{info.steps:,}", bytes_text(info.bytes), f"{len(info.shards):,}"))  # fmt: skip
    fields = [
        (field.name, field.kind.replace("_", " "), field.element.name, str(field.shape) if field.shape else "scalar",
         ", ".join(option for option in ("key", "chunk", "optional") if getattr(field, option)))
        for field in stats.schema.fields[:MOST_FIELDS]
    ]  # fmt: skip
    of = len(stats.schema.fields)
    heads = ("split", "records read", "not readable", "share of records", "steps", "size", "shards")
    return (
        table(f"{number_of(stats.records, 'readable record')} (class {stats.schema.name})", heads, rows, summary="")
        + table(
            f"{number_of(of, 'field')}" + (f", the first {MOST_FIELDS}" if of > MOST_FIELDS else ""),
            ("field", "kind", "dtype", "shape", "options"),
            fields,
            summary="",
        )
    )  # fmt: skip


def _missing(found: Survey, stats: Stats, shown: Sequence[str]) -> str:
    rows, strip = [], {}
    for name in shown:
        field = stats.fields[name]
        if field.none or np.sum(field.missing):
            parts = {split: part.fields[name] for split, part in first_splits(stats).items()}
            missing = {split: int(np.sum(part.missing)) for split, part in parts.items()}
            without = {split: part.none for split, part in parts.items()}
            rows.append((name, *(in_splits(each) if any(each.values()) else "none" for each in (missing, without))))
        counts = found.missing.get(name)
        if counts is not None and counts.any() and field.sizes is not None:
            steps = found.steps_of_bins(field.sizes)
            strip[name] = (counts / np.maximum(1, steps))[: max(1, np.count_nonzero(steps))]
    if not rows:
        return "<p>No value is missing, and no field is None.</p>"
    counted = table(
        "What is missing, by split", ("field", "NaN or NaT values", "records without the field"), rows, summary=""
    )
    if not strip:
        return counted
    caption = "Share of the steps with a missing value, from the first step on"
    last = max(map(len, strip.values()))
    heads = ("steps from", *strip)
    cells = [
        (f"{at * found.width:,}", *(f"{each[at]:.1%}" if at < len(each) else "-" for each in strip.values()))
        for at in range(last)
    ]
    on = "and later" if last == BINS else f"to {last * found.width - 1:,}"
    drawn = strips(caption, strip, ("step 0", f"step {(last - 1) * found.width:,} {on}"))
    darkest = max(float(each.max()) for each in strip.values())
    scale = (
        f"Empty cells 0%, the fullest colour {darkest:.1%}; the last cell covers step {(last - 1) * found.width:,} {on}"
    )
    return figure(drawn, f"{caption}. {scale}.", table(caption, heads, cells)) + counted


def _labels(stats: Stats, shown: Sequence[str]) -> str:
    names = [name for name in shown if is_label(stats, name)]
    if not names:
        return f"<p>No scalar context field has 2 to {LABEL_VALUES} values.</p>"
    parts = first_splits(stats)
    blocks = []
    for name in names:
        counts = {split: dict(part.fields[name].top(LABEL_VALUES)) for split, part in parts.items()}
        rows = [
            (str(value), *(_counted(each, value) for each in counts.values()))
            for value, _ in stats.fields[name].top(_MOST_LABELS)
        ]
        more = max(0, (stats.fields[name].distinct or 0) - _MOST_LABELS)
        title = f"{name}: records of each value, and their share of the split" + (f"; {more} more" if more else "")
        blocks.append(table(title, ("value", *parts), rows, summary="") + told(shifts_of(stats, name)))
    return "".join(blocks)


def _counted(counts: Mapping[Any, int], value: Any) -> str:
    return f"{counts.get(value, 0):,} ({counts.get(value, 0) / max(1, sum(counts.values())):.1%})"


def _leakage(found: Survey) -> str:
    if found.leakage is None:
        return "<p>There is one split alone.</p>"
    looked = ", ".join(found.leakage.looked_for)
    if found.leakage.is_clean:
        return f"<p>Splits share nothing of what was looked for: {plain(looked)}.</p>"
    rows = [(" and ".join(each.splits), each.what, f"{each.count:,}", _examples(each)) for each in found.leakage.shared]
    kinds = {each.what for each in found.leakage.shared}
    pairs = "<p>Each pair gives the record's position in the first split, then in the second, counting from 0.</p>"
    looked = " and ".join(what + " (none shared)" * (what not in kinds) for what in found.leakage.looked_for)
    heads = ("splits", "what", "how many", "examples")
    return (pairs if "contents" in kinds else "") + table(f"Checked: {looked}.", heads, rows, summary="")


def _examples(shared: Shared) -> str:
    more = shared.what != "times" and shared.count > len(shared.examples)
    return ", ".join(map(str, shared.examples)) + (
        f" (first {len(shared.examples)} of {shared.count:,})" if more else ""
    )


def _damage(found: Survey) -> str:
    lost = {split: count for split, count in found.lost.items() if count}
    if not found.problems and not lost:
        return "<p>Every file is as the manifest says, and every record can be read.</p>"
    rows = [(problem.path, problem.message) for problem in found.problems[:_MOST_PROBLEMS]]
    more = len(found.problems) - len(rows)
    unread = "".join(
        f"<p>{number_of(count, 'record')} of {plain(split)} cannot be read.</p>" for split, count in lost.items()
    )
    listed = table(number_of(len(found.problems), "problem"), ("file", "problem"), rows, summary="") if rows else ""
    advice = "<p><code>seqrecorder salvage</code> writes what is whole to a new place.</p>"
    return unread + listed + (f"<p>And {more:,} more.</p>" if more > 0 else "") + advice
