"""Conversion of TFRecord files written by other programs to a dataset.

The inference of their schema is in `seqrecorder.sources.foreign.infer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import OptionError, SchemaMismatchError
from seqrecorder.reading.read_records import read_records
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.foreign.infer import Inference, infer
from seqrecorder.storage.files import files_named
from seqrecorder.writing.writer import shows_options, write

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.writing.writer import WriteKeywords


@attrs.frozen
class Conversion:
    """Result of `convert`: the dataset, and the inferred schema.

    Attributes:
        manifest: manifest of the dataset.
        inference: inferred schema with comments; None if a schema was passed.
    """

    manifest: Manifest
    inference: Inference | None


@shows_options
def convert(
    paths: Any,
    destination: str | os.PathLike[str],
    *,
    schema: object = None,
    name: str = "Record",
    raw: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Any] | None = None,
    key: str | None = None,
    leave_out: Sequence[str] = (),
    **options: Unpack[WriteKeywords],
) -> Conversion:
    """Write the records of TFRecord files as a dataset.

    >>> import os, tempfile, tensorflow as tf
    >>> path = os.path.join(tempfile.mkdtemp(), "old.tfrecord")
    >>> with tf.io.TFRecordWriter(path) as file:
    ...     for ids in ([1, 2, 3], [4]):
    ...         example = tf.train.Example()
    ...         example.features.feature["ids"].int64_list.value.extend(ids)
    ...         file.write(example.SerializeToString())
    >>> done = convert(path, tempfile.mkdtemp())
    >>> print(done.inference.draft)
    @sr.record
    class Record:
        ids: np.ndarray = sr.feature_list("int64")
    >>> done.manifest.records
    2

    Without a schema, an extra pass over all records infers one, so that no feature is lost. With a schema, only its
    fields are read, in one pass.

    Args:
        paths: path, glob or list of paths; or mapping from split to any of these.
        destination: directory of the dataset.
        schema: record class or schema of the records; None to infer it.
        name: name of the inferred record class.
        raw: mapping from feature name to the dtype of its bytes, decoded as by `tf.io.decode_raw`.
        shapes: mapping from feature name to shape, for features in `raw`.
        key: name of the feature that identifies a record; None if there is none.
        leave_out: names of features to leave out of the dataset.
        **options: the fields of `WriteOptions`.

    Returns:
        The manifest of the dataset, and the inference.

    Raises:
        SchemaMismatchError: a feature cannot be declared, or the files do not fit `schema`, `raw` or any known format.
        DatasetExistsError: the destination exists.
        RecordError: a record does not fit the schema; nothing is published.
    """
    named = dict(paths) if isinstance(paths, Mapping) else {"": paths}
    if not named:
        raise OptionError("expected the files of at least one split, got none")
    splits = {split: files_named(files) for split, files in named.items()}
    inference, layout = None, "auto"
    if schema is None:
        inference = infer(list(chain(*splits.values())), name=name, raw=raw, shapes=shapes, key=key, records=None)
        inference = _without(inference, leave_out)
        schema, layout = inference.schema, inference.layout
    elif raw or shapes or key or leave_out:
        raise OptionError("raw, shapes, key and leave_out are only for an inferred schema; leave them out with schema=")
    known = Schema.of(schema)
    reading = known.with_encoded_images
    sources = {split: read_records(files, schema=reading, layout=layout) for split, files in splits.items()}  # type: ignore[call-overload]
    records: Any = sources if isinstance(paths, Mapping) else sources[""]
    return Conversion(write(records, destination, schema=known, **options), inference)


def _without(inference: Inference, leave_out: Sequence[str]) -> Inference:
    """Remove features from an inference, and check that all others can be declared.

    Raises:
        SchemaMismatchError: a remaining feature cannot be declared.
    """
    undeclared = {name: why for name, why in inference.undeclared.items() if name not in leave_out}
    if undeclared:
        text = "these features cannot be declared; leave them out, by name (leave_out), or give a schema:"
        raise SchemaMismatchError(text, [f"{name!r}: {why}" for name, why in undeclared.items()])
    kept = tuple(field for field in inference.schema.fields if field.feature not in leave_out)
    unknown = set(leave_out) - {field.feature for field in inference.schema.fields} - set(inference.undeclared)
    if unknown or not kept:
        what = f"there is no feature {', '.join(map(repr, sorted(unknown)))}" if unknown else "nothing would be left"
        raise OptionError(f"leave_out: {what}")
    return attrs.evolve(inference, schema=attrs.evolve(inference.schema, fields=kept), undeclared={})
