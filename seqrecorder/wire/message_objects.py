"""Serialized `SequenceExample`s and `Example`s as objects, one at a time, for looking at messages of unknown contents.

The objects have those parts of protobuf's that looking takes: maps of features, lists of values, `WhichOneof`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.wire.canonical_form import NoMessageError, Stream
from seqrecorder.wire.feature_bytes import FEATURE_TAG

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = {tag >> 3: f"{kind}_list" for kind, tag in FEATURE_TAG.items()}
_VARINT, _DELIMITED, _FIXED32 = 0, 2, 5
_SIGN = 1 << 63


@attrs.define
class ValueList:
    """Values of one kind."""

    value: list[Any] = attrs.field(factory=list)


@attrs.define
class Feature:
    """A `tf.train.Feature`."""

    kind: str | None = None
    values: ValueList = attrs.field(factory=ValueList)

    def WhichOneof(self, _: str) -> str | None:  # noqa: N802 - protobuf's name
        """Return the name of the list that it holds."""
        return self.kind

    def __getattr__(self, name: str) -> ValueList:
        if name not in _KINDS.values():
            raise AttributeError(name)
        return self.values if name == self.kind else ValueList()


@attrs.define
class FeatureList:
    """A `tf.train.FeatureList`."""

    feature: list[Feature] = attrs.field(factory=list)


@attrs.define
class Features:
    """A `tf.train.Features`."""

    feature: dict[str, Feature] = attrs.field(factory=dict)


@attrs.define
class FeatureLists:
    """A `tf.train.FeatureLists`."""

    feature_list: dict[str, FeatureList] = attrs.field(factory=dict)


@attrs.define
class Message:
    """A `tf.train.SequenceExample`; of an Example, the features are its context."""

    context: Features = attrs.field(factory=Features)
    feature_lists: FeatureLists = attrs.field(factory=FeatureLists)


def message_of(data: bytes) -> Message | None:
    r"""Return the message of serialized bytes, or None where they are none.

    >>> message_of(b"\n\x0c\n\x0a\n\x01a\x12\x05\x1a\x03\n\x01\x07").context.feature["a"].int64_list.value
    [7]
    """
    message = Message()
    try:
        for number, _, half in _fields(data):
            if number == 1 and isinstance(half, bytes):
                for name, value in _entries(half):
                    message.context.feature[name] = _feature(value)
            elif number == 2 and isinstance(half, bytes):  # noqa: PLR2004 - a field's number
                for name, value in _entries(half):
                    steps = [step for one, kind, step in _fields(value) if (one, kind) == (1, _DELIMITED)]
                    message.feature_lists.feature_list[name] = FeatureList(list(map(_feature, steps)))
    except (NoMessageError, UnicodeDecodeError):
        return None
    return message


def _fields(data: Any) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and contents of the fields of a message; contents of others than bytes are ints."""
    stream = Stream(data)
    while not stream.at_end():
        tag = stream.varint()
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            yield number, kind, stream.varint()
        elif kind == _DELIMITED:
            yield number, kind, stream.octets()
        elif kind in (1, _FIXED32):
            yield number, kind, int.from_bytes(stream.octets(4 if kind == _FIXED32 else 8), "little")
        else:
            raise NoMessageError("a group")
        if not number:
            raise NoMessageError("a field without a number")


def _entries(half: bytes) -> Iterator[tuple[str, bytes]]:
    for number, kind, entry in _fields(half):
        if (number, kind) == (1, _DELIMITED):
            parts: dict[int, bytes] = {1: b"", 2: b""}
            for part, how, value in _fields(entry):
                if part in parts and how == _DELIMITED:
                    parts[part] = value if part == 1 else parts[part] + value  # messages merge
            yield parts[1].decode(), parts[2]


def _feature(data: bytes) -> Feature:
    feature = Feature()
    for number, how, body in _fields(data):
        kind = _KINDS.get(number)
        if kind is None or how != _DELIMITED:
            continue
        if kind != feature.kind:
            feature = Feature(kind)
        for one, form, value in _fields(body):
            if one == 1:
                feature.values.value.extend(_values(kind, form, value))
    return feature


def _values(kind: str, form: int, value: Any) -> list[Any]:
    """Return the values in one field of a list."""
    if kind == "bytes_list":
        return [value] if form == _DELIMITED else []
    if kind == "float_list":
        if form == _FIXED32:
            value = value.to_bytes(4, "little")
        elif form != _DELIMITED:
            return []
        if len(value) % 4:
            raise NoMessageError("a number that does not end")
        return list(struct.unpack(f"<{len(value) // 4}f", value))
    if form == _VARINT:
        return [_signed(value)]
    numbers, stream = [], Stream(value if form == _DELIMITED else b"")
    while not stream.at_end():
        numbers.append(_signed(stream.varint()))
    return numbers


def _signed(number: int) -> int:
    return number - (number >= _SIGN) * 2 * _SIGN
