"""Where records come from while they are written: any iterable of them, or a mapping of splits to iterables."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.arrow import is_arrow
from seqrecorder.errors import (
    DatasetError,
    OptionError,
    SourceError,
)
from seqrecorder.storage.names import check_names
from seqrecorder.writing.record_copies import CannotWait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class SkippingSource:
    """A source that leaves some of its rows out.

    Attributes:
        skipped: how many, the last time that it was gone through to its end.
    """

    skipped: int = 0


class RecordStream:
    """Source records in blocks, each with the name of its split, or None where the source does not say.

    >>> stream = RecordStream({"train": "abc", "eval": "d"})
    >>> stream.take(2), stream.take(2), stream.take(2), stream.take(2)
    (('train', ['a', 'b']), ('train', ['c']), ('eval', ['d']), (None, []))

    Args:
        records: an iterable of records, or a mapping of a split's name to such.

    Attributes:
        splits: the names, where the source has them.
        size: how many records there are; None where the source does not know.
        skipped: how many rows `from_csv` left out, of the parts that came to their end.
        cannot_wait: whether no snapshot could be taken of the record that was taken last.
    """

    def __init__(self, records: Any) -> None:
        if isinstance(records, RecordStream):
            raise OptionError("a RecordStream is consumed once: give the records themselves")
        self.splits = check_names(records, "split") if isinstance(records, Mapping) else ()
        parts = list(records.values()) if isinstance(records, Mapping) else [records]
        for part in parts:
            if is_arrow(part):
                raise OptionError(
                    f"records: expected an iterable of records, got a {type(part).__name__}; give tables to"
                    " Writer.write_batch: with seqrecorder.Writer(path, Class) as writer: writer.write_batch(table)"
                )
            if not isinstance(part, Iterable) or isinstance(part, (type, Mapping)):
                raise OptionError(
                    "records: expected an iterable of records, or a mapping of names of splits to such, got"
                    f" {type(part).__name__}"
                )
        sizes = [len(part) if isinstance(part, Sized) else None for part in parts]
        self.size = None if None in sizes else sum(filter(None, sizes))
        self.skipped = 0
        self.cannot_wait = False
        self._taken = 0
        self._parts = zip(self.splits or (None,), parts, strict=True)
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
                    self._split, self._part = next(self._parts, (None, None))
                    if self._part is None:
                        return None, []
                    self._records = iter(self._part)
                    self._left = len(self._part) if type(self._part) in (list, tuple) else 0
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
        if isinstance(error, (SourceError, DatasetError)):
            return error
        ours = SourceError(
            f"the source of records failed at record {self._taken}: {type(error).__name__}: {error};"
            " nothing was published"
        )
        ours.__cause__ = error
        return ours
