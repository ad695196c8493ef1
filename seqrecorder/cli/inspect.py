"""Description of a dataset, or of a shard without a schema.

For a shard without a schema, the description lists the names, types and sizes of its features, and drafts a class from
them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.dataset.manifest import dataset_at, read_manifest
from seqrecorder.errors import DatasetNotFoundError, OptionError, ShardReadError
from seqrecorder.reading.read_records import read_records
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.foreign.infer import EXAMPLE, SEQUENCE_EXAMPLE, Tallies, array_of, infer_profile, profile
from seqrecorder.storage.shard_reader import peek
from seqrecorder.storage.tfrecord import detect_compression, walk_frames
from seqrecorder.wire.read import read_message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.dataset.selection import Selection
    from seqrecorder.sources.foreign.infer import FeatureDescription
    from seqrecorder.storage.files import Compression
    from seqrecorder.wire.read import Message

_PEEKED = 1000
_PEEKED_BYTES = 64 << 20


@attrs.frozen
class ShardDescription:
    """Description of a shard without a schema.

    Attributes:
        path: path of the file.
        bytes: size of the file.
        compression: `GZIP`, or None if the file is not compressed.
        records: number of whole records.
        problem: problem with the frames of the file; empty if there is none. Contents are not checked.
        message: `tf.train.SequenceExample`, `tf.train.Example`, or the reason why the type is unknown.
        peeked: number of records that were parsed for `features`.
        features: descriptions of the features in these records.
        draft: source code of a class that reads the shard; empty if it contains no features.
    """

    path: Path
    bytes: int
    compression: Compression
    records: int
    problem: str
    message: str
    peeked: int
    features: tuple[FeatureDescription, ...]
    draft: str


def describe(path: Any) -> Manifest | ShardDescription:
    """Describe the dataset or the shard at a path.

    The result is the manifest of the dataset, or the description of the shard.

    Raises:
        DatasetNotFoundError: the path is neither a dataset nor a file.
        ManifestError: the manifest is damaged or of a newer format.
        ShardReadError: the file cannot be read.
    """
    file = dataset_at(path)
    return describe_shard(file) if file.is_file() else read_manifest(file)


def describe_shard(path: Path) -> ShardDescription:
    """Describe the frames of a shard, and the features of its first 1,000 records.

    Raises:
        ShardReadError: the file cannot be read.
    """
    compression, size = detect_compression(path), path.stat().st_size
    walk = walk_frames(path, compression)
    problem = f"after {walk.lengths.size:,} records, at byte {walk.offset:,}, it {walk.problem}" if walk.problem else ""
    fitting = np.searchsorted(np.cumsum(walk.lengths[:_PEEKED]), _PEEKED_BYTES, side="right")
    samples: list[bytes] = []
    if walk.lengths.size:
        try:
            samples = peek(path, compression, max(1, int(fitting)))
        except ShardReadError as error:
            problem = problem or error.message
    result = profile(Tallies().add(samples))
    return ShardDescription(
        path,
        size,
        compression,
        walk.lengths.size,
        problem,
        result.message,
        result.records,
        result.features,
        infer_profile(result).draft if result.features else "",
    )


@attrs.frozen
class Head:
    """First records of a split, a shard or a selection.

    Attributes:
        where: name of the split, path of the shard, or description of the selection.
        total: number of records; None if they were not counted.
        records: the first records, as dictionaries from field name to value.
    """

    where: str
    total: int | None
    records: tuple[Mapping[str, Any], ...]


def head(path: Any, split: str | None = None, *, count: int = 5, schema: object = None) -> Head:
    """Read the first records of a split (by default, the first split) or of a bare shard.

    Without a schema, features of a bare shard are returned as stored: a feature list is a list of steps.

    Raises:
        DatasetNotFoundError: the dataset, split or file does not exist.
        OptionError: a split was passed, but the path is a bare shard.
        ShardReadError: the shard is damaged.
    """
    path = dataset_at(path)
    if path.is_file():
        if split is not None:
            raise OptionError(f"{path} is a shard, which has no splits, got {split!r}")
        return _head_of_shard(path, count, schema)
    manifest = read_manifest(path)
    if not manifest.splits:
        raise DatasetNotFoundError(f"{manifest.path} has no split", path=path)
    info = manifest.split(next(iter(manifest.splits)) if split is None else split)
    records = read_records(path, info.name, schema=schema)
    return Head(info.name, info.records, tuple(map(_as_mapping, itertools.islice(records, count))))


def head_of_selection(selection: Selection, count: int) -> Head:
    """Read the first records of a selection.

    Raises:
        ShardReadError: a record is damaged.
    """
    return Head(repr(selection)[1:-1], len(selection), tuple(map(_as_mapping, selection[:count])))


def _head_of_shard(path: Path, count: int, schema: object) -> Head:
    if schema is not None:
        records = read_records(path, schema=schema)
        return Head(str(path), None, tuple(map(_as_mapping, itertools.islice(records, count))))
    described = describe_shard(path)
    if described.message not in (EXAMPLE, SEQUENCE_EXAMPLE):
        raise ShardReadError(f"{path}: {described.problem or described.message}", path=path)
    samples = peek(path, described.compression, min(count, described.records))
    return Head(str(path), described.records, tuple(_raw(read_message(data)) for data in samples))


def _as_mapping(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in Schema.of(record).fields}


def _raw(message: Message) -> dict[str, Any]:
    values: dict[str, Any] = {name: array_of(message.context[name]) for name in sorted(message.context)}
    return values | {name: [array_of(step) for step in message.lists[name]] for name in sorted(message.lists)}
