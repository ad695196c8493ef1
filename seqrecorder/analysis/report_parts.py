"""What the sections of a report are made of: tables, pictures with a table behind each, distances, figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.schema.svg import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from seqrecorder.analysis.distances import Distance
    from seqrecorder.analysis.record_stats import Stats

MOST_FIELDS = 40
"""Of so many fields a report shows the values."""
MOST_BARS = 10
_MOST_SPLITS = 8


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Any]], *, summary: str = "As a table") -> str:
    """Return a table, behind its summary if it has one; on a narrow page each row becomes a block: nothing is cut."""
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
    body = (
        f'<table role="table"><caption>{plain(caption, 120)}</caption><thead role="rowgroup"><tr role="row">{head}</tr>'
        f'</thead><tbody role="rowgroup">{lines}</tbody></table>'
    )
    return f"<details><summary>{summary}</summary>{body}</details>" if summary else body


def figure(picture: str, caption: str, table: str) -> str:
    """Return a picture with its caption, and a table for those who do not see it."""
    return f"<figure>{picture}<figcaption>{plain(caption, 300)}</figcaption>{table}</figure>"


def told(shifts: Sequence[tuple[str, str, Distance]]) -> str:
    """Return how far splits are apart."""
    items = "".join(
        f"<li{' class=differs' if far.differs else ''}>{plain(one, 30)} and {plain(other, 30)}: {far.measure} "
        f"{far.value:.3f}{'' if far.channel is None else f' in channel {far.channel}'}, limit {far.threshold:.3f}"
        f"{': differs' if far.differs else ''}</li>"
        for one, other, far in shifts[: _MOST_SPLITS - 1]
    )
    return f"<ul class='told'>{items}</ul>" if items else ""


def first_splits(stats: Stats) -> dict[str, Stats]:
    """Return the splits that pictures have room for."""
    return dict(list(stats.splits.items())[:_MOST_SPLITS])
