"""Export of records to Arrow, pandas, polars, Hugging Face, Parquet, JSON Lines and NumPy arrays.

Each function implements the method of `Selection` with the same name. Only the requested fields are parsed, and no
record objects are created.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.arrow import arrow_batch, arrow_schema, one_array, pyarrow
from seqrecorder.codec.columns import Column
from seqrecorder.codec.json import check_json, json_lines
from seqrecorder.errors import OptionError
from seqrecorder.storage.files import open_text, replaced_file
from seqrecorder.wire.byte_rows import bounds

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from seqrecorder.dataset.record_store import Rows
    from seqrecorder.schema.field import Field

    Fields = Sequence[str] | None

_MOST_SECONDS = (2**63 - 1) // 1000  # limit of int64 milliseconds, the unit of polars and Parquet


def to_arrow(rows: Rows, fields: Fields) -> Any:
    """Stream the records as Arrow record batches."""
    pa = pyarrow()
    schema = rows.schema.select(fields)
    batches = (arrow_batch(schema, columns) for columns in rows.columns(fields, joined=True))
    return pa.RecordBatchReader.from_batches(arrow_schema(schema), batches)


def to_pandas(rows: Rows, fields: Fields) -> Any:
    """Build a pandas data frame.

    NaN in an optional field is an error, because pandas cannot distinguish it from None.
    """
    _library("pandas")
    table = to_arrow(rows, fields).read_all()
    for field in rows.schema.select(fields).fields:
        if field.is_scalar and field.optional and field.element.has_nan:
            values = one_array(table[field.name].drop_null()).to_numpy(zero_copy_only=False)
            if np.isnan(values).any():
                text = "pandas cannot tell NaN from None, which it may be; leave it out (fields=), or go to polars"
                raise OptionError(f"field {field.name!r}: {text}")
    try:
        return table.to_pandas(integer_object_nulls=True)  # otherwise, optional integers become floats
    except (ValueError, OverflowError) as error:
        days = [field.name for field in rows.schema.fields if field.element.name == "datetime64[D]"]
        raise OptionError(
            f"pandas has the days of Python, of the years 1 to 9999, for {', '.join(map(repr, days))}: {error}; "
            "leave the field out (fields=), or go to polars"
        ) from error


def to_polars(rows: Rows, fields: Fields) -> Any:
    """Build a polars frame.

    Times in seconds become milliseconds, because polars has no type for seconds.
    """
    polars = _library("polars")
    return polars.from_arrow(_within_milliseconds(to_arrow(rows, fields)).read_all())


def to_hf(rows: Rows, fields: Fields) -> Any:
    """Build a Hugging Face dataset in memory."""
    return _library("datasets").Dataset(to_arrow(rows, fields).read_all())


def to_parquet(rows: Rows, path: str | os.PathLike[str], fields: Fields, options: dict[str, Any]) -> None:
    """Write a Parquet file batch by batch."""
    optional = {field.name for field in rows.schema.fields if field.optional}
    reader = _for_parquet(_within_milliseconds(to_arrow(rows, fields)), optional)
    from pyarrow import parquet

    options.setdefault("write_page_checksum", True)
    with replaced_file(path) as part, parquet.ParquetWriter(part, reader.schema, **options) as writer:
        for batch in reader:
            writer.write_batch(batch)


def to_jsonl(rows: Rows, path: str | os.PathLike[str], fields: Fields) -> None:
    """Write a JSON Lines file batch by batch."""
    schema = rows.schema.select(fields)
    check_json(schema)
    with replaced_file(path) as part, open_text(part) as file:
        for columns in rows.columns(fields):
            file.writelines(f"{line}\n" for line in json_lines(schema, columns))


def to_file(rows: Rows, path: str, fields: Fields) -> None:
    """Write a file in the format that its suffix implies.

    Raises:
        OptionError: the suffix is unknown. For all other errors, see `Selection.to_parquet` and `Selection.to_jsonl`.
    """
    name = path.lower()
    if name.endswith(".parquet"):
        to_parquet(rows, path, fields, {})
    elif name.removesuffix(".gz").endswith(".jsonl"):
        to_jsonl(rows, path, fields)
    else:
        raise OptionError(f"expected a file name that ends with .parquet, .jsonl or .jsonl.gz, got {path!r}")


def to_columns(rows: Rows, fields: Fields) -> dict[str, Column]:
    """Concatenate the columns of all records."""
    schema = rows.schema.select(fields)
    parts = list(rows.columns(fields))
    return {field.name: _joined(field, [part[field.name] for part in parts]) for field in schema.fields}


def _within_milliseconds(reader: Any) -> Any:
    """Check, batch by batch, that times in seconds fit into int64 milliseconds."""
    pa = pyarrow()

    def checked(batch: Any) -> Any:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            while pa.types.is_nested(array.type):
                array = array.flatten()  # noqa: PLW2901 - descend to the innermost values
            if getattr(array.type, "unit", None) != "s":
                continue
            seconds = array.drop_null().view(pa.int64()).to_numpy()
            if seconds.size and not -_MOST_SECONDS <= seconds.min() <= seconds.max() <= _MOST_SECONDS:
                text = "expected times that can be counted in milliseconds, got one further from 1970; "
                raise OptionError(f"field {name!r}: {text}leave the field out (fields=), or go to Arrow")
        return batch

    return pa.RecordBatchReader.from_batches(reader.schema, map(checked, reader))


def _for_parquet(reader: Any, optional: set[str]) -> Any:
    """Convert optional vectors to lists, because some versions of pyarrow cannot read fixed-size lists with nulls."""
    pa = pyarrow()
    kinds, names = list(reader.schema.types), reader.schema.names
    vectors = [i for i, kind in enumerate(kinds) if pa.types.is_fixed_size_list(kind) and names[i] in optional]
    if not vectors:
        return reader
    for number in vectors:
        kinds[number] = pa.large_list(kinds[number].value_type)
    schema = pa.schema(list(zip(names, kinds, strict=True)))

    def changed(batch: Any) -> Any:
        arrays = list(batch.columns)
        for number in vectors:
            present = arrays[number].is_valid().to_numpy(zero_copy_only=False)
            ends = pa.array(bounds(present * arrays[number].type.list_size))
            mask = pa.array(~present)
            arrays[number] = pa.LargeListArray.from_arrays(ends, arrays[number].flatten(), mask=mask)
        return pa.record_batch(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, map(changed, reader))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OptionError(f"this needs {name}: pip install {name}") from None


def _joined(field: Field, parts: Sequence[Column]) -> Column:
    """Concatenate consecutive columns of one field."""
    lengths = np.empty(0, np.int64)
    empty = Column(
        np.empty((0, *field.rest), field.element.numpy),
        steps=lengths if field.is_list else None,
        counts=lengths if field.is_ragged or field.sparse is not None else None,
        indices=lengths if field.sparse is not None else None,
    )

    def joined(name: str) -> Any:
        if getattr(empty, name) is None:
            return None
        return np.concatenate([getattr(empty, name), *(getattr(part, name) for part in parts)])

    present = None
    if any(part.present is not None for part in parts):
        masks = (np.ones(part.records, bool) if part.present is None else part.present for part in parts)
        present = np.concatenate(list(masks))
    return Column(joined("values"), joined("steps"), joined("counts"), joined("indices"), present)
