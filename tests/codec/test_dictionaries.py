"""Dictionaries in columns: what their class makes of them, or nothing."""

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import CASES

import seqrecorder as sr
from seqrecorder.codec.columns import gather, maker_from_mapping, records_of
from seqrecorder.codec.encode import columns_of_dictionaries, takes_columns


@sr.record(kw_only=True)
class Row:
    key: str = sr.context(str)
    flag: bool = sr.context(bool)
    small: int = sr.context("uint8")
    wide: int | None = sr.context("uint64", optional=True)
    half: float = sr.context("float16", default=0.5)
    pair: np.ndarray = sr.context("float32", shape=(2,))
    ids: np.ndarray | None = sr.feature_list("int64", optional=True)
    words: np.ndarray = sr.feature_list(str)
    ragged: list = sr.feature_list("bfloat16", shape=(None, 2), align=None)
    bag: sr.SparseVector = sr.context("int64", sparse=4, default={})


SCHEMA = sr.Schema.of(Row)
SCALARS = st.sampled_from(
    [
        *(None, True, 0, 1, 7, 255, 256, -1, 2**24 + 1, 2**53 + 1, 2**63, 2**64, 10**400, 0.5, 1e-9, 1e39, 65520.0),
        *(float("nan"), float("inf"), "a", "a\0b", "\ud800", b"a", np.float32(0.1), np.int64(3), np.array(3), [1], {}),
    ]
)
RIGHT = {
    "key": st.text(max_size=3),
    "flag": st.booleans(),
    "small": st.integers(0, 255),
    "wide": st.none() | st.integers(0, 2**64 - 1),
    "half": st.floats(width=16) | st.integers(-2048, 2048),
    "pair": st.lists(st.floats(width=32) | st.integers(-9, 9), min_size=2, max_size=2),
    "ids": st.none() | st.just([1, 2]) | st.just(np.array([3, 4])) | st.just((5, 6)),
    "words": st.just(["a", "é"]) | st.just(np.array(["x", "y"], object)),
    "ragged": st.lists(st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=2), max_size=2), max_size=2),
    "bag": st.dictionaries(st.integers(0, 3), st.integers(0, 9)),
}
WRONG = SCALARS | st.lists(SCALARS | st.lists(SCALARS, max_size=2), max_size=3)


def made_by_class(rows):
    """Return what the class makes of rows; None where it refuses one."""
    try:
        return records_of(SCHEMA, gather(SCHEMA, list(map(maker_from_mapping(SCHEMA), rows, range(len(rows))))))
    except (sr.RecordError, TypeError, ValueError, OverflowError):
        return None


@st.composite
def drawn_rows(draw):
    rows = draw(st.lists(st.fixed_dictionaries(RIGHT), min_size=1, max_size=4))
    for _ in range(draw(st.integers(0, 2))):
        row, name = draw(st.sampled_from(rows)), draw(st.sampled_from([*RIGHT, "other"]))
        if draw(st.booleans()) and name in row:
            del row[name]
        else:
            row[name] = draw(WRONG)
    return rows


@pytest.mark.parametrize("examples", [100, pytest.param(5000, marks=pytest.mark.nightly)])
def test_columns_are_what_the_class_makes(examples):
    """Columns of rows, right and wrong, are those of the records that their class makes; or there are none."""

    @settings(max_examples=examples, deadline=None, derandomize=True, database=None)
    @given(drawn_rows())
    def check(rows):
        columns, expected = columns_of_dictionaries(SCHEMA, rows), made_by_class(rows)
        if columns is not None:
            assert records_of(SCHEMA, columns) == expected
        elif expected is not None:  # of numpy's scalars, and other things, the class knows more
            found = [leaf for row in rows for leaf in leaves(row)]
            assert any(isinstance(value, np.generic | np.ndarray) or value is None for value in found)

    check()


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize("dtype", [name for name in CASES if name != "bytes"])
def test_plain_values_of_each_type_take_the_fast_way(dtype):
    """Every element type's values come to the same bits, as Python's lists too."""

    @sr.record
    class Of:
        values: np.ndarray = sr.feature_list(dtype)

    schema, values = sr.Schema.of(Of), CASES[dtype].valid
    if values.dtype.kind in "mM":
        values = values.astype("datetime64[us]" if values.dtype.kind == "M" else "timedelta64[us]")[1:2]
        values = values.astype(np.dtype(dtype))
    rows = [{"values": values.tolist() if values.dtype.kind in "biufO" else list(values)}, {"values": []}]
    columns = columns_of_dictionaries(schema, rows)
    assert columns is not None
    assert records_of(schema, columns) == [Of(row["values"]) for row in rows]


def test_what_a_class_does_itself_is_left_to_it():
    """A class with a validator, an attribute of its own or a hook makes its records itself."""

    @sr.record
    class Own:
        x: int = sr.context("int64")
        note: str = attrs.field(default="")

    @sr.record
    class Loads:
        x: int = sr.context("int64")

        def load(self):
            """Nothing."""

    @sr.record
    class Checks:
        x: int = sr.context("int64")

        def __attrs_post_init__(self):
            raise ValueError("no")

    for kind in (Own, Loads, Checks):
        assert not takes_columns(sr.Schema.of(kind))
        assert columns_of_dictionaries(sr.Schema.of(kind), [{"x": 1}]) is None
