"""A guard against losing speed: ratios to hand-written TensorFlow in the same run, with generous floors.

Runs on request, `pytest -m perf`, on a machine that does nothing else. A ratio of medians hardly depends on the
processor; the floors are about half of what was measured when they were set.
"""

import pytest

from seqrecorder.cli.bench import run
from seqrecorder.cli.bench.candidates import COLUMNS, OURS, PACKED
from seqrecorder.cli.bench.timing import Effort

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
