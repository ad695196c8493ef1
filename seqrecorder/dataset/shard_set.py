"""What is to be read: a dataset's split, or bare shards that others wrote; found, checked, and described.

Everything that can be wrong with files is looked for here, before a `tf.data` pipeline hides their names.
"""

from __future__ import annotations

import abc
import glob
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.message_layout import check_layout, detect_layout
from seqrecorder.codec.parser import Parser
from seqrecorder.dataset.manifest import Manifest, dataset_of, read_manifest
from seqrecorder.dataset.recovery.readable_copy import Expected, without_damage
from seqrecorder.errors import OptionError, ShardReadError
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.digests import sha256
from seqrecorder.storage.names import inside
from seqrecorder.storage.paths import files_named, local_path
from seqrecorder.storage.shard import RecordReader, check_lengths, peek, read_lengths
from seqrecorder.storage.tfrecord.check import advice, check_frames, check_size, check_walk, count_records
from seqrecorder.storage.tfrecord.format import check_compression, detect_compression, is_packed_with_zlib
from seqrecorder.storage.tfrecord.scan import UNKNOWN

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.codec.parsing_spec import Layout
    from seqrecorder.dataset.manifest import ShardInfo
    from seqrecorder.storage.tfrecord.format import Compression

Check = Literal["manifest", "full", "none"]
OnCorrupt = Literal["error", "skip"]
Paths = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
LAYOUTS = ("auto", "steps", "packed", "example")

_PEEKED = 8
_UNEQUAL = 0.1  # the difference between shares, over the mean, at which files are rather read by several readers
_WINDOW_BYTES = 16 << 20
_WINDOW_RECORDS = 1024


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
        kept: of the copy of a damaged shard, which of the shard's records it holds, ascending; None for all.
        is_numbered: whether it is known where in the written order its records stand.
        is_ordered: whether it is known that they come in their written order.
    """

    path: Path
    lengths_path: Path | None
    records: int
    bytes: int
    start: int
    step: int = 1
    kept: NDArray[np.int64] | None = attrs.field(default=None, eq=False)
    is_numbered: bool = True
    lengths_sha256: str | None = None
    is_ordered: bool = True


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
    """

    where: str
    schema: Schema
    layout: Layout
    compression: Compression
    files: tuple[ShardFile, ...]
    manifest: Manifest | None = None
    check: Check = "manifest"

    @property
    def records(self) -> int:
        """Number of records, -1 where they were not counted."""
        counts = [file.records for file in self.files]
        return -1 if -1 in counts else sum(counts)

    @property
    def record(self) -> str:
        """What errors call a record whose place is not known."""
        if self.manifest is not None:
            return f"a record of {self.where} (`seqrecorder verify {self.manifest.path}` says which)"
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
        return sum(file.bytes for file in self.files) // records if records > 0 else 1 << 10

    @property
    def longest(self) -> int | None:
        """About the most steps of a record in the first alignment group; None where that takes parsing to know."""
        if self.manifest is None:
            return None
        shards = (shard for split in self.manifest.splits.values() for shard in split.shards)
        return max((length for shard in shards for length, _ in shard.histogram), default=0)

    def window(self, wanted: int = _WINDOW_RECORDS) -> int:
        """Return how many records to hold at once: as many as wanted, but no more than about 16 MiB of them."""
        return max(1, min(wanted, _WINDOW_BYTES // max(1, self.mean_bytes)))

    def take_shard(self, shard: tuple[int, int] | None) -> tuple[Origin, tuple[int, int] | None]:
        """Return the files of one reader of several, and the records that remain to be dealt, if any.

        Files and readers are put into as many groups as leave nearly equal shares, and the records of a group's files
        are dealt to its readers. Where each reader is a group of its own, it has whole files, and reads no other's.
        """
        if shard is None:
            return self, None
        index, count = check_shard(shard)
        if self.records >= 0:
            groups = _groups_of_files([file.records for file in self.files], count)
        elif len(self.files) >= count:
            groups = count
        else:
            raise OptionError(
                f"shard={shard}: {len(self.files)} files for {count} readers need single records dealt, whose number "
                "check='none' leaves unknown; leave `check` out"
            )
        group = index % groups
        readers = len(range(group, count, groups))
        return attrs.evolve(self, files=self.files[group::groups]), (index // groups, readers) if readers > 1 else None

    def check_frames(self, file: ShardFile) -> None:
        """Raise `ShardReadError` where the frames of a file would lead TensorFlow out of it.

        Nothing is looked at under check="none". Nor are bare shards, over whose frames a walk has gone already.
        """
        if self.check != "none" and self.manifest is not None:
            check_frames(file.path, self.compression, self.manifest.path)

    def check_lengths(self) -> None:
        """Raise `ShardReadError` unless the lengths of records are those that were written; not under check="none"."""
        for file in self.files:
            if self.check != "none" and file.lengths_path is not None and file.lengths_sha256 is not None:
                check_lengths(file.lengths_path, file.lengths_sha256)

    def lengths(self, group: str) -> NDArray[np.int64]:
        """Return the length of every record in an alignment group, file by file.

        They come from the lengths files where there are some, else from parsing every record once.
        """
        parts = [self.file_lengths(file, group) for file in self.files]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def file_lengths(self, file: ShardFile, group: str) -> NDArray[np.int64]:
        """Return the length of every record of one file in an alignment group."""
        groups = self.manifest.schema.groups if self.manifest is not None else ()
        if file.lengths_path is not None and group in groups:
            digest = None if self.check == "none" else file.lengths_sha256
            return read_lengths(file.lengths_path, len(groups), file.records, digest)[:, groups.index(group)]
        parser = Parser(self.schema, self.layout, where=self.record)
        parts = [parser.lengths(data, group).numpy() for data in RecordReader(file.path, self.compression, 256)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _groups_of_files(records: Sequence[int], readers: int) -> int:
    """Return into how many groups to put files and readers, each in turn, so that readers have nearly equal shares.

    The more groups, the fewer files are read by several readers.
    """
    for groups in range(min(readers, len(records)), 1, -1):
        dealt = [sum(records[group::groups]) / len(range(group, readers, groups)) for group in range(groups)]
        if max(dealt) - min(dealt) <= max(1, _UNEQUAL * sum(records) / readers):
            return groups
    return 1


def check_shard(shard: Any) -> tuple[int, int]:
    """Return `(index, count)`, or raise `OptionError`."""
    match shard:
        case [int() | np.integer() as index, int() | np.integer() as count] if 0 <= index < count:
            return int(index), int(count)
    raise OptionError(f"shard: expected (index, count) with 0 <= index < count, got {shard!r}")


class Selected(abc.ABC):
    """Records of a dataset that somebody selected, to be read wherever a path is."""

    @abc.abstractmethod
    def resolve(self, *, schema: object, check: Check, on_corrupt: OnCorrupt, lengths_only: bool) -> Origin:
        """Return what is to be read; takes and raises what the function `resolve` does."""


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
    """Find what is to be read and check that it can be.

    Args:
        path: a dataset's directory; a selection; or a shard, a glob of shards or a list of shards.
        split: of the dataset; None for its only one.
        schema: class or schema to read as; needed for bare shards.
        compression: of bare shards; None looks at their first bytes.
        layout: of bare shards.
        check: `manifest` trusts shards whose size is as the manifest says, but for the lengths of their frames, which
            `Origin.check_frames` follows when a file is opened, and for the files of lengths (`Origin.check_lengths`);
            and walks over the frames of bare ones. `full` reads all, whatever was found before. `none` looks at
            nothing.
        on_corrupt: `error`, or `skip` to read all of every shard and to leave out what is damaged.
        lengths_only: whether nothing but lengths is asked for; then the records of a selection are not copied.

    Raises:
        DatasetNotFoundError: there is nothing there.
        ShardReadError: a shard is missing, cut, of another size or compression.
        SchemaMismatchError: the data cannot be read as the schema.
        OptionError: arguments make no sense.
    """
    if check not in ("manifest", "full", "none"):
        raise OptionError(f"check: expected 'manifest', 'full' or 'none', got {check!r}")
    if on_corrupt not in ("error", "skip"):
        raise OptionError(f"on_corrupt: expected 'error' or 'skip', got {on_corrupt!r}")
    if layout not in LAYOUTS:
        raise OptionError(f"layout: expected one of {', '.join(LAYOUTS)}, got {layout!r}")
    wanted = check_compression(compression)
    if isinstance(path, Selected):
        if split is not None or compression is not None or layout not in ("auto", "steps"):
            raise OptionError(
                "a selection says itself what is read: leave split, compression and layout out, as in "
                "read(corpus['train'])"
            )
        return path.resolve(schema=schema, check=check, on_corrupt=on_corrupt, lengths_only=lengths_only)
    directory = _dataset_directory(path)
    if directory is None:
        if split is not None:
            raise OptionError(f"bare shards have no splits, got {split!r}; pass the paths alone")
        return _resolve_bare(path, schema, wanted=wanted, layout=layout, check=check, on_corrupt=on_corrupt)
    manifest = read_manifest(directory)
    if compression is not None and wanted != manifest.compression:
        raise OptionError(
            f"{directory}: compression is {manifest.compression!r}, as its manifest says, not {compression!r}"
        )
    if layout not in ("auto", "steps"):
        raise OptionError(f"{directory}: layout is for bare shards; what seqrecorder wrote is 'steps'")
    return resolve_dataset(manifest, split, schema, check, on_corrupt)


def _dataset_directory(path: Any) -> Path | None:
    if isinstance(path, Sequence) and not isinstance(path, str):
        return None
    candidate = dataset_of(local_path(path))
    if candidate.is_dir():
        return candidate
    if candidate.exists() or glob.has_magic(str(path)):
        return None
    return candidate  # reading its manifest says what is missing


def resolve_dataset(
    manifest: Manifest, split: str | None, schema: object, check: Check, on_corrupt: OnCorrupt
) -> Origin:
    """Find the shards of a split; takes and raises what `resolve` does."""
    info = manifest.split(split)
    where = f"{manifest.path}, split {info.name!r}"
    wanted = manifest.schema
    if schema is not None:
        wanted = Schema.of(schema)
        wanted.require_readable(manifest.schema, where)
        wanted = wanted.reading(manifest.schema)
    files = []
    for shard in info.shards:
        path = manifest.shard_path(info.name, shard)
        lengths_path = inside(manifest.path, f"{info.name}/{shard.lengths_name}")
        file = ShardFile(
            path,
            lengths_path,
            shard.records,
            shard.bytes,
            shard.start,
            shard.step,
            lengths_sha256=shard.lengths_sha256,
        )
        if on_corrupt == "skip":
            files.append(_without_damage(file, lengths_path, shard, manifest))
            continue
        files.append(file)
        if check != "none":
            check_size(path, shard.bytes, manifest.path)
        if check == "full":
            walk = check_walk(path, manifest.compression, shard.records, manifest.path)
            RecordReader(path, manifest.compression, walk.window).read_all()
            if sha256(path) != shard.sha256:
                raise ShardReadError(
                    f"{path}: all its records are whole, and its SHA-256 is not the manifest's, so they are not what "
                    f"was written; {advice(manifest.path)}",
                    path=path,
                )
    return Origin(where, wanted, "steps", manifest.compression, tuple(files), manifest, check)


def _without_damage(file: ShardFile, lengths_path: Path, shard: ShardInfo, manifest: Manifest) -> ShardFile:
    expected = Expected(shard.records, shard.bytes, shard.sha256, lengths_path, shard.lengths_sha256)
    copy = without_damage(file.path, manifest.compression, schema=manifest.schema, expected=expected)
    if copy is None:
        return file
    return attrs.evolve(
        file,
        path=copy.path,
        lengths_path=copy.lengths_path,
        lengths_sha256=None,  # they were worked out anew
        records=copy.records,
        bytes=copy.path.stat().st_size,
        kept=copy.positions,
        is_numbered=copy.positions is not None,
        is_ordered=copy.is_ordered,
    )


def _resolve_bare(
    path: Any, schema: object, *, wanted: Compression, layout: str, check: Check, on_corrupt: OnCorrupt
) -> Origin:
    paths = files_named(path)
    if schema is None:
        raise OptionError(f"{paths[0]} is a bare shard: pass schema= with the class that says what is in it")
    compression = common_compression(paths, wanted, on_corrupt)
    target = Schema.of(schema)
    start, files, is_numbered = 0, [], True
    for given in paths:
        copy = without_damage(given, compression) if on_corrupt == "skip" else None
        shard = given if copy is None else copy.path
        records = -1
        if check == "manifest":
            records = count_records(shard, compression)
        elif check == "full":
            walk = check_walk(shard, compression, -1, shard)
            RecordReader(shard, compression, walk.window).read_all()
            records = walk.lengths.size
        kept = None if copy is None else copy.positions
        numbered = is_numbered and (copy is None or kept is not None)
        files.append(ShardFile(shard, None, records, shard.stat().st_size, start, kept=kept, is_numbered=numbered))
        is_numbered &= copy is None or copy.stored != UNKNOWN
        start += max(records if copy is None else copy.stored, 0)
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    samples: list[bytes] = []
    for file in files:
        samples = peek(file.path, compression, _PEEKED)
        if samples:
            break
    found: Any = layout
    if samples and layout == "auto":
        found = detect_layout(samples, target, where)
    elif samples:
        check_layout(samples, target, found, where)
    elif layout == "auto":
        found = "steps"
    return Origin(where, target, found, compression, tuple(files))


def common_compression(paths: Sequence[Path], wanted: Compression, on_corrupt: OnCorrupt = "error") -> Compression:
    """Return the compression that all shards have; with `skip`, all of those whose first bytes can be read.

    Raises:
        ShardReadError: they have several, or not the one that is wanted; or one cannot be read.
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
            raise ShardReadError(
                f"{path}: it is packed with ZLIB, but only plain and GZIP files are read; make it a dataset: "
                f"seqrecorder convert {path} {path.name}.dataset",
                path=path,
            )
    first = next(iter(kinds.values()), None) if wanted is None else wanted
    for path, kind in kinds.items():
        if kind != first:
            raise ShardReadError(
                f"{path}: expected compression {first!r}"
                + (", as asked for" if wanted is not None else f", as {paths[0]} has")
                + f", got a file with {kind!r}; "
                + ("leave `compression` out to have it found" if wanted is not None else "read the two kinds apart"),
                path=path,
            )
    return first
