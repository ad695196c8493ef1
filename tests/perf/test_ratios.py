"""A guard against losing speed: ratios to hand-written TensorFlow in the same run, with generous floors.

Runs on request, `pytest -m perf`, on a machine that does nothing else. A ratio of medians hardly depends on the
processor; the floors are about half of what was measured when they were set.
"""

import statistics

import h5py
import numpy as np
import pytest
from bench import run
from bench.candidates import COLUMNS, OURS, PACKED
from bench.timing import Effort, time_run

import seqrecorder as sr

FLOORS = {
    "W1": {
        ("encode", OURS): 8,
        ("write", OURS): 5,
        ("write", COLUMNS): 5,
        ("read", OURS): 3,
        ("read_records", OURS): 2.7,
    },
    "W2": {("encode", OURS): 18, ("write", OURS): 6.5, ("read", OURS): 0.7, ("read_records", OURS): 7},
    "W3": {("encode", OURS): 14, ("write", OURS): 3.3, ("read", OURS): 0.6, ("read_records", OURS): 1.2},
    "W4": {
        ("encode", OURS): 3.8,
        ("write", OURS): 3.3,
        ("write", COLUMNS): 5.5,
        ("read", OURS): 8,
        ("read_records", OURS): 1.9,
    },
    "W5": {
        ("encode", OURS): 4.5,
        ("write", OURS): 3,
        ("write", COLUMNS): 2.8,
        ("read", OURS): 2.7,
        ("read_records", OURS): 1.7,
    },
}
PACKED_BYTES = {"W1": 0.45, "W2": 0.92}


@sr.record
class Recording:
    """A recording of all channels."""

    key: str = sr.context(str, key=True)
    signal: np.ndarray = sr.feature_list("float32", shape=(64,), storage="buffer")


@pytest.mark.perf
@pytest.mark.parametrize("name", sorted(FLOORS))
def test_ratios_stay_above_their_floors(name):
    """Each operation is at least so many times as fast as the hand-written way, and packed files stay small."""
    report = run.measure(name, Effort(rounds=5), peers=False)  # of three, one in five was too low by chance
    ratios = {(timing.measure, timing.candidate): timing.ratio for timing in report.timings}
    slow = {what: (round(ratios[what], 2), floor) for what, floor in FLOORS[name].items() if ratios[what] < floor}
    assert not slow
    if name in PACKED_BYTES:
        assert report.bytes[PACKED] <= PACKED_BYTES[name] * report.raw_bytes


@pytest.mark.perf
def test_long_recordings_are_read_beside_hdf5(tmp_path):
    """Recordings of 64 channels, a buffer each, are read at least at a quarter of h5py's speed, which makes no CRCs."""
    signals = [np.full((5000, 64), number, np.float32) for number in range(100)]
    own, other = tmp_path / "own", tmp_path / "signals.h5"

    sr.write([Recording(str(number), signal) for number, signal in enumerate(signals)], own)
    with h5py.File(other, "w") as file:
        for number, signal in enumerate(signals):
            file.create_dataset(str(number), data=signal)

    def read_other():
        with h5py.File(other) as file:
            return [file[str(number)][()] for number in range(len(signals))]

    def read_own():
        return [record.signal for record in sr.read_records(own, schema=Recording)]

    np.testing.assert_array_equal(read_own(), signals)
    ours, theirs = (statistics.median(time_run(way)[0].processor for _ in range(9)) for way in (read_own, read_other))
    assert ours < 4 * theirs
