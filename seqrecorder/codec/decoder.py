"""Bytes to records, in numpy."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.broken_record import Broken
from seqrecorder.codec.column_decoder import ColumnDecoder
from seqrecorder.codec.columns import Column, group_lengths, scatter
from seqrecorder.codec.construct import builder
from seqrecorder.codec.decode_one import SingleDecoder
from seqrecorder.codec.message_layout import describe_message, has_feature
from seqrecorder.codec.parsing_spec import require_bounds
from seqrecorder.codec.process_state import keep_freed_memory
from seqrecorder.errors import FieldProblem, RecordError
from seqrecorder.wire.byte_rows import Messages
from seqrecorder.wire.read import message_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.codec.construct import Builder
    from seqrecorder.codec.parsing_spec import Layout
    from seqrecorder.schema.schema import Schema


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
        joined: for columns alone: see `ColumnDecoder`.
        checks_only: likewise.
    """

    def __init__(
        self, schema: Schema, layout: Layout = "steps", *, joined: bool = False, checks_only: bool = False
    ) -> None:
        keep_freed_memory()
        require_bounds(schema.fields, layout)
        self.schema: Schema = schema
        self.layout: Layout = layout
        self._columns = ColumnDecoder(schema, layout, joined=joined, checks_only=checks_only)

    def decode_batch(self, data: Sequence[bytes]) -> list[Any]:
        """Return one record per serialized SequenceExample."""
        if len(data) == 1 and self.layout == "steps":
            record = self._single.decode(data[0])
            if record is not None:
                return [record]
        others = set(map(type, data)) - {bytes}
        if others:
            position = next(i for i, item in enumerate(data) if type(item) is not bytes)
            raise RecordError(f"cannot be decoded: expected bytes, got {others.pop().__name__}", position=position)
        return self.build(self.decode_values(Messages.of(data)))

    @functools.cached_property
    def _single(self) -> SingleDecoder:
        return SingleDecoder(self.schema)

    @functools.cached_property
    def build(self) -> Builder:
        """Returns the records that have the values of each field."""
        return builder(self.schema)

    @property
    def gives_views(self) -> bool:
        """Whether arrays of a large record that comes alone are views of its bytes."""
        return self.layout == "steps" and self._single.gives_views

    def decode_values(self, messages: Messages) -> list[list[Any]]:
        """Return the values of each field of some records.

        Raises:
            RecordError: the first record that cannot be decoded.
        """
        if len(messages) == 1 and self.layout == "steps":
            values = self._single.values_of_large(messages.view(0))
            if values is not None:
                return [[value] for value in values]
        columns = self.decode_columns(messages)
        return [scatter(field, columns[field.name]) for field in self.schema.fields]

    def decode_columns(self, messages: Messages) -> dict[str, Column]:
        """Return the columns of some records.

        Raises:
            RecordError: the first record that cannot be decoded.
        """
        try:
            return self._columns.decode(messages)
        except Broken as error:
            raise self._failure(messages[error.record], error) from None

    def lengths(self, messages: Messages, group: str) -> NDArray[np.int64]:
        """Return the length of each record in an alignment group; only its fields are decoded.

        Raises:
            RecordError: the first record that cannot be decoded.
        """
        decoder = RecordDecoder(self.schema.select([field.name for field in self.schema.members(group)]), self.layout)
        return group_lengths(decoder.schema, decoder.decode_columns(messages), len(messages))[:, 0]

    def _failure(self, data: bytes, error: Broken) -> RecordError:
        """Return the error of a record that cannot be decoded: it names all fields that are missing."""
        first, message = f"cannot be decoded as {self.schema.name}: {describe_message(data)}", message_of(data)
        missing = [
            FieldProblem(field.name, (), f"the {field.kind} {field.feature!r}, or a default in the class", "nothing")
            for field in self.schema.fields
            if message is not None and not field.may_lack and not has_feature(message, field, self.layout)
        ]
        if missing:
            return RecordError(first, position=error.record, problems=missing)
        if error.problem is not None:
            return RecordError(first, position=error.record, problems=[error.problem])
        what = f"field {error.field!r}: {error.message}" if error.field else error.message
        return RecordError(f"{first}; {what}", position=error.record)
