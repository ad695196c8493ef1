"""Times of Python: exact, and never of a zone."""

import datetime as dt
from typing import Any

import numpy as np
import pytest

from seqrecorder.schema.conversion import exact_array
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.mismatch import Mismatch
from seqrecorder.schema.times import zone_of

ZONED = dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))


@pytest.mark.parametrize(
    "given", [ZONED, [ZONED], [ZONED.replace(tzinfo=None), ZONED], np.array([ZONED], object)], ids=str
)
def test_zones_are_refused(given: Any) -> None:
    """A time with a zone is refused, alone and in lists and arrays."""
    with pytest.raises(Mismatch, match="without a time zone.*drop the zone"):
        exact_array(given, element_type("datetime64[s]"))


def test_types_of_numpy_have_no_zone() -> None:
    """No type of numpy has a zone, nor has what is no type."""
    for kind in (np.dtype("datetime64[s]"), np.dtype("f4"), None):
        assert zone_of(kind) is None
