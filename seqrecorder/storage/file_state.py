"""A file as it is now, and remembering what was found out about it while it stays the same."""

from __future__ import annotations

import functools
import stat
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

from seqrecorder.errors import ShardReadError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

F = TypeVar("F", bound="Callable[..., Any]")

# Clocks of files advance by 4 ms or more: a file that was written just now may be written again at the same time.
_SETTLED_NS = 1_000_000_000


@attrs.frozen
class FileState:
    """A file as it is now: what was found out of an equal one is true of it.

    Whoever changes a file can set its size and its time of modification back, but not its time of change.

    Attributes:
        path: of the file.
        size: in bytes.
        modified: time of the last change of the contents, in nanoseconds.
        changed: time of the last change of contents, name or attributes (on Windows: of the contents), in nanoseconds.
        inode: of the file.
        device: that the inode is on.
        is_settled: whether its last change lies so far back that another one would have another time.
    """

    path: Path
    size: int
    modified: int
    changed: int
    inode: int
    device: int
    is_settled: bool = attrs.field(eq=False)

    @classmethod
    def of(cls, path: Path) -> FileState:
        """Return the state of a file.

        Raises:
            ShardReadError: it is missing, cannot be looked at, or is no regular file.
        """
        try:
            status = path.stat()
        except OSError as error:
            raise ShardReadError(f"{path}: cannot be read: {error.strerror}", path=path) from None
        if not stat.S_ISREG(status.st_mode):
            what = "directory" if stat.S_ISDIR(status.st_mode) else "pipe or a device"
            raise ShardReadError(f"{path}: expected a file, got a {what}", path=path)
        # Windows calls the time of creation `st_ctime`.
        changed = status.st_mtime_ns if sys.platform == "win32" else status.st_ctime_ns
        return cls(
            path=path,
            size=status.st_size,
            modified=status.st_mtime_ns,
            changed=changed,
            inode=status.st_ino,
            device=status.st_dev,
            is_settled=time.time_ns() - changed > _SETTLED_NS,
        )


def remember(most: int) -> Callable[[F], F]:
    """Return a decorator: what a function of a file's state returned is returned again while the file stays the same.

    Of a file that changed just now nothing is kept.

    >>> import os, pathlib
    >>> @remember(most=16)
    ... def count_bytes(state):
    ...     return len(state.path.read_bytes())
    >>> count_bytes(FileState.of(pathlib.Path(os.__file__))) > 1000
    True

    Args:
        most: how many results are kept.
    """

    def decorate(function: F) -> F:
        kept = functools.lru_cache(maxsize=most)(function)

        @functools.wraps(function)
        def ask(state: FileState, *args: Any) -> Any:
            return (kept if state.is_settled else function)(state, *args)

        return cast("F", ask)

    return decorate
