"""What selections become in other libraries and files: tables, lines of JSON, flat arrays."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.arrow import arrow_batch, arrow_schema, one_array, pyarrow
from seqrecorder.codec.columns import Column
from seqrecorder.codec.json import check_json, json_lines
from seqrecorder.dataset.selected_values import SelectedValues
from seqrecorder.errors import OptionError
from seqrecorder.storage.files import open_text, replaced_file
from seqrecorder.wire.byte_rows import bounds

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from seqrecorder.schema.field import Field


class Exports(SelectedValues):
    """The methods that hand a selection on; nothing but what is asked for is parsed, and no object made for a record.

    `fields` are names of fields, in whatever order; None is all of them. The way back is `seqrecorder.from_table`, or
    `write` with `schema=`.
    """

    def to_arrow(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a stream of record batches, a `pyarrow.RecordBatchReader`: a row a record.

        >>> import tempfile, numpy as np, seqrecorder as sr
        >>> @sr.record
        ... class Sentence:
        ...     ids: np.ndarray = sr.feature_list("int64")
        >>> corpus = tempfile.mkdtemp()
        >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
        >>> sr.open(corpus)["train"].to_arrow().read_all().to_pydict()
        {'ids': [[1, 2, 3], [4]]}

        Feature lists are list columns, steps with a shape fixed-size lists, None is null, and NaN stays NaN. Of a
        sparse field there are the two columns `<field>/indices` and `<field>/values`.

        Raises:
            OptionError: Arrow has no type for a field: complex numbers, and times in units other than D, s, ms, us and
                ns; or pyarrow is not installed.
            SchemaError: there is no field of a name.
        """
        return _reader(self, fields)

    def to_pandas(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a `pandas.DataFrame`, a row a record: see `to_arrow`.

        Raises:
            OptionError: pandas or pyarrow is not installed, Arrow has no type for a field, or one that may be None is
                NaN or NaT, which a frame cannot tell from that.
        """
        _library("pandas")
        table = _reader(self, fields).read_all()
        for field in self.schema.select(fields).fields:
            is_scalar = not (field.is_list or field.shape or field.sparse is not None)
            if is_scalar and field.optional and (field.element.is_time or field.element.has_nan):
                values = one_array(table[field.name].drop_null()).to_numpy(zero_copy_only=False)
                if np.isnan(values).any():
                    nothing = "NaT" if field.element.is_time else "NaN"
                    raise OptionError(
                        f"field {field.name!r}: pandas cannot tell {nothing} from None, which it may be; leave it out "
                        "(fields=), or go to polars"
                    )
        # Integers that may be None would become floats.
        return table.to_pandas(integer_object_nulls=True)

    def to_polars(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a `polars.DataFrame`, a row a record: see `to_arrow`.

        Raises:
            OptionError: polars or pyarrow is not installed, or Arrow has no type for a field.
        """
        polars = _library("polars")
        return polars.from_arrow(_reader(self, fields).read_all())

    def to_hf(self, fields: Sequence[str] | None = None) -> Any:
        """Return the records as a `datasets.Dataset` of Hugging Face, in memory: see `to_arrow`.

        Raises:
            OptionError: datasets is not installed, or Arrow has no type for a field.
        """
        datasets = _library("datasets")
        return datasets.Dataset(_reader(self, fields).read_all())

    def to_parquet(self, path: str | os.PathLike[str], fields: Sequence[str] | None = None, **options: Any) -> None:
        """Write the records as a Parquet file, a row a record, batch by batch; the file is there when it is complete.

        Args:
            path: of the file, which is replaced.
            fields: names of fields; None is all.
            options: for `pyarrow.parquet.ParquetWriter`, such as `compression="zstd"`.

        Raises:
            OptionError: pyarrow is not installed, or has no type for a field.
            ShardWriteError: the disk is full, or failed.
        """
        optional = {field.name for field in self.schema.fields if field.optional}
        reader = _for_parquet(_reader(self, fields), optional)
        from pyarrow import parquet

        with replaced_file(path) as part, parquet.ParquetWriter(part, reader.schema, **options) as writer:
            for batch in reader:
                writer.write_batch(batch)

    def to_jsonl(self, path: str | os.PathLike[str], fields: Sequence[str] | None = None) -> None:
        """Write the records as lines of JSON, an object a record, batch by batch; `from_jsonl` is the way back.

        NaN becomes null, and times texts of ISO 8601.

        Args:
            path: of the file, which is replaced; packed where it ends in `.gz`, `.bz2`, `.xz` or `.zst`.
            fields: names of fields; None is all.

        Raises:
            OptionError: JSON holds no bytes, complex numbers, spans of time and infinities: the field is named.
            ShardWriteError: the disk is full, or failed.
        """
        schema = self.schema.select(fields)
        check_json(schema)
        with replaced_file(path) as part, open_text(part) as file:
            for columns in self.columns(fields):
                file.writelines(f"{line}\n" for line in json_lines(schema, columns))

    def to_columns(self, fields: Sequence[str] | None = None) -> dict[str, Column]:
        """Return the records as numpy arrays: for each field flat values, and the lengths of its rows.

        >>> import tempfile, numpy as np, seqrecorder as sr
        >>> @sr.record
        ... class Sentence:
        ...     ids: np.ndarray = sr.feature_list("int64")
        >>> corpus = tempfile.mkdtemp()
        >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
        >>> ids = sr.open(corpus)["train"].to_columns()["ids"]
        >>> ids.values, ids.steps
        (array([1, 2, 3, 4]), array([3, 1]))

        Raises:
            SchemaError: there is no field of a name.
        """
        schema = self.schema.select(fields)
        parts = list(self.columns(fields))
        return {field.name: _joined(field, [part[field.name] for part in parts]) for field in schema.fields}


def _reader(selection: SelectedValues, fields: Sequence[str] | None) -> Any:
    pa = pyarrow()
    schema = selection.schema.select(fields)
    batches = (arrow_batch(schema, columns) for columns in selection.joined_columns(fields))
    return pa.RecordBatchReader.from_batches(arrow_schema(schema), batches)


def _for_parquet(reader: Any, optional: set[str]) -> Any:
    """Return a stream whose vectors that may be missing are lists: not every pyarrow can read them otherwise."""
    pa = pyarrow()
    kinds, names = list(reader.schema.types), reader.schema.names
    vectors = [i for i, kind in enumerate(kinds) if pa.types.is_fixed_size_list(kind) and names[i] in optional]
    if not vectors:
        return reader
    for place in vectors:
        kinds[place] = pa.large_list(kinds[place].value_type)
    schema = pa.schema(list(zip(names, kinds, strict=True)))

    def changed(batch: Any) -> Any:
        arrays = list(batch.columns)
        for place in vectors:
            present = arrays[place].is_valid().to_numpy(zero_copy_only=False)
            ends = pa.array(bounds(present * arrays[place].type.list_size))
            mask = pa.array(~present)
            arrays[place] = pa.LargeListArray.from_arrays(ends, arrays[place].flatten(), mask=mask)
        return pa.record_batch(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, map(changed, reader))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OptionError(f"this needs {name}: pip install {name}") from None


def _joined(field: Field, parts: Sequence[Column]) -> Column:
    """Return one column of several, which follow each other."""
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
        present = np.concatenate([_presence(part) for part in parts])
    return Column(joined("values"), joined("steps"), joined("counts"), joined("indices"), present)


def _presence(column: Column) -> Any:
    if column.present is not None:
        return column.present
    lengths = next((part for part in (column.steps, column.counts) if part is not None), column.values)
    return np.ones(len(lengths), bool)
