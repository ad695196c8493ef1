"""A forked process copies TensorFlow's memory, but takes none of its threads along: to use it there would hang."""

from __future__ import annotations

import os
import sys

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
