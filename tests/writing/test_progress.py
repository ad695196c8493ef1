"""The progress bar: there when it is wanted."""

from pathlib import Path

import pytest
from written_records import items

import seqrecorder as sr


def test_progress_is_shown_and_silenced(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """progress=True draws on stderr, False does not, and by default there is none where stderr is no terminal."""
    sr.write(items(5), tmp_path / "shown", progress=True)
    assert "5/5" in capfd.readouterr().err
    sr.write(items(5), tmp_path / "silent", progress=False)
    sr.write(items(5), tmp_path / "default")
    assert "records" not in capfd.readouterr().err
