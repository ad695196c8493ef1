"""Records of decoded values.

They are made by their class, unless all that its `__init__` would do is to ask whether values are exact, which decoded
ones are, and to store them: then these are stored directly, a field of all records at a time, in less than a third of
the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import repeat
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.columns import scatter
from seqrecorder.errors import FieldProblem, RecordError, SchemaError, did_you_mean
from seqrecorder.schema.conversion import describe
from seqrecorder.schema.declarations import METADATA_KEY
from seqrecorder.schema.field import is_normaliser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.schema import Schema

    Builder = Callable[[Sequence[Sequence[Any]]], list[Any]]


def builder(schema: Schema) -> Builder:
    """Return the function that makes records of the values of each field, which are in the form that records hold.

    >>> import numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     name: str = sr.context(str)
    ...     rank: int = sr.context("int8", default=0)
    >>> builder(sr.Schema.of(Point))([["a", "b"], [1, 2]])
    [Point(name='a', rank=1), Point(name='b', rank=2)]

    Raises:
        SchemaError: the class cannot be made of its fields alone.
    """
    arguments = _arguments(schema)
    if only_stores(schema.record_class, len(schema.fields)):
        return _storing(schema)
    build = schema.record_class
    return lambda values: [build(**dict(zip(arguments, row, strict=True))) for row in zip(*values, strict=True)]


def records_of(schema: Schema, columns: Mapping[str, Column]) -> list[Any]:
    """Return the records whose columns these are."""
    return builder(schema)([scatter(field, columns[field.name]) for field in schema.fields])


def maker_from_mapping(schema: Schema) -> Callable[[Any, int], Any]:
    """Return the function that makes a record of a dictionary of field to value, and its position.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     name: str = sr.context(str)
    ...     rank: int | None = sr.context("int8", optional=True)
    >>> maker_from_mapping(sr.Schema.of(Point))({"name": "a"}, 0)
    Point(name='a', rank=None)

    Fields that have a default or are optional may be left out. The function raises `RecordError` for a key that is no
    field, one that is missing, and what is no dictionary.
    """
    record_class = schema.record_class
    alias = {a.name: a.alias or a.name for a in attrs.fields(record_class) if a.init}
    renamed = {name: other for name, other in alias.items() if name != other}
    empty = {field.name: None for field in schema.fields if field.optional and field.default is attrs.NOTHING}
    key = schema.key_field.name if schema.key_field is not None else None

    def make(row: Any, position: int) -> Any:
        if not isinstance(row, Mapping):
            raise RecordError(f"expected a dictionary, as the records before, got {describe(row)}", position=position)
        values = {**empty, **row} if empty else row
        if renamed:
            values = {renamed.get(name, name): value for name, value in values.items()}
        try:
            return record_class(**values)
        except TypeError:
            problems = _bad_keys(schema, row, alias)
            if not problems:
                raise
            found = row.get(key) if key else None
            message = f"this dictionary is no {schema.name}"
            raise RecordError(message, position=position, key=found, problems=problems) from None

    return make


def _bad_keys(schema: Schema, row: Mapping[Any, Any], names: Mapping[str, str]) -> list[FieldProblem]:
    problems = [
        FieldProblem(str(name), (), f"a field of {schema.name}{did_you_mean(str(name), names)}", "a key that is none")
        for name in row
        if name not in names
    ]
    return problems + [
        FieldProblem(field.name, (), "a value (only what has a default or is optional may be missing)", "nothing")
        for field in schema.fields
        if field.name not in row and field.default is attrs.NOTHING and not field.optional
    ]


def _arguments(schema: Schema) -> list[str]:
    """Return the names under which the class takes its fields."""
    attributes = attrs.fields(schema.record_class)
    for attribute in attributes:
        if METADATA_KEY not in attribute.metadata and attribute.init and attribute.default is attrs.NOTHING:
            raise SchemaError(
                f"{schema.name}.{attribute.name} is kept off disk and has no default, so that no record can "
                "be decoded: give it a default, or declare it with seqrecorder.context or feature_list"
            )
    aliases = {attribute.name: attribute.alias for attribute in attributes}
    return [aliases[field.name] or field.name for field in schema.fields]


def only_stores(record_class: Any, fields: int) -> bool:
    """Whether making a record does nothing but to normalise and store so many fields: nobody has put in anything."""
    attributes = attrs.fields(record_class)
    if not fields or len(attributes) != fields:
        return False
    plain = all(a.init and a.validator is None and is_normaliser(a.converter) for a in attributes)
    created = type(record_class).__call__ is type.__call__ and record_class.__new__ is object.__new__
    hooked = any(hasattr(record_class, name) for name in ("__attrs_pre_init__", "__attrs_post_init__"))
    set_plainly = record_class.__setattr__ is object.__setattr__ or _is_of_attrs(record_class.__setattr__)
    return plain and created and not hooked and set_plainly and _is_of_attrs(record_class.__init__)


@attrs.define
class _Made:
    """A class whose methods attrs has made: where their code is from, that of others is that it has made."""

    value: int = attrs.field(converter=int)


def _is_of_attrs(method: Any) -> bool:
    """Whether attrs has made a method."""
    return _origin(method) in map(_origin, (vars(_Made)["__init__"], vars(_Made)["__setattr__"]))


def _origin(method: Any) -> str:
    """Return the file of a method's code; of code that was made as text, what stands before the name of the class."""
    name: str = getattr(getattr(method, "__code__", None), "co_filename", "")
    return name.rpartition(" ")[0] if name.startswith("<") else name


def _storing(schema: Schema) -> Builder:
    record_class = schema.record_class
    names = [field.name for field in schema.fields]
    places = [getattr(record_class, name, None) for name in names]

    slots = [place.__set__ if isinstance(place, MemberDescriptorType) else None for place in places]

    def build(values: Sequence[Sequence[Any]]) -> list[Any]:
        if len(values[0]) == 1:
            record: Any = object.__new__(record_class)
            for name, put, (value,) in zip(names, slots, values, strict=True):
                put(record, value) if put else object.__setattr__(record, name, value)
            return [record]
        records: list[Any] = list(map(object.__new__, repeat(record_class, len(values[0]))))
        for name, put, column in zip(names, slots, values, strict=True):
            deque(
                map(put, records, column) if put else map(object.__setattr__, records, repeat(name), column), maxlen=0
            )
        return records

    return build
