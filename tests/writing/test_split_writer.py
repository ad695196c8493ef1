"""The files of one split, without the records behind them."""

import itertools
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from combinations import all_at_night
from faults import names
from hypothesis import given, settings
from hypothesis import strategies as st

from seqrecorder.storage import shard_writer
from seqrecorder.storage.shard_reader import RecordReader
from seqrecorder.writing.splits import ShardOptions, SplitWriter

sizes = st.lists(st.integers(0, 60), max_size=30)


def write(directory: Path, data: list[bytes], parts: int, start: int = 0, **options: Any) -> Any:
    writer = SplitWriter("train", directory / "train", ShardOptions(**options), start)
    for first in range(0, len(data), parts):
        part = data[first : first + parts]
        lengths = np.array([[len(item)] for item in part], np.int64)
        writer.add(part, lengths, ["size"], [str(len(item)) for item in part])
    return writer.finish()


def contents(directory: Path, info: Any) -> list[list[bytes]]:
    return [
        [item for part in RecordReader(directory / "train" / shard.name, None) for item in part]
        for shard in info.shards
    ]


@given(sizes=sizes, parts=st.integers(1, 9), shards=st.integers(1, 8))
@settings(deadline=None, max_examples=25)
def test_by_number(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], parts: int, shards: int) -> None:
    """Record i is in shard i mod n, however records come in; no shard is empty."""
    directory = tmp_path_factory.mktemp("split")
    data = [bytes([i]) * size for i, size in enumerate(sizes)]
    info = write(directory, data, parts, start=100, shards=shards)
    count = min(shards, len(data))
    assert contents(directory, info) == [data[i::shards] for i in range(count)]
    assert [(shard.start, shard.step) for shard in info.shards] == [(100 + i, count) for i in range(count)]
    assert info.steps == sum(sizes)


@given(sizes=sizes, parts=st.integers(1, 9), limit=st.integers(1, 300))
@settings(deadline=None, max_examples=25)
def test_by_bytes(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], parts: int, limit: int) -> None:
    """Shards are as full as the limit allows, keep the order, and only one record alone is over it."""
    directory = tmp_path_factory.mktemp("split")
    data = [bytes([i]) * size for i, size in enumerate(sizes)]
    info = write(directory, data, parts, shard_bytes=limit)
    found = contents(directory, info)
    assert [item for shard in found for item in shard] == data
    assert all(found)
    assert all(shard.bytes <= limit or shard.records == 1 for shard in info.shards)
    for shard, after in zip(info.shards, found[1:], strict=False):
        assert shard.bytes + len(after[0]) + 16 > limit
    starts = np.cumsum([0, *(len(shard) for shard in found)])[:-1].tolist()
    assert [(shard.start, shard.step) for shard in info.shards] == [(start, 1) for start in starts]


@pytest.mark.parametrize("shuffle_seed", [None, 5])
def test_csv_follows_the_records(tmp_path: Path, shuffle_seed: int | None) -> None:
    """Each line of the CSV says where its record is, shuffled or not."""
    data = [bytes([i]) * i for i in range(20)]
    info = write(tmp_path, data, 6, shards=3, shuffle_seed=shuffle_seed)
    found = contents(tmp_path, info)
    lines = (tmp_path / "train" / "examples.csv").read_text().splitlines()
    assert lines[0] == "shard,index,steps,size"
    assert len(lines) == 21
    for line in lines[1:]:
        shard, index, steps, size = map(int, line.split(","))
        assert len(found[shard][index]) == steps == size
    assert (found == [data[i::3] for i in range(3)]) == (shuffle_seed is None)
    assert names(tmp_path) == ["train"]


def test_generation_in_names(tmp_path: Path) -> None:
    """Files of a later generation carry it in their names."""
    write(tmp_path, [b"a"], 1, generation=2, csv_generation=2)
    stem = "train-g0002-00000-of-00001"
    assert names(tmp_path / "train") == ["examples-g0002.csv", f"{stem}.lengths", f"{stem}.tfrecord"]


def test_abandoned(tmp_path: Path) -> None:
    """Abandoning closes everything, at any time and more than once."""
    writer = SplitWriter("train", tmp_path / "train", ShardOptions(shard_bytes=1, shuffle_seed=1))
    writer.add([b"a", b"b"], np.ones((2, 1), np.int64), ["x"], ["1", "2"])
    writer.abandon()
    writer.abandon()


SHARDS = shard_writer._MOST_OPEN + 8
SHORT, LONG, HUGE = (3, 40, 0), (5000, 10, 70_000), (700_000, 0)  # sizes of records


@pytest.mark.parametrize(
    ("sizes", "compression"),
    all_at_night(
        itertools.product([SHORT, LONG, HUGE], [None, "GZIP"]),
        [(SHORT, None), (SHORT, "GZIP"), (LONG, "GZIP"), (HUGE, None)],
    ),
)
def test_shards_that_are_not_kept_open_have_the_same_bytes(
    tmp_path: Path, sizes: tuple[int, ...], compression: Any
) -> None:
    """Whether many shards are written together or each alone, their files are the same, and the CSV is in order."""
    rows = [(i // SHARDS, i % SHARDS) for i in range(SHARDS * 20)]
    data = [bytes([row]) * (sizes[row % len(sizes)] if n >= shard_writer._MOST_OPEN else n) for row, n in rows]
    waiting = sum(len(item) for item, (_, n) in zip(data, rows, strict=True) if n >= shard_writer._MOST_OPEN)
    assert (waiting > shard_writer._MOST_WAITING) is (sizes[0] == 700_000)
    info = write(tmp_path, data, 10, shards=SHARDS, compression=compression)
    for n, shard in enumerate(info.shards):
        (tmp_path / str(n)).mkdir()
        [alone] = write(tmp_path / str(n), data[n::SHARDS], 9, shards=1, compression=compression).shards
        assert attrs.evolve(alone, name=shard.name, start=n, step=SHARDS) == shard
        for suffix in (".tfrecord", ".lengths"):
            one, other = (
                (path / name).with_suffix(suffix)
                for path, name in ((tmp_path / "train", shard.name), (tmp_path / str(n) / "train", alone.name))
            )
            assert one.read_bytes() == other.read_bytes()
        parts = RecordReader(tmp_path / "train" / shard.name, compression)
        assert [item for part in parts for item in part] == data[n::SHARDS]
    lines = (tmp_path / "train" / "examples.csv").read_text().splitlines()
    assert lines[1:] == [f"{n},{row},{len(item)},{len(item)}" for item, (row, n) in zip(data, rows, strict=True)]
