"""Looking into a dataset, or into a shard of which nothing is known.

Messages of unknown shards are looked at with protobuf, as they are: which features they have, of which type,
and how many values each holds. That gives a class to begin with.
"""

from __future__ import annotations

import itertools
import keyword
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import DatasetNotFoundError, OptionError, ShardReadError
from seqrecorder.framing import detect_compression, walk_frames
from seqrecorder.layouts import describe_message
from seqrecorder.manifest import Manifest, read_manifest
from seqrecorder.naming import MANIFEST
from seqrecorder.reader import read_records
from seqrecorder.schema import Schema
from seqrecorder.shards import peek

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from seqrecorder.framing import Compression

SEQUENCE_EXAMPLE = "tf.train.SequenceExample"
EXAMPLE = "tf.train.Example"

_PEEKED = 1000
_PEEKED_BYTES = 64 << 20
_DTYPES = {"int64_list": "int64", "float_list": "float32", "bytes_list": "bytes"}


@attrs.frozen
class Range:
    """The least and the largest of some counts."""

    least: int
    most: int

    @property
    def only(self) -> int | None:
        """The count, where all are the same."""
        return self.least if self.least == self.most else None

    def __str__(self) -> str:
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,} to {self.most:,}"


@attrs.frozen
class FeatureDescription:
    """One feature of the messages in a shard.

    Attributes:
        name: of the feature.
        kind: `context` or `feature_list`; the features of a flat `tf.train.Example` are `context`.
        dtype: `int64`, `float32`, `bytes`, `str` (bytes that are all UTF-8) or `mixed`; None where it never
            has a value.
        present: in how many of the messages it is.
        steps: number of steps; None for `context`.
        values: number of values, of each step for a `feature_list`; None where there is no step.
        aligned: whether it has as many steps as the first feature list, in every message; true for `context`.
    """

    name: str
    kind: str
    dtype: str | None
    present: int
    steps: Range | None
    values: Range | None
    aligned: bool = True


@attrs.frozen
class ShardDescription:
    """What can be told of a shard without a schema.

    Attributes:
        path: of the file.
        bytes: its size.
        compression: None or `GZIP`.
        records: number of whole records.
        problem: what is wrong with the file, empty where nothing was seen; contents are not looked at.
        message: `tf.train.SequenceExample`, `tf.train.Example`, or what else can be said.
        peeked: how many records the features were looked up in.
        features: of these records.
    """

    path: Path
    bytes: int
    compression: Compression
    records: int
    problem: str
    message: str
    peeked: int
    features: tuple[FeatureDescription, ...]

    def draft(self) -> str:
        """Return the source code of a class that reads the shard; empty where there is nothing to read."""
        if not self.features:
            return ""
        taken: set[str] = set()
        lines = ["@sr.record(kw_only=True)", "class Record:"]
        lines += [f"    {_declaration(feature, self.peeked, taken)}" for feature in self.features]
        return "\n".join(lines)


def describe(path: Any) -> Manifest | ShardDescription:
    """Return the manifest of a dataset's directory, or what can be told of a shard.

    Raises:
        DatasetNotFoundError: there is neither a dataset nor a file.
        ManifestError: the manifest is damaged, or of a newer format.
        ShardReadError: the file cannot be read.
    """
    file = Path(path)
    if file.name == MANIFEST:
        return read_manifest(file.parent)
    return describe_shard(file) if file.is_file() else read_manifest(file)


def describe_shard(path: Path) -> ShardDescription:
    """Return what can be told of a shard without a schema: frames, and features of its first 1,000 records.

    Raises:
        ShardReadError: the file cannot be read.
    """
    try:
        compression, size = detect_compression(path), path.stat().st_size
    except OSError as error:
        raise ShardReadError(f"{path}: cannot be read: {error.strerror}", path=path) from error
    walk = walk_frames(path, compression)
    problem = f"after {walk.lengths.size:,} records, at byte {walk.offset:,}, it {walk.problem}" if walk.problem else ""
    fitting = np.searchsorted(np.cumsum(walk.lengths[:_PEEKED]), _PEEKED_BYTES, side="right")
    samples: list[bytes] = []
    if walk.lengths.size:
        try:
            samples = peek(path, compression, max(1, int(fitting)))
        except ShardReadError as error:
            problem = problem or error.message
    messages = list(_messages(samples))
    message = _message_type(samples, messages)
    features = _features(messages) if message in (EXAMPLE, SEQUENCE_EXAMPLE) else ()
    return ShardDescription(
        path, size, compression, walk.lengths.size, problem, message, len(messages), tuple(features)
    )


def _messages(samples: Iterable[bytes]) -> Iterator[Any]:
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
        for data in samples:
            yield tf.train.SequenceExample.FromString(data)
    except DecodeError:
        return


def _message_type(samples: Sequence[bytes], messages: Sequence[Any]) -> str:
    if not samples:
        return "unknown: no record could be read"
    if len(messages) < len(samples):
        return f"unknown: {describe_message(samples[len(messages)])}"
    if any(message.feature_lists.feature_list for message in messages):
        return SEQUENCE_EXAMPLE
    # Both have their first features under one number, so a flat message is an Example for all one can tell.
    if any(message.context.feature for message in messages):
        return EXAMPLE
    return "unknown: no record has a feature"


def _features(messages: Sequence[Any]) -> Iterator[FeatureDescription]:
    for name in sorted({name for message in messages for name in message.context.feature}):
        found = [m.context.feature[name] for m in messages if name in m.context.feature]
        values = _range(len(_values(feature)) for feature in found)
        yield FeatureDescription(name, "context", _dtype(found), len(found), None, values)
    first: dict[int, int] = {}  # steps by the message's position, of the feature list that came first
    for name in sorted({name for message in messages for name in message.feature_lists.feature_list}):
        lists = {
            position: message.feature_lists.feature_list[name].feature
            for position, message in enumerate(messages)
            if name in message.feature_lists.feature_list
        }
        aligned = all(first.setdefault(position, len(steps)) == len(steps) for position, steps in lists.items())
        found = [feature for steps in lists.values() for feature in steps]
        yield FeatureDescription(
            name,
            "feature_list",
            _dtype(found),
            len(lists),
            _range(map(len, lists.values())),
            _range(len(_values(feature)) for feature in found),
            aligned,
        )


def _range(counts: Iterable[int]) -> Range | None:
    known = list(counts)
    return Range(min(known), max(known)) if known else None


def _values(feature: Any) -> Sequence[Any]:
    kind = feature.WhichOneof("kind")
    values: Sequence[Any] = getattr(feature, kind).value if kind else ()
    return values


def _dtype(features: Sequence[Any]) -> str | None:
    kinds = {feature.WhichOneof("kind") for feature in features} - {None}
    if not kinds:
        return None
    if len(kinds) > 1:
        return "mixed"
    dtype = _DTYPES[kinds.pop()]
    return (
        "str"
        if dtype == "bytes" and all(map(_is_text, itertools.chain.from_iterable(map(_values, features))))
        else dtype
    )


def _is_text(value: bytes) -> bool:
    try:
        return "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def _declaration(feature: FeatureDescription, peeked: int, taken: set[str]) -> str:
    """Return the line that declares a feature, as far as the records that were seen tell."""
    if feature.dtype == "mixed":
        return f"# {feature.name!a} has values of several types and cannot be declared"
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in feature.name)
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        name = f"field_{name.strip('_')}"
    while name in taken:
        name += "_"
    taken.add(name)
    arguments = [f'"{feature.dtype or "float32"}"']
    count = feature.values.only if feature.values else 1
    packed = feature.steps is not None and feature.steps.most == 1 and count != 1
    if count != 1 and not packed:
        arguments.append(f"shape=({count or None},)")
    if feature.present < peeked:
        arguments.append("optional=True, default=None")
    if not feature.aligned:
        arguments.append("align=None")
    if name != feature.name:
        arguments.append(f"name={feature.name!a}")
    comment = "  # one feature holds the whole sequence: read with layout='packed'" if packed else ""
    scalar = feature.kind == "context" and count == 1
    annotation = {"int64": "int", "float32": "float", "str": "str", "bytes": "bytes", None: "float"}[feature.dtype]
    annotation = annotation if scalar else "np.ndarray"
    optional = " | None" if feature.present < peeked else ""
    return f"{name}: {annotation}{optional} = sr.{feature.kind}({', '.join(arguments)}){comment}"


@attrs.frozen
class Head:
    """The first records of a split or shard.

    Attributes:
        where: the split's name, or the shard's path.
        total: how many records there are; None where they were not counted.
        records: the first ones, each field's value by its name.
    """

    where: str
    total: int | None
    records: tuple[Mapping[str, Any], ...]


def head(path: Any, split: str | None = None, *, count: int = 5, schema: object = None) -> Head:
    """Return the first records of a split (the first one, if none is named), or of a bare shard.

    Without a schema, the values of a bare shard's features come as they are in the messages, where a feature
    list is a list of steps.

    Raises:
        DatasetNotFoundError: there is no dataset, split or file of that name.
        OptionError: a split of a bare shard.
        ShardReadError: the shard is damaged.
    """
    if Path(path).name == MANIFEST:
        path = Path(path).parent
    if Path(path).is_file():
        if split is not None:
            raise OptionError(f"{path} is a shard, which has no splits, got {split!r}")
        return _head_of_shard(Path(path), count, schema)
    manifest = read_manifest(path)
    if not manifest.splits:
        raise DatasetNotFoundError(f"{manifest.path} has no split", path=path)
    info = manifest.split(next(iter(manifest.splits)) if split is None else split)
    records = read_records(path, info.name, schema=schema)
    return Head(info.name, info.records, tuple(map(_as_mapping, itertools.islice(records, count))))


def _head_of_shard(path: Path, count: int, schema: object) -> Head:
    if schema is not None:
        records = read_records(path, schema=schema)
        return Head(str(path), None, tuple(map(_as_mapping, itertools.islice(records, count))))
    described = describe_shard(path)
    if described.message not in (EXAMPLE, SEQUENCE_EXAMPLE):
        raise ShardReadError(f"{path}: {described.problem or described.message}", path=path)
    samples = peek(path, described.compression, min(count, described.records))
    return Head(str(path), described.records, tuple(map(_raw, _messages(samples))))


def _as_mapping(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in Schema.of(record).fields}


def _raw(message: Any) -> dict[str, Any]:
    values: dict[str, Any] = {name: _array(message.context.feature[name]) for name in sorted(message.context.feature)}
    lists = message.feature_lists.feature_list
    return values | {name: [_array(step) for step in lists[name].feature] for name in sorted(lists)}


def _array(feature: Any) -> np.ndarray[Any, Any]:
    kind = feature.WhichOneof("kind")
    if kind is None:
        return np.empty(0, np.float32)
    if kind == "bytes_list":
        values = np.empty(len(feature.bytes_list.value), object)
        values[:] = [value.decode() if _is_text(value) else value for value in feature.bytes_list.value]
        return values
    return np.array(getattr(feature, kind).value, np.int64 if kind == "int64_list" else np.float32)
