"""The hashes of a dataset's keys, kept beside its manifest, so that an append need not read all records for them.

The file is hidden, and says what the shards say: where it is missing, damaged, or of another manifest than the one that
stands there, the keys are read from the shards. Its bytes: `SRKEYS01`, the SHA-256 of what it belongs to, the CRC-32 of
the hashes as a uint32, and the hashes, uint64, ascending; all little-endian.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import zlib
from typing import TYPE_CHECKING

import numpy as np

from seqrecorder.errors import ShardReadError
from seqrecorder.storage.files import KEY_INDEX, MANIFEST, writing
from seqrecorder.storage.locks import exclusive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.dataset.manifest import Manifest


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
        """Check whether a hash is in the file; raises what `through` does."""
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


_MAGIC = b"SRKEYS01"
_HEAD = len(_MAGIC) + 32 + 4
_SHARDS, _RECORDS, _BYTES = 16, 1000, 16 << 20
_TOGETHER = 1 << 20


def pays(manifest: Manifest) -> bool:
    """Check whether reading the keys of a dataset from its shards takes longer than keeping an index of them."""
    shards = sum(len(split.shards) for split in manifest.splits.values())
    return shards >= _SHARDS or manifest.records >= _RECORDS or manifest.bytes >= _BYTES


def read_key_index(directory: Path, text: bytes, names: Sequence[str]) -> NDArray[np.uint64] | None:
    """Return the hashes of a dataset's keys, uint64, ascending; None where no index is as it was written for it.

    Args:
        directory: of the dataset.
        text: of its manifest.
        names: of the fields that identify a record.
    """
    try:
        data = (directory / KEY_INDEX).read_bytes()
    except OSError:
        return None
    hashes = data[_HEAD:]
    if data[:_HEAD] != _head(text, names, zlib.crc32(hashes)) or len(hashes) % 8:
        return None
    return np.frombuffer(hashes, "<u8").astype(np.uint64, copy=False)


def open_key_index(directory: Path, text: bytes, names: Sequence[str]) -> SortedHashes | None:
    """Return what `read_key_index` does, of which takes the same, to be gone through piece by piece."""
    path, check, size = directory / KEY_INDEX, 0, 0
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            while data := file.read(_TOGETHER):
                check, size = zlib.crc32(data, check), size + len(data)
    except OSError:
        return None
    return None if head != _head(text, names, check) or size % 8 else SortedHashes(path, _HEAD)


def write_key_index(directory: Path, text: bytes, names: Sequence[str], hashes: NDArray[np.uint64]) -> None:
    """Keep the hashes of a dataset's keys, unless the dataset has changed meanwhile.

    Args:
        directory: of the dataset.
        text: of the manifest that was published.
        names: of the fields that identify a record.
        hashes: uint64, ascending.

    Raises:
        DatasetNotFoundError: the dataset is gone.
        ShardWriteError: the file could not be written.
    """
    data = hashes.astype("<u8", copy=False).tobytes()
    with exclusive(directory) as held:
        if held.read(MANIFEST) == text:
            held.replace(KEY_INDEX, _head(text, names, zlib.crc32(data)) + data, like=MANIFEST)


class KeyIndexFile:
    """An index that is made piece by piece, and moved beside the manifest that it is for.

    Args:
        path: of a file on the file system of the dataset, which is there until it has been moved.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._check = 0
        with writing("write", path):
            path.write_bytes(bytes(_HEAD))

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Add hashes, ascending, and larger than those before.

        Raises:
            ShardWriteError: the disk is full, or failed.
        """
        data = hashes.astype("<u8", copy=False).data
        self._check = zlib.crc32(data, self._check)
        with writing("write", self.path), self.path.open("ab") as file:
            file.write(data)

    def move(self, directory: Path, text: bytes, names: Sequence[str]) -> None:
        """Keep it beside the manifest that was published; takes and raises what `write_key_index` does."""
        with writing("write", self.path):
            with self.path.open("r+b") as file:
                file.write(_head(text, names, self._check))
            shutil.copymode(directory / MANIFEST, self.path)
        with exclusive(directory) as held:
            if held.read(MANIFEST) == text:
                held.take(self.path, KEY_INDEX)


def _head(text: bytes, names: Sequence[str], check: int) -> bytes:
    owner = hashlib.sha256(b"\0".join([*(name.encode() for name in names), text])).digest()
    return _MAGIC + owner + check.to_bytes(4, "little")
