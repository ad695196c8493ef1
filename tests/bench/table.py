"""The report of the benchmark as text: a table of ratios for each measure, then times and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .run import ACCESS, MEASURES, TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .run import BenchReport, Timing

_EACH = "microseconds a record (least to most), then those of the processor, all cores added"
_UNITS = {measure: "milliseconds (least to most)" if measure == "first_batch" else _EACH for measure in MEASURES}


def text(report: BenchReport) -> str:
    """Return the report as Markdown tables, which read well in a terminal too."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    lines = [
        f"{report.date}; {report.machine}; Python {report.python}; {versions}",
        f"medians of {report.rounds} interleaved rounds, of {report.seconds:g} s of reading each"
        + (", a tenth of the data" if report.quick else ""),
        "",
        *table_lines(
            ["workload", *[workload.name for workload in report.workloads]],
            [
                ["", *[workload.title for workload in report.workloads]],
                ["records", *[f"{workload.records:,}" for workload in report.workloads]],
                ["steps", *[f"{workload.steps:,}" for workload in report.workloads]],
            ],
        ),
    ]
    names = [workload.name for workload in report.workloads]
    for measure, title in MEASURES.items():
        base = "Parquet" if measure in TABLES else "the hand-written way"
        compared = "" if measure in ACCESS else f"times the speed of {base}, and "
        cells = {
            (timing.candidate, workload.name): _cell(timing, workload.records)
            for workload in report.workloads
            for timing in workload.timings
            if timing.measure == measure
        }
        lines += ["", f"{title}: {compared}{_UNITS[measure]}", "", *pivot(cells, names)]
    sizes = {
        (candidate, workload.name): f"{size / workload.raw_bytes:.2f}"
        for workload in report.workloads
        for candidate, size in workload.bytes.items()
    }
    lines += ["", "bytes on disk, times the plain arrays", "", *pivot(sizes, names), ""]
    skipped = {name: why for workload in report.workloads for name, why in workload.skipped.items()}
    lines += [f"skipped: {name}: {why}" for name, why in skipped.items()]
    return "\n".join(lines).rstrip()


def _cell(timing: Timing, records: int) -> str:
    unit = 1e-3 if timing.measure == "first_batch" else records * 1e-6
    cell = f"{timing.median / unit:.3g} ({timing.least / unit:.3g} to {timing.most / unit:.3g})"
    cell += "" if timing.processor is None else f"; {timing.processor / unit:.3g}"
    return cell if timing.ratio is None else f"{timing.ratio:.2f}x, {cell}"


def pivot(cells: Mapping[tuple[str, str], str], columns: Sequence[str] = ()) -> list[str]:
    """Return a table of cells by candidate and column, in the order in which these come."""
    names = list(dict.fromkeys([*columns, *(column for _, column in cells)]))
    rows = [[name, *(cells.get((name, column), "") for column in names)] for name in dict.fromkeys(n for n, _ in cells)]
    return table_lines(["candidate", *names], rows)


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table that reads well in a terminal too."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in (header, *rows)
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines
