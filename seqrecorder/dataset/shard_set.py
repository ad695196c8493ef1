"""The shards that are read together: of a dataset's split, of a selection, or bare ones that others wrote."""

from __future__ import annotations

import abc
import functools
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.decoder import RecordDecoder
from seqrecorder.codec.message_layout import PEEKED
from seqrecorder.dataset.read_manifest import explaining_replacement
from seqrecorder.dataset.shard_info import column, longest_of
from seqrecorder.errors import OptionError, RecordError
from seqrecorder.storage.shard import RecordReader, check_lengths, peek, read_lengths
from seqrecorder.storage.tfrecord.check import check_frames
from seqrecorder.wire.spans import Messages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.parsing_spec import Layout
    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.tfrecord.format import Compression

Check = Literal["manifest", "full", "none"]
OnCorrupt = Literal["error", "skip"]

_WINDOW_BYTES = 16 << 20
_WINDOW_RECORDS = 1024

_MOST_LOOKED_AT = 4096
"""Files that are looked at before the first record: more would take minutes, on a network or of millions of records."""


@attrs.frozen(eq=False)
class Runs:
    """Neighbouring records of plain shards that are read in place, run after run.

    Attributes:
        paths: of the shards.
        table: int64, `(n, 5)`: of each run the shard among the paths, the number of its first record there, how many
            records it has, and the bytes at which it begins and ends.
    """

    paths: tuple[Path, ...]
    table: NDArray[np.int64]


@attrs.frozen
class ShardFile:
    """One shard to read.

    Attributes:
        path: of the shard.
        lengths_path: of its lengths, None where there are none.
        lengths_sha256: of the file of lengths, in hexadecimal; None where nothing says so.
        records: their number, -1 where it was not counted.
        bytes: size of the file.
        start: position of the first record in written order.
        step: distance of two records in written order.
        is_damaged: whether it is a copy of what is intact in a damaged shard, whose records have no known positions.
        runs: what is read instead of the file, which is not there then; None for the file.
    """

    path: Path
    lengths_path: Path | None
    records: int
    bytes: int
    start: int
    step: int = 1
    is_damaged: bool = False
    lengths_sha256: str | None = None
    runs: Runs | None = attrs.field(default=None, eq=False)


@attrs.frozen(slots=False)
class Origin:
    """What is to be read.

    Attributes:
        where: what errors call it.
        schema: the fields to read.
        layout: how sequences lie in the messages.
        compression: of the shards.
        files: the shards, in order.
        manifest: of the dataset; None for bare shards.
        check: what was looked at already, or is to be.
        bins: `(length, records)` of all lengths that records have in the first alignment group, ascending, where
            thousands of shards say so; else None.
    """

    where: str
    schema: Schema
    layout: Layout
    compression: Compression
    files: Sequence[ShardFile]
    manifest: Manifest | None = None
    check: Check = "manifest"
    bins: tuple[tuple[int, int], ...] | None = attrs.field(default=None, repr=False)

    @functools.cached_property
    def records(self) -> int:
        """Number of records, -1 where they were not counted."""
        counts = column(self.files, "records")
        return -1 if -1 in counts else sum(counts)

    @property
    def record(self) -> str:
        """What errors call a record whose place is not known."""
        if self.manifest is not None:
            return f"a record of {self.where} (`seqrecorder verify {self.manifest.where}` says which)"
        kind = self.schema.record_class
        named = f"{kind.__module__}:{kind.__qualname__}"
        if kind.__module__ == "__main__" or "<locals>" in named:  # nothing that can be imported
            named = f"MODULE:{kind.__name__}"
        place, each = (self.files[0].path, "") if len(self.files) == 1 else ("FILE", ", for each file,")
        return f"a record of {self.where} (`seqrecorder verify {place} --schema {named}`{each} says which)"

    @property
    def mean_bytes(self) -> int:
        """Bytes of a record on average, as they are stored; a guess where it is not known how many there are."""
        records = self.records
        return sum(column(self.files, "bytes")) // records if records > 0 else 1 << 10

    @functools.cached_property
    def longest(self) -> int | None:
        """About the most steps of a record in the first alignment group; None where that takes parsing to know."""
        if self.manifest is None:
            return None
        return max((longest_of(split.shards) for split in self.manifest.splits.values()), default=0)

    @property
    def is_large(self) -> bool:
        """Whether there are so many files that they are looked at only when it is their turn."""
        return self.check != "full" and len(self.files) > _MOST_LOOKED_AT

    def window(self, wanted: int = _WINDOW_RECORDS) -> int:
        """Return how many records to hold at once: as many as wanted, but no more than about 16 MiB of them."""
        return max(1, min(wanted, _WINDOW_BYTES // max(1, self.mean_bytes)))

    def take_shard(self, shard: tuple[int, int] | None) -> tuple[Origin, slice | None]:
        """Return the files of one reader of several, and which of their records are its own; None for all.

        No two readers have shares that differ by more than one record.
        """
        if shard is None:
            return self, None
        index, count = check_shard(shard)
        if self.records < 0 and len(self.files) < count:
            raise OptionError(
                f"shard={shard}: {len(self.files)} files for {count} readers need single records dealt, whose number "
                "check='none' leaves unknown; leave `check` out"
            )
        files, ours = share_of(column(self.files, "records"), index, count)
        return attrs.evolve(self, files=self.files[files], bins=self.bins if count == 1 else None), ours

    def fetch(self, *, lengths_only: bool = False) -> None:
        """Have the files in the cache where the dataset is at a URL; takes and raises what `Manifest.fetch` does."""
        if self.manifest is None or self.manifest.url is None:
            return
        names = {(file.path.parent.name, file.path.name) for file in self.files}
        shards = [(split.name, shard) for split in self.manifest.splits.values() for shard in split.shards]
        self.manifest.fetch(
            [(split, shard) for split, shard in shards if (split, shard.name) in names], lengths_only=lengths_only
        )

    def check_frames(self, file: ShardFile) -> None:
        """Raise `ShardReadError` where the frames of a file would lead TensorFlow out of it.

        Nothing is looked at under check="none". Nor are bare shards, over whose frames a walk has gone already.
        """
        if self.check != "none" and self.manifest is not None and file.runs is None:  # which come from such a walk
            with explaining_replacement(self.manifest):
                check_frames(file.path, self.compression, self.manifest.path)

    def check_lengths(self) -> None:
        """Raise `ShardReadError` unless the lengths of records are those that were written.

        Nothing is looked at under check="none", nor of thousands of files.
        """
        for file in self.files if not self.is_large else ():
            if self.check != "none" and file.lengths_path is not None and file.lengths_sha256 is not None:
                with explaining_replacement(self.manifest):
                    check_lengths(file.lengths_path, file.lengths_sha256)

    def lengths(self, group: str) -> NDArray[np.int64]:
        """Return the length of every record in an alignment group, file by file.

        They come from the lengths files where there are some, else from parsing every record once.
        """
        with explaining_replacement(self.manifest):
            parts = [self.file_lengths(file, group) for file in self.files]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def check_first(self, schema: Schema) -> None:
        """Raise `RecordError` where one of the first records of bare shards is not what some fields say.

        TensorFlow's own error, which comes while iterating, names neither file nor record. Values that are serialized
        in bytes, such as images, are not looked at: steps that are cropped off may hold anything.
        """
        names = [field.name for field in schema.fields if not field.in_items]
        if self.manifest is not None or not names:
            return
        decoder = RecordDecoder(schema.select(names), self.layout)
        for file in self.files:
            samples = peek(file.path, self.compression, PEEKED)
            try:
                decoder.decode_columns(Messages.of(samples))
            except RecordError as error:
                raise RecordError(
                    f"{file.path}, record {error.position}: {error.message}; {class_advice(file.path)}",
                    position=error.position,
                    problems=error.problems,
                ) from error
            if samples:
                return

    def file_lengths(self, file: ShardFile, group: str) -> NDArray[np.int64]:
        """Return the length of every record of one file in an alignment group."""
        groups = self.manifest.schema.groups if self.manifest is not None else ()
        if file.lengths_path is not None and group in groups:
            digest = None if self.check == "none" else file.lengths_sha256
            return read_lengths(file.lengths_path, len(groups), file.records, digest)[:, groups.index(group)]
        decoder = RecordDecoder(self.schema, self.layout)
        parts = [decoder.lengths(data, group) for data in RecordReader(file.path, self.compression).blocks()]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


def class_advice(path: Path) -> str:
    """Return what to do about a record of a bare shard that cannot be decoded, for the end of a message."""
    return f"the record is whole (its CRC is right), but not of this class: `seqrecorder schema {path}` drafts one"


def check_shard(shard: Any) -> tuple[int, int]:
    """Return `(index, count)`, or raise `OptionError`."""
    match shard:
        case [int() | np.integer() as index, int() | np.integer() as count] if 0 <= index < count:
            return int(index), int(count)
    raise OptionError(f"shard: expected (index, count) with 0 <= index < count, got {shard!r}")


def share_of(records: Sequence[int], index: int, count: int) -> tuple[slice, slice | None]:
    """Return which files one of several readers reads, and which of their records; None for all.

    No two shares differ by more than one record. Readers have whole files, in turn, where that makes such shares. Else
    each has a stretch of the records, file behind file, so that no more files are read by several than there are
    readers. Where there are fewer files than readers, both are put into as many groups as leave such shares, and the
    records of a group's files are dealt to its readers.

    >>> share_of([50, 50, 50, 50], 1, 2)
    (slice(1, None, 2), None)
    >>> share_of([60, 50, 40], 1, 2)
    (slice(1, 3, None), slice(15, 90, None))
    >>> share_of([99], 1, 2)
    (slice(0, None, 1), slice(1, None, 2))

    Args:
        records: of each file; -1 where they were not counted, and no share is of any known size then.
        index: which reader.
        count: of all readers.

    Returns:
        Slices of the files, and of the records of those, in the order of the files.
    """
    if len(records) < count:
        groups = next((n for n in range(len(records), 1, -1) if _is_even(_extremes(records, n, count))), 1)
        return slice(index % groups, None, groups), slice(
            index // groups, None, len(range(index % groups, count, groups))
        )
    if -1 in records or _is_even([sum(records[n::count]) for n in range(count)]):
        return slice(index, None, count), None
    ends = np.cumsum([0, *records])
    first, stop = (int(ends[-1]) * n // count for n in (index, index + 1))
    file = int(np.searchsorted(ends, first, side="right")) - 1
    last = max(file + 1, int(np.searchsorted(ends, stop, side="left")))
    start = int(ends[file])
    return slice(file, last), slice(first - start, stop - start)


def _extremes(records: Sequence[int], groups: int, readers: int) -> list[int]:
    """Return the least and the most that readers have of each group's files, into which both are put in turn."""
    sizes = [(sum(records[group::groups]), len(range(group, readers, groups))) for group in range(groups)]
    return [share for size, of in sizes for share in (size // of, -(-size // of))]


def _is_even(shares: Sequence[int]) -> bool:
    return max(shares) - min(shares) <= 1


class Selected(abc.ABC):
    """Records of a dataset that somebody selected, to be read wherever a path is."""

    @abc.abstractmethod
    def resolve(self, *, schema: object, check: Check, on_corrupt: OnCorrupt, lengths_only: bool) -> Origin:
        """Return what is to be read; takes and raises what the function `resolve` does."""
