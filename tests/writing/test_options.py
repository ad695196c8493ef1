from pathlib import Path
from typing import Any

import pytest

import seqrecorder as sr


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", "Auto"])
@pytest.mark.parametrize("name", ["shards", "shard_bytes", "workers"])
def test_senseless_counts(name: str, value: Any) -> None:
    """Counts are ints of 1 or more."""
    with pytest.raises(sr.OptionError, match=f"{name}: expected .* 1 or more"):
        sr.WriteOptions(**{name: value})


@pytest.mark.parametrize("name", ["params", "assets"])
def test_senseless_mappings(name: str) -> None:
    """What is no mapping is named by its option."""
    with pytest.raises(sr.OptionError, match=f"{name}: expected a mapping of names"):
        sr.WriteOptions(**{name: ["a"]})


def test_options_are_their_own() -> None:
    """Options do not change, nor with the mappings that they were given."""
    params = {"rate": 1}
    options = sr.WriteOptions(params=params, shuffle=True, shards=2)
    params["rate"] = 2
    assert options.params == {"rate": 1}
    with pytest.raises(AttributeError):
        options.seed = 1


def test_options_reach_the_shards(tmp_path: Path) -> None:
    """The order on disk is random, files are packed, and an append has a CSV of its own beside the first one."""

    @sr.record
    class Number:
        key: int = sr.context("int64", key=True)

    options: Any = {"shuffle": True, "compression": "gzip", "csv": True}
    sr.write(map(Number, range(50)), tmp_path / "n", schema=Number, seed=5, shards=2, **options)
    added = sr.write(map(Number, range(50, 100)), tmp_path / "n", schema=Number, append=True, **options)
    keys = [int(record.key) for record in sr.read_records(tmp_path / "n")]
    assert added.compression == "GZIP"
    for part, first in ((keys[:50], 0), (keys[50:], 50)):
        assert part != sorted(part)
        assert sorted(part) == list(range(first, first + 50))
    assert len(list((tmp_path / "n" / "train").glob("*.csv"))) == 2


def test_parameters_of_another_hook(tmp_path: Path) -> None:
    """What only `from_csv_row` takes is refused by `write`, which does not call it."""

    @sr.record
    class Word:
        text: str = sr.context(str)

        @classmethod
        def from_csv_row(cls, row: Any, folder: str) -> "Word":
            return cls(folder + row["text"])

    with pytest.raises(sr.OptionError, match=r"no hook of Word \(load, split\) takes 'folder'"):
        sr.write([Word("a")], tmp_path / "words", params={"folder": "x"})
