"""Tables whose rows are records: `from_table`."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.arrow import BATCH_ROWS, Table, arrow_type, compute, pyarrow, table_of
from seqrecorder.codec.columns import is_table
from seqrecorder.errors import DatasetNotFoundError, OptionError, SourceError, did_you_mean
from seqrecorder.schema.conversion import describe
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.files import files_named, local_path, natural_order
from seqrecorder.wire.byte_rows import bounds
from seqrecorder.writing.columns import TableRecords, check_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
}
_WIDTHS = re.compile(r"Expected (\d+) columns, got (\d+)")
_TIMES = {"date32[day]": "a date such as 2017-01-31", "date64[ms]": "a month such as 2017-01, or a year"}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")


def is_path(source: object) -> bool:
    """Check whether a source names files: a path, a glob, or a list of both.

    >>> is_path("a.csv"), is_path(["a.csv", "b.csv"]), is_path([{"a": 1}])
    (True, True, False)
    """
    source = source if isinstance(source, (list, tuple)) else [source]
    return bool(source) and all(isinstance(item, (str, Path)) or hasattr(item, "__fspath__") for item in source)


def is_table_file(path: Any) -> bool:
    """Check whether a path, or a glob, has the suffix of a table file.

    >>> is_table_file("a.csv.gz"), is_table_file("a.tfrecord")
    (True, False)
    """
    return _format_of(Path(path)) is not None


def table_of_files(path: Any, types: Mapping[str, Any], *, skip: bool = False) -> Table:
    """Return the rows of files, one file after the other; only some batches are in memory.

    Args:
        path: of a file whose ending tells its format (`.parquet`, `.arrow`, `.feather`, `.csv`, `.tsv`, `.jsonl`; of
            texts also with `.gz`, `.bz2`, `.zst` or `.lz4`), a glob, a directory of such, or a list.
        types: of pyarrow, of some columns by name, where the files are text.
        skip: whether rows of text that cannot be read are left out; the table lists them.

    Raises:
        DatasetNotFoundError: there is no such file.
        OptionError: the ending of a file tells no format.
        SourceError: a file is not of its format, or has other columns than the first.
    """
    files = _files(path)
    names = _names(files[0])
    for file in files[1:]:
        others = _names(file)
        if set(others) != set(names):
            differing = sorted(set(others) ^ set(names))
            raise SourceError(f"{file}: expected the columns of {files[0]}, {', '.join(names)}; {differing} differ")

    left_out: list[str] = []

    def read(wanted: Sequence[str]) -> Iterator[Any]:
        kinds = {name: types[name] for name in wanted if name in types}
        for file in files:
            with _named(file):
                yield from _batches(file, list(wanted), kinds, left_out if skip else None)

    name = str(files[0] if isinstance(path, (list, tuple)) else path)
    name = name if len(files) == 1 else f"{name} ({len(files)} files)"
    return Table(name, names, again=True, open=read, left_out=left_out)


def _files(path: Any) -> list[Path]:
    if not isinstance(path, (list, tuple)) and local_path(path).is_dir():
        directory = local_path(path)
        files = [file for file in directory.rglob("*") if file.is_file() and not _is_hidden(file, directory)]
        files = sorted((file for file in files if _format_of(file) is not None), key=natural_order)
        if not files:
            raise DatasetNotFoundError(f"{directory} holds no file that ends in {', '.join(_FORMATS)}", path=path)
    else:
        files = files_named(path, natural_order)
    for file in files:
        if _format_of(file) is None:
            raise OptionError(
                f"{file}: expected a file that ends in {', '.join(_FORMATS)}, packed or not; for TFRecord files, the "
                "command `seqrecorder schema` drafts a class, and `convert` writes a dataset"
            )
    return files


def _is_hidden(file: Path, directory: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(directory).parts)


def _format_of(file: Path) -> str | None:
    packed = file.suffix.lower() in _COMPRESSED
    name = _FORMATS.get((Path(file.stem).suffix if packed else file.suffix).lower())
    return name if not packed or name in ("csv", "json") else None


@contextlib.contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file in errors of pyarrow."""
    try:
        yield
    except (DatasetNotFoundError, OptionError):
        raise
    except SourceError as error:
        raise SourceError(f"{file}, {error}") from error
    except (pyarrow().ArrowException, OSError, ValueError, OverflowError) as error:
        raise SourceError(f"{file}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Add advice to an error of Arrow's about row names, or about a line longer than its blocks of 1 MiB."""
    widths = _WIDTHS.search(str(error))
    if widths and int(widths[2]) == int(widths[1]) + 1:
        return f"{error} (row names without a column name, as R's write.table has them? write with row.names=FALSE)"
    if "straddling" not in str(error):
        return str(error)
    return (
        "a line is longer than 1 MiB: write the table as Parquet, give from_jsonl JSON lines of any length, or read it "
        "with pyarrow (ReadOptions(block_size=...)) and give the table"
    )


def _names(file: Path) -> tuple[str, ...]:
    with _named(file):
        kind = _format_of(file)
        if kind == "parquet":
            with _parquet(file) as opened:
                return tuple(opened.schema_arrow.names)
        reader = _csv(file) if kind == "csv" else _arrow(file) if kind == "arrow" else _json(file)
        names = tuple(reader.schema.names)
        if kind == "csv" and len(names) == 1 and set(";\t|") & set(names[0]):
            raise SourceError(f"header: expected commas between columns, got {names[0]!r}: pandas.read_csv(sep=...)")
        return names


def _batches(file: Path, wanted: list[str], kinds: Mapping[str, Any], left_out: list[str] | None) -> Iterator[Any]:
    """Yield the wanted columns of a file, of the declared types where it is text.

    Args:
        file: its path.
        wanted: names of columns.
        kinds: their declared types, where the file is text.
        left_out: gets the messages of rows that are left out; None raises the first one.
    """
    pa, kind = pyarrow(), _format_of(file)
    if kind == "json":
        wide = {name: _wide(declared) for name, declared in kinds.items()}
        return _converted(file, lambda: _json(file, wide), wanted, kinds, _narrower, left_out=left_out)
    if kind == "csv":
        # Arrow's own conversion forgets whether an infinity was written as one, and names no row.
        texts = {name: declared if pa.types.is_nested(declared) else pa.binary() for name, declared in kinds.items()}

        def rows() -> Any:
            return _csv(file, include_columns=wanted, column_types=texts)

        return _converted(file, rows, wanted, kinds, _value_of_text, left_out=left_out)

    def batches() -> Iterator[Any]:
        if kind == "parquet":
            with _parquet(file) as opened:
                yield from opened.iter_batches(BATCH_ROWS, columns=wanted)
            return
        reader = _arrow(file)  # of a file, or of a stream
        for batch in (
            map(reader.get_batch, range(reader.num_record_batches)) if hasattr(reader, "get_batch") else reader
        ):
            batch.validate(full=True)  # a wrong length or offset ends the process where it is believed
            yield batch

    return _converted(file, batches, wanted, {}, _narrower, left_out=left_out)


def _parquet(file: Path) -> Any:
    from pyarrow import parquet

    # With buffers read ahead, which are kept to the end, the whole file would be in memory.
    return parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True)


def _arrow(file: Path) -> Any:
    pa = pyarrow()
    from pyarrow import ipc

    source = pa.memory_map(str(file))
    try:
        return ipc.open_file(source)
    except pa.ArrowInvalid:  # the form of streams
        source.seek(0)
        return ipc.open_stream(source)


def _csv(file: Path, **conversions: Any) -> Any:
    from pyarrow import csv

    parsing = csv.ParseOptions(delimiter="\t" if ".tsv" in file.name.lower() else ",", newlines_in_values=True)
    stream = pyarrow().input_stream(str(file), compression="detect")
    return csv.open_csv(stream, parse_options=parsing, convert_options=csv.ConvertOptions(**conversions))


def _json(file: Path, kinds: Mapping[str, Any] | None = None) -> Any:
    pa = pyarrow()
    from pyarrow import json

    parsing = json.ParseOptions(explicit_schema=pa.schema(list(kinds.items())) if kinds else None)
    source = pa.input_stream(str(file), compression="detect")
    if hasattr(json, "open_json"):
        return json.open_json(source, parse_options=parsing)
    return json.read_json(source, parse_options=parsing).to_reader()  # as a whole: pyarrow 18 has no other way


def _value_of_text(array: Any, kind: Any) -> Any:
    """Convert the bytes of a column of CSV to its declared type.

    Raises:
        ArrowInvalid: one is no such value.
    """
    from pyarrow import csv

    pa, pc, types = pyarrow(), compute(), pyarrow().types
    if types.is_nested(kind) or types.is_binary(kind):
        return array
    texts = array.cast(pa.string())  # refuses what is no UTF-8
    if types.is_string(kind):
        return texts
    texts = pc.ascii_trim_whitespace(texts)
    texts = pc.if_else(pc.is_in(texts, value_set=pa.array(csv.ConvertOptions().null_values)), None, texts)
    if types.is_integer(kind):  # Arrow reads hexadecimal digits
        _refuse(pc.match_substring(texts, "x", ignore_case=True))
    if types.is_date64(kind):  # stands for years and months, see `_types_of`
        texts = pc.replace_substring_regex(texts, r"^(\d{4})$", r"\1-01")
        texts = pc.replace_substring_regex(texts, r"^(\d{4}-\d{2})$", r"\1-01")
        kind = pa.date32()
    values = texts.cast(kind)
    if types.is_floating(kind):  # an infinity that was written as one has an "n"
        _refuse(pc.and_(pc.is_inf(values), pc.invert(pc.match_substring(texts, "n", ignore_case=True))))
    return values


def _narrower(array: Any, kind: Any) -> Any:
    """Convert numbers of JSON that were read as float64, and dates that were read as text, also inside of lists.

    Raises:
        ArrowInvalid: one is beyond the declared type.
    """
    pa = pyarrow()
    if pa.types.is_date(kind):
        return _value_of_text(array, kind)
    if pa.types.is_list(kind) and pa.types.is_nested(array.type):
        offsets = pa.array(bounds(array.value_lengths().fill_null(0).to_numpy()).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, _narrower(array.flatten(), kind.value_type), mask=array.is_null())
    values = array.cast(kind)
    if pa.types.is_floating(array.type):
        _refuse(compute().xor(compute().is_inf(array), compute().is_inf(values)))
    return values


def _refuse(wrong: Any) -> None:
    if compute().any(wrong).as_py():
        raise pyarrow().ArrowInvalid


def _converted(
    file: Path,
    batches: Callable[[], Iterable[Any]],
    wanted: list[str],
    kinds: Mapping[str, Any],
    convert: Callable[..., Any],
    *,
    left_out: list[str] | None,
) -> Iterator[Any]:
    """Yield batches with the wanted columns, those of text converted to the declared types.

    Raises:
        SourceError: a value does not fit, or the text is not of its format; the row is named.
    """
    pa, rows = pyarrow(), 0

    def columns_of(batch: Any) -> list[Any]:
        columns = ((name, batch.column(name)) for name in wanted)
        return [convert(column, kind=kinds[name]) if name in kinds else column for name, column in columns]

    try:
        for batch in batches():
            try:
                columns = columns_of(batch)
            except pa.ArrowInvalid:
                bad: dict[int, str] = {}
                for name in filter(kinds.__contains__, wanted):
                    for row, value in _bad_rows(batch.column(name), functools.partial(convert, kind=kinds[name])):
                        bad[row] = f"row {rows + row}, column {name!r}: {_unfit(value, kinds[name])}"
                        if left_out is None:
                            raise SourceError(bad[row]) from None
                if left_out is not None:
                    left_out.extend(f"{file}, {bad[row]}" for row in sorted(bad))
                columns = columns_of(batch.filter(pa.array([row not in bad for row in range(batch.num_rows)])))
            rows += batch.num_rows
            yield pa.record_batch(columns, names=wanted)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"after row {rows}: {_reason(error)}") from error


def _bad_rows(column: Any, convert: Callable[[Any], Any], first: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield the rows that cannot be converted, which are looked for by halving, and their values."""
    try:
        convert(column)
    except pyarrow().ArrowInvalid:
        half = len(column) // 2
        if half:
            yield from _bad_rows(column.slice(0, half), convert, first)
            yield from _bad_rows(column.slice(half), convert, first + half)
        else:
            value = column[0].as_py()
            yield first, value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _unfit(value: object, kind: Any) -> str:
    if not pyarrow().types.is_temporal(kind):
        return f"expected {kind}, got {describe(value)}"
    expected = _TIMES.get(str(kind), "a time such as 2017-01-31T12:00:00")
    return f"expected {expected}, got {value!r} (convert it with pandas.to_datetime(..., format=...), give the frame)"


def _wide(kind: Any) -> Any:
    """Widen numbers to 64 bits, so that one beyond a narrower type can be refused by its row, and dates to text."""
    pa, types = pyarrow(), pyarrow().types
    if types.is_list(kind):
        return pa.list_(_wide(kind.value_type))
    if types.is_floating(kind):
        return pa.float64()
    if types.is_date(kind):  # which the parser of JSON does not know
        return pa.string()
    return pa.int64() if types.is_integer(kind) and not types.is_uint64(kind) else kind


def from_table(
    table: Any,
    record_class: object,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
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
        columns: the column of a field, where that has another name; or a list of columns that together are the values
            of a shape `(n,)`, or n steps: `{"features": ["f1", "f2"]}`.
        extra: what becomes of columns that are no field: `error`, or `ignore`, which lists them as `ignored`.
        cast: whether numbers may become the declared type where that may lose something: floats are rounded to
            narrower ones, whole floats become integers, 0 and 1 bools. What does not fit is refused.
        on_error: `skip` leaves rows out that do not fit, logs the first and counts them, in the manifest too. A
            line with more or fewer columns, or no JSON, ends a table in any case (`from_jsonl` leaves such lines out).

    Raises:
        OptionError: columns and fields do not belong together, or a column is of a type that no field holds.
        DatasetNotFoundError: there is no such file.
        SourceError: a file is not of its format, or the library that gives the table failed.
        RecordError: while iterating or writing: a value does not fit; a null of a float is NaN, of others an error.
    """
    schema = Schema.of(record_class)
    opened = open_table(table, schema, columns, skip=on_error == "skip")
    return TableRecords(opened, schema, columns=columns, extra=extra, cast=cast, on_error=on_error)


def open_table(
    source: Any,
    schema: Schema | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    *,
    steps: bool = False,
    skip: bool = False,
) -> Table:
    """Open a table in memory, or in files.

    Args:
        source: see `from_table`.
        schema: its fields give the types of columns in text files.
        columns: the column, or columns, of a field, if the names differ.
        steps: True if a row is a step, not a record.
        skip: see `table_of_files`.

    Raises:
        OptionError: it is no table.
        DatasetNotFoundError: there is no such file.
        SourceError: a file is not of its format.
    """
    if is_path(source):
        types = {} if schema is None else _types_of(schema, columns, steps=steps)
        return _joined(table_of_files(source, types, skip=skip), schema, columns)
    if is_table(source):
        return _joined(table_of(source), schema, columns)
    advice = "; polars: give .collect()" if type(source).__name__ == "LazyFrame" else ""
    if isinstance(source, (list, tuple)) or hasattr(source, "__next__"):
        advice = "; dictionaries and records go to seqrecorder.write(rows, destination, schema=Class)"
    raise OptionError(
        "expected a table with the Arrow C interface (pandas, polars, pyarrow, DuckDB), a dataset of Hugging Face, or "
        f"a path, got {type(source).__name__}{advice}"
    )


def check_names(option: str, names: Iterable[str], table: Table) -> None:
    """Raise `OptionError` for a name of an option that is no column's."""
    for name in names:
        if name not in table.names:
            close = did_you_mean(str(name), table.names)
            raise OptionError(f"{option}: {table.name} has no column {name!r}{close}; it has {', '.join(table.names)}")


def _joined(table: Table, schema: Schema | None, columns: Mapping[str, str | Sequence[str]] | None) -> Table:
    """Join the columns listed for a field into one column of lists with the field's name."""
    named = {} if schema is None else check_columns(schema, columns)
    lists = {field: names for field, names in named.items() if not isinstance(names, str)}
    listed = list(itertools.chain.from_iterable(lists.values()))
    check_names("columns", listed, table)

    def read(wanted: Sequence[str]) -> Iterator[Any]:
        for batch in table.open(list(dict.fromkeys(part for name in wanted for part in lists.get(name, [name])))):
            arrays = [_side_by_side(batch.select(lists[name])) if name in lists else batch[name] for name in wanted]
            yield pyarrow().record_batch(arrays, names=list(wanted))

    left = (name for name in table.names if name not in listed)
    return attrs.evolve(table, names=(*left, *lists), open=read) if lists else table


def _side_by_side(batch: Any) -> Any:
    """Return an array of lists, each with the values of a row, of the type that holds those of all columns."""
    pa = pyarrow()
    schemas = [pa.schema([pa.field("value", kind)]) for kind in batch.schema.types]
    kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    values = pa.concat_arrays([column.cast(kind) for column in batch.columns])
    order = np.arange(len(values)).reshape(batch.num_columns, batch.num_rows).T
    return pa.FixedSizeListArray.from_arrays(values.take(pa.array(order.ravel())), batch.num_columns)


def _types_of(schema: Schema, columns: Mapping[str, str | Sequence[str]] | None, *, steps: bool) -> dict[str, Any]:
    """Return the types of the columns of text files, as their fields declare them."""
    pa, names_of, kinds = pyarrow(), check_columns(schema, columns), dict[str, Any]()
    for field in schema.fields:
        unit = np.datetime_data(field.element.numpy)[0] if field.element.is_time else ""
        if field.sparse is not None or field.element.numpy.kind in "cm" or unit in ("ps", "fs", "as"):
            continue  # what text is read as is refused later
        if field.element.name in ("bfloat16", "float16"):  # of which text has no parser
            kind = pa.float64()
        elif unit in ("Y", "M"):
            kind = pa.date64()  # no other field is of it; see `_value_of_text`
        elif unit in ("W", "h", "m"):  # of which Arrow has no type; a time between them is refused later
            kind = pa.timestamp("s", field.element.zone)
        else:
            kind = arrow_type(field.element, field.name)
        kind = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)
        names, depth = names_of.get(field.name, field.name), int(field.is_list and not steps) + len(field.shape)
        for _ in range(depth if isinstance(names, str) else depth - 1):
            kind = pa.list_(kind)
        kinds |= dict.fromkeys([names] if isinstance(names, str) else names, kind)
    return kinds
