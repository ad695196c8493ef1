"""Serialized records to columns in numpy, thousands at a time: what `Parser.parse_columns` does in graphs.

Which records are legal, what stands for what they lack, and each message of an error is as there; the graph parser is
what tests compare with. Only images are decoded by TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.absent_fields import NUMPY, agreed, fixed_values, presence_of, with_absent
from seqrecorder.codec.broken_record import Broken
from seqrecorder.codec.columns import Column
from seqrecorder.codec.flat_values import Reader, Values, kind_of
from seqrecorder.schema.field import value_features
from seqrecorder.wire.byte_rows import bounds
from seqrecorder.wire.canonical_form import NoMessageError, canonical
from seqrecorder.wire.many_messages import entries, halves, parts, payloads
from seqrecorder.wire.spans import Messages, Spans
from seqrecorder.wire.varints import integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.codec.parsing_spec import Layout
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


class _UnusualError(Exception):
    """Records that are not in canonical form, or no messages at all."""

    def __init__(self, which: NDArray[np.bool_]) -> None:
        super().__init__()
        self.numbers = np.flatnonzero(which)


@attrs.frozen(eq=False)
class _Held:
    """A field as the records that hold it have it.

    Attributes:
        column: its values, with the steps (or counts, of context) of all records, 0 where one does not hold it.
        held: which records hold it.
    """

    column: Column
    held: NDArray[np.bool_]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Steps of each record; of context, values."""
        return np.asarray(self.column.counts if self.column.steps is None else self.column.steps)


class ColumnDecoder:
    """Decodes the records of one schema and layout.

    Args:
        schema: the fields.
        layout: how sequences lie in the messages.
        joined: whether the texts of fields that no record may lack are flat rows of a `Blob`, and no objects.
        checks_only: whether columns have zeros in the place of values that may be any bits: what is wrong with a record
            is found as well, and how long it is.
    """

    def __init__(self, schema: Schema, layout: Layout, *, joined: bool = False, checks_only: bool = False) -> None:
        self.schema, self.layout, self._joined, self._checks_only = schema, layout, joined, checks_only
        self._context: dict[bytes, str] = {}
        self._lists: dict[bytes, str] = {}
        for field in schema.fields:
            target = self._lists if self._in_lists(field) else self._context
            for name in value_features(field):
                is_index = field.sparse is not None and name.endswith("/indices")
                target[name.encode()] = "int64" if is_index else kind_of(field)
            if field.presence and layout == "steps":
                self._context[field.presence.encode()] = "int64"

    def _in_lists(self, field: Field) -> bool:
        return field.is_list and self.layout != "example"

    def decode(self, messages: Messages) -> dict[str, Column]:
        """Return the columns of records.

        Raises:
            Broken: the first of them that cannot be decoded.
        """
        broken: Broken | None = None
        while True:
            try:
                columns = self._decode(messages)
            except Broken as error:
                # One before it may be broken too, in a field that comes later.
                if error.record == 0:
                    raise
                broken, messages = error, messages.some(slice(error.record))
            else:
                if broken is not None:
                    raise broken
                return columns

    def _decode(self, messages: Messages) -> dict[str, Column]:
        try:
            return self._columns(messages)
        except _UnusualError as error:
            numbers = error.numbers
        remade: set[int] = set()
        while True:
            rows = []
            for number in numbers.tolist():
                try:
                    rows.append(canonical(messages[number], self._context, self._lists))
                except NoMessageError as error:
                    raise Broken(number, "", str(error)) from None
            messages = messages.replaced(numbers, rows)
            remade.update(numbers.tolist())
            try:
                return self._columns(messages)
            except _UnusualError as error:
                numbers = error.numbers
                if not remade.isdisjoint(numbers.tolist()):  # pragma: no cover - there is a bug here
                    raise AssertionError("a message was put into canonical form, and is not in it") from None

    def _columns(self, messages: Messages) -> dict[str, Column]:
        context, lists, unusual = halves(messages)
        spans, strange = entries(context, list(self._context))
        in_lists, strange_lists = entries(lists, list(self._lists))
        unusual = unusual | strange | strange_lists
        if unusual.any():
            raise _UnusualError(unusual)
        columns: dict[str, Column] = {}
        sizes: dict[str, NDArray[np.int64]] = {}
        excused: dict[str, NDArray[np.bool_]] = {}
        for field in self.schema.fields:
            stated = self._stated(field, spans)
            found = in_lists if self._in_lists(field) else spans
            if not field.is_list and not field.is_ragged and field.sparse is None:
                columns[field.name] = self._fixed(field, found[field.feature.encode()], stated)
                continue
            held = self._held(field, found)
            known, presence = presence_of(NUMPY, field, held.sizes, stated, held.held)
            columns[field.name], sizes[field.name] = with_absent(NUMPY, field, held.column, known, presence)
            if presence.excused is not None:
                excused[field.name] = presence.excused
        for group in self.schema.groups:
            agreed(NUMPY, self.schema.members(group), sizes, excused, sizes)
        return columns

    def _stated(self, field: Field, spans: dict[bytes, Spans]) -> NDArray[np.int64] | None:
        """Return what records say of an optional field: 1 of a value, 0 of None, -1 nothing; None where none may."""
        span = spans.get((field.presence or "").encode()) if field.presence else None
        if span is None:
            return None
        stated = np.full(len(span), -1, np.int64)
        rows = np.flatnonzero(span.starts >= 0)
        places, unusual = payloads(span.some(rows), "int64")
        _require_usual(unusual, rows, len(span))
        values, counts, is_open = integers(places)
        _require_usual(is_open, rows, len(span))
        if (counts != 1).any():
            row = int(rows[(counts != 1).argmax()])
            raise Broken(row, field.name, f"one value is expected in {field.presence!r}")
        stated[rows] = values
        return stated

    def _fixed(self, field: Field, span: Spans, stated: Any) -> Column:
        """Return the column of a context field of known shape, of which no value is one only of a stated None."""
        rows = np.flatnonzero(span.starts >= 0)
        required = np.ones(rows.size, bool) if stated is None else stated[rows] != 0
        found = self._read(field, span.some(rows), rows, len(span), required)
        have = np.zeros(len(span), bool)
        have[rows] = found.units > 0
        return fixed_values(NUMPY, field, found.values, have, stated)[0]

    def _read(self, field: Field, features: Spans, rows: Any, size: int, required: Any = True) -> Values:  # noqa: FBT002
        """Return the values in features, of the records `rows`, of `size` in all."""
        places, unusual = payloads(features, kind_of(field))
        _require_usual(unusual, rows, size)
        reader = self._reader(field, rows)
        if not field.is_list and not field.is_ragged and field.sparse is None:
            return reader.read(places, self._check(rows, size), required=required)
        return reader.read(places, self._check(rows, size), any_number=True)

    def _reader(self, field: Field, rows: NDArray[np.int64]) -> Reader:
        joined = self._joined and field.sparse is None and not field.may_lack
        return Reader(field, rows, joined=joined, checks_only=self._checks_only)

    @staticmethod
    def _check(rows: Any, size: int) -> Any:
        return lambda unusual: _require_usual(unusual, rows, size)

    def _held(self, field: Field, found: dict[bytes, Spans]) -> _Held:
        if field.sparse is not None:
            return self._held_sparse(field, found)
        span = found[field.feature.encode()]
        held = span.starts >= 0
        size = len(span)
        rows = np.flatnonzero(held)
        some = span if rows.size == size else span.some(rows)
        if not field.is_list or self.layout == "example":
            values = self._read(field, some, rows, size)
            sizes = _spread(values.units, rows, size)
            column = Column(values.values, steps=sizes) if field.is_list else Column(values.values, counts=sizes)
            return _Held(column, held)
        if field.packed or self.layout == "packed":
            features, each, unusual = parts(some)
            _require_usual(unusual, rows, size)
            values = self._read(field, features, np.repeat(rows, each), size)
            steps = np.diff(bounds(values.units)[bounds(each)])
            return _Held(Column(values.values, steps=_spread(steps, rows, size)), held)
        values, each = self._reader(field, rows).read_steps(some, self._check(rows, size))
        column = Column(values.values, steps=_spread(each, rows, size))
        return _Held(attrs.evolve(column, counts=values.units) if field.is_ragged else column, held)

    def _held_sparse(self, field: Field, found: dict[bytes, Spans]) -> _Held:
        index_name, value_name = (name.encode() for name in value_features(field))
        size, held = len(found[index_name]), np.ones(len(found[index_name]), bool)
        expected = f"as many indices as values are expected in {field.feature!r}, got"
        features: list[Spans] = []
        eaches: list[NDArray[np.int64]] = []
        for name in (index_name, value_name):
            span = found[name]
            held &= span.starts >= 0
            some = Spans(span.data, np.maximum(span.starts, 0), np.maximum(span.stops, 0))  # what is not there is empty
            each = np.ones(size, np.int64)
            if field.is_list:
                some, each, unusual = parts(some)
                _require_usual(unusual, np.arange(size), size)
            features.append(some)
            eaches.append(each)
        if (eaches[0] != eaches[1]).any():
            # A feature that TensorFlow reads past the end of may be one more than are counted here.
            for some, each, kind in zip(features, eaches, ("int64", kind_of(field)), strict=True):
                _require_usual(payloads(some, kind)[1], np.repeat(np.arange(size), each), size)
            row = int((eaches[0] != eaches[1]).argmax())
            raise Broken(row, field.name, f"{expected} {int(eaches[0][row])} and {int(eaches[1][row])}")
        rows = np.repeat(np.arange(size), eaches[0])
        places, unusual = payloads(features[0], "int64")
        _require_usual(unusual, rows, size)
        indices, counts, is_open = integers(places)
        _require_usual(is_open, rows, size)
        values = self._read(field, features[1], rows, size)
        if (counts != values.units).any():
            place = int((counts != values.units).argmax())
            got = f"{int(counts[place])} and {int(values.units[place])}"
            raise Broken(int(rows[place]), field.name, f"{expected} {got}")
        indices, flat = _ascending(field, indices, values.values, counts, rows)
        steps = eaches[0] if field.is_list else None
        return _Held(Column(flat, steps=steps, counts=counts, indices=indices), held)


def _spread(sizes: NDArray[np.int64], rows: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    if rows.size == size:
        return sizes
    out = np.zeros(size, np.int64)
    out[rows] = sizes
    return out


def _require_usual(unusual: NDArray[np.bool_], rows: NDArray[np.int64], size: int) -> None:
    if unusual.any():
        which = np.zeros(size, bool)
        which[rows[unusual]] = True
        raise _UnusualError(which)


def _ascending(
    field: Field, indices: NDArray[np.int64], values: NDArray[Any], counts: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return indices and values of sparse vectors by ascending index."""
    size = field.sparse or 0
    vector = np.repeat(np.arange(counts.size), counts)
    outside = (indices < 0) | (indices >= size)
    if outside.any():
        place = int(outside.argmax())
        raise Broken(
            int(rows[vector[place]]), field.name, f"indices in [0, {size}) are expected, got {int(indices[place])}"
        )
    same = vector[1:] == vector[:-1]
    if (indices[1:] <= indices[:-1])[same].any():
        order = np.lexsort((indices, vector))
        indices, values = indices[order], values[order]
        twice = same & (indices[1:] == indices[:-1])
        if twice.any():
            place = int(twice.argmax())
            raise Broken(
                int(rows[vector[place]]), field.name, f"distinct indices are expected, got {int(indices[place])} twice"
            )
    return indices, values
