"""Weights of classes multiply those of records, steps and masks, of whatever target has classes."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr

LENGTHS = (4, 2, 3)
CLASSES = {0: 0.5, 2: 4.0}  # not of 1, which weighs 1


@sr.record
class Sentence:
    label: int = sr.context("uint8")
    confidence: float = sr.context("float32")
    x: Any = sr.feature_list("float32", shape=(2,))
    tags: Any = sr.feature_list("int64")
    flags: Any = sr.feature_list("bool")
    step_weight: Any = sr.feature_list("float32")
    column: Any = sr.feature_list("int32", shape=(1,))
    text: Any = sr.feature_list(str)


def sentences() -> list[Sentence]:
    random = np.random.default_rng(3)
    return [
        Sentence(
            number,
            number + 0.5,
            random.random((n, 2), "f4"),
            random.integers(0, 3, n),
            random.random(n) < 0.5,
            random.random(n, "f4"),
            random.integers(0, 3, (n, 1)),
            ["a"] * n,
        )
        for number, n in enumerate(LENGTHS)
    ]


SENTENCES = sentences()
WORDS = {"text": sr.Vocabulary(["a", "b"])}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("classes") / "data"
    sr.write(SENTENCES, path, shards=1)
    return path


def of_class(values: Any) -> Any:
    return np.array([CLASSES.get(int(value), 1.0) for value in np.ravel(values)], "f4").reshape(np.shape(values))


def padded(rows: list[Any]) -> Any:
    return np.stack([np.append(row, np.zeros(max(LENGTHS) - len(row), "f4")) for row in rows])


def test_classes_times_records_times_steps(data: Path) -> None:
    """Of targets per step and per record, each with the weights that are given for it, and 0 for padding."""
    [(_, _, w)] = sr.read(
        data,
        batch=sr.Pad(3),
        inputs="x",
        targets={"tags": "tags", "flags": "flags", "column": "column", "label": "label", "next": sr.next_step("tags")},
        weights={"tags": "confidence", "flags": "step_weight", "label": "confidence"},
        class_weight={"tags": CLASSES, "flags": {True: 3}, "column": CLASSES, "label": CLASSES, "next": CLASSES},
    )
    expected = {
        "tags": [of_class(s.tags) * s.confidence for s in SENTENCES],
        "flags": [np.where(s.flags, 3, 1).astype("f4") * s.step_weight for s in SENTENCES],
        "column": [of_class(s.column[:, 0]) for s in SENTENCES],
        "next": [np.append(of_class(s.tags[1:]), 0) for s in SENTENCES],
    }
    for name, rows in expected.items():
        np.testing.assert_array_equal(w[name], padded(rows), err_msg=name)
    np.testing.assert_array_equal(w["label"], [of_class(s.label) * s.confidence for s in SENTENCES])


@pytest.mark.parametrize("strategy", [None, sr.Pad(3)], ids=["single", "pad"])
def test_several_weights_of_one_target_are_multiplied(data: Path, strategy: Any) -> None:
    """Confidence of a record times that of a step; of several targets a tuple stands in the place of one."""
    both = ("confidence", "step_weight")
    names = {"inputs": "x", "targets": "tags", "weights": both}
    weights = [w.numpy().ravel() for _, _, w in sr.read(data, batch=strategy, **names)]
    expected = [s.step_weight * np.float32(s.confidence) for s in SENTENCES]
    np.testing.assert_allclose(
        np.concatenate(weights), np.concatenate(expected if strategy is None else padded(expected))
    )
    names = {
        "inputs": "x",
        "targets": ("tags", "label"),
        "weights": (("confidence", sr.next_step("step_weight")), None),
    }
    [(_, _, (w, ones))] = sr.read(data, batch=sr.Pad(3), **names)
    np.testing.assert_allclose(
        w, padded([np.append(s.step_weight[1:], 0) * np.float32(s.confidence) for s in SENTENCES])
    )
    np.testing.assert_array_equal(ones, np.ones(3))


@pytest.mark.parametrize("strategy", [None, sr.Ragged(3), sr.Pack(9, 1)], ids=["single", "ragged", "pack"])
def test_classes_without_padding(data: Path, strategy: Any) -> None:
    """Single records and ragged batches have weights too where classes do; packed rows have one a segment."""
    targets, weights = ("tags", "label"), ("step_weight", "confidence")
    names = {"inputs": "x", "targets": targets, "weights": weights, "class_weight": (CLASSES, CLASSES)}
    fields = ["x", "tags", "label", "step_weight", "confidence"]
    steps, records = [], []
    for _, (_, label), (of_steps, of_records) in sr.read(data, batch=strategy, fields=fields, **names):
        steps += np.ravel(getattr(of_steps, "flat_values", of_steps)).tolist()
        records += np.ravel(of_records).tolist()
        assert of_records.shape == label.shape
    np.testing.assert_array_equal(steps, np.concatenate([of_class(s.tags) * s.step_weight for s in SENTENCES]))
    np.testing.assert_array_equal(records, [of_class(s.label) * s.confidence for s in SENTENCES])


def test_fit_weighs_the_classes_of_steps(data: Path) -> None:
    """Which Keras' own `class_weight` refuses; the loss is the weighted mean over the real steps."""
    x = keras.Input((None, 2))
    model = keras.Model(x, keras.layers.Dense(3)(x))
    kernel, bias = (np.asarray(part, np.float64) for part in model.get_weights())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    model.compile("sgd", loss)
    train = sr.read(data, batch=sr.Pad(3), inputs="x", targets="tags", weights="confidence", class_weight=CLASSES)
    total = parts = 0.0
    for s in SENTENCES:
        logits = s.x @ kernel + bias
        each = np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(s.tags)), s.tags]
        weights = of_class(s.tags) * s.confidence
        total, parts = total + (each * weights).sum(), parts + weights.sum()
    np.testing.assert_allclose(model.fit(train, shuffle=False, verbose=0).history["loss"], total / parts, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_weight": {"a": 1.0}}, "class_weight: expected a mapping of classes"),
        ({"class_weight": {0: -1.0}}, "weights of 0 or more"),
        ({"class_weight": {0: float("nan")}}, "weights of 0 or more"),
        ({"class_weight": {}}, "expected a mapping of classes"),
        ({"class_weight": {2**70: 1.0}}, "expected a mapping of classes"),
        ({"class_weight": [1, 2]}, "expected a mapping of classes"),
        ({"class_weight": {0: 1}, "targets": ("tags", "label")}, "structured as those of targets"),
        ({"class_weight": {"b": {0: 1}}, "targets": {"a": "tags"}}, "structured as those of targets"),
        ({"class_weight": ({0: 1},), "targets": ("tags", "label")}, "structured as those of targets"),
        ({"class_weight": {"b": 1.0}, "vocabulary": {"tags": sr.Vocabulary([7, 8])}}, "'b' is no word"),
        (
            {"class_weight": {"ab": 1}, "targets": "text", "vocabulary": WORDS},
            "'ab' is no word of the vocabulary.*: max_size or min_count left it out, .* lack it; .* reserved=..ab",
        ),
        ({"class_weight": {0: 1}, "weights": False}, "class_weight: goes with targets, and with sample weights"),
        ({"class_weight": {0: 1}, "targets": None}, "class_weight: goes with targets"),
        ({"class_weight": {2: 3.0}, "targets": "flags"}, "expected classes from 0 to 1 of 'flags', got 2"),
        ({"class_weight": {1: 1, 2: 3}, "targets": "x"}, "expected classes from 0 to 1 of 'x', got 2"),
        ({"class_weight": {0: 1}, "targets": "text"}, "is text, for which Keras has no loss.*vocabulary"),
        ({"weights": "text"}, "weights: expected a field with a number for each .* and 'text' is text; class_weight="),
        (
            {"weights": "text", "vocabulary": WORDS},
            "weights: .* and 'text' becomes ids of its vocabulary; class_weight=",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value)[:40],
)
def test_classes_that_are_none_are_refused(data: Path, options: Any, message: str) -> None:
    """Keys that are no classes, weights that are none or no numbers, targets without classes, other structures."""
    with pytest.raises(sr.OptionError, match=message):
        sr.read(data, **{"batch": sr.Pad(3), "inputs": "x", "targets": "tags", **options})


def test_one_hot_floats_and_words_are_classes(tmp_path: Path) -> None:
    """A one-hot step weighs as its class does, a float as the class that it equals, a word as its id."""

    @sr.record
    class Tagged:
        hot: Any = sr.feature_list("float32", shape=(3,))
        bit: Any = sr.feature_list("float32")
        word: Any = sr.feature_list(str)
        grid: Any = sr.feature_list("float32", shape=(2, 2))

    hot = np.eye(3, dtype="f4")[[0, 2, 1]]
    sr.write([Tagged(hot, [0, 1, 0.5], ["V", "X", "V"], np.zeros((3, 2, 2)))], tmp_path / "data")
    reading = {"batch": sr.Pad(1, length=4), "inputs": "hot"}
    weighing = {0: 1.0, 1: 50.0, 2: 25.0}
    [(_, _, weights)] = sr.read(tmp_path / "data", targets="hot", class_weight=weighing, **reading)
    assert weights.numpy().tolist() == [[1, 25, 50, 0]]
    [(_, _, weights)] = sr.read(tmp_path / "data", targets="bit", class_weight={0: 3, 1: 5}, **reading)
    assert weights.numpy().tolist() == [[3, 5, 1, 0]]
    with pytest.raises(sr.OptionError, match="expected numbers or bools for the target 'grid'"):
        sr.read(tmp_path / "data", targets="grid", class_weight=weighing, **reading)
    tags = sr.Vocabulary(["V", "X"], padding=None, oov_buckets=0)
    options = {**reading, "targets": sr.next_step("word"), "vocabulary": {"word": tags}}
    [(_, y, weights)] = sr.read(tmp_path / "data", class_weight={"X": 9.0}, **options)
    assert (y.numpy().tolist(), weights.numpy().tolist()) == ([[1, 0, 0, 0]], [[9, 1, 0, 0]])


def test_rows_of_several_classes_are_refused(tmp_path: Path) -> None:
    """A multi-hot row has no single class to weigh; smoothed labels have, and a row of zeros has none and weighs 1."""

    @sr.record
    class Labelled:
        x: Any = sr.feature_list("float32")
        sets: Any = sr.context("float32", shape=(3,))
        soft: Any = sr.context("float32", shape=(3,))

    rows = [([0, 1, 0], [0.05, 0.05, 0.9]), ([0, 0, 0], [0.9, 0.05, 0.05]), ([1, 0, 1], [0, 1, 0])]
    sr.write([Labelled([1.0], *row) for row in rows], tmp_path / "data", shards=1)
    options = {"inputs": "x", "class_weight": {0: 5.0, 1: 7.0, 2: 9.0}}
    read = iter(sr.read(tmp_path / "data", batch=sr.Pad(2), targets="sets", **options))
    assert next(read)[2].numpy().tolist() == [7, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected one class in each row of .*sets.*, got several"):
        next(read)
    [(_, _, weights)] = sr.read(tmp_path / "data", batch=sr.Pad(3), targets="soft", **options)
    assert weights.numpy().tolist() == [9, 5, 7]


def test_a_start_may_be_a_word(tmp_path: Path) -> None:
    """Where a field becomes ids, the start of `previous_step` is a word of the vocabulary, or an id."""

    @sr.record
    class Row:
        words: Any = sr.feature_list(str)

    sr.write([Row(["to", "be"])], tmp_path / "data")
    words = sr.Vocabulary(["to", "be"], reserved=["<s>"])
    options = {"batch": sr.Pad(1), "vocabulary": {"words": words}}
    for start in ("<s>", words.ids["<s>"]):
        [x] = sr.read(tmp_path / "data", inputs=sr.previous_step("words", start=start), **options)
        assert x.numpy().tolist() == [[words.ids["<s>"], words.ids["to"]]]
    with pytest.raises(sr.OptionError, match="previous_step: start: '<b>' is no word"):
        sr.read(tmp_path / "data", inputs=sr.previous_step("words", start="<b>"), **options)
