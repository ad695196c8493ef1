"""The records of a dataset by their positions: serialized, as columns, and the positions of keys.

Positions count through the splits in the manifest's order, and inside each in written order.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.decoder import RecordDecoder
from seqrecorder.dataset.read_manifest import dataset_at, explaining_replacement, manifest_bytes, parse_manifest
from seqrecorder.dataset.written_order import WrittenOrder
from seqrecorder.errors import DatasetError, RecordError
from seqrecorder.schema.mismatch import Mismatch
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.random_access import SoughtShard, StreamedShard
from seqrecorder.storage.tfrecord.check import advice
from seqrecorder.wire.spans import Messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.manifest import Manifest, ShardInfo
    from seqrecorder.schema.field import Field

    Shard = SoughtShard | StreamedShard

_MOST_OPEN = 64
_AHEAD = 8  # shards that are fetched at a time
_WINDOW_BYTES = 4 << 20
_INDEXED = 1 << 15


class RecordStore:
    """The records of one dataset, as its manifest was when this was made. It pickles as the place of the dataset.

    Args:
        path: the dataset's directory.
        schema: the record class to read as; None for the schema that the data were written with.
        digest: of the manifest's text that is expected; None for whatever is there.

    Raises:
        DatasetNotFoundError: there is no dataset.
        ManifestError: its manifest is damaged.
        SchemaMismatchError: the data cannot be read as the schema.
        DatasetError: the manifest is another one than expected.
    """

    def __init__(self, path: Any, schema: object = None, digest: str | None = None) -> None:
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
        self._asked = schema
        self.schema = self.manifest.schema
        if schema is not None:
            wanted = Schema.of(schema)
            wanted.require_readable(self.manifest.schema, str(directory))
            self.schema = wanted.reading(self.manifest.schema)
        self._open: OrderedDict[int, Shard] = OrderedDict()
        self._fetched = range(0)
        self._keys: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.manifest.url or self.manifest.path, self._asked, self.digest))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordStore):
            return NotImplemented
        return (self.manifest.path, self.digest, self.schema) == (other.manifest.path, other.digest, other.schema)

    def __hash__(self) -> int:
        return hash((self.manifest.path, self.digest))

    @functools.cached_property
    def splits(self) -> dict[str, range]:
        """The positions of each split."""
        out, start = {}, 0
        for name, split in self.manifest.splits.items():
            out[name] = range(start, start + split.records)
            start += split.records
        return out

    def shard_infos(self, numbers: Iterable[int]) -> list[tuple[str, ShardInfo]]:
        """Return some shards, counted through all splits, with the names of these."""
        names, stops = list(self.manifest.splits), self._stops
        found = []
        for number in numbers:
            place = bisect.bisect_right(stops, number)
            shards = self.manifest.splits[names[place]].shards
            found.append((names[place], shards[number - stops[place] + len(shards)]))
        return found

    @functools.cached_property
    def _stops(self) -> list[int]:
        return list(itertools.accumulate(len(split.shards) for split in self.manifest.splits.values()))

    @functools.cached_property
    def order(self) -> WrittenOrder:
        """Where each record is."""
        return WrittenOrder([split.shards for split in self.manifest.splits.values()])

    @property
    def is_sought(self) -> bool:
        """Whether records can be read in any order."""
        return self.manifest.compression is None

    def shard(self, number: int) -> Shard:
        """Return an open shard.

        Raises:
            ShardReadError: it is missing, or has another size.
        """
        known = self._open.pop(number, None)
        with explaining_replacement(self.manifest):
            shard = self._opened(number) if known is None else known
        self._open[number] = shard
        while len(self._open) > _MOST_OPEN and self.is_sought:
            self._open.popitem(last=False)
        return shard

    def _opened(self, number: int) -> Shard:
        [(split, info)] = self.shard_infos([number])
        if self.manifest.url is not None and number not in self._fetched:
            # Of shards that are asked for one after the other, the next ones are fetched, too.
            self._fetched = range(number, number + (_AHEAD if number == self._fetched.stop else 1))
            self.manifest.fetch(self.shard_infos(range(number, min(self._fetched.stop, self._stops[-1]))))
        path, dataset = self.manifest.shard_path(split, info), self.manifest.path
        if self.is_sought:
            return SoughtShard(path, info.records, info.bytes, dataset)
        return StreamedShard(path, self.manifest.compression, info.records, info.bytes, dataset)

    def reading(self, schema: object) -> RecordStore:
        """Return a store that reads records as another class."""
        return RecordStore(self.manifest.path, schema, self.digest)

    def forward(self) -> RecordStore:
        """Return a store to read in ascending order from: this one, or another where each must begin anew."""
        return self if self.is_sought else RecordStore(self.manifest.path, self._asked, self.digest)

    def read_one(self, position: int) -> bytes:
        """Return one serialized record.

        Raises:
            ShardReadError: it is damaged.
            OptionError: it is in a GZIP shard.
        """
        number, row = self.order.find_one(position)
        with explaining_replacement(self.manifest):
            return self.shard(number).read_one(row)

    def record(self, position: int) -> Any:
        """Return one record as an object.

        Raises:
            ShardReadError: it is damaged.
            OptionError: it is in a GZIP shard.
            RecordError: it cannot be decoded.
        """
        data = self.read_one(position)
        return self._named(np.array([position]), lambda: self._decoder.decode_batch([data]))[0]

    @functools.cached_property
    def _decoder(self) -> RecordDecoder:
        return RecordDecoder(self.schema)

    @functools.cached_property
    def _key_decoder(self) -> RecordDecoder:
        return self.decoder([field.name for field in self.schema.fields if field.key])

    def find_key(self, split: str, key: object) -> NDArray[np.int64]:
        """Return the positions of the records of a split that have a key, ascending; none without a key field."""
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
        found = np.sort(positions[first:last])
        if not found.size or not self.is_sought:  # two keys of one hash of 64 bits are not looked for
            return found
        records = [self._key_decoder.decode_batch([self.read_one(place)])[0] for place in found.tolist()]
        same = [getattr(record, field.name) == wanted for record in records]
        matching: NDArray[np.int64] = found[np.array(same, bool)]
        return matching

    def _index_keys(self, field: Field, split: range) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the hashes of all keys of a split, ascending, and the position of each."""
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
        """Return the bytes at which runs of neighbouring records begin and end, int64 `(n, 2)`; 0 in GZIP shards.

        Args:
            files: the number of the shard of each run, int64 `(n,)`.
            rows: the number of its first record there.
            counts: how many records it has.

        Raises:
            ShardReadError: the frames of a shard do not lead from its first byte to its last.
        """
        out = np.zeros((rows.size, 2), np.int64)
        for number, here in self.by_shard(files, rows):
            shard = self.shard(number)
            if isinstance(shard, SoughtShard):
                out[here] = shard.starts[np.stack([rows[here], rows[here] + counts[here]], 1)]
        return out

    @staticmethod
    def by_shard(files: NDArray[np.int64], rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield the number of each shard, and which of some records are in it, by ascending rows."""
        order = np.lexsort((rows, files))
        numbers, firsts = np.unique(files[order], return_index=True)
        yield from zip(numbers.tolist(), np.split(order, firsts)[1:], strict=True)

    def lengths(self, positions: NDArray[np.int64], group: str) -> NDArray[np.int64]:
        """Return the lengths of records in an alignment group of the stored schema, from the lengths files.

        Raises:
            ShardReadError: a lengths file is missing, or not as it was written.
        """
        column = self.manifest.schema.groups.index(group)
        files, rows = self.order.find(positions)
        out = np.empty(positions.size, np.int64)
        for number, here in self.by_shard(files, rows):
            out[here] = self._lengths(number)[rows[here], column]
        return out

    def _lengths(self, number: int) -> NDArray[np.int64]:
        with explaining_replacement(self.manifest):
            return self.manifest.lengths(*self.shard_infos([number])[0])

    def window(self, most: int) -> int:
        """Return how many records to hold at once: at most so many, and no more than about 4 MiB."""
        mean = self.manifest.bytes // max(1, self.manifest.records)
        return max(1, min(most, _WINDOW_BYTES // max(1, mean)))

    def decoder(self, fields: Sequence[str] | None, *, joined: bool = False) -> RecordDecoder:
        """Return the decoder of some fields, of all for None."""
        return RecordDecoder(self.schema.select(fields), joined=joined)

    def columns(self, decoder: RecordDecoder, positions: NDArray[np.int64]) -> dict[str, Column]:
        """Return records as columns.

        Raises:
            ShardReadError: one is damaged.
            RecordError: one cannot be decoded; its shard and number are named.
        """
        return self.decode(decoder, positions, self.messages(positions))

    def decode(self, decoder: RecordDecoder, positions: NDArray[np.int64], messages: Messages) -> dict[str, Column]:
        """Return the columns of serialized records.

        Raises:
            RecordError: one cannot be decoded; its shard and number are named.
        """
        columns: dict[str, Column] = self._named(positions, lambda: decoder.decode_columns(messages))
        return columns

    def messages(self, positions: NDArray[np.int64]) -> Messages:
        """Return serialized records in a buffer.

        Args:
            positions: int64, `(n,)`; of GZIP shards, ascending from one call to the next.

        Raises:
            ShardReadError: one is damaged.
            OptionError: they are in GZIP shards, and not in ascending order.
        """
        files, rows = self.order.find(positions)
        places, parts = [np.empty(0, np.int64)], []
        with explaining_replacement(self.manifest):
            if positions.size and files[0] == files[-1] and (files == files[0]).all() and (np.diff(rows) >= 0).all():
                return self.shard(int(files[0])).messages(rows)
            for number, here in self.by_shard(files, rows):
                places.append(here)
                parts.append(self.shard(number).messages(rows[here]))
        return Messages.together(parts).some(np.argsort(np.concatenate(places)))

    def records(self, decoder: RecordDecoder, positions: NDArray[np.int64], messages: Messages) -> list[Any]:
        """Return the records that serialized ones are.

        Raises:
            RecordError: one cannot be decoded; its shard and number are named.
        """
        records: list[Any] = self._named(positions, lambda: decoder.build(decoder.decode_values(messages)))
        return records

    def _named(self, positions: NDArray[np.int64], decode: Callable[[], Any]) -> Any:
        try:
            return decode()
        except RecordError as error:
            bad = error.position or 0
            files, rows = self.order.find(positions[bad : bad + 1])
            path = self.manifest.shard_path(*self.shard_infos(files.tolist())[0])
            raise RecordError(
                f"{path}, record {int(rows[0])}: {error.message}; {advice(self.manifest.where)}",
                position=bad,
                key=error.key,
                problems=error.problems,
            ) from error


def _plain(keys: Any) -> Any:
    """Return keys as Python's own objects, whose hashes are those of numpy's where these are equal."""
    values = keys.view(np.int64) if getattr(keys, "dtype", np.dtype(object)).kind in "mM" else keys
    return values.tolist() if isinstance(values, (np.ndarray, np.generic)) else values
