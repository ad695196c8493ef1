"""The commands for datasets at URLs."""

import json

from written_records import items

import seqrecorder as sr
from seqrecorder.cli import main


def test_push_pull_and_clean(tmp_path, capsys):
    """A dataset is sent, described, replaced and brought back; what was replaced is listed, and goes."""
    url = "memory://commands/corpus"
    sr.write(items(5), tmp_path / "corpus")
    assert main.main(["push", str(tmp_path / "corpus"), url]) == main.OK
    assert main.main(["info", url]) == main.OK
    assert url in capsys.readouterr().out
    assert main.main(["push", url, f"{url}2", "--json"]) == main.OK
    assert json.loads(capsys.readouterr().out)["path"] == f"{url}2"
    sr.write(items(3), url, overwrite=True)
    assert main.main(["push", str(tmp_path / "corpus"), url]) == main.PROBLEM
    assert "--overwrite" in capsys.readouterr().err
    assert main.main(["clean", url]) == main.OK
    assert "0 files removed, 0 B" in capsys.readouterr().out
    assert main.main(["clean", url, "--older-than", "0", "--dry-run"]) == main.OK
    assert "2 files to be removed" in capsys.readouterr().out
    assert main.main(["clean", url, "--older-than", "0", "--json"]) == main.OK
    assert len(json.loads(capsys.readouterr().out)["removed"]) == 2
    assert main.main(["pull", url, str(tmp_path / "back")]) == main.OK
    assert sr.info(tmp_path / "back").records == 3
    assert main.main(["pull", "memory://commands/nothing", str(tmp_path / "b")]) == main.PROBLEM
