"""A script's new text, written so that whatever fails leaves the old text or the new one, whole."""

from __future__ import annotations

import errno
import shutil
import stat
from typing import TYPE_CHECKING

from seqrecorder.storage.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class ChangedError(Exception):
    """A script is not what it was when it was read."""


def save(path: Path, data: bytes, old: bytes) -> None:
    """Replace a script, with the permissions that it had; where it is named by a link, what the link leads to.

    >>> import pathlib, tempfile
    >>> script = pathlib.Path(tempfile.mkdtemp(), "train.py")
    >>> _ = script.write_bytes(b"old")
    >>> save(script, b"new", b"old")
    >>> script.read_bytes()
    b'new'

    Args:
        path: of the script.
        data: its new bytes.
        old: the bytes that it has to have still.

    Raises:
        ChangedError: somebody else has changed it.
        OSError: it is read-only, or could not be written, and is as it was.
    """
    path = path.resolve()
    if not path.stat().st_mode & _WRITABLE:
        raise PermissionError(errno.EACCES, "is read-only", str(path))

    def ready(new: Path) -> None:
        shutil.copymode(path, new)
        if path.read_bytes() != old:
            raise ChangedError(f"{path} was changed while it was migrated")

    replace_file(path, data, ready=ready)
