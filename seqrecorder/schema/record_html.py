"""A record as notebooks show it: a table of its fields, and curves of its feature lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.schema.display import cut, html_table
from seqrecorder.schema.svg import curves, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.schema.field import Field

_WIDTH, _MOST_ITEMS, _MOST_CURVES = 100, 12, 4


def record_html(name: str, fields: Sequence[Field], record: Any) -> str:
    """Return a record as HTML: never a whole sequence, and everything escaped."""
    rows, drawn = [], list[str]()
    for field in fields:
        value = getattr(record, field.name)
        rows.append((field.name, field.element.name, cut(_brief(value), _WIDTH)))
        numbers = _numbers(field, value)
        if numbers is not None and len(drawn) < _MOST_CURVES:
            drawn.append(f"<div>{plain(field.name)}{curves(field.name, numbers)}</div>")
    return html_table(name, ("field", "dtype", "value"), rows) + "".join(drawn)


def _brief(value: Any) -> str:
    if isinstance(value, (np.ndarray, list)) and np.ndim(value) + isinstance(value, list):
        some = ", ".join(str(item).replace("\n", " ") for item in value[:_MOST_ITEMS])
        return f"{len(value):,}: {some}" + (", ..." if len(value) > _MOST_ITEMS else "")
    return str(value)


def _numbers(field: Field, value: Any) -> Any:
    """Return what can be drawn of a value as curves, float64 `(steps, channels)`; None of others."""
    is_drawn = field.is_list and field.element.numpy.kind in "fiub" and not field.is_ragged and field.sparse is None
    if not is_drawn or field.element.is_text or value is None or len(value) == 0:
        return None
    return np.asarray(value, np.float64).reshape(len(value), -1)
