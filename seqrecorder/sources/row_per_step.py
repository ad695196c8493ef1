"""Records from tables with one row per step, which `from_rows` sorts and groups into records.

Tables with one row per record are in `seqrecorder.sources.tables`.
"""

from __future__ import annotations

import bisect
import functools
import logging
import operator
import shutil
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seqrecorder.codec.arrow import compute, cut_batch, one_array
from seqrecorder.errors import OptionError, SourceError, check_count
from seqrecorder.schema.display import number_of
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.tables import check_names, open_table
from seqrecorder.sources.text import in_chunks
from seqrecorder.storage.files import writing
from seqrecorder.storage.processes_and_signals import Progress, scratch
from seqrecorder.wire.byte_rows import bounds
from seqrecorder.writing.columns import TableSource, check_types, mapped_columns, unused_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.arrow import Table
    from seqrecorder.schema.field import Field

    Words = list[tuple[NDArray[np.uint64], int]]


MEMORY = 160 << 20
"""Default number of bytes to sort in memory at once."""

_WORD = 64  # bits of a key word
_NUMBER = "seqrecorder: number of the row"
_LEAST_BATCH = 1 << 16  # minimum number of bytes to read from a sorted file at once
# Fine-grained times are mostly whole seconds, milliseconds or microseconds; dividing by the unit shortens the keys.
_UNITS = (10**9, 10**6, 10**3)
_SAMPLE = 1000  # number of times to test for a coarser unit before testing all of them


def rows_in_order(
    table: Table,
    names: Sequence[str],
    keys: Sequence[str],
    *,
    memory: int = MEMORY,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[Any]:
    """Yield all rows as Arrow tables, sorted stably by key.

    A table that is already sorted, and can be read twice, is passed on as it is read. Other tables larger than `memory`
    bytes are sorted externally: sorted runs are written to files and merged.

    Args:
        table: table to sort.
        names: names of the columns to read, including the keys.
        keys: names of the key columns, the most significant first.
        memory: maximum bytes of rows in memory at once.
        advance: callback that receives the number of rows of each batch read.

    Raises:
        SourceError: a row has no value for a key.
    """
    import pyarrow as pa

    source = table.batches(names)
    if table.is_sorted:
        yield from (in_order(_table(batch), keys) for batch in source)  # in_order also checks for missing keys
        return
    batches = _read_batches(source, memory, advance)
    if sum(batch.nbytes for batch in batches) <= memory:
        if batches:
            yield from _cut(in_order(pa.Table.from_batches(batches), keys))
        return
    if table.again and _order_of(pa.Table.from_batches(batches), keys) is None and _comes_sorted(table, keys):
        yield from map(_table, batches)
        yield from map(_table, source)
        return
    directory = scratch()
    try:
        runs = _write_runs(directory, batches, source, keys, memory=memory, advance=advance)
        yield from _merged(runs, [*keys, _NUMBER], max(_LEAST_BATCH, memory // (4 * len(runs))))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _read_batches(source: Iterator[Any], memory: int, advance: Callable[[int], None]) -> list[Any]:
    """Read batches until they exceed `memory` bytes or the source ends."""
    batches: list[Any] = []
    size = 0
    for batch in source:
        batches.append(batch)
        size += batch.nbytes
        advance(batch.num_rows)
        if size > memory:
            break
    return batches


def in_order(table: Any, keys: Sequence[str]) -> Any:
    """Sort the rows of a table by their keys."""
    import pyarrow as pa

    order = _order_of(table, keys)
    if order is None:
        return table
    columns, places = {}, pa.array(order)
    for name in table.column_names:
        column = one_array(table[name])  # column by column, so that only one of them is in memory twice
        if name in keys and _is_text(column.type):  # reordering codes is much faster than reordering strings
            column = column.dictionary_encode()
        columns[name] = column.take(places)
    return pa.table(columns)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


# Keys as words -------------------------------------------------------------------------------------------------------


def _order_of(table: Any, keys: Sequence[str]) -> NDArray[np.int64] | None:
    """Compute the order of rows that sorts the keys.

    The result is None if the rows are sorted already.
    """
    words = _words(table, keys)
    if _are_sorted(words):
        return None
    size = len(words[0][0])
    room = _WORD - int(size - 1).bit_length()
    order: NDArray[np.int64] | None = None
    for word, bits in reversed(words):
        ordered = word if order is None else word[order]
        if bits <= room:
            shift = np.uint64(_WORD - room)
            packed = np.sort((ordered << shift) | np.arange(size, dtype=np.uint64))
            places = (packed & np.uint64((1 << int(shift)) - 1)).astype(np.int64)
        else:
            places = np.argsort(ordered, kind="stable")
        order = places if order is None else order[places]
    return order


def _words(table: Any, keys: Sequence[str]) -> Words:
    """Pack the keys into a few 64-bit words that sort in the same order.

    Each word comes with the number of its bits that are used.
    """
    words: Words = []
    for name in keys:
        ranks = ranks_of(name, table[name])
        bits = int(ranks.max()).bit_length() if ranks.size else 0
        if words and words[-1][1] + bits <= _WORD - int(table.num_rows).bit_length():
            word, used = words.pop()
            words.append(((word << np.uint64(bits)) | ranks, used + bits))
        else:
            words.append((ranks, bits))
    return words


def _are_sorted(words: Words) -> bool:
    """Check whether rows are sorted by their words, the most significant word first."""
    equal: NDArray[np.bool_] | None = None
    for word, _ in words:
        before, after = word[:-1], word[1:]
        falls = after < before
        if (falls if equal is None else falls & equal).any():
            return False
        equal = (after == before) if equal is None else equal & (after == before)
    return True


def ranks_of(name: str, column: Any) -> NDArray[np.uint64]:
    """Map the values of a column to integers from 0 that sort in the same order.

    Raises:
        SourceError: a value is missing.
        OptionError: the type of the column has no order.
    """
    import pyarrow as pa

    types = pa.types
    if types.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType):  # such as a Period of pandas
        raise OptionError(f"column {name!r}: {column.type} has no order; convert it, a Period with .dt.to_timestamp()")
    empty = column.is_null(nan_is_null=True).to_numpy()
    if _is_text(column.type):  # an empty cell of a CSV is an empty text
        empty = empty | (compute().binary_length(column).to_numpy() == 0)
    if empty.any():
        rows = f"{number_of(int(empty.sum()), 'row')} without a value, such as row {empty.argmax()}"
        raise SourceError(f"column {name!r}: {rows}: leave them out")
    kind = column.type
    if types.is_boolean(kind) or types.is_integer(kind):
        return _from_zero(column.to_numpy())
    if types.is_temporal(kind) and not types.is_interval(kind):
        wide = pa.int32() if kind.bit_width == 32 else pa.int64()  # noqa: PLR2004
        times = column.cast(wide).to_numpy()
        ranks = _from_zero(times)
        for unit in _UNITS:
            if not (ranks[:_SAMPLE] % np.uint64(unit)).any() and not (ranks % np.uint64(unit)).any():
                return np.asarray(ranks // np.uint64(unit), np.uint64)
        return ranks
    if types.is_floating(kind):
        bits = (column.to_numpy().astype(np.float64) + 0.0).view(np.int64)  # adding 0.0 turns -0.0 into 0.0
        return _from_zero(bits ^ ((bits >> 63) & np.int64(2**63 - 1)))
    return _ranks_of_codes(column)


def _from_zero(values: NDArray[Any]) -> NDArray[np.uint64]:
    if not values.size:
        return np.empty(0, np.uint64)
    # Negative values wrap around, and the difference wraps back.
    unsigned: NDArray[np.uint64] = values.astype(np.uint64)
    return np.asarray(unsigned - values.min().astype(np.uint64), np.uint64)


def _ranks_of_codes(column: Any) -> NDArray[np.uint64]:
    """Rank the values of a column by sorting only the distinct values.

    The distinct values are those of the column's dictionary.
    """
    import pyarrow as pa

    pc = compute()
    array = one_array(column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    values = array.dictionary
    places = pc.sort_indices(values).to_numpy()
    same = pc.equal(values.take(pa.array(places[1:])), values.take(pa.array(places[:-1])))
    ranks = np.empty(len(values), np.uint64)
    # A dictionary may contain a value twice.
    ranks[places] = np.concatenate([[0], np.cumsum(~same.to_numpy(zero_copy_only=False))])[: len(values)]
    return np.asarray(ranks[array.indices.to_numpy()], np.uint64)


# External sort ------------------------------------------------------------------------------------------------------


def _table(batch: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def _cut(table: Any) -> Iterator[Any]:
    for batch in table.to_batches():
        yield from map(_table, cut_batch(batch))


def _comes_sorted(table: Table, keys: Sequence[str]) -> bool:
    """Check whether the whole table is sorted by key, reading only the key columns."""
    last: Any = None
    for batch in table.batches(list(dict.fromkeys(keys))):
        whole = _table(batch)
        if _order_of(whole, keys) is not None:
            return False
        if last is not None and _key(whole, keys, 0) < last:
            return False
        last = _key(whole, keys, -1)
    return True


def _key(table: Any, keys: Sequence[str], row: int) -> tuple[Any, ...]:
    """Convert the keys of a row to Python values that compare in the same order."""
    row = row % table.num_rows
    values = []
    for name in keys:
        scalar = table[name][row]
        value = getattr(scalar, "value", None)  # times have an int of any unit, dictionaries an inner scalar
        value = scalar.as_py() if value is None else value
        values.append(value.as_py() if hasattr(value, "as_py") else value)
    return tuple(values)


def _write_runs(
    directory: Path,
    batches: list[Any],
    source: Iterator[Any],
    keys: Sequence[str],
    *,
    memory: int,
    advance: Callable[[int], None],
) -> list[Path]:
    """Sort the rows in runs of about `memory` bytes, and write each run to a file."""
    import pyarrow as pa
    from pyarrow import ipc

    paths: list[Path] = []
    count = 0
    while batches:
        part = pa.Table.from_batches(batches)
        part = part.append_column(_NUMBER, pa.array(np.arange(count, count + part.num_rows)))
        count += part.num_rows
        batches.clear()
        part = _plain(in_order(part, keys))
        paths.append(directory / f"{len(paths)}.arrow")
        with writing("sort rows in", directory), ipc.new_file(str(paths[-1]), part.schema) as file:
            file.write_table(part, max_chunksize=max(1, part.num_rows * _LEAST_BATCH // max(1, part.nbytes)))
        batches += _read_batches(source, memory, advance)
    return paths


def _plain(table: Any) -> Any:
    """Decode dictionary columns, because an Arrow file allows only one dictionary per column."""
    import pyarrow as pa

    for index, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(index, table.column_names[index], column.cast(column.type.value_type))
    return table


def _merged(paths: Sequence[Path], keys: Sequence[str], size: int) -> Iterator[Any]:
    """Merge sorted files into tables.

    The files are read in blocks. In each round, the last keys of the current blocks are compared, and all rows up to
    the smallest of these keys are merged.
    """
    import pyarrow as pa

    runs = [_read_run(path, size) for path in paths]
    heads = [(next(run), run) for run in runs]
    while len(heads) > 1:
        bound = min(_key(head, keys, -1) for head, _ in heads)
        chunks, left = [], []
        for head, run in heads:
            rows = bisect.bisect_right(range(head.num_rows), bound, key=functools.partial(_key, head, keys))
            chunks.append(head.slice(0, rows))
            rest = head.slice(rows) if rows < head.num_rows else next(run, None)
            if rest is not None:
                left.append((rest, run))
        heads = left
        yield from _cut(_plain(in_order(pa.concat_tables(chunks), keys)).drop_columns([_NUMBER]))
    for head, run in heads:
        yield head.drop_columns([_NUMBER])
        for table in run:
            yield table.drop_columns([_NUMBER])


def _read_run(path: Path, size: int) -> Iterator[Any]:
    """Yield the rows of a sorted file in tables of about `size` bytes."""
    import pyarrow as pa
    from pyarrow import ipc

    with pa.OSFile(str(path)) as file:
        reader = ipc.open_file(file)
        batches = map(reader.get_batch, range(reader.num_record_batches))
        together = in_chunks(batches, operator.attrgetter("nbytes"), reader.num_record_batches, size)
        yield from map(pa.Table.from_batches, together)


_LOG = logging.getLogger("seqrecorder")
_REGULAR = 0.85  # proportion of equal time steps from which longer ones are gaps; working days have only 0.8


class RowGroups(TableSource):
    """Records that are groups of rows of a table (see `from_rows`).

    Attributes:
        ignored: names of the columns that `extra="ignore"` left unused.
        rows: number of rows in the last pass.
        groups: number of groups in the last pass.
        equal_times: number of rows with the same `order` value as the previous row of their group.
        gaps: number of rows more than 1.5 times the usual time step after the previous row of their group, if time
            steps are regular, that is, if at least 85 % of the first ones are equal.
        missing: number of missing values in feature lists. They become NaN; an optional field that has no values in
            a group becomes None.
    """

    def __init__(
        self,
        table: Table,
        schema: Schema,
        *,
        by: str | Sequence[str] | None,
        order: str | Sequence[str] | None,
        columns: Mapping[str, str | Sequence[str]] | None = None,
        extra: Literal["error", "ignore"] = "error",
        cast: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        memory: int = MEMORY,
        progress: bool | None = False,
    ) -> None:
        super().__init__(table, schema, cast=cast, on_error=on_error)
        self.by, self.order = ((part,) if isinstance(part, str) else tuple(part or ()) for part in (by, order))
        check_count("memory", memory)
        self.column_of = mapped_columns(schema, table, columns)
        sparse = next((field.name for field in schema.fields if field.sparse is not None), None)
        if sparse is not None:
            raise OptionError(f"field {sparse!r} is sparse, which rows cannot give: use seqrecorder.from_table")
        check_names("by", self.by, table)
        check_names("order", self.order, table)
        self.ignored = unused_columns(schema, table, [*self.column_of.values(), *self.by, *self.order], extra)
        self._memory, self._progress = memory, progress
        self.rows = self.groups = self.equal_times = self.gaps = self.missing = 0

    def __repr__(self) -> str:
        by = (", ".join(self.by) or "None") + (f", ignored={list(self.ignored)}" if self.ignored else "")
        return f"<{self.schema.name} records, a row a step, of {self.table.name} by {by}>"

    def tables(self) -> Iterator[Any]:
        """Yield tables with one row per group."""
        self.rows = self.groups = self.equal_times = self.gaps = self.missing = 0
        self._usual: int | float | None = None
        self._unit = ""  # unit of the usual time step, if `order` is a column of times
        wanted = list(dict.fromkeys([*self.column_of.values(), *self.by, *self.order]))
        progress = Progress(self._progress, f"sorting {self.table.name}", unit="rows")
        try:
            keys = [*self.by, *self.order]
            ordered = rows_in_order(self.table, wanted, keys, memory=self._memory, advance=progress.advance)
            for table, starts in self._whole_groups(ordered):
                yield self._gathered(table, starts)
        except SourceError as error:
            where = "" if self.table.name in str(error) else f"{self.table.name}: "
            raise SourceError(f"{where}{error}") from error
        finally:
            progress.close()
        if self.equal_times:
            text = "%s: %d of %d rows have the same %s as the row before in their group: they stay as they came"
            _LOG.warning(text, self.table.name, self.equal_times, self.rows, ", ".join(self.order))
        if self.missing:
            _LOG.warning("%s: %d values are missing; they become NaN, NaT or None", self.table.name, self.missing)
        if self.gaps:
            usual = np.array(self._usual)
            usual = usual.astype(f"m8[{self._unit}]").astype("m8[us]") if self._unit else usual
            text = "%s: %d of %d rows come more than the usual %s after the row before in their group, by %s"
            _LOG.warning(text, self.table.name, self.gaps, self.rows, usual.item(), self.order[-1])

    def _whole_groups(self, ordered: Iterator[Any]) -> Iterator[tuple[Any, NDArray[np.int64]]]:
        """Yield tables of complete groups, with the positions at which the groups begin.

        The pieces of a group that spans several tables are joined.
        """
        import pyarrow as pa

        pieces: list[Any] = []  # tables of the last group, which may continue in the next table
        for table in ordered:
            if not table.num_rows:
                continue
            check_types(table, self.column_of, self.schema)
            begins = np.flatnonzero(_change(table, self.by)) + 1
            if pieces:
                seam = pa.concat_tables([pieces[-1].slice(pieces[-1].num_rows - 1), table.slice(0, 1)])
                if _change(seam, self.by)[0]:
                    begins = np.concatenate([[0], begins])
            if not begins.size:
                pieces.append(table)
                continue
            end, rows = int(begins[-1]), sum(piece.num_rows for piece in pieces)
            whole = pa.concat_tables([*pieces, table.slice(0, end)])
            starts = begins[:-1] + rows
            if whole.num_rows:
                yield whole, starts if starts.size and not starts[0] else np.concatenate([[0], starts])
            pieces = [table.slice(end)]
        if pieces:
            yield pa.concat_tables(pieces), np.zeros(1, np.int64)

    def _gathered(self, table: Any, starts: NDArray[np.int64]) -> Any:
        """Convert groups of rows to a table with one row per group.

        Raises:
            SourceError: the column of a context field is not constant in a group.
        """
        import pyarrow as pa

        table = table.combine_chunks()
        self.rows, self.groups = self.rows + table.num_rows, self.groups + starts.size
        inside = np.ones(max(0, table.num_rows - 1), bool)
        inside[starts[1:] - 1] = False
        self._count_times(table, inside)
        columns = {}
        for of, name in self.column_of.items():
            field, column = self.schema[of], one_array(table[name])
            if field.is_list:
                columns[field.name] = _lists(field, column, starts)
                inner = column.flatten(recursive=True).null_count if hasattr(column, "values") else 0
                self.missing += column.null_count + inner
                continue
            if name not in self.by:
                changes = _change(table, [name]) & inside
                if changes.any():
                    raise self._not_constant(table, name, field, int(np.argmax(changes)))
            columns[field.name] = column.take(pa.array(starts))
        return pa.table(columns)

    def _not_constant(self, table: Any, name: str, field: Field, row: int) -> SourceError:
        group = ", ".join(f"{by}={table[by][row].as_py()!r}" for by in self.by) or "of all rows"
        first, second = (table[name][index].as_py() for index in (row, row + 1))
        advice = "declare a feature_list, or make the groups smaller by another column"
        if any(value in (None, "") for value in (first, second)):
            advice = f"a cell is empty: fill it first, for example by frame.groupby(...)[{name!r}].transform('first')"
        problem = f"column {name!r}, for the context field {field.name!r}, is not constant in the group {group}"
        return SourceError(f"{problem}: {first!r}, then {second!r}; {advice}")

    def _count_times(self, table: Any, inside: NDArray[np.bool_]) -> None:
        """Count the rows that have the same time as the row before, and the gaps in times.

        Gaps are counted only if most times have the same distance. A gap is more than 1.5 times that distance.
        """
        import pyarrow as pa

        if not self.order or not inside.any():
            return
        for name in self.order:
            _check_order_of_texts(name, one_array(table[name]), inside)
        self.equal_times += int((inside & ~_change(table, self.order)).sum())
        column = one_array(table[self.order[-1]])
        kind = column.type
        if pa.types.is_temporal(kind):
            self._unit = getattr(kind, "unit", "D" if kind.bit_width == 32 else "ms")  # noqa: PLR2004
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
    by: str | Sequence[str] | None,
    order: str | Sequence[str] | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    extra: Literal["error", "ignore"] = "error",
    cast: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    memory: int = MEMORY,
    progress: bool | None = None,
) -> RowGroups:
    """Read records from a table with one row per step; each sorted group of rows becomes a record.

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

    A feature list has one value per row. A context field has the value of its column, which must be the same in all
    rows of a group. A column of lists gives steps with a shape. Records are sorted by `by`. Sorted input is passed on
    as it is read; other rows are sorted, on disk if they exceed `memory`. An optional feature list is None if all its
    values in a group are null.

    Args:
        source: table, path, glob or list of paths, as in `from_table`.
        record_class: record class or `Schema` of the records.
        by: column, or columns, whose values group rows into records; None to form a single record from all rows.
        order: column, or columns, to sort the rows of a group by; None keeps their order.
        columns: mapping from field name to column name, if they differ, or to a list of columns for a shape `(n,)`.
        extra: `error` to reject columns without a field (except `by` and `order`), or `ignore` to leave them out.
        cast: whether to allow lossy casts to the declared type, as in `from_table`.
        on_error: `raise`, or `skip` to leave out records that do not fit, log the first, and count them. A cell of a
            text file that is not a value of its type always raises an error.
        memory: bytes of rows to sort at once (default: 160 MiB); peak memory is about eight times as large.
        progress: True shows a progress bar of the rows read, False does not; None decides as in `write`.

    Raises:
        OptionError: the columns do not match the fields.
        SourceError: during iteration or writing, the column of a context field changes within a group, or a row has no
            value for `by` or `order`, or `order` would sort numbers or days as text, or a cell of a text file cannot be
            converted.
        RecordError: during iteration or writing, a value does not fit its field.
    """
    schema = Schema.of(record_class)
    texts = [by] if isinstance(by, str) else list(by or ())  # as numbers, 007 and 7 would be one group
    table = open_table(source, schema, columns, steps=True, texts=texts, cast=cast)
    fitted: Any = {"columns": columns, "extra": extra, "cast": cast, "on_error": on_error}
    return RowGroups(table, schema, by=by, order=order, **fitted, memory=memory, progress=progress)


def _check_order_of_texts(name: str, column: Any, inside: NDArray[np.bool_]) -> None:
    """Raise `SourceError` if the rows of a group are sorted by numbers or days as text, such as 10 before 9."""
    pc = compute()
    column = pc.cast(column, getattr(column.type, "value_type", column.type))  # in_order encodes text as a dictionary
    if not _is_text(column.type):
        return
    is_number = pc.match_substring_regex(column, r"^[+-]?\d+(\.\d*)?$")
    numbers = pc.cast(pc.if_else(is_number, column, None), "float64").to_numpy(zero_copy_only=False)
    falls = np.append(inside & (np.diff(numbers) < 0), False)
    falls |= pc.match_substring_regex(column, r"^\d{1,2}[./]\d{1,2}[./]\d{2,4}\b").to_numpy(zero_copy_only=False)
    if falls.any():
        others = pc.filter(column, pc.invert(is_number))
        text = f"order: the column {name!r} is text{f', such as {others[0].as_py()!r}' if len(others) else ''}"
        raise SourceError(f"{text}: convert it to numbers or times; {column[int(falls.argmax())]} is out of order")


def _change(table: Any, names: Sequence[str]) -> NDArray[np.bool_]:
    """Check for each row but the first whether one of the columns differs from the row before.

    NaN counts as equal to NaN.
    """
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
        array = pc.add(array.cast(pa.float64()), 0.0)  # turns -0.0 into 0.0
    differs = np.zeros(max(0, len(array) - 1), bool)
    differs[pc.run_end_encode(array).run_ends.to_numpy()[:-1] - 1] = True
    return differs


def _lists(field: Field, column: Any, starts: NDArray[np.int64]) -> Any:
    """Convert a column to one list per group.

    If all values of a group are null, the list of an optional field is null, too.
    """
    import pyarrow as pa

    ends = np.append(starts, len(column))
    mask = None
    if field.optional and column.null_count:
        missing = bounds(column.is_null().to_numpy(zero_copy_only=False).astype(np.int64))[ends]
        mask = pa.array(np.diff(missing) == np.diff(ends))
    return pa.LargeListArray.from_arrays(pa.array(ends), column, mask=mask)
