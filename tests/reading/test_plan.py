"""`plan`: what it predicts is what is then read."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from combinations import all_at_night

import seqrecorder as sr

LENGTHS = np.clip(np.random.default_rng(5).lognormal(2.2, 0.9, 300).astype(int), 0, 80).tolist()


@sr.record
class Line:
    ids: Any = sr.feature_list("int64")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planning") / "lines"
    sr.write((Line(np.arange(n) + 1) for n in LENGTHS), path, shards=3)
    return path


STRATEGIES = {
    "pad": sr.Pad(16),
    "pad to": sr.Pad(16, length=20, too_long="cut_end", drop_remainder=True),
    "pad, without empty ones": sr.Pad(16, empty="drop", pad_to_multiple_of=8),
    "pad, leaving out": sr.Pad(16, length=20, too_long="drop"),
    "ragged, full": sr.Ragged(16, empty="drop"),
    "auto": sr.Bucket(16),
    "quantile": sr.Bucket(16, boundaries="quantile", buckets=4),
    "boundaries": sr.Bucket([16, 8, 4], boundaries=[8, 20], pad_to_bucket_boundary=True, empty="drop"),
    "sorted": sr.Bucket(16, boundaries="sorted", pad_to_multiple_of=4),
    "budget": sr.TokenBudget(300, batch_size_multiple=2),
    "budget in multiples": sr.TokenBudget(300, pad_to_multiple_of=16, max_batch_size=12),
    "budget, dropping": sr.TokenBudget(60, too_long="drop"),
    "budget, cutting": sr.TokenBudget(60, too_long="cut_end"),
    "budget of multiples": sr.TokenBudget(300, pad_to_multiple_of=8),
    "ragged": sr.Ragged(16),
    "window": sr.Window(8, stride=2, batch_size=16, shift=3),
    "window, dropping": sr.Window(8, batch_size=16, tail="drop", horizon=2, drop_remainder=True),
    "window, drawn": sr.Window(8, shift=3, batch_size=16, jitter=2, max_windows=3),
    "crop": sr.Crop(8, batch_size=16, too_short="drop"),
    "longest of one": sr.Bucket(16, boundaries=[8], length_field=["ids"]),
    "unroll": sr.Unroll(8, 10),
    "unroll, dropping": sr.Unroll(8, 10, tail="drop", bucket=True),
    "pack": sr.Pack(100, 4),
    "pack, cutting": sr.Pack(30, 4, too_long="cut_end"),
    "pack, splitting": sr.Pack(30, 4, too_long="split"),
}


def read_shapes(batches: Any, strategy: Any) -> tuple[list[tuple[int, int | None]], list[int]]:
    shapes: list[tuple[int, int | None]] = []
    real = []
    for batch in batches:
        ragged = isinstance(strategy, sr.Ragged)
        shapes.append((batch["ids"].shape[0], None if ragged else batch["ids"].shape[1]))
        real.append(int(batch["sequence_length"].numpy().sum()))
    return shapes, real


# In the order of the files, one of each way of planning; in that of a seed, each strategy, and once each way to cut,
# to leave out and to pad.
AT_NIGHT = ("pad, leaving out", "ragged, full", "budget in multiples", "budget, dropping", "longest of one")
AT_NIGHT += ("quantile", "budget of multiples", "window, dropping", "pack, cutting")
AT_NIGHT += ("pad, without empty ones", "sorted", "budget, cutting", "window", "window, drawn", "unroll", "pack")
UNSHUFFLED = ("sorted", "window", "pack")


@pytest.mark.parametrize(
    ("case", "shuffle"),
    all_at_night(
        itertools.product(STRATEGIES, [150, 0]),
        [*((case, 150) for case in STRATEGIES if case not in AT_NIGHT), *((case, 0) for case in UNSHUFFLED)],
    ),
)
def test_the_plan_is_what_is_read(lines: Path, case: str, shuffle: int) -> None:
    """Batches, shapes and steps are predicted exactly, for the order of the files and for that of a seed."""
    strategy = STRATEGIES[case]
    plan = sr.plan(lines, "train", strategy, shuffle=shuffle, seed=7)
    dataset = sr.read(lines, batch=strategy, shuffle=shuffle, seed=7)
    shapes, real = read_shapes(dataset, strategy)
    assert plan.batches == len(shapes)
    assert int(dataset.cardinality()) in (plan.batches, -2)
    assert plan.shapes == Counter(shapes)
    assert plan.steps == sum(real)
    assert plan.rows == sum(rows for rows, _ in shapes)
    if strategy.__class__ is not sr.Ragged:
        sizes = [rows * (steps or 0) for rows, steps in shapes]
        assert (plan.padded_steps, plan.most_steps) == (sum(sizes), max(sizes))
        assert plan.efficiency == sum(real) / sum(sizes)
        assert plan.steps_per_batch == sum(sizes) / len(sizes)
        assert int(np.prod(next(iter(plan.shapes)))) == max(sizes)


@sr.record(kw_only=True)
class Mixed:
    bag: Any = sr.context("float32", sparse=4)
    parts: Any = sr.feature_list("float32", shape=(None,), align="parts")
    links: Any = sr.feature_list("float32", sparse=4, align="ids")
    ids: Any = sr.feature_list("int64", align="ids")
    frames: Any = sr.feature_list("int64", align="frames")


@sr.record
class Frames:
    frames: Any = sr.feature_list("int64", align="frames")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planning") / "mixed"
    sr.write(
        (
            Mixed(
                bag={1: 1.0},
                parts=[[1.0]] * (n % 5),
                links=[{0: 1.0}] * n,
                ids=np.arange(n) + 1,
                frames=np.arange(3 * n % 20),
            )
            for n in LENGTHS[:60]
        ),
        path,
    )
    return path


@pytest.mark.parametrize(
    ("strategy", "fields"),
    [
        pytest.param(sr.Window(8, shift=3, batch_size=4), ["ids"], marks=pytest.mark.nightly),
        pytest.param(sr.Unroll(4, 5), ["ids"], marks=pytest.mark.nightly),
        (sr.Unroll(4, 5, split_records=True), ["ids"]),
        (sr.Pack(120, 2), ["ids", "frames"]),
    ],
    ids=str,
)
def test_lists_that_can_be_cut_are_planned(mixed: Path, strategy: Any, fields: list[str]) -> None:
    """Strategies that cut records refuse to read the others; what lies beside them does not change a plan."""
    with pytest.raises(sr.OptionError, match=f"{type(strategy).__name__}: field 'bag' is sparse"):
        sr.read(mixed, batch=strategy)
    for schema, read in ((None, fields), (Frames, ["frames"])):
        plan = sr.plan(mixed, None, strategy, schema=schema)
        batches = list(sr.read(mixed, batch=strategy, fields=read))
        lengths = ["sequence_length", *(["frames_length"] if len(read) > 1 else [])]
        assert plan.batches == len(batches)
        assert plan.steps == sum(int(batch[name].numpy().sum()) for batch in batches for name in lengths)
        assert plan.padded_steps == sum(int(np.prod(batch[name].shape[:2])) for batch in batches for name in read)
    pads = sr.plan(mixed, None, strategy, sr.Pad(7))
    assert pads[1] == sr.plan(mixed, sr.Pad(7))


@pytest.mark.parametrize("shard", [(1, 2), (2, 5)])
def test_the_plan_of_a_share(lines: Path, shard: tuple[int, int]) -> None:
    """Whole files or single records that are dealt to one reader are planned as they are read."""
    plan = sr.plan(lines, "train", sr.Bucket(8, boundaries=[10]), shard=shard)
    shapes, real = read_shapes(sr.read(lines, batch=sr.Bucket(8, boundaries=[10]), shard=shard), None)
    assert (plan.shapes, plan.steps) == (Counter(shapes), sum(real))


def test_bare_shards_are_planned(lines: Path) -> None:
    """Shards without lengths files are parsed once, and planned the same, file after file."""
    bare = sorted(map(str, lines.glob("train/*.tfrecord")))
    plan = sr.plan(bare, sr.Pad(16), schema=Line)
    assert plan.steps == sr.plan(lines, "train", sr.Pad(16)).steps
    assert plan.batches == len(list(sr.read(bare, batch=sr.Pad(16), schema=Line)))


def test_a_table_compares_strategies(lines: Path) -> None:
    """Several strategies make a table, a line for each, with their options that are not the default ones."""
    table = sr.plan(lines, "train", sr.Pad(16), sr.Bucket(16, boundaries="sorted"), sr.Ragged(16))
    assert len(table) == 3
    assert table[1].strategy == sr.Bucket(16, boundaries="sorted")
    lines_ = str(table).splitlines()
    assert len({len(line) for line in lines_}) == 1
    assert lines_[0].startswith("strategy ")
    assert lines_[0].endswith("batches  shapes  rows  steps a batch  at most  real steps")
    assert lines_[2].startswith("Bucket(16, boundaries='sorted')")
    assert lines_[3].endswith("100.0%")
    assert [plan.efficiency for plan in table] == sorted(plan.efficiency for plan in table)


def test_an_empty_split_is_planned(tmp_path: Path) -> None:
    """A split without records has no batches, and nothing is divided by zero."""
    sr.write({"train": [Line([1])], "eval": []}, tmp_path / "d", progress=False)
    plan = sr.plan(tmp_path / "d", "eval", sr.Pad(4))
    assert (plan.batches, plan.steps, plan.efficiency, plan.steps_per_batch) == (0, 0, 1.0, 0.0)
    assert "real steps" not in str(plan)


def test_nothing_to_plan_is_refused(lines: Path) -> None:
    """Without a strategy there is nothing to compare."""
    with pytest.raises(sr.OptionError, match="name the strategies"):
        sr.plan(lines, "train")


def test_strategies_come_one_after_the_other(tmp_path):
    """What is no strategy, such as a list of them, is refused."""
    with pytest.raises(sr.OptionError, match="one after the other"):
        sr.plan(tmp_path, "train", [sr.Pad(2), sr.Bucket(2)])
