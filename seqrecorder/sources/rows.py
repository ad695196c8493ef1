"""Tables whose rows are steps: `from_rows` gathers the rows of each group into a record."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqrecorder.codec.arrow import compute, one_array
from seqrecorder.dataset.progress import Progress
from seqrecorder.errors import OptionError, SourceError, did_you_mean
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.row_order import MEMORY, rows_in_order
from seqrecorder.sources.tables import open_table
from seqrecorder.wire.byte_rows import bounds
from seqrecorder.writing.columns import TableSource, check_types, mapped_columns, unused_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from seqrecorder.codec.arrow import Table
    from seqrecorder.schema.field import Field

_LOG = logging.getLogger("seqrecorder")
_REGULAR = 0.9  # of the distances are the same where a longer one is a gap


class RowGroups(TableSource):
    """The rows of a table, gathered into records; made by `from_rows`.

    Attributes:
        ignored: the columns that nothing uses, where `extra="ignore"` lets them be.
        rows, groups: how many there were, the last time that it was gone through.
        equal_times: how many rows have the same `order` as the one before in their group.
        gaps: how many rows come later than the usual distance after the one before, where there is a usual one.
        missing: how many values of feature lists are missing, which is NaN, or None where all of a group are.
    """

    def __init__(
        self,
        table: Table,
        schema: Schema,
        *,
        by: str | Sequence[str],
        order: str | Sequence[str] | None,
        columns: Mapping[str, str] | None = None,
        extra: Literal["error", "ignore"] = "error",
        cast: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        memory: int = MEMORY,
        progress: bool | None = False,
    ) -> None:
        super().__init__(table, schema, cast=cast, on_error=on_error)
        self.by, self.order = ((part,) if isinstance(part, str) else tuple(part) for part in (by, order or ()))
        if not self.by:
            raise OptionError("by: expected the name of a column, or several")
        if isinstance(memory, bool) or not isinstance(memory, int) or memory < 1:
            raise OptionError(f"memory: expected bytes, 1 or more, got {memory!r}")
        self.column_of = mapped_columns(schema, table, columns)
        sparse = next((field.name for field in schema.fields if field.sparse is not None), None)
        if sparse is not None:
            raise OptionError(f"field {sparse!r} is sparse, which rows cannot give: use seqrecorder.from_table")
        for option, names in (("by", self.by), ("order", self.order)):
            for name in names:
                if name not in table.names:
                    close = did_you_mean(str(name), table.names)
                    raise OptionError(
                        f"{option}: {table.name} has no column {name!r}{close}; it has {', '.join(table.names)}"
                    )
        self.ignored = unused_columns(schema, table, [*self.column_of.values(), *self.by, *self.order], extra)
        self._memory, self._progress = memory, progress
        self.rows = self.groups = self.equal_times = self.gaps = self.missing = 0

    def __repr__(self) -> str:
        ignored = f", ignored={list(self.ignored)}" if self.ignored else ""
        return f"<{self.schema.name} records, a row a step, of {self.table.name} by {', '.join(self.by)}{ignored}>"

    def tables(self) -> Iterator[Any]:
        """Yield tables with a row for each group."""
        self.rows = self.groups = self.equal_times = self.gaps = self.missing = 0
        self._usual: int | float | None = None
        wanted = list(dict.fromkeys([*self.column_of.values(), *self.by, *self.order]))
        progress = Progress(self._progress, f"sorting {self.table.name}", unit="rows")
        try:
            keys = [*self.by, *self.order]
            ordered = rows_in_order(self.table, wanted, keys, memory=self._memory, reach=progress.reach)
            for table, starts in self._whole_groups(ordered):
                yield self._gathered(table, starts)
        finally:
            progress.close()
        if self.equal_times:
            _LOG.warning(
                "%s: %d of %d rows have the same %s as the row before in their group: they stay as they came",
                *(self.table.name, self.equal_times, self.rows, ", ".join(self.order)),
            )
        if self.missing:
            _LOG.warning("%s: %d values are missing, which is NaN in a record", self.table.name, self.missing)
        if self.gaps:
            _LOG.warning(
                "%s: %d of %d rows come more than the usual %s after the row before in their group, by %s",
                *(self.table.name, self.gaps, self.rows, self._usual, self.order[-1]),
            )

    def _whole_groups(self, ordered: Iterator[Any]) -> Iterator[tuple[Any, NDArray[np.int64]]]:
        """Yield tables of whole groups, and where each group begins; a group may come in many tables."""
        import pyarrow as pa

        pieces: list[Any] = []  # from the start of a group on that has not ended
        for table in ordered:
            if not table.num_rows:
                continue
            check_types(table.schema, self.column_of)
            begins = np.flatnonzero(_change(table, self.by)) + 1
            if pieces:
                last = pieces[-1]
                seam = pa.concat_tables([last.slice(last.num_rows - 1), table.slice(0, 1)])
                if _change(seam, self.by)[0]:
                    begins = np.concatenate([[0], begins])
            if not begins.size:
                pieces.append(table)
                continue
            end, held = int(begins[-1]), sum(piece.num_rows for piece in pieces)
            whole = pa.concat_tables([*pieces, table.slice(0, end)])
            starts = begins[:-1] + held
            if whole.num_rows:
                yield whole, starts if starts.size and not starts[0] else np.concatenate([[0], starts])
            pieces = [table.slice(end)]
        if pieces:
            yield pa.concat_tables(pieces), np.zeros(1, np.int64)

    def _gathered(self, table: Any, starts: NDArray[np.int64]) -> Any:
        """Return a table with a row for each group of rows.

        Raises:
            SourceError: a column of a context field is not constant in a group.
        """
        import pyarrow as pa

        table = table.combine_chunks()
        self.rows, self.groups = self.rows + table.num_rows, self.groups + starts.size
        inside = np.ones(max(0, table.num_rows - 1), bool)
        inside[starts[1:] - 1] = False
        self._count_times(table, inside)
        columns = {}
        for field in self.schema.fields:
            name = self.column_of.get(field.name)
            if name is None:
                continue
            column = one_array(table[name])
            if field.is_list:
                columns[field.name] = _lists(field, column, starts)
                self.missing += column.null_count
                continue
            if name not in self.by:
                changes = _change(table, [name]) & inside
                if changes.any():
                    raise self._not_constant(table, name, field, int(np.argmax(changes)))
            columns[field.name] = column.take(pa.array(starts))
        return pa.table(columns)

    def _not_constant(self, table: Any, name: str, field: Field, row: int) -> SourceError:
        group = ", ".join(f"{by}={table[by][row].as_py()!r}" for by in self.by)
        first, second = (table[name][place].as_py() for place in (row, row + 1))
        return SourceError(
            f"column {name!r}, for the context field {field.name!r}, is not constant in the group {group}: "
            f"{first!r}, then {second!r}; declare a feature_list, or make the groups smaller by another column"
        )

    def _count_times(self, table: Any, inside: NDArray[np.bool_]) -> None:
        """Count equal times, and gaps between regular ones."""
        import pyarrow as pa

        if not self.order or not inside.any():
            return
        self.equal_times += int((inside & ~_change(table, self.order)).sum())
        column = one_array(table[self.order[-1]])
        kind = column.type
        if pa.types.is_temporal(kind):
            column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())  # noqa: PLR2004
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return
        distances = np.diff(column.to_numpy(zero_copy_only=False))[inside]
        distances = distances[distances > 0]
        if self._usual is None and distances.size:
            middle = np.sort(distances)[distances.size // 2]
            regular = np.isclose(distances, middle).mean() >= _REGULAR
            self._usual = middle.item() if regular else float("inf")
        if self._usual is not None:
            self.gaps += int((distances > 1.5 * self._usual).sum())


def from_rows(
    source: Any,
    record_class: object,
    *,
    by: str | Sequence[str],
    order: str | Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    extra: Literal["error", "ignore"] = "error",
    cast: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    memory: int = MEMORY,
    progress: bool | None = None,
) -> RowGroups:
    """Return records of a table whose rows are steps: the rows of a group, in order, are a record.

    >>> import tempfile, numpy as np, pyarrow as pa, seqrecorder as sr
    >>> @sr.record
    ... class Day:
    ...     sensor: str = sr.context(str, key=True)
    ...     watts: np.ndarray = sr.feature_list("float64")
    >>> rows = pa.table({"sensor": ["b", "a", "b"], "hour": [1, 0, 0], "watts": [0.5, 0.1, 0.2]})
    >>> list(sr.from_rows(rows, Day, by="sensor", order="hour"))
    [Day(sensor='a', watts=array([0.1])), Day(sensor='b', watts=array([0.2, 0.5]))]
    >>> sr.write(sr.from_rows(rows, Day, by="sensor", order="hour"), tempfile.mkdtemp()).records
    2

    A feature list has a value of each row, a context field the one that its column has in all rows of a group. A column
    of lists gives steps with a shape. Records come in the order of `by`. Rows that come in order are passed on as they
    come, others are sorted, outside of memory where they are many. An optional feature list is None where all values of
    a group are null.

    Args:
        source: what `from_table` takes.
        record_class: of the records.
        by: the column, or columns, whose values tell which rows are one record.
        order: the column, or columns, that rows of a group are ordered by; None keeps them as they come.
        columns: the column of a field, where that has another name.
        extra: see `from_table`; `by` and `order` need no field.
        cast: see `from_table`.
        on_error: `skip` leaves records out that do not fit, logs the first and counts them.
        memory: bytes of rows that are sorted at once (160 MiB); about eight times as many are needed.
        progress: shows how many rows were read; see `write`.

    Raises:
        OptionError: columns and fields do not belong together.
        SourceError: while iterating or writing: a column of a context field changes inside of a group, or `by` or
            `order` is missing in a row.
        RecordError: as for `from_table`.
    """
    schema = Schema.of(record_class)
    table = open_table(source, schema, columns, steps=True)
    fitted: Any = {"columns": columns, "extra": extra, "cast": cast, "on_error": on_error}
    return RowGroups(table, schema, by=by, order=order, **fitted, memory=memory, progress=progress)


def _change(table: Any, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return for each row but the first whether a column differs from the row before; two NaN or nulls do not."""
    changes = np.zeros(max(0, table.num_rows - 1), bool)
    for name in names:
        changes |= _differs(one_array(table[name]))
    return changes


def _differs(array: Any) -> NDArray[np.bool_]:
    import pyarrow as pa

    pc, types = compute(), pa.types
    if types.is_dictionary(array.type):
        distinct = not array.null_count and pc.count_distinct(array.dictionary).as_py() == len(array.dictionary)
        array = array.indices if distinct else array.dictionary_decode()
    if types.is_nested(array.type):
        values = array.to_pylist()
        return np.array([left != right for left, right in zip(values[1:], values[:-1], strict=True)], bool)
    if types.is_floating(array.type):
        array = pc.add(array.cast(pa.float64()), 0.0)  # without -0.0
    differs = np.zeros(max(0, len(array) - 1), bool)
    differs[pc.run_end_encode(array).run_ends.to_numpy()[:-1] - 1] = True
    return differs


def _lists(field: Field, column: Any, starts: NDArray[np.int64]) -> Any:
    """Return a list for each group; a null where an optional field has nulls only."""
    import pyarrow as pa

    ends = np.append(starts, len(column))
    mask = None
    if field.optional and column.null_count:
        missing = bounds(column.is_null().to_numpy(zero_copy_only=False).astype(np.int64))[ends]
        mask = pa.array(np.diff(missing) == np.diff(ends))
    return pa.LargeListArray.from_arrays(pa.array(ends), column, mask=mask)
