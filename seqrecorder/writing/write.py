"""`write`: the records of a source as a dataset, in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seqrecorder.dataset.selection import Selection
from seqrecorder.errors import OptionError
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.column_source import ColumnSource
from seqrecorder.writing.options import shows_options
from seqrecorder.writing.record_source import RecordStream
from seqrecorder.writing.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Unpack

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.writing.options import WriteKeywords


@shows_options
def write(
    records: Iterable[Any] | Mapping[str, Iterable[Any]],
    destination: str | os.PathLike[str],
    *,
    schema: object = None,
    **options: Unpack[WriteKeywords],
) -> Manifest:
    """Write records as a dataset.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> records = (Sentence(np.arange(n)) for n in range(10))
    >>> manifest = sr.write(records, tempfile.mkdtemp(), splits={"train": 0.8, "eval": 0.2})
    >>> manifest.records
    10

    A large record takes about three times its encoded size of memory while it is written, itself included.

    Args:
        records: any iterable of records of one class, taken one by one and never held as a whole; of dictionaries of
            field to value; a table whose rows are records, of any library with the Arrow C interface or of Hugging
            Face, or what `from_table`, `from_rows` and the like give; a selection, whose records are copied
            as they are encoded where the schema is the same; or a mapping of a split's name to any of these.
            Values are taken as a record comes; the next may use its arrays.
        destination: directory of the dataset, or its URL, as for `Writer`.
        schema: the record class; needed for dictionaries and tables, and where there may be no record at all.
        **options: the fields of `WriteOptions`.

    Returns:
        What was written.

    Raises:
        DatasetExistsError: something stands at the destination.
        RecordError: a record cannot be encoded; nothing is published.
        SourceError: the iterable raised; nothing is published.
        OptionError: options make no sense, or the columns of a table are not the fields.
    """
    stream, wanted = stream_of(records, schema, options)
    writer = Writer(destination, wanted, **options)
    with writer:
        writer.write_all(stream)
    return writer.manifest


def stream_of(records: Any, schema: object, options: WriteKeywords) -> tuple[RecordStream, Schema]:
    """Return what is to be written as a stream, and its schema; takes and raises what `write` does."""
    if isinstance(records, Mapping) and options.get("splits") is not None:
        raise OptionError("the mapping names the splits already: leave `splits` out")
    if isinstance(records, (str, bytes, os.PathLike)):
        raise OptionError(
            f"expected records, dictionaries or a table, got the path {records!r}: seqrecorder.from_table, from_rows, "
            "from_jsonl and the like read files"
        )
    if schema is None:
        parts = records.values() if isinstance(records, Mapping) else [records]
        schema = next((part.schema for part in parts if isinstance(part, (ColumnSource, Selection))), None)
    stream = RecordStream(records, None if schema is None else Schema.of(schema))
    if schema is None:
        first = stream.peek()
        if isinstance(first, Mapping):
            raise OptionError("dictionaries do not say what records they are: pass schema=Class")
        if first is None:
            raise OptionError("there is no record to write; pass schema= to write an empty dataset")
        schema = first
    return stream, Schema.of(schema)
