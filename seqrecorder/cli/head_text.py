"""What `head` prints: records, each value in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.cli.report import WIDTH
from seqrecorder.cli.terminal import indented, table
from seqrecorder.errors import printable
from seqrecorder.schema.display import columns_of, cut, number_of, text_table
from seqrecorder.schema.sparse_vector import SparseVector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seqrecorder.cli.inspect import Head

_LEAST_WIDTH = 8
_CELL = 32


def head_text(head: Head) -> str:
    """Return what `head` prints."""
    blocks = [_opening(head)]
    for position, record in enumerate(head.records):
        rows = [(printable(name), value) for name, value in record.items()]
        width = max((columns_of(name) for name, _ in rows), default=0)
        lines = text_table([(name, _value(value, WIDTH - width - 4)) for name, value in rows]) if rows else ""
        blocks.append(f"record {position}\n{indented(lines.splitlines())}")
    return "\n\n".join(blocks)


def head_table(head: Head) -> str:
    """Return what `head --table` prints: a line for each record, its values cut to what a column holds."""
    if not head.records:
        return _opening(head)
    names = list(dict.fromkeys(name for record in head.records for name in record))
    rows = [
        [str(position), *(_value(record[name], _CELL) if name in record else "" for name in names)]
        for position, record in enumerate(head.records)
    ]
    return f"{_opening(head)}\n\n{table(['record', *names], rows, ['record'])}"


def _opening(head: Head) -> str:
    of = "" if head.total is None else f" of {head.total:,}"
    return f"{printable(head.where)}" + (
        f", the first {len(head.records):,}{of} records" if head.records else ": no records"
    )


def _value(value: Any, width: int) -> str:
    """Return a value in one line: an array by its dtype, its shape and its first elements."""
    if isinstance(value, SparseVector):
        about = f"sparse {_dtype(value.values)} ({value.size},)  "
        pairs = (f"{i}: {_item(v)}" for i, v in zip(value.indices.tolist(), value.values, strict=True))
        return about + _listed("{", pairs, "}", width - len(about))
    if isinstance(value, list):
        about = f"{number_of(len(value), 'step')} of {_dtype(value[0])}  " if value else ""
        steps = (_listed("[", map(_item, np.ravel(_dense(step))), "]", width - len(about)) for step in value)
        return about + _listed("[", steps, "]", width - len(about))
    if isinstance(value, np.ndarray) and value.ndim:
        about = f"{_dtype(value)} {value.shape}  "
        return about + _listed("[", map(_item, value.flat), "]", width - len(about))
    return cut(_item(value), width)


def _dense(value: Any) -> Any:
    return value.to_dense() if isinstance(value, SparseVector) else value


def _dtype(value: Any) -> str:
    array = value.values if isinstance(value, SparseVector) else np.asarray(value)
    if array.dtype != object:
        return str(array.dtype)
    return type(array.flat[0]).__name__ if array.size else "text"


def _item(value: Any) -> str:
    """Return one element; `repr` escapes whatever is not printable."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    if isinstance(value, (str, bytes)) or value is None:
        return repr(value)
    return f"{value:g}" if isinstance(value, (float, np.floating)) else printable(value)


def _listed(opening: str, items: Iterable[str], closing: str, width: int) -> str:
    """Return as many items as fit between two brackets, and dots for the rest."""
    room = width - len(opening) - len(closing)
    shown: list[str] = []
    for item in items:
        shown.append(item)
        if columns_of(", ".join(shown)) <= room:
            continue
        while len(shown) > 1 and columns_of(", ".join([*shown, "..."])) > room:
            shown.pop()
        # The first item is shown at least in part.
        shown = [*shown, "..."] if columns_of(shown[0]) <= room else [cut(shown[0], max(room, _LEAST_WIDTH))]
        break
    return opening + ", ".join(shown) + closing
