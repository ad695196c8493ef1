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
from seqrecorder.wire.write import Leaf, check_limit, serialize

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


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.nightly)])
def test_protobuf_reads_what_was_given(count: int) -> None:
    """Protobuf parses the bytes to the given values, present or absent, in any combination."""
    check = settings(deadline=None, max_examples=count, derandomize=True, database=None)(given(messages())(check_bytes))
    check()


def check_bytes(message: tuple[int, list[Sample]]) -> None:
    """Assert that protobuf parses what was serialized to the given values."""
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


@pytest.mark.parametrize("chunk", [1, 2, 7, 16, 17, 59])
def test_chunks_do_not_change_bytes(chunk: int) -> None:
    """Encoding all records at once gives the bytes that encoding them in parts, or one by one, gives.

    Headers of up to sixteen rows are made one by one, those of more all at once.
    """
    schema = sr.Schema.of(Mixed)
    parts = [schema.encode_batch(MANY[start : start + chunk]) for start in range(0, len(MANY), chunk)]
    assert [data for part in parts for data in part] == schema.encode_batch(MANY)


@pytest.mark.parametrize("longest", [1, 7, 127, 128, 129, 300, 20_000])
def test_rows_of_every_length_are_joined(longest: int) -> None:
    """Rows are joined as they are, those of a block or less, of several blocks, and those that are joined as bytes."""
    random = np.random.default_rng(longest)
    columns = [[random.bytes(int(size)) for size in random.integers(0, longest + 1, 50)] for _ in range(3)]
    expected = [b"".join(row) for row in zip(*columns, strict=True)]
    blobs = list(map(byte_rows.of_list, columns))
    rows = byte_rows.joined(blobs)
    assert list(rows) == expected
    assert isinstance(rows, list) == (longest == 20_000), "large rows are bytes at once"
    assert list(byte_rows.interleave(blobs)) == expected


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


def test_large_rows_are_read_back() -> None:
    """Records of large rows become bytes at once, which protobuf reads back."""
    floats, blobs = np.arange(6, dtype="f4"), [b"x" * 900_000, b"", b"y"]
    steps = np.array([2, 0, 4])
    large = serialize([Leaf("a", "float", "steps", floats, steps=steps), Leaf("b", "bytes", "context", blobs)], 3)
    assert isinstance(large, list)
    for data, blob, count, start in zip(large, blobs, steps.tolist(), [0, 2, 2], strict=True):
        example = SequenceExample.FromString(data)
        assert list(example.context.feature["b"].bytes_list.value) == [blob]
        features = example.feature_lists.feature_list["a"].feature
        assert [list(one.float_list.value) for one in features] == [[x] for x in floats[start : start + count]]


def test_features_stand_in_declaration_order() -> None:
    """Map entries are written in declaration order, so that equal records give equal bytes everywhere."""
    data = sr.Schema.of(Mixed).encode(mixed(0))
    for names in (
        ["key", "number", "bag/indices", "bag/values", "maybe_present"],
        ["ids", "words", "frames", "ragged"],
    ):
        places = [data.index(bytes([0x0A, len(name)]) + name.encode()) for name in names]
        assert places == sorted(places)


def test_a_record_over_the_limit_is_refused() -> None:
    """A record that protobuf could not take in is refused by its position; `test_extremes` writes one."""
    check_limit(np.array([0, 2**31 - 1]))
    with pytest.raises(sr.LimitExceededError, match=r"^record 1: 2147483648 bytes .*limit .*`split`") as caught:
        check_limit(np.array([7, 2**31, 2**31]))
    assert caught.value.position == 1


@pytest.mark.parametrize("value", [0, 1, 127, 128, 2**14, 2**31, 2**63 - 1, -1, -128, -(2**63)])
def test_every_width_of_varint(value: int) -> None:
    """Integers at the edges of each varint width are read back by protobuf."""
    leaf = Leaf("x", "int64", "context", np.array([value, 0, value], np.int64), 3)
    [data] = serialize([leaf], 1)
    assert list(SequenceExample.FromString(data).context.feature["x"].int64_list.value) == [value, 0, value]
