"""`write`: the records of a source as a dataset, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.options import shows_options
from seqrecorder.writing.record_source import RecordStream
from seqrecorder.writing.writer import Writer

if TYPE_CHECKING:
    import os
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
        records: any iterable of records of one class, taken one by one and never held as a whole; or a mapping of a
            split's name to such an iterable. Values are taken as a record comes; the next may use its arrays.
        destination: local directory of the dataset, as for `Writer`.
        schema: the record class; needed only where there may be no record at all.
        **options: the fields of `WriteOptions`.

    Returns:
        What was written.

    Raises:
        DatasetExistsError: something stands at the destination.
        RecordError: a record cannot be encoded; nothing is published.
        SourceError: the iterable raised; nothing is published.
    """
    if isinstance(records, Mapping) and options.get("splits") is not None:
        raise OptionError("the mapping names the splits already: leave `splits` out")
    stream = RecordStream(records)
    if schema is None:
        first = stream.peek()
        if first is None:
            raise OptionError("there is no record to write; pass schema= to write an empty dataset")
        schema = Schema.of(first)
    writer = Writer(destination, schema, **options)
    with writer:
        writer.write_all(stream)
    return writer.manifest
