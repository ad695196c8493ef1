"""Small pictures as SVG that stand in HTML: outlines of distributions, bars, strips, curves.

Whatever text they are given is escaped. Colours are CSS variables (`--c0` to `--c7`, `--soft`) where a page defines
them, else such as are seen on light and on dark; text has the colour of the text around.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from seqrecorder.schema.display import cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

COLOURS = ("#2f74c0", "#d9651f", "#2e9e5b", "#9b59d0", "#a17a00", "#d0406f", "#12919f", "#808080")
_DASHES = ("", "6 3", "2 2", "8 3 2 3", "12 3", "4 6", "1 3", "10 2 1 2")
_WIDTH, _LINE = 320, 16
_PLOT = 104
POINTS = 110
"""So many steps of a curve are drawn at most."""
_MOST_CURVES = 3


def plain(text: object, width: int = 60) -> str:
    r"""Return text for HTML: escaped, cut, and without what a browser would act upon.

    >>> plain("<b>\x1b")
    '&lt;b&gt;\\x1b'
    """
    return html.escape(cut(str(text)[: 4 * width], width))


def picture(title: str, parts: Sequence[str], height: float, width: int = _WIDTH) -> str:
    """Return the parts as a picture that is never wider than what it stands in."""
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" width="{width}" role="img" aria-label="{plain(title, 200)}" '
        'font-size="11" font-family="system-ui,sans-serif" style="max-width:min(100%,420px);height:auto">'
        f"{''.join(parts)}</svg>"
    )


def outlines(
    title: str,
    edges: NDArray[np.float64],
    shares: Mapping[str, NDArray[np.float64]],
    ticks: Sequence[tuple[float, str]],
    marks: Sequence[float] = (),
) -> str:
    """Return distributions over one another, a line each.

    Args:
        title: for those who do not see it.
        edges: of the bins, ascending.
        shares: by name, which share of the values is in each bin.
        ticks: places on the axis, with what is written there.
        marks: places at which a vertical line stands.
    """
    top, parts = _legend(list(shares))
    low, high = float(edges[0]), float(edges[-1])

    def x(value: float) -> float:
        return 6 + (_WIDTH - 12) * ((value / 2 - low / 2) / ((high / 2 - low / 2) or 1))

    base = top + _PLOT
    parts += [f'<path d="M{x(mark):.1f} {top}V{base}" style="{_soft()}"/>' for mark in marks if low <= mark <= high]
    most = max((float(np.max(each, initial=0)) for each in shares.values()), default=0) or 1.0
    for at, each in enumerate(shares.values()):
        path = f"M{x(low):.1f} {base}"
        for left, right, share in zip(edges[:-1].tolist(), edges[1:].tolist(), each.tolist(), strict=True):
            path += f"L{x(left):.1f} {base - _PLOT * share / most:.1f}H{x(right):.1f}"
        parts.append(f'<path d="{path}V{base}" style="{_stroke(at)}"/>')
    parts.append(f'<path d="M4 {base}H{_WIDTH - 4}" style="{_soft()}"/>')
    parts += _ticks([(x(place), text) for place, text in ticks], base + 13)
    return picture(title, parts, base + 18)


def bars(title: str, names: Sequence[str], shares: Mapping[str, Sequence[float]]) -> str:
    """Return horizontal bars: for each name one of each series, with its share as text."""
    top, parts = _legend(list(shares), filled=True)
    most = max((share for each in shares.values() for share in each), default=0) or 1.0
    for at, name in enumerate(names):
        parts.append(f'<text x="2" y="{top + 11}" fill="currentColor">{plain(name, 44)}</text>')
        top += 15
        for series, each in enumerate(shares.values()):
            wide = (_WIDTH - 60) * each[at] / most
            parts.append(f'<rect x="2" y="{top}" width="{wide:.1f}" height="9" style="fill:{colour(series)}"/>')
            parts.append(f'<text x="{wide + 6:.1f}" y="{top + 9}" fill="currentColor">{each[at]:.1%}</text>')
            top += 12
        top += 5
    return picture(title, parts, top)


def strips(title: str, rows: Mapping[str, NDArray[np.float64]], ends: tuple[str, str]) -> str:
    """Return a strip for each row, the darker where the share is larger, and what its ends stand for."""
    parts, top = list[str](), 0
    most = max((float(np.max(each, initial=0)) for each in rows.values()), default=0) or 1.0
    for name, each in rows.items():
        parts.append(f'<text x="2" y="{top + 11}" fill="currentColor">{plain(name, 44)}</text>')
        top += 15
        wide = (_WIDTH - 4) / max(1, each.size)
        parts.append(f'<rect x="2" y="{top}" width="{_WIDTH - 4}" height="14" style="{_soft()}"/>')
        for at in np.flatnonzero(each > 0).tolist():
            opacity = 0.15 + 0.85 * each[at] / most
            parts.append(
                f'<rect x="{2 + at * wide:.1f}" y="{top}" width="{wide + 0.1:.1f}" height="14" '
                f'style="fill:{colour(1)};opacity:{opacity:.2f}"/>'
            )
        top += 20
    parts += _ticks([(2, ends[0]), (_WIDTH - 2, ends[1])], top + 9)
    return picture(title, parts, top + 14)


def curves(title: str, values: NDArray[np.float64], width: int = 260, height: int = 48) -> str:
    """Return numbers `(steps, channels)` as curves; of many channels the mean, between the least and the largest."""
    sampled = _sampled(values)
    finite = sampled[np.isfinite(sampled)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        y = 3 + (height - 6) * (1 - (sampled / 2 - low / 2) / ((high / 2 - low / 2) or 1))
    x = 2 + (width - 4) * np.arange(len(sampled)) / max(1, len(sampled) - 1)
    parts = [
        f'<path d="M{x[at]:.1f} {height - 3}v3" style="fill:none;stroke:{colour(5)};stroke-width:3"/>'
        for at in np.flatnonzero(~np.isfinite(sampled).all(1)).tolist()
    ]
    lines = [y]
    if y.shape[1] > _MOST_CURVES:
        known = np.where(np.isfinite(y), y, np.nan)
        empty = np.asarray(np.isnan(known).all(1))
        known[empty] = 0
        lines = [
            np.where(
                empty[:, np.newaxis],
                np.nan,
                np.stack([f(known, axis=1) for f in (np.nanmin, np.nanmean, np.nanmax)], 1),
            )
        ]
    for each in lines:
        for at in range(each.shape[1]):
            style = _stroke(0 if y.shape[1] > _MOST_CURVES else at, thin=y.shape[1] > _MOST_CURVES and at != 1)
            parts.append(f'<path d="{_path(x, each[:, at])}" style="{style}"/>')
    return picture(title, parts, height, width)


def colour(number: int) -> str:
    """Return the colour of a series."""
    at = number % len(COLOURS)
    return f"var(--c{at},{COLOURS[at]})"


def _sampled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return so many steps as a picture has room for: the extremes of runs of them, in their order."""
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
    """Return where what follows begins, and a line for each of several names."""
    if len(names) < 2:  # noqa: PLR2004 - there is nothing to tell apart
        return 6, []
    parts = []
    for at, name in enumerate(names):
        x, y = 2 + (_WIDTH // 3) * (at % 3), 10 + _LINE * (at // 3)
        parts.append(
            f'<rect x="{x}" y="{y - 8}" width="22" height="9" style="fill:{colour(at)}"/>'
            if filled
            else f'<path d="M{x} {y - 3}h22" style="{_stroke(at)}"/>'
        )
        parts.append(f'<text x="{x + 26}" y="{y}" fill="currentColor">{plain(name, 13)}</text>')
    return 8 + _LINE * -(-len(names) // 3), parts


def _ticks(places: Sequence[tuple[float, str]], y: float) -> list[str]:
    """Return texts below an axis, less those that would lie on one before."""
    parts, end = list[str](), -10.0
    for x, text in places:
        half = 3.2 * len(text)
        anchor, left = (
            ("start", x) if x - half < 0 else ("end", x - 2 * half) if x + half > _WIDTH else ("middle", x - half)
        )
        if left > end + 6:
            parts.append(
                f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="currentColor">{plain(text, 24)}</text>'
            )
            end = left + 2 * half
    return parts


def _stroke(number: int, *, thin: bool = False) -> str:
    dash = _DASHES[number % len(_DASHES)]
    return (
        f"fill:none;stroke:{colour(number)};stroke-width:{'.6' if thin else '1.6'}"
        f"{';stroke-dasharray:' + dash if dash else ''}"
    )


def _soft() -> str:
    return "fill:none;stroke:var(--soft,#909090)"
