"""What a process that was forked may not do: go on with its parent's files, or with a TensorFlow that lost its threads.

A fork copies memory and shares open files, but takes along only the thread that forked.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

_directories = set[Path]()  # whose files are this process's alone
_without_threads = False
_DESCRIPTORS = ("/proc/self/fd", "/dev/fd")


def check_threads_of_tensorflow(what: str) -> None:
    """Raise where TensorFlow was used before this process was forked: it would wait for threads that are not there.

    Args:
        what: cannot be done.

    Raises:
        OptionError: it was.
    """
    if _without_threads:
        raise OptionError(
            f"{what}: this process (pid {os.getpid()}) was forked after its parent had used TensorFlow, whose threads "
            "a fork does not take along, so that it would hang; start processes by 'spawn' or 'forkserver' "
            "(multiprocessing.get_context), or fork before TensorFlow is used"
        )


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
    global _without_threads  # noqa: PLW0603 - the one state of a process
    # There is no public way to ask for it without making TensorFlow start.
    context = getattr(sys.modules.get("tensorflow.python.eager.context"), "_context", None)
    _without_threads |= bool(getattr(context, "_initialized", False))
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
