"""The files of one split, without the records behind them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
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


@pytest.mark.parametrize("sizes", [(3, 40, 0), (5000, 10, 70_000)], ids=["short", "long"])
@pytest.mark.parametrize("most_waiting", [1, 20_000, 32 << 20])
def test_shards_that_are_not_kept_open_have_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], most_waiting: int
) -> None:
    """Whether few shards are kept open, or all, their files and the CSV are the same."""
    data = [bytes([i]) * sizes[i % len(sizes)] for i in range(50)]
    (tmp_path / "all").mkdir()
    (tmp_path / "few").mkdir()
    kept = write(tmp_path / "all", data, 9, shards=8)
    monkeypatch.setattr(shard_writer, "_MOST_OPEN", 3)
    monkeypatch.setattr(shard_writer, "_MOST_WAITING", most_waiting)
    assert write(tmp_path / "few", data, 9, shards=8) == kept
    for file in names(tmp_path / "all" / "train"):
        assert (tmp_path / "few" / "train" / file).read_bytes() == (tmp_path / "all" / "train" / file).read_bytes()


def test_compressed_shards_that_are_not_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold the same records, one stream each, and the same bytes however many records wait."""
    monkeypatch.setattr(shard_writer, "_MOST_OPEN", 0)
    data = [np.random.default_rng(i).bytes(i * 40) for i in range(50)]
    digests = set()
    for number, most_waiting in enumerate((1, 5000, 32 << 20)):
        monkeypatch.setattr(shard_writer, "_MOST_WAITING", most_waiting)
        directory = tmp_path / str(number)
        directory.mkdir()
        info = write(directory, data, 9, shards=8, compression="GZIP")
        for i, shard in enumerate(info.shards):
            parts = RecordReader(directory / "train" / shard.name, "GZIP")
            assert [item for part in parts for item in part] == data[i::8]
        digests.add(tuple(shard.sha256 for shard in info.shards))
    assert len(digests) == 1
