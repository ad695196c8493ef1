"""Which split a record goes to, and whether its key was seen before."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.decoder import RecordDecoder
from seqrecorder.dataset.split_shares import BY_FUNCTION, Balanced, Balancer, Splitting
from seqrecorder.dataset.splits import KeyRegistry, Ratios, key_hash, key_hashes
from seqrecorder.errors import DuplicateKeyError, OptionError, RecordError
from seqrecorder.storage.names import check_name
from seqrecorder.storage.shard import RecordReader
from seqrecorder.storage.shard_in_turn import read_in_turn
from seqrecorder.storage.tfrecord.check import check_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.encoder import Sources

DEFAULT_SPLIT = "train"
_WORD = 2**64 - 1
_SMALL_SHARD = 1 << 18  # bytes
_TOGETHER, _TOGETHER_BYTES = 1024, 8 << 20


class Router:
    """Gives records their splits.

    Args:
        schema: what the records are.
        splits: a share for each split; or the name of an attribute, or a function of the record, that gives the split's
            name; or None for one split.
        split_by: the name of an attribute, or a function of the record, that gives the key to hash; None takes the key
            field, else the position.
        seed: of the hash.
        old: the dataset that is appended to, whose records stay where they are, and whose rules hold.

    Attributes:
        ratios: the shares, or None where splits are named record by record.
        seed: of the hash.

    Raises:
        OptionError: options make no sense, alone or for the old dataset.
    """

    def __init__(self, schema: Schema, splits: Any, split_by: Any, seed: int, old: Manifest | None = None) -> None:
        self._schema, self.seed = schema, seed
        self._first, self._old_splits = 0, tuple[str, ...]()
        balanced = isinstance(split_by, Balanced)
        if old is not None:
            splits, split_by = _continued(old, splits, split_by, seed)
            self.seed, self._first, self._old_splits = old.splitting.seed, old.splitting.sources, tuple(old.splits)
            balanced = old.splitting.groups is not None
        split_by = split_by.by if isinstance(split_by, Balanced) else split_by
        self.ratios = Ratios(splits) if isinstance(splits, Mapping) else None
        self._name_of = None if splits is None or self.ratios else _getter(splits, "splits", schema)
        if split_by is not None and self.ratios is None:
            raise OptionError("split_by needs splits with shares, such as splits={'train': 0.9, 'eval': 0.1}")
        key = schema.key_field
        self._splits_given, self._by_given = splits, split_by if split_by is not None else (key and key.name)
        by = split_by if split_by is not None else (key.name if key is not None else None)
        self._key_of = None if by is None else _getter(by, "split_by", schema)
        self._by = BY_FUNCTION if callable(split_by) else split_by
        self._balancer: Balancer | None = None
        if balanced and self.ratios is not None:
            counts = {} if old is None else {name: split.records for name, split in old.splits.items()}
            self._balancer = Balancer(self.ratios.shares, counts, (old and old.splitting.groups) or {})

    @property
    def needs(self) -> list[str] | None:
        """Names of the attributes that decide splits; None where a function is asked, which may look at any."""
        if callable(self._splits_given) or callable(self._by_given):
            return None
        name = self._by_given if self.ratios is not None else self._splits_given
        return [] if name is None else [str(name)]

    @property
    def names(self) -> list[str]:
        """Names of the splits that are declared, so that they are there even without a record."""
        return [] if self.ratios is None else list(self.ratios.shares)

    def splitting(self, count: int) -> Splitting:
        """Return what the manifest says of this, after `count` records."""
        shares = dict(self.ratios.shares) if self.ratios else None
        groups = self._balancer.groups if self._balancer else None
        return Splitting(self.seed, shares, self._by, self._first + count, groups)

    def check_given(self, split: Any) -> None:
        """Raise `OptionError` for a split that was given with a record and cannot be."""
        if self.ratios is not None and split not in self.ratios.shares:
            raise OptionError(f"split {split!r} is not one of {', '.join(self.ratios.shares)}")
        check_name(split, "split")

    def assign(self, sources: Sources, given: Sequence[str | None]) -> list[str] | str:
        """Return the name of each record's split; or the one name, where that is known for all.

        Args:
            sources: the records, one at least.
            given: the split that each was given, if any.

        Raises:
            RecordError: a record has no such attribute, or gives no name.
            OptionError: nothing says which split of the old dataset a record belongs to.
        """
        first = given[0]
        named = {first} if given.count(first) == len(given) else set(given)  # counting takes a fifth of the time
        if first is not None and len(named) == 1:
            return first
        if self.ratios is not None:
            hashes = key_hashes(self._keys(sources, given), self.seed)
            names = self._balancer.assign(hashes.tolist()) if self._balancer else self.ratios.assign_all(hashes)
            left = iter(names)
            return names if named == {None} else [split or next(left) for split in given]
        if self._name_of is not None:
            rows = zip(sources.positions.tolist(), sources.records, given, strict=True)
            return [split or self._named(position, record) for position, record, split in rows]
        if self._old_splits not in ((), (DEFAULT_SPLIT,)) and None in named:
            raise OptionError(
                f"append=True: the dataset has the splits {', '.join(self._old_splits)}, named record by record, so "
                "that no rule is known; say where new records belong: give a mapping of split names to records, "
                "splits= with the name of an attribute or a function of the record, or write(record, split=...)"
            )
        return DEFAULT_SPLIT if named == {None} else [split or DEFAULT_SPLIT for split in given]

    def _keys(self, sources: Sources, given: Sequence[str | None]) -> list[Any]:
        """Return the keys of the records that were given no split."""
        rows = zip(sources.positions.tolist(), sources.records, given, strict=True)
        if self._key_of is None:
            return [self._first + position for position, _, split in rows if split is None]
        return [_asked(self._key_of, "its key", position, record) for position, record, split in rows if split is None]

    def _named(self, position: int, record: Any) -> str:
        name = _asked(self._name_of, "its split", position, record)
        if not isinstance(name, str):
            raise RecordError(f"its split: expected a name, got {name!r}", position=position)
        return check_name(name, "split")


def _continued(old: Manifest, splits: Any, split_by: Any, seed: int) -> tuple[Any, Any]:
    """Return `splits` and `split_by` for an append, which must be those of the old dataset or left out."""
    was = old.splitting
    if seed not in (0, was.seed):
        raise OptionError(f"append=True: the dataset has seed={was.seed}; leave `seed` out, got {seed}")
    if was.shares is None:
        if isinstance(splits, Mapping):
            raise OptionError("append=True: the splits of the dataset were named record by record, and have no shares")
        return splits, split_by
    if splits is not None and splits != was.shares:
        raise OptionError(f"append=True keeps the splits of the dataset, {dict(was.shares)}: leave `splits` out")
    if isinstance(split_by, Balanced):
        if was.groups is None:
            raise OptionError("append=True: the dataset was split by hash, and not balanced: leave `split_by` out")
        split_by = split_by.by
    if was.by == BY_FUNCTION and not callable(split_by):
        raise OptionError("append=True: the dataset was split by a function of the record; pass the same as split_by=")
    if split_by is not None and (BY_FUNCTION if callable(split_by) else split_by) != was.by:
        raise OptionError(f"append=True: the dataset was split by {was.by or 'its key'}; leave `split_by` out")
    return was.shares, was.by if split_by is None else split_by


def _asked(function: Callable[[Any], Any] | None, what: str, position: int, record: Any) -> Any:
    if function is None:  # pragma: no cover - asked only where it is set
        raise RuntimeError(what)
    try:
        return function(record)
    except Exception as error:
        raise RecordError(f"{what}: {type(error).__name__}: {error}", position=position) from error


def _getter(source: Any, option: str, schema: Schema) -> Callable[[Any], Any]:
    if callable(source):
        getter: Callable[[Any], Any] = source
        return getter
    if not isinstance(source, str):
        raise OptionError(f"{option}: expected the name of an attribute or a function of the record, got {source!r}")
    known = [attribute.name for attribute in attrs.fields(schema.record_class)]
    if source not in known:
        raise OptionError(f"{option}: {schema.name} has no attribute {source!r}; it has {', '.join(known)}")
    return lambda record: getattr(record, source)


class UniqueKeys:
    """Finds records whose key came before; records of a class without a key field are all new.

    Args:
        schema: what the records are.
        on_duplicate: what a second record with the same key is.
    """

    def __init__(self, schema: Schema, on_duplicate: Literal["error", "first"]) -> None:
        self._on_duplicate = on_duplicate
        self._key = schema.key_field
        # Chunks that come as records of their own share their key, and differ in their number; where the class makes
        # the chunks itself, what comes is whole.
        chunks_itself = callable(getattr(schema.record_class, "split", None))
        self._chunk = None if chunks_itself else next((field for field in schema.fields if field.chunk), None)
        self._registry = KeyRegistry()
        self._old_path, self._old_count = Path(), 0

    @property
    def needs(self) -> list[str]:
        """Names of the attributes that identify a record."""
        return [] if self._key is None else [field.name for field in (self._key, self._chunk) if field is not None]

    def register(self, manifest: Manifest) -> None:
        """Take in the keys of a dataset that is appended to.

        Raises:
            ShardReadError: a shard is damaged.
        """
        if self._key is None:
            return
        self._old_path = manifest.path
        names = [field.name for field in (self._key, self._chunk) if field is not None]
        codec = RecordDecoder(manifest.schema.select(names))
        for data in _stored(manifest):
            known = self._identities(codec.decode_batch(data))
            hashes = _fingerprints([identity for identity in known if identity is not None])
            self._registry.add(hashes, self._old_count)
            self._old_count += hashes.size

    def keep(self, sources: Sources) -> list[int] | None:
        """Return the indices of the records to keep, or None for all.

        Raises:
            DuplicateKeyError: a key came before, and that is an error.
        """
        if self._key is None:
            return None
        identities = self._identities(sources.records)
        # A record without a key, or with one of another type, is reported when it is encoded.
        usable = [i for i, identity in enumerate(identities) if identity is not None]
        hashes = _fingerprints([identities[i] for i in usable] if len(usable) < len(identities) else identities)
        positions = sources.positions[usable]
        earlier = self._registry.add(hashes, positions + self._old_count)
        doubled = np.flatnonzero(earlier >= 0)
        if not doubled.size:
            return None
        if self._on_duplicate == "error":
            first = int(doubled[0])
            other = int(earlier[first]) - self._old_count
            where = f"record {other}" if other >= 0 else f"a record that is in {self._old_path} already"
            raise DuplicateKeyError(
                f"has the key of {where}; make keys unique, or pass on_duplicate='first' to keep the first of each",
                position=int(positions[first]),
                key=getattr(sources.records[usable[first]], self._key.name),
            )
        dropped = {usable[i] for i in doubled.tolist()}
        return [i for i in range(len(identities)) if i not in dropped]

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


def _stored(manifest: Manifest) -> Iterator[list[bytes]]:
    """Yield the serialized records of a dataset, many at a time: those of several shards together where they are small.

    Many appends leave many small shards, of which each costs TensorFlow's reader, and decoding, some milliseconds.
    """
    waiting: list[bytes] = []
    held = 0
    for name, split in manifest.splits.items():
        for shard in split.shards:
            path = manifest.shard_path(name, shard)
            check_frames(path, manifest.compression, manifest.path)
            parts: Iterable[list[bytes]] = RecordReader(path, manifest.compression)
            if shard.bytes <= _SMALL_SHARD:
                parts = read_in_turn(path, manifest.compression, _TOGETHER, _SMALL_SHARD)
            for part in parts:
                waiting += part
                held += sum(map(len, part))
                if len(waiting) >= _TOGETHER or held >= _TOGETHER_BYTES:
                    yield waiting
                    waiting, held = [], 0
    if waiting:
        yield waiting


def _fingerprints(identities: list[Any]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each of the keys that one process compares.

    Texts have Python's own, which they keep: 0.1 microseconds instead of 0.4. Others have that of `key_hash`: Python
    gives -1 and -2, or 0 and 2**61 - 1, the same.
    """
    kinds = set(map(type, identities))
    if not kinds - {str}:
        return np.fromiter(map(hash, identities), np.int64, len(identities)).view(np.uint64)
    if not any(issubclass(kind, str) for kind in kinds):
        return key_hashes(identities)
    hashes = (hash(key) & _WORD if isinstance(key, str) else key_hash(key) for key in identities)
    return np.fromiter(hashes, np.uint64, len(identities))
