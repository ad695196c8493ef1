"""Files of shards while records are added: framed here or by TensorFlow, and how many are open at a time.

A process may have some thousand files open, often 1,024, and a dataset may have more shards and splits. So the first
shards of a writer stay open, as long as they are written to. The records of the others wait in memory, and are appended
to their files many at a time, which are open no longer than that takes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from seqrecorder.errors import first_line
from seqrecorder.storage.tfrecord import crc32c
from seqrecorder.storage.tfrecord.format import framed
from seqrecorder.storage.threads import submit
from seqrecorder.wire.byte_rows import sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from seqrecorder.storage.tfrecord.format import Compression

# GZIP's default level costs 33 times a plain write, level 1 six times, at nearly the same size.
_GZIP_LEVEL, _WITH_HEADER = 1, zlib.MAX_WBITS | 16
_MANY = 2048  # records that are worth a thread
_SHORT = 128  # mean bytes of records whose frames are made in numpy as fast as by TensorFlow
_CAUSES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EACCES, errno.ENOENT)
_MOST_OPEN = 32
_MOST_WAITING = 32 << 20  # bytes
_OBJECTS = 200  # bytes that a record takes beside its own: the object, its places in lists, the array of its lengths


class Waiting(Protocol):
    """A shard whose records wait."""

    def write_waiting(self) -> None:
        """Append the records to the file."""


class OpenShards:
    """Decides which shards of a writer stay open, and when what waits for the others is written."""

    def __init__(self) -> None:
        self._open = 0
        self._waiting: dict[Waiting, None] = {}
        self._bytes = 0

    def take_place(self) -> bool:
        """Return whether one more file may stay open; whoever closes it calls `give_place`."""
        if self._open >= _MOST_OPEN:
            return False
        self._open += 1
        return True

    def give_place(self) -> None:
        """Say that a file was closed."""
        self._open -= 1

    def wait(self, shard: Waiting, records: int, size: int) -> None:
        """Count records that wait, and have those of all shards written where they become too many.

        Args:
            shard: that holds them.
            records: how many.
            size: their bytes.

        Raises:
            ShardWriteError: the disk is full, or failed.
        """
        self._waiting[shard] = None
        self._bytes += size + _OBJECTS * records
        if self._bytes > _MOST_WAITING:
            waiting, self._waiting, self._bytes = self._waiting, {}, 0
            for other in waiting:
                other.write_waiting()


class FramedFile:
    """A file whose frames are made in numpy, which stays open or is open only while something is appended to it.

    Of many records they are made and written in a thread, while the next are encoded. Its errors come out of the next
    call.

    Args:
        path: of the file.
        compression: of the file.
        stays_open: whether it does.
    """

    def __init__(self, path: Path, compression: Compression = None, *, stays_open: bool = True) -> None:
        self._path, self._file = path, path.open("wb")
        self._packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _WITH_HEADER) if compression else None
        # There may be many of those that do not.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="seqrecorder-frames") if stays_open else None
        self._pending: Future[Any] | None = None
        self._stays_open = stays_open
        self._pause()

    def _pause(self) -> None:
        if not self._stays_open:
            self._file.close()

    def write(self, data: Sequence[bytes]) -> None:
        """Add serialized records."""
        self._wait()
        if self._pool is None or len(data) < _MANY:
            self._append(framed(data))
        else:
            self._pending = submit(self._pool, self._append, framed(data))

    def _append(self, parts: Iterable[Any]) -> None:
        if self._file.closed:
            self._file = self._path.open("ab")
        for octets in parts:
            self._file.write(octets if self._packer is None else self._packer.compress(octets))
        self._pause()

    def _wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def flush(self) -> None:
        """Write out what is buffered: nothing can be added any more."""
        self._wait()
        packer, self._packer = self._packer, None
        if packer is not None:
            self._append([packer.flush()])
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._pool is not None:
            self._pool.shutdown()
        self._file.close()


def tensorflow_is_faster(data: Sequence[bytes]) -> bool:
    """Whether TensorFlow, where it is loaded anyway, makes the CRCs of records faster than they are made here."""
    return not crc32c.IS_COMPILED and "tensorflow" in sys.modules and int(sizes(data).sum()) > _SHORT * len(data)


class TensorFlowFile:
    """A file without compression that stays open, and that TensorFlow writes. Its errors are told as the system's."""

    def __init__(self, path: Path) -> None:
        import tensorflow as tf

        with _errors_of_the_system():
            self._writer: Any = tf.io.TFRecordWriter(str(path))

    def write(self, data: Sequence[bytes]) -> None:
        """Add serialized records."""
        # TensorFlow's class wraps the method in Python, which doubles the time that short records take.
        plain: Any = super(type(self._writer), self._writer)
        write = plain.write
        with _errors_of_the_system():
            for item in data:
                write(item)

    def flush(self) -> None:
        """Write out what is buffered."""
        with _errors_of_the_system():
            self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        with _errors_of_the_system():
            self._writer.close()


@contextlib.contextmanager
def _errors_of_the_system() -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        said = first_line(error)
        # TensorFlow has the system's words for it, but not its number.
        number = next((one for one in _CAUSES if os.strerror(one) in said), errno.EIO)
        raise OSError(number, said) from error
