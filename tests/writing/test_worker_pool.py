"""Worker processes: the same bytes as without them, and errors that say where."""

import hashlib
import logging
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pyarrow as pa
import pytest
from workers_at_once import at_once
from written_records import Clip, Tokens

import seqrecorder as sr
from seqrecorder.storage.processes_and_signals import ChildTraceback
from seqrecorder.writing import workers as worker_pool
from seqrecorder.writing.columns import Block
from seqrecorder.writing.workers import _Costs


def digest(directory: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        total.update(str(path.relative_to(directory)).encode() + path.read_bytes())
    return total.hexdigest()


def clips() -> list[Clip]:
    sizes = [5, 0, 1200, 40, -1, 2500, 7]
    return [Clip(f"c{number}", size=size) for number, size in enumerate(sizes)]


@pytest.fixture
def workers_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(monkeypatch.setattr)


@pytest.mark.usefixtures("workers_take_over")
def test_workers_give_the_same_bytes(tmp_path: Path) -> None:
    """Two workers, which load, split and encode, give every byte that one process gives; errors name the record."""
    options = {"splits": {"train": 0.6, "eval": 0.4}, "seed": 3, "params": {"length": 1000}, "csv": True}
    alone = sr.write(clips(), tmp_path / "alone", **options)
    together = sr.write(clips(), tmp_path / "together", workers=2, **options)
    assert (alone.records, alone.skipped) == (together.records, together.skipped) == (9, 1)
    assert digest(tmp_path / "alone") == digest(tmp_path / "together")
    with pytest.raises(sr.RecordError, match="record 7 .key 'broken'..*Clip.load failed: RuntimeError") as caught:
        sr.write([*clips(), Clip("broken", size=1)], tmp_path / "broken", workers=2)
    assert not (tmp_path / "broken").exists()
    assert isinstance(caught.value.__cause__, ChildTraceback)
    assert "in load" in str(caught.value.__cause__)


@pytest.mark.usefixtures("workers_take_over")
def test_workers_encode_columns(tmp_path: Path) -> None:
    """Dictionaries, tables and batches of columns, doubled keys among them, give the same bytes with workers."""
    rows = [
        {"key": f"k{number % 9000}", "ids": list(range(number % 5)), "words": ["é", "b"]} for number in range(10_000)
    ]
    frame = pa.Table.from_pylist([{"key": f"t{number}", "ids": [number]} for number in range(3000)])
    digests = []
    for workers in (1, 2):
        directory = tmp_path / str(workers)
        options = {"splits": {"a": 0.5, "b": 0.5}, "on_duplicate": "first", "workers": workers, "seed": 1}
        with sr.Writer(directory, Tokens, **options) as writer:
            writer.write(Tokens("first", [1]))
            writer.write_all(rows)
            writer.write_batch(frame)
            writer.write_all(frame.slice(0, 10))
            writer.write(Tokens("last", [2]))
        digests.append(digest(directory))
        assert writer.manifest.records == 12_002
    assert digests[0] == digests[1]
    bad = pa.table({"key": ["a", "b"], "ids": [[1], None]})
    with pytest.raises(sr.RecordError, match=r"record 1 \(key 'b'\)"):
        sr.write(bad, tmp_path / "bad", schema=Tokens, workers=2)
    csv = [sr.write(rows[:50], tmp_path / f"csv{n}", schema=Tokens, csv=True, workers=n, seed=0) for n in (1, 2)]
    assert digest(csv[0].path) == digest(csv[1].path)


def test_classes_that_workers_cannot_import_are_refused(tmp_path: Path) -> None:
    """A class that other processes cannot import is refused at once, with the way out."""

    @sr.record
    class Local:
        x: int = sr.context(int)

    with pytest.raises(sr.OptionError, match="define classes and functions at the top of a module"):
        sr.write([Local(1)], tmp_path / "local", workers=2)
    with pytest.raises(sr.RecordError):  # it goes on alone, and says what it was
        sr.write([Local(None)], tmp_path / "local", workers="auto")  # type: ignore[arg-type]
    assert sr.write([Local(1)], tmp_path / "local", workers="auto").records == 1


@pytest.mark.parametrize(("workers", "level"), [(2, logging.WARNING), ("auto", logging.INFO)])
def test_where_workers_do_not_pay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, workers: Any, level: int
) -> None:
    """Where the copy takes longer than the encoding, it is said once, and no process is started."""
    monkeypatch.setattr(_Costs, "verdict", property(lambda _: False))
    monkeypatch.setattr(worker_pool, "Child", None)
    with caplog.at_level(logging.INFO, "seqrecorder"):
        manifest = sr.write(clips(), tmp_path / "c", params={"length": 1000}, workers=workers)
    assert manifest.records == 9
    levels = {record.message.partition(":")[2]: record.levelno for record in caplog.records}
    assert [levelno for text, levelno in levels.items() if "takes longer than encoding" in text] == [level]


def test_the_verdict() -> None:
    """Workers are worth what they save of the encoding that came; the first chunk, and short times, say nothing."""
    times = iter(())
    empty: dict[str, Any] = {field.name: [] for field in attrs.fields(Block)}

    def costs(*chunks: tuple[float, float]) -> _Costs:
        nonlocal times
        found = _Costs()
        found._clock = lambda: next(times)
        for encoding, pickling in chunks:
            times = iter((0.0, encoding, encoding))
            assert len(list(found.measure(iter([Block(**empty)]), pickling if found.wants_sample else None))) == 1
        return found

    assert costs((9, 0)).verdict is None, "one chunk"
    assert costs((0.1, 0.01), (0.1, 0.01)).verdict is None, "too short"
    assert costs((0.1, 9), (0.5, 0.01), (0.5, 0.01), (0.5, 9)).verdict is True, "not the first, and not of each"
    assert costs((9, 0), (0.5, 0.3)).verdict is False
    assert costs((0.1, 0), (0.5, 0.2)).verdict is None, "what is saved so far is less than they cost"
    assert costs((0.1, 0), (0.5, 0.2), (5, 1)).verdict is True


@pytest.mark.usefixtures("workers_take_over")
def test_workers_that_cannot_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where a worker cannot have the class, such as one of a notebook, this process goes on alone, and says why."""
    module = sys.modules["only_here"] = ModuleType("only_here")
    try:
        exec("import seqrecorder as sr\n@sr.record\nclass Here:\n    x: int = sr.context(int)\n", vars(module))  # noqa: S102
        with sr.Writer(tmp_path / "d", module.Here, workers=2) as writer:
            for number in range(4):
                writer.write_all([module.Here(number)] * 16384)
    finally:
        del sys.modules["only_here"]
    assert writer.manifest.records == 4 * 16384
    assert [record.message for record in caplog.records if "cannot start" in record.message] == [
        "workers=2: this process writes alone: workers cannot start: ModuleNotFoundError: No module named 'only_here'"
    ]


class Picky:
    def __reduce__(self) -> Any:
        raise pickle.PicklingError("not me")


@sr.record
class Held:
    x: int = sr.context(int)
    by: Any = attrs.field(default=None)
    kills: bool = attrs.field(default=False)

    def load(self) -> None:
        if self.kills:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("workers_take_over")
def test_records_that_cannot_be_pickled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From the first record on that cannot reach a worker, this process goes on alone, in order."""
    records = [Held(number, Picky() if number == 20 else None) for number in range(60)]
    manifest = sr.write(records, tmp_path / "d", workers=2)
    assert [record.x for record in sr.read_records(manifest.path)] == list(range(60))
    assert [record.message for record in caplog.records] == [
        "workers=2: this process writes alone: records cannot reach other processes: PicklingError: not me"
    ]


@pytest.mark.usefixtures("workers_take_over")
def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    """The death of a worker is an error, and no dataset."""
    with pytest.raises(
        sr.SourceError, match="a worker process ended with exit code -9: was it killed, or out of memory"
    ):
        sr.write([Held(number, kills=number == 20) for number in range(30)], tmp_path / "d", workers=2)
    assert not list(tmp_path.iterdir())


SCRIPT = """
import os, sys
import tensorflow as tf
import seqrecorder as sr
from workers_at_once import at_once
at_once()
@sr.record
class Row:
    uses: bool = sr.context(bool)
    def load(self):
        if self.uses:
            import tensorflow.keras
            assert tensorflow.keras.LAYERS == tf.keras.LAYERS == tf.VALUE == 3
def written(uses):
    sr.write([Row(uses) for _ in range(8)], f"{uses} {sys.argv[0]} data", workers=2)
    return len(set(open("loaded").read().split()))
"""
GUARDED = SCRIPT + "if __name__ == '__main__':\n    print(written(False), written(True))\n"


def test_workers_run_the_script_without_tensorflow(tmp_path: Path) -> None:
    """A script that imports TensorFlow at its top is run by workers without it, until a hook uses it."""
    package = tmp_path / "tensorflow"
    package.mkdir()
    (package / "__init__.py").write_text("import os\nopen('loaded', 'a').write(f'{os.getpid()} ')\nVALUE = 3\n")
    (package / "keras.py").write_text("LAYERS = 3\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", str(Path(__file__).parents[1]), *sys.path])}
    for name, text in (("guarded.py", GUARDED), ("unguarded.py", SCRIPT + "print(written(False))\n")):
        (tmp_path / name).write_text(text)
    said = [
        subprocess.run(
            [sys.executable, name], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        for name in ("guarded.py", "unguarded.py")
    ]
    alone, loaded = map(int, said[0].stdout.split())
    assert alone == 1
    assert loaded in (2, 3), "one worker may have done it all"
    assert "cannot start: OptionError: a script that uses workers= needs `if __name__ ==" in said[1].stderr
