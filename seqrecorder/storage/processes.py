"""Processes that work on pieces of data, side by side; they import seqrecorder alone, never the main script."""

from __future__ import annotations

import contextlib
import pickle
import queue
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

from seqrecorder.errors import SeqrecorderError, SourceError
from seqrecorder.storage.threads import ahead, cores, worked_on

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")

_WORTH_SECONDS = 2.0  # of work that is left for one process: to start another takes 0.4 s of a core

# An interrupt reaches the whole group of processes: these ignore it, and the parent kills them. What a library prints
# goes to stderr, for answers leave by stdout.
_PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
sys.path[:] = sys.argv[1:]
from seqrecorder.storage.processes import serve
serve(sys.stdin.buffer, answers)
"""


def in_processes(work: Callable[[T], R], items: Sequence[T]) -> Generator[tuple[T, Future[R]], None, None]:
    """Map a function over items in order; once it is clear that much is left, in processes. Yield items and futures.

    Close it (`contextlib.closing`) to end the processes at once, whatever they are doing.

    Args:
        work: a function of a module of this package, or a `functools.partial` of one, which can be pickled.
        items: of about the same size each, which are pickled, as results are.

    Raises:
        SourceError: in a future, a process ended; its exit code is named.
    """
    begun = time.perf_counter()
    for done, item in enumerate(items):
        left = len(items) - done
        if done and left > 1 and left * (time.perf_counter() - begun) / done > _WORTH_SECONDS and cores() > 1:
            yield from _shared(work, items[done:], min(cores(), left))
            return
        yield item, worked_on(work, item)


def _shared(work: Callable[[T], R], items: Sequence[T], count: int) -> Generator[tuple[T, Future[R]], None, None]:
    children, idle = [_Child(work) for _ in range(count)], queue.SimpleQueue[_Child]()
    for child in children:
        idle.put(child)

    def ask(item: T) -> Any:
        child = idle.get()
        try:
            return child.ask(item)
        finally:
            idle.put(child)

    answers = ahead(ask, items, count)
    try:
        for answer in answers:  # noqa: UP028 - `yield from` would wait for what is at work before it is killed
            yield answer
    finally:
        for child in children:
            child.end()
        answers.close()


class _Child:
    """A process that does some work on one item after the other."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", _PROGRAM, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._work: Any = work

    def ask(self, item: Any) -> Any:
        assert self._process.stdin is not None  # noqa: S101 - they are pipes
        assert self._process.stdout is not None  # noqa: S101
        try:
            pickle.dump((self._work, item), self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
            answer, error = pickle.load(self._process.stdout)  # noqa: S301 - from our own child
        except (OSError, EOFError, pickle.UnpicklingError) as broken:
            code = self._process.wait()
            raise SourceError(
                f"a worker process ended with exit code {code}: was it killed, or out of memory? See its output above"
            ) from broken
        self._work = None  # it has that now
        if error is not None:
            raise error
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # what was not flushed
                if pipe is not None:
                    pipe.close()


def serve(items: Any, answers: Any) -> None:
    """Answer items in a child until the parent closes the pipe, or is gone."""
    work: Any = None
    while True:
        try:
            given, item = pickle.load(items)  # noqa: S301 - from the parent
        except EOFError:
            return
        work = given or work
        try:
            answer = pickle.dumps((work(item), None), pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # noqa: BLE001 - raised in the parent
            answer = pickle.dumps((None, _portable(error)))
        answers.write(answer)
        answers.flush()


def _portable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - the one dumped here
    except Exception:  # noqa: BLE001 - the class of the error may raise any
        return SeqrecorderError(f"{type(error).__name__}: {error}")
    return error
