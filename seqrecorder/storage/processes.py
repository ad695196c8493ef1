"""What becomes of a dataset that is being made where SIGTERM ends this process, or it is forked.

A forked child shares its parent's open files: it is kept from writing into those of the dataset.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_directories = set[Path]()  # whose files are this process's alone
_DESCRIPTORS = ("/proc/self/fd", "/dev/fd")


@contextlib.contextmanager
def cleanup_when_terminated() -> Iterator[None]:
    """Turn SIGTERM, which would end the process on the spot, into a SystemExit that cleans up on its way.

    Only in the main thread, and only where the program has no handler of its own.

    >>> with cleanup_when_terminated():
    ...     pass

    Raises:
        SystemExit: SIGTERM came; the code is 128 and its number, as shells have it.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    process = os.getpid()

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        if process != os.getpid():  # a forked child has nothing to clean up
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


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
