"""Work that is handed to threads, or done at once where no thread can be started any more."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
R = TypeVar("R")


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
        done: Future[R] = Future()
        try:
            done.set_result(work(item))
        except BaseException as error:  # noqa: BLE001 - comes out of the future
            done.set_exception(error)
        return done
