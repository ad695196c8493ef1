"""One serialized SequenceExample in whatever form, put into canonical form: for the few that others write differently.

It follows what TensorFlow's own parser takes and refuses (tensorflow/core/util/example_proto_fast_parsing.cc), which is
neither all that protobuf allows nor nothing else, so that no record means one thing in a graph and another here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqrecorder.wire.feature_bytes import FEATURE_TAG
from seqrecorder.wire.varints import varint

if TYPE_CHECKING:
    from collections.abc import Mapping

_ONE, _TWO = 0x0A, 0x12
_SINGLE = {"float": 0x0D, "int64": 0x08}  # tags of numbers that are not packed
_LONG = 0x80
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_MOST_BYTES = 10
_FLOAT_BYTES = 4
_EMPTY_FEATURE = 2  # bytes of a list without values


class NoMessageError(Exception):
    """Bytes that are no SequenceExample, or one whose feature is of another kind."""


def canonical(data: bytes, context: Mapping[bytes, str], lists: Mapping[bytes, str]) -> bytes:
    r"""Return the message with some features alone, as this library writes it.

    >>> canonical(b"\x18\x05\n\x09\n\x07\n\x01a\x12\x02\x1a\x00", {b"a": "int64"}, {})
    b'\n\t\n\x07\n\x01a\x12\x02\x1a\x00'

    Args:
        data: the message.
        context: by name, the kind of list of the context features that are wanted.
        lists: likewise of the feature lists.

    Raises:
        NoMessageError: TensorFlow's parser refuses it.
    """
    stream = Stream(data)
    wanted = {_ONE: context, _TWO: lists}
    found: dict[int, dict[bytes, bytes]] = {_ONE: {}, _TWO: {}}
    while not stream.at_end():
        half = next((tag for tag in found if stream.took(tag)), None)
        if half is None:
            stream.skip()
            continue
        outer = stream.push(stream.size())
        while not stream.at_end():
            name, value = stream.entry()
            if name in wanted[half]:
                found[half][name] = value
        stream.limit = outer
    out = b""
    for tag, values in found.items():
        body = b""
        for name, value in values.items():
            kind = wanted[tag][name]
            feature = _feature(Stream(value), kind) if tag == _ONE else _feature_list(Stream(value), kind)
            body += _delimited(_ONE, _delimited(_ONE, name) + _delimited(_TWO, feature))
        if body:
            out += _delimited(tag, body)
    return out


def _delimited(tag: int, body: bytes) -> bytes:
    return bytes([tag]) + varint(len(body)) + body


def _feature(stream: Stream, kind: str) -> bytes:
    """Return a feature that holds what the next one of the stream does; nothing for none."""
    if stream.at_end():
        return b""
    stream.expect(FEATURE_TAG[kind])
    size = stream.size()
    body = b""
    if size:
        outer = stream.push(size)
        if kind == "bytes":
            while not stream.at_end():
                stream.expect(_ONE)
                body += _delimited(_ONE, stream.octets())
        elif stream.took(_ONE):
            inner = stream.push(stream.size())
            numbers = b""
            while not stream.at_end():
                numbers += stream.number(kind)
            body = _delimited(_ONE, numbers) if numbers else b""
            stream.limit = inner
        else:
            numbers = b""
            while True:
                stream.expect(_SINGLE[kind])
                numbers += stream.number(kind)
                if stream.at_end():
                    break
            body = _delimited(_ONE, numbers)
        stream.limit = outer
    return _delimited(FEATURE_TAG[kind], body)


def _feature_list(stream: Stream, kind: str) -> bytes:
    out = b""
    while not stream.at_end():
        stream.expect(_ONE)
        size = stream.size()
        feature = b""
        if size > _EMPTY_FEATURE:
            outer = stream.push(size)
            feature = _feature(stream, kind)
            stream.limit = outer
        elif size == _EMPTY_FEATURE:
            stream.expect(FEATURE_TAG[kind])
            if stream.size():
                raise NoMessageError("a feature ends too early")
        elif size:
            raise NoMessageError("a feature of one byte")
        out += _delimited(_ONE, feature)
    return out


class Stream:
    """What protobuf's CodedInputStream does: a limit that reaches beyond the one around it is that one."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place, self.limit = data, 0, len(data)

    def at_end(self) -> bool:
        """Whether nothing is left within the limit."""
        return self._place == self.limit

    def push(self, size: int) -> int:
        """Set a limit, and return the one before."""
        outer, self.limit = self.limit, min(self.limit, self._place + size)
        return outer

    def took(self, tag: int) -> bool:
        """Read a tag, if it comes next."""
        comes = self._place < self.limit and self._data[self._place] == tag
        self._place += comes
        return comes

    def expect(self, tag: int) -> None:
        """Read a tag, which must come next."""
        if not self.took(tag):
            raise NoMessageError("a feature of another kind, or no feature")

    def varint(self) -> int:
        """Read a number of up to 64 bits."""
        value = 0
        for number in range(_MOST_BYTES):
            if self._place >= self.limit:
                break
            octet = self._data[self._place]
            self._place += 1
            value |= (octet & 0x7F) << (7 * number)
            if octet < _LONG:
                return value & ((1 << 64) - 1)
        raise NoMessageError("a number that does not end")

    def size(self) -> int:
        """Read a length."""
        return self.varint() & 0xFFFF_FFFF

    def octets(self, size: int | None = None) -> bytes:
        """Read some bytes, by default as many as the length before them says."""
        size = self.size() if size is None else size
        if size > self.limit - self._place:
            raise NoMessageError("fewer bytes than there should be")
        self._place += size
        return self._data[self._place - size : self._place]

    def number(self, kind: str) -> bytes:
        """Return the next number as it stands in a packed list."""
        return self.octets(_FLOAT_BYTES) if kind == "float" else varint(self.varint())

    def entry(self) -> tuple[bytes, bytes]:
        """Return name and value of the next entry of a map."""
        self.expect(_ONE)
        outer = self.push(self.size())
        self.expect(_ONE)
        name = self.octets()
        self.expect(_TWO)
        value = self.octets()
        if not self.at_end():
            raise NoMessageError("a name or a value that comes twice")
        self.limit = outer
        return name, value

    def skip(self) -> None:
        """Read over a field that the message does not have."""
        kind = self.size() & 7
        if kind == _VARINT:
            self.size()
        elif kind == _DELIMITED:
            size = self.size()
            self._place = min(self.limit, self._place + size)
        elif kind in (_FIXED64, _FIXED32):
            self.octets(8 if kind == _FIXED64 else 4)
        else:
            raise NoMessageError("a field of a kind that no message has")
