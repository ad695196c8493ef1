"""Where the life cycle runs: in this process, or in worker processes that give the same bytes in the same order."""

from __future__ import annotations

import collections
import logging
import math
import pickle
import queue
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.errors import OptionError, SeqrecorderError, SourceError
from seqrecorder.storage.threads import cores
from seqrecorder.writing.encoder import Block
from seqrecorder.writing.worker_process import WorkerProcess, instructions, is_starting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.encoder import LifeCycle, Sources

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
        """Whether every worker can work."""
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
    """What encoding takes here, and what it would take to bring records to a worker and bytes back.

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
        """Whether the copy of the next chunk is tried."""
        return not self._chunks & (self._chunks - 1)

    @property
    def ratio(self) -> float:
        """How many times as long as the copy encoding takes; 0 where nothing was tried yet."""
        return self._encoding / max(self._copying, 1e-9)

    @property
    def verdict(self) -> bool | None:
        """Whether workers pay, if as much is still to come as came; None until that is known."""
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
