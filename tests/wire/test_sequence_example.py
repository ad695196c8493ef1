"""Columns to bytes: what protobuf reads back, whatever the chunks; and the limit of the format."""

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_records import MANY, Mixed, mixed
from protobuf_messages import SequenceExample

import seqrecorder as sr
from seqrecorder.wire import byte_rows
from seqrecorder.wire import write as sequence_example
from seqrecorder.wire.write import Leaf, serialize

INT64 = st.integers(-(2**63), 2**63 - 1)
EDGES = st.sampled_from([0, 1, 127, 128, 2**14 - 1, 2**14, 2**63 - 1, -1, -(2**63)])
VALUES = {
    "int64": INT64 | EDGES,
    "float": st.floats(width=32, allow_nan=False),
    "bytes": st.binary(max_size=5) | st.sampled_from([b"", b"a" * 127, b"b" * 128, b"c" * 300]),
}


@attrs.frozen
class Sample:
    """One feature of N records: per record None (absent), or a list of features, each a list of values."""

    kind: str
    place: str
    records: list[Any]


@st.composite
def samples(draw: st.DrawFn, size: int) -> Sample:
    kind = draw(st.sampled_from(sorted(VALUES)))
    place = draw(st.sampled_from(["context", "steps", "packed"]))
    feature = st.lists(VALUES[kind], max_size=draw(st.sampled_from([2, 60])))
    features = st.lists(feature, max_size=4) if place == "steps" else st.lists(feature, min_size=1, max_size=1)
    if draw(st.booleans()):
        features = st.none() | features
    return Sample(kind, place, draw(st.lists(features, min_size=size, max_size=size)))


@st.composite
def messages(draw: st.DrawFn) -> tuple[int, list[Sample]]:
    size = draw(st.integers(1, 5))
    return size, draw(st.lists(samples(size), max_size=4))


def leaf_of(name: str, sample: Sample) -> Leaf:
    present = np.array([record is not None for record in sample.records])
    records = [record for record in sample.records if record is not None]
    flat = [value for record in records for feature in record for value in feature]
    counts = np.array([len(feature) for record in records for feature in record], np.int64)
    steps = np.array([len(record) for record in records], np.int64) if sample.place == "steps" else None
    values: Any = flat if sample.kind == "bytes" else np.array(flat, {"int64": "i8", "float": "f4"}[sample.kind])
    uniform = int(counts[0]) if counts.size and (counts == counts[0]).all() and counts[0] else counts
    return Leaf(name, sample.kind, sample.place, values, uniform, steps, None if present.all() else present)


def values_of(feature: Any) -> list[Any]:
    kind = feature.WhichOneof("kind")
    return list(getattr(feature, kind).value)


@settings(deadline=None, max_examples=150, derandomize=True, database=None)
@given(messages())
def test_protobuf_reads_what_was_given(message: tuple[int, list[Sample]]) -> None:
    """Protobuf parses the bytes to the given values, present or absent, in any combination."""
    size, parts = message
    data = serialize([leaf_of(f"f{i}", part) for i, part in enumerate(parts)], size)
    assert len(data) == size
    for position, item in enumerate(data):
        parsed = SequenceExample.FromString(item)
        stored = len(parsed.context.feature) + len(parsed.feature_lists.feature_list)
        assert stored == sum(part.records[position] is not None for part in parts)
        for i, part in enumerate(parts):
            expected = part.records[position]
            if expected is None:
                continue
            if part.place == "context":
                got = [values_of(parsed.context.feature[f"f{i}"])]
            else:
                got = [values_of(f) for f in parsed.feature_lists.feature_list[f"f{i}"].feature]
            assert got == expected


def test_no_records_have_no_bytes() -> None:
    """A call without records gives none."""
    assert sr.Schema.of(Mixed).encode_batch([]) == []


@pytest.mark.parametrize("chunk", [1, 2, 7, 59])
def test_chunks_do_not_change_bytes(chunk: int) -> None:
    """Encoding all records at once gives the bytes that encoding them in parts, or one by one, gives."""
    schema = sr.Schema.of(Mixed)
    parts = [schema.encode_batch(MANY[start : start + chunk]) for start in range(0, len(MANY), chunk)]
    assert [data for part in parts for data in part] == schema.encode_batch(MANY)


def test_the_way_rows_are_copied_does_not_change_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows copied one by one, or in blocks of any width, give the same bytes."""
    schema = sr.Schema.of(Mixed)
    expected = schema.encode_batch(MANY)
    for name, value in (("_LARGE_ROW", -1), ("_BLOCK", 1), ("_BLOCK", 7), ("_BLOCK", 10**4)):
        with monkeypatch.context() as patch:
            patch.setattr(byte_rows, name, value)
            assert schema.encode_batch(MANY) == expected


@pytest.mark.parametrize("few", [0, 1 << 40])
def test_headers_of_few_rows_are_the_same(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers made one by one, or all at once, are the same bytes."""
    schema = sr.Schema.of(Mixed)
    expected = [schema.encode_batch(MANY[start : start + 7]) for start in range(0, len(MANY), 7)]
    monkeypatch.setattr(sequence_example, "_FEW", few)
    assert [schema.encode_batch(MANY[start : start + 7]) for start in range(0, len(MANY), 7)] == expected


@pytest.mark.parametrize("place", ["context", "steps"])
@pytest.mark.parametrize("longest", [0, 1, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 300])
@pytest.mark.parametrize("end", ["", "\0", "ä", b"", b"\0", b"\xff"])
def test_texts_around_the_width_of_a_length(place: str, longest: int, end: str | bytes) -> None:
    """Texts whose lengths take one byte or two, with NULs or without, are read back by protobuf, beside short ones."""
    long: str | bytes = longest * "x" + end if isinstance(end, str) else longest * b"x" + end
    values = ["" if isinstance(end, str) else b"", long, long[:5], long, long[3:]]
    steps = np.ones(5, np.int64) if place == "steps" else None
    data = serialize([Leaf("t", "bytes", place, values, steps=steps)], 5)
    for item, value in zip(data, values, strict=True):
        example = SequenceExample.FromString(item)
        feature = (
            example.context.feature["t"] if place == "context" else example.feature_lists.feature_list["t"].feature[0]
        )
        assert list(feature.bytes_list.value) == [value.encode() if isinstance(value, str) else value]


def test_large_rows_are_joined_to_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of large rows become bytes at once, the same as through one array."""
    leaves = [
        Leaf("a", "float", "steps", np.arange(6, dtype="f4"), steps=np.array([2, 0, 4])),
        Leaf("b", "bytes", "context", [b"x" * 9000, b"", b"y"]),
    ]
    blob = list(serialize(leaves, 3))
    monkeypatch.setattr(byte_rows, "_LARGE_ROW", 1)
    large = serialize(leaves, 3)
    assert isinstance(large, list)
    assert large == blob


def test_features_stand_in_declaration_order() -> None:
    """Map entries are written in declaration order, so that equal records give equal bytes everywhere."""
    data = sr.Schema.of(Mixed).encode(mixed(0))
    for names in (
        ["key", "number", "bag/indices", "bag/values", "maybe_present"],
        ["ids", "words", "frames", "ragged"],
    ):
        places = [data.index(bytes([0x0A, len(name)]) + name.encode()) for name in names]
        assert places == sorted(places)


def test_a_record_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that protobuf could not take in is refused by key and position, before anything is written."""
    small, large = mixed(1), mixed(7)
    schema = sr.Schema.of(Mixed)
    sizes = list(map(len, schema.encode_batch([small, large])))
    monkeypatch.setattr(sequence_example, "MESSAGE_LIMIT", sizes[1])
    assert len(schema.encode_batch([small, large])) == 2
    monkeypatch.setattr(sequence_example, "MESSAGE_LIMIT", sizes[1] - 1)
    with pytest.raises(sr.LimitExceededError, match=r"record 1 \(key 'k7'\): .*limit .*`split`") as caught:
        schema.encode_batch([small, large])
    assert (caught.value.position, caught.value.key) == (1, "k7")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 2**14, 2**31, 2**63 - 1, -1, -128, -(2**63)])
def test_every_width_of_varint(value: int) -> None:
    """Integers at the edges of each varint width are read back by protobuf."""
    leaf = Leaf("x", "int64", "context", np.array([value, 0, value], np.int64), 3)
    [data] = serialize([leaf], 1)
    assert list(SequenceExample.FromString(data).context.feature["x"].int64_list.value) == [value, 0, value]
