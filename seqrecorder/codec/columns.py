"""Columns: one field over many records, as flat values and row lengths, and back to the values of single records.

Gathering checks everything that a record's fields promise, in vector operations where the values are already in
the form that records hold, and value by value (with good messages) where they are not.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter, countOf
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import FieldProblem, RecordError
from seqrecorder.schema.conversion import Mismatch, SparseVector, advice, require_utf8
from seqrecorder.schema.schema import Schema
from seqrecorder.wire.write import LARGE, text_features

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field
    from seqrecorder.wire.byte_rows import Blob


@attrs.frozen(eq=False, repr=False)
class Column:
    """One field over N records; arrays in numpy, tensors in a graph.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Visit:
    ...     ages: np.ndarray | None = sr.feature_list("int32", optional=True)
    >>> ages = sr.Column(np.array([31, 32, 40]), steps=np.array([2, 1]), present=np.array([True, False, True]))
    >>> with sr.Writer(tempfile.mkdtemp(), Visit) as writer:
    ...     writer.write_batch({"ages": ages})
    >>> [record.ages for record in sr.read_records(writer.manifest.path)]
    [array([31, 32], dtype=int32), None, array([40], dtype=int32)]

    Attributes:
        values: of the declared dtype and shape `(S, *known dimensions)`; text is an object array or string tensor.
        steps: feature lists: steps of each present record.
        counts: ragged and sparse fields: values of each record (context) or step (feature_list).
        indices: sparse fields: the index of each value.
        present: which of the N records have a value; None means all. `values`, `steps` and `counts` are of those only.
        features: leave it out: short texts as they are encoded, which checking them makes.
    """

    values: Any
    steps: Any = None
    counts: Any = None
    indices: Any = None
    present: Any = None
    features: Blob | None = None

    def __repr__(self) -> str:
        parts = {a.name: getattr(self, a.name) for a in attrs.fields(Column) if getattr(self, a.name) is not None}
        shown = (
            f"{name}={getattr(part, 'dtype', type(part).__name__)} {tuple(getattr(part, 'shape', ()))}"
            for name, part in parts.items()
        )
        return f"Column({', '.join(shown)})"

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Steps (feature lists) or values (ragged and sparse context) of every record, 0 where there is no value."""
        sizes: NDArray[np.int64] = np.asarray(self.counts if self.steps is None else self.steps, np.int64)
        if self.present is None:
            return sizes
        spread = np.zeros(self.present.shape, np.int64)
        spread[self.present] = sizes
        return spread


def gather(schema: Schema, records: Sequence[Any], *, apart: bool = False) -> dict[str, Column]:
    """Return one column per field.

    Args:
        schema: what the records are.
        records: records of the schema's class.
        apart: whether the values of large buffers may be a list of the arrays that the records hold, and no copy.

    Raises:
        RecordError: the first record with bad fields; all of its bad fields are in `problems`.
    """
    _check_types(schema, records)
    problems: dict[int, list[FieldProblem]] = {}
    columns: dict[str, Column] = {}
    for field in schema.fields:
        column = _gather_field(field, list(map(attrgetter(field.name), records)), problems, apart=apart)
        if column is not None:
            columns[field.name] = column
    check_alignment(schema, columns, len(records), problems)
    if problems:
        position = min(problems)
        if len(columns) < len(schema.fields):
            gather(schema, records[:position])  # lengths that disagree earlier were hidden by the field left out
        key = getattr(records[position], schema.key_field.name, None) if schema.key_field else None
        raise RecordError(f"{schema.name} cannot be encoded", position=position, key=key, problems=problems[position])
    return columns


def _check_types(schema: Schema, records: Sequence[Any]) -> None:
    if countOf(map(type, records), schema.record_class) == len(records):
        return
    for kind in set(map(type, records)) - {schema.record_class}:
        if attrs.has(kind) and Schema.of(kind).fields == schema.fields:
            continue
        position, wrong = next((i, record) for i, record in enumerate(records) if type(record) is kind)
        got = f"{kind.__name__}{advice(wrong, schema.name)}"
        raise RecordError(f"expected a record of class {schema.name}, got {got}", position=position)


def _gather_field(
    field: Field, values: list[Any], problems: dict[int, list[FieldProblem]], *, apart: bool
) -> Column | None:
    present = None
    if field.optional:
        present = np.fromiter((value is not None for value in values), bool, len(values))
        if present.all():
            present = None
        else:
            values = [value for value in values if value is not None]
    column = _apart(field, values) if apart and field.packed and field.buffered and field.sparse is None else None
    if column is None:
        column = collect(field, values)
    if column is None:
        where = np.arange(len(values)) if present is None else np.flatnonzero(present)
        exact = []
        for position, value in zip(where.tolist(), values, strict=True):
            try:
                exact.append(_exact(field, value))
            except Mismatch as mismatch:
                problem = FieldProblem(field.name, mismatch.index, mismatch.expected, mismatch.got)
                problems.setdefault(position, []).append(problem)
            except (TypeError, ValueError, OverflowError) as error:  # a value that numpy cannot take at all
                problem = FieldProblem(field.name, (), field.element.name, f"{type(value).__name__} ({error})")
                problems.setdefault(position, []).append(problem)
        if len(exact) < len(values):
            return None
        column = collect(field, exact)
        if column is None:  # pragma: no cover - exact values are collected, or there is a bug here
            raise AssertionError(f"field {field.name!r}: values were normalised and still not accepted")
    return column if present is None else attrs.evolve(column, present=present)


def _apart(field: Field, values: list[Any]) -> Column | None:
    """Return the column of large arrays in the form that records hold, which are not copied; None of others."""
    if field.is_ragged or any(type(value) is not np.ndarray or value.nbytes <= LARGE for value in values):
        return None
    if {(value.dtype, value.shape[1:]) for value in values} != {(field.element.numpy, field.rest)}:
        return None
    return Column(values, steps=np.fromiter(map(len, values), np.int64, len(values)))


def _exact(field: Field, value: object) -> Any:
    exact = field.exact(value)
    if field.element.name == "str":
        require_utf8(exact)
    return exact


# From values to columns: None where a value is not in the form that records hold ------------------------


def collect(field: Field, values: list[Any]) -> Column | None:
    """Return the column of values of some records; None where one is not in the form that records hold.

    Args:
        field: what the values are of.
        values: one of each record that has one.
    """
    column = _collected(field, values)
    return column if column is None or not field.element.is_text else with_texts(field, column)


def _collected(field: Field, values: list[Any]) -> Column | None:
    """Return the column of values, in which texts are still to be checked."""
    if field.sparse is not None:
        return _sparse_lists(field, values) if field.is_list else _sparse(field, values)
    if field.is_list and field.is_ragged:
        return _ragged_lists(field, values)
    if field.is_list or field.is_ragged:
        return _arrays(field, values)
    return _fixed(field, values) if field.shape else _scalars(field, values)


def _scalars(field: Field, values: list[Any]) -> Column | None:
    element = field.element
    if element.is_text:
        return Column(_objects(values))
    kinds = set(map(type, values))
    if element.is_time or kinds - {bool if element.name == "bool" else element.numpy.type}:
        if not element.is_time or {getattr(value, "dtype", None) for value in values} - {element.numpy}:
            return None
        return Column(np.array(values, element.numpy))
    return Column(np.fromiter(values, element.numpy, len(values)))


def _fixed(field: Field, values: list[Any]) -> Column | None:
    flat = _flatten(field, values, field.rest, leading=0)
    return None if flat is None else Column(flat.reshape(-1, *field.rest))


def _arrays(field: Field, values: list[Any]) -> Column | None:
    flat = _flatten(field, values, field.rest, leading=1)
    if flat is None:
        return None
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return Column(flat, steps=lengths) if field.is_list else Column(flat, counts=lengths)


def _ragged_lists(field: Field, values: list[Any]) -> Column | None:
    if set(map(type, values)) - {list}:
        return None
    steps = list(chain.from_iterable(values))
    flat = _flatten(field, steps, field.rest, leading=1)
    if flat is None:
        return None
    counts = np.fromiter(map(len, steps), np.int64, len(steps))
    return Column(flat, steps=np.fromiter(map(len, values), np.int64, len(values)), counts=counts)


def _sparse(field: Field, values: list[Any]) -> Column | None:
    if set(map(type, values)) - {SparseVector} or {vector.size for vector in values} - {field.sparse}:
        return None
    flat = _flatten(field, [vector.values for vector in values], (), leading=1)
    if flat is None:
        return None
    indices = np.concatenate([vector.indices for vector in values]) if values else np.empty(0, np.int64)
    counts = np.fromiter((vector.indices.size for vector in values), np.int64, len(values))
    return Column(flat, counts=counts, indices=indices)


def _sparse_lists(field: Field, values: list[Any]) -> Column | None:
    if set(map(type, values)) - {list}:
        return None
    column = _sparse(field, list(chain.from_iterable(values)))
    if column is None:
        return None
    return attrs.evolve(column, steps=np.fromiter(map(len, values), np.int64, len(values)))


def _flatten(field: Field, values: list[Any], rest: tuple[int, ...], *, leading: int) -> NDArray[Any] | None:
    """Concatenate arrays of shape `(n, *rest)` or `(*rest)`, or return None if one differs."""
    if not values:
        return np.empty((0, *rest), field.element.numpy)
    if countOf(map(type, values), np.ndarray) < len(values):
        return None
    if len(values) == 1 and values[0].dtype == field.element.numpy and values[0].ndim == leading + len(rest):
        alone: NDArray[Any] = values[0] if leading else values[0][np.newaxis]  # it may be all that the memory holds
        return np.ascontiguousarray(alone) if alone.shape[1:] == rest else None
    try:
        # `casting="no"` refuses arrays of another dtype, and ranks must agree to be joined at all.
        flat = (np.concatenate if leading else np.stack)(values, dtype=field.element.numpy, casting="no")
    except (TypeError, ValueError):
        return None
    return flat if flat.shape[1:] == rest else None


def with_texts(field: Field, column: Column) -> Column | None:
    """Return the column with the features of its texts, if they are short; None where one is no text of its field."""
    kind = str if field.element.name == "str" else bytes
    values = column.values.ravel().tolist()
    try:
        features = text_features(values, kind, wrapped=field.is_list) if field.is_single else None
        # What is no str cannot be joined; but other buffers than bytes can.
        if features is None or kind is bytes or not field.is_list:
            if countOf(map(type, values), kind) < len(values):
                return None
            if features is None and kind is str:
                "".join(set(values)).encode()  # tokens repeat: each counts once
    except (TypeError, UnicodeEncodeError):  # no text, or no UTF-8
        return None
    return attrs.evolve(column, features=features)


def _objects(values: list[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def check_alignment(
    schema: Schema, columns: dict[str, Column], size: int, problems: dict[int, list[FieldProblem]]
) -> None:
    """Add a problem for each field that is not as long as the others of its group in the same record."""
    for group in schema.groups:
        members = [f for f in schema.fields if f.is_list and f.group == group and f.name in columns]
        if len(members) < 2 or not size:  # noqa: PLR2004 - one alone is as long as itself
            continue
        lengths = np.stack([columns[field.name].sizes for field in members])
        present = np.ones(lengths.shape, bool)
        for row, field in enumerate(members):
            if columns[field.name].present is not None:
                present[row] = columns[field.name].present
        leader = present.argmax(0)  # the first field that has a value; the others must be as long
        expected = lengths[leader, np.arange(size)]
        for row, position in np.argwhere(present & (lengths != expected)).tolist():
            want = f"{expected[position]} steps, as {members[leader[position]].name!r} has (align=None frees a field)"
            problem = FieldProblem(members[row].name, (), want, f"{lengths[row, position]} steps")
            problems.setdefault(position, []).append(problem)


def group_lengths(schema: Schema, columns: dict[str, Column], size: int) -> NDArray[np.int64]:
    """Return the length of each record in each alignment group: int64 of shape `(size, max(1, groups))`."""
    table = np.zeros((size, max(1, len(schema.groups))), np.int64)
    for position, group in enumerate(schema.groups):
        for field in schema.fields:
            if field.is_list and field.group == group:
                np.maximum(table[:, position], columns[field.name].sizes, out=table[:, position])
    return table


# From columns to the values of single records ------------------------------------------------------------------------


def scatter(field: Field, column: Column) -> list[Any]:
    """Return the value of each record; arrays are views into the column.

    Records without a value get None.
    """
    values = _split_values(field, column)
    if column.present is None:
        return values
    rest = iter(values)
    return [next(rest) if here else None for here in column.present.tolist()]


def _split_values(field: Field, column: Column) -> list[Any]:
    if field.sparse is not None:
        return _split_sparse(field, column)
    if field.is_list and field.is_ragged:
        return _split(_split(column.values, column.counts), column.steps)
    if field.is_list:
        return _split(column.values, column.steps)
    if field.is_ragged:
        return _split(column.values, column.counts)
    if field.shape:
        return list(column.values)
    if field.element.is_text or field.element.name == "bool":
        scalars: list[Any] = column.values.tolist()
        return scalars
    return list(column.values)


def _split_sparse(field: Field, column: Column) -> list[Any]:
    pairs = zip(_split(column.indices, column.counts), _split(column.values, column.counts), strict=True)
    vectors: list[Any] = [SparseVector(indices, values, field.sparse or 0) for indices, values in pairs]
    return _split(vectors, column.steps) if field.is_list else vectors


def _split(values: Any, lengths: NDArray[np.int64]) -> list[Any]:
    ends = np.cumsum(lengths).tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]
