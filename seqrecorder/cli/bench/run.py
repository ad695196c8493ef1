"""The benchmark: all candidates on the same data, interleaved, their content compared.

What stands to be measured is run in turn, round after round, so that whatever else the machine does meets everybody;
what is told is the median and the spread over the rounds, and ratios of medians. Each workload has a process of its
own, so that one's memory and imports do not disturb another's. The records are put out of the garbage collector's
sight (`gc.freeze`): a program that streams its records has no hundred thousands of them.
"""

from __future__ import annotations

import datetime as dt
import gc
import importlib.metadata
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.cli.bench.apart import measure_tfrecord
from seqrecorder.cli.bench.candidates import HANDWRITTEN, RAW, by_hand, own
from seqrecorder.cli.bench.content import content, whole
from seqrecorder.cli.bench.handwritten import BATCH
from seqrecorder.cli.bench.peers import PEERS
from seqrecorder.cli.bench.workloads import WORKLOADS, make
from seqrecorder.cli.quiet_tensorflow import quieten_tensorflow
from seqrecorder.errors import OptionError, first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.cli.bench.candidates import Operation
    from seqrecorder.cli.bench.workloads import Workload

ALL = tuple(WORKLOADS)
"""Names of all workloads."""

MEASURES = ("encode", "write", "read", "read_records")
_ROUNDS, _QUICK_ROUNDS = 5, 3
_VERSIONS = ("tensorflow", "numpy", "attrs", "protobuf", "datasets", "pyarrow", "tfrecord", "tfx_bsl")


@attrs.frozen
class Timing:
    """What one operation of one candidate took.

    Attributes:
        measure: `encode`, `write`, `read` or `read_records`.
        candidate: whose it is.
        median: seconds.
        least: seconds of the fastest round.
        most: seconds of the slowest round.
        records_per_second: of the median.
        ratio: how many times as fast as the hand-written way (of the same measure), by the medians.
        ratios: the same within each round, least and most: what the noise does to it.
        of_raw: for reading: share of the speed of the raw floor.
    """

    measure: str
    candidate: str
    median: float
    least: float
    most: float
    records_per_second: float
    ratio: float | None
    ratios: tuple[float, float] | None
    of_raw: float | None


@attrs.frozen
class WorkloadReport:
    """All timings of one workload.

    Attributes:
        name: `W1` to `W5`.
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
        quick: whether the data were a tenth.
        workloads: in order.
    """

    date: str
    machine: str
    python: str
    versions: dict[str, str]
    rounds: int
    quick: bool
    workloads: tuple[WorkloadReport, ...]


def run(
    names: Sequence[str] = ALL,
    *,
    quick: bool = False,
    rounds: int | None = None,
    peers: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> BenchReport:
    """Run the benchmark.

    Args:
        names: of the workloads.
        quick: a tenth of the records and three rounds: minutes, and noisier.
        rounds: how often everything runs; 5, or 3 with `quick`.
        peers: whether other libraries are measured too, where they are installed.
        say: called with a line of progress.

    Raises:
        OptionError: there is no such workload.
        AssertionError: a candidate delivered other records than were written.
    """
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown or not names:
        raise OptionError(f"workload {', '.join(unknown) or '(none)'}: expected some of {', '.join(WORKLOADS)}")
    rounds = rounds or (_QUICK_ROUNDS if quick else _ROUNDS)
    reports = []
    for name in names:
        say(f"{name} ...")
        reports.append(_in_new_process(measure, name, quick=quick, rounds=rounds, peers=peers))
    return BenchReport(
        date=dt.datetime.now(dt.timezone.utc).date().isoformat(),
        machine=f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        python=platform.python_version(),
        versions=_versions(),
        rounds=rounds,
        quick=quick,
        workloads=tuple(reports),
    )


def _in_new_process(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *args, **options).result()


def measure(
    name: str, *, quick: bool = False, rounds: int = _ROUNDS, peers: bool = True, only: Sequence[str] = MEASURES
) -> WorkloadReport:
    """Measure one workload in this process.

    Args:
        name: of the workload.
        quick: a tenth of the records.
        rounds: how often everything runs.
        peers: whether other libraries are measured too.
        only: the measures to take.

    Raises:
        AssertionError: a candidate delivered other records than were written.
    """
    quieten_tensorflow()
    workload = make(name, quick=quick)
    skipped = {}
    with tempfile.TemporaryDirectory(prefix="seqrecorder-bench-") as place:
        directory = Path(place)
        operations = [*own(workload, directory), *by_hand(workload, directory)]
        _write_all(operations)
        for peer in PEERS if peers else ():
            why = peer.missing()
            theirs: list[Operation] = []
            if why is None:
                theirs += peer.operations(workload, directory)
                try:
                    _write_all(theirs)
                except Exception as error:  # noqa: BLE001 - it is theirs, and the others are measured
                    why = f"failed ({type(error).__name__}: {first_line(error)})"
            if why is None:
                operations += theirs
            else:
                skipped[peer.name] = why
        sizes = {operation.candidate: _bytes(operation.files) for operation in operations if operation.files}
        _compare(workload, operations)
        seconds = _rounds(operations, workload, rounds, only)
        if peers and "read" in only:
            found = _in_new_process(measure_tfrecord, name, directory / "by_hand" / "data.tfrecord", BATCH, quick=quick)
            if isinstance(found, str):
                skipped["tfrecord"] = found
            else:
                seconds["read", "tfrecord"] = [found[0]]
                _check_content("tfrecord", found[1], workload)
    return WorkloadReport(
        name=name,
        title=workload.title,
        records=len(workload.records),
        steps=int(workload.lengths.sum()),
        raw_bytes=workload.raw_bytes,
        timings=tuple(_timings(seconds, len(workload.records))),
        bytes=sizes,
        skipped=skipped,
    )


def _write_all(operations: Sequence[Operation]) -> None:
    for operation in operations:
        if operation.files is not None:
            operation.prepare()()


def _bytes(directory: Path | None) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) if directory else 0


def _compare(workload: Workload, operations: Sequence[Operation]) -> None:
    """Compare what each candidate delivers with the records."""
    for operation in operations:
        if operation.batches is not None:
            _check_content(operation.candidate, content(operation.batches(), workload), workload)


def _check_content(candidate: str, got: tuple[int, int], workload: Workload) -> None:
    expected = content([whole(workload)], workload)
    if got != expected:
        raise AssertionError(
            f"{workload.name}: {candidate} delivered {got[0]} records of {expected[0]}, or other values than were "
            "written"
        )


def _rounds(
    operations: Sequence[Operation], workload: Workload, rounds: int, only: Sequence[str]
) -> dict[tuple[str, str], list[float]]:
    timed = [operation for operation in operations if operation.measure in only]
    seconds: dict[tuple[str, str], list[float]] = {(o.measure, o.candidate): [] for o in timed}
    gc.collect()
    gc.freeze()
    try:
        for number in range(rounds):
            # Each round begins elsewhere, so that nobody always comes after the same neighbour.
            start = number * len(timed) // rounds
            for operation in [*timed[start:], *timed[:start]]:
                taken = seconds[operation.measure, operation.candidate]
                go = operation.prepare()
                gc.collect()
                began = time.perf_counter()
                done = go()
                taken.append(time.perf_counter() - began)
                if done != len(workload.records):
                    raise AssertionError(f"{workload.name}, {operation.measure}: {operation.candidate} did {done}")
    finally:
        gc.unfreeze()
    return seconds


def _timings(seconds: dict[tuple[str, str], list[float]], records: int) -> list[Timing]:
    timings = []
    for (name, candidate), taken in seconds.items():
        median = statistics.median(taken)
        by_hand, raw = seconds.get((name, HANDWRITTEN)), seconds.get((name, RAW))
        within = [other / own for other, own in zip(by_hand or (), taken, strict=False)]
        timings.append(
            Timing(
                measure=name,
                candidate=candidate,
                median=median,
                least=min(taken),
                most=max(taken),
                records_per_second=records / median,
                ratio=statistics.median(by_hand) / median if by_hand else None,
                ratios=(min(within), max(within)) if within else None,
                of_raw=statistics.median(raw) / median if raw else None,
            )
        )
    return timings


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _versions() -> dict[str, str]:
    versions: dict[str, Any] = {}
    for name in _VERSIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
