# ruff: noqa: PT017 - what is left after the error is the point of most tests here

import errno
import os
import types
from pathlib import Path

import pytest
from faults import FailAt, names, record_calls

from seqrecorder.errors import ShardWriteError
from seqrecorder.storage import files
from seqrecorder.storage.files import on_fault_point, replace_file, write_file


def test_write_file(tmp_path):
    """A file is written, and a failure at any of its operations is an error that names file and bytes."""
    path = tmp_path / "a[1]*?.json"
    write_file(path, b"data")
    assert path.read_bytes() == b"data"
    for number in range(1, 7):
        with (
            on_fault_point(FailAt(number, OSError(errno.ENOSPC, "No space left on device"))),
            pytest.raises(ShardWriteError, match=r"4 bytes.*a\[1\].*free some space") as caught,
        ):
            write_file(path, b"data")
        assert caught.value.errno == errno.ENOSPC


def test_replace_file(tmp_path):
    """The new bytes are synced before they take the name, and the directory after it."""
    path = tmp_path / "a[1]*?.json"
    replace_file(path, b"old")
    calls = record_calls(lambda: replace_file(path, b"new"))
    assert path.read_bytes() == b"new"
    assert [name for name, _ in calls if name.startswith("after")] == [
        "after_open",
        "after_write",
        "after_flush",
        "after_fsync",
        "after_rename",
        "after_fsync",
    ]
    assert names(tmp_path) == [path.name]


def test_replace_file_failures(tmp_path):
    """A failure at any operation before the rename keeps the old bytes, and no temporary file stays."""
    for number in range(1, 100):
        path = tmp_path / "manifest.json"
        path.write_bytes(b"old")
        hook = FailAt(number, OSError(errno.EDQUOT, "Disk quota exceeded"))
        try:
            with on_fault_point(hook):
                replace_file(path, b"new")
        except ShardWriteError as error:
            assert error.errno == errno.EDQUOT
            assert str(tmp_path) in str(error)
            assert path.read_bytes() == (b"old" if number <= 9 else b"new")
        assert names(tmp_path) == ["manifest.json"]
        if hook.seen < number:
            break
    assert number == 13


@pytest.mark.parametrize("full", [False, True])
def test_what_is_synced_reaches_the_system(tmp_path, monkeypatch, full):
    """Each file and directory is given to fsync, or to the call of macOS that also empties the disk's own cache."""
    synced = []

    def record(descriptor, *code):
        assert code == ((51,) if full else ())
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(files, "fcntl", types.SimpleNamespace(**{"F_FULLFSYNC": 51, "fcntl": record} if full else {}))
    monkeypatch.setattr(os, "fsync", record)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "shard").write_bytes(b"x")
    files.replace_file(tmp_path / "manifest.json", b"{}")
    manifest = (tmp_path / "manifest.json").stat().st_ino
    assert synced == [manifest, tmp_path.stat().st_ino]
    synced.clear()
    files.sync_tree(tmp_path)
    assert sorted(synced) == sorted(path.stat().st_ino for path in [tmp_path, *tmp_path.rglob("*")])


def test_sync_errors(tmp_path):
    """What is missing cannot be synced; a file system that cannot sync directories is put up with."""
    for sync in (files.sync_file, files.sync_directory):
        with pytest.raises(ShardWriteError, match="absent") as caught:
            sync(tmp_path / "absent")
        assert caught.value.errno == errno.ENOENT

    def fail(code):
        def hook(_name, _path):
            raise OSError(code, os.strerror(code))

        return on_fault_point(hook)

    with fail(errno.EINVAL):
        files.sync_directory(tmp_path)
    with fail(errno.EIO), pytest.raises(ShardWriteError):
        files.sync_directory(tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
def test_full_disk():
    """A real full disk is a ShardWriteError that says what to do."""
    with (
        pytest.raises(ShardWriteError, match=r"'/dev/full'.*No space.*free some space") as caught,
        files.writing("write shard", "/dev/full"),
        Path("/dev/full").open("wb", buffering=0) as file,
    ):
        file.write(b"x")
    assert caught.value.errno == errno.ENOSPC
