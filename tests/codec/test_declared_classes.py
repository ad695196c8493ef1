"""Classes that were declared in every way: what they are read with, and that their records come back from bytes."""

import pickle
from typing import Any

import attrs
import numpy as np
import pytest
from pasting import pasted

import seqrecorder as sr
from seqrecorder.schema import dtypes
from seqrecorder.schema.field import Field, feature_names
from seqrecorder.schema.source_code import draft, identifier


def test_attrs_options_work() -> None:
    """Validators, kw_only, factories, aliases and repr do what they do in attrs."""

    def positive(_: Any, attribute: Any, value: Any) -> None:
        if value <= 0:
            raise ValueError(f"{attribute.name} must be positive")

    @sr.record
    class Clip:
        rate: int = sr.context("int32", validator=positive)
        ids: Any = sr.feature_list("int64", factory=list, repr=False)
        gain: float = sr.context("float32", default=1.0, kw_only=True, alias="volume")

    one, other = Clip(8000, volume=0.5), Clip(8000)
    assert one.gain == np.float32(0.5)
    assert one.ids is not other.ids
    assert one.ids.dtype == np.int64
    assert "rate" in repr(other)
    assert "ids" not in repr(other)
    with pytest.raises(ValueError, match="rate must be positive"):
        Clip(0)
    with pytest.raises(TypeError):
        Clip(8000, [], 0.5)
    schema = sr.Schema.of(Clip)
    assert schema.decode(schema.encode(one)) == one


def test_private_attributes_are_stored_under_their_names() -> None:
    """A private attribute is stored with its underscore and given without it, as attrs has it."""

    @sr.record
    class Hidden:
        _secret: int = sr.context("int8")

    schema = sr.Schema.of(Hidden)
    record = Hidden(secret=5)
    assert [field.feature for field in schema.fields] == ["_secret"]
    assert schema.decode(schema.encode(record)) == record
    rebuilt = sr.Schema.from_json(schema.to_json())
    assert rebuilt.decode(schema.encode(record))._secret == 5


def test_a_frozen_record_is_decoded_too() -> None:
    """Frozen records are built by decode and cannot be changed."""

    @sr.record(frozen=True)
    class Fixed:
        ids: Any = sr.feature_list("int64")

    schema = sr.Schema.of(Fixed)
    decoded = schema.decode(schema.encode(Fixed([1, 2])))
    assert decoded == Fixed([1, 2])
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        decoded.ids = []


def test_names_of_features() -> None:
    """A field's features are named after it, or by `name`, and sparse and optional fields add theirs."""

    @sr.record
    class Clip:
        a: Any = sr.context("int8", name="foreign name")
        b: Any = sr.feature_list("int8", sparse=3, optional=True, default=None)

    schema = sr.Schema.of(Clip)
    assert feature_names(schema["a"]) == ["foreign name"]
    assert feature_names(schema["b"]) == ["b/indices", "b/values", "b_present"]
    assert list(schema.context_features) == ["foreign name", "b_present"]
    assert list(schema.sequence_features) == ["b/indices", "b/values"]


@pytest.mark.parametrize(
    "decorate", [sr.record, sr.record(kw_only=True), sr.record(frozen=True), attrs.define, attrs.frozen]
)
def test_records_of_every_kind_of_attrs_class_come_back(decorate: Any) -> None:
    """Records of sr.record, attrs.define and attrs.frozen classes come back, without what is in plain fields."""

    @decorate
    class Clip:
        key: str = sr.context(str, key=True)
        ids: Any = sr.feature_list("int64")
        path: str = attrs.field(default="")

    schema = sr.Schema.of(Clip)
    assert schema.decode(schema.encode(Clip(key="a", ids=[1], path="gone"))) == Clip(key="a", ids=[1])


def test_schemas_can_be_pickled() -> None:
    """A schema crosses to other processes, also once codecs and classes were made of it."""
    rebuilt = sr.Schema.from_json(sr.Schema.of(attrs.make_class("A", {"x": sr.context("int64")})).to_json())
    assert rebuilt.decode(rebuilt.encode(rebuilt.record_class(x=1))).x == 1
    assert pickle.loads(pickle.dumps(rebuilt)) == rebuilt  # noqa: S301 - our own bytes


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
