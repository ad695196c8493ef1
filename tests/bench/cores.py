"""How reading uses several cores: what cannot be divided, and how fast it is on one core, two, four and so on.

A stage that one thread does in turn sets the limit, whatever the number of cores. So the pipeline is read with many
more threads than it needs: those that share the work then take little each, and the busiest is one that shares none.
Batches stay in C++, for to make Python's objects of them takes its own time, in one thread. What TensorFlow's parser
takes for batches of strings that are in memory is told beside.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.cli.command import quieten_tensorflow
from seqrecorder.writing.writer import write

from . import handwritten
from .candidates import EXPERT, OURS, RAW, dataset
from .content import LENGTH
from .table import table_lines
from .timing import in_new_process, time_run
from .workloads import make

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .timing import Effort

_SHARDS = 8
_PARSER = "TensorFlow's parser alone"
_THREADS = 64
_TAKEN = 16  # of so many batches one comes to Python
_WARM = 0.4  # of the seconds, before anything is measured


def measure(names: Sequence[str], effort: Effort, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure on how many cores the reading of workloads can run, and how fast it is on as many as there are.

    Args:
        names: of the workloads.
        effort: how much data, and for how long each.
        say: takes a line for the user.

    Returns:
        By workload: microseconds of the processor for a record (`processor`), those of the busiest thread (`busiest`),
        their quotient (`cores`), and `records_per_second` by candidate and number of cores.

    Raises:
        RuntimeError: the system does not tell what threads take, or cannot keep a process on some cores.
    """
    if not (hasattr(os, "sched_setaffinity") and Path("/proc/self/task").exists()):
        raise RuntimeError("--cores needs Linux, which tells what each thread takes")
    available = len(os.sched_getaffinity(0))
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count <= available]
    report: dict[str, Any] = {}
    for name in names:
        say(f"{name} on {', '.join(map(str, counts))} cores")
        workload = make(name, quick=effort.quick)
        with tempfile.TemporaryDirectory(prefix="seqrecorder-bench-") as place:
            write(workload.records, Path(place) / "own", schema=workload.record_class, shards=_SHARDS)
            handwritten.write(workload, Path(place) / "by_hand")
            read_on = functools.partial(in_new_process, _on_cores, name, place, effort)
            speeds: dict[str, dict[int, float]] = {OURS: {}, EXPERT: {}, _PARSER: {}, RAW: {}}
            for count in counts:
                for candidate, found in speeds.items():
                    found[count] = read_on(candidate, count)["records_per_second"]
            alone = read_on(OURS, available, threads=_THREADS)
        del alone["records_per_second"]
        report[name] = {**alone, "cores": alone["processor"] / alone["busiest"], "records_per_second": speeds}
    return report


def text(report: dict[str, Any]) -> str:
    """Return what was measured as two tables."""
    limits = [
        [name, *(f"{found[figure]:.3g}" for figure in ("processor", "busiest", "cores"))]
        for name, found in report.items()
    ]
    counts = sorted({count for found in report.values() for count in found["records_per_second"][OURS]})
    speeds = [
        [name, candidate, *(f"{by_count[count]:,.0f}" for count in counts)]
        for name, found in report.items()
        for candidate, by_count in found["records_per_second"].items()
    ]
    lines = [
        f"microseconds of the processor a record, of {_SHARDS} shards: of all threads, and of the busiest,",
        "which sets the limit on many cores; and how many cores that are",
        "",
        *table_lines(["workload", "all threads", "busiest", "cores"], limits),
        "",
        "records a second, by number of cores",
        "",
        *table_lines(["workload", "candidate", *map(str, counts)], speeds),
    ]
    return "\n".join(lines)


def _on_cores(
    name: str, place: str, effort: Effort, candidate: str, count: int, *, threads: int | None = None
) -> dict[str, float]:
    """Read a workload on so many cores; call it in a process of its own.

    Args:
        name: of the workload.
        place: directory of its files.
        effort: for how long.
        candidate: who reads.
        count: of the cores.
        threads: of the pipeline, where these are not to be as many as cores.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    quieten_tensorflow()
    import tensorflow as tf

    workload = make(name, quick=effort.quick)
    files = Path(place) / "by_hand"
    if candidate == OURS:
        batches = dataset(workload, Path(place) / "own", 0, None)
    elif candidate == EXPERT:
        batches = handwritten.expert_dataset(workload, files, 0, None)
    elif candidate == _PARSER:
        batches = handwritten.parsed_again(workload, files)
    else:
        batches = handwritten.raw_dataset(files, None).map(lambda serialized: {LENGTH: serialized})
    options = tf.data.Options()
    if threads is not None:
        options.threading.private_threadpool_size = threads
    taken = iter(batches.shard(_TAKEN, 0).with_options(options))
    _drain(taken, effort.seconds * _WARM)
    before = _of_threads()
    took, records = time_run(lambda: _drain(taken, effort.seconds))
    spent = [all_of_it - before.get(thread, 0) for thread, all_of_it in _of_threads().items()]
    return {
        "processor": sum(spent) / records * 1e-3,
        "busiest": max(spent) / records * 1e-3,
        "records_per_second": records / took.clock,
    }


def _drain(taken: Any, seconds: float) -> int:
    """Take batches for so long, and return how many records they had with those that were left out between them."""
    end, records = time.perf_counter() + seconds, 0
    while not records or time.perf_counter() < end:
        batch = next(taken)
        records += _TAKEN * int(batch[LENGTH].shape[0])
    return records


def _of_threads() -> dict[str, int]:
    """Return the nanoseconds that each thread of this process has run."""
    spent = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            spent[task.name] = int((task / "schedstat").read_text().split()[0])
        except OSError:  # it has ended
            continue
    return spent
