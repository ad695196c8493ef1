"""Modes and owners of what is replaced are kept, on file systems and in directories of every kind."""

import contextlib
import errno
import fcntl
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from faults import FailAt, names
from written_records import Item, items

import seqrecorder as sr
from seqrecorder.storage.files import on_fault_point
from seqrecorder.storage.locks import Held, exclusive
from seqrecorder.writing import intake as encoder


def modes(directory):
    paths = [directory, *directory.rglob("*")]
    return {path.relative_to(directory).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in paths}


def write_all(place):
    """Write, append and overwrite, and yield after each what kind of write it was."""
    sr.write(items(4), place, assets={"v": "x"})
    yield "write"
    sr.write(items(4, 4), place, append=True, assets={"w": "x"})
    yield "append"
    sr.write(items(4, 8), place, overwrite=True, assets={"v": "x"})
    yield "overwrite"
    (place / "NOTES").write_text("x")
    sr.write(items(4, 12), place, overwrite=True, assets={"v": "x"})
    yield "overwrite in place"


def last_keys(place):
    return [record.key for record in sr.read_records(place)][-4:]


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o2775, 0o777])
def test_modes(tmp_path, mode):
    """The directory keeps its mode, and new files in it take after the manifest, whose mode stays too."""
    place = tmp_path / "d"
    place.mkdir()
    place.chmod(mode)
    for kind in write_all(place):
        found = modes(place)
        found.pop("NOTES", None)
        assert found.pop(".") == mode, kind
        if kind != "write":
            assert {value for name, value in found.items() if (place / name).is_file()} == {0o640}, kind
            assert found["train"] == 0o710, kind
        for path in place.rglob("*"):
            path.chmod(0o640 if path.is_file() else 0o710)


def test_what_is_written_is_as_private_as_what_it_replaces(tmp_path):
    """While a private dataset is overwritten, nobody else can look into what is being made."""
    place = tmp_path / "d"
    sr.write(items(1), place)
    place.chmod(0o700)
    with sr.Writer(place, Item, overwrite=True) as writer:
        writer.write(Item("a"))
        made = [path for path in tmp_path.iterdir() if path != place]
        assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o700]


def test_owners(tmp_path, monkeypatch):
    """New files get the owner of the old ones where that is permitted, and else go into the old directory."""
    asked, place, real = set(), tmp_path / "d", os.stat

    def somebody(path, **options):
        status = list(real(path, **options))
        if str(path).startswith(str(place)) and not options.get("follow_symlinks", True):
            status[4:6] = 12, 34
        return os.stat_result(status)

    def chown(path, uid, gid, *, follow_symlinks):
        asked.add((Path(path).name, uid, gid, follow_symlinks))
        if Path(path).name == "train":
            raise PermissionError(errno.EPERM, "Operation not permitted")

    sr.write(items(4), place)
    monkeypatch.setattr(os, "stat", somebody)
    monkeypatch.setattr(os, "chown", chown)
    inode = place.stat().st_ino
    sr.write(items(4), place, overwrite=True)
    assert {("manifest.json", 12, 34, False), ("train", 12, 34, False)} <= asked
    assert place.stat().st_ino == inode
    assert names(tmp_path) == ["d"]


# What other file systems do -----------------------------------------------------------------------------------------


def lower_layer(monkeypatch, place):
    """Let a directory be one of a lower layer of an overlay: it cannot be moved, or exchanged."""
    monkeypatch.setattr("seqrecorder.storage.publish.exchange_now", lambda _one, _other: errno.EXDEV)
    refuse(monkeypatch, place, errno.EXDEV)


def sticky(monkeypatch, place):
    """Let a directory be one of somebody else in a parent with the sticky bit."""
    monkeypatch.setattr("seqrecorder.storage.publish.exchange_now", lambda _one, _other: errno.EPERM)
    refuse(monkeypatch, place, errno.EACCES)


def mount_point(monkeypatch, place):
    """Let a directory be a mount point: it cannot be moved, nor can files from outside to its inside."""
    monkeypatch.setattr("seqrecorder.storage.publish.exchange_now", lambda _one, _other: errno.EBUSY)
    refuse(monkeypatch, place, errno.EBUSY)
    real = Path.rename

    def rename(self, target):
        if self.is_relative_to(place) != Path(target).is_relative_to(place):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return real(self, target)

    replace = os.replace

    def replace_inside(source, target, **options):
        assert options.get("src_dir_fd") or Path(source).is_relative_to(place)
        return replace(source, target, **options)

    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.setattr(os, "replace", replace_inside)


def closed_parent(monkeypatch, place):
    """Let the directory be ours, and its parent not."""
    lower_layer(monkeypatch, place)
    real = Path.mkdir

    def mkdir(self, *arguments, **options):
        if self.parent == place.parent:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)


def refuse(monkeypatch, place, number):
    real = Path.rename

    def rename(self, target):
        if place in (self, Path(target)):
            raise OSError(number, os.strerror(number))
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)


@pytest.mark.parametrize("kind", [lower_layer, sticky, mount_point, closed_parent])
def test_directories_that_cannot_be_replaced(tmp_path, monkeypatch, kind):
    """Into a directory that cannot be moved a dataset is written all the same, then appended to and overwritten."""
    place = tmp_path / "d"
    place.mkdir()
    inode = place.stat().st_ino
    kind(monkeypatch, place)
    for number, _ in enumerate(write_all(place)):
        assert last_keys(place) == [f"k{4 * number + i}" for i in range(4)]
        assert sr.verify(place).ok
        assert place.stat().st_ino == inode
        assert names(tmp_path) == ["d"]
        assert not list(place.glob(".*"))
    sr.salvage(place, tmp_path / "saved") if kind is not closed_parent else None


def test_failures_inside_an_empty_directory(tmp_path, monkeypatch):
    """A failure at any operation of a write into an empty mount point leaves it empty."""
    place = tmp_path / "d"
    place.mkdir()
    mount_point(monkeypatch, place)
    failures = 0
    for number in range(1, 1000):
        hook = FailAt(number, OSError(errno.ENOSPC, "No space left on device"))
        try:
            with on_fault_point(hook):
                sr.write(items(2), place, csv=True, assets={"v": "x"})
        except sr.DatasetError:
            failures += 1
            assert names(place) == []
        else:
            assert sr.verify(place).ok
        assert not list(place.glob(".*"))
        for path in place.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if hook.seen < number:
            break
    assert number > failures > 40


def test_names_that_differ_by_case(tmp_path, monkeypatch):
    """Where `Train` and `train` are one name, a split of the other spelling is refused, and nothing is lost."""
    place = tmp_path / "d"
    sr.write(items(4), place)
    (place / "NOTES").write_text("x")
    monkeypatch.setattr(Held, "finds", lambda self, name: name.casefold() in ("train", "notes"))
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(sr.DatasetExistsError, match="'train', which is the same name"):
        sr.write({"Train": items(4)}, place, overwrite=True)
    with pytest.raises(sr.OptionError, match="differ by more than case"):
        sr.write({"Train": items(4)}, place, append=True)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


# After publication --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"append": True}, {"overwrite": True}])
def test_unlocking_fails(tmp_path, monkeypatch, options):
    """A lock that cannot be given up makes no published dataset fail, and is not kept."""
    place, real = tmp_path / "d", fcntl.flock
    if options:
        sr.write(items(4), place)

    def flock(descriptor, operation):
        if operation == fcntl.LOCK_UN:
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    sr.write(items(4, 4), place, **options)
    assert last_keys(place) == ["k4", "k5", "k6", "k7"]
    with exclusive(place):  # else this would wait for ever
        pass
    sr.write(items(4, 8), place, append=True)


def test_closing_fails(tmp_path, monkeypatch, caplog):
    """What fails when a dataset is there already is logged, not raised: else somebody would write it twice."""
    monkeypatch.setattr(encoder.LifeCycle, "close", lambda self: 1 / 0)
    manifest = sr.write(items(4), tmp_path / "d")
    assert manifest.records == 4
    assert caplog.record_tuples == [
        (
            "seqrecorder",
            logging.WARNING,
            f"{tmp_path / 'd'} is written, but the cleanup after that failed: ZeroDivisionError('division by zero')",
        )
    ]


@pytest.mark.parametrize("in_place", [False, True])
def test_old_files_that_stay(tmp_path, monkeypatch, caplog, in_place):
    """Old files that cannot be removed are named, and stay where no later write takes them for its own."""
    place = tmp_path / "d"
    sr.write(items(4), place)
    (place / "NOTES").write_text("") if in_place else None
    monkeypatch.setattr(Held, "remove", lambda self, paths: sorted(paths))
    sr.write(items(4, 4), place, overwrite=True)
    monkeypatch.undo()
    assert last_keys(place) == ["k4", "k5", "k6", "k7"]
    (message,) = [record.getMessage() for record in caplog.records]
    if in_place:
        assert message.endswith("train/train-00000-of-00001.lengths, train/train-00000-of-00001.tfrecord")
    else:
        (kept,) = tmp_path.glob(".d.replaced-*")
        assert message.endswith(str(kept))
        sr.write(items(4, 8), place, overwrite=True)
        assert sorted(names(tmp_path)) == [kept.name, "d"]
        assert names(kept) == ["manifest.json", "train"]


@pytest.fixture
def ours():
    """Yield a directory of a user without privileges, who runs the test."""
    is_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o777)
        sr.write(items(4), path / "d")
        list(sr.read_records(path / "d"))  # imports what that user may not
        (path / "a.jsonl").write_text('{"key": "a"}\n')
        with contextlib.suppress(sr.SourceError):
            list(sr.from_jsonl(path / "a.jsonl", Item))
        for each in (path / "d", path / "a.jsonl", *(path / "d").rglob("*")):
            os.chown(each, *((65534, 65534) if is_root else (-1, -1)))
        if is_root:
            os.seteuid(65534)
        try:
            yield path
        finally:
            if is_root:
                os.seteuid(0)
            for each in (path / "closed", path / "a.jsonl", path / "d"):
                if each.exists():
                    each.chmod(0o700)


def test_a_read_only_dataset_is_not_appended_to(ours):
    """An append is an error, and leaves no file; readers and copies see what was there."""
    (ours / "d" / "train").chmod(0o555)
    (ours / "d").chmod(0o555)
    before = names(ours)
    with pytest.raises(sr.ShardWriteError, match="Permission denied"):
        sr.write(items(4, 4), ours / "d", append=True)
    assert names(ours) == before
    assert len(list(sr.read_records(ours / "d"))) == 4
    (ours / "d").chmod(0o755)
    (ours / "d" / "train").chmod(0o755)


def test_closed_directories_and_files(ours):
    """What may not be looked into is an error of ours for every writer and reader."""
    (ours / "closed").mkdir(mode=0)
    place = ours / "closed" / "d"
    tries = [
        lambda: sr.write(items(4), place),
        lambda: sr.write(items(4), place, overwrite=True),
        lambda: sr.write(items(4), place, append=True),
        lambda: sr.write(items(4), ours / "closed", overwrite=True),
        lambda: sr.write_part(items(4), place, 0),
        lambda: sr.commit(place),
        lambda: list(sr.read_records(place)),
    ]
    for action in tries:
        with pytest.raises(sr.DatasetError, match="Permission denied"):
            action()
    with pytest.raises(sr.ShardWriteError, match="too long"):
        sr.write(items(4), ours / ("x" * 300))
    (ours / "a.jsonl").chmod(0)
    with pytest.raises(sr.SourceError, match=r"a\.jsonl: cannot be read: .*Permission denied"):
        list(sr.from_jsonl(ours / "a.jsonl", Item))
