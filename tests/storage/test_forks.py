"""Forked processes: they leave their parent's files alone."""

import os

import pytest

from seqrecorder.storage import processes_and_signals as processes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")


def test_files_of_other_directories_stay_open(tmp_path):
    """Only the files inside of the directory that is named are let go."""
    (tmp_path / "ours").mkdir()
    with (tmp_path / "ours/a").open("w") as ours, (tmp_path / "theirs").open("w") as theirs:
        with processes.kept_from_children(tmp_path / "ours"):
            child = os.fork()
            if not child:
                os.write(ours.fileno(), b"child")
                os.write(theirs.fileno(), b"child")
                os._exit(0)
        os.waitpid(child, 0)
    assert (tmp_path / "ours/a").read_text() == ""
    assert (tmp_path / "theirs").read_text() == "child"
