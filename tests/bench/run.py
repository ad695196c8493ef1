"""The benchmark: all candidates on the same data, interleaved, their content compared.

What stands to be measured is run in turn, round after round, so that whatever else the machine does meets everybody;
what is told is the median and the spread over the rounds, and ratios of medians. Reading is measured in its steady
state: after a first epoch, whole epochs for several seconds; the time from the call to the first batch is a figure of
its own. Each workload has a process of its own, so that one's memory and imports do not disturb another's. The records
are put out of the garbage collector's sight (`gc.freeze`): a program that streams its records has no hundred thousands
of them.
"""

from __future__ import annotations

import collections
import contextlib
import datetime as dt
import gc
import importlib.metadata
import importlib.util
import itertools
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.cli.command import quieten_tensorflow
from seqrecorder.errors import first_line

from . import access, tables
from .candidates import HANDWRITTEN, Operation, Reading, by_hand, own
from .content import content, whole
from .machine import machine
from .peers import PEERS, Peer
from .timing import Taken, in_new_process, time_run
from .workloads import make

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from .timing import Effort
    from .workloads import Workload

ACCESS = ("by_position", "by_key", "tenth")
TABLES = ("write_table", "read_table")
MEASURES = {
    "encode": "encode (records in memory to bytes)",
    "write": "write (records in memory to a published dataset)",
    "read": "read (shuffled, bucketed, padded batches of 64 as numpy arrays; epochs after the first)",
    "first_batch": "first batch (from the call that opens the data)",
    "read_records": "read_records (one object for each record)",
    "by_position": "by position (single records of data that are open, in random order)",
    "by_key": "by key (likewise)",
    "tenth": "a tenth of the records, scattered, as records",
    "write_table": "write_table (a table of Arrow in memory to a published dataset)",
    "read_table": "read_table (and back)",
}
_VERSIONS = ("tensorflow", "numpy", "attrs", "protobuf", "datasets", "pyarrow", "h5py", "grain", "array_record")


@attrs.frozen
class Timing:
    """What one operation of one candidate took.

    Attributes:
        measure: one of `MEASURES`.
        candidate: whose it is.
        median: seconds for all records; of `first_batch`, until there is one.
        least: seconds of the fastest round.
        most: seconds of the slowest round.
        records_per_second: of the median; None for `first_batch`.
        processor: median seconds of the processor, all cores added; None for `first_batch`.
        ratio: how many times as fast as the hand-written way (of the same measure), by the medians; of tables, as
            Parquet.
    """

    measure: str
    candidate: str
    median: float
    least: float
    most: float
    records_per_second: float | None
    processor: float | None
    ratio: float | None


@attrs.frozen
class WorkloadReport:
    """All timings of one workload.

    Attributes:
        name: `W1` to `W6`.
        title: what it is.
        records: how many.
        steps: of all records.
        raw_bytes: of the values as plain arrays.
        timings: of all candidates.
        bytes: on disk, by candidate.
        skipped: candidates that were not measured, and why.
    """

    name: str
    title: str
    records: int
    steps: int
    raw_bytes: int
    timings: tuple[Timing, ...]
    bytes: dict[str, int]
    skipped: dict[str, str]


@attrs.frozen
class BenchReport:
    """What the benchmark found.

    Attributes:
        date: when.
        machine: processor, cores and system.
        python: version.
        versions: of the libraries.
        rounds: how often everything ran.
        seconds: how long the steady state of a reading was measured in each round.
        quick: whether the data were a tenth.
        workloads: in order.
    """

    date: str
    machine: str
    python: str
    versions: dict[str, str]
    rounds: int
    seconds: float
    quick: bool
    workloads: tuple[WorkloadReport, ...]


def run(
    names: Sequence[str],
    effort: Effort,
    *,
    peers: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> BenchReport:
    """Run the benchmark.

    Args:
        names: of the workloads.
        effort: how much data, how often, and for how long.
        peers: whether other libraries are measured too, where they are installed.
        say: called with a line of progress.

    Raises:
        AssertionError: a candidate delivered other records than were written.
    """
    reports = []
    for name in names:
        say(f"{name} ...")
        reports.append(in_new_process(measure, name, effort, peers=peers))
    return BenchReport(
        date=dt.datetime.now(dt.timezone.utc).date().isoformat(),
        machine=machine(),
        python=platform.python_version(),
        versions=_versions(),
        rounds=effort.rounds,
        seconds=effort.seconds,
        quick=effort.quick,
        workloads=tuple(reports),
    )


def measure(
    name: str,
    effort: Effort,
    *,
    peers: bool = True,
    only: Collection[str] = MEASURES,
    libraries: Sequence[Peer] = PEERS,
) -> WorkloadReport:
    """Measure one workload in this process.

    Args:
        name: of the workload.
        effort: how much data, how often, and for how long.
        peers: whether other libraries are measured too.
        only: the measures to take; `first_batch` comes with `read`.
        libraries: the other libraries.

    Raises:
        AssertionError: a candidate delivered other records than were written.
    """
    quieten_tensorflow()
    workload = make(name, quick=effort.quick)
    skipped = {}
    with tempfile.TemporaryDirectory(prefix="seqrecorder-bench-") as place:
        directory = Path(place)
        operations = [*own(workload, directory), *by_hand(workload, directory)]
        _write_all(operations)
        operations += access.own(workload, directory / "own")
        if peers and importlib.util.find_spec("pyarrow"):
            operations += tables.operations(workload, directory)
        for peer in libraries if peers else ():
            why = peer.missing() or _untold(workload)
            if why is None:
                theirs = peer.operations(workload, directory)
                try:
                    _write_all(theirs)
                    operations += theirs
                except Exception as error:  # noqa: BLE001 - it is theirs, and the others are measured
                    why = f"failed ({type(error).__name__}: {first_line(error)})"
            if why is not None:
                skipped[peer.name] = why
        sizes = {o.candidate: _bytes(o.files) for o in operations if isinstance(o, Operation) and o.files}
        _compare(workload, operations)
        taken = _rounds(operations, workload, effort, only)
    return WorkloadReport(
        name=name,
        title=workload.title,
        records=len(workload.records),
        steps=int(workload.lengths.sum()),
        raw_bytes=workload.raw_bytes,
        timings=tuple(_timings(taken, len(workload.records))),
        bytes=sizes,
        skipped=skipped,
    )


def _untold(workload: Workload) -> str | None:
    """Return why a workload is not measured of other libraries, if it is not."""
    others = workload.others
    return f"{workload.name} has fields that are no plain columns there: {', '.join(others)}" if others else None


def _write_all(operations: Sequence[Operation | Reading]) -> None:
    for operation in operations:
        if isinstance(operation, Operation) and operation.files is not None:
            operation.prepare()()


def _bytes(directory: Path | None) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) if directory else 0


def _compare(workload: Workload, operations: Sequence[Operation | Reading]) -> None:
    """Compare what each candidate delivers with the records."""
    expected = content([whole(workload)], workload)
    for reading in operations:
        if isinstance(reading, Reading) and reading.compared:
            got = content(reading.open(0, 1), workload)
            if got != expected:
                raise AssertionError(
                    f"{workload.name}: {reading.candidate} delivered {got[0]} records of {expected[0]}, or other "
                    "values than were written"
                )


def _rounds(
    operations: Sequence[Operation | Reading], workload: Workload, effort: Effort, only: Collection[str]
) -> dict[tuple[str, str], list[Taken]]:
    timed = [operation for operation in operations if operation.measure in only]
    taken: dict[tuple[str, str], list[Taken]] = {}
    gc.collect()
    gc.freeze()
    try:
        for number in range(effort.rounds):
            # Each round begins elsewhere, so that nobody always comes after the same neighbour.
            start = number * len(timed) // effort.rounds
            for operation in [*timed[start:], *timed[:start]]:
                gc.collect()
                if isinstance(operation, Operation):
                    found = {operation.measure: _time_once(operation, workload)}
                else:
                    found = _time_reading(operation, workload, effort.seconds)
                for name, one in found.items():
                    taken.setdefault((name, operation.candidate), []).append(one)
    finally:
        gc.unfreeze()
    order = {measure: place for place, measure in enumerate(MEASURES)}
    return dict(sorted(taken.items(), key=lambda item: order.get(item[0][0], len(order))))


def _time_once(operation: Operation, workload: Workload) -> Taken:
    taken, done = time_run(operation.prepare())
    everything = len(workload.records)
    expected = everything if operation.records is None else operation.records
    _check_count(operation, workload, done, expected)
    return taken.over(expected / everything)  # what is told is for each record that went through


def _time_reading(reading: Reading, workload: Workload, seconds: float) -> dict[str, Taken]:
    """Return what the first batch took, and an epoch after the first one."""
    records = len(workload.records)
    began = time.perf_counter()
    stream = iter(reading.open(0, None))
    done = _drain(stream, reading, 1)
    first = Taken(time.perf_counter() - began)
    done += _drain(stream, reading, records - done)

    def epochs() -> Iterator[int]:
        end = time.perf_counter() + seconds
        yield _drain(stream, reading, records)
        while time.perf_counter() < end:
            yield _drain(stream, reading, records)

    taken, drained = time_run(lambda: list(epochs()))
    _check_count(reading, workload, done + sum(drained), records * (1 + len(drained)))
    steady = taken.over(len(drained))
    # The end of a pipeline, which can take seconds, comes here, when nothing is measured.
    return {reading.measure: steady} if reading.count is None else {reading.measure: steady, "first_batch": first}


def _drain(stream: Iterator[Any], reading: Reading, records: int) -> int:
    """Take so many records from a stream, or up to a batch more, and return how many."""
    if reading.count is None:
        collections.deque(itertools.islice(stream, records), maxlen=0)
        return records
    done = 0
    while done < records:
        done += reading.count(next(stream))
    return done


def _check_count(operation: Operation | Reading, workload: Workload, done: int, expected: int) -> None:
    if done != expected:
        raise AssertionError(f"{workload.name}, {operation.measure}: {operation.candidate} did {done} of {expected}")


def _timings(taken: dict[tuple[str, str], list[Taken]], records: int) -> list[Timing]:
    timings = []
    for (name, candidate), runs in taken.items():
        clocks = [run.clock for run in runs]
        median = statistics.median(clocks)
        processor = [run.processor for run in runs if run.processor is not None]
        base = tables.PARQUET if name in TABLES else HANDWRITTEN
        by_hand = [run.clock for run in taken.get((name, base), ())]
        timings.append(
            Timing(
                measure=name,
                candidate=candidate,
                median=median,
                least=min(clocks),
                most=max(clocks),
                records_per_second=None if name == "first_batch" else records / median,
                processor=statistics.median(processor) if processor else None,
                ratio=statistics.median(by_hand) / median if by_hand else None,
            )
        )
    return timings


def _versions() -> dict[str, str]:
    versions = {}
    for name in _VERSIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
