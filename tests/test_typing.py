"""What type checkers see of a record class."""

import re
import subprocess
import sys
from pathlib import Path

CODE = """
import attrs
import numpy as np

import seqrecorder as sr


@sr.record
class Utterance:
    key: str = sr.context(str, key=True)
    mfcc: np.ndarray = sr.feature_list("float32", shape=(13,))
    rate: int = sr.context("int32", default=16_000)
    path: str = attrs.field(default="")


@sr.record(kw_only=True)
class Clip:
    rate: int = sr.context("int32", default=16_000)
    key: str = sr.context(str, key=True)


good = Utterance("a", np.zeros((2, 13), np.float32))
also_good = Clip(key="a")
data: bytes = sr.Schema.of(Utterance).encode(good)
for record in sr.read_records("corpus", schema=Utterance):
    rate: int = record.rate
    wrong: str = record.rate  # no text
for clip in sr.from_csv("words.csv", Clip):
    rate = clip.rate
anything = next(sr.read_records("corpus", fields=["key"], schema=Utterance)).whatever
Utterance("a")  # mfcc is missing
Clip(rate=8_000)  # key is missing
"""


def line_of(comment: str) -> int:
    return next(number for number, line in enumerate(CODE.splitlines(), 1) if line.endswith(comment))


def check(tmp_path: Path, *command: str) -> list[str]:
    file = tmp_path / "declared.py"
    file.write_text(CODE)
    result = subprocess.run(
        [sys.executable, "-m", *command, str(file)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert result.returncode == 1, result.stdout + result.stderr
    return [line for line in result.stdout.splitlines() if re.search(r":\d+.* error:", line)]


def test_mypy_reports_missing_arguments(tmp_path: Path) -> None:
    """Mypy reports a missing argument of a record class, and knows the records that are read."""
    typed, first, second = check(tmp_path, "mypy", "--strict")
    assert f":{line_of('# no text')}:" in typed
    assert f":{line_of('# mfcc is missing')}:" in first
    assert '"mfcc"' in first
    assert f":{line_of('# key is missing')}:" in second
    assert '"key"' in second


def test_pyright_reports_missing_arguments(tmp_path: Path) -> None:
    """Pyright reports a missing argument of a record class, and knows the records that are read."""
    typed, first, second = check(tmp_path, "pyright", "--pythonpath", sys.executable)
    assert f":{line_of('# no text')}:" in typed
    assert f":{line_of('# mfcc is missing')}:" in first
    assert '"mfcc"' in first
    assert f":{line_of('# key is missing')}:" in second
    assert '"key"' in second
