"""Reading files whose disk fails in places: errors say where, and the rest is read around them.

All bytes of shards that are not read by TensorFlow come through `open_source`, where a test can let reading fail.
"""

from __future__ import annotations

import io
import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_BLOCK = 1 << 16  # what is lost around an unreadable byte; smaller blocks slow the search for records down

_open: Any = open  # in whose place a test puts one that lets reading fail


class PlacedFile:
    """A file that threads read at places of their own; it is closed with the last reference to it.

    Args:
        path: of the file.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()  # for Windows, which has no `pread`
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def read_at(self, start: int, count: int) -> bytes:
        """Return bytes from a place on, fewer where the file ends.

        Raises:
            OSError: they cannot be read.
        """
        data = self._read(count, start)
        while data and len(data) < count:  # the system reads 2 GiB at a time at most
            more = self._read(count - len(data), start + len(data))
            if not more:
                break
            data += more
        return data

    def _read(self, count: int, start: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._descriptor, count, start)
        with self._lock:
            os.lseek(self._descriptor, start, os.SEEK_SET)
            return os.read(self._descriptor, count)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # At the end of the interpreter nothing else may be there any more.
        descriptor: int | None = getattr(self, "_descriptor", None)
        if descriptor is not None:
            close(descriptor)


def open_source(path: str | os.PathLike[str], *, buffering: int = -1) -> io.BufferedReader:
    """Open a file to be read.

    Args:
        path: of the file.
        buffering: 0 for none.

    Raises:
        OSError: it is missing, or cannot be opened.
    """
    source: io.BufferedReader = _open(path, "rb", buffering=buffering)
    return source


def reason_at(path: str | os.PathLike[str], error: OSError) -> str:
    """Return what the system said, and the first byte that cannot be read, if there is one.

    >>> reason_at(os.devnull, OSError(5, "Input/output error"))
    'Input/output error'
    """
    said = error.strerror or str(error)
    try:
        with ReadAround(path) as file:
            while not file.unreadable and file.read(_BLOCK):
                pass
            return f"{said} in bytes {file.unreadable[0][0]} to {file.unreadable[0][1]}" if file.unreadable else said
    except OSError:
        return said


class ReadAround(io.RawIOBase):
    """A file in which zeros stand for what the disk cannot read.

    >>> with ReadAround(os.devnull) as file:
    ...     file.read(), file.unreadable
    (b'', [])

    Args:
        path: of the file.

    Attributes:
        size: in bytes.
        unreadable: the ranges of bytes that could not be read, in blocks of 64 KiB, in the order of reading.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = open_source(path, buffering=0)
        self._offset = 0
        self.size = os.fstat(self._file.fileno()).st_size
        self.unreadable: list[tuple[int, int]] = []
        self._bad: set[int] = set()

    def readinto(self, buffer: Any) -> int:
        """Read bytes up to the end of a block, or zeros."""
        start = self._offset
        block = start // _BLOCK * _BLOCK
        stop = min(self.size, block + _BLOCK)
        view = memoryview(buffer).cast("B")[: max(0, stop - start)]
        if block not in self._bad:  # trying again takes a disk seconds
            try:
                self._file.seek(start)
                count: int = self._file.readinto(view)
            except OSError:
                self._note(block, stop)
            else:
                self._offset += count
                return count
        view[:] = bytes(len(view))
        self._offset += len(view)
        return len(view)

    def _note(self, block: int, stop: int) -> None:
        self._bad.add(block)
        first = block
        if self.unreadable and self.unreadable[-1][1] == block:
            first, _ = self.unreadable.pop()
        self.unreadable.append((first, stop))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte."""
        base = (0, self._offset, self.size)[whence]
        self._offset = max(0, base + offset)
        return self._offset

    def tell(self) -> int:
        """Return the byte that is read next."""
        return self._offset

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that any byte can be gone to."""
        return True

    def close(self) -> None:
        """Close it."""
        self._file.close()
        super().close()
