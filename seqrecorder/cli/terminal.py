"""Text for terminals: nothing in it that they would act upon, tables that stand in line, figures with their units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqrecorder.errors import printable
from seqrecorder.schema.display import columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def padded(text: str, width: int, *, end: bool = False) -> str:
    """Return text with spaces up to so many columns: after it, or before it where it belongs at the end."""
    space = " " * (width - columns_of(text))
    return space + text if end else text + space


def indented(lines: Sequence[str]) -> str:
    """Return lines that begin two columns further in."""
    return "\n".join(f"  {line}".rstrip() for line in lines)
