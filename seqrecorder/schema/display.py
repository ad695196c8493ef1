"""How results that users hold show themselves: in a line, and as tables in notebooks with everything escaped."""

from __future__ import annotations

import html
import unicodedata
from typing import TYPE_CHECKING

from seqrecorder.errors import printable

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
    return f"<table><caption>{html.escape(printable(caption))}</caption>{''.join(lines)}</table>"


def text_table(rows: Sequence[Sequence[str]], *, right: bool | Sequence[str] = False) -> str:
    """Align the cells of a table in columns.

    >>> print(text_table([("split", "records"), ("train", "90")], right=True))
    split  records
    train       90

    Args:
        rows: the cells, those of the heading first.
        right: headings of the columns that are aligned at their right ends; True stands for all but the first.
    """
    names = (rows[0][1:] if right else ()) if isinstance(right, bool) else right
    columns = []
    for column in zip(*(map(printable, row) for row in rows), strict=True):
        width, at_end = max(map(columns_of, column)), column[0] in names
        spaces = [" " * (width - columns_of(cell)) for cell in column]
        columns.append([s + cell if at_end else cell + s for cell, s in zip(column, spaces, strict=True)])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _line(kind: str, cells: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(printable(cell))}</{kind}>' for cell in cells)}</tr>"


def some(items: Sequence[str], most: int = 4) -> str:
    """Return the first of some texts, with commas, and how many more there are.

    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    rest = f" and {len(items) - most:,} more" if len(items) > most else ""
    return printable(", ".join(items[:most])) + rest


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int) -> str:
    """Escape text and shorten it to that many columns; dots stand for what was left out."""
    text = printable(text[: 4 * width])
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) > width - len("..."):
        # Wide characters take two columns, so half of what is too much can go at once.
        text = text[: -max(1, (columns_of(text) - width) // 2)]
    return text + "..."


def number_of(count: int, noun: str) -> str:
    """Return how many there are of something.

    >>> number_of(1, "record"), number_of(2000, "record")
    ('1 record', '2,000 records')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def bytes_text(size: int) -> str:
    """Return a number of bytes in the largest unit that fits.

    >>> bytes_text(999), bytes_text(1234567)
    ('999 B', '1.2 MB')
    """
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    value = float(size)
    while round(value) >= 1000 and len(units) > 1:  # noqa: PLR2004 - SI units
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" or value >= 99.95 else f"{value:.1f} {units[0]}"  # noqa: PLR2004 - three digits
