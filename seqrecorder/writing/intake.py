"""Records in, encoded chunks out: sources, the hooks `load` and `split`, and the split that each chunk goes to."""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
import itertools
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any, Literal, Protocol

import attrs
import numpy as np

from seqrecorder.codec.arrow import table_of
from seqrecorder.codec.columns import is_table, maker_from_mapping, records_of, scatter
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.codec.encode import PIECE_BYTES, PIECE_RECORDS, RecordEncoder, cut, sizer, takes_columns
from seqrecorder.dataset.examples_csv import csv_line
from seqrecorder.dataset.manifest import first_reasons
from seqrecorder.dataset.selection import Selection, rows_of
from seqrecorder.errors import DatasetError, OptionError, RecordError, SkipRecord, SourceError, did_you_mean
from seqrecorder.storage.files import check_names
from seqrecorder.storage.shard import OpenShards
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
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.threads import Progress
    from seqrecorder.writing.splits import EarlyUploads, ShardOptions


HOOKS = ("from_csv_row", "load", "split")


def check_params(record_class: type, params: Mapping[str, Any], hooks: Sequence[str] = HOOKS) -> None:
    """Raise `OptionError` for a parameter that no hook of the class takes."""
    taken: set[str] = set()
    for name in hooks:
        names = _parameters(record_class, name)
        if names is None:
            return
        taken |= names
    for name in params:
        if name not in taken:
            raise OptionError(
                f"params: no hook of {record_class.__name__} ({', '.join(hooks)}) takes {name!r}"
                f"{did_you_mean(name, taken)}"
            )


def hook_params(record_class: type, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the parameters that a hook takes."""
    names = _parameters(record_class, name)
    return {key: value for key, value in params.items() if names is None or key in names}


def _parameters(record_class: type, name: str) -> set[str] | None:
    """Return the names of the parameters of a hook, None for any name."""
    hook = getattr(record_class, name, None)
    if not callable(hook):  # there is none, or a field has that name
        return set()
    # The first is the record itself, or the row: nobody's parameter.
    parameters = list(inspect.signature(hook).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL}


class LifeCycle:
    """Takes source records to encoded ones, in this process; `PoolEncoder` has others do it.

    Args:
        schema: what is written.
        params: for the hooks.
        rows: whether a line for the CSV is wanted of each record.

    Attributes:
        has_hooks: whether the class has `load` or `split`.
    """

    def __init__(self, schema: Schema, params: Mapping[str, Any], *, rows: bool = False) -> None:
        self._schema, self._rows = schema, rows
        self._encoder = RecordEncoder(schema)
        self._reasons: list[str] = []
        record_class = schema.record_class
        self._params = {name: hook_params(record_class, name, params) for name in ("load", "split")}
        self._loads, self._splits = (callable(getattr(record_class, name, None)) for name in ("load", "split"))
        self.has_hooks = self._loads or self._splits
        self._size = sizer(schema)
        self._snapshot = snapshotter(schema)
        stored = {field.name: field for field in schema.fields}
        self._columns = [
            attribute.name
            for attribute in attrs.fields(record_class)
            if attribute.name not in stored or _is_scalar(stored[attribute.name])
        ]
        self._has_row = callable(getattr(record_class, "to_csv_row", None))

    def encode(self, sources: Sources) -> Iterator[Block]:
        """Yield blocks of encoded records, in order.

        A source is written with all of its chunks or, where `SkipRecord` comes in the middle, with none.

        Args:
            sources: records whose hooks have not run.

        Raises:
            RecordError: a record cannot be encoded, or a hook failed; the position is that of the source.
        """
        if not self.has_hooks or sources.columns is not None:
            yield self._block(sources, done=len(sources.records))
            return
        origins, records, skipped, size = list[int](), list[Any](), list[int](), 0
        pairs = zip(sources.positions.tolist(), sources.records, strict=True)
        for done, (position, source) in enumerate(pairs, 1):
            chunks = self._chunks(position, source)
            if not chunks:
                skipped.append(position)
            while chunks:
                origins.append(done - 1)
                records.append(chunks.popleft())
                size += self._size(records[-1:])
                if size > PIECE_BYTES or len(records) == PIECE_RECORDS:
                    yield self._block(sources.become(origins, records), skipped, 0 if chunks else done)
                    origins, records, skipped, size = [], [], [], 0
                elif not self._splits:  # others are snapshots already
                    records[-1] = self._taken(records[-1])
        if records or skipped:
            yield self._block(sources.become(origins, records), skipped, len(sources.records))

    def drain(self) -> Iterator[Block]:
        """Yield nothing: all that came is encoded."""
        return iter(())

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def finished(self, sources: Iterable[Any]) -> list[Any]:
        """Return the records that sources become: what would be encoded."""
        return [record for position, source in enumerate(sources) for record in self._chunks(position, source)]

    def _chunks(self, position: int, source: Any) -> collections.deque[Any]:
        """Return the records that a source becomes; none where a hook leaves it out."""
        record = source
        try:
            if self._loads:
                record = self._taken(record)
                loaded = self._call("load", position, record)
                record = record if loaded is None else loaded
            if not self._splits:
                return collections.deque([record])
            chunks = self._call("split", position, record)
            self._check_chunks(position, chunks)
            return collections.deque(map(self._taken, self._guarded(position, chunks)))
        except SkipRecord as skip:
            self._reasons.append(str(skip))
            return collections.deque()

    def _taken(self, record: Any) -> Any:
        """Return a snapshot of a record, before code of the class runs again."""
        try:
            return self._snapshot(record)
        except CannotWait:  # its values do not fit, so that encoding refuses them
            return record

    def _check_chunks(self, position: int, chunks: Any) -> None:
        is_record = isinstance(chunks, self._schema.record_class)
        if is_record or isinstance(chunks, (str, bytes)) or not hasattr(chunks, "__iter__"):
            raise RecordError(
                f"{self._schema.name}.split: expected records (yield them one by one), got {type(chunks).__name__}",
                position=position,
            )

    def _call(self, name: str, position: int, record: Any) -> Any:
        hook = getattr(record, name, None)
        if hook is None:
            raise RecordError(
                f"expected a record of class {self._schema.name}, got {type(record).__name__}",
                position=position,
            )
        try:
            return hook(**self._params[name])
        except SkipRecord:
            raise
        except Exception as error:
            raise self._hook_failed(name, position, error) from error

    def _guarded(self, position: int, chunks: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from chunks
        except SkipRecord:
            raise
        except Exception as error:
            raise self._hook_failed("split", position, error) from error

    def _hook_failed(self, name: str, position: int, error: Exception) -> RecordError:
        return RecordError(
            f"{self._schema.name}.{name} failed: {type(error).__name__}: {error} (raise"
            " seqrecorder.SkipRecord in load or split to leave the record out)",
            position=position,
        )

    def _block(self, sources: Sources, skipped: Sequence[int] = (), done: int = 0) -> Block:
        """Return the block of records whose hooks have run, or of columns, of which none runs."""
        reasons, self._reasons = first_reasons(self._reasons), []
        encoder, count, positions = self._encoder, len(sources.records), sources.positions
        try:
            given = sources.columns
            encoded = encoder.encode(sources.records) if given is None else encoder.encode_columns(given, count)
        except RecordError as error:
            if error.position is not None:  # the source is named, and not the place among others
                error.position = int(positions[error.position])
            raise
        columns = rows = None
        if self._rows and count:
            columns, rows = self._lines(sources.records, positions.tolist())
        return Block(*encoded, positions, sources.splits, columns, rows, list(skipped), reasons, done).only(
            sources.kept
        )

    # Lines of the CSV ---------------------------------------------------------------------------------------

    def _lines(self, records: Sequence[Any], positions: Sequence[int]) -> tuple[list[str], list[str]]:
        """Return the columns, and for each record its `to_csv_row`, or its scalars and plain fields.

        Raises:
            RecordError: `to_csv_row` failed, or records have different columns.
        """
        columns: list[str] = []
        lines = []
        for position, record in zip(positions, records, strict=True):
            row = self._row(position, record)
            columns = columns or list(row)
            check_columns(self._schema.name, columns, list(row), position)
            try:
                lines.append(csv_line(row.values()))
            except ValueError as error:
                raise RecordError(f"its line of the CSV: {error}", position=position) from error
        return columns, lines

    def _row(self, position: int, record: Any) -> Mapping[str, Any]:
        if not self._has_row:
            return {name: getattr(record, name) for name in self._columns}
        try:
            row = record.to_csv_row()
        except Exception as error:
            raise self._hook_failed("to_csv_row", position, error) from error
        if isinstance(row, (list, tuple)) and row:  # without names, columns are numbered
            row = {f"column_{number}": value for number, value in enumerate(row)}
        if not isinstance(row, dict) or not row:
            raise RecordError(
                f"{self._schema.name}.to_csv_row: expected a dict of columns, or a list, got {row!r}",
                position=position,
            )
        return row


def check_columns(name: str, expected: Sequence[str], got: Sequence[str], position: int) -> None:
    """Raise `RecordError` where a record's line of the CSV has other columns than the first one's."""
    if list(got) != list(expected):
        raise RecordError(
            f"{name}.to_csv_row: expected the columns of the first record, {', '.join(expected)}; got {', '.join(got)}",
            position=position,
        )


def _is_scalar(field: Field) -> bool:
    return not (field.is_list or field.shape or field.sparse is not None)


# With hooks records are made larger later: there, chunks for workers begin with one source and grow as far as the bytes
# of what came back allow.
_HOOK_RECORDS = 256
_CHUNK_BYTES = PIECE_BYTES * 2 // 3  # the record that makes it full fits into the same piece, as a rule

# A block is what is taken from a source at once.
_BLOCK, _BLOCK_OF_LIST = 32, 1024
_BLOCKS_OF_CHUNK = 16

# What is left over of a list is encoded at once if it is so many records, and waits for more if it is fewer.
_ENOUGH = 1024


class RecordStream:
    """Source records in blocks, each with the name of its split, or None where the source does not say.

    >>> stream = RecordStream({"train": "abc", "eval": "d"})
    >>> stream.take(2), stream.take(2), stream.take(2), stream.take(2)
    (('train', ['a', 'b']), ('train', ['c']), ('eval', ['d']), (None, []))

    Args:
        records: an iterable of records or of dictionaries, a table, a `ColumnSource`, or a mapping of a split's name
            to such.
        schema: what the records are; needed for dictionaries and tables.

    Attributes:
        splits: the names, where the source has them.
        columns: what gives its records in columns, or encoded, each with the name of its split; `take` gives the
            others.
        turn: a split and its dictionaries, where they are to be written before more is taken.
        size: how many records there are; None where the source does not know.
        skipped: how many rows `from_csv` left out, of the parts that came to their end.
        reasons: the first texts of what says why.
        cannot_wait: whether no snapshot could be taken of the record that was taken last.
    """

    def __init__(self, records: Any, schema: Schema | None = None) -> None:
        if isinstance(records, RecordStream):
            raise OptionError("a RecordStream is consumed once: give the records themselves")
        self.splits = check_names(records, "split") if isinstance(records, Mapping) else ()
        parts = list(records.values()) if isinstance(records, Mapping) else [records]
        self._schema = schema
        self.columns: list[tuple[str | None, ColumnSource | Selection]] = []
        self._parts: Iterator[tuple[str | None, Any]]
        rows: list[tuple[str | None, Any]] = []
        for split, part in zip(self.splits or (None,), parts, strict=True):
            if isinstance(part, (ColumnSource, Selection)):
                self.columns.append((split, part))
            elif is_table(part):
                if schema is None:
                    raise OptionError(f"a {type(part).__name__} does not say what its records are: pass schema=Class")
                self.columns.append((split, TableRecords(table_of(part), schema)))
            elif not isinstance(part, Iterable) or isinstance(part, (type, Mapping)):
                raise OptionError(
                    "records: expected an iterable of records or dictionaries, a table, or a mapping of names of splits"
                    f" to such, got {type(part).__name__}"
                )
            else:
                rows.append((split, part))
        sizes = [len(part) if isinstance(part, Sized) else None for _, part in rows]
        self.size = None if None in sizes or self.columns else sum(filter(None, sizes))
        self.turn: tuple[str | None, Dictionaries] | None = None
        self.skipped = 0
        self.reasons: tuple[str, ...] = ()
        self.cannot_wait = False
        self._taken = 0
        self._parts = iter(rows)
        self._part: Any = None
        self._split: str | None = None
        self._records: Iterator[Any] | None = None  # of the part
        self._left = 0  # records of the part, if it is a list
        self._failure: Exception | None = None
        self._first: tuple[str | None, list[Any]] | None = None

    def peek(self) -> Any:
        """Return the first record, or None if there is none; it still comes with `take`."""
        if self._first is None:
            self._first = self.take(1)
        return next(iter(self._first[1]), None)

    @property
    def held(self) -> bool:
        """Check whether the next records come from a list, so that no code of the program runs to make them."""
        return self._left > 0

    def take(self, most: int, snapshot: Callable[[Any], Any] | None = None) -> tuple[str | None, list[Any]]:
        """Return the name of a split and its next records, at most so many; no record at the end.

        Args:
            most: how many at most.
            snapshot: is called with each record before the next one is asked for, and what it returns takes its place.
                Where it raises `CannotWait`, the record is the last that is taken.

        Raises:
            SourceError: the source failed; the number of the record is named.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return first
        block: list[Any] = []
        self.cannot_wait = False
        while not block:
            if self._failure is not None:
                raise self._failed(self._failure)
            try:
                if self._records is None:
                    self._records = self._begin_part()
                if self._records is None:
                    return self._split, []
                records = itertools.islice(self._records, most)
                if snapshot is None:
                    block.extend(records)
                else:
                    self._take_snapshots(records, snapshot, block)
            except Exception as error:  # noqa: BLE001 - what came before it is given first
                self._failure = error
            else:
                if len(block) < most and not self.cannot_wait:
                    self._end_part()
            self._taken += len(block)
            self._left = max(0, self._left - len(block))
        return self._split, block

    def _begin_part(self) -> Iterator[Any] | None:
        """Return the records of the next part; None if there is none, or it has dictionaries."""
        self._split, self._part = next(self._parts, (None, None))
        return None if self._part is None else self._iterate(self._part)

    def _iterate(self, part: Iterable[Any]) -> Iterator[Any] | None:
        """Return the records of a part; None where they are dictionaries, which come in columns."""
        held = type(part) in (list, tuple)
        records = iter(part)
        if self._schema is not None:
            first = list(itertools.islice(part if held else records, 1))
            records = records if held else itertools.chain(first, records)
            if first and isinstance(first[0], Mapping):
                if takes_columns(self._schema):
                    rows = part if held else self._guarded(records)
                    self.turn = self._split, Dictionaries(rows, self._schema)
                    return None
                make = maker_from_mapping(self._schema)
                return map(make, records, itertools.count(self._taken))
        self._left = len(part) if held else 0  # type: ignore[arg-type]  # lists and tuples have a length
        return records

    def _guarded(self, rows: Iterator[Any]) -> Iterator[Any]:
        """Yield rows; raise what says at which of them their source failed."""
        try:
            for row in rows:
                yield row
                self._taken += 1
        except Exception as error:  # noqa: BLE001 - raised as what the source did
            failure = self._failed(error)
        else:
            return
        raise failure

    def _take_snapshots(self, records: Iterable[Any], snapshot: Callable[[Any], Any], block: list[Any]) -> None:
        for record in records:
            try:
                block.append(snapshot(record))
            except CannotWait:
                self.cannot_wait = True
                block.append(record)
                return

    def _end_part(self) -> None:
        self._records, self._left = None, 0
        # What `from_csv` left out, which is known when it has come to its end.
        if isinstance(self._part, SkippingSource):
            self.skipped += self._part.skipped
            self.reasons = first_reasons(self.reasons, self._part.reasons)

    def _failed(self, error: Exception) -> Exception:
        if isinstance(error, (SourceError, DatasetError, OptionError, RecordError)):
            return error
        ours = SourceError(
            f"the source of records failed at record {self._taken}: {type(error).__name__}: {error};"
            " nothing was published"
        )
        ours.__cause__ = error
        return ours


class Waiting:
    """Records that wait, and the splits that they were given.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     name: str = sr.context(str)
    >>> waiting = Waiting(sr.Schema.of(Point), hooks=False, workers=1)
    >>> waiting.add(Point("origin"), "train")
    >>> waiting.is_full, waiting.take()
    (False, ([Point(name='origin')], ['train']))

    Args:
        schema: what the records are.
        hooks: whether the class has hooks that make them larger.
        workers: number of processes that may encode them, or `"auto"`.
        whole: whether attributes that are not stored are looked at, later, too.
    """

    def __init__(self, schema: Schema, *, hooks: bool, workers: int | Literal["auto"], whole: bool = False) -> None:
        self._size = sizer(schema)
        self._snapshot = snapshotter(schema, whole=whole or hooks)
        self._adapts = hooks and workers != 1
        self._most = (1 if self._adapts else _HOOK_RECORDS) if hooks else PIECE_RECORDS
        self._records: list[Any] = []
        self._given: list[str | None] = []
        self._bytes = 0
        self._settled = 0  # so many of the first are snapshots
        self._hastens = False  # one of them cannot wait

    @property
    def is_full(self) -> bool:
        """Check whether they are to be encoded now."""
        return len(self._records) >= self._most or self._bytes >= _CHUNK_BYTES or self._hastens

    def add(self, record: Any, split: str | None) -> None:
        """Add a record, with the split that the caller gives it, if any."""
        self._records.append(record)
        self._given.append(split)
        self._bytes += self._size([record])
        if not self.is_full:
            self._settle()

    def _settle(self) -> None:
        """Make those that wait snapshots, before code of the program runs; they are full where one cannot be."""
        try:
            for place in range(self._settled, len(self._records)):
                self._records[place] = self._snapshot(self._records[place])
                self._settled = place + 1
        except CannotWait:
            self._hastens = True

    def fill(self, stream: RecordStream) -> Iterator[None]:
        """Add all records of a source; yield whenever those that wait are to be taken, before any other is added."""
        # What is taken at once is small beside a chunk, as far as the records before tell, since records of an iterator
        # come into being as they are taken.
        most = 1
        while True:
            held = stream.held
            if not held:
                if len(self._records) - self._settled < _ENOUGH:
                    self._settle()
                if self._settled < len(self._records):
                    yield
            count = min(most, self._most - len(self._records))
            # One that comes alone may be large, and fill the chunk: it becomes a snapshot above, if it does not.
            takes_snapshots = not held and count > 1
            split, block = stream.take(count, self._snapshot if takes_snapshots else None)
            if not block:
                break
            self._records += block
            self._given += [split] * len(block)
            if takes_snapshots:
                self._hastens = stream.cannot_wait
                self._settled = len(self._records) - self._hastens
            size = self._size(block)
            self._bytes += size
            fits = _CHUNK_BYTES * len(block) // (_BLOCKS_OF_CHUNK * max(1, size))
            most = max(1, min(2 * most, fits, _BLOCK_OF_LIST if held else _BLOCK))
            if self.is_full:
                yield

    def take(self) -> tuple[list[Any], list[str | None]]:
        """Return those that wait and the splits that they were given; from now on none wait."""
        records, given = self._records, self._given
        self._records, self._given, self._bytes, self._settled, self._hastens = [], [], 0, 0, False
        return records, given

    def adapt(self, block: Block) -> None:
        """Let chunks grow as far as the bytes of a source allow, where hooks run in workers."""
        if self._adapts and block.data:
            each = int(sizes(block.data).sum()) // int(np.unique(block.sources).size)
            self._most = max(1, min(_HOOK_RECORDS, 2 * self._most, _CHUNK_BYTES // max(1, each)))


class Encoder(Protocol):
    """Interface of what encodes sources: the life cycle in this process, or a pool of workers."""

    def encode(self, sources: Sources) -> Iterable[Block]:
        """Encode sources, or take them; give what is encoded by now, in order."""
        ...

    def drain(self) -> Iterable[Block]:
        """Give the rest."""
        ...


class RecordIntake:
    """Takes records of every form, has them encoded, and places them in the order in which they came.

    After an error nothing more is taken: records that were held with the bad one are lost, too, so that a caller who
    goes on must not get a dataset.

    Args:
        schema: what the records are.
        csv: whether each record has a line in a CSV file.
        workers: how many processes encode, or `"auto"`.
        life_cycle: of the records.
        encoder: runs the life cycle.
        placement: where encoded records go.
        progress: is told how many records have come.
        lock: against the end of the interpreter, while records go into files.

    Attributes:
        position: how many records have been taken to be encoded.
    """

    def __init__(
        self,
        schema: Schema,
        life_cycle: LifeCycle,
        encoder: Encoder,
        *,
        csv: bool,
        workers: int | Literal["auto"],
        placement: Placement,
        progress: Progress,
        lock: threading.RLock,
    ) -> None:
        self._schema, self._life_cycle, self._encoder, self._placement = schema, life_cycle, encoder, placement
        self._progress, self._lock = progress, lock
        self._failure: BaseException | None = None
        self._router = router = placement.router
        needs, stored = router.needs, {field.name for field in schema.fields}
        self._lines = csv
        # Whether splits or lines of the CSV come from more than the stored fields.
        self._whole = csv or router.cuts or needs is None or bool(set(needs) - stored)
        self._needs = list(dict.fromkeys([*(needs or ()), *placement.keys.needs]))
        self._waiting = Waiting(schema, hooks=life_cycle.has_hooks, workers=workers, whole=self._whole)
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
        rows = rows_of(selection)
        if self._lines or self._router.cuts or rows.store.manifest.schema.fields != self._schema.fields:
            schema = self._schema if self._lines else self._schema.with_encoded_images
            self._fill_from(rows.read_as(schema).records(), split)
            return
        store = rows.store.forward()
        self._go_through(rows.chunks(), lambda positions: self._copy(store, positions, split))

    def _checked(self, given: Any) -> tuple[dict[str, Column], int]:
        with self._numbered_errors():
            return given_columns(self._schema, given)

    def _columns_of(self, source: ColumnSource) -> Iterator[tuple[dict[str, Column], int]]:
        with self._numbered_errors():
            yield from source.columns()

    @contextlib.contextmanager
    def _numbered_errors(self) -> Iterator[None]:
        """Count a record that does not fit among all that were given."""
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
        """Return views of the records, with what decides splits, identifies them, and makes lines of the CSV."""
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
        self._schema, self.router, self.keys, self._options = schema, router, keys, options
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
        """Check whether there is no split yet."""
        return not self._writers

    def check_given(self, split: str | None) -> None:
        """Raise `OptionError` for a split that was given with a record and cannot be."""
        if split is not None and (self.router.is_in_time or split not in self._writers):
            self.router.check_given(split)

    def keep(self, sources: Sources) -> list[int] | None:
        """Return the indices of the records whose keys are new, and whose times are of one split, or None for all.

        Raises:
            DuplicateKeyError: a key came before, and that is an error.
            RecordError: a record has no time.
        """
        kept = self.keys.keep(sources.records, sources.positions)
        in_time = self.router.keep(sources if kept is None else sources.only(kept))
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
        names = self.router.assign(sources, given)
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
