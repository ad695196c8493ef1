"""Whether the key of a record came before: in what is written, or in the dataset that it is appended to."""

from __future__ import annotations

import contextlib
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.dataset.keys import pays, read_key_index, write_key_index
from seqrecorder.dataset.splits import KeyRegistry, key_hashes
from seqrecorder.errors import DuplicateKeyError
from seqrecorder.storage.shard import RecordReader
from seqrecorder.storage.tfrecord import check_frames

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.dataset.manifest import Manifest, SplitInfo
    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.encoder import Sources


_TOGETHER, _TOGETHER_BYTES = 1024, 8 << 20


class UniqueKeys:
    """Finds records whose key came before; records of a class without a key field are all new.

    Args:
        schema: what the records are.
        on_duplicate: what a second record with the same key is.
        needs: what the property of that name gave for the class itself, where the schema is rebuilt and has no hooks.
    """

    def __init__(
        self,
        schema: Schema,
        on_duplicate: Literal["error", "first"],
        *,
        needs: Sequence[str] | None = None,
    ) -> None:
        self._on_duplicate = on_duplicate
        self._key = schema.key_field
        # Chunks that come as records of their own share their key, and differ in their number; where the class makes
        # the chunks itself, what comes is whole.
        chunks_itself = callable(getattr(schema.record_class, "split", None))
        self._chunk = None if chunks_itself else next((field for field in schema.fields if field.chunk), None)
        if needs is not None and self._chunk is not None and self._chunk.name not in needs:
            self._chunk = None
        self._registry = KeyRegistry()
        self._old_place, self._old_count = "", 0
        self._old_hashes: NDArray[np.uint64] | None = None

    @property
    def needs(self) -> list[str]:
        """Names of the attributes that identify a record."""
        return [] if self._key is None else [field.name for field in (self._key, self._chunk) if field is not None]

    def register(self, manifest: Manifest, text: bytes) -> None:
        """Take in the keys of a dataset that is appended to.

        Args:
            manifest: of the dataset.
            text: of the same.

        Raises:
            ShardReadError: a shard is damaged.
        """
        if self._key is None:
            return
        self._old_place = manifest.where
        known = read_key_index(manifest.path, text, self.needs)
        for hashes in self._stored_hashes(manifest, manifest.splits) if known is None else [known]:
            self._registry.add(hashes, self._old_count)
            self._old_count += hashes.size
        self._old_hashes = self._registry.hashes

    def save(self, manifest: Manifest, added: Mapping[str, SplitInfo], *, hooks: bool) -> None:
        """Keep the keys for the next append, where that is faster than to read them again.

        Args:
            manifest: what was published.
            added: what it has besides the dataset that was appended to.
            hooks: whether hooks of the class had a say, so that other keys may be stored than came.

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
        """The hashes of all keys, ascending; None for a class without a key field."""
        return None if self._key is None else self._registry.hashes

    def hashes_of(self, records: Sequence[Any]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return a hash of the key of each record, the same in every process, and whether it has a key."""
        identities = self._identities(records) if self._key is not None else [None] * len(records)
        usable = np.array([identity is not None for identity in identities], np.bool_)
        hashes = np.zeros(usable.size, np.uint64)
        hashes[usable] = key_hashes([identity for identity in identities if identity is not None])
        return hashes, usable

    def add(self, hashes: NDArray[np.uint64]) -> int | None:
        """Take in keys by what `hashes_of` gave; return the index of one that came before, or None."""
        doubled = np.flatnonzero(self._registry.add(hashes, len(self._registry)) >= 0)
        return int(doubled[0]) if doubled.size else None

    def stored(self, manifest: Manifest, splits: Mapping[str, SplitInfo]) -> Iterator[list[Any]]:
        """Yield the keys in the shards of some splits, many at a time; those of chunks with their numbers.

        Raises:
            ShardReadError: a shard is damaged.
        """
        codec = RecordDecoder(manifest.schema.select(self.needs))
        for data in _stored(manifest, splits):
            known = self._identities(codec.decode_batch(data))
            yield [identity for identity in known if identity is not None]

    def _stored_hashes(self, manifest: Manifest, splits: Mapping[str, SplitInfo]) -> Iterator[NDArray[np.uint64]]:
        return map(key_hashes, self.stored(manifest, splits))

    def keep(self, sources: Sources) -> list[int] | None:
        """Return the indices of the records to keep, or None for all.

        Raises:
            DuplicateKeyError: a key came before, and that is an error.
        """
        if self._key is None:
            return None
        # A record without a key, or with one of another type, is reported when it is encoded.
        hashes, has_key = self.hashes_of(sources.records)
        usable = np.flatnonzero(has_key)
        positions = sources.positions[usable]
        earlier = self._registry.add(hashes[usable], positions + self._old_count)
        doubled = np.flatnonzero(earlier >= 0)
        if not doubled.size:
            return None
        if self._on_duplicate == "error":
            first = int(doubled[0])
            other = int(earlier[first]) - self._old_count
            where = f"record {other}" if other >= 0 else f"a record that is in {self._old_place} already"
            raise DuplicateKeyError(
                f"has the key of {where}; make keys unique, or pass on_duplicate='first' to keep the first of each, "
                f"which leaves out {doubled.size} of the {usable.size} records that were looked at here",
                position=int(positions[first]),
                key=getattr(sources.records[usable[first]], self._key.name),
            )
        kept: list[int] = np.delete(np.arange(len(sources.records)), usable[doubled]).tolist()
        return kept

    def _identities(self, records: Sequence[Any]) -> list[Any]:
        if self._chunk is None and self._key is not None:
            with contextlib.suppress(AttributeError):
                keys = list(map(attrgetter(self._key.name), records))
                if set(map(type, keys)) == {str}:
                    return keys
        return list(map(self._identity, records))

    def _identity(self, record: Any) -> Any:
        value = getattr(record, self._key.name, None) if self._key is not None else None
        if not isinstance(value, (str, bytes, int, float, np.generic)):
            return None
        return value if self._chunk is None else (value, getattr(record, self._chunk.name, None))


def _stored(manifest: Manifest, splits: Mapping[str, SplitInfo]) -> Iterator[list[bytes]]:
    """Yield the serialized records of splits, many at a time: those of several shards together where they are small.

    Many appends leave many small shards, of which decoding each by itself would take a millisecond.
    """
    waiting: list[bytes] = []
    held = 0
    manifest.fetch([(name, shard) for name, split in splits.items() for shard in split.shards])
    for name, split in splits.items():
        for shard in split.shards:
            path = manifest.shard_path(name, shard)
            check_frames(path, manifest.compression, manifest.path)
            for part in RecordReader(path, manifest.compression):
                waiting += part
                held += sum(map(len, part))
                if len(waiting) >= _TOGETHER or held >= _TOGETHER_BYTES:
                    yield waiting
                    waiting, held = [], 0
    if waiting:
        yield waiting
