"""A script's new text, written so that whatever fails leaves the old text or the new one, whole."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from typing import TYPE_CHECKING

from seqrecorder.files import faults_around, sync_directory, sync_file, write_file

if TYPE_CHECKING:
    from pathlib import Path


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
        OSError: it could not be written, and is as it was.
    """
    path = path.resolve()
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        write_file(new, data)
        shutil.copymode(path, new)
        sync_file(new)
        if path.read_bytes() != old:
            raise ChangedError(f"{path} was changed while it was migrated")
        with faults_around("rename", path):
            new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    sync_directory(path.parent)
