"""Positions of records: they go with their records through every order and strategy."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night

import seqrecorder as sr

LENGTHS = np.clip(np.random.default_rng(3).lognormal(1.5, 0.8, 60).astype(int), 1, 30).tolist()


@sr.record
class Line:
    key: str = sr.context(str, key=True)
    ids: Any = sr.feature_list("int64")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbering") / "lines"
    sr.write((Line(f"k{i}", np.arange(n)) for i, n in enumerate(LENGTHS)), path, shards=4)
    return path


STRATEGIES = {
    "single": None,
    "pad": sr.Pad(7),
    "bucket": sr.Bucket(7),
    "sorted": sr.Bucket(7, boundaries="sorted"),
    "budget": sr.TokenBudget(60),
    "ragged": sr.Ragged(7),
    "window": sr.Window(4, batch_size=7),
    "unroll": sr.Unroll(5, 4),
    "pack": sr.Pack(40, 3),
}


@pytest.mark.parametrize(
    ("case", "shuffle"),
    all_at_night(
        itertools.product(STRATEGIES, [20, 0]),
        [("single", 0), *((case, 20) for case in ("single", "bucket", "sorted", "ragged", "unroll", "pack"))],
    ),
)
def test_positions_go_with_their_records(lines: Path, case: str, shuffle: int) -> None:
    """Each position is that of the record which `read_records` gives there, and -1 where there is no record."""
    keys = [record.key.encode() for record in sr.read_records(lines)]
    seen = set()
    for batch in sr.read(lines, batch=STRATEGIES[case], shuffle=shuffle, seed=1, index_name="at"):
        at, key = np.ravel(batch["at"].numpy()), np.ravel(batch["key"].numpy())
        assert at.dtype == np.int64
        for position, name in zip(at.tolist(), key.tolist(), strict=True):
            assert name == (b"" if position < 0 else keys[position])
        seen |= set(at[at >= 0].tolist())
    assert seen == set(range(len(LENGTHS)))


@pytest.mark.parametrize(
    "case",
    all_at_night(
        ((case,) for case in ("single", "pad", "bucket", "sorted", "budget", "ragged")),
        ((case,) for case in ("single", "bucket", "ragged")),
    ),
)
def test_epochs_hold_every_record_once(lines: Path, case: str) -> None:
    """Each of three epochs holds every record exactly once, in an order of its own that the seed repeats."""
    orders = []
    for _ in range(2):
        dataset = sr.read(lines, batch=STRATEGIES[case], shuffle=30, seed=2, epochs=3, index_name="at", fields=["ids"])
        orders.append(np.concatenate([np.ravel(element["at"].numpy()) for element in dataset]))
    np.testing.assert_array_equal(*orders)
    epochs = orders[0].reshape(3, len(LENGTHS))
    assert [sorted(epoch) for epoch in epochs.tolist()] == [list(range(len(LENGTHS)))] * 3
    assert len(set(map(tuple, epochs.tolist()))) == 3


def test_positions_of_a_part(lines: Path) -> None:
    """Readers of a share, and of some lengths only, give the positions in the whole split."""
    whole = [record.ids.size for record in sr.read_records(lines)]
    seen: list[int] = []
    for index in range(7):  # more readers than files: single records are dealt
        for record in sr.read(lines, shard=(index, 7), index_name="at", fields=["ids"], min_length=5):
            assert whole[int(record["at"])] == record["ids"].shape[0] >= 5
            seen.append(int(record["at"]))
    assert sorted(seen) == [position for position, length in enumerate(whole) if length >= 5]


def test_positions_of_bare_examples(tmp_path: Path) -> None:
    """Bare shards of flat Examples have positions too."""
    path = tmp_path / "x.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        for number in range(3):
            example = tf.train.Example()
            example.features.feature["ids"].int64_list.value.extend(range(number))
            file.write(example.SerializeToString())
    made = sr.read(str(path), schema=sr.Schema.of(Line).select(["ids"]), layout="example", index_name="at")
    assert [(int(r["at"]), r["ids"].shape[0]) for r in made] == [(0, 0), (1, 1), (2, 2)]


def test_positions_that_cannot_be_given(lines: Path) -> None:
    """A name that a field has, and files whose records were not counted, are refused."""
    with pytest.raises(sr.OptionError, match="pass index_name= another name"):
        sr.read(lines, index_name="key")
    bare = sorted(map(str, lines.glob("train/*.tfrecord")))
    with pytest.raises(sr.OptionError, match="leave `check` out"):
        sr.read(bare, schema=Line, index_name="at", check="none")
