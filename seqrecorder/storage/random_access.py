"""Records of a shard by their numbers: where each frame begins, and reading some of them, checked like all reading.

A plain shard is walked over once for the places of its frames, and then sought. A GZIP shard cannot be sought: records
of it come in ascending order only.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import numpy as np

from seqrecorder.errors import OptionError, ShardReadError
from seqrecorder.storage.bad_sectors import PlacedFile, reason_at
from seqrecorder.storage.shard import RecordReader, damage_error
from seqrecorder.storage.tfrecord.check import advice, check_frames, check_size
from seqrecorder.storage.tfrecord.damaged_frames import damaged_frames, damaged_one_by_one
from seqrecorder.storage.tfrecord.format import FOOTER, HEADER, frame_starts, is_framed
from seqrecorder.wire.spans import ROOM, Messages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.storage.tfrecord.format import Compression

_LENGTH = 8  # bytes
_GAP = 1 << 14
"""Bytes that are rather read than sought over: reading one more page costs less than another call."""
_RUN = 16 << 20
"""Bytes that are read at a time, unless one record has more."""
_SHORT_STREAM = 1024


class SoughtShard:
    """The records of one plain shard.

    Args:
        path: of the shard.
        records: how many it holds.
        size: of the file, in bytes.
        dataset: whose shard it is, for the advice in errors.
    """

    def __init__(self, path: Path, records: int, size: int, dataset: Path) -> None:
        check_size(path, size, dataset)
        self.path, self.records, self.size, self.dataset = path, records, size, dataset
        try:
            self._file = PlacedFile(path)
        except OSError as error:  # it went since
            raise self._unreadable(error) from error

    @functools.cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each frame begins, and where the last one ends: int64, `(records + 1,)`.

        Raises:
            ShardReadError: the frames do not lead from the first byte of the file to its last.
        """
        try:
            starts = frame_starts(self.path)
        except OSError as error:
            raise self._unreadable(error) from error
        if starts is None:
            check_frames(self.path, None, self.dataset)  # which says what is wrong
        if starts is None or starts.size != self.records + 1:
            got = "frames that lead out of the file" if starts is None else f"{starts.size - 1}"
            raise ShardReadError(
                f"{self.path}: expected {self.records} records, got {got}; {advice(self.dataset)}", path=self.path
            )
        return starts

    def read_one(self, row: int) -> bytes:
        """Return one record.

        Raises:
            ShardReadError: it is damaged.
        """
        start, stop = self.starts[row : row + 2].tolist()
        frame = self._bytes(start, stop - start)
        if not is_framed(frame):
            raise self._damaged(row)
        return frame[HEADER:-FOOTER]

    def messages(self, rows: NDArray[np.int64]) -> Messages:
        """Return some records in a buffer.

        Args:
            rows: their numbers in the shard, ascending.

        Raises:
            ShardReadError: one of them is damaged.
        """
        runs = [Messages(run.data, run.starts + HEADER, run.stops - FOOTER) for run in self._runs(rows)]
        return Messages.together(runs)

    def _checked(self, rows: NDArray[np.int64], frames: Messages) -> Messages:
        """Return frames, once their CRCs were found to be right."""
        data, starts, stops = frames.data, frames.starts + HEADER, frames.stops - FOOTER
        lengths = data[starts[:, None] + np.arange(-HEADER, -HEADER + _LENGTH)].view("<i8")[:, 0]
        whole = lengths == stops - starts
        if (frames.starts[1:] == frames.stops[:-1]).all():
            whole &= ~damaged_frames(data, starts, stops)
        else:
            whole &= ~damaged_one_by_one(data, starts, stops)
        if not whole.all():
            raise self._damaged(int(rows[(~whole).argmax()]))
        return frames

    def _runs(self, rows: NDArray[np.int64]) -> Iterator[Messages]:
        """Yield the frames of some records, which are checked as many at a time as are read into one buffer."""
        begins, ends = self.starts[rows], self.starts[rows + 1]
        gaps = begins[1:] - ends[:-1]
        left_out = np.concatenate([[0], np.cumsum(np.where(gaps > _GAP, gaps, 0))])
        places, first = begins - left_out, 0  # where frames would be in a file without what is sought over
        while first < rows.size:
            last = int(np.searchsorted(ends - left_out, places[first] + _RUN, side="right"))
            last = max(first + 1, last)
            cuts = first + 1 + np.flatnonzero(gaps[first : last - 1] > _GAP)
            pieces = itertools.pairwise([first, *cuts.tolist(), last])
            data = [self._bytes(int(begins[i]), int(ends[j - 1] - begins[i])) for i, j in pieces]
            starts = places[first:last] - places[first]
            stops = starts + ends[first:last] - begins[first:last]
            frames = Messages(np.frombuffer(b"".join([*data, bytes(ROOM)]), np.uint8), starts, stops)
            yield self._checked(rows[first:last], frames)
            first = last

    def _bytes(self, start: int, count: int) -> bytes:
        try:
            data = self._file.read_at(start, count)
        except OSError as error:
            raise self._unreadable(error) from error
        if len(data) < count:
            raise ShardReadError(
                f"{self.path}: ends at byte {start + len(data)}, where {self.size} are expected; "
                f"{advice(self.dataset)}",
                path=self.path,
            )
        return data

    def _unreadable(self, error: OSError) -> ShardReadError:
        return ShardReadError(f"{self.path}: cannot be read: {reason_at(self.path, error)}", path=self.path)

    def _damaged(self, row: int) -> ShardReadError:
        return ShardReadError(
            f"{self.path}: record {row} at byte {int(self.starts[row])} is damaged (its CRC differs); "
            f"{advice(self.dataset)}",
            path=self.path,
        )


class StreamedShard:
    """The records of one GZIP shard, forwards only.

    Args:
        path: of the shard.
        compression: of the shard.
        records: how many it holds.
        size: of the file, in bytes.
        dataset: whose shard it is, for the advice in errors.
    """

    def __init__(self, path: Path, compression: Compression, records: int, size: int, dataset: Path) -> None:
        check_size(path, size, dataset)
        self.path, self.records = path, records
        self.compression: Compression = compression
        self._next, self._window = 0, list[bytes]()
        self._windows = iter(RecordReader(path, compression, _SHORT_STREAM))

    def read_one(self, row: int) -> bytes:
        """Raise `OptionError`."""
        del row
        raise cannot_be_sought(self.path)

    def messages(self, rows: NDArray[np.int64]) -> Messages:
        """Return some records in a buffer.

        Args:
            rows: their numbers in the shard, ascending, none before one that was read.

        Raises:
            ShardReadError: the shard is damaged.
            OptionError: a number before one that was read.
        """
        out = []
        for row in rows.tolist():
            first = self._next - len(self._window)
            if row < first:
                raise cannot_be_sought(self.path)
            while row >= self._next:
                self._window = next(self._windows, [])
                if not self._window:
                    raise damage_error(self.path, self.compression, self._next, f"{self.records} records are expected")
                first, self._next = self._next, self._next + len(self._window)
            out.append(self._window[row - first])
        return Messages.of(out)


def cannot_be_sought(path: Path) -> OptionError:
    """Return the error of a record in the midst of a GZIP shard."""
    return OptionError(
        f"{path} is packed with GZIP, so that records can be read in their written order only, and not by position or "
        "key; write the dataset again without compression"
    )
