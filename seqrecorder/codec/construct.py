"""Records of decoded values.

They are made by their class, unless all that its `__init__` would do is to ask whether values are exact, which decoded
ones are, and to store them: then these are stored directly, a field of all records at a time. For 8,192 records of one
field that takes 100 ns a record, and `__init__` 360.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.columns import scatter
from seqrecorder.errors import SchemaError
from seqrecorder.schema.declarations import METADATA_KEY
from seqrecorder.schema.field import is_normaliser

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
    if _only_stores(schema.record_class, len(schema.fields)):
        return _storing(schema)
    build = schema.record_class
    if _takes_by_position(schema):
        return lambda values: list(map(build, *values))
    return lambda values: [build(**dict(zip(arguments, row, strict=True))) for row in zip(*values, strict=True)]


def records_of(schema: Schema, columns: Mapping[str, Column]) -> list[Any]:
    """Return the records whose columns these are."""
    return builder(schema)([scatter(field, columns[field.name]) for field in schema.fields])


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


def _takes_by_position(schema: Schema) -> bool:
    """Whether the class takes the stored fields first and by position, which is faster than by name."""
    leading = [a for a in attrs.fields(schema.record_class) if a.init][: len(schema.fields)]
    named = [attribute.name for attribute in leading] == [field.name for field in schema.fields]
    own_init = "__attrs_init__" in vars(schema.record_class)  # and the class's own __init__ takes anything
    return named and not own_init and not any(attribute.kw_only for attribute in leading)


def _only_stores(record_class: Any, fields: int) -> bool:
    """Whether making a record does nothing but to normalise and store so many fields: nobody has put in anything."""
    attributes = attrs.fields(record_class)
    if not fields or len(attributes) != fields:
        return False
    plain = all(a.init and a.validator is None and is_normaliser(a.converter) for a in attributes)
    created = type(record_class).__call__ is type.__call__ and record_class.__new__ is object.__new__
    hooked = any(hasattr(record_class, name) for name in ("__attrs_pre_init__", "__attrs_post_init__"))
    set_plainly = record_class.__setattr__ is object.__setattr__ or _is_of_attrs(record_class.__setattr__)
    return plain and created and not hooked and set_plainly and _is_of_attrs(record_class.__init__)


def _is_of_attrs(method: Any) -> bool:
    """Whether attrs has made a method."""
    code = getattr(method, "__code__", None)
    made: str = getattr(code, "co_filename", "")
    return made.startswith("<attrs generated") or made == attrs.fields.__code__.co_filename


def _storing(schema: Schema) -> Builder:
    record_class = schema.record_class
    names = [field.name for field in schema.fields]
    places = [getattr(record_class, name, None) for name in names]

    def build(values: Sequence[Sequence[Any]]) -> list[Any]:
        records: list[Any] = list(map(object.__new__, repeat(record_class, len(values[0]))))
        for name, place, column in zip(names, places, values, strict=True):
            if isinstance(place, MemberDescriptorType):  # a slot
                stored = map(place.__set__, records, column)
            else:
                stored = map(object.__setattr__, records, repeat(name), column)
            deque(stored, maxlen=0)
        return records

    return build
