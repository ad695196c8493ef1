"""Tables for notebooks: HTML of results that users hold, with everything escaped that comes from data."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST_ROWS = 50


def html_table(caption: str, heads: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML, of the first rows.

    >>> html_table("a < b", ["n"], [[1]])
    '<table><caption>a &lt; b</caption><tr><th>n</th></tr><tr><td>1</td></tr></table>'
    """
    given = list(rows)
    shown = given[:_MOST_ROWS]
    lines = [_line("th", heads), *(_line("td", row) for row in shown)]
    if len(given) > len(shown):
        lines.append(_line("td", [f"and {len(given) - len(shown):,} more"]))
    return f"<table><caption>{html.escape(caption)}</caption>{''.join(lines)}</table>"


def _line(kind: str, cells: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(str(cell))}</{kind}>' for cell in cells)}</tr>"


def some(items: Sequence[str], most: int = 4) -> str:
    """Return the first of some texts, with commas, and how many more there are.

    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    rest = f" and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest
