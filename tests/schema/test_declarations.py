"""Declarations: what is refused where it stands, and what attrs' own options do."""

from typing import Any

import attrs
import numpy as np
import pytest

import seqrecorder as sr

STRUCTURED = np.dtype([("a", "i4"), ("b", "f4")])

# What is refused while the class body runs: how to declare it, and what the error says.
REFUSED: dict[str, tuple[Any, str]] = {
    "a dimension of zero": (lambda: sr.feature_list("int8", shape=(0,)), r"a dimension of 0 stores nothing.*\(0,\)"),
    "a dimension of zero inside": (lambda: sr.context("int8", shape=(None, 0)), "a dimension of 0"),
    "a negative dimension": (lambda: sr.context("int8", shape=(-1,)), "ints of 1 or more, or None as the first"),
    "a float dimension": (lambda: sr.context("int8", shape=(2.0,)), "ints of 1 or more"),
    "a bool dimension": (lambda: sr.context("int8", shape=(True,)), "ints of 1 or more"),
    "None not first": (lambda: sr.feature_list("int8", shape=(2, None)), "only the first dimension may be None"),
    "a shape that is an int": (lambda: sr.feature_list("int8", shape=13), r"shape is a tuple, such as \(13,\)"),
    "a shape of None": (lambda: sr.feature_list("int8", shape=None), r"shape is a tuple, such as \(None,\)"),
    "packed ragged steps": (
        lambda: sr.feature_list("int8", shape=(None,), storage="packed"),
        "ragged steps would lose their bounds",
    ),
    "ragged steps in one buffer": (
        lambda: sr.feature_list("int8", shape=(None,), storage="buffer"),
        "ragged steps would lose their bounds",
    ),
    "text in a buffer": (lambda: sr.feature_list(str, storage="buffer"), "is for numbers"),
    "packed context": (lambda: sr.context("int8", storage="packed"), "a context field is one feature already"),
    "raw str": (lambda: sr.context(str, storage="raw"), "storage='raw' is for numbers; str needs"),
    "tensor of bytes": (lambda: sr.context(bytes, storage="tensor"), "storage='tensor' is for numbers; bytes needs"),
    "an unknown storage": (lambda: sr.context("int8", storage="zip"), "storage is one of auto, raw, .* got 'zip'"),
    "png of float": (
        lambda: sr.context("float32", shape=(2, 2, 3), storage="png"),
        "uint16 images .* got float32",
    ),
    "png of a matrix": (lambda: sr.context("uint8", shape=(2, 2), storage="png"), r"\(height, width, channels\)"),
    "png of open channels": (
        lambda: sr.context("uint8", shape=(2, 2, None), storage="png"),
        "only the first dimension",
    ),
    "jpeg of 16 bits": (lambda: sr.context("uint16", shape=(2, 2, 3), storage="jpeg"), "uint8 images .* got uint16"),
    "png of 5 channels": (lambda: sr.context("uint8", shape=(2, 2, 5), storage="png"), "png has 1 or 2 or 3 or 4"),
    "jpeg with alpha": (
        lambda: sr.context("uint8", shape=(2, 2, 4), storage="jpeg"),
        "jpeg has 1 or 3 channels, got 4",
    ),
    "sparse with shape": (lambda: sr.context("int8", sparse=3, shape=(3,)), "a sparse field has no shape"),
    "sparse raw": (
        lambda: sr.context("int8", sparse=3, storage="raw"),
        "a sparse field has no shape and storage='auto'",
    ),
    "sparse of size 0": (lambda: sr.context("int8", sparse=0), "size of the dense vector, 1 or more, got 0"),
    "sparse=True": (lambda: sr.context("int8", sparse=True), "size of the dense vector, 1 or more, got True"),
    "dense without sparse": (lambda: sr.context("int8", dense=True), "dense=True is for sparse fields"),
    "a key of floats": (lambda: sr.context("float32", key=True), "a key is a required scalar"),
    "a key of complex": (lambda: sr.context("complex64", key=True), "a key is a required scalar"),
    "a key with a shape": (lambda: sr.context("int64", key=True, shape=(2,)), "a key is a required scalar"),
    "an optional key": (lambda: sr.context(str, key=True, optional=True), "a key is a required scalar"),
    "a sparse key": (lambda: sr.context("int64", key=True, sparse=3), "a key is a required scalar"),
    "chunk of text": (lambda: sr.context(str, chunk=True), "chunk=True is for a scalar integer"),
    "default=None": (lambda: sr.context("int8", default=None), "default=None needs optional=True, or deferred=True"),
    "a group that is no identifier": (lambda: sr.feature_list("int8", align="a b"), "align names a group .* got 'a b'"),
    "a group that is no text": (lambda: sr.feature_list("int8", align=1), "align names a group .* got 1"),
    "float8": (lambda: sr.context("float8_e5m2"), "float8 is not supported; declare uint8 for the bits"),
    "int4": (lambda: sr.context("int4"), "int4 is not supported; declare int8"),
    "longdouble": (lambda: sr.context(np.longdouble), "no portable layout; declare float64"),
    "clongdouble": (lambda: sr.context(np.clongdouble), "no portable layout; declare complex128"),
    "object": (lambda: sr.context(object), "objects have no layout; declare str, bytes or a numeric type"),
    "structured": (lambda: sr.context(STRUCTURED), "structured dtypes are not supported"),
    "datetime without a unit": (
        lambda: sr.context("datetime64"),
        r"has no unit: declare one, such as datetime64\[ns\]",
    ),
    "timedelta without a unit": (lambda: sr.context(np.timedelta64), "has no unit"),
    "a unit of several": (lambda: sr.context("datetime64[10ms]"), "has a unit of 10: declare a plain unit, such as ms"),
    "a unit that is none": (lambda: sr.context("datetime64[parsec]"), "cannot be stored"),
    "a typing error": (lambda: sr.context("flaot32"), r"did you mean 'float32'\?"),
    "Python that numpy would run": (lambda: sr.context(",f4"), "dtype ',f4' cannot be stored"),
    "no dtype": (lambda: sr.context(3), "expected a numpy dtype, a tf.DType, a Python type or a name, got 3"),
    "a default and a factory": (lambda: sr.context("int8", default=1, factory=int), "default"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_declaration_that_cannot_be_stored_is_refused(case: str) -> None:
    """A declaration that cannot be stored raises where it stands, and the error says what to declare."""
    declare, message = REFUSED[case]
    with pytest.raises((sr.SchemaError, ValueError), match=message) as caught:
        declare()
    assert isinstance(caught.value, sr.SchemaError) or case == "a default and a factory"  # that is attrs' own error


# What is refused when the class is looked at as a whole: its fields, and what the error says.
TOGETHER: dict[str, tuple[dict[str, Any], str]] = {
    "two keys": (
        {"a": sr.context(str, key=True), "b": sr.context(str, key=True)},
        "at most one field has key=True, got a, b",
    ),
    "two chunks": (
        {"a": sr.context("int8", chunk=True), "b": sr.context("int8", chunk=True)},
        "at most one field has chunk=True",
    ),
    "one feature name": (
        {"a": sr.context("int8"), "b": sr.context("int8", name="a")},
        "fields 'a' and 'b' are both stored as 'a'",
    ),
    "one feature name over kinds": (
        {"a": sr.context("int8"), "b": sr.feature_list("int8", name="a")},
        "fields 'a' and 'b' are both stored as 'a'",
    ),
    "a presence feature": (
        {"x": sr.context("int8", optional=True, default=None), "y": sr.context("int8", name="x_present", default=0)},
        "fields 'x' and 'y' are both stored as 'x_present'",
    ),
    "a presence name": (
        {
            "x": sr.context("int8", optional=True, default=None, name="other"),
            "x_present": sr.context("int8", default=0),
        },
        "optional field 'x' adds x_present, which is also the name of a field",
    ),
    "the name of a sparse field": (
        {"x": sr.context("int8", sparse=3), "y": sr.context("int8", name="x")},
        "fields 'x' and 'y' are both stored as 'x'",
    ),
    "a sparse part": (
        {"x": sr.context("int8", sparse=3), "y": sr.context("int8", name="x/indices")},
        "fields 'x' and 'y' are both stored as 'x/indices'",
    ),
    "a default that does not fit": ({"x": sr.context("int8", default=300)}, "default of field 'x': .*got 300"),
    "a default of another type": ({"x": sr.context(str, default=b"")}, "default of field 'x': .*got bytes"),
    "a factory's default that does not fit": (
        {"x": sr.feature_list("int8", factory=lambda: [1.5])},
        "default of field 'x': .*got float 1.5",
    ),
}


@pytest.mark.parametrize("case", TOGETHER)
def test_fields_that_contradict_each_other_are_refused(case: str) -> None:
    """Fields that are right one by one and wrong together raise when the class is looked at, naming both."""
    fields, message = TOGETHER[case]
    with pytest.raises(sr.SchemaError, match=message):
        sr.Schema.of(attrs.make_class("Clash", fields))


def test_record_checks_the_class_where_it_stands() -> None:
    """sr.record raises for contradicting fields at the class, before any record is made."""
    with pytest.raises(sr.SchemaError, match="Twice: at most one field has key=True"):

        @sr.record
        class Twice:
            a: str = sr.context(str, key=True)
            b: str = sr.context(str, key=True)


def test_a_field_and_a_method_have_two_names() -> None:
    """One of them would be gone without a word: a hook that does not run, or values that a rewrite drops."""

    @sr.record
    class Day:
        load: float = sr.context("float32")

    message = "'load' is a field and a method; rename the field, with renamed_from='load' to read old data"
    with pytest.raises(sr.SchemaError, match=f"Inherited: {message}"):

        @sr.record
        class Inherited(Day):
            def load(self) -> None: ...

    with pytest.raises(sr.SchemaError, match=f"Both: {message}"):

        @sr.record(slots=False)
        class Both:
            load: float = sr.context("float32")

            def load(self) -> None: ...  # noqa: F811 - that is the mistake


def test_a_field_may_have_had_any_name() -> None:
    """Every identifier but the field's own can be an earlier name of it."""
    record = sr.record(
        type("Renamed", (), {"x": sr.context("int8", renamed_from="value"), "__annotations__": {"x": int}})
    )
    assert sr.Schema.of(record)["x"].renamed_from == ("value",)


def test_kw_only_lifts_the_order_of_defaults() -> None:
    """With kw_only=True a field without a default may follow one with a default."""
    with pytest.raises(sr.SchemaError, match=r"Refused: field 'ids' has no default .* after 'rate'.*kw_only=True"):

        @sr.record
        class Refused:
            rate: int = sr.context("int32", default=1)
            ids: Any = sr.feature_list("int64")

    @sr.record(kw_only=True)
    class Clip:
        rate: int = sr.context("int32", default=1)
        ids: Any = sr.feature_list("int64")

    assert [field.name for field in sr.Schema.of(Clip).fields] == ["rate", "ids"]
    assert Clip(ids=[1]).rate == 1


def test_lists_are_normalised_when_set() -> None:
    """What is given or set is converted to what decode gives, so that a record equals its copy from disk."""

    @sr.record
    class Clip:
        ids: Any = sr.feature_list("int16")

    record = Clip([1, 2])
    assert record.ids.dtype == np.int16
    record.ids = (3, 4, 5)
    assert record == Clip(np.array([3, 4, 5], "int16"))
    record.ids = "not this"
    assert record.ids == "not this"  # reported by encode, with all other problems


@pytest.mark.parametrize("decorate", [sr.record, attrs.define])
@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: sr.context("int46"), "dtype 'int46' cannot be stored"),
        (lambda: sr.context("int64", shape=(None, None)), "only the first dimension"),
        (lambda: sr.feature_list("int64", shape=3), "shape is a tuple"),
        (lambda: sr.context("int64", default=None), "default=None needs"),
        (lambda: sr.feature_list(str, storage="raw"), "for numbers"),
    ],
)
def test_mistakes_name_their_field(decorate, declare, message):
    """A mistake in a declaration is an error that names class and field, whatever stands around it."""
    with pytest.raises(sr.SchemaError, match=f"^Clip: field 'bad': (.*){message}"):

        @decorate
        class Clip:
            key: str = sr.context(str, key=True)
            bad: int = declare()
            good: int = sr.context("int64")

    with pytest.raises(sr.SchemaError, match=message) as caught:
        declare()
    assert "of this declaration" not in str(caught.value)
    assert "Clip" not in str(caught.value)
