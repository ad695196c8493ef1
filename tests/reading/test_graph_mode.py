"""Datasets that are made inside of a graph of TensorFlow 1, as its estimators and old training loops do.

There `==` asks whether two tensors are one object. What is read must be what is read eagerly.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night

import seqrecorder as sr


@sr.record(kw_only=True)
class Scene:
    """A class whose fields are stored in every way that is checked while it is parsed."""

    key: str = sr.context(str, key=True)
    label: int = sr.context("int32")
    known: bool = sr.context("bool")
    icon: Any = sr.context("uint8", shape=(4, 4, 1), storage="png")
    matrix: Any = sr.context("float64", shape=(None, 2), storage="tensor")
    whole: Any = sr.context("int16", shape=(2, 2), storage="tensor")
    bag: Any = sr.context("float64", sparse=9)
    maybe: Any = sr.context("int64", optional=True, default=None)
    ids: Any = sr.feature_list("int64")
    frames: Any = sr.feature_list("float16", shape=(3,))
    rows: Any = sr.feature_list("bfloat16", shape=(2,), storage="raw")
    words: Any = sr.feature_list(str, align=None)
    ragged: Any = sr.feature_list("int32", shape=(None,), align=None)
    packed: Any = sr.feature_list("int32", storage="packed", align=None)


def scene(number: int) -> Scene:
    rng = np.random.default_rng(number)
    steps = int(rng.integers(1, 9))
    return Scene(
        key=f"k{number}",
        label=number % 3,
        known=number % 2 == 0,
        icon=rng.integers(0, 255, (4, 4, 1)).astype("u1"),
        matrix=rng.standard_normal((number % 4, 2)),
        whole=rng.integers(0, 9, (2, 2)).astype("i2"),
        bag={int(i): float(i) for i in rng.choice(9, int(rng.integers(0, 4)), replace=False)},
        maybe=None if number % 3 else number,
        ids=rng.integers(0, 99, steps),
        frames=rng.standard_normal((steps, 3)).astype("f2"),
        rows=np.asarray(tf.cast(rng.standard_normal((steps, 2)), tf.bfloat16)),
        words=["w" * int(n) for n in rng.choice([0, 1, 9], steps)],
        ragged=[rng.integers(-9, 9, int(n)).astype("i4") for n in rng.integers(0, 4, steps)],
        packed=rng.integers(0, 9, steps).astype("i4"),
    )


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scenes") / "scenes"
    sr.write((scene(number) for number in range(40)), path, shards=3)
    return path


ALL = {"schema": Scene}
FLAT = {"fields": ("key", "label", "ids", "frames")}
READS: dict[str, Callable[..., Any]] = {
    "single": sr.read,
    "pad": lambda path, **fields: sr.read(path, batch=sr.Pad(4), **fields),
    "shuffled": lambda path, **fields: sr.read(path, batch=sr.Pad(4), shuffle=20, seed=1, epochs=2, **fields),
    "bucket": lambda path, **fields: sr.read(path, batch=sr.Bucket(4, buckets=2), shuffle=20, seed=1, **fields),
    "sorted": lambda path, **fields: sr.read(path, batch=sr.Bucket(4, boundaries="sorted"), **fields),
    "ragged": lambda path, **fields: sr.read(path, batch=sr.Ragged(4), **fields),
    "budget": lambda path, **fields: sr.read(path, batch=sr.TokenBudget(30), **fields),
    "window": lambda path, **fields: sr.read(path, batch=sr.Window(3, batch_size=4), **fields),
    "pack": lambda path, **fields: sr.read(path, batch=sr.Pack(12, 2), **fields),
    "unroll": lambda path, **fields: sr.read(path, batch=sr.Unroll(3, 4), **fields),
    "crop": lambda path, **fields: sr.read(path, batch=sr.Crop(3, batch_size=4), seed=1, **fields),
    "shifted": lambda path, **_: sr.read(path, batch=sr.Pack(12, 2), inputs="ids", targets=sr.next_step("ids")),
    "weights": lambda path, **_: sr.read(path, batch=sr.Pad(4), inputs="ids", targets="label", class_weight={0: 2.0}),
    "mixed": lambda path, **fields: sr.mix([sr.read(path, batch=sr.Pad(4), seed=1, **fields)] * 2, seed=2),
}


OF_ALL = ("single", "pad", "ragged")
"""What reads every way of storing; the others, which build on the same parsing, do so in the long run."""

CUT = ("bucket", "window", "shifted")
"""What plans or cuts in its own way; `shifted` is packed."""


@pytest.mark.parametrize(
    ("case", "whole"),
    all_at_night(
        [
            *((case, False) for case in READS),
            *((case, True) for case in (*OF_ALL, "shuffled", "bucket", "sorted", "mixed")),
        ],
        [*((case, False) for case in CUT), ("single", True), ("ragged", True)],
    ),
)
def test_a_graph_reads_what_is_read_eagerly(scenes: Path, case: str, whole: bool) -> None:
    """A session that runs a dataset made in a graph gets the elements that eager code gets."""
    fields = ALL if whole else FLAT
    expected = [tf.nest.flatten(element, expand_composites=True) for element in READS[case](scenes, **fields)]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        iterator = tf.compat.v1.data.make_initializable_iterator(READS[case](scenes, **fields))
        parts = tf.nest.flatten(iterator.get_next(), expand_composites=True)
        session.run(iterator.initializer)
        found = [session.run(parts) for _ in expected]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(parts)
    assert len(found) > 1
    for of_graph, eager in zip(found, expected, strict=True):
        for one, other in zip(of_graph, eager, strict=True):
            np.testing.assert_array_equal(one, other.numpy())


def test_lengths_of_a_dataset_are_not_found_in_a_graph(scenes: Path) -> None:
    """A strategy that runs through the elements of a dataset first says that it needs eager execution."""
    with tf.Graph().as_default():
        elements = sr.read(scenes, fields=["ids"])
        with pytest.raises(sr.OptionError, match="outside of tf.Graph"):
            sr.batch(elements, sr.Bucket(4, buckets=2))
