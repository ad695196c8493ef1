"""Completion in shells: the scripts that are printed complete what the parser takes."""

import shutil
import subprocess

import pytest

from seqrecorder.cli import main


def printed(shell: str, capsys) -> str:
    assert main.main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(script: str, *words: str) -> list[str]:
    """Return what bash completes the last word to."""
    line = " ".join(f"'{word}'" for word in words)
    ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _seqrecorder; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    bash = shutil.which("bash") or "/bin/bash"
    run = subprocess.run([bash, "-euc", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
    assert not run.stderr
    return run.stdout.split()


def test_bash_completes_commands_options_and_files(capsys, tmp_path, monkeypatch):
    """The first word is a command, dashes begin its options, and anything else may be a file."""
    script = printed("bash", capsys)
    (tmp_path / "corpus").mkdir()
    monkeypatch.chdir(tmp_path)
    assert completed(script, "seqrecorder", "re") == ["report"]
    assert {"info", "head", "stats", "plan", "plot", "report", "vocabulary", "leakage"} <= set(
        completed(script, "seqrecorder", "")
    )
    assert completed(script, "seqrecorder", "head", "--ta") == ["--table"]
    assert completed(script, "seqrecorder", "head", "cor") == ["corpus"]
    assert completed(script, "seqrecorder", "completion", "fi") == ["fish"]
    assert completed(script, "seqrecorder", "legacy", "r") == ["run"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_every_command_and_option(shell, capsys):
    """The scripts name what the parser takes, and the shell reads them where it is installed."""
    script = printed(shell, capsys)
    for word in ("report", "leakage", "table", "batch-size"):
        assert word in script
    if shutil.which(shell):
        run = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr) == (0, "")


def test_unknown_shells_are_refused(capsys):
    """What is none of the three is wrong usage."""
    with pytest.raises(SystemExit):
        main.main(["completion", "csh"])
    assert "invalid choice" in capsys.readouterr().err
