"""Verification of datasets and bare shards: digests, counts, and every record.

Nothing is repaired here: `salvage` copies the intact records.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from seqrecorder.codec.columns import group_lengths, only_stores, records_of
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.dataset.checked_shards import Origin, resolve
from seqrecorder.dataset.manifest import (
    histogram,
    is_as_written,
    parse_manifest,
    read_manifest,
    read_statistics,
    shards_of,
    was_replaced,
)
from seqrecorder.errors import (
    DatasetError,
    DatasetNotFoundError,
    ManifestError,
    OptionError,
    RecordError,
    SchemaMismatchError,
    ShardReadError,
)
from seqrecorder.schema.display import cut, html_table, join, number_of
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.crc32c import FOOTER, HEADER
from seqrecorder.storage.files import MANIFEST, STATISTICS, inside, is_url, local_path, read_lengths, sha256, write_file
from seqrecorder.storage.object_store import Place
from seqrecorder.storage.processes_and_signals import Progress, ahead, in_processes, scratch, submit
from seqrecorder.storage.shard_reader import RecordReader, block_for, whole_records
from seqrecorder.storage.tfrecord import detect_compression, walk_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.manifest import Manifest, ShardInfo, SplitInfo
    from seqrecorder.wire.byte_rows import Messages


@attrs.frozen
class Problem:
    """Problem that a verification found.

    Attributes:
        path: path of the file, relative to the dataset.
        message: description of the problem: what was expected, and what was found.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@attrs.frozen(repr=False)
class VerifyReport:
    """Result of a verification.

    Attributes:
        path: path or URL that was verified.
        level: `quick` or `full`; `frames` for a bare shard without a schema, whose contents were not checked.
        shards: number of checked shards.
        records: number of records in these shards, taken from the manifest, or counted in bare shards.
        bytes: total size of the shards.
        problems: all problems, except that only the first undecodable record of each shard is listed.
    """

    path: str
    level: str
    shards: int
    records: int
    bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        problems = join([cut(str(problem), 80) for problem in self.problems], 1) or "no problem"
        facts = f"{number_of(self.shards, 'shard')}, {number_of(self.records, 'record')}"
        return f"<Report on {cut(self.path, 120)!r} ({self.level}): {facts}; {problems}>"

    def _repr_html_(self) -> str:
        rows = [(problem.path, problem.message) for problem in self.problems]
        return html_table(repr(self)[1:-1], ("file", "problem"), rows)


_FETCHED = 4  # shards to fetch concurrently; each takes space on the local disk


def verify(
    path: Any, *, level: Literal["quick", "full"] = "full", schema: object = None, progress: bool | None = None
) -> VerifyReport:
    """Verify a dataset against its manifest, or bare shards against a class, and report problems.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
    >>> sr.verify(corpus).ok
    True

    Args:
        path: directory or URL of a dataset, or bare shards (a path, a glob or a list) with `schema`. At a URL, all
            files are fetched again. A single bare shard can be verified without `schema`: then only its frames are
            checked and, with `full`, the CRC of every record.
        level: `quick` checks the manifest, the sizes of files and the digests of lengths files. `full` reads
            everything, and checks all digests, every frame and its CRC, every record against the schema, counts and
            lengths.
        schema: class or schema of bare shards; for a dataset, a class that must be able to read it.
        progress: whether to show a progress bar (see `write`); `quick` has none.

    Returns:
        A report, which is true if there are no problems. Files that cannot be read are listed as problems. In each
        shard, only the first record that cannot be decoded is listed; `salvage` with `schema` lists all of them, and
        leaves them out.

    Raises:
        DatasetNotFoundError: the path does not exist.
        DatasetError: the URL cannot be reached.
    """
    if level not in ("quick", "full"):
        raise OptionError(f"level: expected 'quick' or 'full', got {level!r}")
    try:
        with contextlib.closing(Progress(progress if level == "full" else False, "verifying")) as bar:
            return _verify(path, level, schema, bar)
    except OSError as error:
        if isinstance(error, DatasetNotFoundError) or is_url(path):  # an unreachable store is not damage
            raise
        file = Path(str(getattr(error, "path", None) or error.filename or path))
        return VerifyReport(str(path), level, 0, 0, 0, (Problem(file.name, _message_of(error)),))


def _verify(path: Any, level: str, schema: object, bar: Progress) -> VerifyReport:
    if is_url(path):
        return _verify_url(Place.of(path), level, schema, bar)
    single = isinstance(path, (str, os.PathLike))
    if not single and not isinstance(path, Sequence):
        local_path(path)  # raises an error that explains the problem
    if schema is not None and not (single and (local_path(path) / MANIFEST).is_file()):
        return _verify_bare(path, level, schema, bar)
    directory = local_path(path)
    if directory.is_file() and directory.name != MANIFEST:
        return _verify_frames(directory, full=level == "full")
    try:
        manifest = read_manifest(directory)
    except ManifestError as error:
        return VerifyReport(str(directory), level, 0, 0, 0, (Problem(MANIFEST, str(error)),))
    if manifest.url is not None:
        return _verify_url(Place.of(manifest.url), level, schema, bar)
    problems = [
        *_report_errors(MANIFEST, _check_manifest(manifest, schema)),
        *_report_errors(".", _check_names(manifest)),
        *_check_assets(manifest),
    ]
    report = _verify_shards(str(directory), level, manifest, problems, bar)
    if not report.ok and was_replaced(manifest):
        problem = Problem(MANIFEST, "the dataset was replaced or removed during the verification; verify it again")
        return attrs.evolve(report, problems=(problem,))
    return report


def require_fit(manifest: Manifest, sizes: Mapping[str, int] | None = None) -> None:
    """Check the sizes and lengths of shards against a manifest that is about to be published.

    Records and digests of shards are not checked; the digests are checked when the files are moved.

    Args:
        manifest: manifest to check. All its files must be at its path, except for the shards if `sizes` is set.
        sizes: mapping from the path of a shard in the dataset to its size in bytes; None to ask the file system.

    Raises:
        ShardReadError: a file is missing, or does not match the manifest.
    """
    for split, shard in shards_of(manifest):
        size = None if sizes is None else sizes[f"{split}/{shard.name}"]
        for problem in _verify_shard(manifest, split, shard, full=False, size=size):
            path = manifest.path / problem.path
            raise ShardReadError(f"{path}: {problem.message}; nothing is published", path=path)


def _verify_shards(
    label: str, level: str, manifest: Manifest, problems: list[Problem], bar: Progress, *, remote: Place | None = None
) -> VerifyReport:
    """Verify the shards of a dataset, and build the report.

    The files of a dataset at a URL are downloaded for this, and removed afterwards. Shards are downloaded only at level
    `full`.
    """
    jobs, full = shards_of(manifest), level == "full"
    bar.expect(manifest.records)

    def fetch(job: tuple[str, ShardInfo]) -> int | None:
        files = job[1].files(job[0])
        if remote is None:
            return None
        _download(remote, manifest, [file.name for file in files[not full :]])
        return None if full else remote.size(files[0].name)

    if remote is None and full:
        check = functools.partial(_check_shard, manifest.path, attrs.evolve(manifest, splits={}).to_json())
        with contextlib.closing(in_processes(check, jobs)) as checked:
            for (_, shard), result in checked:
                problems += result.result()
                bar.advance(shard.records)
        jobs = []
    for (split, shard), fetched in ahead(fetch, jobs, 0 if remote is None else _FETCHED):
        where = f"{split}/{shard.name}"
        try:
            size = fetched.result()
        except DatasetError as error:
            problems.append(Problem(where, _message_of(error)))
            continue
        problems += _report_errors(where, _verify_shard(manifest, split, shard, full=full, size=size))
        bar.advance(shard.records)
        for file in shard.files(split) if remote is not None else ():
            inside(manifest.path, file.name).unlink(missing_ok=True)
    shards = sum(len(split.shards) for split in manifest.splits.values())
    return VerifyReport(label, level, shards, manifest.records, manifest.bytes, tuple(problems))


@functools.lru_cache(maxsize=1)
def _parse(text: str, path: Path) -> Manifest:
    return parse_manifest(text.encode(), path)


def _check_shard(path: Path, manifest: str, job: tuple[str, ShardInfo]) -> list[Problem]:
    """Verify a shard in full.

    This can run in another process, which parses the manifest again. `manifest` is the text of the manifest without its
    splits.
    """
    split, shard = job
    return list(_report_errors(f"{split}/{shard.name}", _verify_shard(_parse(manifest, path), split, shard, full=True)))


def _report_errors(where: str, problems: Iterator[Problem]) -> Iterator[Problem]:
    """Yield problems, and convert an `OSError` to a problem.

    Such an error is raised if a file cannot be read, or was removed in the meantime.
    """
    try:
        yield from problems
    except OSError as error:
        yield Problem(where, _message_of(error))


def _message_of(error: OSError) -> str:
    """Return the message of an error as it appears in a report.

    The path and the advice to verify are left out, because a report need not repeat them.
    """
    if isinstance(error, DatasetError):
        return str(error).removeprefix(f"{error.path}: ").partition("; `seqrecorder verify")[0]
    return f"cannot be read: {error.strerror or error}"


def _check_manifest(manifest: Manifest, schema: object) -> Iterator[Problem]:
    """Check a manifest, and the statistics that are stored with the dataset.

    The checksum and the histograms of the manifest must be right, and the dataset must be readable as `schema`.
    """
    try:
        is_sound = is_as_written((manifest.path / MANIFEST).read_text(encoding="utf-8"))
    except ValueError:  # the file has been replaced since it was read
        is_sound = False
    if not is_sound:
        yield Problem(MANIFEST, "its checksum is not that of its contents: it was changed after it was written")
    for name, split in manifest.splits.items():
        if split.sum_bins() != split.bins:
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


def _check_names(manifest: Manifest) -> Iterator[Problem]:
    """Find files that the manifest does not name."""
    yield from _find_unknown(manifest.path, "")
    directories = [path for path in sorted(manifest.path.iterdir()) if path.is_dir() and path.name[0] != "."]
    for directory in sorted(directories, key=lambda path: path.name in manifest.splits):
        unknown = _find_unknown(directory, f"{directory.name}/", manifest.splits.get(directory.name))
        yield from _report_errors(directory.name, unknown)


def _find_unknown(directory: Path, prefix: str, split: SplitInfo | None = None) -> Iterator[Problem]:
    """Find the files in a directory that the manifest does not name.

    In the directory of a split, these can be any files except `examples*.csv`. In other directories, only shards are
    looked for.
    """
    known = {name for shard in (split.shards if split else ()) for name in (shard.name, shard.lengths_name)}
    for file in sorted(directory.iterdir()):
        if split is None:
            if file.suffix == ".tfrecord" and not file.is_dir():
                yield Problem(f"{prefix}{file.name}", "a shard of no split that the manifest knows")
        elif file.name not in known and not (file.suffix == ".csv" and file.name.startswith("examples")):
            yield Problem(f"{prefix}{file.name}", "a file that the manifest does not know")


def _check_assets(manifest: Manifest, remote: Place | None = None) -> Iterator[Problem]:
    """Check the digests of the assets, which are the user's own files.

    For a dataset at a URL, they are downloaded first.
    """
    for name, info in manifest.asset_infos.items():
        where = info.relative(name)
        try:
            if remote is not None:
                _download(remote, manifest, [where])
            if sha256(inside(manifest.path, where)) != info.sha256:
                yield Problem(where, "its SHA-256 is not the manifest's")
        except OSError as error:
            yield Problem(where, _message_of(error))


def _verify_url(remote: Place, level: str, schema: object, bar: Progress) -> VerifyReport:
    """Verify a dataset at a URL.

    The files are downloaded for this, a few shards at a time, without using the cache. Shards are downloaded only at
    level `full`.

    Unknown files at the URL are not reported, because they may belong to active writers; `clean` lists them.
    """
    text = remote.read(MANIFEST)
    if text is None:
        raise DatasetNotFoundError(f"there is no dataset at {remote.url}: it has no {MANIFEST}", path=remote.url)
    directory = scratch()
    write_file(directory / MANIFEST, text)
    try:
        manifest = read_manifest(directory)
        problems = [*_check_manifest(manifest, schema), *_check_assets(manifest, remote)]
        return _verify_shards(remote.url, level, manifest, problems, bar, remote=remote)
    except ManifestError as error:
        return VerifyReport(remote.url, level, 0, 0, 0, (Problem(MANIFEST, str(error)),))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _download(remote: Place, manifest: Manifest, names: Iterable[str]) -> None:
    for name in names:
        target = inside(manifest.path, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        remote.download(name, target)


def _verify_shard(
    manifest: Manifest, split: str, shard: ShardInfo, *, full: bool, size: int | None = None
) -> Iterator[Problem]:
    """Check the size and lengths of a shard; with `full`, check its digest and records as well."""
    where = f"{split}/{shard.name}"
    try:
        path = manifest.shard_path(split, shard)
        size = path.stat().st_size if size is None else size
    except OSError as error:
        yield Problem(where, _message_of(error))
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
        yield Problem(f"{split}/{shard.lengths_name}", _message_of(error))
    if full:
        with ThreadPoolExecutor(1) as pool:  # hashing takes as long as all other checks together, and releases the GIL
            origin = Origin(where, manifest.schema, "steps", manifest.compression, ())
            yield from _verify_contents(origin, path, shard, lengths, submit(pool, sha256, path))


def _verify_contents(
    origin: Origin, path: Path, shard: ShardInfo, lengths: Any, digest: Future[str]
) -> Iterator[Problem]:
    records, problems = _verify_records(origin, path, shard.records, lengths)
    try:
        if digest.result() != shard.sha256:
            yield Problem(origin.where, "its SHA-256 is not the manifest's: the contents changed")
        if problems or records != shard.records:
            walk = walk_frames(path, origin.compression)
            if walk.problem:
                problems = [Problem(origin.where, str(walk))]
            elif walk.lengths.size != shard.records:
                yield Problem(origin.where, f"expected {shard.records} records, got {walk.lengths.size}")
    except ShardReadError as error:
        problems = [Problem(origin.where, _message_of(error))]
    yield from problems


def _verify_records(origin: Origin, path: Path, expected: int, lengths: Any) -> tuple[int, list[Problem]]:
    """Check the records of a shard up to the first problem.

    Returns:
        The number of records in the blocks before the problem, and a list of the problem, if any.
    """
    schema, where = origin.schema, origin.where
    values_matter = not only_stores(schema.record_class, len(schema.fields))
    codec = RecordDecoder(schema, origin.layout, joined=not values_matter)

    def decode(window: Messages) -> tuple[int, dict[str, Column]]:
        whole = whole_records(window)
        return whole, codec.decode_columns(window.take(slice(whole)))

    reader = RecordReader(path, origin.compression, block=block_for(path.stat().st_size // max(1, expected)))
    done = 0
    try:
        for window, decoded in ahead(decode, reader.blocks(check=False), size=lambda window: window.nbytes):
            try:
                whole, columns = decoded.result()
                if values_matter:
                    records_of(schema, columns)
            except RecordError as error:
                label = _label(path, origin, done + (error.position or 0))
                return done, [Problem(where, f"{label}: {error.message} {' '.join(map(str, error.problems))}".rstrip())]
            if lengths is not None:
                table = lengths[done : done + whole]
                wrong = np.flatnonzero((group_lengths(schema, columns, whole)[: len(table)] != table).any(1))
                if wrong.size:
                    label = _label(path, origin, done + int(wrong[0]))
                    return done, [Problem(where, f"{label}: its length is not what the lengths file says")]
            done += whole
            if whole < len(window):
                reader.read_all()  # raises an error with the position of the damage
            del window, decoded, columns  # free the memory before the next window is read, because windows may be large
    except ShardReadError as error:
        return done, [Problem(where, _message_of(error))]
    return done, []


def _label(path: Path, origin: Origin, number: int) -> str:
    """Format the number and the offset of a record in a shard."""
    lengths = walk_frames(path, origin.compression).lengths[:number]
    return f"record {number} at byte {int((lengths + (HEADER + FOOTER)).sum())}"


def _verify_bare(path: Any, level: str, schema: object, bar: Progress) -> VerifyReport:
    label = str(path) if isinstance(path, (str, os.PathLike)) else ", ".join(map(str, path))
    try:
        origin = resolve(path, None, schema=schema, check="full")
    except ShardReadError as error:
        return VerifyReport(label, level, 0, 0, 0, (Problem(Path(error.path or label).name, _message_of(error)),))
    problems: list[Problem] = []
    if level == "full":
        for file in origin.files:
            problems += _verify_records(attrs.evolve(origin, where=file.path.name), file.path, file.records, None)[1]
            bar.advance(file.records)
    size = sum(file.bytes for file in origin.files)
    return VerifyReport(label, level, len(origin.files), origin.records, size, tuple(problems))


def _verify_frames(path: Path, *, full: bool) -> VerifyReport:
    """Check the frames of a bare shard without a schema."""
    records, problems = 0, list[Problem]()
    try:
        compression = detect_compression(path)
        walk = walk_frames(path, compression)
        records = walk.lengths.size
        if walk.problem:
            problems.append(Problem(path.name, str(walk)))
        elif full:
            RecordReader(path, compression).read_all()
    except ShardReadError as error:
        problems.append(Problem(path.name, _message_of(error)))
    return VerifyReport(str(path), "frames", 1, records, path.stat().st_size, tuple(problems))
