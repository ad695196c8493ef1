"""Work for threads: several items at a time, or ahead of whoever takes them, in order; and how many cores there are."""

from __future__ import annotations

import collections
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LARGE = 32 << 20  # bytes of an item that is worked on alone
_TOGETHER = 64 << 20  # of all that are worked on at a time

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


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return what work on each item gives, several at a time; after an error no more is begun, and it is raised.

    >>> in_threads(abs, [1, -2])
    [1, 2]
    """
    every = list(items)
    with ThreadPoolExecutor(max(1, min(max(8, cores()), len(every)))) as pool:
        waiting = [submit(pool, work, item) for item in every]
        try:
            return [one.result() for one in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def ahead(
    work: Callable[[T], R], items: Iterable[T], threads: int | None = None, size: Callable[[T], int] = lambda _: 0
) -> Iterator[tuple[T, Future[R]]]:
    """Yield each item and what work on it gives, which is done for the next ones meanwhile.

    >>> [(item, done.result()) for item, done in ahead(abs, [1, -2], threads=2)]
    [(1, 1), (-2, 2)]

    Args:
        work: what is called in a thread; it gains where most of it needs no lock of Python's.
        items: taken one by one here, as many ahead as there are threads. An error of theirs comes in its turn, behind
            the items before it.
        threads: how many; 0 works on each item when it is asked for. None is one for each core.
        size: gives the bytes of an item: so few are taken ahead that they do not fill the memory, and a large one is
            worked on when it is asked for.

    Returns:
        An iterator; whoever leaves it early waits for what is in work.
    """
    threads = cores() if threads is None else threads
    waiting: collections.deque[tuple[T, Future[R]]] = collections.deque()
    sizes: collections.deque[int] = collections.deque()
    failure: Exception | None = None
    with ThreadPoolExecutor(max(1, threads), thread_name_prefix="seqrecorder-ahead") as pool:
        source = iter(items)
        try:
            while failure is None:
                try:
                    item = next(source)
                except StopIteration:
                    break
                except Exception as error:  # noqa: BLE001 - whatever it is, it is raised below
                    failure = error
                    continue
                sizes.append(size(item))
                alone = not threads or sizes[-1] > _LARGE
                if not alone:
                    waiting.append((item, submit(pool, work, item)))
                while waiting and (alone or len(waiting) > threads or sum(sizes) > _TOGETHER):
                    sizes.popleft()
                    yield waiting.popleft()
                if alone:
                    sizes.clear()
                    yield item, worked_on(work, item)
                del item  # while the next one is taken, none is held
            while waiting:
                yield waiting.popleft()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failure is not None:
        raise failure
