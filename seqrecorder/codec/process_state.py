"""What is done once for a process: freed memory is kept, and a fork of one that used TensorFlow is known."""

from __future__ import annotations

import functools
import os
import sys

import numpy as np

from seqrecorder.errors import OptionError

_without_threads = False


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


def _begin_child() -> None:
    global _without_threads  # noqa: PLW0603 - the one state of a process
    # There is no public way to ask for it without making TensorFlow start.
    context = getattr(sys.modules.get("tensorflow.python.eager.context"), "_context", None)
    _without_threads |= bool(getattr(context, "_initialized", False))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


_LARGEST = 31 << 20  # bytes: just under the largest block by which glibc adjusts itself


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep what is freed for what is allocated next, instead of giving it back to the system.

    Encoding and parsing make and drop arrays of megabytes. glibc maps such blocks for each and unmaps them, and the
    system fills each page with zeros again, which can take longer than the encoding itself. glibc raises its threshold
    to the largest block that it has seen freed (`mallopt(3)`, M_MMAP_THRESHOLD), so one that is freed without having
    been touched is enough. At most twice as much stays with the process. Other C libraries do not mind.
    """
    np.empty(_LARGEST, np.uint8)
