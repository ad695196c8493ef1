"""Writers that live when the interpreter ends, and places and streams that are gone."""

import io
import subprocess
import sys
import textwrap

import attrs
import pytest

import seqrecorder as sr
from seqrecorder.storage.processes_and_signals import Progress


@attrs.define
class Point:
    x: int = sr.context("int64", key=True)


def test_writers_at_the_end_of_the_interpreter(tmp_path):
    """A writer that is left open leaves nothing; threads that outlive the main one, and `atexit`, write."""
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import atexit, threading, time, numpy as np, seqrecorder as sr
            @sr.record
            class Row:
                key: str = sr.context(str, key=True)
                ids: np.ndarray = sr.feature_list("int64")
            def rows(count):
                return (Row(str(i), np.arange(i % 9)) for i in range(count))
            def after_main():
                threading.main_thread().join()
                print(sr.write(rows(30_000), "by a thread").records)
                print(sum(1 for _ in sr.read_records("by a thread")))
            def late(writer=sr.Writer("by a daemon", Row).__enter__()):
                try:
                    while True:
                        writer.write_batch({"key": [], "ids": (np.zeros(0, int), np.zeros(0, int))})
                        time.sleep(0.001)  # lets others have the GIL
                except sr.OptionError as error:
                    said.append(error)
            said = []
            atexit.register(lambda: print(sr.write(rows(30_000), "at exit").records, len(said)))
            left_open = [sr.Writer(f"open {kind}", Row, compression=kind).__enter__() for kind in (None, "GZIP")]
            for writer in left_open:
                writer.write_batch({"key": ["a"], "ids": (np.arange(100_000), np.array([100_000]))})
            threading.Thread(target=late, daemon=True).start()
            threading.Thread(target=after_main).start()
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.split() == ["30000", "30000", "30000", "0"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["at exit", "by a thread", "script.py"]


def test_a_working_directory_that_is_gone(tmp_path, monkeypatch):
    """Absolute paths work from there; a relative destination is refused, and says so."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(sr.OptionError, match="the working directory was removed"):
        sr.write([Point(1)], "data")
    sr.write([Point(1)], tmp_path / "data")
    sr.write([Point(2)], tmp_path / "data", overwrite=True)
    assert [record.x for record in sr.read_records(tmp_path / "data")] == [2]
    with pytest.raises(sr.OptionError, match="the working directory was removed"):
        sr.read_records("data")


class Broken(io.StringIO):
    """A terminal that nobody reads any more."""

    def isatty(self):
        return True

    def write(self, text):
        raise BrokenPipeError(text)


@pytest.mark.parametrize("stream", [None, "closed", Broken()], ids=["none", "closed", "broken"])
@pytest.mark.parametrize("show", [None, True])
def test_progress_that_nobody_sees(monkeypatch, stream, show):
    """Without a stderr, or with one that is closed or broken, there is no bar, and writing goes on."""
    if stream == "closed":
        stream = io.StringIO()
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress(show, "writing")
    progress.expect(3)
    progress.reach(3)
    progress.close()


@pytest.mark.parametrize(
    "end", ["| head -1", ">&-", pytest.param("> /dev/full", marks=pytest.mark.nightly)], ids=["pipe", "closed", "full"]
)
def test_the_command_line_without_anybody_who_reads(tmp_path, end):
    """`head` into a pipe that closes, or without a stdout, ends without a traceback."""
    sr.write([Point(i) for i in range(3000)], tmp_path / "data")
    command = f"{sys.executable} -m seqrecorder head {tmp_path / 'data'} -n 3000 {end}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=200, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
