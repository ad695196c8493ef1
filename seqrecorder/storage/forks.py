"""A forked child shares its parent's open files: it is kept from writing into those of a dataset that is being made."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_directories = set[Path]()  # whose files are this process's alone
_DESCRIPTORS = ("/proc/self/fd", "/dev/fd")


@contextlib.contextmanager
def kept_from_children(directory: Path) -> Iterator[None]:
    """Let no process that is forked inside the block write into the open files of a directory, or hold its lock.

    What such a child has in the buffers of the files, and writes out when it ends, would stand in them twice.
    """
    _directories.add(directory)
    try:
        yield
    finally:
        _directories.discard(directory)


def _begin_child() -> None:
    directories = list(_directories)
    _directories.clear()
    with contextlib.suppress(OSError):
        for directory in directories:
            _let_go(directory)


def _let_go(directory: Path) -> None:
    """Point every descriptor of this process that is open in a directory nowhere."""
    ours = {_identity(path.stat()) for path in (directory, *directory.rglob("*"))}
    nowhere = os.open(os.devnull, os.O_RDWR)
    found = next(path for path in map(Path, _DESCRIPTORS) if path.is_dir())
    for number in [int(path.name) for path in found.iterdir()]:
        with contextlib.suppress(OSError):  # that of the listing itself is closed by now
            if _identity(os.fstat(number)) in ours:
                os.dup2(nowhere, number, inheritable=False)
    os.close(nowhere)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
