"""Lookup and checks of the shards to read: a split, a selection, or bare shards from any writer.

Their records are parsed by the packages `codec` and `reading`.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import glob
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.codec.layouts import PEEKED, check_layout, detect_layout
from seqrecorder.dataset.damaged_shards import REPLACED, is_intact, lengths_of_copy, without_damage
from seqrecorder.dataset.manifest import dataset_at, explaining_replacement, read_manifest, schema_to_read, shards_of
from seqrecorder.errors import OptionError, RecordError, ShardReadError
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.files import (
    check_compression,
    check_lengths,
    files_named,
    has_digest,
    inside,
    is_url,
    read_lengths,
    sha256,
)
from seqrecorder.storage.object_store import Place
from seqrecorder.storage.processes_and_signals import in_threads, scratch
from seqrecorder.storage.shard_reader import RecordReader, peek
from seqrecorder.storage.tfrecord import (
    advice,
    check_frames,
    check_size,
    check_walk,
    count_records,
    detect_compression,
    is_packed_with_zlib,
)
from seqrecorder.wire.byte_rows import Messages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.layouts import Layout
    from seqrecorder.dataset.manifest import Manifest, ShardInfo, SplitInfo
    from seqrecorder.storage.files import Compression


Check = Literal["manifest", "full", "none"]
OnCorrupt = Literal["error", "skip"]

_WINDOW_BYTES = 16 << 20  # bytes of records in memory at a time
_WINDOW_RECORDS = 1024  # maximum number of records in memory at a time, if they are small

_CHECKED = 4096  # maximum number of files to check before the first record; over a network, more take minutes


@attrs.frozen(eq=False)
class Runs:
    """Runs of adjacent records in uncompressed shards.

    The records are read from the shards, without being copied to a new file.

    Attributes:
        paths: paths of the shards.
        table: one row per run, int64 `(n, 5)`: index of the shard, number of the first record in the shard, number of
            records, start offset and end offset in bytes.
    """

    paths: tuple[Path, ...]
    table: NDArray[np.int64]


@attrs.frozen
class ShardFile:
    """Shard to read.

    Attributes:
        directory: directory of the shard and its lengths file.
        name: file name of the shard.
        lengths_name: name of the lengths file; None if there is none.
        records: number of records; -1 if they were not counted.
        bytes: size of the file.
        start: position of the first record in written order.
        step: distance between consecutive records of the shard in written order.
        lengths_sha256: SHA-256 of the lengths file, in hexadecimal; None if unknown.
        is_damaged: whether this is a copy of the intact records of a damaged shard; their positions are unknown.
        runs: runs to read instead of the file, which then does not exist; None to read the file.
    """

    directory: Path
    name: str
    lengths_name: str | None
    records: int
    bytes: int
    start: int
    step: int = 1
    lengths_sha256: str | None = None
    is_damaged: bool = False
    runs: Runs | None = attrs.field(default=None, eq=False)

    @property
    def path(self) -> Path:
        """Path of the shard."""
        return self.directory / self.name

    @property
    def lengths_path(self) -> Path | None:
        """Path of the lengths file, or None if there is none."""
        return None if self.lengths_name is None else self.directory / self.lengths_name


@attrs.frozen(slots=False)
class Origin:
    """Shards to read, with their schema, format and checks.

    Attributes:
        where: label of the dataset or shards in error messages.
        schema: schema with the fields to read.
        layout: layout of sequences in the messages.
        compression: compression of the shards.
        files: shards, in order.
        manifest: manifest of the dataset; None for bare shards.
        check: level of checks.
        whole: entry of the split, if `files` are exactly its shards; otherwise None.
        most_checked: maximum number of files to check before the first record.
    """

    where: str
    schema: Schema
    layout: Layout
    compression: Compression
    files: Sequence[ShardFile]
    manifest: Manifest | None = None
    check: Check = "manifest"
    whole: SplitInfo | None = attrs.field(default=None, repr=False)
    most_checked: int = _CHECKED

    @functools.cached_property
    def records(self) -> int:
        """Number of records, or -1 if they were not counted."""
        counts = [file.records for file in self.files]
        return -1 if -1 in counts else sum(counts)

    @functools.cached_property
    def bins(self) -> list[tuple[int, int]] | None:
        """Exact histogram of the lengths in the first alignment group, or None if it is unknown.

        It consists of pairs `(length, records)` in ascending order.
        """
        bins = [] if self.whole is None else self.whole.bins
        is_exact = self.whole is not None and sum(length * n for length, n in bins) == self.whole.steps
        return bins if is_exact and sum(n for _, n in bins) == self.records else None

    @property
    def record(self) -> str:
        """Label of a record at an unknown position, for error messages."""
        if self.manifest is not None:
            return f"a record of {self.where} (`seqrecorder verify {self.manifest.where}` says which)"
        kind = self.schema.record_class
        named = f"{kind.__module__}:{kind.__qualname__}"
        if kind.__module__ == "__main__" or "<locals>" in named:  # the record class cannot be imported
            named = f"MODULE:{kind.__name__}"
        path, each = (self.files[0].path, "") if len(self.files) == 1 else ("FILE", ", for each file,")
        return f"a record of {self.where} (`seqrecorder verify {path} --schema {named}`{each} says which)"

    @property
    def mean_bytes(self) -> int:
        """Mean stored size of a record in bytes, or a guess if the records were not counted."""
        records = self.records
        return sum(file.bytes for file in self.files) // records if records > 0 else 1 << 10

    @functools.cached_property
    def longest(self) -> int | None:
        """Estimated length of the longest record in the first alignment group.

        The estimate comes from the histograms of all splits in the manifest. It is None for bare shards.
        """
        if self.manifest is None:
            return None
        return max((length for split in self.manifest.splits.values() for length, _ in split.bins), default=0)

    @property
    def is_large(self) -> bool:
        """True if there are too many files to check all of them before the first record."""
        return self.check != "full" and len(self.files) > self.most_checked

    def window(self, wanted: int = _WINDOW_RECORDS) -> int:
        """Limit a number of records, so that the records take at most about 16 MiB.

        The limit follows from the mean size of a record, and is at least 1.
        """
        return max(1, min(wanted, _WINDOW_BYTES // max(1, self.mean_bytes)))

    def take_shard(self, shard: tuple[int, int] | None) -> tuple[Origin, slice | None]:
        """Select the files for one of several readers, and the slice of their records to take (None for all).

        The numbers of records of any two readers differ by at most one.
        """
        if shard is None:
            return self, None
        index, count = check_shard(shard)
        if self.records < 0 and len(self.files) < count:
            raise OptionError(
                f"shard={shard}: {len(self.files)} files cannot be dealt to {count} readers without the number of "
                "records, which check='none' does not count; leave `check` out"
            )
        files, ours = share_of([file.records for file in self.files], index, count)
        return attrs.evolve(self, files=self.files[files], whole=self.whole if count == 1 else None), ours

    def fetch(self, *, lengths_only: bool = False, verify: bool = False) -> None:
        """Fetch the files into the cache if the dataset is at a URL (see `Manifest.fetch`)."""
        if self.manifest is None or self.manifest.url is None:
            return
        names = {(file.directory.name, file.name) for file in self.files}
        wanted = [(split, shard) for split, shard in shards_of(self.manifest) if (split, shard.name) in names]
        self.manifest.fetch(wanted, lengths_only=lengths_only, verify=verify)

    def check_frames(self, file: ShardFile) -> None:
        """Raise `ShardReadError` if the length in a frame would make TensorFlow read beyond the end of a file.

        Nothing is checked with `check="none"`. The frames of bare shards were already checked when counting records.
        """
        if self.check != "none" and self.manifest is not None and file.runs is None:  # frames of runs were checked
            self._check(file, functools.partial(check_frames, file.path, self.compression, self.manifest.path))

    def check_lengths(self) -> None:
        """Raise `ShardReadError` if a lengths file has changed since it was written.

        Nothing is checked with `check="none"`, or if there are thousands of files.
        """
        for file in self.files if not self.is_large else ():
            if self.check != "none" and file.lengths_path is not None and file.lengths_sha256 is not None:
                self._check(file, functools.partial(check_lengths, file.lengths_path, file.lengths_sha256))

    def _check(self, file: ShardFile, check: Callable[[], None]) -> None:
        """Run a check of a file.

        If it fails for a dataset at a URL, a damaged copy in the cache is fetched again, and the check is repeated.
        """
        with explaining_replacement(self.manifest):
            try:
                check()
            except ShardReadError:
                if self.manifest is None or self.manifest.url is None:
                    raise
                attrs.evolve(self, files=[file]).fetch(verify=True)
                check()

    def lengths(self, group: str) -> NDArray[np.int64]:
        """Read the length of every record in an alignment group, file by file.

        Without lengths files, this parses every record once.
        """
        with explaining_replacement(self.manifest):
            lengths = [self.file_lengths(file, group) for file in self.files]
        return np.concatenate(lengths) if lengths else np.empty(0, np.int64)

    def check_first(self, schema: Schema) -> None:
        """Raise `RecordError` if one of the first records of bare shards does not fit the fields.

        TensorFlow would raise its error only while iterating, and without naming the file or the record. Values that
        are serialized as bytes, such as images, are not checked, because they may belong to steps that are cropped
        away, and these need not be valid.
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
        """Read the lengths that the records of a file have in an alignment group."""
        groups = self.manifest.schema.groups if self.manifest is not None else ()
        if file.lengths_path is not None and group in groups:
            digest = None if self.check == "none" else file.lengths_sha256
            return read_lengths(file.lengths_path, len(groups), file.records, digest)[:, groups.index(group)]
        decoder = RecordDecoder(self.schema, self.layout)
        lengths = [decoder.lengths(data, group) for data in RecordReader(file.path, self.compression).blocks()]
        return np.concatenate(lengths) if lengths else np.empty(0, np.int64)


def class_advice(path: Path) -> str:
    """Build advice for the end of an error message about an undecodable record of a bare shard."""
    return f"its CRC is right, but it is not of this class: `seqrecorder schema {path} --records all` drafts one"


def check_shard(shard: Any) -> tuple[int, int]:
    """Convert the pair `(index, count)` in the option `shard` to ints.

    Raises:
        OptionError: the pair is invalid.
    """
    match shard:
        case [int() | np.integer() as index, int() | np.integer() as count] if 0 <= index < count:
            return int(index), int(count)
    raise OptionError(f"shard: expected (index, count) with 0 <= index < count, got {shard!r}")


def share_of(records: Sequence[int], index: int, count: int) -> tuple[slice, slice | None]:
    """Choose the files for one of several readers, and the slice of their records to take (None for all).

    The numbers of records of any two readers differ by at most one. If dealing whole files round-robin meets this
    limit, readers get whole files. Otherwise, each reader gets a contiguous range of the concatenated files, so that
    readers share few files. If there are fewer files than readers, files and readers are dealt to as many groups as the
    limit allows, and the readers of a group share its records round-robin.

    >>> share_of([50, 50, 50, 50], 1, 2)
    (slice(1, None, 2), None)
    >>> share_of([60, 50, 40], 1, 2)
    (slice(1, 3, None), slice(15, 90, None))
    >>> share_of([99], 1, 2)
    (slice(0, None, 1), slice(1, None, 2))

    Args:
        records: number of records in each file; -1 if not counted, so the sizes of the shares are unknown.
        index: index of the reader.
        count: number of readers.

    Returns:
        A slice of the files, and a slice of the concatenated records of these files.
    """
    if len(records) < count:
        groups = next((n for n in range(len(records), 1, -1) if _is_even(_extremes(records, n, count))), 1)
        first, readers = index % groups, len(range(index % groups, count, groups))
        return slice(first, None, groups), slice(index // groups, None, readers)
    if -1 in records or _is_even([sum(records[n::count]) for n in range(count)]):
        return slice(index, None, count), None
    ends = np.cumsum([0, *records])
    first, stop = (int(ends[-1]) * n // count for n in (index, index + 1))
    file = int(np.searchsorted(ends, first, side="right")) - 1
    last = max(file + 1, int(np.searchsorted(ends, stop, side="left")))
    start = int(ends[file])
    return slice(file, last), slice(first - start, stop - start)


def _extremes(records: Sequence[int], groups: int, readers: int) -> list[int]:
    """Compute, for each group, the smallest and the largest number of records that one of its readers gets.

    Files and readers are dealt to the groups round-robin, and the readers of a group share its records evenly.
    """
    sizes = [(sum(records[group::groups]), len(range(group, readers, groups))) for group in range(groups)]
    return [share for size, count in sizes for share in (size // count, -(-size // count))]


def _is_even(shares: Sequence[int]) -> bool:
    return max(shares) - min(shares) <= 1


class Selected(abc.ABC):
    """Interface of selections, which are accepted wherever a path is."""

    @abc.abstractmethod
    def _resolve(self, *, schema: object, check: Check, on_corrupt: OnCorrupt, lengths_only: bool) -> Origin:
        """Find the shards to read; see `resolve`."""


_LAYOUTS = ("auto", "steps", "packed", "example")


def resolve(
    path: Any,
    split: str | None,
    *,
    schema: object = None,
    compression: str | None = None,
    layout: str = "auto",
    check: Check = "manifest",
    on_corrupt: OnCorrupt = "error",
    lengths_only: bool = False,
) -> Origin:
    """Find the shards to read, and check them.

    Args:
        path: directory or URL of a dataset; a selection; or bare shards (a path, a glob or a list).
        split: name of the split; None for a dataset with one split, selections and bare shards.
        schema: class or schema to read the records as; required for bare shards.
        compression: compression of bare shards; None detects it from their first bytes.
        layout: layout of bare shards.
        check: `manifest` compares the sizes of shards with the manifest, and checks the frames of bare shards. (The
            frames of a dataset are checked when a file is opened, by `Origin.check_frames`, and lengths files by
            `Origin.check_lengths`.) `full` reads everything. `none` checks nothing.
        on_corrupt: `error`, or `skip` to read all shards in advance and skip damaged records.
        lengths_only: whether only lengths are needed, so that the records of a selection need not be copied.

    Raises:
        DatasetNotFoundError: the path does not exist.
        ShardReadError: a shard is missing or truncated, or has a different size or compression.
        SchemaMismatchError: the data cannot be read as the schema.
        OptionError: an argument is invalid.
    """
    if check not in ("manifest", "full", "none"):
        raise OptionError(f"check: expected 'manifest', 'full' or 'none', got {check!r}")
    if on_corrupt not in ("error", "skip"):
        raise OptionError(f"on_corrupt: expected 'error' or 'skip', got {on_corrupt!r}")
    if layout not in _LAYOUTS:
        raise OptionError(f"layout: expected one of {', '.join(_LAYOUTS)}, got {layout!r}")
    wanted = check_compression(compression)
    if isinstance(path, Selected):
        if split is not None or compression is not None or layout not in ("auto", "steps"):
            raise OptionError("a selection already determines split, compression and layout: leave these options out")
        return path._resolve(  # noqa: SLF001 - private to keep it out of the public interface of selections
            schema=schema, check=check, on_corrupt=on_corrupt, lengths_only=lengths_only
        )
    directory = _dataset_directory(path)
    if directory is None:
        if split is not None:
            raise OptionError(f"bare shards have no splits, got {split!r}; pass the paths alone")
        return _resolve_bare(path, schema, wanted=wanted, layout=layout, check=check, on_corrupt=on_corrupt)
    manifest = read_manifest(directory)
    if compression is not None and wanted != manifest.compression:
        raise OptionError(f"{directory}: compression is {manifest.compression!r}, got {compression!r}; leave it out")
    if layout not in ("auto", "steps"):
        raise OptionError(f"{directory}: layout is for bare shards; the layout of a dataset is always 'steps'")
    with explaining_replacement(manifest):
        return resolve_dataset(manifest, split, schema, check, on_corrupt)


def _dataset_directory(path: Any) -> Path | None:
    if isinstance(path, Sequence) and not isinstance(path, str):
        return None
    candidate = dataset_at(path)
    if os.path.isdir(candidate) or is_url(path):  # noqa: PTH112 - treats any OSError as no
        return candidate
    if os.path.exists(candidate) or glob.has_magic(str(path)):  # noqa: PTH110 - as above
        return None
    return candidate  # reading the manifest raises a clear error


def resolve_dataset(
    manifest: Manifest, split: str | None, schema: object, check: Check, on_corrupt: OnCorrupt, *, most: int = _CHECKED
) -> Origin:
    """Find the shards of a split of a dataset, and check them.

    See `resolve` for the arguments and errors. `most` becomes `Origin.most_checked`.
    """
    info = manifest.split(split)
    where = f"{manifest.where}, split {info.name!r}"
    is_verified = False
    if check == "full" or on_corrupt == "skip":  # otherwise each reader fetches only its share
        try:
            manifest.fetch([(info.name, shard) for shard in info.shards], verify=True)
            is_verified = manifest.url is not None
        except ShardReadError:
            if on_corrupt == "error":
                raise
    wanted = schema_to_read(manifest, schema, where)
    directory = _split_directory(manifest, info)
    files = [
        ShardFile(directory, s.name, s.lengths_name, s.records, s.bytes, s.start, s.step, s.lengths_sha256)
        for s in info.shards
    ]
    if on_corrupt == "skip":
        if not is_verified:
            files = in_threads(functools.partial(_without_damage, manifest), zip(files, info.shards, strict=True))
        files.sort(key=lambda file: file.is_damaged)  # damaged shards last, so that intact ones keep their order
        return Origin(where, wanted, "steps", manifest.compression, tuple(files), manifest, check)
    origin = Origin(where, wanted, "steps", manifest.compression, tuple(files), manifest, check, info, most)
    if check == "full" or (check == "manifest" and manifest.url is None and not origin.is_large):
        for file, shard in zip(files, info.shards, strict=True):
            check_size(file.path, shard.bytes, manifest.path)
            if check == "full":
                check_walk(file.path, manifest.compression, shard.records, manifest.path)
                RecordReader(file.path, manifest.compression).read_all()
                check_digest(manifest, (info.name, shard))
    return origin


def check_digest(manifest: Manifest, job: tuple[str, ShardInfo]) -> None:
    """Raise `ShardReadError` if a shard is intact, but is not the one that was written.

    Damage is not reported here, because it shows when the shard is read. For a dataset at a URL, nothing is left to
    check, because `Manifest.fetch` compares the digests.
    """
    path = manifest.shard_path(*job)
    if manifest.url is None and not has_digest(path, job[1].sha256) and is_intact(path, manifest.compression):
        raise ShardReadError(f"{path}: {REPLACED}; {advice(manifest.where)}", path=path)


def _split_directory(manifest: Manifest, split: SplitInfo) -> Path:
    """Check the directory of a split, and return its path.

    Raises:
        ManifestError: the directory, or a shard in it, is a link that leaves the dataset, a pipe or a device.
    """
    directory = inside(manifest.path, split.name)
    if directory.is_dir():
        with os.scandir(directory) as entries:
            is_plain = all(entry.is_file(follow_symlinks=False) for entry in entries)
        for shard in () if is_plain else split.shards:
            for file in shard.files(split.name):
                inside(manifest.path, file.name)
    return directory


def _without_damage(manifest: Manifest, pair: tuple[ShardFile, ShardInfo]) -> ShardFile:
    """Return the shard itself if it is intact, or else a copy that contains only its intact records.

    A shard at a URL is downloaded first.
    """
    file, shard = pair
    try:
        manifest.fetch([(file.directory.name, shard)], verify=True)
    except ShardReadError:
        store, directory = Place.of(manifest.url or ""), scratch()
        with contextlib.suppress(ShardReadError):  # the object is missing, was replaced, or cannot be fetched
            for name in (shard.name, "again"):
                store.download(f"{file.directory.name}/{shard.name}", directory / name)
            if sha256(directory / shard.name) == sha256(directory / "again"):  # otherwise the connection is at fault
                with contextlib.suppress(ShardReadError):  # lengths are computed again
                    store.download(f"{file.directory.name}/{shard.lengths_name}", directory / shard.lengths_name)
                return _copy_if_damaged(attrs.evolve(file, directory=directory), shard, manifest)
        raise
    return _copy_if_damaged(file, shard, manifest)


def _copy_if_damaged(file: ShardFile, shard: ShardInfo, manifest: Manifest) -> ShardFile:
    schema, is_unique = manifest.schema, manifest.schema.key_field is not None
    check_size(file.path, None, manifest.path)
    copy = without_damage(file.path, manifest.compression, schema=schema, shard=shard, is_unique=is_unique)
    if copy is None:
        return file
    path, records = copy
    return attrs.evolve(
        file,
        directory=path.parent,
        name=path.name,
        lengths_name=lengths_of_copy(path).name,
        lengths_sha256=None,  # the copy has its own lengths file, without a digest in the manifest
        records=records,
        bytes=path.stat().st_size,
        step=1,  # positions of its records are unknown
        is_damaged=True,
    )


def _resolve_bare(
    path: Any, schema: object, *, wanted: Compression, layout: str, check: Check, on_corrupt: OnCorrupt
) -> Origin:
    paths = files_named(path)
    if schema is None:
        raise OptionError(f"{paths[0]} is a bare shard: pass schema= with the class of its records")
    compression = common_compression(paths, wanted, on_corrupt)
    target = Schema.of(schema)
    start, files, is_unique = 0, [], target.key_field is not None
    for source in paths:
        copy = without_damage(source, compression, is_unique=is_unique) if on_corrupt == "skip" else None
        shard = source if copy is None else copy[0]
        records = -1
        if check == "manifest":
            records = count_records(shard, compression)
        elif check == "full":
            check_walk(shard, compression, -1, shard)
            records = RecordReader(shard, compression).read_all()
        is_damaged, size = copy is not None, shard.stat().st_size
        files.append(ShardFile(shard.parent, shard.name, None, records, size, start, is_damaged=is_damaged))
        start += max(records, 0)
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    samples = next(filter(None, (peek(file.path, compression, PEEKED) for file in files)), [])
    detected: Any = layout
    if layout == "auto":
        detected = detect_layout(samples, target, where) if samples else "steps"
    elif samples:
        check_layout(samples, target, detected, where)
    return Origin(where, target, detected, compression, tuple(files))


def common_compression(paths: Sequence[Path], wanted: Compression, on_corrupt: OnCorrupt = "error") -> Compression:
    """Detect the compression that shards have in common.

    With `on_corrupt="skip"`, shards whose first bytes are damaged are ignored.

    Raises:
        ShardReadError: the shards differ in compression, do not have the requested compression, or cannot be read.
    """
    kinds = {}
    for path in paths:
        try:
            kinds[path] = detect_compression(path)
            is_zlib = kinds[path] is None and is_packed_with_zlib(path)
        except ShardReadError:
            if on_corrupt == "skip":
                continue
            raise
        if is_zlib:
            hint = "copy its records to a new file: `tf.data.TFRecordDataset(path, 'ZLIB')` reads them"
            raise ShardReadError(f"{path}: expected a plain file or GZIP, got ZLIB; {hint}", path=path)
    first = next(iter(kinds.values()), None) if wanted is None else wanted
    why, advised = "as asked for", "leave `compression` out to detect it"
    if wanted is None:
        why, advised = f"as {paths[0]} has", "read the two kinds apart"
    for path, kind in kinds.items():
        if kind != first:
            text = f"{path}: expected compression {first!r}, {why}, got a file with {kind!r}; {advised}"
            raise ShardReadError(text, path=path)
    return first
