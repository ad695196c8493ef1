"""Decode one record at a time: what a selection gives by position, and `Schema.decode`.

Numpy over a single short record costs more than the record; here each field has a function of its own, made once for a
schema. What is written in an unusual form is left to `seqrecorder.codec.decode`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.columns import builder
from seqrecorder.schema.conversion import SparseVector
from seqrecorder.schema.field import value_features
from seqrecorder.wire.read import (
    Steps,
    Unusual,
    equal_payloads,
    feature_items,
    feature_payload,
    list_features,
    message_spans,
    varint_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema
    from seqrecorder.wire.read import FeatureSpans

    Converter = Callable[[bytes], NDArray[Any]]


FLOAT_BYTES = 4
_SHORT = 1 << 12  # bytes that are copied, lest they keep a large record


def kind_of_numbers(field: Field) -> str:
    """Return the list of the format that holds a field: `int64`, `float` or `bytes`."""
    return "bytes" if field.buffered else field.element.wire


def converter_of(field: Field) -> Converter:
    """Return the function from packed bytes to values of the declared dtype."""
    element = field.element
    dtype = element.numpy
    if element.is_text:
        return lambda _: np.empty(0, object)
    if field.buffered:
        return lambda octets: _from_buffer(octets, dtype)
    if element.wire == "float":
        return lambda octets: _floats(octets, dtype)
    return lambda octets: _integers(octets, dtype)


def _from_buffer(octets: bytes | memoryview, dtype: np.dtype[Any]) -> NDArray[Any]:
    if len(octets) % dtype.itemsize:
        raise Unusual
    if dtype.kind == "b" and (np.frombuffer(octets, np.uint8) > 1).any():
        raise Unusual
    return _writable(octets, dtype)


def _writable(octets: bytes | memoryview, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return bytes as numbers that can be changed, without a copy where they can, and numpy's places for them suit."""
    if isinstance(octets, memoryview) and not octets.readonly and len(octets) > _SHORT:
        values: NDArray[Any] = np.frombuffer(octets, dtype)
        if values.flags.aligned:
            return values
    return np.frombuffer(bytearray(octets), dtype)


def _floats(octets: bytes | memoryview, dtype: np.dtype[Any]) -> NDArray[Any]:
    if len(octets) % FLOAT_BYTES:
        raise Unusual
    values = _writable(octets, np.dtype("<f4"))
    if dtype == np.float32:
        return values
    if not np.isfinite(values).all():
        raise Unusual  # the bits of a NaN are kept elsewhere
    with np.errstate(over="ignore"):
        narrow = values.astype(dtype)
    if not np.isfinite(narrow.astype(np.float32)).all():
        raise Unusual
    return narrow


def _integers(octets: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    return in_range(varint_values(np.frombuffer(octets, np.uint8)), dtype)


def in_range(values: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers of the wire in the declared dtype."""
    if dtype == np.int64:
        return values
    if dtype.kind in "mM" or dtype == np.uint64:
        return values.view(dtype)
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if values.size and not (limits[0] <= int(values.min()) and int(values.max()) <= limits[1]):
        raise Unusual
    return values.astype(dtype)


_STORAGES = ("auto", "raw", "packed", "buffer")
_NARROW = 0x80
_LARGEST = 1 << 20  # bytes of a record; of a larger one, copies count for more than what a batch costs


class SingleDecoder:
    """Decodes single records of one schema.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> schema = sr.Schema.of(Word)
    >>> SingleDecoder(schema).decode(schema.encode(Word("to")))
    Word(text='to')

    Args:
        schema: the fields.
    """

    def __init__(self, schema: Schema) -> None:
        self._build = builder(schema)
        self._known = all(field.storage in _STORAGES for field in schema.fields)
        self.gives_views = all(map(_is_whole, schema.fields))
        self._readers = [(field.is_list, _optional(field, _reader(field))) for field in schema.fields]
        self._groups = [
            [place for place, field in enumerate(schema.fields) if field.is_list and field.group == group]
            for group in schema.groups
        ]

    def decode(self, data: bytes) -> Any:
        """Return the record, or None where the batch decoder is to look at it."""
        if type(data) is not bytes or len(data) > _LARGEST:
            return None
        values = self._values(data)
        return None if values is None else self._build([[value] for value in values])[0]

    def values_of_large(self, data: memoryview) -> list[Any] | None:
        """Return the values of a large record, arrays as views of it where they can be; None as above.

        Only records whose long values are one buffer each are looked at.
        """
        return self._values(data) if self.gives_views and len(data) > _LARGEST else None

    def _values(self, data: Any) -> list[Any] | None:
        if not self._known:
            return None
        try:
            context, lists = message_spans(data)
            values = [read(data, lists if is_list else context, context) for is_list, read in self._readers]
        except (Unusual, UnicodeDecodeError):
            return None
        for group in self._groups:
            sizes = {len(values[place]) for place in group if values[place] is not None}
            if len(sizes) > 1:
                return None
        return values


def _optional(
    field: Field, read: Callable[[bytes, FeatureSpans], Any]
) -> Callable[[bytes, FeatureSpans, FeatureSpans], Any]:
    """Return the function of a message, the features of a field's kind and the context to its value or None."""
    if not field.may_lack:
        return lambda data, features, _: read(data, features)
    presence, names = (field.presence or "").encode(), _feature_names(field)

    def value(data: bytes, features: FeatureSpans, context: FeatureSpans) -> Any:
        is_held = any(name in features for name in names)
        if not field.optional:
            return read(data, features) if is_held else _absent(field)
        if presence not in context and not is_held:
            return _absent(field)
        stated = _whole_number(data, *feature_payload(data, *_found(context, presence), "int64"))
        if stated == 1:
            return read(data, features)
        if stated or is_held:
            raise Unusual  # perhaps an empty value beside it, perhaps a contradiction
        return None

    return value


def _absent(field: Field) -> Any:
    """Return what a record has that was written before the field came."""
    if not field.has_default:
        return None
    if field.is_list or field.shape or field.sparse is not None:
        raise Unusual
    value = field.exact(field.default)
    return bool(value) if field.element.name == "bool" else value


def _is_whole(field: Field) -> bool:
    """Check whether a field is a buffer of numbers of fixed width, or a number or text alone."""
    if field.sparse is not None or (field.is_list and not field.packed) or (field.is_list and field.is_ragged):
        return False
    alone = not field.is_list and not field.shape
    return alone or (not field.element.is_text and (field.buffered or field.element.wire == "float"))


def _feature_names(field: Field) -> list[bytes]:
    """Return the names of the features that hold a field's values."""
    return [name.encode() for name in value_features(field)]


def _found(features: FeatureSpans, name: bytes) -> tuple[int, int]:
    span = features.get(name)
    if span is None:
        raise Unusual
    return span


def _reader(field: Field) -> Callable[[bytes, FeatureSpans], Any]:
    """Return the function that gives a field's value from a message and the features of its kind."""
    if field.sparse is not None:
        return _sparse_reader(field)
    if field.is_list:
        return _list_reader(field)
    if not field.shape:
        return _scalar_reader(field)
    name, numbers, shape = field.feature.encode(), converter_of(field), (-1,) * field.is_ragged + field.rest
    return lambda data, features: _shaped(_flat(field, numbers, data, *_found(features, name)), shape)


def _flat(field: Field, numbers: Converter, data: bytes, start: int, stop: int) -> NDArray[Any]:
    """Return the values of a feature."""
    if field.element.is_text:
        return _texts(field, feature_items(data, start, stop))
    kind = kind_of_numbers(field)
    if kind == "bytes":
        return numbers(_only(feature_items(data, start, stop)))
    first, last = feature_payload(data, start, stop, kind)
    return numbers(data[first:last])


def _shaped(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    count = math.prod(size for size in shape if size > 0)
    if values.size % count if shape[:1] == (-1,) else values.size != count:
        raise Unusual
    return values.reshape((values.size // count, *shape[1:]) if shape[:1] == (-1,) else shape)


def _scalar_reader(field: Field) -> Callable[[bytes, FeatureSpans], Any]:
    name, kind, element = field.feature.encode(), kind_of_numbers(field), field.element
    numbers = converter_of(field)
    limits = np.iinfo(element.numpy) if element.numpy.kind in "iu" and element.name != "uint64" else None

    def read(data: bytes, features: FeatureSpans) -> Any:
        start, stop = _found(features, name)
        if kind == "bytes":
            item = _only(feature_items(data, start, stop))
            if element.is_text:
                text = bytes(item)
                return text.decode() if element.name == "str" else text
            values = numbers(item)
        else:
            first, last = feature_payload(data, start, stop, kind)
            if limits is not None:
                value = _whole_number(data, first, last)
                if not limits.min <= value <= limits.max:
                    raise Unusual
                return element.numpy.type(value)
            values = numbers(data[first:last])
        if values.size != 1:
            raise Unusual
        return bool(values[0]) if element.name == "bool" else values[0]

    return read


def _whole_number(data: bytes, first: int, last: int) -> int:
    """Return the one int64 of packed varints."""
    if last - first == 1 and data[first] < _NARROW:
        return data[first]
    values = varint_values(np.frombuffer(data[first:last], np.uint8))
    if values.size != 1:
        raise Unusual
    return int(values[0])


def _list_reader(field: Field) -> Callable[[bytes, FeatureSpans], Any]:
    name, numbers = field.feature.encode(), converter_of(field)
    if field.is_single and kind_of_numbers(field) != "float" and not field.buffered:
        return _single_reader(field, name)
    read: Callable[..., Any] = _read_steps
    if field.packed:
        read = _read_packed
    elif field.is_ragged:
        read = _read_ragged
    elif field.element.is_text:
        read = _read_texts
    return lambda data, features: read(field, numbers, data, *_found(features, name))


def _single_reader(field: Field, name: bytes) -> Callable[[bytes, FeatureSpans], Any]:
    """Return the reader of a list of one number or text a step."""
    dtype, kind = field.element.numpy, field.element.wire
    steps = Steps(kind, bytes.decode if field.element.name == "str" else None)

    def read(data: bytes, features: FeatureSpans) -> Any:
        values = steps.read(data, *_found(features, name))
        if kind == "bytes":
            out = np.empty(len(values), object)
            out[:] = values
            return out
        return in_range(np.array(values, np.int64), dtype)

    return read


def _read_packed(field: Field, numbers: Converter, data: bytes, start: int, stop: int) -> NDArray[Any]:
    spans = list_features(data, start, stop)
    if len(spans) != 1:
        raise Unusual
    return _shaped(_flat(field, numbers, data, *spans[0]), (-1, *field.rest))


def _read_ragged(field: Field, numbers: Converter, data: bytes, start: int, stop: int) -> list[NDArray[Any]]:
    values, counts = _joined(field, data, list_features(data, start, stop), numbers)
    if (counts % field.count).any():
        raise Unusual
    parts = np.split(values, np.cumsum(counts)[:-1]) if counts.size else []
    return [part.reshape(-1, *field.rest) for part in parts]


def _read_texts(field: Field, _: Converter, data: bytes, start: int, stop: int) -> NDArray[Any]:
    values, counts = _joined_texts(field, data, list_features(data, start, stop))
    if (counts != field.count).any():
        raise Unusual
    return values.reshape(-1, *field.rest)


def _read_steps(field: Field, numbers: Converter, data: bytes, start: int, stop: int) -> NDArray[Any]:
    kind, count = kind_of_numbers(field), field.count
    rows = equal_payloads(data, start, stop, kind)
    width = {"float": FLOAT_BYTES * count, "bytes": field.element.itemsize * count}.get(kind)
    if rows is not None and width is None:
        is_right = bool(((rows < _NARROW).sum(1) == count).all() and (rows[:, -1] < _NARROW).all())
    else:
        is_right = rows is not None and rows.shape[1] == width
    if rows is not None and is_right:
        return numbers(rows.tobytes()).reshape(-1, *field.rest)
    values, counts = _joined(field, data, list_features(data, start, stop), numbers)
    if (counts != count).any():
        raise Unusual
    return values.reshape(-1, *field.rest)


def _joined(
    field: Field, data: bytes, spans: list[tuple[int, int]], numbers: Converter
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the values of features one behind the other, and how many elements each holds."""
    if field.element.is_text:
        return _joined_texts(field, data, spans)
    kind = kind_of_numbers(field)
    parts: list[bytes] = []
    for span in spans:
        if kind == "bytes":
            parts.append(_only(feature_items(data, *span)))
        else:
            first, last = feature_payload(data, *span, kind)
            parts.append(data[first:last])
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    whole = b"".join(parts) if len(parts) != 1 else parts[0]
    if kind == "int64":
        ends = np.concatenate([[0], np.cumsum(np.frombuffer(whole, np.uint8) < _NARROW)])
        edges = np.cumsum(sizes)
        counts = np.diff(ends[np.concatenate([[0], edges])])
        octets = np.frombuffer(whole, np.uint8)
        if (octets[edges[sizes > 0] - 1] >= _NARROW).any():
            raise Unusual  # a number that does not end in its feature
    else:
        width = FLOAT_BYTES if kind == "float" else field.element.itemsize
        if (sizes % width).any():
            raise Unusual
        counts = sizes // width
    return numbers(whole), counts


def _joined_texts(field: Field, data: bytes, spans: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    items = [feature_items(data, *span) for span in spans]
    flat = [item for step in items for item in step]
    return _texts(field, flat), np.fromiter(map(len, items), np.int64, len(items))


def _texts(field: Field, items: list[bytes]) -> NDArray[Any]:
    out = np.empty(len(items), object)
    out[:] = list(map(bytes.decode, items)) if field.element.name == "str" else items
    return out


def _only(items: list[bytes]) -> bytes:
    if len(items) != 1:
        raise Unusual
    return items[0]


def _sparse_reader(field: Field) -> Callable[[bytes, FeatureSpans], Any]:
    indices_name, values_name = _feature_names(field)
    numbers, size = converter_of(field), field.sparse or 0

    def vector(data: bytes, where: tuple[int, int], what: tuple[int, int]) -> SparseVector:
        first, last = feature_payload(data, *where, "int64")
        indices = varint_values(np.frombuffer(data[first:last], np.uint8))
        if field.element.is_text:
            values = _texts(field, feature_items(data, *what))
        elif field.buffered:
            values = numbers(_only(feature_items(data, *what)))
        else:
            first, last = feature_payload(data, *what, kind_of_numbers(field))
            values = numbers(data[first:last])
        ascending = not indices.size or (indices[0] >= 0 and indices[-1] < size and (np.diff(indices) > 0).all())
        if indices.size != values.size or not ascending:
            raise Unusual
        return SparseVector(indices, values, size)

    def read(data: bytes, features: FeatureSpans) -> Any:
        where, what = _found(features, indices_name), _found(features, values_name)
        if not field.is_list:
            return vector(data, where, what)
        steps = list_features(data, *where), list_features(data, *what)
        if len(steps[0]) != len(steps[1]):
            raise Unusual
        return [vector(data, *spans) for spans in zip(*steps, strict=True)]

    return read
