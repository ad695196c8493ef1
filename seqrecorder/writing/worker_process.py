"""A process that runs the life cycle for another one: both sides of the pipes between them.

It is no fork, since a fork of a process in which TensorFlow runs threads can hang. It runs the main script again, as
the processes of `multiprocessing` do that are spawned, so that classes and settings of the script are there; a script
that imports TensorFlow gets a stand-in, which becomes TensorFlow when something of it is used.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import struct
import subprocess
import sys
import threading
import time
import traceback
from multiprocessing import spawn
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

from seqrecorder.errors import SourceError
from seqrecorder.schema.schema import Schema
from seqrecorder.wire.byte_rows import sizes
from seqrecorder.writing.encoder import LifeCycle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seqrecorder.writing.encoder import Block

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
from seqrecorder.writing.worker_process import serve
serve(tasks, results, parent)
"""

_state = {"starts": False}


def is_starting() -> bool:
    """Whether this is a worker that runs the main script in order to have its classes."""
    return _state["starts"]


class WorkerTraceback(Exception):  # noqa: N818 - the cause of an error, never raised
    """Where in a worker an error came up."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


# In the process that writes -----------------------------------------------------------------------------------------


def instructions(record_class: type, params: Mapping[str, Any], *, rows: bool) -> tuple[bytes, bytes]:
    """Return what a worker begins with: how to become like this process, and then what to run.

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
    for block in life_cycle.encode(task.after(start) if start else task):
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
