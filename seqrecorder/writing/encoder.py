"""The life cycle of a record on its way to disk: load, split, encode, release.

A class may define `load(self, **params)`, which fills deferred fields just before encoding, and
`split(self, **params)`, which yields the chunks of a long record; either may raise `SkipRecord`. Both run here,
in this process or in a worker, on a snapshot, so that what `load` read is released once it is encoded, and that records
may be made in one buffer.
"""

from __future__ import annotations

import collections
import inspect
import itertools
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs
import numpy as np

from seqrecorder.codec.arrow import is_table, table_of
from seqrecorder.codec.columns import maker_from_mapping
from seqrecorder.codec.encode import PIECE_BYTES, PIECE_RECORDS, RecordEncoder, sizer, takes_columns
from seqrecorder.dataset.examples_csv import csv_line
from seqrecorder.dataset.manifest import first_reasons
from seqrecorder.dataset.selection import Selection
from seqrecorder.errors import DatasetError, OptionError, RecordError, SkipRecord, SourceError, did_you_mean
from seqrecorder.storage.names import check_names
from seqrecorder.wire.byte_rows import sizes
from seqrecorder.writing.columns import (
    CannotWait,
    ColumnSource,
    Dictionaries,
    SkippingSource,
    TableRecords,
    snapshotter,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


T = TypeVar("T")

HOOKS = ("from_csv_row", "load", "split")


def _no_splits(sources: Sources) -> NDArray[np.int64]:
    return np.zeros(len(sources.positions), np.int64)


@attrs.frozen(eq=False)
class Sources:
    """Source records, whose hooks have not run.

    Attributes:
        positions: int64, ascending.
        records: as many.
        splits: int64, the number of each one's split; 0 until they have one.
        columns: what they are, where they are given in columns; then the records are what is looked at of them.
        kept: the indices of those that are written, of all in columns; None is all.
    """

    positions: NDArray[np.int64]
    records: Sequence[Any]
    splits: NDArray[np.int64] = attrs.field(default=attrs.Factory(_no_splits, takes_self=True))
    columns: dict[str, Column] | None = None
    kept: Sequence[int] | None = None

    def only(self, kept: Sequence[int]) -> Sources:
        """Return some of them, by their indices."""
        return Sources(self.positions[kept], [self.records[i] for i in kept], self.splits[kept])

    def become(self, origins: Sequence[int], records: Sequence[Any]) -> Sources:
        """Return what hooks made of them: records, and for each the index of its source."""
        indices = np.asarray(origins, np.int64)
        return Sources(self.positions[indices], records, self.splits[indices])

    def after(self, done: int) -> Sources:
        """Return those behind the first `done`."""
        return self.between(done, len(self.records))

    def between(self, start: int, stop: int) -> Sources:
        """Return some that stand together."""
        return Sources(self.positions[start:stop], self.records[start:stop], self.splits[start:stop])


@attrs.frozen(eq=False)
class Block:
    """Encoded records.

    Attributes:
        data: serialized SequenceExamples.
        lengths: int64 (records, groups).
        sources: int64, position of the source that each came from.
        splits: int64, the number of each one's split, which is that of its source.
        columns: columns of the CSV, or None.
        rows: a line for the CSV of each record, or None.
        skipped: positions of sources that a hook left out.
        reasons: the first texts of `SkipRecord`.
        done: how many of the sources that were given are through; 0 where that is not known, as inside of one.
    """

    data: Sequence[bytes]
    lengths: NDArray[np.int64]
    sources: NDArray[np.int64]
    splits: NDArray[np.int64]
    columns: list[str] | None
    rows: list[str] | None
    skipped: list[int]
    reasons: tuple[str, ...]
    done: int

    def only(self, kept: Sequence[int] | None) -> Block:
        """Return some of the records, by their indices; None is all."""
        if kept is None:
            return self
        return attrs.evolve(
            self,
            data=chosen(self.data, kept),
            lengths=self.lengths[kept],
            sources=self.sources[kept],
            splits=self.splits[kept],
            rows=None if self.rows is None else chosen(self.rows, kept),
        )


def chosen(items: Sequence[T], indices: Sequence[int]) -> list[T]:
    """Return some items by their indices."""
    every = list(items)
    return [every[i] for i in indices]


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
        """Whether what comes next is of a list, taken from before: no code of the program runs to make it."""
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
        """Whether they are to be encoded now."""
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
