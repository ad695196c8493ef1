"""One record at a time: the same as in a batch, or left to the batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from strategies import CASES, class_of, records_of

import seqrecorder as sr
from seqrecorder.codec.columns import builder
from seqrecorder.codec.decode import RecordDecoder, SingleDecoder


@sr.record(kw_only=True)
class Mixed:
    key: str = sr.context(str, key=True)
    small: int = sr.context("int8")
    flag: bool = sr.context(bool, name="s" * 128)
    vector: np.ndarray = sr.context("float32", shape=(3,))
    when: np.datetime64 | None = sr.context("datetime64[s]", optional=True, default=None)
    bag: sr.SparseVector = sr.context("float32", sparse=50)
    ids: np.ndarray = sr.feature_list("int64")
    tokens: np.ndarray = sr.feature_list(str)
    frames: np.ndarray = sr.feature_list("float32", shape=(2,))
    alternatives: list = sr.feature_list("int64", shape=(None,), name="\u4e2d" * 100)
    doubles: np.ndarray = sr.feature_list("float64", storage="raw")
    bags: list = sr.feature_list("int64", sparse=9)
    packed: np.ndarray = sr.feature_list("uint16", storage="packed")
    levels: np.ndarray = sr.feature_list("int8")
    words: list = sr.feature_list(str, shape=(None,))


def mixed(random: np.random.Generator, steps: int) -> Mixed:
    def numbers() -> np.ndarray:
        return random.integers(0, 2 ** random.integers(1, 62), steps) * random.choice([1, -1])

    def bag(size: int) -> dict[int, int]:
        return {int(i): int(i) + 1 for i in random.choice(size, random.integers(0, 4), replace=False)}

    return Mixed(
        key=f"k{random.integers(1000)}" * int(random.choice([1, 60])),
        small=int(random.integers(-128, 128)),
        flag=bool(random.integers(2)),
        vector=random.random(3).astype("float32"),
        when=np.datetime64(int(random.integers(10**9)), "s") if random.random() < 0.5 else None,
        bag=bag(50),
        ids=numbers(),
        tokens=["é" * int(random.integers(0, 3)) * int(random.choice([1, 90])) for _ in range(steps)],
        frames=random.random((steps, 2)).astype("float32"),
        alternatives=[numbers()[: random.integers(0, 3)] for _ in range(steps)],
        doubles=random.random(steps),
        bags=[bag(9) for _ in range(steps)],
        packed=numbers() & 0xFFFF,
        levels=random.integers(-128, 128, steps),
        words=[["x"] * int(random.integers(0, 3)) for _ in range(steps)],
    )


def in_batch(schema: sr.Schema, data: list[bytes]) -> list[Any]:
    """The records as the batch decoder gives them, also one alone."""
    return RecordDecoder(schema).decode_batch([*data, data[0]])[:-1]


def alone(schema: sr.Schema) -> Callable[[bytes], Any]:
    """Make the decoder of records one by one; it returns None for one that it leaves to the batch."""
    decoder, build = SingleDecoder(schema), builder(schema)

    def decode(data: bytes) -> Any:
        values = decoder.values(data)
        return None if values is None else build([[value] for value in values])[0]

    return decode


def assert_same(one: Any, other: Any) -> None:
    assert one == other
    for name in one.__class__.__annotations__ if hasattr(one.__class__, "__annotations__") else ():
        left, right = getattr(one, name), getattr(other, name)
        assert type(left) is type(right), name
        if isinstance(left, np.ndarray):
            assert (left.dtype, left.shape, left.flags.writeable) == (right.dtype, right.shape, True), name


@pytest.mark.parametrize("dtype", sorted(CASES))
def test_every_kind_of_field_is_as_in_a_batch(dtype: str, random: np.random.Generator) -> None:
    """Records of every dtype, kind, shape and storage are those of the batch decoder, to the bit."""
    whole = sr.Schema.of(class_of(dtype))
    schema = whole.select([field.name for field in whole.fields if field.storage != "tensor"])
    values = CASES[dtype].valid
    if dtype in ("float16", "bfloat16"):
        values = values[np.isfinite(values.astype("float32"))]  # the bits of a NaN are the batch's
    records = records_of(class_of(dtype), values, [0, 1, 2, 5, 3, 0, 40], random)
    data = whole.encode_batch(records)
    decode = alone(schema)
    for item, expected in zip(data, in_batch(schema, data), strict=True):
        assert_same(decode(item), expected)
    assert (alone(whole)(data[0]) is None) == (schema is not whole)  # tensors are TensorFlow's


def test_mixed_records_are_as_in_a_batch(random: np.random.Generator) -> None:
    """Records with fields of all kinds are those of the batch decoder, those that protobuf itself wrote too."""
    schema = sr.Schema.of(Mixed)
    data = schema.encode_batch([mixed(random, int(random.choice([0, 1, 2, 7, 130]))) for _ in range(60)])
    again = [tf.train.SequenceExample.FromString(item).SerializeToString() for item in data]
    decode = alone(schema)
    expected = in_batch(schema, data)
    for items in (data, again):
        for item, record in zip(items, expected, strict=True):
            assert_same(decode(item), record)
    assert schema.decode(data[0]) == expected[0]


DEFAULTS = {"str": "é", "bytes": b"x", "bool": True, "int8": -3, "uint64": 2**63, "float16": 0.1, "float64": 0.1}
DEFAULTS |= {"datetime64[D]": np.datetime64("2026-01-01"), "timedelta64[s]": np.timedelta64(5, "s"), "float32": 2.5}


def test_records_that_lack_fields_are_as_in_a_batch() -> None:
    """A record of an older class has defaults and None, of the types that a batch gives."""

    @sr.record
    class Old:
        ids: np.ndarray = sr.feature_list("int64")

    added = {f"f{n}": sr.context(name, default=value) for n, (name, value) in enumerate(DEFAULTS.items())}
    added |= {
        f"o{n}": sr.context(name, default=value, optional=True) for n, (name, value) in enumerate(DEFAULTS.items())
    }
    added |= {"none": sr.context("int8", optional=True, default=None)}
    added |= {"marks": sr.feature_list("float32", optional=True, default=None)}
    new = sr.record(type("New", (Old,), {"__annotations__": dict.fromkeys(added, Any), **added}))
    schema, data = sr.Schema.of(new), sr.Schema.of(Old).encode(Old(np.arange(3)))
    one = alone(schema)(data)
    assert one is not None
    assert_same(one, in_batch(schema, [data])[0])


def changed(random: np.random.Generator, data: list[bytes], count: int) -> list[bytes]:
    """Records with some bytes set, cut out, doubled or put in."""
    out = []
    for _ in range(count):
        item = bytearray(data[random.integers(len(data))])
        for _ in range(random.integers(1, 3)):
            place, size = int(random.integers(len(item))), int(random.integers(1, 9))
            way = random.integers(4)
            if way == 0:
                item[place] = int(random.choice([0, 1, 2, 10, 18, 26, 127, 128, 255, random.integers(256)]))
            elif way == 1:
                del item[place : place + size]
            elif way == 2:
                item[place:place] = item[place : place + size]
            else:
                item[place] = (item[place] + int(random.choice([-1, 1]))) % 256
        out.append(bytes(item))
    return out


def check_changed(random: np.random.Generator, count: int) -> None:
    schema = sr.Schema.of(Mixed)
    data = schema.encode_batch([mixed(random, steps) for steps in (0, 1, 2, 3, 2, 1)])
    decode = alone(schema)
    tried = [(item, decode(item)) for item in changed(random, data, count)]
    taken = [(item, record) for item, record in tried if record is not None]
    assert len(taken) > count // 50
    for (_, one), other in zip(taken, in_batch(schema, [item for item, _ in taken]), strict=True):
        assert_same(one, other)


def test_changed_records_are_left_to_the_batch(random: np.random.Generator) -> None:
    """Whatever is decoded of bytes that were changed, the batch decoder takes too, for the same values."""
    check_changed(random, 2000)


@pytest.mark.nightly
def test_many_changed_records_are_left_to_the_batch(random: np.random.Generator) -> None:
    """The same of a hundred thousand."""
    check_changed(random, 100_000)


def test_what_is_wrong_is_said_by_the_batch() -> None:
    """Records that lack a field, have another's values or other lengths are errors as before."""
    schema = sr.Schema.of(Mixed)
    good = schema.encode(mixed(np.random.default_rng(0), 2))
    message = tf.train.SequenceExample.FromString(good)
    del message.context.feature["small"]
    with pytest.raises(sr.RecordError, match="small"):
        schema.decode(message.SerializeToString())
    message = tf.train.SequenceExample.FromString(good)
    message.context.feature["small"].int64_list.value[0] = 300
    with pytest.raises(sr.RecordError, match="int8"):
        schema.decode(message.SerializeToString())
    message = tf.train.SequenceExample.FromString(good)
    message.feature_lists.feature_list["levels"].feature[1].int64_list.value[0] = 300
    with pytest.raises(sr.RecordError, match="int8 are expected in 'levels', got 300"):
        schema.decode(message.SerializeToString())
    message = tf.train.SequenceExample.FromString(good)
    del message.feature_lists.feature_list["ids"].feature[0]
    with pytest.raises(sr.RecordError, match="as many steps"):
        schema.decode(message.SerializeToString())
    for wrong in (b"x", bytearray(good), 3):
        with pytest.raises(sr.RecordError):
            schema.decode(wrong)  # type: ignore[arg-type]
