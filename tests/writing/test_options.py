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


def test_options_of_shards() -> None:
    """The order on disk has a seed where it is random, and a CSV a generation where lines are added to a dataset."""
    plain = sr.WriteOptions(shards=2).of_shards(seed=5, generation=3, groups=2)
    assert (plain.shards, plain.shuffle_seed, plain.generation, plain.csv_generation, plain.groups) == (
        2,
        None,
        3,
        0,
        2,
    )
    added = sr.WriteOptions(shuffle=True, append=True, compression="gzip").of_shards(seed=5, generation=3, groups=1)
    assert (added.shuffle_seed, added.csv_generation, added.compression) == (5, 3, "GZIP")
