"""Reading files whose disk fails in places: errors say at which byte, and what is whole is read around them.

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

_PAGE = 4096
"""Disks fail by sectors, and systems read by pages: nothing smaller than a page is tried."""
_PIECE = 1 << 20

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
            while not file.unreadable and file.read(_PIECE):
                pass
            return f"{said} at byte {file.unreadable[0][0]}" if file.unreadable else said
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
        unreadable: the ranges of bytes that could not be read, ascending, as far as reading has come.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = open_source(path, buffering=0)
        self._offset = 0
        self.size = os.fstat(self._file.fileno()).st_size
        self.unreadable: list[tuple[int, int]] = []

    def readinto(self, buffer: Any) -> int:
        """Read bytes, or zeros."""
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self.size - self._offset))
        self._fill(view[:count], self._offset)
        self._offset += count
        return count

    def _fill(self, view: memoryview, start: int) -> None:
        stop = start + len(view)
        if not view:
            return
        for first, last in self.unreadable:  # reading them again takes a disk seconds
            if first < stop and last > start:
                first, last = max(first, start), min(last, stop)  # noqa: PLW2901 - what of it is asked for
                view[first - start : last - start] = bytes(last - first)
                self._fill(view[: first - start], start)
                self._fill(view[last - start :], last)
                return
        try:
            self._read(view, start)
        except OSError:
            middle = (start + stop) // 2 // _PAGE * _PAGE
            if middle <= start:
                middle = (start // _PAGE + 1) * _PAGE
            if middle >= stop:
                view[:] = bytes(len(view))
                page = start // _PAGE * _PAGE
                self._note(page, min(self.size, page + _PAGE))
                return
            self._fill(view[: middle - start], start)
            self._fill(view[middle - start :], middle)

    def _read(self, view: memoryview, start: int) -> None:
        self._file.seek(start)
        done = 0
        while done < len(view):
            count = self._file.readinto(view[done:])
            if not count:  # the file has become shorter
                view[done:] = bytes(len(view) - done)
                return
            done += count

    def _note(self, start: int, stop: int) -> None:
        merged: list[tuple[int, int]] = []
        for first, last in sorted([*self.unreadable, (start, stop)]):
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        self.unreadable[:] = merged

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
