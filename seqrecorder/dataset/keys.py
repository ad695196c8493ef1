"""Search for duplicate keys: in a stream of records, in other parts, or in a dataset being appended to.

The key index is a hidden file next to the manifest that caches the hashes of the keys. If it is missing, damaged, or
belongs to another manifest, the keys are read from the shards. Its format, all little-endian: `SRKEYS01`, the SHA-256
of the key fields and the manifest, the CRC-32 of the hashes as a uint32, and the ascending uint64 hashes.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import zlib
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.dataset.manifest import explaining_replacement
from seqrecorder.dataset.split_shares import key_hashes
from seqrecorder.errors import DuplicateKeyError, ShardReadError
from seqrecorder.storage.files import KEY_INDEX, MANIFEST
from seqrecorder.storage.locks import exclusive
from seqrecorder.storage.shard_reader import RecordReader
from seqrecorder.storage.tfrecord import check_frames

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.dataset.manifest import Manifest, SplitInfo
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.locks import Held


_LAST = (1 << 64) - 1
_KINDS = (str, bytes, int, float, np.generic)  # types of keys


class KeyRegistry:
    """Index that finds duplicate keys in a stream, using 12 bytes per key (16 from position 2**32 on).

    The index is a log-structured merge: sorted runs of hashes and positions, each more than twice as long as the next.
    Runs that break this rule are merged. Small blocks take more time per key. Memory use doubles while the two largest
    runs are merged.

    Only hashes are compared: among n distinct keys, two share a 64-bit hash with a probability of about
    n**2 / 2**65, which is 3e-8 for 10**6 keys, 3e-6 for 10**7 and 3e-4 for 10**8.

    >>> registry = KeyRegistry()
    >>> registry.add(np.array([7, 8, 7], np.uint64), 0)
    array([-1, -1,  0])
    >>> registry.add(np.array([9, 8], np.uint64), 3)
    array([-1,  1])
    >>> len(registry)
    3
    """

    def __init__(self) -> None:
        self._runs: list[tuple[NDArray[np.uint64], NDArray[Any]]] = []

    def __len__(self) -> int:
        """Return the number of distinct keys."""
        return sum(len(hashes) for hashes, _ in self._runs)

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Hashes of all keys, uint64, ascending."""
        return np.sort(np.concatenate([np.empty(0, np.uint64), *(hashes for hashes, _ in self._runs)]), kind="stable")

    def add(self, hashes: NDArray[np.uint64], first_position: int | NDArray[np.int64]) -> NDArray[np.int64]:
        """Register a block of keys, and find the duplicates among them.

        Args:
            hashes: hash of each key, uint64 of shape (n,); n of about 1,000 is fastest.
            first_position: position of the first key if the positions are consecutive; or the positions of all keys,
                int64 of shape (n,), not negative.

        Returns:
            Positions, int64 of shape (n,): -1 for a new key, otherwise the position of its first occurrence, in this
            block or an earlier one. Later occurrences are not registered.
        """
        positions = first_position
        if not isinstance(positions, np.ndarray):
            positions = positions + np.arange(len(hashes), dtype=np.int64)
        distinct, firsts, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        known = self._lookup(distinct)
        is_new = known < 0
        # The first occurrence of a duplicate is either registered or in this block.
        earlier: NDArray[np.int64] = np.where(is_new, positions[firsts], known)[inverse]
        earlier[firsts] = known
        self._append(distinct[is_new], positions[firsts[is_new]])
        return earlier

    def _lookup(self, distinct: NDArray[np.uint64]) -> NDArray[np.int64]:
        known = np.full(len(distinct), -1, np.int64)
        for hashes, positions in self._runs:
            indices = np.searchsorted(hashes, distinct)
            np.minimum(indices, len(hashes) - 1, out=indices)
            matches = np.flatnonzero(hashes[indices] == distinct)
            if len(matches):
                known[matches] = positions[indices[matches]]
        return known

    def _append(self, hashes: NDArray[np.uint64], positions: NDArray[np.int64]) -> None:
        if not len(hashes):
            return
        narrow = positions.astype(np.uint32) if int(positions.max()) < 1 << 32 else positions
        runs = self._runs
        runs.append((hashes, narrow))
        while len(runs) > 1 and len(runs[-2][0]) <= 2 * len(runs[-1][0]):
            # `_merge` empties the lists, so it can free each array as soon as it is merged.
            runs.append(_merge([*runs.pop()], [*runs.pop()]))


def _merge(one: list[NDArray[Any]], other: list[NDArray[Any]]) -> tuple[NDArray[np.uint64], NDArray[Any]]:
    """Merge two sorted runs of hashes and positions.

    Each run is a list of two arrays, the hashes and the positions. Both lists are emptied to save memory.
    """
    few, many = sorted((one, other), key=lambda run: len(run[0]))
    length = len(few[0]) + len(many[0])
    indices = np.searchsorted(many[0], few[0])
    indices += np.arange(len(indices))
    rest = np.ones(length, np.bool_)
    rest[indices] = False
    merged: list[NDArray[Any]] = []
    for _ in range(2):
        # Drop each input as soon as its column is merged, because memory use peaks here.
        source, into = few.pop(0), many.pop(0)
        column = np.empty(length, np.result_type(source, into))
        column[indices] = source
        column[rest] = into
        merged.append(column)
    return merged[0], merged[1]


_MEMORY_BYTES = 512 << 20  # memory for hashes, in a merge or for an index
_HASH_BYTES = 8
MOST_INDEXED = _MEMORY_BYTES // _HASH_BYTES
"""Maximum number of hashes to sort in memory; `commit` writes no index for more keys."""


class SortedHashes:
    """Reader of a file of ascending 64-bit hashes, little-endian, from start to end.

    The file is open only during reads, because a merge may read more files than a process can have open.

    Args:
        path: path of the file.
        start: offset of the first hash in bytes.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self._path, self._start = path, start
        with self._reading():
            self._size = (path.stat().st_size - start) // _HASH_BYTES
        self._next = 0

    def __len__(self) -> int:
        """Return the number of hashes."""
        return self._size

    def read_through(self, last: int = _LAST) -> NDArray[np.uint64]:
        """Read the next hashes, up to and including `last`.

        Each call continues where the previous call stopped.

        Raises:
            ShardReadError: the file can no longer be read.
        """
        if self._next == self._size:
            return np.empty(0, np.uint64)
        with self._reading():
            values = np.memmap(self._path, "<u8", mode="r", offset=self._start + _HASH_BYTES * self._next)
        hashes = np.array(values[: np.searchsorted(values, np.uint64(last), side="right")], np.uint64)
        self._next += hashes.size
        return hashes

    def finds(self, value: int) -> bool:
        """Check whether a hash is in the file; raise `ShardReadError` if the file can no longer be read."""
        if not self._size:
            return False
        with self._reading():
            values = np.memmap(self._path, "<u8", mode="r", offset=self._start)
        index = int(np.searchsorted(values, np.uint64(value)))
        return index < self._size and int(values[index]) == value

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # the file was removed or truncated
            text = f"{self._path}: cannot be read: {error}; if another process has changed the dataset, try again"
            raise ShardReadError(text, path=self._path) from error


def merged_hashes(files: Sequence[SortedHashes], memory_bytes: int = _MEMORY_BYTES) -> Iterator[NDArray[np.uint64]]:
    """Merge files of hashes.

    All hashes are yielded in ascending order, one range of values at a time. Hashes are uniformly distributed, so
    ranges of equal width contain about equal numbers of hashes, which fit into memory.

    Args:
        files: files of hashes, which are read to their ends.
        memory_bytes: approximate memory for the hashes of a range; collecting them takes up to twice as much.
    """
    total = sum(map(len, files))
    ranges = -(-total * _HASH_BYTES // memory_bytes)
    for number in range(1, ranges + 1):
        pieces = [file.read_through(_LAST * number // ranges) for file in files]
        together = np.empty(sum(piece.size for piece in pieces), np.uint64)
        start = 0
        while pieces:  # free each piece once it is copied
            piece = pieces.pop()
            together[start : start + piece.size] = piece
            start += piece.size
        together.sort()
        yield together


_MAGIC = b"SRKEYS01"
_HEAD = len(_MAGIC) + 32 + 4
_SHARDS, _RECORDS, _BYTES = 16, 1000, 16 << 20  # below all three limits, reading the shards is as fast as an index
_TOGETHER = 1 << 20  # bytes to read at a time


def pays(manifest: Manifest) -> bool:
    """Check whether a dataset is large enough for a key index to save time."""
    shards = sum(len(split.shards) for split in manifest.splits.values())
    return shards >= _SHARDS or manifest.records >= _RECORDS or manifest.bytes >= _BYTES


def open_key_index(directory: Path, text: bytes, names: Sequence[str]) -> SortedHashes | None:
    """Open the key index of a dataset.

    Args:
        directory: directory of the dataset.
        text: text of its manifest.
        names: names of the fields that identify a record.

    Returns:
        The index, or None if it is missing or damaged, or belongs to another manifest.
    """
    path, check, size = directory / KEY_INDEX, 0, 0
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            while data := file.read(_TOGETHER):
                check, size = zlib.crc32(data, check), size + len(data)
    except OSError:
        return None
    return None if head != _head(text, names, check) or size % 8 else SortedHashes(path, _HEAD)


def write_key_index(
    directory: Path, text: bytes, names: Sequence[str], hashes: NDArray[np.uint64], outer: Held | None = None
) -> None:
    """Write the key index of a dataset, unless the dataset has changed in the meantime.

    Args:
        directory: directory of the dataset.
        text: text of the published manifest.
        names: names of the fields that identify a record.
        hashes: hashes of all keys, uint64, ascending.
        outer: the caller's lock on the directory, if it already holds one.

    Raises:
        DatasetNotFoundError: the dataset was removed.
        ShardWriteError: the file could not be written.
    """
    data = hashes.astype("<u8", copy=False).data
    with exclusive(directory, outer) as locked:
        if locked.read(MANIFEST) == text:
            locked.replace(KEY_INDEX, b"".join([_head(text, names, zlib.crc32(data)), data]), like=MANIFEST)


def _head(text: bytes, names: Sequence[str], check: int) -> bytes:
    owner = hashlib.sha256(b"\0".join([*(name.encode() for name in names), text])).digest()
    return _MAGIC + owner + check.to_bytes(4, "little")


class UniqueKeys:
    """Detector of records with duplicate keys.

    Without a key field, all records count as new.

    Args:
        schema: schema of the records.
        on_duplicate: treatment of a second record with the same key: `error`, or `first` to drop it.
        needs: names of the fields that identify a record; None to take them from the schema and the hooks of the class;
            empty to count all records as new.
    """

    def __init__(
        self, schema: Schema, on_duplicate: Literal["error", "first"], *, needs: Sequence[str] | None = None
    ) -> None:
        self._on_duplicate = on_duplicate
        self._key = schema.key_field if needs is None or needs else None
        # Chunks that the caller writes as records share a key and differ in the chunk number. If the class has the hook
        # `split`, records are not split into chunks yet.
        chunks_itself = needs is None and callable(getattr(schema.record_class, "split", None))
        self._has_chunks = hasattr(schema.record_class, "split") or any(field.chunk for field in schema.fields)
        self._chunk = None if chunks_itself else next((field for field in schema.fields if field.chunk), None)
        if needs is not None and self._chunk is not None and self._chunk.name not in needs:
            self._chunk = None
        self._registry = KeyRegistry()
        self._old_label, self._old_count = "", 0
        self._old_hashes: NDArray[np.uint64] | None = None

    @property
    def needs(self) -> list[str]:
        """Names of the attributes that identify a record."""
        return [] if self._key is None else [field.name for field in (self._key, self._chunk) if field is not None]

    def register(self, manifest: Manifest, text: bytes) -> None:
        """Register the keys of the dataset being appended to.

        Args:
            manifest: manifest of the dataset.
            text: text of the manifest.

        Raises:
            ShardReadError: a shard is damaged.
        """
        if self._key is None:
            return
        self._old_label = manifest.where
        known = open_key_index(manifest.path, text, self.needs)
        for hashes in self._stored_hashes(manifest, manifest.splits) if known is None else [known.read_through()]:
            self._registry.add(hashes, self._old_count)
            self._old_count += hashes.size
        self._old_hashes = self._registry.hashes

    def save(self, manifest: Manifest, added: Mapping[str, SplitInfo], *, hooks: bool) -> None:
        """Write the key index for the next append, if that will save time.

        Args:
            manifest: the published manifest.
            added: mapping from split name to the part that this append added.
            hooks: whether the class has hooks, which may make stored keys differ from the keys of the sources.

        Raises:
            ShardReadError: a shard cannot be read.
            ShardWriteError: the index could not be written.
        """
        if self._key is None or self._old_hashes is None or not pays(manifest):
            return
        hashes = self._registry.hashes
        if hooks:
            hashes = np.unique(np.concatenate([self._old_hashes, *self._stored_hashes(manifest, added)]))
        write_key_index(manifest.path, manifest.to_json().encode(), self.needs, hashes)

    @property
    def hashes(self) -> NDArray[np.uint64] | None:
        """Hashes of all keys in ascending order, or None for a class without a key field."""
        return None if self._key is None else self._registry.hashes

    def hashes_of(self, records: Sequence[Any]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Hash the key of each record.

        Equal keys have equal hashes in every process.

        Returns:
            The hashes, and the mask of the records that have a key. The hash of every other record is 0.
        """
        identities = self._identities(records) if self._key is not None else [None] * len(records)
        usable = np.array([identity is not None for identity in identities], np.bool_)
        hashes = np.zeros(usable.size, np.uint64)
        hashes[usable] = key_hashes([identity for identity in identities if identity is not None])
        return hashes, usable

    def add(self, hashes: NDArray[np.uint64]) -> int | None:
        """Register hashes from `hashes_of`.

        Returns:
            The index of the first duplicate, or None if all hashes are new.
        """
        doubled = np.flatnonzero(self._registry.add(hashes, len(self._registry)) >= 0)
        return int(doubled[0]) if doubled.size else None

    def stored(self, manifest: Manifest, splits: Mapping[str, SplitInfo]) -> Iterator[list[Any]]:
        """Yield the keys that are stored in the shards of some splits, in batches.

        The key of a chunk includes the number of the chunk.

        Raises:
            ShardReadError: a shard is damaged.
        """
        codec = RecordDecoder(manifest.schema.select(self.needs))
        shards = [(name, shard) for name, split in splits.items() for shard in split.shards]
        manifest.fetch(shards, verify=True)
        with explaining_replacement(manifest):
            for path in itertools.starmap(manifest.shard_path, shards):
                check_frames(path, manifest.compression, manifest.path)
                for data in RecordReader(path, manifest.compression):
                    known = self._identities(codec.decode_batch(data))
                    yield [identity for identity in known if identity is not None]

    def _stored_hashes(self, manifest: Manifest, splits: Mapping[str, SplitInfo]) -> Iterator[NDArray[np.uint64]]:
        return map(key_hashes, self.stored(manifest, splits))

    def keep(self, records: Sequence[Any], positions: NDArray[np.int64]) -> list[int] | None:
        """Register the keys of records, and select the records whose keys are new.

        Args:
            records: records to check.
            positions: position of each record, int64 `(n,)`.

        Returns:
            The indices of the selected records and of the records without a key, or None if these are all records.

        Raises:
            DuplicateKeyError: a key is already registered, and `on_duplicate` is `"error"`.
        """
        if self._key is None:
            return None
        # Records without a key, or with a key of the wrong type, are left to the encoder, which reports them.
        hashes, has_key = self.hashes_of(records)
        usable = np.flatnonzero(has_key)
        positions = positions[usable]
        earlier = self._registry.add(hashes[usable], positions + self._old_count)
        doubled = np.flatnonzero(earlier >= 0)
        if not doubled.size:
            return None
        if self._on_duplicate == "error":
            first = int(doubled[0])
            other = int(earlier[first]) - self._old_count
            where = f"record {other}" if other >= 0 else f"a record that is in {self._old_label} already"
            hint = ". An append extends no record" if other < 0 else "; pieces of a record need numbers (chunk=True)"
            if self._has_chunks:
                hint += ". Number chunks by chunk=True, and write stored chunks again as a selection, not as a list"
            raise DuplicateKeyError(
                f"has the key of {where}; make keys unique, as with the file's name, or pass on_duplicate='first', "
                f"which drops {doubled.size} of the {usable.size} records checked here{hint}",
                position=int(positions[first]),
                key=getattr(records[usable[first]], self._key.name),
            )
        kept: list[int] = np.delete(np.arange(len(records)), usable[doubled]).tolist()
        return kept

    def _identities(self, records: Sequence[Any]) -> list[Any]:
        if self._chunk is None and self._key is not None:
            with contextlib.suppress(AttributeError):
                keys = list(map(attrgetter(self._key.name), records))
                if all(issubclass(kind, _KINDS) for kind in set(map(type, keys))):
                    return keys
        return list(map(self._identity, records))

    def _identity(self, record: Any) -> Any:
        value = getattr(record, self._key.name, None) if self._key is not None else None
        if not isinstance(value, _KINDS):
            return None
        return value if self._chunk is None else (value, getattr(record, self._chunk.name, None))
