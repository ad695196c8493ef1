"""Bytes to records: through TensorFlow's own parser.

So what Python reads and what a graph reads cannot differ, and hostile bytes meet one parser only.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.columns import Column, scatter
from seqrecorder.codec.construct import builder
from seqrecorder.codec.decode_one import SingleDecoder
from seqrecorder.codec.forked_tensorflow import check_threads_of_tensorflow
from seqrecorder.codec.malloc import keep_freed_memory
from seqrecorder.codec.message_layout import describe_message, has_feature, message_of
from seqrecorder.codec.parser import Parser
from seqrecorder.errors import FieldProblem, RecordError, first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.construct import Builder
    from seqrecorder.codec.parsing_spec import Layout
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


LARGE_RECORD = 32 << 20
"""Bytes from which on a record's copies count for more than the time to make them."""
_MANY_TEXTS = 1 << 17


class RecordDecoder:
    """Decodes the records of one schema.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> RecordDecoder(sr.Schema.of(Word)).decode_batch([sr.Schema.of(Word).encode(Word("to"))])
    [Word(text='to')]

    Args:
        schema: the fields.
        layout: how sequences lie in serialized records; what this library writes is `steps`.
    """

    def __init__(self, schema: Schema, layout: Layout = "steps") -> None:
        keep_freed_memory()
        self.schema = schema
        self.parser = Parser(schema, layout)

    def decode_batch(self, data: Sequence[bytes]) -> list[Any]:
        """Return one record per serialized SequenceExample."""
        if len(data) == 1 and self.parser.layout == "steps":
            record = self._single.decode(data[0])
            if record is not None:
                return [record]
        import tensorflow as tf

        others = set(map(type, data)) - {bytes}
        if others:
            position = next(i for i, item in enumerate(data) if type(item) is not bytes)
            raise RecordError(f"cannot be decoded: expected bytes, got {others.pop().__name__}", position=position)
        with tf.device("CPU:0"):
            return self.build(self.decode_values(tf.constant(list(data), tf.string)))

    @functools.cached_property
    def _single(self) -> SingleDecoder:
        return SingleDecoder(self.schema)

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
        # All at once, without a bytes object for each.
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
