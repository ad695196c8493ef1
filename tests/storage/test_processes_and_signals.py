"""Work in processes: the same results in the same order, errors told, and nothing of the main script."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import slow_work

import seqrecorder as sr
from seqrecorder.storage import processes_and_signals as processes


@pytest.fixture
def busy(monkeypatch):
    """Let a second pass whenever the clock is looked at, so that it seems that much is left after the first item."""
    monkeypatch.setattr(processes, "time", SimpleNamespace(perf_counter=itertools.count().__next__))
    monkeypatch.setattr(processes, "cores", lambda: 2)


def results(work, items):
    with contextlib.closing(processes.in_processes(work, items)) as done:
        return [(item, answer.result()) for item, answer in done]


@pytest.mark.usefixtures("busy")
def test_the_rest_is_shared_once_much_is_left():
    """The first item is worked on here, the others in two processes; results come in the order of the items."""
    answers = results(slow_work.where, list(range(20)))
    assert [item for item, _ in answers] == [item for _, (item, _) in answers] == list(range(20))
    here, *elsewhere = [process for _, (_, process) in answers]
    assert here == os.getpid()
    assert here not in elsewhere
    assert 1 <= len({*elsewhere}) <= 2


def test_little_work_stays_here():
    """Of work that is done in a moment no process is started."""
    assert {process for _, (_, process) in results(slow_work.where, list(range(50)))} == {os.getpid()}


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("dies", sr.SourceError, "worker process ended with exit code 7"),
        ("ours", sr.OptionError, "here"),
        ("theirs", sr.SeqrecorderError, "UnpicklableError: 1 and 2"),
    ],
)
def test_errors_elsewhere_are_raised_here(kind, error, message):
    """A process that dies is told with its exit code, an error as itself, or as text where it cannot be pickled."""
    with pytest.raises(error, match=message):
        results(slow_work.fail_elsewhere, [(kind, os.getpid())] * 5)


@pytest.mark.usefixtures("busy")
def test_processes_end_at_once():
    """Whoever stops early does not wait for what other processes are doing."""
    with contextlib.closing(processes.in_processes(slow_work.fail_elsewhere, [("sleeps", os.getpid())] * 5)) as done:
        assert next(done)[1].result() == "sleeps"
        next(done)[1].cancel()


def test_an_interrupt_ends_all():
    """Ctrl-C, which reaches all processes of a terminal, ends the program as any other, and the processes with it."""
    script = """
import itertools, os, signal, threading, time
from types import SimpleNamespace
import slow_work
from seqrecorder.storage import processes_and_signals as processes
processes.time = SimpleNamespace(perf_counter=itertools.count().__next__)
processes.cores = lambda: 2
import contextlib
items = [("sleeps", os.getpid())] * 9
with contextlib.closing(processes.in_processes(slow_work.fail_elsewhere, items)) as done:
    for _, answer in done:
        print(os.getpid(), flush=True)
        answer.result()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    for _ in range(2):
        assert child.stdout.readline()
    time.sleep(1)  # until the second item is asked for: an interrupt before ends it all the more
    os.killpg(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    assert child.returncode == -signal.SIGINT
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)
