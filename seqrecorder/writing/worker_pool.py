"""Where the life cycle runs: in this process, or in worker processes that give the same bytes in the same order."""

from __future__ import annotations

import collections
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from seqrecorder.errors import OptionError, SeqrecorderError, SourceError
from seqrecorder.schema.schema import Schema
from seqrecorder.wire.byte_rows import sizes
from seqrecorder.writing.encoder import Block, LifeCycle, Sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column

_Result = tuple[list[Block], int]
_AHEAD = 2  # chunks in flight for each worker
_LOOK_SECONDS = 0.5
_RESULT_BYTES = 32 << 20  # after which a worker hands over what it has, and the rest of its chunk waits


class Encoder(Protocol):
    """Runs the life cycle of chunks of source records, and gives the blocks back in order."""

    def submit(self, sources: Sources) -> Iterator[Block]:
        """Take a chunk, and yield the blocks that are ready and next in order."""
        ...

    def submit_columns(
        self, columns: dict[str, Column], sources: Sources, kept: Sequence[int] | None, splits: NDArray[np.int64]
    ) -> Iterator[Block]:
        """Take records in columns, of which no hook runs, and yield the blocks that are ready and next in order.

        Args:
            columns: the columns.
            sources: the positions of as many records, and what lines of the CSV are made of.
            kept: the indices of those that are written; None is all.
            splits: the number of the split of each that is written.
        """
        ...

    def drain(self) -> Iterator[Block]:
        """Yield all blocks that are still to come."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class InlineEncoder:
    """Runs the life cycle in this process."""

    def __init__(self, life_cycle: LifeCycle) -> None:
        self._life_cycle = life_cycle

    def submit(self, sources: Sources) -> Iterator[Block]:
        """Encode at once."""
        return self._life_cycle.encode(sources)

    def submit_columns(
        self, columns: dict[str, Column], sources: Sources, kept: Sequence[int] | None, splits: NDArray[np.int64]
    ) -> Iterator[Block]:
        """Encode at once."""
        yield self._life_cycle.encode_columns(sources, columns).settled(kept, splits)

    def drain(self) -> Iterator[Block]:
        """Nothing is ever outstanding."""
        return iter(())

    def close(self) -> None:
        """Nothing is held."""


@attrs.frozen
class _Chunk:
    """A chunk that a worker has: its pickled sources, their positions, and from which of them on."""

    pickled: bytes
    positions: NDArray[np.int64]
    future: Future[_Result]
    start: int = 0


class PoolEncoder:
    """Runs the life cycle in worker processes, a bounded number of chunks ahead.

    Workers are spawned, not forked: a fork of a process in which TensorFlow runs threads can hang.

    Args:
        record_class: class of the records, which workers import by name.
        params: for the hooks.
        rows: whether a line for the CSV is wanted of each record.
        workers: number of processes.
    """

    def __init__(self, record_class: type, params: Mapping[str, Any], *, rows: bool, workers: int) -> None:
        try:
            pickle.dumps((record_class, dict(params)))
        except Exception as error:
            raise OptionError(
                f"workers={workers}: the class {record_class.__qualname__} and params must reach other processes, and "
                f"cannot: {error}; define the class at the top of a module, or leave `workers` out"
            ) from error
        key = Schema.of(record_class).key_field
        self._workers, self._key = workers, None if key is None else key.name
        self._pending: collections.deque[_Chunk] = collections.deque()
        # Nothing is ever sent: workers see the end of it where this process ends, however that comes.
        context = multiprocessing.get_context("spawn")
        self._reader, self._lifeline = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(
            workers, context, _start, (record_class, dict(params), rows, self._reader, os.getpid())
        )

    def submit(self, sources: Sources) -> Iterator[Block]:
        """Hand a chunk to a worker, and yield the oldest blocks once enough are under way."""
        return self._submitted(sources, sources)

    def submit_columns(
        self, columns: dict[str, Column], sources: Sources, kept: Sequence[int] | None, splits: NDArray[np.int64]
    ) -> Iterator[Block]:
        """Hand columns to a worker, and yield the oldest blocks once enough are under way."""
        bare = Sources(sources.positions, [None] * len(sources.records), sources.splits)
        # Texts that are encoded already stay here, but for the key, which errors name.
        columns = {
            name: column if column.features is None or name == self._key else attrs.evolve(column, values=None)
            for name, column in columns.items()
        }
        return self._submitted(sources, (columns, bare, kept, splits))

    def _submitted(self, sources: Sources, task: Any) -> Iterator[Block]:
        # Pickled now: the pool does so in a thread of its own, when records may have changed.
        try:
            self._pending.append(self._handed_over(pickle.dumps(task, pickle.HIGHEST_PROTOCOL), sources.positions))
        except Exception as error:  # noqa: BLE001 - reported behind the chunks before it
            failed: Future[_Result] = Future()
            failed.set_exception(error)
            self._pending.append(_Chunk(b"", sources.positions, failed))
        while len(self._pending) > self._workers * _AHEAD:
            yield from self._next()

    def _handed_over(self, pickled: bytes, positions: NDArray[np.int64], start: int = 0) -> _Chunk:
        return _Chunk(pickled, positions, self._pool.submit(_work, pickled, start), start)

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
        except BrokenProcessPool as error:
            raise SourceError(
                "a worker process died (killed, or out of memory?) or could not start; a script that uses workers= "
                "needs `if __name__ == '__main__':` around its work"
            ) from error
        except Exception as error:
            first, last = chunk.positions[[0, -1]].tolist()
            raise SourceError(
                f"records {first} to {last} cannot reach a worker process and come back:"
                f" {type(error).__name__}: {error}; make them picklable, or leave `workers` out"
            ) from error
        self._pending.popleft()
        if done < len(chunk.positions):
            self._pending.appendleft(self._handed_over(chunk.pickled, chunk.positions, done))
        return blocks

    def close(self) -> None:
        """Stop the workers; what is outstanding is dropped."""
        if self._pending:
            # Something failed, or the process is to end: `load` may take as long as it likes, and is not waited for.
            for process in list((self._pool._processes or {}).values()):  # noqa: SLF001 - public from Python 3.14 on
                process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._reader.close()
        self._lifeline.close()


_life_cycle: LifeCycle | None = None


def _start(record_class: type, params: dict[str, Any], rows: bool, parent: Connection, pid: int) -> None:  # noqa: FBT001 - positional by the pool
    threading.Thread(target=_end_with, args=(parent, pid), name="seqrecorder-lifeline", daemon=True).start()
    # An interrupt reaches the whole group of processes; the parent decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    global _life_cycle  # noqa: PLW0603 - the one state of a worker process
    _life_cycle = LifeCycle(Schema.of(record_class), params, rows=rows)


def _end_with(parent: Connection, pid: int) -> None:
    """End this process, whatever it does, once its parent is gone: killed, it stops nobody."""
    # A process that the parent forked may hold the other end of the pipe; then we get another parent.
    while not parent.poll(_LOOK_SECONDS) and (sys.platform == "win32" or os.getppid() == pid):
        pass
    os._exit(1)


def _work(pickled: bytes, start: int) -> _Result:
    """Return the blocks of a chunk from one of its sources on, as far as the memory goes, and where they end."""
    if _life_cycle is None:  # pragma: no cover - the pool runs _start first
        raise RuntimeError("a worker was not started")
    task: Any = pickle.loads(pickled)  # noqa: S301 - of the parent
    if isinstance(task, tuple):
        columns, sources, kept, splits = task
        return [_life_cycle.encode_columns(sources, columns).settled(kept, splits)], len(sources.positions)
    sources = task
    blocks, size = list[Block](), 0
    for block in _life_cycle.encode(sources.after(start)):
        blocks.append(block)
        size += int(sizes(block.data).sum())
        if size >= _RESULT_BYTES and block.done:
            return blocks, start + block.done
    return blocks, len(sources.records)
