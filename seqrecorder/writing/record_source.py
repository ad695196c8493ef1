"""Where records come from while they are written, and those that wait until so many have come as are encoded together.

These are a chunk, whose bytes are bounded. What a record holds is taken when it is given. While a list is gone through,
no code of the program runs that could change its records. Where such code runs next, those that wait are snapshots
(`seqrecorder.writing.record_copies`); a record that fills a chunk is encoded before, and is not copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqrecorder.codec.arrow import is_table, table_of
from seqrecorder.codec.columns import maker_from_mapping
from seqrecorder.codec.encode import PIECE_BYTES, PIECE_RECORDS, sizer, takes_columns
from seqrecorder.dataset.selection import Selection
from seqrecorder.errors import (
    DatasetError,
    OptionError,
    RecordError,
    SourceError,
)
from seqrecorder.storage.names import check_names
from seqrecorder.wire.byte_rows import sizes
from seqrecorder.writing.column_source import ColumnSource, SkippingSource, TableRecords
from seqrecorder.writing.dictionaries import Dictionaries
from seqrecorder.writing.record_copies import CannotWait, snapshotter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.encoder import Block

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
