"""Whether keys are unique over all parts of a dataset, which by themselves have each key once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.dataset.common_keys import SortedHashes, common_hashes
from seqrecorder.dataset.splits import key_hashes
from seqrecorder.errors import DuplicateKeyError, ShardReadError
from seqrecorder.storage.digests import in_threads, sha256
from seqrecorder.storage.files import write_file
from seqrecorder.storage.tfrecord.check import advice
from seqrecorder.writing.unique_keys import UniqueKeys
from seqrecorder.writing.write_part import IDENTITY, KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from seqrecorder.dataset.generations import Standing
    from seqrecorder.dataset.manifest import Manifest


def check_unique(parts: Mapping[str, Manifest], old: Standing, scratch: Path) -> None:
    """Raise `DuplicateKeyError` where a key is in two parts.

    Args:
        parts: what each wrote, by what messages call it.
        old: the dataset that they are added to, if any.
        scratch: a directory for a temporary file.

    Raises:
        ShardReadError: a file is damaged.
    """
    first = next(iter(parts.values()))
    keys = UniqueKeys(first.schema, "error", portable=True, needs=first.metadata[IDENTITY])
    if not keys.needs:
        return
    every, files = dict(parts), {name: part.assets[KEYS] for name, part in parts.items()}
    digests = in_threads(sha256, files.values())
    for (name, path), digest in zip(files.items(), digests, strict=True):
        if digest != parts[name].asset_infos[KEYS].sha256:
            raise ShardReadError(f"{path}: not what was written; {advice(parts[name].path)}", path=path)
    temporary = scratch / f".{KEYS}"
    if old.manifest is not None and old.text is not None:
        keys.register(old.manifest, old.text)
        name = old.manifest.where
        every[name], files[name] = old.manifest, temporary
        write_file(temporary, np.asarray(keys.hashes, "<u8").tobytes())
    try:
        readers = {name: SortedHashes(path) for name, path in files.items()}
        for found in common_hashes(list(readers.values())):
            for value in found.tolist():
                _check_hash(value, keys, {name: every[name] for name, file in readers.items() if file.finds(value)})
    finally:
        temporary.unlink(missing_ok=True)


def _check_hash(value: int, unique: UniqueKeys, holders: Mapping[str, Manifest]) -> None:
    """Raise `DuplicateKeyError` unless the keys that have one hash are several."""
    known: dict[Any, str] = {}
    for name, manifest in holders.items():
        keys = set[Any]()
        for identities in unique.stored(manifest, manifest.splits):
            keys.update(identities[at] for at in np.flatnonzero(key_hashes(identities) == np.uint64(value)).tolist())
        # Hooks may have left out, or changed, the record that the hash is of: one process refuses it as well.
        twice = next((key for key in keys if key in known), None)
        other = known[twice] if twice is not None else next(iter(holders))
        if twice is not None or (not keys and len(holders) > 1):
            names = [other, name] if other != name else list(holders)[:2]
            raise DuplicateKeyError(
                f"is in {names[0]} and in {names[1]}; make keys unique over all parts, and write these again",
                key=twice,
            )
        known.update(dict.fromkeys(keys, name))
