"""Random access to the records of a dataset by position, and lookup of positions by key.

Positions are numbered across all splits in the order of the manifest, and in written order within a split. The
public interface is `Selection`.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
import operator
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import numpy as np

from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.dataset.checked_shards import Origin, Runs, ShardFile, check_digest, resolve_dataset
from seqrecorder.dataset.manifest import (
    dataset_at,
    explaining_replacement,
    first_of_groups,
    manifest_bytes,
    parse_manifest,
    schema_to_read,
    shards_of,
)
from seqrecorder.errors import DatasetError, OptionError, RecordError, ShardReadError
from seqrecorder.schema.exact_values import Mismatch
from seqrecorder.storage.crc32c import framed
from seqrecorder.storage.files import faults_around, most_open, replaced_file
from seqrecorder.storage.processes_and_signals import ahead, in_threads, scratch
from seqrecorder.storage.shard_reader import SoughtShard, StreamedShard
from seqrecorder.storage.tfrecord import advice
from seqrecorder.wire.byte_rows import Messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.checked_shards import Check, OnCorrupt
    from seqrecorder.dataset.manifest import Manifest, ShardInfo
    from seqrecorder.dataset.splits_in_time import Piece
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

    Shard = SoughtShard | StreamedShard


T = TypeVar("T")


class WrittenOrder:
    """Lookup of the file and the record number for a position that is counted across all splits.

    Args:
        splits: shards of each split.
    """

    def __init__(self, splits: Sequence[Sequence[ShardInfo]]) -> None:
        firsts, files = list[int](), 0
        for split in splits:
            firsts += [files + first for first in first_of_groups(split)]
            files += len(split)
        self._records = np.array([shard.records for split in splits for shard in split], np.int64)
        self._first_files = np.array(firsts, np.int64)
        self._sizes = np.diff(self._first_files, append=files)  # files per group
        self._starts = np.concatenate([[0], np.cumsum(self._records)])[np.append(self._first_files, files)]
        self._orders: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self.records = int(self._starts[-1])

    def find(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the file of the record at each position, and the number of the record in it.

        Args:
            positions: positions in `[0, records)`, int64 `(n,)`.
        """
        if not positions.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        groups = np.searchsorted(self._starts, positions, side="right") - 1
        places, counts = positions - self._starts[groups], self._sizes[groups]
        files, rows = self._first_files[groups] + places % counts, places // counts
        for group in np.unique(groups[~self._even[groups]]).tolist():  # salvaged files may lack records
            here = groups == group
            files[here], rows[here] = (part[places[here]] for part in self._order(group))
        return files, rows

    @functools.cached_property
    def _even(self) -> NDArray[np.bool_]:
        """Mask of the groups whose files still have all records that were dealt to them."""
        sizes = np.repeat(self._sizes, self._sizes)
        numbers = np.arange(self._records.size) - np.repeat(self._first_files, self._sizes)
        dealt = (np.repeat(np.diff(self._starts), self._sizes) - numbers + sizes - 1) // sizes
        even: NDArray[np.bool_] = np.logical_and.reduceat(self._records == dealt, self._first_files)
        return even

    def _order(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the records of a group in written order: the file of each, and its number in that file."""
        if group not in self._orders:
            first, count = int(self._first_files[group]), int(self._sizes[group])
            counts = self._records[first : first + count]
            files = np.repeat(np.arange(count), counts)
            rows = np.concatenate([np.arange(size) for size in counts.tolist()])
            order = np.lexsort((files, rows))
            self._orders[group] = first + files[order], rows[order]
        return self._orders[group]

    def find_one(self, position: int) -> tuple[int, int]:
        """Find the file and the record number for a single position.

        This is ten times as fast as `find`, which it calls only if files have lost some of the records that were dealt
        to them.
        """
        starts, first_files, sizes, even = self._groups
        group = bisect.bisect_right(starts, position) - 1
        if not even[group]:
            files, rows = self.find(np.array([position], np.int64))
            return int(files[0]), int(rows[0])
        row, number = divmod(position - starts[group], sizes[group])
        return first_files[group] + number, row

    @functools.cached_property
    def _groups(self) -> tuple[list[int], list[int], list[int], list[bool]]:
        return self._starts.tolist(), self._first_files.tolist(), self._sizes.tolist(), self._even.tolist()


_CHUNK = 8192  # records to decode at a time
_RUN = 1 << 16  # bytes; if runs are at least this long on average, opening files costs little compared to reading
_FILE_BYTES = 1 << 26  # bytes of records per file; a large selection is read as several files
_MOST_FILES = 16


def _selected(
    store: RecordStore, positions: NDArray[np.int64], *, lengths_only: bool, run: int = _RUN, size: int = _FILE_BYTES
) -> list[ShardFile]:
    """Build the list of files from which to read the records at the given positions.

    If the records form long runs in uncompressed shards, they are read there. Otherwise, they are copied to new files.
    With `lengths_only`, records of uncompressed shards are not copied.
    """
    files, rows = store.order.find(positions)
    begins = np.flatnonzero((np.diff(files, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 1))
    expected = store.manifest.bytes // max(1, store.manifest.records) * positions.size
    in_place = store.is_sought and not store.pieces and expected >= run * begins.size
    cuts = np.linspace(0, positions.size, 1 + min(_MOST_FILES, 1 + expected // size)).astype(np.int64)
    groups, out = store.manifest.schema.groups, []
    for start, stop in itertools.pairwise(np.unique(cuts).tolist()):
        part = positions[start:stop]
        data = f"{store.digest} {store.pieces}"
        directory = _directory(str(store.manifest.path), data, hashlib.sha256(part.tobytes()).hexdigest())
        directory.mkdir(parents=True, exist_ok=True)  # the system may have removed old temporary files
        path, lengths_path = directory / "selected.tfrecord", directory / "selected.lengths"
        if groups and not lengths_path.exists():
            table = np.stack([store.lengths(part, group) for group in groups], 1)
            _write(lengths_path, [table.astype("<i8").tobytes()])
        if not in_place and not path.exists() and not (lengths_only and store.is_sought):
            _copy(store, part, path)
        edges = np.concatenate([[start], begins[(begins > start) & (begins < stop)], [stop]])
        runs = _runs(store, files[edges[:-1]], rows[edges[:-1]], np.diff(edges))
        is_there = not store.is_sought or (store.pieces and path.exists())
        size = path.stat().st_size if is_there else int(np.diff(runs.table[:, 3:]).sum())
        file = ShardFile(directory, path.name, lengths_path.name if groups else None, stop - start, size, start)
        out.append(attrs.evolve(file, runs=runs) if in_place else file)
    return out


def _runs(store: RecordStore, files: NDArray[np.int64], rows: NDArray[np.int64], counts: NDArray[np.int64]) -> Runs:
    numbers, places = np.unique(files, return_inverse=True)
    paths = tuple(store.manifest.shard_path(*store.shards[number]) for number in numbers.tolist())
    return Runs(paths, np.stack([places, rows, counts, *store.spans(files, rows, counts).T], 1))


@functools.lru_cache(maxsize=1 << 12)
def _directory(path: str, manifest: str, positions: str) -> Path:
    """Create the directory for the copy of a selection.

    The directory is cached, so that a process reuses the copy of an equal selection.
    """
    del path, manifest, positions
    return scratch()


def _copy(store: RecordStore, positions: NDArray[np.int64], path: Path) -> None:
    """Copy records to a file, checking their CRCs."""
    source, window = store.forward(), store.window(_CHUNK)
    parts = [positions[start : start + window] for start in range(0, positions.size, window)]
    _write(path, (octets for part in parts for octets in framed(source.messages(part).rows())))


def _write(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file atomically, because another thread may be writing the same file."""
    with replaced_file(path) as unfinished, unfinished.open("wb") as file:
        for part in parts:
            with faults_around("write", unfinished):
                file.write(part)


_MOST_OPEN = 64  # maximum number of open shards
_AHEAD = 8  # shards to fetch at a time
_WINDOW_BYTES = 4 << 20  # bytes of serialized records to read at a time
_INDEXED = 1 << 15  # records whose keys to decode at a time


class RecordStore:
    """Records of a dataset, as its manifest listed them when the store was created.

    A store is pickled as the location of the dataset, without the records.

    Args:
        path: directory or URL of the dataset.
        schema: record class to read the records as; None for the stored schema.
        digest: expected SHA-256 of the manifest; None accepts any manifest.
        pieces: cuts to apply to each record, in order; empty for whole records.

    Raises:
        DatasetNotFoundError: there is no dataset.
        ManifestError: the manifest is damaged.
        SchemaMismatchError: the data cannot be read as the schema.
        DatasetError: the manifest does not have the expected digest.
    """

    def __init__(
        self, path: Any, schema: object = None, digest: str | None = None, pieces: tuple[Piece, ...] = ()
    ) -> None:
        self.pieces = pieces
        directory = dataset_at(path)
        text = manifest_bytes(directory)
        self.digest = hashlib.sha256(text).hexdigest()
        if digest not in (None, self.digest):
            raise DatasetError(
                f"{directory} was written again, appended to or edited since the selection was made, so that its "
                "positions may be those of other records; select again",
                path=directory,
            )
        self.manifest: Manifest = parse_manifest(text, directory)
        self.is_sought = self.manifest.compression is None  # whether records can be read in any order
        self._asked = schema
        self.schema = schema_to_read(self.manifest, schema, self.manifest.where)
        self._open: OrderedDict[int, Shard] = OrderedDict()
        self._most_open = most_open(_MOST_OPEN)
        self._fetched = range(0)
        self._keys: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.manifest.url or self.manifest.path, self._asked, self.digest, self.pieces))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordStore):
            return NotImplemented
        mine, others = ((s.manifest.path, s.digest, s.schema, s.pieces) for s in (self, other))
        return mine == others

    def __hash__(self) -> int:
        return hash((self.manifest.path, self.digest))

    @functools.cached_property
    def splits(self) -> dict[str, range]:
        """Mapping from split to its range of positions."""
        out, start = {}, 0
        for name, split in self.manifest.splits.items():
            out[name] = range(start, start + split.records)
            start += split.records
        return out

    @functools.cached_property
    def shards(self) -> list[tuple[str, ShardInfo]]:
        """All shards, split by split, as pairs of split name and shard."""
        return shards_of(self.manifest)

    @functools.cached_property
    def order(self) -> WrittenOrder:
        """Lookup of the file and record number for a position."""
        return WrittenOrder([split.shards for split in self.manifest.splits.values()])

    def shard(self, number: int) -> Shard:
        """Open a shard, or return it if it is already open.

        Raises:
            ShardReadError: the shard is missing, or has a different size.
        """
        shard = self._open.pop(number, None)
        if shard is None:
            with explaining_replacement(self.manifest):
                shard = self._opened(number)
        self._open[number] = shard
        while len(self._open) > self._most_open and self.is_sought:
            self._open.popitem(last=False)
        return shard

    def _opened(self, number: int) -> Shard:
        split, info = self.shards[number]
        if self.manifest.url is not None and number not in self._fetched:
            # If shards are being read in order, fetch the next ones as well.
            self._fetched = range(number, number + (_AHEAD if number == self._fetched.stop else 1))
            self.manifest.fetch(self.shards[number : self._fetched.stop])
        path, dataset = self.manifest.shard_path(split, info), self.manifest.path
        if self.is_sought:
            return SoughtShard(path, info.records, info.bytes, dataset)
        return StreamedShard(path, self.manifest.compression, info.records, info.bytes, dataset)

    def _read(self, number: int, read: Callable[[Shard], T]) -> T:
        """Read from a shard.

        If this fails for a dataset at a URL, a damaged copy in the cache is fetched again, and the read is repeated.
        """
        try:
            return read(self.shard(number))
        except ShardReadError:
            if self.manifest.url is None:
                raise
            self.manifest.fetch([self.shards[number]], verify=True)
            self._open.pop(number, None)
            return read(self.shard(number))

    @functools.cached_property
    def _whole(self) -> RecordStore:
        return RecordStore(self.manifest.path, None, self.digest)

    def reading(self, schema: object) -> RecordStore:
        """Return a store that reads the same records as instances of another class."""
        return RecordStore(self.manifest.path, schema, self.digest, self.pieces)

    def cut(self, *pieces: Piece) -> RecordStore:
        """Return a store that also applies the given cuts."""
        return RecordStore(self.manifest.path, self._asked, self.digest, (*self.pieces, *pieces))

    def forward(self) -> RecordStore:
        """Return a store for reading records in ascending order.

        This is a new store if the shards are GZIP files, which can only be read forward from their start. Otherwise, it
        is this store.
        """
        return self if self.is_sought else self.cut()

    def read_one(self, position: int) -> bytes | memoryview:
        """Read one serialized record; a long record is memory-mapped.

        Raises:
            ShardReadError: the record is damaged.
            OptionError: the record is in a GZIP shard.
        """
        if self.pieces:
            return self.messages(np.array([position])).rows()[0]
        number, row = self.order.find_one(position)
        try:
            return self.shard(number).read_one(row)
        except ShardReadError:  # a context manager for each record would take a twentieth of the time
            pass
        with explaining_replacement(self.manifest):
            return self._read(number, lambda shard: shard.read_one(row))

    def record(self, position: int) -> Any:
        """Read one record as an object.

        Raises:
            ShardReadError: the record is damaged.
            OptionError: the record is in a GZIP shard.
            RecordError: the record cannot be decoded.
        """
        data = self.read_one(position)
        return self._named(np.array([position]), lambda: self._decoder.decode_one(data))

    @functools.cached_property
    def _decoder(self) -> RecordDecoder:
        return RecordDecoder(self.schema)

    @functools.cached_property
    def _key_decoder(self) -> RecordDecoder:
        return self.decoder([field.name for field in self.schema.fields if field.key])

    def find_key(self, split: str, key: object) -> NDArray[np.int64]:
        """Find the records of a split with a given key.

        Returns:
            Their positions, ascending. The array is empty if the class has no key field.
        """
        field = self.schema.key_field
        try:
            wanted = None if field is None else field.exact(key)
        except (Mismatch, TypeError, ValueError, OverflowError):
            return np.empty(0, np.int64)
        if field is None:
            return np.empty(0, np.int64)
        if split not in self._keys:
            self._keys[split] = self._index_keys(field, self.splits[split])
        hashes, positions = self._keys[split]
        value = hash(_plain(wanted))
        first, last = np.searchsorted(hashes, value, "left"), np.searchsorted(hashes, value, "right")
        matches = np.sort(positions[first:last])
        if not matches.size or not self.is_sought:  # in GZIP shards, ignore collisions of 64-bit hashes
            return matches
        records = [self._key_decoder.decode_one(self.read_one(match)) for match in matches.tolist()]
        same = [getattr(record, field.name) == wanted for record in records]
        matching: NDArray[np.int64] = matches[np.array(same, bool)]
        return matching

    def _index_keys(self, field: Field, split: range) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Hash all keys of a split.

        Returns:
            The hashes, ascending, and the positions of the records with these keys.
        """
        store, decoder = self.forward(), self.decoder([field.name])
        parts = [np.empty(0, np.int64)]
        window = self.window(_INDEXED)
        for start in range(split.start, split.stop, window):
            column = store.columns(decoder, np.arange(start, min(split.stop, start + window)))[field.name]
            parts.append(np.fromiter(map(hash, _plain(column.values)), np.int64))
        hashes = np.concatenate(parts)
        order = np.argsort(hashes)
        return hashes[order], split.start + order

    def spans(self, files: NDArray[np.int64], rows: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the offsets in bytes at which runs of adjacent records start and end.

        Args:
            files: index of the shard of each run, int64 `(n,)`.
            rows: number of the first record of each run in its shard, int64 `(n,)`.
            counts: number of records in each run, int64 `(n,)`.

        Returns:
            The offsets, int64 `(n, 2)`. They are 0 for GZIP shards.

        Raises:
            ShardReadError: the frames of a shard do not add up to its size.
        """
        out = np.zeros((rows.size, 2), np.int64)
        for number, here in self.by_shard(files, rows):
            if isinstance(shard := self.shard(number), SoughtShard):
                out[here] = shard.starts[np.stack([rows[here], rows[here] + counts[here]], 1)]
        return out

    @staticmethod
    def by_shard(files: NDArray[np.int64], rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Group records by shard.

        For each shard, this yields its index, and the indices of its records in the order of their rows.
        """
        order = np.lexsort((rows, files))
        numbers, firsts = np.unique(files[order], return_index=True)
        yield from zip(numbers.tolist(), np.split(order, firsts)[1:], strict=True)

    def lengths(self, positions: NDArray[np.int64], group: str) -> NDArray[np.int64]:
        """Read the lengths that records have in an alignment group of the stored schema.

        They are read from the lengths files. Only if records are cut to pieces, they are decoded instead.

        Raises:
            ShardReadError: a lengths file is missing, or has changed since it was written.
        """
        if self.pieces:
            decoder = RecordDecoder(self.manifest.schema)
            parts = [positions[at : at + self.window(_CHUNK)] for at in range(0, positions.size, self.window(_CHUNK))]
            cut = [decoder.lengths(self.messages(part), group) for part in parts]
            return np.concatenate([np.empty(0, np.int64), *cut])
        column = self.manifest.schema.groups.index(group)
        files, rows = self.order.find(positions)
        out = np.empty(positions.size, np.int64)
        for number, here in self.by_shard(files, rows):
            with explaining_replacement(self.manifest):
                out[here] = self.manifest.lengths(*self.shards[number])[rows[here], column]
        return out

    def window(self, most: int) -> int:
        """Limit a number of records, so that the records take at most about 4 MiB.

        The limit follows from the mean size of a record, and is at least 1.
        """
        mean = self.manifest.bytes // max(1, self.manifest.records)
        return max(1, min(most, _WINDOW_BYTES // max(1, mean)))

    def decoder(self, fields: Sequence[str] | None, *, joined: bool = False) -> RecordDecoder:
        """Build a decoder for the given fields; None means all fields."""
        return RecordDecoder(self.schema.select(fields), joined=joined)

    def columns(self, decoder: RecordDecoder, positions: NDArray[np.int64]) -> dict[str, Column]:
        """Read records and decode them to columns.

        Raises:
            ShardReadError: a record is damaged.
            RecordError: a record cannot be decoded; the message names its shard and number.
        """
        return self.decode(decoder, positions, self.messages(positions))

    def decode(self, decoder: RecordDecoder, positions: NDArray[np.int64], messages: Messages) -> dict[str, Column]:
        """Decode serialized records to columns.

        Raises:
            RecordError: a record cannot be decoded; the message names its shard and number.
        """
        columns: dict[str, Column] = self._named(positions, lambda: decoder.decode_columns(messages))
        return columns

    def messages(self, positions: NDArray[np.int64]) -> Messages:
        """Read serialized records into one buffer.

        Args:
            positions: positions of the records, int64 `(n,)`; for GZIP shards, they must ascend within and across
                calls.

        Raises:
            ShardReadError: a record is damaged.
            OptionError: the records are in GZIP shards, and the positions do not ascend.
        """
        if self.pieces:
            whole = list(self._whole.messages(positions).rows())
            for piece in self.pieces:
                whole = piece.of(whole, self.manifest.schema.with_encoded_images)
            return Messages.of(whole)
        files, rows = self.order.find(positions)
        places, parts = [np.empty(0, np.int64)], []
        with explaining_replacement(self.manifest):
            if positions.size and files[0] == files[-1] and (files == files[0]).all() and (np.diff(rows) >= 0).all():
                return self._read(int(files[0]), lambda shard: shard.messages(rows))
            for number, here in self.by_shard(files, rows):
                places.append(here)
                parts.append(self._read(number, operator.methodcaller("messages", rows[here])))
        return Messages.together(parts).take(np.argsort(np.concatenate(places)))

    def records(self, decoder: RecordDecoder, positions: NDArray[np.int64], messages: Messages) -> list[Any]:
        """Decode serialized records to objects.

        Raises:
            RecordError: a record cannot be decoded; the message names its shard and number.
        """
        records: list[Any] = self._named(positions, lambda: decoder.build(decoder.decode_values(messages)))
        return records

    def _named(self, positions: NDArray[np.int64], decode: Callable[[], Any]) -> Any:
        try:
            return decode()
        except RecordError as error:
            bad = error.position or 0
            files, rows = self.order.find(positions[bad : bad + 1])
            path = self.manifest.shard_path(*self.shards[int(files[0])])
            raise RecordError(
                f"{path}, record {int(rows[0])}: {error.message}; {advice(self.manifest.where)}",
                position=bad,
                key=error.key,
                problems=error.problems,
            ) from error


def _plain(keys: Any) -> Any:
    """Convert keys to plain Python objects, so that equal keys have equal hashes."""
    values = keys.view(np.int64) if getattr(keys, "dtype", np.dtype(object)).kind in "mM" else keys
    return values.tolist() if isinstance(values, (np.ndarray, np.generic)) else values


class Rows:
    """Selected records of a dataset, in any order.

    They are pickled as the location of the dataset and the positions of the records.

    Args:
        store: records of the whole dataset.
        positions: positions of the selected records, counted across all splits; consecutive positions are stored as a
            range.
    """

    def __init__(self, store: RecordStore, positions: range | NDArray[np.int64]) -> None:
        self.store = store
        self.positions = _as_range(positions)

    def __len__(self) -> int:
        return len(self.positions)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.store, self.positions))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.store == other.store and np.array_equal(self.array(), other.array())

    def __hash__(self) -> int:
        return hash((self.store, len(self)))

    @property
    def schema(self) -> Schema:
        """Schema with which the records are read."""
        return self.store.schema

    def array(self, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
        """Return the positions, or a slice of them, as int64 `(n,)`."""
        part = self.positions[start:stop]
        return np.arange(part.start, part.stop, part.step) if isinstance(part, range) else part

    def take(self, places: NDArray[np.int64]) -> Rows:
        """Select rows by index.

        Args:
            places: indices of the rows, int64 `(n,)`; negative indices are not supported.
        """
        if isinstance(self.positions, range):  # an array of the whole range might be much larger
            return Rows(self.store, self.positions.start + self.positions.step * places)
        return Rows(self.store, self.positions[places])

    def cut(self, piece: Piece) -> Rows:
        """Return the same rows, with each record cut to a piece."""
        return Rows(self.store.cut(piece), self.positions)

    def read_as(self, schema: object) -> Rows:
        """Return the same rows, but read them as instances of another class.

        Raises:
            SchemaMismatchError: the data cannot be read as the class.
        """
        return Rows(self.store.reading(schema), self.positions)

    def whole_splits(self) -> list[str] | None:
        """List the splits of which these rows consist.

        Returns:
            The names of the splits, or None if the rows are not a sequence of whole splits in written order.
        """
        if self.store.pieces:
            return None
        by_start = {split.start: (name, split) for name, split in self.store.splits.items() if split}
        names: list[str] = []
        done = 0
        while done < len(self):
            name, split = by_start.get(int(self.positions[done]), ("", range(0)))
            part = self.positions[done : done + len(split)]
            if not split or (part != split if isinstance(part, range) else not np.array_equal(part, split)):
                return None
            names.append(name)
            done += len(split)
        return names

    def check_digests(self) -> None:
        """Check that no shard of these rows was replaced by another.

        For a dataset at a URL, damaged copies in the cache are fetched again.

        Raises:
            ShardReadError: an intact shard does not have the digest in the manifest.
        """
        numbers = np.unique(self.store.order.find(self.array())[0]).tolist()
        manifest, jobs = self.store.manifest, [self.store.shards[number] for number in numbers]
        manifest.fetch(jobs, verify=True)
        in_threads(functools.partial(check_digest, manifest), jobs)

    def touches(self, split: range) -> bool:
        """Check whether any record is in a split.

        If the positions are a range, only its first and last position are compared with the split. The result can then
        be True although the range steps over a short split.
        """
        positions = self.positions
        if isinstance(positions, range):
            ends = sorted([positions[0], positions[-1]]) if positions else [0, -1]
            return len(split) > 0 and ends[0] < split.stop and ends[1] >= split.start
        return bool(((positions >= split.start) & (positions < split.stop)).any())

    def by_split(self) -> dict[str, Rows]:
        """Group the rows by split, in the order of the manifest; omit empty splits."""
        positions, out = self.array(), {}
        for name, split in self.store.splits.items():
            mask = (positions >= split.start) & (positions < split.stop)
            if mask.any():
                out[name] = self if mask.all() else Rows(self.store, positions[mask])
        return out

    def find_key(self, key: object) -> NDArray[np.int64]:
        """Find the positions of the records with a given key."""
        splits = self.store.splits.items()
        each = [self.store.find_key(name, key) for name, split in splits if self.touches(split)]
        positions = np.concatenate([np.empty(0, np.int64), *each])
        if isinstance(self.positions, range):
            return positions[[position in self.positions for position in positions.tolist()]]
        return self.positions[np.isin(self.positions, positions)] if positions.size else positions

    def resolve(self, *, schema: object, check: Check, on_corrupt: OnCorrupt, lengths_only: bool) -> Origin:
        """Find the files and runs of records to read.

        Args:
            schema: class or schema to read the records as; None for the schema of these rows.
            check: level of checks; see `seqrecorder.dataset.checked_shards.resolve`.
            on_corrupt: `error`, or `skip` to skip damaged records, which only works for whole splits.
            lengths_only: whether only lengths are needed, so that no record is copied.

        Raises:
            ShardReadError: a shard is missing, or one of these records is damaged.
            ShardWriteError: the temporary directory is full.
            SchemaMismatchError: the data cannot be read as the schema.
            OptionError: `on_corrupt` is `skip`, and the rows are not whole splits.
        """
        store, manifest = self.store, self.store.manifest
        wanted = store.schema if schema is None else schema_to_read(manifest, schema, manifest.where)
        where = f"{manifest.where}, a selection of {len(self)} records"
        names = self.whole_splits()
        if names is None:
            if on_corrupt == "skip":
                raise OptionError(
                    "on_corrupt='skip' leaves damage out of whole splits, not out of selected records; salvage the "
                    "dataset, and select from what is recovered"
                )
            for name, split in store.splits.items() if check == "full" else ():
                if self.touches(split):
                    resolve_dataset(manifest, name, None, "full", "error")
            selected = _selected(store, self.array(), lengths_only=lengths_only)
            for piece in store.pieces:
                if piece.split != next(iter(piece.rule.starts)):  # the first steps of its records are missing
                    cut = attrs.evolve(manifest.splitting, time={"straddling": "cut"})
                    manifest = attrs.evolve(manifest, splitting=cut)
            return Origin(where, wanted, "steps", None, tuple(selected), manifest, check)
        if len(names) == 1:
            return attrs.evolve(resolve_dataset(manifest, names[0], None, check, on_corrupt), schema=wanted)
        files: list[ShardFile] = []
        start = 0
        for name in names:
            part = resolve_dataset(manifest, name, None, check, on_corrupt)
            files += [attrs.evolve(file, start=file.start + start) for file in part.files]
            start += manifest.splits[name].records
        return Origin(where, wanted, "steps", manifest.compression, tuple(files), manifest, check)

    # Reading -----------------------------------------------------------------------------------------------------

    def chunks(self, size: int = _CHUNK) -> Iterator[NDArray[np.int64]]:
        """Yield the positions in chunks of at most `size` records and about 4 MiB."""
        step = self.store.window(size)
        for start in range(0, len(self), step):
            yield self.array(start, start + step)

    def decoded(self, decode: Callable[[NDArray[np.int64], Messages], T], size: int = _CHUNK) -> Iterator[T]:
        """Decode the records chunk by chunk in prefetching threads; yield the results in order."""
        store = self.store.forward()
        chunks = ((positions, store.messages(positions)) for positions in self.chunks(size))
        for chunk, task in ahead(lambda chunk: decode(*chunk), chunks, size=lambda chunk: chunk[1].nbytes):
            yield task.result()
            del chunk, task

    def records(self, fields: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the records as objects with the given fields; None means all fields."""
        decode = functools.partial(self.store.records, self.store.decoder(fields))
        return itertools.chain.from_iterable(self.decoded(decode))

    def columns(
        self, fields: Sequence[str] | None = None, size: int = _CHUNK, *, joined: bool = False
    ) -> Iterator[dict[str, Column]]:
        """Yield the records as columns, in batches.

        With `joined`, the texts of required fields are rows of a `Blob` instead of objects.
        """
        return self.decoded(functools.partial(self.store.decode, self.store.decoder(fields, joined=joined)), size)

    def scalars(self, fields: Sequence[str]) -> list[list[Any]]:
        """Read the values of context fields without a shape.

        Returns:
            One list of values for each field.

        Raises:
            OptionError: a field is a feature list, or has a shape.
            SchemaError: a field does not exist.
        """
        require_scalars(self.schema, fields)
        out: list[list[Any]] = [[] for _ in fields]
        for columns in self.columns(fields):
            for values, name in zip(out, fields, strict=True):
                values.extend(scalars(columns[name]))
        return out


def require_scalars(schema: Schema, names: Sequence[str]) -> None:
    """Raise `OptionError` for fields without a single value per record, and `SchemaError` for unknown fields."""
    for name in names:
        field = schema[name]
        if field.is_list or field.shape or field.sparse is not None:
            raise OptionError(
                f"{name!r}: expected one value per record, got {'a feature list' if field.is_list else 'several'}; "
                "a function of the record may compute one, such as lambda record: ..."
            )


def scalars(column: Column) -> list[Any]:
    """List the values of a context field without a shape, with None for missing values."""
    values: list[Any] = column.values.tolist() if column.values.dtype == object else list(column.values)
    if column.present is None:
        return values
    rest = iter(values)
    return [next(rest) if here else None for here in column.present.tolist()]


def ascends(positions: NDArray[np.int64]) -> bool:
    """Check whether positions strictly ascend."""
    return bool((np.diff(positions) > 0).all())


def _as_range(positions: range | NDArray[np.int64]) -> range | NDArray[np.int64]:
    """Convert positions to a range if they are consecutive, and otherwise to a read-only array."""
    if isinstance(positions, range):
        return positions
    if positions.size and int(positions[-1]) - int(positions[0]) == positions.size - 1 and ascends(positions):
        return range(int(positions[0]), int(positions[-1]) + 1)
    own: NDArray[np.int64] = positions
    if own.flags.writeable or own.base is not None:
        own = own.copy()
        own.flags.writeable = False
    return own
