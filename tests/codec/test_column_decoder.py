"""Columns in numpy: those of the graph parser, for every kind of field, layout and record, or refused as there."""

import itertools
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from decoders import bits_of, compare_columns, graph_columns
from strategies import CASES, class_of, records_of, some_fields
from test_decode_one import Mixed, changed, mixed

import seqrecorder as sr
from seqrecorder.codec.decode import ColumnDecoder
from seqrecorder.codec.flat_values import Broken
from seqrecorder.wire.byte_rows import Messages, varint

MIXED = sr.Schema.of(Mixed)


@sr.record(kw_only=True)
class Lacking:
    """All that may lack, with and without defaults."""

    key: str = sr.context(str, key=True)
    number: int = sr.context("int16", default=-3)
    name: str | None = sr.context(str, optional=True, default="no")
    vector: Any = sr.context("float32", shape=(2,), optional=True, default=None)
    open_ended: Any = sr.context("int64", shape=(None, 2), default=[[1, 2], [3, 4]])
    bag: Any = sr.context("float32", sparse=9, default={3: 1.0})
    ids: Any = sr.feature_list("int64", default=[7, 8])
    words: Any = sr.feature_list(str, optional=True, default=["a", "b"])
    alternatives: Any = sr.feature_list("int64", shape=(None,), align=None, default=[[1], [], [2, 3]])
    bags: Any = sr.feature_list("int64", sparse=4, optional=True, default=None, align=None)
    sound: Any = sr.feature_list("int16", storage="buffer", align=None, default=[-1])
    none: Any = sr.feature_list("float64", storage="raw", align=None, default=[])


LACKING = sr.Schema.of(Lacking)


def lacking(random: np.random.Generator, count: int) -> list[bytes]:
    """Records of which each lacks some features, and holds some empty."""
    data = []
    for number in range(count):
        steps = int(random.integers(0, 3))
        message = tf.train.SequenceExample.FromString(
            LACKING.encode(
                Lacking(
                    key=f"k{number}", vector=[1, 2], ids=np.arange(steps), words=["x"] * steps, bags=[{1: 2}, {}],
                    name=None if random.random() < 0.3 else "n",
                )
            )
        )  # fmt: skip
        for features in (message.context.feature, message.feature_lists.feature_list):
            for name in sorted(features):
                if name != "key" and random.random() < 0.05:
                    del features[name]
                elif name != "key" and random.random() < 0.03:
                    features[name].Clear()
        data.append(message.SerializeToString(deterministic=True))
    return data


@pytest.mark.parametrize(
    ("dtype", "part"),
    all_at_night(
        itertools.product(["bool", "uint64", "bfloat16", "float16", "str"], ["some", "whole"]),
        [("bool", "some"), ("bfloat16", "some"), ("float16", "some"), ("str", "some")],
    ),
)
def test_every_kind_of_field_is_as_in_a_graph(dtype: str, part: str, random: np.random.Generator) -> None:
    """Records of every kind, shape, storage and presence give the columns of the graph parser, together and alone."""
    schema = sr.Schema.of(class_of(dtype))
    if part == "some":
        schema = some_fields(schema, dtype, 0, 4)
    records = records_of(schema.record_class, CASES[dtype].valid, [0, 1, 2, 30, 0, 3], random)
    data = schema.encode_batch(records)
    decoder = ColumnDecoder(schema, "steps")
    graph = graph_columns(schema, "steps", data)
    for number, one in enumerate(data):
        columns = decoder.decode(Messages.of([one]))
        for field in schema.fields:
            assert bits_of(field, columns[field.name]) == bits_of(field, graph[number][field.name]), field
    assert schema.decode_batch(data) == records


@pytest.mark.parametrize("layout", ["packed", "example"])
def test_sequences_of_other_layouts_are_as_in_a_graph(layout: Any, random: np.random.Generator) -> None:
    """Whole sequences in one Feature, of a FeatureList or of a flat Example, and changed bytes of both."""

    @sr.record
    class Rows:
        key: str = sr.context(str, key=True)
        ids: Any = sr.feature_list("int64")
        x: Any = sr.feature_list("float32", shape=(2,))
        raw: Any = sr.feature_list("int16", storage="raw", align=None)
        words: Any = sr.feature_list(str, default=[])

    data = []
    for steps in (0, 1, 2, 5, 3):
        message = tf.train.SequenceExample()
        message.context.feature["key"].bytes_list.value.append(b"k")
        lists = message.feature_lists.feature_list
        ids, x, words, raw = (
            message.context.feature[name] if layout == "example" else lists[name].feature.add()
            for name in ("ids", "x", "words", "raw")
        )
        ids.int64_list.value.extend(range(-1, steps - 1))
        x.float_list.value.extend([0.5] * (2 * steps))
        words.bytes_list.value.extend([b"w", b"", b"\xc3\xa9", b"long" * 50, b"x"][:steps])
        raw.bytes_list.value.append(np.arange(steps).astype("<i2").tobytes())
        data.append(message.SerializeToString(deterministic=True))
    assert compare_columns(sr.Schema.of(Rows), layout, data)["accepted"] == 5
    assert compare_columns(sr.Schema.of(Rows), layout, changed(random, data, 400))["accepted"] > 10


def check_changed(schema: sr.Schema, data: list[bytes], random: np.random.Generator, count: int) -> None:
    assert compare_columns(schema, "steps", data)["accepted"] > len(data) // 10
    found = compare_columns(schema, "steps", changed(random, data, count))
    assert found["accepted"] > count // 50


SAMPLES = {
    "mixed": lambda random: (MIXED, MIXED.encode_batch([mixed(random, n) for n in (0, 1, 2, 3, 2, 1, 40)])),
    "lacking": lambda random: (LACKING, lacking(random, 60)),
}


@pytest.mark.parametrize("samples", SAMPLES)
def test_changed_records_are_as_in_a_graph(samples: str, random: np.random.Generator) -> None:
    """Whatever becomes of records when bytes are changed, put in or cut out: the same columns, or both refuse them."""
    check_changed(*SAMPLES[samples](random), random, 200)


def test_a_feature_that_spans_the_next_one_too() -> None:
    """A step of a sparse field whose length is that of two: both are steps, as in a graph, and not one too few."""

    @sr.record
    class Bags:
        bags: Any = sr.feature_list("int64", sparse=9)

    data = sr.Schema.of(Bags).encode(Bags([{}, {5: 7}]))
    one = b"\x0a\x02\x1a\x00\x0a\x05\x1a\x03\x0a\x01\x05"
    assert data.count(one) == 1
    spanning = data.replace(one, b"\x0a\x09" + one[2:])
    assert compare_columns(sr.Schema.of(Bags), "steps", [data, spanning]) == {"accepted": 2}


def test_a_feature_of_which_nothing_is_left() -> None:
    """A feature whose list ends early is followed by another; one that has a length and no bytes is refused."""

    @sr.record
    class Tags:
        tags: Any = sr.feature_list("int64", shape=(None,))

    data = []
    for rest in (b"", b"\n\x00", b"\n\x06", b"\n\x02", b"\n\x01"):
        steps = b"\n\x05\x1a\x03\n\x01\x01" + b"\n" + bytes([4 + len(rest), 0x1A, 2 + len(rest)]) + b"\n\x00" + rest
        entry = b"\n\x04tags\x12" + varint(len(steps)) + steps
        half = b"\n" + varint(len(entry)) + entry
        data.append(b"\x12" + varint(len(half)) + half)
    assert compare_columns(sr.Schema.of(Tags), "steps", data) == {"accepted": 2, "refused": 3}


@pytest.mark.nightly
@pytest.mark.parametrize("samples", SAMPLES)
def test_many_changed_records_are_as_in_a_graph(samples: str, random: np.random.Generator) -> None:
    """The same of fifty thousand."""
    check_changed(*SAMPLES[samples](random), random, 50_000)


def test_records_in_many_forms_are_those_in_one(random: np.random.Generator) -> None:
    """Among plain ones, records in other forms are decoded as well: halves apart, unpacked numbers, other fields."""
    records = [mixed(random, steps) for steps in (2, 0, 3, 1, 90)]
    data = MIXED.encode_batch(records)
    message = tf.train.SequenceExample.FromString(data[0])
    halves = [tf.train.SequenceExample() for _ in range(3)]
    halves[0].context.CopyFrom(message.context)
    halves[1].context.feature["small"].int64_list.value.append(0)  # of several under one key the last counts
    halves[2].feature_lists.CopyFrom(message.feature_lists)
    apart = b"".join(half.SerializeToString() for half in (halves[1], halves[0], halves[2]))
    unpacked = data[1].replace(b"small\x12\x05\x1a\x03\n\x01", b"small\x12\x04\x1a\x02\x08")
    tried = [data[2], apart, data[3], b"\x18\x07" + data[4], data[1], data[0] + b"\x2a\x03abc"]
    assert MIXED.decode_batch(tried) == [records[i] for i in (2, 0, 3, 4, 1, 0)]
    assert unpacked != data[1] or records[1].small < 0
    compare_columns(MIXED, "steps", [unpacked])


def test_texts_that_look_like_steps(random: np.random.Generator) -> None:
    """Texts that hold the bytes of headers, NULs and line ends, and long ones among short, are what was written."""
    record_class = attrs.make_class("Text", {"words": sr.feature_list(bytes), "texts": sr.feature_list(str)})
    header = b"\n\x06\n\x04\n\x02"
    words = [
        header,
        header + b"ab",
        header * 4,
        b"\n" * 9,
        b"\0",
        b"",
        b"x" * 121,
        b"x" * 122,
        b"y" * 20_000,
        b"\n\x04",
    ]
    records = []
    for _ in range(300):
        chosen = [words[i] for i in random.integers(0, len(words), int(random.integers(0, 6)))]
        records.append(record_class(chosen, [word.decode() for word in chosen]))
    schema = sr.Schema.of(record_class)
    assert schema.decode_batch(schema.encode_batch(records)) == records


def test_numbers_of_every_size(random: np.random.Generator) -> None:
    """Ints of one to ten bytes, alone in a step, in vectors, and packed."""
    fields = {"one": sr.feature_list("int64"), "two": sr.feature_list("int64", shape=(2,))}
    record_class = attrs.make_class("Numbers", {**fields, "packed": sr.feature_list("int64", storage="packed")})
    schema = sr.Schema.of(record_class)
    records = []
    for _ in range(200):
        steps = int(random.integers(0, 5))
        numbers = (random.integers(0, 2**63 - 1, (4, steps)) >> random.integers(0, 63, (4, steps))) * random.choice(
            [1, 1, -1], (4, steps)
        )
        records.append(record_class(numbers[0], numbers[1:3].T, numbers[3]))
    assert schema.decode_batch(schema.encode_batch(records)) == records


def test_the_first_broken_record_is_named(random: np.random.Generator) -> None:
    """Though another field of a later one is looked at before."""
    data = MIXED.encode_batch([mixed(random, 2) for _ in range(20)])
    late = tf.train.SequenceExample.FromString(data[9])
    late.context.feature["small"].int64_list.value[0] = 300
    early = tf.train.SequenceExample.FromString(data[5])
    del early.feature_lists.feature_list["words"].feature[1]
    data[9], data[5] = late.SerializeToString(), early.SerializeToString()
    with pytest.raises(Broken) as caught:
        ColumnDecoder(MIXED, "steps").decode(Messages.of(data))
    assert (caught.value.record, caught.value.field) == (5, "words")
