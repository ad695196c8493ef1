"""The files of one split while they are written: shards, their lengths, and the CSV of what went where."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.dataset.examples_csv import csv_line
from seqrecorder.dataset.manifest import ShardInfo, SplitInfo
from seqrecorder.errors import OptionError
from seqrecorder.storage.files import faults_around, sha256, writing
from seqrecorder.storage.names import examples_name, lengths_name, shard_name
from seqrecorder.storage.shard import OpenShards, ShardWriter, histogram
from seqrecorder.storage.threads import in_threads
from seqrecorder.wire.byte_rows import sizes
from seqrecorder.writing.early_uploads import ShardFiles
from seqrecorder.writing.external_shuffle import SortedSpill, shuffle_tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.writing.early_uploads import EarlyUploads
    from seqrecorder.writing.options import ShardOptions

DEFAULT_SHARD_BYTES = 128 << 20
"""Shards end once they are this large, where neither their number nor their size is given."""

_FRAME = 16  # bytes around each record
_LINES_WAITING = 64 << 10  # characters of the CSV, for each split
_SPILL_BATCH = 1024
_SPILL_BYTES = 64 << 20  # for each split
_SURROGATES = "surrogatepass"  # plain fields may hold any text
_PLACE_COLUMNS = ("shard", "index", "steps")


@attrs.frozen
class _Summary:
    """What the manifest says of a shard that is closed."""

    records: int
    steps: int
    histogram: tuple[tuple[int, int], ...]


class SplitWriter:
    """Writes the files of one split into its directory.

    Args:
        name: name of the split.
        directory: of the split; made if it is not there.
        options: how records become shards.
        scratch: a directory for temporary files.
        start: how many records the split has already, in earlier generations.
        open_shards: of all splits that are written at a time; None where this is the only one.
        uploads: takes the shards that are full; None keeps them in the directory.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        options: ShardOptions,
        scratch: Path,
        start: int = 0,
        *,
        open_shards: OpenShards | None = None,
        uploads: EarlyUploads | None = None,
    ) -> None:
        self.name, self.directory, self.options, self.start = name, directory, options, start
        self._open_shards = open_shards or OpenShards()
        self._uploads = uploads
        self._sent: list[Future[ShardFiles]] = []  # of the first shards
        self.records = 0
        self._shards: list[ShardWriter] = []
        self._summaries: list[_Summary] = []  # of the first shards: those that are closed
        self._filled = 0
        self._csv: Path | None = None
        self._lines: list[str] = []
        self._line_characters = 0
        with writing("create the directory of split", directory), faults_around("mkdir", directory):
            directory.mkdir(exist_ok=True)
        self._spill = None
        if options.shuffle_seed is not None:
            # No split has such a name, since none begins with a dot.
            self._spill = SortedSpill(scratch / f".shuffle-{name}", memory_bytes=_SPILL_BYTES)
        self._spilled = 0

    def add(
        self,
        data: Sequence[bytes],
        lengths: NDArray[np.int64],
        columns: Sequence[str] | None,
        rows: Sequence[str] | None,
    ) -> None:
        """Add encoded records, their lengths (records, groups), and their lines of the CSV.

        Raises:
            ShardWriteError: the disk is full, or failed.
            OptionError: the CSV would have two columns of one name.
        """
        if columns is not None and self._csv is None:
            self._open_csv(columns)
        if self._spill is None or self.options.shuffle_seed is None:
            self._place(data, lengths, rows)
            return
        tags = shuffle_tags(self.options.shuffle_seed, self._spilled, len(data))
        for position, (tag, item) in enumerate(zip(tags.tolist(), data, strict=True)):
            line = b"" if rows is None else rows[position].encode("utf-8", _SURROGATES)
            self._spill.add(tag, (item, lengths[position].astype("<i8").tobytes(), line))
        self._spilled += len(data)

    def _open_csv(self, columns: Sequence[str]) -> None:
        clash = [name for name in _PLACE_COLUMNS if name in columns]
        if clash:
            raise OptionError(
                f"csv=True: the column {clash[0]!r} says where a record went, and a field has that name too;"
                " define to_csv_row, and give the field another name there"
            )
        path = self.directory / examples_name(self.options.csv_generation)
        try:
            header = csv_line([*_PLACE_COLUMNS, *columns])
        except ValueError as error:
            raise OptionError(f"csv=True: the columns {', '.join(map(repr, columns))}: {error}") from error
        with writing("write", path), faults_around("open", path):
            path.open("w").close()
        self._csv = path
        self._add_lines([header + "\n"])

    def _add_lines(self, lines: Iterable[str]) -> None:
        """Add lines to the CSV, which is open only while some are written: there may be many splits."""
        before = len(self._lines)
        self._lines += lines
        self._line_characters += sum(map(len, self._lines[before:]))
        if self._line_characters > _LINES_WAITING:
            self._write_lines()

    def _write_lines(self) -> None:
        lines, self._lines, self._line_characters = self._lines, [], 0
        if self._csv is not None and lines:
            with writing("write", self._csv), faults_around("write", self._csv):  # noqa: SIM117
                with self._csv.open("a", encoding="utf-8", errors=_SURROGATES, newline="") as file:
                    file.writelines(lines)

    def _place(self, data: Sequence[bytes], lengths: NDArray[np.int64], rows: Sequence[str] | None) -> None:
        if self.options.shards is None:
            self._fill(data, lengths, rows)
        else:
            self._deal(data, lengths, rows, self.options.shards)
        self.records += len(data)

    def _deal(self, data: Sequence[bytes], lengths: NDArray[np.int64], rows: Sequence[str] | None, shards: int) -> None:
        while len(self._shards) < min(shards, self.records + len(data)):
            self._shards.append(self._new_shard())
        items = list(data)
        for shard in range(len(self._shards)):
            first = (shard - self.records) % shards
            part = slice(first, None, shards)
            if first < len(data):
                self._write(shard, items[part], lengths[part], None if rows is None else rows[part])

    def _fill(self, data: Sequence[bytes], lengths: NDArray[np.int64], rows: Sequence[str] | None) -> None:
        limit = self.options.shard_bytes or DEFAULT_SHARD_BYTES
        ends = np.cumsum(sizes(data) + _FRAME)
        start = 0
        while start < len(data):
            if not self._shards:
                self._shards.append(self._new_shard())
            done = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, limit - self._filled + done, side="right"))
            if stop <= start:
                if self._filled:  # full: only an empty shard takes a record over the limit
                    self._summarize()
                    if self._uploads is not None:
                        name = shard_name(self.name, len(self._sent), None, self.options.generation)
                        self._sent.append(self._uploads.send(self.name, name, self._shards[-1]))
                    self._shards.append(self._new_shard())
                    self._filled = 0
                    continue
                stop = start + 1
            part = slice(start, stop)
            self._write(len(self._shards) - 1, data[part], lengths[part], None if rows is None else rows[part])
            self._filled += int(ends[stop - 1]) - done
            start = stop

    def _new_shard(self) -> ShardWriter:
        # The number of shards is in their names and not known yet, so they are renamed at the end.
        path = self.directory / f"{len(self._shards):05d}.part"
        return ShardWriter(path, path.with_suffix(".lengths"), self.options.compression, self._open_shards)

    def _write(self, shard: int, data: Sequence[bytes], lengths: NDArray[np.int64], rows: Sequence[str] | None) -> None:
        writer = self._shards[shard]
        if self._csv is not None and rows is not None:
            self._add_lines(
                f"{shard},{writer.records + i},{steps},{row}\n"
                for i, (steps, row) in enumerate(zip(lengths[:, 0].tolist(), rows, strict=True))
            )
        writer.write(data, lengths)

    def _summarize(self) -> None:
        """Close the first shard that is open, so that no more files are open than are written to."""
        table = self._shards[len(self._summaries)].close(self.options.groups)
        steps = table[:, 0]
        self._summaries.append(_Summary(len(table), int(steps.sum()), tuple(histogram(steps))))

    def finish(self) -> SplitInfo:
        """Close all files and return what the split contains.

        Raises:
            ShardWriteError: the disk is full, or failed.
        """
        if self._spill is not None:
            items = self._spill.drain()
            while batch := list(itertools.islice(items, _SPILL_BATCH)):
                self._place_spilled(batch)
        while len(self._summaries) < len(self._shards):
            self._summarize()
        self._write_lines()
        infos, filled = [], self.start
        for index, (files, summary) in enumerate(zip(self._finish_files(), self._summaries, strict=True)):
            dealt = self.options.shards is not None
            infos.append(
                ShardInfo(
                    name=files.name,
                    records=summary.records,
                    steps=summary.steps,
                    bytes=files.bytes,
                    sha256=files.sha256,
                    lengths_sha256=files.lengths_sha256,
                    histogram=summary.histogram,
                    start=self.start + index if dealt else filled,
                    step=len(self._shards) if dealt else 1,
                )
            )
            filled += summary.records
        return SplitInfo(self.name, tuple(infos))

    def _finish_files(self) -> list[ShardFiles]:
        """Give all shards their names, and wait for those that are sent."""
        left = self._shards[len(self._sent) :]
        digests = in_threads(lambda shard: shard.follower.finish(), left)
        lengths_digests = in_threads(sha256, [shard.lengths_path for shard in left])
        paths = [self._name_finally(index) for index in range(len(self._sent), len(self._shards))]
        kept = [
            ShardFiles(path.name, path.stat().st_size, digest, lengths_digest)
            for path, digest, lengths_digest in zip(paths, digests, lengths_digests, strict=True)
        ]
        return [*(sent.result() for sent in self._sent), *kept]

    def _name_finally(self, index: int) -> Path:
        shard = self._shards[index]
        name = shard_name(self.name, index, None if self._sent else len(self._shards), self.options.generation)
        for source, final in ((shard.path, name), (shard.lengths_path, lengths_name(name))):
            target = self.directory / final
            with writing("name shard", target), faults_around("rename", target):
                source.rename(target)
        return self.directory / name

    def _place_spilled(self, batch: list[tuple[bytes, ...]]) -> None:
        data = [item[0] for item in batch]
        lengths = np.frombuffer(b"".join(item[1] for item in batch), "<i8").reshape(-1, self.options.groups)
        rows = None if self._csv is None else [item[2].decode("utf-8", _SURROGATES) for item in batch]
        self._place(data, lengths, rows)

    def abandon(self) -> None:
        """Close all files without caring for their contents."""
        for shard in self._shards:
            shard.abandon()
        if self._spill is not None:
            self._spill.close()
