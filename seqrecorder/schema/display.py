"""Formatting of results: one-line texts, tables for terminals, and HTML tables and SVG pictures for notebooks.

All text in HTML is escaped. Nothing here reads a dataset.
"""

from __future__ import annotations

import html
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field


_MOST_ROWS = 50


def html_table(caption: str, heads: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Format the first rows of a table as HTML.

    >>> html_table("a < b", ["n"], [[1]])
    '<table><caption>a &lt; b</caption><tr><th>n</th></tr><tr><td>1</td></tr></table>'
    """
    all_rows = list(rows)
    shown = all_rows[:_MOST_ROWS]
    lines = [_line("th", heads), *(_line("td", row) for row in shown)]
    if len(all_rows) > len(shown):
        lines.append(_line("td", [f"and {len(all_rows) - len(shown):,} more"]))
    return f"<table><caption>{html.escape(printable(caption))}</caption>{''.join(lines)}</table>"


def text_table(rows: Sequence[Sequence[str]], *, right: bool | Sequence[str] = False) -> str:
    """Format a table as aligned text that fits the terminal.

    Long cells are cut. If the table is still too wide, it is split into blocks, each of which repeats the first column.

    >>> print(text_table([("split", "records"), ("train", "90")], right=True))
    split  records
    train       90

    Args:
        rows: rows of cells; the first row is the heading.
        right: headings of the right-aligned columns; True for all columns but the first.
    """
    names = (rows[0][1:] if right else ()) if isinstance(right, bool) else right
    most = terminal_width() or sys.maxsize
    columns: list[list[str]] = []
    for column in zip(*(map(printable, row) for row in rows), strict=True):
        room = most - columns_of(columns[0][0]) - 2 if columns else most // 2
        cells = [cell if columns_of(cell) <= room else cut(cell, room) for cell in column]
        width, at_end = max(map(columns_of, cells)), cells[0] in names
        spaces = [" " * (width - columns_of(cell)) for cell in cells]
        columns.append([s + cell if at_end else cell + s for cell, s in zip(cells, spaces, strict=True)])
    blocks = [columns[:1]]
    for cells in columns[1:]:
        if len(blocks[-1]) > 1 and sum(columns_of(one[0]) + 2 for one in [*blocks[-1], cells]) > most + 2:
            blocks.append(columns[:1])
        blocks[-1] = [*blocks[-1], cells]
    tables = []
    for block in blocks:
        lines = [line for line in zip(*block, strict=True) if block is blocks[0] or any(map(str.strip, line[1:]))]
        tables.append("\n".join("  ".join(line).rstrip() for line in lines))
    return "\n\n".join(tables)


def terminal_width() -> int | None:
    """Return the width of the terminal in columns, or None if the output is a file, a pipe or a notebook."""
    import shutil  # slow to import

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if is_terminal else None


def fit(text: str) -> str:
    """Wrap text between words to the width of the terminal."""
    import textwrap

    width = terminal_width()
    return text if width is None else textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def _line(kind: str, cells: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(printable(cell))}</{kind}>' for cell in cells)}</tr>"


def join(items: Sequence[str], most: int = 4) -> str:
    """Join the first `most` texts with commas, and append the number of those left out.

    >>> join(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    rest = f" and {len(items) - most:,} more" if len(items) > most else ""
    return printable(", ".join(items[:most])) + rest


def columns_of(text: str) -> int:
    """Count the terminal columns that a text occupies; wide characters occupy two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int) -> str:
    """Escape text and shorten it to `width` terminal columns, with an ellipsis."""
    text = printable(text[: 4 * width])
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) > width - len("..."):
        # Half of the excess is safe to remove: a character takes at most two columns.
        text = text[: -max(1, (columns_of(text) - width) // 2)]
    return text + "..."


def number_of(count: int, noun: str) -> str:
    """Format a count and its noun, in singular or plural.

    >>> number_of(1, "record"), number_of(2000, "record")
    ('1 record', '2,000 records')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def bytes_text(size: int) -> str:
    """Format a number of bytes in the largest unit that fits.

    >>> bytes_text(999), bytes_text(1234567)
    ('999 B', '1.2 MB')
    """
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    value = float(size)
    while round(value) >= 1000 and len(units) > 1:  # noqa: PLR2004 - SI units
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" or value >= 99.95 else f"{value:.1f} {units[0]}"  # noqa: PLR2004 - three digits


COLOURS = ("#2f74c0", "#d9651f", "#2e9e5b", "#9b59d0", "#a17a00", "#d0406f", "#12919f", "#808080")
_DASHES = ("", "6 3", "2 2", "8 3 2 3", "12 3", "4 6", "1 3", "10 2 1 2")
_WIDTH, _LINE = 320, 16
_PLOT = 104
_SOFT = "fill:none;stroke:var(--soft,#909090)"
POINTS = 110
"""Largest number of points in a curve."""
_MOST_CURVES = 3


def plain(text: object, width: int = 60) -> str:
    r"""Escape and cut text for HTML.

    >>> plain("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    return html.escape(cut(str(text)[: 4 * width], width))


def picture(title: str, elements: Sequence[str], height: float, width: int = _WIDTH) -> str:
    """Wrap SVG elements in a picture that is never wider than its container."""
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" width="{width}" role="img" aria-label="{plain(title, 200)}" '
        'font-size="11" font-family="system-ui,sans-serif" style="max-width:min(100%,420px);height:auto">'
        f"{''.join(elements)}</svg>"
    )


def outlines(
    title: str,
    edges: NDArray[np.float64],
    shares: Mapping[str, NDArray[np.float64]],
    ticks: Sequence[tuple[float, str]],
    marks: Sequence[float] = (),
) -> str:
    """Draw overlaid histograms, each as one outline.

    Args:
        title: label for screen readers.
        edges: edges of the bins, ascending.
        shares: mapping of histogram name to the share of values in each bin.
        ticks: pairs of a position on the axis and its label.
        marks: positions of vertical lines.
    """
    top, elements = _legend(list(shares))
    low, high = float(edges[0]), float(edges[-1])

    def x(value: float) -> float:
        return 6 + (_WIDTH - 12) * ((value / 2 - low / 2) / ((high / 2 - low / 2) or 1))

    base = top + _PLOT
    elements += [f'<path d="M{x(mark):.1f} {top}V{base}" style="{_SOFT}"/>' for mark in marks if low <= mark <= high]
    most = max((float(np.max(each, initial=0)) for each in shares.values()), default=0) or 1.0
    for at, each in enumerate(shares.values()):
        path = f"M{x(low):.1f} {base}"
        for left, right, share in zip(edges[:-1].tolist(), edges[1:].tolist(), each.tolist(), strict=True):
            path += f"L{x(left):.1f} {base - _PLOT * share / most:.1f}H{x(right):.1f}"
        elements.append(f'<path d="{path}V{base}" style="{_stroke(at)}"/>')
    elements.append(f'<path d="M4 {base}H{_WIDTH - 4}" style="{_SOFT}"/>')
    elements += _ticks([(x(value), text) for value, text in ticks], base + 13)
    return picture(title, elements, base + 18)


def bars(title: str, names: Sequence[str], shares: Mapping[str, Sequence[float]]) -> str:
    """Draw one horizontal bar per name and series, labelled with its share in percent."""
    top, elements = _legend(list(shares), filled=True)
    most = max((share for each in shares.values() for share in each), default=0) or 1.0
    for at, name in enumerate(names):
        elements.append(f'<text x="2" y="{top + 11}" fill="currentColor">{plain(name, 44)}</text>')
        top += 15
        for series, each in enumerate(shares.values()):
            wide = (_WIDTH - 60) * each[at] / most
            elements.append(f'<rect x="2" y="{top}" width="{wide:.1f}" height="9" style="fill:{colour(series)}"/>')
            elements.append(f'<text x="{wide + 6:.1f}" y="{top + 9}" fill="currentColor">{each[at]:.1%}</text>')
            top += 12
        top += 5
    return picture(title, elements, top)


def strips(title: str, rows: Mapping[str, NDArray[np.float64]], ends: tuple[str, str]) -> str:
    """Draw each row as a strip of cells, darker for larger shares, with labels at both ends."""
    elements, top = list[str](), 0
    most = max((float(np.max(each, initial=0)) for each in rows.values()), default=0) or 1.0
    for name, each in rows.items():
        elements.append(f'<text x="2" y="{top + 11}" fill="currentColor">{plain(name, 44)}</text>')
        top += 15
        wide = (_WIDTH - 4) / max(1, each.size)
        elements.append(f'<rect x="2" y="{top}" width="{_WIDTH - 4}" height="14" style="{_SOFT}"/>')
        for at in np.flatnonzero(each > 0).tolist():
            opacity = 0.15 + 0.85 * each[at] / most
            elements.append(
                f'<rect x="{2 + at * wide:.1f}" y="{top}" width="{wide + 0.1:.1f}" height="14" '
                f'style="fill:{colour(1)};opacity:{opacity:.2f}"/>'
            )
        top += 20
    elements += _ticks([(2, ends[0]), (_WIDTH - 2, ends[1])], top + 9)
    return picture(title, elements, top + 14)


def curves(title: str, values: NDArray[np.float64]) -> str:
    """Draw numbers of shape `(steps, channels)` as curves, one per channel.

    If there are many channels, only their minimum, mean and maximum are drawn.
    """
    width, height = 260, 48
    sampled = _sample(values)
    finite = sampled[np.isfinite(sampled)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        y = 3 + (height - 6) * (1 - (sampled / 2 - low / 2) / ((high / 2 - low / 2) or 1))
    x = 2 + (width - 4) * np.arange(len(sampled)) / max(1, len(sampled) - 1)
    elements = [
        f'<path d="M{x[at]:.1f} {height - 3}v3" style="fill:none;stroke:{colour(5)};stroke-width:3"/>'
        for at in np.flatnonzero(~np.isfinite(sampled).all(1)).tolist()
    ]
    has_many = y.shape[1] > _MOST_CURVES
    if has_many:
        known = np.where(np.isfinite(y), y, np.nan)
        with np.errstate(invalid="ignore"):  # a step without a finite value has no mean
            mean = np.nansum(known, 1) / np.isfinite(known).sum(1)
        y = np.stack([np.fmin.reduce(known, 1), mean, np.fmax.reduce(known, 1)], 1)
    for at in range(y.shape[1]):
        style = _stroke(0 if has_many else at, thin=has_many and at != 1)
        elements.append(f'<path d="{_path(x, y[:, at])}" style="{style}"/>')
    return picture(title, elements, height, width)


def colour(number: int) -> str:
    """Return the CSS colour of a series."""
    at = number % len(COLOURS)
    return f"var(--c{at},{COLOURS[at]})"


def _sample(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reduce steps to at most `POINTS` points: the minimum and maximum of each run of steps."""
    if len(values) <= POINTS:
        return values
    runs = np.array_split(values, POINTS // 2)
    with np.errstate(invalid="ignore"):
        ends = [(run.min(0), run.max(0)) if at % 2 else (run.max(0), run.min(0)) for at, run in enumerate(runs)]
    return np.array([end for pair in ends for end in pair])


def _path(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    path, pen = "", "M"
    for left, up in zip(x.tolist(), y.tolist(), strict=True):
        if not np.isfinite(up):
            pen = "M"
            continue
        path += f"{pen}{left:.1f} {up:.1f}" + ("h.5" if pen == "M" else "")
        pen = "L"
    return path or "M0 0"


def _legend(names: Sequence[str], *, filled: bool = False) -> tuple[int, list[str]]:
    """Draw a legend with an entry per name, and return its height and its elements."""
    if len(names) < 2:  # noqa: PLR2004 - one series needs no legend
        return 6, []
    elements = []
    for at, name in enumerate(names):
        x, y = 2 + (_WIDTH // 3) * (at % 3), 10 + _LINE * (at // 3)
        elements.append(
            f'<rect x="{x}" y="{y - 8}" width="22" height="9" style="fill:{colour(at)}"/>'
            if filled
            else f'<path d="M{x} {y - 3}h22" style="{_stroke(at)}"/>'
        )
        elements.append(f'<text x="{x + 26}" y="{y}" fill="currentColor">{plain(name, 13)}</text>')
    return 8 + _LINE * -(-len(names) // 3), elements


def _ticks(ticks: Sequence[tuple[float, str]], y: float) -> list[str]:
    """Draw the labels of an axis, leaving out those that would overlap the previous label."""
    elements, end = list[str](), -10.0
    for x, text in ticks:
        half = 3.2 * len(text)
        anchor, left = (
            ("start", x) if x - half < 0 else ("end", x - 2 * half) if x + half > _WIDTH else ("middle", x - half)
        )
        if left > end + 6:
            elements.append(
                f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="currentColor">{plain(text, 24)}</text>'
            )
            end = left + 2 * half
    return elements


def _stroke(number: int, *, thin: bool = False) -> str:
    dash = _DASHES[number % len(_DASHES)]
    return (
        f"fill:none;stroke:{colour(number)};stroke-width:{'.6' if thin else '1.6'}"
        f"{';stroke-dasharray:' + dash if dash else ''}"
    )


_VALUE_WIDTH, _MOST_ITEMS, _MOST_PICTURES = 100, 12, 4


def record_html(name: str, fields: Sequence[Field], record: Any) -> str:
    """Format a record as HTML.

    Long sequences are cut, and all text is escaped.
    """
    rows, drawn = [], list[str]()
    for field in fields:
        value = getattr(record, field.name)
        rows.append((field.name, field.element.name, cut(_brief(value), _VALUE_WIDTH)))
        numbers = as_curves(field, value)
        if numbers is not None and len(drawn) < _MOST_PICTURES:
            drawn.append(f"<div>{plain(field.name)}{curves(field.name, numbers)}</div>")
    return html_table(name, ("field", "dtype", "value"), rows) + "".join(drawn)


def _brief(value: Any) -> str:
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim):
        first = ", ".join(str(item).replace("\n", " ") for item in value[:_MOST_ITEMS])
        return f"{len(value):,}: {first}" + (", ..." if len(value) > _MOST_ITEMS else "")
    return str(value)


def as_curves(field: Field, value: Any) -> Any:
    """Convert a feature list to float64 of shape `(steps, channels)`, for drawing.

    The result is None if there is nothing to draw.
    """
    is_drawn = field.is_list and not (field.element.is_text or field.is_image or field.is_ragged)
    if not is_drawn or field.sparse is not None or value is None or len(value) == 0:
        return None
    return numbers_of_steps(np.asarray(value))


def numbers_of_steps(steps: NDArray[Any]) -> NDArray[np.float64]:
    """Convert steps to float64 of shape `(steps, channels)`.

    Complex numbers become magnitudes, times become counts of their unit, and NaT becomes NaN.
    """
    if steps.dtype.kind == "c":
        steps = np.abs(steps)
    elif steps.dtype.kind in "mM":
        steps = np.where(np.isnat(steps), np.nan, steps.view(np.int64).astype(np.float64))
    return steps.reshape(len(steps), -1).astype(np.float64)
