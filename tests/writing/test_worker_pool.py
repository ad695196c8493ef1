"""Worker processes: the same bytes as without them, and errors that say where."""

import hashlib
from pathlib import Path

import pytest
from written_records import Clip

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


def test_classes_that_workers_cannot_import_are_refused(tmp_path: Path) -> None:
    """A class that other processes cannot import is refused at once, with the way out."""

    @sr.record
    class Local:
        x: int = sr.context(int)

    with pytest.raises(sr.OptionError, match="define the class at the top of a module"):
        sr.write([Local(1)], tmp_path / "local", workers=2)
