"""A random order of any number of items, in bounded memory and one or two passes over the disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import tempfile
from array import array
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from seqrecorder.dataset.ranks import GAMMA, finalized
from seqrecorder.errors import OptionError, ShardReadError
from seqrecorder.storage.files import error_at, fault_point, faults_around, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType
    from typing import Literal

    from numpy.typing import NDArray
    from typing_extensions import Self

_MASK = (1 << 64) - 1
_FAN_OUT_BITS = 8  # 256 files: 64 GiB at 256 MiB of memory before a bucket must be split again
_TAG_BITS = 64
_BUFFER = 1 << 18

_HEAD = struct.Struct("<QI")  # position, number of parts; then the length of each part, then the parts
# What CPython takes for a tuple and its slots, the bytes objects in it, and our position, tag and order.
_ITEM_BYTES, _PART_BYTES = 112, 48


class ShuffledSpill:
    """Takes items in the order of the source and gives them back in a random one, the same for the same seed.

    The order is that of `(tag, position)`, where the tag of an item is the number at its position in the
    splitmix64 sequence of the seed. So it depends on the seed and the positions alone, never on the memory.

    Items stay in memory while they fit. Beyond that they go to 256 files by the top bits of their tags, one
    file after the other is read, sorted and removed, and one that does not fit is split by the next bits.

    >>> with tempfile.TemporaryDirectory() as directory, ShuffledSpill(Path(directory), seed=0) as spill:
    ...     for word in [b"a", b"b", b"c", b"d"]:
    ...         spill.add((word,))
    ...     list(spill.drain())
    [(b'c',), (b'b',), (b'a',), (b'd',)]

    Args:
        directory: where to put the files, in a subdirectory of their own; made when needed, and then removed.
        seed: any int, of which the lowest 64 bits count.
        memory_bytes: how much the items in memory may take together, counted with what Python needs for them.
            A single item may be larger.

    Raises:
        OptionError: memory_bytes is not positive.
    """

    def __init__(self, directory: Path, *, seed: int, memory_bytes: int = 256 << 20) -> None:
        if memory_bytes < 1:
            raise OptionError(f"memory_bytes: expected at least 1, got {memory_bytes}")
        self._parent = Path(directory)
        self._made_parent = False
        self._directory: Path | None = None
        self._seed = seed
        self._memory_bytes = memory_bytes
        self._count = 0
        self._drained = False
        self._level = _Level(self._tags, self._memory_bytes, self._new_path)

    def _tags(self, positions: array[int]) -> NDArray[np.uint64]:
        return _tags(self._seed, positions)

    def __len__(self) -> int:
        """Return how many items were added."""
        return self._count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self.close()
        return False

    def add(self, item: tuple[bytes, ...]) -> None:
        """Take the next item.

        Args:
            item: any number of bytes objects, of any length.

        Raises:
            OptionError: `drain` or `close` was called before.
            ShardWriteError: the disk is full, or failed.
        """
        self._add(self._count, item)

    def _add(self, position: int, item: tuple[bytes, ...]) -> None:
        if self._drained:
            raise OptionError("shuffle: expected add before drain and close; use another ShuffledSpill")
        self._level.add(position, item)
        self._count += 1

    def drain(self) -> Iterator[tuple[bytes, ...]]:
        """Give all items in their random order, once; each file goes as soon as it is read.

        Yields:
            The items.

        Raises:
            OptionError: `drain` or `close` was called before.
            ShardReadError: a file could not be read, or is not as it was written.
            ShardWriteError: the disk is full, or failed, while a file was split.
        """
        if self._drained:
            raise OptionError("shuffle: expected drain once; use another ShuffledSpill")
        self._drained = True
        try:
            yield from self._level.drain()
        finally:
            self.close()

    def close(self) -> None:
        """Drop what was not drained, and remove the files; more than once is fine."""
        self._drained = True
        self._level = _Level(self._tags, self._memory_bytes, self._new_path)
        directory, self._directory = self._directory, None
        if directory is not None:
            try:
                fault_point("before_remove", directory)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
                self._remove_parent()
            fault_point("after_remove", directory)

    def _remove_parent(self) -> None:
        # What we made goes, so that nothing of it is published, unless another spill still uses it.
        if self._made_parent:
            with contextlib.suppress(OSError):
                self._parent.rmdir()

    def _new_path(self, name: str) -> Path:
        if self._directory is None:
            with writing("make a directory for shuffling in", self._parent):
                with faults_around("mkdir", self._parent):
                    self._made_parent = self._made_parent or not self._parent.exists()
                    self._parent.mkdir(parents=True, exist_ok=True)
                self._directory = Path(tempfile.mkdtemp(prefix="shuffle-", dir=self._parent))
        return self._directory / name


class SortedSpill(ShuffledSpill):
    """Takes items with tags, and gives them back by ascending tags, as a `ShuffledSpill` does by those of its own.

    >>> with tempfile.TemporaryDirectory() as directory, SortedSpill(Path(directory)) as spill:
    ...     for tag, word in [(7, b"a"), (2**63, b"b"), (0, b"c")]:
    ...         spill.add_tagged(tag, (word,))
    ...     list(spill.drain())
    [(b'c',), (b'a',), (b'b',)]

    Args:
        directory: as for `ShuffledSpill`.
        memory_bytes: as for `ShuffledSpill`; the items of one tag may take more.
    """

    def __init__(self, directory: Path, *, memory_bytes: int = 256 << 20) -> None:
        super().__init__(directory, seed=0, memory_bytes=memory_bytes)

    def _tags(self, positions: array[int]) -> NDArray[np.uint64]:
        return np.array(positions, np.uint64)

    def add_tagged(self, tag: int, item: tuple[bytes, ...]) -> None:
        """Take an item.

        Args:
            tag: 64 bits; evenly spread, for files of equal sizes.
            item: any number of bytes objects, of any length.

        Raises:
            OptionError: as for `add`.
            ShardWriteError: as for `add`.
        """
        self._add(tag, item)


class _Bucket:
    """One file, and what it will take in memory."""

    __slots__ = ("items", "memory", "path")

    def __init__(self, path: Path) -> None:
        self.path, self.items, self.memory = path, 0, 0


class _Level:
    """Items whose tags agree above their lowest `bits`: in memory, then in buckets by the next bits."""

    def __init__(
        self,
        tags: Callable[[array[int]], NDArray[np.uint64]],
        memory_bytes: int,
        new_path: Callable[[str], Path],
        *,
        bits: int = _TAG_BITS,
        name: str = "",
    ) -> None:
        self._tags, self._memory_bytes, self._new_path = tags, memory_bytes, new_path
        self._bits, self._name = bits, name
        self._fan_out_bits = min(_FAN_OUT_BITS, bits)
        self._positions = array("Q")
        self._items: list[tuple[bytes, ...]] = []
        self._memory = 0
        self._buckets: dict[int, _Bucket] = {}

    def add(self, position: int, item: tuple[bytes, ...]) -> None:
        memory = _memory(item)
        if self._memory + memory > self._memory_bytes and self._items:
            self._spill()
        self._positions.append(position)
        self._items.append(item)
        self._memory += memory

    def drain(self) -> Iterator[tuple[bytes, ...]]:
        if not self._buckets:
            yield from _sorted(self._tags(self._positions), self._items)
            return
        self._spill()
        for number in sorted(self._buckets):
            bucket = self._buckets.pop(number)
            # Items of one tag cannot be split, which ends the recursion.
            fits = bucket.memory <= self._memory_bytes or bucket.items == 1 or self._bits == self._fan_out_bits
            name = f"{self._name}{number:02x}"
            bits = self._bits - self._fan_out_bits
            rest = _Level(self._tags, self._memory_bytes, self._new_path, bits=bits, name=name)
            positions, items = array("Q"), list[tuple[bytes, ...]]()
            for position, item in _read(bucket):
                if fits:
                    positions.append(position)
                    items.append(item)
                else:
                    rest.add(position, item)
            _remove(bucket.path)
            if fits:
                yield from _sorted(self._tags(positions), items)
            else:
                yield from rest.drain()

    def _spill(self) -> None:
        shift = np.uint64(self._bits - self._fan_out_bits)
        mask = np.uint64((1 << self._fan_out_bits) - 1)
        numbers = (self._tags(self._positions) >> shift) & mask
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=numbers[order[:1]] + np.uint64(1)))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            number = int(numbers[order[start]])
            bucket = self._buckets.get(number)
            if bucket is None:
                path = self._new_path(f"{self._name}{number:02x}")
                bucket = self._buckets[number] = _Bucket(path)
            self._append(bucket, order[start:stop].tolist())
        self._positions, self._items, self._memory = array("Q"), [], 0

    def _append(self, bucket: _Bucket, chosen: Sequence[int]) -> None:
        with writing("shuffle through", bucket.path):
            fault_point("before_open", bucket.path)
            with bucket.path.open("ab", buffering=_BUFFER) as file:
                fault_point("after_open", bucket.path)
                with faults_around("write", bucket.path):
                    for i in chosen:
                        item = self._items[i]
                        head = struct.pack(f"<QI{len(item)}Q", self._positions[i], len(item), *map(len, item))
                        file.write(b"".join((head, *item)))
                        bucket.memory += _memory(item)
                with faults_around("flush", bucket.path):
                    file.flush()
        bucket.items += len(chosen)


def _tags(seed: int, positions: array[int]) -> NDArray[np.uint64]:
    """Return the numbers at some positions of the splitmix64 sequence (Steele, Lea, Flood 2014) of a seed.

    The sequence has no number twice. The seed is mixed first, since the sequences of plain seeds overlap.
    """
    with np.errstate(over="ignore"):
        start = finalized(np.array([seed & _MASK], np.uint64))
        return finalized(start + (np.array(positions, np.uint64) + np.uint64(1)) * np.uint64(GAMMA))


def _sorted(tags: NDArray[np.uint64], items: list[tuple[bytes, ...]]) -> Iterator[tuple[bytes, ...]]:
    for i in np.argsort(tags, kind="stable").tolist():
        item = items[i]
        items[i] = ()  # given away, it is no longer ours to hold
        yield item


def _memory(item: tuple[bytes, ...]) -> int:
    return _ITEM_BYTES + _PART_BYTES * len(item) + sum(map(len, item))


def _read(bucket: _Bucket) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    try:
        with bucket.path.open("rb", buffering=_BUFFER) as file:
            for _ in range(bucket.items):
                position, parts = _HEAD.unpack(_exactly(file, _HEAD.size))
                lengths = struct.unpack(f"<{parts}Q", _exactly(file, 8 * parts))
                yield position, tuple([_exactly(file, length) for length in lengths])
    except ShardReadError:
        raise
    except OSError as error:
        raise error_at(ShardReadError, "shuffle through", bucket.path, error, "write again") from error


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise ShardReadError(
            f"cannot shuffle through {file.name!r}: expected {size} more bytes, got {len(data)};"
            " keep other programs from that directory, and write again",
            path=file.name,
        )
    return data


def _remove(path: Path) -> None:
    # The rest goes with the whole directory at the end.
    with contextlib.suppress(OSError), faults_around("remove", path):
        os.unlink(path)  # noqa: PTH108 - one of very many
