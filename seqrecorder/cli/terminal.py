"""Text for terminals: nothing in it that they would act upon, tables that stand in line, figures with their units."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def printable(text: object) -> str:
    r"""Return text in which characters that a terminal would act upon are escaped.

    >>> print(printable("a\x1b[2J"))
    a\x1b[2J
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in str(text))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """Return aligned columns; those named in `right` end together, the others begin together."""
    right = (right,) if isinstance(right, str) else right
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(columns_of, column)) for column in zip(*cells, strict=True)]
    ends = [name in right for name in header]
    lines = [
        "  ".join(padded(cell, width, end=end) for cell, width, end in zip(row, widths, ends, strict=True)).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return indented(lines)


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def padded(text: str, width: int, *, end: bool = False) -> str:
    """Return text with spaces up to so many columns: after it, or before it where it belongs at the end."""
    space = " " * (width - columns_of(text))
    return space + text if end else text + space


def cut(text: str, width: int) -> str:
    """Return text that takes so many columns at most; dots stand for what was left out."""
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) > width - len("..."):
        # Wide characters take two columns, so half of what is too much can go at once.
        text = text[: -max(1, (columns_of(text) - width) // 2)]
    return text + "..."


def indented(lines: Sequence[str]) -> str:
    """Return lines that begin two columns further in."""
    return "\n".join(f"  {line}".rstrip() for line in lines)


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
