"""Work on the items of an iterator that is done ahead in threads, in order."""

from __future__ import annotations

import collections
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from seqrecorder.storage.threads import cores, submit, worked_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

_LARGE = 32 << 20  # bytes of an item that is worked on alone
_TOGETHER = 64 << 20  # of all that are worked on at a time

T = TypeVar("T")
R = TypeVar("R")


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
