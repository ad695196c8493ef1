"""What goes behind a file that is written: its digest is right, and no failure of the disk is lost."""

import errno
import hashlib
import os

import pytest

from seqrecorder.errors import ShardReadError, ShardWriteError
from seqrecorder.storage import background_sync
from seqrecorder.storage.background_sync import Follower
from seqrecorder.storage.files import sync_file


@pytest.mark.parametrize("step", [1, 1000, 3 << 20, 9 << 20])
def test_a_file_that_grows(tmp_path, step):
    """The checksum of a file that was followed while it was written is that of its bytes, however it grew."""
    data = bytes(range(256)) * (12 if step == 1 else 80_000)
    path = tmp_path / "x"
    follower = Follower(path)
    with path.open("wb", buffering=0 if step > 1 else 1000) as file:
        for start in range(0, len(data), step):
            file.write(data[start : start + step])
            follower.follow(start + step)
    assert follower.finish() == hashlib.sha256(data).hexdigest()


def test_a_file_that_goes_while_it_is_followed(tmp_path):
    """An error of reading is met again, and raised, at the end; nobody reads after `wait`."""
    follower = Follower(tmp_path / "absent")
    follower.follow(1 << 30)
    follower.wait()
    with pytest.raises(ShardReadError, match="absent"):
        follower.finish()


def test_bytes_are_brought_to_the_disk_while_more_are_written(tmp_path, monkeypatch):
    """Of every so many bytes the file is synced once; of fewer never."""
    path, synced = tmp_path / "x", []
    path.write_bytes(bytes(100))
    monkeypatch.setattr(background_sync, "_SYNC_STEP", 10)
    monkeypatch.setattr(background_sync, "start_sync", synced.append)
    follower = Follower(path)
    for written in (9, 10, 19, 20, 50):
        follower.follow(written)
        follower.wait()
    assert synced == [path] * 3


def test_a_failure_of_the_disk_is_told_though_the_system_does_not_tell_it_again(tmp_path, monkeypatch):
    """What the thread met is raised as soon as more is written, and at the end, though a sync succeeds then."""
    path = tmp_path / "x"
    path.write_bytes(bytes(100))
    monkeypatch.setattr(background_sync, "_SYNC_STEP", 10)
    real, left = os.fsync, [OSError(errno.EIO, "Input/output error")]

    def fsync(descriptor):
        if left:
            raise left.pop()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    follower = Follower(path)
    follower.follow(50)
    follower.wait()
    sync_file(path)
    with pytest.raises(ShardWriteError, match=r"cannot sync .*x': Input/output error") as caught:
        follower.follow(100)
    assert caught.value.errno == errno.EIO
    with pytest.raises(ShardWriteError, match="Input/output error"):
        follower.finish()
