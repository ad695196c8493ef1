"""`seed_name`: a seed for each record and epoch, whatever the strategy and the order."""

import itertools
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from slow_records import assert_resumes_exactly

import seqrecorder as sr

COUNT = 60
STRATEGIES = {
    "pad": sr.Pad(7),
    "pad one": sr.Pad(1),
    "bucket": sr.Bucket(7),
    "sorted": sr.Bucket(7, boundaries="sorted"),
    "budget": sr.TokenBudget(60),
    "ragged": sr.Ragged(7),
    "flat": sr.Ragged(7, flat=True),
    "crop": sr.Crop(3, batch_size=4),
    "window": sr.Window(4, batch_size=7),
    "unroll": sr.Unroll(5, 4),
    "pack": sr.Pack(40, 3),
    "fill": sr.Pack(8, 3, too_long="split", fill=True),
    "sides": sr.Pack({"ids": 40, "other": 20}, 3),
    "groups": sr.Groups(by="label", groups=3, each=2),
}
SHUFFLES = [0, 20]


@sr.record
class Line:
    key: str = sr.context(str, key=True)
    label: int = sr.context("int32")
    ids: Any = sr.feature_list("int64")
    other: Any = sr.feature_list("int64", align="other")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seeds") / "lines"
    sr.write((Line(f"k{i}", i % 3, range(i % 9 + 1), range(i % 5 + 1)) for i in range(COUNT)), path, shards=4)
    return path


def seeds_in(dataset: Any) -> dict[str, tuple[int, ...]]:
    """Return the seed of each record by key; check that it has one in all its places, and other places have none."""
    seeds: dict[str, tuple[int, ...]] = {}
    for batch in dataset:
        key, seed = batch["key"].numpy(), batch["seed"].numpy()
        assert seed.dtype == np.int32
        assert seed.shape == (*key.shape, 2)
        assert (seed >= 0).all()
        for name, pair in zip(np.ravel(key), seed.reshape(-1, 2).tolist(), strict=True):
            assert seeds.setdefault(name.decode(), tuple(pair)) == tuple(pair)
    assert seeds.pop("", (0, 0)) == (0, 0)
    return seeds


def seeded(case: str) -> Any:
    return attrs.evolve(STRATEGIES[case], seed_name="seed")


@pytest.fixture(scope="module")
def expected(lines: Path) -> dict[str, tuple[int, ...]]:
    seeds = seeds_in(sr.read(lines, batch=seeded("pad"), seed=5))
    assert len(seeds) == len(set(seeds.values())) == COUNT
    return seeds


@pytest.mark.parametrize(
    ("case", "shuffle"),
    all_at_night(
        itertools.product(STRATEGIES, SHUFFLES),
        [
            (case, 20 * (n % 2))
            for n, case in enumerate(STRATEGIES)
            if case not in ("pad one", "flat", "budget", "sides", "crop", "pack")
        ],
    ),
)
def test_seeds_are_those_of_the_records(lines: Path, expected: Any, case: str, shuffle: int) -> None:
    """Every strategy, in every order, gives each record the same seed."""
    fields = None if case == "sides" else ["key", "label", "ids"]
    seeds = seeds_in(sr.read(lines, batch=seeded(case), seed=5, shuffle=shuffle, fields=fields))
    assert len(seeds) == COUNT
    assert seeds == expected


@pytest.mark.parametrize("count", [2, 7])
def test_shares_have_the_seeds_of_the_whole(lines: Path, expected: Any, count: int) -> None:
    """Readers of a share of the files, or of the records, give the seeds that one reader of all gives."""
    shares = [
        seeds_in(sr.read(lines, batch=seeded("pad"), seed=5, shuffle=9, shard=(i, count), max_length=8))
        for i in range(count)
    ]
    merged = {key: seed for share in shares for key, seed in share.items()}
    assert sum(map(len, shares)) == len(merged) == sum(i % 9 < 8 for i in range(COUNT))
    assert merged.items() <= expected.items()


def test_every_epoch_and_seed_has_seeds_of_its_own(lines: Path, expected: Any) -> None:
    """Epochs that repeat, that another iteration begins, and that `epoch=` names are the same; no seed comes twice."""
    options = {"fields": ["key", "ids"]}
    batches = list(sr.read(lines, batch=seeded("pad one"), seed=5, epochs=3, **options))
    epochs = [seeds_in(batches[COUNT * n : COUNT * (n + 1)]) for n in range(3)]
    assert epochs[0] == expected
    again = sr.read(lines, batch=seeded("bucket"), seed=5, **options)
    assert [seeds_in(again) for _ in range(3)] == epochs
    assert seeds_in(sr.read(lines, batch=seeded("unroll"), seed=5, epoch=2, **options)) == epochs[2]
    epochs.append(seeds_in(sr.read(lines, batch=seeded("pad"), seed=6, **options)))
    assert len({seed for epoch in epochs for seed in epoch.values()}) == 4 * COUNT


def test_seeds_resume(lines: Path, tmp_path: Path, stride: int) -> None:
    """What is drawn by the seeds goes on exactly where an iterator was saved."""

    def drawn() -> Any:
        def draw(batch: Any) -> Any:
            uniform = lambda seed: tf.random.stateless_uniform([2], seed)  # noqa: E731
            return {"drawn": tf.map_fn(uniform, batch["seed"], fn_output_signature=tf.float32)}

        dataset = sr.read(lines, batch=seeded("bucket"), fields=["key", "ids"], shuffle=20, seed=2, epochs=2)
        return dataset.map(draw)

    assert_resumes_exactly(drawn, tmp_path, stride)


def test_copies_have_seeds_of_their_own(lines: Path, expected: Any) -> None:
    """Of a record that comes three times in an epoch the first copy has its seed, and the others two more."""
    dataset = sr.read(lines, batch=seeded("pad"), seed=5, oversample={"label": {1: 3.0}}, fields=["key", "label"])
    seeds = [(each["key"].numpy(), tuple(each["seed"].numpy().tolist())) for each in dataset.unbatch()]
    assert len(set(seeds)) == len({seed for _, seed in seeds}) == COUNT + 2 * (COUNT // 3)
    assert {(key.encode(), seed) for key, seed in expected.items()} <= set(seeds)


def test_seeds_are_inputs_and_single_records_have_them(lines: Path, expected: Any) -> None:
    """A model may be given the seeds; batches of one record taken apart have `(2,)`; positions may come beside them."""
    options = {"batch": seeded("pad one"), "seed": 5, "index_name": "at"}
    names = {"inputs": {"seed": "seed", "at": "at", "key": "key"}, "targets": "ids"}
    for x, _, _ in sr.read(lines, **options, **names).unbatch():
        assert x["seed"].shape == (2,)
        assert tuple(x["seed"].numpy().tolist()) == expected[x["key"].numpy().decode()]
        assert x["key"] == f"k{int(x['at'])}"


def test_seeds_that_cannot_be_given(lines: Path) -> None:
    """Names that are taken, files whose records were not counted, and elements without positions are refused."""
    with pytest.raises(sr.OptionError, match="pass seed_name= another name"):
        sr.read(lines, batch=sr.Pad(2, seed_name="ids"))
    with pytest.raises(sr.OptionError, match="seed_name: expected a name, got 3"):
        sr.read(lines, batch=sr.Pad(2, seed_name=3))  # type: ignore[arg-type]
    with pytest.raises(sr.OptionError, match="length_name: expected a name, got None"):
        sr.read(lines, batch=sr.Pad(2, length_name=None))  # type: ignore[arg-type]
    with pytest.raises(sr.OptionError, match="another option has the name 'at' already"):
        sr.read(lines, batch=sr.Pad(2, seed_name="at"), index_name="at")
    with pytest.raises(sr.OptionError, match=r"leave it out: fields=\['key', 'label', 'ids'\]"):
        sr.read(lines, batch=seeded("window"), index_name="at")
    bare = sorted(map(str, lines.glob("train/*.tfrecord")))
    with pytest.raises(sr.OptionError, match="seed_name: check='none' leaves the positions"):
        sr.read(bare, schema=Line, batch=seeded("pad"), check="none")
    with pytest.raises(sr.OptionError, match="elements have no positions"):
        sr.batch(sr.read(lines), seeded("pad"), length="ids")
