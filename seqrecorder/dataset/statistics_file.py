"""The statistics of a dataset's records, kept beside its manifest, so that nobody need read all records for them.

The file is hidden, and belongs to one manifest: beside any other it says nothing. Its bytes: `SRSTAT01`, the SHA-256 of
that manifest, the SHA-256 of what follows, and that, which `seqrecorder.analysis.stats` makes and reads.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from seqrecorder.errors import ManifestError
from seqrecorder.storage.locks import exclusive
from seqrecorder.storage.names import MANIFEST, STATISTICS

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"SRSTAT01"
_HEAD = len(_MAGIC) + 64


def read_statistics(directory: Path, text: bytes) -> bytes | None:
    """Return the statistics that are kept for a manifest; None where there are none for it.

    Args:
        directory: of the dataset.
        text: of its manifest.

    Raises:
        ManifestError: they are damaged.
    """
    try:
        data = (directory / STATISTICS).read_bytes()
    except OSError:
        return None
    owner = _MAGIC + hashlib.sha256(text).digest()
    if not data.startswith(owner):
        return None
    if hashlib.sha256(data[_HEAD:]).digest() != data[len(owner) : _HEAD]:
        raise ManifestError(f"{directory / STATISTICS} is damaged; remove it: statistics are made again when asked for")
    return data[_HEAD:]


def write_statistics(directory: Path, text: bytes, data: bytes) -> None:
    """Keep statistics for a manifest, unless the dataset has changed meanwhile.

    Raises:
        DatasetNotFoundError: the dataset is gone.
        ShardWriteError: the file could not be written.
    """
    head = _MAGIC + hashlib.sha256(text).digest() + hashlib.sha256(data).digest()
    with exclusive(directory) as held:
        if held.read(MANIFEST) == text:
            held.replace(STATISTICS, head + data, like=MANIFEST)
