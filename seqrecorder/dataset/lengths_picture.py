"""The lengths of records as a small picture, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seqrecorder.schema.display import outlines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_SPLITS = 6
_BINS = 30


def lengths_picture(parts: Mapping[str, Sequence[tuple[int, int]]]) -> str:
    """Return which share of the records of each part has how many steps; nothing where there are none.

    Args:
        parts: by name, lengths with how many records have each.
    """
    known = {name: np.array(pairs, np.float64).reshape(-1, 2) for name, pairs in list(parts.items())[:_MOST_SPLITS]}
    longest = max((float(pairs[:, 0].max(initial=0)) for pairs in known.values()), default=0.0)
    if not longest:
        return ""
    edges = np.linspace(0, longest + 1, _BINS + 1)
    counts = {name: np.histogram(pairs[:, 0], edges, weights=pairs[:, 1])[0] for name, pairs in known.items()}
    shares = {name: each / max(1.0, float(each.sum())) for name, each in counts.items()}
    ticks = [(0.0, "0"), (longest / 2, "steps"), (longest, f"{longest:,.0f}")]
    return outlines("steps of the records, by split", edges, shares, ticks)
