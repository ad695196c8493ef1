"""Checksums of whole files, of many, and of files that grow."""

import errno
import hashlib

import pytest

from seqrecorder.errors import ShardReadError
from seqrecorder.storage.digests import FileDigest, in_threads, sha256


@pytest.mark.parametrize("size", [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20 + 7])
def test_sha256(tmp_path, size):
    """The checksum is that of all bytes, whatever the size of the pieces."""
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    (tmp_path / "x").write_bytes(data)
    assert sha256(tmp_path / "x") == hashlib.sha256(data).hexdigest()


def test_many(tmp_path):
    """Checksums come in the order of the files; a missing one is named."""
    paths = [tmp_path / str(i) for i in range(40)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes([i]) * i)
    assert in_threads(sha256, paths) == [hashlib.sha256(bytes([i]) * i).hexdigest() for i in range(40)]
    assert in_threads(sha256, []) == []
    with pytest.raises(ShardReadError, match="absent") as caught:
        in_threads(sha256, [*paths, tmp_path / "absent"])
    assert caught.value.errno == errno.ENOENT


def test_a_file_that_grows(tmp_path):
    """Read on or not, the checksum is that of all bytes that are there in the end."""
    digest = FileDigest(tmp_path / "x")
    with (tmp_path / "x").open("wb", buffering=0) as file:
        for part in (b"one", b"", b"two"):
            file.write(part)
            digest.read_on()
        file.write(b"three")
    assert digest.finish() == hashlib.sha256(b"onetwothree").hexdigest()
