"""read_records: blocks are checked and decoded in threads, in order, and what is damaged comes in its place."""

from pathlib import Path

import numpy as np
import pytest
import tfrecord_files

import seqrecorder as sr
from seqrecorder.reading import read_records as module


@sr.record
class Number:
    value: int = sr.context("int64", key=True)
    steps: np.ndarray = sr.feature_list("int64")


def numbers(count):
    return [Number(value, np.arange(value % 5)) for value in range(count)]


def shards_of(directory: Path) -> list[Path]:
    return sorted(directory.glob("train/*.tfrecord"))


def damage(path: Path, record: int) -> None:
    """Change the last byte of a record's content."""
    data, end = bytearray(path.read_bytes()), 0
    for _ in range(record + 1):
        end += 16 + int.from_bytes(data[end : end + 8], "little")
    data[end - 5] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize(("shards", "shard"), [(1, None), (3, None), (1, (0, 2)), (3, (1, 4))])
def test_records_before_the_damage_come_and_none_behind_it(tmp_path, monkeypatch, threads, shards, shard):
    """However many threads and files there are, records come in order up to the first damaged one, which is named."""
    monkeypatch.setattr(module, "threads_for", lambda _: threads)
    monkeypatch.setattr(module, "_BLOCK", 400)
    monkeypatch.setattr(module, "_WINDOW", 30)
    sr.write(numbers(300), tmp_path / "x", shards=shards)
    bad = 151 - 151 % shards + shards - 1  # of the last shard
    damage(shards_of(tmp_path / "x")[-1], bad // shards)
    found: list[int] = []
    with pytest.raises(sr.ShardReadError, match=rf"{shards_of(tmp_path / 'x')[-1].name}: damaged after \d+ or more"):
        found.extend(record.value for record in sr.read_records(tmp_path / "x", shard=shard))
    index, count = shard or (0, 1)
    assert found == list(range(index, bad, count))


def test_one_that_cannot_be_decoded_comes_before_the_damage_behind_it(tmp_path):
    """Of a record of another class and damage behind it in one block, the record is what is told."""

    @sr.record
    class Other:
        value: str = sr.context(str)

    schema = sr.Schema.of(Number)
    data = [schema.encode(number) for number in numbers(20)]
    data[7] = sr.Schema.of(Other).encode(Other("x"))
    path = tmp_path / "x.tfrecord"
    path.write_bytes(tfrecord_files.framed(data))
    damage(path, 12)
    with pytest.raises(sr.RecordError, match="record 7 at byte"):
        list(sr.read_records(path, schema=Number, check="none"))


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_small_blocks_and_many_threads_keep_the_order(tmp_path, monkeypatch, compression):
    """Records that lie across blocks of a few bytes come as they were written."""
    monkeypatch.setattr(module, "_BLOCK", 50)
    monkeypatch.setattr(module, "threads_for", lambda _: 3)
    written = numbers(500)
    for shards in (1, 4):
        sr.write(written, tmp_path / str(shards), shards=shards, compression=compression)
        found = [(record.value, record.steps.tolist()) for record in sr.read_records(tmp_path / str(shards))]
        assert found == [(number.value, number.steps.tolist()) for number in written]
