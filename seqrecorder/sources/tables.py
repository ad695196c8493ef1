"""Records from tables with one row per record, and the table files that `from_table` reads.

Tables with one row per step are in `seqrecorder.sources.row_per_step`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.arrow import BATCH_ROWS, Table, arrow_type, compute, pyarrow, table_of
from seqrecorder.codec.columns import is_table
from seqrecorder.errors import DatasetNotFoundError, OptionError, SourceError, did_you_mean
from seqrecorder.schema.exact_values import describe
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.csv import advice_on_width
from seqrecorder.storage.files import files_named, local_path, natural_order
from seqrecorder.wire.byte_rows import bounds
from seqrecorder.writing.columns import TableRecords, check_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


_FORMATS: dict[str, str] = dict.fromkeys((".parquet", ".pq"), "parquet")
_FORMATS |= dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow")
_FORMATS |= dict.fromkeys((".csv", ".tsv"), "csv") | dict.fromkeys((".jsonl", ".ndjson"), "json")
_WIDTHS = re.compile(r"Expected (\d+) columns, got (\d+)")
_TIMES = {"date32[day]": "a date such as 2017-01-31", "date64[ms]": "a month such as 2017-01, or a year"}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")


def is_path(source: object) -> bool:
    """Check whether a source names files: a path, a glob, or a list of paths and globs.

    >>> is_path("a.csv"), is_path(["a.csv", "b.csv"]), is_path([{"a": 1}])
    (True, True, False)
    """
    source = source if isinstance(source, (list, tuple)) else [source]
    return bool(source) and all(isinstance(item, (str, Path)) or hasattr(item, "__fspath__") for item in source)


def is_table_file(path: Any) -> bool:
    """Check whether a path or glob has the suffix of a table file.

    >>> is_table_file("a.csv.gz"), is_table_file("a.tfrecord")
    (True, False)
    """
    return _format_of(Path(path)) is not None


def is_csv(source: object) -> bool:
    """Check whether a source names files that are all CSV."""
    return is_path(source) and {*map(_format_of, _files(source))} == {"csv"}


def table_of_files(
    path: Any, types: Mapping[str, Any], *, skip: bool = False, cast: bool = False, merge: bool = False
) -> Table:
    """Open files as one concatenated table.

    Only a few batches are in memory at once.

    Args:
        path: path, glob, directory or list of paths. The suffix of a file determines its format: `.parquet`, `.arrow`,
            `.feather`, `.csv`, `.tsv` or `.jsonl`; in text formats, `.gz`, `.bz2`, `.zst` or `.lz4` may follow.
        types: mapping from column name to pyarrow type, for text files.
        skip: whether to leave out rows of text files that cannot be converted; the table lists them in `left_out`.
        cast: whether integers of a CSV may be written as whole floats, such as `2.0`.
        merge: whether to convert all batches of a column exactly to a common type.

    Raises:
        DatasetNotFoundError: the file does not exist.
        OptionError: the suffix of a file belongs to no known format.
        SourceError: a file is not in the format of its suffix, or its columns differ from those of the first file.
    """
    files = _files(path)
    schemas = {file: _schema(file) for file in files}
    names = tuple(schemas[files[0]].names)
    for file, schema in schemas.items():
        if set(schema.names) != set(names):
            differing = sorted(set(schema.names) ^ set(names))
            raise SourceError(f"{file}: expected the columns of {files[0]}, {', '.join(names)}; {differing} differ")

    left_out: list[str] = []

    def read(wanted: Sequence[str]) -> Iterator[Any]:
        kinds = {name: types[name] for name in wanted if name in types}
        common = _common_types(schemas, wanted, kinds) if merge else {}
        for file in files:
            with _named(file):
                for batch in _batches(file, list(wanted), kinds, left_out if skip else None, cast=cast):
                    yield _with_types(batch, common)

    name = str(files[0] if isinstance(path, (list, tuple)) else path) + f" ({len(files)} files)" * (len(files) > 1)
    return Table(name, names, again=True, open=read, left_out=left_out)


def _common_types(schemas: dict[Path, Any], wanted: Sequence[str], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Find a common type for each column whose type differs between the files.

    If the field has a float type, columns of integers are converted to it.

    Raises:
        SourceError: the types of a column have no common type, such as text and numbers.
    """
    pa, types, common = pyarrow(), pyarrow().types, dict[str, Any]()
    for name in wanted:
        field, kinds = declared.get(name, pa.null()), dict[Any, Path]()
        for file, schema in reversed(schemas.items()):  # keeps the first file of each type
            is_text = name in declared and _format_of(file) in ("csv", "json")
            kinds[field if is_text else schema.field(name).type] = file
        plain = [kind.value_type if types.is_dictionary(kind) else kind for kind in kinds]
        plain = [field if types.is_integer(kind) and types.is_floating(field) else kind for kind in plain]
        try:
            if len({*map(types.is_decimal, plain)}) > 1:  # Arrow would round decimals to floats
                raise pa.ArrowTypeError
            merged = pa.unify_schemas([pa.schema([(name, kind)]) for kind in plain], promote_options="permissive")
        except pa.ArrowException:
            got = ", ".join(f"{kind} in {file.name}" for kind, file in reversed(kinds.items()))
            raise SourceError(f"column {name!r}: expected one type in all files, got {got}: convert one") from None
        common |= {name: merged.field(0).type} if len(kinds) > 1 else {}
    return common


def _with_types(batch: Any, common: Mapping[str, Any]) -> Any:
    """Convert columns of a batch exactly.

    A value that does not fit raises `SourceError`.
    """
    for name, kind in common.items():
        try:
            batch = batch.set_column(batch.schema.names.index(name), name, batch[name].cast(kind))
        except pyarrow().ArrowException as error:
            text = f"column {name!r}: {batch[name].type} does not become {kind} exactly, as other files need: {error}"
            raise SourceError(text) from error
    return batch


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
            advice = "the command `seqrecorder schema` drafts a class of TFRecord files, and `convert` writes a dataset"
            raise OptionError(f"{file}: expected a file that ends in {', '.join(_FORMATS)}, packed or not; {advice}")
    return files


def _is_hidden(file: Path, directory: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(directory).parts)


def _format_of(file: Path) -> str | None:
    packed = file.suffix.lower() in _COMPRESSED
    name = _FORMATS.get((Path(file.stem).suffix if packed else file.suffix).lower())
    return name if not packed or name in ("csv", "json") else None


@contextlib.contextmanager
def _named(file: Path) -> Iterator[None]:
    """Convert pyarrow errors to `SourceError`s that name the file."""
    try:
        yield
    except (DatasetNotFoundError, OptionError):
        raise
    except SourceError as error:
        raise SourceError(f"{file}, {error}") from error
    except (pyarrow().ArrowException, OSError, ValueError, OverflowError) as error:
        raise SourceError(f"{file}: {_reason(error, file)}") from error


def _reason(error: Exception, file: Path) -> str:
    """Return the message of an error, with advice on how to avoid it.

    There is advice on separators, on encodings, and on lines longer than 1 MiB, the size of Arrow's blocks.
    """
    if isinstance(error, UnicodeDecodeError):
        return f"header: expected UTF-8 (see pandas.read_csv(encoding=...)), got {error}"
    # Arrow counts from 1, and counts the header.
    text = re.sub(r"Row #(\d+)", lambda number: f"row {int(number[1]) - 2}", str(error))
    widths = _WIDTHS.search(text)
    if widths:
        header = io.BufferedReader(pyarrow().input_stream(str(file), compression="detect")).readline().decode("latin-1")
        header = header.replace("\t", "") if ".tsv" in file.name.lower() else header
        return f"{text}{advice_on_width(header, int(widths[2]) - int(widths[1]))}"
    if "straddling" not in text:
        return text
    advice = "give from_jsonl JSON lines of any length, or read it with pyarrow (ReadOptions(block_size=...)) and give"
    return f"a line is longer than 1 MiB: write the table as Parquet, {advice} the table"


def _schema(file: Path) -> Any:
    with _named(file):
        kind = _format_of(file)
        if kind == "parquet":
            with _parquet(file) as opened:
                return opened.schema_arrow
        reader = _csv(file) if kind == "csv" else _arrow(file) if kind == "arrow" else _json(file)
        names = reader.schema.names
        if kind == "csv" and len(names) == 1 and set(";\t|") & set(names[0]):
            raise SourceError(f"header: expected commas between columns, got {names[0]!r}: pandas.read_csv(sep=...)")
        return reader.schema


def _batches(
    file: Path, wanted: list[str], kinds: Mapping[str, Any], left_out: list[str] | None, *, cast: bool
) -> Iterator[Any]:
    """Yield the wanted columns of a file in batches, with text converted to the declared types.

    Args:
        file: path of the file.
        wanted: names of the columns.
        kinds: mapping from column name to declared type, for text files.
        left_out: list that collects a message for each omitted row; with None, the first such row raises an error.
        cast: whether integers of a CSV may be written as whole floats.
    """
    pa, kind = pyarrow(), _format_of(file)
    if kind == "json":
        wide = {name: _wide(declared) for name, declared in kinds.items()}
        return _converted(file, lambda: _json(file, wide), wanted, kinds, _narrower, left_out=left_out)
    if kind == "csv":
        # Read as bytes: the conversion by Arrow turns large numbers into infinity, and its errors name no row.
        texts = {name: declared if pa.types.is_nested(declared) else pa.binary() for name, declared in kinds.items()}

        def rows() -> Any:
            return _csv(file, include_columns=wanted, column_types=texts)

        return _converted(file, rows, wanted, kinds, functools.partial(_value_of_text, cast=cast), left_out=left_out)

    def batches() -> Iterator[Any]:
        if kind == "parquet":
            with _parquet(file) as opened:
                yield from opened.iter_batches(BATCH_ROWS, columns=wanted)
            return
        reader = _arrow(file)  # random access for the file format, an iterator for the stream format
        parts = map(reader.get_batch, range(reader.num_record_batches)) if hasattr(reader, "get_batch") else reader
        for batch in parts:
            batch.validate(full=True)  # an unchecked wrong length or offset can crash the process
            yield batch

    return _converted(file, batches, wanted, {}, _narrower, left_out=left_out)


def _parquet(file: Path) -> Any:
    from pyarrow import parquet

    # Pre-buffering keeps its buffers until the end, so that the whole file would be in memory.
    return parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True)


def _arrow(file: Path) -> Any:
    pa = pyarrow()
    from pyarrow import ipc

    source = pa.memory_map(str(file))
    try:
        return ipc.open_file(source)
    except pa.ArrowInvalid:  # the file is in the stream format
        source.seek(0)
        return ipc.open_stream(source)


def _csv(file: Path, **conversions: Any) -> Any:
    from pyarrow import csv

    parsing = csv.ParseOptions(delimiter="\t" if ".tsv" in file.name.lower() else ",", newlines_in_values=True)
    stream = pyarrow().input_stream(str(file), compression="detect")
    reading = csv.ReadOptions(use_threads=False)  # so that errors name the row; threads make no stream faster
    return csv.open_csv(stream, reading, parsing, csv.ConvertOptions(**conversions))


def _json(file: Path, kinds: Mapping[str, Any] | None = None) -> Any:
    pa = pyarrow()
    from pyarrow import json

    parsing = json.ParseOptions(explicit_schema=pa.schema(list(kinds.items())) if kinds else None)
    source = functools.partial(pa.input_stream, str(file), compression="detect")
    reader, number = io.BufferedReader(source()), 0
    while text := reader.read(1 << 20) + reader.readline():  # whole lines
        null = re.search(rb"\n[ \t\r\n]*null", b"\n" + text) if b"null" in text else None
        number += null.string[: null.end()].count(b"\n") if null else text.count(b"\n")
        if null:  # at the start of a block it would crash the process
            raise SourceError(f"line {number}: expected a JSON object, got null; remove the line")
    if hasattr(json, "open_json"):
        return json.open_json(source(), parse_options=parsing)
    return json.read_json(source(), parse_options=parsing).to_reader()  # pyarrow 18 can only read the whole file


def _value_of_text(array: Any, kind: Any, *, cast: bool = False) -> Any:
    """Convert the bytes of a CSV column to the declared type.

    With `cast`, an integer may have a decimal point and zeros, as in `2.0`.

    Raises:
        ArrowInvalid: a text is not a value of the type.
    """
    from pyarrow import csv

    pa, pc, types = pyarrow(), compute(), pyarrow().types
    if types.is_large_string(kind) or types.is_large_binary(kind):  # marks optional fields, see `_types_of`
        return pc.if_else(pc.equal(pc.binary_length(array), 0), None, array).cast(kind)
    if types.is_nested(kind) or types.is_binary(kind):
        return array
    texts = array.cast(pa.string())  # raises for invalid UTF-8
    if types.is_string(kind):
        return texts
    texts = pc.ascii_trim_whitespace(texts)
    texts = pc.if_else(pc.is_in(texts, value_set=pa.array(csv.ConvertOptions().null_values)), None, texts)
    if types.is_integer(kind):  # Arrow would accept hexadecimal numbers
        _refuse(pc.match_substring(texts, "x", ignore_case=True))
        texts = pc.replace_substring_regex(texts, r"\.0*$", "") if cast else texts
    if types.is_date64(kind):  # marks years and months, see `_types_of`
        texts = pc.replace_substring_regex(texts, r"^(\d{4})$", r"\1-01")
        texts = pc.replace_substring_regex(texts, r"^(\d{4}-\d{2})$", r"\1-01")
        kind = pa.date32()
    values = texts.cast(kind)
    if types.is_floating(kind):  # an infinity without an "n" in its text is an overflow
        _refuse(pc.and_(pc.is_inf(values), pc.invert(pc.match_substring(texts, "n", ignore_case=True))))
    return values


def _narrower(array: Any, kind: Any) -> Any:
    """Convert JSON numbers and times to the declared type, including in lists.

    The JSON parser has read them with the wider types of `_wide`.

    Raises:
        ArrowInvalid: a value is out of the range of the declared type.
    """
    pa = pyarrow()
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
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
    """Yield batches with the wanted columns, converted to their declared types.

    Raises:
        SourceError: a value does not fit, or the file is malformed; the error names the row.
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
        raise SourceError(f"after row {rows}: {_reason(error, file)}") from error


def _bad_rows(column: Any, convert: Callable[[Any], Any], first: int = 0) -> Iterator[tuple[int, Any]]:
    """Find the rows that cannot be converted, and yield their positions and values.

    The column is halved until only single rows are left that fail.
    """
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
        expected = str(kind).removeprefix("large_").replace("string", "UTF-8 (see pandas.read_csv(encoding=...))")
        whole = "int" in expected and isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+\.0*\s*", value)
        return f"expected {expected}, got {describe(value)}{' (cast=True takes it)' if whole else ''}"
    expected = _TIMES.get(str(kind), "a time such as 2017-01-31T12:00:00" + "Z" * bool(getattr(kind, "tz", None)))
    return f"expected {expected}, got {value!r} (convert it by pandas.to_datetime, format= or unit=; give the frame)"


def _wide(kind: Any) -> Any:
    """Widen a type for the JSON parser.

    Numbers get 64 bits, so that the error for a number that does not fit can name its row. Times become text.
    """
    pa, types = pyarrow(), pyarrow().types
    if types.is_list(kind):
        return pa.list_(_wide(kind.value_type))
    if types.is_floating(kind):
        return pa.float64()
    if types.is_date(kind) or types.is_timestamp(kind):  # the JSON parser of Arrow has no dates, and guesses zones
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
    """Read records from a table with one row per record.

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

    The records stay in columns: `write` encodes the columns without building objects, and only iteration builds them.
    A list column is a feature list, or a context field with ragged values; nested lists are the dimensions of a step.
    A sparse field has two columns, `<field>/indices` and `<field>/values`. Categories are decoded to their values. Only
    a few batches of a file or stream are in memory at once.

    Args:
        table: table or stream of tables, from a library with the Arrow C interface (pandas, polars, pyarrow, DuckDB) or
            from Hugging Face; or the path of a Parquet, Arrow, CSV or JSON lines file, a glob, a directory of such
            files, or a list of paths.
        record_class: record class or `Schema` of the records.
        columns: mapping from field name to column name, if they differ, or to a list of n columns, which hold the
            elements of a value of shape `(n,)`, or n steps: `{"features": ["f1", "f2"]}`.
        extra: `error` to reject columns without a field, or `ignore` to list them in `ignored`.
        cast: whether to allow lossy casts to the declared type: floats to narrower floats (rounded), whole floats to
            integers, 0 and 1 to bools. Values that do not fit are rejected in any case.
        on_error: `raise`, or `skip` to leave out rows that do not fit, log the first, and count them; the manifest
            stores the count. A line with too many or too few columns, or invalid JSON, always ends the table
            (`from_jsonl` can skip such lines).

    Raises:
        OptionError: the columns do not match the fields, or no field can store the type of a column.
        DatasetNotFoundError: the file does not exist.
        SourceError: a file is not in the format of its suffix, or the library that provides the table failed.
        RecordError: during iteration or writing, a value does not fit. A null is NaN for floats, and an error for
            other types.
    """
    schema = Schema.of(record_class)
    opened = open_table(table, schema, columns, skip=on_error == "skip", cast=cast)
    return TableRecords(opened, schema, columns=columns, extra=extra, cast=cast, on_error=on_error)


def open_table(
    source: Any,
    schema: Schema | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    *,
    steps: bool = False,
    texts: Sequence[str] = (),
    skip: bool = False,
    cast: bool = False,
) -> Table:
    """Open a table in memory or in files.

    Args:
        source: table or files, as in `from_table`.
        schema: schema whose fields determine the column types of text files.
        columns: mapping from field name to a column name, if they differ, or to a list of columns.
        steps: True if a row is a step, False if it is a record.
        texts: names of the columns of CSV files that are read as text if no field declares their type.
        skip: whether to leave out rows of text files that cannot be converted.
        cast: whether integers of a CSV may be written as whole floats.

    Raises:
        OptionError: the source is not a table.
        DatasetNotFoundError: the file does not exist.
        SourceError: a file is not in the format of its suffix.
    """
    if is_path(source):
        types = dict.fromkeys(texts if is_csv(source) else (), pyarrow().string())
        types |= {} if schema is None else _types_of(schema, columns, steps=steps)
        table = table_of_files(source, types, skip=skip, cast=cast, merge=steps or schema is None)
        return _joined(table, schema, columns)
    if is_table(source):
        return _joined(table_of(source), schema, columns)
    advice = "; polars: give .collect()" if type(source).__name__ == "LazyFrame" else ""
    if isinstance(source, (list, tuple)) or hasattr(source, "__next__"):
        advice = "; dictionaries and records go to seqrecorder.write(rows, destination, schema=Class)"
    kinds = "with the Arrow C interface (pandas, polars, pyarrow, DuckDB), a dataset of Hugging Face, or a path"
    raise OptionError(f"expected a table {kinds}, got {type(source).__name__}{advice}")


def check_names(option: str, names: Iterable[str], table: Table) -> None:
    """Raise `OptionError` if an option names a column that the table does not have."""
    for name in names:
        if name not in table.names:
            close = did_you_mean(name, table.names)
            raise OptionError(f"{option}: {table.name} has no column {name!r}{close}; it has {', '.join(table.names)}")


def _joined(table: Table, schema: Schema | None, columns: Mapping[str, str | Sequence[str]] | None) -> Table:
    """Join the columns listed for a field into one list column with the name of the field."""
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
    """Join columns into an array of lists, one list per row, with a common type for all columns."""
    pa = pyarrow()
    schemas = [pa.schema([pa.field(", ".join(batch.schema.names), kind)]) for kind in batch.schema.types]
    kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    values = pa.concat_arrays([column.cast(kind) for column in batch.columns])
    order = np.arange(len(values)).reshape(batch.num_columns, batch.num_rows).T
    return pa.FixedSizeListArray.from_arrays(values.take(pa.array(order.ravel())), batch.num_columns)


def _types_of(schema: Schema, columns: Mapping[str, str | Sequence[str]] | None, *, steps: bool) -> dict[str, Any]:
    """Map each column of a text file to the pyarrow type that its field declares."""
    pa, names_of, kinds = pyarrow(), check_columns(schema, columns), dict[str, Any]()
    for field in sorted(schema.fields, key=lambda field: not field.optional):  # required fields override optional ones
        unit = np.datetime_data(field.element.numpy)[0] if field.element.is_time else ""
        if field.sparse is not None or field.element.numpy.kind in "cm" or unit in ("ps", "fs", "as"):
            continue  # text files lack these types, so the conversion of records raises an error
        if field.element.name in ("bfloat16", "float16"):  # Arrow cannot parse text to them
            kind = pa.float64()
        elif unit in ("Y", "M"):
            kind = pa.date64()  # a marker for `_value_of_text`, used by no other field
        elif unit in ("W", "h", "m"):  # Arrow lacks these units; times finer than the unit raise an error later
            kind = pa.timestamp("s", field.element.zone)
        else:
            kind = arrow_type(field.element, field.name)
        if not (field.optional and field.kind == "context" and not field.shape):  # a mark for `_value_of_text`
            kind = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)
        names, depth = names_of.get(field.name, field.name), int(field.is_list and not steps) + len(field.shape)
        for _ in range(depth if isinstance(names, str) else depth - 1):
            kind = pa.list_(kind)
        kinds |= dict.fromkeys([names] if isinstance(names, str) else names, kind)
    return kinds
