"""Times of Python and pandas: exact, and never of a zone."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from seqrecorder.schema.conversion import exact_array
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.mismatch import Mismatch
from seqrecorder.schema.times import zone_of

ZONED = dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))


@pytest.mark.parametrize(
    "given",
    [
        ZONED,
        [ZONED],
        [ZONED.replace(tzinfo=None), ZONED],
        pd.Timestamp(ZONED),
        pd.Series([ZONED]),
        pd.DatetimeIndex([ZONED]),
        pl.Series([ZONED]),
        pa.array([ZONED]),
        pa.chunked_array([[ZONED]]),
        [pl.Series([ZONED])],
        pa.array([[ZONED]]),
        np.array([ZONED], object),
    ],
)
def test_zones_are_refused(given: Any) -> None:
    """A time with a zone is refused, alone and in arrays of every library."""
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
