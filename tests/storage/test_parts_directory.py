"""The directory of parts: attempts that are complete are listed, and all of it goes."""

import os
import re
from pathlib import Path

import pytest
from faults import names

from seqrecorder.errors import DatasetNotFoundError, ShardWriteError
from seqrecorder.storage import files
from seqrecorder.storage.files import link_file
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


def test_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removing takes everything; what was left of it by a killed process goes later, and nothing else."""
    place = PartsDirectory.of(tmp_path / "corpus")
    with pytest.raises(DatasetNotFoundError), place.locked():
        pass
    place.new_attempt(1).mkdir(parents=True)
    place.note("x")
    assert place.noted() == "x"
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        place.remove()
    assert place.noted() is None
    assert len(names(tmp_path)) == 1
    (tmp_path / ".corpus.parts.removed-mine").mkdir()
    assert place.finish_removal()
    assert names(tmp_path) == [".corpus.parts.removed-mine"]
    assert not place.finish_removal()
    with pytest.raises(DatasetNotFoundError):
        PartsDirectory.of(tmp_path / "no" / "corpus").finish_removal()


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
