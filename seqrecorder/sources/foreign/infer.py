"""A schema inferred from TFRecord files that others wrote, and its class to paste.

What is inferred holds for the records that were looked at: how many values each feature has, in which list, and which
of them are equally long. What bytes mean to `tf.io.decode_raw` is nowhere in the files; that must be said.
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.dataset.resolve import common_compression
from seqrecorder.errors import OptionError, SchemaError, SchemaMismatchError, did_you_mean
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import DEFAULT_GROUP, Field, check_together
from seqrecorder.schema.schema import Schema
from seqrecorder.schema.source_code import RESERVED, draft, identifier
from seqrecorder.sources.foreign.profile import ABSENT, EXAMPLE, Range, aligned
from seqrecorder.sources.foreign.profile import profile as profile_of
from seqrecorder.storage.paths import files_named
from seqrecorder.storage.shard import RecordReader
from seqrecorder.storage.tfrecord.check import check_walk
from seqrecorder.storage.tfrecord.format import check_compression

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.parsing_spec import Layout
    from seqrecorder.schema.dtypes import ElementType
    from seqrecorder.schema.field import Storage
    from seqrecorder.sources.foreign.profile import FeatureDescription, Profile

    Shape = tuple[int | None, ...]
    Raw = Mapping[str, tuple[ElementType, Shape]]
    """By the names of features that `tf.io.decode_raw` makes numbers of: their type and shape."""

_READ = 64  # records at a time
_LENGTHS = 2  # distinct ones, before a multiple of them is taken for more than chance


@attrs.frozen(repr=False)
class Inference:
    """What was inferred.

    Attributes:
        schema: the fields.
        layout: how sequences lie in the messages: `steps`, or `example` for flat ones. A list whose sequences are one
            feature each is declared `storage="packed"`, which is read under `steps`.
        message: `tf.train.SequenceExample` or `tf.train.Example`.
        records: how many were looked at.
        undeclared: by name, why no field stands for a feature.
        comments: by field, what the inference leaves open.
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
        """Source code of the class."""
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
        paths: a file, a glob or a list of files, plain or in GZIP.
        name: of the class.
        raw: for features whose bytes `tf.io.decode_raw` makes numbers of, their dtype (little-endian).
        shapes: for such features, their shape, whose first dimension may be None; without it they are flat.
        key: name of the feature that identifies a record.
        records: how many to look at, dealt among the files; None for all.
        compression: None looks at each file's first bytes.

    Raises:
        DatasetNotFoundError: there is no such file.
        ShardReadError: a file is damaged.
        SchemaMismatchError: the messages are of another kind, or what is `raw` holds no bytes.
        SchemaError: no feature can be declared.
        OptionError: options make no sense.
    """
    if not name.isidentifier() or name in RESERVED or keyword.iskeyword(name):
        raise OptionError(f"name: expected a class's name, got {name!r}")
    if records is not None and (not isinstance(records, int) or isinstance(records, bool) or records < 1):
        raise OptionError(f"records: expected a number of 1 or more, or None for all, got {records!r}")
    declared = _declared(raw or {}, shapes or {})
    files = files_named(paths)
    found = profile_of(_sample(files, records, compression))
    if not found.features:
        raise SchemaMismatchError(f"{files[0]}{f' and {len(files) - 1} more' if files[1:] else ''}: {found.message}")
    _check_named(found, [*declared, *([key] if key else [])])
    for feature in found.features:
        if feature.name in declared and (feature.dtype not in ("bytes", "str", None) or not _is_single(feature.values)):
            held = f"{feature.values} values of {feature.dtype}"
            raise SchemaMismatchError(f"raw: expected one bytes value to decode in {feature.name!r}, got {held}")
    inference = infer_profile(found, name, declared, key)
    if not inference.schema.fields:
        raise SchemaError(
            "no feature can be declared: " + "; ".join(f"{name!r}: {why}" for name, why in inference.undeclared.items())
        )
    return inference


def _declared(raw: Mapping[str, Any], shapes: Mapping[str, Any]) -> Raw:
    """Check the dtypes and shapes of bytes for `tf.io.decode_raw`; see `infer`."""
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


def _is_single(values: Range | None) -> bool:
    return values is None or values.most <= 1


def _sample(files: Sequence[Path], records: int | None, compression: str | None) -> Iterator[bytes]:
    """Yield some records of each file."""
    each = None if records is None else -(-records // len(files))
    found = common_compression(files, check_compression(compression))
    for path in files:
        check_walk(path, found, -1, path)  # TensorFlow takes some cuts for the end, and some headers kill it
        position = 0
        for window in RecordReader(path, found, _READ if each is None else min(each, _READ)):
            for data in window:
                yield data
                position += 1
                if position == each:
                    break
            if position == each:
                break


def _check_named(profile: Profile, named: Sequence[str]) -> None:
    have = {feature.name for feature in profile.features}
    for name in named:
        if name not in have:
            raise OptionError(
                f"there is no feature {name!r}{did_you_mean(name, have)}; there is {', '.join(sorted(have))}"
            )


def infer_profile(profile: Profile, name: str = "Record", raw: Raw | None = None, key: str | None = None) -> Inference:
    """Return what the features of some messages come to, as fields; see `infer`."""
    flat = profile.message == EXAMPLE
    basis = _Basis(profile, raw or {}, _sequences(profile, raw or {}), key)
    fields: list[Field] = []
    comments: dict[str, str] = {}
    undeclared: dict[str, str] = {}
    lists = {feature.name for feature in profile.features if feature.kind == "feature_list"}
    for feature in _in_order(profile):
        if feature.kind == "context" and feature.name in lists:
            undeclared[feature.name] = (
                "it is a feature list of some records and a context feature as well; if some files hold "
                "tf.train.Examples, take them apart from those of tf.train.SequenceExamples"
            )
            continue
        attribute = identifier(feature.name, [field.name for field in fields])
        try:
            field, comment = _field(feature, attribute, basis)
            check_together(name, (*fields, field))
        except SchemaError as error:
            undeclared[feature.name] = str(error)
            continue
        fields.append(field)
        if comment:
            comments[attribute] = comment
    schema = Schema(name, tuple(fields))
    return Inference(schema, "example" if flat else "steps", profile.message, profile.records, undeclared, comments)


@attrs.frozen
class _Basis:
    """What fields are made from, besides their features."""

    profile: Profile
    raw: Raw
    sequences: Mapping[str, tuple[str | None, int]]
    key: str | None


def _in_order(profile: Profile) -> list[FeatureDescription]:
    """Return the features, context before lists.

    Those that only say of an optional field whether it has a value are left out: they come with the field.
    """
    presence = {f"{feature.name}_present" for feature in profile.features if feature.present < profile.records}
    return [
        feature
        for feature in profile.features
        if feature.name not in presence
        or (feature.kind, feature.dtype, feature.values) != ("context", "int64", Range(1, 1))
    ]


def _field(feature: FeatureDescription, attribute: str, basis: _Basis) -> tuple[Field, str]:
    """Return the field of a feature, and what is left open about it.

    Raises:
        SchemaError: its values are of several types, or no field can hold them.
    """
    if feature.dtype == "mixed":
        raise SchemaError("it has values of several types")
    options: dict[str, Any] = {"key": feature.name == basis.key}
    if feature.present < basis.profile.records:
        options |= {"optional": True, "default": None}
    comment = "it never has a value: the dtype is a guess" if feature.dtype is None else ""
    element = element_type(feature.dtype or "float32")
    shape: tuple[int | None, ...] = ()
    storage: Storage = "auto"
    align, multiple = basis.sequences.get(feature.name, (None, 1))
    is_list = feature.name in basis.sequences
    if is_list:
        options["align"] = align if align in (None, DEFAULT_GROUP) else identifier(align, ())
    raw = basis.raw.get(feature.name)
    if raw is not None:
        element, shape = raw
        storage, comment = "raw", "flat; its shape is yours to say" if shape == (None,) else ""
    else:
        count = feature.values.only if feature.values else 1
        if basis.profile.is_packed(feature):
            storage = "packed"
            if count is not None:
                comment = f"if its one step is a vector, and no sequence: shape=({count},), and no storage"
        if multiple > 1:
            shape = (multiple,)
        elif count != 1 and storage == "auto" and not (is_list and feature.kind == "context"):
            shape = (count or None,)
        if feature.dtype == "bytes":
            comment = _bytes_comment(feature)
    kind = "feature_list" if is_list else "context"
    return Field(attribute, feature.name, kind, element, shape, storage, **options), comment  # type: ignore[arg-type]


def _bytes_comment(feature: FeatureDescription) -> str:
    """Return what bytes that are no text may be."""
    if feature.format in ("PNG", "JPEG"):
        storage = feature.format.lower()
        return f'{feature.format} images; if of one size: "uint8", shape=(height, width, channels), storage="{storage}"'
    if feature.format is not None:
        return f"{feature.format} files"
    return f"not text; numbers, for decode_raw? then --raw {feature.name!a}=DTYPE"


def _sequences(profile: Profile, raw: Raw) -> dict[str, tuple[str | None, int]]:
    """Return which features are sequences: their alignment group, and the values to a step where steps do not show.

    In flat messages a feature whose number of values is always the same is one value or one vector; all others are
    sequences. One that always has a fixed multiple of another's length has vectors for steps.
    """
    flat = profile.message == EXAMPLE
    sizes, steps_show = {}, set()
    for feature in profile.features:
        several = feature.values is not None and feature.values.only is None and feature.name not in raw
        if (flat and several) or profile.is_packed(feature):
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
    """Return how many times as many values a feature always has, 0 where that is no whole number."""
    both = (sizes != ABSENT) & (of != ABSENT)
    some = both & (of > 0)
    if np.unique(of[some]).size < _LENGTHS:
        return 0
    first = int(np.flatnonzero(some)[0])
    multiple = int(sizes[first] // of[first])
    return multiple if multiple and bool((sizes == multiple * of)[both].all()) else 0
