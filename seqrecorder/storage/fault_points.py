"""Places around every operation on files, where a test can make it fail or kill the process."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPERATIONS = ("mkdir", "lock", "open", "write", "flush", "fsync", "rename", "link", "exchange", "remove")
FAULT_POINTS = tuple(f"{when}_{what}" for what in _OPERATIONS for when in ("before", "after"))
"""Every place where a test can make a file operation fail, or kill the process."""

REQUEST_POINTS = tuple(f"{when}_{what}" for what in ("list", "get", "put", "delete") for when in ("before", "after"))
"""The same of requests to places that are no directories; after a failure, whether it was done is not known."""
_hook: Callable[[str, str], object] | None = None


def fault_point(name: str, path: str | os.PathLike[str]) -> None:
    """Do nothing, unless a test has hung something on this place.

    >>> fault_point("before_write", "corpus/train/train-00000-of-00001.tfrecord")

    Args:
        name: one of `FAULT_POINTS` or `REQUEST_POINTS`.
        path: the file or directory that is about to change or has just changed.
    """
    if _hook is not None:
        if name not in (*FAULT_POINTS, *REQUEST_POINTS):
            raise LookupError(f"fault point {name!r}: expected one of {FAULT_POINTS}")
        _hook(name, os.fspath(path))


@contextlib.contextmanager
def on_fault_point(action: Callable[[str, str], object]) -> Iterator[None]:
    """Call `action(name, path)` at every fault point inside the block: for tests.

    >>> with on_fault_point(print):
    ...     fault_point("before_write", "x")
    before_write x

    Args:
        action: what to call; what it raises comes out of the file operation.
    """
    global _hook  # noqa: PLW0603 - one place for all file operations is the point
    previous, _hook = _hook, action
    try:
        yield
    finally:
        _hook = previous


@contextlib.contextmanager
def faults_around(operation: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the two fault points of an operation around it.

    >>> with on_fault_point(print), faults_around("flush", "x"):
    ...     pass
    before_flush x
    after_flush x

    Args:
        operation: what follows "before_" and "after_" in `FAULT_POINTS` or `REQUEST_POINTS`.
        path: the file or directory.
    """
    fault_point(f"before_{operation}", path)
    yield
    fault_point(f"after_{operation}", path)
