"""Files of tables: Parquet, Arrow, CSV and JSON lines, one or many, batch by batch."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.arrow import BATCH_ROWS, Table, pyarrow
from seqrecorder.errors import DatasetNotFoundError, OptionError, SourceError
from seqrecorder.storage.names import files_named, local_path, natural_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".br")


def is_path(given: object) -> bool:
    """Whether something names files: a path, a glob, or a list of such.

    >>> is_path("a.csv"), is_path(["a.csv", "b.csv"]), is_path([{"a": 1}])
    (True, True, False)
    """
    given = given if isinstance(given, (list, tuple)) else [given]
    return bool(given) and all(isinstance(item, (str, Path)) or hasattr(item, "__fspath__") for item in given)


def is_table_file(path: Any) -> bool:
    """Whether a path, or a glob, ends as the name of a table does.

    >>> is_table_file("a.csv.gz"), is_table_file("a.tfrecord")
    (True, False)
    """
    return _format_of(Path(path)) is not None


def table_of_files(path: Any, types: Callable[[Sequence[str]], Mapping[str, Any]] | None = None) -> Table:
    """Return the rows of files, one file after the other; only some batches are in memory.

    Args:
        path: of a file whose ending tells its format (`.parquet`, `.arrow`, `.feather`, `.csv`, `.tsv`, `.jsonl`; of
            texts also with `.gz`, `.bz2`, `.zst` or `.lz4`), a glob, a directory of such, or a list.
        types: gives, for the names of columns, types of pyarrow for some, where the files are text.

    Raises:
        DatasetNotFoundError: there is no such file.
        OptionError: the ending of a file tells no format.
        SourceError: a file is not of its format, or has other columns than the first.
    """
    files = _files(path)
    pyarrow()
    names = _opened(files[0], types)[0]
    for file in files[1:]:
        others = _opened(file, types)[0]
        if set(others) != set(names):
            differing = sorted(set(others) ^ set(names))
            raise SourceError(f"{file}: expected the columns of {files[0]}, {', '.join(names)}; {differing} differ")

    def read(wanted: Sequence[str]) -> Iterator[Any]:
        for file in files:
            with _named(file):
                yield from _opened(file, types, wanted)[1]

    name = str(files[0] if isinstance(path, (list, tuple)) else path)
    return Table(name if len(files) == 1 else f"{name} ({len(files)} files)", names, again=True, open=read)


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
            raise OptionError(f"{file}: expected a file that ends in {', '.join(_FORMATS)}, packed or not")
    return files


def _is_hidden(file: Path, directory: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(directory).parts)


def _format_of(file: Path) -> str | None:
    packed = file.suffix.lower() in _COMPRESSED
    found = _FORMATS.get((Path(file.stem).suffix if packed else file.suffix).lower())
    return found if not packed or found in ("csv", "json") else None


@contextlib.contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file in what pyarrow says of it."""
    try:
        yield
    except (pyarrow().ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, (SourceError, DatasetNotFoundError)):
            raise
        raise SourceError(f"{file}: {error}") from error


def _opened(
    file: Path, types: Callable[[Sequence[str]], Mapping[str, Any]] | None, wanted: Sequence[str] | None = None
) -> tuple[tuple[str, ...], Iterator[Any]]:
    """Return the names of a file's columns, and the batches of the wanted ones."""
    with _named(file):
        kind = _format_of(file)
        if kind == "parquet":
            return _parquet(file, wanted)
        if kind == "arrow":
            return _arrow(file, wanted)
        return (_csv if kind == "csv" else _json)(file, types, wanted)


def _parquet(file: Path, wanted: Sequence[str] | None) -> tuple[tuple[str, ...], Iterator[Any]]:
    from pyarrow import parquet

    # With buffers read ahead, which are kept to the end, the whole file would be in memory.
    opened = parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
    names = tuple(opened.schema_arrow.names)
    if wanted is None:
        opened.close()
        return names, iter(())

    def batches() -> Iterator[Any]:
        with opened:
            for batch in opened.iter_batches(BATCH_ROWS, columns=list(wanted)):
                yield batch.select(list(wanted))

    return names, batches()


def _arrow(file: Path, wanted: Sequence[str] | None) -> tuple[tuple[str, ...], Iterator[Any]]:
    pa = pyarrow()
    from pyarrow import ipc

    source = pa.memory_map(str(file))
    try:
        reader = ipc.open_file(source)
        batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    except pa.ArrowInvalid:  # the form of streams
        source.seek(0)
        reader = batches = ipc.open_stream(source)
    names = tuple(reader.schema.names)
    return names, iter(()) if wanted is None else (batch.select(list(wanted)) for batch in batches)


def _csv(
    file: Path, types: Callable[[Sequence[str]], Mapping[str, Any]] | None, wanted: Sequence[str] | None
) -> tuple[tuple[str, ...], Iterator[Any]]:
    pa = pyarrow()
    from pyarrow import csv

    separator = "\t" if ".tsv" in file.name.lower() else ","
    parsing = csv.ParseOptions(delimiter=separator, newlines_in_values=True)

    def opened(**conversions: Any) -> Any:
        stream = pa.input_stream(str(file), compression="detect")
        return csv.open_csv(stream, parse_options=parsing, convert_options=csv.ConvertOptions(**conversions))

    if wanted is None:
        with opened() as reader:
            return tuple(reader.schema.names), iter(())
    kinds = dict(types(wanted)) if types is not None else {}
    return tuple(wanted), iter(opened(include_columns=list(wanted), column_types=kinds))


def _json(
    file: Path, types: Callable[[Sequence[str]], Mapping[str, Any]] | None, wanted: Sequence[str] | None
) -> tuple[tuple[str, ...], Iterator[Any]]:
    pa = pyarrow()
    from pyarrow import json

    def opened(kinds: Mapping[str, Any]) -> Any:
        schema = pa.schema(list(kinds.items())) if kinds else None
        parsing = json.ParseOptions(explicit_schema=schema)
        source = pa.input_stream(str(file), compression="detect")
        if hasattr(json, "open_json"):
            return json.open_json(source, parse_options=parsing)
        return json.read_json(source, parse_options=parsing).to_reader()  # as a whole: pyarrow 18 has no other way

    if wanted is None:
        reader = opened({})
        return tuple(reader.schema.names), iter(())
    kinds = dict(types(wanted)) if types is not None else {}
    return tuple(wanted), (batch.select(list(wanted)) for batch in opened(kinds))
