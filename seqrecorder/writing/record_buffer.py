"""Records that wait until so many have come that they are encoded together: a chunk.

The bytes of a chunk are bounded, but while the list of its records is there anyway, and all of it goes to no worker.

What a record holds is taken when it is given. While a list is gone through, no code of the program runs that could
change its records. Where such code runs next, those that wait are snapshots (`seqrecorder.writing.record_copies`); a
record that fills a chunk is encoded before, and is not copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqrecorder.codec.pieces import PIECE_BYTES, PIECE_RECORDS, sizer
from seqrecorder.wire.byte_rows import sizes
from seqrecorder.writing.record_copies import CannotWait, snapshotter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.encoder import Block
    from seqrecorder.writing.record_source import RecordStream

# With hooks records are made larger later: there, chunks for workers begin with one source and grow as far as the bytes
# of what came back allow.
_HOOK_RECORDS = 256
_CHUNK_BYTES = PIECE_BYTES * 2 // 3  # the record that makes it full fits into the same piece, as a rule

# A block is what is taken from a source at once.
_BLOCK, _BLOCK_OF_LIST = 32, 1024
_BLOCKS_OF_CHUNK = 16

# What is left over of a list is encoded at once if it is so many records, and waits for more if it is fewer.
_ENOUGH = 1024


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
