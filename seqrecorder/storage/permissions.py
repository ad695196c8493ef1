"""Modes and owners: what takes the place of files and directories is as private, and as open, as they were."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def take_after(made: Path, old: Path, deputy: str) -> bool:
    """Give a new directory, and all that is in it, the modes and owners of an old one.

    What has no counterpart in the old directory takes after that directory itself, or after a file of it.

    >>> import tempfile
    >>> from pathlib import Path
    >>> parent = Path(tempfile.mkdtemp())
    >>> for name in ("old", "made"):
    ...     (parent / name).mkdir()
    >>> (parent / "old").chmod(0o700)
    >>> take_after(parent / "made", parent / "old", "manifest.json")
    True
    >>> oct((parent / "made").stat().st_mode)[-3:]
    '700'

    Args:
        made: the new directory, which is ours.
        old: the old one.
        deputy: name of a file in it, which stands for all that have no counterpart; where there is none, new files
            stay as they are.

    Returns:
        Whether the owners are the same now, which takes rights.
    """
    same = True
    # From within, since a directory that takes after a closed one may be closed to us.
    for directory, _, names in os.walk(made, topdown=False):
        inner = os.path.relpath(directory, made)
        for name in names:
            same &= _take(os.path.join(directory, name), [old / inner / name, old / deputy])  # noqa: PTH118 - of os.walk
        same &= _take(directory, [old / inner, old])
    return same


def _take(path: str, models: list[Path]) -> bool:
    wanted = next((status for model in models if (status := _status(model)) is not None), None)
    now = os.lstat(path)
    if wanted is None or stat.S_IFMT(wanted.st_mode) != stat.S_IFMT(now.st_mode):
        return True
    same = (wanted.st_uid, wanted.st_gid) == (now.st_uid, now.st_gid) or _chown(path, wanted)
    if stat.S_IMODE(wanted.st_mode) != stat.S_IMODE(now.st_mode):  # after the owner, whose change drops bits
        os.chmod(path, stat.S_IMODE(wanted.st_mode))  # noqa: PTH101 - as above
    return same


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _chown(path: str, wanted: os.stat_result) -> bool:
    try:
        os.chown(path, wanted.st_uid, wanted.st_gid, follow_symlinks=False)
    except (OSError, AttributeError):  # Windows has no owners of this kind
        return False
    return True
