"""The simulation of what parts, manifests and keys cost at scale, in bounded memory."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("at_scale.py")


@pytest.mark.nightly
def test_simulation(tmp_path: Path, figure: Any) -> None:
    """A job of which parts are lost and doubled is committed once all are there; keys take 1.2 GiB at most."""
    keys, parts = 150_000_000, 300
    command = [sys.executable, str(SCRIPT), str(tmp_path), str(parts), "1000", str(keys)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(r"refused: .*missing: ", done.stdout)
    memory = int(re.search(r"memory for that: (\d+) MiB", done.stdout)[1])
    assert memory < 1200
    figure(8, f"MiB that the keys of parts, {keys:,} of them, took", memory, "at most 1,200")
    figure(36, "parts of a job that lost 1 % and wrote 5 % twice", parts, "each once")
