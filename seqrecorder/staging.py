"""A dataset's directory is complete or absent: it is made beside its destination and takes its place at once.

Everything is written into a hidden staging directory, synced, and published by one rename that refuses to
replace, or by an exchange of directories where a dataset is overwritten.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import DatasetExistsError, OptionError
from seqrecorder.files import (
    UNSUPPORTED,
    exclusive,
    fault_point,
    faults_around,
    is_at,
    lock,
    sync_directory,
    sync_tree,
    unlock,
    writing,
)
from seqrecorder.naming import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType
    from typing import Literal

    from typing_extensions import Self

_INCOMPLETE = ".incomplete-"
# What rename(2) says on the systems we know when there is something at the destination already.
_EXISTS = frozenset([errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR])


class Staging:
    """A hidden directory beside the destination, which becomes the destination at once or never.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     with Staging(Path(parent, "corpus")) as staging:
    ...         _ = (staging.path / "manifest.json").write_text("{}")
    ...         staging.publish()
    ...     sorted(str(p.relative_to(parent)) for p in Path(parent).rglob("*"))
    True
    ['corpus', 'corpus/manifest.json']

    Leaving the block without `publish`, by an exception or not, removes the staging directory and nothing
    else. What a killed process left is removed by the next `Staging` of the same destination; where there are
    no locks, it cannot tell and leaves it.

    Args:
        destination: where the dataset shall be; an empty directory there is fine. A symbolic link to a
            directory stands for that directory.
        overwrite: whether a dataset there, a directory with a manifest, may be replaced.

    Attributes:
        destination: the absolute path, symbolic links resolved.
        path: the staging directory, once the block is entered.

    Raises:
        DatasetExistsError: on entering the block, when something is at the destination already.
        ShardWriteError: on entering the block, when the directory cannot be created.
    """

    def __init__(self, destination: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self._given = os.fspath(destination)
        if "\0" in self._given:
            raise OptionError(f"destination {self._given!r}: expected a path, got one with a NUL character")
        self._overwrite = overwrite
        self._descriptor: int | None = None
        self._process = os.getpid()
        # A link that dangles stays, to be refused; one to a directory is replaced there, not as a link.
        absolute = Path.cwd() / self._given
        dangles = absolute.is_symlink() and not os.path.exists(absolute)  # noqa: PTH110 - takes any OSError for no
        self.destination = absolute if dangles else Path(os.path.realpath(absolute))
        self.path = self.destination  # until the block is entered

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
        # A forked child that runs into the end of the block must not take its parent's work with it.
        if self._process == os.getpid():
            self._discard()
        return False

    def publish(self) -> bool:
        """Sync everything, and rename the staging directory to the destination.

        Returns:
            True: the dataset is at the destination, durably. False: there is a dataset at the destination to
            be overwritten, and the system cannot exchange directories; nothing has changed, and the files in
            `path` are synced, for the caller to move under new names.

        Raises:
            DatasetExistsError: something has come to the destination meanwhile.
            ShardWriteError: a sync or the rename failed; the destination is as it was.
            OptionError: the block is not entered.
        """
        if self.path == self.destination:
            raise OptionError(f"destination {self._given!r}: expected publish inside `with Staging(...)`")
        with writing("publish dataset", self.destination):
            sync_tree(self.path)
            published = self._publish_over() if self._overwrite and self._occupied() else self._publish_new()
        if published:
            self._release()
        return published

    def _publish_new(self) -> bool:
        ours = self.path.stat()
        try:
            with faults_around("rename", self.destination):
                if sys.platform == "win32" and self.destination.is_dir():
                    self.destination.rmdir()  # there, a rename replaces not even an empty directory
                self.path.rename(self.destination)
            sync_directory(self.destination.parent)
        except BaseException as failure:
            # A caller that gets an error must not find a dataset. No flag could tell whether there is one: an
            # interrupt may come between the rename and its setting.
            if is_at(ours, self.destination):
                with contextlib.suppress(OSError):
                    self.destination.rename(self.path)
            elif isinstance(failure, OSError) and failure.errno in _EXISTS:
                if not self._overwrite:
                    raise self._exists_error("has been filled meanwhile") from failure
                return self._publish_over()
            raise
        return True

    def _publish_over(self) -> bool:
        self._check_destination()
        ours = self.path.stat()
        # Against an append that is going on: it would continue in the new dataset.
        with exclusive(self.destination):
            try:
                if not exchange(self.path, self.destination):
                    return False
                sync_directory(self.destination.parent)
            except BaseException:
                if is_at(ours, self.destination):
                    _exchange_now(self.path, self.destination)
                raise
        # The new dataset is there whatever becomes of the old one; what is left, the next writer removes.
        with contextlib.suppress(OSError):
            _remove_tree(self.path)
        return True

    def _check_destination(self) -> None:
        place = self.destination
        if not os.path.lexists(place):
            return
        if not place.is_dir():
            what = "is a dangling symbolic link" if place.is_symlink() else "is not a directory"
            raise self._exists_error(what)
        if place.samefile(Path.cwd()):
            raise OptionError(
                f"destination {self._given!r}: expected a directory that can be replaced, got the working"
                " directory of this process; give one inside it"
            )
        if not self._occupied():
            return
        if not self._overwrite:
            raise self._exists_error("is not empty")
        if not (place / MANIFEST).is_file():
            raise self._exists_error(f"holds files but no {MANIFEST}, so it is no dataset to overwrite")

    def _occupied(self) -> bool:
        try:
            with os.scandir(self.destination) as entries:
                return next(entries, None) is not None
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _exists_error(self, what: str) -> DatasetExistsError:
        advice = "" if self._overwrite else ", or pass overwrite=True to replace a dataset"
        error = DatasetExistsError(
            f"destination {self._given!r}: expected nothing there or an empty directory, but it {what};"
            f" choose another{advice}",
            path=self._given,
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
        while True:
            self.path = self.destination.with_name(self._prefix() + secrets.token_hex(8))
            with faults_around("mkdir", self.path):
                self.path.mkdir()
            try:
                with faults_around("lock", self.path):
                    self._descriptor = lock(self.path, wait=False)
            except (FileNotFoundError, BlockingIOError):
                continue  # another writer took it for left over in the moment before it was locked
            if self._descriptor is None or is_at(self._descriptor, self.path):
                return
            self._release()

    def _remove_left_over(self) -> None:
        pattern = re.compile(re.escape(self._prefix()) + "[0-9a-f]{16}")
        with os.scandir(self.destination.parent) as entries:
            found = [Path(entry.path) for entry in entries if pattern.fullmatch(entry.name)]
        for path in found:
            try:
                descriptor = lock(path, wait=False)
            except OSError:
                continue  # its writer lives, or it has just been published or removed
            if descriptor is not None:
                try:
                    if is_at(descriptor, path):
                        _remove_tree(path)
                finally:
                    unlock(descriptor)

    def _discard(self) -> None:
        # After publishing there is nothing at that path, or a rest of what was overwritten.
        if self.path != self.destination:
            with contextlib.suppress(OSError):
                _remove_tree(self.path)
        self._release()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        unlock(descriptor)


@contextlib.contextmanager
def cleanup_when_terminated() -> Iterator[None]:
    """Turn SIGTERM, which would end the process on the spot, into a SystemExit that cleans up on its way.

    Only in the main thread, and only where the program has no handler of its own.

    >>> with cleanup_when_terminated():
    ...     pass

    Raises:
        SystemExit: SIGTERM came; the code is 128 and its number, as shells have it.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    process = os.getpid()

    def leave(number: int, frame: FrameType | None) -> None:
        del frame
        if process != os.getpid():  # a forked child has nothing to clean up
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _remove_tree(path: Path) -> None:
    if os.path.lexists(path):
        try:
            fault_point("before_remove", path)
        finally:  # a failure, or a second interrupt, is no reason to leave it
            shutil.rmtree(path, ignore_errors=True)
        fault_point("after_remove", path)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two directories in one step, so that no moment is without either.

    Args:
        one: a directory.
        other: another one on the same file system.

    Returns:
        Whether the system and the file system can do it (renameat2 of Linux, renamex_np of macOS).

    Raises:
        OSError: they can, but it failed.
    """
    with faults_around("exchange", other):
        code = _exchange_now(one, other)
        if code in UNSUPPORTED:
            return False
        if code:
            raise OSError(code, os.strerror(code), str(one), None, str(other))
    return True


def _exchange_now(one: Path, other: Path) -> int:
    """Exchange two paths and return an errno, 0 for success."""
    if sys.platform == "win32":
        return errno.ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    # In both calls, 2 is the flag to exchange: RENAME_SWAP, and RENAME_EXCHANGE relative to AT_FDCWD.
    name, here = ("renamex_np", ()) if sys.platform == "darwin" else ("renameat2", (ctypes.c_int(-100),))
    function: Any = getattr(library, name, None)
    if function is None:
        return errno.ENOSYS
    arguments = (*here, os.fsencode(one), *here, os.fsencode(other), ctypes.c_uint(2))
    return ctypes.get_errno() if function(*arguments) else 0
