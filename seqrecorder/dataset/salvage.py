"""Salvaging: what is whole in a damaged dataset, or in TFRecord files of others, becomes a sound one elsewhere."""

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
import numpy as np

from seqrecorder.dataset.examples_csv import copy_listing
from seqrecorder.dataset.generations import clean_destination, publish, publish_files
from seqrecorder.dataset.manifest import Manifest, ShardInfo, SplitInfo, dataset_at, read_manifest, shards_of
from seqrecorder.dataset.recovery import recover_shard, written_lengths
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
    check_names,
    faults_around,
    files_named,
    generation_of,
    inside,
    local_path,
    sha256,
    shard_index,
    sync_directory,
    sync_file,
    writing,
)
from seqrecorder.storage.locks import is_at
from seqrecorder.storage.publish import Staging
from seqrecorder.storage.shard import histogram
from seqrecorder.storage.tfrecord import UNKNOWN, Loss, check_compression, detect_compression
from seqrecorder.storage.threads import ahead, cleanup_when_terminated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from seqrecorder.codec.layouts import Layout
    from seqrecorder.storage.tfrecord import Compression


@attrs.frozen
class SalvagedShard:
    """Result of the salvage of one shard.

    Attributes:
        path: of the damaged shard, relative to the dataset, or as it was given.
        records: how many records were recovered.
        expected: how many there should be by the manifest; -1 where nothing says so.
        losses: the ranges of bytes that held no whole record, in order; empty where nothing was lost.
    """

    path: str
    records: int
    expected: int
    losses: tuple[Loss, ...]

    @property
    def lost(self) -> int:
        """Number of records that were lost; -1 where that is not known."""
        if self.expected != UNKNOWN:
            return max(0, self.expected - self.records)
        counts = [loss.records for loss in self.losses]
        return UNKNOWN if UNKNOWN in counts else sum(counts)


@attrs.frozen(repr=False)
class Salvage:
    """Result of a salvage: the recovered records and the losses.

    Attributes:
        path: what was damaged.
        destination: where the recovered records are.
        shards: each shard, with what was lost of it.
        problems: what else could not be recovered, a line each.
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
        rows: list[tuple[object, ...]] = [
            (shard.path, shard.records, "?" if shard.lost == UNKNOWN else shard.lost) for shard in self.shards
        ]
        rows += [(problem, "", "") for problem in self.problems]
        return html_table(repr(self)[1:-1], ("shard", "recovered", "lost"), rows)

    @property
    def records(self) -> int:
        """Number of records that were recovered."""
        return sum(shard.records for shard in self.shards)

    @property
    def lost(self) -> int:
        """Number of records that were lost; -1 where that is not known."""
        counts = [shard.lost for shard in self.shards]
        return UNKNOWN if UNKNOWN in counts else sum(counts)

    @property
    def lost_bytes(self) -> int:
        """Number of bytes, uncompressed, that held no whole record."""
        return sum(loss.stop - loss.start for shard in self.shards for loss in shard.losses)

    @property
    def complete(self) -> bool:
        """Check whether nothing was lost."""
        return self.lost == 0 and not self.problems and not any(shard.losses for shard in self.shards)


_PATTERN = "*.tfrecord"
_NO_LINKS = UNSUPPORTED | {errno.EPERM, errno.EACCES, errno.EMLINK, errno.EXDEV}
"""Errors of file systems that have no hard links."""


def salvage(damaged: Any, destination: Any, *, schema: object = None, compression: str | None = None) -> Salvage:
    """Write every record that is whole to a new place, and report what was lost; the damaged files are only read.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4]), Sentence([5, 6])], place / "corpus")
    >>> shard = next((place / "corpus").rglob("*.tfrecord"))
    >>> data = bytearray(shard.read_bytes())
    >>> data[30] ^= 255
    >>> _ = shard.write_bytes(data)
    >>> found = sr.salvage(place / "corpus", place / "rescued")
    >>> found.records, found.lost, str(found.shards[0].losses[0]).split(":")[0]
    (2, 1, 'bytes 0 to 48 (record 0)')
    >>> [record.ids.tolist() for record in sr.read_records(place / "rescued")]
    [[4], [5, 6]]

    A record is whole when the CRC of its data says so, even where its header is lost; behind a hole the search goes on
    for the next header that its own CRC vouches for. In a GZIP shard all is lost from the first damage on.

    Args:
        damaged: a dataset's directory; or TFRecord files: a path, a glob, or a list.
        destination: of a dataset, the directory of the new one, which must not exist or be empty. Of one file, the new
            file, or an existing directory to put it in; of several, a directory, where each keeps its name.
        schema: the record class. A dataset has its own, and needs this only where its manifest is lost. For other files
            it may be left out; with it, records that cannot be read as the class count as lost. How sequences lie in
            their messages is detected, as by `read`.
        compression: of TFRecord files, None or `"GZIP"`; found by itself unless the first bytes are damaged.

    Returns:
        What was recovered, and the byte ranges and records that were lost. The new dataset has the splits, the shards,
        the metadata and the assets of the old one, and of each `examples.csv` the lines of the records that are left.

    Raises:
        DatasetNotFoundError: there is nothing to salvage.
        DatasetExistsError: something stands at the destination.
        ManifestError: the manifest is lost, and no `schema` says what the shards hold.
        ShardWriteError: the disk is full, or failed; nothing is left at the destination.
    """
    kind = check_compression(compression)
    with cleanup_when_terminated():
        where = local_path(destination)
        clean_destination(where)
        if isinstance(damaged, (str, os.PathLike)):
            directory = dataset_at(local_path(damaged))
            if directory.is_dir():
                return _salvage_dataset(directory, where, schema)
        sources = _sources(damaged)
        target = Schema.of(schema) if schema is not None else None
        single = isinstance(damaged, (str, os.PathLike)) and local_path(damaged).is_file()
        if single:
            return _salvage_file(sources[0], where / sources[0].name if where.is_dir() else where, target, kind)
        return _salvage_files(damaged, sources, where, target, kind)


def _salvage_dataset(directory: Path, destination: Path, schema: object) -> Salvage:
    problems: list[str] = []
    try:
        manifest = read_manifest(directory)
    except (ManifestError, DatasetNotFoundError) as error:
        if schema is None:
            raise ManifestError(
                f"{error}; pass schema= with the class of the records to salvage the shards without it", path=directory
            ) from error
        manifest = _manifest_by_names(directory, Schema.of(schema))
        problems.append(f"{MANIFEST}: made anew, since the old one cannot be read")
    known = problems == []
    shards: list[SalvagedShard] = []
    kept: dict[str, dict[str, NDArray[np.int64] | None]] = {}
    if directory.resolve() in destination.resolve().parents:
        raise OptionError(f"destination {destination} is inside {directory}, which a salvage does not change")
    with Staging(destination) as staging:
        for split in manifest.splits.values():
            (staging.path / split.name).mkdir()
        infos: dict[str, list[ShardInfo]] = {name: [] for name in manifest.splits}
        for (name, shard), whole in ahead(functools.partial(_is_whole, manifest), shards_of(manifest)):
            done, info, left = _salvage_shard(manifest, (name, shard), staging.path, infos[name], whole, known=known)
            shards.append(done)
            infos[name].append(info)
            kept.setdefault(name, {})[shard.name] = left
        splits = {name: SplitInfo(name, tuple(found)) for name, found in infos.items()}
        problems += _listings(directory, staging.path, kept)
        assets = dict(_assets(manifest, staging.path, problems))
        salvaged = attrs.evolve(manifest, path=destination, splits=splits, asset_infos=assets)
        publish(staging, salvaged)
    return Salvage(str(directory), str(destination), tuple(shards), tuple(problems))


def _is_whole(manifest: Manifest, job: tuple[str, ShardInfo]) -> bool:
    """Check whether a shard has the bytes that were written."""
    try:
        return bool(job[1].sha256) and sha256(manifest.shard_path(*job)) == job[1].sha256
    except DatasetError:
        return False


def _salvage_shard(
    manifest: Manifest,
    job: tuple[str, ShardInfo],
    directory: Path,
    before: Sequence[ShardInfo],
    whole: Future[bool],
    *,
    known: bool,
) -> tuple[SalvagedShard, ShardInfo, NDArray[np.int64] | None]:
    """Salvage one shard, and return also which of its records were recovered, None where that is unknown."""
    split, shard = job
    target, source, gone = directory / split / shard.name, Path(os.devnull), ""
    try:
        path = manifest.shard_path(split, shard)
        source, gone = (path, "") if path.exists() else (source, "the file is missing")
    except ManifestError as error:
        gone = error.message
    lengths_target = target.with_name(shard.lengths_name)
    expected = shard.records if known else UNKNOWN
    written = written_lengths(source, shard, max(1, len(manifest.schema.groups))) if known else None
    if written is not None and whole.result():
        with writing("copy shard", target), faults_around("write", target):
            shutil.copyfile(source, target)
            shutil.copyfile(source.with_name(shard.lengths_name), lengths_target)
        done = SalvagedShard(f"{split}/{shard.name}", shard.records, expected, ())
        return done, _placed(shard, before), np.arange(shard.records)
    recovered = recover_shard(
        source,
        target,
        lengths_target,
        compression=manifest.compression,
        schema=manifest.schema,
        records=expected,
        written=written,
        is_unique=manifest.schema.key_field is not None,
    )
    losses, left = recovered.losses, recovered.positions
    if gone:
        losses, left = (Loss(0, shard.bytes, 0, expected, gone),), np.empty(0, np.int64)
    steps = recovered.lengths[:, 0]
    info = attrs.evolve(
        _placed(shard, before),
        records=recovered.records,
        steps=int(steps.sum()),
        bytes=target.stat().st_size,
        sha256=sha256(target),
        lengths_sha256=sha256(lengths_target),
        histogram=tuple(histogram(steps)),
    )
    return SalvagedShard(f"{split}/{shard.name}", recovered.records, expected, losses), info, left


def _placed(shard: ShardInfo, before: Sequence[ShardInfo]) -> ShardInfo:
    """Return a shard with the position that its first record has behind the shards before it."""
    if shard.step > 1 or not before:
        return shard
    return attrs.evolve(shard, start=before[-1].start + before[-1].records)


def _listings(
    directory: Path, staging: Path, kept: Mapping[str, Mapping[str, NDArray[np.int64] | None]]
) -> Iterator[str]:
    """Write what is left of each `examples.csv`, and yield what is wrong with them."""
    for split, shards in kept.items():
        for listing in sorted((directory / split).glob("examples*.csv")):
            generation = generation_of(split, listing.name)
            if generation is None:
                continue
            relative = f"{split}/{listing.name}"
            try:
                source = inside(directory, relative)
            except ManifestError as error:
                yield f"{relative}: {error}"
                continue
            of_generation = {name: left for name, left in shards.items() if generation_of(split, name) == generation}
            numbered = {shard_index(name): left for name, left in of_generation.items()}
            if problem := copy_listing(source, staging / split / listing.name, numbered):
                yield f"{relative}: {problem}"


def _manifest_by_names(directory: Path, schema: Schema) -> Manifest:
    """Make a manifest from the names of directories and files alone."""
    splits: dict[str, SplitInfo] = {}
    compression: Compression = None
    for place in sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith(".")):
        paths = sorted(place.glob(_PATTERN))
        if not paths:
            continue
        check_names([place.name], "split")
        # A dataset has one compression; a file that does not show it has lost its first bytes.
        compression = "GZIP" if "GZIP" in map(_compression_of, paths) else compression
        infos = [ShardInfo(path.name, 0, 0, 0, "", "", (), 0, 1) for path in paths]
        splits[place.name] = SplitInfo(place.name, tuple(infos))
    if not splits:
        raise DatasetNotFoundError(f"{directory} has no directory with {_PATTERN} files", path=directory)
    return Manifest(directory, schema, splits, compression=compression)


def _assets(manifest: Manifest, staging: Path, problems: list[str]) -> Iterator[tuple[str, Any]]:
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
        raise OptionError(f"two files are called {twice[0]}: salvage them to two places")
    return paths


def _salvage_file(source: Path, destination: Path, schema: Schema | None, kind: Compression) -> Salvage:
    if os.path.lexists(destination):
        raise DatasetExistsError(f"destination {destination}: something is there; choose another", path=destination)
    parent = destination.resolve().parent
    with writing("create the directory of", destination):
        parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(
            prefix=f".{destination.name[:100]}.incomplete-", dir=parent, ignore_cleanup_errors=True
        )
    with scratch as directory:
        shard, _ = _recover_bare(source, Path(directory, destination.name), schema, kind)
        made = Path(directory, destination.name)
        sync_file(made)
        with writing("publish", destination):
            ours = made.stat()
            try:
                with faults_around("rename", destination):
                    _place(made, destination)
                sync_directory(parent)
            except BaseException as failure:
                if is_at(ours, destination):  # a caller that gets an error must not find a file
                    with contextlib.suppress(OSError):
                        destination.unlink()
                elif isinstance(failure, FileExistsError):
                    raise DatasetExistsError(
                        f"destination {destination}: something has come there meanwhile", path=destination
                    ) from None
                raise
    return Salvage(str(source), str(destination), (shard,))


def _place(made: Path, destination: Path) -> None:
    """Move a file to a name, unless the name is taken."""
    try:
        os.link(made, destination)  # which, unlike a rename, replaces nothing
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(destination, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        try:
            made.replace(destination)
        except BaseException:
            destination.unlink()
            raise


def _salvage_files(
    damaged: Any, sources: Sequence[Path], destination: Path, schema: Schema | None, kind: Compression
) -> Salvage:
    with Staging(destination) as staging:
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
    """Salvage a file, and return its layout too, which all files share: that of the first one with a record."""
    lengths, kind = target.with_name(f"{target.name}.lengths"), kind or _compression_of(source)
    is_unique = schema is not None and schema.key_field is not None
    done = recover_shard(source, target, lengths, compression=kind, schema=schema, layout=layout, is_unique=is_unique)
    lengths.unlink()  # files of others have none
    return SalvagedShard(str(source), done.records, UNKNOWN, done.losses), done.layout


def _compression_of(path: Path) -> Compression:
    try:
        return detect_compression(path)
    except ShardReadError:
        return None  # where the disk cannot read the first bytes, nothing could be unpacked
