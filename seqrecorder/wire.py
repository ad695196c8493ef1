"""Columns of values to serialized `tf.train.SequenceExample`s, many records at once, in numpy.

The messages (tensorflow/core/example/example.proto and feature.proto) are

    SequenceExample { Features context = 1;  FeatureLists feature_lists = 2; }
    Features        { map<string, Feature> feature = 1; }
    FeatureLists    { map<string, FeatureList> feature_list = 1; }
    FeatureList     { repeated Feature feature = 1; }
    Feature         { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }     each with `repeated value = 1`

and their encoding is https://protobuf.dev/programming-guides/encoding. Map entries are written in declaration order,
so equal records give equal bytes (protobuf's own serializer orders them at random).

Everything is made of `Blob`s: rows of bytes, held as one flat array and the rows' lengths. A step of fixed width is a
constant header and a payload, so a whole chunk is one uint8 matrix; variable rows are matrices of the widest row,
compressed by a mask. Measured against building protos, one object per step, this is 15 to 150 times faster; per-record
numpy loses on short sequences, so callers pass about a thousand records at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.errors import LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MESSAGE_LIMIT = 2**31 - 1
"""protobuf refuses larger messages (its lengths are 31 bits), so no reader could take them in."""

_LENGTH_DELIMITED = 2
_FEATURE_TAG = {"bytes": 0x0A, "float": 0x12, "int64": 0x1A}
_VARINT_BITS = 7
_SMALL_ROW = 192  # bytes; measured: below, scattering by index beats copying row by row


@attrs.frozen(eq=False)
class Blob:
    """Rows of bytes.

    Attributes:
        data: uint8, the rows one behind the other.
        lengths: int64, bytes of each row.
        width: the length of every row where all are equal and non-zero, else 0.
    """

    data: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    width: int = 0


@attrs.frozen(eq=False)
class Leaf:
    """The values of one wire feature over N records.

    Attributes:
        name: name of the feature.
        kind: the list that holds the values.
        place: `context`; `steps`, one feature per step; or `packed`, one feature for all steps of a record.
        values: flat: int64, float32, a list of bytes, or a uint8 matrix with one bytes value per row.
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


def serialize(leaves: Sequence[Leaf], size: int) -> list[bytes]:
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
        return []
    context = [part for leaf in leaves if leaf.place == "context" for part in _entry(leaf, size)]
    lists = [part for leaf in leaves if leaf.place != "context" for part in _entry(leaf, size)]
    parts: list[Blob] = []
    for tag, entries in ((0x0A, context), (0x12, lists)):
        if entries:
            total = _total(entries)
            _check_limit(total)
            parts += [_header([bytes([tag]), total]), *entries]
    if not parts:
        return [b""] * size
    total = _total(parts)
    _check_limit(total)
    return split_rows(interleave(parts))


def _check_limit(total: NDArray[np.int64]) -> None:
    over = np.flatnonzero(total > MESSAGE_LIMIT)
    if over.size:
        position = int(over[0])
        raise LimitExceededError(
            f"{total[position]} bytes encoded, over protobuf's limit of {MESSAGE_LIMIT}; yield its chunks from `split`",
            position=position,
        )


def split_rows(blob: Blob) -> list[bytes]:
    """Return the rows as bytes objects."""
    data = blob.data.tobytes()
    ends = np.cumsum(blob.lengths).tolist()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _total(parts: Sequence[Blob]) -> NDArray[np.int64]:
    total: NDArray[np.int64] = parts[0].lengths.copy()
    for part in parts[1:]:
        total += part.lengths
    return total


def _entry(leaf: Leaf, size: int) -> list[Blob]:
    """Return header and body of one map entry per record; both are empty where the feature is absent."""
    present = size if leaf.present is None else int(leaf.present.sum())
    body = _features(leaf, present)
    if leaf.place == "steps":
        body = _rows_of_steps(body, leaf.steps)
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


def _rows_of_steps(steps: Blob, counts: NDArray[np.int64] | None) -> Blob:
    if counts is None:  # pragma: no cover - a leaf of steps has them
        raise ValueError("a leaf of steps needs `steps`")
    if steps.width:
        return Blob(steps.data, counts * steps.width)
    ends = np.zeros(steps.lengths.size + 1, np.int64)
    np.cumsum(steps.lengths, out=ends[1:])
    bounds = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    return Blob(steps.data, np.diff(ends[bounds]))


# Features ------------------------------------------------------------------------------------------------------------


def _features(leaf: Leaf, present: int) -> Blob:
    """Return one Feature per record or per step, each step with the tag and length that FeatureList wants."""
    wrapped = leaf.place != "context"
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
        payload = _rows_of_steps(data, counts)
    return interleave([_feature_header(payload.lengths, leaf.kind, wrapped=wrapped), payload])


def _how_many(leaf: Leaf, present: int) -> int:
    return present if leaf.place != "steps" or leaf.steps is None else int(leaf.steps.sum())


def _feature_header(payload: NDArray[np.int64], kind: str, *, wrapped: bool) -> Blob:
    """Return what stands before the payload of a float or int64 Feature."""
    packed = np.where(payload > 0, 1 + varint_lengths(payload) + payload, 0)
    parts: list[Any] = [bytes([_FEATURE_TAG[kind]]), packed]
    if wrapped:
        parts = [b"\x0a", 1 + varint_lengths(packed) + packed, *parts]
    header = _header(parts)
    if payload.all():
        return interleave([header, _header([b"\x0a", payload])])
    return interleave([header, _spread(_header([b"\x0a", payload[payload > 0]]), payload > 0)])


def _fixed(payload: NDArray[np.uint8], features: int, width: int, kind: str, *, wrapped: bool) -> Blob:
    """Return Features whose payloads are equally wide: a constant header before each row of a matrix."""
    item = b"\x0a" + varint(width)
    packed = bytes([_FEATURE_TAG[kind]]) + varint(len(item) + width) + item
    header = b"\x0a" + varint(len(packed) + width) + packed if wrapped else packed
    matrix = np.empty((features, len(header) + width), np.uint8)
    matrix[:, : len(header)] = np.frombuffer(header, np.uint8)
    matrix[:, len(header) :] = payload.reshape(features, width)
    return _matrix_blob(matrix)


def _matrix_blob(matrix: NDArray[np.uint8]) -> Blob:
    rows, width = matrix.shape
    return Blob(matrix.reshape(-1), np.full(rows, width, np.int64), width)


def _single_ints(values: NDArray[np.int64], *, wrapped: bool) -> Blob:
    """Return Features of one int64 each: all lengths are single bytes, so that only the varint varies."""
    lengths, widest = _varint_widths(values)
    start = 6 if wrapped else 4
    matrix = np.empty((values.size, start + widest), np.uint8)
    small = lengths.astype(np.uint8)
    if wrapped:
        matrix[:, 0] = 0x0A
        matrix[:, 1] = small + 4
    matrix[:, start - 4] = _FEATURE_TAG["int64"]
    matrix[:, start - 3] = small + 2
    matrix[:, start - 2] = 0x0A
    matrix[:, start - 1] = small
    _fill_varints(matrix[:, start:], values, lengths)
    return _compress(matrix, lengths + start)


def _bytes_features(leaf: Leaf, present: int, *, wrapped: bool) -> Blob:
    if isinstance(leaf.values, np.ndarray):  # equally long buffers, one to a feature
        return _fixed(leaf.values, _how_many(leaf, present), leaf.values.shape[1], "bytes", wrapped=wrapped)
    if isinstance(leaf.counts, int) and leaf.counts == 1:
        return _single_bytes(leaf.values, wrapped=wrapped)
    counts = leaf.counts
    if isinstance(counts, int):
        counts = np.full(_how_many(leaf, present), counts, np.int64)
    items = [b"\x0a" + varint(len(value)) + value for value in leaf.values]
    rows = _rows_of_steps(_join(items), counts)
    tag = bytes([_FEATURE_TAG["bytes"]])
    parts: list[Any] = [tag, rows.lengths]
    if wrapped:
        parts = [b"\x0a", 1 + varint_lengths(rows.lengths) + rows.lengths, *parts]
    return interleave([_header(parts), rows])


def _single_bytes(values: Sequence[bytes], *, wrapped: bool) -> Blob:
    """Return Features of one bytes value each; tokens repeat, so each distinct one is encoded once."""
    distinct = set(values)
    prefixes = {size: _single_prefix(size, wrapped=wrapped) for size in set(map(len, distinct))}
    encoded = {value: prefixes[len(value)] + value for value in distinct}
    return _join(list(map(encoded.__getitem__, values)))


def _single_prefix(size: int, *, wrapped: bool) -> bytes:
    item = b"\x0a" + varint(size)
    feature = bytes([_FEATURE_TAG["bytes"]]) + varint(len(item) + size) + item
    return b"\x0a" + varint(len(feature) + size) + feature if wrapped else feature


def _join(rows: list[bytes]) -> Blob:
    return Blob(np.frombuffer(b"".join(rows), np.uint8), np.fromiter(map(len, rows), np.int64, len(rows)))


# Varints and headers -------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    r"""Return a non-negative int as a base-128 varint.

    >>> varint(300)
    b'\xac\x02'
    """
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= _VARINT_BITS
    out.append(value)
    return bytes(out)


def varint_lengths(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many bytes the varint of each int64 takes: 1 to 10, negative ones 10."""
    return _varint_widths(values)[0]


def _varint_widths(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    unsigned = values.view(np.uint64)
    lengths = np.ones(values.shape, np.int64)
    if not values.size:
        return lengths, 1
    largest, widest, bound = int(unsigned.max()), 1, 1 << _VARINT_BITS
    while largest >= bound:
        lengths += unsigned >= np.uint64(bound)
        widest += 1
        bound <<= _VARINT_BITS
    return lengths, widest


def varints(values: NDArray[np.int64]) -> Blob:
    """Return each int64 as a base-128 varint of its two's complement."""
    values = np.ascontiguousarray(values, np.int64).reshape(-1)
    lengths, widest = _varint_widths(values)
    matrix = np.empty((values.size, widest), np.uint8)
    _fill_varints(matrix, values, lengths)
    return _compress(matrix, lengths)


def _fill_varints(matrix: NDArray[np.uint8], values: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    rest = values.view(np.uint64)
    last = matrix.shape[1] - 1
    for column in range(last + 1):
        low = rest.astype(np.uint8)  # the low byte; its top bit is replaced next
        if column < last:
            low &= 0x7F
            low |= (lengths > column + 1).view(np.uint8) << 7
            rest = rest >> np.uint64(_VARINT_BITS)
        matrix[:, column] = low


def _compress(matrix: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Blob:
    """Return the first `lengths[i]` bytes of each row."""
    width = matrix.shape[1]
    if not lengths.size or int(lengths.min()) == width:
        return _matrix_blob(matrix)
    if int(lengths.max()) == int(lengths.min()):
        return _matrix_blob(np.ascontiguousarray(matrix[:, : int(lengths[0])]))
    return Blob(matrix[np.arange(width) < lengths[:, None]], lengths)


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
        return _matrix_blob(out)
    return Blob(out[keep], np.asarray(lengths, np.int64))


def interleave(parts: Sequence[Blob]) -> Blob:
    """Return rows made of the rows of all parts, side by side."""
    if all(part.width for part in parts):
        rows = parts[0].lengths.size
        return _matrix_blob(np.hstack([part.data.reshape(rows, part.width) for part in parts]))
    lengths = _total(parts)
    out = np.empty(int(lengths.sum()), np.uint8)
    target = np.cumsum(lengths) - lengths
    for part in parts:
        _place(part, out, target)
        target = target + part.lengths
    return Blob(out, lengths)


def _place(part: Blob, out: NDArray[np.uint8], target: NDArray[np.int64]) -> None:
    if not part.data.size:
        return
    if part.width and part.width <= _SMALL_ROW:
        out[target[:, None] + np.arange(part.width)] = part.data.reshape(-1, part.width)
        return
    source = np.cumsum(part.lengths) - part.lengths
    if part.data.size <= _SMALL_ROW * part.lengths.size:
        out[np.repeat(target - source, part.lengths) + np.arange(part.data.size)] = part.data
        return
    view, data = out.data, np.ascontiguousarray(part.data).data
    rows = zip(target.tolist(), source.tolist(), part.lengths.tolist(), strict=True)
    for start, begin, length in rows:
        view[start : start + length] = data[begin : begin + length]
