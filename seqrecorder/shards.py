"""One shard: a TFRecord file, and the lengths of its records beside it.

The lengths file holds little-endian int64, a row a record and a column an alignment group, so that batches
can be planned without parsing.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.damage import find_records, opened
from seqrecorder.digests import sha256
from seqrecorder.errors import ShardReadError, ShardWriteError, first_line
from seqrecorder.file_state import FileState, remember
from seqrecorder.files import faults_around
from seqrecorder.following import Follower
from seqrecorder.frames import are_short, frames
from seqrecorder.framing import walk_frames
from seqrecorder.naming import MANIFEST
from seqrecorder.pipelines import tf_records
from seqrecorder.rows import sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.framing import Compression

# GZIP's default level costs 33 times a plain write, level 1 six times, at nearly the same size.
_GZIP_LEVEL = 1
_CAUSES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.EIO, errno.EACCES, errno.ENOENT)
_ROWS_WAITING = 8192  # rows of lengths that are kept in memory
_MANY = 2048  # records that are worth a thread
_EXACT_BINS = 512
_LENGTH_BYTES = 8  # of one length
_NOT_AS_WRITTEN = "its SHA-256 is not the manifest's, so the lengths are not those that were written"
_BITS_KEPT = 5


class ShardWriter:
    """Writes one shard and its lengths.

    Args:
        path: the shard's file.
        lengths_path: the file of its lengths.
        compression: None or `GZIP`.

    Attributes:
        records: how many were written.
        payload: their bytes, before compression.
        follower: goes behind the file; gives its digest once it is closed.
    """

    def __init__(self, path: Path, lengths_path: Path, compression: Compression) -> None:
        self.path, self.lengths_path = path, lengths_path
        self.records = 0
        self.payload = 0
        self.follower = Follower(path)
        self._rows: list[NDArray[np.int64]] = []
        self._waiting = 0
        self._file: _Frames | _TensorFlowFrames | None = None
        try:
            with self._writing("open", path):
                self._file = _TensorFlowFrames(path, compression) if compression else _Frames(path)
        except ShardWriteError:
            self.abandon()
            raise

    @contextlib.contextmanager
    def _writing(self, operation: str, path: Path) -> Iterator[None]:
        """Put fault points around an operation, and name the shard and its bytes when it fails."""
        import tensorflow as tf

        try:
            with faults_around(operation, path):
                yield
        except (OSError, tf.errors.OpError) as error:
            raise self._failure(path, error) from error

    def _failure(self, path: Path, error: Exception) -> ShardWriteError:
        message = getattr(error, "message", None) or getattr(error, "strerror", None) or repr(error)
        said = str(message).splitlines()[0]
        ours = ShardWriteError(
            f"{path}: cannot be written after {self.records} records, {self.payload:,} bytes: {said};"
            " nothing was published; free some space or choose another destination, and write again",
            path=path,
        )
        # TensorFlow has the system's words for it, but not its number.
        ours.errno = getattr(error, "errno", None) or next(
            (number for number in _CAUSES if os.strerror(number) in said), None
        )
        ours.strerror = said
        return ours

    def write(self, data: Sequence[bytes], lengths: NDArray[np.int64]) -> None:
        """Append serialized records and their lengths (records, groups).

        Raises:
            ShardWriteError: the disk is full, or failed; the shard and its bytes are named.
        """
        with self._writing("write", self.path):
            if not self.records and isinstance(self._file, _Frames) and not are_short(data):
                self._file.close()
                self._file = _TensorFlowFrames(self.path)
            self._opened.write(data)
        self.records += len(data)
        self.payload += int(sizes(data).sum())
        self.follower.follow(self.payload)
        self._rows.append(np.ascontiguousarray(lengths, "<i8"))
        self._waiting += len(data)
        if self._waiting >= _ROWS_WAITING:
            self._append_rows()

    @property
    def _opened(self) -> _Frames | _TensorFlowFrames:
        if self._file is None:  # pragma: no cover - nothing is written after the end
            raise RuntimeError(f"{self.path} is closed")
        return self._file

    def _append_rows(self) -> None:
        rows, self._rows, self._waiting = self._rows, [], 0
        with self._writing("open", self.lengths_path), self.lengths_path.open("ab") as file:  # noqa: SIM117
            with self._writing("write", self.lengths_path):
                file.write(b"".join(row.tobytes() for row in rows))
                file.flush()

    def close(self, groups: int = 1) -> NDArray[np.int64]:
        """Write everything out and return the lengths of all records (records, groups).

        Args:
            groups: columns of the lengths.

        Raises:
            ShardWriteError: the disk is full, or failed; the shard and its bytes are named.
        """
        with self._writing("flush", self.path):
            file, self._file = self._opened, None
            try:
                file.flush()
            finally:
                file.close()
        self._append_rows()
        return read_lengths(self.lengths_path, groups, self.records)

    def abandon(self) -> None:
        """Close the file without caring for its contents."""
        import tensorflow as tf

        self.follower.wait()
        file, self._file = self._file, None
        if file is not None:
            # The staging directory goes, and this file with it.
            with contextlib.suppress(tf.errors.OpError, OSError):
                file.close()


class _Frames:
    """A file without compression, whose frames are made in numpy: for short records.

    Of many they are made and written in a thread, while the next are encoded: 200,000 records of 45 bytes took 80 ms as
    columns, and 92 without. Its errors come out of the next call.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="seqrecorder-frames")
        self._pending: Future[Any] | None = None

    def write(self, data: Sequence[bytes]) -> None:
        self._wait()
        if len(data) < _MANY:
            self._append(data)
        else:
            self._pending = self._pool.submit(self._append, data)

    def _append(self, data: Sequence[bytes]) -> None:
        self._file.write(frames(data).data)

    def _wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def flush(self) -> None:
        self._wait()
        self._file.flush()

    def close(self) -> None:
        self._pool.shutdown()
        self._file.close()


class _TensorFlowFrames:
    """A file that TensorFlow writes: for large records, and with compression."""

    def __init__(self, path: Path, compression: Compression = None) -> None:
        import tensorflow as tf

        level = _GZIP_LEVEL if compression else None
        options = tf.io.TFRecordOptions(compression_type=compression or "", compression_level=level)
        self._writer: Any = tf.io.TFRecordWriter(str(path), options)

    def write(self, data: Sequence[bytes]) -> None:
        # TensorFlow's class wraps the method in Python, which doubles the time that short records take.
        plain: Any = super(type(self._writer), self._writer)
        write = plain.write
        for item in data:
            write(item)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def histogram(lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return `(largest length, records)` of each bin, ascending: exact up to 512 distinct lengths.

    >>> histogram(np.array([3, 5, 3]))
    [(3, 2), (5, 1)]
    """
    if int(lengths.max(initial=0)) <= lengths.size:  # then counting is faster than sorting, and takes no more memory
        every = np.bincount(lengths)
        values = np.flatnonzero(every)
        counts = every[values]
    else:
        values, counts = np.unique(lengths, return_counts=True)
    if values.size > _EXACT_BINS:
        # Bins that grow with the length: the upper five bits of each length, rounded up.
        shift = np.maximum(0, np.floor(np.log2(np.maximum(values, 1))).astype(np.int64) + 1 - _BITS_KEPT)
        edges = ((values >> shift) + ((values & ((1 << shift) - 1)) > 0)) << shift
        values, inverse = np.unique(edges, return_inverse=True)
        counts = np.bincount(inverse, weights=counts).astype(np.int64)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def read_lengths(path: Path, groups: int, records: int, digest: str | None = None) -> NDArray[np.int64]:
    """Return the lengths file of a shard as int64 (records, groups).

    Args:
        path: of the lengths file.
        groups: its columns.
        records: its rows.
        digest: its SHA-256, in hexadecimal; None to believe whatever is there.

    Raises:
        ShardReadError: the file is missing, of another size, or not what was written.
    """
    expected = records * groups * _LENGTH_BYTES
    try:
        size = path.stat().st_size
        table = np.fromfile(path, "<i8") if size == expected else None
    except OSError as error:
        raise _lengths_error(path, f"the lengths of a shard cannot be read: {error.strerror or error}") from error
    if table is None or table.nbytes != expected:
        raise _lengths_error(path, f"expected {records} rows of {groups} lengths, got {size} bytes")
    if digest is not None and hashlib.sha256(table.data).hexdigest() != digest:
        raise _lengths_error(path, _NOT_AS_WRITTEN)
    return table.reshape(records, groups)


def check_lengths(path: Path, digest: str) -> None:
    """Raise `ShardReadError` unless a lengths file has a SHA-256; it is looked at once for each state of the file."""
    try:
        found = _digest(FileState.of(path))
    except ShardReadError as error:
        raise _lengths_error(path, f"the lengths of a shard: {error.message}") from error
    if found != digest:
        raise _lengths_error(path, _NOT_AS_WRITTEN)


@remember(most=1 << 16)
def _digest(state: FileState) -> str:
    return sha256(state.path)


def _lengths_error(path: Path, message: str) -> ShardReadError:
    dataset = path.parent.parent
    return ShardReadError(
        f"{path}: {message}; `seqrecorder verify {dataset}` says what else is damaged, `seqrecorder salvage` works the "
        "lengths out anew",
        path=path,
    )


@attrs.frozen
class RecordReader:
    """Iterates over the serialized records of one shard, in lists; the next window is read meanwhile.

    Args:
        path: the shard's file.
        compression: None or `GZIP`.
        window: records to a list.
    """

    path: Path
    compression: Compression
    window: int = 1024

    def __iter__(self) -> Iterator[list[bytes]]:
        for window in self.windows():
            data: list[bytes] = window.numpy().tolist()
            yield data

    def windows(self) -> Iterator[Any]:
        """Yield the same as string tensors: to make bytes objects and tensors of them again copies records twice."""
        import tensorflow as tf

        done = 0
        dataset = tf_records(str(self.path), self.compression).batch(self.window).prefetch(1)
        options = tf.data.Options()
        options.autotune.enabled = False  # its teardown blocks for up to seconds
        options.experimental_optimization.apply_default_optimizations = False  # there is nothing to find
        try:
            for window in dataset.with_options(options):
                yield window
                done += int(window.shape[0])
        except tf.errors.OpError as error:
            raise ShardReadError(
                f"{self.path}: damaged after {done} or more records: {self._first_loss() or first_line(error)}; "
                f"`seqrecorder verify {_place(self.path)}` lists all damage, `seqrecorder salvage` saves what is whole",
                path=self.path,
            ) from error

    def _first_loss(self) -> str:
        """Return where the damage is, which TensorFlow does not say; nothing where none is found."""
        walk = walk_frames(self.path, self.compression)
        if walk.problem:
            return f"record {walk.lengths.size} at byte {walk.offset}: the file {walk.problem}"
        with opened(self.path, self.compression) as (file, size, problem):
            return next(map(str, find_records(file, size, problem).losses), "")


def _place(path: Path) -> Path:
    """Return what to verify: the dataset of a shard, or the shard alone."""
    dataset = path.parent.parent
    return dataset if (dataset / MANIFEST).exists() else path


def peek(path: Path, compression: Compression, count: int) -> list[bytes]:
    """Return the first records of a shard, at most `count`."""
    return next(iter(RecordReader(path, compression, count)), [])
