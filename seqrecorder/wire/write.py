"""Serialize columns of values to `tf.train.SequenceExample`s, many records at once, in numpy.

The messages (tensorflow/core/example/example.proto and feature.proto) are

    SequenceExample { Features context = 1;  FeatureLists feature_lists = 2; }
    Features        { map<string, Feature> feature = 1; }
    FeatureLists    { map<string, FeatureList> feature_list = 1; }
    FeatureList     { repeated Feature feature = 1; }
    Feature         { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }     each with `repeated value = 1`

and their encoding is https://protobuf.dev/programming-guides/encoding. Map entries are written in declaration order,
so equal records have equal bytes (protobuf's own serializer writes them in random order).

Rows of bytes are `Blob`s (`seqrecorder.wire.byte_rows`). A step of fixed width is a constant header and a payload, so
all steps of a field form one uint8 matrix, or a list of buffers if rows are wide. An int64 step is a row of 16 bytes
with its tags, lengths and varint. Each distinct text is encoded once.

Callers pass thousands of records at a time; for single records, numpy would be slower than protobuf's objects.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.errors import LimitExceededError
from seqrecorder.wire.byte_rows import (
    FEATURE_TAG,
    LARGEST_IN_A_BYTE,
    Blob,
    Head,
    Unjoined,
    feature_header,
    fill_varints,
    in_groups,
    interleave,
    joined,
    of_list,
    of_matrix,
    scattered,
    total_lengths,
    varint,
    varint_lengths,
    varints,
    widths,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


LARGE = 1 << 14
"""Size in bytes from which the buffer of a record is copied only once, into the serialized record."""

_ROOM = {False: 4, True: 6}  # size of the header before a short text, keyed by `wrapped`

_INT_HEADS = {
    # All lengths are single bytes, and grow with the length of the varint.
    False: Head(4, 0x00_0A_02_1A, 0x01_00_01_00),
    True: Head(6, 0x00_0A_02_1A_04_0A, 0x01_00_01_00_01_00),
}


def int_features(values: NDArray[np.int64], *, wrapped: bool) -> Blob:
    r"""Encode one feature per int64.

    >>> bytes(int_features(np.array([1, 300]), wrapped=False).data)
    b'\x1a\x03\n\x01\x01\x1a\x04\n\x02\xac\x02'

    Args:
        values: numbers, int64 `(N,)`.
        wrapped: whether to add the header of the Feature itself, as in a FeatureList.
    """
    return varints(values, _INT_HEADS[wrapped])


def text_features(texts: Sequence[Any], kind: type[str | bytes], *, wrapped: bool) -> Blob | None:
    r"""Encode one feature per text with a fast method, if it applies.

    The method applies if most texts are short and none contains NUL. Otherwise, the result is None. It is also None if
    there are no texts, or if the first text is long.

    >>> bytes(text_features(["a", "bc"], str, wrapped=False).data)
    b'\n\x03\n\x01a\n\x04\n\x02bc'

    Args:
        texts: values to encode, which should all be of type `kind`.
        kind: `str` or `bytes`.
        wrapped: whether to add the header of the Feature itself, as in a FeatureList.

    Raises:
        TypeError: a value cannot be joined with texts of `kind`.
        UnicodeEncodeError: a text contains a lone surrogate.
    """
    if not texts or len(texts[0]) > LARGEST_IN_A_BYTE:  # then the other texts are usually long, too
        return None
    room = _ROOM[wrapped]
    if kind is str:
        mark = "\0" + " " * (room - 1)
        data = (mark + mark.join(texts)).encode()
    else:
        marks = b"\0" + b" " * (room - 1)
        data = marks + marks.join(texts)
    octets = np.frombuffer(data, np.uint8)
    starts = np.flatnonzero(octets == 0)
    if starts.size != len(texts):
        return None
    lengths = np.diff(starts, append=octets.size)
    rows = scattered(octets, _short_headers(room).take(lengths, axis=0, mode="clip"), starts)
    longest = int(lengths.max())
    if longest - 2 <= LARGEST_IN_A_BYTE:
        return Blob(rows, lengths)
    long = np.flatnonzero(lengths - 2 > LARGEST_IN_A_BYTE)
    return _with_longer_headers(Blob(rows, lengths), starts, long, wrapped) if _FEW * long.size <= len(texts) else None


def _with_longer_headers(rows: Blob, starts: NDArray[np.int64], long: NDArray[np.int64], wrapped: bool) -> Blob:  # noqa: FBT001 - private
    """Replace the headers of texts that are too long for a short header."""
    room = _ROOM[wrapped]
    lengths = rows.lengths.copy()
    pieces, done = [], 0
    for number, start, length in zip(long.tolist(), starts[long].tolist(), lengths[long].tolist(), strict=True):
        header = feature_header(length - room, "bytes", wrapped=wrapped)
        pieces += [rows.data[done:start], np.frombuffer(header, np.uint8)]
        lengths[number] += len(header) - room
        done = start + room
    return Blob(np.concatenate([*pieces, rows.data[done:]]), lengths)


@functools.cache
def _short_headers(room: int) -> NDArray[np.uint8]:
    """Build a table of headers for short texts, indexed by the size of the header and the text together.

    The texts are so short that every length in a header takes a single byte.
    """
    sizes = np.maximum(np.arange(LARGEST_IN_A_BYTE + 3)[:, None] - np.arange(2, room + 1, 2), 0)
    return np.stack([np.full_like(sizes, FEATURE_TAG["bytes"]), sizes], 2).astype(np.uint8).reshape(-1, room)


MESSAGE_LIMIT = 2**31 - 1
"""Size limit of protobuf, whose lengths have 31 bits; no reader accepts larger messages."""

_FEW = 16  # up to this many rows, encoding headers one by one is faster


@attrs.frozen(eq=False)
class Leaf:
    """Values of one wire feature over N records.

    Attributes:
        name: name of the feature.
        kind: kind of the list that stores the values.
        layout: `context`, `steps` (one feature per step), or `packed` (one feature for all steps of a record).
        values: flat values: int64 or float32; a list of bytes, of views of bytes (one per record) or of str (written as
            UTF-8); a uint8 matrix with one bytes value per row; or encoded features, as a `Blob` or `Unjoined`.
        counts: number of values per feature; an int if it is the same for all features.
        steps: number of features per present record, int64; only for layout `steps`.
        present: mask of the records that have the feature, bool `(N,)`; None for all. `values`, `counts` and `steps`
            cover only those records.
    """

    name: str
    kind: Literal["int64", "float", "bytes"]
    layout: Literal["context", "steps", "packed"]
    values: Any
    counts: int | NDArray[np.int64] = 1
    steps: NDArray[np.int64] | None = None
    present: NDArray[np.bool_] | None = None


def serialize(leaves: Sequence[Leaf], size: int) -> Sequence[bytes]:
    """Serialize `size` SequenceExamples.

    >>> lengths = np.array([2, 1])
    >>> leaf = Leaf("ids", "int64", "steps", np.array([7, 8, 9]), steps=lengths)
    >>> [len(data) for data in serialize([leaf], 2)]
    [25, 18]

    Args:
        leaves: features, in the order in which they are written.
        size: number of records.

    Raises:
        LimitExceededError: a record exceeds 2 GiB; the error's `position` is the index of the record.
    """
    if size == 0:
        return of_list([])
    context = [part for leaf in leaves if leaf.layout == "context" for part in _entry(leaf, size)]
    lists = [part for leaf in leaves if leaf.layout != "context" for part in _entry(leaf, size)]
    blobs: list[Blob | Unjoined] = []
    for tag, entries in ((0x0A, context), (0x12, lists)):
        if entries:
            total = total_lengths(entries)
            check_limit(total)
            blobs += [_header([bytes([tag]), total]), *entries]
    if not blobs:
        return of_list([b""] * size)
    total = total_lengths(blobs)
    check_limit(total)
    return joined(blobs)


def check_limit(total: NDArray[np.int64]) -> None:
    """Raise `LimitExceededError` if the bytes of a record exceed protobuf's limit.

    The error contains the position of the first such record.
    """
    over = np.flatnonzero(total > MESSAGE_LIMIT)
    if over.size:
        position = int(over[0])
        raise LimitExceededError(
            f"{total[position]} bytes encoded, over protobuf's limit of {MESSAGE_LIMIT}; yield its chunks from `split`",
            position=position,
        )


def _entry(leaf: Leaf, size: int) -> list[Blob | Unjoined]:
    """Encode one map entry per record, as a header and a body.

    Both are empty for records that lack the feature.
    """
    present = size if leaf.present is None else int(leaf.present.sum())
    body = _features(leaf, present)
    if leaf.steps is not None and isinstance(body, Blob) and leaf.layout == "steps":
        body = in_groups(body, leaf.steps)
    key = leaf.name.encode()
    prefix = b"\x0a" + varint(len(key)) + key + b"\x12"
    value = varint_lengths(body.lengths)
    header = _header([b"\x0a", len(prefix) + value + body.lengths, prefix, body.lengths])
    if leaf.present is None:
        return [header, body]
    return [header.spread(leaf.present), body.spread(leaf.present)]


# Features ------------------------------------------------------------------------------------------------------------


def _features(leaf: Leaf, present: int) -> Blob | Unjoined:
    """Encode the values of a leaf as Features, one per record or one per step.

    In a FeatureList, each Feature is an element of the list, so it begins with the tag and length of the element.
    """
    wrapped = leaf.layout != "context"
    if isinstance(leaf.values, (Blob, Unjoined)):
        return leaf.values
    if leaf.kind == "bytes":
        return _bytes_features(leaf, present, wrapped=wrapped)
    if leaf.kind == "float":
        octets = np.ascontiguousarray(leaf.values, "<f4").view(np.uint8).reshape(-1)
        if isinstance(leaf.counts, int):
            return _fixed(leaf, octets, 4 * leaf.counts, present)
        payload = Blob(octets, 4 * leaf.counts)
    elif isinstance(leaf.counts, int) and leaf.counts == 1:
        return int_features(leaf.values, wrapped=wrapped)
    else:
        payload = in_groups(varints(leaf.values), _counts(leaf, present))
    return interleave([_feature_header(payload.lengths, leaf.kind, wrapped=wrapped), payload])


def _counts(leaf: Leaf, present: int) -> NDArray[np.int64]:
    """Return the number of values of each feature."""
    return np.full(_how_many(leaf, present), leaf.counts) if isinstance(leaf.counts, int) else leaf.counts


def _how_many(leaf: Leaf, present: int) -> int:
    return present if leaf.steps is None or leaf.layout != "steps" else int(leaf.steps.sum())


def _feature_header(payload: NDArray[np.int64], kind: str, *, wrapped: bool) -> Blob:
    """Encode the bytes before the payload of a float or int64 Feature."""
    packed = np.where(payload > 0, 1 + varint_lengths(payload) + payload, 0)
    fields: list[Any] = [bytes([FEATURE_TAG[kind]]), packed]
    if wrapped:
        fields = [b"\x0a", 1 + varint_lengths(packed) + packed, *fields]
    header = _header(fields)
    if payload.all():
        return interleave([header, _header([b"\x0a", payload])])
    return interleave([header, _header([b"\x0a", payload[payload > 0]]).spread(payload > 0)])


def _fixed(leaf: Leaf, octets: NDArray[np.uint8], width: int, present: int) -> Blob:
    """Encode Features whose payloads have the same size."""
    wrapped = leaf.layout != "context"
    features = _how_many(leaf, present)
    header = feature_header(width, leaf.kind, wrapped=wrapped)
    matrix = np.empty((features, len(header) + width), np.uint8)
    matrix[:, : len(header)] = np.frombuffer(header, np.uint8)
    matrix[:, len(header) :] = octets.reshape(features, width)
    return of_matrix(matrix)


def _bytes_features(leaf: Leaf, present: int, *, wrapped: bool) -> Blob | Unjoined:
    if isinstance(leaf.values, np.ndarray):  # buffers of one length, one per feature
        return _fixed(leaf, leaf.values.reshape(-1), leaf.values.shape[1], present)
    if isinstance(leaf.counts, int) and leaf.counts == 1:
        if leaf.layout != "steps" and isinstance(next(iter(leaf.values), None), memoryview):
            return _buffer_features(leaf.values, wrapped=wrapped)
        return _single_bytes(leaf.values, wrapped=wrapped)
    items = [b"\x0a" + varint(len(value)) + value for value in map(_as_bytes, leaf.values)]
    rows = in_groups(of_list(items), _counts(leaf, present))
    tag = bytes([FEATURE_TAG["bytes"]])
    fields: list[Any] = [tag, rows.lengths]
    if wrapped:
        fields = [b"\x0a", 1 + varint_lengths(rows.lengths) + rows.lengths, *fields]
    return interleave([_header(fields), rows])


def _single_bytes(values: Sequence[bytes | str], *, wrapped: bool) -> Blob:
    """Encode Features that contain one bytes value each."""
    # Tokens repeat, so encode each distinct one only once.
    encoded = {value: _as_bytes(value) for value in set(values)}
    headers = {size: feature_header(size, "bytes", wrapped=wrapped) for size in set(map(len, encoded.values()))}
    features = {value: headers[len(data)] + data for value, data in encoded.items()}
    return of_list(list(map(features.__getitem__, values)))


def _buffer_features(values: Sequence[memoryview], *, wrapped: bool) -> Unjoined:
    """Encode one Feature per record, each with one large bytes value.

    The headers and the values are not joined yet, which saves a copy.
    """
    rows = [(feature_header(len(value), "bytes", wrapped=wrapped), value) for value in values]
    return Unjoined(rows, np.array([len(header) + len(value) for header, value in rows], np.int64))


def _as_bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _header(cells: Sequence[bytes | NDArray[np.int64]]) -> Blob:
    """Encode rows that consist of several cells each.

    A cell contains the same bytes in every row, or a number per row, which is encoded as a varint.
    """
    rows = next(cell.size for cell in cells if isinstance(cell, np.ndarray))
    if rows <= _FEW:
        columns = [map(varint, cell.tolist()) if isinstance(cell, np.ndarray) else [cell] * rows for cell in cells]
        return of_list(list(map(b"".join, zip(*columns, strict=True))))
    sized: list[tuple[Any, Any, int]] = [
        (cell, *widths(cell)) if isinstance(cell, np.ndarray) else (cell, len(cell), len(cell)) for cell in cells
    ]
    out = np.empty((rows, sum(width for _, _, width in sized)), np.uint8)
    keep = np.ones(out.shape, bool)
    total = np.zeros(rows, np.int64)
    stop = 0
    for cell, lengths, width in sized:
        start, stop = stop, stop + width
        total += lengths
        if isinstance(cell, bytes):
            out[:, start:stop] = np.frombuffer(cell, np.uint8)
        else:
            fill_varints(out[:, start:stop], cell, lengths)
            keep[:, start:stop] = np.arange(width) < lengths[:, None]
    return of_matrix(out) if int(total.min()) == stop else Blob(out[keep], total)
