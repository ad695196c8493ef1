"""Values in memory: equality to the bit, sparse vectors, and the conversions that lose nothing."""

import datetime as dt
import enum
from typing import Any

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.exact_values import Mismatch, exact_array, exact_scalar, exact_sparse, same_bits
from seqrecorder.schema.utf8 import require_utf8


class Colour(str, enum.Enum):
    RED = "red"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Stamp(dt.datetime):
    """Stands for the subclasses of datetime that other libraries have."""


NAN = np.array([0x7F800001], "u4").view("f4")

SAME: dict[str, tuple[Any, Any]] = {
    "a signalling NaN": (NAN, NAN.copy()),
    "other byte order of memory": (np.arange(6).reshape(2, 3).T.copy(), np.arange(6).reshape(2, 3).T),
    "a scalar and an array of no dimension": (np.int32(5), np.array(5, "i4")),
    "text": (np.array(["a", ""], object), np.array(["a", ""], object)),
    "ragged steps": ([np.array([1]), np.array([], int)], [np.array([1]), np.array([], int)]),
    "a list and a tuple": ([np.array([1])], (np.array([1]),)),
    "None": (None, None),
    "sparse": (sr.SparseVector([1], NAN, 3), sr.SparseVector([1], NAN, 3)),
}
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "signed zeros": (np.array([0.0]), np.array([-0.0])),
    "NaN payloads": (NAN, NAN.view("u4").__add__(1).view("f4")),
    "dtypes": (np.array([1], "i4"), np.array([1], "i8")),
    "units": (np.array([1], "M8[s]"), np.array([1], "M8[ms]")),
    "shapes": (np.zeros((2, 1)), np.zeros((1, 2))),
    "text and bytes": (np.array(["a"], object), np.array([b"a"], object)),
    "an array and a list": (np.array([1]), [1]),
    "numbers of steps": ([np.array([1])], [np.array([1]), np.array([1])]),
    "True and 1": (True, 1),
    "None and empty": (None, np.array([])),
    "sizes": (sr.SparseVector([1], NAN, 3), sr.SparseVector([1], NAN, 4)),
}


@pytest.mark.parametrize("case", SAME)
def test_same_bits_are_equal(case: str) -> None:
    """Values of the same dtype, shape and bits are equal."""
    left, right = SAME[case]
    assert same_bits(left, right)
    assert same_bits(right, left)


@pytest.mark.parametrize("case", DIFFERENT)
def test_other_bits_are_not_equal(case: str) -> None:
    """Values that differ in type, dtype, shape or one bit are not equal."""
    left, right = DIFFERENT[case]
    assert not same_bits(left, right)
    assert not same_bits(right, left)


EXACT: dict[str, tuple[str, Any, Any]] = {
    "a member of an enumeration": ("str", Colour.RED, "red"),
    "text whose str() is another": ("str", Text("a"), "a"),
    "the least int64 as a float": ("float64", np.array([-(2**63)]), np.array([-(2.0**63)])),
    "a range": ("uint8", range(3), np.array([0, 1, 2], "u1")),
    "an empty list in numpy": ("int16", np.array([]), np.array([], "i2")),
    "an empty list of text in numpy": ("str", np.array([]), np.array([], object)),
    "big-endian": ("int32", np.array([1, 2], ">i4"), np.array([1, 2], "i4")),
    "fixed-width text": ("str", np.array(["a", "\u00e9"]), np.array(["a", "\u00e9"], object)),
    "hours of days": ("datetime64[h]", dt.date(2024, 2, 29), np.datetime64("2024-02-29T00", "h")),
    "months of years": ("datetime64[M]", np.datetime64("2024", "Y"), np.datetime64("2024-01", "M")),
    "a subclass of datetime": ("datetime64[us]", Stamp(2024, 2, 29, 1), np.datetime64("2024-02-29T01", "us")),
    "rows of arrays": ("int64", [np.array([1, 2]), [3, 4]], np.array([[1, 2], [3, 4]])),
    "rows of nothing": ("int64", [[], []], np.empty((2, 0), int)),
    "a bytearray": ("bytes", bytearray(b"\0"), b"\0"),
}


@pytest.mark.parametrize("case", EXACT)
def test_values_are_converted_exactly(case: str) -> None:
    """What a type holds exactly becomes an array of it, from every form in which it comes."""
    dtype, given, want = EXACT[case]
    array = exact_array(given, element_type(dtype))
    assert same_bits(array, np.asarray(want, array.dtype))
    if array.ndim == 0:
        assert same_bits(exact_scalar(given, element_type(dtype)), want)


REFUSED: dict[str, tuple[str, Any, tuple[int, ...]]] = {
    "years in days": ("timedelta64[D]", np.timedelta64(400, "Y"), ()),
    "the largest uint64 as a float": ("float64", np.array([0, 2**64 - 1], "u8"), (1,)),
    "rows of unequal length": ("int64", [[1, 2], [3]], (1,)),
    "a number among rows": ("int64", [[1], 2], (1,)),
    "deep inside": ("int8", [[1, 2], [3, 300]], (1, 1)),
    "in an object array": ("int8", np.array([[1, 2], [3, 300]], object), (1, 1)),
    "one of many types": ("float32", [1.0, np.float32(2), "3"], (2,)),
    "a time zone": ("datetime64[s]", [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)], (1,)),  # noqa: DTZ001
}


@pytest.mark.parametrize("case", REFUSED)
def test_where_a_value_does_not_fit_is_told(case: str) -> None:
    """A value that a type does not hold is refused with its position, outermost first."""
    dtype, given, index = REFUSED[case]
    with pytest.raises(Mismatch, match="^expected .*, got ") as caught:
        exact_array(given, element_type(dtype))
    assert caught.value.index == index


def test_conversions_do_not_copy() -> None:
    """An array that has the declared dtype is taken as it is."""
    given = np.arange(3, dtype="f4")
    assert exact_array(given, element_type("float32")) is given


SPARSE: dict[str, tuple[Any, list[int], list[float]]] = {
    "a mapping": ({3: 1.0, 1: 2.0}, [1, 3], [2.0, 1.0]),
    "a pair": (([3, 1], [1.0, 2.0]), [1, 3], [2.0, 1.0]),
    "dense": (np.array([0, 2, 0, 1], "f4"), [1, 3], [2.0, 1.0]),
    "dense, with a negative zero": (np.array([-0.0, 0, 0, 1], "f4"), [0, 3], [-0.0, 1.0]),
    "dense, every second": (np.array([0, 9, 2, 9, 0, 9, 1, 9], "f4")[::2], [1, 3], [2.0, 1.0]),
    "nothing": ({}, [], []),
    "a vector": (sr.SparseVector([1], np.array([2.0], "f4"), 4), [1], [2.0]),
}


@pytest.mark.parametrize("case", SPARSE)
def test_sparse_vectors_come_in_many_forms(case: str) -> None:
    """Mappings, pairs, dense arrays and vectors become the same vector, its indices ascending."""
    given, indices, values = SPARSE[case]
    vector = exact_sparse(given, element_type("float32"), 4)
    assert vector == sr.SparseVector(indices, np.array(values, "f4"), 4)
    dense = np.zeros(4, "f4")
    dense[indices] = values
    assert same_bits(vector.to_dense(), dense)
    assert [part.tolist() for part in vector] == [indices, values]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({4: 1.0}, r"an index in \[0, 4\), got 4"),
        ({-1: 1.0}, r"an index in \[0, 4\), got -1"),
        (([1, 1], [1.0, 2.0]), "distinct indices"),
        (([1], [1.0, 2.0]), "1 indices and 2 values"),
        (([1.0], [1.0]), "integer indices"),
        (np.zeros(5, "f4"), r"shape \(4,\)"),
        (sr.SparseVector([], np.array([], "f4"), 5), "size 4"),
        (3.0, "a SparseVector, a dict"),
    ],
)
def test_sparse_vectors_that_do_not_fit(given: Any, message: str) -> None:
    """Indices outside, doubled or not integers, and other sizes are refused."""
    with pytest.raises(Mismatch, match=message):
        exact_sparse(given, element_type("float32"), 4)


def test_text_without_utf8_is_found_where_it_stands() -> None:
    """Lone surrogates are found in scalars, arrays, steps and sparse vectors, with their position."""
    require_utf8(["fine", np.array(["\U0001f600"], object)])
    bad = np.array(["a", "\udfff"], object)
    for value, index in (
        ("\ud800", ()),
        (bad, (1,)),
        ([bad[:1], bad], (1, 1)),
        (sr.SparseVector([0, 1], bad, 3), (1,)),
    ):
        with pytest.raises(Mismatch, match="lone surrogate") as caught:
            require_utf8(value)
        assert caught.value.index == index


@pytest.mark.parametrize(
    ("given", "dtype", "expected"),
    [
        (np.ma.array([1.0, 2.0]), "float32", [1, 2]),
        (np.ma.array([1.0, 1e300], mask=[0, 1]), "float32", [1, np.nan]),
        (np.ma.array([1, 2**60 + 1], mask=[0, 1]), "float64", [1, np.nan]),
        (np.ma.array([1, 2], mask=[0, 0]), "int16", [1, 2]),
        (np.ma.array(["a", "b"], mask=[0, 0]), "str", ["a", "b"]),
        (np.ma.masked, "float64", np.nan),
        ([np.ma.array([1.0, 2.0], mask=[1, 0])], "float64", [[np.nan, 2]]),
    ],
)
def test_masked_arrays_are_their_values(given: Any, dtype: str, expected: Any) -> None:
    """A masked array is its values, with NaN where it is masked; what becomes of it is a plain array."""
    array = exact_array(given, element_type(dtype))
    assert type(array) is np.ndarray
    assert same_bits(array, np.array(expected, element_type(dtype).numpy))


@pytest.mark.parametrize("dtype", ["int32", "bool", "str", "bytes", "datetime64[s]"])
def test_masked_values_without_nan_are_refused(dtype: str) -> None:
    """What is masked is refused where the type has no NaN, with its place."""
    element = element_type(dtype)
    values = np.zeros((2, 2), element.numpy if not element.is_text else "S1" if dtype == "bytes" else "U1")
    with pytest.raises(Mismatch, match="without a mask.*filled") as caught:
        exact_array(np.ma.array(values, mask=[[0, 0], [1, 0]]), element)
    assert caught.value.index == (1, 0)


def test_masks_of_sparse_vectors_are_not_lost() -> None:
    """Masked values of a sparse vector become NaN, and masked indices are refused."""
    values = np.ma.array([1.0, 2.0], mask=[0, 1])
    for given in (([0, 2], values), sr.SparseVector([0, 2], values, 4)):
        assert np.isnan(exact_sparse(given, element_type("float32"), 4).values[1])
    with pytest.raises(Mismatch, match="indices"):
        exact_sparse((np.ma.array([0, 2], mask=[0, 1]), [1.0, 2.0]), element_type("float32"), 4)


def test_a_sparse_vector_that_is_none_is_a_value_error():
    """A vector made by hand is checked, and refused with an error that users can catch."""
    for indices, message in (([3, 3], "distinct indices"), ([9], "an index in"), ([1, 2, 3], "as many indices")):
        with pytest.raises(ValueError, match=message):
            sr.SparseVector(indices, np.ones(min(2, len(indices)), "f4"), 5)
