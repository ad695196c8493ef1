"""`mix`: shares, orders, ends, resumption, and what cannot be mixed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from slow_records import assert_resumes_exactly

import seqrecorder as sr


@sr.record
class Line:
    source: int = sr.context("int32")
    ids: Any = sr.feature_list("int64")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("mixing")
    for source in range(3):
        sr.write([Line(source, np.arange(n % 5 + 1)) for n in range(20)], root / f"{source}")
    return [root / f"{source}" for source in range(3)]


@pytest.fixture(scope="module")
def endless(sources: list[Path]) -> list[Any]:
    return [sr.read(path, batch=sr.Pad(4), epochs=None) for path in sources]


def drawn(dataset: Any) -> list[int]:
    return [int(batch["source"][0]) for batch in dataset]


def test_shares_are_those_of_the_weights(endless: list[Any]) -> None:
    """Endless datasets are drawn in proportion to their weights, in whatever unit these are."""
    order = drawn(sr.mix(endless, weights=[6, 3, 1], seed=0).take(1000))
    shares = np.bincount(order) / 1000
    assert np.abs(shares - [0.6, 0.3, 0.1]).max() < 0.05


def test_temperature_evens_weights_out(endless: list[Any]) -> None:
    """Weights to the power of one over it: at 2 their roots, at 1 themselves; none of 0 comes back."""
    order = drawn(sr.mix(endless, weights=[900, 100, 0], temperature=2, seed=0).take(1000))
    assert np.abs(np.bincount(order) / 1000 - [0.75, 0.25]).max() < 0.05
    mixes = [sr.mix(endless, weights=[6, 3, 1], temperature=t, seed=0) for t in (None, 1.0, np.float32(1))]
    plain, *same = [drawn(mixed.take(100)) for mixed in mixes]
    assert same == [plain, plain]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 2}, "temperature: needs weights"),
        ({"weights": [1], "temperature": 0}, "a number above 0, got 0"),
        ({"weights": [1], "temperature": float("nan")}, "a number above 0, got nan"),
        ({"seed": 1 << 100}, "seed: expected an int of 64 bits or None"),
        ({"seed": "a"}, "seed: expected an int of 64 bits or None, got 'a'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message) -> None:
    """Each with an error that names the option."""
    with pytest.raises(sr.OptionError, match=message):
        sr.mix([tf.data.Dataset.range(3)], **options)


@pytest.mark.parametrize("options", [{"weights": [1e-300, 1]}, {"weights": [10, 5], "temperature": 1e-4}])
def test_shares_that_would_take_for_ever_are_refused(options) -> None:
    """A dataset that is nearly never drawn would keep the reader waiting when the others have ended."""
    with pytest.raises(sr.OptionError, match="expected shares of at least 1e-09 of the largest, got "):
        sr.mix([tf.data.Dataset.range(3)] * 2, **options)


def test_everything_comes_once(sources: list[Path]) -> None:
    """Without weights all are drawn alike, and each dataset comes whole."""
    parts = [sr.read(path, batch=sr.Pad(4), shuffle=20, seed=1) for path in sources]
    assert np.bincount(drawn(sr.mix(parts, seed=3))).tolist() == [5, 5, 5]


def test_a_weight_of_zero_leaves_a_dataset_out(sources: list[Path]) -> None:
    """A dataset that is never drawn does not keep the mixture from ending."""
    parts = [sr.read(path, batch=sr.Pad(4)) for path in sources]
    assert drawn(sr.mix(parts, weights=[1, 0, 1], seed=3)).count(1) == 0


def test_orders_are_those_of_the_seed(sources: list[Path]) -> None:
    """The same seed gives the same series of orders, another one each time, whatever seed the program has."""
    series = []
    for program in (1, 2):
        tf.random.set_seed(program)
        mixed = sr.mix([sr.read(path, batch=sr.Pad(4)) for path in sources], seed=5)
        series.append([drawn(mixed) for _ in range(2)])
    tf.random.set_seed(None)
    assert series[0] == series[1]
    assert series[0][0] != series[0][1]


def test_resumes_exactly_at_every_batch(sources: list[Path], tmp_path: Path, stride: int) -> None:
    """A mixture of shuffled datasets resumes with the identical remainder, in an iterator made later, too.

    So the parts that were not drawn from before it was saved begin with the epoch that they would have had.
    """
    assert_resumes_exactly(
        lambda: sr.mix([sr.read(p, batch=sr.Pad(8), shuffle=9, seed=2) for p in sources], weights=[1, 2, 3], seed=1),
        tmp_path,
        stride,
    )


def test_elements_that_are_records_are_mixed(sources: list[Path]) -> None:
    """With `output="record"`, datasets of one class have elements of one class."""
    mixed = sr.mix([sr.read(path, schema=Line, output="record") for path in sources], seed=0)
    assert sorted(int(line.source) for line in mixed) == np.repeat([0, 1, 2], 20).tolist()


def test_what_cannot_be_mixed(sources: list[Path]) -> None:
    """Nothing, what is no dataset, other elements, and weights that are none are refused, by position."""
    one, other = sr.read(sources[0], batch=sr.Pad(2)), sr.read(sources[1])
    for datasets, weights, message in (
        ([], None, "expected datasets, got none"),
        ([one, sources[0]], None, r"datasets\[1\]: expected a tf.data.Dataset, got "),
        ([one, other], None, r"datasets\[1\]: expected elements as those of datasets\[0\]"),
        (
            [one, one.map(lambda batch: {**batch, "ids": tf.cast(batch["ids"], tf.int32)})],
            None,
            "'ids' as .*int32.*, not",
        ),
        (
            [one, one.map(lambda batch: {"n": 1, "ids": batch["ids"]})],
            None,
            r"got also 'n', no '\w+', no '\w+'; read",
        ),
        ([one, one.map(lambda batch: batch["ids"])], None, "got TensorSpec.* instead of {.*; read"),
        ([one, one], [1], "expected 2 weights"),
        ([one, one], [1, -1], "of 0 or more"),
        ([one, one], [0, 0], "not all 0"),
        ([one, one], [1, float("nan")], "of 0 or more"),
        ([one, one], ["a", 1], "expected 2 weights"),
        ([one, one], 5, "expected 2 weights, .* got 5"),
        ([one, one], [True, 1], "expected 2 weights"),
    ):
        with pytest.raises(sr.OptionError, match=message):
            sr.mix(datasets, weights=weights)
