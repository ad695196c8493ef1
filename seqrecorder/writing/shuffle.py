"""Sorting and shuffling of items by 64-bit tags, on disk, with bounded memory, in one or two passes."""

from __future__ import annotations

import contextlib
import shutil
import struct
from array import array
from typing import IO, TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.dataset.split_shares import GAMMA, finalized
from seqrecorder.errors import ShardReadError
from seqrecorder.storage.files import error_at, fault_point, faults_around, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


_MASK = (1 << 64) - 1
_FAN_OUT_BITS = 8  # 256 files: with 256 MiB of memory, enough for 64 GiB before a file must be split again
_BUFFER = 1 << 18  # bytes of the buffer of an open file

_HEAD = struct.Struct("<QI")  # tag and number of values; the lengths of the values and the values follow
# CPython's overhead in bytes for an item (its tuple, tag and order), and for each bytes object in it.
_ITEM_BYTES, _VALUE_BYTES = 112, 48


def shuffle_tags(seed: int, start: int, count: int) -> NDArray[np.uint64]:
    """Compute tags that sort items into a random order.

    The tags are a section of the splitmix64 sequence of a seed.

    The sequence (Steele, Lea, Flood 2014) never repeats a number. The seed is mixed first, because the sequences of
    unmixed seeds overlap. The order depends only on the seed and the positions.

    >>> np.argsort(shuffle_tags(0, 0, 4)).tolist()
    [2, 1, 0, 3]

    Args:
        seed: any int; only its lowest 64 bits are used.
        start: position of the first item.
        count: number of tags.

    Returns:
        The tags, uint64 `(count,)`.
    """
    with np.errstate(over="ignore"):
        mixed = finalized(np.array([seed & _MASK], np.uint64))
        return finalized(mixed + np.arange(start + 1, start + count + 1, dtype=np.uint64) * np.uint64(GAMMA))


class SortedSpill:
    """Stable external sort of items by ascending tags.

    Items stay in memory while they fit. After that, they are distributed to 256 files according to the highest bits of
    their tags. At the end, each file is read, sorted and removed in turn; a file that does not fit into memory is split
    again by the next bits.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     spill = SortedSpill(Path(directory) / "spill")
    ...     for tag, word in [(7, b"a"), (2**63, b"b"), (0, b"c")]:
    ...         spill.add(tag, (word,))
    ...     list(spill.drain())
    [(b'c',), (b'a',), (b'b',)]

    Args:
        directory: directory for the files; created on demand, and removed at the end.
        memory_bytes: memory limit for all items, including Python's overhead. A single item may exceed it, and so may
            the items with the same tag.
        bits: number of low bits of the tags by which to sort; the higher bits of all tags must be equal.
    """

    def __init__(self, directory: Path, *, memory_bytes: int = 256 << 20, bits: int = 64) -> None:
        self._directory, self._memory_bytes, self._bits = directory, memory_bytes, bits
        self._fan_out_bits = min(_FAN_OUT_BITS, bits)
        self._tags, self._items, self._memory = array("Q"), list[tuple[bytes, ...]](), 0
        self._buckets: dict[int, _Bucket] = {}

    def add(self, tag: int, item: tuple[bytes, ...]) -> None:
        """Add an item.

        Args:
            tag: 64-bit tag; evenly distributed tags result in files of equal size.
            item: tuple of bytes objects, of any number and any lengths.

        Raises:
            ShardWriteError: the disk is full or failed.
        """
        memory = _memory(item)
        if self._memory + memory > self._memory_bytes and self._items:
            self._spill()
        self._tags.append(tag)
        self._items.append(item)
        self._memory += memory

    def drain(self) -> Iterator[tuple[bytes, ...]]:
        """Yield all items once, in the order of their tags.

        Each file is removed after it has been read.

        Yields:
            The items.

        Raises:
            ShardReadError: a file cannot be read, or was changed.
            ShardWriteError: the disk is full or failed while a file was split.
        """
        try:
            if self._buckets:
                self._spill()
            yield from _sorted(self._tags, self._items)
            for number in sorted(self._buckets):
                yield from self._drain_bucket(self._buckets.pop(number))
        finally:
            self.close()

    def _drain_bucket(self, bucket: _Bucket) -> Iterator[tuple[bytes, ...]]:
        bits = self._bits - self._fan_out_bits
        memory = self._memory_bytes if bits else bucket.memory  # items with the same tag cannot be split further
        inner = SortedSpill(bucket.path.with_name(f"{bucket.path.name}-"), memory_bytes=memory, bits=bits)
        for tag, item in _read(bucket):
            inner.add(tag, item)
        # If the file cannot be removed now, it is removed with the directory at the end.
        with contextlib.suppress(OSError), faults_around("remove", bucket.path):
            bucket.path.unlink()
        yield from inner.drain()

    def close(self) -> None:
        """Drop the remaining items and remove the files.

        Further calls do nothing.
        """
        self._tags, self._items, self._buckets = array("Q"), [], {}
        if self._directory.exists():
            with writing("remove", self._directory):
                try:
                    fault_point("before_remove", self._directory)
                finally:
                    shutil.rmtree(self._directory, ignore_errors=True)
                fault_point("after_remove", self._directory)

    def _spill(self) -> None:
        if not self._buckets:
            with writing("make a directory for sorting", self._directory), faults_around("mkdir", self._directory):
                self._directory.mkdir()
        shift = np.uint64(self._bits - self._fan_out_bits)
        numbers = (np.array(self._tags, np.uint64) >> shift) & np.uint64((1 << self._fan_out_bits) - 1)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=numbers[order[:1]] + np.uint64(1)))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            number = int(numbers[order[start]])
            bucket = self._buckets.setdefault(number, _Bucket(self._directory / f"{number:02x}"))
            self._append(bucket, order[start:stop].tolist())
        self._tags, self._items, self._memory = array("Q"), [], 0

    def _append(self, bucket: _Bucket, chosen: Sequence[int]) -> None:
        with writing("sort the file", bucket.path):
            fault_point("before_open", bucket.path)
            with bucket.path.open("ab", buffering=_BUFFER) as file:
                fault_point("after_open", bucket.path)
                with faults_around("write", bucket.path):
                    for i in chosen:
                        item = self._items[i]
                        head = struct.pack(f"<QI{len(item)}Q", self._tags[i], len(item), *map(len, item))
                        file.write(b"".join((head, *item)))
                        bucket.memory += _memory(item)
                with faults_around("flush", bucket.path):
                    file.flush()
        bucket.items += len(chosen)


@attrs.define
class _Bucket:
    """File of items, with their number and the memory that they need when loaded."""

    path: Path
    items: int = 0
    memory: int = 0


def _sorted(tags: array[int], items: list[tuple[bytes, ...]]) -> Iterator[tuple[bytes, ...]]:
    for i in np.argsort(np.array(tags, np.uint64), kind="stable").tolist():
        item = items[i]
        items[i] = ()  # lets the consumer free the memory of the item
        yield item


def _memory(item: tuple[bytes, ...]) -> int:
    return _ITEM_BYTES + _VALUE_BYTES * len(item) + sum(map(len, item))


def _read(bucket: _Bucket) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    try:
        with bucket.path.open("rb", buffering=_BUFFER) as file:
            for _ in range(bucket.items):
                tag, count = _HEAD.unpack(_read_exactly(file, _HEAD.size))
                lengths = struct.unpack(f"<{count}Q", _read_exactly(file, 8 * count))
                yield tag, tuple([_read_exactly(file, length) for length in lengths])
    except ShardReadError:
        raise
    except OSError as error:
        raise error_at(ShardReadError, "sort the file", bucket.path, error, "write the dataset again") from error


def _read_exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise ShardReadError(
            f"cannot sort the file {file.name!r}: expected {size} more bytes, got {len(data)};"
            " make sure that no other program writes to its directory, and write the dataset again",
            path=file.name,
        )
    return data
