"""Work on the items of an iterator that is done ahead in threads, in order."""

from __future__ import annotations

import collections
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from seqrecorder.storage.threads import submit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

THREADS = min(4, os.cpu_count() or 1)
"""How many are enough for parsing, beside which others read files and make objects."""
_LARGE = 32 << 20

T = TypeVar("T")
R = TypeVar("R")


def threads_for(size: int) -> int:
    """Return how many items of so many bytes to work on ahead: none of large ones, which would fill the memory.

    >>> threads_for(1 << 30)
    0
    """
    return THREADS if size <= _LARGE else 0


def ahead(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[tuple[T, Future[R]]]:
    """Yield each item and what work on it gives, which is done for the next ones meanwhile.

    >>> [(item, done.result()) for item, done in ahead(abs, [1, -2], threads=2)]
    [(1, 1), (-2, 2)]

    Args:
        work: what is called in a thread; it gains where most of it needs no lock of Python's.
        items: taken one by one here, as many ahead as there are threads. An error of theirs comes in its turn, behind
            the items before it.
        threads: how many; 0 works on each item when it is asked for.

    Returns:
        An iterator; whoever leaves it early waits for what is in work.
    """
    return _ahead(work, items, threads) if threads else _in_turn(work, items)


def _in_turn(work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, Future[R]]]:
    for item in items:
        done: Future[R] = Future()
        try:
            done.set_result(work(item))
        except Exception as error:  # noqa: BLE001 - whatever it is, it comes out of the result
            done.set_exception(error)
        yield item, done
        del item, done  # while the next one is taken, none is held


def _ahead(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[tuple[T, Future[R]]]:
    waiting: collections.deque[tuple[T, Future[R]]] = collections.deque()
    failure: Exception | None = None
    with ThreadPoolExecutor(threads, thread_name_prefix="seqrecorder-ahead") as pool:
        source = iter(items)
        try:
            while failure is None:
                try:
                    item = next(source)
                except StopIteration:
                    break
                except Exception as error:  # noqa: BLE001 - whatever it is, it is raised below
                    failure = error
                else:
                    waiting.append((item, submit(pool, work, item)))
                    if len(waiting) > threads:
                        yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failure is not None:
        raise failure
