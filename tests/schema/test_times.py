"""Times of Python: exact, and never of a zone."""

import datetime as dt
from typing import Any

import numpy as np
import pytest

from seqrecorder.errors import SchemaError
from seqrecorder.schema.dtypes import canonical_type, element_type
from seqrecorder.schema.exact_values import Mismatch, exact_array, time_of_text, zone_of

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


UTC = element_type("datetime64[s, UTC]")


@pytest.mark.parametrize("given", [ZONED, [ZONED], np.array([ZONED], object), ZONED.astimezone(dt.timezone.utc)])
def test_a_field_may_name_the_zone(given: Any) -> None:
    """A field of UTC takes times with any zone, as the same moment, and numpy's as they are."""
    moment = np.datetime64("2023-12-31T23:00:00", "s")
    assert (exact_array(given, UTC) == moment).all()
    assert exact_array(moment, UTC) == moment
    assert canonical_type(UTC.name) == UTC
    assert element_type("datetime64[s,UTC]") == UTC


@pytest.mark.parametrize("given", [ZONED.replace(tzinfo=None), dt.date(2024, 1, 1)])
def test_a_field_of_utc_refuses_what_may_be_of_any_zone(given: Any) -> None:
    """Python's times without a zone are local ones, or not: they are refused, with the place."""
    with pytest.raises(Mismatch, match="with a time zone.*set their zone first") as caught:
        exact_array([np.datetime64(0, "s"), given], UTC)
    assert caught.value.index == (1,)


@pytest.mark.parametrize("name", ["datetime64[s, CET]", "datetime64[s, ]", "timedelta64[s, UTC]", "datetime64[s, utc]"])
def test_utc_is_the_one_zone(name: str) -> None:
    """Rules of zones change; a moment of UTC does not."""
    with pytest.raises(SchemaError, match="UTC is the one zone|cannot be stored"):
        element_type(name)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00"),
        ("2024-01-01T01:30+01:30", "2024-01-01T00:00"),
        ("2023-12-31T19:00:00.25-0500", "2024-01-01T00:00:00.25"),
    ],
)
def test_texts_say_their_zone(text: str, moment: str) -> None:
    """A text with an offset is of that moment, for a field of UTC only, which takes no other text."""
    assert time_of_text(text, UTC) == np.datetime64(moment)
    assert time_of_text(moment, element_type("datetime64[ms]")) == np.datetime64(moment)
    assert time_of_text(text, UTC, zone_required=False) == np.datetime64(moment)
    assert time_of_text(moment, UTC, zone_required=False) == np.datetime64(moment)
    for given, name in ((text, "datetime64[s]"), (moment, "datetime64[s, UTC]"), ("2024-01-01", "datetime64[s, UTC]")):
        with pytest.raises(Mismatch, match="time zone"):
            time_of_text(given, element_type(name))
