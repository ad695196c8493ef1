"""Records that were dealt to many shards: they come from all of these in turn."""

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
    """However few bytes of each are read at a time, records come in written order; and damage is found."""
    path = tmp_path / "rows"
    sr.write(ROWS, path, shards=7, compression=compression)
    for options in ({}, {"shard": (1, 2)}, {"check": "full"}):
        many = list(sr.read_records(path, schema=Row, **options))
        with monkeypatch.context() as patch:
            patch.setattr(read_records, "_BLOCKS", 1)
            patch.setattr(read_records, "_LEAST_BLOCK", 50)
            patch.setattr(read_records, "_WINDOW", 20)
            assert many == list(sr.read_records(path, schema=Row, **options))
    assert list(sr.read_records(path, schema=Row)) == ROWS
    shard = path / "train" / "train-00002-of-00007.tfrecord"
    data = bytearray(shard.read_bytes())
    data[-9] ^= 1
    shard.write_bytes(data)
    with pytest.raises(sr.ShardReadError, match=r"00002-of-00007.*damaged"):
        list(sr.read_records(path))


def test_counts_of_many_dealt_shards_are_asserted(tmp_path):
    """A shard that ends too early is named, where many are read in turn as well."""
    path = tmp_path / "rows"
    sr.write(ROWS, path, shards=7)
    shard = path / "train" / "train-00002-of-00007.tfrecord"
    first = int.from_bytes(shard.read_bytes()[:8], "little") + 16
    shard.write_bytes(shard.read_bytes()[:first])
    with pytest.raises(sr.ShardReadError, match=r"00002-of-00007.*expected 15 records, got 1"):
        list(sr.read_records(path, check="none"))
