"""The names of a dataset's files at a URL: with the digest of what they hold, so that none ever changes."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import attrs

from seqrecorder.dataset.manifest import Manifest, SplitInfo
from seqrecorder.dataset.owned_files import ASSET_GENERATION
from seqrecorder.storage.names import ASSETS

if TYPE_CHECKING:
    from seqrecorder.dataset.manifest import ShardInfo


_RECORDS = ".tfrecord"

_UNIQUE = re.compile(r".*-[0-9a-f]{16}\.(?:tfrecord|lengths)")


def uniquely_named(manifest: Manifest, label: str = "") -> Manifest:
    """Return a manifest whose files have a label and the digests of their contents in their names, if they have not."""
    splits = {
        name: SplitInfo(name, tuple(attrs.evolve(shard, name=_unique_name(shard, label)) for shard in split.shards))
        for name, split in manifest.splits.items()
    }
    infos = {
        name: attrs.evolve(info, generation=int(info.sha256[:12], 16)) for name, info in manifest.asset_infos.items()
    }
    return attrs.evolve(manifest, splits=splits, asset_infos=infos)


def plainly_named(manifest: Manifest) -> Manifest:
    """Return a manifest whose files have the names that they had before `uniquely_named`, where these are unique."""
    splits = {}
    for name, split in manifest.splits.items():
        plain = [_plain_name(shard) for shard in split.shards]
        names = plain if len(set(plain)) == len(plain) else [shard.name for shard in split.shards]
        splits[name] = SplitInfo(
            name, tuple(attrs.evolve(shard, name=new) for shard, new in zip(split.shards, names, strict=True))
        )
    infos = {name: attrs.evolve(info, generation=0) for name, info in manifest.asset_infos.items()}
    return attrs.evolve(manifest, splits=splits, asset_infos=infos, url=None)


def _unique_name(shard: ShardInfo, label: str) -> str:
    stem, end = shard.name.removesuffix(_RECORDS), _token(shard)
    return shard.name if stem.endswith(end) else f"{stem}{label}{end}{_RECORDS}"


def _plain_name(shard: ShardInfo) -> str:
    return shard.name.removesuffix(_RECORDS).removesuffix(_token(shard)) + _RECORDS


def _token(shard: ShardInfo) -> str:
    """Return what is in the name of a shard, and so in that of its lengths."""
    return f"-{hashlib.sha256(f'{shard.sha256}{shard.lengths_sha256}'.encode()).hexdigest()[:16]}"


def is_ours(name: str) -> bool:
    """Whether an object has a name that only a writer of a dataset gives."""
    *directories, file = name.split("/")
    if len(directories) == 1:
        return file.startswith(f"{directories[0]}-") and _UNIQUE.fullmatch(file) is not None
    return len(directories) == 2 and directories[0] == ASSETS and ASSET_GENERATION.fullmatch(directories[1]) is not None  # noqa: PLR2004 - assets/g123/name
