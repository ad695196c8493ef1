"""Numbers in another dtype by licence: what is rounded, and what is refused all the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.exact_values import Mismatch, cast_values


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (np.array([0.1, np.nan, np.inf]), "float32", np.array([0.1, np.nan, np.inf], "float32")),
        (np.array([1.0, -2.0]), "int8", np.array([1, -2], "int8")),
        (np.array([0, 1]), "bool", np.array([False, True])),
        (np.array([True, False]), "int16", np.array([1, 0], "int16")),
        (np.array([0.1], "float32"), "float64", np.array([0.1], "float32").astype("float64")),
    ],
)
def test_licensed_values_become_the_declared_type(values, dtype, expected):
    """Floats are rounded, whole floats are integers, and bools are 0 and 1."""
    result = cast_values(values, element_type(dtype))
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("values", "dtype", "said"),
    [
        (np.array([1.0, 1.5]), "int8", "whole numbers in .* got 1.5"),
        (np.array([0.0, 128.0]), "int8", "got 128.0"),
        (np.array([0.0, np.nan]), "int8", "got nan"),
        (np.array([0.0, 2.0**63]), "int64", "got 9.22"),
        (np.array([0.0, -1.0]), "uint8", "got -1.0"),
        (np.array([0.0, 1e39]), "float32", "finite"),
        (np.array([0, 2]), "bool", "0 or 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(values, dtype, said):
    """Fractions, overflows and NaN are no integers, whatever is licensed."""
    with pytest.raises(Mismatch, match=said) as caught:
        cast_values(values, element_type(dtype))
    assert caught.value.index == (1,)


@given(st.lists(st.integers(-(2**63), 2**63 - 1).map(float)), st.sampled_from(["int8", "uint16", "int64", "uint64"]))
def test_whole_floats_are_cast_as_python_does(values, dtype):
    """A float is cast exactly where Python's integer of it is in range."""
    limits = np.iinfo(dtype)
    if all(limits.min <= int(value) <= limits.max for value in values):
        assert cast_values(np.array(values, float), element_type(dtype)).tolist() == list(map(int, values))
    else:
        with pytest.raises(Mismatch):
            cast_values(np.array(values, float), element_type(dtype))


@pytest.mark.parametrize(("source", "dtype"), [("int64", "float32"), ("float64", "str"), ("M8[s]", "int64")])
def test_what_no_licence_covers_is_left(source, dtype):
    """Whether integers fit floats is checked elsewhere, and times and texts are not numbers."""
    values = np.zeros(2, source)
    assert cast_values(values, element_type(dtype)) is values
