"""Columns of values to serialized `tf.train.SequenceExample`s, many records at once, in numpy.

The messages (tensorflow/core/example/example.proto and feature.proto) are

    SequenceExample { Features context = 1;  FeatureLists feature_lists = 2; }
    Features        { map<string, Feature> feature = 1; }
    FeatureLists    { map<string, FeatureList> feature_list = 1; }
    FeatureList     { repeated Feature feature = 1; }
    Feature         { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }     each with `repeated value = 1`

and their encoding is https://protobuf.dev/programming-guides/encoding. Map entries are written in declaration order,
so equal records give equal bytes (protobuf's own serializer orders them at random).

Everything is made of `Blob`s (`seqrecorder.rows`). A step of fixed width is a constant header and a payload, so a whole
chunk is one uint8 matrix; an int64 step is made of one or two 64-bit words, whose bytes are its tags, lengths and
varint; distinct texts are encoded once and joined.

Tried and measured: building protos, one object per step, is 9 to 40 times slower; numpy for each single record loses to
it on short sequences, so callers pass some thousands of records at a time (64 at a time encode five times slower than
8,192). Varints by a look-up table of encoded integers and a join take 25 ns a step, words 5 to 10 ns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.errors import LimitExceededError
from seqrecorder.features import FEATURE_TAG, VARINT_BITS, feature_header, varint, with_room
from seqrecorder.rows import (
    Blob,
    in_groups,
    interleave,
    joined,
    of_list,
    of_matrix,
    of_prefixes,
    total_lengths,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MESSAGE_LIMIT = 2**31 - 1
"""protobuf refuses larger messages (its lengths are 31 bits), so no reader could take them in."""

_LENGTH_DELIMITED = 2
_WORD = 8  # bytes


@attrs.frozen(eq=False)
class Leaf:
    """The values of one wire feature over N records.

    Attributes:
        name: name of the feature.
        kind: the list that holds the values.
        place: `context`; `steps`, one feature per step; or `packed`, one feature for all steps of a record.
        values: flat: int64, float32, a list of bytes or of str (written as UTF-8), or a uint8 matrix with one bytes
            value per row; or the features themselves (`seqrecorder.features`).
        counts: values per feature, an int where all features have as many.
        steps: features per record (for `steps`), int64 of shape (N,).
        present: which records have the feature at all; None means all. Values are those of present records only.
    """

    name: str
    kind: Literal["int64", "float", "bytes"]
    place: Literal["context", "steps", "packed"]
    values: Any
    counts: int | NDArray[np.int64] = 1
    steps: NDArray[np.int64] | None = None
    present: NDArray[np.bool_] | None = None


def serialize(leaves: Sequence[Leaf], size: int) -> Sequence[bytes]:
    """Return `size` serialized SequenceExamples.

    >>> lengths = np.array([2, 1])
    >>> leaf = Leaf("ids", "int64", "steps", np.array([7, 8, 9]), steps=lengths)
    >>> [len(data) for data in serialize([leaf], 2)]
    [25, 18]

    Args:
        leaves: the features, in the order in which they are written.
        size: how many records there are.

    Raises:
        LimitExceededError: a record is over 2 GiB; `position` says which.
    """
    if size == 0:
        return of_list([])
    context = [part for leaf in leaves if leaf.place == "context" for part in _entry(leaf, size)]
    lists = [part for leaf in leaves if leaf.place != "context" for part in _entry(leaf, size)]
    parts: list[Blob] = []
    for tag, entries in ((0x0A, context), (0x12, lists)):
        if entries:
            total = total_lengths(entries)
            check_limit(total)
            parts += [_header([bytes([tag]), total]), *entries]
    if not parts:
        return of_list([b""] * size)
    total = total_lengths(parts)
    check_limit(total)
    return joined(parts)


def check_limit(total: NDArray[np.int64]) -> None:
    """Raise `LimitExceededError`, with the position of the first, where records of so many bytes are over the limit."""
    over = np.flatnonzero(total > MESSAGE_LIMIT)
    if over.size:
        position = int(over[0])
        raise LimitExceededError(
            f"{total[position]} bytes encoded, over protobuf's limit of {MESSAGE_LIMIT}; yield its chunks from `split`",
            position=position,
        )


def _entry(leaf: Leaf, size: int) -> list[Blob]:
    """Return header and body of one map entry per record; both are empty where the feature is absent."""
    present = size if leaf.present is None else int(leaf.present.sum())
    body = _features(leaf, present)
    if leaf.place == "steps":
        body = in_groups(body, _steps(leaf))
    key = leaf.name.encode()
    prefix = b"\x0a" + varint(len(key)) + key + b"\x12"
    value = varint_lengths(body.lengths)
    header = _header([b"\x0a", len(prefix) + value + body.lengths, prefix, body.lengths])
    if leaf.present is None:
        return [header, body]
    return [_spread(header, leaf.present), _spread(body, leaf.present)]


def _spread(blob: Blob, present: NDArray[np.bool_]) -> Blob:
    lengths = np.zeros(present.shape, np.int64)
    lengths[present] = blob.lengths
    return Blob(blob.data, lengths)


# Features ------------------------------------------------------------------------------------------------------------


def _features(leaf: Leaf, present: int) -> Blob:
    """Return one Feature per record or per step, each step with the tag and length that FeatureList wants."""
    wrapped = leaf.place != "context"
    if isinstance(leaf.values, Blob):
        return leaf.values
    if leaf.kind == "bytes":
        return _bytes_features(leaf, present, wrapped=wrapped)
    if leaf.kind == "float":
        values = np.ascontiguousarray(leaf.values, "<f4")
        if isinstance(leaf.counts, int):
            return _fixed(values.view(np.uint8), _how_many(leaf, present), 4 * leaf.counts, leaf.kind, wrapped=wrapped)
        payload = Blob(values.view(np.uint8).reshape(-1), 4 * leaf.counts)
    elif isinstance(leaf.counts, int) and leaf.counts == 1:
        return _single_ints(leaf.values, wrapped=wrapped)
    else:
        data = varints(leaf.values)
        if isinstance(leaf.counts, int):
            counts = np.full(_how_many(leaf, present), leaf.counts, np.int64)
        else:
            counts = leaf.counts
        payload = in_groups(data, counts)
    return interleave([_feature_header(payload.lengths, leaf.kind, wrapped=wrapped), payload])


def _steps(leaf: Leaf) -> NDArray[np.int64]:
    if leaf.steps is None:  # pragma: no cover - a leaf of steps has them
        raise ValueError("a leaf of steps needs `steps`")
    return leaf.steps


def _how_many(leaf: Leaf, present: int) -> int:
    return present if leaf.place != "steps" or leaf.steps is None else int(leaf.steps.sum())


def _feature_header(payload: NDArray[np.int64], kind: str, *, wrapped: bool) -> Blob:
    """Return what stands before the payload of a float or int64 Feature."""
    packed = np.where(payload > 0, 1 + varint_lengths(payload) + payload, 0)
    parts: list[Any] = [bytes([FEATURE_TAG[kind]]), packed]
    if wrapped:
        parts = [b"\x0a", 1 + varint_lengths(packed) + packed, *parts]
    header = _header(parts)
    if payload.all():
        return interleave([header, _header([b"\x0a", payload])])
    return interleave([header, _spread(_header([b"\x0a", payload[payload > 0]]), payload > 0)])


def _fixed(payload: NDArray[np.uint8], features: int, width: int, kind: str, *, wrapped: bool) -> Blob:
    """Return Features whose payloads are equally wide: a constant header before each row of a matrix."""
    matrix, start = with_room(features, width, kind, wrapped=wrapped)
    matrix[:, start:] = payload.reshape(features, width)
    return of_matrix(matrix)


def _single_ints(values: NDArray[np.int64], *, wrapped: bool) -> Blob:
    """Return Features of one int64 each: all lengths are single bytes, so that only the varint varies."""
    lengths, widest = _varint_widths(values)
    # What stands before the varint, in ascending bytes of a word; some of it grows with the varint's length.
    start, constant, growing = (
        (6, 0x00_0A_02_1A_04_0A, 0x01_00_01_00_01_00) if wrapped else (4, 0x00_0A_02_1A, 0x01_00_01_00)
    )
    if widest > _WORD:
        head = (lengths * growing + constant).astype("<u8").view(np.uint8).reshape(-1, _WORD)
        matrix = np.empty((values.size, start + widest), np.uint8)
        matrix[:, :start] = head[:, :start]
        _fill_varints(matrix[:, start:], values, lengths)
        return of_prefixes(matrix, lengths + start)
    varint_bytes = _varint_words(values, lengths, widest)
    words = np.empty((values.size, 1 if start + widest <= _WORD else 2), "<u8")
    head = lengths.view(np.uint64) * np.uint64(growing) + np.uint64(constant)
    words[:, 0] = head | varint_bytes << np.uint64(8 * start)
    if words.shape[1] > 1:
        words[:, 1] = varint_bytes >> np.uint64(8 * (_WORD - start))
    return of_prefixes(words.view(np.uint8), lengths + start)


def _bytes_features(leaf: Leaf, present: int, *, wrapped: bool) -> Blob:
    if isinstance(leaf.values, np.ndarray):  # equally long buffers, one to a feature
        return _fixed(leaf.values, _how_many(leaf, present), leaf.values.shape[1], "bytes", wrapped=wrapped)
    if isinstance(leaf.counts, int) and leaf.counts == 1:
        return _single_bytes(leaf.values, wrapped=wrapped)
    counts = leaf.counts
    if isinstance(counts, int):
        counts = np.full(_how_many(leaf, present), counts, np.int64)
    items = [b"\x0a" + varint(len(value)) + value for value in map(_as_bytes, leaf.values)]
    rows = in_groups(of_list(items), counts)
    tag = bytes([FEATURE_TAG["bytes"]])
    parts: list[Any] = [tag, rows.lengths]
    if wrapped:
        parts = [b"\x0a", 1 + varint_lengths(rows.lengths) + rows.lengths, *parts]
    return interleave([_header(parts), rows])


def _single_bytes(values: Sequence[bytes | str], *, wrapped: bool) -> Blob:
    """Return Features of one bytes value each."""
    # Tokens repeat, so each distinct one is encoded once.
    encoded = {value: _as_bytes(value) for value in set(values)}
    headers = {size: feature_header(size, "bytes", wrapped=wrapped) for size in set(map(len, encoded.values()))}
    features = {value: headers[len(data)] + data for value, data in encoded.items()}
    return of_list(list(map(features.__getitem__, values)), max(map(len, features.values()), default=0))


def _as_bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value


# Varints and headers -------------------------------------------------------------------------------------------------


def varint_lengths(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many bytes the varint of each int64 takes: 1 to 10, negative ones 10."""
    return _varint_widths(values)[0]


def _varint_widths(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    unsigned = values.view(np.uint64)
    lengths = np.ones(values.shape, np.int64)
    if not values.size:
        return lengths, 1
    largest, widest, bound = int(unsigned.max()), 1, 1 << VARINT_BITS
    while largest >= bound:
        lengths += unsigned >= np.uint64(bound)
        widest += 1
        bound <<= VARINT_BITS
    return lengths, widest


def varints(values: NDArray[np.int64]) -> Blob:
    """Return each int64 as a base-128 varint of its two's complement."""
    values = np.ascontiguousarray(values, np.int64).reshape(-1)
    lengths, widest = _varint_widths(values)
    if widest <= _WORD:
        words = _varint_words(values, lengths, widest)
        return of_prefixes(words.view(np.uint8).reshape(-1, _WORD), lengths)
    matrix = np.empty((values.size, widest), np.uint8)
    _fill_varints(matrix, values, lengths)
    return of_prefixes(matrix, lengths)


def _varint_words(values: NDArray[np.int64], lengths: NDArray[np.int64], widest: int) -> NDArray[np.uint64]:
    """Return the varints of values that take at most 8 bytes, each in one little-endian word."""
    unsigned = values.view(np.uint64)
    words = unsigned & np.uint64(0x7F)
    for column in range(1, widest):
        words |= (unsigned & np.uint64(0x7F << (VARINT_BITS * column))) << np.uint64(column)
    # All bytes but the last say that more follow.
    if widest > 1:
        words |= (np.uint64(1) << (np.uint64(8) * (lengths.view(np.uint64) - np.uint64(1)))) - np.uint64(1) & np.uint64(
            0x8080_8080_8080_8080
        )
    little: NDArray[np.uint64] = words.astype("<u8", copy=False)
    return little


def _fill_varints(matrix: NDArray[np.uint8], values: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    rest = values.view(np.uint64)
    last = matrix.shape[1] - 1
    for column in range(last + 1):
        low = rest.astype(np.uint8)  # the low byte; its top bit is replaced next
        if column < last:
            low &= 0x7F
            low |= (lengths > column + 1).view(np.uint8) << 7
            rest = rest >> np.uint64(VARINT_BITS)
        matrix[:, column] = low


def _header(parts: Sequence[bytes | NDArray[np.int64]]) -> Blob:
    """Return rows made of constant bytes and of varints, one per row."""
    lengths: NDArray[np.int64] | int = 0
    rows = next(part.size for part in parts if isinstance(part, np.ndarray))
    ragged = False
    pieces: list[tuple[bytes, None] | tuple[NDArray[np.uint8], NDArray[np.int64]]] = []
    for part in parts:
        if isinstance(part, bytes):
            pieces.append((part, None))
            lengths = lengths + len(part)
            continue
        part_lengths, widest = _varint_widths(part)
        matrix = np.empty((rows, widest), np.uint8)
        _fill_varints(matrix, part, part_lengths)
        pieces.append((matrix, part_lengths))
        lengths = lengths + part_lengths
        ragged |= rows > 0 and int(part_lengths.min()) != widest
    width = sum(len(piece) if isinstance(piece, bytes) else piece.shape[1] for piece, _ in pieces)
    out = np.empty((rows, width), np.uint8)
    keep = np.ones((rows, width), bool) if ragged else None
    start = 0
    for piece, piece_lengths in pieces:
        if isinstance(piece, bytes):
            out[:, start : start + len(piece)] = np.frombuffer(piece, np.uint8)
            start += len(piece)
            continue
        stop = start + piece.shape[1]
        out[:, start:stop] = piece
        if keep is not None and piece_lengths is not None:
            keep[:, start:stop] = np.arange(stop - start) < piece_lengths[:, None]
        start = stop
    if keep is None:
        return of_matrix(out)
    return Blob(out[keep], np.asarray(lengths, np.int64))
