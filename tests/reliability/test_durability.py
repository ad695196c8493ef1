"""What a power cut leaves: of everything that was not synced, nothing; and a dataset nevertheless."""

import os
import shutil
from pathlib import Path

import pytest

import seqrecorder as sr
from seqrecorder.storage.files import on_fault_point


@sr.record
class Word:
    ids: list = sr.feature_list("int64")


OLD, NEW = [Word([1]), Word([2, 3])], [Word([4]), Word([5, 6]), Word([])]
OPTIONS = {"csv": True, "assets": {"a": "x"}, "shards": 2}


class Disk:
    """A disk that keeps what was synced, by inode: the bytes of files and the names in directories."""

    def __init__(self, root):
        self.root, self.kept = root, {}
        for directory, names, files in os.walk(root, topdown=False):
            for name in files:
                self.keep(Path(directory, name))
            del names
            self.keep(Path(directory))

    def keep(self, path):
        if path.is_dir():
            names = {entry.name: entry.inode() for entry in os.scandir(path)}
            self.kept[path.stat().st_ino] = names
        else:
            self.kept[path.stat().st_ino] = path.read_bytes()

    def __call__(self, name, path):
        if name == "after_fsync":
            self.keep(Path(path))

    def restore(self, target, inode=None):
        """Make what is left after a power cut; what was never synced is an empty file."""
        kept = self.kept.get(self.root.stat().st_ino if inode is None else inode, b"")
        if isinstance(kept, bytes):
            target.write_bytes(kept)
            return
        target.mkdir()
        for name, one in kept.items():
            self.restore(target / name, one)


def write(destination):
    sr.write(NEW, destination, **OPTIONS)


def append(destination):
    sr.write(NEW, destination, append=True, **OPTIONS)


def overwrite(destination):
    sr.write(NEW, destination, overwrite=True, **OPTIONS)


def salvage(destination):
    return sr.salvage(destination, destination.with_name("salvaged"))


def salvage_file(destination):
    return sr.salvage(next(destination.rglob("*.tfrecord")), destination.with_name("salvaged.tfrecord"))


@pytest.mark.parametrize("action", [write, append, overwrite, salvage, salvage_file])
@pytest.mark.parametrize("exchange", [True, False])
def test_nothing_that_was_written_is_lost(tmp_path, monkeypatch, action, exchange, figure):
    """After `write` or `salvage` has returned, a power cut that drops all that was not synced loses nothing of it."""
    if not exchange:
        monkeypatch.setattr("seqrecorder.storage.publish.exchange_now", lambda *_: 22)
    root = tmp_path / "root"
    root.mkdir()
    destination = root / "c"
    if action is not write:
        sr.write(OLD, destination, **OPTIONS)
    disk = Disk(root)
    with on_fault_point(disk):
        done = action(destination)
    disk.restore(tmp_path / "left")
    made = {"salvage": "salvaged", "salvage_file": "salvaged.tfrecord"}.get(action.__name__, "c")
    # Of what was overwritten in place files may be left: nobody reads them, and the next overwrite removes them.
    report = sr.verify(tmp_path / "left" / made)
    problems = [str(problem) for problem in report.problems]
    assert [one for one in problems if exchange or not one.endswith("that the manifest does not know")] == []
    if done is not None:
        assert report.records == done.records > 0
    else:
        assert list(sr.read_records(tmp_path / "left" / "c", schema=Word))[-3:] == NEW
    figure(2, "writes on a disk that drops what was not synced", 1, "durable")


@pytest.mark.parametrize("action", [write, append, overwrite])
@pytest.mark.parametrize("exchange", [True, False])
def test_a_power_cut_at_any_moment(tmp_path, monkeypatch, action, exchange, figure):
    """A power cut at any fault point leaves the old dataset, the new one, or none, and what is there is whole."""
    if not exchange:
        monkeypatch.setattr("seqrecorder.storage.publish.exchange_now", lambda *_: 22)
    root = tmp_path / "root"
    root.mkdir()
    destination = root / "c"
    if action is not write:
        sr.write(OLD, destination, **OPTIONS)
    disk, moments = Disk(root), []

    def cut(name, path):
        disk(name, path)
        if not name.startswith("after_fsync") and not name.startswith("before"):
            return
        target = tmp_path / "left"
        disk.restore(target)
        if (target / "c").exists():
            moments.append(sr.info(target / "c").generation)
            for split, info in sr.info(target / "c").splits.items():
                for shard in info.shards:
                    assert sr.info(target / "c").shard_path(split, shard).stat().st_size == shard.bytes, (name, path)
        else:
            assert action is write, (name, path)
            moments.append(-1)
        shutil.rmtree(target)

    with on_fault_point(cut):
        action(destination)
    assert moments == sorted(moments)
    assert len(set(moments)) == 2 or action is write
    figure(2, "power cuts in the middle of a write", len(moments), "complete or absent")
