"""Bytes that a disk cannot give: errors say where they are, and all others are read around them."""

import errno

import numpy as np
import pytest
from faults import bad_bytes

import seqrecorder as sr
from seqrecorder.storage.bad_sectors import ReadAround, open_source, reason_at
from seqrecorder.storage.tfrecord.format import detect_compression, walk_frames

PAGE = 4096


@pytest.fixture
def file(tmp_path):
    (tmp_path / "file").write_bytes(np.random.default_rng(1).bytes(10 * PAGE + 100))
    return tmp_path / "file"


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ([], []),
        ([(5 * PAGE + 7, 5 * PAGE + 8)], [(5 * PAGE, 6 * PAGE)]),
        ([(0, 1), (3 * PAGE - 1, 3 * PAGE + 1)], [(0, PAGE), (2 * PAGE, 4 * PAGE)]),
        ([(10 * PAGE, 10 * PAGE + 1)], [(10 * PAGE, 10 * PAGE + 100)]),
        ([(0, 1 << 30)], [(0, 10 * PAGE + 100)]),
    ],
)
@pytest.mark.parametrize("piece", [1000, 7000, 1 << 20])
def test_only_bad_pages_are_missing(file, bad, expected, piece):
    """Zeros stand for the pages that cannot be read, whatever is asked for at a time, and they are tried once."""
    whole = bytearray(file.read_bytes())
    for start, stop in expected:
        whole[start:stop] = bytes(stop - start)
    with bad_bytes(file, *bad) as tried, ReadAround(file) as source:
        for _ in range(2):
            source.seek(0)
            assert b"".join(iter(lambda: source.read(piece), b"")) == whole
        assert source.unreadable == expected
        failed = [where for where in tried if any(where[0] < stop and where[1] > start for start, stop in bad)]
        assert len(failed) == len(set(failed))


def test_errors_name_the_byte(file):
    """An error of reading says at which byte the disk fails, and keeps the system's words."""
    with (
        bad_bytes(file, (7 * PAGE + 5, 7 * PAGE + 9)),
        open_source(file) as source,
        pytest.raises(OSError, match="output error") as error,
    ):
        source.read()
    assert error.value.errno == errno.EIO
    with bad_bytes(file, (7 * PAGE + 5, 7 * PAGE + 9)):
        assert reason_at(file, error.value) == f"Input/output error at byte {7 * PAGE}"
    with bad_bytes(file, (0, 1)):
        for look in (detect_compression, lambda path: walk_frames(path, None), lambda path: walk_frames(path, "GZIP")):
            with pytest.raises(sr.ShardReadError, match="file: cannot be read: Input/output error at byte 0"):
                look(file)
