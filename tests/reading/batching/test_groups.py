"""`Groups` against what its batches must be, and against dealing the commonest values first."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_records import assert_resumes_exactly

import seqrecorder as sr
from seqrecorder.reading.batching.groups import Groups, share_places

COUNTS = {"a": 40, "b": 9, "c": 8, "d": 7, "e": 4, "f": 3, "g": 1}


@sr.record
class Face:
    key: int = sr.context("int64", key=True)
    who: str = sr.context(str)
    number: int = sr.context("uint8")
    x: np.ndarray = sr.feature_list("float32")
    score: float = sr.context("float32", default=0.0)
    maybe: str | None = sr.context(str, optional=True, default=None)


def faces_of(counts: dict[str, int]) -> list[Face]:
    names = [name for name, count in counts.items() for _ in range(count)]
    names = np.random.default_rng(0).permutation(names).tolist()
    return [Face(at, name, ord(name), x=np.full(1 + at % 5, at, "f4")) for at, name in enumerate(names)]


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("groups") / "faces"
    sr.write(faces_of(COUNTS), path, shards=3)
    return path


def one_by_one(counts: dict[str, int], groups: int, each: int) -> int:
    """Return how many batches there are if the values that are left most often are taken first."""
    left, batches = [count // each for count in counts.values()], 0
    while sum(count > 0 for count in left) >= groups:
        left.sort(reverse=True)
        left[:groups] = [count - 1 for count in left[:groups]]
        batches += 1
    return batches


def checked(batches: Any, strategy: Groups, name: str = "who") -> list[np.ndarray]:
    """Return the keys of batches, each of which holds the values that it must; no record comes twice."""
    keys = []
    for batch in batches:
        values = batch[name].numpy().reshape(strategy.groups, strategy.each)
        assert all(len(set(row)) == 1 for row in values.tolist())
        assert len(set(values[:, 0].tolist())) == strategy.groups
        assert batch["x"].numpy()[:, 0].tolist() == batch["key"].numpy().tolist()
        assert batch["sequence_length"].numpy().tolist() == [1 + key % 5 for key in batch["key"].numpy()]
        keys.append(batch["key"].numpy())
    assert not keys or len(np.concatenate(keys)) == len(set(np.concatenate(keys).tolist()))
    return keys


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(1, 5))
def test_there_are_as_many_batches_as_there_can_be(most: list[int], groups: int) -> None:
    """As many as taking the commonest values first gives; no value has more places than batches, or than records."""
    count, places = share_places(np.array(most), groups)
    assert count == one_by_one(dict(enumerate(most)), groups, 1)
    assert (places <= np.minimum(most, count)).all()
    assert places.sum() == count * groups


GROUPED = [(2, 4, "who"), (4, 2, "number"), (3, 1, "who"), (1, 3, "who")]


@pytest.mark.parametrize(
    ("groups", "each", "name", "shuffle"),
    all_at_night(
        [(*case, shuffle) for case in GROUPED for shuffle in (0, 5, 100)],
        [(2, 4, "who", 100), (4, 2, "number", 5)],
    ),
)
def test_batches_hold_values_and_their_records(faces: Path, groups: int, each: int, name: str, shuffle: int) -> None:
    """Each batch has different values with so many records; all are counted, by `read` and by `plan`."""
    strategy = Groups(by=name, groups=groups, each=each)
    dataset = sr.read(faces, batch=strategy, shuffle=shuffle, seed=1, epochs=2)
    batches = list(dataset)
    count = one_by_one(COUNTS, groups, each)
    assert int(dataset.cardinality()) == len(batches) == 2 * count
    for epoch in (batches[:count], batches[count:]):
        checked(epoch, strategy, name)
    plan = sr.plan(faces, "train", strategy, shuffle=shuffle, seed=1)
    widths = Counter((len(batch["key"]), batch["x"].shape[1]) for batch in batches[:count])
    assert plan.shapes == dict(widths)
    assert plan.steps == sum(int(tf.reduce_sum(batch["sequence_length"])) for batch in batches[:count])
    few = sum(count for count in COUNTS.values() if count < each)
    rest = sum(COUNTS.values()) - few - count * groups * each
    reasons = {f"values of {name!r} with fewer than {each} records": few}
    reasons |= {f"no place beside {groups - 1} other values of {name!r}": rest}
    assert plan.left_out == {reason: number for reason, number in reasons.items() if number}


def test_orders_go_by_the_seed_resume_and_are_shared(faces: Path, tmp_path: Path, stride: int) -> None:
    """A seed repeats an order, epochs differ, a checkpoint goes on, readers of shares share no record."""
    strategy = Groups(by="who", groups=2, each=2)

    def build(seed: int = 3, **options: Any) -> Any:
        return sr.read(faces, batch=strategy, fields=["key", "who", "x"], shuffle=20, seed=seed, **options)

    def keys(batches: Any) -> list[list[int]]:
        return [part.tolist() for part in checked(batches, strategy)]

    whole = assert_resumes_exactly(lambda: build(epochs=2), tmp_path, stride)
    count = len(whole) // 2
    first, second = ([batch["key"].tolist() for batch in part] for part in (whole[:count], whole[count:]))
    assert keys(build(epoch=1)) == second
    assert first != keys(build(4))
    assert np.concatenate(first).tolist() != np.concatenate(second).tolist()
    shared = [key for index in range(2) for part in checked(build(shard=(index, 2)), strategy) for key in part.tolist()]
    assert len(shared) == len(set(shared))


def test_any_dataset_selections_and_limits(faces: Path) -> None:
    """`sr.batch` deals elements, selections and limits count the records that are left; contexts alone do, too."""
    strategy = Groups(by="who", groups=3, each=2)
    records = sr.read(faces, shuffle=100, seed=2)
    fields = {"x", "key", "who"}
    elements = records.map(lambda record: {name: value for name, value in record.items() if name in fields})
    assert len(checked(sr.batch(elements, strategy, length="x"), strategy)) == one_by_one(COUNTS, 3, 2)
    some = sr.open(faces)["train"].where(lambda face: face.who != "b", fields=["who"])
    kept = {name: count for name, count in COUNTS.items() if name != "b"}
    assert len(checked(sr.read(some, batch=strategy, seed=0), strategy)) == one_by_one(kept, 3, 2)
    assert sr.plan(some, strategy, seed=0).batches == one_by_one(kept, 3, 2)
    short = Counter(face.who for face in faces_of(COUNTS) if len(face.x) <= 3)
    limited = checked(sr.read(faces, batch=strategy, seed=0, max_length=3), strategy)
    assert len(limited) == one_by_one(short, 3, 2)
    assert list(sr.read(some[:0], batch=strategy)) == []
    x, y = next(iter(sr.read(faces, batch=strategy, inputs="x", targets="number", weights=False)))
    assert (len(x), len(set(y.numpy().tolist()))) == (6, 3)


@pytest.mark.parametrize(("options", "more", "message"), [
    ({"by": "score"}, {}, "field 'score' holds float32; give one of ints, bools or text"),
    ({"by": "x"}, {}, "field 'x' is a feature list"),
    ({"by": "maybe"}, {}, "field 'maybe' may be None"),
    ({"groups": 9}, {}, "expected an epoch of a batch or more"),
    ({}, {"oversample": {"who": {"a": 2.0}}}, "Groups counts the records of each value"),
])  # fmt: skip
def test_what_cannot_be_dealt_is_refused(faces: Path, options: Any, more: Any, message: str) -> None:
    """The field must have one value that is a class, and there must be enough of them."""
    with pytest.raises(sr.OptionError, match=message):
        sr.read(faces, batch=Groups(**{"by": "who", "groups": 2, "each": 2, **options}), **more)
    with pytest.raises(sr.OptionError, match="each: expected an int of 1 or more"):
        Groups(by="who", groups=2, each=0)
