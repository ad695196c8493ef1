"""Verifying a dataset, or bare shards: everything that the manifest states, and that every record can be read."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.columns import group_lengths, only_stores, records_of
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.dataset.manifest import bins_of, is_as_written, read_manifest, read_statistics, shards_of, was_replaced
from seqrecorder.dataset.shard_set import Origin, resolve
from seqrecorder.errors import (
    DatasetError,
    DatasetNotFoundError,
    ManifestError,
    OptionError,
    RecordError,
    SchemaMismatchError,
    SeqrecorderError,
    ShardReadError,
)
from seqrecorder.schema.display import cut, html_table, number_of, some
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.files import MANIFEST, STATISTICS, inside, is_url, local_path, sha256, write_file
from seqrecorder.storage.places import Place
from seqrecorder.storage.shard import RecordReader, block_for, histogram, read_lengths, whole_records
from seqrecorder.storage.tfrecord import FOOTER, HEADER, detect_compression, walk_frames
from seqrecorder.storage.threads import ahead, scratch, worked_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.manifest import Manifest, ShardInfo, SplitInfo
    from seqrecorder.wire.byte_rows import Messages


@attrs.frozen
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the file, relative to the dataset.
        message: what was expected and what came.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@attrs.frozen(repr=False)
class VerifyReport:
    """Result of a verification.

    Attributes:
        path: what was verified.
        level: `quick` or `full`.
        shards: how many shards were looked at.
        records: how many records they hold by the manifest, or by count for bare shards.
        bytes: their size.
        problems: everything that is wrong; empty where nothing is.
    """

    path: str
    level: str
    shards: int
    records: int
    bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Check whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        found = some([cut(str(problem), 80) for problem in self.problems], 1) or "no problem"
        facts = f"{number_of(self.shards, 'shard')}, {number_of(self.records, 'record')}"
        return f"<Report on {cut(self.path, 120)!r} ({self.level}): {facts}; {found}>"

    def _repr_html_(self) -> str:
        rows = [(problem.path, problem.message) for problem in self.problems]
        return html_table(repr(self)[1:-1], ("file", "problem"), rows)


_FETCHED = 4  # shards that are fetched at a time


def verify(path: Any, *, level: Literal["quick", "full"] = "full", schema: object = None) -> VerifyReport:
    """Check a dataset against its manifest, or bare shards against a class, and report everything that is wrong.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
    >>> sr.verify(corpus).ok
    True

    Args:
        path: a dataset's directory, or its URL, of which all is fetched anew; or bare shards (a path, a glob or a
            list), with `schema`; or one bare shard without one, of which the frames and (`full`) the CRC of every
            record are checked.
        level: `quick` looks at the manifest, the files' sizes and the lengths' digests; `full` reads everything: all
            digests, every frame and its CRC, every record against the schema, counts and lengths.
        schema: class or schema of bare shards; of a dataset, the class that it shall be readable as.

    Returns:
        A report, true where nothing is wrong.

    Raises:
        DatasetNotFoundError: there is nothing there. Whatever else cannot be read, or goes meanwhile, is reported.
    """
    if level not in ("quick", "full"):
        raise OptionError(f"level: expected 'quick' or 'full', got {level!r}")
    try:
        return _verify(path, level, schema)
    except DatasetNotFoundError:
        raise
    except OSError as error:
        place = Path(str(getattr(error, "path", None) or error.filename or path))
        return VerifyReport(str(path), level, 0, 0, 0, (Problem(place.name, _said(error)),))


def _verify(path: Any, level: str, schema: object) -> VerifyReport:
    if is_url(path):
        return _verify_place(Place.of(path), level, schema)
    single = isinstance(path, (str, os.PathLike))
    if not single and not isinstance(path, Sequence):
        local_path(path)  # which says that it is none
    if schema is not None and not (single and (local_path(path) / MANIFEST).is_file()):
        return _verify_bare(path, level, schema)
    directory = local_path(path)
    if directory.is_file() and directory.name != MANIFEST:
        return _verify_frames(directory, level)
    try:
        manifest = read_manifest(directory)
    except ManifestError as error:
        return VerifyReport(str(directory), level, 0, 0, 0, (Problem(MANIFEST, str(error)),))
    if manifest.url is not None:
        return _verify_place(Place.of(manifest.url), level, schema)
    problems = [
        *_reported(MANIFEST, _manifest(manifest, schema)),
        *_reported(".", _names(manifest)),
        *_assets(manifest),
    ]
    report = _with_shards(str(directory), level, manifest, problems)
    if not report.ok and was_replaced(manifest):
        found = Problem(MANIFEST, "the dataset was replaced or removed while it was looked at; verify it again")
        return attrs.evolve(report, problems=(found,))
    return report


def require_fit(manifest: Manifest, sizes: Mapping[str, int] | None = None) -> None:
    """Check, before a manifest is published, that it says of shards and lengths what is in the files.

    No record is looked at: the digests of shards are checked by whoever moves them.

    Args:
        manifest: with its files at its path, but for the shards where sizes are given.
        sizes: of the shards, by their paths in the dataset.

    Raises:
        ShardReadError: a file is missing, or not what the manifest says.
    """
    for split, shard in shards_of(manifest):
        size = None if sizes is None else sizes[f"{split}/{shard.name}"]
        for problem in _verify_shard(manifest, split, shard, None, size=size):
            path = manifest.path / problem.path
            raise ShardReadError(f"{path}: {problem.message}; nothing is published", path=path)


def _with_shards(
    label: str, level: str, manifest: Manifest, problems: list[Problem], place: Place | None = None
) -> VerifyReport:
    """Return the report of a dataset whose shards are looked at too; at a URL some are fetched at a time, and go."""
    jobs = shards_of(manifest)

    def bring(job: tuple[str, ShardInfo]) -> tuple[int | None, Future[str] | None]:
        files = job[1].files(job[0])
        if place is not None:
            _download(place, manifest, [file.name for file in files[level == "quick" :]])
        if level == "full":  # a digest takes as long as all the rest, and needs no lock of Python's
            return None, worked_on(sha256, manifest.shard_path(*job))
        return None if place is None else place.size(files[0].name), None

    threads = 0 if place is None and level == "quick" else _FETCHED if place is not None else None
    for (split, shard), brought in ahead(bring, jobs, threads):
        where = f"{split}/{shard.name}"
        try:
            size, digest = brought.result()
        except DatasetError as error:
            problems.append(Problem(where, error.message))
            continue
        problems += _reported(where, _verify_shard(manifest, split, shard, digest, size=size))
        for file in shard.files(split) if place is not None else ():
            inside(manifest.path, file.name).unlink(missing_ok=True)
    return VerifyReport(label, level, len(jobs), manifest.records, manifest.bytes, tuple(problems))


def _reported(where: str, found: Iterator[Problem]) -> Iterator[Problem]:
    """Yield the problems that were found; and as one of them what cannot be read, or goes while it is looked at."""
    try:
        yield from found
    except OSError as error:
        yield Problem(where, _said(error))


def _said(error: OSError) -> str:
    """Return the message of an error: all of ours, the system's words of others."""
    if isinstance(error, SeqrecorderError):
        return str(error)
    return f"cannot be read: {error.strerror or error}"


def _manifest(manifest: Manifest, schema: object) -> Iterator[Problem]:
    """Check what the manifest says of itself, whether its records can be read as a class, and kept statistics."""
    try:
        is_sound = is_as_written((manifest.path / MANIFEST).read_text(encoding="utf-8"))
    except ValueError:  # it was replaced since it was read
        is_sound = False
    if not is_sound:
        yield Problem(MANIFEST, "its checksum is not that of its contents: it was changed after it was written")
    for name, split in manifest.splits.items():
        if bins_of(tuple(split.shards)) != bins_of(split.shards):
            yield Problem(MANIFEST, f"the histogram of all shards of {name!r} is not the sum of theirs")
    if schema is not None:
        try:
            Schema.of(schema).require_readable(manifest.schema, str(manifest.path))
        except SchemaMismatchError as error:
            for difference in error.differences:
                yield Problem(MANIFEST, f"cannot be read as {Schema.of(schema).name}: {difference}")
    try:
        read_statistics(manifest.path, (manifest.path / MANIFEST).read_bytes())
    except ManifestError as error:
        yield Problem(STATISTICS, str(error))


def _names(manifest: Manifest) -> Iterator[Problem]:
    """Find files that the manifest does not know."""
    yield from _unknown(manifest.path, "")
    directories = [path for path in sorted(manifest.path.iterdir()) if path.is_dir() and path.name[0] != "."]
    for directory in sorted(directories, key=lambda path: path.name in manifest.splits):
        unknown = _unknown(directory, f"{directory.name}/", manifest.splits.get(directory.name))
        yield from _reported(directory.name, unknown)


def _unknown(directory: Path, prefix: str, split: SplitInfo | None = None) -> Iterator[Problem]:
    """Find unknown files in the directory of a split, and shards in any other."""
    known = {name for shard in (split.shards if split else ()) for name in (shard.name, shard.lengths_name)}
    for file in sorted(directory.iterdir()):
        if split is None:
            if file.suffix == ".tfrecord" and not file.is_dir():
                yield Problem(f"{prefix}{file.name}", "a shard of no split that the manifest knows")
        elif file.name not in known and not (file.suffix == ".csv" and file.name.startswith("examples")):
            yield Problem(f"{prefix}{file.name}", "a file that the manifest does not know")


def _assets(manifest: Manifest) -> Iterator[Problem]:
    for name, digest in manifest.asset_digests.items():
        where = manifest.asset_infos[name].relative(name)
        try:
            if sha256(manifest.assets[name]) != digest:
                yield Problem(where, "its SHA-256 is not the manifest's")
        except OSError as error:
            yield Problem(where, _said(error))


def _verify_place(place: Place, level: str, schema: object) -> VerifyReport:
    """Check a dataset at a URL: all that it consists of is fetched anew, past the cache, some shards at a time.

    What else lies there is no problem, since other writers may be at work: `clean` tells about it.
    """
    text = place.read(MANIFEST)
    if text is None:
        raise DatasetNotFoundError(f"there is no dataset at {place.url}: it has no {MANIFEST}", path=place.url)
    directory = scratch()
    write_file(directory / MANIFEST, text)
    try:
        manifest = read_manifest(directory)
        problems = [*_manifest(manifest, schema), *_assets_at(place, manifest)]
        return _with_shards(place.url, level, manifest, problems, place)
    except ManifestError as error:
        return VerifyReport(place.url, level, 0, 0, 0, (Problem(MANIFEST, str(error)),))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _assets_at(place: Place, manifest: Manifest) -> Iterator[Problem]:
    for name, info in manifest.asset_infos.items():
        try:
            _download(place, manifest, [info.relative(name)])
        except DatasetError as error:
            yield Problem(info.relative(name), error.message)
    yield from (problem for problem in _assets(manifest) if inside(manifest.path, problem.path).exists())


def _download(place: Place, manifest: Manifest, names: Iterable[str]) -> None:
    for name in names:
        target = inside(manifest.path, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        place.download(name, target)


def _verify_shard(
    manifest: Manifest, split: str, shard: ShardInfo, digest: Future[str] | None, *, size: int | None = None
) -> Iterator[Problem]:
    """Check a shard: its size and lengths; and where there is a digest of it, all that it holds."""
    where = f"{split}/{shard.name}"
    try:
        path = manifest.shard_path(split, shard)
        size = _size(path) if size is None else size
    except (ManifestError, ShardReadError) as error:
        yield Problem(where, error.message)
        return
    if size != shard.bytes:
        yield Problem(where, f"expected {shard.bytes} bytes, got {size}")
    lengths = None
    try:
        lengths_path = inside(manifest.path, f"{split}/{shard.lengths_name}")
        lengths = read_lengths(lengths_path, max(1, len(manifest.schema.groups)), shard.records)
        if hashlib.sha256(lengths.data).hexdigest() != shard.lengths_sha256:
            yield Problem(f"{split}/{shard.lengths_name}", "its SHA-256 is not the manifest's: the contents changed")
        elif tuple(histogram(lengths[:, 0])) != shard.histogram:
            yield Problem(f"{split}/{shard.lengths_name}", "the manifest's histogram is not that of these lengths")
        elif int(lengths[:, 0].sum()) != shard.steps:
            yield Problem(where, f"expected {shard.steps} steps, got {int(lengths[:, 0].sum())}")
    except (ManifestError, ShardReadError) as error:
        yield Problem(f"{split}/{shard.lengths_name}", str(error))
    if digest is None:
        return
    origin = Origin(where, manifest.schema, "steps", manifest.compression, ())
    yield from _verify_contents(origin, path, shard, lengths, digest)


def _verify_contents(
    origin: Origin, path: Path, shard: ShardInfo, lengths: Any, digest: Future[str]
) -> Iterator[Problem]:
    records, found = _verify_records(origin, path, shard.records, lengths)
    try:
        if digest.result() != shard.sha256:
            yield Problem(origin.where, "its SHA-256 is not the manifest's: the contents changed")
        if found or records != shard.records:
            walk = walk_frames(path, origin.compression)
            if walk.problem:
                found = [Problem(origin.where, str(walk))]
            elif walk.lengths.size != shard.records:
                yield Problem(origin.where, f"expected {shard.records} records, got {walk.lengths.size}")
    except ShardReadError as error:
        found = [Problem(origin.where, error.message)]
    yield from found


def _size(path: Path) -> int:
    """Return the bytes of a file.

    Raises:
        ShardReadError: there is none, or a directory in its place.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ShardReadError(f"cannot be read: {error.strerror}", path=path) from error
    if path.is_dir():
        raise ShardReadError("expected a file, got a directory", path=path)
    return size


def _verify_records(origin: Origin, path: Path, expected: int, lengths: Any) -> tuple[int, list[Problem]]:
    """Check the records of a shard, and return how many there are, up to the first problem, which is returned too."""
    schema, where = origin.schema, origin.where
    values_matter = not only_stores(schema.record_class, len(schema.fields))
    codec = RecordDecoder(schema, origin.layout, joined=not values_matter)

    def decode(window: Messages) -> tuple[int, dict[str, Column]]:
        whole = whole_records(window)
        return whole, codec.decode_columns(window.some(slice(whole)))

    reader = RecordReader(path, origin.compression, block=block_for(path.stat().st_size // max(1, expected)))
    done = 0
    try:
        for window, made in ahead(decode, reader.blocks(check=False), size=lambda window: window.nbytes):
            try:
                whole, columns = made.result()
                if values_matter:
                    records_of(schema, columns)
            except RecordError as error:
                place = _place(path, origin, done + (error.position or 0))
                return done, [Problem(where, f"{place}: {error.message} {' '.join(map(str, error.problems))}".rstrip())]
            if lengths is not None:
                table = lengths[done : done + whole]
                wrong = np.flatnonzero((group_lengths(schema, columns, whole)[: len(table)] != table).any(1))
                if wrong.size:
                    place = _place(path, origin, done + int(wrong[0]))
                    return done, [Problem(where, f"{place}: its length is not what the lengths file says")]
            done += whole
            if whole < len(window):
                reader.read_all()  # raises, and says where
            del window, made, columns  # while the next ones are read, none are held: they may be large
    except ShardReadError as error:
        return done, [Problem(where, error.message)]
    return done, []


def _place(path: Path, origin: Origin, number: int) -> str:
    """Return the label of a record of a shard, with its offset."""
    lengths = walk_frames(path, origin.compression).lengths[:number]
    return f"record {number} at byte {int((lengths + (HEADER + FOOTER)).sum())}"


def _verify_bare(path: Any, level: str, schema: object) -> VerifyReport:
    label = str(path) if isinstance(path, (str, os.PathLike)) else ", ".join(map(str, path))
    try:
        origin = resolve(path, None, schema=schema, check="full")
    except ShardReadError as error:
        return VerifyReport(label, level, 0, 0, 0, (Problem(Path(error.path or label).name, error.message),))
    problems: list[Problem] = []
    if level == "full":
        for file in origin.files:
            problems += _verify_records(attrs.evolve(origin, where=file.path.name), file.path, file.records, None)[1]
    size = sum(file.bytes for file in origin.files)
    return VerifyReport(label, level, len(origin.files), origin.records, size, tuple(problems))


def _verify_frames(path: Path, level: str) -> VerifyReport:
    """Check what can be checked of a bare shard without a schema."""
    try:
        compression = detect_compression(path)
        walk = walk_frames(path, compression)
    except ShardReadError as error:
        return VerifyReport(str(path), level, 1, 0, path.stat().st_size, (Problem(path.name, error.message),))
    problems = []
    if walk.problem:
        problems.append(Problem(path.name, str(walk)))
    elif level == "full":
        try:
            RecordReader(path, compression).read_all()
        except ShardReadError as error:
            problems.append(Problem(path.name, error.message))
    return VerifyReport(str(path), level, 1, walk.lengths.size, path.stat().st_size, tuple(problems))
