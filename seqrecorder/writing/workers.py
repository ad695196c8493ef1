"""Encoding of records in worker processes, with the same bytes and order as in a single process."""

from __future__ import annotations

import collections
import importlib.util
import logging
import math
import pickle
import queue
import sys
import threading
import time
from concurrent.futures import Future, wait
from multiprocessing import spawn
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.errors import OptionError, SeqrecorderError, SourceError
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.processes_and_signals import Child, cores
from seqrecorder.wire.byte_rows import sizes
from seqrecorder.writing.columns import Block
from seqrecorder.writing.intake import LifeCycle

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.writing.columns import Sources


_RESULT_BYTES = 32 << 20  # a worker returns its result after this many bytes, and encodes the rest of the chunk later

_state: dict[str, Any] = {"starts": False}  # state of a worker process, such as its `LifeCycle`


def instructions(life_cycle: LifeCycle) -> tuple[bytes, bytes]:
    """Build the two start messages for a worker: the state of this process, and the arguments of the `LifeCycle`.

    The worker imports the record class by name.
    """
    preparation = spawn.get_preparation_data("seqrecorder-worker")
    del preparation["authkey"]  # needed only for connections of multiprocessing
    options = {"rows": life_cycle.rows, "splits": life_cycle.splits}
    return pickle.dumps(preparation), pickle.dumps((life_cycle.schema.record_class, dict(life_cycle.params), options))


# In the worker ------------------------------------------------------------------------------------------------------


def _prepare(preparation: bytes) -> None:
    """Run the main script in a worker, but without importing TensorFlow."""
    _state["starts"] = True
    _stand_in_for_tensorflow()
    spawn.prepare(pickle.loads(preparation))  # noqa: S301 - from the parent
    _state["starts"] = False


def _begin(data: bytes) -> None:
    """Create the `LifeCycle` of a worker."""
    record_class, params, options = pickle.loads(data)  # noqa: S301 - from the parent
    _state["life_cycle"] = LifeCycle(Schema.of(record_class), params, **options)


def _encode(task: tuple[bytes, int]) -> _Result:
    """Encode sources of a chunk until the blocks reach a certain size.

    `task` contains the pickled chunk, and the index of the first source to encode. The result contains the blocks, and
    the index of the next source.
    """
    pickled, start = task
    sources: Sources = pickle.loads(pickled)  # noqa: S301 - from the parent
    blocks, size = list[Block](), 0
    for block in _state["life_cycle"].encode(sources.between(start, None) if start else sources):
        blocks.append(block)
        size += int(sizes(block.data).sum())
        if size >= _RESULT_BYTES and block.done:
            return blocks, start + block.done
    return blocks, len(sources.records)


class _Tensorflow(ModuleType):
    """Placeholder in `sys.modules` that imports TensorFlow on first use, because that takes seconds."""

    _importing = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        # Python reads other dunder names from every module, which must not import TensorFlow.
        if name.startswith("__") and name not in ("__path__", "__all__") and not name.endswith("version__"):
            raise AttributeError(name)
        with self._importing:
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
_AHEAD = 2  # chunks in flight per worker
_JUDGED_SECONDS = 0.5  # minimum encoding time before a verdict, and minimum time to save; a worker starts in less
_SAMPLE = 32  # records pickled to estimate the cost of a copy
_BOTH_SIDES = 2  # only half of a copy can be timed here; pipes and workers take as long again


@attrs.frozen
class _Chunk:
    """Chunk of sources for a worker.

    The sources are pickled; the worker begins at the source with the index `start`, and `future` receives its result.
    """

    pickled: bytes
    positions: NDArray[np.int64]
    start: int
    future: Future[_Result]


class _Pool:
    """Pool of worker processes that start in the background, each fed by a thread of this process."""

    def __init__(self, begin: tuple[bytes, bytes], workers: int) -> None:
        self.workers = workers
        self.problem = ""  # reason why a worker cannot start
        self._tasks: queue.SimpleQueue[_Chunk | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed, self._ready = False, 0
        self._processes: list[Child] = []
        self._threads = [threading.Thread(target=self._serve, args=(begin,), daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    @property
    def is_ready(self) -> bool:
        """Check whether every worker has started."""
        return self._ready == self.workers

    def submit(self, chunk: _Chunk) -> None:
        """Queue a chunk for the next free worker."""
        self._tasks.put(chunk)

    def close(self, *, kill: bool) -> None:
        """Stop the workers and their threads.

        With `kill`, workers are stopped immediately, otherwise after their current chunks. Workers that are not ready
        yet are always stopped immediately.
        """
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
                process = Child()
                self._processes.append(process)
            for step, message in zip((_prepare, _begin), begin, strict=True):
                process.ask(step, message)
        except BaseException as error:  # noqa: BLE001 - after any error this process encodes alone
            self.problem = self.problem or f"{type(error).__name__}: {error}"
            return
        with self._lock:
            self._ready += 1
        while (chunk := self._tasks.get()) is not None:
            try:
                chunk.future.set_result(process.ask(_encode, (chunk.pickled, chunk.start)))
            except BaseException as error:  # noqa: BLE001 - the future raises it to its consumer
                chunk.future.set_exception(error)
            del chunk


class _Costs:
    """Measured times of encoding in this process, and of copying records to a worker and bytes back.

    Encoding is timed for every chunk, and copying for fewer and fewer chunks. `ratio` leaves out the first chunk,
    because hooks may import modules and open files during it.
    """

    def __init__(self) -> None:
        self._encoding = self._copying = 0.0  # seconds, for chunks whose copy was timed
        self._seconds, self._chunks = 0.0, 0  # seconds, for all chunks
        # With one core, a worker can save only the time in which this process waits for files or the network.
        self._clock = time.perf_counter if cores() > 1 else lambda: time.perf_counter() - time.thread_time()

    @property
    def wants_sample(self) -> bool:
        """Check whether to time the copy of the next chunk."""
        return not self._chunks & (self._chunks - 1)

    @property
    def ratio(self) -> float:
        """Ratio of encoding time to copy time.

        It is 0 before the first measurement.
        """
        return self._encoding / max(self._copying, 1e-9)

    @property
    def verdict(self) -> bool | None:
        """Check whether workers would save time.

        The rule assumes that as much work remains as has been done so far. The result is None while it is too early to
        tell.
        """
        if self._chunks < 2 or self._seconds < _JUDGED_SECONDS:  # noqa: PLR2004 - the first does not count
            return None
        return self.ratio > 1 and (self._seconds * (1 - 1 / self.ratio) >= _JUDGED_SECONDS or None)

    def measure(self, blocks: Iterator[Block], pickling: float | None) -> Iterator[Block]:
        """Time the encoding of a chunk, and yield its blocks.

        `pickling` is the number of seconds that it took to pickle the chunk. If it is None, copying is not timed;
        otherwise, the copying of the blocks is timed, too.
        """
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
    """Encoder that runs hooks and encoding in worker processes if that is faster, and queues chunks ahead for them.

    The first chunks are encoded in this process and timed. If encoding takes longer than copying records to a worker
    and bytes back, workers start in the background and take over. Otherwise, this process encodes alone and logs the
    reason.

    Args:
        life_cycle: life cycle for this process. Workers import the record class by name and build their own.
        workers: number of worker processes; `"auto"` chooses the number, at most one per core.

    Raises:
        OptionError: the class or `params` cannot be pickled.
    """

    def __init__(self, life_cycle: LifeCycle, workers: int | Literal["auto"]) -> None:
        schema = life_cycle.schema
        self._life_cycle, self._workers = life_cycle, workers
        self._key = None if schema.key_field is None else schema.key_field.name
        self._pending: collections.deque[_Chunk] = collections.deque()
        self._pool: _Pool | None = None
        self._begin: tuple[bytes, bytes] | None = None  # None once this process encodes alone
        self._costs = _Costs()
        if _state["starts"]:  # this is a worker, which runs the main script to import its classes
            raise OptionError("a script that uses workers= needs `if __name__ == '__main__':` around its work")
        try:
            self._begin = instructions(life_cycle)
        except Exception as error:
            reason = f"the class {schema.record_class.__qualname__} and params must reach other processes, and cannot"
            if workers != "auto":
                raise OptionError(
                    f"workers={workers}: {reason}: {error}; define classes and functions at the top of a module, or "
                    "leave `workers` out"
                ) from error
            self._go_on_alone(f"{reason}: {error}")

    def encode(self, sources: Sources) -> Iterator[Block]:
        """Encode a chunk here, or queue it for a worker.

        The blocks that are due are yielded.
        """
        if self._pool is not None and self._pool.problem:
            self._go_on_alone(f"workers cannot start: {self._pool.problem}")
        pool, pickling = self._pool, None
        if self._begin is None or (pool is not None and not pool.is_ready):
            yield from self._life_cycle.encode(sources)
            return
        try:
            # Pickle now and not in a thread, because the caller may change the records after this call.
            if pool is not None:
                self._hand_over(self._pickle(sources), sources.positions, 0)
            elif self._costs.wants_sample:
                # A chunk from a list may be large, so time a sample of it.
                sample = sources if sources.columns is not None else sources.between(0, _SAMPLE)
                start = time.perf_counter()
                self._pickle(sample)
                pickling = (time.perf_counter() - start) * len(sources.positions) / max(1, len(sample.positions))
        except Exception as error:  # noqa: BLE001 - record classes may raise any exception
            yield from self.drain()
            self._go_on_alone(f"records cannot reach other processes: {type(error).__name__}: {error}")
            yield from self._life_cycle.encode(sources)
            return
        if pool is None:
            yield from self._costs.measure(self._life_cycle.encode(sources), pickling)
            self._judge()
        else:
            while len(self._pending) > pool.workers * _AHEAD:
                yield from self._next()

    def _pickle(self, sources: Sources) -> bytes:
        if sources.columns is not None:
            # Drop the values of columns that are encoded already, except for the key, which errors contain.
            items = sources.columns.items()
            encoded = {name for name, column in items if column.features is not None and name != self._key}
            columns = {name: attrs.evolve(column, values=None) if name in encoded else column for name, column in items}
            sources = attrs.evolve(sources, records=[None] * len(sources.records), columns=columns)
        return pickle.dumps(sources, pickle.HIGHEST_PROTOCOL)

    def _judge(self) -> None:
        verdict = self._costs.verdict
        if verdict is False:
            self._go_on_alone("copying records to other processes and bytes back takes longer than encoding here")
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
        """Wait for all outstanding chunks, and yield their blocks."""
        while self._pending:
            yield from self._next()

    def _next(self) -> list[Block]:
        chunk = self._pending[0]
        while not wait([chunk.future], 1).done:  # an interrupt that arrives just before a wait begins does not end it
            pass
        try:
            blocks, done = chunk.future.result()
        except SeqrecorderError:
            raise
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
        """Stop the workers and drop outstanding chunks."""
        if self._pool is not None:
            # Outstanding chunks mean an error or the exit of the process, so do not wait for a slow `load`.
            self._pool.close(kill=bool(self._pending))
