"""The user's own metadata: what JSON holds, of a limited depth, so that it comes back as it was given."""

from __future__ import annotations

import json
from typing import Any

from seqrecorder.errors import OptionError

DEEPEST = 100
"""Levels of lists and dictionaries."""


def check_metadata(value: Any) -> None:
    """Raise `OptionError` for what would not come back from JSON as it is."""
    try:
        # Also text that UTF-8 cannot hold, and NaN, which is no JSON.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"metadata: expected what JSON holds, got {error}") from error
    if is_too_deep(value):
        raise OptionError(f"metadata: expected at most {DEEPEST} levels; write deeper ones as text, or as an asset")
    inner = [value]
    while inner:
        item = inner.pop()
        if isinstance(item, dict):
            strange = next((key for key in item if not isinstance(key, str)), None)
            if strange is not None:
                raise OptionError(f"metadata: JSON has text for keys, and would change {strange!r}; write it as text")
            inner += item.values()
        elif isinstance(item, (list, tuple)):
            inner += item


def is_too_deep(value: Any) -> bool:
    """Return whether metadata have more than `DEEPEST` levels, through which not every function can walk."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inner: list[Any] = []
        for item in level:
            inner += item.values() if isinstance(item, dict) else item if isinstance(item, (list, tuple)) else ()
        if not inner:
            return False
        level = inner
    return True
