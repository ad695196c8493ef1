"""Records of a few fields of columns: what decides splits and keys while columns are written."""

from typing import Any

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.codec.columns import gather, records_of


@sr.record
class Mixed:
    key: str = sr.context(str, key=True)
    ids: Any = sr.feature_list("int32")
    maybe: float | None = sr.context("float32", optional=True, default=None)
    value_0: int = sr.context("int64", default=1)


RECORDS = [Mixed("a", [1, 2], 0.5), Mixed("b", []), Mixed("c", [3], None, 7)]


@pytest.mark.parametrize("names", [["key"], ["ids", "key"], ["maybe"], ["value_0", "maybe", "ids", "key"]])
def test_views_have_what_their_records_have(names: list[str]) -> None:
    """The values of each field that is asked for, whatever its kind and name; and nothing else."""
    schema = sr.Schema.of(Mixed)
    made = records_of(schema.select(names), gather(schema, RECORDS))
    for view, record in zip(made, RECORDS, strict=True):
        assert {name for name in ("key", "ids", "maybe", "value_0") if hasattr(view, name)} == set(names)
        for name in names:
            assert np.array_equal(getattr(view, name), getattr(record, name))
