"""`write`: the records of a source as a dataset, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from seqrecorder.errors import OptionError
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.record_source import RecordStream
from seqrecorder.writing.writer import Writer

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from seqrecorder.dataset.manifest import Manifest


def write(
    records: Iterable[Any] | Mapping[str, Iterable[Any]],
    destination: str | os.PathLike[str],
    *,
    schema: object = None,
    splits: Any = None,
    split_by: Any = None,
    seed: int = 0,
    shards: int | None = None,
    shard_bytes: int | None = None,
    compression: str | None = None,
    shuffle: bool = False,
    workers: int = 1,
    params: Mapping[str, Any] | None = None,
    csv: bool = False,
    metadata: Any = None,
    assets: Mapping[str, Any] | None = None,
    on_duplicate: Literal["error", "first"] = "error",
    overwrite: bool = False,
    append: bool = False,
    progress: bool | None = None,
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
        destination: as for `Writer`, like all that follows.
        schema: the record class; needed only where there may be no record at all.
        splits: see `Writer`.
        split_by: see `Writer`.
        seed: see `Writer`.
        shards: see `Writer`.
        shard_bytes: see `Writer`.
        compression: see `Writer`.
        shuffle: see `Writer`.
        workers: see `Writer`.
        params: see `Writer`.
        csv: see `Writer`.
        metadata: see `Writer`.
        assets: see `Writer`.
        on_duplicate: see `Writer`.
        overwrite: see `Writer`.
        append: see `Writer`.
        progress: see `Writer`.

    Returns:
        What was written.

    Raises:
        DatasetExistsError: something stands at the destination.
        RecordError: a record cannot be encoded; nothing is published.
        SourceError: the iterable raised; nothing is published.
    """
    if isinstance(records, Mapping) and splits is not None:
        raise OptionError("the mapping names the splits already: leave `splits` out")
    stream = RecordStream(records)
    if schema is None:
        first = stream.peek()
        if first is None:
            raise OptionError("there is no record to write; pass schema= to write an empty dataset")
        schema = Schema.of(first)
    writer = Writer(
        destination,
        schema,
        splits=splits,
        split_by=split_by,
        seed=seed,
        shards=shards,
        shard_bytes=shard_bytes,
        compression=compression,
        shuffle=shuffle,
        workers=workers,
        params=params,
        csv=csv,
        metadata=metadata,
        assets=assets,
        on_duplicate=on_duplicate,
        overwrite=overwrite,
        append=append,
        progress=progress,
    )
    with writer:
        writer.write_all(stream)
    return writer.manifest
