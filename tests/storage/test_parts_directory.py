"""The directory of parts: attempts that are complete are listed, and all of it goes."""

import contextlib
import os
import re
from pathlib import Path

import pytest
from faults import FailAt, names

from seqrecorder.errors import DatasetNotFoundError, ShardWriteError
from seqrecorder.storage import files
from seqrecorder.storage.files import link_file, on_fault_point
from seqrecorder.storage.locks import exclusive
from seqrecorder.storage.publish import PartsDirectory


def test_attempts(tmp_path: Path) -> None:
    """Attempts have names of their own beside the destination; those without a manifest are none."""
    (tmp_path / "link").symlink_to(tmp_path / "corpus")
    place = PartsDirectory.of(tmp_path / "link")
    assert place.path == tmp_path / "corpus.parts"
    made = [place.new_attempt(part) for part in (7, 7, "a")]
    assert [re.sub("-[0-9a-f]{16}", "", path.name) for path in made] == ["00007", "00007", "a"]
    assert len(set(made)) == 3
    for number, path in enumerate([*made[:2], place.path / ".hidden"]):
        path.mkdir(parents=True)
        (path / "manifest.json").touch()
        os.utime(path / "manifest.json", ns=(0, number))
    made[2].mkdir()
    assert dict(place.attempts) == {made[0]: 0, made[1]: 1}


def test_removal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Attempts that were noted go, and those that go on; what was completed since waits, and the user's own stays."""
    place = PartsDirectory.of(tmp_path / "corpus")
    with pytest.raises(DatasetNotFoundError), exclusive(place.path):
        pass
    for name in ("00001-x", ".00002-y.incomplete-0123456789abcdef", "mine"):
        (place.path / name).mkdir(parents=True)
    (place.path / "00001-x" / "manifest.json").touch()
    place.note("x")
    assert place.noted() == "x"
    (place.path / "00003-z").mkdir()
    (place.path / "00003-z" / "manifest.json").touch()
    place.remove()
    assert names(place.path) == ["00003-z", "mine"]
    assert "00003-z was completed" in caplog.text
    (place.path / "mine").rmdir()
    place = PartsDirectory.of(tmp_path / "corpus")
    place.note("z")
    place.remove()
    assert names(tmp_path) == []


def test_a_removal_that_is_killed_is_ended_by_the_next_one(tmp_path: Path) -> None:
    """Stopped at any operation, it leaves the note while an attempt is there, and the next one removes the rest."""
    for number in range(1, 40):
        place = PartsDirectory.of(tmp_path / str(number))
        for name in ("1", "2"):
            (place.path / name).mkdir(parents=True)
            (place.path / name / "manifest.json").touch()
        place.note("x")
        hook = FailAt(number, KeyboardInterrupt())
        with on_fault_point(hook), contextlib.suppress(KeyboardInterrupt):
            place.remove()
        if place.path.exists():
            again = PartsDirectory.of(tmp_path / str(number))
            assert again.noted() == "x" or not again.attempts
            again.remove()
        assert not place.path.exists()
        if hook.seen < number:
            break
    assert 8 < number < 39


def test_copies_where_nothing_can_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file gets a second name; where the system refuses links, it is copied, and other failures are told."""
    source = tmp_path / "a"
    source.write_bytes(b"abc")
    link_file(source, tmp_path / "b")
    assert (tmp_path / "b").samefile(source)
    with pytest.raises(ShardWriteError, match="cannot take over"):
        link_file(source, tmp_path / "b")

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(files.os, "link", refuse)
    link_file(source, tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == b"abc"
    assert not (tmp_path / "c").samefile(source)
