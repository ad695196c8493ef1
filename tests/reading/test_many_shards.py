"""Records of more shards than are kept open, dealt in turn."""

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.reading import read_records


@sr.record
class Row:
    key: str = sr.context(str, key=True)
    ids: np.ndarray = sr.feature_list("int64")


ROWS = [Row(f"k{n}", np.arange(n % 5)) for n in range(101)]


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_many_dealt_shards_are_read_in_written_order(tmp_path, monkeypatch, compression):
    """Records of more shards than are kept open come in the order of few; and so do those that damage leaves."""
    path = tmp_path / "rows"
    sr.write(ROWS, path, shards=7, compression=compression)
    monkeypatch.setattr(read_records, "_MOST_OPEN", 3)
    for options in ({}, {"shard": (1, 2)}, {"check": "full"}):
        many = list(sr.read_records(path, schema=Row, **options))
        with monkeypatch.context() as patch:
            patch.setattr(read_records, "_MOST_OPEN", 100)
            assert many == list(sr.read_records(path, schema=Row, **options))
    assert list(sr.read_records(path, schema=Row)) == ROWS
    shard = path / "train" / "train-00002-of-00007.tfrecord"
    data = bytearray(shard.read_bytes())
    data[-9] ^= 1
    shard.write_bytes(data)
    with pytest.raises(sr.ShardReadError, match=r"00002-of-00007.*damaged"):
        list(sr.read_records(path))


def test_counts_of_many_dealt_shards_are_asserted(tmp_path, monkeypatch):
    """A shard that ends too early is named, where many are read in turn as well."""
    path = tmp_path / "rows"
    sr.write(ROWS, path, shards=7)
    monkeypatch.setattr(read_records, "_MOST_OPEN", 3)
    shard = path / "train" / "train-00002-of-00007.tfrecord"
    first = int.from_bytes(shard.read_bytes()[:8], "little") + 16
    shard.write_bytes(shard.read_bytes()[:first])
    with pytest.raises(sr.ShardReadError, match=r"00002-of-00007.*expected 15 records, got 1"):
        list(sr.read_records(path, check="none"))
