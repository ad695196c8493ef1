"""Serialized SequenceExamples in pieces, thousands at a time: where their features are, and the values in these.

Nothing here is done for a single record, step or value in Python. Positions of many are kept as arrays, and one vector
operation reads the same byte of all. Where messages lie one behind the other, as steps do, their places are guessed
from the bytes that begin each, and taken if they lead from the first byte to the last: that is then the one way to read
them.

What is read is as protobuf's own serializers write it: each message once, keys before values, numbers packed. Functions
say of which messages that is not so, and `seqrecorder.wire.read` puts these into that form.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.wire.byte_rows import (
    FEATURE_TAG,
    MASKS,
    WORD,
    Messages,
    Spans,
    bounds,
    feature_header,
    varint,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

if TYPE_CHECKING:
    Places = NDArray[np.int64]
    Flags = NDArray[np.bool_]


_LONG = 0x80
_ONE, _TWO = 0x0A, 0x12  # tags of length-delimited fields 1 and 2
_VARINT32 = 5  # bytes
_FEW = 24  # messages so few that each is walked over by itself
_LARGE_PART = 512  # mean bytes of parts that are walked over one by one
_HEAD = 6  # bytes before the values of a short step: three tags and lengths
_SHORT = 0x7F - _HEAD  # bytes of the values of such

# Messages and maps ----------------------------------------------------------------------------------------------------


def halves(messages: Messages) -> tuple[Spans, Spans, Flags]:
    """Return where context and feature lists of each message are, and which messages are not in canonical form."""
    data, stops = messages.data, messages.stops
    nowhere = np.full(len(messages), -1, np.int64)
    found = {_ONE: (nowhere, nowhere), _TWO: (nowhere, nowhere)}
    place = messages.starts
    for _ in range(2):
        sizes, first = _sizes(data, place + 1)
        last = first + sizes
        taken = np.zeros(len(messages), bool)
        for tag, (starts, ends) in found.items():
            here = (place < stops) & (last <= stops) & (data[place] == tag) & (starts < 0)
            found[tag] = np.where(here, first, starts), np.where(here, last, ends)
            taken |= here
        place = np.where(taken, last, place)
    context, lists = (Spans(data, starts, ends) for starts, ends in found.values())
    return context, lists, place < stops


def entries(half: Spans, names: Sequence[bytes]) -> tuple[dict[bytes, Spans], Flags]:
    """Return where the features of some names are in each half, and which halves are not in canonical form.

    Of several of one name the last counts.
    """
    data, size = half.data, len(half)
    found = {name: Spans(data, np.full(size, -1, np.int64), np.full(size, -1, np.int64)) for name in names}
    unusual = np.zeros(size, bool)
    numbers = np.flatnonzero(half.starts < half.stops)
    place, stop = half.starts[numbers], half.stops[numbers]
    while numbers.size:
        sizes, body = _sizes(data, place + 1)
        end = body + sizes
        fits = (data[place] == _ONE) & (end <= stop)
        body = np.where(fits, body, place)
        length, start = _sizes(data, body + 1)
        after = start + length
        fits &= (data[body] == _ONE) & (after < end)
        after = np.where(fits, after, place)
        sizes, value = _sizes(data, after + 1)
        fits &= (data[after] == _TWO) & (value + sizes == end)
        if not fits.all():
            unusual[numbers[~fits]] = True
            numbers, stop, start, length = numbers[fits], stop[fits], start[fits], length[fits]
            value, end = value[fits], end[fits]
        left = np.arange(numbers.size)
        while left.size:  # as a rule once: all have one name
            first = int(left[0])
            count = int(length[first])
            name = data[int(start[first]) : int(start[first]) + count].tobytes()
            same = length[left] == count
            same[same] = begins_with(data, start[left[same]], name)
            here = left[same]
            if name in found:
                found[name].starts[numbers[here]], found[name].stops[numbers[here]] = value[here], end[here]
            left = left[~same]
        going = end < stop
        numbers, place, stop = numbers[going], end[going], stop[going]
    return found, unusual


def _sizes(data: NDArray[np.uint8], places: Places) -> tuple[Places, Places]:
    """Return the lengths at some places, and the places behind them; more than there is where one is broken."""
    sizes = data[places].astype(np.int64)
    places = places + 1
    if not (sizes >= _LONG).any():
        return sizes, places
    more = np.flatnonzero(sizes >= _LONG)
    sizes[more] &= 0x7F
    for number in range(1, _VARINT32 + 1):
        octets = data[np.minimum(places[more], data.size - 1)].astype(np.int64)
        sizes[more] |= (octets & 0x7F) << (7 * number)
        places[more] += 1
        more = more[octets >= _LONG]
        if not more.size:
            return sizes, places
    sizes[more] = data.size
    return sizes, places


def begins_with(data: NDArray[np.uint8], places: Places, start: bytes) -> Flags:
    """Return at which places some bytes stand."""
    words, same = words_of(data), np.ones(places.size, bool)
    for done in range(0, len(start), WORD):
        part = start[done : done + WORD]
        word = words[places + done]
        if len(part) < WORD:
            word &= MASKS[len(part)]
        same &= word == np.uint64(int.from_bytes(part, "little"))
    return same


# Features -------------------------------------------------------------------------------------------------------------


def payloads(features: Spans, kind: str) -> tuple[Spans, Flags]:
    """Return where the packed numbers of features are, or of kind `bytes` the values with their headers.

    Returns:
        The places, and which features are not in canonical form, or of another kind.
    """
    data, stops = features.data, features.stops
    empty = features.starts == stops
    sizes, inner = _sizes(data, features.starts + 1)
    fits = (data[features.starts] == FEATURE_TAG[kind]) & (inner + sizes == stops)
    first = np.where(empty | ~fits, stops, inner)
    if kind != "bytes":
        some = first < stops
        sizes, inside = _sizes(data, first + 1)
        whole = (data[first] == _ONE) & (inside + sizes == stops)
        fits &= whole | ~some
        first = np.where(some & whole, inside, stops)
    return Spans(data, first, stops), ~(fits | empty)


def parts(spans: Spans) -> tuple[Spans, Places, Flags]:
    """Return where the length-delimited fields 1 are that spans consist of, how many of each, and which are broken."""
    data, size = spans.data, len(spans)
    counts, broken = np.zeros(size, np.int64), np.zeros(size, bool)
    numbers = np.flatnonzero(spans.starts < spans.stops)
    place, stop = spans.starts[numbers], spans.stops[numbers]
    found: list[tuple[Any, Any, Any]] = []
    while numbers.size > _FEW:
        sizes, first = _sizes(data, place + 1)
        last = first + sizes
        fits = (data[place] == _ONE) & (last <= stop)
        broken[numbers[~fits]] = True
        found.append((numbers[fits], first[fits], last[fits]))
        going = fits & (last < stop)
        numbers, place, stop = numbers[going], last[going], stop[going]
    for number, start, end in zip(numbers.tolist(), place.tolist(), stop.tolist(), strict=True):
        firsts, lasts = _parts_of_one(data, start, end)
        broken[number] |= firsts is None
        if firsts is not None:
            found.append((np.full(len(firsts), number), firsts, lasts))
    if not found:
        return Spans(data, counts[:0], counts[:0]), counts, broken
    owners, starts, stops = (np.concatenate([np.asarray(one[i], np.int64) for one in found]) for i in range(3))
    order = np.argsort(owners, kind="stable") if len(found) > 1 else np.arange(owners.size)
    return Spans(data, starts[order], stops[order]), np.bincount(owners, minlength=size), broken


def _parts_of_one(data: NDArray[np.uint8], start: int, stop: int) -> tuple[Any, Any]:
    """Return where the parts of one span begin and end; nothing where it is broken."""
    firsts, lasts, place = _walked(data, start, stop, _FEW)
    while place < stop and firsts is not None:
        if place - start > _LARGE_PART * len(firsts):
            more, ends, place = _walked(data, place, stop, _FEW)
        else:
            (more, ends), place = _chained(data, place, stop), stop
        firsts = None if more is None else [*firsts, *more]
        lasts += ends
    return firsts, lasts


def _walked(data: NDArray[np.uint8], start: int, stop: int, most: int) -> tuple[list[int] | None, list[int], int]:
    """Return the first parts of a span, one after the other, and the place behind them."""
    octets = data[start:stop].data
    place, end = 0, len(octets)
    firsts: list[int] = []
    lasts: list[int] = []
    while place < end and len(firsts) < most:
        if octets[place] != _ONE:
            return None, [], stop
        size = shift = 0
        while True:
            place += 1
            if place >= end or shift > 7 * (_VARINT32 - 1):
                return None, [], stop
            size |= (octets[place] & 0x7F) << shift
            shift += 7
            if octets[place] < _LONG:
                break
        place += 1 + size
        if place > end:
            return None, [], stop
        firsts.append(start + place - size)
        lasts.append(start + place)
    return firsts, lasts, start + place


def _chained(data: NDArray[np.uint8], start: int, stop: int) -> tuple[list[int] | None, list[int]]:
    """Return all parts of a span: those among all that could begin in it which the first one leads to.

    Each leads to one behind it. Those that 1, 2, 4, ... steps lead to are found in turn, until one is the end.
    """
    begins = np.flatnonzero(data[start:stop] == _ONE)
    sizes, first = _sizes(data, begins + (start + 1))
    last = first + sizes
    end, nowhere = begins.size, begins.size + 1
    numbers = np.full(stop - start + 2, nowhere)
    numbers[begins], numbers[stop - start] = np.arange(end), end
    leads = np.append(numbers[np.minimum(last - start, stop - start + 1)], [end, nowhere])
    reached = np.zeros(end + 2, bool)
    reached[numbers[0]] = True
    while not reached[end:].any():
        reached[leads[reached]] = True
        leads = leads[leads]
    if reached[nowhere]:
        return None, []
    found = reached[:end]
    return first[found].tolist(), last[found].tolist()


def fixed_steps(lists: Spans, width: int, kind: str) -> tuple[Places, Places] | None:
    """Return where the values of feature lists are all of whose features hold so many bytes.

    Args:
        lists: the feature lists.
        width: bytes of the one value of a bytes feature, or of all numbers of a float feature.
        kind: `bytes` or `float`.

    Returns:
        Where that of each feature begins, and how many features each list has; None where one has others.
    """
    header = feature_header(width, kind, wrapped=True)
    stride = len(header) + width
    counts, rest = np.divmod(lists.sizes, stride)
    if rest.any():
        return None
    places = np.repeat(lists.starts - stride * bounds(counts)[:-1], counts)
    places += stride * np.arange(places.size)
    if not begins_with(lists.data, places, header).all():
        return None
    return places + len(header), counts


def octets_at(data: NDArray[np.uint8], places: Places, width: int) -> NDArray[np.uint8]:
    """Return so many bytes from each place, one behind the other."""
    rows: NDArray[Any] = np.ndarray((data.size - width + 1,), f"V{width}", data.data, strides=(1,))
    return rows[places].view(np.uint8)


def step_payloads(lists: Spans, kind: str) -> tuple[Spans, Places, Flags]:
    """Return where the packed numbers of every feature of lists are, how many each list has, and which is unusual.

    Of kind `bytes` it is the values, of which each feature has one.
    """
    data, edges = lists.joined(), bounds(lists.sizes)
    begins = _short_steps(data[: int(edges[-1]) + _HEAD], FEATURE_TAG[kind])
    first = begins + _HEAD
    stops = first + data.take(first - 1)
    ends = np.searchsorted(begins, edges)
    counts = np.diff(ends)
    # Lists lie one behind the other here: each step begins where the one before it ends, and so does each list.
    all_edges = np.append(begins, edges[-1])
    leads = stops == all_edges[1:]
    at_edges = all_edges[ends] == edges
    if leads.all() and at_edges.all():
        return Spans(data, first, stops), counts, np.zeros(len(lists), bool)
    fits = at_edges[:-1] & at_edges[1:]
    some = np.flatnonzero(counts)
    fits[some] &= np.logical_and.reduceat(leads, ends[:-1][some])
    fits &= (counts > 0) | (np.diff(edges) == 0)
    others = np.flatnonzero(~fits)
    features, other_counts, unusual = parts(Spans(data, edges[others], edges[others + 1]))
    values, strange = payloads(features, kind)
    if kind == "bytes":
        items, each, broken = parts(values)
        strange |= broken | (each != 1)
        values = items
    owners = np.repeat(np.arange(others.size), other_counts)
    unusual[owners[strange]] = True
    if unusual.any():
        bad = np.zeros(len(lists), bool)
        bad[others[unusual]] = True
        return Spans(data, first[:0], stops[:0]), counts, bad
    counts[others] = other_counts
    good = np.repeat(fits, np.diff(ends))
    starts = np.concatenate([first[good], values.starts])
    order = np.argsort(starts, kind="stable")
    return (
        Spans(data, starts[order], np.concatenate([stops[good], values.stops])[order]),
        counts,
        np.zeros(len(lists), bool),
    )


def step_pieces(lists: Spans, kind: str, most: int) -> Iterator[Spans]:
    """Yield the parts of one feature list of many short steps, each of whole steps and so many bytes at most.

    Where its steps are not short, what is left of it is one part.
    """
    data, start, stop = lists.data, int(lists.starts[0]), int(lists.stops[0])
    while stop - start > most:
        begins = _short_steps(data[start : start + most + _HEAD], FEATURE_TAG[kind])
        follows = begins + _HEAD + data[start + begins + _HEAD - 1]
        leads = begins[1:] == follows[:-1]
        last = 0 if not begins.size or begins[0] else int(begins[leads.size if leads.all() else int(leads.argmin())])
        if not last:
            break
        yield Spans(data, np.array([start]), np.array([start + last]))
        start += last
    yield Spans(data, np.array([start]), np.array([stop]))


def _short_steps(data: NDArray[np.uint8], tag: int) -> Places:
    """Return where steps of short values may begin, which are three tags and their lengths."""
    size = data.size - _HEAD
    if size <= 0:
        return np.empty(0, np.int64)

    def at(place: int) -> NDArray[np.uint8]:
        return data[place : place + size]

    like = at(0) == _ONE
    like &= at(2) == tag
    like &= at(4) == _ONE
    like &= at(5) <= _SHORT
    like &= at(3) == at(5) + np.uint8(2)
    like &= at(1) == at(3) + np.uint8(2)
    return np.flatnonzero(like)


FeatureSpans = dict[bytes, tuple[int, int]]

_VARINT_BYTES = 10
_KEY, _VALUE, _FEATURE, _LIST = 0x0A, 0x12, 0x0A, 0x0A
_CONTEXT, _LISTS = 0x0A, 0x12
_MOST_KNOWN = 1 << 16
_LEAST_ENTRY = 4  # bytes of an entry whose name and value are empty


class Unusual(Exception):  # noqa: N818 - no error: a full parser is to look at it
    """A message that is not as this library writes it."""


def message_spans(data: bytes) -> tuple[FeatureSpans, FeatureSpans]:
    r"""Return where the context features and the feature lists of a message are, by name.

    >>> message_spans(b"\n\x07\n\x05\n\x01a\x12\x00")
    ({b'a': (9, 9)}, {})

    Raises:
        Unusual: see the module.
    """
    context: FeatureSpans = {}
    lists: FeatureSpans = {}
    place, end, seen = 0, len(data), 0
    while place < end:
        tag = data[place]
        if tag <= seen or tag not in (_CONTEXT, _LISTS):
            raise Unusual
        seen = tag
        start, place = _span(data, place + 1, end)
        _entries(data, start, place, context if tag == _CONTEXT else lists)
    return context, lists


def _entries(data: bytes, place: int, end: int, out: FeatureSpans) -> None:
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


_FIELD_1, _FIELD_2 = 0x0A, 0x12
_SINGLE = {"float": 0x0D, "int64": 0x08}  # tags of numbers that are not packed
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
    wanted = {_FIELD_1: context, _FIELD_2: lists}
    found: dict[int, dict[bytes, bytes]] = {_FIELD_1: {}, _FIELD_2: {}}
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
            feature = _feature(Stream(value), kind) if tag == _FIELD_1 else _feature_list(Stream(value), kind)
            body += _delimited(_FIELD_1, _delimited(_FIELD_1, name) + _delimited(_FIELD_2, feature))
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
                stream.expect(_FIELD_1)
                body += _delimited(_FIELD_1, stream.octets())
        elif stream.took(_FIELD_1):
            inner = stream.push(stream.size())
            numbers = b""
            while not stream.at_end():
                numbers += stream.number(kind)
            body = _delimited(_FIELD_1, numbers) if numbers else b""
            stream.limit = inner
        else:
            numbers = b""
            while True:
                stream.expect(_SINGLE[kind])
                numbers += stream.number(kind)
                if stream.at_end():
                    break
            body = _delimited(_FIELD_1, numbers)
        stream.limit = outer
    return _delimited(FEATURE_TAG[kind], body)


def _feature_list(stream: Stream, kind: str) -> bytes:
    out = b""
    while not stream.at_end():
        stream.expect(_FIELD_1)
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
        out += _delimited(_FIELD_1, feature)
    return out


class Stream:
    """What protobuf's CodedInputStream does: a limit that reaches beyond the one around it is that one."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place, self.limit = data, 0, len(data)

    def at_end(self) -> bool:
        """Check whether nothing is left within the limit."""
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
        self.expect(_FIELD_1)
        outer = self.push(self.size())
        self.expect(_FIELD_1)
        name = self.octets()
        self.expect(_FIELD_2)
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


_KINDS = {tag >> 3: f"{kind}_list" for kind, tag in FEATURE_TAG.items()}
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
                for name, value in _map_entries(half):
                    message.context.feature[name] = _parse_feature(value)
            elif number == 2 and isinstance(half, bytes):  # noqa: PLR2004 - a field's number
                for name, value in _map_entries(half):
                    steps = [step for one, kind, step in _fields(value) if (one, kind) == (1, _DELIMITED)]
                    message.feature_lists.feature_list[name] = FeatureList(list(map(_parse_feature, steps)))
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


def _map_entries(half: bytes) -> Iterator[tuple[str, bytes]]:
    for number, kind, entry in _fields(half):
        if (number, kind) == (1, _DELIMITED):
            parts: dict[int, bytes] = {1: b"", 2: b""}
            for part, how, value in _fields(entry):
                if part in parts and how == _DELIMITED:
                    parts[part] = value if part == 1 else parts[part] + value  # messages merge
            yield parts[1].decode(), parts[2]


def _parse_feature(data: bytes) -> Feature:
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
