"""`read(oversample=)`: how often records come, epoch by epoch, in every order; and what gives no weight."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from slow_records import assert_resumes_exactly

import seqrecorder as sr
from seqrecorder.reading.order_and_seeds import figures_of

WEIGHTS = [0.0, 0.5, 1.0, 2.3, 3.0]


@sr.record
class Weighed:
    number: int = sr.context("int64", key=True)
    weight: float = sr.context("float64")
    label: int = sr.context("int32")
    word: str = sr.context(str)
    flag: bool = sr.context("bool")
    x: Any = sr.feature_list("int64")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("oversampling") / "corpus"
    records = [Weighed(n, WEIGHTS[n % 5], n % 3, "ab"[n % 2], n % 5 == 0, [n] * (n % 4 + 1)) for n in range(200)]
    sr.write(records, path, shards=3)
    return path


def numbers(dataset: Any) -> list[int]:
    return [int(n) for element in dataset for n in np.atleast_1d(element["number"].numpy())]


def test_records_come_as_often_as_their_weights_say(corpus: Path) -> None:
    """In each epoch the floor or the ceiling of it, on average the weight; others in another epoch."""
    dataset = sr.read(corpus, batch=sr.Pad(16), oversample="weight", seed=3, fields=["number"])
    assert int(dataset.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    epochs = [Counter(numbers(dataset)) for _ in range(3)]
    table = np.array([[epoch[n] for n in range(200)] for epoch in epochs])
    weights = np.resize(WEIGHTS, 200)
    assert ((table == np.floor(weights)) | (table == np.ceil(weights))).all()
    for weight in WEIGHTS:
        assert abs(table[:, weights == weight].mean() - weight) < 0.1
    assert len({tuple(row) for row in table.tolist()}) == 3


def test_draws_are_even_and_independent() -> None:
    """Of positions, however many, and of epochs: no figure is drawn more often, and none says anything of the next."""
    drawn = np.stack([figures_of(tf.range(20_000, dtype=tf.int64), tf.constant(n, tf.int64)) for n in range(4)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    shares = np.stack([np.histogram(row, 10, (0, 1))[0] for row in drawn]) / 20_000
    assert np.abs(shares - 0.1).max() < 0.01
    assert np.abs(np.corrcoef(drawn) - np.eye(4)).max() < 0.03
    assert max(abs(np.corrcoef(row[1:], row[:-1])[0, 1]) for row in drawn) < 0.03


def test_neither_order_nor_strategy_nor_readers_matter(corpus: Path) -> None:
    """The same seed and epoch give the same records: shuffled, bucketed and in shares."""
    options: dict[str, Any] = {"oversample": "weight", "seed": 5, "epoch": 2, "fields": ["number", "x"]}
    expected = Counter(numbers(sr.read(corpus, **options)))
    shuffled = sr.read(corpus, batch=sr.Bucket(8, boundaries=[3]), shuffle=50, **options)
    assert Counter(numbers(shuffled)) == expected
    assert expected != Counter(numbers(sr.read(corpus, **{**options, "epoch": 3})))
    shares = [numbers(sr.read(corpus, batch=sr.Pad(9), shard=(n, 2), **options)) for n in range(2)]
    assert Counter(number for share in shares for number in share) == expected
    limited = numbers(sr.read(corpus, min_length=3, index_name="index", **options))
    assert Counter(limited) == Counter({n: count for n, count in expected.items() if n % 4 >= 2})


def test_selections_are_oversampled(corpus: Path) -> None:
    """Records of a part, in its order, as often as they come."""
    part = sr.open(corpus).all().where(label=1)[:10]
    expected = [record.number for record in part for _ in range(round(record.weight)) if record.weight in (1, 3)]
    got = numbers(sr.read(part, oversample="weight", seed=0))
    assert [n for n in got if WEIGHTS[n % 5] in (1, 3)] == expected


def test_weights_by_the_values_of_a_field(corpus: Path) -> None:
    """Of ints and of texts; 1 where none is named."""
    by_label = Counter(numbers(sr.read(corpus, oversample={"label": {0: 0, 2: 3}}, seed=1)))
    assert by_label == Counter({n: [0, 1, 3][n % 3] for n in range(200) if n % 3})
    by_word = Counter(numbers(sr.read(corpus, oversample={"word": {"b": 2.0}}, seed=1, batch=sr.Pad(50))))
    assert by_word == Counter({n: n % 2 + 1 for n in range(200)})


def test_resumes_exactly(corpus: Path, tmp_path: Path, stride: int) -> None:
    """An iterator that was saved goes on with the same copies, over an epoch's end."""
    options: dict[str, Any] = {"seed": 2, "epochs": 2, "fields": ["number"], "shuffle": 30}
    assert_resumes_exactly(
        lambda: sr.read(corpus, batch=sr.Pad(99), oversample="weight", **options), tmp_path, 2 * stride
    )


def test_bad_weights_are_errors(tmp_path: Path) -> None:
    """A negative one, NaN and one that would fill the memory are named with the field while reading."""
    for number, weight in enumerate((-1.0, float("nan"), 1e9)):
        path = tmp_path / str(number)
        sr.write([Weighed(0, weight, 0, "a", flag=True, x=[1])], path)
        with pytest.raises(tf.errors.InvalidArgumentError, match="weights from 0 to 65,536 in field .*weight"):
            numbers(sr.read(path, oversample="weight", seed=0))


@pytest.mark.parametrize(
    ("oversample", "message"),
    [
        ("x", "field 'x' is a feature list"),
        ("word", "holds str, which is no weight"),
        (2, "expected the name of a field that holds weights"),
        ({"label": 2.0}, "expected the name of a field that holds weights"),
        ({"label": {1: 2.0}, "word": {"a": 1.0}}, "expected the name of a field that holds weights"),
        ({"label": {1: -2.0}}, "expected a weight from 0 to 65,536 for 1, got -2.0"),
        ({"label": {"1": 2.0}}, "expected values of field 'label', ints, bools or texts, got '1'"),
        ({"weight": {1: 2.0}}, "got 1 for a field of float64"),
        (
            {"label": {1 << 70: 2.0}},
            "expected values of field 'label', ints, bools or texts, got 1180591620717411303424",
        ),
        ({"flag": {2: 2.0}}, "got 2 for a field of bool"),
        ({"label": {}}, "a weight for a value or more, got none"),
    ],
)
def test_what_gives_no_weight_is_refused(corpus: Path, oversample: Any, message: str) -> None:
    """Each with an error that says what was expected."""
    with pytest.raises(sr.OptionError, match=message):
        sr.read(corpus, oversample=oversample)


def test_a_field_that_is_not_there_is_named(corpus: Path) -> None:
    """With the one that was meant."""
    with pytest.raises(sr.SchemaError, match="did you mean 'weight'"):
        sr.read(corpus, oversample="weigth")


def test_bools_are_named_as_such_or_as_numbers(corpus: Path) -> None:
    """1 is True of a bool field, as in `class_weight`; True is 1 of an int field."""
    first, second = ({"flag": {True: 3.0, False: 0.0}}, {"flag": {1: 3.0, np.int64(0): 0.0}})
    same = [numbers(sr.read(corpus, oversample=oversample, seed=0)) for oversample in (first, second)]
    assert same[0] == same[1]
    assert sorted(same[0]) == [n for n in range(0, 200, 5) for _ in range(3)]
    ones = [numbers(sr.read(corpus, oversample={"label": {value: 2.0}}, seed=0)) for value in (True, 1)]
    assert ones[0] == ones[1]
