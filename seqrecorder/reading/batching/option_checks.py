"""Checks that the options of all strategies share."""

from __future__ import annotations

from typing import Any

from seqrecorder.errors import OptionError

EMPTY = ("keep", "drop", "error")
"""What `empty` says of a record without steps."""

NO_STEPS = "a record without steps (empty='keep' and 'drop' allow them), lengths"


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return an option that counts something, or raise `OptionError`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(f"{name}: expected an int of {least} or more, got {value!r}")
    return value


def check_batch_size(size: Any) -> int:
    """Return a batch size, or raise `OptionError`."""
    return check_count("batch_size", size)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise `OptionError` unless a value is one of some words."""
    if value not in choices:
        raise OptionError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")
