"""Threads and processes: prefetching, parallel maps, signals and forks, scratch directories, progress bars.

Worker processes import only seqrecorder, never the main script.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import importlib.util
import os
import pickle
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import spawn
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from seqrecorder.errors import OptionError, SourceError
from seqrecorder.storage.files import writing
from seqrecorder.storage.locks import locked_directory, remove_abandoned, unlock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from types import FrameType

T = TypeVar("T")
R = TypeVar("R")

_LARGE = 32 << 20  # bytes; a larger item is processed alone, to bound the memory
_TOGETHER = 64 << 20  # bytes of all items in flight, to bound the memory


def cores() -> int:
    """Count the cores that this process may use, as TensorFlow does for its thread pools."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def submit(pool: ThreadPoolExecutor, work: Callable[[T], R], item: T) -> Future[R]:
    """Submit work on an item to a pool.

    If the pool accepts no more work, the work is done immediately, in this thread.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(1) as pool:
    ...     submit(pool, abs, -1).result()
    1

    Once the main thread has ended, Python starts no more threads; other threads and `atexit` handlers then do the work
    themselves.
    """
    try:
        return pool.submit(work, item)
    except RuntimeError:
        return worked_on(work, item)


def worked_on(work: Callable[[T], R], item: T) -> Future[R]:
    """Process an item immediately; return a finished future.

    >>> worked_on(abs, -1).result()
    1
    """
    done: Future[R] = Future()
    try:
        done.set_result(work(item))
    except BaseException as error:  # noqa: BLE001 - raised by the future
        done.set_exception(error)
    return done


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Call a function for each item in threads, and return the results in the order of the items.

    The first error is raised, and calls that have not started are dropped.

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
) -> Generator[tuple[T, Future[R]], None, None]:
    """Map a function over items in order, with prefetching: yield each item and the future of its result.

    >>> [(item, done.result()) for item, done in ahead(abs, [1, -2], threads=2)]
    [(1, 1), (-2, 2)]

    Args:
        work: function to call in threads; worthwhile only if most of it releases the GIL.
        items: items, which this thread reads ahead, one per worker thread. An error of the iterator is raised after the
            results of the items before it.
        threads: number of threads; 0 processes each item on demand. None starts one per core.
        size: function that returns the bytes of an item, to bound the memory of the items in flight; a large item is
            processed on demand.

    Returns:
        An iterator of pairs; closing it early waits for running work.
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
                except Exception as error:  # noqa: BLE001 - raised below
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
                del item  # free the item before the next one is read
            while waiting:
                yield waiting.popleft()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failure is not None:
        raise failure


class Progress:
    """Progress bar on stderr, through tqdm.

    Args:
        show: True forces the bar, False hides it. None shows it if tqdm is installed and stderr is a terminal or a
            notebook.
        label: name of the task.
        unit: plural noun for what is counted.

    Raises:
        OptionError: `show` is not a bool or None, or is True without tqdm.
    """

    def __init__(self, show: bool | None, label: str, unit: str = "records") -> None:  # noqa: FBT001 - see `sr.write`
        if show not in (True, False, None):
            raise OptionError(f"progress: expected True, False or None, got {show!r}")
        installed = importlib.util.find_spec("tqdm") is not None
        if show and not installed:
            raise OptionError("progress=True needs tqdm: pip install tqdm")
        self._bar: Any = None
        self._lock = threading.Lock()
        stream: Any = sys.stderr  # stderr is None in a program without a console
        usable = stream is not None and not stream.closed
        if stream is not None and usable and show is None:
            show = stream.isatty() or type(stream).__module__.startswith("ipykernel.")
        if installed and usable and show:
            from tqdm.auto import tqdm  # notebooks show a widget

            with contextlib.suppress(OSError, ValueError):
                self._bar = tqdm(desc=label, unit=f" {unit}", file=sys.stderr)

    def expect(self, count: int) -> None:
        """Increase the expected total by `count`."""

        def draw(bar: Any) -> None:
            bar.total = (bar.total or 0) + count
            bar.refresh()

        self._draw(draw)

    def reach(self, count: int) -> None:
        """Set the count of finished records."""
        self._draw(lambda bar: bar.update(count - bar.n))

    def advance(self, count: int) -> None:
        """Add to the count of finished records, from any thread."""
        with self._lock:
            self._draw(lambda bar: bar.update(count))

    def close(self) -> None:
        """Stop the bar; its last state stays visible."""
        self._draw(lambda bar: bar.close())

    def _draw(self, draw: Callable[[Any], object]) -> None:
        """Update the bar, if there is one.

        If this fails, for example because stderr is closed, no bar is shown from then on.
        """
        try:
            if self._bar is not None:
                draw(self._bar)
        except (OSError, ValueError):
            self._bar = None


# Processes that share work --------------------------------------------------------------------------------

_WORTH_SECONDS = 2.0  # remaining work that justifies processes: starting one takes 0.4 s of a core

_LOOK_SECONDS = 0.5  # interval at which a child checks whether its parent is alive
_END_SECONDS = 10  # time for a child to end by itself before it is killed

# An interrupt reaches the whole process group, so children ignore it, and the parent ends them. Output that user code
# or a library prints goes to stderr, since answers are sent through stdout.
_PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
items, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)
sys.path[:] = sys.argv[2:]
from seqrecorder.storage.processes_and_signals import serve
serve(items, answers, int(sys.argv[1]))
"""


def in_processes(work: Callable[[T], R], items: Sequence[T]) -> Generator[tuple[T, Future[R]], None, None]:
    """Map a function over items, in worker processes if much work remains.

    Yield each item and the future of its result, in order. The first items are processed in this process. If the
    remaining ones would take long, worker processes share them. To kill the workers immediately, even while they work,
    close the generator (`contextlib.closing`).

    Args:
        work: function in a module of this package, or a `functools.partial` of one that can be pickled.
        items: items of about equal size; items and results are pickled.

    Raises:
        SourceError: raised by a future if its process ended; the message contains its exit code.
    """
    begun = time.perf_counter()
    for done, item in enumerate(items):
        left, seconds = len(items) - done, time.perf_counter() - begun
        # An interpreter embedded in another program has no executable of its own.
        if done and left > 1 and left * seconds / done > _WORTH_SECONDS and cores() > 1 and sys.executable:
            yield from _shared(work, items[done:], min(cores(), left))
            return
        yield item, worked_on(work, item)


def _shared(work: Callable[[T], R], items: Sequence[T], count: int) -> Generator[tuple[T, Future[R]], None, None]:
    children, idle = [Child() for _ in range(count)], queue.SimpleQueue[Child]()
    for child in children:
        idle.put(child)

    def ask(item: T) -> Any:
        child = idle.get()
        try:
            return child.ask(work, item)
        finally:
            idle.put(child)

    answers = ahead(ask, items, count)
    try:
        for answer in answers:  # noqa: UP028 - `yield from` would wait for running work instead of killing it
            yield answer
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.close()
        answers.close()


class ChildTraceback(Exception):  # noqa: N818 - the cause of an error, never raised
    """Traceback of an error in a child process."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


class Child:
    """Worker process that ends when this process ends, and imports seqrecorder, but not the main script."""

    def __init__(self) -> None:
        command = spawn.get_command_line()
        command[command.index("-c") + 1 :] = [_PROGRAM, str(os.getpid()), *sys.path]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - our own
        self._process, self._items = process, cast("IO[bytes]", process.stdin)
        self._answers = cast("IO[bytes]", process.stdout)
        self._work: Any = None

    def ask(self, work: Callable[[T], R], item: T) -> R:
        """Call a function with an item in the child; return its result, or raise its error.

        Args:
            work: function in a module, or a `functools.partial` of one; sent only if it differs from the last one.
            item: argument of the function, which is pickled.

        Raises:
            SourceError: the process has ended.
        """
        try:
            pickle.dump((None if work is self._work else work, item), self._items, pickle.HIGHEST_PROTOCOL)
            self._items.flush()
            answer, error, trace = pickle.load(self._answers)  # noqa: S301 - from our own child
        except (OSError, EOFError, pickle.UnpicklingError) as broken:
            raise SourceError(
                f"a worker process ended with exit code {self._process.wait()}: was it killed, or out of memory? See "
                "its output above"
            ) from broken
        self._work = work
        if error is not None:
            raise error from ChildTraceback(trace)
        return cast("R", answer)

    def let_go(self) -> None:
        """Send no more items, so that the process ends by itself."""
        with contextlib.suppress(OSError):  # the pipe is broken, with bytes still to flush
            self._items.close()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def close(self) -> None:
        """Wait until the process has ended, and kill it after a timeout."""
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.let_go()
        self._answers.close()


def serve(items: IO[bytes], answers: IO[bytes], parent: int) -> None:
    """Process items in a child until the parent closes the pipe or ends.

    Args:
        items: pipe from the parent.
        answers: pipe to the parent.
        parent: process ID of the parent.
    """
    threading.Thread(target=_end_with, args=(parent,), name="seqrecorder-lifeline", daemon=True).start()
    work: Any = None
    while True:
        try:
            sent, item = pickle.load(items)  # noqa: S301 - from the parent
        except EOFError:
            return
        work = sent or work
        try:
            answer = pickle.dumps((work(item), None, ""), pickle.HIGHEST_PROTOCOL)
        except BaseException as error:  # noqa: BLE001 - raised in the parent
            answer = pickle.dumps((None, portable(error), traceback.format_exc()))
        answers.write(answer)
        answers.flush()
        del item, answer


def _end_with(parent: int) -> None:
    """End this process once its parent has ended.

    It ends even if it is at work on an item.
    """
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def portable(error: BaseException) -> BaseException:
    """Return the error if it can be pickled, otherwise a `SourceError` with its text."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - the one dumped here
    except Exception:  # noqa: BLE001 - the class of the error may raise any error
        return SourceError(f"{type(error).__name__}: {error}")
    return error


_directories = set[Path]()  # directories that forked children must not write to


_DESCRIPTORS = ("/proc/self/fd", "/dev/fd")


@contextlib.contextmanager
def cleanup_when_terminated() -> Iterator[None]:
    """Convert SIGTERM, which would kill the process immediately, to a SystemExit, so that cleanup runs.

    This has an effect only in the main thread, and only if the program has no handler of its own.

    >>> with cleanup_when_terminated():
    ...     pass

    Raises:
        SystemExit: SIGTERM arrived; the code is 128 plus the signal number, as in shells.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    process = os.getpid()

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        if process != os.getpid():  # a forked child must not clean up
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def kept_from_children(directory: Path) -> Iterator[None]:
    """Prevent processes forked inside the block from writing to open files in a directory, and from holding its lock.

    A forked child inherits unflushed buffers, and would write them a second time when it exits.
    """
    _directories.add(directory)
    try:
        yield
    finally:
        _directories.discard(directory)


def _begin_child() -> None:
    directories = list(_directories)
    _directories.clear()
    with contextlib.suppress(OSError):
        for directory in directories:
            _let_go(directory)


def _let_go(directory: Path) -> None:
    """Redirect the open descriptors of a directory and its files to the null device."""
    ours = {_identity(path.stat()) for path in (directory, *directory.rglob("*"))}
    nowhere = os.open(os.devnull, os.O_RDWR)
    descriptors = next(path for path in map(Path, _DESCRIPTORS) if path.is_dir())
    for number in [int(path.name) for path in descriptors.iterdir()]:
        with contextlib.suppress(OSError):  # the descriptor of the listing itself, closed by now
            if _identity(os.fstat(number)) in ours:
                os.dup2(nowhere, number, inheritable=False)
    os.close(nowhere)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


_PREFIX = "seqrecorder-scratch-"


_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
"""Names that `mkdtemp` creates with the prefix; directories with similar names may belong to the user."""


def scratch() -> Path:
    """Create a directory inside the temporary directory of this process.

    >>> scratch().is_dir()
    True

    Raises:
        ShardWriteError: the temporary directory is full, or not writable.
    """
    with writing("make a directory for temporary files in", tempfile.gettempdir()):
        return Path(tempfile.mkdtemp(dir=_of_process(os.getpid())))


@functools.cache
def _of_process(process: int) -> Path:
    _remove_left_over()
    directory, descriptor = locked_directory(lambda: Path(tempfile.mkdtemp(prefix=_PREFIX)))

    def remove() -> None:
        if os.getpid() == process:  # otherwise this is a forked child, whose parent still reads the files
            shutil.rmtree(directory, ignore_errors=True)
            unlock(descriptor)

    atexit.register(remove)
    return directory


def _remove_left_over() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if not _NAME.fullmatch(path.name):
            continue  # not a name that `mkdtemp` creates
        with contextlib.suppress(OSError):  # removed in the meantime
            if not path.is_symlink() and (not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()):
                remove_abandoned(path, functools.partial(shutil.rmtree, ignore_errors=True))
