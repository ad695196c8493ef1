"""Records of decoded values are what their classes make of them, whatever a class does when it is made."""

# ruff: noqa: RUF009 - declarations are fields of attrs, which takes them out of the class

import abc
import functools
from typing import Any, Generic, TypeVar

import attr
import attrs
import numpy as np
import pytest
from typing_extensions import Self

import seqrecorder as sr
from seqrecorder.codec.columns import builder, only_stores
from seqrecorder.schema.field import is_normaliser

T = TypeVar("T")


@sr.record
class Slots:
    key: str = sr.context(str)
    ids: Any = sr.feature_list("int64")


@sr.record(frozen=True)
class Frozen:
    key: str = sr.context(str)
    ids: Any = sr.feature_list("int64")


@sr.record(slots=False)
class Mapped:
    key: str = sr.context(str)
    ids: Any = sr.feature_list("int64")


@attrs.frozen(slots=False)
class FrozenMapped:
    key: str = sr.context(str)
    ids: Any = sr.feature_list("int64")


@sr.record(kw_only=True)
class Named:
    ids: Any = sr.feature_list("int64", default=())
    key: str = sr.context(str)


@attrs.define
class Private:
    _key: str = sr.context(str, name="key")
    _ids: Any = sr.feature_list("int64", name="ids")


@attrs.define
class Child(Slots):
    more: int = sr.context("int8", default=3)


@sr.record
class Parametrised(Generic[T]):
    key: str = sr.context(str)
    ids: Any = sr.feature_list("int64")


@attrs.define
class Abstract(metaclass=abc.ABCMeta):  # noqa: B024 - its metaclass is the point
    key: str = sr.context(str)
    ids: Any = sr.feature_list("int64")


STORED = [Slots, Frozen, Mapped, FrozenMapped, Named, Private, Child, Parametrised, Abstract]

SEEN: list[str] = []


@attrs.define
class PostInit:
    ids: Any = sr.feature_list("int64")

    def __attrs_post_init__(self) -> None:
        SEEN.append("made")


@attrs.define
class PreInit:
    ids: Any = sr.feature_list("int64")

    def __attrs_pre_init__(self) -> None:
        SEEN.append("made")


@attrs.define
class Validated:
    ids: Any = sr.feature_list("int64", validator=lambda *_: SEEN.append("made"))


@attrs.define
class OwnInit:
    ids: Any = sr.feature_list("int64")

    def __init__(self, ids: Any) -> None:
        SEEN.append("made")
        self.__attrs_init__(ids)  # type: ignore[attr-defined]  # attrs adds it


class InheritsAndInits(Slots):
    def __init__(self, *args: Any, **named: Any) -> None:
        SEEN.append("made")
        super().__init__(*args, **named)


@attrs.define(slots=False)
class Wrapped:
    ids: Any = sr.feature_list("int64")


def wrapped(init: Any) -> Any:
    @functools.wraps(init)
    def replacement(self: Any, ids: Any) -> None:
        SEEN.append("made")
        init(self, ids)

    return replacement


Wrapped.__init__ = wrapped(Wrapped.__init__)  # type: ignore[method-assign]


@attrs.define
class New:
    ids: Any = sr.feature_list("int64")

    def __new__(cls, *_: Any, **__: Any) -> Self:
        SEEN.append("made")
        return super().__new__(cls)


class Meta(type):
    def __call__(cls, *args: Any, **named: Any) -> Any:
        SEEN.append("made")
        return super().__call__(*args, **named)


@attrs.define(slots=False)
class OfMeta(metaclass=Meta):
    ids: Any = sr.feature_list("int64")


@attr.s(auto_attribs=True)
class Sets:
    ids: Any = sr.feature_list("int64")

    def __setattr__(self, name: str, value: Any) -> None:
        SEEN.append("made")
        super().__setattr__(name, value)


@attrs.define
class Counted:
    ids: Any = sr.feature_list("int64")
    count: int = attrs.field(init=False, factory=lambda: SEEN.append("made"))


ASKED = [PostInit, PreInit, Validated, OwnInit, InheritsAndInits, Wrapped, New, OfMeta, Sets, Counted]


def made(record_class: Any) -> tuple[list[Any], list[Any]]:
    """Return two records, and what is read back of them."""
    names = [attribute.alias or attribute.name for attribute in attrs.fields(record_class) if attribute.init]
    values = {"key": ["a", "b"], "ids": [[1, 2], []], "more": [1, 2]}
    records = [record_class(**{name: values[name][i] for name in names}) for i in range(2)]
    schema = sr.Schema.of(record_class)
    data = schema.encode_batch(records)
    SEEN.clear()
    return records, schema.decode_batch(data)


@pytest.mark.parametrize("record_class", STORED)
def test_a_class_that_only_stores_is_filled_directly(record_class: Any) -> None:
    """Records are equal to those that were written, of the very class, and can be used as any."""
    assert only_stores(record_class, len(attrs.fields(record_class)))
    records, got = made(record_class)
    assert got == records
    assert set(map(type, got)) == {record_class}
    assert attrs.evolve(got[0]) == records[0]
    assert repr(got) == repr(records)
    if "Frozen" in record_class.__name__:
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            got[0].key = "b"
    elif record_class is not Private:
        got[0].ids = [3]
        assert got[0].ids.dtype == np.int64


@pytest.mark.parametrize("record_class", ASKED)
def test_a_class_that_does_more_is_asked(record_class: Any) -> None:
    """Whatever a class does when a record is made happens for every record that is read."""
    assert not only_stores(record_class, 1)
    records, got = made(record_class)
    assert len(SEEN) >= 2
    assert [record.ids.tolist() for record in got] == [record.ids.tolist() for record in records]


def test_a_rebuilt_class_is_filled_directly() -> None:
    """The class that is rebuilt from a manifest takes its fields by name, and is filled directly all the same."""
    rebuilt = sr.Schema.from_dict(sr.Schema.of(Slots).to_dict()).record_class
    assert only_stores(rebuilt, 2)
    [record] = builder(sr.Schema.of(rebuilt))([["a"], [np.arange(2)]])
    assert record == rebuilt(key="a", ids=[0, 1])


def test_attributes_off_disk_need_a_default() -> None:
    """A class that cannot be made of its fields alone is named, with the attribute, whatever its order."""

    @attrs.define
    class Lacking:
        ids: Any = sr.feature_list("int64")
        other: Any = attrs.field()

    with pytest.raises(sr.SchemaError, match=r"Lacking\.other is kept off disk and has no default"):
        builder(sr.Schema.of(Lacking))


def test_normalisers_are_known() -> None:
    """A converter of a declaration is told from any other function."""
    assert is_normaliser(attrs.fields(Slots).ids.converter)
    assert not is_normaliser(int)
    assert not is_normaliser(lambda value: value)
    assert not is_normaliser(None)
