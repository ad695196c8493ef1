"""One serialized SequenceExample in pieces: for a single record, for which operations on many cost too much.

What is read here is plain: each message once, each map entry with its key first, packed values. Whatever else protobuf
allows (unknown fields, merged messages, unpacked values) raises `Unusual`; whoever gets that asks a full parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.wire.feature_bytes import FEATURE_TAG

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Spans = dict[bytes, tuple[int, int]]

_VARINT_BYTES = 10
_LONG = 0x80
_KEY, _VALUE, _FEATURE, _LIST = 0x0A, 0x12, 0x0A, 0x0A
_CONTEXT, _LISTS = 0x0A, 0x12
_MOST_KNOWN = 1 << 16
_HEAD = 6  # bytes before the value of a step that is one short feature
_LEAST_ENTRY = 4  # bytes of an entry whose name and value are empty


class Unusual(Exception):  # noqa: N818 - no error: a full parser is to look at it
    """A message that is not as this library writes it."""


def message_spans(data: bytes) -> tuple[Spans, Spans]:
    r"""Return where the context features and the feature lists of a message are, by name.

    >>> message_spans(b"\n\x07\n\x05\n\x01a\x12\x00")
    ({b'a': (9, 9)}, {})

    Raises:
        Unusual: see the module.
    """
    context: Spans = {}
    lists: Spans = {}
    place, end, seen = 0, len(data), 0
    while place < end:
        tag = data[place]
        if tag <= seen or tag not in (_CONTEXT, _LISTS):
            raise Unusual
        seen = tag
        start, place = _span(data, place + 1, end)
        _entries(data, start, place, context if tag == _CONTEXT else lists)
    return context, lists


def _entries(data: bytes, place: int, end: int, out: Spans) -> None:
    while place < end:
        start, stop = _span(data, place + 1, end)
        if data[place] != _KEY or stop - start < _LEAST_ENTRY or data[start] != _KEY:
            raise Unusual
        size = data[start + 1]
        name, after = (start + 2, start + 2 + size) if size < _LONG else _span(data, start + 1, stop)
        key = bytes(data[name:after])
        if after >= stop or data[after] != _VALUE or key in out:
            raise Unusual
        first, last = _span(data, after + 1, stop)
        if last != stop:
            raise Unusual
        out[key] = (first, last)
        place = stop


def _span(data: bytes, place: int, end: int) -> tuple[int, int]:
    """Return where the bytes behind a length begin and end."""
    if place >= end:
        raise Unusual
    size = data[place]
    place += 1
    if size >= _LONG:
        size &= 0x7F
        shift = 7
        while True:
            if place >= end or shift > 28:  # noqa: PLR2004 - no message has more than 2 GiB
                raise Unusual
            byte = data[place]
            place += 1
            size |= (byte & 0x7F) << shift
            if byte < _LONG:
                break
            shift += 7
    stop = place + size
    if stop > end:
        raise Unusual
    return place, stop


def feature_payload(data: bytes, start: int, stop: int, kind: str) -> tuple[int, int]:
    """Return where the packed values of an int64 or float feature are; nothing where it holds none.

    Raises:
        Unusual: see the module; or its values are of another kind.
    """
    if start == stop:
        return start, start
    if data[start] != FEATURE_TAG[kind]:
        raise Unusual
    inner, end = _span(data, start + 1, stop)
    if end != stop:
        raise Unusual
    if inner == end:
        return inner, inner
    if data[inner] != _LIST:
        raise Unusual
    first, last = _span(data, inner + 1, end)
    if last != end:
        raise Unusual
    return first, last


def feature_items(data: bytes, start: int, stop: int) -> list[bytes]:
    """Return the values of a bytes feature; raises what `feature_payload` does."""
    if start == stop:
        return []
    if data[start] != FEATURE_TAG["bytes"]:
        raise Unusual
    place, end = _span(data, start + 1, stop)
    if end != stop:
        raise Unusual
    items = []
    while place < end:
        if data[place] != _LIST:
            raise Unusual
        first, place = _span(data, place + 1, end)
        items.append(data[first:place])
    return items


def list_features(data: bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Return where each feature of a feature list is.

    Raises:
        Unusual: see the module.
    """
    spans = []
    place = start
    while place < stop:
        if data[place] != _FEATURE:
            raise Unusual
        first, place = _span(data, place + 1, stop)
        spans.append((first, place))
    return spans


def equal_payloads(data: bytes, start: int, stop: int, kind: str) -> NDArray[np.uint8] | None:
    """Return the packed values of each feature of a feature list as a matrix, a row each; None where they differ.

    They are equally long, behind the same header; of bytes features with one value, the rows are these values.
    """
    if start == stop or data[start] != _FEATURE:
        return None
    first, end = _span(data, start + 1, stop)
    width = end - start
    if (stop - start) % width:
        return None
    if kind == "bytes":
        items = feature_items(data, first, end)
        inner = end - len(items[0]) if len(items) == 1 else end
    else:
        inner, _ = feature_payload(data, first, end, kind)
    rows = np.frombuffer(data, np.uint8, stop - start, start).reshape(-1, width)
    head = inner - start
    return rows[:, head:] if inner < end and (rows[:, :head] == rows[0, :head]).all() else None


def varint_values(octets: NDArray[np.uint8]) -> NDArray[np.int64]:
    r"""Return the int64 numbers of packed varints.

    >>> varint_values(np.frombuffer(b"\x01\xac\x02", np.uint8))
    array([  1, 300])

    Raises:
        Unusual: one does not end, or is longer than an int64.
    """
    if not octets.size:
        return np.empty(0, np.int64)
    ends = octets < _LONG
    if ends.all():
        return octets.astype(np.int64)
    if not ends[-1]:
        raise Unusual
    last = np.flatnonzero(ends)
    first = np.empty_like(last)
    first[0] = 0
    first[1:] = last[:-1] + 1
    sizes = last - first + 1
    longest = int(sizes.max())
    if longest > _VARINT_BYTES:
        raise Unusual
    values = (octets[first] & 0x7F).astype(np.uint64)
    for place in range(1, longest):
        here = sizes > place
        part = (octets[first[here] + place] & 0x7F).astype(np.uint64)
        if place == _VARINT_BYTES - 1 and (part > 1).any():
            raise Unusual
        values[here] |= part << np.uint64(7 * place)
    return values.view(np.int64)


class Steps:
    r"""Reads feature lists of one number or text a step, whose steps repeat: each distinct one is read once.

    >>> Steps("int64", None).read(b"\n\x05\x1a\x03\n\x01\x07" * 2, 0, 14)
    [7, 7]

    Args:
        kind: `int64` or `bytes`.
        decode: what makes a text of bytes; None leaves them.
    """

    def __init__(self, kind: str, decode: Callable[[bytes], Any] | None) -> None:
        self._kind, self._decode = kind, decode
        sizes = range(_HEAD - 1, _LONG)
        self._heads = {n: bytes((_FEATURE, n, FEATURE_TAG[kind], n - 2, _LIST, n - 4)) for n in sizes}
        self._known: dict[bytes, Any] = {}

    def read(self, data: bytes, start: int, stop: int) -> list[Any]:
        """Return what the steps hold; raises `Unusual` where one holds not one value."""
        known, values, place = self._known, [], start
        while place < stop - 1:
            after = place + 2 + data[place + 1]
            step = data[place:after]
            value = known.get(step)
            if value is None:
                value, after = self._learn(data, place, stop)
            values.append(value)
            place = after
        if place != stop:
            raise Unusual
        return values

    def _learn(self, data: bytes, place: int, stop: int) -> tuple[Any, int]:
        if data[place] != _FEATURE:
            raise Unusual
        first, after = _span(data, place + 1, stop)
        size = after - first
        if _HEAD - 2 < size < _LONG and data[place : place + _HEAD] == self._heads[size]:  # one value, as we write it
            value: Any = data[place + _HEAD : after]
            if self._kind == "int64":
                value = _short_varint(value) if size <= _HEAD + 2 else self._one(data, first, after)
        else:
            value = self._one(data, first, after)
        if self._decode is not None:
            value = self._decode(value)
        if size < _LONG:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[data[place:after]] = value
        return value, after

    def _one(self, data: bytes, first: int, after: int) -> Any:
        """Return the one value of a feature."""
        if self._kind == "bytes":
            items: Any = feature_items(data, first, after)
        else:
            inner, end = feature_payload(data, first, after, self._kind)
            items = varint_values(np.frombuffer(data[inner:end], np.uint8)).tolist()
        if len(items) != 1:
            raise Unusual
        return items[0]


def _short_varint(octets: bytes) -> int:
    """Return the number of a varint of a few bytes.

    Raises:
        Unusual: it is not one that ends with the bytes.
    """
    value = shift = 0
    for octet in octets[:-1]:
        if octet < _LONG:
            raise Unusual
        value |= (octet & 0x7F) << shift
        shift += 7
    if octets[-1] >= _LONG:
        raise Unusual
    return value | octets[-1] << shift
