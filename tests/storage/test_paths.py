"""A path as somebody gives it: where it leads, and which files it names."""

import pytest

import seqrecorder as sr
from seqrecorder.storage.names import files_named, local_path, local_pattern


def test_patterns(tmp_path, monkeypatch):
    """Only what was given is a pattern, not the working directory."""
    (tmp_path / "[a]").mkdir()
    monkeypatch.chdir(tmp_path / "[a]")
    assert local_pattern("*.x") == f"{tmp_path}/[[]a]/*.x"
    assert local_pattern("/b/*.x") == "/b/*.x"
    assert local_path("b/../c") == tmp_path / "[a]" / "b" / ".." / "c"


def test_files_that_are_named(tmp_path):
    """Files come by path and by glob, in order; what names no file, or a directory, is refused, in salvage too."""
    for name in ("b.x", "a.x"):
        (tmp_path / name).touch()
    (tmp_path / "d.x").mkdir()
    assert files_named(tmp_path / "b.x") == [tmp_path / "b.x"]
    assert files_named([str(tmp_path / "b.x"), tmp_path / "*.x"]) == [tmp_path / name for name in ("b.x", "a.x", "b.x")]
    refused = [
        ([], sr.OptionError, "empty list"),
        ([tmp_path], sr.OptionError, "is a directory"),
        (tmp_path / "c.x", sr.DatasetNotFoundError, "no file .*c.x$"),
        (tmp_path / "d*", sr.DatasetNotFoundError, r"no file .*d\* \(as a glob\)"),
    ]
    for given, kind, words in refused:
        with pytest.raises(kind, match=words):
            files_named(given)
        with pytest.raises(kind, match=words):
            sr.salvage(given if isinstance(given, list) else [given], tmp_path / "saved")
