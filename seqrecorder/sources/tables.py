"""Tables whose rows are records: `from_table`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from seqrecorder.codec.arrow import arrow_type, is_table, pyarrow, table_of
from seqrecorder.errors import OptionError
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.table_files import is_path, table_of_files
from seqrecorder.writing.columns import TableRecords

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.codec.arrow import Table


def from_table(
    table: Any,
    record_class: object,
    *,
    columns: Mapping[str, str] | None = None,
    extra: Literal["error", "ignore"] = "error",
    cast: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
) -> TableRecords:
    """Return the rows of a table as records, in columns: `write` makes no object of them, an iteration does.

    >>> import tempfile, numpy as np, pyarrow as pa, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> table = pa.table({"tokens": [[1, 2], [3]], "n": [2, 1]})
    >>> records = sr.from_table(table, Sentence, columns={"ids": "tokens"}, extra="ignore")
    >>> records
    <Sentence records, a row each, of Table, ignored=['n']>
    >>> sr.write(records, tempfile.mkdtemp()).records
    2

    A list column is a feature list, or ragged values; lists inside of it are the dimensions of a step. Of a sparse
    field there are the two columns `<field>/indices` and `<field>/values`. Categories are the values that they stand
    for. Only some batches of files and streams are in memory.

    Args:
        table: of any library with the Arrow C interface (pandas, polars, pyarrow, DuckDB) or of Hugging Face, a stream
            of such; or a path of Parquet, Arrow, CSV or JSON lines, a glob, a directory of such, or a list of paths.
        record_class: of the records.
        columns: the column of a field, where that has another name.
        extra: what becomes of columns that are no field: `error`, or `ignore`, which lists them as `ignored`.
        cast: whether numbers may become the declared type where that may lose something: floats are rounded to
            narrower ones, whole floats become integers, 0 and 1 bools. What does not fit is refused.
        on_error: `skip` leaves rows out that do not fit, logs the first and counts them, in the manifest too.

    Raises:
        OptionError: columns and fields do not belong together, or a column is of a type that no field holds.
        DatasetNotFoundError: there is no such file.
        SourceError: a file is not of its format, or the library that gives the table failed.
        RecordError: while iterating or writing: a value does not fit; a null of a float is NaN, of others an error.
    """
    schema = Schema.of(record_class)
    return TableRecords(
        open_table(table, schema, columns), schema, columns=columns, extra=extra, cast=cast, on_error=on_error
    )


def open_table(
    given: Any, schema: Schema | None = None, columns: Mapping[str, str] | None = None, *, steps: bool = False
) -> Table:
    """Return a table that is given, or lies in files.

    Args:
        given: see `from_table`.
        schema: fields whose types hold in files of text, which tell none.
        columns: the column of a field, where that has another name.
        steps: whether a row is a step, and no record.

    Raises:
        OptionError: it is no table.
        DatasetNotFoundError: there is no such file.
        SourceError: a file is not of its format.
    """
    if is_path(given):
        return table_of_files(given, None if schema is None else _types_of(schema, columns or {}, steps=steps))
    if is_table(given):
        return table_of(given)
    advice = "; polars: give .collect()" if type(given).__name__ == "LazyFrame" else ""
    if isinstance(given, (list, tuple)) or hasattr(given, "__next__"):
        advice = "; dictionaries and records go to seqrecorder.write(rows, destination, schema=Class)"
    raise OptionError(
        "expected a table with the Arrow C interface (pandas, polars, pyarrow, DuckDB), a dataset of Hugging Face, or "
        f"a path, got {type(given).__name__}{advice}"
    )


def _types_of(schema: Schema, columns: Mapping[str, str], *, steps: bool) -> Any:
    """Return the function that gives types for the columns of text files, as the fields of these columns declare."""
    pa = pyarrow()

    fields = {columns.get(field.name, field.name): field for field in schema.fields if field.sparse is None}

    def types(names: Sequence[str]) -> dict[str, Any]:
        found = {}
        for name in names:
            field = fields.get(name)
            if field is None or field.element.name == "bfloat16" or field.element.numpy.kind in "ecm":
                continue  # what text is read as is exact enough, or refused later
            kind = arrow_type(field.element, name)
            kind = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)
            for _ in range(int(field.is_list and not steps) + len(field.shape)):
                kind = pa.list_(kind)
            found[name] = kind
        return found

    return types
