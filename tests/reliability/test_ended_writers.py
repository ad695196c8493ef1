"""Nothing outlives a writer: whatever signal ends it, its workers, locks and pipes go with it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seqrecorder.storage.locks import lock, unlock

pytestmark = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="processes are looked for in /proc")

CLASS = """
import os, time, attrs, numpy as np, seqrecorder as sr
@sr.record
class Row:
    key: str = sr.context(str, key=True)
    x: np.ndarray = sr.feature_list("float32", shape=(64,))
    blocks: bool = attrs.field(default=False)
    def load(self):
        if not self.blocks:
            return
        if os.getpid() == int(os.environ["WRITER"]):
            time.sleep(0.05)  # workers start where `load` takes long
        else:
            open(f"blocked {self.key}", "w").close()
            time.sleep(600)
"""
WRITER = """
import itertools, os, sys, numpy as np, seqrecorder as sr
from row import Row
def rows():
    print("started", flush=True)
    os.environ.setdefault("WRITER", str(os.getpid()))
    for number in itertools.count():
        yield Row(str(number), np.zeros((500, 64), "float32"), sys.argv[1] == "blocks")
if __name__ == "__main__":
    sr.write(rows(), "data", workers=2)
"""
SECONDS = 30  # for what takes less than one on a quiet machine; `load` takes 600


def started(directory: Path, how: str) -> subprocess.Popen[bytes]:
    (directory / "row.py").write_text(CLASS)
    (directory / "writer.py").write_text(WRITER)
    writer = subprocess.Popen(
        [sys.executable, "writer.py", how],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"started\n"
    return writer


def alive(directory: Path) -> list[str]:
    """Return the processes that run in the directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == directory:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            pass
    return found


def wait(condition, what: str) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "to_group", "code"),
    [(signal.SIGTERM, False, 128 + signal.SIGTERM), (signal.SIGINT, True, -signal.SIGINT)],
    ids=["terminated", "interrupted from the keyboard"],
)
def test_a_load_that_blocks_holds_nobody(tmp_path, number, to_group, code):
    """A writer whose workers are blocked in `load` cleans up and ends, and they with it."""
    writer = started(tmp_path, "blocks")
    wait(lambda: len(list(tmp_path.glob("blocked *"))) == 2, "both workers are in `load`")
    (os.killpg if to_group else os.kill)(writer.pid, number)
    _, said = writer.communicate(timeout=SECONDS)
    assert writer.returncode == code
    assert said.count(b"Traceback") == (number == signal.SIGINT), "workers say nothing"
    wait(lambda: not alive(tmp_path), "processes are left")
    assert not [path for path in tmp_path.iterdir() if "data" in path.name]


@pytest.mark.parametrize(
    "moments", [3, pytest.param(100, marks=pytest.mark.nightly)], ids=["three moments", "100 moments"]
)
def test_a_killed_writer_leaves_nothing(tmp_path, random, figure, moments):
    """After SIGKILL no worker is left, nobody holds the lock of what is unfinished, or the pipes."""
    left = []
    for moment in range(moments):
        directory = tmp_path / str(moment)
        directory.mkdir()
        writer = started(directory, "blocks" if moment % 3 == 2 else "runs")
        time.sleep(random.uniform(0, 1.5))
        writer.kill()
        writer.communicate(timeout=SECONDS)  # the end of its pipes: nobody else has them
        wait(lambda: not alive(directory), "processes are left")  # noqa: B023 - called here
        for path in directory.glob(".data.incomplete-*"):
            try:
                unlock(lock(path, wait=False))
            except BlockingIOError:
                left.append(path)
        assert not (directory / "data").exists()
    figure("32", "writers with workers killed", moments, "no process, lock or pipe left")
    assert not left
