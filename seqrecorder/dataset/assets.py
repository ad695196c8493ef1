"""Files of the user's that are kept with a dataset: a vocabulary, names of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.dataset.manifest import AssetInfo
from seqrecorder.errors import DatasetNotFoundError
from seqrecorder.storage.digests import sha256
from seqrecorder.storage.files import write_file
from seqrecorder.storage.paths import local_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_assets(assets: Mapping[str, Any], staging: Path, generation: int) -> dict[str, AssetInfo]:
    """Write assets into a staging directory, and return what the manifest says of each.

    Args:
        assets: by name, text, bytes, or the path of a file.
        staging: where the dataset is made.
        generation: of the dataset that is appended to; 0 for a new one.

    Raises:
        DatasetNotFoundError: a file cannot be read.
    """
    infos = {}
    for name, content in assets.items():
        info = AssetInfo("", generation)
        path = staging / info.relative(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, _contents(name, content))
        infos[name] = attrs.evolve(info, sha256=sha256(path))
    return infos


def _contents(name: str, content: Any) -> bytes:
    if isinstance(content, (bytes, str)):
        return content.encode() if isinstance(content, str) else content
    try:
        return local_path(content).read_bytes()
    except OSError as error:
        raise DatasetNotFoundError(
            f"asset {name!r}: {content} cannot be read: {error.strerror}", path=content
        ) from error
