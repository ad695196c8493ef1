"""Values come back to the bit: random bits of every element type, in every kind of field, by both decoders."""

import itertools
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from hypothesis import given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from strategies import CASES, as_tensor_holds, from_tensor, records_of

import seqrecorder as sr
from seqrecorder.schema.exact_values import same_bits

RECORDS = 100
"""Records that are encoded and parsed at a time: a call costs as much as a hundred of them."""

OF_EACH_CLASS = (
    "bool",
    "uint64",
    "float16",
    "bfloat16",
    "float64",
    "complex64",
    "datetime64[ns]",
    "str",
    "bytes",
)
"""Element types of the ordinary run, which takes all of them in `test_layouts.py`."""


def random_values(dtype: str, random: np.random.Generator, size: int = 400) -> np.ndarray:
    """Return elements of random bits, or random text of every plane, mixed with the special values."""
    special = CASES[dtype].valid
    if dtype == "bool":
        return random.integers(0, 2, size) > 0
    if dtype == "bytes":
        drawn = [random.bytes(int(n)) for n in random.integers(0, 12, size)]
    elif dtype == "str":
        points = random.integers(0, 0x110000 - 0x800, (size, 6))
        points = np.where(points < 0xD800, points, points + 0x800)  # without the surrogates
        sizes = random.integers(0, 7, size)
        drawn = ["".join(map(chr, row[:n])) for row, n in zip(points, sizes, strict=True)]
    else:
        return np.concatenate([special, np.frombuffer(random.bytes(size * special.itemsize), special.dtype)])
    out = np.empty(size + len(special), object)
    out[:] = [*special, *drawn]
    return out


def family(dtype: str) -> tuple[Any, Any]:
    fields = {
        "key": sr.context(str, key=True),
        "one": sr.context(dtype),
        "some": sr.context(dtype, shape=(None,), optional=True),
        "steps": sr.feature_list(dtype),
        "ragged": sr.feature_list(dtype, shape=(None,)),
        "packed": sr.feature_list(dtype, shape=(2,), storage="packed", optional=True),
    }
    record_class = attrs.make_class("Family", fields)
    schema = sr.Schema.of(record_class)
    return record_class, tf.function(schema.parse_batch, input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.mark.parametrize(
    ("records", "dtype"),
    all_at_night(itertools.product([500, 20_000], CASES), [(500, dtype) for dtype in OF_EACH_CLASS]),
)
def test_random_bits_come_back(dtype: str, records: int, seed: int, figure: Any) -> None:
    """Records of random bits come back the same through decode and through a traced graph."""
    record_class, parse = family(dtype)

    @seeded(seed)
    @settings(max_examples=records // RECORDS, deadline=None, database=None)
    @given(
        st.integers(0, 2**32 - 1),
        st.lists(st.sampled_from([0, 1, 2, 9]), min_size=RECORDS, max_size=RECORDS),
    )
    def check(number: int, lengths: list[int]) -> None:
        assert_both_decoders(dtype, record_class, parse, np.random.default_rng(number), lengths)

    check()
    figure(10, "records of random bits of all element types", records, "the same bits")


def assert_both_decoders(
    dtype: str, record_class: Any, parse: Any, random: np.random.Generator, lengths: list[int]
) -> None:
    schema = sr.Schema.of(record_class)
    records = records_of(record_class, random_values(dtype, random), lengths, random)
    data = schema.encode_batch(records)
    assert schema.decode_batch(data) == records
    batch = parse(tf.constant(data))
    assert batch["sequence_length"].numpy().tolist() == lengths
    flat = np.concatenate([as_tensor_holds(record.steps, schema["steps"]) for record in records])
    kept = np.arange(batch["steps"].shape[1]) < np.array(lengths)[:, None]
    assert same_bits(flat, from_tensor(batch["steps"])[kept])
    want = np.stack([as_tensor_holds(record.one, schema["one"]) for record in records])
    assert same_bits(want, from_tensor(batch["one"]))
    inner = [as_tensor_holds(step, schema["ragged"]) for record in records for step in record.ragged]
    assert same_bits(np.concatenate([flat[:0], *inner]), from_tensor(batch["ragged"].flat_values))
    for row, record in enumerate(records):
        if record.packed is not None:
            want_packed = as_tensor_holds(record.packed, schema["packed"])
            assert same_bits(want_packed, from_tensor(batch["packed"][row, : lengths[row]]))
