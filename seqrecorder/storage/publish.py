"""Atomic publication: a dataset's directory is either complete or absent.

Everything is written to a hidden staging directory beside the destination, synced, and published by one rename that
never replaces anything; to overwrite a dataset, the old and the new directory are exchanged.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import hashlib
import logging
import os
import re
import secrets
import shutil
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import DatasetExistsError, OptionError
from seqrecorder.storage.files import (
    MANIFEST,
    REPLACING,
    UNSUPPORTED,
    fault_point,
    faults_around,
    local_path,
    replace_file,
    sync_directory,
    sync_tree,
    take_after,
    writing,
)
from seqrecorder.storage.locks import Held, exclusive, is_at, locked_directory, remove_abandoned, unlock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import TracebackType
    from typing import Literal

    from typing_extensions import Self


# Errors for a directory that cannot be moved or replaced, although its files can: a mount point, a directory in a lower
# layer of an overlay (as in every container image), or one in a parent directory of another user.
NOT_REPLACEABLE = frozenset([errno.EXDEV, errno.EBUSY, errno.EPERM, errno.EACCES, *UNSUPPORTED])


def exchange_now(one: Path, other: Path) -> int:
    """Exchange two directories atomically.

    The result is 0, or the errno of a failure. The exchange uses renameat2 on Linux and renamex_np on macOS. Both
    directories must be on one file system that supports it.
    """
    if sys.platform == "win32":
        return errno.ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    # The flag 2 means exchange in both calls: RENAME_SWAP on macOS, RENAME_EXCHANGE (with AT_FDCWD) on Linux.
    name, here = ("renamex_np", ()) if sys.platform == "darwin" else ("renameat2", (ctypes.c_int(-100),))
    function: Any = getattr(library, name, None)
    if function is None:
        return errno.ENOSYS
    arguments = (*here, os.fsencode(one), *here, os.fsencode(other), ctypes.c_uint(2))
    return ctypes.get_errno() if function(*arguments) else 0


_RECORD = "committed"


def _label(part: int | str) -> str:
    return f"{part:05d}-" if isinstance(part, int) else f"{part}-"


@attrs.frozen(slots=False)
class PartsDirectory:
    """Directory with the parts of one dataset.

    >>> PartsDirectory.of("/data/corpus").path.as_posix()
    '/data/corpus.parts'

    Attributes:
        destination: absolute path of the future dataset, with symbolic links resolved.
        only: name of the part whose attempts count, or common prefix of several parts; None for all.
    """

    destination: Path
    only: int | str | None = None

    @classmethod
    def of(cls, destination: str | os.PathLike[str], only: int | str | None = None) -> PartsDirectory:
        """Build a `PartsDirectory` from the destination of the dataset.

        The destination becomes an absolute path, with symbolic links resolved.
        """
        return cls(Path(os.path.realpath(local_path(destination))), only)

    @property
    def path(self) -> Path:
        """Path of the directory, which need not exist."""
        return self.destination.with_name(f"{self.destination.name}.parts")

    def new_attempt(self, part: int | str) -> Path:
        """Build a unique path for another attempt at a part."""
        return self.path / f"{_label(part)}{secrets.token_hex(8)}"

    @functools.cached_property
    def attempts(self) -> list[tuple[Path, int]]:
        """Attempts that are complete, each with the time at which it was completed.

        The time is in nanoseconds, by the clock of the file system. The attempts are listed only once. One that is
        completed afterwards is neither committed nor removed.
        """
        begin = "" if self.only is None else _label(self.only)
        complete = [path for path in _complete(self.path) if path.name.startswith(begin)]
        return [(path, (path / MANIFEST).stat().st_mtime_ns) for path in complete]

    def note(self, identity: str) -> None:
        """Write a durable note with the identity of the dataset to publish, and the names of its attempts.

        Raises:
            ShardWriteError: the note cannot be written.
        """
        text = "\n".join([identity, *(path.name for path, _ in self.attempts)])
        replace_file(self.path / _RECORD, text.encode())

    def noted(self) -> str | None:
        """Read the last identity that `note` wrote; return None if there is none."""
        return next(iter(_recorded(self.path)), None)

    def remove(self) -> None:
        """Remove the attempts in the note, and all unfinished attempts.

        An unfinished attempt that is still running then fails with an error. An attempt that was completed after the
        note was written is kept, and a warning names it.

        The note is removed last. If this process is killed before that, a later commit resumes.

        Raises:
            ShardWriteError: an attempt cannot be moved out of the way.
        """
        _, *noted = _recorded(self.path) or [""]
        for path in list(self.path.iterdir()):
            if path.name in noted or path.name.startswith("."):
                self._remove(path)
        sync_directory(self.path)
        waiting = ", ".join(path.name for path in _complete(self.path))
        if waiting:
            _LOG.warning(
                "%s was committed while %s was completed, which waits in %s: commit again, with append=True, or remove "
                "it",
                self.destination,
                waiting,
                self.path,
            )
        with writing("remove", self.path):
            (self.path / _RECORD).unlink(missing_ok=True)
            with contextlib.suppress(OSError), faults_around("remove", self.path):  # not empty
                self.path.rmdir()

    def _remove(self, path: Path) -> None:
        away = self.path / f".removed-{secrets.token_hex(8)}"  # atomic: the attempt cannot be completed in the meantime
        with writing("remove", path), contextlib.suppress(FileNotFoundError), faults_around("rename", path):
            path.rename(away)
        with faults_around("remove", away), contextlib.suppress(OSError):
            if away.is_dir():
                shutil.rmtree(away)
            else:
                away.unlink()


def _complete(directory: Path) -> list[Path]:
    return [path.parent for path in sorted(directory.glob(f"*/{MANIFEST}")) if not path.parent.name.startswith(".")]


def _recorded(directory: Path) -> list[str]:
    try:
        return (directory / _RECORD).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


_INCOMPLETE, _REPLACED = ".incomplete-", ".replaced-"
# Errors of rename(2) on various systems for a destination that exists already.
_EXISTS = frozenset([errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR])
_NOT_WRITABLE = frozenset([errno.EPERM, errno.EACCES, errno.EROFS])
_LOG = logging.getLogger("seqrecorder")


class Staging:
    """Hidden directory beside the destination, which takes its place in one atomic step.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     with Staging(Path(parent, "corpus")) as staging:
    ...         _ = (staging.path / "manifest.json").write_text("{}")
    ...         staging.publish()
    ...     sorted(str(p.relative_to(parent)) for p in Path(parent).rglob("*"))
    True
    ['corpus', 'corpus/manifest.json']

    Leaving the block without `publish`, with or without an exception, removes the staging directory and nothing else.
    The next `Staging` for the same destination removes what a killed process left behind, if the system has locks.

    Args:
        destination: path of the new dataset, which may be an empty directory. A symbolic link to a directory means that
            directory.
        overwrite: whether to replace a dataset (a directory with a manifest) at the destination; None if the caller
            has no such option.

    Attributes:
        destination: absolute path of the destination, with symbolic links resolved.
        path: path of the staging directory, once the block is entered.

    Raises:
        DatasetExistsError: the destination exists already; raised on entering the block.
        ShardWriteError: the staging directory cannot be created; raised on entering the block.
    """

    def __init__(self, destination: str | os.PathLike[str], *, overwrite: bool | None = False) -> None:
        self._spelling = os.fspath(destination)
        self._overwrite = overwrite
        self._descriptor: int | None = None
        self._process = os.getpid()
        self._is_published = self._is_inside = False
        # A dangling link is not resolved here, and is refused later. For a link to a directory, its target is replaced.
        absolute = local_path(destination)
        dangles = os.path.islink(absolute) and not os.path.exists(absolute)  # noqa: PTH110, PTH114 - no for any OSError
        self.destination = absolute if dangles else Path(os.path.realpath(absolute))
        self.path = self.destination  # set when the block is entered

    def __enter__(self) -> Self:
        self._process = os.getpid()
        with writing("create the directory of dataset", self.destination):
            self._check_destination()
            self._make_parents()
            self._remove_left_over()
            try:
                self._create()
            except BaseException:
                self._discard()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        # A forked child that reaches the end of the block must not remove the files of its parent.
        if self._process == os.getpid():
            self._discard()
        return False

    def publish(self, over: Callable[[Held], Collection[str] | None] = lambda _: None) -> bool:
        """Sync everything, and move the staging directory to the destination.

        Args:
            over: function called with the locked directory before a dataset is overwritten. It returns the names of the
                files that may be removed, or None if there are foreign files, which must stay. Its errors are raised.

        Returns:
            True if the dataset is durably at the destination. False if the directory there cannot be replaced: the
            system cannot exchange directories, some files must stay, the directory is a mount point, or its owner would
            change. Then the destination is unchanged, and the files in `path` are synced, ready for the caller to move.

        Raises:
            DatasetExistsError: the destination was filled in the meantime.
            ShardWriteError: a sync or the rename failed; the destination is unchanged.
            OptionError: the block was not entered.
        """
        if self.path == self.destination:
            raise OptionError(f"destination {self._spelling!r}: expected publish inside `with Staging(...)`")
        with writing("publish dataset", self.destination):
            # If an owner would change, a writable directory is filled instead of replaced, so that it keeps its owner.
            same = self.take_after() or not os.access(self.destination, os.W_OK | os.X_OK)
            sync_tree(self.path)
            if not same or self._is_inside:
                return False
            published = self._publish_over(over) if self._overwrite and self._occupied() else self._publish_new(over)
        if published:
            self._is_published = True
            self._release()
        return published

    def take_after(self) -> bool:
        """Copy modes and owners from the destination to the staging directory.

        The result is True if all owners are equal now, or if there is no directory at the destination.
        """
        return not self.destination.is_dir() or take_after(self.path, self.destination, MANIFEST)

    def _publish_new(self, over: Callable[[Held], Collection[str] | None]) -> bool:
        ours = self.path.stat()
        try:
            with faults_around("rename", self.destination):
                if sys.platform == "win32" and self.destination.is_dir():
                    self.destination.rmdir()  # on Windows, a rename does not replace even an empty directory
                self.path.rename(self.destination)
            sync_directory(self.destination.parent)
        except BaseException as failure:
            # After an error, no dataset may be left there. A flag would not suffice, since an interrupt may come
            # between the rename and the assignment.
            if is_at(ours, self.destination):
                with contextlib.suppress(OSError):
                    self.destination.rename(self.path)
            elif isinstance(failure, OSError) and failure.errno in _EXISTS:
                if not self._overwrite:
                    raise self._exists_error("has been filled meanwhile") from failure
                return self._publish_over(over)
            elif isinstance(failure, OSError) and failure.errno in NOT_REPLACEABLE and self.destination.is_dir():
                return False
            raise
        return True

    def _publish_over(self, over: Callable[[Held], Collection[str] | None]) -> bool:
        self._check_destination()
        ours = self.path.stat()
        # Wait for a running append, which would otherwise continue in the new dataset.
        with exclusive(self.destination) as locked:
            known = over(locked)
            if known is None:
                return False
            try:
                with faults_around("exchange", self.destination):
                    code = exchange_now(self.path, self.destination)
                    if code not in (0, *NOT_REPLACEABLE):
                        raise OSError(code, os.strerror(code), str(self.path), None, str(self.destination))
                if code:
                    return False
                old = Held(self.path, locked.descriptor)
                if over(old) is None:  # a foreign file has been added; raises if the directory was replaced
                    exchange_now(self.path, self.destination)
                    return False
                sync_directory(self.destination.parent)
            except BaseException:
                if is_at(ours, self.destination):
                    exchange_now(self.path, self.destination)
                raise
            # The new dataset is published, so failing to remove the old one is not an error.
            self._is_published = True
            self._remove_replaced(old, known)
        return True

    def _remove_replaced(self, old: Held, known: Collection[str]) -> None:
        """Remove the overwritten dataset; if that fails, log its path."""
        try:
            old.remove([*known, MANIFEST])
        finally:
            with contextlib.suppress(OSError):
                self.path.rmdir()
        if not os.path.lexists(self.path):
            return
        # Choose a name that the next writer does not mistake for the remains of a killed one.
        kept = self.path.with_name(self.path.name.replace(_INCOMPLETE, _REPLACED))
        with contextlib.suppress(OSError):
            self.path.rename(kept)
        _LOG.warning("%s was overwritten, but old files could not be removed, and are in %s", self.destination, kept)

    def _check_destination(self) -> None:
        path = self.destination
        if not os.path.lexists(path):
            return
        if not path.is_dir():
            raise self._exists_error("is a dangling symbolic link" if path.is_symlink() else "is not a directory")
        if is_at(Path().stat(), path):
            raise OptionError(
                f"destination {self._spelling!r}: expected a directory that can be replaced, got the working"
                " directory of this process; give one inside it"
            )
        if not self._occupied():
            return
        if not self._overwrite:
            raise self._exists_error("is not empty")
        if not (path / MANIFEST).is_file():
            raise self._exists_error(f"holds files but no {MANIFEST}, so it is no dataset to overwrite")

    def _occupied(self) -> bool:
        try:
            with os.scandir(self.destination) as entries:
                return not all(map(self._is_staging, entries))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _exists_error(self, what: str) -> DatasetExistsError:
        advice = ", or pass overwrite=True to replace a dataset, append=True to add to it"
        error = DatasetExistsError(
            f"destination {self._spelling!r}: expected nothing there or an empty directory, but it {what};"
            f" choose another{advice if self._overwrite is False else ''}",
            path=self._spelling,
        )
        error.errno = errno.EEXIST
        return error

    def _make_parents(self) -> None:
        missing = []
        parent = self.destination.parent
        while not parent.exists():
            missing.append(parent)
            parent = parent.parent
        for directory in reversed(missing):
            with faults_around("mkdir", directory):
                directory.mkdir(exist_ok=True)
            sync_directory(directory.parent)

    def _prefix(self) -> str:
        name = self.destination.name
        if len(os.fsencode(name)) > 200:  # noqa: PLR2004 - names end at 255 on most systems
            name = hashlib.blake2b(os.fsencode(name), digest_size=16).hexdigest()
        return f".{name}{_INCOMPLETE}"

    def _create(self) -> None:
        """Create the staging directory beside the destination.

        If the parent of the destination is read-only or on another disk, create it inside the destination.
        """
        homes = [self.destination.parent]
        if self.destination.is_dir():
            homes.append(self.destination)
        for home in homes:
            self._is_inside = home == self.destination
            try:
                self.path, self._descriptor = locked_directory(functools.partial(self._make_in, home))
            except OSError as error:
                if home == homes[-1] or error.errno not in _NOT_WRITABLE:
                    raise
                continue
            if self._is_inside or not self.destination.is_dir() or self._reaches():
                break
            self._discard()
        self.take_after()  # no more accessible than the dataset that it replaces
        self.path.chmod(stat.S_IMODE(self.path.stat().st_mode) | stat.S_IRWXU)

    def _make_in(self, home: Path) -> Path:
        self.path = home / (self._prefix() + secrets.token_hex(8))
        with faults_around("mkdir", self.path):
            self.path.mkdir()
        return self.path

    def _reaches(self) -> bool:
        """Check whether the staging directory and the destination are on the same file system.

        The check moves an empty file from one to the other.
        """
        probe, name = self.path / "probe", f".{MANIFEST}{REPLACING}{secrets.token_hex(8)}"
        try:
            probe.touch()
            probe.rename(self.destination / name)
            (self.destination / name).unlink()
        except OSError as error:
            with contextlib.suppress(OSError):
                probe.unlink()
            return error.errno != errno.EXDEV
        return True

    def _is_staging(self, entry: os.DirEntry[str]) -> bool:
        return re.fullmatch(re.escape(self._prefix()) + "[0-9a-f]{16}", entry.name) is not None

    def _remove_left_over(self) -> None:
        left_over: list[Path] = []
        for home in (self.destination.parent, self.destination):
            with contextlib.suppress(OSError), os.scandir(home) as entries:
                left_over += [Path(entry.path) for entry in entries if self._is_staging(entry)]
        for path in left_over:
            remove_abandoned(path, _remove_tree)

    def _discard(self) -> None:
        # After publishing, the path is free, or has the remains of the old dataset, which another user may own.
        if self.path != self.destination and not self._is_published:
            with contextlib.suppress(OSError):
                for directory, _, _ in os.walk(self.path):  # they may have the modes of a read-only dataset
                    os.chmod(directory, 0o700)  # noqa: PTH101 - it is text
                _remove_tree(self.path)
        self._release()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        unlock(descriptor)


def _remove_tree(path: Path) -> None:
    if os.path.lexists(path):
        try:
            fault_point("before_remove", path)
        finally:  # remove the directory even after a failure or a second interrupt
            shutil.rmtree(path, ignore_errors=True)
        fault_point("after_remove", path)
