"""Local cache of datasets at URLs, which is limited in size, checked, and shared by all processes.

The cache has one directory per URL and manifest, so readers of one manifest never see files of another. Files are
fetched on demand, checked, and renamed into place.

A file stays until the last process that requested it ends, since tf.data may open it at any time. Each process keeps a
list of its files, which is locked while the process lives. If the cache is full, files that are on no list are removed,
the least recently used first.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import heapq
import operator
import os
import re
import secrets
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seqrecorder.errors import OptionError, ShardReadError, ShardWriteError
from seqrecorder.storage.files import (
    MANIFEST,
    ORIGIN,
    cache_directory,
    faults_around,
    fcntl,
    has_digest,
    link_file,
    sha256,
    write_file,
    writing,
)
from seqrecorder.storage.locks import exclusive, lock, remove_abandoned, unlock
from seqrecorder.storage.processes_and_signals import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from seqrecorder.storage.object_store import Place


LIMIT = "SEQRECORDER_CACHE_BYTES"
"""Environment variable with the maximum size of the cache in bytes."""

_EARLIER = 8  # earlier manifests to search for reusable files; searching thousands takes longer than fetching
_READERS, _LIST, _COUNTED = ".readers", "files", ".counted"
_MOST_BYTES = 100 << 30  # default size of the cache
_TRIES = 2  # attempts to download a file whose digest is wrong


@attrs.frozen
class Wanted:
    """File of a dataset, to be fetched into the cache.

    Attributes:
        name: path relative to the dataset.
        sha256: SHA-256 of the contents, in hexadecimal.
        bytes: size in bytes; 0 for small files of unknown size.
    """

    name: str
    sha256: str
    bytes: int = 0


def cached(store: Place, manifest: bytes) -> Path:
    """Return the directory of a dataset in the cache.

    If it is missing, it is created, and the manifest is written to it.

    Args:
        store: location of the dataset.
        manifest: contents of the manifest.

    Raises:
        ShardWriteError: the cache cannot be written to.
    """
    digests = [hashlib.sha256(part).hexdigest()[:16] for part in (store.url.encode(), manifest)]
    label = re.sub("[^A-Za-z0-9_-]+", "-", store.url.rpartition("/")[2])[:60]
    path = cache_directory() / f"{label}-{digests[0]}" / digests[1]
    with writing("make a directory in the cache", path):
        try:
            os.utime(path / MANIFEST)  # mark it as recently used
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            new.mkdir()
            try:
                write_file(new / ORIGIN, store.url.encode())
                write_file(new / MANIFEST, manifest)
                with contextlib.suppress(OSError), faults_around("rename", path):
                    new.rename(path)  # fails if another process was faster
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return path


def fetch_cached(store: Place, directory: Path, files: Sequence[Wanted], *, verify: bool = False) -> None:
    """Fetch files of a dataset into the cache, and keep them until this process ends.

    A file in the cache is fetched again if its size is wrong.

    Args:
        store: location of the dataset.
        directory: directory from `cached`.
        files: files to fetch.
        verify: whether to check the digests of files in the cache, too, and fetch damaged ones again.

    Raises:
        ShardReadError: a file cannot be fetched, or differs from the manifest.
        ShardWriteError: the cache is full.
    """
    if not (directory / MANIFEST).exists():
        raise ShardReadError(f"{directory} is gone from the cache; read {store.url} again", path=directory)
    root = cache_directory()
    with exclusive(root):  # so that a process that makes room sees all of these files or none
        reader = _reader_of(root, os.getpid())
        reader.note(directory, files)
        missing = [file for file in files if not _is_touched(directory / file.name, file.bytes)]
    earlier = _latest(directory) if missing else []
    if earlier:
        in_threads(lambda file: _take_over(earlier, directory, file), missing)
        missing = [file for file in missing if not _is_touched(directory / file.name, file.bytes)]
    if missing:
        try:
            with exclusive(root):
                _reserve(root, store.url, sum(file.bytes for file in missing))
        except ShardWriteError:
            reader.forget(directory, missing)
            raise
    fetch(store, directory, files if verify else missing)


def _is_touched(path: Path, size: int) -> bool:
    """Mark a file as recently used, and check that it exists and has this size.

    A size of 0 matches every file.
    """
    try:
        os.utime(path)
        return size in (0, path.stat().st_size)
    except OSError:
        return False


def _latest(directory: Path) -> list[Path]:
    """List the directories of other manifests of the same URL, most recently used first.

    The list has at most `_EARLIER` directories.
    """
    known = []
    for path in directory.parent.iterdir():
        with contextlib.suppress(OSError):
            if path != directory and not path.name.startswith("."):
                known.append(((path / MANIFEST).stat().st_mtime_ns, path))
    return [path for _, path in heapq.nlargest(_EARLIER, known)]


def _take_over(earlier: Sequence[Path], directory: Path, file: Wanted) -> None:
    """Link a file from the directory of an earlier manifest, so that it need not be fetched.

    If none of the directories has a file with the same contents, nothing happens.
    """
    for known in earlier:
        with contextlib.suppress(OSError):
            if has_digest(known / file.name, file.sha256):
                with _alone(directory / file.name):
                    link_file(known / file.name, directory / file.name)
                return


class _Reader:
    """List of the files in the cache that this process uses.

    The list is a file in a directory of its own, in the cache. The process locks this directory as long as it lives, so
    that other processes know that the list is in use.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock: int | None = None
        self._begin()

    def _begin(self) -> None:
        unlock(self._lock)
        self._noted = set[Path]()
        directory = self._root / _READERS / secrets.token_hex(8)
        directory.mkdir(parents=True)
        self._list = directory / _LIST
        self._lock = lock(directory, wait=False)  # held until the process ends
        self._append("")  # create the list, which other processes read

    def note(self, directory: Path, files: Sequence[Wanted]) -> None:
        """Protect files from removal."""
        if not self._list.exists():  # the cache was removed
            self._begin()
        new = [file for file in files if directory / file.name not in self._noted]
        if new:
            self._noted.update(directory / file.name for file in new)
            self._append("".join(f"{file.bytes} {self._relative(directory, file)}\n" for file in new))

    def forget(self, directory: Path, files: Sequence[Wanted]) -> None:
        """Allow the removal of files again."""
        self._noted.difference_update(directory / file.name for file in files)
        self._append("".join(f"- {self._relative(directory, file)}\n" for file in files))

    def _relative(self, directory: Path, file: Wanted) -> str:
        return f"{directory.relative_to(self._root).as_posix()}/{file.name}"

    def _append(self, text: str) -> None:
        with writing("write", self._list), self._list.open("a", encoding="utf-8") as file:
            file.write(text)

    @staticmethod
    def all(root: Path) -> dict[Path, int]:
        """Map the files in use by live processes to their sizes.

        The lists of dead processes are removed.
        """
        wanted: dict[Path, int] = {}
        for directory in (root / _READERS).iterdir():
            remove_abandoned(directory, functools.partial(shutil.rmtree, ignore_errors=True))
            listed = directory / _LIST
            for line in listed.read_text(encoding="utf-8").splitlines() if listed.exists() else ():
                size, _, name = line.partition(" ")
                if size == "-":
                    wanted.pop(root / name, None)
                else:
                    wanted[root / name] = int(size)
        return wanted


@functools.cache
def _reader_of(root: Path, process: int) -> _Reader:
    del process  # the process is part of the cache key, since a forked one has its own list
    return _Reader(root)


def fetch(
    store: Place, directory: Path, files: Sequence[Wanted], *, done: Callable[[int], None] = lambda _: None
) -> None:
    """Fetch the files that are missing from a directory or have a wrong digest, several at a time.

    Args:
        store: place to fetch from.
        directory: target directory.
        files: files to fetch.
        done: function called with the size of each file once it exists.

    Raises:
        ShardReadError: a file cannot be fetched, or differs from the manifest.
        ShardWriteError: the disk is full or has failed.
    """

    def bring(file: Wanted) -> None:
        _fetch_one(store, directory / file.name, file)
        done(file.bytes)

    in_threads(bring, files)


def _fetch_one(store: Place, target: Path, file: Wanted) -> None:
    with writing("fetch into", target), _alone(target):
        if has_digest(target, file.sha256):
            return  # it is intact, or another process has fetched it by now
        part = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        try:
            for attempt in range(_TRIES):
                store.download(file.name, part)
                size, digest = part.stat().st_size, sha256(part)
                if digest == file.sha256:
                    with faults_around("rename", target):
                        part.replace(target)
                    return
                if attempt + 1 == _TRIES:
                    raise ShardReadError(
                        f"{store.at(file.name)}: expected what the manifest says, with SHA-256 {file.sha256[:16]}..."
                        f"{f' and {file.bytes} bytes' if file.bytes else ''}, got {digest[:16]}... and {size} bytes, "
                        f"{_TRIES} times; `seqrecorder verify {store.url}` lists all that is wrong, and "
                        "on_corrupt='skip' reads what is left",
                        path=store.at(file.name),
                    )
        finally:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Lock out other processes and threads that fetch the same file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    path = target.with_name(f".{target.name}.lock")
    with path.open("wb") as file:
        with contextlib.suppress(OSError):  # the file system has no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # a waiting process finds the file, or fetches it, too


def _reserve(root: Path, url: str, needed: int) -> None:
    """Reserve bytes in the cache, and make room for them if needed.

    A file keeps a running total, so that the cache need not be listed for every reservation.
    """
    most, counted = _most_bytes(), root / _COUNTED
    try:
        total = int(counted.read_text()) + needed
    except (FileNotFoundError, ValueError):
        total = most + 1
    counted.write_text(str(total if total <= most else _make_room(root, url, most)))


def _make_room(root: Path, url: str, most: int) -> int:
    """Remove the least recently used files that no process reads, until the cache is within its limit.

    The result is a number of bytes: the size of the files that remain, plus the size of the files that processes have
    requested but not yet fetched.
    """
    wanted, yesterday = _Reader.all(root), time.time() - 86400
    links, removable, total = Counter[int](), list[tuple[int, Path, os.stat_result]](), 0
    for directory in [path for path in root.glob("[!.]*/*") if path.is_dir()]:
        sizes = {path: path.stat() for path in directory.glob("*/**/*") if path.is_file()}
        total += sum(status.st_size for status in sizes.values() if not links[status.st_ino])
        links.update(status.st_ino for status in sizes.values())
        for path, status in sizes.items():
            # A name that starts with a dot is a download in progress, or the remains of one.
            if path not in wanted and (not path.name.startswith(".") or status.st_mtime < yesterday):
                removable.append((status.st_mtime_ns, path, status))
        if not sizes and (directory / MANIFEST).stat().st_mtime < yesterday:
            shutil.rmtree(directory, ignore_errors=True)
    total += sum(size for path, size in wanted.items() if not path.exists())
    for _, path, status in sorted(removable, key=operator.itemgetter(0)):
        if total <= most:
            break
        path.unlink()
        links[status.st_ino] -= 1
        total -= 0 if links[status.st_ino] else status.st_size
    if total > most:
        raise ShardWriteError(
            f"{url}: expected files that fit the cache {root} of at most {most:,} bytes, got {total:,} bytes in use by "
            f"readers: raise {LIMIT}, read a share (`shard=`), or `seqrecorder pull` it",
            path=root,
        )
    return total


def _most_bytes() -> int:
    text = os.environ.get(LIMIT)
    if text is None:
        return _MOST_BYTES
    if not text.isdecimal():
        raise OptionError(f"{LIMIT}: expected a number of bytes, got {text!r}")
    return int(text)
