"""Sources that give records in columns: many at a time, without an object for each."""

from __future__ import annotations

import abc
import functools
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.columns import records_of
from seqrecorder.errors import OptionError, RecordError, did_you_mean
from seqrecorder.writing.column_input import given_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqrecorder.codec.arrow import Table
    from seqrecorder.codec.columns import Column
    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

_LOG = logging.getLogger("seqrecorder")


class SkippingSource:
    """A source that leaves some of its rows out.

    Attributes:
        skipped: how many, the last time that it was gone through to its end.
    """

    skipped: int = 0


class ColumnSource(SkippingSource, abc.ABC):
    """Records that `write` takes in columns, many at a time, and that an iteration makes one by one.

    Attributes:
        schema: what the records are.
    """

    schema: Schema

    @functools.cached_property
    def given(self) -> Schema:
        """The fields that have columns: all but those that `load` is still to fill."""
        return self.schema

    @abc.abstractmethod
    def columns(self) -> Iterator[tuple[dict[str, Column], int]]:
        """Yield columns that fit the fields of `given`, and of how many records they are.

        Raises:
            RecordError: a record does not fit; its position is that among all that were given.
        """

    def __iter__(self) -> Iterator[Any]:
        """Yield the records as objects of their class."""
        for columns, _ in self.columns():
            yield from records_of(self.given, columns)


class TableSource(ColumnSource):
    """Records whose columns are those of tables.

    Args:
        table: gives the rows.
        schema: what the records are.
        cast: whether values may lose precision: see `from_table`.
        on_error: what is done with a record that does not fit: `raise`, or `skip` and count it.

    Attributes:
        skipped: how many records were left out, the last time that it was gone through.
    """

    def __init__(
        self, table: Table, schema: Schema, *, cast: bool = False, on_error: Literal["raise", "skip"] = "raise"
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise OptionError(f"on_error: expected 'raise' or 'skip', got {on_error!r}")
        self.table, self.schema, self.cast, self.on_error, self.skipped = table, schema, cast, on_error, 0
        self.column_of: dict[str, str] = {}

    @functools.cached_property
    def given(self) -> Schema:
        """The fields that have columns, or values where there is none."""
        there = {name.partition("/")[0] for name in self.column_of}
        kept = tuple(f for f in self.schema.fields if f.name in there or not _is_loaded(self.schema, f))
        return self.schema if kept == self.schema.fields else attrs.evolve(self.schema, fields=kept)

    @abc.abstractmethod
    def tables(self) -> Iterator[Any]:
        """Yield tables of pyarrow, whose columns are the fields."""

    def columns(self) -> Iterator[tuple[dict[str, Column], int]]:
        """Yield the columns of each table; without the records that do not fit, if these are skipped."""
        self.skipped = rows = 0
        for table in self.tables():
            ahead = [(rows, table)]
            rows += table.num_rows
            while ahead:
                first, part = ahead.pop()
                try:
                    columns, size = given_columns(self.given, part, cast=self.cast)
                except RecordError as error:
                    error.position = None if error.position is None else error.position + first
                    error.message = f"{error.message} (in {self.table.name})"
                    if self.on_error == "raise":
                        raise
                    if part.num_rows > 1:  # it is found by halving
                        middle = part.num_rows // 2
                        ahead += [(first + middle, part.slice(middle)), (first, part.slice(0, middle))]
                        continue
                    self.skipped += 1
                    if self.skipped == 1:
                        _LOG.warning("on_error='skip': the first record that is left out: %s", error)
                else:
                    yield columns, size


class TableRecords(TableSource):
    """The rows of a table as records; made by `from_table`.

    Attributes:
        ignored: the columns that are no field, where `extra="ignore"` lets them be.
    """

    def __init__(
        self,
        table: Table,
        schema: Schema,
        *,
        columns: Mapping[str, str] | None = None,
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
        """Yield tables whose columns are named as the fields."""
        import pyarrow as pa

        wanted = list(dict.fromkeys(self.column_of.values()))
        for batch in self.table.batches(wanted):
            check_types(batch.schema, self.column_of)
            yield pa.table({field: batch.column(name) for field, name in self.column_of.items()})


def mapped_columns(schema: Schema, table: Table, columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return the column of each part of each field: `<field>` is one, of sparse fields `/indices` and `/values`.

    Args:
        schema: what the records are.
        table: has the columns.
        columns: the column of a field, where that has another name.

    Raises:
        OptionError: there is no such field or column, or none for a field that is required.
    """
    doubled = {name for name in table.names if table.names.count(name) > 1}
    columns = columns or {}
    if not isinstance(columns, Mapping):
        raise OptionError(f"columns: expected a mapping of field to column, got {columns!r}")
    names = [field.name for field in schema.fields]
    for given in columns:
        if given not in names:
            raise OptionError(f"columns: {schema.name} has no field {given!r}{did_you_mean(str(given), names)}")
    found: dict[str, str] = {}
    for field in schema.fields:
        given_name = field.name if field.name in table.names or field.feature not in table.names else field.feature
        name = columns.get(field.name, given_name)
        parts = ("/indices", "/values") if field.sparse is not None else ("",)
        if all(name + part in table.names for part in parts):
            found |= {field.name + part: name + part for part in parts}
        elif field.name in columns or not (field.optional or field.has_default or _is_loaded(schema, field)):
            close = did_you_mean(name, table.names)
            said = " and ".join(repr(name + part) for part in parts)
            raise OptionError(
                f"{table.name} has no column {said} for field {field.name!r}{close}; it has "
                f"{', '.join(map(repr, table.names))}: columns={{'field': 'column'}} maps names"
            )
    for name in found.values():
        if name in doubled:
            raise OptionError(f"{table.name} has several columns {name!r}: name them apart")
    return found


def _is_loaded(schema: Schema, field: Field) -> bool:
    """Return whether a field needs no column, since the class's `load` fills it."""
    filled = field.deferred and field.default is None and not field.optional
    return filled and callable(getattr(schema.record_class, "load", None))


def unused_columns(schema: Schema, table: Table, used: Any, extra: str) -> tuple[str, ...]:
    """Return the columns that nothing uses.

    Raises:
        OptionError: there are some, and they are not to be ignored.
    """
    if extra not in ("error", "ignore"):
        raise OptionError(f"extra: expected 'error' or 'ignore', got {extra!r}")
    used = set(used)
    unused = tuple(name for name in table.names if name not in used and not name.startswith("__index_level_"))
    if unused and extra == "error":
        names = [field.name for field in schema.fields]
        raise OptionError(
            f"{schema.name} has no field for the column {unused[0]!r}{did_you_mean(unused[0], names)} of {table.name}"
            f" ({len(unused)} such: {', '.join(unused)}); columns={{'field': 'column'}} maps names, and "
            f"seqrecorder.from_table(..., extra='ignore') leaves columns out"
        )
    return unused


def check_types(given: Any, column_of: Mapping[str, str]) -> None:
    """Raise `OptionError` for a column of a type that no field holds.

    Args:
        given: schema of pyarrow's.
        column_of: the column of each field.
    """
    import pyarrow as pa

    for field, name in column_of.items():
        kind = given.field(name).type
        while True:
            inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
            is_list = pa.types.is_nested(inner) and hasattr(inner, "value_type")  # of whatever layout
            inner = inner.value_type if pa.types.is_dictionary(inner) or is_list else inner
            if inner == kind:
                break
            kind = inner
        refused = pa.types.is_nested(kind) or pa.types.is_decimal(kind) or pa.types.is_interval(kind)
        if refused or pa.types.is_time(kind):
            raise OptionError(
                f"column {name!r}, for field {field!r}: no field holds {kind}; "
                + ("give each member a column" if pa.types.is_nested(kind) else "cast it to numbers or text first")
            )
