"""Locks on datasets, and file operations in a locked directory.

A lock is an flock on the directory itself, so it survives a rename. The system releases it when the process dies, so
it distinguishes a live writer from the remains of a killed one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from seqrecorder.errors import DatasetError, DatasetNotFoundError
from seqrecorder.storage.files import (
    REPLACING,
    UNSUPPORTED,
    error_at,
    faults_around,
    fcntl,
    replace_file,
    sync_directory,
    writing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Kind = Literal["directory", "file", "link", "other"]

_NO_LOCKS = frozenset([errno.ENOLCK, errno.EBADF, *UNSUPPORTED])
_LEFT_OF_REPLACING = re.compile(re.escape(REPLACING).join([r"\..+", "[0-9a-f]{16}"]))


@attrs.frozen
class Held:
    """Directory of a dataset, locked against other writers.

    Names are looked up in the locked directory, even if a different directory has taken its path. On Windows, they are
    looked up by path. Symbolic links are not followed.

    >>> with exclusive(".") as held:
    ...     held.read("no such file") is None
    True

    Attributes:
        path: path at the time of locking, for messages.
        descriptor: descriptor of the directory; None on Windows.
    """

    path: Path
    descriptor: int | None

    def entries(self, relative: str = "") -> dict[str, Kind]:
        """Map the name of each entry of a directory to its kind.

        The mapping is empty if there is no directory.
        """
        try:
            with self._opened(_components(relative)) as directory, os.scandir(directory) as entries:
                return {entry.name: _kind(entry) for entry in entries}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def finds(self, relative: str) -> bool:
        """Check whether a name exists, even if it is listed under another spelling (case, Unicode form)."""
        try:
            with self._named(relative) as (name, at):
                os.stat(name, dir_fd=at, follow_symlinks=False)
        except OSError:
            return False
        return True

    def read(self, relative: str, size: int = -1) -> bytes | None:
        """Read a file, up to `size` bytes; return None if it does not exist.

        Raises:
            DatasetError: the file exists, but cannot be read.
        """
        try:
            with self._named(relative) as (name, at), os.fdopen(os.open(name, _READING, dir_fd=at), "rb") as file:
                return file.read(size)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise error_at(DatasetError, "read", self.path / relative, error) from error

    def make(self, relative: str) -> None:
        """Make a directory.

        Raises:
            ShardWriteError: the directory cannot be created, or exists already.
        """
        path = self.path / relative
        with writing("add to dataset", path), self._named(relative) as (name, at), faults_around("mkdir", path):
            os.mkdir(name, dir_fd=at)

    def take(self, source: Path, relative: str) -> None:
        """Move a file into the directory, under a name that is not in use.

        Raises:
            ShardWriteError: the file cannot be moved.
        """
        path = self.path / relative
        with writing("add to dataset", path), self._named(relative) as (name, at), faults_around("rename", path):
            os.replace(source, name, dst_dir_fd=at)

    def replace(self, name: str, data: bytes, *, like: str | None = None) -> None:
        """Replace or create a file at the top level of the directory, as `replace_file` does.

        Raises:
            ShardWriteError: the file could not be written; the old file is kept.
        """
        replace_file(self.path / name, data, descriptor=self.descriptor, like=like)

    def remove(self, paths: Iterable[str], directories: Iterable[str] = ()) -> list[str]:
        """Remove files, and then empty directories.

        The directory of each file, its parent, and all of `directories` are removed if they are empty. The result lists
        the files that could not be removed.
        """
        waiting, left = deque(sorted(paths)), []
        parents = {path.rpartition("/")[0] for path in waiting}
        parents |= {path.rpartition("/")[0] for path in parents}.union(directories)
        try:
            while waiting:
                with contextlib.suppress(OSError), faults_around("remove", self.path / waiting[0]):
                    path = waiting.popleft()
                    left += [] if self._is_removed(path, os.unlink) else [path]
        finally:  # remove the rest even after a failure or an interrupt
            left += [path for path in waiting if not self._is_removed(path, os.unlink)]
            for parent in sorted(parents - {""}, reverse=True):
                self._is_removed(parent, os.rmdir)
        return left

    def _is_removed(self, relative: str, remove: Callable[..., None]) -> bool:
        try:
            with self._named(relative) as (name, at):
                remove(name, dir_fd=at)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:  # a directory that is not empty, or no permission
            return False
        return True

    def sync(self, relative: str = "") -> None:
        """Sync the entries of a directory, and wait until they are on the disk.

        Raises:
            ShardWriteError: the directory cannot be opened or synced.
        """
        path = self.path / relative
        with writing("sync directory", path), self._opened(_components(relative)) as directory:
            sync_directory(path, descriptor=directory if isinstance(directory, int) else None)

    @property
    def is_in_place(self) -> bool:
        """Check whether the directory is still at its path."""
        return self.descriptor is None or is_at(self.descriptor, self.path)

    @contextlib.contextmanager
    def _named(self, relative: str) -> Iterator[tuple[str, int | None]]:
        """Yield the last component of a path, and a descriptor of its directory.

        On Windows, these are the full path and None.
        """
        *parents, name = _components(relative)
        with self._opened(parents) as directory:
            if isinstance(directory, int):
                yield name, directory
            else:
                yield str(directory / name), None

    @contextlib.contextmanager
    def _opened(self, names: Sequence[str]) -> Iterator[int | Path]:
        """Yield a descriptor of a directory inside this one (on Windows, its path)."""
        if self.descriptor is None:
            directory = self.path.joinpath(*names)
            if names and directory.is_symlink():
                raise NotADirectoryError(errno.ENOTDIR, "a symbolic link", str(directory))
            yield directory
            return
        # Open it again, since a duplicated descriptor would share the position of a listing.
        opened = os.open(".", _DIRECTORY, dir_fd=self.descriptor)
        try:
            for part in names:
                inner = os.open(part, _DIRECTORY, dir_fd=opened)
                os.close(opened)
                opened = inner
            yield opened
        finally:
            os.close(opened)


_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # do not block on a pipe


def _components(relative: str) -> list[str]:
    return relative.split("/") if relative else []


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


@contextlib.contextmanager
def exclusive(directory: str | os.PathLike[str], outer: Held | None = None) -> Iterator[Held]:
    """Lock an existing dataset for an append or an overwrite in place, and wait until the lock is free.

    Do not call `Staging.publish` inside the block: to overwrite the dataset, it would wait for the same lock forever.
    If the operating system or the file system has no locks, there is no protection.

    >>> with exclusive(".") as held:
    ...     held.path
    PosixPath('.')

    Args:
        directory: directory of the dataset.
        outer: result of an outer block for the same dataset, which is reused; None if there is no outer block.

    Yields:
        The locked directory.

    Raises:
        DatasetNotFoundError: the directory does not exist.
    """
    if outer is not None:
        yield outer
        return
    directory = Path(directory)
    if directory.is_symlink():  # lock its target
        directory = Path(os.path.realpath(directory))
    process = os.getpid()
    descriptor, is_locked = _lock_published(directory)
    locked = Held(directory, descriptor)
    try:
        # No other process replaces files here now, so temporary files are the remains of a killed process.
        for name in locked.entries():
            if is_locked and _LEFT_OF_REPLACING.fullmatch(name):
                locked.remove([name])
        yield locked
    finally:
        if process == os.getpid():  # otherwise this is a forked child, whose parent still works
            unlock(descriptor)


def _lock_published(directory: Path) -> tuple[int | None, bool]:
    """Lock a published directory, and wait until the lock is free.

    The first result is a descriptor of the directory, or None on Windows. The second is True if the directory is
    locked, and False if the operating system or the file system has no locks.
    """
    while True:
        descriptor = None
        try:
            with faults_around("lock", directory):
                descriptor = lock(directory, wait=True)
        except BaseException as error:
            # Otherwise this process would keep the lock, and deadlock with itself the next time.
            unlock(descriptor)
            if isinstance(error, DatasetError) or not isinstance(error, OSError):
                raise
            kind = DatasetNotFoundError if error.errno in (errno.ENOENT, errno.ENOTDIR) else DatasetError
            raise error_at(kind, "lock dataset", directory, error) from error
        # During the wait, an overwrite may have put another directory in its place.
        if descriptor is not None and is_at(descriptor, directory):
            return descriptor, True
        unlock(descriptor)
        if descriptor is None:
            return (None if sys.platform == "win32" else os.open(directory, os.O_RDONLY | os.O_DIRECTORY)), False


def lock(directory: Path, *, wait: bool) -> int | None:
    """Lock a directory against other processes.

    Args:
        directory: path of the directory.
        wait: whether to wait until the lock is free.

    Returns:
        A descriptor that holds the lock, for `unlock`; None if the system has no locks.

    Raises:
        BlockingIOError: the lock is taken, and `wait` is False.
        OSError: the directory is missing, or is not a directory.
    """
    if fcntl is None:
        directory.stat()  # a missing directory is an error on every system
        return None
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, OSError) and error.errno in _NO_LOCKS:
            return None
        raise
    return descriptor


def unlock(descriptor: int | None) -> None:
    """Release a lock from `lock`, and close its descriptor.

    Errors are ignored: the directory may be published already, and an error would look like a failure to publish it.
    """
    if descriptor is None:
        return
    try:
        if fcntl is not None:
            # Closing alone would keep the lock in forked workers, which inherited the descriptor.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def locked_directory(new: Callable[[], Path]) -> tuple[Path, int | None]:
    """Create a directory and lock it, so that `remove_abandoned` leaves it alone.

    Args:
        new: function that creates a directory and returns its path.

    Returns:
        The directory, and the descriptor from `lock`.
    """
    while True:
        directory = new()
        try:
            with faults_around("lock", directory):
                descriptor = lock(directory, wait=False)
        except (FileNotFoundError, BlockingIOError):
            continue  # another process removed it as abandoned just before it was locked
        if descriptor is None or is_at(descriptor, directory):
            return directory, descriptor
        unlock(descriptor)


def remove_abandoned(directory: Path, remove: Callable[[Path], object]) -> None:
    """Remove a directory if its lock is free, which means that its owner was killed.

    If the system has no locks, nothing is removed.
    """
    try:
        descriptor = lock(directory, wait=False)
    except OSError:
        return  # its owner is alive, or has just renamed or removed it
    if descriptor is not None:
        try:
            if is_at(descriptor, directory):
                remove(directory)
        finally:
            unlock(descriptor)


def is_at(directory: int | os.stat_result, path: Path) -> bool:
    """Check whether a directory is still at a path.

    The directory is given by a descriptor or by its `os.stat` result. A symbolic link to it does not count.
    """
    try:
        status = os.fstat(directory) if isinstance(directory, int) else directory
        return os.path.samestat(status, path.lstat())
    except OSError:
        return False
