"""What a report is made of: tables, pictures with a table behind each, distances, figures, and how all looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.schema.display import plain

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


STYLE = """
:root{--bg:#fff;--fg:#1a1c20;--muted:#525866;--soft:#767d8a;--line:#ccd2da;--card:#f6f7f9;--link:#0b4f9e;
--c0:#0b5cad;--c1:#b3420a;--c2:#1b7340;--c3:#7a2aa8;--c4:#7a5600;--c5:#a01c4b;--c6:#0a6470;--c7:#5a5a5a;
--error:#9b1c10;--error-bg:#fde8e6;--warning:#694700;--warning-bg:#fff1cf;--note:#14457c;--note-bg:#e6effb}
@media screen and (prefers-color-scheme:dark){:root{--bg:#14161a;--fg:#e8eaed;--muted:#aeb5c0;--soft:#8a93a1;
--line:#3b414b;
--card:#1d2025;--link:#8cbcff;--c0:#7db4ff;--c1:#ff9d66;--c2:#6fd398;--c3:#d0a2ff;--c4:#e3c15c;--c5:#ff8fb3;
--c6:#6ad0dd;--c7:#b8b8b8;--error:#ffb4aa;--error-bg:#44201d;--warning:#ffd980;--warning-bg:#3a3013;--note:#a9cdfb;
--note-bg:#1b2f47}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
header,main{max-width:1240px;margin:0 auto;padding:0 16px}
header p{margin:16px 0 0;color:var(--muted)}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 8px}
h2{font-size:1.25rem;margin:40px 0 8px;border-bottom:1px solid var(--line);padding-bottom:4px}
h3{font-size:1.05rem;margin:16px 0 4px}
h4{font-size:1rem;margin:0}
p{margin:4px 0 8px}
.soft{color:var(--muted);font-size:.9rem;margin:0}
a{color:var(--link)}
nav{display:flex;flex-wrap:wrap;gap:4px 16px}
nav a{padding:4px 0}
.findings{padding-left:2.6em}
.findings li{margin:6px 0;padding:6px 10px;border-radius:6px;background:var(--note-bg)}
.findings .error{background:var(--error-bg)}
.findings .warning{background:var(--warning-bg)}
.level{font-weight:700;color:var(--note)}
.error .level{color:var(--error)}
.warning .level{color:var(--warning)}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(300px,100%),1fr));gap:16px;align-items:start}
.grid>*{min-width:0}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 12px}
.card h3{margin-top:0}
figure{margin:8px 0}
figcaption{color:var(--muted);font-size:.87rem}
svg{display:block;width:100%}
.told{margin:4px 0;padding-left:1.2em;font-size:.87rem;color:var(--muted)}
.told .differs{color:var(--warning);font-weight:700}
details{margin:4px 0}
summary{cursor:pointer;color:var(--link);font-size:.87rem;padding:4px 0}
table{border-collapse:collapse;min-width:min(100%,26em);margin:8px 0;font-size:.9rem}
caption{text-align:left;color:var(--muted);padding:4px 0}
th,td{text-align:left;vertical-align:top;padding:3px 12px 3px 0;border-bottom:1px solid var(--line)}
.grid table,.grid thead,.grid tbody,.grid tr,.grid td,.grid caption{display:block}
.grid thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.grid tr{border-bottom:2px solid var(--line);padding:4px 0}
.grid td{border:0;padding:0}
.grid td:empty{display:none}
.grid td:first-child{font-weight:700}
.grid td::before{font-weight:400;content:attr(data-h) ": ";color:var(--muted)}
@media(max-width:640px){table,thead,tbody,tr,td,caption{display:block}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
tr{border-bottom:2px solid var(--line);padding:4px 0}td{border:0;padding:0}
td:first-child{font-weight:700}
td::before{font-weight:400;content:attr(data-h) ": ";color:var(--muted)}td:empty{display:none}}
@media print{:root{--bg:#fff;--fg:#000;--muted:#444;--card:#fff;--link:#000}nav{display:none}
.card,figure,tr,.findings li{break-inside:avoid}h2,h3{break-after:avoid}
details::details-content{content-visibility:visible;block-size:auto}}
""".strip().replace("\n", "")
