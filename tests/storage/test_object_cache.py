import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import seqrecorder as sr
from seqrecorder.storage import cache as object_cache
from seqrecorder.storage import files as paths
from seqrecorder.storage.cache import Wanted, cached, fetch_cached
from seqrecorder.storage.files import on_fault_point, origin_of
from seqrecorder.storage.locks import unlock
from seqrecorder.storage.object_store import Place


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv(paths.DIRECTORY, str(tmp_path / "cache"))
    yield
    let_go()


@pytest.fixture
def place(request):
    return Place.of(f"memory://cache/{request.node.name}")


def put(place, name, data):
    place.files.pipe_file(f"{place.root}/{name}", data)
    return Wanted(name, hashlib.sha256(data).hexdigest(), len(data))


def let_go():
    """End the reading of this process, as its end would; return the directory with what it had asked for."""
    made = object_cache._reader_of(paths.cache_directory(), os.getpid())
    unlock(made._lock)
    object_cache._reader_of.cache_clear()
    return made._list.parent


def test_each_manifest_has_a_directory(tmp_path, place):
    """Equal texts share one, which holds the manifest and remembers the URL."""
    first, other = cached(place, b"{}"), cached(place, b"[]")
    assert first == cached(place, b"{}") != other
    assert ((first / "manifest.json").read_bytes(), origin_of(first)) == (b"{}", place.url)
    assert tmp_path / "cache" in first.parents


def test_origins_outside_of_the_cache_are_not_believed(tmp_path):
    """A directory that somebody made elsewhere makes nobody fetch from a URL, whatever lies in it."""
    (tmp_path / "x" / "y").mkdir(parents=True)
    (tmp_path / "x" / "y" / ".origin").write_text("memory://evil/x")
    assert origin_of(tmp_path / "x" / "y") is None


def test_files_are_fetched_once_and_checked(place):
    """A file comes when it is first asked for; later it is not asked for again."""
    file, gets = put(place, "train/a", b"abc"), []
    directory = cached(place, b"{}")
    with on_fault_point(lambda name, path: gets.append(path) if name == "before_get" else None):
        for _ in range(2):
            fetch_cached(place, directory, [file])
    assert gets == [f"{place.url}/train/a"]
    assert (directory / "train/a").read_bytes() == b"abc"


def test_a_truncated_body_is_fetched_again(place, monkeypatch):
    """One that does not have the digest of the manifest is asked for once more, and then is an error with both."""
    file, directory, whole = put(place, "train/a", b"abc"), cached(place, b"{}"), place.files.get_file
    bodies = iter([b"ab", b"abc"])
    monkeypatch.setattr(place.files, "get_file", lambda _, target: Path(target).write_bytes(next(bodies)))
    fetch_cached(place, directory, [file])
    assert (directory / "train/a").read_bytes() == b"abc"
    put(place, "train/b", b"abd")
    monkeypatch.setattr(place.files, "get_file", whole)
    with pytest.raises(
        sr.ShardReadError, match=rf"{place.url}/train/b: expected .* and 3 bytes, got .* 3 bytes, 2 times"
    ):
        fetch_cached(place, directory, [Wanted("train/b", file.sha256, 3)])
    assert not list((directory / "train").glob("*b*"))


def test_a_later_manifest_takes_over_the_files_of_an_earlier_one(place):
    """What was fetched before an append is not fetched again; a file of the same name and other contents is."""
    kept, changed = put(place, "train/a", b"abc"), put(place, "train/b", b"old")
    fetch_cached(place, cached(place, b"{}"), [kept, changed])
    changed, gets = put(place, "train/b", b"new"), []
    with on_fault_point(lambda name, path: gets.append(path) if name == "before_get" else None):
        fetch_cached(place, later := cached(place, b"[]"), [kept, changed])
    assert gets == [f"{place.url}/train/b"]
    assert [(later / file.name).read_bytes() for file in (kept, changed)] == [b"abc", b"new"]


def test_what_was_used_longest_ago_goes(place, monkeypatch):
    """The limit holds: files go one by one, those of the last use last, and none of what this process reads."""
    monkeypatch.setenv(object_cache.LIMIT, "30")
    files = [put(place, f"train/{i}", b"x" * 10) for i in range(4)]
    directory = cached(place, b"{}")
    fetch_cached(place, directory, files[:3])
    for age, file in enumerate(files[:3]):
        os.utime(directory / file.name, (0, [200, 100, 300][age]))
    with pytest.raises(sr.ShardWriteError, match=r"of at most 30 bytes, got 40 bytes .*raise .*shard="):
        fetch_cached(place, directory, files[3:])
    let_go()
    fetch_cached(
        other := Place.of(f"{place.url}/other"), there := cached(other, b"{}"), [put(other, "train/4", b"y" * 10)]
    )
    assert sorted(path.name for path in (directory / "train").iterdir()) == ["0", "2"]
    let_go()
    monkeypatch.setenv(object_cache.LIMIT, "10")
    fetch_cached(other, there, [put(other, "train/5", b"z" * 10)])  # another share of the same
    assert [path.name for path in (there / "train").iterdir()] == ["5"]
    assert list((directory / "train").iterdir()) == []


def test_files_of_other_processes_stay(place, monkeypatch):
    """What another process reads is not removed while it lives, and is when it was killed."""
    monkeypatch.setenv(object_cache.LIMIT, "15")
    directory = cached(place, b"{}")
    fetch_cached(place, directory, [put(place, "train/a", b"x" * 10)])
    code = "import fcntl, os, sys, time; fcntl.flock(os.open(sys.argv[1], 0), 2); print(flush=True); time.sleep(60)"
    other = Place.of(f"{place.url}/other")
    file = put(other, "train/b", b"y" * 10)
    with subprocess.Popen([sys.executable, "-c", code, let_go()], stdout=subprocess.PIPE) as reader:
        reader.stdout.readline()
        with pytest.raises(sr.ShardWriteError, match="got 20 bytes"):
            fetch_cached(other, cached(other, b"{}"), [file])
        assert (directory / "train" / "a").exists()
        reader.kill()
    fetch_cached(other, cached(other, b"{}"), [file])
    assert not (directory / "train" / "a").exists()


def test_a_file_that_two_want_is_fetched_once(place, monkeypatch):
    """Whoever comes second waits for the first."""
    file, directory, gets = put(place, "train/a", b"abc"), cached(place, b"{}"), []
    real = place.files.get_file

    def slow(source, target):
        gets.append(source)
        time.sleep(0.05)
        real(source, target)

    monkeypatch.setattr(place.files, "get_file", slow)
    threads = [threading.Thread(target=fetch_cached, args=(place, directory, [file])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(gets) == 1
    assert [path.name for path in (directory / "train").iterdir()] == ["a"]


@pytest.mark.parametrize("limit", ["1 GB", "-1", ""])
def test_limits_are_numbers(place, monkeypatch, limit):
    """The variable of the environment is a number of bytes."""
    monkeypatch.setenv(object_cache.LIMIT, limit)
    with pytest.raises(sr.OptionError, match="SEQRECORDER_CACHE_BYTES: expected a number of bytes"):
        fetch_cached(place, cached(place, b"{}"), [put(place, "a", b"x")])


def test_the_cache_may_be_removed(place, tmp_path):
    """Whoever cleans up may take the directory: it is made again, with the list of what this process reads."""
    file = put(place, "train/a", b"abc")
    for _ in range(3):
        directory = cached(place, b"{}")
        fetch_cached(place, directory, [file])
        assert (directory / "train/a").read_bytes() == b"abc"
        assert str(directory.name) in (object_cache._reader_of(tmp_path / "cache", os.getpid())._list).read_text()
        shutil.rmtree(tmp_path / "cache")
    with pytest.raises(sr.ShardReadError, match="gone from the cache; read"):
        fetch_cached(place, directory, [file])


def test_who_asks_for_no_file_keeps_nobody_out(place, tmp_path):
    """A process that reads an empty dataset has a list, too, which others read when they make room."""
    fetch_cached(place, cached(place, b"{}"), [])
    assert object_cache._Reader.all(tmp_path / "cache") == {}
