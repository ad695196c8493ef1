"""Long recordings of many channels, a buffer each, written and read back one by one as arrays: beside HDF5 and others.

Of 64 channels and 5,000 steps, as an EEG has them. Nothing but this library looks whether what it reads is what was
written, and waits for the disk. All is read from the system's cache.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import collections
import functools
import importlib
import importlib.util
import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.reading.read_records import read_records
from seqrecorder.schema.declarations import context, feature_list, record
from seqrecorder.writing.writer import write

from .candidates import OURS
from .table import pivot
from .timing import in_new_process, time_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from .timing import Effort, Taken

    Signals = Sequence[NDArray[np.float32]]
    Way = tuple[Callable[[], object], Callable[[], Iterable[Any]]]  # writes signals, and gives them back

_STEPS, _CHANNELS = 5000, 64
_COUNT, _QUICK_COUNT = 200, 4


@record
class Recording:
    """A recording of all channels."""

    key: str = context(str, key=True)
    signal: NDArray[np.float32] = feature_list("float32", shape=(_CHANNELS,), storage="buffer")


def measure(_: Sequence[str], effort: Effort, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure how fast recordings are written and read.

    Args:
        effort: how many of them, and how often.
        say: takes a line for the user.

    Returns:
        `crc`, who makes the CRCs; and `speeds`: by candidate and half (`write`, `read`), megabytes a second of the
        processor and of the clock, medians.

    Raises:
        AssertionError: what was read is not what was written.
    """
    say("recordings ...")
    found: dict[str, Any] = in_new_process(_measure, effort)
    return found


def _measure(effort: Effort) -> dict[str, Any]:
    random = np.random.default_rng(0)
    count = _QUICK_COUNT if effort.quick else _COUNT
    base = random.standard_normal((_STEPS, _CHANNELS), np.float32)
    signals = [base * np.float32(1 + number / count) for number in range(count)]
    size = sum(signal.nbytes for signal in signals) / 1e6

    with tempfile.TemporaryDirectory(prefix="seqrecorder-bench-") as place:
        ways = _ways(signals, Path(place))
        for name, (put, get) in ways.items():
            put()
            if not all(np.array_equal(one, other) for one, other in zip(get(), signals, strict=True)):
                raise AssertionError(f"recordings: {name} gave something else than was written")
        taken = _timed(ways, effort.rounds, Path(place))
    speeds = {name: {half: [size / took for took in both] for half, both in of.items()} for name, of in taken.items()}
    return {"crc": "google-crc32c" if importlib.util.find_spec("google_crc32c") else "numpy", "speeds": speeds}


def _timed(ways: Mapping[str, Way], rounds: int, place: Path) -> dict[str, dict[str, list[float]]]:
    """Return by candidate and half the median seconds of the processor and of the clock, of runs in turn.

    Each writes into an empty directory, while nothing of the others waits for the disk.
    """
    runs: dict[str, dict[str, list[Taken]]] = {name: {"write": [], "read": []} for name in ways}
    for _ in range(rounds):
        for name, (put, get) in ways.items():
            shutil.rmtree(place)
            place.mkdir()
            if hasattr(os, "sync"):
                os.sync()
            runs[name]["write"].append(time_run(put)[0])
            runs[name]["read"].append(time_run(functools.partial(_drain, get))[0])
    return {name: {half: _medians(some) for half, some in halves.items()} for name, halves in runs.items()}


def _drain(get: Callable[[], Iterable[Any]]) -> None:
    collections.deque(get(), maxlen=0)


def _medians(runs: Sequence[Taken]) -> list[float]:
    return [statistics.median(run.processor or 0.0 for run in runs), statistics.median(run.clock for run in runs)]


def _ways(signals: Signals, place: Path) -> dict[str, Way]:
    """Return how each candidate writes signals, and reads them one by one."""
    records = [Recording(str(number), signal) for number, signal in enumerate(signals)]
    own, array = place / "own", place / "signals.npy"

    ways: dict[str, Way] = {
        OURS: (
            lambda: write(records, own, overwrite=True),
            lambda: (record.signal for record in read_records(own, schema=Recording)),
        ),
        "npy": (lambda: np.save(array, np.stack(signals)), lambda: np.load(array)),
    }
    for name, way in (("h5py", _as_hdf5), ("pyarrow", _as_arrow)):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        ways |= way(library, signals, place)
    return ways


def _as_hdf5(h5py: Any, signals: Signals, place: Path) -> dict[str, Way]:
    path = place / "signals.h5"

    def put() -> None:
        with h5py.File(path, "w") as file:
            for number, signal in enumerate(signals):
                file.create_dataset(str(number), data=signal)

    def get() -> Iterator[NDArray[np.float32]]:
        with h5py.File(path) as file:
            for number in range(len(signals)):
                yield file[str(number)][()]

    return {"h5py": (put, get)}


def _as_arrow(pa: Any, signals: Signals, place: Path) -> dict[str, Way]:
    parquet = importlib.import_module("pyarrow.parquet")
    mapped, packed = place / "signals.arrow", place / "signals.parquet"

    def table() -> Any:
        return pa.table({"signal": pa.array([signal.reshape(-1) for signal in signals], pa.list_(pa.float32()))})

    def put() -> None:
        rows = table()
        with pa.OSFile(str(mapped), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=20)

    def arrays(column: Any) -> Iterator[NDArray[np.float32]]:
        for value in column:
            yield value.values.to_numpy().reshape(-1, _CHANNELS)

    def get() -> Iterator[NDArray[np.float32]]:
        with pa.memory_map(str(mapped)) as file:
            yield from arrays(pa.ipc.open_file(file).read_all()["signal"])

    return {
        "Arrow IPC, mapped": (put, get),
        "Parquet": (
            lambda: parquet.write_table(table(), packed),
            lambda: arrays(parquet.read_table(packed)["signal"]),
        ),
    }


def text(report: dict[str, Any]) -> str:
    """Return the report as a Markdown table, which reads well in a terminal too."""
    cells = {
        (name, f"{half}, by the {of}"): f"{speed:,.0f}"
        for name, halves in report["speeds"].items()
        for half, speeds in halves.items()
        for of, speed in zip(("processor", "clock"), speeds, strict=True)
    }
    said = f"megabytes a second, recordings of {_STEPS:,} x {_CHANNELS} float32; CRCs by {report['crc']}"
    return "\n".join([said, "", *pivot(cells)])
