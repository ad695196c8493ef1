"""A table of Arrow in memory, of all records, written and read back: by this library, each layout, and as Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.codec.arrow import arrow_batch
from seqrecorder.codec.columns import gather
from seqrecorder.dataset.selection import open as open_corpus
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.writer import write

from .candidates import OURS, PACKED, Operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .workloads import Workload

PARQUET, PLAIN = "Parquet", "Parquet, not packed"


def operations(workload: Workload, directory: Path) -> list[Operation]:
    """Return what is timed of the table of a workload.

    Preparing a candidate's reading raises `AssertionError` where it gives another table than was written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    schema = Schema.of(workload.record_class)
    table = pa.Table.from_batches([arrow_batch(schema, gather(schema, workload.records))])

    def timed(candidate: str, put: Callable[[], object], get: Callable[[], Any]) -> list[Operation]:
        def writing() -> int:
            put()
            return len(workload.records)

        def prepare_reading() -> Callable[[], int]:
            put()
            if not get().equals(table):
                raise AssertionError(f"{workload.name}: {candidate} gave another table than was written")
            return lambda: len(get())

        return [
            Operation("write_table", candidate, lambda: writing),
            Operation("read_table", candidate, prepare_reading),
        ]

    def own(candidate: str, schema: object, path: Path) -> list[Operation]:
        return timed(
            candidate,
            lambda: write(table, path, schema=schema, overwrite=True),
            lambda: open_corpus(path)["train"].to_arrow().read_all(),
        )

    def as_parquet(candidate: str, compression: str, path: Path) -> list[Operation]:
        return timed(
            candidate,
            lambda: parquet.write_table(table, path, compression=compression),
            lambda: parquet.read_table(path),
        )

    return [
        *own(OURS, workload.record_class, directory / "table"),
        *(own(PACKED, workload.packed, directory / "packed_table") if workload.packed else []),
        *as_parquet(PARQUET, "snappy", directory / "packed.parquet"),
        *as_parquet(PLAIN, "none", directory / "plain.parquet"),
    ]
