"""Where the parts of a dataset wait until they are committed: a directory beside the destination.

Of `corpus` it is `corpus.parts`. Each attempt at a part has a directory of its own in it, which appears complete, so
that any number of processes write there without knowing of each other; nothing is ever at the destination.
"""

from __future__ import annotations

import contextlib
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

_RECORD = "committed"
_REMOVED = ".removed-"


@attrs.frozen
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

    def attempts(self) -> list[tuple[Path, int]]:
        """Return the attempts that are complete, and when each was: nanoseconds of its file system's clock."""
        found = sorted(self.path.glob(f"*/{MANIFEST}"))
        return [(path.parent, path.stat().st_mtime_ns) for path in found if not path.parent.name.startswith(".")]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commits out.

        Raises:
            DatasetNotFoundError: there is no such directory.
        """
        with exclusive(self.path):
            yield

    def note(self, identity: str) -> None:
        """Remember what is about to be published, durably.

        Raises:
            ShardWriteError: it cannot be written.
        """
        replace_file(self.path / _RECORD, identity.encode())

    def noted(self) -> str | None:
        """Return what `note` was given last, if anything."""
        try:
            return (self.path / _RECORD).read_text()
        except FileNotFoundError:
            return None

    def remove(self) -> None:
        """Remove everything, also what attempts have left that were killed or are still going on.

        Raises:
            ShardWriteError: the directory cannot be moved out of the way.
        """
        away = self.path.with_name(f".{self.path.name}{_REMOVED}{secrets.token_hex(8)}")
        with writing("remove", self.path), faults_around("rename", self.path):
            self.path.rename(away)
        sync_directory(away.parent)
        _remove_tree(away)

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
            _remove_tree(path)
        return bool(left)


def _remove_tree(path: Path) -> None:
    with faults_around("remove", path):
        shutil.rmtree(path, ignore_errors=True)
