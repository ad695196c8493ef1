"""Copies on this disk of what is read from places: bounded, checked, and shared by all processes.

A dataset at a URL has a directory here, one for each text of its manifest, so that readers of one manifest never see
files of another. Files come when they are asked for, are checked, and get their names by a rename. What a process has
asked for stays until it ends, since tf.data opens files by name when it likes: each process has a list of it, which is
locked while it lives. Of the rest, what was used longest ago goes when there is no room.
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
    link_file,
    sha256,
    write_file,
    writing,
)
from seqrecorder.storage.locks import exclusive, lock, unlock
from seqrecorder.storage.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from seqrecorder.storage.places import Place


LIMIT = "SEQRECORDER_CACHE_BYTES"
"""The variable of the environment that says how large the cache may be."""

_EARLIER = 8  # manifests whose files are looked for; among thousands that take longer than fetching
_READERS, _LIST, _COUNTED = ".readers", "files", ".counted"
_MOST_BYTES = 100 << 30
_TRIES = 2


@attrs.frozen
class Wanted:
    """A file that is to be there.

    Attributes:
        name: relative to the dataset.
        sha256: of its contents, in hex.
        bytes: its size; 0 for small ones, of which it is not known.
    """

    name: str
    sha256: str
    bytes: int = 0


def cached(store: Place, manifest: bytes) -> Path:
    """Return the directory of a dataset in the cache, with its manifest and what was fetched of it before.

    Args:
        store: of the dataset.
        manifest: the text of its manifest.

    Raises:
        ShardWriteError: the cache cannot be written to.
    """
    digests = [hashlib.sha256(part).hexdigest()[:16] for part in (store.url.encode(), manifest)]
    label = re.sub("[^A-Za-z0-9_-]+", "-", store.url.rpartition("/")[2])[:60]
    path = cache_directory() / f"{label}-{digests[0]}" / digests[1]
    with writing("make a directory in the cache", path):
        try:
            os.utime(path / MANIFEST)  # so that it counts as used
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            new.mkdir()
            try:
                write_file(new / ORIGIN, store.url.encode())
                write_file(new / MANIFEST, manifest)
                with contextlib.suppress(OSError), faults_around("rename", path):
                    new.rename(path)  # or another process has made it
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return path


def fetch_cached(store: Place, directory: Path, files: Sequence[Wanted]) -> None:
    """Fetch files of a dataset into its directory in the cache, and keep them until this process ends.

    Args:
        store: of the dataset.
        directory: what `cached` gave.
        files: which.

    Raises:
        ShardReadError: one cannot be fetched, or is not what the manifest says.
        ShardWriteError: there is no room.
    """
    if not (directory / MANIFEST).exists():
        raise ShardReadError(f"{directory} is gone from the cache; read {store.url} again", path=directory)
    root = cache_directory()
    with exclusive(root):  # so that nobody who makes room sees only some of them
        reader = _Reader.of(root, os.getpid())
        reader.note(directory, files)
        missing = [file for file in files if not _is_touched(directory / file.name)]
    earlier = _latest(directory) if missing else []
    if earlier:
        in_threads(lambda file: _take_over(earlier, directory, file), missing)
        missing = [file for file in missing if not (directory / file.name).exists()]
    if missing:
        try:
            with exclusive(root):
                _reserve(root, store.url, sum(file.bytes for file in missing))
        except ShardWriteError:
            reader.forget(directory, missing)
            raise
        fetch(store, directory, missing)


def _is_touched(path: Path) -> bool:
    """Check whether a file is there, which counts as used now."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def _latest(directory: Path) -> list[Path]:
    """Return the directories of the manifests of a dataset that were used last, but for one, the latest first."""
    known = []
    for path in directory.parent.iterdir():
        with contextlib.suppress(OSError):
            if path != directory and not path.name.startswith("."):
                known.append(((path / MANIFEST).stat().st_mtime_ns, path))
    return [path for _, path in heapq.nlargest(_EARLIER, known)]


def _take_over(earlier: Sequence[Path], directory: Path, file: Wanted) -> None:
    """Link a file that came with an earlier manifest of the dataset, where it is the same."""
    for known in earlier:
        with contextlib.suppress(OSError):
            if sha256(known / file.name) == file.sha256:
                with _alone(directory / file.name):
                    link_file(known / file.name, directory / file.name)
                return


class _Reader:
    """The files that a process uses: a list in a directory of the cache, locked while the process lives."""

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
        self._lock = lock(directory, wait=False)  # lasts as long as the process
        self._append("")  # others read the list, also where nothing is noted

    @classmethod
    def of(cls, root: Path, process: int) -> _Reader:
        """Return that of this process, made anew where the cache was removed: a forked one has one of its own."""
        reader = cls._of_process(root, process)
        reader.begin_anew_if_gone()
        return reader

    @classmethod
    @functools.cache
    def _of_process(cls, root: Path, process: int) -> _Reader:
        del process
        return cls(root)

    def begin_anew_if_gone(self) -> None:
        """Make the list again where somebody has removed the cache."""
        if not self._list.exists():
            self._begin()

    def note(self, directory: Path, files: Sequence[Wanted]) -> None:
        """Keep files from being removed."""
        new = [file for file in files if directory / file.name not in self._noted]
        if new:
            self._noted.update(directory / file.name for file in new)
            self._append("".join(f"{file.bytes} {self._relative(directory, file)}\n" for file in new))

    def forget(self, directory: Path, files: Sequence[Wanted]) -> None:
        """Let files be removed."""
        self._noted.difference_update(directory / file.name for file in files)
        self._append("".join(f"- {self._relative(directory, file)}\n" for file in files))

    def _relative(self, directory: Path, file: Wanted) -> str:
        return f"{directory.relative_to(self._root).as_posix()}/{file.name}"

    def _append(self, text: str) -> None:
        with writing("write", self._list), self._list.open("a", encoding="utf-8") as file:
            file.write(text)

    @staticmethod
    def all(root: Path) -> dict[Path, int]:
        """Return the files that processes use, with their sizes, and drop the lists of those that have ended."""
        wanted: dict[Path, int] = {}
        for directory in (root / _READERS).iterdir():
            with contextlib.suppress(BlockingIOError):
                descriptor = lock(directory, wait=False)
                if descriptor is not None:
                    shutil.rmtree(directory, ignore_errors=True)
                    unlock(descriptor)
                    continue
            for line in (directory / _LIST).read_text(encoding="utf-8").splitlines():
                size, _, name = line.partition(" ")
                if size == "-":
                    wanted.pop(root / name, None)
                else:
                    wanted[root / name] = int(size)
        return wanted


def fetch(
    store: Place,
    directory: Path,
    files: Sequence[Wanted],
    *,
    done: Callable[[int], None] = lambda _: None,
) -> None:
    """Fetch the files that a directory lacks, several at a time.

    Args:
        store: where they are.
        directory: where they shall be.
        files: which.
        done: called with the size of each that is there.

    Raises:
        ShardReadError: one cannot be fetched, or is not what the manifest says.
        ShardWriteError: the disk is full, or failed.
    """

    def bring(file: Wanted) -> None:
        _fetch_one(store, directory / file.name, file)
        done(file.bytes)

    in_threads(bring, files)


def _fetch_one(store: Place, target: Path, file: Wanted) -> None:
    with writing("fetch into", target), _alone(target):
        if target.exists():
            return  # by another process, while we waited
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
                        f"{_TRIES} times; `seqrecorder verify {store.url}` lists all that is wrong",
                        path=store.at(file.name),
                    )
        finally:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Keep other processes, and threads, from fetching the same file meanwhile."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    path = target.with_name(f".{target.name}.lock")
    with path.open("wb") as file:
        with contextlib.suppress(OSError):  # of file systems without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # who waits for it finds the file itself, or fetches it, too


def _reserve(root: Path, url: str, needed: int) -> None:
    """Make room where it may be needed: what was counted before, and has come since, tells that without a look."""
    most, counted = _most_bytes(), root / _COUNTED
    try:
        total = int(counted.read_text()) + needed
    except (FileNotFoundError, ValueError):
        total = most + 1
    counted.write_text(str(total if total <= most else _make_room(root, url, most)))


def _make_room(root: Path, url: str, most: int) -> int:
    """Remove what was used longest ago and nobody reads; return how much there is, with all that readers wait for."""
    wanted, yesterday = _Reader.all(root), time.time() - 86400
    links, removable, total = Counter[int](), list[tuple[int, Path, os.stat_result]](), 0
    for directory in [path for path in root.glob("[!.]*/*") if path.is_dir()]:
        sizes = {path: path.stat() for path in directory.glob("*/**/*") if path.is_file()}
        total += sum(status.st_size for status in sizes.values() if not links[status.st_ino])
        links.update(status.st_ino for status in sizes.values())
        for path, status in sizes.items():
            # What begins with a point is on its way, or was when somebody was killed.
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
            f"{url}: what is read of it does not fit the cache {root}, which may hold {most:,} bytes; all that readers "
            f"have asked for takes {total:,}: raise {LIMIT}, read a share (`shard=`), or `seqrecorder pull` it",
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
