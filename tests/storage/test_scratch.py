"""Directories for temporary files."""

import tempfile
from pathlib import Path

import pytest

from seqrecorder.storage import processes_and_signals as scratch


def test_only_ours_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What killed processes left goes; directories of users whose names are alike stay, unlocked as they are."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = Path(tempfile.mkdtemp(prefix=scratch._PREFIX))
    users = [
        "seqrecorder-data",
        "seqrecorder-bench-abcdefgh",
        "seqrecorder-scratch-",
        "seqrecorder-scratch-corpus01.old",
    ]
    for name in [left.name, *users]:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "file").touch()
    scratch._remove_left_over()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(users)
    assert all((tmp_path / name / "file").exists() for name in users)
