"""Records on their way into a dataset: one by one, as columns, or selected; encoded and placed in their order."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np

from seqrecorder.codec.arrow import is_table, table_of
from seqrecorder.codec.columns import maker_from_mapping, records_of, scatter
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.codec.encode import cut
from seqrecorder.dataset.manifest import first_reasons
from seqrecorder.dataset.selection import Selection
from seqrecorder.dataset.splits import Balanced
from seqrecorder.errors import OptionError, RecordError
from seqrecorder.storage.names import check_names
from seqrecorder.storage.shard import OpenShards
from seqrecorder.writing.columns import ColumnSource, TableRecords, given_columns
from seqrecorder.writing.encoder import Block, LifeCycle, RecordStream, Sources, Waiting, check_columns, check_params
from seqrecorder.writing.keys import UniqueKeys
from seqrecorder.writing.options import WriteOptions
from seqrecorder.writing.splits import Router, SplitWriter

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.manifest import SplitInfo
    from seqrecorder.dataset.progress import Progress
    from seqrecorder.dataset.record_store import RecordStore
    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.options import ShardOptions
    from seqrecorder.writing.splits import EarlyUploads
    from seqrecorder.writing.workers import PoolEncoder


class RecordIntake:
    """Takes records of every form, has them encoded, and places them in the order in which they came.

    After an error nothing more is taken: records that were held with the bad one are lost, too, so that a caller who
    goes on must not get a dataset.

    Args:
        schema: what the records are.
        options: of the writer.
        life_cycle: of the records.
        encoder: runs the life cycle.
        placement: where encoded records go.
        router: gives records their splits.
        keys: finds records whose key came before.
        progress: is told how many records have come.
        lock: against the end of the interpreter, while records go into files.

    Attributes:
        position: how many records have been taken to be encoded.
    """

    def __init__(
        self,
        schema: Schema,
        options: WriteOptions,
        life_cycle: LifeCycle,
        encoder: LifeCycle | PoolEncoder,
        *,
        placement: Placement,
        router: Router,
        keys: UniqueKeys,
        progress: Progress,
        lock: threading.RLock,
    ) -> None:
        self._schema, self._life_cycle, self._encoder, self._placement = schema, life_cycle, encoder, placement
        self._progress, self._lock = progress, lock
        self._failure: BaseException | None = None
        needs, stored = router.needs, {field.name for field in schema.fields}
        self._lines = options.csv
        # Whether splits or lines of the CSV come from more than the stored fields.
        self._whole = options.csv or router.cuts or needs is None or bool(set(needs) - stored)
        self._router = router
        self._needs = list(dict.fromkeys([*(needs or ()), *keys.needs]))
        self._waiting = Waiting(schema, hooks=life_cycle.has_hooks, workers=options.workers, whole=self._whole)
        self.position = 0

    def add(self, record: Any, split: str | None) -> None:
        """Take a record, with the split that the caller gives it, if any."""
        if self._failure is not None:
            raise self._failure
        self._placement.check_given(split)
        self._waiting.add(record, split)
        if self._waiting.is_full:
            self._flush()

    def add_columns(self, columns: Any, split: str | None) -> None:
        """Take many records, given as columns."""
        self._placement.check_given(split)
        self._go_through([columns], lambda given: self._encode_columns(*self._checked(given), split))

    def add_all(self, stream: RecordStream) -> None:
        """Take all records of a source, one by one, or batch by batch where it gives columns."""
        for name in stream.splits:
            self._placement.check_given(name)
            self._placement.open(name)
        if stream.size is not None:
            self._progress.expect(stream.size)
        try:
            self._fill(stream)
            while stream.turn is not None:
                (split, rows), stream.turn = stream.turn, None
                self._add_source(rows, split)
                self._fill(stream)
        finally:
            self._placement.skip(stream.skipped, stream.reasons)
        for split, source in stream.columns:
            if isinstance(source, Selection):
                self._add_selection(source, split)
            else:
                self._add_source(source, split)

    def add_encoded(self, data: Sequence[bytes], lengths: NDArray[np.int64], splits: Sequence[str]) -> None:
        """Take records that are encoded already, with the split of each; their keys somebody else looks at."""

        def place(data: Sequence[bytes]) -> None:
            sources = self._numbered([None] * len(data))
            routed = self._placement.opened().route(sources, splits).splits
            self._place(Block(data, lengths, sources.positions, routed, None, None, [], (), len(data)))

        self._go_through([data], place)

    def finish(self) -> None:
        """Place all that is still waiting, or raise what has failed."""
        if self._failure is not None:
            raise self._failure
        self._flush()
        self._drain()
        self._progress.reach(self.position)

    # One by one -----------------------------------------------------------------------------------------------------

    def _fill(self, stream: RecordStream) -> None:
        for _ in self._waiting.fill(stream):
            self._flush()

    def _fill_from(self, records: Iterator[Any], split: str | None) -> None:
        self._flush()
        try:
            self._fill(RecordStream(records if split is None else {split: records}))
        except BaseException as error:
            self._failure = error
            raise

    def _flush(self) -> None:
        first, (records, given) = self.position, self._waiting.take()
        self.position += len(records)
        try:
            with self._lock:
                self._encode(Sources(np.arange(first, self.position), records), given)
        except BaseException as error:
            self._failure = error
            raise

    def _encode(self, sources: Sources, given: list[str | None]) -> None:
        placement = self._placement.opened()
        kept = placement.keep(sources)
        if kept is not None:
            sources, given = sources.only(kept), [given[i] for i in kept]
        if self._router.cuts:  # nobody names splits then
            sources = self._router.cut(sources)
            given = [None] * len(sources.records)
        if sources.records:
            for block in self._encoder.encode(placement.route(sources, given)):
                self._place(block)

    def _drain(self) -> None:
        for block in self._encoder.drain():
            self._place(block)

    def _place(self, block: Block) -> None:
        self._progress.reach(max([*block.sources[-1:].tolist(), *block.skipped[-1:]]) + 1)
        self._waiting.adapt(block)
        self._placement.opened().place(block)

    # Many at once ---------------------------------------------------------------------------------------------------

    def _go_through(self, parts: Iterable[Any], encode: Callable[[Any], None]) -> None:
        """Encode parts of a source behind all records that came before."""
        self._flush()
        try:
            with self._lock:
                self._drain()
            for part in parts:
                with self._lock:
                    encode(part)
        except BaseException as error:
            self._failure = error
            raise

    def _add_source(self, source: ColumnSource, split: str | None) -> None:
        """Take the records of a source of columns; one by one, where hooks of the class take them so."""
        if self._life_cycle.has_hooks:
            self._fill_from(iter(source), split)
        else:
            self._go_through(self._columns_of(source), lambda part: self._encode_columns(part[0], part[1], split))
        self._placement.skip(source.skipped, source.reasons)

    def _add_selection(self, selection: Selection, split: str | None) -> None:
        """Take selected records: as they are encoded, where that is how they would be."""
        if self._lines or self._router.cuts or selection.store.manifest.schema.fields != self._schema.fields:
            self._fill_from(iter(selection.reading(self._schema)), split)
            return
        store = selection.store.forward()
        self._go_through(selection.windows(), lambda positions: self._copy(store, positions, split))

    def _checked(self, given: Any) -> tuple[dict[str, Column], int]:
        with self._numbered_errors():
            return given_columns(self._schema, given)

    def _columns_of(self, source: ColumnSource) -> Iterator[tuple[dict[str, Column], int]]:
        with self._numbered_errors():
            yield from source.columns()

    @contextlib.contextmanager
    def _numbered_errors(self) -> Iterator[None]:
        """Number a record that does not fit among all that were given."""
        first = self.position
        try:
            yield
        except RecordError as error:
            error.position = None if error.position is None else error.position + first
            raise

    def _encode_columns(self, columns: dict[str, Column], size: int, split: str | None) -> None:
        for count, part in cut(columns, size):
            sources = self._numbered(self._views(part, count))
            if self._router.cuts:
                self._encode(sources, [split] * count)
                continue
            # Lines of the CSV are made of the records, which are here.
            encoder = self._life_cycle if self._lines else self._encoder
            self._place_kept(attrs.evolve(sources, columns=part), split, encoder.encode)

    def _copy(self, store: RecordStore, positions: NDArray[np.int64], split: str | None) -> None:
        schema, size, messages = self._schema, positions.size, store.messages(positions)
        looked_at = list[Any]([None] * size)
        if self._needs or self._whole:
            decoder = RecordDecoder(schema if self._whole else schema.select(self._needs))
            looked_at = store.records(decoder, positions, messages)
        lengths = np.zeros((size, max(1, len(schema.groups))), np.int64)
        for column, group in enumerate(schema.groups):
            lengths[:, column] = store.lengths(positions, group)
        sources = self._numbered(looked_at)
        block = Block(messages.rows(), lengths, sources.positions, sources.splits, None, None, [], (), size)
        self._place_kept(sources, split, lambda to: [attrs.evolve(block, splits=to.splits).only(to.kept)])

    def _numbered(self, looked_at: list[Any]) -> Sources:
        first = self.position
        self.position += len(looked_at)
        return Sources(np.arange(first, self.position), looked_at)

    def _place_kept(self, sources: Sources, split: str | None, encode: Callable[[Sources], Iterable[Block]]) -> None:
        """Place what is encoded of sources, but for those whose keys came before."""
        placement = self._placement.opened()
        kept = placement.keep(sources)
        left = sources if kept is None else sources.only(kept)
        if left.records:
            splits = np.zeros(len(sources.records), np.int64)
            splits[... if kept is None else kept] = placement.route(left, [split] * len(left.records)).splits
            for block in encode(attrs.evolve(sources, kept=kept, splits=splits)):
                self._place(block)

    def _views(self, columns: dict[str, Column], size: int) -> list[Any]:
        """Return what of the records decides splits, identifies them, and makes lines of the CSV."""
        if self._whole:
            return records_of(self._schema, columns)
        return views(self._schema, columns, size, self._needs)


def views(schema: Schema, columns: Mapping[str, Column], size: int, names: Sequence[str]) -> list[Any]:
    """Return an object for each record, with the values of some fields; None for each, if there are no fields.

    >>> import numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     x: int = sr.context("int64")
    >>> [int(view.x) for view in views(sr.Schema.of(Point), {"x": sr.Column(np.array([3, 4]))}, 2, ["x"])]
    [3, 4]

    Args:
        schema: what the records are.
        columns: their columns.
        size: how many they are.
        names: of the fields.
    """
    if not names:
        return [None] * size
    values = [scatter(schema[name], columns[name]) for name in names]
    return list(map(_view_class(tuple(names)), *values))


@functools.lru_cache(maxsize=64)
def _view_class(names: tuple[str, ...]) -> type:
    """Return a class of some attributes, by position; its objects take a fifth of the time of a SimpleNamespace."""
    # Their own names may be no names of arguments.
    attributes = {name: attrs.field(alias=f"value_{i}") for i, name in enumerate(names)}
    return attrs.make_class("View", attributes, slots=True, eq=False)


class Placement:
    """Sends records to the files of their splits.

    Sources are given their splits before they are encoded, which the blocks that they become are placed by.

    Args:
        schema: what the records are.
        router: gives records their splits.
        keys: finds records whose key came before.
        options: how records become shards.
        directory: of the dataset that is being made.
        old: the splits of the dataset that is appended to.
        uploads: takes shards that are full; None for a directory.

    Attributes:
        skipped: how many sources were left out, here or by a hook.
        reasons: the first texts of what says why.
    """

    def __init__(
        self,
        schema: Schema,
        router: Router,
        keys: UniqueKeys,
        *,
        options: ShardOptions,
        directory: Path,
        old: Mapping[str, SplitInfo],
        uploads: EarlyUploads | None = None,
    ) -> None:
        self._schema, self._router, self._keys, self._options = schema, router, keys, options
        self._directory, self._old, self._uploads = directory, old, uploads
        self.skipped, self.reasons = 0, tuple[str, ...]()
        self._writers: dict[str, SplitWriter] = {}
        self._open_shards = OpenShards()
        self._columns: list[str] | None = None
        self._is_abandoned = False

    def opened(self) -> Placement:
        """Return this, while its files are open.

        Raises:
            OptionError: they were closed.
        """
        if self._is_abandoned:
            raise OptionError("this Writer was closed, since the interpreter ends: nothing is published")
        return self

    def open(self, name: str) -> SplitWriter:
        """Return the writer of a split, which is there even without a record from now on."""
        if name not in self._writers:
            start = self._old[name].records if name in self._old else 0
            check_names(dict.fromkeys([*self._old, *self._writers, name]), "split")
            self._writers[name] = SplitWriter(
                name,
                self._directory / name,
                self._options,
                self._directory,
                start,
                open_shards=self._open_shards,
                uploads=self._uploads,
            )
        return self._writers[name]

    @property
    def is_empty(self) -> bool:
        """Whether there is no split yet."""
        return not self._writers

    def check_given(self, split: str | None) -> None:
        """Raise `OptionError` for a split that was given with a record and cannot be."""
        if split is not None and (self._router.is_in_time or split not in self._writers):
            self._router.check_given(split)

    def keep(self, sources: Sources) -> list[int] | None:
        """Return the indices of the records whose keys are new, and whose times are of one split, or None for all.

        Raises:
            DuplicateKeyError: a key came before, and that is an error.
            RecordError: a record has no time.
        """
        kept = self._keys.keep(sources)
        in_time = self._router.keep(sources if kept is None else sources.only(kept))
        if in_time is not None:
            kept = in_time if kept is None else [kept[place] for place in in_time]
        if kept is not None:
            self.skipped += len(sources.records) - len(kept)
        return kept

    def route(self, sources: Sources, given: Sequence[str | None]) -> Sources:
        """Return records with their splits.

        Args:
            sources: records that are not encoded yet, one at least.
            given: the split that each was given, if any.

        Raises:
            RecordError: a record does not say its split.
        """
        names = self._router.assign(sources, given)
        for name in [names] if isinstance(names, str) else dict.fromkeys(names):
            self.open(name)
        numbers = {name: number for number, name in enumerate(self._writers)}
        if isinstance(names, str):
            splits = np.full(len(given), numbers[names], np.int64)
        else:
            splits = np.fromiter(map(numbers.__getitem__, names), np.int64, len(names))
        return attrs.evolve(sources, splits=splits)

    def skip(self, count: int, reasons: Iterable[str]) -> None:
        """Count sources that were left out."""
        self.skipped += count
        self.reasons = first_reasons(self.reasons, reasons)

    def place(self, block: Block) -> None:
        """Write the records of a block into the files of their splits.

        Raises:
            ShardWriteError: the disk is full, or failed.
            RecordError: lines of the CSV have different columns.
        """
        self.skip(len(block.skipped), block.reasons)
        if not block.data:
            return
        if block.columns is not None:
            self._columns = self._columns or block.columns
            check_columns(self._schema.name, self._columns, block.columns, int(block.sources[0]))
        writers = list(self._writers.values())
        if len(writers) == 1:
            writers[0].add(block.data, block.lengths, block.columns, block.rows)
            return
        for number in np.unique(block.splits).tolist():
            where = np.flatnonzero(block.splits == number)
            part = block if where.size == len(block.data) else block.only(where.tolist())
            writers[number].add(part.data, part.lengths, part.columns, part.rows)

    def finish(self) -> dict[str, SplitInfo]:
        """Close all files and return what the splits contain.

        Raises:
            ShardWriteError: the disk is full, or failed.
        """
        return {name: writer.finish() for name, writer in self._writers.items()}

    def abandon(self) -> None:
        """Close all files without caring for their contents."""
        self._is_abandoned = True
        for writer in self._writers.values():
            writer.abandon()


_UNSORTED = ("splits", "split_by", "seed", "shards", "compression", "params", "metadata", "assets", "overwrite")
"""The options that make sense where records come in no order, and in many processes."""


class EncodedPiece(NamedTuple):
    """A record that is encoded, with what decides its place.

    Attributes:
        tag: 64 bits of a hash of the bytes, by which records are dealt to shards and sorted: they come in no order.
        split: name of its split.
        key: the hash of its source's key, 8 bytes; empty for a source without one, and for its later chunks.
        lengths: int64 (groups), little-endian.
        data: the serialized SequenceExample.
    """

    tag: int
    split: str
    key: bytes
    lengths: bytes
    data: bytes


def check_unsorted(schema: Schema, options: Mapping[str, Any]) -> WriteOptions:
    """Return the options of a write whose records come in no order.

    Raises:
        OptionError: one makes no sense there.
    """
    checked = WriteOptions.of(options)
    for name in options:
        if name not in _UNSORTED:
            raise OptionError(f"{name}: not where many processes write records in any order; leave it out")
    if isinstance(checked.split_by, Balanced):
        raise OptionError("split_by: Balanced needs all records in one process; split by hash, without it")
    router = Router(schema, checked.splits, checked.split_by, checked.seed)
    if router.by_position:
        raise OptionError("records come in no order, so that positions cannot decide splits: name split_by=, or a key")
    check_params(schema.record_class, checked.params)
    return checked


Tools = tuple[LifeCycle, Router, UniqueKeys]


@attrs.define
class PieceEncoder:
    """Encodes records, dictionaries and tables, in any process; pickles as what it was made of.

    Args:
        schema: what the records are.
        options: the splits and their rule, the seed, and parameters of hooks.

    Attributes:
        skipped: sources that a hook has left out by now.
    """

    schema: Schema
    options: WriteOptions
    skipped: int = attrs.field(default=0, init=False)
    _tools: Tools | None = attrs.field(default=None, init=False)

    def __reduce__(self) -> tuple[object, ...]:
        return PieceEncoder, (self.schema, self.options)

    def encode(self, given: Sequence[Any], split: str | None = None) -> Iterator[EncodedPiece]:
        """Yield what records become.

        Args:
            given: records or dictionaries; or one table, whose rows are records; or one source that gives columns.
            split: the name of their split, where no rule decides.

        Raises:
            RecordError: a record cannot be encoded.
            OptionError: the columns of a table are not the fields.
        """
        if self._tools is None:
            options = self.options
            self._tools = (
                LifeCycle(self.schema, options.params),
                Router(self.schema, options.splits, options.split_by, options.seed),
                UniqueKeys(self.schema, "error"),
            )
        try:
            if len(given) == 1 and isinstance(given[0], ColumnSource):
                yield from self._of_columns(given[0], split, self._tools)
            elif len(given) == 1 and is_table(given[0]):
                yield from self._of_columns(TableRecords(table_of(given[0]), self.schema), split, self._tools)
            else:
                make = maker_from_mapping(self.schema)
                records = [make(one, at) if isinstance(one, dict) else one for at, one in enumerate(given)]
                yield from self._of_records(records, split, self._tools)
        except RecordError as error:
            error.position = None  # which is that among records that came together by chance
            raise

    def _of_columns(self, source: ColumnSource, split: str | None, tools: Tools) -> Iterator[EncodedPiece]:
        for whole, size in source.columns():
            for _, columns in cut(whole, size):
                given = None if tools[0].has_hooks else columns
                yield from self._of_records(records_of(source.given, columns), split, tools, given)

    def _of_records(
        self, records: Sequence[Any], split: str | None, tools: Tools, columns: dict[str, Column] | None = None
    ) -> Iterator[EncodedPiece]:
        life_cycle, router, keys = tools
        if not records:
            return
        sources, last = Sources(np.arange(len(records)), records, columns=columns), -1
        found = router.assign(sources, [split] * len(records))
        names, numbers = np.unique([found] * len(records) if isinstance(found, str) else found, return_inverse=True)
        for block in life_cycle.encode(attrs.evolve(sources, splits=numbers)):
            self.skipped += len(block.skipped)
            yield from self._pieces(block, sources, names.tolist(), keys, last)
            last = max([last, *block.sources[-1:].tolist()])

    @staticmethod
    def _pieces(
        block: Block, sources: Sources, names: Sequence[str], keys: UniqueKeys, last: int
    ) -> Iterator[EncodedPiece]:
        hashes, usable = keys.hashes_of([sources.records[position] for position in block.sources.tolist()])
        # The first chunk of a source answers for its key; the last source of the block before may go on.
        usable &= np.diff(block.sources, prepend=last) != 0
        rows = zip(block.data, block.splits.tolist(), hashes.tolist(), usable.tolist(), block.lengths, strict=True)
        for data, number, key, is_first, lengths in rows:
            tag = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
            packed = key.to_bytes(8, "little") if is_first else b""
            yield EncodedPiece(tag, names[int(number)], packed, lengths.astype("<i8").tobytes(), bytes(data))
