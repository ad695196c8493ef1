"""Worker processes that encode records, with the same bytes in the same order as one process alone."""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import logging
import math
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from multiprocessing import spawn
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.errors import OptionError, SeqrecorderError, SourceError
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.threads import cores
from seqrecorder.wire.byte_rows import sizes
from seqrecorder.writing.columns import Block
from seqrecorder.writing.intake import LifeCycle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.writing.columns import Sources


_LOOK_SECONDS = 0.5
_END_SECONDS = 10
_RESULT_BYTES = 32 << 20  # after which a worker hands over what it has, and the rest of its chunk waits
_SIZE = struct.Struct("<q")
_PIPE_BYTES = 1 << 20  # what Linux allows without rights; its default is a sixteenth

# An interrupt reaches the whole group of processes; the parent decides what becomes of it.
_PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
tasks, results, parent = map(int, sys.argv[1:4])
sys.path[:] = sys.argv[4:]
from seqrecorder.writing.workers import serve
serve(tasks, results, parent)
"""

_state = {"starts": False}


def is_starting() -> bool:
    """Check whether this is a worker that runs the main script in order to have its classes."""
    return _state["starts"]


class WorkerTraceback(Exception):  # noqa: N818 - the cause of an error, never raised
    """Traceback of an error in a worker."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


# In the process that writes -----------------------------------------------------------------------------------------


def instructions(record_class: type, params: Mapping[str, Any], *, rows: bool) -> tuple[bytes, bytes]:
    """Return the start messages of a worker: the state of this process, then what to run.

    Args:
        record_class: of the records, which the worker imports by name.
        params: for its hooks.
        rows: whether a line for the CSV is wanted of each record.
    """
    likeness = spawn.get_preparation_data("seqrecorder-worker")
    del likeness["authkey"]  # of multiprocessing's own connections
    return pickle.dumps(likeness), pickle.dumps((record_class, dict(params), rows))


class WorkerProcess:
    """A worker that is started, seen from the process that writes.

    Args:
        begin: what `instructions` returns.

    Raises:
        SourceError: it cannot start; the message says why.
    """

    def __init__(self, begin: tuple[bytes, bytes]) -> None:
        tasks, ours = os.pipe()
        theirs, results = os.pipe()[::-1]
        self._tasks, self._results = os.fdopen(ours, "wb", buffering=0), os.fdopen(results, "rb")
        for pipe in (ours, theirs):
            with contextlib.suppress(ImportError, AttributeError, OSError):
                import fcntl

                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        command = spawn.get_command_line()
        command[command.index("-c") + 1 :] = [_PROGRAM, *map(str, (tasks, theirs, os.getpid())), *sys.path]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own
                command, stdin=subprocess.DEVNULL, pass_fds=(tasks, theirs)
            )
        finally:
            os.close(tasks)
            os.close(theirs)
        self._begin = begin

    def wait_until_ready(self) -> None:
        """Wait until it can work.

        Raises:
            SourceError: it cannot; the message says why.
        """
        try:
            for part in self._begin:
                _send(self._tasks, part)
            problem = pickle.loads(_receive(self._results))  # noqa: S301 - of our own child
        except (EOFError, OSError) as error:
            raise SourceError("it ended at once") from error
        if problem:
            raise SourceError(problem)

    def work(self, pickled: bytes, start: int) -> tuple[list[Block], int]:
        """Return the blocks of a chunk from one of its sources on, as far as the memory goes, and where they end.

        Args:
            pickled: what `PoolEncoder` hands over.
            start: the index of the source.

        Raises:
            EOFError: the process is gone.
            BaseException: what was raised there.
        """
        try:
            _send(self._tasks, _SIZE.pack(start) + pickled)
            answer = _receive(self._results)
        except OSError as broken:
            raise EOFError from broken
        blocks, done, error, trace = pickle.loads(answer)  # noqa: S301 - of our own child
        if error is not None:
            raise error from WorkerTraceback(trace)
        return blocks, done

    def let_go(self) -> None:
        """Let it end by itself, since nothing comes any more."""
        with contextlib.suppress(OSError):
            self._tasks.close()

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()

    def close(self) -> None:
        """Wait until it has ended, which it is about to."""
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.let_go()
        self._results.close()


def _send(pipe: IO[bytes], data: bytes) -> None:
    for part in (_SIZE.pack(len(data)), data):
        left = memoryview(part)
        while left:
            left = left[pipe.write(left) :]


def _receive(pipe: IO[bytes]) -> bytes:
    header = pipe.read(_SIZE.size)
    size = _SIZE.unpack(header)[0] if len(header) == _SIZE.size else 0
    data = pipe.read(size)
    if not size or len(data) < size:
        raise EOFError
    return data


# In the worker ------------------------------------------------------------------------------------------------------


def serve(tasks: int, results: int, parent: int) -> None:
    """Run the life cycle of what comes, until nothing comes any more.

    Args:
        tasks: descriptor of the pipe from the parent.
        results: of the one to it.
        parent: its process.
    """
    for descriptor in (tasks, results):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only
    threading.Thread(target=_end_with, args=(parent,), name="seqrecorder-lifeline", daemon=True).start()
    source, sink = os.fdopen(tasks, "rb"), os.fdopen(results, "wb", buffering=0)
    try:
        life_cycle = _begin(_receive(source), source)
    except BaseException as error:  # noqa: BLE001 - the parent says it
        _send(sink, pickle.dumps(f"{type(error).__name__}: {error}"))
        return
    _send(sink, pickle.dumps(None))
    while True:
        try:
            data = _receive(source)
        except EOFError:
            return
        try:
            answer = pickle.dumps((*_work(life_cycle, data), None, ""), pickle.HIGHEST_PROTOCOL)
        except BaseException as error:  # noqa: BLE001 - raised in the parent
            answer = pickle.dumps(([], 0, _portable(error), traceback.format_exc()))
        _send(sink, answer)
        del data, answer


def _begin(likeness: bytes, source: IO[bytes]) -> LifeCycle:
    _state["starts"] = True
    _stand_in_for_tensorflow()
    spawn.prepare(pickle.loads(likeness))  # noqa: S301 - of the parent
    _state["starts"] = False
    record_class, params, rows = pickle.loads(_receive(source))  # noqa: S301
    return LifeCycle(Schema.of(record_class), params, rows=rows)


def _end_with(parent: int) -> None:
    """End this process, whatever it does, once its parent is gone: killed, that one stops nobody."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def _work(life_cycle: LifeCycle, data: bytes) -> tuple[list[Block], int]:
    start = _SIZE.unpack_from(data)[0]
    task: Any = pickle.loads(memoryview(data)[_SIZE.size :])  # noqa: S301 - of the parent
    blocks, size = list[Any](), 0
    for block in life_cycle.encode(task.between(start, None) if start else task):
        blocks.append(block)
        size += int(sizes(block.data).sum())
        if size >= _RESULT_BYTES and block.done:
            return blocks, start + block.done
    return blocks, len(task.records)


def _portable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - the one dumped here
    except Exception:  # noqa: BLE001 - whatever its class does
        return SourceError(f"{type(error).__name__}: {error}")
    return error


class _Tensorflow(ModuleType):
    """Stands where TensorFlow would, until something of it is used."""

    _asked = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        # Python looks modules through for other names of this form, which must not cost seconds.
        if name.startswith("__") and name not in ("__path__", "__all__") and not name.endswith("version__"):
            raise AttributeError(name)
        with self._asked:
            if sys.modules.get("tensorflow") is self:
                del sys.modules["tensorflow"]
                vars(self).update(vars(importlib.import_module("tensorflow")))
        return getattr(sys.modules["tensorflow"], name)


def _stand_in_for_tensorflow() -> None:
    spec = importlib.util.find_spec("tensorflow")
    if spec is not None:
        module = _Tensorflow("tensorflow")
        module.__spec__, module.__file__ = spec, spec.origin
        sys.modules["tensorflow"] = module


_LOG = logging.getLogger("seqrecorder")

_Result = tuple[list[Block], int]
_AHEAD = 2  # chunks in flight for each worker
_JUDGED_SECONDS = 0.5  # of encoding, by which workers are judged, and which they must save: starting one takes less
_SAMPLE = 32  # records whose copy is tried
_BOTH_SIDES = 2  # what of a copy can be timed here is half of it: the rest are the pipes, and the worker's part


@attrs.frozen
class _Chunk:
    """A chunk that a worker has: its pickled sources, their positions, and from which of them on."""

    pickled: bytes
    positions: NDArray[np.int64]
    start: int
    future: Future[_Result]


class _Pool:
    """Worker processes, each with a thread of this one that hands it chunks; they start while this process goes on."""

    def __init__(self, begin: tuple[bytes, bytes], workers: int) -> None:
        self.workers = workers
        self.problem = ""  # why a worker cannot start
        self._tasks: queue.SimpleQueue[_Chunk | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed, self._ready = False, 0
        self._processes: list[WorkerProcess] = []
        self._threads = [
            threading.Thread(target=self._serve, args=(begin,), name="seqrecorder-worker", daemon=True)
            for _ in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_ready(self) -> bool:
        """Check whether every worker can work."""
        return self._ready == self.workers

    def submit(self, chunk: _Chunk) -> None:
        """Have some worker work on a chunk."""
        self._tasks.put(chunk)

    def close(self, *, kill: bool) -> None:
        """End the workers: at once, or after what they are at."""
        with self._lock:
            self._closed = True
        for process in self._processes:
            process.kill() if kill or not self.is_ready else process.let_go()
        for process in self._processes:
            process.close()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self, begin: tuple[bytes, bytes]) -> None:
        try:
            with self._lock:
                if self._closed:
                    return
                process = WorkerProcess(begin)
                self._processes.append(process)
            process.wait_until_ready()
        except Exception as error:  # noqa: BLE001 - whatever it is, this process goes on alone
            self.problem = self.problem or str(error)
            return
        with self._lock:
            self._ready += 1
        while (chunk := self._tasks.get()) is not None:
            try:
                chunk.future.set_result(process.work(chunk.pickled, chunk.start))
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                chunk.future.set_exception(error)
            del chunk


class _Costs:
    """Time of encoding here, and of bringing records to a worker and bytes back.

    Every chunk is timed, and of fewer and fewer the copy is tried. The first chunk does not count among these: what a
    hook imports, or opens once, would seem to be what records take.
    """

    def __init__(self) -> None:
        self._encoding = self._copying = 0.0  # of the chunks whose copy was tried
        self._seconds, self._chunks = 0.0, 0  # of all
        # With one core a worker can but wait instead of this process, for files or a network.
        self._clock = time.perf_counter if cores() > 1 else lambda: time.perf_counter() - time.thread_time()

    @property
    def wants_sample(self) -> bool:
        """Check whether the copy of the next chunk is tried."""
        return not self._chunks & (self._chunks - 1)

    @property
    def ratio(self) -> float:
        """Ratio of the time of encoding to that of the copy; 0 where nothing was tried yet."""
        return self._encoding / max(self._copying, 1e-9)

    @property
    def verdict(self) -> bool | None:
        """Check whether workers pay, if as much is still to come as came; None until that is known."""
        if self._chunks < 2 or self._seconds < _JUDGED_SECONDS:  # noqa: PLR2004 - the first does not count
            return None
        if self.ratio <= 1:
            return False
        return self._seconds * (1 - 1 / self.ratio) >= _JUDGED_SECONDS or None

    def measured(self, blocks: Iterator[Block], pickling: float | None) -> Iterator[Block]:
        """Yield the blocks of a chunk, whose sources took so long to be pickled; None where that was not tried."""
        encoding, copying, start = 0.0, 0.0, self._clock()
        for block in blocks:
            encoding += self._clock() - start
            if pickling is not None:
                begun = time.perf_counter()
                pickle.loads(pickle.dumps(block, pickle.HIGHEST_PROTOCOL))  # noqa: S301 - the one dumped here
                copying += time.perf_counter() - begun
            yield block
            start = self._clock()
        self._seconds += encoding
        self._chunks += 1
        if pickling is not None and self._chunks > 1:
            self._encoding += encoding
            self._copying += _BOTH_SIDES * (pickling + copying)


class PoolEncoder:
    """Runs the life cycle in worker processes, a bounded number of chunks ahead, where that is faster.

    The first chunks are encoded in this process and timed. Where that takes longer than to bring records to a worker
    and bytes back, workers start, and take over once they are there; else this process goes on alone, and says so.

    Args:
        schema: of the records, whose class workers import by name.
        life_cycle: of the records, for those that are encoded here.
        params: for the hooks.
        rows: whether a line for the CSV is wanted of each record.
        workers: number of processes, or `"auto"` for as many as have work, and cores.

    Raises:
        OptionError: the class, or params, cannot reach other processes.
    """

    def __init__(
        self,
        schema: Schema,
        life_cycle: LifeCycle,
        params: Mapping[str, Any],
        *,
        rows: bool,
        workers: int | Literal["auto"],
    ) -> None:
        self._life_cycle, self._workers = life_cycle, workers
        self._key = None if schema.key_field is None else schema.key_field.name
        self._pending: collections.deque[_Chunk] = collections.deque()
        self._pool: _Pool | None = None
        self._begin: tuple[bytes, bytes] | None = None  # None once this process is to go on alone
        self._costs = _Costs()
        if is_starting():
            raise OptionError("a script that uses workers= needs `if __name__ == '__main__':` around its work")
        try:
            self._begin = instructions(schema.record_class, params, rows=rows)
        except Exception as error:
            reason = f"the class {schema.record_class.__qualname__} and params must reach other processes, and cannot"
            if workers != "auto":
                raise OptionError(
                    f"workers={workers}: {reason}: {error}; define the class at the top of a module, or leave "
                    "`workers` out"
                ) from error
            self._go_on_alone(f"{reason}: {error}")

    def encode(self, sources: Sources) -> Iterator[Block]:
        """Encode a chunk here, or hand it to a worker and yield the oldest blocks once enough are under way."""
        if self._pool is not None and self._pool.problem:
            self._go_on_alone(f"workers cannot start: {self._pool.problem}")
        pool, pickling = self._pool, None
        if self._begin is None or (pool is not None and not pool.is_ready):
            yield from self._life_cycle.encode(sources)
            return
        try:
            # Now, and not in a thread: records may change when we are done here.
            if pool is not None:
                self._hand_over(self._pickled(sources), sources.positions, 0)
            elif self._costs.wants_sample:
                # Chunks of a list are as large as it likes, as long as they stay here.
                some = sources if sources.columns is not None else sources.between(0, _SAMPLE)
                start = time.perf_counter()
                self._pickled(some)
                pickling = (time.perf_counter() - start) * len(sources.positions) / max(1, len(some.positions))
        except Exception as error:  # noqa: BLE001 - whatever their classes do
            yield from self.drain()
            self._go_on_alone(f"records cannot reach other processes: {type(error).__name__}: {error}")
            yield from self._life_cycle.encode(sources)
            return
        if pool is None:
            yield from self._costs.measured(self._life_cycle.encode(sources), pickling)
            self._judge()
        else:
            while len(self._pending) > pool.workers * _AHEAD:
                yield from self._next()

    def _pickled(self, sources: Sources) -> bytes:
        if sources.columns is not None:
            # Texts that are encoded already stay here, but for the key, which errors name.
            columns = {
                name: column if column.features is None or name == self._key else attrs.evolve(column, values=None)
                for name, column in sources.columns.items()
            }
            sources = attrs.evolve(sources, records=[None] * len(sources.records), columns=columns)
        return pickle.dumps(sources, pickle.HIGHEST_PROTOCOL)

    def _judge(self) -> None:
        verdict = self._costs.verdict
        if verdict is False:
            self._go_on_alone(
                "to bring records to other processes, and their bytes back, takes longer than to encode them here"
            )
        elif verdict and self._begin is not None:
            paying = max(2, min(cores(), math.ceil(self._costs.ratio)))
            self._pool = _Pool(self._begin, self._workers if isinstance(self._workers, int) else paying)

    def _go_on_alone(self, reason: str) -> None:
        self.close()
        self._begin = self._pool = None
        level = logging.INFO if self._workers == "auto" else logging.WARNING
        _LOG.log(level, "workers=%s: this process writes alone: %s", self._workers, reason)

    def _hand_over(self, pickled: bytes, positions: NDArray[np.int64], start: int) -> None:
        chunk = _Chunk(pickled, positions, start, Future())
        if start:
            self._pending.appendleft(chunk)
        else:
            self._pending.append(chunk)
        if self._pool is not None:
            self._pool.submit(chunk)

    def drain(self) -> Iterator[Block]:
        """Wait for all chunks."""
        while self._pending:
            yield from self._next()

    def _next(self) -> list[Block]:
        chunk = self._pending[0]
        try:
            blocks, done = chunk.future.result()
        except SeqrecorderError:
            raise
        except EOFError as error:
            raise SourceError("a worker process died: was it killed, or out of memory?") from error
        except Exception as error:
            first, last = chunk.positions[[0, -1]].tolist()
            raise SourceError(
                f"records {first} to {last} cannot reach a worker process and come back:"
                f" {type(error).__name__}: {error}; make them picklable, or leave `workers` out"
            ) from error
        self._pending.popleft()
        if done < len(chunk.positions):
            self._hand_over(chunk.pickled, chunk.positions, done)
        return blocks

    def close(self) -> None:
        """Stop the workers; what is outstanding is dropped."""
        if self._pool is not None:
            # Something failed, or the process is to end: `load` may take as long as it likes, and is not waited for.
            self._pool.close(kill=bool(self._pending))
