"""The names of a dataset's files at a URL: with the digest of what they hold, so that none ever changes."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import attrs

from seqrecorder.dataset.manifest import Manifest, SplitInfo
from seqrecorder.dataset.owned_files import ASSET_GENERATION
from seqrecorder.storage.names import ASSETS, generation_of, shard_name

if TYPE_CHECKING:
    from seqrecorder.dataset.manifest import ShardInfo


_RECORDS = ".tfrecord"

_UNIQUE = re.compile(r".*-[0-9a-f]{16}\.(?:tfrecord|lengths)")


def uniquely_named(manifest: Manifest, label: str = "") -> Manifest:
    """Return a manifest whose files have a label and the digests of their contents in their names, if they have not."""
    splits = {
        name: SplitInfo(
            name,
            tuple(
                attrs.evolve(shard, name=unique_name(shard.name, shard.sha256, shard.lengths_sha256, label))
                for shard in split.shards
            ),
        )
        for name, split in manifest.splits.items()
    }
    infos = {
        name: attrs.evolve(info, generation=int(info.sha256[:12], 16)) for name, info in manifest.asset_infos.items()
    }
    return attrs.evolve(manifest, splits=splits, asset_infos=infos)


def plainly_named(manifest: Manifest) -> Manifest:
    """Return a manifest whose files have the names that they have in a directory.

    They are those from before `uniquely_named`. The shards of a split are numbered anew where these are not unique, or
    no names for a directory: those of parts, and of a writer that began to send before it knew how many there would be.
    """
    splits = {}
    for name, split in manifest.splits.items():
        plain = [_plain_name(shard) for shard in split.shards]
        known = len(set(plain)) == len(plain) and all(generation_of(name, each) is not None for each in plain)
        names = plain if known else [shard_name(name, index, len(plain)) for index in range(len(plain))]
        splits[name] = SplitInfo(
            name, tuple(attrs.evolve(shard, name=new) for shard, new in zip(split.shards, names, strict=True))
        )
    infos = {name: attrs.evolve(info, generation=0) for name, info in manifest.asset_infos.items()}
    return attrs.evolve(manifest, splits=splits, asset_infos=infos, url=None)


def unique_name(name: str, sha256: str, lengths_sha256: str, label: str) -> str:
    """Return the name of a shard with a label and the digest of its contents, if it has not that already."""
    stem, end = name.removesuffix(_RECORDS), _token(sha256, lengths_sha256)
    return name if stem.endswith(end) else f"{stem}{label}{end}{_RECORDS}"


def _plain_name(shard: ShardInfo) -> str:
    return shard.name.removesuffix(_RECORDS).removesuffix(_token(shard.sha256, shard.lengths_sha256)) + _RECORDS


def _token(sha256: str, lengths_sha256: str) -> str:
    """Return what is in the name of a shard, and so in that of its lengths."""
    return f"-{hashlib.sha256(f'{sha256}{lengths_sha256}'.encode()).hexdigest()[:16]}"


def is_ours(name: str) -> bool:
    """Whether an object has a name that only a writer of a dataset gives."""
    *directories, file = name.split("/")
    if len(directories) == 1:
        return file.startswith(f"{directories[0]}-") and _UNIQUE.fullmatch(file) is not None
    return len(directories) == 2 and directories[0] == ASSETS and ASSET_GENERATION.fullmatch(directories[1]) is not None  # noqa: PLR2004 - assets/g123/name
