"""Records on their way from the process that encodes them to the one that writes them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np

from seqrecorder.codec.arrow import is_table, table_of
from seqrecorder.codec.columns import maker_from_mapping, records_of
from seqrecorder.codec.encode import cut
from seqrecorder.dataset.splits import Balanced
from seqrecorder.errors import OptionError, RecordError
from seqrecorder.writing.column_source import ColumnSource, TableRecords
from seqrecorder.writing.encoder import LifeCycle, Sources, check_params
from seqrecorder.writing.options import WriteOptions
from seqrecorder.writing.split_assignment import Router
from seqrecorder.writing.unique_keys import UniqueKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.encoder import Block

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
