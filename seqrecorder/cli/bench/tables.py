"""A table of Arrow written and read back: by this library, each layout, and as Parquet, packed and not.

What is written is the table of all records, in memory; what is read is a table again, and equal to it. Speed is told by
processor time, beside the clock's, for both use several cores.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.cli.bench.candidates import OURS, PACKED
from seqrecorder.cli.bench.run import in_new_process
from seqrecorder.cli.bench.table import table_lines
from seqrecorder.cli.bench.workloads import make
from seqrecorder.codec.columns import gather
from seqrecorder.codec.to_arrow import arrow_batch
from seqrecorder.dataset.corpus import open as open_corpus
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.write import write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.cli.bench.workloads import Workload

PARQUET, PLAIN = "Parquet", "Parquet, not packed"
_ROUNDS, _QUICK_ROUNDS = 7, 3

Ways = dict[str, tuple["Callable[[], Any]", "Callable[[], Any]"]]


def measure(names: Sequence[str], *, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure how long tables of workloads take to be written, and to be read.

    Args:
        names: of the workloads.
        quick: a tenth of the data, three rounds.
        say: takes a line for the user.

    Returns:
        By workload and candidate: seconds of the processor and of the clock, medians, of `write` and of `read`.

    Raises:
        AssertionError: what was read is not the table that was written.
    """
    report = {}
    for name in names:
        say(f"{name} ...")
        report[name] = in_new_process(_measure, name, quick=quick)
    return report


def _measure(name: str, *, quick: bool) -> dict[str, dict[str, list[float]]]:
    import pyarrow as pa

    workload = make(name, quick=quick)
    schema = Schema.of(workload.record_class)
    table = pa.Table.from_batches([arrow_batch(schema, gather(schema, workload.records))])
    taken: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory(prefix="seqrecorder-bench-") as place:
        ways = _ways(workload, table, Path(place))
        for candidate, (put, get) in ways.items():
            put()
            if not get().equals(table):
                raise AssertionError(f"{name}: {candidate} gave another table than was written")
        for _ in range(_QUICK_ROUNDS if quick else _ROUNDS):
            for candidate, way in ways.items():
                for half, run in zip(("write", "read"), way, strict=True):
                    taken.setdefault(candidate, {}).setdefault(half, []).append(_time(run))
    return {
        candidate: {
            half: [statistics.median(times) for times in zip(*runs, strict=True)] for half, runs in halves.items()
        }
        for candidate, halves in taken.items()
    }


def _ways(workload: Workload, table: Any, place: Path) -> Ways:
    """Return how each candidate writes a table, and how it reads it."""
    from pyarrow import parquet

    def own(record_class: type, directory: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
        return (
            lambda: write(table, directory, schema=record_class, overwrite=True),
            lambda: open_corpus(directory)["train"].to_arrow().read_all(),
        )

    def as_parquet(path: Path, compression: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
        return (
            lambda: parquet.write_table(table, path, compression=compression),
            lambda: parquet.read_table(path),
        )

    ways = {OURS: own(workload.record_class, place / "own")}
    if workload.packed_class is not None:
        ways[PACKED] = own(workload.packed_class, place / "packed")
    return {
        **ways,
        PARQUET: as_parquet(place / "packed.parquet", "snappy"),
        PLAIN: as_parquet(place / "plain.parquet", "none"),
    }


def _time(run: Callable[[], Any]) -> tuple[float, float]:
    began, processor = time.perf_counter(), time.process_time()
    run()
    return time.process_time() - processor, time.perf_counter() - began


def text(report: dict[str, Any]) -> str:
    """Return the report as Markdown tables, which read well in a terminal too."""
    lines = []
    for half in ("write", "read", "both"):
        candidates = list(dict.fromkeys(name for found in report.values() for name in found))
        rows = [
            [name, *[_cell(found, name, half) if name in found else "" for found in report.values()]]
            for name in candidates
        ]
        said = "a table written and read" if half == "both" else f"a table: {half}"
        lines += [f"{said}: times the speed of Parquet by processor time, and milliseconds of it", ""]
        lines += [*table_lines(["candidate", *report], rows), ""]
    return "\n".join(lines).rstrip()


def _cell(found: dict[str, dict[str, list[float]]], candidate: str, half: str) -> str:
    halves = ("write", "read") if half == "both" else (half,)
    ours, theirs = (sum(found[name][each][0] for each in halves) for name in (candidate, PARQUET))
    return f"{theirs / ours:.2f}x, {1000 * ours:.3g}"
