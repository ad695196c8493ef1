"""Fields: the form in which records hold values, and what one declaration says of the others."""

from typing import Any

import attrs
import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.schema.exact_values import same_bits


def field_of(declaration: Any) -> Any:
    return sr.Schema.of(attrs.make_class("Single", {"x": declaration}))["x"]


FORMS: dict[str, tuple[Any, Any, Any]] = {
    "a scalar of an array": (sr.context("int32"), np.array(5, "i4"), np.int32(5)),
    "a scalar of a number": (sr.context("int32"), 5, np.int32(5)),
    "an empty list of vectors": (sr.feature_list("float32", shape=(3,)), [], np.empty((0, 3), "f4")),
    "an empty open-ended value": (sr.context("int8", shape=(None, 2)), [], np.empty((0, 2), "i1")),
    "a dense vector": (
        sr.context("float32", sparse=3),
        np.array([0, 2, 0], "f4"),
        sr.SparseVector([1], np.array([2], "f4"), 3),
    ),
    "ragged steps": (sr.feature_list("int64", shape=(None,)), ([1], ()), [np.array([1]), np.array([], int)]),
    "sparse steps": (sr.feature_list("int64", sparse=3), [{1: 5}], [sr.SparseVector([1], np.array([5]), 3)]),
}


@pytest.mark.parametrize("case", FORMS)
def test_values_take_the_form_that_records_hold(case: str) -> None:
    """What is given becomes what decode gives, so that a record equals its copy."""
    declaration, given, want = FORMS[case]
    field = field_of(declaration)
    assert same_bits(field.normaliser()(given), want)
    assert same_bits(field.exact(want), want)


@pytest.mark.parametrize(
    ("declaration", "given"),
    [
        (sr.feature_list("float32", shape=(2,)), np.zeros((3, 0), "f4")),
        (sr.feature_list("float32", shape=(2,)), np.zeros((0, 5), "f4")),
        (sr.feature_list("float32", shape=(2,)), [[]]),
        (sr.feature_list("float32"), np.zeros((0, 2), "f4")),
        (sr.context("float32", shape=(2,)), []),
        (sr.context("float32", shape=(None,)), np.zeros((), "f4")),
        (sr.context("float32"), np.zeros(1, "f4")),
    ],
)
def test_empty_arrays_of_another_shape_are_refused(declaration: Any, given: Any) -> None:
    """An array of no elements still has a shape: steps of nothing are not no steps."""
    record_class = attrs.make_class("Single", {"x": declaration})
    with pytest.raises(sr.RecordError, match="x: expected .*got shape"):
        sr.Schema.of(record_class).encode(record_class(given))


@pytest.mark.parametrize("name", ["", 5, "\ud800"])
def test_a_name_that_no_file_can_hold_is_refused(name: Any) -> None:
    """A feature's name is text that UTF-8 can hold, and an empty one is not taken for none."""
    with pytest.raises(sr.SchemaError, match="name: expected nonempty text"):
        sr.context("int64", name=name)


def test_a_freed_field_is_not_in_a_group_of_its_name() -> None:
    """A freed field and a group of its name would share their lengths, and are refused."""
    fields = {"x": sr.feature_list("int64", align="y"), "y": sr.feature_list("int64", align=None)}
    with pytest.raises(sr.SchemaError, match="field 'y' is freed by align=None, and others are aligned as 'y'"):
        sr.Schema.of(attrs.make_class("Groups", fields))


def test_a_default_without_utf8_is_refused() -> None:
    """A default that could never be encoded is refused where it stands."""
    with pytest.raises(sr.SchemaError, match="default of field 'x': .*lone surrogate"):
        sr.Schema.of(attrs.make_class("Text", {"x": sr.context(str, default="\ud800")}))


def test_none_is_no_dtype() -> None:
    """None is not taken for float64, as numpy has it."""
    with pytest.raises(sr.SchemaError, match="got None"):
        sr.context(None)


@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_records_are_not_hashable(slots: bool, frozen: bool) -> None:
    """Records hold arrays and compare by bits, so none is hashable, however its class was made."""

    @sr.record(slots=slots, frozen=frozen)
    class Item:
        x: int = sr.context("int64")

    assert Item(1) == Item(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Item(1))


def test_fields_are_hashable_whatever_their_default() -> None:
    """A schema can be a key, arrays among its defaults or not."""
    schemas = {
        sr.Schema.of(attrs.make_class("A", {"x": sr.context("int64", shape=(2,), default=[1, 2])})) for _ in "ab"
    }
    assert len(schemas) == 1
