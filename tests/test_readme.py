"""The README is true: its code runs, and its commands are those that run elsewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [code for name, code in BLOCKS if name == language]


def test_python_blocks_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block runs, one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    # Records are rebuilt by their class's module, so the blocks run as one.
    namespace: dict[str, object] = {"__name__": "readme"}
    for number, code in enumerate(blocks("python")):
        source = compile(code, f"README block {number}", "exec")
        exec(source, namespace)  # noqa: S102 - our own text
    assert len(blocks("python")) > 8

    from seqrecorder.cli.main import main

    commands = [line for code in blocks("console") for line in code.splitlines() if line.startswith("seqrecorder ")]
    assert len(commands) == 8
    for command in commands:
        assert main(command.split()[1:]) == 0


def test_install_commands_are_those_of_ci() -> None:
    """The two commands that install are found and run by continuous integration, in an empty environment."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line for code in blocks("console") for line in code.splitlines() if "pip install" in line]
    marks = ["/seqrecorder demo", "'.[test]'"]
    assert len(commands) == len(marks)
    for command, mark in zip(commands, marks, strict=True):
        assert mark in command
        assert [line for line in TEXT.splitlines() if mark in line] == [command]
        assert mark in script


def test_every_block_has_a_test() -> None:
    """No block is of a language that nothing here runs, but for the picture of a directory."""
    assert {name for name, _ in BLOCKS} == {"python", "console", "text"}
    assert len(blocks("text")) == 1
