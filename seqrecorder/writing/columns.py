"""Preparation of input for encoding: columns from callers, tables and dictionaries, and snapshots of records.

The columns are encoded by `codec.encode`.
"""

from __future__ import annotations

import abc
import array
import collections
import copy
import datetime as dt
import enum
import functools
import itertools
import logging
import pathlib
import re
from collections.abc import Iterable, Mapping
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs
import numpy as np

from seqrecorder.codec.arrow import column_of_array, column_of_sparse, columns_of_table, flat_array, one_array, outward
from seqrecorder.codec.columns import (
    Column,
    check_alignment,
    collect,
    gather,
    is_arrow,
    maker_from_mapping,
    objects,
    records_of,
    with_texts,
)
from seqrecorder.codec.encode import columns_of_dictionaries, value_size
from seqrecorder.dataset.manifest import first_reasons
from seqrecorder.errors import FieldProblem, OptionError, RecordError, did_you_mean
from seqrecorder.schema.exact_values import Mismatch, SparseVector, exact_array
from seqrecorder.schema.utf8 import require_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.arrow import Table
    from seqrecorder.schema.dtypes import ElementType
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema


_LENGTHS = {
    (False, False): "values of shape (N, ...)",
    (False, True): "(values, lengths), with the concatenated values of all records",
    (True, False): "(values, steps), with the concatenated values of all steps, and the number of steps of each record",
    (True, True): "(values, lengths, steps), with concatenated values, sizes of steps, and numbers of steps per record",
}


def given_columns(schema: Schema, batch: Any, *, cast: bool = False) -> tuple[dict[str, Column], int]:
    """Check columns from a caller, and convert them to `Column` objects.

    The result is the columns by field name, and the number of records in them.

    Args:
        schema: schema of the records.
        batch: mapping from field name to column, or a table; see `Writer.write_batch`.
        cast: whether to cast numbers in arrays to the declared type, as `cast_values` does.

    Raises:
        OptionError: a column has the wrong form for its field, or the columns differ in size.
        RecordError: values do not fit their fields; the error names all bad fields of the first bad record.
    """
    if is_arrow(batch):
        batch = columns_of_table(batch)
    if not isinstance(batch, Mapping):
        raise OptionError(f"columns: expected a mapping of field to column, got {type(batch).__name__}{_advice(batch)}")
    batch = _paired(schema, batch)
    names = [field.name for field in schema.fields]
    for name in batch:
        if name not in names:
            text = f"{schema.name} has no field {name!r}{did_you_mean(name, names)}"
            raise OptionError(f"columns: {text}; its fields are {', '.join(names)}")
    problems: dict[int, list[FieldProblem]] = {}
    columns: dict[str, Column] = {}
    broken = False
    for field in schema.fields:
        if batch.get(field.name) is not None:
            try:
                column = _column(field, batch[field.name], problems, cast=cast)
            except Mismatch as mismatch:  # a null inside a record
                column = None
                _add(field, mismatch, mismatch.index, problems)
            broken |= column is None
            columns |= {} if column is None else {field.name: column}
    size = _size(columns) if columns or not broken else 0
    if not broken:
        columns |= {field.name: _absent(field, size) for field in schema.fields if field.name not in columns}
        check_alignment(schema, columns, size, problems)
    if problems:
        position, key = min(problems), schema.key_field
        value = _at(columns[key.name], position) if key is not None and key.name in columns else None
        raise RecordError(f"{schema.name} cannot be encoded", position=position, key=value, problems=problems[position])
    return columns, size


def _at(column: Column, position: int) -> Any:
    """Look up the value of a record in a column of scalars.

    The result is None if the value is absent.
    """
    if column.present is None:
        return column.values[position]
    return column.values[int(np.sum(column.present[:position]))] if column.present[position] else None


def _advice(batch: Any) -> str:
    if hasattr(batch, "with_format"):  # a Hugging Face dataset
        return "; write and write_all take it as it is; here, give its Arrow tables: with_format('arrow').iter(10_000)"
    return "; records go to `write` and `write_all`" if isinstance(batch, (list, tuple)) else ""


# One column ----------------------------------------------------------------------------------------------------------


def _paired(schema: Schema, batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Combine the `/indices` and `/values` columns of each sparse field into a pair."""
    pairs = {field.name: (f"{field.name}/indices", f"{field.name}/values") for field in schema.fields if field.sparse}
    pairs = {name: parts for name, parts in pairs.items() if all(part in batch for part in parts)}
    if not pairs:
        return batch
    paired = {part for parts in pairs.values() for part in parts}
    left = {name: column for name, column in batch.items() if name not in paired}
    return {**left, **{name: tuple(batch[part] for part in parts) for name, parts in pairs.items()}}


def _column(field: Field, source: Any, problems: dict[int, list[FieldProblem]], *, cast: bool = False) -> Column | None:
    if field.sparse is not None and isinstance(source, tuple) and len(source) == 2 and all(map(is_arrow, source)):  # noqa: PLR2004 - a pair
        source = column_of_sparse(field, *source, cast=cast)
    elif is_arrow(source):
        source = column_of_array(field, source, cast=cast)
    if isinstance(source, Column):
        values, column = source.values, source
        lengths = [part for part in (source.counts, source.steps) if part is not None]
    else:
        values, lengths = _values_and_lengths(field, source)
        column = Column(None)
    if field.sparse is not None and column.indices is None:
        raise OptionError(f"columns: field {field.name!r} is sparse: give a seqrecorder.Column with its indices")
    checked = [_lengths(field, part) for part in lengths]
    try:
        exact = _exact(field, values)
    except Mismatch as mismatch:
        _report(field, mismatch, checked, column.present, problems)
        return None
    except (TypeError, ValueError, OverflowError) as error:  # NumPy cannot convert the values
        raise OptionError(f"columns: field {field.name!r}: expected {field.element.name}, got {error}") from error
    got = exact.values.shape
    if not got or (got[1:] != field.rest and not (field.is_image and exact.values.dtype == object)):
        shape = ", ".join(["n", *map(str, field.rest)])
        raise OptionError(f"columns: field {field.name!r}: expected values of shape ({shape}), got {got}")
    _check_sizes(field, got[0], checked, column.present, problems)
    has_counts = field.is_ragged or field.sparse is not None
    counts, steps = checked[0] if has_counts else None, checked[-1] if field.is_list else None
    return attrs.evolve(column, values=exact.values, features=exact.features, counts=counts, steps=steps)


def _exact(field: Field, values: Any) -> Column:
    """Convert values to the declared type of the field, and return them as a column without lengths.

    Raises:
        Mismatch: a value does not fit.
    """
    if field.is_image:
        images = field.exact_images(values)
        return Column(objects(images) if isinstance(images, list) else images)
    if not field.element.is_text:
        return Column(exact_array(values, field.element))
    # `with_texts` encodes the features of text fields, and checks the text in the process.
    are_objects = isinstance(values, np.ndarray) and values.dtype == object
    column = with_texts(field, Column(values if are_objects else exact_array(values, field.element)))
    if column is not None:
        return column
    exact = exact_array(values, field.element)
    if field.element.name == "str":
        require_utf8(exact)
    return Column(exact)


def _check_sizes(
    field: Field,
    values: int,
    lengths: list[NDArray[np.int64]],
    present: NDArray[np.bool_] | None,
    problems: dict[int, list[FieldProblem]],
) -> None:
    inner = values
    for part in lengths:  # lengths, innermost first
        if int(part.sum()) != inner:
            raise OptionError(f"columns: field {field.name!r}: expected lengths that sum to {inner}, got {part.sum()}")
        inner = part.size
    if present is None:
        return
    if int(np.sum(present)) != inner:
        raise OptionError(f"columns: field {field.name!r}: {inner} records have values, {np.sum(present)} are present")
    if not field.optional and not np.all(present):
        expected = "a value (fill it, leave the record out, or declare optional=True)"
        _add(field, Mismatch(expected, "None"), (int(np.argmin(present)),), problems)


def _values_and_lengths(field: Field, value: Any) -> tuple[Any, list[Any]]:
    expected = int(field.is_list) + int(field.is_ragged)
    if not expected:
        return value, []
    if not isinstance(value, tuple) or len(value) != expected + 1:
        got = f"{type(value).__name__}{f' of {len(value)}' if isinstance(value, tuple) else ''}"
        text = f"expected {_LENGTHS[field.is_list, field.is_ragged]}, got {got}"
        raise OptionError(f"columns: field {field.name!r}: {text}")
    values, *lengths = value
    lengths = [flat_array(field, part) if is_arrow(part) else part for part in lengths]
    if is_arrow(values):
        try:
            values = flat_array(field, values)
        except Mismatch as mismatch:
            inner = [_lengths(field, part) for part in lengths]
            raise Mismatch(mismatch.expected, mismatch.got, outward(mismatch.index, inner, None)) from None
    return values, lengths


def _lengths(field: Field, value: Any) -> NDArray[np.int64]:
    lengths = np.asarray(value)
    if np.ma.is_masked(value):
        raise OptionError(f"columns: field {field.name!r}: expected a vector of lengths, got a masked array")
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        raise OptionError(f"columns: {field.name!r}: expected a vector of lengths, got {lengths.dtype} {lengths.shape}")
    if lengths.size and int(lengths.min()) < 0:
        raise OptionError(f"columns: field {field.name!r}: a length is {int(lengths.min())}")
    return lengths.astype(np.int64, copy=False)


def _report(
    field: Field,
    mismatch: Mismatch,
    lengths: list[NDArray[np.int64]],
    present: NDArray[np.bool_] | None,
    problems: dict[int, list[FieldProblem]],
) -> None:
    """Add a mismatch to the problems of the record that contains the bad value.

    Its index is converted to an index within that record. If no record contains the value, `OptionError` is raised.
    """
    if not mismatch.index or (lengths and mismatch.index[0] >= int(lengths[0].sum())):
        raise OptionError(f"columns: field {field.name!r}: {mismatch}")
    _add(field, mismatch, outward(mismatch.index, lengths, present), problems)


def _add(field: Field, mismatch: Mismatch, index: tuple[int, ...], problems: dict[int, list[FieldProblem]]) -> None:
    problems.setdefault(index[0], []).append(FieldProblem(field.name, index[1:], mismatch.expected, mismatch.got))


def _size(columns: Mapping[str, Column]) -> int:
    sizes = {name: column.records for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        counts = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise OptionError(f"columns: expected the same number of records in each, got {counts}")
    if not sizes:
        raise OptionError("columns: expected at least one column, got none")
    return next(iter(sizes.values()))


def _absent(field: Field, size: int) -> Column:
    """Build the column of a field that the caller left out.

    All records get the default of the field. Without a default, the value is absent in all records.
    """
    if field.has_default:
        column = collect(field, [field.exact(copy.deepcopy(field.default))] * size)
        if column is not None:
            return column
    if not field.optional:
        raise OptionError(f"columns: field {field.name!r} is missing, and has no default")
    lengths = np.empty(0, np.int64)
    steps, indices = lengths if field.is_list else None, lengths if field.sparse is not None else None
    counts = lengths if field.is_ragged else indices
    values = np.empty((0, *field.rest), field.element.numpy)
    return Column(values, steps=steps, counts=counts, indices=indices, present=np.zeros(size, bool))


_SCALARS = frozenset({str, bytes, bool, int, float, complex, type(None), *np.sctypeDict.values()})
_FIXED = (dt.date, dt.time, dt.timedelta, dt.tzinfo, enum.Enum, pathlib.PurePath, type, FunctionType)
_copy_of_array = np.ndarray.copy


class CannotWait(Exception):  # noqa: N818 - a request to encode now, not a failure
    """Request to encode a record at once, because it cannot be copied.

    It must be encoded before the caller's code runs again.
    """


def snapshotter(schema: Schema, *, whole: bool = False) -> Callable[[Any], Any]:
    """Build a function that takes a snapshot of a record: a copy that later changes to the record do not affect.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> buffer = np.array([1, 2])
    >>> taken = snapshotter(sr.Schema.of(Sentence))(Sentence(buffer))
    >>> buffer[:] = 0
    >>> taken.ids
    array([1, 2])

    The function raises `CannotWait` for an object that cannot be copied, for example because it is not a record;
    encoding then rejects it.

    Args:
        schema: schema of the records.
        whole: whether attributes that are not stored must be safe from later changes, too. They may be large and shared
            by all records, so they are never copied: the function raises `CannotWait` if one of them is mutable.
    """
    record_class: Any = schema.record_class
    stored = {field.name: field.element.name for field in schema.fields}
    names = [attribute.name for attribute in attrs.fields(record_class)]
    places = [getattr(record_class, name, None) for name in names]
    slots = {name for cls in record_class.__mro__ for name in getattr(cls, "__slots__", ())} - {"__weakref__"}
    # Arrays of str need no deep copy, because their elements are immutable.
    slotted = [(name, slot) for name, slot in zip(names, places, strict=True) if isinstance(slot, MemberDescriptorType)]
    copiers = {name: _copier(name in stored, whole=whole) for name, _ in slotted}
    ways = [(slot.__get__, slot.__set__, stored.get(name) == "str", copiers[name]) for name, slot in slotted]
    simple = slots == set(names) and len(ways) == len(names) and record_class.__dictoffset__ == 0
    new, of_objects = object.__new__, np.dtype(object)

    def snapshot(record: Any) -> Any:
        if not simple or type(record) is not record_class:
            return _of_any_class(record, stored, whole=whole)
        taken = new(record_class)
        try:
            for get, put, is_text, copier in ways:
                value = get(record)
                kind = type(value)
                if kind not in _SCALARS:
                    fast = kind is np.ndarray and copier is copied and (is_text or value.dtype is not of_objects)
                    value = _copy_of_array(value) if fast else copier(value)
                put(taken, value)
        except AttributeError:  # a slot has no value
            return _of_any_class(record, stored, whole=whole)
        return taken

    return snapshot


def _copier(is_stored: bool, *, whole: bool) -> Callable[[Any], Any]:  # noqa: FBT001 - private
    return copied if is_stored else _required_fixed if whole else lambda value: value


def _of_any_class(record: Any, stored: Iterable[str], *, whole: bool) -> Any:
    """Take a snapshot of a dictionary, or of a record of any attrs class.

    The record need not keep its attributes in slots.
    """
    if type(record) is dict:
        return {name: copied(value) for name, value in record.items()}
    if not attrs.has(type(record)):
        raise CannotWait
    taken = copy.copy(record)
    names = [attribute.name for attribute in attrs.fields(type(record))]
    for name in {**dict.fromkeys(names), **getattr(record, "__dict__", {})}:
        if hasattr(record, name):
            object.__setattr__(taken, name, _copier(name in stored, whole=whole)(getattr(record, name)))
    return taken


def copied(value: Any) -> Any:
    """Copy a value so that later changes to the original do not affect the copy.

    >>> steps = [np.array([1]), [2, 3]]
    >>> taken = copied(steps)
    >>> steps[0][:] = 0
    >>> steps[1].append(4)
    >>> taken
    [array([1]), [2, 3]]

    Raises:
        CannotWait: the value cannot be copied.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is np.ndarray:
        return _copied_array(value)
    if kind in (list, tuple):
        try:
            return kind(map(copied, value) if set(map(type, value)) - _SCALARS else value)
        except RecursionError:  # encoding rejects values nested this deeply
            raise CannotWait from None
    if kind is SparseVector:
        vector = copy.copy(value)
        object.__setattr__(vector, "indices", copied(value.indices))
        object.__setattr__(vector, "values", copied(value.values))
        return vector
    return _copied_deeply(value)


def _copied_array(value: NDArray[Any]) -> NDArray[Any]:
    taken: NDArray[Any] = _copy_of_array(value)
    if taken.dtype == object:
        flat = taken.reshape(-1)
        for index, item in enumerate(flat.tolist()):
            if type(item) not in _SCALARS:
                flat[index] = copied(item)
    return taken


def _copied_deeply(value: Any) -> Any:
    """Copy a buffer, a container, or an array from another library.

    An immutable value is returned as it is. For other values, `CannotWait` is raised.
    """
    if type(value) is memoryview:
        return value.tobytes()
    if isinstance(value, (bytearray, array.array, list, tuple, Mapping)) or hasattr(type(value), "__array__"):
        try:
            return copy.deepcopy(value)
        except Exception as error:
            raise CannotWait from error
    return _required_fixed(value)


def _required_fixed(value: Any) -> Any:
    if not _is_fixed(value):
        raise CannotWait
    return value


def _is_fixed(value: Any) -> bool:
    """Check whether a value is certainly immutable."""
    if type(value) in (tuple, frozenset):
        return all(map(_is_fixed, value))
    return type(value) in _SCALARS or isinstance(value, _FIXED)


_LOG = logging.getLogger("seqrecorder")


def check_choice(option: str, value: object, choices: tuple[str, str]) -> None:
    """Raise `OptionError` unless the value of an option is one of two choices."""
    if value not in choices:
        raise OptionError(f"{option}: expected {choices[0]!r} or {choices[1]!r}, got {value!r}")


class SkippingSource:
    """Base class of sources that can skip rows.

    Attributes:
        skipped: number of rows skipped in the last complete iteration.
        reasons: the first few reasons why rows were skipped.
    """

    skipped: int = 0
    reasons: tuple[str, ...] = ()

    def begin(self) -> None:
        """Prepare for a new iteration: reset the number of skipped rows, and the reasons why rows were skipped."""
        self.skipped, self.reasons = 0, ()

    def skip(self, reason: object) -> None:
        """Count a skipped row and note the reason."""
        self.skipped += 1
        self.reasons = first_reasons(self.reasons, [str(reason)])

    def leave_out(self, reason: object) -> None:
        """Count a row that is skipped because of `on_error="skip"`.

        The reason for the first such row is logged.
        """
        self.skip(reason)
        if self.skipped == 1:
            _LOG.warning("on_error='skip': the first record that is left out: %s", reason)


class ColumnSource(SkippingSource, abc.ABC):
    """Base class of sources that yield many records at a time as columns, or single records when iterated over.

    Attributes:
        schema: schema of the records.
    """

    schema: Schema

    @functools.cached_property
    def in_columns(self) -> Schema:
        """Schema of the fields for which `columns` yields a column; the `load` hook fills all other fields."""
        return self.schema

    @abc.abstractmethod
    def columns(self) -> Iterator[tuple[dict[str, Column], int]]:
        """Yield batches of columns, each with its number of records.

        A batch consists of columns for the fields of `in_columns`.

        Raises:
            RecordError: a record does not fit its schema; positions count from the start of the source.
        """

    def __iter__(self) -> Iterator[Any]:
        """Yield the records as objects of their class."""
        for columns, _ in self.columns():
            yield from records_of(self.in_columns, columns)


class TableSource(ColumnSource):
    """Base class of sources whose columns come from tables.

    Args:
        table: table with the rows.
        schema: schema of the records.
        cast: whether values may lose precision; see `from_table`.
        on_error: treatment of a record that does not fit: `raise` an error, or `skip` the record and count it.

    Attributes:
        skipped: number of records skipped in the last iteration.
    """

    def __init__(
        self, table: Table, schema: Schema, *, cast: bool = False, on_error: Literal["raise", "skip"] = "raise"
    ) -> None:
        check_choice("on_error", on_error, ("raise", "skip"))
        self.table, self.schema, self.cast, self.on_error, self.skipped = table, schema, cast, on_error, 0
        self.column_of: dict[str, str] = {}

    @functools.cached_property
    def in_columns(self) -> Schema:
        """Schema of the fields that are filled from the columns of the table.

        Fields without a column are included, unless the `load` hook fills them.
        """
        there = {name.partition("/")[0] for name in self.column_of}
        kept = tuple(f for f in self.schema.fields if f.name in there or not _is_loaded(self.schema, f))
        return self.schema if kept == self.schema.fields else attrs.evolve(self.schema, fields=kept)

    @abc.abstractmethod
    def tables(self) -> Iterator[Any]:
        """Yield pyarrow tables with one column per field."""

    def columns(self) -> Iterator[tuple[dict[str, Column], int]]:
        """Yield the columns of each table.

        With `on_error="skip"`, records that do not fit are left out.
        """
        self.begin()
        rows = 0
        self.table.left_out.clear()
        for table in self.tables():
            ahead = [(rows, table)]
            rows += table.num_rows
            while ahead:
                first, part = ahead.pop()
                try:
                    columns, size = given_columns(self.in_columns, part, cast=self.cast)
                except RecordError as error:
                    error.position = None if error.position is None else error.position + first
                    error.message = f"{error.message} (in {self.table.name})"
                    if self.on_error == "raise":
                        raise
                    if part.num_rows > 1:  # halve the table until the bad record is alone
                        middle = part.num_rows // 2
                        ahead += [(first + middle, part.slice(middle)), (first, part.slice(0, middle))]
                        continue
                    self.leave_out(error)
                else:
                    yield columns, size
            while self.table.left_out:
                self.leave_out(self.table.left_out.pop(0))
        while self.table.left_out:  # rows that the table skipped at its end
            self.leave_out(self.table.left_out.pop(0))


class TableRecords(TableSource):
    """Source of one record per table row, as returned by `from_table`.

    Attributes:
        ignored: names of the columns that no field uses, if `extra="ignore"`.
    """

    def __init__(
        self,
        table: Table,
        schema: Schema,
        *,
        columns: Mapping[str, Any] | None = None,
        extra: Literal["error", "ignore"] = "error",
        cast: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> None:
        super().__init__(table, schema, cast=cast, on_error=on_error)
        self.column_of = mapped_columns(schema, table, columns)
        self.ignored = unused_columns(schema, table, self.column_of.values(), extra)

    def __repr__(self) -> str:
        ignored = f", ignored={list(self.ignored)}" if self.ignored else ""
        return f"<{self.schema.name} records, a row each, of {self.table.name}{ignored}>"

    def tables(self) -> Iterator[Any]:
        """Yield pyarrow tables whose columns are renamed to field names."""
        import pyarrow as pa

        for batch in self.table.batches(list(dict.fromkeys(self.column_of.values()))):
            check_types(batch, self.column_of, self.schema)
            yield pa.table({field: batch.column(name) for field, name in self.column_of.items()})


def check_columns(
    schema: Schema, columns: Mapping[str, Any] | None, *, several: bool = True
) -> Mapping[str, str | Sequence[str]]:
    """Check a mapping from field to column name.

    The result is the mapping; it is empty for None.

    Raises:
        OptionError: `columns` does not map fields of the schema to column names. Lists of names are valid only for
            fields with several values, and only if `several` is True.
    """
    columns = {} if columns is None else columns
    if not isinstance(columns, Mapping):
        raise OptionError(f"columns: expected a mapping of field to column, got {columns!r}")
    fields = {field.name: field for field in schema.fields}
    for target, names in columns.items():
        if target not in fields:
            raise OptionError(f"columns: {schema.name} has no field {target!r}{did_you_mean(target, fields)}")
        takes_several = several and bool(fields[target].shape or fields[target].is_list)
        listed = takes_several and isinstance(names, (list, tuple)) and names
        if not isinstance(names, str) and not (listed and all(isinstance(name, str) for name in names)):
            or_more = ", or a list of names" if takes_several else ""
            raise OptionError(f"columns: expected the name of one column{or_more} for field {target!r}, got {names!r}")
    return columns


def mapped_columns(schema: Schema, table: Table, columns: Mapping[str, Any] | None) -> dict[str, str]:
    """Map each field to its column in a table.

    A sparse field has two entries, `<field>/indices` and `<field>/values`.

    Args:
        schema: schema of the records.
        table: table with the columns.
        columns: mapping from field to column name, if the names differ. If a field is made from several columns, the
            table must already contain them combined into one column with the name of the field.

    Raises:
        OptionError: a field or column of `columns` does not exist, or a required field has no column.
    """
    there = collections.Counter(table.names)
    columns = check_columns(schema, columns)
    column_of: dict[str, str] = {}
    for field in schema.fields:
        given_name = field.name if field.name in there or field.feature not in there else field.feature
        column_name = columns.get(field.name, given_name)
        name = column_name if isinstance(column_name, str) else field.name
        parts = ("/indices", "/values") if field.sparse is not None else ("",)
        if all(name + part in there for part in parts):
            column_of |= {field.name + part: name + part for part in parts}
        elif field.name in columns or not (field.optional or field.has_default or _is_loaded(schema, field)):
            close = did_you_mean(name, table.names)
            missing = " and ".join(repr(name + part) for part in parts)
            text = f"{table.name} has no column {missing} for field {field.name!r}{close}: "
            text += "columns={'field': 'column'} maps names; merge the table that has it, or `reset_index()` where it "
            text += "is the index; the columns are"
            raise OptionError(f"{text} {', '.join(map(repr, table.names))}")
    for name in column_of.values():
        if there[name] > 1:
            raise OptionError(f"{table.name} has several columns {name!r}: name them apart")
    return column_of


def _is_loaded(schema: Schema, field: Field) -> bool:
    """Check whether the `load` hook must fill a field.

    Such a field needs no column in the table.
    """
    filled = field.deferred and field.default is None and not field.optional
    return filled and callable(getattr(schema.record_class, "load", None))


def unused_columns(schema: Schema, table: Table, used: Any, extra: str) -> tuple[str, ...]:
    """List the columns of a table that no field uses.

    Raises:
        OptionError: a column is unused, and `extra` is `"error"`.
    """
    check_choice("extra", extra, ("error", "ignore"))
    used = set(used)
    unused = tuple(name for name in table.names if name not in used and not name.startswith("__index_level_"))
    if unused and extra == "error":
        names = [field.name for field in schema.fields]
        text = f"{schema.name} has no field for the column {unused[0]!r}{did_you_mean(unused[0], names)}"
        advice = "columns={'field': 'column'} maps names, and extra='ignore' leaves columns out"
        raise OptionError(f"{text} of {table.name} ({len(unused)} such: {', '.join(unused)}); {advice}")
    return unused


_NUMBER = re.compile(r"\s*([+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf|infinity))?\s*", re.IGNORECASE)


def _advice_on_text(element: ElementType, name: str, cells: Any) -> str:
    """Write advice on how to convert a column of text, quoting the first text that is not a number."""
    texts = (cells.flatten(recursive=True) if hasattr(cells, "values") else cells).drop_null().to_pylist()
    text = next((text for text in texts if not _NUMBER.fullmatch(text)), "".join(texts[:1]))[:60]
    call = f"pandas.to_numeric(frame[{name!r}])"
    if element.is_time:
        kind = "datetime" if element.numpy.kind == "M" else "timedelta"
        call = f"pandas.to_{kind}(frame[{name!r}]), format= of dates"
    elif element.numpy.kind == "b":
        call = f"frame[{name!r}].map({{{text!r}: ..., ...}}), with True and False"
    elif "," in text and not any("." in cell and "," not in cell for cell in texts):
        call += " or, of decimal commas, by pandas.read_csv(decimal=',', thousands='.')"
    return f"holds text such as {text!r}, expected {element.name}; convert it by {call}"


def check_types(table: Any, column_of: Mapping[str, str], schema: Schema) -> None:
    """Raise `OptionError` for a column whose type its field cannot store.

    An unsupported type is refused for every field, and text for every field that does not contain text.

    Args:
        table: pyarrow table or record batch.
        column_of: mapping from field to column name.
        schema: schema of the fields.
    """
    import pyarrow as pa

    for field, name in column_of.items():
        kind = table.schema.field(name).type
        while True:
            inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
            is_list = pa.types.is_nested(inner) and hasattr(inner, "value_type")  # in any list layout
            inner = inner.value_type if pa.types.is_dictionary(inner) or is_list else inner
            if inner == kind:
                break
            kind = inner
        element, where = schema[field.partition("/")[0]].element, f"column {name!r}, for field {field!r}"
        if str(kind) in {"string", "large_string", "string_view"} and not element.is_text:
            raise OptionError(f"{where}: {_advice_on_text(element, name, one_array(table[name]))}")
        refused = pa.types.is_nested(kind) or pa.types.is_decimal(kind) or pa.types.is_interval(kind)
        if refused or pa.types.is_time(kind):
            advice = "give each member a column" if pa.types.is_nested(kind) else "cast it to numbers or text first"
            raise OptionError(f"{where}: no field holds {kind}; {advice}")


_ROWS = 8192  # maximum number of rows in a chunk
_BYTES = 4 << 20  # size in bytes at which a chunk ends


class Dictionaries(ColumnSource):
    """Source of records from dictionaries that map field name to value.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Point:
    ...     x: int = sr.context("int64")
    >>> [int(point.x) for point in Dictionaries([{"x": 3}], sr.Schema.of(Point))]
    [3]

    Args:
        rows: iterable of dictionaries. Unless it is a list or tuple, the values of each dictionary are copied before
            the next dictionary is requested.
        schema: schema of the records.
    """

    def __init__(self, rows: Iterable[Any], schema: Schema) -> None:
        self.rows, self.schema = rows, schema

    def columns(self) -> Iterator[tuple[dict[str, Column], int]]:
        """Yield the columns of each chunk of dictionaries."""
        make, done = maker_from_mapping(self.schema), 0
        for rows in self._chunks():
            columns = columns_of_dictionaries(self.schema, rows)
            if columns is None:  # if a value is wrong, creating the records raises the exact error
                records = list(map(make, rows, itertools.count(done)))
                try:
                    columns = gather(self.schema, records)
                except RecordError as error:
                    error.position = None if error.position is None else error.position + done
                    raise
            yield columns, len(rows)
            done += len(rows)

    def _chunks(self) -> Iterator[list[Any]]:
        """Yield the rows in chunks.

        Rows that the caller may change are copied.
        """
        in_memory = type(self.rows) in (list, tuple)
        chunk: list[Any] = []
        size = 0
        for row in self.rows:
            taken, waits = row, True
            if not in_memory:
                try:
                    taken = {name: copied(value) for name, value in row.items()} if type(row) is dict else copied(row)
                except CannotWait:
                    waits = False
            chunk.append(taken)
            size += sum(map(value_size, taken.values())) if type(taken) is dict else 0
            if not waits or len(chunk) == _ROWS or size >= _BYTES:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk


T = TypeVar("T")


def _no_splits(sources: Sources) -> NDArray[np.int64]:
    return np.zeros(len(sources.positions), np.int64)


@attrs.frozen(eq=False)
class Sources:
    """Batch of source records whose hooks have not run yet.

    Attributes:
        positions: positions of the records in the source, ascending, int64 `(N,)`.
        records: the N records.
        splits: index of the split of each record, int64 `(N,)`; 0 before splits are assigned.
        columns: columns of the records, if the source is columnar; `records` then have only the fields that splits and
            keys need. None for other sources.
        kept: indices in `columns` of the records to write; None for all.
    """

    positions: NDArray[np.int64]
    records: Sequence[Any]
    splits: NDArray[np.int64] = attrs.field(default=attrs.Factory(_no_splits, takes_self=True))
    columns: dict[str, Column] | None = None
    kept: Sequence[int] | None = None

    def only(self, kept: Sequence[int]) -> Sources:
        """Select sources by index."""
        return Sources(self.positions[kept], [self.records[i] for i in kept], self.splits[kept])

    def become(self, origins: Sequence[int], records: Sequence[Any]) -> Sources:
        """Replace the records with the output of the hooks.

        `origins[i]` is the index of the source from which record i was made.
        """
        indices = np.asarray(origins, np.int64)
        return Sources(self.positions[indices], records, self.splits[indices])

    def between(self, start: int, stop: int | None) -> Sources:
        """Select the sources from index `start` up to, but not including, `stop`.

        If `stop` is None, all sources from `start` on are selected.
        """
        return Sources(self.positions[start:stop], self.records[start:stop], self.splits[start:stop])


@attrs.frozen(eq=False)
class Block:
    """Block of encoded records.

    Attributes:
        data: serialized SequenceExamples.
        lengths: length of each record in each alignment group, int64 `(records, groups)`.
        sources: position of the source of each record, int64 `(records,)`.
        splits: index of the split of each record, int64 `(records,)`.
        columns: names of the CSV columns; None without a CSV.
        rows: CSV line of each record; None without a CSV.
        skipped: positions of the sources that a hook skipped.
        reasons: the first few messages of `SkipRecord`.
        done: number of input sources completed so far; 0 if it is unknown, for example because the block ends between
            two chunks of a source.
    """

    data: Sequence[bytes]
    lengths: NDArray[np.int64]
    sources: NDArray[np.int64]
    splits: NDArray[np.int64]
    columns: list[str] | None
    rows: list[str] | None
    skipped: list[int]
    reasons: tuple[str, ...]
    done: int

    def only(self, kept: Sequence[int] | None) -> Block:
        """Select records by index; None selects all."""
        if kept is None:
            return self
        arrays: Any = {"lengths": self.lengths[kept], "sources": self.sources[kept], "splits": self.splits[kept]}
        rows = None if self.rows is None else chosen(self.rows, kept)
        return attrs.evolve(self, data=chosen(self.data, kept), rows=rows, **arrays)


def chosen(items: Sequence[T], indices: Sequence[int]) -> list[T]:
    """Select items by index."""
    every = list(items)
    return [every[i] for i in indices]
