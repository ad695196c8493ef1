"""The keys of several parts of a dataset together, by files of sorted hashes, in bounded memory."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from seqrecorder.errors import ShardReadError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_MEMORY_BYTES = 512 << 20
_HASH_BYTES = 8
_LAST = (1 << 64) - 1


class SortedHashes:
    """A file of 64-bit hashes, little-endian and ascending, that is read from its beginning to its end.

    It is open only while it is read: there may be more such files than a process can have open.

    Args:
        path: the file.
        start: where in it the first hash is.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self._path, self._start = path, start
        with self._reading():
            self._size = (path.stat().st_size - start) // _HASH_BYTES
        self._next = 0

    def __len__(self) -> int:
        """Return how many hashes there are."""
        return self._size

    def through(self, last: int) -> NDArray[np.uint64]:
        """Return the hashes that come next, up to `last`, and go on behind them the next time.

        Raises:
            ShardReadError: the file cannot be read any more.
        """
        if self._next == self._size:
            return np.empty(0, np.uint64)
        with self._reading():
            values = np.memmap(self._path, "<u8", mode="r", offset=self._start + _HASH_BYTES * self._next)
        found = np.array(values[: np.searchsorted(values, np.uint64(last), side="right")], np.uint64)
        self._next += found.size
        return found

    def finds(self, value: int) -> bool:
        """Whether a hash is in the file; raises what `through` does."""
        if not self._size:
            return False
        with self._reading():
            values = np.memmap(self._path, "<u8", mode="r", offset=self._start)
        at = int(np.searchsorted(values, np.uint64(value)))
        return at < self._size and int(values[at]) == value

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # gone, or shorter than it was
            raise ShardReadError(
                f"{self._path}: cannot be read: {error}; where somebody else has changed the dataset, try again",
                path=self._path,
            ) from error


def merged_hashes(files: Sequence[SortedHashes], memory_bytes: int = _MEMORY_BYTES) -> Iterator[NDArray[np.uint64]]:
    """Yield the hashes of all files, ascending, as many at a time as one range of hashes has.

    Hashes are spread evenly, so that the same part of all files, one range after the other, fits the memory.

    Args:
        files: of hashes; each is gone through to its end.
        memory_bytes: how much is held at a time, about; while it is gathered, twice as much.
    """
    total = sum(map(len, files))
    ranges = -(-total * _HASH_BYTES // memory_bytes)
    for number in range(1, ranges + 1):
        pieces = [file.through(_LAST * number // ranges) for file in files]
        together = np.empty(sum(piece.size for piece in pieces), np.uint64)
        start = 0
        while pieces:  # each goes once it is copied
            piece = pieces.pop()
            together[start : start + piece.size] = piece
            start += piece.size
        together.sort()
        yield together
