"""Parts of columns: those of some of the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.columns import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray


def records_of(column: Column, chosen: NDArray[np.bool_]) -> Column:
    """Return the column of those records that are chosen, bool `(records,)`."""
    present, keep = None, chosen
    if column.present is not None:
        present, keep = column.present[chosen], chosen[column.present]
    inner: dict[str, Any] = {}
    for name in ("steps", "counts"):
        lengths = getattr(column, name)
        if lengths is not None:
            inner[name] = lengths[keep]
            keep = np.repeat(keep, lengths)
    if column.indices is not None:
        inner["indices"] = column.indices[keep]
    return Column(column.values[keep], present=present, **inner)
