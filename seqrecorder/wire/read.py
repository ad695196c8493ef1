"""Parse thousands of serialized SequenceExamples at a time: find the offsets and values of their features.

The first half of this module has no Python loops over records, steps or values. The offsets of many messages form
arrays, and one vector operation reads the same byte of all messages. For consecutive messages, such as steps, offsets
are guessed from the bytes that begin each message. A guess is accepted if each message ends where the next one begins.

The first half reads the usual form, which protobuf's own serializers write: each message once, keys before values,
numbers packed. Its functions return the mask of messages in other forms. The second half reads one message at a time,
in every form that TensorFlow's parser accepts; `usual_form` rewrites a message in the usual form.
"""

# ruff: noqa: PLR1730 - calls of `min` would take a tenth of the time of reading a single message

from __future__ import annotations

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
    Offsets = NDArray[np.int64]
    Flags = NDArray[np.bool_]


_LONG = 0x80
ONE, TWO = 0x0A, 0x12  # tags of length-delimited fields 1 and 2
_VARINT32 = 5  # maximum bytes of a 32-bit varint
_HEAD = 6  # bytes before the values of a short step: three pairs of tag and length
_SHORT = 0x7F - _HEAD  # maximum bytes of the values of a short step

# Messages and maps ----------------------------------------------------------------------------------------------------


def halves(messages: Messages) -> tuple[Spans, Spans, Flags]:
    """Find the context and the feature lists of each message.

    The first two results are their spans. The third is the mask of the messages in an unusual form.
    """
    data, stops = messages.data, messages.stops
    nowhere = np.full(len(messages), -1, np.int64)
    spans = {ONE: (nowhere, nowhere), TWO: (nowhere, nowhere)}
    offset = messages.starts
    for _ in range(2):
        sizes, first = _sizes(data, offset + 1)
        last = first + sizes
        taken = np.zeros(len(messages), bool)
        for tag, (starts, ends) in spans.items():
            here = (offset < stops) & (last <= stops) & (data[offset] == tag) & (starts < 0)
            spans[tag] = np.where(here, first, starts), np.where(here, last, ends)
            taken |= here
        offset = np.where(taken, last, offset)
    context, lists = (Spans(data, starts, ends) for starts, ends in spans.values())
    return context, lists, offset < stops


def entries(half: Spans, names: Sequence[bytes]) -> tuple[dict[bytes, Spans], Flags]:
    """Find features by name, in the contexts or in the feature lists of messages.

    The first result maps each name to the spans of its feature. The second is the mask of the inputs in an unusual
    form. If a name occurs several times in one input, its last feature counts.
    """
    data, size = half.data, len(half)
    features = {name: Spans(data, np.full(size, -1, np.int64), np.full(size, -1, np.int64)) for name in names}
    unusual = np.zeros(size, bool)
    numbers = np.flatnonzero(half.starts < half.stops)
    offset, stop = half.starts[numbers], half.stops[numbers]
    while numbers.size:
        sizes, body = _sizes(data, offset + 1)
        end = body + sizes
        fits = (data[offset] == ONE) & (end <= stop)
        body = np.where(fits, body, offset)
        length, start = _sizes(data, body + 1)
        after = start + length
        fits &= (data[body] == ONE) & (after < end)
        after = np.where(fits, after, offset)
        sizes, value = _sizes(data, after + 1)
        fits &= (data[after] == TWO) & (value + sizes == end)
        if not fits.all():
            unusual[numbers[~fits]] = True
            numbers, stop, start, length = numbers[fits], stop[fits], start[fits], length[fits]
            value, end = value[fits], end[fits]
        left = np.arange(numbers.size)
        while left.size:  # usually a single iteration, because all names are equal
            first = int(left[0])
            count = int(length[first])
            name = data[int(start[first]) : int(start[first]) + count].tobytes()
            same = length[left] == count
            same[same] = begins_with(data, start[left[same]], name)
            here = left[same]
            if name in features:
                features[name].starts[numbers[here]], features[name].stops[numbers[here]] = value[here], end[here]
            left = left[~same]
        going = end < stop
        numbers, offset, stop = numbers[going], end[going], stop[going]
    return features, unusual


def _sizes(data: NDArray[np.uint8], offsets: Offsets) -> tuple[Offsets, Offsets]:
    """Read the length that is stored at each offset.

    The second result contains the offset after each length. A broken length is replaced by the size of the buffer,
    which is too large for any message in it.
    """
    sizes = data[offsets].astype(np.int64)
    offsets = offsets + 1
    if not (sizes >= _LONG).any():
        return sizes, offsets
    more = np.flatnonzero(sizes >= _LONG)
    sizes[more] &= 0x7F
    for number in range(1, _VARINT32 + 1):
        octets = data[np.minimum(offsets[more], data.size - 1)].astype(np.int64)
        sizes[more] |= (octets & 0x7F) << (7 * number)
        offsets[more] += 1
        more = more[octets >= _LONG]
        if not more.size:
            return sizes, offsets
    sizes[more] = data.size
    return sizes, offsets


def begins_with(data: NDArray[np.uint8], offsets: Offsets, start: bytes) -> Flags:
    """Return the mask of the offsets at which the bytes begin with `start`."""
    words, same = words_of(data), np.ones(offsets.size, bool)
    for done in range(0, len(start), WORD):
        part = start[done : done + WORD]
        word = words[offsets + done]
        if len(part) < WORD:
            word &= MASKS[len(part)]
        same &= word == np.uint64(int.from_bytes(part, "little"))
    return same


# Features -------------------------------------------------------------------------------------------------------------


def payloads(features: Spans, kind: str) -> tuple[Spans, Flags]:
    """Find the bytes that store the values of each feature.

    If the kind is `bytes`, these are the values, each after its own tag and length. Otherwise, they are the packed
    numbers.

    Returns:
        The spans, and the mask of features in an unusual form or of a different kind.
    """
    data, stops = features.data, features.stops
    empty = features.starts == stops
    sizes, inner = _sizes(data, features.starts + 1)
    fits = (data[features.starts] == FEATURE_TAG[kind]) & (inner + sizes == stops)
    first = np.where(empty | ~fits, stops, inner)
    if kind != "bytes":
        nonempty = first < stops
        sizes, inside = _sizes(data, first + 1)
        whole = (data[first] == ONE) & (inside + sizes == stops)
        fits &= whole | ~nonempty
        first = np.where(nonempty & whole, inside, stops)
    return Spans(data, first, stops), ~(fits | empty)


def find_entries(spans: Spans) -> tuple[Spans, Offsets, Flags]:
    """Find the entries in each span.

    An entry is a length-delimited field with the number 1.

    Returns:
        The spans of the entries, their count per input span, and the mask of input spans that contain anything else.
    """
    filled = np.flatnonzero(spans.sizes > 0)
    begins, stops = spans.starts[filled], spans.stops[filled]
    sizes, first = _sizes(spans.data, begins + 1)
    is_whole = (spans.data[begins] == ONE) & (first + sizes == stops)
    if not is_whole.all():
        return _find_several_entries(spans)
    counts = np.zeros(len(spans), np.int64)
    counts[filled] = 1
    return Spans(spans.data, first, stops), counts, np.zeros(len(spans), bool)


def _find_several_entries(spans: Spans) -> tuple[Spans, Offsets, Flags]:
    """Find the entries in spans by following each entry to the next one.

    Every offset with the right tag is a candidate, and its length leads to the next candidate. All candidates are
    followed at once, by 1, 2, 4, ... entries, until the chain that begins at the start of each span has ended. A
    candidate is an entry if one of these chains leads to it.
    """
    data, edges = spans.joined(), bounds(spans.sizes)
    total = int(edges[-1])
    begins = np.flatnonzero(data[:total] == ONE)
    owners = np.repeat(np.arange(len(spans)), np.diff(np.searchsorted(begins, edges)))
    sizes, first = _sizes(data, begins + 1)
    last, stops = first + sizes, edges[1:][owners]
    end, nowhere = begins.size, begins.size + 1
    numbers = np.full(total + 1, nowhere)
    numbers[begins] = np.arange(end)
    leads = np.append(numbers.take(np.minimum(last, total)), [end, nowhere])
    leads[:end][last > stops] = nowhere
    leads[:end][last == stops] = end
    filled = np.flatnonzero(spans.sizes > 0)
    ahead = numbers[edges[filled]]
    reached = np.zeros(end + 2, bool)
    reached[ahead] = True
    while (ahead < end).any():
        reached[leads.compress(reached)] = True
        ahead, leads = leads[ahead], leads.take(leads)
    broken = np.zeros(len(spans), bool)
    broken[filled[ahead == nowhere]] = True
    chosen = reached[:end] & ~broken[owners]
    counts = np.bincount(owners[chosen], minlength=len(spans))
    shift = np.repeat(spans.starts - edges[:-1], counts)
    return Spans(spans.data, first[chosen] + shift, last[chosen] + shift), counts, broken


def fixed_steps(lists: Spans, width: int, kind: str) -> tuple[Offsets, Offsets] | None:
    """Locate the values in feature lists, if they take `width` bytes in every feature.

    Args:
        lists: spans of the feature lists.
        width: bytes of values in each feature: its single value, or all its floats together.
        kind: `bytes` or `float`.

    Returns:
        The offset of the values of each feature, and the number of features of each list; None if a feature has a
        different size.
    """
    header = feature_header(width, kind, wrapped=True)
    stride = len(header) + width
    counts, rest = np.divmod(lists.sizes, stride)
    if rest.any():
        return None
    offsets = np.repeat(lists.starts - stride * bounds(counts)[:-1], counts)
    offsets += stride * np.arange(offsets.size)
    if not begins_with(lists.data, offsets, header).all():
        return None
    return offsets + len(header), counts


def octets_at(data: NDArray[np.uint8], offsets: Offsets, width: int) -> NDArray[np.uint8]:
    """Copy `width` bytes from each offset, and concatenate them."""
    rows: NDArray[Any] = np.ndarray((data.size - width + 1,), f"V{width}", data.data, strides=(1,))
    return rows[offsets].view(np.uint8)


def step_payloads(lists: Spans, kind: str) -> tuple[Spans, Offsets] | None:
    """Find the values of each feature in feature lists.

    If the kind is `bytes`, each feature must have exactly one value, and its span covers this value. Otherwise, the
    span covers the packed numbers.

    Returns:
        The spans, in a separate buffer, and the number of features of each list. None if a feature is broken or of
        a different kind, or if a bytes feature does not have exactly one value.
    """
    data, edges = lists.joined(), bounds(lists.sizes)
    begins = _short_steps(data[: int(edges[-1]) + _HEAD], FEATURE_TAG[kind])
    first = begins + _HEAD
    stops = first + data.take(first - 1)
    ends = np.searchsorted(begins, edges)
    counts = np.diff(ends)
    # The lists are concatenated, so each step and each list begins at the end of the previous one.
    all_edges = np.append(begins, edges[-1])
    leads, at_edges = stops == all_edges[1:], all_edges[ends] == edges
    if leads.all() and at_edges.all():
        return Spans(data, first, stops), counts
    owners = np.repeat(np.arange(len(lists)), counts)
    is_short = at_edges[:-1] & at_edges[1:]
    is_short[owners[~leads]] = False
    others = np.flatnonzero(~is_short)
    features, counts[others], unusual = find_entries(Spans(data, edges[others], edges[others + 1]))
    values, strange = payloads(features, kind)
    if unusual.any() or strange.any():
        return None
    if kind == "bytes":
        values, each, unusual = find_entries(values)
        if unusual.any() or (each != 1).any():
            return None
    chosen = is_short[owners]
    starts = np.concatenate([first[chosen], values.starts])
    order = np.argsort(starts, kind="stable")
    return Spans(data, starts[order], np.concatenate([stops[chosen], values.stops])[order]), counts


def step_pieces(lists: Spans, kind: str, most: int) -> Iterator[Spans]:
    """Cut a long feature list between its steps, into pieces of at most `most` bytes.

    This works only for short steps. As soon as a long step follows, the rest of the list becomes one piece, whatever
    its size.
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


def _short_steps(data: NDArray[np.uint8], tag: int) -> Offsets:
    """Find the offsets at which a short step may begin.

    A short step begins with three pairs of tag and length. The bytes of a value can look the same, so the callers check
    that the steps follow each other.
    """
    size = data.size - _HEAD
    if size <= 0:
        return np.empty(0, np.int64)

    def at(offset: int) -> NDArray[np.uint8]:
        return data[offset : offset + size]

    like = at(0) == ONE
    like &= at(2) == tag
    like &= at(4) == ONE
    like &= at(5) <= _SHORT
    like &= at(3) == at(5) + np.uint8(2)
    like &= at(1) == at(3) + np.uint8(2)
    return np.flatnonzero(like)


# One message ---------------------------------------------------------------------------------------------------------

FeatureSpans = dict[bytes, tuple[int, int]]

_MOST_KNOWN = 1 << 16  # distinct steps to remember, which bounds the memory
_MOST_BYTES = 10  # maximum bytes of a varint
_LENGTH_MASK, _INT64_MASK = (1 << 32) - 1, (1 << 64) - 1
_SINGLE = {"float": 0x0D, "int64": 0x08}  # tags of unpacked numbers
_FLOAT_BYTES = 4
_SHORT_OF_BYTES = "the message is truncated"
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_KINDS = {tag: kind for kind, tag in FEATURE_TAG.items()}
_EMPTY_FEATURE = 2  # bytes of a feature whose list has no values
_LEAST_ENTRY = 4  # bytes of an entry with empty name and value


class WireError(Exception):
    """Bytes that TensorFlow's parser does not accept as a message, or that are not in the form the reader expects."""


def message_spans(data: bytes) -> tuple[FeatureSpans, FeatureSpans]:
    r"""Find the context features and the feature lists of a message by name, as TensorFlow's parser does.

    If a name occurs several times, the last one counts. Unknown fields of the message are skipped.

    >>> message_spans(b"\n\x07\n\x05\n\x01a\x12\x00")
    ({b'a': (9, 9)}, {})

    Raises:
        WireError: `data` is not a message.
    """
    halves_by_tag: dict[int, FeatureSpans] = {ONE: {}, TWO: {}}
    offset, end = 0, len(data)
    while offset < end:
        features = halves_by_tag.get(data[offset])
        if features is None:
            offset = _skip(data, offset, end)
        else:
            start, stop = _span(data, offset + 1, end)
            offset = min(stop, end)
            _find_entries(data, start, offset, features)
    return halves_by_tag[ONE], halves_by_tag[TWO]


def _find_entries(data: bytes, offset: int, end: int, out: FeatureSpans) -> None:
    while offset < end:
        start, stop = _span(data, offset + 1, end)
        if stop > end:
            stop = end
        if data[offset] != ONE or stop - start < _LEAST_ENTRY or data[start] != ONE:
            raise WireError("the bytes are not a map of names to features")
        size = data[start + 1]
        name, after = (start + 2, start + 2 + size) if size < _LONG else _span(data, start + 1, stop)
        if after >= stop or data[after] != TWO:
            raise WireError("a name without a feature")
        first, offset = _span(data, after + 1, stop)
        if offset != stop:
            raise WireError("a map entry with a second name or feature")
        out[bytes(data[name:after])] = first, stop


def _skip(data: bytes, offset: int, end: int) -> int:
    """Skip an unknown field; return the offset after it."""
    tag, offset = _varint(data, offset, end)
    kind = tag & 7
    if kind == _VARINT:
        return _varint(data, offset, end)[1]
    if kind == _DELIMITED:
        return min(_span(data, offset, end)[1], end)
    if kind not in (_FIXED64, _FIXED32):
        raise WireError("a field with an unknown wire type")
    offset += 8 if kind == _FIXED64 else 4
    if offset > end:
        raise WireError(_SHORT_OF_BYTES)
    return offset


def _varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read a varint of up to 64 bits, and return the number and the offset after it."""
    value = shift = 0
    end = min(end, offset + _MOST_BYTES)
    while offset < end:
        octet = data[offset]
        offset += 1
        value |= (octet & 0x7F) << shift
        if octet < _LONG:
            return value & _INT64_MASK, offset
        shift += 7
    raise WireError("a truncated or too long number")


def _span(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Read a length, and return the bounds of the bytes that follow.

    The upper bound is not checked, and may be greater than `end`.
    """
    if offset < end and data[offset] < _LONG:
        return offset + 1, offset + 1 + data[offset]
    size, offset = _varint(data, offset, end)
    return offset, offset + (size & _LENGTH_MASK)


def feature_values(data: bytes, offset: int, end: int, kind: str) -> tuple[Any, int]:
    """Read a feature with packed or unpacked numbers.

    Args:
        data: serialized message.
        offset: offset of the feature.
        end: end of the bytes that the feature may occupy.
        kind: kind of the list in the feature.

    Returns:
        The values and the offset after them. The values are a list for kind `bytes`, otherwise the packed numbers as
        bytes.

    Raises:
        WireError: the bytes are not a feature of this kind.
    """
    if offset == end:
        return ([] if kind == "bytes" else b""), offset
    if data[offset] != FEATURE_TAG[kind]:
        got = _KINDS.get(data[offset], "unknown")
        raise WireError(f"expected a feature of kind {kind}, got {got}" + "; declare float32" * (got == "float"))
    offset, stop = _span(data, offset + 1, end)
    if kind == "bytes":
        return _read_items(data, offset, min(stop, end)), min(stop, end)
    if offset == stop:
        return b"", offset
    if stop > end:
        stop = end
    if offset == stop or data[offset] != ONE:
        return _unpacked(data, offset, stop, kind), stop
    first, offset = _span(data, offset + 1, stop)
    if offset > stop:
        offset = stop
    if (offset - first) % _FLOAT_BYTES if kind == "float" else data[offset - 1] >= _LONG and offset > first:
        raise WireError("a truncated or too long number")
    return data[first:offset], offset


def _read_items(data: bytes, offset: int, stop: int) -> list[bytes]:
    items = []
    while offset < stop:
        if data[offset] != ONE:
            raise WireError("an unknown field in a list of bytes")
        first, offset = _span(data, offset + 1, stop)
        if offset > stop:
            raise WireError(_SHORT_OF_BYTES)
        items.append(data[first:offset])
    return items


def _unpacked(data: bytes, offset: int, stop: int, kind: str) -> bytes:
    """Pack the numbers of an unpacked list, which has a tag before each number."""
    numbers: list[bytes] = []
    while not numbers or offset < stop:
        if offset >= stop or data[offset] != _SINGLE[kind]:
            raise WireError(f"an unknown field in a list of {kind}")
        after = offset + 1 + _FLOAT_BYTES if kind == "float" else _varint(data, offset + 1, stop)[1]
        if after > stop:
            raise WireError("a truncated or too long number")
        numbers.append(data[offset + 1 : after])
        offset = after
    return b"".join(numbers)


def list_values(data: bytes, offset: int, end: int, kind: str, read: Any = feature_values) -> list[Any]:
    """Read the values of each feature in a feature list.

    The function `read` reads one feature, as `feature_values` does. A feature whose length extends past the end of its
    list is cut off there, as in TensorFlow's parser.
    """
    out = []
    while offset < end:
        if data[offset] != ONE:
            raise WireError("an unknown field in a feature list")
        start, stop = _span(data, offset + 1, end)
        size, stop, last = stop - start, min(stop, end), 0
        if size == _EMPTY_FEATURE:
            stop, last = _span(data, start + 1, end)
        if size == 1 or stop < last or (size and start == stop):
            raise WireError("a truncated feature")
        values, offset = read(data, start, stop, kind)
        out.append(values)
    return out


def equal_steps(data: bytes, start: int, stop: int, width: int, kind: str) -> NDArray[np.uint8] | None:
    """Read a feature list whose steps all have `width` bytes of values, as a matrix with one row per step.

    The result is None if a step has a different size.
    """
    header = feature_header(width, kind, wrapped=True)
    if (stop - start) % (len(header) + width):
        return None
    rows = np.frombuffer(data, np.uint8, stop - start, start).reshape(-1, len(header) + width)
    return rows[:, len(header) :] if (rows[:, : len(header)] == np.frombuffer(header, np.uint8)).all() else None


def packed_int64(rows: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    r"""Decode rows of packed varints.

    The results are the numbers of all rows, and their count per row.

    >>> packed_int64([b"\x01\xac\x02", b""])
    (array([  1, 300]), array([2, 0]))

    Raises:
        WireError: the last row ends inside a number, or a number is longer than an int64.
    """
    octets, lengths = np.frombuffer(b"".join(rows), np.uint8), np.fromiter(map(len, rows), np.int64, len(rows))
    if not (octets >= _LONG).any():
        return octets.astype(np.int64), lengths
    ends = np.flatnonzero(octets < _LONG) + 1
    starts = np.append(0, ends)[:-1]
    sizes = ends - starts
    counts = np.diff(np.searchsorted(ends, bounds(lengths), side="right"))
    if sizes.sum() < octets.size or int(sizes.max()) > _MOST_BYTES:
        raise WireError("a truncated or too long number")
    groups = (octets & 0x7F).astype(np.uint64)
    groups <<= (7 * (np.arange(octets.size) - np.repeat(starts, sizes))).astype(np.uint64)
    return np.bitwise_or.reduceat(groups, starts).view(np.int64), counts


def one_int64(octets: bytes) -> int:
    r"""Decode a packed list with a single varint.

    >>> one_int64(b"\xac\x02")
    300

    Raises:
        WireError: there is not exactly one number.
    """
    if len(octets) == 1:
        return octets[0]
    value, end = _varint(octets, 0, len(octets))
    if end != len(octets):
        raise WireError("expected one number")
    return value - (value >> 63 << 64)


class Steps:
    r"""Reader of feature lists with one number or text per step.

    Decoded steps are remembered, so that most repeated steps are decoded only once.

    >>> Steps("int64", None).read(b"\n\x05\x1a\x03\n\x01\x07" * 2, 0, 14)
    [7, 7]

    Args:
        kind: `int64` or `bytes`.
        decode: function that converts the value of a step; None for no conversion.
    """

    def __init__(self, kind: str, decode: Callable[[bytes], Any] | None) -> None:
        self._kind, self._decode = kind, decode
        self._known: dict[bytes, Any] = {}

    def read(self, data: bytes, start: int, stop: int) -> list[Any]:
        """Read the values of the steps.

        Raises:
            WireError: a step does not have exactly one value.
        """
        known, values, offset = self._known, [], start
        while offset < stop - 1:
            after = offset + 2 + data[offset + 1]
            step = data[offset:after]
            value = known.get(step)
            if value is None:
                value, after = self._learn(data, offset, stop)
            values.append(value)
            offset = after
        if offset != stop:
            raise WireError("a truncated step")
        return values

    def _learn(self, data: bytes, offset: int, stop: int) -> tuple[Any, int]:
        first, after = _span(data, offset + 1, stop)
        payload, end = feature_values(data, first, after, self._kind)
        if data[offset] != ONE or end != after or after > stop or (self._kind == "bytes" and len(payload) != 1):
            raise WireError("expected one value per step")
        value: Any = one_int64(payload) if self._kind == "int64" else payload[0]
        if self._decode is not None:
            value = self._decode(value)
        if after - first < _LONG:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[data[offset:after]] = value
        return value, after


def usual_form(data: bytes, context: Mapping[bytes, str], lists: Mapping[bytes, str]) -> bytes:
    r"""Rewrite features of a message in the usual form, as this library writes them.

    >>> usual_form(b"\x18\x05\n\x09\n\x07\n\x01a\x12\x02\x1a\x00", {b"a": "int64"}, {})
    b'\n\t\n\x07\n\x01a\x12\x02\x1a\x00'

    Args:
        data: serialized message.
        context: mapping of name to kind of list, for the context features to rewrite.
        lists: mapping of name to kind of list, for the feature lists to rewrite.

    Raises:
        WireError: TensorFlow's parser would not accept the message.
    """
    out = b""
    for tag, spans, kinds in zip((ONE, TWO), message_spans(data), (context, lists), strict=True):
        body = b""
        for name, (start, stop) in spans.items():
            kind = kinds.get(name)
            if kind is None:
                continue
            try:
                if tag == ONE:
                    feature = feature_of(feature_values(data, start, stop, kind)[0], kind)
                else:
                    steps = list_values(data, start, stop, kind)
                    feature = b"".join(delimited(ONE, feature_of(values, kind)) for values in steps)
            except WireError as error:
                raise WireError(f"feature {name_text(name)!r}: {error}") from None
            body += delimited(ONE, delimited(ONE, name) + delimited(TWO, feature))
        if body:
            out += delimited(tag, body)
    return out


def feature_of(values: Any, kind: str) -> bytes:
    """Encode a feature from values in the form that `feature_values` returns."""
    items = values if kind == "bytes" else [values] if values else []
    return delimited(FEATURE_TAG[kind], b"".join(delimited(ONE, item) for item in items))


def delimited(tag: int, body: bytes) -> bytes:
    """Encode a length-delimited protobuf field."""
    return bytes([tag]) + varint(len(body)) + body


# Any schema -----------------------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Feature:
    """Contents of a `tf.train.Feature`.

    Attributes:
        kind: kind of the list, `bytes`, `float` or `int64`; None if the feature is empty.
        values: list of bytes, or array of numbers.
    """

    kind: str | None
    values: Any


@attrs.frozen(eq=False)
class Message:
    """Contents of a `tf.train.SequenceExample`, or of a `tf.train.Example`, whose features become the context."""

    context: dict[str, Feature]
    lists: dict[str, list[Feature]]


def read_message(data: bytes) -> Message:
    r"""Read all features of a message, whatever their kinds.

    >>> read_message(b"\n\x0c\n\x0a\n\x01a\x12\x05\x1a\x03\n\x01\x07").context["a"].values
    array([7])

    Raises:
        WireError: `data` is not a message.
    """
    context, lists = message_spans(data)
    return Message(
        {name_text(name): any_feature(data, *span)[0] for name, span in context.items()},
        {name_text(name): list_values(data, *span, "", any_feature) for name, span in lists.items()},
    )


def any_feature(data: bytes, offset: int, end: int, _: str = "") -> tuple[Feature, int]:
    """Read a feature of any kind; return it and the offset after it.

    Raises:
        WireError: the bytes are not a feature.
    """
    if offset == end:
        return Feature(None, []), offset
    kind = _KINDS.get(data[offset])
    if kind is None:
        raise WireError("a feature of unknown kind")
    values, offset = feature_values(data, offset, end, kind)
    if kind == "int64":
        values = packed_int64([values])[0]
    elif kind == "float":
        values = np.frombuffer(values, "<f4")
    return Feature(kind, values), offset


def name_text(name: bytes) -> str:
    """Decode the name of a feature; bytes that are not UTF-8 are escaped."""
    return name.decode(errors="backslashreplace")
