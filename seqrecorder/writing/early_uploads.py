"""Shards that are full go to a URL while the next are written, so that few of them are on this disk at a time."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs

from seqrecorder.dataset.remote import unique_name
from seqrecorder.storage.files import sha256
from seqrecorder.storage.names import lengths_name
from seqrecorder.storage.threads import submit

if TYPE_CHECKING:
    from concurrent.futures import Future

    from seqrecorder.dataset.remote import Destination
    from seqrecorder.storage.shard import ShardWriter

_AT_ONCE = 4


@attrs.frozen
class ShardFiles:
    """A shard that is complete, and its lengths.

    Attributes:
        name: of its file.
        bytes: its size.
        sha256: of the file, in hex.
        lengths_sha256: of the file of lengths.
    """

    name: str
    bytes: int
    sha256: str
    lengths_sha256: str


class EarlyUploads:
    """Sends shards, some at a time, and removes them from this disk.

    Args:
        destination: the URL, and what the names of its shards get.

    Attributes:
        sent: the names of what is there, relative to the dataset.
    """

    def __init__(self, destination: Destination) -> None:
        self._destination, self.sent = destination, set[str]()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="seqrecorder-uploads")
        self._running: deque[Future[ShardFiles]] = deque()

    def send(self, split: str, name: str, shard: ShardWriter) -> Future[ShardFiles]:
        """Begin to send a shard that is closed; wait for the one before it all where too many are on their way.

        Args:
            split: whose shard it is.
            name: of the shard, without its digest.
            shard: the files.

        Raises:
            ShardWriteError: an earlier shard could not be sent.
        """
        while self._running and (len(self._running) >= _AT_ONCE or self._running[0].done()):
            self._running.popleft().result()
        self._running.append(submit(self._pool, self._send, (split, name, shard)))
        return self._running[-1]

    def _send(self, given: tuple[str, str, ShardWriter]) -> ShardFiles:
        split, name, shard = given
        digests = shard.follower.finish(), sha256(shard.lengths_path)
        name = unique_name(name, *digests, self._destination.label)
        files = ShardFiles(name, shard.path.stat().st_size, *digests)
        for path, remote in ((shard.path, name), (shard.lengths_path, lengths_name(name))):
            self._destination.place.upload(path, f"{split}/{remote}")
            self.sent.add(f"{split}/{remote}")
            path.unlink()
        return files

    def close(self) -> None:
        """Begin no more, and wait for what is on its way."""
        self._pool.shutdown(cancel_futures=True)
