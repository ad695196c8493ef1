"""A table of Arrow written and read back: by this library, each layout, and as Parquet, packed and not.

What is written is the table of all records, in memory; what is read is a table again, and equal to it. Speed is told by
processor time, beside the clock's, for both use several cores.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.cli.bench.candidates import OURS, PACKED
from seqrecorder.cli.bench.table import pivot
from seqrecorder.cli.bench.timing import in_new_process, time_ways
from seqrecorder.cli.bench.workloads import make
from seqrecorder.codec.columns import gather
from seqrecorder.codec.to_arrow import arrow_batch
from seqrecorder.dataset.corpus import open as open_corpus
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.write import write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.cli.bench.timing import Effort, Way
    from seqrecorder.cli.bench.workloads import Workload

PARQUET, PLAIN = "Parquet", "Parquet, not packed"


def measure(names: Sequence[str], effort: Effort, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure how long tables of workloads take to be written, and to be read.

    Args:
        names: of the workloads.
        effort: how much data, and how often.
        say: takes a line for the user.

    Returns:
        By workload and candidate: seconds of the processor and of the clock, medians, of `write` and of `read`.

    Raises:
        AssertionError: what was read is not the table that was written.
    """
    report = {}
    for name in names:
        say(f"{name} ...")
        report[name] = in_new_process(_measure, name, effort)
    return report


def _measure(name: str, effort: Effort) -> dict[str, dict[str, list[float]]]:
    import pyarrow as pa

    workload = make(name, quick=effort.quick)
    schema = Schema.of(workload.record_class)
    table = pa.Table.from_batches([arrow_batch(schema, gather(schema, workload.records))])
    with tempfile.TemporaryDirectory(prefix="seqrecorder-bench-") as place:
        ways = _ways(workload, table, Path(place))
        return time_ways(name, ways, lambda got: all(one.equals(table) for one in got), effort.rounds)


def _ways(workload: Workload, table: Any, place: Path) -> dict[str, Way]:
    """Return how each candidate writes a table, and how it reads it."""
    from pyarrow import parquet

    def own(schema: object, directory: Path) -> Way:
        return (
            lambda: write(table, directory, schema=schema, overwrite=True),
            lambda: [open_corpus(directory)["train"].to_arrow().read_all()],
        )

    def as_parquet(path: Path, compression: str) -> Way:
        return (
            lambda: parquet.write_table(table, path, compression=compression),
            lambda: [parquet.read_table(path)],
        )

    ways = {OURS: own(workload.record_class, place / "own")}
    if workload.packed is not None:
        ways[PACKED] = own(workload.packed, place / "packed")
    return {
        **ways,
        PARQUET: as_parquet(place / "packed.parquet", "snappy"),
        PLAIN: as_parquet(place / "plain.parquet", "none"),
    }


def text(report: dict[str, Any]) -> str:
    """Return the report as Markdown tables, which read well in a terminal too."""
    lines = []
    for said, *halves in (("write", "write"), ("read", "read"), ("written and read", "write", "read")):
        seconds = {
            (candidate, name): sum(took[half][0] for half in halves)
            for name, found in report.items()
            for candidate, took in found.items()
        }
        cells = {
            (candidate, name): f"{seconds[PARQUET, name] / took:.2f}x, {1000 * took:.3g}"
            for (candidate, name), took in seconds.items()
        }
        lines += [f"a table, {said}: times the speed of Parquet by processor time, and milliseconds of it", ""]
        lines += [*pivot(cells), ""]
    return "\n".join(lines).rstrip()
