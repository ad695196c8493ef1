"""Where the parts of a dataset wait until they are committed: a directory beside the destination.

Of `corpus` it is `corpus.parts`. Each attempt at a part has a directory of its own in it, which appears complete, so
that any number of processes write there without knowing of each other; nothing is ever at the destination.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seqrecorder.errors import DatasetNotFoundError
from seqrecorder.storage.fault_points import faults_around
from seqrecorder.storage.files import replace_file, sync_directory, writing
from seqrecorder.storage.locks import exclusive
from seqrecorder.storage.names import MANIFEST
from seqrecorder.storage.paths import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG = logging.getLogger("seqrecorder")
_RECORD = "committed"
_REMOVED = ".removed-"


@attrs.frozen(slots=False)
class PartsDirectory:
    """The parts of one dataset.

    >>> PartsDirectory.of("/data/corpus").path.as_posix()
    '/data/corpus.parts'

    Attributes:
        destination: the directory of the dataset that shall be, absolute, symbolic links resolved.
    """

    destination: Path

    @classmethod
    def of(cls, destination: str | os.PathLike[str]) -> PartsDirectory:
        """Return that of a destination as it was given."""
        return cls(Path(os.path.realpath(local_path(destination))))

    @property
    def path(self) -> Path:
        """The directory, which need not be there."""
        return self.destination.with_name(f"{self.destination.name}.parts")

    def new_attempt(self, part: int | str) -> Path:
        """Return a path for another attempt at a part, that nobody else has."""
        name = f"{part:05d}" if isinstance(part, int) else part
        return self.path / f"{name}-{secrets.token_hex(8)}"

    @functools.cached_property
    def attempts(self) -> list[tuple[Path, int]]:
        """The attempts that are complete, and when each was: nanoseconds of its file system's clock.

        They are listed once, so that one that is completed later is neither committed nor removed.
        """
        return [(path, (path / MANIFEST).stat().st_mtime_ns) for path in _complete(self.path)]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commits out.

        Raises:
            DatasetNotFoundError: there is no such directory.
        """
        with exclusive(self.path):
            yield

    def note(self, identity: str) -> None:
        """Remember what is about to be published, and of which attempts, durably.

        Raises:
            ShardWriteError: it cannot be written.
        """
        text = "\n".join([identity, *(path.name for path, _ in self.attempts)])
        replace_file(self.path / _RECORD, text.encode())

    def noted(self) -> str | None:
        """Return what `note` was given last, if anything."""
        return next(iter(_recorded(self.path)), None)

    def remove(self) -> None:
        """Remove the attempts that were noted, and all that were killed or are still going on: these get an error.

        Raises:
            ShardWriteError: the directory cannot be moved out of the way.
        """
        away = self.path.with_name(f".{self.path.name}{_REMOVED}{secrets.token_hex(8)}")
        with writing("remove", self.path), faults_around("rename", self.path):
            self.path.rename(away)
        sync_directory(away.parent)
        self._empty(away)

    def finish_removal(self) -> bool:
        """Remove what a process that was killed in `remove` has left; return whether there was something."""
        prefix = re.escape(f".{self.path.name}{_REMOVED}")
        pattern = re.compile(prefix + "[0-9a-f]{16}")
        try:
            with os.scandir(self.path.parent) as entries:
                left = [Path(entry.path) for entry in entries if pattern.fullmatch(entry.name)]
        except FileNotFoundError as error:
            raise DatasetNotFoundError(f"there is no directory {self.path.parent}", path=self.path.parent) from error
        for path in left:
            self._empty(path)
        return bool(left)

    def _empty(self, away: Path) -> None:
        """Remove a directory that was moved out of the way; attempts that were completed since the note go back."""
        _, *noted = _recorded(away) or [""]
        # Without a note, another process is removing it, and has moved back what there was.
        waiting = [path for path in _complete(away) if noted and path.name not in noted]
        for path in waiting:
            with writing("move back", path), contextlib.suppress(FileNotFoundError), faults_around("rename", path):
                self.path.mkdir(exist_ok=True)
                path.rename(self.path / path.name)
        if waiting:
            sync_directory(self.path)
            sync_directory(self.path.parent)
            _LOG.warning(
                "%s was committed while %s was completed, which waits in %s: commit again, with append=True, or remove "
                "it",
                self.destination,
                ", ".join(path.name for path in waiting),
                self.path,
            )
        with faults_around("remove", away):
            shutil.rmtree(away, ignore_errors=True)


def _complete(parts: Path) -> list[Path]:
    return [path.parent for path in sorted(parts.glob(f"*/{MANIFEST}")) if not path.parent.name.startswith(".")]


def _recorded(parts: Path) -> list[str]:
    try:
        return (parts / _RECORD).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
