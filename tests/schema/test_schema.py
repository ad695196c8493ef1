"""Schemas as values: of classes, as JSON, compared, told apart, and rebuilt without the class."""

import gc
import json
import random
import weakref
from typing import Any

import attrs
import numpy as np
import pytest

import seqrecorder as sr


def rich_fields() -> dict[str, Any]:
    """A field for every option and every kind of default."""
    return {
        "key": sr.context(str, key=True),
        "part": sr.context("int32", chunk=True, default=-1),
        "yes": sr.context(bool, default=True),
        "gain": sr.context("float32", default=float("nan")),
        "noise": sr.context("float64", default=np.frombuffer(bytes.fromhex("230100000000f8ff"))[0]),
        "text": sr.context(str, default="\u00e9\n", name="other/name"),
        "blob": sr.context(bytes, default=b"\xff\0"),
        "when": sr.context("datetime64[ns]", default=np.datetime64("2024-01-01", "ns")),
        "never": sr.context("timedelta64[D]", default=np.timedelta64("NaT", "D")),
        "wave": sr.context("complex64", default=1 - 2j),
        "huge": sr.context("uint64", default=2**64 - 1),
        "half": sr.context("bfloat16", default=0.5),
        "matrix": sr.context("float16", shape=(2, 2), factory=lambda: [[1.0, 2.0], [3.0, -0.0]], storage="raw"),
        "open": sr.context("int8", shape=(None, 2), optional=True, default=None),
        "words": sr.context(str, shape=(None,), factory=lambda: ["a", ""]),
        "blobs": sr.context(bytes, shape=(2,), factory=lambda: [b"a", b"\xfe"]),
        "bag": sr.context("float32", sparse=5, dense=True, factory=lambda: {4: 0.5}),
        "late": sr.feature_list("float32", shape=(2,), deferred=True, default=None),
        "packed": sr.feature_list("uint8", storage="packed", factory=list),
        "ragged": sr.feature_list("int64", shape=(None,), align=None, factory=lambda: [[1], [2, 3]]),
        "bags": sr.feature_list("int8", sparse=3, align="g", factory=lambda: [{0: 1}, {}]),
        "tensor": sr.feature_list("int16", shape=(2,), storage="tensor", align="g", factory=lambda: [[1, 2], [3, 4]]),
        "image": sr.feature_list("uint8", shape=(4, 4, 3), storage="png", optional=True, default=None),
        "photo": sr.feature_list("uint8", shape=(4, 4, 1), storage="jpeg", optional=True, default=None),
    }


Rich = attrs.make_class("Rich", rich_fields(), kw_only=True)


Small = attrs.make_class(
    "Small",
    {
        "key": sr.context(str, key=True),
        "rate": sr.context("int32", default=16_000),
        "mfcc": sr.feature_list("float32", shape=(13,)),
    },
    kw_only=True,
)


def names(source: Any) -> list[str]:
    return [field.name for field in sr.Schema.of(source).fields]


@pytest.mark.parametrize(
    "decorate", [sr.record, sr.record(kw_only=True), sr.record(frozen=True), attrs.define, attrs.frozen]
)
def test_every_kind_of_attrs_class_has_a_schema(decorate: Any) -> None:
    """sr.record, attrs.define and attrs.frozen classes give the same schema, and plain fields are left out."""

    @decorate
    class Clip:
        key: str = sr.context(str, key=True)
        ids: Any = sr.feature_list("int64")
        path: str = attrs.field(default="")

    assert names(Clip) == ["key", "ids"]
    assert sr.Schema.of(Clip) == sr.Schema.of(Clip(key="a", ids=[1])) == sr.Schema.of(sr.Schema.of(Clip))


def test_what_stores_nothing_has_no_schema() -> None:
    """A class without attrs, or without stored fields, is refused with what to do."""
    with pytest.raises(sr.SchemaError, match="expected a record class, or a record, got int 5"):
        sr.Schema.of(5)
    with pytest.raises(sr.SchemaError, match="Bare stores nothing: declare fields"):
        sr.Schema.of(attrs.make_class("Bare", ["x"]))


def test_a_child_has_its_parents_fields_and_its_own() -> None:
    """An attrs child stores inherited fields first, and neither parent nor sibling gains what a child declares."""

    @sr.record
    class Parent:
        key: str = sr.context(str, key=True)

    @sr.record
    class Child(Parent):
        ids: Any = sr.feature_list("int64")

    @sr.record
    class Sibling(Parent):
        key: str = sr.context(bytes, key=True)

    assert (names(Parent), names(Child), names(Sibling)) == (["key"], ["key", "ids"], ["key"])
    assert sr.Schema.of(Parent)["key"].element.name == sr.Schema.of(Child)["key"].element.name == "str"
    assert sr.Schema.of(Sibling)["key"].element.name == "bytes"


def test_a_declaration_that_attrs_has_not_collected_is_refused() -> None:
    """A field declared in an undecorated child or mixin is an error, since it would never be stored."""

    class Mixin:
        more: int = sr.context("int8")

    @sr.record
    class Parent:
        key: str = sr.context(str, key=True)

    class Child(Parent):
        ids: Any = sr.feature_list("int64")

    class Methods(Parent):
        def shout(self) -> str:
            return self.key.upper()

    with pytest.raises(sr.SchemaError, match=r"Child: field 'ids' .* decorate Child with @seqrecorder.record"):
        sr.Schema.of(Child)
    with pytest.raises(sr.SchemaError, match=r"field 'more' is declared in Mixin"):
        sr.record(type("Mixed", (Mixin,), {}))
    assert names(Methods) == ["key"]


def test_changes_tell_none_from_nothing() -> None:
    """A default of None, or an alignment of None, differs from none given."""
    late = {"deferred": True}
    for kind, change in ((sr.feature_list, {"align": None}), (sr.context, {"default": None, **late})):
        plain = late if "deferred" in change else {}
        old, new = (sr.Schema.of(attrs.make_class("A", {"x": kind("int8", **o)})) for o in (plain, change))
        assert old != new
        assert len(new.changes_since(old)) == 1


def test_json_rebuilds_every_option_and_default() -> None:
    """Every option and kind of default survives JSON, to the bit, and so does the fingerprint."""
    schema = sr.Schema.of(Rich)
    text = schema.to_json()
    rebuilt = sr.Schema.from_json(text)
    assert rebuilt == schema
    assert rebuilt.fingerprint == schema.fingerprint
    assert rebuilt.to_json() == text
    assert rebuilt.changes_since(schema) == []
    assert sr.Schema.from_json(schema.to_json(indent=2)) == schema


def test_the_rebuilt_class_makes_equal_records() -> None:
    """Records written by the class are read by one rebuilt from JSON, with every default at its place."""
    schema, rebuilt = sr.Schema.of(Rich), sr.Schema.from_json(sr.Schema.of(Rich).to_json())
    record = Rich(key="a", late=np.zeros((0, 2), "f4"))
    twin = rebuilt.record_class(key="a", late=np.zeros((0, 2), "f4"))
    assert type(twin) is not Rich
    for field in schema.fields:
        assert sr.testing.same_bits(getattr(record, field.name), getattr(twin, field.name)), field.name
    for one, other in (("packed", "packed"), ("ragged", "ragged")):
        assert getattr(record, one) is not getattr(twin, other)


def test_equal_schemas_are_rebuilt_as_one_class() -> None:
    """Records of two readings are equal; another default is another class, and a class that nobody holds goes."""
    text = sr.Schema.of(Rich).to_json()
    first, second = sr.Schema.from_json(text), sr.Schema.from_json(text)
    assert first.record_class is second.record_class
    assert first.select(["key", "text"]).record_class is second.select(["key", "text"]).record_class
    assert first.record_class(key="a", late=[]) == second.record_class(key="a", late=[])
    assert sr.Schema.from_json(text.replace("-1", "-2")).record_class is not first.record_class
    gone = weakref.ref(first.record_class)
    del first, second
    gc.collect()
    assert gone() is None


def test_the_fingerprint_is_pinned() -> None:
    """The fingerprint of a class is a promise to datasets on disk: it must never change."""
    assert sr.Schema.of(Small).fingerprint == "b0d065c7b39917a1230e9a0f1202d692835257f5d990b0a33a4ffce9c0b99793"


def test_the_fingerprint_is_of_the_fields() -> None:
    """The class's name is not in the fingerprint; each option of a field is."""

    def fingerprint(declaration: Any, name: str = "A") -> str:
        return sr.Schema.of(attrs.make_class(name, {"x": declaration})).fingerprint

    assert fingerprint(sr.context("int8")) == fingerprint(sr.context("int8"), "B")
    variants = [
        sr.context("int8"),
        sr.context("int16"),
        sr.context("int8", shape=(1,)),
        sr.context("int8", shape=(None,)),
        sr.context("int8", storage="raw"),
        sr.context("int8", storage="tensor"),
        sr.context("int8", optional=True),
        sr.context("int8", default=0),
        sr.context("int8", default=1),
        sr.context("int8", name="y"),
        sr.context("int8", sparse=3),
        sr.context("int8", sparse=3, dense=True),
        sr.context("int8", key=True),
        sr.context("int8", chunk=True),
        sr.context("int8", deferred=True),
        sr.feature_list("int8"),
        sr.feature_list("int8", align=None),
        sr.feature_list("int8", storage="packed"),
    ]
    assert len(set(map(fingerprint, variants))) == len(variants)


def test_changes_say_what_changed() -> None:
    """One change per difference, in a stable order, seen from the new class."""
    old = attrs.make_class("Old", {"a": sr.context("int8"), "b": sr.context("int8"), "c": sr.feature_list(str)})
    new = attrs.make_class(
        "New",
        {
            "c": sr.feature_list(bytes, align=None),
            "b": sr.context("int8", name="beta"),
            "d": sr.context("int8", shape=(2,)),
        },
    )
    assert [str(change) for change in sr.Schema.of(new).changes_since(sr.Schema.of(old))] == [
        "c: dtype str in the data, bytes in the class",
        "b: feature='beta' in the class",
        "d: not in the data (context int8, shape (2,)), and has no default",
        "c: align=None in the class",
        "a: not in the class, left unread",
        "order: c, b in the class",
    ]


def test_changes_see_the_order() -> None:
    """Schemas of the same fields in another order differ, by one line."""
    a, b = {"a": sr.context("int8")}, {"b": sr.context("int8")}
    schemas = [sr.Schema.of(attrs.make_class("A", fields)) for fields in (a | b, b | a)]
    assert list(map(str, schemas[1].changes_since(schemas[0]))) == ["order: b, a in the class"]


def test_a_field_is_looked_up_by_name() -> None:
    """An unknown field's error suggests the closest name and lists all."""
    schema = sr.Schema.of(Small)
    assert schema["mfcc"].shape == (13,)
    with pytest.raises(sr.SchemaError, match=r"no field 'mfc' \(did you mean 'mfcc'\?\); it has key, rate, mfcc"):
        schema["mfc"]
    assert [field.name for field in schema.select(["mfcc", "key"]).fields] == ["key", "mfcc"]


def test_records_compare_by_bits() -> None:
    """Equal records compare equal, one differing bit makes them unequal, and records are unhashable."""
    cls = attrs.make_class("Plain", {"x": sr.feature_list("float64"), "y": sr.context("float32", default=0.0)})
    one = cls(np.array([np.nan, 0.0]))
    assert one == cls([float("nan"), 0.0])
    assert one != cls([float("nan"), -0.0])
    payload = np.array([np.nan, 0.0]).view("u8") ^ np.array([1, 0], "u8")
    assert one != cls(payload.view("f8"))
    assert one != cls([float("nan"), 0.0], y=-0.0)
    assert one != cls([float("nan")])
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    record = Small(key="a", mfcc=[])
    with pytest.raises(TypeError, match="unhashable"):
        hash(record)


def mutated(text: str, random_: random.Random) -> str:
    """One to three changes of a kind that a hand, a disk or a foe makes."""
    data = json.loads(text)
    strange = [None, True, -1, 0, 2**70, 1e400, "", "x", "\ud800", [], {}, [None], [0], [2, None], {"items": [1]}, [[]]]
    for _ in range(random_.randint(1, 3)):
        field = random_.choice(data["fields"]) if data.get("fields") else {}
        match random_.randint(0, 5):
            case 0 if field:
                field[random_.choice(sorted(field))] = random_.choice(strange)
            case 1 if field:
                del field[random_.choice(sorted(field))]
            case 2:
                field[random_.choice(["default", "shape", "sparse", "storage", "align", "zzz", "dense"])] = (
                    random_.choice(strange)
                )
            case 3:
                default = field.get("default")
                if isinstance(default, dict):
                    default[random_.choice(["shape", "items", "values", "steps", "indices"])] = random_.choice(strange)
            case 4:
                data[random_.choice(["name", "fields"])] = random_.choice(strange)
            case _:
                text = json.dumps(data)
                position = random_.randrange(len(text))
                return text[:position] + random_.choice('{}[]",:0x\\') + text[position + random_.randint(0, 3) :]
        if not isinstance(data.get("fields"), list) or not all(isinstance(f, dict) for f in data["fields"]):
            break
    return json.dumps(data)


def test_mutated_schemas_are_refused_or_read() -> None:
    """A damaged schema gives ManifestError or a usable Schema, and never another error."""
    random_ = random.Random(7)
    text = sr.Schema.of(Rich).to_json()
    read = 0
    for _ in range(2000):
        damaged = mutated(text, random_)
        try:
            schema = sr.Schema.from_json(damaged)
        except sr.ManifestError:
            continue
        read += 1
        assert sr.Schema.from_json(schema.to_json()) == schema, damaged
    assert 0 < read < 1500


@pytest.mark.parametrize("text", ["", "null", "[]", "3", '{"name": "A"}', '{"name": "A", "fields": []}', "{" * 99])
def test_what_is_no_schema_is_refused(text: str) -> None:
    """Text that is no schema is refused as a ManifestError that says so."""
    with pytest.raises(sr.ManifestError, match="schema: "):
        sr.Schema.from_json(text)


def test_deeply_nested_json_is_refused() -> None:
    """JSON nested beyond any sense is refused, and does not end in a RecursionError."""
    with pytest.raises(sr.ManifestError, match="schema: "):
        sr.Schema.from_json("[" * 100_000)


@pytest.mark.parametrize("name", ["class", "self", "_1", "_", "__init__", "__dict__", "a b", "", 5])
def test_names_that_no_class_can_have_are_refused(name: Any) -> None:
    """A stored name that would break, or change, the rebuilt class is refused, before any class is made."""
    field = {"name": name, "kind": "context", "dtype": "int64", "shape": [], "feature": "x"}
    with pytest.raises(sr.ManifestError):
        sr.Schema.from_dict({"name": "A", "fields": [field]})


def test_names_that_collide_are_refused() -> None:
    """Two stored fields of one name are refused; those whose arguments would be one have others."""
    fields = [
        {"name": name, "kind": "context", "dtype": "int64", "shape": [], "feature": feature}
        for name, feature in (("x", "f"), ("_x", "g"), ("x", "h"))
    ]
    assert sr.Schema.from_dict({"name": "A", "fields": fields[:2]}).record_class(x=1, _x=2)._x == 2
    with pytest.raises(sr.ManifestError, match="two fields have one name"):
        sr.Schema.from_dict({"name": "A", "fields": fields})


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "a5"},
        {"dtype": "<i8"},
        {"dtype": 5},
        {"dtype": "datetime64[25s]"},
        {"shape": "ab"},
        {"shape": {"2": 1}},
        {"shape": [2], "default": {"shape": [-1], "items": [1, 2, 3]}},
        {"default": {"steps": [1]}},
        {"default": 2**70},
        {"feature": "\ud800"},
    ],
)
def test_stored_options_are_checked_as_declared_ones(change: dict[str, Any]) -> None:
    """What no declaration can say is refused when it comes from a file."""
    field = {"name": "x", "kind": "context", "dtype": "int64", "shape": [], **change}
    with pytest.raises(sr.ManifestError):
        sr.Schema.from_dict({"name": "A", "fields": [field]})


def test_integers_of_many_digits_are_refused() -> None:
    """JSON with an integer beyond Python's limit of digits is refused as any other."""
    with pytest.raises(sr.ManifestError):
        sr.Schema.from_json(f'{{"name": "A", "fields": [{"9" * 5000}]}}')


def test_classes_are_freed() -> None:
    """Looking at a class does not keep it alive."""
    made = attrs.make_class("Shortlived", {"x": sr.context("int64")})
    sr.Schema.of(made)
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_fields_whose_short_names_are_no_arguments_are_read(tmp_path: Any) -> None:
    """A class rebuilt from a dataset takes fields that differ by an underscore only, or are keywords without theirs."""

    @sr.record
    class Odd:
        a: int = sr.context("int64")
        _a: str = sr.context(str, key=True, alias="b")
        _class: str = sr.context(str, alias="cls")
        _self: int = sr.context("int64", alias="me")

    sr.write([Odd(a=1, b="k", cls="x", me=2)], tmp_path / "d")
    for record in (next(iter(sr.read_records(tmp_path / "d"))), sr.open(tmp_path / "d")["train"]["k"]):
        assert (record.a, record._a, record._class, record._self) == (1, "k", "x", 2)
    assert next(iter(sr.read_records(tmp_path / "d", schema=Odd))) == Odd(a=1, b="k", cls="x", me=2)


def test_a_field_that_no_rebuilt_class_can_have_is_refused() -> None:
    """A field named `self` could be written and not be read; `name=` stores one under that name."""

    @attrs.define
    class Odd:
        self: int = sr.context("int64", alias="me")

    with pytest.raises(sr.SchemaError, match="'self' cannot be the name of a field; choose another, and pass name="):
        sr.Schema.of(Odd)

    @sr.record
    class Even:
        me: int = sr.context("int64", name="self")

    assert Even(me=1) == sr.Schema.of(Even).decode(sr.Schema.of(Even).encode(Even(me=1)))
