"""The SHA-256 of files: of whole ones, and of one that grows, after which threads go while it is written.

What is left without the threads, when the last byte has been written, is to read the whole file for its digest, and to
wait until all of it is on the disk. Each has a thread of its own: in one, reading would wait for syncing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import ShardReadError
from seqrecorder.storage.bad_sectors import open_source, reason_at
from seqrecorder.storage.files import error_at, start_sync, writing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

_PIECE = 1 << 20  # bytes read at once
_READ_STEP, _SYNC_STEP = 4 << 20, 8 << 20  # bytes that are waited for before the threads go after them


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON document with the SHA-256 of its contents, whatever its layout, as its last item.

    >>> sealed({"a": 1})["sha256"][:8]
    'f9d86028'
    """
    text = json.dumps(document, sort_keys=True)
    return {**document, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def unsealed(document: Any) -> dict[str, Any]:
    """Return what was sealed.

    Raises:
        ValueError: it is no such document, or has changed.
    """
    if isinstance(document, dict) and "sha256" in document:
        contents = {name: value for name, value in document.items() if name != "sha256"}
        if document == sealed(contents):
            return contents
    raise ValueError("its contents are not those of its sha256: it was changed, or cut")


class FileDigest:
    """The SHA-256 of a file to which bytes are appended: of what is there whenever it is read on.

    >>> import os
    >>> digest = FileDigest(os.devnull)
    >>> digest.finish()[:8]
    'e3b0c442'

    Args:
        path: the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._state = hashlib.sha256()
        self._read = 0

    def read_on(self) -> None:
        """Take in what has not been taken in.

        Raises:
            OSError: the file is missing or cannot be read.
        """
        piece = memoryview(bytearray(_PIECE))
        with open_source(self._path, buffering=0) as file:
            file.seek(self._read)
            while size := file.readinto(piece):
                self._state.update(piece[:size])
                self._read += size

    def finish(self) -> str:
        """Return the 64 hexadecimal digits of the whole file, which is complete now.

        Raises:
            ShardReadError: it is missing or cannot be read.
        """
        try:
            self.read_on()
        except OSError as error:
            error.strerror = reason_at(self._path, error)
            raise error_at(ShardReadError, "read", self._path, error, "restore it from a copy") from error
        return self._state.hexdigest()


def sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file in hexadecimal, reading it in pieces.

    >>> import os
    >>> sha256(os.devnull)[:8]
    'e3b0c442'

    Args:
        path: the file.

    Returns:
        64 hexadecimal digits.

    Raises:
        ShardReadError: it is missing or cannot be read.
    """
    return FileDigest(path).finish()


class Follower:
    """Takes in the SHA-256 of a file to which bytes are appended, and has them written to the disk.

    What is read is what the system will give to others, not what was meant to be written. The file is not synced by
    this: that is for its writer, at the end. But a failure of the disk is told only once, so it is kept for the writer.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "shard")
    ...     follower = Follower(path)
    ...     with path.open("wb") as file:
    ...         for count in range(1, 10):
    ...             _ = file.write(bytes(1 << 20))
    ...             follower.follow(count << 20)
    ...     follower.finish()[:8]
    'd2ee4703'

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = FileDigest(path)
        self._failure: OSError | None = None
        self._tasks = (_Repeated(self._read_on, _READ_STEP), _Repeated(self._start_sync, _SYNC_STEP))

    def follow(self, written: int) -> None:
        """Go after what is new, once it is enough for a thread.

        Args:
            written: about how many bytes were written so far.

        Raises:
            ShardWriteError: what was written before did not reach the disk.
        """
        self._check()
        for task in self._tasks:
            task.reach(written)

    def _read_on(self) -> None:
        with contextlib.suppress(OSError):  # `finish` meets it again
            self._digest.read_on()

    def _start_sync(self) -> None:
        try:
            start_sync(self._path)
        except FileNotFoundError:  # `finish` meets that as well
            return
        except OSError as error:
            self._failure = error

    def _check(self) -> None:
        if self._failure is not None:
            with writing("sync", self._path):
                raise self._failure

    def finish(self) -> str:
        """Return the SHA-256 of the file, which is complete now, in hexadecimal.

        Raises:
            ShardReadError: the file is missing or cannot be read.
            ShardWriteError: what was written before did not reach the disk.
        """
        self.wait()
        self._check()
        return self._digest.finish()

    def wait(self) -> None:
        """Wait until nothing reads the file."""
        for task in self._tasks:
            task.wait()


class _Repeated:
    """What is done again and again in a thread, once there is enough more to do and the last time is over.

    Args:
        do: does it, and raises nothing.
        step: bytes that are enough.
    """

    def __init__(self, do: Callable[[], None], step: int) -> None:
        self._do, self._step = do, step
        self._reached = 0
        self._thread: threading.Thread | None = None

    def reach(self, written: int) -> None:
        if written - self._reached < self._step or (self._thread is not None and self._thread.is_alive()):
            return
        self._reached = written
        thread = threading.Thread(target=self._do, name="seqrecorder-follower", daemon=True)
        with contextlib.suppress(RuntimeError):  # the interpreter ends, and starts none: `finish` does it all
            thread.start()
            self._thread = thread

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
