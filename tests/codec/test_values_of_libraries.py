"""Dtypes and values of TensorFlow, pandas, polars and Arrow, as declarations and records take them."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.exact_values import Mismatch, exact_array, same_bits, zone_of

ZONED = dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))


@pytest.mark.parametrize(
    ("given", "name"), [(tf.float16, "float16"), (tf.bfloat16, "bfloat16"), (tf.string, "bytes"), (tf.int8, "int8")]
)
def test_a_dtype_of_tensorflow_is_a_dtype(given, name):
    """A tf.DType leads to the same canonical name as numpy's."""
    assert element_type(given).name == name


@pytest.mark.parametrize("given", [tf.resource, tf.variant, tf.qint8])
def test_what_cannot_be_stored_is_refused(given):
    """A tf.DType that no list of the format can hold is refused as a SchemaError."""
    with pytest.raises(sr.SchemaError, match="dtype"):
        element_type(given)


@pytest.mark.parametrize(
    ("dtype", "given", "want"),
    [
        ("int8", tf.constant([1, 2]), np.array([1, 2], "i1")),
        ("bytes", tf.constant(["a"]), np.array([b"a"], object)),
    ],
    ids=["numbers", "text"],
)
def test_tensors_are_converted_exactly(dtype, given, want):
    """What a type holds exactly becomes an array of it, from a tensor too."""
    assert same_bits(exact_array(given, element_type(dtype)), np.asarray(want, want.dtype))


@pytest.mark.parametrize(
    "given",
    [
        pd.Timestamp(ZONED),
        pd.Series([ZONED]),
        pd.DatetimeIndex([ZONED]),
        pl.Series([ZONED]),
        pa.array([ZONED]),
        pa.chunked_array([[ZONED]]),
        [pl.Series([ZONED])],
        pa.array([[ZONED]]),
    ],
)
def test_zones_are_refused(given: Any) -> None:
    """A time with a zone is refused, in arrays of every library."""
    with pytest.raises(Mismatch, match="without a time zone.*drop the zone"):
        exact_array(given, element_type("datetime64[s]"))


def test_zones_of_types() -> None:
    """The zone of a type is found, also inside of lists; a type without one has none."""
    assert zone_of(pa.timestamp("s", "UTC")) == zone_of(pa.list_(pa.large_list(pa.timestamp("s", "UTC")))) == "UTC"
    assert zone_of(pl.List(pl.Datetime("us", "Europe/Berlin"))) == "Europe/Berlin"
    for kind in (pa.timestamp("s"), pl.Datetime("us"), np.dtype("datetime64[s]"), np.dtype("f4"), None):
        assert zone_of(kind) is None


def test_pandas_has_nanoseconds() -> None:
    """Nanoseconds of pandas are kept, and refused by units that do not hold them."""
    times = [pd.Timestamp("2024-01-01 00:00:00.000000001"), pd.Timestamp("2024-01-02")]
    assert exact_array(times, element_type("datetime64[ns]")).view("i8").tolist() == [time.value for time in times]
    spans = pd.Timedelta(1001, "ns")
    assert exact_array(spans, element_type("timedelta64[ns]")).view("i8") == 1001
    for given, name in ((times, "datetime64[us]"), (spans, "timedelta64[us]")):
        with pytest.raises(Mismatch, match="holds exactly"):
            exact_array(given, element_type(name))


def test_units_of_pandas_may_differ() -> None:
    """Each of several times is exact, even if no unit holds them all; NaT is numpy's."""
    times = [pd.Timestamp("9999-12-31"), pd.Timestamp("2024-01-01").as_unit("ns"), pd.NaT]
    kept = exact_array(times, element_type("datetime64[s]"))
    assert kept.tolist() == [dt.datetime(9999, 12, 31), dt.datetime(2024, 1, 1), None]  # noqa: DTZ001 - no zones
    with pytest.raises(Mismatch) as caught:
        exact_array(times[:2][::-1], element_type("datetime64[ns]"))
    assert caught.value.index == (1,)
