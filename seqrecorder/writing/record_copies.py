"""Snapshots of records: what a record holds at one moment, whatever becomes of it and of its arrays later.

Records wait for others before they are encoded, while the program that gave them goes on: it may fill the same array
again, append to a list, or change the record itself. A snapshot shares nothing with it that can change.
"""

from __future__ import annotations

import array
import copy
import datetime as dt
import enum
import pathlib
from collections.abc import Mapping
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.schema.conversion import SparseVector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from seqrecorder.schema.schema import Schema

_SCALARS = frozenset({str, bytes, bool, int, float, complex, type(None), *np.sctypeDict.values()})
_FIXED = (dt.date, dt.time, dt.timedelta, dt.tzinfo, enum.Enum, pathlib.PurePath, type, FunctionType)
_copy_of_array = np.ndarray.copy


class CannotWait(Exception):  # noqa: N818 - asks for something, and is no failure
    """Raised for a record of which no snapshot can be taken: it is to be encoded before the program goes on."""


def snapshotter(schema: Schema, *, whole: bool = False) -> Callable[[Any], Any]:
    """Return the function that takes a snapshot of a record.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> buffer = np.array([1, 2])
    >>> taken = snapshotter(sr.Schema.of(Sentence))(Sentence(buffer))
    >>> buffer[:] = 0
    >>> taken.ids
    array([1, 2])

    It raises `CannotWait` where there can be none, as of what is no record: encoding refuses that.

    Args:
        schema: what the records are.
        whole: whether attributes that are not stored count too. They may be large and common to all records, so they
            are not copied: where one of them can change, there is no snapshot.
    """
    record_class: Any = schema.record_class
    stored = {field.name: field.element.name for field in schema.fields}
    names = [attribute.name for attribute in attrs.fields(record_class)]
    places = [getattr(record_class, name, None) for name in names]
    slots = {name for cls in record_class.__mro__ for name in getattr(cls, "__slots__", ())} - {"__weakref__"}
    # An array of str cannot be changed through its elements, which are not looked at then.
    ways = [
        (place.__get__, place.__set__, stored.get(name) == "str", _copier(name in stored, whole=whole))
        for name, place in zip(names, places, strict=True)
        if isinstance(place, MemberDescriptorType)
    ]
    simple = slots == set(names) and len(ways) == len(names) and record_class.__dictoffset__ == 0
    new, objects = object.__new__, np.dtype(object)

    def snapshot(record: Any) -> Any:
        if not simple or type(record) is not record_class:
            return _of_any_class(record, stored, whole=whole)
        taken = new(record_class)
        try:
            for get, put, is_text, copier in ways:
                value = get(record)
                kind = type(value)
                if kind not in _SCALARS:
                    fast = kind is np.ndarray and copier is copied and (is_text or value.dtype is not objects)
                    value = _copy_of_array(value) if fast else copier(value)
                put(taken, value)
        except AttributeError:  # one is not set
            return _of_any_class(record, stored, whole=whole)
        return taken

    return snapshot


def _copier(is_stored: bool, *, whole: bool) -> Callable[[Any], Any]:  # noqa: FBT001 - private
    if is_stored:
        return copied
    return _required_fixed if whole else _itself


def _of_any_class(record: Any, stored: Iterable[str], *, whole: bool) -> Any:
    """Return the snapshot of a record whose class is not made of slots alone."""
    if type(record) is dict:
        return {name: copied(value) for name, value in record.items()}
    if not attrs.has(type(record)):
        raise CannotWait
    taken = copy.copy(record)
    names = [attribute.name for attribute in attrs.fields(type(record))]
    for name in {**dict.fromkeys(names), **getattr(record, "__dict__", {})}:
        if hasattr(record, name):
            object.__setattr__(taken, name, _copier(name in stored, whole=whole)(getattr(record, name)))
    return taken


def copied(value: Any) -> Any:
    """Return a value that no change of this one reaches.

    >>> steps = [np.array([1]), [2, 3]]
    >>> taken = copied(steps)
    >>> steps[0][:] = 0
    >>> steps[1].append(4)
    >>> taken
    [array([1]), [2, 3]]

    Raises:
        CannotWait: it cannot be copied.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is np.ndarray:
        return _copied_array(value)
    if kind in (list, tuple):
        return kind(map(copied, value) if set(map(type, value)) - _SCALARS else value)
    if kind is SparseVector:
        vector = copy.copy(value)
        object.__setattr__(vector, "indices", copied(value.indices))
        object.__setattr__(vector, "values", copied(value.values))
        return vector
    return _copied_deeply(value)


def _copied_array(value: NDArray[Any]) -> NDArray[Any]:
    taken: NDArray[Any] = _copy_of_array(value)
    if taken.dtype == object:
        flat = taken.reshape(-1)
        for place, item in enumerate(flat.tolist()):
            if type(item) not in _SCALARS:
                flat[place] = copied(item)
    return taken


def _copied_deeply(value: Any) -> Any:
    """Return a copy of a buffer, an array of another library, or a mapping; nothing else that can change has one."""
    if type(value) is memoryview:
        return value.tobytes()
    if isinstance(value, (bytearray, array.array, list, tuple, Mapping)) or hasattr(type(value), "__array__"):
        try:
            return copy.deepcopy(value)
        except Exception as error:
            raise CannotWait from error
    return _required_fixed(value)


def _required_fixed(value: Any) -> Any:
    if not _is_fixed(value):
        raise CannotWait
    return value


def _is_fixed(value: Any) -> bool:
    """Whether nothing can change a value."""
    if type(value) in (tuple, frozenset):
        return all(map(_is_fixed, value))
    return type(value) in _SCALARS or isinstance(value, _FIXED)


def _itself(value: Any) -> Any:
    return value
