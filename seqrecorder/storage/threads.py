"""Work for threads, which is done at once where no thread can be started any more; and how many cores there are."""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Return how many cores this process may use: what TensorFlow takes for the size of its pools."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def submit(pool: ThreadPoolExecutor, work: Callable[[T], R], item: T) -> Future[R]:
    """Return what comes of work on an item, in a thread of the pool where there may be one.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(1) as pool:
    ...     submit(pool, abs, -1).result()
    1

    Once the main thread is at its end, Python starts none: what other threads and `atexit` still have to do is done in
    them then.
    """
    try:
        return pool.submit(work, item)
    except RuntimeError:
        return worked_on(work, item)


def worked_on(work: Callable[[T], R], item: T) -> Future[R]:
    """Return what comes of work on an item, which is done at once.

    >>> worked_on(abs, -1).result()
    1
    """
    done: Future[R] = Future()
    try:
        done.set_result(work(item))
    except BaseException as error:  # noqa: BLE001 - comes out of the future
        done.set_exception(error)
    return done
