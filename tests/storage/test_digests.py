"""Checksums of whole files, of many, and of files that grow."""

import errno
import hashlib
import os

import pytest

from seqrecorder.errors import ShardReadError, ShardWriteError
from seqrecorder.storage.files import FileDigest, sha256, sync_file
from seqrecorder.storage.processes_and_signals import in_threads


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


@pytest.mark.parametrize("step", [1, 1000, 3 << 20, 9 << 20])
def test_a_file_that_is_followed(tmp_path, step):
    """The checksum of a file that was followed while it was written is that of its bytes, however it grew."""
    data = bytes(range(256)) * (12 if step == 1 else 80_000)
    path = tmp_path / "x"
    digest = FileDigest(path)
    with path.open("wb", buffering=0 if step > 1 else 1000) as file:
        for start in range(0, len(data), step):
            file.write(data[start : start + step])
            digest.follow(start + step)
    assert digest.finish() == hashlib.sha256(data).hexdigest()


def test_a_file_that_goes_while_it_is_followed(tmp_path):
    """An error of reading is met again, and raised, at the end; nobody reads after `wait`."""
    digest = FileDigest(tmp_path / "absent")
    digest.follow(1 << 30)
    digest.wait()
    with pytest.raises(ShardReadError, match="absent"):
        digest.finish()


def test_bytes_are_brought_to_the_disk_while_more_are_written(tmp_path, monkeypatch):
    """Of every so many bytes the file is synced once; of fewer never."""
    path, synced = tmp_path / "x", []
    path.write_bytes(bytes(100))
    monkeypatch.setattr(os, "fsync", synced.append)
    digest = FileDigest(path, step=10)
    for written in (9, 10, 19, 20, 50):
        digest.follow(written)
        digest.wait()
    assert len(synced) == 3


def test_a_failure_of_the_disk_is_told_though_the_system_does_not_tell_it_again(tmp_path, monkeypatch):
    """What the thread met is raised as soon as more is written, and at the end, though a sync succeeds then."""
    path = tmp_path / "x"
    path.write_bytes(bytes(100))
    real, left = os.fsync, [OSError(errno.EIO, "Input/output error")]

    def fsync(descriptor):
        if left:
            raise left.pop()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    digest = FileDigest(path, step=10)
    digest.follow(50)
    digest.wait()
    sync_file(path)
    with pytest.raises(ShardWriteError, match=r"cannot sync .*x': Input/output error") as caught:
        digest.follow(100)
    assert caught.value.errno == errno.EIO
    with pytest.raises(ShardWriteError, match="Input/output error"):
        digest.finish()
