"""Beam and Spark write to an S3 server, workers and requests fail, and two workers train from the cache."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "beyond_one_machine"
COUNT = 10_000
INJECTED = {
    "GET tfrecord 200 cut short",
    "GET tfrecord 503 before",
    "PUT manifest.json 500 after",
    "PUT tfrecord 403 before",
    "PUT tfrecord 500 after",
    "PUT tfrecord 503 before",
}


@pytest.mark.filterwarnings("default")
def test_the_program_of_the_guide(tmp_path: Path) -> None:
    """Whatever fails, each record comes once to the workers, and of failed attempts nothing is left."""
    for name in ("apache_beam", "pyspark", "moto.server", "s3fs"):
        pytest.importorskip(name)
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    lines = done.stdout.splitlines()
    for name in ("beam", "spark"):
        said = [line for line in lines if line.startswith(name)]
        assert said[0].startswith(f"{name}: 3 workers lost")
        assert int(said[1].split()[2]) > 0
        assert said[1].endswith(" 0 parts are left")
        assert said[2:] == [f"{name}: verified; two workers had each of {COUNT:,} records once"]
    injected = {fault: int(times) for times, _, fault in (line.partition(" x ") for line in lines) if fault}
    assert injected.keys() == INJECTED
    assert min(injected.values()) >= 2
