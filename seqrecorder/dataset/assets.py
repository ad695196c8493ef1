"""What users keep with the records of a dataset: files, such as a vocabulary, and metadata, of what JSON holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.dataset.manifest import DEEPEST, AssetInfo, is_too_deep
from seqrecorder.errors import DatasetNotFoundError, OptionError
from seqrecorder.storage.files import sha256, write_file
from seqrecorder.storage.names import local_path

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


def check_metadata(value: Any) -> None:
    """Raise `OptionError` for what would not come back from JSON as it is."""
    try:
        # Also text that UTF-8 cannot hold, and NaN, which is no JSON.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"metadata: expected what JSON holds, got {error}") from error
    if is_too_deep(value):
        raise OptionError(f"metadata: expected at most {DEEPEST} levels; write deeper ones as text, or as an asset")
    inner = [value]
    while inner:
        item = inner.pop()
        if isinstance(item, dict):
            strange = next((key for key in item if not isinstance(key, str)), None)
            if strange is not None:
                raise OptionError(f"metadata: JSON has text for keys, and would change {strange!r}; write it as text")
            inner += item.values()
        elif isinstance(item, (list, tuple)):
            inner += item
