"""The source code of a class, drafted from a schema."""

import attrs
import numpy as np
import pytest
from pasting import pasted
from strategies import CASES, class_of

import seqrecorder as sr
from seqrecorder.schema.source_code import draft, identifier


@pytest.mark.parametrize("dtype", CASES)
def test_a_pasted_draft_has_the_same_schema(dtype):
    """Every kind, shape, storage and presence of every element type comes back from the text."""
    schema = sr.Schema.of(class_of(dtype))
    assert sr.Schema.of(pasted(draft(schema))) == schema


@pytest.mark.parametrize("dtype", CASES)
def test_defaults_come_back_to_the_bit(dtype):
    """Defaults of every element type, one value and an array of them, are written so that they come back."""
    values = CASES[dtype].valid
    if dtype == "bfloat16":
        values = values[np.isfinite(values.astype("f4"))]
    fields = {"one": sr.context(dtype, default=values[0]), "all": sr.feature_list(dtype, default=values)}
    schema = sr.Schema.of(attrs.make_class("Defaults", fields))
    again = sr.Schema.of(pasted(draft(schema)))
    assert again.to_json() == schema.to_json()


def test_every_option_is_written():
    """Groups, roles, names, sparse and ragged fields keep their options, and order asks for keywords where it must."""

    @sr.record(kw_only=True)
    class Everything:
        key: str = sr.context(str, key=True, name="the key")
        speaker: str | None = sr.context(str, optional=True, default=None)
        part: int = sr.context("int16", chunk=True, renamed_from=("piece", "chunk"))
        bag: sr.SparseVector = sr.context("float32", sparse=9, factory=lambda: sr.SparseVector([1], [2.0], 9))
        dense: np.ndarray = sr.feature_list("int8", sparse=4, dense=True)
        free: np.ndarray = sr.feature_list("int64", align=None)
        chars: np.ndarray = sr.feature_list("uint8", align="chars")
        ragged: list = sr.feature_list("int64", shape=(None, 2), default=[np.ones((1, 2), int), np.ones((0, 2), int)])
        image: np.ndarray = sr.feature_list("uint8", shape=(2, 2, 3), storage="png", deferred=True, default=None)

    schema = sr.Schema.of(Everything)
    text = draft(schema)
    assert text.startswith("@sr.record(kw_only=True)\nclass Everything:\n")
    assert "speaker: str | None = " in text
    again = sr.Schema.of(pasted(text))
    assert again == schema
    assert again["part"].renamed_from == ("piece", "chunk")


def test_comments_and_notes_stand_where_they_belong():
    """A comment ends its field's line, and notes stand below the fields."""
    schema = sr.Schema.of(attrs.make_class("A", {"x": sr.context("int64"), "y": sr.context("bool")}))
    assert draft(schema, comments={"x": "perhaps"}, notes=["and this"]).splitlines()[2:] == [
        '    x: int = sr.context("int64")  # perhaps',
        '    y: bool = sr.context("bool")',
        "    # and this",
    ]


@pytest.mark.parametrize("feature", ["", "1", "a b", "class", "_x", "é", "__", "\u202e", "a\nb", "x" * 300])
def test_identifiers_are_python_names(feature):
    """Whatever a feature is called, its attribute has a name of its own that Python takes."""
    one = identifier(feature, [])
    other = identifier(feature, [one])
    assert one != other
    attrs.make_class("A", [one, other])
