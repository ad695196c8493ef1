"""Whether keys are unique over all parts of a dataset, which by themselves have each key once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.dataset.keys import KeyIndexFile, SortedHashes, merged_hashes, open_key_index
from seqrecorder.dataset.splits import key_hashes
from seqrecorder.errors import DuplicateKeyError, ShardReadError
from seqrecorder.storage.files import sha256, write_file
from seqrecorder.storage.tfrecord import advice
from seqrecorder.storage.threads import in_threads
from seqrecorder.writing.unique_keys import UniqueKeys
from seqrecorder.writing.write_part import HOOKS, IDENTITY, KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from seqrecorder.dataset.generations import Standing
    from seqrecorder.dataset.manifest import Manifest


_RUN = 1 << 24  # hashes, which are sorted in memory


def check_unique(parts: Mapping[str, Manifest], old: Standing, scratch: Path) -> KeyIndexFile | None:
    """Raise `DuplicateKeyError` where a key is in two parts.

    Args:
        parts: what each wrote, by what messages call it.
        old: the dataset that they are added to, if any.
        scratch: a directory for temporary files, on the file system of the dataset; the caller removes them.

    Returns:
        The index of all keys; None where there are none, or hooks may have changed those that are stored.

    Raises:
        ShardReadError: a file is damaged.
        ShardWriteError: the disk is full, or failed.
    """
    first = next(iter(parts.values()))
    keys = UniqueKeys(first.schema, "error", needs=first.metadata[IDENTITY])
    if not keys.needs:
        return None
    owners, files = [*parts.items()], [part.assets[KEYS] for part in parts.values()]
    for (_, part), path, digest in zip(owners, files, in_threads(sha256, files), strict=True):
        if digest != part.asset_infos[KEYS].sha256:
            raise ShardReadError(f"{path}: not what was written; {advice(part.path)}", path=path)
    readers = [*map(SortedHashes, files)]
    if old.manifest is not None and old.text is not None:
        known = open_key_index(old.manifest.path, old.text, keys.needs)
        earlier = [known] if known is not None else list(_runs(keys.stored(old.manifest, old.manifest.splits), scratch))
        owners += [(old.manifest.where, old.manifest)] * len(earlier)
        readers += earlier
    index = KeyIndexFile(scratch / f".{KEYS}")
    for hashes in merged_hashes(readers):
        is_new = np.ones(hashes.size, np.bool_)
        np.not_equal(hashes[1:], hashes[:-1], out=is_new[1:])
        for value in np.unique(hashes[~is_new]).tolist():
            holders = dict(owner for owner, file in zip(owners, readers, strict=True) if file.finds(value))
            if len(holders) > 1:
                _check_hash(value, keys, holders)
        index.add(hashes if is_new.all() else hashes[is_new])
    has_hooks = any(part.metadata.get(HOOKS, True) for part in parts.values())
    return None if has_hooks else index


def _runs(keys: Iterator[list[Any]], scratch: Path) -> Iterator[SortedHashes]:
    """Yield files of the hashes of keys, each with as many as are sorted at once."""
    waiting, count = [np.empty(0, np.uint64)], 0
    for number in itertools.count():
        some = next(keys, None)
        if some is not None:
            waiting.append(key_hashes(some))
            count += len(some)
        if count >= _RUN or (some is None and count):
            path = scratch / f".{KEYS}-{number}"
            write_file(path, np.unique(np.concatenate(waiting)).astype("<u8", copy=False).tobytes())
            waiting, count = [], 0
            yield SortedHashes(path)
        if some is None:
            return


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
