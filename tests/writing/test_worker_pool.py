"""Worker processes: the same bytes as without them, and errors that say where."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest
from written_records import Clip, Tokens

import seqrecorder as sr


def digest(directory: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        total.update(str(path.relative_to(directory)).encode() + path.read_bytes())
    return total.hexdigest()


def clips() -> list[Clip]:
    sizes = [5, 0, 1200, 40, -1, 2500, 7]
    return [Clip(f"c{number}", size=size) for number, size in enumerate(sizes)]


def test_workers_give_the_same_bytes(tmp_path: Path) -> None:
    """Two workers, which load, split and encode, give every byte that one process gives; errors name the record."""
    options = {"splits": {"train": 0.6, "eval": 0.4}, "seed": 3, "params": {"length": 1000}, "csv": True}
    alone = sr.write(clips(), tmp_path / "alone", **options)
    together = sr.write(clips(), tmp_path / "together", workers=2, **options)
    assert (alone.records, alone.skipped) == (together.records, together.skipped) == (9, 1)
    assert digest(tmp_path / "alone") == digest(tmp_path / "together")
    with pytest.raises(sr.RecordError, match="record 7: Clip.load failed: RuntimeError: no such clip"):
        sr.write([*clips(), Clip("broken", size=1)], tmp_path / "broken", workers=2)
    assert not (tmp_path / "broken").exists()


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

    with pytest.raises(sr.OptionError, match="define the class at the top of a module"):
        sr.write([Local(1)], tmp_path / "local", workers=2)
