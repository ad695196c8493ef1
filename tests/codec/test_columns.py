"""No silent loss: what goes in comes out exactly, or an error says where, what was expected and what came."""

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.codec.columns import collect
from seqrecorder.schema.exact_values import same_bits


def record_with(declaration: Any, value: Any) -> Any:
    return attrs.make_class("Single", {"x": declaration})(value)


def objects(*items: Any) -> np.ndarray:
    return np.fromiter(items, object, len(items))


def scalar(value: Any, dtype: str) -> Any:
    return np.array(value, dtype)[()]


UTC = dt.timezone.utc
DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 1)  # noqa: DTZ001 - numpy's times have no zone
INTEGERS = [f"{sign}int{bits}" for sign, bits in itertools.product(("", "u"), (8, 16, 32, 64))]
LIMITS = {name: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for name in INTEGERS}

# What comes out exactly: declaration, what is given, what is decoded.
KEPT: dict[str, tuple[Any, Any, Any]] = {
    **{f"{n} min": (sr.context(n), LIMITS[n][0], scalar(LIMITS[n][0], n)) for n in INTEGERS},
    **{f"{n} max": (sr.context(n), LIMITS[n][1], scalar(LIMITS[n][1], n)) for n in INTEGERS},
    "uint64 max in a list": (sr.feature_list("uint64"), [2**64 - 1, 0], np.array([2**64 - 1, 0], "uint64")),
    "wider integers that fit": (
        sr.feature_list("int8"),
        np.array([-128, 127], "int64"),
        np.array([-128, 127], "int8"),
    ),
    "int for float": (sr.context("float32"), 2**24, np.float32(2**24)),
    "float64 array held by float32": (
        sr.feature_list("float32"),
        np.array([0.5, np.inf]),
        np.array([0.5, np.inf], "f4"),
    ),
    "float32 array held by float16": (
        sr.feature_list("float16"),
        np.array([65504, -0.0], "f4"),
        np.array([65504, -0.0], "f2"),
    ),
    "python floats round": (sr.feature_list("float32"), [0.1, -1e-60], np.array([0.1, -0.0], "f4")),
    "python float rounds to bfloat16": (sr.context("bfloat16"), 0.1, np.array(0.1, ml_dtypes.bfloat16)[()]),
    "python NaN": (sr.context("float64"), float("nan"), np.float64("nan")),
    "python infinity": (sr.context("float16"), float("-inf"), np.float16("-inf")),
    "minus zero": (sr.context("float64"), -0.0, np.float64(-0.0)),
    "float for complex": (sr.context("complex64"), 1.5, np.complex64(1.5)),
    "complex": (sr.context("complex128"), 1e300 - 2j, np.complex128(1e300 - 2j)),
    "big-endian array": (sr.feature_list("int32"), np.array([1, -2], ">i4"), np.array([1, -2], "<i4")),
    "strided array": (sr.feature_list("int16"), np.arange(6, dtype="i2")[::-2], np.array([5, 3, 1], "i2")),
    "object array of ints": (sr.feature_list("int64"), objects(1, 2**63 - 1), np.array([1, 2**63 - 1])),
    "numpy scalars in a list": (sr.feature_list("int8"), [np.int64(-1), np.uint8(1)], np.array([-1, 1], "i1")),
    "bool": (sr.context(bool), np.True_, True),
    "bools in an object array": (sr.feature_list(bool), objects(True, False), np.array([True, False])),
    "text with a NUL": (sr.context(str), "a\0\U0001f600", "a\0\U0001f600"),
    "empty text": (sr.context(str), "", ""),
    "numpy text": (sr.feature_list(str), np.array(["a", "bc"]), objects("a", "bc")),
    "bytes": (sr.context(bytes), b"\xff\0", b"\xff\0"),
    "bytearray": (sr.context(bytes), bytearray(b"\xff"), b"\xff"),
    "memoryview": (sr.feature_list(bytes), [memoryview(b"ab")], objects(b"ab")),
    "a datetime of microseconds": (
        sr.context("datetime64[us]"),
        NOON,
        np.datetime64("2024-02-29T12:00:00.000001", "us"),
    ),
    "a datetime as nanoseconds": (
        sr.context("datetime64[ns]"),
        NOON,
        np.datetime64("2024-02-29T12:00:00.000001000", "ns"),
    ),
    "a date": (sr.context("datetime64[D]"), DAY, np.datetime64("2024-02-29", "D")),
    "days as seconds": (
        sr.context("datetime64[s]"),
        np.datetime64("2024-02-29", "D"),
        np.datetime64("2024-02-29T00:00:00", "s"),
    ),
    "NaT": (sr.context("datetime64[s]"), np.datetime64("NaT", "D"), np.datetime64("NaT", "s")),
    "a timedelta": (sr.context("timedelta64[ms]"), dt.timedelta(seconds=-1), np.timedelta64(-1000, "ms")),
    "exact inner shape": (
        sr.feature_list("int8", shape=(2,)),
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], "i1"),
    ),
    "no steps": (sr.feature_list("int8", shape=(2, 3)), [], np.zeros((0, 2, 3), "i1")),
    "ragged steps": (
        sr.feature_list("int8", shape=(None,)),
        [[1], [], [2, 3]],
        [np.array(a, "i1") for a in ([1], [], [2, 3])],
    ),
    "ragged of no steps": (sr.feature_list("int8", shape=(None,)), [], []),
    "None where optional": (sr.context("int8", optional=True), None, None),
    "empty where optional": (sr.feature_list("int8", optional=True), [], np.zeros(0, "i1")),
    "None as a sequence": (sr.feature_list(str, optional=True), None, None),
    "sparse dict": (
        sr.context("int8", sparse=9),
        {8: 1, 0: -1},
        sr.SparseVector([0, 8], np.array([-1, 1], "i1"), 9),
    ),
    "sparse pair": (
        sr.context("float32", sparse=9),
        ([3], [0.5]),
        sr.SparseVector([3], np.array([0.5], "f4"), 9),
    ),
    "sparse dense": (
        sr.context("float64", sparse=3),
        np.array([0, 0.1, 0]),
        sr.SparseVector([1], np.array([0.1]), 3),
    ),
    "sparse dense steps": (
        sr.feature_list("int8", sparse=2),
        np.array([[0, 3], [0, 0]], "i1"),
        [sr.SparseVector([1], np.array([3], "i1"), 2), sr.SparseVector([], np.zeros(0, "i1"), 2)],
    ),
    "sparse empty": (sr.context("int8", sparse=3), {}, sr.SparseVector([], np.zeros(0, "i1"), 3)),
    "sparse steps": (
        sr.feature_list("uint64", sparse=2),
        [{1: 2**64 - 1}, {}],
        [sr.SparseVector([1], np.array([2**64 - 1], "u8"), 2), sr.SparseVector([], np.zeros(0, "u8"), 2)],
    ),
}

# What is refused: declaration, what is given, index of the problem, and parts of `expected` and of `got`.
REFUSED: dict[str, tuple[Any, Any, tuple[int, ...], str, str]] = {
    **{f"{n} too small": (sr.context(n), LIMITS[n][0] - 1, (), n, str(LIMITS[n][0] - 1)) for n in INTEGERS},
    **{f"{n} too large": (sr.context(n), LIMITS[n][1] + 1, (), n, str(LIMITS[n][1] + 1)) for n in INTEGERS},
    **{
        f"{n} too large in a list": (sr.feature_list(n), [0, 1, LIMITS[n][1] + 1], (2,), n, str(LIMITS[n][1] + 1))
        for n in INTEGERS
    },
    **{
        f"{n} too large in an array": (
            sr.feature_list(n),
            np.array([0, LIMITS[n][1] + 1], "int64"),
            (1,),
            n,
            str(LIMITS[n][1] + 1),
        )
        for n in INTEGERS
        if n not in ("int64", "uint64")
    },
    "negative array for uint64": (sr.feature_list("uint64"), np.array([0, -1]), (1,), "uint64", "-1"),
    "uint64 array for int64": (sr.feature_list("int64"), np.array([2**63], "u8"), (0,), "int64", str(2**63)),
    "2**64 in an object array": (sr.feature_list("uint64"), objects(1, 2**64), (1,), "uint64", str(2**64)),
    "lists in an object array": (sr.feature_list("int64"), objects([1], [2]), (0,), "int64", "list [1]"),
    "arrays in an object array": (sr.feature_list("int8"), objects(np.array([1])), (0,), "int8", "ndarray"),
    "a list in an object scalar": (sr.context("int64"), objects([5]).reshape(()), (), "int64", "[5]"),
    "lists in an object array of str": (sr.feature_list(str), objects(["a"], ["b"]), (0,), "str", "list ['a']"),
    "float for int": (sr.context("int32"), 1.5, (), "int32", "float 1.5"),
    "whole float for int": (sr.context("int32"), 1.0, (), "int32", "float 1.0"),
    "float in a list of ints": (sr.feature_list("int32"), [1, 2.0], (1,), "int32", "float 2.0"),
    "float array for int": (sr.feature_list("int64"), np.array([1.0]), (), "int64", "dtype float64"),
    "NaN for int": (sr.context("int64"), float("nan"), (), "int64", "nan"),
    "NaN in a list of ints": (sr.feature_list("uint8"), [1, float("nan")], (1,), "uint8", "nan"),
    "bool for int": (sr.context("int64"), True, (), "int64", "bool True"),
    "bool in a list of ints": (sr.feature_list("int64"), [1, True], (1,), "int64", "bool True"),
    "bool array for int": (sr.feature_list("int64"), np.array([True]), (), "int64", "dtype bool"),
    "bool for float": (sr.context("float32"), True, (), "float32", "bool True"),
    "int for bool": (sr.context(bool), 1, (), "bool", "int 1"),
    "int array for bool": (sr.feature_list(bool), np.array([0, 1]), (), "bool", "dtype int64"),
    "text for bool": (sr.context(bool), "True", (), "bool", "'True'"),
    "text for int": (sr.context("int64"), "1", (), "int64", "str '1'"),
    "text for float": (sr.feature_list("float32"), [1.0, "2"], (1,), "float32", "str '2'"),
    "text array for float": (sr.feature_list("float32"), np.array(["1"]), (), "float32", "dtype <U1"),
    "bytes for str": (sr.context(str), b"a", (), "str", "bytes b'a'"),
    "str for bytes": (sr.context(bytes), "a", (), "bytes", "str 'a'"),
    "bytes in a list of str": (sr.feature_list(str), ["a", b"b"], (1,), "str", "bytes b'b'"),
    "str in a list of bytes": (sr.feature_list(bytes), [b"a", "b"], (1,), "bytes", "str 'b'"),
    "bytes array for str": (sr.feature_list(str), np.array([b"a"]), (), "str", "dtype |S1"),
    "str array for bytes": (sr.feature_list(bytes), np.array(["a"]), (), "bytes", "dtype <U1"),
    "bytes in an object array of str": (sr.feature_list(str), objects("a", b"b"), (1,), "str", "bytes b'b'"),
    "int for str": (sr.context(str), 1, (), "str", "int 1"),
    "None in a list of str": (sr.feature_list(str), ["a", None], (1,), "str", "None"),
    "lone surrogate": (sr.context(str), "a\ud800", (), "UTF-8", "\\ud800"),
    "lone surrogate in a list": (sr.feature_list(str), ["ok", "\udfff"], (1,), "UTF-8", "\\udfff"),
    "lone surrogate in a ragged step": (
        sr.feature_list(str, shape=(None,)),
        [["ok"], ["ok", "\udfff"]],
        (1, 1),
        "UTF-8",
        "\\udfff",
    ),
    "float64 array not held by float32": (sr.feature_list("float32"), np.array([0.5, 0.1]), (1,), "float32", "0.1"),
    "float64 scalar of numpy in a float16 array": (
        sr.feature_list("float16"),
        np.array([65536.0]),
        (0,),
        "float16",
        "65536",
    ),
    "float32 array not held by bfloat16": (sr.feature_list("bfloat16"), np.array([0.1], "f4"), (0,), "bfloat16", "0.1"),
    "1e300 for float32": (sr.context("float32"), 1e300, (), "float32 (finite)", "1e+300"),
    "1e300 in a list": (sr.feature_list("float32"), [1.0, 1e300], (1,), "float32 (finite)", "1e+300"),
    "70000.0 for float16": (sr.context("float16"), 70000.0, (), "float16 (finite)", "70000.0"),
    "int that float32 rounds": (sr.context("float32"), 2**24 + 1, (), "float32", str(2**24 + 1)),
    "int that float64 rounds": (sr.context("float64"), 2**53 + 1, (), "float64", str(2**53 + 1)),
    "int array that float64 rounds": (
        sr.feature_list("float64"),
        np.array([1, 2**53 + 1]),
        (1,),
        "float64",
        str(2**53 + 1),
    ),
    "2**63 - 1 as float64": (sr.feature_list("float64"), np.array([2**63 - 1]), (0,), "float64", str(2**63 - 1)),
    "uint64 max as float32": (
        sr.feature_list("float32"),
        np.array([2**64 - 1], "u8"),
        (0,),
        "float32",
        str(2**64 - 1),
    ),
    "an int beyond any float": (sr.context("float64"), 10**400, (), "float64", "beyond any float"),
    "an int beyond float16": (sr.context("float16"), 70000, (), "float16", "70000"),
    "complex for float": (sr.context("float64"), 1j, (), "float64", "1j"),
    "complex array for float": (sr.feature_list("float32"), np.array([1j]), (), "float32", "dtype complex128"),
    "complex for int": (sr.context("int64"), 1 + 0j, (), "int64", "complex"),
    "complex128 not held by complex64": (
        sr.feature_list("complex64"),
        np.array([0.1j]),
        (0,),
        "complex64",
        "0.1",
    ),
    "1e300j for complex64": (sr.context("complex64"), 1e300j, (), "complex64 (finite)", "1e+300j"),
    "object in an object array": (sr.feature_list("int64"), objects(1, object()), (1,), "int64", "object"),
    "a bad value in a list of one": (sr.feature_list("int8"), [300], (0,), "int8", "300"),
    "a bad value in a matrix of objects": (
        sr.feature_list("int8", shape=(2,)),
        objects(1, 2, 3, 300).reshape(2, 2),
        (1, 1),
        "int8",
        "300",
    ),
    "None in a list of ints": (sr.feature_list("int64"), [1, None], (1,), "int64", "None"),
    "a datetime with a zone": (
        sr.context("datetime64[s]"),
        dt.datetime(2024, 1, 1, tzinfo=UTC),
        (),
        "without a time zone",
        "tzinfo",
    ),
    "a datetime with a zone among others": (
        sr.feature_list("datetime64[s]"),
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=UTC)],  # noqa: DTZ001 - half the point
        (1,),
        "without a time zone",
        "tzinfo",
    ),
    "microseconds for seconds": (sr.context("datetime64[s]"), NOON, (), "datetime64[s]", "12:00:00.000001"),
    "microseconds for days in an array": (
        sr.feature_list("datetime64[D]"),
        np.array(["2024-01-01", "2024-01-01T12"], "M8[us]"),
        (1,),
        "datetime64[D]",
        "12:00",
    ),
    "a year beyond nanoseconds": (
        sr.context("datetime64[ns]"),
        np.datetime64("9999-01-01", "D"),
        (),
        "datetime64[ns]",
        "9999",
    ),
    "a timedelta for a datetime": (sr.context("datetime64[s]"), dt.timedelta(1), (), "datetime64[s]", "timedelta"),
    "a datetime for a timedelta": (sr.context("timedelta64[s]"), NOON, (), "timedelta64[s]", "datetime"),
    "an int for a datetime": (sr.context("datetime64[s]"), 1, (), "datetime64[s]", "int 1"),
    "an int array for a datetime": (sr.feature_list("datetime64[s]"), np.array([1]), (), "datetime64[s]", "int64"),
    "a datetime for an int": (sr.context("int64"), np.datetime64(1, "s"), (), "int64", "dtype datetime64[s]"),
    "text for a datetime": (sr.context("datetime64[s]"), "2024-01-01", (), "datetime64[s]", "2024-01-01"),
    "a list for a scalar": (sr.context("int64"), [1], (), "a scalar", "(1,)"),
    "a scalar for a list": (sr.feature_list("int64"), 1, (), "(T,)", "()"),
    "a text for a list": (sr.feature_list(str), "abc", (), "(T,)", "()"),
    "a matrix for a list": (sr.feature_list("int64"), [[1]], (), "(T,)", "(1, 1)"),
    "a vector for steps of vectors": (sr.feature_list("int8", shape=(2,)), [1, 2], (), "(T, 2)", "(2,)"),
    "a wrong inner shape": (sr.feature_list("int8", shape=(2,)), np.zeros((4, 3), "i1"), (), "(T, 2)", "(4, 3)"),
    "a transposed matrix": (sr.context("int8", shape=(2, 3)), np.zeros((3, 2), "i1"), (), "(2, 3)", "(3, 2)"),
    "too short a vector": (sr.context("int8", shape=(3,)), [1, 2], (), "(3,)", "(2,)"),
    "an empty vector": (sr.context("int8", shape=(3,)), [], (), "(3,)", "(0,)"),
    "ragged steps where fixed": (sr.feature_list("int8", shape=(2,)), [[1, 2], [3]], (1,), "(2,)", "(1,)"),
    "a scalar among steps": (sr.feature_list("int8", shape=(2,)), [[1, 2], 3], (1,), "sequence", "int 3"),
    "a scalar among ragged steps": (sr.feature_list("int8", shape=(None,)), [[1], 3], (1,), "shape (", "()"),
    "a bad value in a ragged step": (
        sr.feature_list("int8", shape=(None,)),
        [[1], [2, 3, 128]],
        (1, 2),
        "int8",
        "128",
    ),
    "a wrong row in a ragged step": (
        sr.feature_list("int8", shape=(None, 2)),
        [[[1, 2]], [[1, 2, 3]]],
        (1,),
        "2)",
        "(1, 3)",
    ),
    "a mapping for a list": (sr.feature_list("int64"), {1: 2}, (), "int64", "dict"),
    "a generator for a list": (sr.feature_list("int64"), iter([1]), (), "int64", "iterator"),
    "None without optional": (sr.context("int8"), None, (), "optional=True", "None"),
    "None for a list": (sr.feature_list(str), None, (), "optional=True", "None"),
    "None for ragged steps": (sr.feature_list("int8", shape=(None,)), None, (), "optional=True", "None"),
    "None for sparse": (sr.context("int8", sparse=3), None, (), "optional=True", "None"),
    "sparse index too large": (sr.context("int8", sparse=3), {0: 1, 3: 1}, (1,), "[0, 3)", "3"),
    "sparse index negative": (sr.context("int8", sparse=3), ([-1], [1]), (0,), "[0, 3)", "-1"),
    "sparse index doubled": (sr.context("int8", sparse=3), ([1, 1], [1, 2]), (), "distinct", "[1, 1]"),
    "sparse index a float": (sr.context("int8", sparse=3), {0.5: 1}, (), "integer indices", "float64"),
    "sparse index beyond int64": (sr.context("int8", sparse=3), {2**64: 1}, (), "integer indices", "object"),
    "sparse lengths differ": (sr.context("int8", sparse=3), ([0, 1], [1]), (), "as many", "2 indices and 1 values"),
    "sparse value too large": (sr.context("int8", sparse=3), {0: 128}, (0,), "int8", "128"),
    "sparse of another size": (
        sr.context("int8", sparse=3),
        sr.SparseVector([0], np.array([1], "i1"), 4),
        (),
        "size 3",
        "size 4",
    ),
    "dense of another size": (sr.context("int8", sparse=3), np.zeros(4, "i1"), (), "(3,)", "(4,)"),
    "a dense list of two where a pair is meant": (sr.context("int8", sparse=2), [0, 1], (), "pair", "int 0"),
    "a bad sparse step": (sr.feature_list("int8", sparse=3), [{}, {0: 1, 9: 1}], (1, 1), "[0, 3)", "9"),
    "one sparse vector for steps": (sr.feature_list("int8", sparse=3), {0: 1}, (), "per step", "dict"),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_value_comes_out_exactly(case: str) -> None:
    """A value that the declared type holds is decoded with the declared dtype and every bit."""
    declaration, given, expected = KEPT[case]
    record = record_with(declaration, given)
    schema = sr.Schema.of(record)
    decoded = schema.decode(schema.encode(record))
    assert same_bits(decoded.x, expected), (decoded.x, expected)
    assert decoded == record


@pytest.mark.parametrize("case", REFUSED)
def test_a_value_that_does_not_fit_is_refused(case: str) -> None:
    """A value that the declared type does not hold is refused, with field, index, what was expected and what came."""
    declaration, given, index, expected, got = REFUSED[case]
    record = record_with(declaration, given)
    with pytest.raises(sr.RecordError) as caught:
        sr.Schema.of(record).encode(record)
    [problem] = caught.value.problems
    assert (problem.field, problem.index) == ("x", index), problem
    assert expected in problem.expected, problem
    assert got in problem.got, problem


@pytest.mark.parametrize("storage", ["auto", "raw", "packed", "tensor"])
def test_every_storage_refuses_alike(storage: str) -> None:
    """No storage is a way around the checks."""
    record = record_with(sr.feature_list("int8", storage=storage), np.array([1, 300]))
    with pytest.raises(sr.RecordError, match=r"x\[1\]: expected int8 in \[-128, 127\], got 300"):
        sr.Schema.of(record).encode(record)


@sr.record
class Word:
    key: str = sr.context(str, key=True)
    rate: int = sr.context("uint8")
    sound: Any = sr.feature_list("float32", shape=(2,))
    phones: Any = sr.feature_list("int64")
    note: Any = sr.feature_list(str, align=None)
    left: Any = sr.feature_list("int8", align="g")
    right: Any = sr.feature_list("int8", align="g")


def word(key: str = "k", **changes: Any) -> Any:
    good: dict[str, Any] = {"rate": 1, "sound": np.zeros((3, 2), "f4"), "phones": [1, 2, 3], "note": ["a"]}
    return Word(key, **{**good, "left": [1, 2], "right": [3, 4], **changes})


def test_all_bad_fields_of_the_first_bad_record_are_reported() -> None:
    """One error names every bad field of the first bad record, its key and its position."""
    first = word("first bad", rate=256, sound=np.zeros((3, 3)), note=["ok", 5])
    records = [word("good"), word("good too"), first, word("second bad", phones="x")]
    with pytest.raises(sr.RecordError) as caught:
        sr.Schema.of(Word).encode_batch(records)
    error = caught.value
    assert (error.key, error.position) == ("first bad", 2)
    assert [(problem.field, problem.index) for problem in error.problems] == [
        ("rate", ()),
        ("sound", ()),
        ("note", (1,)),
    ]
    for part in ("record 2", "'first bad'", "rate: expected uint8 in [0, 255], got 256", "(T, 2)", "note[1]"):
        assert part in str(error)


def test_groups_of_feature_lists_share_a_length() -> None:
    """Feature lists of one group must be equally long; the error names the field that the others are measured by."""
    schema = sr.Schema.of(Word)
    with pytest.raises(sr.RecordError, match="'bad'") as caught:
        schema.encode_batch([word(), word("bad", phones=[1, 2], right=[3])])
    assert caught.value.position == 1
    assert [str(problem) for problem in caught.value.problems] == [
        "phones: expected 3 steps, as 'sound' has (align=None frees a field), got 2 steps",
        "right: expected 2 steps, as 'left' has (align=None frees a field), got 1 steps",
    ]


def test_a_freed_field_and_another_group_have_lengths_of_their_own() -> None:
    """align=None frees a field from every length, and align="g" from that of the default group."""
    record = word(note=["a"] * 9, left=[], right=[])
    assert sr.Schema.of(Word).decode(sr.Schema.of(Word).encode(record)) == record


def test_a_missing_sequence_is_not_measured() -> None:
    """An optional feature list that is None agrees with any length, and an empty one does not."""
    cls = attrs.make_class("Pair", {"a": sr.feature_list("int8", optional=True), "b": sr.feature_list("int8")})
    schema = sr.Schema.of(cls)
    assert schema.decode(schema.encode(cls(None, [1, 2]))) == cls(None, [1, 2])
    with pytest.raises(sr.RecordError, match="b: expected 0 steps, as 'a' has"):
        schema.encode(cls([], [1, 2]))


def test_a_value_replaced_after_construction_is_checked() -> None:
    """What is set, or changed in place, after construction meets the same checks at encode."""
    record = word()
    record.rate = 300
    record.phones = np.array([1.0, 2.0, 3.0])
    with pytest.raises(sr.RecordError) as caught:
        sr.Schema.of(Word).encode(record)
    assert [problem.field for problem in caught.value.problems] == ["rate", "phones"]


def test_a_record_of_another_class_is_refused() -> None:
    """A record that is not of the schema's class is refused by its class's name and its position."""
    other = record_with(sr.context("int8"), 1)
    with pytest.raises(sr.RecordError, match="expected a record of class Word, got Single") as caught:
        sr.Schema.of(Word).encode_batch([word(), other])
    assert caught.value.position == 1


def of_rank(rank: int, dtype: str) -> np.ndarray:
    """Return an array of four elements, whatever its rank."""
    return np.zeros({0: (), 1: (4,), 2: (4, 1), 3: (2, 1, 2)}[rank], dtype)


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64", "bool", "bfloat16", "datetime64[s]"])
def test_arrays_are_joined_as_concatenate_joins_them(dtype: str) -> None:
    """Arrays that lie in any order in memory, and empty ones, make the column that `np.concatenate` makes."""
    schema = sr.Schema.of(record_with(sr.feature_list(dtype), []))
    field = schema.fields[0]
    bits = np.random.default_rng(1).integers(0, 2, (5, 6)).astype(field.element.numpy)
    frozen = bits[2].copy()
    frozen.flags.writeable = False
    for arrays in ([bits[0], bits[1]], [bits[0], bits[:, 1], bits[2, ::-2]], [bits[0, :0], frozen], [bits[0, :0]], []):
        column = collect(field, arrays)
        assert column is not None
        expected = np.concatenate([np.empty(0, field.element.numpy), *arrays])
        assert same_bits(np.array(column.values), expected)
        assert column.steps.tolist() == list(map(len, arrays))


@pytest.mark.parametrize("other", ["int64", "uint64", "float64", "datetime64[s]", ">i8", "int32"])
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_one_array_of_another_kind_is_found(other: str, rank: int) -> None:
    """An array of another dtype or rank is found among those as declared, were it of as many bytes."""
    field = sr.Schema.of(record_with(sr.feature_list("int64"), [])).fields[0]
    arrays = [np.arange(4), of_rank(rank, other), np.arange(3)]
    assert (collect(field, arrays) is not None) == ((other, rank) == ("int64", 1))
    assert collect(field, [np.arange(4), b"12345678", np.arange(3)]) is None
    assert collect(field, [np.arange(4), np.ma.array([1, 2], mask=[0, 1]), np.arange(3)]) is None


@pytest.mark.parametrize("depth", [40, 900, 5000])
def test_lists_that_are_nested_too_deeply_are_named(depth: int, tmp_path: Path) -> None:
    """However deep lists are in lists, an error names the field and how deep they may be."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    for field in (sr.feature_list("int64", shape=(None,)), sr.context("int64", shape=(2,)), sr.context("float64")):
        for nested in (value, [[1], value]):
            record = record_with(field, nested)
            with pytest.raises(sr.RecordError, match=r"x\[.*: expected at most 32 dimensions"):
                sr.Schema.of(record).encode(record)
            with pytest.raises(sr.RecordError, match=r"x\[.*: expected at most 32 dimensions"):
                sr.write([record], tmp_path / "never")
