"""What a program does that SIGTERM ends: it cleans up on its way."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


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
