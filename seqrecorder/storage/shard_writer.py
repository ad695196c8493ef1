"""Writing one shard: a TFRecord file, and a sidecar file with the lengths of its records.

The lengths file contains little-endian int64s, one row per record and one column per alignment group, so that batches
can be planned without parsing. It is read back by `files.read_lengths`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.errors import ShardWriteError, first_line
from seqrecorder.storage import crc32c
from seqrecorder.storage.crc32c import framed
from seqrecorder.storage.files import FileDigest, advice_on, error_at, faults_around, read_lengths
from seqrecorder.storage.tfrecord import GZIP_WBITS
from seqrecorder.wire.byte_rows import sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.storage.files import Compression


_GZIP_LEVEL = 1  # six times as slow as a plain write; the default level is 33 times as slow, for nearly the same size
_SHORT = 128  # mean record size in bytes up to which numpy frames as fast as TensorFlow
_CAUSES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EACCES, errno.ENOENT)
_MOST_OPEN = 32  # shards that stay open; others are opened for each append, to respect the limit of open files
_MOST_WAITING = 32 << 20  # bytes to buffer for shards that do not stay open
_OBJECTS = 200  # overhead per record in bytes: the object, its references in lists, the array of its lengths
_ROWS_WAITING = 8192  # rows of lengths to keep in memory


class OpenShards:
    """Bookkeeping of the files that a writer keeps open.

    For shards whose files are not kept open, it counts the records that wait to be written.
    """

    def __init__(self) -> None:
        self._open = 0
        self._waiting: dict[ShardWriter, None] = {}
        self._bytes = 0

    def take_place(self) -> bool:
        """Reserve a place among the files that stay open.

        The result is False if no place is left. `give_place` releases the place.
        """
        if self._open >= _MOST_OPEN:
            return False
        self._open += 1
        return True

    def give_place(self) -> None:
        """Release a place that `take_place` has reserved."""
        self._open -= 1

    def wait(self, shard: ShardWriter, records: int, size: int) -> None:
        """Count the records that a shard has added to its buffer.

        If the buffered records of all shards together exceed a limit, all of them are written.

        Args:
            shard: shard that buffers the records.
            records: number of records.
            size: size of the records in bytes.

        Raises:
            ShardWriteError: the disk is full or has failed.
        """
        self._waiting[shard] = None
        self._bytes += size + _OBJECTS * records
        if self._bytes > _MOST_WAITING:
            waiting, self._waiting, self._bytes = self._waiting, {}, 0
            for other in waiting:
                other.write_waiting()


class FramedFile:
    """Shard file whose frames are built by numpy.

    Args:
        path: path of the file.
        compression: compression of the file.
        stays_open: whether the file stays open; otherwise each append opens it.
    """

    def __init__(self, path: Path, compression: Compression, stays_open: bool) -> None:  # noqa: FBT001 - one caller
        self._path, self._file = path, path.open("wb")
        self._packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, GZIP_WBITS) if compression else None
        self._stays_open = stays_open
        self._pause()

    def _pause(self) -> None:
        if not self._stays_open:
            self._file.close()

    def write(self, data: Sequence[bytes]) -> None:
        """Add serialized records."""
        self._append(framed(data))

    def _append(self, chunks: Iterable[Any]) -> None:
        if self._file.closed:
            self._file = self._path.open("ab")
        for octets in chunks:
            self._file.write(octets if self._packer is None else self._packer.compress(octets))
        self._pause()

    def flush(self) -> None:
        """Write out all buffers.

        No records can be added afterwards.
        """
        packer, self._packer = self._packer, None
        if packer is not None:
            self._append([packer.flush()])
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def tensorflow_is_faster(data: Sequence[bytes]) -> bool:
    """Check whether TensorFlow is loaded and computes CRCs faster than this package does."""
    return not crc32c.IS_COMPILED and "tensorflow" in sys.modules and int(sizes(data).sum()) > _SHORT * len(data)


class TensorFlowFile:
    """Uncompressed file that TensorFlow writes and keeps open.

    Errors of TensorFlow are raised as OSError.
    """

    def __init__(self, path: Path) -> None:
        import tensorflow as tf

        with _errors_of_the_system():
            self._writer: Any = tf.io.TFRecordWriter(str(path))

    def write(self, data: Sequence[bytes]) -> None:
        """Add serialized records."""
        # Skip the Python wrapper of TensorFlow's class, which doubles the time for short records.
        plain: Any = super(type(self._writer), self._writer)
        write = plain.write
        with _errors_of_the_system():
            for item in data:
                write(item)

    def flush(self) -> None:
        """Write out the buffer."""
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
        message = first_line(error)
        # TensorFlow's error contains the system's message, but not the errno.
        number = next((one for one in _CAUSES if os.strerror(one) in message), errno.EIO)
        raise OSError(number, message) from error


class ShardWriter:
    """Writer of one shard and its lengths.

    Args:
        path: path of the shard.
        lengths_path: path of the lengths file.
        compression: None or `GZIP`.
        open_shards: open files, shared by all shards of a writer; None if this is the only shard.

    Attributes:
        records: number of records added.
        payload: size of the records in bytes, before compression.
        digest: digest of the file, complete once the file is closed.
    """

    def __init__(
        self, path: Path, lengths_path: Path, compression: Compression, open_shards: OpenShards | None = None
    ) -> None:
        self.path, self.lengths_path = path, lengths_path
        self._compression = compression
        self.records = 0
        self.payload = 0
        self.digest = FileDigest(path)
        self._rows: list[NDArray[np.int64]] = []
        self._waiting_rows = 0
        self._waiting: list[bytes] = []
        self._open_shards = open_shards or OpenShards()
        self._stays_open = self._open_shards.take_place()
        with contextlib.ExitStack() as stack:
            stack.callback(self._leave)
            self._file: FramedFile | TensorFlowFile
            with self._writing("open", path):
                self._file = stack.enter_context(contextlib.closing(FramedFile(path, compression, self._stays_open)))
            stack.pop_all()

    @contextlib.contextmanager
    def _writing(self, operation: str, path: Path) -> Iterator[None]:
        """Surround an operation with fault points, and convert its errors.

        An `OSError` becomes a `ShardWriteError`, which names the file and says how much was written before.
        """
        try:
            with faults_around(operation, path):
                yield
        except OSError as error:
            doing = f"write, after {self.records} records and {self.payload:,} bytes,"
            advice = advice_on(error.errno) or "free some space or choose another destination"
            advice = f"nothing was published; {advice}, and write again"
            raise error_at(ShardWriteError, doing, path, error, advice) from error

    def write(self, data: Sequence[bytes], lengths: NDArray[np.int64]) -> None:
        """Append serialized records and their lengths, an array of shape `(records, groups)`.

        Raises:
            ShardWriteError: the disk is full or has failed; the message names the shard and its size.
        """
        size = int(sizes(data).sum())
        if self._stays_open:
            self._write_now(data)
        else:
            self._waiting += data
        self.records += len(data)
        self.payload += size
        self._rows.append(np.ascontiguousarray(lengths, "<i8"))
        self._waiting_rows += len(data)
        if self._stays_open:
            self.digest.follow(self.payload)
            if self._waiting_rows >= _ROWS_WAITING:
                self._append_rows()
        else:
            self._open_shards.wait(self, len(data), size)

    def _write_now(self, data: Sequence[bytes]) -> None:
        with self._writing("write", self.path):
            if not self.records and self._stays_open and self._compression is None and tensorflow_is_faster(data):
                self._file.close()
                self._file = TensorFlowFile(self.path)
            self._file.write(data)

    def write_waiting(self) -> None:
        """Append the buffered records and their lengths.

        Raises:
            ShardWriteError: the disk is full or has failed.
        """
        data, self._waiting = self._waiting, []
        if data:
            self._write_now(data)
            self.digest.follow(self.payload)
            self._append_rows()

    def _append_rows(self) -> None:
        rows, self._rows, self._waiting_rows = self._rows, [], 0
        with self._writing("open", self.lengths_path), self.lengths_path.open("ab") as file:  # noqa: SIM117
            with self._writing("write", self.lengths_path):
                file.write(b"".join(row.tobytes() for row in rows))
                file.flush()

    def close(self, groups: int = 1) -> NDArray[np.int64]:
        """Write all buffers, and close the file.

        The result is an array with the lengths of all records, of shape `(records, groups)`.

        Args:
            groups: number of alignment groups.

        Raises:
            ShardWriteError: the disk is full or has failed; the message names the shard and its size.
        """
        self.write_waiting()
        with self._writing("flush", self.path):
            try:
                self._file.flush()
            finally:
                self._file.close()
                self._leave()
        self._append_rows()
        return read_lengths(self.lengths_path, groups, self.records)

    def abandon(self) -> None:
        """Close the file; its contents may be incomplete."""
        self.digest.wait()
        self._waiting = []
        self._leave()
        # The staging directory is removed with this file, so errors do not matter; the file may be closed already.
        with contextlib.suppress(OSError):
            self._file.close()

    def _leave(self) -> None:
        if self._stays_open:
            self._open_shards.give_place()
        self._stays_open = False
