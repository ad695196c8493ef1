"""Serialized SequenceExamples in pieces, thousands at a time: where their features are, and the values in these.

Nothing here is done for a single record, step or value in Python. Positions of many are kept as arrays, and one vector
operation reads the same byte of all. Where messages lie one behind the other, as steps do, their places are guessed
from the bytes that begin each, and taken if they lead from the first byte to the last: that is then the one way to read
them.

What is read is as protobuf's own serializers write it: each message once, keys before values, numbers packed. Functions
say of which messages that is not so, and `seqrecorder.wire.canonical_form` puts these into that form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.wire.byte_rows import bounds
from seqrecorder.wire.feature_bytes import FEATURE_TAG, feature_header
from seqrecorder.wire.spans import MASKS, WORD, Messages, Spans, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

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
