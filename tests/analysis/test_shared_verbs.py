"""Verbs that read whole datasets: the same results from several processes, called from any program."""

import itertools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.storage import processes_and_signals as processes


@sr.record
class Reading:
    key: str = sr.context(str, key=True)
    word: np.ndarray = sr.feature_list(str)
    value: np.ndarray = sr.feature_list("float64")


@pytest.fixture
def busy(monkeypatch):
    """Let a second pass whenever the clock is looked at, so that it seems that much is left after the first item."""
    monkeypatch.setattr(processes, "time", SimpleNamespace(perf_counter=itertools.count().__next__))
    monkeypatch.setattr(processes, "cores", lambda: 2)


@pytest.fixture
def corpus(tmp_path):
    rng = np.random.default_rng(0)
    splits = {
        name: [
            Reading(f"{name} {n}", [f"w{each}" for each in rng.integers(0, 30, 5)], rng.normal(size=5))
            for n in range(count)
        ]
        for name, count in (("train", 50), ("eval", 20), ("test", 3))
    }
    sr.write(splits, tmp_path / "data", shards=2)
    return tmp_path / "data"


def figures(corpus):
    """Return what verbs say of a dataset, read as its own class and as a class of this module."""
    opened = sr.open(corpus, schema=Reading)
    return (
        sr.verify(corpus),
        sr.leakage(corpus),
        sr.leakage({"first": opened["train"][:30], "last": opened["train"][20:]}).shared,
        sr.stats(corpus).to_json(),
        sr.stats(opened, by="key", fields=["value"]).to_json(),
        sr.stats(opened["train"][::2]).to_json(),
        sr.Vocabulary.build(opened.all(), "word").tokens,
        sr.Vocabulary.build(corpus, "word", pieces=lambda text: [text[0], text[1:]]).tokens,
    )


def test_verbs_give_the_same_from_several_processes(corpus, request):
    """Verification, statistics and vocabularies are the same, bit for bit, and so is what is wrong."""
    expected = figures(corpus)
    shard = next((corpus / "eval").glob("*.tfrecord"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = corpus.parent / "damaged"
    damaged.mkdir()
    (damaged / shard.name).write_bytes(shard.read_bytes())
    request.getfixturevalue("busy")
    assert figures(corpus) == expected
    shard.write_bytes(data)
    several = sr.verify(corpus)
    assert not several.ok
    request.getfixturevalue("monkeypatch").undo()
    assert several == sr.verify(corpus)
    shard.write_bytes((damaged / shard.name).read_bytes())


SCRIPT = """
import itertools, multiprocessing, sys
from types import SimpleNamespace
import seqrecorder as sr
from seqrecorder.storage import processes_and_signals as processes

print("begun", flush=True)
processes.time = SimpleNamespace(perf_counter=itertools.count().__next__)
processes.cores = lambda: 2

def verbs(path):
    print(sr.verify(path).ok, sr.stats(path).records, len(sr.Vocabulary.build(path, "word")) > 2, flush=True)

if sys.argv[2] == "daemon":
    child = multiprocessing.get_context("fork").Process(target=verbs, args=(sys.argv[1],), daemon=True)
    child.start()
    child.join()
else:
    verbs(sys.argv[1])
"""


@pytest.mark.parametrize(
    "way", ["stdin", "daemon", *(pytest.param(way, marks=pytest.mark.nightly) for way in ("file", "-c"))]
)
def test_any_program_may_call_them(corpus, tmp_path, way):
    """A script without a guard, standard input, a command and a daemonic process: none is run a second time."""
    (tmp_path / "script.py").write_text(SCRIPT)
    begin = {"stdin": ["-"], "-c": ["-c", SCRIPT]}.get(way, [str(tmp_path / "script.py")])
    command = [sys.executable, "-W", "ignore::DeprecationWarning", *begin, str(corpus), way]
    done = subprocess.run(
        command, input=SCRIPT if way == "stdin" else "", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.splitlines() == ["begun", "True 73 True"], done.stderr[-2000:]
