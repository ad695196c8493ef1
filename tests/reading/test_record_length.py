"""Lengths over several feature lists, against pipelines that look at each record on its own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from slow_records import as_numpy, assert_same

import seqrecorder as sr

GENERATOR = np.random.default_rng(3)
SOURCES, TARGETS = (np.clip(GENERATOR.lognormal(2, 0.8, 150), 0, 40).astype(int) for _ in range(2))
BOTH = ("source", "target")


@sr.record
class Pair:
    source: np.ndarray = sr.feature_list("int64", align="source")
    target: np.ndarray = sr.feature_list("int64", align="target")
    number: int = sr.context("int64")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs"
    lengths = enumerate(zip(SOURCES, TARGETS, strict=True))
    sr.write((Pair(np.arange(s) + 1, np.arange(t) + 1, n) for n, (s, t) in lengths), path, shards=2)
    return path


def counted(of: str) -> np.ndarray:
    return np.maximum(SOURCES, TARGETS) if of == "longest" else SOURCES + TARGETS


def numbers(batches: list) -> list[int]:
    return sorted(np.concatenate([batch["number"] for batch in batches]).tolist())


@pytest.mark.parametrize("of", ["longest", "sum"])
def test_buckets_are_those_of_a_length_function_of_both(pairs: Path, of: str) -> None:
    """`bucket_by_sequence_length`, whose function takes the longer or the sum, gives the same batches in its order."""

    def length(record: dict) -> tf.Tensor:
        sizes = [tf.size(record[name]) for name in BOTH]
        return tf.maximum(*sizes) if of == "longest" else tf.add(*sizes)

    boundaries, sizes = [6, 10, 20], [8, 8, 4, 4]
    slow = sr.read(pairs).bucket_by_sequence_length(length, boundaries, sizes)
    options = sr.Bucket(sizes, boundaries=boundaries, length_field=BOTH, length_of=of)
    fast = sr.read(pairs, batch=options)
    got = [as_numpy(batch) for batch in fast]
    lengths = [(batch.pop("sequence_length"), batch.pop("target_length")) for batch in got]
    assert_same(got, [as_numpy(batch) for batch in slow])
    for batch, (source, target) in zip(got, lengths, strict=True):
        np.testing.assert_array_equal(source, SOURCES[batch["number"]])
        np.testing.assert_array_equal(target, TARGETS[batch["number"]])
    assert int(fast.cardinality()) == len(got)


@pytest.mark.parametrize("of", ["longest", "sum"])
def test_a_budget_holds_for_both_sides(pairs: Path, of: str) -> None:
    """Rows times the longest source, and times the longest target, fit; for a sum, rows times the largest sum."""
    options = sr.TokenBudget(160, length_field=list(BOTH), length_of=of)
    batches = [as_numpy(batch) for batch in sr.read(pairs, batch=options, shuffle=100, seed=1)]
    assert numbers(batches) == list(range(150))
    for batch in batches:
        rows = len(batch["number"])
        assert rows * counted(of)[batch["number"]].max() <= 160
        if of == "longest":
            assert max(batch["source"].size, batch["target"].size) <= 160
    plan = sr.plan(pairs, None, options, shuffle=100, seed=1)
    assert (plan.batches, plan.rows, plan.steps) == (len(batches), 150, counted(of).sum())
    assert plan.most_steps == max(len(b["number"]) * counted(of)[b["number"]].max() for b in batches)


@pytest.mark.parametrize("of", ["longest", "sum"])
def test_limits_are_those_of_the_length_that_counts(pairs: Path, of: str) -> None:
    """`min_length` and `max_length` leave records out by the longer or by the sum."""
    options = sr.Bucket(16, boundaries=[8], length_field=BOTH, length_of=of)
    batches = [as_numpy(batch) for batch in sr.read(pairs, batch=options, min_length=9, max_length=25)]
    assert numbers(batches) == np.flatnonzero((counted(of) >= 9) & (counted(of) <= 25)).tolist()


def test_both_are_cut_to_a_budget(pairs: Path) -> None:
    """`cut_end` cuts each to what there is room for; `drop` leaves out records of which one is too long."""
    cut = [as_numpy(b) for b in sr.read(pairs, batch=sr.TokenBudget(12, too_long="cut_end", length_field=BOTH))]
    assert numbers(cut) == list(range(150))
    for batch in cut:
        np.testing.assert_array_equal(batch["sequence_length"], np.minimum(SOURCES[batch["number"]], 12))
        np.testing.assert_array_equal(batch["target_length"], np.minimum(TARGETS[batch["number"]], 12))
    left = [as_numpy(b) for b in sr.read(pairs, batch=sr.TokenBudget(12, too_long="drop", length_field=BOTH))]
    assert numbers(left) == np.flatnonzero(counted("longest") <= 12).tolist()


def test_both_are_padded_to_boundaries(pairs: Path) -> None:
    """Each to the boundary above its own longest, so that there are few shapes; the largest batch comes first."""
    options = sr.Bucket(8, boundaries=[11, 21], pad_to_bucket_boundary=True, length_field=BOTH, warm_up="largest")
    first, *batches = sr.read(pairs, batch=options, inputs=BOTH, targets="number")
    longest = counted("longest").max()
    assert {x.shape[1] for inputs, *_ in batches for x in inputs} <= {10, 20, longest}
    assert [x.shape for x in first[0]] == [(8, longest)] * 2
    assert not first[2].numpy().any()


def test_what_is_not_empty_on_both_sides_is_kept(pairs: Path) -> None:
    """A record is empty where a list is: `drop` leaves out those of no step in one of the lists."""
    empty = (SOURCES == 0) | (TARGETS == 0)
    assert empty.sum() > (SOURCES + TARGETS == 0).sum()
    options = sr.Bucket(16, boundaries=[8], length_field=BOTH, empty="drop")
    assert numbers([as_numpy(b) for b in sr.read(pairs, batch=options)]) == np.flatnonzero(~empty).tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (lambda: sr.Bucket(2, length_field=BOTH, length_of="mean"), "length_of: expected one of longest, sum"),
        (lambda: sr.Bucket(2, length_field="source", length_of="sum"), "several feature lists in length_field"),
        (lambda: sr.Bucket(2, length_field=BOTH, length_of="sum", warm_up="largest"), "warm_up"),
        (
            lambda: sr.Bucket(2, boundaries=[3], length_field=BOTH, length_of="sum", pad_to_bucket_boundary=True),
            "pad_to_bucket_boundary",
        ),
        (lambda: sr.TokenBudget(9, length_field=BOTH, length_of="sum", too_long="cut_end"), "which feature list"),
        (lambda: sr.TokenBudget(9, length_field=BOTH, length_of="sum", pad_to_multiple_of=2), "pad_to_multiple_of"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message) -> None:
    """Each with an error that names the option."""
    with pytest.raises(sr.OptionError, match=message):
        options()


def test_what_has_no_length_is_refused(pairs: Path) -> None:
    """A context field, and a name that no field has."""
    with pytest.raises(sr.OptionError, match="'number' is a context field"):
        sr.read(pairs, batch=sr.Bucket(2, length_field=("source", "number")))
    with pytest.raises(sr.SchemaError, match="sorce"):
        sr.read(pairs, batch=sr.Bucket(2, length_field=("sorce", "target")))


@sr.record(kw_only=True)
class Noted:
    note: np.ndarray | None = sr.feature_list("float32", optional=True, default=None)
    ids: np.ndarray = sr.feature_list("int64")
    number: int = sr.context("int64")


@pytest.mark.parametrize(
    "strategy",
    [
        sr.Pad(4),
        pytest.param(sr.Pad(4, length=5, too_long="cut_end"), marks=pytest.mark.nightly),
        sr.Bucket(4),
        pytest.param(sr.TokenBudget(40), marks=pytest.mark.nightly),
        pytest.param(sr.Crop(3), marks=pytest.mark.nightly),
        sr.Window(3, batch_size=4),
        pytest.param(sr.Pack(12, 2), marks=pytest.mark.nightly),
        sr.Unroll(2, 3),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_a_list_that_is_none_has_the_length_of_those_beside_it(tmp_path: Path, strategy: Any) -> None:
    """Read without the lists that have its lengths, an optional one gives what it gives beside them."""
    records = (Noted(ids=range(n % 7 + 1), note=np.ones(n % 7 + 1) if n % 3 else None, number=n) for n in range(20))
    sr.write(records, tmp_path / "noted", shards=1)
    options = {"batch": strategy, "seed": 1}
    beside = [as_numpy(batch) for batch in sr.read(tmp_path / "noted", **options)]
    names = [name for name in beside[0] if not name.startswith("ids")]
    alone = [as_numpy(batch) for batch in sr.read(tmp_path / "noted", fields=["note", "number"], **options)]
    assert_same(alone, [{name: batch[name] for name in names} for batch in beside])
