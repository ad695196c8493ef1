"""The section of a report on the most extreme records, with a small plot of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.analysis.binning import number
from seqrecorder.analysis.report_parts import MOST_BARS, table
from seqrecorder.schema.display import POINTS, curves, number_of, plain
from seqrecorder.schema.schema import Schema

if TYPE_CHECKING:
    from seqrecorder.analysis.survey import Survey

_MOST_WORDS, _MOST_LISTS = 12, 3
_NOTE = (
    "<p>Headings name the split, the record's position in it, counting from 0, and its key. Of more than three "
    "channels, the thick line is the mean, and the thin ones are the least and the largest. Bars at the bottom: steps "
    "with missing values.</p>"
)


def records_section(found: Survey) -> str:
    """Return the longest, emptiest and least complete records, and such as are there twice."""
    blocks = [_NOTE]
    for kind, (scores, positions) in found.worst.items():
        facts = [_fact(kind, score) for score in scores.tolist()]
        cards = "".join(
            _record(found, position, fact) for position, fact in zip(positions.tolist(), facts, strict=True)
        )
        title = {"longest": "Longest", "emptiest": "Shortest and emptiest", "most missing": "Most missing values"}[kind]
        blocks.append(f'<h3>{title}</h3><div class="grid">{cards or "<p>None.</p>"}</div>')
    copies = "".join(
        _record(found, group[0], f"{len(group):,} records hold the same, such as {_place(found, group[1])}")
        for group in found.copies
    )
    blocks.append(f'<h3>Exact copies within a split</h3><div class="grid">{copies or "<p>None.</p>"}</div>')
    return "".join(blocks)


def _fact(kind: str, score: int) -> str:
    if kind == "emptiest":
        without = -(-score >> 40)
        return f"{number_of((without << 40) - score, 'step')}, {number_of(without, 'field')} without a value"
    return number_of(score, "step") + (" with missing values" if kind == "most missing" else "")


def _place(found: Survey, position: int) -> str:
    split, place = found.split_of(position)
    return f"{split}, position {place:,}"


def _record(found: Survey, position: int, fact: str) -> str:
    record = found.record(position)
    if record is None:
        return ""
    schema = Schema.of(record)
    key = "" if schema.key_field is None else f", key {plain(getattr(record, schema.key_field.name), 40)}"
    lists, rows = list[tuple[bool, str]](), list[tuple[str, str]]()
    for field in schema.fields:
        value = getattr(record, field.name)
        if not field.is_list:
            if not field.shape and field.sparse is None and not field.key and len(rows) < _MOST_LISTS:
                rows.append((field.name, str(value)))
        elif value is None or not len(value):
            rows.append((field.name, "None" if value is None else "no steps"))
        elif field.element.is_text or field.is_ragged or field.sparse is not None:
            rows.append((field.name, f"{len(value):,}: " + " ".join(map(str, value[:_MOST_WORDS]))))
        else:
            numbers = _as_curves(value)
            rows.append((field.name, _brief(numbers)))
            some = f", drawn from {POINTS} of {len(numbers):,} steps" if len(numbers) > POINTS else ""
            drawing = f"<p class='soft'>{plain(field.name)}{some}</p>{curves(field.name, numbers)}"
            lists.append((field.element.is_time, drawing))
    drawn = "".join(text for _, text in sorted(lists, key=lambda pair: pair[0])[:_MOST_LISTS])
    behind = table(f"values of {_place(found, position)}", ("field", "value"), rows[:MOST_BARS])
    title = f"<h4>{plain(_place(found, position))}{key}</h4><p>{plain(fact, 120)}</p>"
    return f'<div class="card">{title}{drawn}{behind}</div>'


def _brief(numbers: Any) -> str:
    known = numbers[np.isfinite(numbers)]
    ends = f", {number(known.min())} to {number(known.max())}" if known.size else ""
    missing = int(np.isnan(numbers).sum())
    return f"{number_of(len(numbers), 'step')}{ends}" + (f", {missing:,} missing" if missing else "")


def _as_curves(value: Any) -> Any:
    array = np.asarray(value)
    array = np.abs(array) if array.dtype.kind == "c" else array
    if array.dtype.kind in "mM":
        times = array.view(np.int64).astype(np.float64)
        array = np.where(np.isnat(array), np.nan, times)
    return array.reshape(len(array), -1).astype(np.float64)
