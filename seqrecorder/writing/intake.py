"""Intake of records: they are taken from sources, grouped, encoded, and passed to the writers of the splits.

The hooks `load` and `split` are called by `load_hooks`, and shards are written by `splits`.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any, Literal, Protocol

import attrs
import numpy as np

from seqrecorder.codec.arrow import table_of
from seqrecorder.codec.columns import is_table, maker_from_mapping, records_of
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.codec.encode import PIECE_BYTES, PIECE_RECORDS, RecordEncoder, cut, sizer, takes_columns
from seqrecorder.dataset.manifest import first_reasons
from seqrecorder.dataset.selection import Selection, rows_of
from seqrecorder.errors import DatasetError, OptionError, RecordError, SourceError
from seqrecorder.storage.files import check_names
from seqrecorder.storage.shard_writer import OpenShards
from seqrecorder.wire.byte_rows import sizes
from seqrecorder.writing.columns import (
    Block,
    CannotWait,
    ColumnSource,
    Dictionaries,
    SkippingSource,
    Sources,
    TableRecords,
    given_columns,
    snapshotter,
)
from seqrecorder.writing.examples_csv import csv_line
from seqrecorder.writing.load_hooks import Hooks, hook_error
from seqrecorder.writing.splits import Router, SplitWriter

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.keys import UniqueKeys
    from seqrecorder.dataset.manifest import SplitInfo
    from seqrecorder.dataset.record_store import RecordStore
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.processes_and_signals import Progress
    from seqrecorder.writing.splits import EarlyUploads, ShardOptions


class LifeCycle:
    """Life cycle of source records in this process.

    It consists of their hooks and their encoding.

    `PoolEncoder` does the same in worker processes.

    Args:
        schema: schema to write.
        params: keyword arguments of the hooks.
        rows: whether to format a CSV line for each record.
        splits: whether to run the `split` hook; False for stored chunks, which must not be split again.

    Attributes:
        schema: schema to write.
        params: keyword arguments of the hooks.
        rows: whether to format a CSV line for each record.
        splits: whether the `split` hook runs.
        has_hooks: whether any hook runs, `load` or `split`.
    """

    def __init__(self, schema: Schema, params: Mapping[str, Any], *, rows: bool = False, splits: bool = True) -> None:
        self.schema, self.params, self.rows = schema, params, rows
        self._encoder = RecordEncoder(schema)
        self._reasons: list[str] = []
        record_class = schema.record_class
        self.splits = splits and callable(getattr(record_class, "split", None))
        self.has_hooks = self.splits or callable(getattr(record_class, "load", None))
        self._hooks = Hooks(schema, params, self._reasons, splits=splits) if self.has_hooks else None
        self._size = sizer(schema)
        wide = {f.name for f in schema.fields if f.is_list or f.shape or f.sparse is not None}
        self._columns = [attribute.name for attribute in attrs.fields(record_class) if attribute.name not in wide]
        self._has_row = callable(getattr(record_class, "to_csv_row", None))

    def encode(self, sources: Sources) -> Iterator[Block]:
        """Run the hooks of source records, encode the resulting records, and yield them in blocks, in order.

        If a hook raises `SkipRecord` between two chunks of a source, none of the chunks of that source is written.

        Args:
            sources: records whose hooks have not run.

        Raises:
            RecordError: a record cannot be encoded, or a hook failed; the position is that of the source.
        """
        if self._hooks is None or sources.columns is not None:
            yield self._block(sources, done=len(sources.records))
            return
        origins, records, skipped, size = list[int](), list[Any](), list[int](), 0
        pairs = zip(sources.positions.tolist(), sources.records, strict=True)
        for done, (position, source) in enumerate(pairs, 1):
            chunks = self._hooks.run(position, source)
            if not chunks:
                skipped.append(position)
            while chunks:
                origins.append(done - 1)
                records.append(chunks.popleft())
                size += self._size(records[-1:])
                if size > PIECE_BYTES or len(records) == PIECE_RECORDS:
                    yield self._block(sources.become(origins, records), skipped, 0 if chunks else done)
                    origins, records, skipped, size = [], [], [], 0
                elif not self._hooks.splits:  # chunks from `split` are snapshots already
                    records[-1] = self._hooks.take_snapshot(records[-1])
        if records or skipped:
            yield self._block(sources.become(origins, records), skipped, len(sources.records))

    def drain(self) -> Iterator[Block]:
        """Yield nothing, because no record is outstanding."""
        return iter(())

    def close(self) -> None:
        """Do nothing, because there is nothing to release."""

    def _block(self, sources: Sources, skipped: Sequence[int] = (), done: int = 0) -> Block:
        """Encode records or columns into a block.

        The hooks of the records must have run already. Columns have no hooks.
        """
        reasons = first_reasons(self._reasons)
        self._reasons.clear()
        encoder, count, positions = self._encoder, len(sources.records), sources.positions
        try:
            batch = sources.columns
            encoded = encoder.encode(sources.records) if batch is None else encoder.encode_columns(batch, count)
        except RecordError as error:
            if error.position is not None:  # replace the index in this block by the position of the source
                error.position = int(positions[error.position])
            raise
        names, rows = self.lines(sources.records, positions.tolist()) if self.rows and count else (None, None)
        return Block(*encoded, positions, sources.splits, names, rows, list(skipped), reasons, done).only(sources.kept)

    # Lines of the CSV ---------------------------------------------------------------------------------------

    def lines(self, records: Sequence[Any], positions: Sequence[int]) -> tuple[list[str], list[str]]:
        """Format the CSV line of each record.

        The values are those that `to_csv_row` returns. If the class has no such method, they are the attributes that
        have a single value.

        Returns:
            The names of the columns, and the lines.

        Raises:
            RecordError: `to_csv_row` failed, or did not return the same columns for all records.
        """
        columns, lines = list[str](), list[str]()
        for position, record in zip(positions, records, strict=True):
            row = self._row(position, record)
            columns = columns or list(row)
            check_columns(self.schema.name, columns, list(row), position)
            try:
                lines.append(csv_line(row.values()))
            except ValueError as error:
                raise RecordError(f"its CSV line: {error}", position=position) from error
        return columns, lines

    def _row(self, position: int, record: Any) -> Mapping[str, Any]:
        if not self._has_row:
            return {name: getattr(record, name) for name in self._columns}
        try:
            row = record.to_csv_row()
        except Exception as error:
            raise hook_error(self.schema, "to_csv_row", record, position, error) from error
        if isinstance(row, (list, tuple)) and row:  # the items of a list have no names, so number them
            row = {f"column_{number}": value for number, value in enumerate(row)}
        if not isinstance(row, dict) or not row:
            raise RecordError(f"{self.schema.name}.to_csv_row: expected a dict or list, got {row!r}", position=position)
        return row


def check_columns(name: str, expected: Sequence[str], got: Sequence[str], position: int) -> None:
    """Raise `RecordError` if the CSV columns of a record differ from those of the first record."""
    if list(got) != list(expected):
        text = f"expected the columns of the first record, {', '.join(expected)}; got {', '.join(got)}"
        raise RecordError(f"{name}.to_csv_row: {text}", position=position)


_LOG = logging.getLogger("seqrecorder")
# Hooks may enlarge records greatly. Therefore, chunks for workers that run hooks start with one source, and grow to at
# most this many sources as long as their results stay small.
_HOOK_RECORDS = 256
_CHUNK_BYTES = PIECE_BYTES * 2 // 3  # the record that fills a chunk usually fits into the same piece

# Number of records to take from a source at once. Blocks from an iterator are small because taking a record creates it.
_BLOCK, _BLOCK_OF_LIST = 32, 1024
_BLOCKS_OF_CHUNK = 16

_ENOUGH = 1024  # a remainder of at least this many records is encoded immediately; a smaller one waits for more records


class RecordStream:
    """Stream of source records in blocks.

    Each block comes with the name of its split, or with None if the source names no splits.

    >>> stream = RecordStream({"train": "abc", "eval": "d"})
    >>> stream.take(2), stream.take(2), stream.take(2), stream.take(2)
    (('train', ['a', 'b']), ('train', ['c']), ('eval', ['d']), (None, []))

    Args:
        records: an iterable of records or of dictionaries, a table, a `ColumnSource`, or a mapping from split name to
            one of these.
        schema: schema of the records; required for dictionaries and tables.

    Attributes:
        splits: names of the splits; empty if the source names none.
        columns: pairs of split name and source, for columnar sources and selections. `take` returns the records of all
            other sources.
        turn: pair of split name and dictionaries that must be written before the next `take`; None if there are none.
        size: number of records; None if it is unknown.
        skipped: number of rows that sources like `from_csv` skipped, not counting the current source.
        reasons: the first few reasons why rows were skipped.
        cannot_wait: whether the last record taken could not be copied.
    """

    def __init__(self, records: Any, schema: Schema | None = None) -> None:
        if isinstance(records, RecordStream):
            raise OptionError("a RecordStream is consumed once: pass the records themselves")
        self.splits = check_names(records, "split") if isinstance(records, Mapping) else ()
        sources = list(records.values()) or [()] if isinstance(records, Mapping) else [records]
        self._schema = schema
        self.columns: list[tuple[str | None, ColumnSource | Selection]] = []
        rows: list[tuple[str | None, Any]] = []
        for split, source in zip(self.splits or (None,), sources, strict=True):
            if isinstance(source, (ColumnSource, Selection)):
                self.columns.append((split, source))
            elif is_table(source):
                if schema is None:
                    raise OptionError(f"a {type(source).__name__} does not say what its records are: pass schema=Class")
                self.columns.append((split, TableRecords(table_of(source), schema)))
            elif not isinstance(source, Iterable) or isinstance(source, (type, Mapping)):
                raise OptionError(
                    "records: expected an iterable of records or dictionaries, a table, or a mapping of split names to "
                    f"these, got {type(source).__name__}{'; collect() it' if hasattr(source, 'collect') else ''}"
                )
            else:
                rows.append((split, source))
        stored = [rows_of(source).store.manifest.schema for _, source in self.columns if isinstance(source, Selection)]
        self.stored = stored if len(stored) == len(sources) else []
        sizes = [len(source) if isinstance(source, Sized) else None for _, source in rows]
        self.size = None if None in sizes or self.columns else sum(filter(None, sizes))
        self.turn: tuple[str | None, Dictionaries] | None = None
        self.skipped = 0
        self.reasons: tuple[str, ...] = ()
        self.cannot_wait = False
        self._taken = 0
        self._sources: Iterator[tuple[str | None, Any]] = iter(rows)
        self._source: Any = None
        self._split: str | None = None
        self._records: Iterator[Any] | None = None  # iterator over the current source
        self._left = 0  # remaining records of the current source, if it is a list
        self._failure: Exception | None = None
        self._first: tuple[str | None, list[Any]] | None = None

    def peek(self) -> Any:
        """Return the first record without removing it, or None if there are no records."""
        if self._first is None:
            self._first = self.take(1)
        return next(iter(self._first[1]), None)

    @property
    def is_in_memory(self) -> bool:
        """Check whether the next records come from a list.

        Taking them then runs no code of the caller.
        """
        return self._left > 0

    def take(self, most: int, snapshot: Callable[[Any], Any] | None = None) -> tuple[str | None, list[Any]]:
        """Return the name of a split and a list of its next records, which is empty at the end of the stream.

        Args:
            most: maximum number of records to return.
            snapshot: function that copies each record before the next one is taken. A record for which it raises
                `CannotWait` is returned as is, at the end of the block.

        Raises:
            SourceError: the source failed; the message contains the number of the record.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return first
        block: list[Any] = []
        self.cannot_wait = False
        while not block:
            if self._failure is not None:
                raise self._source_error(self._failure)
            try:
                if self._records is None:
                    self._split, self._source = next(self._sources, (None, None))
                    self._records = None if self._source is None else self._iterate(self._source)
                if self._records is None:
                    return self._split, []
                records = itertools.islice(self._records, most)
                if snapshot is None:
                    block.extend(records)
                else:
                    self._take_snapshots(records, snapshot, block)
            except Exception as error:  # noqa: BLE001 - the records before the error are returned first
                self._failure = error
            else:
                if len(block) < most and not self.cannot_wait:
                    self._end_source()
            self._taken += len(block)
            self._left = max(0, self._left - len(block))
        return self._split, block

    def _iterate(self, source: Iterable[Any]) -> Iterator[Any] | None:
        """Iterate over the records of a source.

        The result is None if the records are dictionaries that will be written as columns.
        """
        is_list = type(source) in (list, tuple)
        records = iter(source)
        if self._schema is not None:
            first = list(itertools.islice(source if is_list else records, 1))
            records = records if is_list else itertools.chain(first, records)
            if first and isinstance(first[0], Mapping):
                if takes_columns(self._schema):
                    rows = source if is_list else self._iterate_rows(records)
                    self.turn = self._split, Dictionaries(rows, self._schema)
                    return None
                return map(maker_from_mapping(self._schema), records, itertools.count(self._taken))
        self._left = len(source) if is_list else 0  # type: ignore[arg-type]  # lists and tuples have a length
        return records

    def _iterate_rows(self, rows: Iterator[Any]) -> Iterator[Any]:
        """Yield rows and count them, so that errors of the source can name the row."""
        try:
            for row in rows:
                yield row
                self._taken += 1
        except Exception as error:  # noqa: BLE001 - raised as an error of the source
            raise self._source_error(error)  # noqa: B904 - its cause is already set

    def _take_snapshots(self, records: Iterable[Any], snapshot: Callable[[Any], Any], block: list[Any]) -> None:
        for record in records:
            try:
                block.append(snapshot(record))
            except CannotWait:
                self.cannot_wait = True
                block.append(record)
                return

    def _end_source(self) -> None:
        self._records, self._left = None, 0
        # A source like `from_csv` knows only at its end how many rows it has skipped.
        if isinstance(self._source, SkippingSource):
            self.skipped += self._source.skipped
            self.reasons = first_reasons(self.reasons, self._source.reasons)

    def _source_error(self, error: Exception) -> Exception:
        if isinstance(error, (SourceError, DatasetError, OptionError, RecordError)):
            return error
        failure = f"{type(error).__name__}: {error}; nothing was published"
        ours = SourceError(f"the source of records failed at record {self._taken}: {failure}")
        ours.__cause__ = error
        return ours


class Waiting:
    """Buffer that groups records into chunks.

    For each record, it also contains the name of the split that the caller gave, or None.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     name: str = sr.context(str)
    >>> waiting = Waiting(sr.Schema.of(Point), hooks=False, workers=1)
    >>> waiting.add(Point("origin"), "train")
    >>> waiting.is_full, waiting.take()
    (False, ([Point(name='origin')], ['train']))

    Args:
        schema: schema of the records.
        hooks: whether the class has hooks, which may enlarge records.
        workers: number of processes that may encode the records, or `"auto"`.
        whole: whether snapshots must include attributes that are not stored.
    """

    def __init__(self, schema: Schema, *, hooks: bool, workers: int | Literal["auto"], whole: bool = False) -> None:
        self._size = sizer(schema)
        self._snapshot = snapshotter(schema, whole=whole or hooks)
        self._adapts = hooks and workers != 1
        self._most = (1 if self._adapts else _HOOK_RECORDS) if hooks else PIECE_RECORDS
        self._records: list[Any] = []
        self._splits: list[str | None] = []
        self._bytes = 0
        self._settled = 0  # number of records at the start of the buffer that are snapshots
        self._hastens = False  # whether a record could not be copied and must be encoded now

    @property
    def is_full(self) -> bool:
        """Check whether the buffered records must be encoded before the next one is added."""
        return len(self._records) >= self._most or self._bytes >= _CHUNK_BYTES or self._hastens

    def add(self, record: Any, split: str | None) -> None:
        """Add a record, with the split name from the caller, if any."""
        self._records.append(record)
        self._splits.append(split)
        self._bytes += self._size([record])
        if not self.is_full:
            self._settle()

    def _settle(self) -> None:
        """Replace the buffered records with snapshots, before the caller's code runs again.

        If a record cannot be copied, the buffer counts as full, so that its records are encoded first.
        """
        try:
            for index in range(self._settled, len(self._records)):
                self._records[index] = self._snapshot(self._records[index])
                self._settled = index + 1
        except CannotWait:
            self._hastens = True

    def fill(self, stream: RecordStream) -> Iterator[None]:
        """Add all records of a source.

        The function yields each time the caller must empty the buffer before more can be added.
        """
        # The size of records from an iterator is unknown until they are taken, so we judge by the size of earlier
        # records to keep blocks small compared with a chunk.
        most = 1
        while True:
            is_in_memory = stream.is_in_memory
            if not is_in_memory:
                if len(self._records) - self._settled < _ENOUGH:
                    self._settle()
                if self._settled < len(self._records):
                    yield
            count = min(most, self._most - len(self._records))
            # A single record is not copied now: it may fill the chunk, and otherwise the code above copies it.
            takes_snapshots = not is_in_memory and count > 1
            split, block = stream.take(count, self._snapshot if takes_snapshots else None)
            if not block:
                break
            self._records += block
            self._splits += [split] * len(block)
            if takes_snapshots:
                self._hastens = stream.cannot_wait
                self._settled = len(self._records) - self._hastens
            size = self._size(block)
            self._bytes += size
            fits = _CHUNK_BYTES * len(block) // (_BLOCKS_OF_CHUNK * max(1, size))
            most = max(1, min(2 * most, fits, _BLOCK_OF_LIST if is_in_memory else _BLOCK))
            if self.is_full:
                yield

    def take(self) -> tuple[list[Any], list[str | None]]:
        """Empty the buffer; return its records, and the split name that the caller gave for each."""
        records, splits = self._records, self._splits
        self._records, self._splits, self._bytes, self._settled, self._hastens = [], [], 0, 0, False
        return records, splits

    def adapt(self, block: Block) -> None:
        """Enlarge chunks if the encoded sources are small.

        This is done only if hooks may run in workers.
        """
        if self._adapts and block.data:
            each = int(sizes(block.data).sum()) // int(np.unique(block.sources).size)
            self._most = max(1, min(_HOOK_RECORDS, 2 * self._most, _CHUNK_BYTES // max(1, each)))


class Encoder(Protocol):
    """Interface of encoders, which run the life cycle of records in this process or in a pool of workers."""

    def encode(self, sources: Sources) -> Iterable[Block]:
        """Accept sources, and yield the blocks encoded so far, in order."""
        ...

    def drain(self) -> Iterable[Block]:
        """Yield all outstanding blocks."""
        ...


class RecordIntake:
    """Part of a writer that accepts records in any form, encodes them, and writes them in order.

    After an error, it accepts no more records and nothing may be published, because buffered records are lost.

    Args:
        life_cycle: hooks and encoding.
        encoder: encoder that runs the life cycle, in this process or in workers.
        placement: writer that writes encoded records to their splits.
        workers: number of processes that encode, or `"auto"`.
        progress: progress bar.
        lock: lock to hold while files are written, so that the interpreter does not exit in between.

    Attributes:
        placement: writer that writes encoded records to their splits.
        position: number of records accepted so far.
    """

    def __init__(
        self,
        life_cycle: LifeCycle,
        encoder: Encoder,
        placement: Placement,
        *,
        workers: int | Literal["auto"],
        progress: Progress,
        lock: threading.RLock,
    ) -> None:
        self._schema = schema = life_cycle.schema
        self._life_cycle, self._encoder, self.placement = life_cycle, encoder, placement
        self._progress, self._lock = progress, lock
        self._failure: BaseException | None = None
        self._router = router = placement.router
        needs, stored = router.needs, {field.name for field in schema.fields}
        self._lines = life_cycle.rows
        # whether splits or CSV lines need attributes that are not stored
        self._whole = self._lines or router.cuts or needs is None or bool(set(needs) - stored)
        names = [*(needs or ()), *placement.keys.needs]
        self._viewed = schema if self._whole else schema.select(names) if names else None
        self._waiting = Waiting(schema, hooks=life_cycle.has_hooks, workers=workers, whole=self._whole)
        self.position = 0

    def add(self, record: Any, split: str | None) -> None:
        """Accept a record, with the split name from the caller, if any."""
        if self._failure is not None:
            raise self._failure
        self.placement.check_split(split)
        self._waiting.add(record, split)
        if self._waiting.is_full:
            self._flush()

    def add_columns(self, columns: Any, split: str | None) -> None:
        """Accept many records as columns."""
        self.placement.check_split(split)
        self._add_batches(lambda: iter([given_columns(self._schema, columns)]), split)

    def add_all(self, stream: RecordStream) -> None:
        """Accept all records of a source.

        Records of a columnar source are accepted in batches, all others one by one.
        """
        for name in stream.splits:
            self.placement.check_split(name)
            self.placement.open(name)
        if stream.size is not None:
            self._progress.expect(stream.size)
        try:
            self._fill(stream)
            while stream.turn is not None:
                (split, rows), stream.turn = stream.turn, None
                self._add_source(rows, split)
                self._fill(stream)
        finally:
            self.placement.skip(stream.skipped, stream.reasons)
        for split, source in stream.columns:
            if isinstance(source, Selection):
                self._add_selection(source, split)
            else:
                self._add_source(source, split)

    def add_encoded(self, data: Sequence[bytes], lengths: NDArray[np.int64], splits: Sequence[str]) -> None:
        """Accept encoded records, each with its split.

        Their keys must already have been checked.
        """

        def write_rows(data: Sequence[bytes]) -> None:
            sources = self._number([None] * len(data))
            routed = self.placement.require_open().route(sources, splits).splits
            self._write(Block(data, lengths, sources.positions, routed, None, None, [], (), len(data)))

        self._go_through([data], write_rows)

    def finish(self) -> None:
        """Write all buffered records.

        The error of the first record that failed is raised.
        """
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
        with self._keeping_failure():
            self._fill(RecordStream(records if split is None else {split: records}))

    def _flush(self) -> None:
        records, named = self._waiting.take()
        sources = self._number(records)
        with self._keeping_failure(), self._lock:
            self._encode(sources, named)

    @contextlib.contextmanager
    def _keeping_failure(self) -> Iterator[None]:
        """Remember an error that is raised inside the `with` block.

        The error is not suppressed, and no records are accepted after it.
        """
        try:
            yield
        except BaseException as error:
            self._failure = error
            raise

    def _encode(self, sources: Sources, named: list[str | None]) -> None:
        placement = self.placement.require_open()
        kept = placement.keep(sources)
        if kept is not None:
            sources, named = sources.only(kept), [named[i] for i in kept]
        if self._router.cuts:  # the caller cannot name splits by time
            sources = placement.cut(sources)
            named = [None] * len(sources.records)
        if sources.records:
            for block in self._encoder.encode(placement.route(sources, named)):
                self._write(block)

    def _drain(self) -> None:
        for block in self._encoder.drain():
            self._write(block)

    def _write(self, block: Block) -> None:
        self._progress.reach(max([*block.sources[-1:].tolist(), *block.skipped[-1:]]) + 1)
        self._waiting.adapt(block)
        self.placement.require_open().write(block)

    # Many at once ---------------------------------------------------------------------------------------------------

    def _go_through(self, batches: Iterable[Any], encode: Callable[[Any], None]) -> None:
        """Write all earlier records, then encode the batches of a source."""
        self._flush()
        with self._keeping_failure():
            with self._lock:
                self._drain()
            for batch in batches:
                with self._lock:
                    encode(batch)

    def _add_source(self, source: ColumnSource, split: str | None) -> None:
        """Accept records from a columnar source.

        If the class has hooks, the records are accepted one by one, because a hook takes a single record.
        """
        if self._life_cycle.has_hooks:
            self._fill_from(iter(source), split)
        else:
            self._add_batches(source.columns, split)
        self.placement.skip(source.skipped, source.reasons)

    def _add_selection(self, selection: Selection, split: str | None) -> None:
        """Accept selected records.

        Their stored bytes are copied, unless splits may cut records, `load` takes `params`, or the fields differ. In
        these cases, the records are encoded again.
        """
        rows, cycle = rows_of(selection), self._life_cycle
        stored = rows.store.manifest.schema
        loads = cycle.has_hooks and cycle.params and not cycle.splits  # `split` must not cut stored chunks again
        if self._router.cuts or loads or stored.fields != self._schema.fields:
            schema = self._schema.with_encoded_images
            if schema is self._schema and any(field.storage == "jpeg" for field in schema.fields):
                text = "%s: JPEG images are encoded again, with loss, since hooks of %s take pixels"
                _LOG.warning(text, rows.store.manifest.where, schema.name)
            rows = rows.read_as(schema.before_load(stored) if cycle.has_hooks else schema)
            if not takes_columns(schema):  # creating a record runs code of its class
                self._fill_from(rows.records(), split)
            else:
                parts = rows.columns(None)
                self._add_batches(lambda: ((part, next(iter(part.values())).records) for part in parts), split)
            return
        store = rows.store.forward()
        self._go_through(rows.chunks(), lambda positions: self._copy(store, positions, split))

    def _add_batches(self, batches: Callable[[], Iterator[tuple[dict[str, Column], int]]], split: str | None) -> None:
        """Accept batches of columns.

        The positions in errors are changed so that they count from the first record of the writer.
        """

        def numbered() -> Iterator[tuple[dict[str, Column], int]]:
            first = self.position
            try:
                yield from batches()
            except RecordError as error:
                error.position = None if error.position is None else error.position + first
                raise

        self._go_through(numbered(), lambda batch: self._encode_columns(batch[0], batch[1], split))

    def _encode_columns(self, columns: dict[str, Column], size: int, split: str | None) -> None:
        for count, part in cut(columns, size):
            views = [None] * count if self._viewed is None else records_of(self._viewed, part)
            sources = self._number(views)
            if self._router.cuts:
                self._encode(sources, [split] * count)
                continue
            # CSV lines need the records, so encoding stays in this process.
            encoder = self._life_cycle if self._lines else self._encoder
            self._write_kept(attrs.evolve(sources, columns=part), split, encoder.encode)

    def _copy(self, store: RecordStore, positions: NDArray[np.int64], split: str | None) -> None:
        schema, size, messages = self._schema, positions.size, store.messages(positions)
        views: list[Any] = [None] * size
        if self._viewed is not None:
            views = store.records(RecordDecoder(self._viewed), positions, messages)
        lengths = np.zeros((size, max(1, len(schema.groups))), np.int64)
        for column, group in enumerate(schema.groups):
            lengths[:, column] = store.lengths(positions, group)
        sources = self._number(views)
        columns, lines = self._life_cycle.lines(views, sources.positions.tolist()) if self._lines else (None, None)
        block = Block(messages.rows(), lengths, sources.positions, sources.splits, columns, lines, [], (), size)
        self._write_kept(sources, split, lambda to: [attrs.evolve(block, splits=to.splits).only(to.kept)])

    def _number(self, records: list[Any]) -> Sources:
        first = self.position
        self.position += len(records)
        return Sources(np.arange(first, self.position), records)

    def _write_kept(self, sources: Sources, split: str | None, encode: Callable[[Sources], Iterable[Block]]) -> None:
        """Encode and write sources, except those that have a duplicate key or belong to no split."""
        placement = self.placement.require_open()
        kept = placement.keep(sources)
        left = sources if kept is None else sources.only(kept)
        if left.records:
            splits = np.zeros(len(sources.records), np.int64)
            splits[... if kept is None else kept] = placement.route(left, [split] * len(left.records)).splits
            for block in encode(attrs.evolve(sources, kept=kept, splits=splits)):
                self._write(block)


class Placement:
    """Writer of all splits, with the rule that chooses a split for each record.

    `route` chooses the splits of sources before they are encoded; `write` writes the blocks of encoded records.

    Args:
        schema: schema of the records.
        router: rule that chooses the splits.
        keys: index that finds duplicate keys.
        options: options of the shards.
        directory: staging directory of the dataset.
        old: splits of the dataset being appended to.
        uploads: uploader of full shards; None for a directory.

    Attributes:
        skipped: number of sources that were skipped, by a hook or because of their key or time.
        reasons: the first few reasons why sources were skipped.
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
        self._schema, self.router, self.keys, self._options = schema, router, keys, options
        self._directory, self._old, self._uploads = directory, old, uploads
        self.skipped, self.reasons = 0, tuple[str, ...]()
        self._writers: dict[str, SplitWriter] = {}
        self._open_shards = OpenShards()
        self._columns: list[str] | None = None
        self._is_abandoned = False

    def require_open(self) -> Placement:
        """Return this object if its files are still open.

        Raises:
            OptionError: the files were closed.
        """
        if self._is_abandoned:
            raise OptionError("this Writer was closed because the interpreter exits; nothing is published")
        return self

    def open(self, name: str) -> SplitWriter:
        """Open the writer of a split, so that the split exists even without records."""
        if name not in self._writers:
            start = self._old[name].records if name in self._old else 0
            check_names(dict.fromkeys([*self._old, *self._writers, name]), "split")
            self._writers[name] = SplitWriter(
                name, self._directory / name, self._options, start, open_shards=self._open_shards, uploads=self._uploads
            )
        return self._writers[name]

    def check_split(self, split: str | None) -> None:
        """Raise `OptionError` if the split that the caller names for a record is not allowed.

        `split` is None if the caller names none.
        """
        if split is not None and (self.router.in_time is not None or split not in self._writers):
            self.router.check_split(split)

    def keep(self, sources: Sources) -> list[int] | None:
        """Select the records that have new keys and do not extend over several splits.

        The result is the indices of these records, or None if all records are selected.

        Raises:
            DuplicateKeyError: a key is already in use, and `on_duplicate` is `"error"`.
            RecordError: a record has no time.
        """
        kept = self.keys.keep(sources.records, sources.positions)
        in_time = self.router.keep(sources if kept is None else sources.only(kept))
        if in_time is not None:
            kept = in_time if kept is None else [kept[index] for index in in_time]
        if kept is not None:
            self.skipped += len(sources.records) - len(kept)
        return kept

    def cut(self, sources: Sources) -> Sources:
        """Cut records at the boundaries between splits.

        Pieces whose key and number are already in use are left out.

        Raises:
            DuplicateKeyError: the key and number of a piece are already in use, and `on_duplicate` is `"error"`.
            RecordError: the times of a record do not ascend.
        """
        if self.router.in_time is None:
            return sources
        origins, pieces = self.router.in_time.cut(sources.records, sources.positions)
        cut, whole = sources.become(origins, pieces), [sources.records[origin] for origin in origins]
        for name in self.keys.needs[1:]:  # the field with the number of a piece
            same = [getattr(piece, name) == getattr(record, name) for piece, record in zip(pieces, whole, strict=True)]
            new = np.flatnonzero(np.logical_not(same))
            kept = self.keep(cut.only(new.tolist()))
            if kept is not None:
                return cut.only(np.delete(np.arange(len(pieces)), np.delete(new, kept)).tolist())
        return cut

    def route(self, sources: Sources, named: Sequence[str | None]) -> Sources:
        """Choose the split of each record.

        Args:
            sources: at least one source record.
            named: split name from the caller for each record; None if the caller named none.

        Raises:
            RecordError: the rule cannot decide the split of a record.
        """
        names = self.router.assign(sources, named)
        for name in [names] if isinstance(names, str) else dict.fromkeys(names):
            self.open(name)
        numbers = {name: number for number, name in enumerate(self._writers)}
        if isinstance(names, str):
            splits = np.full(len(named), numbers[names], np.int64)
        else:
            splits = np.fromiter(map(numbers.__getitem__, names), np.int64, len(names))
        return attrs.evolve(sources, splits=splits)

    def skip(self, count: int, reasons: Iterable[str]) -> None:
        """Count skipped sources.

        The first few reasons why sources were skipped are kept.
        """
        self.skipped += count
        self.reasons = first_reasons(self.reasons, reasons)

    def write(self, block: Block) -> None:
        """Write the records of a block to the files of their splits.

        Raises:
            ShardWriteError: the disk is full or failed.
            RecordError: the CSV columns of records differ.
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
        """Close all files, and return the entry of each split for the manifest.

        Raises:
            ShardWriteError: the disk is full or failed.
        """
        return {name: writer.finish() for name, writer in self._writers.items()}

    def abandon(self) -> None:
        """Close all files without finishing them."""
        self._is_abandoned = True
        for writer in self._writers.values():
            writer.abandon()
