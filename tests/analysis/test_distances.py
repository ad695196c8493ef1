"""How far splits are apart: as numpy has it from all values, whatever statistics keep of them."""

from pathlib import Path

import numpy as np
import pytest
from combinations import all_at_night

import seqrecorder as sr
from seqrecorder.analysis.findings import shifts_of


@sr.record
class Reading:
    value: float = sr.context("float64")
    pair: np.ndarray = sr.feature_list("float64", shape=(2,))


def _exact(one: np.ndarray, other: np.ndarray) -> float:
    points = np.sort(np.concatenate([one, other]))
    shares = [np.searchsorted(np.sort(each), points, side="right") / each.size for each in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


MEANS = [(0.0, 6000), (1000.0, 600), (1000.0, 6000), (-1e6, 6000)]


@pytest.mark.parametrize(
    ("mean", "count", "shift", "differs"),
    all_at_night(
        [(*mean, *shift) for mean in MEANS for shift in ((0.5, True), (0.0, False))],
        [(0.0, 6000, 0.5, True), (1000.0, 600, 0.0, False), (1000.0, 600, 0.5, True), (-1e6, 6000, 0.0, False)],
    ),
)
def test_shifts_of_numbers_are_seen_wherever_they_lie(
    tmp_path: Path, mean: float, count: int, shift: float, *, differs: bool
) -> None:
    """Numbers that are close together far from zero share buckets, and still tell how far two splits are apart."""
    random = np.random.default_rng(1)
    values = {"train": random.normal(mean, 1, count), "eval": random.normal(mean + shift, 1, count)}
    sr.write(
        {split: [Reading(each, [[mean, each]]) for each in part] for split, part in values.items()},
        tmp_path / "d",
    )
    stats = sr.stats(tmp_path / "d")
    for name, channel in (("value", None), ("pair", 1)):
        ((one, other, far),) = shifts_of(stats, name)
        assert (one, other, far.channel) == ("train", "eval", channel if shift else far.channel)
        assert far.differs == differs
        assert far.value == pytest.approx(_exact(values["train"], values["eval"]), abs=0.03)
