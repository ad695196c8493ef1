"""Reading the records of a shard block by block: all of them, and all damage found."""

import contextlib
import gzip
import struct
import tracemalloc

import numpy as np
import pytest
from tfrecord_files import written

import seqrecorder as sr
from seqrecorder.storage.crc32c import masked_crc32c
from seqrecorder.storage.shard_reader import ALONE, RecordReader

_GZIP_HEADER = 10
RECORDS = [bytes([n]) * size for n, size in enumerate([0, 1, 100, 5, 70_000, 3, 0, 4096, 12])]


def header_of(length):
    octets = np.frombuffer(struct.pack("<Q", length), np.uint8)
    return octets.tobytes() + struct.pack("<I", int(masked_crc32c(octets[None])[0]))


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("records", [RECORDS, RECORDS[:1], [], RECORDS * 5], ids=["all", "empty", "none", "many"])
def test_every_record_comes_in_order(tmp_path, compression, records):
    """Whatever the window and the block, records come in windows of that size."""
    path = written(tmp_path / "shard", records, compression)
    for window in (1, 7, 1000):
        for block in (1, ALONE, 1 << 20):
            parts = list(RecordReader(path, compression, window, block))
            assert [record for part in parts for record in part] == records
            assert {len(part) for part in parts[:-1]} <= {window}


def test_streams_that_follow_each_other_are_one(tmp_path):
    """A GZIP file may hold several streams."""
    plain = written(tmp_path / "plain", RECORDS).read_bytes()
    path = tmp_path / "shard"
    path.write_bytes(gzip.compress(plain[:100]) + gzip.compress(plain[100:]))
    assert [record for part in RecordReader(path, "GZIP", 4, 64) for record in part] == RECORDS


@pytest.mark.parametrize(("compression", "block"), [(None, 64), (None, ALONE), ("GZIP", 64)])
def test_no_wrong_record_comes_from_a_damaged_shard(tmp_path, compression, block):
    """Whichever byte is changed, and wherever the file is cut inside a frame, what comes before is right."""
    records = RECORDS[:4]
    path = written(tmp_path / "shard", records, compression)
    whole = path.read_bytes()
    ends = {0, *np.cumsum([len(record) + 16 for record in records]).tolist()}
    changes = [whole[:n] + bytes([whole[n] ^ 0x41]) + whole[n + 1 :] for n in range(len(whole))]
    cuts = [whole[:n] for n in range(len(whole)) if compression or n not in ends]
    for data in [*changes, *cuts]:
        path.write_bytes(data)
        seen = []
        # Of a GZIP header there are bytes that say nothing.
        says_nothing = compression is not None and data in changes[:_GZIP_HEADER]
        with contextlib.suppress(sr.ShardReadError) if says_nothing else pytest.raises(sr.ShardReadError):
            for part in RecordReader(path, compression, 1, block):
                seen += part
        assert seen == records[: len(seen)]


@pytest.mark.parametrize(("compression", "block"), [(None, 64), (None, ALONE), ("GZIP", 64)])
def test_forged_lengths_take_no_memory(tmp_path, compression, block):
    """A length with a valid CRC, however large, is an error that takes no memory."""
    path = tmp_path / "shard"
    for bits in (20, 35, 40, 62, 63):
        data = header_of(1 << bits) + bytes(1000)
        path.write_bytes(gzip.compress(data) if compression else data)
        tracemalloc.start()
        with pytest.raises(sr.ShardReadError, match="damaged after 0"):
            list(RecordReader(path, compression, 1, block))
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
        tracemalloc.stop()


def test_a_bomb_stops(tmp_path):
    """A GZIP stream that unpacks to very much more than it holds is an error."""
    path = tmp_path / "shard"
    path.write_bytes(gzip.compress(header_of(1 << 30) + bytes(1 << 26)))
    with pytest.raises(sr.ShardReadError, match="damaged after 0"):
        list(RecordReader(path, "GZIP", 1, 64))
