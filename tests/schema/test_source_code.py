"""The source code of a class, drafted from a schema."""

import attrs
import numpy as np
import pytest
from pasting import pasted
from strategies import CASES, class_of

import seqrecorder as sr
from seqrecorder.schema import dtypes
from seqrecorder.schema.field import Field
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


ODD = """
    self cls sr np attrs attr other state record fields split load from_csv_row to_csv_row inst_dict attr_dict NOTHING
    setattr _setattr _config __x __init__ __class__ __slots__ __attrs_attrs__ _ __ x X x_ x-y x/y x_y class from match
    type None print object float str dict list \ufb01 fi gr\u00f6\u00dfe \u97f3 \u8a9e
"""
ODD_NAMES = list(ODD.split())


def test_classes_of_odd_names_work():
    """Whatever features are called, all in one class, what is pasted is a class whose records come back."""
    names: list[str] = []
    for feature in ODD_NAMES:
        names.append(identifier(feature, names))
    kinds = ("context", "feature_list")
    fields = [
        Field(name, feature, kinds[n % 2], dtypes.element_type(("int64", "str", "float32")[n % 3]), (), default=default)
        for n, (name, feature) in enumerate(zip(names, ODD_NAMES, strict=True))
        for default in [attrs.NOTHING if n % 4 else {0: [3, "a", 0.5], 1: [[], [], []]}[n % 2][n % 3]]
    ]
    schema = sr.Schema("Draft", tuple(fields))
    made = pasted(draft(schema))
    values = {
        field.name: [[7], ["b"], [1.5]][n % 3] if field.is_list else [7, "b", 1.5][n % 3]
        for n, field in enumerate(fields)
    }
    given = made(**values)
    mine = sr.Schema.of(made)
    assert [field.feature for field in mine.fields] == ODD_NAMES
    assert mine.decode(mine.encode(given)) == given
    rebuilt = sr.Schema.from_json(mine.to_json())  # and a class of the manifest alone
    again = rebuilt.decode(mine.encode(given))
    assert {name: getattr(again, name) for name in values} == values
