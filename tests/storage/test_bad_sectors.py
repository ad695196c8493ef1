"""Bytes that a disk cannot give: errors say where they are, and all others are read around them."""

import errno
import io

import numpy as np
import pytest
from faults import bad_bytes

import seqrecorder as sr
from seqrecorder.storage.files import ReadAround, open_source, reason_at
from seqrecorder.storage.tfrecord import detect_compression, walk_frames

BLOCK = 1 << 16
SIZE = 10 * BLOCK + 100


@pytest.fixture
def file(tmp_path):
    (tmp_path / "file").write_bytes(np.random.default_rng(1).bytes(SIZE))
    return tmp_path / "file"


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ([], []),
        ([(5 * BLOCK + 7, 5 * BLOCK + 8)], [(5 * BLOCK, 6 * BLOCK)]),
        ([(0, 1), (3 * BLOCK - 1, 3 * BLOCK + 1)], [(0, BLOCK), (2 * BLOCK, 4 * BLOCK)]),
        ([(10 * BLOCK, 10 * BLOCK + 1)], [(10 * BLOCK, SIZE)]),
        ([(0, 1 << 30)], [(0, SIZE)]),
    ],
)
@pytest.mark.parametrize("piece", [1000, 1 << 20])
def test_only_bad_blocks_are_missing(file, bad, expected, piece):
    """Zeros stand for blocks of 64 KiB that cannot be read, whatever is asked for at a time; they are tried once."""
    whole = bytearray(file.read_bytes())
    for start, stop in expected:
        whole[start:stop] = bytes(stop - start)
    with bad_bytes(file, *bad) as tried, ReadAround(file) as raw:
        source = io.BufferedReader(raw, piece)
        for _ in range(2):
            source.seek(0)
            assert len(got := source.read()) == SIZE
            for start in {0, *(stop for _, stop in expected)}:
                stop = min([first for first, _ in expected if first >= start] or [SIZE])
                assert got[start:stop] == whole[start:stop]
        assert raw.unreadable == expected
        failed = [where for where in tried if any(where[0] < stop and where[1] > start for start, stop in bad)]
        assert len(failed) == len(set(failed)) <= sum(-(-(b - a) // BLOCK) for a, b in expected)


def test_errors_name_the_bytes(file):
    """An error of reading says in which bytes the disk fails, and keeps the system's words."""
    with (
        bad_bytes(file, (7 * BLOCK + 5, 7 * BLOCK + 9)),
        open_source(file) as source,
        pytest.raises(OSError, match="output error") as error,
    ):
        source.read()
    assert error.value.errno == errno.EIO
    with bad_bytes(file, (7 * BLOCK + 5, 7 * BLOCK + 9)):
        assert reason_at(file, error.value) == f"Input/output error in bytes {7 * BLOCK} to {8 * BLOCK}"
    with bad_bytes(file, (0, 1)):
        for look in (detect_compression, lambda path: walk_frames(path, None), lambda path: walk_frames(path, "GZIP")):
            with pytest.raises(sr.ShardReadError, match="file: cannot be read: Input/output error in bytes 0 to 65536"):
                look(file)
