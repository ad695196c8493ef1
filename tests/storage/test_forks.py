"""Forked processes: they leave their parent's files alone, and are told that TensorFlow has no threads in them."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from seqrecorder.storage import forks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")

ROW = """
import os, sys, numpy as np, seqrecorder as sr
@sr.record
class Row:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")
def said(function):
    try:
        function()
    except sr.OptionError as error:
        return str(error)
    return "nothing"
"""


def run(directory: Path, script: str) -> list[str]:
    path = directory / "script.py"
    path.write_text(ROW + textwrap.dedent(script))
    done = subprocess.run(
        [sys.executable, path], cwd=directory, capture_output=True, text=True, timeout=100, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("end", "compression"),
    [("return", None), ("sys.exit()", "GZIP"), pytest.param("os._exit(0)", "GZIP", marks=pytest.mark.nightly)],
)
def test_a_child_publishes_nothing_and_writes_nothing(tmp_path, compression, end):
    """However a child ends that was forked between two records, the parent's dataset is whole, and lines of the CSV."""
    lines = run(
        tmp_path,
        f"""
        def main():
            with sr.Writer("data", Row, compression={compression!r}, csv=True) as writer:
                for number in range(300):
                    writer.write_batch({{"key": [f"k{{number}}"], "ids": (np.arange(number), np.array([number]))}})
                if not os.fork():
                    print(said(lambda: writer.write(Row("child", [1]))), flush=True)
                    {end}
                os.wait()
                writer.write(Row("last", [1]))
            print(sr.verify("data").ok, sr.info("data").records)
            print(sum(1 for _ in open("data/train/examples.csv")))
        try:
            main()
        except sr.OptionError as error:
            print(error, flush=True)  # the child's, where it leaves the block as if all were well
        """,
    )
    assert lines[0].startswith("this Writer is of process")
    assert lines[1:-2] == lines[:1] * (end == "return")
    assert lines[-2:] == ["True 301", "302"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_child_of_a_process_that_used_tensorflow_is_told(tmp_path):
    """What needs TensorFlow's threads says that it would hang; what was forked before goes on, and so does writing."""
    lines = run(
        tmp_path,
        """
        sr.write([Row(f"k{i}", np.arange(200)) for i in range(2000)], "data")
        def child(number):
            if os.fork():
                return os.wait()
            if number:
                for use in (sr.read, sr.verify, lambda p: sr.salvage(p, "x"), lambda p: list(sr.read_records(p))):
                    print(said(lambda: use("data")).split(",")[0])
            print(sr.verify("data", level="quick").ok)
            sr.write([Row("a", [1])], f"by {number}", compression="GZIP")
            if not number:
                print(len(list(sr.read_records("data"))))
            sys.stdout.flush()
            os._exit(0)
        child(0)
        assert len(list(sr.read_records("data"))) == 2000
        child(1)
        print(len(list(sr.read_records("by 1"))))
        """,
    )
    pid = lines[2].split("(pid ")[1].split(")")[0]
    said = f"this process (pid {pid}) was forked after its parent had used TensorFlow"
    expected = [f"{name}: {said}" for name in ("read", "verify", "salvage", "read_records")]
    assert lines == ["True", "2000", *expected, "True", "1"]


def test_files_of_other_directories_stay_open(tmp_path):
    """Only the files inside of the directory that is named are let go."""
    (tmp_path / "ours").mkdir()
    with (tmp_path / "ours/a").open("w") as ours, (tmp_path / "theirs").open("w") as theirs:
        with forks.kept_from_children(tmp_path / "ours"):
            child = os.fork()
            if not child:
                os.write(ours.fileno(), b"child")
                os.write(theirs.fileno(), b"child")
                os._exit(0)
        os.waitpid(child, 0)
    assert (tmp_path / "ours/a").read_text() == ""
    assert (tmp_path / "theirs").read_text() == "child"
