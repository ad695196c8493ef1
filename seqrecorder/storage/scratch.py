"""Directories for what is needed until the process ends, and what killed processes left of theirs.

Each is locked by its process. A killed one cannot remove its own; the next process that needs one does, as the system
has dropped the lock.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import tempfile
from pathlib import Path

from seqrecorder.storage.files import writing
from seqrecorder.storage.locks import is_at, lock, remove_abandoned, unlock

_PREFIX = "seqrecorder-scratch-"
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
"""Of what `mkdtemp` makes with the prefix: other directories of like names are somebody's data."""


def scratch() -> Path:
    """Return a new directory in this process's own temporary one.

    >>> scratch().is_dir()
    True

    Raises:
        ShardWriteError: the place of temporary files is full, or cannot be written to.
    """
    with writing("make a directory for temporary files in", tempfile.gettempdir()):
        return Path(tempfile.mkdtemp(dir=_of_process(os.getpid())))


@functools.cache
def _of_process(process: int) -> Path:
    _remove_left_over()
    directory, descriptor = _locked()

    def remove() -> None:
        if os.getpid() == process:  # else a forked child, whose parent still reads
            shutil.rmtree(directory, ignore_errors=True)
            unlock(descriptor)

    atexit.register(remove)
    return directory


def _locked() -> tuple[Path, int | None]:
    """Return a new directory with its lock, None where there are no locks."""
    while True:
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            descriptor = lock(directory, wait=False)
        except (FileNotFoundError, BlockingIOError):
            continue  # another process took it for left over in the moment before it was locked
        if descriptor is None or is_at(descriptor, directory):
            return directory, descriptor
        unlock(descriptor)


def _remove_left_over() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if not _NAME.fullmatch(path.name):
            continue  # somebody else's, as those of other users are
        with contextlib.suppress(OSError):  # it is removed meanwhile
            if not path.is_symlink() and (not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()):
                remove_abandoned(path, functools.partial(shutil.rmtree, ignore_errors=True))
