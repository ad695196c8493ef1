"""The report of the benchmark as text: a table of ratios for each measure, then times and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqrecorder.cli.bench.run import ACCESS, MEASURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.cli.bench.run import BenchReport, Timing

_TITLES = {
    "encode": "encode (records in memory to bytes)",
    "write": "write (records in memory to a published dataset)",
    "read": "read (shuffled, bucketed, padded batches of 64 as numpy arrays; epochs after the first)",
    "first_batch": "first batch (from the call that opens the data)",
    "read_records": "read_records (one object for each record)",
    "by_position": "by position (single records of data that are open, in random order)",
    "by_key": "by key (likewise)",
    "tenth": "a tenth of the records, scattered, as records",
}


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
    for measure in MEASURES:
        compared = "" if measure in ACCESS else "times the speed of the hand-written way, and "
        lines += ["", f"{_TITLES[measure]}: {compared}{_UNITS[measure]}", ""]
        lines += _table(report, measure)
    lines += ["", "bytes on disk, times the plain arrays", "", *_sizes(report), ""]
    skipped = {name: why for workload in report.workloads for name, why in workload.skipped.items()}
    lines += [f"skipped: {name}: {why}" for name, why in skipped.items()]
    return "\n".join(lines).rstrip()


def _table(report: BenchReport, measure: str) -> list[str]:
    cells = {
        (timing.candidate, workload.name): _cell(timing, workload.records)
        for workload in report.workloads
        for timing in workload.timings
        if timing.measure == measure
    }
    candidates = list(dict.fromkeys(candidate for candidate, _ in cells))
    names = [workload.name for workload in report.workloads]
    return table_lines(
        ["candidate", *names],
        [[name, *[cells.get((name, workload), "") for workload in names]] for name in candidates],
    )


def _cell(timing: Timing, records: int) -> str:
    unit = 1e-3 if timing.measure == "first_batch" else records * 1e-6
    cell = f"{timing.median / unit:.3g} ({timing.least / unit:.3g} to {timing.most / unit:.3g})"
    cell += "" if timing.processor is None else f"; {timing.processor / unit:.3g}"
    return cell if timing.ratio is None else f"{timing.ratio:.2f}x, {cell}"


def _sizes(report: BenchReport) -> list[str]:
    candidates = list(dict.fromkeys(name for workload in report.workloads for name in workload.bytes))
    rows = [
        [
            name,
            *[
                f"{workload.bytes[name] / workload.raw_bytes:.2f}" if name in workload.bytes else ""
                for workload in report.workloads
            ],
        ]
        for name in candidates
    ]
    return table_lines(["candidate", *[workload.name for workload in report.workloads]], rows)


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table that reads well in a terminal too."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in
             [header, *rows]]  # fmt: skip
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines
