"""What tasks are told: where the dataset is, and which records of a shard to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqrecorder.storage.names import is_url, local_path

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from seqrecorder.dataset.manifest import ShardInfo

_TOGETHER = 16_384


def pieces_of(shards: Iterable[ShardInfo]) -> Iterator[tuple[int, int, int]]:
    """Yield the start, stop and step of the positions of at most so many records of one shard."""
    for shard in shards:
        stop = shard.start + shard.step * shard.records
        for start in range(shard.start, stop, shard.step * _TOGETHER):
            yield start, min(stop, start + shard.step * _TOGETHER), shard.step


def same_everywhere(place: str | os.PathLike[str]) -> str:
    """Return a URL, or a path that is absolute: workers have other working directories.

    Raises:
        OptionError: it is neither.
    """
    return str(place if is_url(place) else local_path(place))
