"""Writing and reading datasets with Spark.

This module needs `pip install pyspark pyarrow` and a Java runtime. Executors encode the records, and assign each of
them to a shard by a hash of its bytes. Spark sorts each shard by this hash. Each shard is one part. Spark may write a
part several times, so only the driver commits the parts.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from seqrecorder.codec.arrow import arrow_schema, table_of
from seqrecorder.dataset.selection import open as open_corpus
from seqrecorder.dataset.selection import rows_of
from seqrecorder.errors import OptionError
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.row_per_step import RowGroups, from_rows
from seqrecorder.sources.tables import from_table
from seqrecorder.writing.commit import commit_pieces
from seqrecorder.writing.part import (
    EncodedPiece,
    PieceEncoder,
    check_unsorted,
    pieces_of,
    same_everywhere,
    write_pieces,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.dataset.selection import Selection
    from seqrecorder.writing.writer import WriteOptions

_PIECES = "shard int, tag long, split string, key binary, lengths binary, data binary"
_MIDDLE = 1 << 63  # Spark has no unsigned integers; subtracting this from tags keeps their order
_TOGETHER = 1024
_MOST_TASKS = 10_000
_WITHOUT_ORDER = ("map", "variant")
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}
"""Mapping from Arrow types that Spark lacks to types that can represent their values."""


def write(
    data: Any,
    destination: str | os.PathLike[str],
    schema: object,
    *,
    splits: Any = None,
    split_by: Any = None,
    shards: int = 16,
    by: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    **options: Any,
) -> Manifest:
    """Write a Spark data frame or RDD as a dataset.

    >>> write(spark.read.parquet("sentences"), "corpus", Sentence, splits={"train": 0.9, "eval": 0.1})  # doctest: +SKIP
    >>> write(spark.table("readings"), "series", Series, by="sensor", order="time")  # doctest: +SKIP

    The complete dataset appears when this function returns, even if tasks fail or run twice. Splits are the same as
    with `seqrecorder.write`. Records are ordered by a hash of their bytes, so the same records give the same files.

    Args:
        data: a data frame whose columns are the fields, with one row per record (with `by`, one row per step); or an
            RDD of records or dictionaries.
        destination: directory of the dataset, or its URL; the driver and all workers must have access to it.
        schema: the record class, or its schema. Workers must be able to import the class, unless the driver's main
            program defines it.
        splits: proportions of the splits, as in `seqrecorder.write`.
        split_by: field or function to split by, as in `seqrecorder.write`; required with proportions if the schema has
            no key field.
        shards: number of shards of each split; a split of few records may have fewer.
        by: the column or columns that identify a record, as in `seqrecorder.from_rows`. Spark groups the rows, and
            each task has the rows of a few records in memory.
        order: the column or columns to sort the rows of a record by; the other columns break ties.
        **options: `seed`, `compression`, `params`, `metadata`, `assets` and `overwrite`, as in `seqrecorder.write`.

    Returns:
        The manifest of the dataset.

    Raises:
        OptionError: the options contradict each other, or the columns do not match the fields.
        DuplicateKeyError: two records have the same key; Spark wraps this error in its own if both are in one shard.
    """
    record_schema, address = Schema.of(schema), same_everywhere(destination)
    checked = check_unsorted(record_schema, {**options, "splits": splits, "split_by": split_by, "shards": shards})
    encoder = PieceEncoder(record_schema, checked)
    given_by, given_order = ((each,) if isinstance(each, str) else tuple(each or ()) for each in (by, order))
    if hasattr(data, "mapInArrow"):
        data, encode = _encoding(data, encoder, shards, given_by, given_order)
        pieces = data.mapInArrow(encode, _PIECES)
    elif given_by or given_order:
        raise OptionError("by, order: of a data frame; an RDD has no columns, so make it one with `rdd.toDF()`")
    else:
        rows = data.mapPartitions(functools.partial(_encode_records, encoder=encoder, shards=shards))
        pieces = rows.toDF(_PIECES)
    ordered = pieces.repartition(shards, "shard").sortWithinPartitions("shard", "tag", "data")
    one = attrs.evolve(checked, shards=1)
    write_shards = functools.partial(_write_shards, destination=address, schema=record_schema, options=one)
    numbers = [row.shard for row in ordered.mapInArrow(write_shards, "shard int").collect()]
    return commit_pieces(numbers, address, record_schema, checked)


def _encoding(
    frame: Any, encoder: PieceEncoder, shards: int, by: tuple[str, ...], order: tuple[str, ...]
) -> tuple[Any, Any]:
    """Prepare a data frame for encoding.

    The columns are checked. If `by` is not empty, the rows of each group are brought together and sorted. The results
    are the prepared data frame and the function that encodes its batches.

    Raises:
        OptionError: the columns do not match the fields.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    empty = to_arrow_schema(frame.schema).empty_table()
    if not by:
        if order:
            raise OptionError("order: of the rows of a group; name the columns that make groups, too: by=")
        from_table(empty, encoder.schema)  # only checks the columns
        return frame, functools.partial(_encode_tables, encoder=encoder, shards=shards)
    if not order:
        raise OptionError("by: rows of a data frame have no order; name the columns that order each group: order=")
    from_rows(empty, encoder.schema, by=by, order=order)
    # The other columns break ties; otherwise, rows with equal keys would have a random order, and change the record.
    others = [field.name for field in frame.schema.fields if field.dataType.typeName() not in _WITHOUT_ORDER]
    keys = [frame[f"`{name}`"] for name in dict.fromkeys((*by, *order, *others))]
    ordered = frame.repartition(*keys[: len(dict.fromkeys(by))]).sortWithinPartitions(*keys)
    return ordered, functools.partial(_encode_groups, encoder=encoder, shards=shards, by=by, order=order)


def _row(piece: EncodedPiece, shards: int) -> tuple[Any, ...]:
    return piece.tag % shards, piece.tag - _MIDDLE, piece.split, piece.key, piece.lengths, piece.data


def _encode_tables(batches: Iterator[Any], encoder: PieceEncoder, shards: int) -> Iterator[Any]:
    for batch in batches:
        yield from _batches(encoder.encode([batch]), shards)


def _encode_groups(
    batches: Iterator[Any], encoder: PieceEncoder, shards: int, by: Sequence[str], order: Sequence[str]
) -> Iterator[Any]:
    """Encode a record for each group of consecutive rows."""
    first = next(batches, None)
    if first is None:
        return
    reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
    rows = attrs.evolve(table_of(reader), name="the data frame", is_sorted=True)
    yield from _batches(encoder.encode([RowGroups(rows, encoder.schema, by=by, order=order)]), shards)


def _encode_records(records: Iterator[Any], encoder: PieceEncoder, shards: int) -> Iterator[tuple[Any, ...]]:
    while chunk := list(itertools.islice(records, _TOGETHER)):
        for piece in encoder.encode(chunk):
            yield _row(piece, shards)


def _batches(pieces: Iterator[EncodedPiece], shards: int) -> Iterator[Any]:
    types = (pa.int32(), pa.int64(), pa.string(), pa.binary(), pa.binary(), pa.binary())
    names = [field.split()[0] for field in _PIECES.split(", ")]
    while rows := [_row(piece, shards) for piece in itertools.islice(pieces, _TOGETHER)]:
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
        yield pa.record_batch(columns, names)


def _write_shards(batches: Iterator[Any], destination: str, schema: Schema, options: WriteOptions) -> Iterator[Any]:
    """Write the shards of a partition, and yield their numbers.

    The rows of the partition must be sorted by shard.
    """
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    for number, group in itertools.groupby(rows, key=lambda row: row[0]):
        pieces = (EncodedPiece(tag + _MIDDLE, *rest) for _, tag, *rest in group)
        write_pieces(pieces, destination, schema, number, options)
        yield pa.record_batch([pa.array([number], pa.int32())], ["shard"])


def read(
    session: Any,
    path: str | os.PathLike[str],
    split: str | None = None,
    *,
    schema: object = None,
    fields: Sequence[str] | None = None,
) -> Any:
    """Read a split as an unordered Spark data frame with one row per record.

    >>> read(spark, "corpus", "train", fields=["label"]).groupBy("label").count().show()  # doctest: +SKIP

    Columns are the same as with `Selection.to_arrow`, converted to Spark's types: unsigned integers become wider types,
    float16 becomes float32, fixed-size lists become lists, and times become microseconds. If a time would lose digits,
    an error is raised. Executors read shards lazily, a few records at a time.

    Args:
        session: the Spark session.
        path: directory of the dataset; the driver and all workers must have access to it.
        split: name of the split; None if there is only one.
        schema: the record class; None derives one from the manifest.
        fields: names of the fields to read, in any order; None reads all.

    Raises:
        DatasetNotFoundError: the dataset or the split does not exist.
        SchemaMismatchError: the dataset cannot be read as the class.
        SchemaError: a field does not exist.
        OptionError: Arrow has no type for a field.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    corpus = open_corpus(path, schema=None if schema is None else Schema.of(schema))
    info = corpus.manifest.split(split)
    records = corpus[info.name]
    chosen = records.schema.select(fields)
    kinds = pa.schema([(column.name, _spark_type(column.type)) for column in arrow_schema(chosen)])
    count = sum(1 for _ in pieces_of(info.shards))
    numbers = session.range(0, count, 1, max(1, min(count, _MOST_TASKS)))
    names = [field.name for field in chosen.fields]
    task = functools.partial(_read_pieces, records=records, split=info.name, fields=names, kinds=kinds)
    return numbers.mapInArrow(task, from_arrow_schema(kinds))


def _spark_type(kind: Any) -> Any:
    """Map an Arrow type to one that Spark supports and that can represent the same values."""
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else _WIDER.get(kind, kind)


def _read_pieces(
    batches: Iterator[Any], records: Selection, split: str, fields: Sequence[str], kinds: Any
) -> Iterator[Any]:
    """Yield the records in the ranges whose numbers are in `batches`.

    The ranges are those that `pieces_of` yields for the split, numbered in this order.
    """
    pieces = list(pieces_of(rows_of(records).store.manifest.splits[split].shards))
    for number in itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
        for batch in records[range(*pieces[number])].to_arrow(fields):
            columns = [column.cast(kind) for column, kind in zip(batch.columns, kinds.types, strict=True)]
            yield pa.record_batch(columns, schema=kinds)
