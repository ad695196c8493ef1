"""Datasets as Spark writes them; needs `pip install 'seqrecorder[spark]'` and a Java runtime.

Each record is encoded where it is, and goes to a shard by a hash of its bytes, by which Spark sorts the shard. Each
shard is one part, which may be written by several attempts; the driver commits the parts.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.schema.schema import Schema
from seqrecorder.writing.commit import commit
from seqrecorder.writing.encoded_pieces import EncodedPiece, PieceEncoder, check_unsorted
from seqrecorder.writing.write_part import write_pieces

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.writing.options import WriteOptions

_PIECES = "shard int, tag long, split string, key binary, lengths binary, data binary"
_MIDDLE = 1 << 63  # Spark has no unsigned numbers; the order of tags stays what it is
_TOGETHER = 1024


def write(
    data: Any,
    destination: str | os.PathLike[str],
    schema: object,
    *,
    splits: Any = None,
    split_by: Any = None,
    shards: int = 16,
    **options: Any,
) -> Manifest:
    """Write a dataset of a Spark data frame, or of an RDD.

    >>> write(spark.read.parquet("sentences"), "corpus", Sentence, splits={"train": 0.9, "eval": 0.1})  # doctest: +SKIP

    The dataset is there when this returns, or nothing is; tasks may fail, and run twice. It has the splits that
    `seqrecorder.write` gives. On disk records stand in a random order, by a hash of their bytes, so that the same
    records give the same files.

    Args:
        data: a data frame, a row a record, whose columns are the fields; or an RDD of records or dictionaries.
        destination: directory of the dataset, which the driver and all workers see; or its URL.
        schema: the record class, or its schema; workers import it, or it is defined in the driver's main program.
        splits: as for `seqrecorder.write`.
        split_by: as for `seqrecorder.write`; needed where there are shares, and the class has no key.
        shards: number of shards of each split; of fewer records, or very few for each, there may be less.
        **options: `seed`, `compression`, `params`, `metadata`, `assets` and `overwrite`, as for `seqrecorder.write`.

    Returns:
        What was written.

    Raises:
        OptionError: options make no sense.
        DuplicateKeyError: two records have one key; where they are in one shard, in an error of Spark's.
    """
    record_schema, place = Schema.of(schema), str(destination)
    checked = check_unsorted(record_schema, {**options, "splits": splits, "split_by": split_by, "shards": shards})
    encoder = PieceEncoder(record_schema, checked)
    if hasattr(data, "mapInArrow"):
        pieces = data.mapInArrow(functools.partial(_encode_tables, encoder=encoder, shards=shards), _PIECES)
    else:
        rows = data.mapPartitions(functools.partial(_encode_records, encoder=encoder, shards=shards))
        pieces = rows.toDF(_PIECES)
    ordered = pieces.repartition(shards, "shard").sortWithinPartitions("shard", "tag", "data")
    one = attrs.evolve(checked, shards=1)
    write_shards = functools.partial(_write_shards, destination=place, schema=record_schema, options=one)
    numbers = [row.shard for row in ordered.mapInArrow(write_shards, "shard int").collect()]
    if not numbers:  # of no records there is a dataset, too
        write_pieces([], place, record_schema, 0, one)
    return commit(
        place,
        expected=numbers or 1,
        overwrite=checked.overwrite,
        metadata=checked.metadata,
        assets=checked.assets,
    )


def _row(piece: EncodedPiece, shards: int) -> tuple[Any, ...]:
    return piece.tag % shards, piece.tag - _MIDDLE, piece.split, piece.key, piece.lengths, piece.data


def _encode_tables(batches: Iterator[Any], encoder: PieceEncoder, shards: int) -> Iterator[Any]:
    for batch in batches:
        pieces = encoder.encode([batch])
        while some := [_row(piece, shards) for piece in itertools.islice(pieces, _TOGETHER)]:
            yield _batch(some)


def _encode_records(records: Iterator[Any], encoder: PieceEncoder, shards: int) -> Iterator[tuple[Any, ...]]:
    while some := list(itertools.islice(records, _TOGETHER)):
        for piece in encoder.encode(some):
            yield _row(piece, shards)


def _batch(rows: list[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    types = (pa.int32(), pa.int64(), pa.string(), pa.binary(), pa.binary(), pa.binary())
    names = [field.split()[0] for field in _PIECES.split(", ")]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    return pa.record_batch(columns, names)


def _write_shards(batches: Iterator[Any], destination: str, schema: Schema, options: WriteOptions) -> Iterator[Any]:
    """Write the shards of a partition, which is sorted by them; yield their numbers."""
    import pyarrow as pa

    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    for number, group in itertools.groupby(rows, key=lambda row: row[0]):
        pieces = (EncodedPiece(tag + _MIDDLE, *rest) for _, tag, *rest in group)
        write_pieces(pieces, destination, schema, number, options)
        yield pa.record_batch([pa.array([number], pa.int32())], ["shard"])
