"""Helpers for testing your own record classes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.reading.read_records import read_records
from seqrecorder.schema.exact_values import holds_encoded, same_bits
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.load_hooks import Hooks, check_params
from seqrecorder.writing.writer import write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def assert_round_trip(records: Iterable[Any], **params: Any) -> None:
    """Assert that records come back bit for bit from encoding, from a dataset on disk and from the graph parser.

    >>> import numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     tokens: np.ndarray = sr.feature_list(str)
    >>> sr.testing.assert_round_trip([Sentence(["to", "be"]), Sentence([])])

    Args:
        records: one or more records of one class, whose `load` and `split` hooks run first.
        **params: parameters of the hooks.

    Raises:
        AssertionError: a field has changed; the message names the field, the record and the conversion.
        RecordError: a record cannot be encoded.
    """
    sources = list(records)
    if not sources:
        raise OptionError("assert_round_trip: expected at least one record")
    schema = Schema.of(type(sources[0]))
    check_params(schema.record_class, params)
    hooks = Hooks(schema, params, [])
    expected = [record for position, source in enumerate(sources) for record in hooks.run(position, source)]
    if not expected:
        raise OptionError("assert_round_trip: the hooks of the class left every record out")
    data = schema.encode_batch(expected)
    _compare(schema, expected, schema.decode_batch(data), "encode and decode")
    _compare(schema, expected, [schema.decode(item) for item in data[:8]], "decode one by one")
    plain, written = schema, iter(expected)
    if hooks.loads or hooks.splits:  # the hooks have run already, so the records are written as a class without hooks
        plain, written = Schema(schema.name, schema.fields), map(schema.decode, data)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "dataset")
        write({"all": written}, path, schema=plain)
        _compare(schema, expected, list(read_records(path)), "write and read_records")
    _compare_parsed(schema, expected, data)


def _compare(schema: Schema, expected: Sequence[Any], back: Sequence[Any], way: str) -> None:
    if way != "decode one by one" and len(expected) != len(back):
        raise AssertionError(f"{way}: {len(expected)} records expected, {len(back)} came back")
    for position, (before, after) in enumerate(zip(expected, back, strict=False)):
        for field in schema.fields:
            old, new = field.exact(getattr(before, field.name)), getattr(after, field.name)
            if not holds_encoded(old) and not same_bits(old, new):
                raise AssertionError(f"{way}: record {position}, field {field.name!r}: {old!r} came back as {new!r}")


def _compare_parsed(schema: Schema, expected: Sequence[Any], data: Sequence[bytes]) -> None:
    """Compare records with the tensors that the graph parser returns for them.

    Missing values are left out, and so are values that a tensor represents differently, such as sparse vectors and JPEG
    images.
    """
    import tensorflow as tf

    parse = tf.function(schema.parse, input_signature=[tf.TensorSpec((), tf.string)])
    for position, (record, item) in enumerate(zip(expected, data, strict=True)):
        tensors = parse(item)
        for field in schema.fields:
            value = getattr(record, field.name)
            if value is None or field.sparse is not None or field.storage == "jpeg":
                continue
            value = field.exact(value)
            if (field.is_ragged and field.is_list) or field.any_size or holds_encoded(value):
                continue  # such values are only compared after decoding
            got = tensors[field.name].numpy()
            want = np.asarray(value, object) if field.element.is_text else np.asarray(value)
            if field.element.name == "str":
                encoded = np.empty(want.shape, object)
                encoded[...] = np.vectorize(str.encode, otypes=[object])(want) if want.size else want
                want = encoded
            want = want if field.element.is_text else field.element.to_graph(want)
            got = np.asarray(got, object) if field.element.is_text else np.asarray(got)
            if not same_bits(want, got):
                raise AssertionError(f"parse: record {position}, field {field.name!r}: {want!r} came back as {got!r}")
