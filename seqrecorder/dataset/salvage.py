"""Salvage of damaged datasets and TFRecord files: copy the intact records elsewhere, and report the losses.

The search for the intact records of a shard is in `damaged_shards`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.dataset.append_and_overwrite import clean_destination, publish, publish_files
from seqrecorder.dataset.damaged_shards import REPLACED, recover_shard
from seqrecorder.dataset.manifest import (
    Manifest,
    ShardInfo,
    SplitInfo,
    bins_text,
    dataset_at,
    histogram,
    read_manifest,
    shards_of,
)
from seqrecorder.errors import (
    DatasetError,
    DatasetExistsError,
    DatasetNotFoundError,
    ManifestError,
    OptionError,
    ShardReadError,
)
from seqrecorder.schema.display import cut, html_table, number_of
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.files import (
    ASSETS,
    MANIFEST,
    UNSUPPORTED,
    check_compression,
    check_names,
    faults_around,
    files_named,
    generation_of,
    has_digest,
    inside,
    is_url,
    local_path,
    sha256,
    sync_directory,
    sync_file,
    writing,
)
from seqrecorder.storage.locks import is_at
from seqrecorder.storage.processes_and_signals import ahead, cleanup_when_terminated
from seqrecorder.storage.publish import Staging
from seqrecorder.storage.tfrecord import UNKNOWN, Loss, detect_compression

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from seqrecorder.codec.layouts import Layout
    from seqrecorder.storage.files import Compression


@attrs.frozen
class SalvagedShard:
    """Result of salvaging one shard.

    Attributes:
        path: path of the damaged shard relative to the dataset; for other files, the path that the caller passed.
        records: number of recovered records.
        expected: number of records according to the manifest; -1 if unknown.
        losses: ranges of bytes without intact records, in file order; empty if nothing was lost.
    """

    path: str
    records: int
    expected: int
    losses: tuple[Loss, ...]

    @property
    def lost(self) -> int:
        """Number of lost records, or -1 if unknown."""
        if self.expected != UNKNOWN:
            return max(0, self.expected - self.records)
        counts = [loss.records for loss in self.losses]
        return UNKNOWN if UNKNOWN in counts else sum(counts)


@attrs.frozen(repr=False)
class Salvage:
    """Result of a salvage: the recovered records and the losses.

    Attributes:
        path: path of the damaged dataset or files.
        destination: path of the new dataset or file with the recovered records.
        shards: results for the shards, with their losses.
        problems: descriptions of files other than shards that could not be recovered, and of replaced shards, whose
            records were copied although they are not those that were written.
    """

    path: str
    destination: str
    shards: tuple[SalvagedShard, ...]
    problems: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lost = "an unknown number" if self.lost == UNKNOWN else f"{self.lost:,}"
        facts = f"{number_of(self.records, 'record')} recovered, {lost} lost"
        more = "".join(f"; {number_of(len(self.problems), 'further problem')}" for _ in self.problems[:1])
        return f"<Salvage of {cut(self.path, 100)!r} to {cut(self.destination, 100)!r}: {facts}{more}>"

    def _repr_html_(self) -> str:
        shards = [(each.path, each.records, "?" if each.lost == UNKNOWN else each.lost) for each in self.shards]
        rows = [*shards, *((problem, "", "") for problem in self.problems)]
        return html_table(repr(self)[1:-1], ("shard", "recovered", "lost"), rows)

    @property
    def records(self) -> int:
        """Number of recovered records."""
        return sum(shard.records for shard in self.shards)

    @property
    def lost(self) -> int:
        """Number of lost records, or -1 if unknown."""
        counts = [shard.lost for shard in self.shards]
        return UNKNOWN if UNKNOWN in counts else sum(counts)

    @property
    def lost_bytes(self) -> int:
        """Number of bytes in the ranges without intact records.

        In GZIP shards, decompressed bytes are counted. For a missing shard, the recorded size of its file is counted.
        """
        return sum(loss.stop - loss.start for shard in self.shards for loss in shard.losses)

    @property
    def complete(self) -> bool:
        """True if nothing was lost."""
        return self.lost == 0 and not self.problems and not any(shard.losses for shard in self.shards)


_PATTERN = "*.tfrecord"
_NO_LINKS = UNSUPPORTED | {errno.EPERM, errno.EACCES, errno.EMLINK, errno.EXDEV}
"""Errors of file systems that have no hard links."""


def salvage(damaged: Any, destination: Any, *, schema: object = None, compression: str | None = None) -> Salvage:
    """Copy the intact records of damaged files to a new dataset or file, and report the losses.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> directory = Path(tempfile.mkdtemp())
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4]), Sentence([5, 6])], directory / "corpus")
    >>> shard = next((directory / "corpus").rglob("*.tfrecord"))
    >>> data = bytearray(shard.read_bytes())
    >>> data[30] ^= 255
    >>> _ = shard.write_bytes(data)
    >>> result = sr.salvage(directory / "corpus", directory / "rescued")
    >>> result.records, result.lost, str(result.shards[0].losses[0]).split(":")[0]
    (2, 1, 'bytes 0 to 48 (record 0)')
    >>> [record.ids.tolist() for record in sr.read_records(directory / "rescued")]
    [[4], [5, 6]]

    The damaged files are not changed. A record is intact if the CRC of its data is valid, even if its header is lost.
    After damage, the search continues at the next header with a valid CRC. In a GZIP shard, all records before the
    damage are recovered, and few or none after it. A shard that has been renamed is found by its digest.

    Args:
        damaged: directory of a dataset, or TFRecord files (a path, a glob or a list).
        destination: for a dataset, directory of the new dataset, which must be missing or empty. For one file, path of
            the new file, or an existing directory. For several files, a directory, in which they keep their names.
        schema: record class. A dataset needs it only if its manifest is lost. For files, it is optional; if given,
            records that cannot be read as the class count as lost. The layout of sequences is detected, as in `read`.
        compression: compression of TFRecord files, None or `"GZIP"`; needed only if the first bytes are damaged.

    Returns:
        The number of recovered records, and the ranges of bytes and records that were lost. The new dataset has the
        same splits, shards, metadata and assets, and the `examples.csv` files of splits that lost nothing.

    Raises:
        DatasetNotFoundError: there is nothing to salvage.
        DatasetExistsError: the destination exists and is not empty.
        ManifestError: the manifest is lost, and `schema` is None.
        OptionError: the source is a URL. Copy its files first, but not with `pull`, which refuses damaged ones.
        ShardWriteError: the disk is full or failed; nothing is left at the destination.
    """
    kind = check_compression(compression)
    if is_url(damaged):
        raise OptionError(f"salvage: {damaged} is a URL; copy its files by fsspec's get(url, 'copy', recursive=True)")
    with cleanup_when_terminated():
        where = local_path(destination)
        clean_destination(where)
        if isinstance(damaged, (str, os.PathLike)):
            directory = dataset_at(local_path(damaged))
            if directory.is_dir():
                return _salvage_dataset(directory, where, schema)
        sources = _sources(damaged)
        target = Schema.of(schema) if schema is not None else None
        if isinstance(damaged, (str, os.PathLike)) and local_path(damaged).is_file():
            return _salvage_file(sources[0], where / sources[0].name if where.is_dir() else where, target, kind)
        return _salvage_files(damaged, sources, where, target, kind)


def _salvage_dataset(directory: Path, destination: Path, schema: object) -> Salvage:
    problems: list[str] = []
    try:
        manifest = read_manifest(directory)
    except (ManifestError, DatasetNotFoundError) as error:
        if schema is None:
            text = f"{error}; pass schema= with the class of the records to salvage the shards without it"
            raise ManifestError(text, path=directory) from error
        manifest = _manifest_by_names(directory, Schema.of(schema))
        problems.append(f"{MANIFEST}: rebuilt, since the old one cannot be read")
    shards: list[SalvagedShard] = []
    if directory.resolve() in destination.resolve().parents:
        raise OptionError(f"destination {destination} is inside {directory}, which a salvage does not change")
    with Staging(destination, overwrite=None) as staging:
        for split in manifest.splits.values():
            (staging.path / split.name).mkdir()
        infos: dict[str, list[ShardInfo]] = {name: [] for name in manifest.splits}
        for (name, shard), intact in ahead(functools.partial(_is_intact, manifest), shards_of(manifest)):
            done, info = _salvage_shard(manifest, (name, shard), staging.path, infos[name], intact, problems=problems)
            shards.append(done)
            infos[name].append(info)
        splits = {name: SplitInfo(name, tuple(shard_infos)) for name, shard_infos in infos.items()}
        problems += _copy_listings(directory, staging.path, shards, problems)
        assets = dict(_copy_assets(manifest, staging.path, problems))
        publish(staging, attrs.evolve(manifest, path=destination, splits=splits, asset_infos=assets))
    return Salvage(str(directory), str(destination), tuple(shards), tuple(problems))


def _is_intact(manifest: Manifest, job: tuple[str, ShardInfo]) -> bool:
    """Check whether a shard and its lengths file are intact.

    The digests of both files must match the manifest, and the lengths file must contain the lengths of every record. A
    shard with images never counts as intact: `write` does not decode images, so they may be broken even if the digests
    match.
    """
    split, shard = job
    with contextlib.suppress(DatasetError):
        manifest.lengths(split, shard)
        is_same = sha256(manifest.shard_path(split, shard)) == shard.sha256
        return is_same and not any(field.is_image for field in manifest.schema.fields)
    return False


def _salvage_shard(
    manifest: Manifest,
    job: tuple[str, ShardInfo],
    directory: Path,
    before: Sequence[ShardInfo],
    intact: Future[bool],
    *,
    problems: list[str],
) -> tuple[SalvagedShard, ShardInfo]:
    """Salvage one shard of a dataset.

    If another file has replaced the shard, a message that says so is added to `problems`.

    Returns:
        The result, and the entry of the recovered shard for the manifest.
    """
    split, shard = job
    target, source, gone = directory / split / shard.name, Path(os.devnull), ""
    try:
        path = manifest.shard_path(split, shard)
        source, gone = (path, "") if path.exists() else (source, "the file is missing")
    except ManifestError as error:
        gone = error.message
    lengths_target = target.with_name(shard.lengths_name)
    expected = shard.records if shard.sha256 else UNKNOWN  # a manifest that was rebuilt has no digests
    if intact.result():
        with writing("copy shard", target), faults_around("write", target):
            shutil.copyfile(source, target)
            shutil.copyfile(source.with_name(shard.lengths_name), lengths_target)
        return SalvagedShard(f"{split}/{shard.name}", shard.records, expected, ()), _shift_start(shard, before)
    paths = [path for path in manifest.path.glob(f"*/{_PATTERN}") if path.is_file()]
    misnamed = [path for path in paths if path.stat().st_size == shard.bytes and has_digest(path, shard.sha256)]
    source, gone = (misnamed[0], "") if misnamed else (source, gone)
    recovered = recover_shard(
        source,
        target,
        lengths_target,
        compression=manifest.compression,
        schema=manifest.schema,
        records=expected,
        is_unique=manifest.schema.key_field is not None,
    )
    losses = (Loss(0, shard.bytes, 0, expected, gone),) if gone else recovered.losses
    if shard.sha256 and not losses and not has_digest(source, shard.sha256):
        problems.append(f"{split}/{shard.name}: {REPLACED}; they were copied")
    steps = recovered.lengths[:, 0]
    info = attrs.evolve(
        _shift_start(shard, before),
        records=recovered.records,
        steps=int(steps.sum()),
        bytes=target.stat().st_size,
        sha256=sha256(target),
        lengths_sha256=sha256(lengths_target),
        bins=bins_text(histogram(steps)),
    )
    return SalvagedShard(f"{split}/{shard.name}", recovered.records, expected, losses), info


def _shift_start(shard: ShardInfo, before: Sequence[ShardInfo]) -> ShardInfo:
    """Set the position of a shard's first record to follow the recovered records of the previous shard.

    The first shard of a split is unchanged, and so are shards that got records round-robin.
    """
    if shard.step > 1 or not before:
        return shard
    return attrs.evolve(shard, start=before[-1].start + before[-1].records)


def _copy_listings(
    directory: Path, staging: Path, shards: Sequence[SalvagedShard], problems: Sequence[str]
) -> Iterator[str]:
    """Copy the `examples.csv` files of the splits that lost no records.

    For each file that is not copied, this yields the reason.
    """
    damaged = {Path(shard.path).parent.name for shard in shards if shard.losses or shard.lost}
    damaged |= {problem.partition("/")[0] for problem in problems}  # splits with replaced shards
    for split in dict.fromkeys(Path(shard.path).parent.name for shard in shards):
        for listing in sorted((directory / split).glob("examples*.csv")):
            relative = f"{split}/{listing.name}"
            if generation_of(split, listing.name) is None:
                continue
            if split in damaged:
                yield f"{relative}: left out, since it describes records some of which are lost"
                continue
            try:
                file = inside(directory, relative).open("rb")
            except (ManifestError, OSError) as error:
                yield f"{relative}: {error}"
                continue
            target = staging / relative
            with file, writing("copy listing", target), target.open("wb") as copy:
                shutil.copyfileobj(file, copy)


def _manifest_by_names(directory: Path, schema: Schema) -> Manifest:
    """Build a manifest from nothing but the names of directories and files."""
    splits: dict[str, SplitInfo] = {}
    compression: Compression = None
    for inner in sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith(".")):
        paths = sorted(inner.glob(_PATTERN))
        if not paths:
            continue
        check_names([inner.name], "split")
        # All shards of a dataset are compressed alike, but a GZIP file without its first bytes looks uncompressed.
        compression = "GZIP" if "GZIP" in map(_compression_of, paths) else compression
        infos = [ShardInfo(path.name, 0, 0, 0, "", "", "", 0, 1) for path in paths]
        splits[inner.name] = SplitInfo(inner.name, tuple(infos))
    if not splits:
        raise DatasetNotFoundError(f"{directory} has no directory with {_PATTERN} files", path=directory)
    newest = max(generation_of(name, info.name) or 0 for name, split in splits.items() for info in split.shards)
    return Manifest(directory, schema, splits, compression=compression, generation=newest)


def _copy_assets(manifest: Manifest, staging: Path, problems: list[str]) -> Iterator[tuple[str, Any]]:
    for name, info in manifest.asset_infos.items():
        target = staging / info.relative(name)
        try:
            source = manifest.assets[name]
            if sha256(source) != info.sha256:
                problems.append(f"{ASSETS}/{name}: its SHA-256 is not the manifest's, so it was left out")
                continue
        except DatasetError as error:
            problems.append(f"{ASSETS}/{name}: {error}")
            continue
        with writing("write asset", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        yield name, info


def _sources(damaged: Any) -> list[Path]:
    paths = files_named(damaged)
    names = [path.name for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OptionError(f"two files are called {twice[0]}: salvage them to two directories")
    return paths


def _salvage_file(source: Path, destination: Path, schema: Schema | None, kind: Compression) -> Salvage:
    if os.path.lexists(destination):
        raise DatasetExistsError(f"destination {destination} exists already; choose another", path=destination)
    parent = destination.resolve().parent
    with writing("create the directory of", destination):
        parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{destination.name[:100]}.incomplete-"
        scratch = tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
    with scratch as directory:
        shard, _ = _recover_bare(source, Path(directory, destination.name), schema, kind)
        staged = Path(directory, destination.name)
        sync_file(staged)
        with writing("publish", destination):
            ours = staged.stat()
            try:
                with faults_around("rename", destination):
                    _move_to_new(staged, destination)
                sync_directory(parent)
            except BaseException as failure:
                if is_at(ours, destination):  # after an error, no file may remain
                    with contextlib.suppress(OSError):
                        destination.unlink()
                elif isinstance(failure, FileExistsError):
                    text = f"destination {destination} was created meanwhile by another process"
                    raise DatasetExistsError(text, path=destination) from None
                raise
    return Salvage(str(source), str(destination), (shard,))


def _move_to_new(staged: Path, destination: Path) -> None:
    """Move a file to a new name; raise an error if the name is taken."""
    try:
        os.link(staged, destination)  # unlike a rename, a link cannot replace a file
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(destination, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        try:
            staged.replace(destination)
        except BaseException:
            destination.unlink()
            raise


def _salvage_files(
    damaged: Any, sources: Sequence[Path], destination: Path, schema: Schema | None, kind: Compression
) -> Salvage:
    with Staging(destination, overwrite=None) as staging:
        shards, layout = [], None
        for source in sources:
            shard, layout = _recover_bare(source, staging.path / source.name, schema, kind, layout)
            shards.append(shard)
        publish_files(staging)
    label = str(damaged) if isinstance(damaged, (str, os.PathLike)) else ", ".join(map(str, damaged))
    return Salvage(label, str(destination), tuple(shards))


def _recover_bare(
    source: Path, target: Path, schema: Schema | None, kind: Compression, layout: Layout | None = None
) -> tuple[SalvagedShard, Layout | None]:
    """Salvage one TFRecord file that does not belong to a dataset.

    Returns:
        The result, and the layout of the records, which is to be used for the next file as well.
    """
    lengths, kind = target.with_name(f"{target.name}.lengths"), kind or _compression_of(source)
    is_unique = schema is not None and schema.key_field is not None
    done = recover_shard(source, target, lengths, compression=kind, schema=schema, layout=layout, is_unique=is_unique)
    lengths.unlink()  # only datasets have lengths files
    return SalvagedShard(str(source), done.records, UNKNOWN, done.losses), done.layout


def _compression_of(path: Path) -> Compression:
    try:
        return detect_compression(path)
    except ShardReadError:
        return None  # a file without its first bytes cannot be decompressed
