"""Records to bytes and back: the codec behind `Schema.encode`, `decode`, `parse` and their batch forms.

Encoding is numpy from end to end. Decoding goes through TensorFlow's own parser, so that what Python reads and what a
graph reads cannot differ, and hostile bytes meet one parser only.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.columns import Column, gather, group_lengths, scatter
from seqrecorder.codec.construct import builder
from seqrecorder.codec.forked_tensorflow import check_threads_of_tensorflow
from seqrecorder.codec.malloc import keep_freed_memory
from seqrecorder.codec.memory_size import join_taken, taker
from seqrecorder.codec.message_layout import describe_message, has_feature, message_of
from seqrecorder.codec.parser import Parser
from seqrecorder.codec.slicing import parts
from seqrecorder.codec.tensors_and_images import encode_images, encode_tensors
from seqrecorder.errors import FieldProblem, RecordError, first_line
from seqrecorder.wire.feature_bytes import text_features
from seqrecorder.wire.sequence_example import Leaf, check_limit, serialize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.construct import Builder
    from seqrecorder.codec.parsing_spec import Layout
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


LARGE_RECORD = 32 << 20
"""Bytes from which on a record's copies count for more than the time to make them."""
_MANY_TEXTS = 1 << 17


class RecordCodec:
    """Encodes and decodes the records of one schema.

    Args:
        schema: the fields.
        layout: how sequences lie in serialized records; what this library writes is `steps`.
    """

    def __init__(self, schema: Schema, layout: Layout = "steps") -> None:
        keep_freed_memory()
        self.schema = schema
        self.parser = Parser(schema, layout)
        self._take = taker(schema)

    def context_features(self) -> dict[str, Any]:
        """Return the wire spec of the context."""
        return self.parser.specs.public()[0]

    def sequence_features(self) -> dict[str, Any]:
        """Return the wire spec of the feature lists."""
        return self.parser.specs.public()[1]

    def parse(self, serialized: Any) -> dict[str, Any]:
        """Return the tensors of one record."""
        return _without_autograph(self.parser.parse, serialized)

    def parse_batch(self, serialized: Any) -> dict[str, Any]:
        """Return the tensors of a padded batch."""
        return _without_autograph(self.parser.parse_batch, serialized)

    def encode_batch(self, records: Sequence[Any]) -> list[bytes]:
        """Return one serialized SequenceExample per record."""
        out: list[bytes] = []
        for data, _ in self.encode_pieces(records):
            out += data
        return out

    def encode_pieces(self, records: Sequence[Any]) -> Iterator[tuple[Sequence[bytes], NDArray[np.int64]]]:
        """Yield serialized records and their lengths, int64 of shape `(records, groups)`, piece by piece.

        Args:
            records: records of the schema's class.

        Raises:
            RecordError: the first record that cannot be encoded; the position is that in `records`.
        """
        start = 0
        for count, taken in parts(records, self._take):
            part = records[start : start + count]
            try:
                encoded = self.encode_columns(gather(self.schema, part, join_taken(taken)), count)
            except RecordError as error:
                error.position = None if error.position is None else error.position + start
                raise
            yield encoded
            start += count

    def encode_columns(self, columns: dict[str, Column], size: int) -> tuple[Sequence[bytes], NDArray[np.int64]]:
        """Return serialized records and their lengths for the columns of `size` records, which fit the schema."""
        try:
            leaves = [leaf for field in self.schema.fields for leaf in to_leaves(field, columns[field.name], size)]
            data = serialize(leaves, size)
        except RecordError as error:
            if self.schema.key_field is not None and error.position is not None:
                error.key = columns[self.schema.key_field.name].values[error.position]
            raise
        return data, group_lengths(self.schema, columns, size)

    def decode_batch(self, data: Sequence[bytes]) -> list[Any]:
        """Return one record per serialized SequenceExample."""
        import tensorflow as tf

        others = set(map(type, data)) - {bytes}
        if others:
            position = next(i for i, item in enumerate(data) if type(item) is not bytes)
            raise RecordError(f"cannot be decoded: expected bytes, got {others.pop().__name__}", position=position)
        with tf.device("CPU:0"):
            return self.build(self.decode_values(tf.constant(list(data), tf.string)))

    def to_records(self, columns: dict[str, Column]) -> list[Any]:
        """Return the records whose columns these are."""
        return self.build([scatter(field, columns[field.name]) for field in self.schema.fields])

    @functools.cached_property
    def build(self) -> Builder:
        """Returns the records that have the values of each field."""
        return builder(self.schema)

    def decode_values(self, serialized: Any) -> list[list[Any]]:
        """Return the values of each field of the records that an eager string vector holds.

        Raises:
            RecordError: the first record that cannot be decoded.
        """
        columns = self.decode_columns(serialized)
        return [scatter(field, columns[field.name]) for field in self.schema.fields]

    def decode_columns(self, serialized: Any) -> dict[str, Column]:
        """Return the columns of the records that an eager string vector holds.

        Raises:
            RecordError: the first record that cannot be decoded.
        """
        import tensorflow as tf

        check_threads_of_tensorflow("decode records")
        try:
            return self._decode_all(serialized)
        except (tf.errors.OpError, RecordError) as error:
            size = int(serialized.shape[0])
            if size > 1:
                position = self._first_failure(serialized)
                try:
                    self.decode_columns(serialized[position : position + 1])
                except RecordError as found:
                    raise RecordError(found.message, position=position, problems=found.problems) from None
            if isinstance(error, RecordError):
                raise
            raise self._failure(serialized[0].numpy(), error) from None

    def _decode_all(self, serialized: Any) -> dict[str, Column]:
        import tensorflow as tf

        is_large = int(serialized.shape[0]) == 1 and int(tf.strings.length(serialized)[0]) > LARGE_RECORD
        with tf.device("CPU:0"):
            columns, _ = self.parser.parse_columns(serialized, is_large=is_large)
            # Each is dropped as tensors once it is there as arrays.
            return {
                field.name: _to_numpy(field, columns.pop(field.name), is_large=is_large) for field in self.schema.fields
            }

    def _first_failure(self, serialized: Any) -> int:
        """Return the position of the first record that cannot be decoded: the last one, if it is no other."""
        import tensorflow as tf

        begin, end = 0, int(serialized.shape[0])  # those before `begin` can be decoded
        while end - begin > 1:
            middle = (begin + end) // 2
            try:
                self._decode_all(serialized[begin:middle])
            except (tf.errors.OpError, RecordError):
                end = middle
            else:
                begin = middle
        return begin

    def _failure(self, data: bytes, error: Exception) -> RecordError:
        """Return the error of a record that cannot be decoded: it names all fields that are missing."""
        first, message = f"cannot be decoded as {self.schema.name}: {describe_message(data)}", message_of(data)
        missing = [
            FieldProblem(field.name, (), f"the {field.kind} {field.feature!r}, or a default in the class", "nothing")
            for field in self.schema.fields
            if message is not None and not field.may_lack and not has_feature(message, field, self.parser.layout)
        ]
        if missing:
            return RecordError(first, problems=missing)
        return RecordError(f"{first}; TensorFlow says: {first_line(error)}")


def to_leaves(field: Field, column: Column, size: int) -> list[Leaf]:
    """Return the wire features of a field over `size` records."""
    leaves = _sparse_leaves(field, column) if field.sparse is not None else [_leaf(field, column)]
    if field.presence:
        known = np.ones(size, np.int64) if column.present is None else column.present.astype(np.int64)
        leaves.append(Leaf(field.presence, "int64", "context", known))
    return leaves


def _leaf(field: Field, column: Column) -> Leaf:
    name, place = field.feature, _place(field)
    steps, present = column.steps, column.present
    if column.features is not None:
        return Leaf(name, field.element.wire, place, column.features, 1, steps, present)
    if field.storage in ("png", "jpeg"):
        return Leaf(name, "bytes", place, encode_images(column.values, field.storage), 1, steps, present)
    if field.storage == "tensor":
        return Leaf(name, "bytes", place, encode_tensors(field, column), 1, steps, present)
    if field.buffered:
        return Leaf(name, "bytes", place, _buffers(field, column), 1, steps, present)
    counts: Any = field.count if column.counts is None else column.counts * field.count
    if place == "packed":
        counts = steps * field.count
    if field.element.is_text:
        return Leaf(name, "bytes", place, _text_values(field, column.values), counts, steps, present)
    return Leaf(name, field.element.wire, place, _wire_values(field, column.values), counts, steps, present)


def _place(field: Field) -> Any:
    if not field.is_list:
        return "context"
    return "packed" if field.packed else "steps"


def _wire_values(field: Field, values: NDArray[Any]) -> Any:
    if field.element.is_text:
        return values.ravel().tolist()
    return field.element.to_wire(values).reshape(-1)


def _text_values(field: Field, values: NDArray[Any]) -> Any:
    """Return texts, as features where they are short."""
    texts = values.ravel().tolist()
    kind = str if field.element.name == "str" else bytes
    features = text_features(texts, kind, wrapped=field.is_list) if field.is_single else None
    return texts if features is None else features


def _buffers(field: Field, column: Column) -> Any:
    """Return one little-endian buffer per record or step: a matrix where all are equally long, else a list."""
    if column.counts is not None and column.present is None and not field.is_list:
        check_limit(column.counts * field.element.itemsize * field.count)  # before the copies that follow
    values = np.ascontiguousarray(column.values)
    bytes_ = values.reshape(-1).view(np.uint8)
    width = field.element.itemsize * field.count
    counts = column.steps if field.packed else column.counts
    if counts is None:
        return bytes_.reshape(-1, width)
    data, ends = bytes_.tobytes(), np.cumsum(counts * width).tolist()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _sparse_leaves(field: Field, column: Column) -> list[Leaf]:
    indices_name, values_name = f"{field.feature}/indices", f"{field.feature}/values"
    place, steps, present = _place(field), column.steps, column.present
    indices = Leaf(indices_name, "int64", place, column.indices, column.counts, steps, present)
    if field.buffered:
        return [indices, Leaf(values_name, "bytes", place, _buffers(field, column), 1, steps, present)]
    values = _wire_values(field, column.values)
    return [indices, Leaf(values_name, field.element.wire, place, values, column.counts, steps, present)]


def _to_numpy(field: Field, column: Column, *, is_large: bool) -> Column:
    def array(tensor: Any) -> Any:
        return None if tensor is None else tensor.numpy()

    element = field.element
    if element.name == "str":
        values = (_many_texts if is_large else _texts)(field, column.values)
    elif is_large and not element.is_text:
        values = column.values._numpy()  # noqa: SLF001 - without a copy, and writable: nothing else has this tensor
    else:
        values = array(column.values)
    if element.is_time:
        values = values.view(element.numpy)
    present = array(column.present)
    if present is not None and present.all():
        present = None
    return Column(values, array(column.steps), array(column.counts), array(column.indices), present)


def _many_texts(field: Field, values: Any) -> NDArray[Any]:
    """Return the strings of an eager tensor as str objects, one object for many that are equal."""
    import tensorflow as tf

    flat = tf.reshape(values, [-1])
    decoded, known = np.empty(int(flat.shape[0]), object), dict[str, str]()
    for start in range(0, decoded.size, _MANY_TEXTS):
        some = _texts(field, flat[start : start + _MANY_TEXTS]).tolist()
        decoded[start : start + len(some)] = list(map(known.setdefault, some, some))
        if len(known) > _MANY_TEXTS:  # they hardly repeat
            known.clear()
    texts: NDArray[Any] = decoded.reshape(values.shape)
    return texts


def _texts(field: Field, values: Any) -> NDArray[Any]:
    """Return the strings of an eager tensor as str objects."""
    import tensorflow as tf

    decoded = np.empty(values.shape, object)
    texts: list[str] = []
    with contextlib.suppress(UnicodeDecodeError):  # the one that is no UTF-8 is named below
        # All at once, without a bytes object for each: 100 ns a token; 165 where those are joined and decoded.
        texts = tf.strings.reduce_join(tf.reshape(values, [-1]), separator="\0").numpy().decode().split("\0")
    try:
        if len(texts) != decoded.size:  # one holds a NUL, or there is none
            texts = list(map(bytes.decode, values.numpy().ravel().tolist()))
    except UnicodeDecodeError as error:
        raise RecordError(
            "cannot be decoded",
            problems=[FieldProblem(field.name, (), "UTF-8 (declare bytes for other text)", str(error))],
        ) from None
    decoded.reshape(-1)[:] = texts
    return decoded


def _without_autograph(parse: Callable[[Any], dict[str, Any]], serialized: Any) -> dict[str, Any]:
    """Call a function that has no control flow on tensors; tracing it is faster so."""
    import tensorflow as tf

    tensors: dict[str, Any] = tf.autograph.experimental.do_not_convert(parse)(serialized)
    return tensors
