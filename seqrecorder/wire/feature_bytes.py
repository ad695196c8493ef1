"""`tf.train.Feature`s of one value each, or of one width, made while their values are gathered.

Gathering looks at every value and joins them; joined with room for what stands before each, they need no other copy.
Short texts are joined behind a NUL and as much more as a header takes: joining finds what is no text, encoding to UTF-8
what has none, and the NULs where each header goes. A few long texts get their headers one by one.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.wire.byte_rows import Blob, Unjoined, interleave, of_matrix, scattered
from seqrecorder.wire.varints import LARGEST_IN_A_BYTE, Head, varint, varints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LARGE, WIDE = 1 << 14, 1 << 10
"""Bytes of a field of a record, and of each value of it, from which these are copied once, to where they end up."""

FEATURE_TAG = {"bytes": 0x0A, "float": 0x12, "int64": 0x1A}
"""By kind of list, what stands before it in a Feature."""

_ROOM = {False: 4, True: 6}  # bytes of a header before a short text
_FEW = 16  # of so many texts one may be long

_INT_HEADS = {
    # All lengths are single bytes, and grow with the varint's.
    False: Head(4, 0x00_0A_02_1A, 0x01_00_01_00),
    True: Head(6, 0x00_0A_02_1A_04_0A, 0x01_00_01_00_01_00),
}


def feature_header(width: int, kind: str, *, wrapped: bool) -> bytes:
    r"""Return what stands before the one value of a bytes Feature, or all values of a float Feature.

    >>> feature_header(4, "float", wrapped=False)
    b'\x12\x06\n\x04'

    Args:
        width: bytes of what follows.
        kind: `bytes` or `float`.
        wrapped: whether the feature has a header of its own, as in a FeatureList.
    """
    item = b"\x0a" + varint(width)
    feature = bytes([FEATURE_TAG[kind]]) + varint(len(item) + width) + item
    return b"\x0a" + varint(len(feature) + width) + feature if wrapped else feature


def with_room(features: int, width: int, kind: str, *, wrapped: bool) -> tuple[NDArray[np.uint8], int]:
    """Return a matrix of features of so many bytes each, to be filled in, and the column in which their bytes begin.

    Args:
        features: how many.
        width: as for `feature_header`.
        kind: as for `feature_header`.
        wrapped: as for `feature_header`.
    """
    header = feature_header(width, kind, wrapped=wrapped)
    matrix = np.empty((features, len(header) + width), np.uint8)
    matrix[:, : len(header)] = np.frombuffer(header, np.uint8)
    return matrix, len(header)


def wide_features(arrays: Sequence[NDArray[Any]], width: int, kind: str, *, wrapped: bool) -> Unjoined:
    r"""Return the features of values of so many bytes each, as rows of all features of an array.

    >>> bytes().join(wide_features([np.arange(4, dtype="u1")], 2, "bytes", wrapped=False).buffers[0])
    b'\n\x04\n\x02\x00\x01\n\x04\n\x02\x02\x03'

    Args:
        arrays: whose bytes are to be cut; they must not change before they are joined.
        width: as for `feature_header`.
        kind: as for `feature_header`.
        wrapped: as for `feature_header`.
    """
    header = feature_header(width, kind, wrapped=wrapped)
    rows = []
    for array in arrays:
        octets = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        row: list[Any] = [header] * (2 * (len(octets) // width))
        row[1::2] = [octets[start : start + width] for start in range(0, len(octets), width)]
        rows.append(row)
    sizes = np.fromiter((array.nbytes for array in arrays), np.int64, len(arrays))
    return Unjoined(rows, sizes // width * (len(header) + width))


def int_features(values: NDArray[np.int64], *, wrapped: bool) -> Blob:
    r"""Return the features of one int64 each.

    >>> bytes(int_features(np.array([1, 300]), wrapped=False).data)
    b'\x1a\x03\n\x01\x01\x1a\x04\n\x02\xac\x02'

    Args:
        values: int64, of shape `(N,)`.
        wrapped: as for `feature_header`.
    """
    return varints(values, _INT_HEADS[wrapped])


def text_features(texts: Sequence[Any], kind: type[str | bytes], *, wrapped: bool) -> Blob | None:
    r"""Return the features of texts of which nearly all are short, and none holds a NUL; else None.

    >>> bytes(text_features(["a", "bc"], str, wrapped=False).data)
    b'\n\x03\n\x01a\n\x04\n\x02bc'

    Args:
        texts: what should be texts.
        kind: whether that is str or bytes.
        wrapped: as for `feature_header`.

    Raises:
        TypeError: one of them is not of that kind.
        UnicodeEncodeError: one holds a lone surrogate.
    """
    if not texts or len(texts[0]) > LARGEST_IN_A_BYTE:  # then the others are long too, as a rule
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
    made = scattered(octets, _short_headers(room).take(lengths, axis=0, mode="clip"), starts)
    longest = int(lengths.max())
    if longest - 2 <= LARGEST_IN_A_BYTE:
        return Blob(made, lengths)
    long = np.flatnonzero(lengths - 2 > LARGEST_IN_A_BYTE)
    return _with_longer_headers(Blob(made, lengths), starts, long, wrapped) if _FEW * long.size <= len(texts) else None


def features_of_texts(texts: Blob, *, wrapped: bool) -> Blob | None:
    r"""Return the features of texts that lie behind each other, in UTF-8; None where one is too long for short headers.

    >>> from seqrecorder.wire.byte_rows import of_list
    >>> list(features_of_texts(of_list([b"a", b"bc"]), wrapped=False))
    [b'\n\x03\n\x01a', b'\n\x04\n\x02bc']

    Args:
        texts: their bytes, as they are stored.
        wrapped: as for `feature_header`.
    """
    room = _ROOM[wrapped]
    lengths = texts.lengths + room
    if int(lengths.max(initial=0)) - 2 > LARGEST_IN_A_BYTE:
        return None
    return interleave([of_matrix(_short_headers(room)[lengths]), texts])


def _with_longer_headers(rows: Blob, starts: NDArray[np.int64], long: NDArray[np.int64], wrapped: bool) -> Blob:  # noqa: FBT001 - as above
    """Return the features of texts, of which some are too long for the room that was left before them."""
    room = _ROOM[wrapped]
    lengths = rows.lengths.copy()
    parts, done = [], 0
    for number, start, length in zip(long.tolist(), starts[long].tolist(), lengths[long].tolist(), strict=True):
        header = feature_header(length - room, "bytes", wrapped=wrapped)
        parts += [rows.data[done:start], np.frombuffer(header, np.uint8)]
        lengths[number] += len(header) - room
        done = start + room
    return Blob(np.concatenate([*parts, rows.data[done:]]), lengths)


@functools.cache
def _short_headers(room: int) -> NDArray[np.uint8]:
    """Return the headers of text features of so many bytes, headers included, all of whose lengths are single bytes."""
    sizes = np.maximum(np.arange(LARGEST_IN_A_BYTE + 3)[:, None] - np.arange(2, room + 1, 2), 0)
    return np.stack([np.full_like(sizes, FEATURE_TAG["bytes"]), sizes], 2).astype(np.uint8).reshape(-1, room)
