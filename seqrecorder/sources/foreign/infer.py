"""Schema inference for TFRecord files that other programs wrote, with the source code of a matching class.

The result describes only the inspected records: the type and number of values of each feature, and which features
have equal lengths. The dtype of bytes for `tf.io.decode_raw` is not stored in files, so the user must pass it.
"""

from __future__ import annotations

import array
import collections
import contextlib
import functools
import itertools
import keyword
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import objects
from seqrecorder.dataset.checked_shards import common_compression
from seqrecorder.errors import OptionError, SchemaError, SchemaMismatchError, check_count, did_you_mean
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import DEFAULT_GROUP, Field, check_together
from seqrecorder.schema.schema import Schema
from seqrecorder.schema.source_code import RESERVED, draft, identifier
from seqrecorder.storage.files import check_compression, files_named
from seqrecorder.storage.processes_and_signals import in_processes
from seqrecorder.storage.shard_reader import RecordReader
from seqrecorder.wire.read import Feature, WireError, any_feature, list_values, message_spans, name_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.layouts import Layout
    from seqrecorder.schema.dtypes import ElementType
    from seqrecorder.schema.field import Storage
    from seqrecorder.storage.files import Compression

if TYPE_CHECKING:
    Shape = tuple[int | None, ...]
    Raw = Mapping[str, tuple[ElementType, Shape]]
    """Mapping from feature name to element type and shape, for features decoded by `tf.io.decode_raw`."""


SEQUENCE_EXAMPLE = "tf.train.SequenceExample"
EXAMPLE = "tf.train.Example"
ABSENT = -1

# The first bytes of a file tell its format.
_FORMATS = {b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"RIFF": "WAV or WebP"}
_FORMATS |= {b"fLaC": "FLAC", b"OggS": "Ogg", b"\x1f\x8b": "GZIP", b"\x93NUMPY": "npy"}
_TENSOR = re.compile(rb"\x08[\x01-\x1f]\x12", re.DOTALL)  # a TensorProto begins with its dtype and shape
_SINGLE = {  # steps with one number; the varint of an int64 has 1 to 10 bytes
    "int64": re.compile(
        b"|".join(rb"\n%c\x1a%c\n%c[\x80-\xff]{%d}[\x00-\x7f]" % (n + 4, n + 2, n, n - 1) for n in range(1, 11))
    ),
    "float": re.compile(rb"\n\x08\x12\x06\n\x04.{4}", re.DOTALL),
}
_DTYPES = {"int64": "int64", "float": "float32", "bytes": "bytes", "str": "str"}


@attrs.frozen
class Range:
    """Minimum and maximum of a count."""

    least: int
    most: int

    @property
    def only(self) -> int | None:
        """Value of a count that is always the same.

        It is None if the count varies.
        """
        return self.least if self.least == self.most else None

    def __str__(self) -> str:
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,} to {self.most:,}"


@attrs.frozen
class FeatureDescription:
    """Description of a feature in serialized messages.

    Attributes:
        name: name of the feature.
        kind: `context` or `feature_list`; the features of a flat `tf.train.Example` are `context`.
        dtype: `int64`, `float32`, `bytes`, `str` (all bytes are UTF-8) or `mixed`; None if there are no values.
        present: number of messages that contain the feature.
        steps: range of the number of steps; None for `context`.
        values: range of the number of values, per step for a `feature_list`; None if there are no steps.
        format: file format of all values, recognized by their first bytes, such as `PNG` or `JPEG`; None if they have
            none in common.
    """

    name: str
    kind: str
    dtype: str | None
    present: int
    steps: Range | None
    values: Range | None
    format: str | None = None

    @property
    def is_packed(self) -> bool:
        """True if all steps of a feature list seem to be stored together, as one step.

        This is assumed if no record has more than one step, and steps do not always consist of one value.
        """
        return self.steps is not None and self.steps.most == 1 and self.values is not None and self.values.only != 1


@attrs.frozen(eq=False)
class Profile:
    """Description of the features in messages.

    Attributes:
        message: `tf.train.SequenceExample`, `tf.train.Example`, or an explanation of why the kind is unknown.
        records: number of inspected messages.
        features: descriptions of the features; empty for an unknown kind.
        sizes: mapping from feature name to the number of values (`context`) or steps (`feature_list`) in each message;
            `ABSENT` if the message lacks the feature.
        totals: mapping from feature name to the number of values in each message, over all steps; `ABSENT` if the
            message lacks the feature.
    """

    message: str
    records: int
    features: tuple[FeatureDescription, ...]
    sizes: Mapping[str, NDArray[np.int64]]
    totals: Mapping[str, NDArray[np.int64]]


@attrs.define
class _Tally:
    """Statistics of a feature over the messages read so far."""

    kinds: set[str] = attrs.field(factory=set)
    """Kinds of its values, as in `_DTYPES`."""
    formats: set[str | None] = attrs.field(factory=set)
    sizes: array.array[int] = attrs.field(factory=lambda: array.array("q"))
    """For each message with the feature: index of the message, number of steps and number of values."""
    counts: set[int] = attrs.field(factory=set)

    def add_steps(self, data: bytes, start: int, stop: int) -> tuple[int, int]:
        """Add the steps of a feature list to the statistics.

        The result is the number of steps, and the number of values in all steps.
        """
        for kind, step in _SINGLE.items():
            steps = step.findall(data, start, stop)
            if sum(map(len, steps)) == stop - start > 0:
                self.kinds.add(kind)
                self.counts.add(1)
                return len(steps), len(steps)
        counts = [self.add(feature) for feature in list_values(data, start, stop, "", any_feature)]
        return len(counts), sum(counts)

    def add(self, feature: Feature) -> int:
        """Add the values of a Feature to the statistics, and return their number."""
        kind, values = feature.kind, feature.values
        if kind == "bytes":
            kind = "bytes" if "bytes" in self.kinds or not all(map(_is_text, values)) else "str"
            self.formats.update(() if None in self.formats else map(_format, values))
        self.kinds.update([kind] if kind else ())
        self.counts.add(len(values))
        return len(values)

    def join(self, other: _Tally, records: int) -> None:
        """Add the statistics of messages that follow the first `records` messages."""
        self.kinds |= other.kinds
        self.formats |= other.formats
        self.counts |= other.counts
        self.sizes.frombytes((np.frombuffer(other.sizes, np.int64).reshape(-1, 3) + np.r_[records, 0, 0]).tobytes())

    def dtype(self) -> str | None:
        """Return the name of the element type, as in `FeatureDescription.dtype`."""
        kinds = self.kinds - {"str"} if "bytes" in self.kinds else self.kinds
        return _DTYPES[next(iter(kinds))] if len(kinds) == 1 else "mixed" if kinds else None


@attrs.define
class Tallies:
    """Statistics of the features of messages, which other processes can collect, too.

    Attributes:
        records: number of messages.
        problem: reason why a message, which is then the last one, is of an unknown kind; empty if there is none.
        features: statistics of each feature, by kind and name.
    """

    records: int = 0
    problem: str = ""
    features: dict[tuple[str, str], _Tally] = attrs.field(factory=lambda: collections.defaultdict(_Tally))

    def add(self, data: Iterable[bytes]) -> Tallies:
        """Add messages, and return these statistics."""
        for item in data:
            try:
                singles, sequences = message_spans(item)
                for encoded, span in singles.items():
                    tally = self.features["context", name_text(encoded)]
                    tally.sizes.extend((self.records, *[tally.add(any_feature(item, *span)[0])] * 2))
                for encoded, span in sequences.items():
                    tally = self.features["feature_list", name_text(encoded)]
                    tally.sizes.extend((self.records, *tally.add_steps(item, *span)))
            except WireError as error:
                self.problem = f"unknown: the bytes are neither a SequenceExample nor an Example ({error})"
                break
            self.records += 1
        return self

    def join(self, other: Tallies) -> None:
        """Add the statistics of messages that follow."""
        for name, tally in other.features.items():
            self.features[name].join(tally, self.records)
        self.records, self.problem = self.records + other.records, self.problem or other.problem


def profile(tallies: Tallies) -> Profile:
    """Describe the features of messages from their statistics.

    >>> import tensorflow as tf
    >>> message = tf.train.Example()
    >>> message.features.feature["ids"].int64_list.value.extend([3, 1, 2])
    >>> [ids] = profile(Tallies().add([message.SerializeToString()])).features
    >>> ids.name, ids.dtype, str(ids.values)
    ('ids', 'int64', '3')
    """
    records = tallies.records
    if tallies.problem or not tallies.features:
        why = "no record has a feature" if records else "no record could be read"
        return Profile(tallies.problem or f"unknown: {why}", records, (), {}, {})
    features, sizes, totals = [], {}, {}
    for (kind, name), tally in sorted(tallies.features.items()):
        positions, lengths, counts = np.frombuffer(tally.sizes, np.int64).reshape(-1, 3).T
        length = Range(int(lengths.min()), int(lengths.max())) if kind == "feature_list" else None
        values = Range(min(tally.counts), max(tally.counts)) if tally.counts else None
        form = tally.formats.pop() if len(tally.formats) == 1 else None
        features.append(FeatureDescription(name, kind, tally.dtype(), positions.size, length, values, form))
        sizes[name], totals[name] = np.full((2, records), ABSENT, np.int64)
        sizes[name][positions], totals[name][positions] = lengths, counts
    # A SequenceExample without lists is encoded like an Example, because both store these features under field 1.
    message = SEQUENCE_EXAMPLE if any(kind == "feature_list" for kind, _ in tallies.features) else EXAMPLE
    return Profile(message, records, tuple(features), sizes, totals)


def aligned(sizes: Mapping[str, NDArray[np.int64]], *, has_default: bool = True) -> dict[str, str | None]:
    """Group the features that have equal lengths in every record.

    The result maps each feature to its group.

    The largest group, by number of features and then by number of elements, is the default group if `has_default` is
    True. Other groups are named after their first feature; the group of a single feature is None.

    >>> sizes = {"a": [2, 2], "b": [1, 3], "c": [1, 3]}
    >>> aligned({name: np.array(counts) for name, counts in sizes.items()})
    {'a': None, 'b': 'default', 'c': 'default'}
    """
    groups: list[list[str]] = []
    for name in sorted(sizes, key=lambda name: -int((sizes[name] != ABSENT).sum())):
        fitting = (group for group in groups if all(_agree(sizes[name], sizes[other]) for other in group))
        group = next(fitting, [])
        groups += [] if group else [group]
        group.append(name)
    groups.sort(key=lambda group: (-len(group), -max(int(sizes[name].sum()) for name in group)))
    names: dict[str, str | None] = {}
    for position, group in enumerate(groups):
        alone = len(group) == 1
        names |= dict.fromkeys(group, DEFAULT_GROUP if has_default and position == 0 else None if alone else group[0])
    return {name: names[name] for name in sizes}


def _agree(one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    both = (one != ABSENT) & (other != ABSENT)
    return bool(both.any() and (one == other)[both].all())


def _format(value: bytes) -> str | None:
    if _TENSOR.match(value):
        return "TensorProto"
    return next((name for start, name in _FORMATS.items() if value.startswith(start)), None)


def _is_text(value: bytes) -> bool:
    try:
        return "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def array_of(feature: Feature) -> NDArray[Any]:
    """Convert the values of a Feature to an array.

    Bytes that are UTF-8 become text.
    """
    if feature.kind == "bytes":
        return objects([value.decode() if _is_text(value) else value for value in feature.values])
    return np.asarray(feature.values, np.int64 if feature.kind == "int64" else np.float32)


_LENGTHS = 2  # with fewer distinct lengths, a constant ratio of lengths may be a coincidence


@attrs.frozen(repr=False)
class Inference:
    """Inferred schema, with comments on its guesses.

    Attributes:
        schema: inferred schema.
        layout: layout of the messages: `steps`, or `example` for flat messages. A list with one feature per sequence is
            declared `storage="packed"`, which belongs to the layout `steps`.
        message: `tf.train.SequenceExample` or `tf.train.Example`.
        records: number of inspected records.
        undeclared: mapping from feature name to the reason why the feature cannot be declared.
        comments: mapping from field name to a comment on the guess for the field.
    """

    schema: Schema
    layout: Layout
    message: str
    records: int
    undeclared: Mapping[str, str] = attrs.field(factory=dict)
    comments: Mapping[str, str] = attrs.field(factory=dict)

    def __repr__(self) -> str:
        return f"<Inference from {self.records:,} {self.message}s: {self.schema!r}>"

    @property
    def draft(self) -> str:
        """Source code of the record class."""
        notes = [f"{name!a} cannot be declared: {why}" for name, why in self.undeclared.items()]
        return draft(self.schema, comments=self.comments, notes=notes)


def infer(
    paths: Any,
    *,
    name: str = "Record",
    raw: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Any] | None = None,
    key: str | None = None,
    records: int | None = 1000,
    compression: str | None = None,
) -> Inference:
    """Infer the schema of TFRecord files.

    >>> import os, tempfile, tensorflow as tf
    >>> example = tf.train.Example()
    >>> example.features.feature["image"].bytes_list.value.append(bytes(12))
    >>> example.features.feature["label"].int64_list.value.append(7)
    >>> path = os.path.join(tempfile.mkdtemp(), "images.tfrecord")
    >>> with tf.io.TFRecordWriter(path) as file:
    ...     file.write(example.SerializeToString())
    >>> print(infer(path, raw={"image": "uint8"}, shapes={"image": (2, 2, 3)}).draft)
    @sr.record
    class Record:
        image: np.ndarray = sr.context("uint8", shape=(2, 2, 3), storage="raw")
        label: int = sr.context("int64")

    Args:
        paths: path, glob or list of paths of TFRecord files.
        name: name of the class.
        raw: mapping from feature name to the (little-endian) dtype of its bytes, decoded as by `tf.io.decode_raw`.
        shapes: mapping from feature name to shape, for features in `raw`; the first dimension may be None. Without a
            shape, the values are flat.
        key: name of the feature that identifies a record; None if there is none.
        records: number of records to inspect, distributed over the files; None for all.
        compression: compression of the files; None to detect it by their first bytes.

    Raises:
        DatasetNotFoundError: the file does not exist.
        ShardReadError: one of the records to inspect is damaged.
        SchemaMismatchError: the messages are of an unknown kind, or a feature in `raw` does not contain bytes.
        SchemaError: no feature can be declared.
        OptionError: an option is invalid, or names an unknown feature.
    """
    if not name.isidentifier() or name in RESERVED or keyword.iskeyword(name):
        raise OptionError(f"name: expected a class's name, got {name!r}")
    if records is not None:
        check_count("records", records)
    declared = _declared(raw or {}, shapes or {})
    files = files_named(paths)
    profiled = _profile_files(files, records, compression)
    if not profiled.features:
        raise SchemaMismatchError(f"{files[0]}{f' and {len(files) - 1} more' if files[1:] else ''}: {profiled.message}")
    features = {feature.name: feature for feature in profiled.features}
    for feature_name in [*declared, *([key] if key else [])]:
        if feature_name not in features:
            close = did_you_mean(feature_name, features)
            raise OptionError(f"there is no feature {feature_name!r}{close}; there is {', '.join(sorted(features))}")
    for feature in map(features.__getitem__, declared):
        several = feature.values is not None and feature.values.most > 1
        if several or feature.dtype not in ("bytes", "str", None):
            content = f"{feature.values} values of {feature.dtype}"
            raise SchemaMismatchError(f"raw: expected one bytes value to decode in {feature.name!r}, got {content}")
    inference = infer_profile(profiled, name, declared, key)
    if not inference.schema.fields:
        reasons = "; ".join(f"{name!r}: {why}" for name, why in inference.undeclared.items())
        raise SchemaError(f"no feature can be declared: {reasons}")
    return inference


def _declared(raw: Mapping[str, Any], shapes: Mapping[str, Any]) -> Raw:
    """Validate and combine the options `raw` and `shapes` of `infer`."""
    declared = {}
    for name, dtype in raw.items():
        element, shape = element_type(dtype), shapes.get(name, (None,))
        if element.is_text:
            raise OptionError(f"raw: {name!r} as {element.name} needs no decoding; leave it out")
        sizes = list(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else [0]
        fixed = sizes[1:] if sizes[:1] == [None] else sizes
        if not all(type(size) is int and size > 0 for size in fixed):
            raise OptionError(f"shapes: {name!r}: expected sizes, of which the first may be None, got {shape!r}")
        declared[name] = element, tuple(sizes)
    for name in shapes:
        if name not in raw:
            raise OptionError(f"shapes: {name!r} has no dtype: name it under `raw` too")
    return declared


def _profile_files(files: Sequence[Path], records: int | None, compression: str | None) -> Profile:
    """Describe the features of the first records of each file, about `records` in total."""
    most = None if records is None else -(-records // len(files))
    kind, tallies = common_compression(files, check_compression(compression)), Tallies()
    with contextlib.closing(in_processes(functools.partial(_tally, kind, most), files)) as parts:
        for _, part in parts:
            tallies.join(part.result())
    return profile(tallies)


def _tally(compression: Compression, most: int | None, path: Path) -> Tallies:
    records = (record for block in RecordReader(path, compression).blocks() for record in block.rows())
    return Tallies().add(itertools.islice(records, most))


def infer_profile(profile: Profile, name: str = "Record", raw: Raw | None = None, key: str | None = None) -> Inference:
    """Infer a schema from a profile of the features; see `infer` for the options."""
    flat = profile.message == EXAMPLE
    raw = raw or {}
    sequences = _sequences(profile, raw)
    fields: list[Field] = []
    comments, undeclared = dict[str, str](), dict[str, str]()
    lists = {feature.name for feature in profile.features if feature.kind == "feature_list"}
    for feature in _in_order(profile):
        if feature.kind == "context" and feature.name in lists:
            apart = "if some files hold tf.train.Examples, take them apart from those of tf.train.SequenceExamples"
            undeclared[feature.name] = f"it is a feature list of some records and a context feature as well; {apart}"
            continue
        attribute = identifier(feature.name, [field.name for field in fields])
        try:
            options: dict[str, Any] = {"key": feature.name == key}
            if feature.present < profile.records:
                options |= {"optional": True, "default": None}
            field, comment = _field(feature, attribute, sequences.get(feature.name), raw.get(feature.name), **options)
            check_together(name, (*fields, field))
        except SchemaError as error:
            undeclared[feature.name] = str(error)
            continue
        fields.append(field)
        if comment:
            comments[attribute] = comment
    schema = Schema(name, tuple(fields))
    return Inference(schema, "example" if flat else "steps", profile.message, profile.records, undeclared, comments)


def _in_order(profile: Profile) -> list[FeatureDescription]:
    """List the features that become fields, context features first.

    Presence flags of optional features are left out, because they are part of the optional field.
    """
    presence = {f"{feature.name}_present" for feature in profile.features if feature.present < profile.records}
    flag = ("context", "int64", Range(1, 1))
    return [f for f in profile.features if f.name not in presence or (f.kind, f.dtype, f.values) != flag]


def _field(
    feature: FeatureDescription,
    attribute: str,
    sequence: tuple[str | None, int] | None,
    raw: tuple[ElementType, Shape] | None,
    **options: Any,
) -> tuple[Field, str]:
    """Build the field of a feature, and a comment on what was guessed.

    Raises:
        SchemaError: the feature has values of several types, or no field can store them.
    """
    if feature.dtype == "mixed":
        raise SchemaError("it has values of several types")
    comment = "it never has a value: the dtype is a guess" if feature.dtype is None else ""
    element = element_type(feature.dtype or "float32")
    shape: tuple[int | None, ...] = ()
    storage: Storage = "auto"
    multiple = 1
    if sequence is not None:
        align, multiple = sequence
        options["align"] = align if align in (None, DEFAULT_GROUP) else identifier(align, ())
    if raw is not None:
        element, shape = raw
        storage, comment = "raw", "flat; its shape is yours to say" if shape == (None,) else ""
    else:
        count = feature.values.only if feature.values else 1
        if feature.is_packed:
            storage = "packed"
            if count is not None:
                comment = f"if its one step is a vector, and no sequence: shape=({count},), and no storage"
        if multiple > 1:
            shape = (multiple,)
        elif count != 1 and storage == "auto" and (sequence is None or feature.kind == "feature_list"):
            shape = (count or None,)
        if feature.dtype == "bytes":
            comment = _bytes_comment(feature)
    kind = "context" if sequence is None else "feature_list"
    return Field(attribute, feature.name, kind, element, shape, storage, **options), comment  # type: ignore[arg-type]


def _bytes_comment(feature: FeatureDescription) -> str:
    """Format a comment that guesses what non-text bytes mean."""
    if feature.format in ("PNG", "JPEG"):
        storage = feature.format.lower()
        return f'{feature.format} images; "uint8", shape=(None, None, channels), storage="{storage}" decodes them'
    if feature.format == "TensorProto":
        return 'of tf.io.serialize_tensor; their dtype, shape=(...), storage="tensor" reads them'
    unknown = f"not text; numbers, for decode_raw? then --raw {feature.name!a}=DTYPE"
    return unknown if feature.format is None else f"{feature.format} files"


def _sequences(profile: Profile, raw: Raw) -> dict[str, tuple[str | None, int]]:
    """Find the features that are sequences.

    The result maps each of them to its alignment group and its number of values per step.

    In flat messages, a feature with a constant number of values is a value or a vector; all others are sequences. A
    sequence whose length is always a fixed multiple of another sequence's length has vectors as steps.
    """
    flat = profile.message == EXAMPLE
    sizes, steps_show = {}, set()
    for feature in profile.features:
        several = feature.values is not None and feature.values.only is None and feature.name not in raw
        if (flat and several) or feature.is_packed:
            sizes[feature.name] = profile.totals[feature.name]
        elif feature.kind == "feature_list":
            sizes[feature.name] = profile.sizes[feature.name]
            steps_show.add(feature.name)
    groups = aligned(sizes)
    best: dict[str, int] = {}
    for first in sizes.values():
        multiples = {name: times for name, counts in sizes.items() if (times := _multiple(counts, first))}
        multiples = {name: times for name, times in multiples.items() if times == 1 or name not in steps_show}
        if len(multiples) > max(len(best), 1):
            best = multiples
    if max(best.values(), default=1) == 1:
        return {name: (group, 1) for name, group in groups.items()}
    rest = aligned({name: counts for name, counts in sizes.items() if name not in best}, has_default=False)
    return {name: (DEFAULT_GROUP, best[name]) if name in best else (rest[name], 1) for name in sizes}


def _multiple(sizes: NDArray[np.int64], of: NDArray[np.int64]) -> int:
    """Compute the ratio of the sizes of two features.

    The result is 0 if the ratio is not the same integer in all records, or if too few different sizes occur to tell.
    """
    both = (sizes != ABSENT) & (of != ABSENT)
    positive = both & (of > 0)
    if np.unique(of[positive]).size < _LENGTHS:
        return 0
    first = int(np.flatnonzero(positive)[0])
    multiple = int(sizes[first] // of[first])
    return multiple if multiple and bool((sizes == multiple * of)[both].all()) else 0
