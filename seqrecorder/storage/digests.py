"""The SHA-256 of files: of whole ones, of several at a time, and of one that grows."""

from __future__ import annotations

import hashlib
import os  # noqa: TC003 - the examples need it
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from seqrecorder.errors import ShardReadError
from seqrecorder.storage.bad_sectors import open_source, reason_at
from seqrecorder.storage.files import error_at
from seqrecorder.storage.threads import cores, submit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

_PIECE = 1 << 20  # bytes read at once


class FileDigest:
    """The SHA-256 of a file to which bytes are appended: of what is there whenever it is read on.

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


def in_threads(function: Callable[[T], str], items: Iterable[T]) -> list[str]:
    """Return what a function gives for each item, several at a time: for digests, which need no lock of Python's.

    >>> [digest[:8] for digest in in_threads(sha256, [os.devnull, os.devnull])]
    ['e3b0c442', 'e3b0c442']

    Args:
        function: such as `sha256` or `FileDigest.finish`; its errors come out.
        items: what it is called with.

    Returns:
        The results, in the same order.
    """
    with ThreadPoolExecutor(cores()) as pool:
        return [done.result() for done in [submit(pool, function, item) for item in items]]
