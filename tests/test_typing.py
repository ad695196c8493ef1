"""What type checkers see of a record class."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seqrecorder as sr
from seqrecorder.sources.foreign.convert import convert
from seqrecorder.writing.writer import WriteKeywords, WriteOptions

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
sr.write([good], "corpus", splits={"train": 0.8}, split_by=sr.Balanced("key"), shards=2, params={"rate": 1}, csv=True)
with sr.Writer("corpus", Utterance, append=True, assets={"words": b""}, on_duplicate="first") as writer:
    writer.write(good)
    writer.write(also_good)  # no record of the writer's
with sr.Writer("corpus", sr.Schema.of(Utterance)) as writer_of_schema:
    writer_of_schema.write(good)
train = sr.open("corpus", schema=Utterance)["train"]
rate = train[0].rate
wrong = train[:10].sample(0.5, seed=0)[0].rate  # no text
for one in train.where(rate=16_000):
    rate = one.rate
anything = sr.open("corpus")["train"][0].whatever
sr.write([good], "corpus", shard=2)  # no such option of write
sr.write([good], "corpus", seed="1")  # no seed of write
sr.Writer("corpus", Utterance, shard=2)  # no such option of Writer
sr.Writer("corpus", Utterance, on_duplicate="last")  # no way of Writer
Utterance("a")  # mfcc is missing
Clip(rate=8_000)  # key is missing
"""


def check(tmp_path: Path, *command: str) -> list[str]:
    file = tmp_path / "declared.py"
    file.write_text(CODE)
    result = subprocess.run(
        [sys.executable, "-m", *command, str(file)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert result.returncode == 1, result.stdout + result.stderr
    return [line for line in result.stdout.splitlines() if re.search(r":\d+.* error:", line)]


def lines_reported(errors: list[str]) -> list[int]:
    return list(dict.fromkeys(int(re.findall(r":(\d+)", error)[0]) for error in errors))  # of overloads two each


CHECKERS = {"mypy": ["mypy", "--strict"], "pyright": ["pyright", "--pythonpath", sys.executable]}


@pytest.mark.parametrize("checker", CHECKERS)
def test_wrong_calls_are_reported(tmp_path: Path, checker: str) -> None:
    """Type checkers report missing arguments of a record class and wrong options of writing, and know what is read."""
    errors = check(tmp_path, *CHECKERS[checker])
    assert lines_reported(errors) == [number for number, line in enumerate(CODE.splitlines(), 1) if "  # " in line]
    assert '"mfcc"' in errors[-2]
    assert '"key"' in errors[-1]


def test_options_of_writing_are_listed_alike() -> None:
    """What type checkers see of the options of writing is what their class takes, and what `help` shows of a call."""
    fields = inspect.signature(WriteOptions).parameters
    keywords = {name: hint.__forward_arg__ for name, hint in WriteKeywords.__annotations__.items()}
    assert {name: field.annotation for name, field in fields.items()} == keywords
    for target in (sr.write, sr.Writer, convert):
        shown = inspect.signature(target).parameters
        assert [name for name in shown if name in fields] == list(fields)
        assert "options" not in shown
        for name in fields:
            assert target.__doc__.count(f"\n    {name}: ") == 1
