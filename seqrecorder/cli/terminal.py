"""Text for terminals: nothing in it that they would act upon, and tables that stand in line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqrecorder.errors import printable
from seqrecorder.schema.display import columns_of, text_table

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """Align the cells of a table under a heading with a rule; columns named in `right` end together."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    rule = ["-" * max(map(columns_of, column)) for column in zip(*cells, strict=True)]
    return indented(text_table([cells[0], rule, *cells[1:]], right=right).split("\n"))


def indented(lines: Sequence[str]) -> str:
    """Return lines that begin two columns further in."""
    return "\n".join(f"  {line}".rstrip() for line in lines)
