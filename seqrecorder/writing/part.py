"""Writing of one part of a dataset by `write_part`, and encoding of single records for Beam and Spark.

Each process writes its own part, and `commit` publishes all parts.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import itertools
import os
import secrets
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np

from seqrecorder.codec.arrow import table_of
from seqrecorder.codec.columns import is_table, maker_from_mapping, records_of
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.codec.encode import cut
from seqrecorder.dataset.append_and_overwrite import named
from seqrecorder.dataset.keys import UniqueKeys
from seqrecorder.dataset.manifest import parse_manifest, read_manifest, shards_of
from seqrecorder.dataset.push_pull_clean import PARTS, Destination
from seqrecorder.dataset.split_shares import Balanced
from seqrecorder.dataset.verify import require_fit
from seqrecorder.errors import (
    DatasetError,
    DatasetExistsError,
    DatasetNotFoundError,
    DuplicateKeyError,
    ManifestError,
    OptionError,
    RecordError,
)
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.cache import cached
from seqrecorder.storage.files import MANIFEST, check_name, is_url, local_path
from seqrecorder.storage.object_store import Place
from seqrecorder.storage.processes_and_signals import in_threads
from seqrecorder.storage.publish import PartsDirectory
from seqrecorder.writing.columns import ColumnSource, Sources, TableRecords
from seqrecorder.writing.intake import LifeCycle
from seqrecorder.writing.load_hooks import check_params
from seqrecorder.writing.splits import Router
from seqrecorder.writing.writer import Part, WriteOptions, Writer, shows_options, stream_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Unpack

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.manifest import Manifest, ShardInfo
    from seqrecorder.writing.writer import WriteKeywords


_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.timezone.utc)


def attempt_at(url: str, part: int | str) -> Destination:
    """Create a destination with unique names for a new attempt at a part."""
    token = secrets.token_hex(4)
    label = f"p{part:05d}" if isinstance(part, int) else "p" + part.encode().hex()[:16]
    return Destination(Place.of(url), name=f"{PARTS}{part}-{token}.json", label=f"-{label}-{token}")


@attrs.frozen
class UrlParts:
    """Parts of a dataset at a URL, with the interface of `PartsDirectory`.

    Attributes:
        whole: destination of the dataset, including any manifest that already existed there.
        known: mapping from the manifest name of each completed attempt to its cache directory and its completion time
            in nanoseconds.
    """

    whole: Destination
    known: Mapping[str, tuple[Path, int]]

    @classmethod
    def of(cls, url: str, part: int | str | None = None) -> UrlParts:
        """List the parts at a URL.

        If `part` is given, only parts whose name starts with it are listed.
        """
        whole, known = Destination.of(url), dict[str, tuple[Path, int]]()
        begin = PARTS if part is None else f"{PARTS}{part}-"
        names = {name: item for name, item in whole.place.items().items() if name.startswith(begin)}

        def bring(name: str) -> None:
            text = whole.place.read(name)
            if text is not None:
                path = cached(whole.place, text)
                _ = parse_manifest(text, path).assets  # downloads the hashes of the keys
                known[name] = path, int((names[name].modified or _LONG_AGO).timestamp() * 1e9)

        in_threads(bring, list(names))
        return cls(whole, dict(sorted(known.items())))

    @property
    def destination(self) -> str:
        """URL of the dataset."""
        return self.whole.place.url

    @property
    def path(self) -> str:
        """URL prefix of the manifests of the parts."""
        return f"{self.destination}/{PARTS}"

    @property
    def attempts(self) -> list[tuple[Path, int]]:
        """Completed attempts, each with the time of its completion.

        An attempt is given by its directory in the cache. The time is in nanoseconds.
        """
        return list(self.known.values())

    def check_files(self, parts: Sequence[Manifest]) -> None:
        """Check that all files of the parts exist and match the sizes and lengths in the manifests.

        Raises:
            DatasetNotFoundError: a file is missing or has a different size.
            ShardReadError: the stored lengths do not match the manifest of a part.
        """
        remote = self.whole.place
        listed, sizes = remote.items(), dict[str, int]()
        for file in (file for part in parts for split, shard in shards_of(part) for file in shard.files(split)):
            size = listed[file.name].bytes if file.name in listed else remote.size(file.name)
            if size is None or (file.bytes and size != file.bytes):
                raise DatasetNotFoundError(
                    f"{remote.at(file.name)}: a part has it with {file.bytes:,} bytes, and it "
                    f"{'is missing' if size is None else f'has {size:,}'}; write the part again",
                    path=remote.at(file.name),
                )
            sizes[file.name] = size

        def check_lengths(part: Manifest) -> None:
            part.fetch(shards_of(part), lengths_only=True)
            require_fit(part, sizes)

        in_threads(check_lengths, parts)  # in threads, because each part waits for the network

    def remove(self, taken: Sequence[bool], published: Manifest) -> None:
        """Remove the manifests of committed attempts.

        The files of these attempts are removed, too, except those that the dataset uses.

        Args:
            taken: for each attempt, whether it is committed.
            published: manifest of the dataset.

        Raises:
            DatasetError: other attempts were completed after an earlier commit was killed.
        """
        ours, files, names = named(published), set[str](), list[str]()
        for name, (path, _) in itertools.compress(self.known.items(), taken):
            shards = named(read_manifest(path))
            files |= shards - ours
            # The manifests that prove the commit are removed last, so that a killed removal can be continued.
            names.insert(len(names) if shards & ours else 0, name)
        self.whole.place.remove([*sorted(files), *names])
        others = sorted(self.known.keys() - set(names))
        if others:
            raise DatasetError(
                f"{self.destination} is committed, by a run that was killed afterwards; {others[0]} and "
                f"{len(others) - 1} more parts came since then. Commit again to add new parts; "
                "`seqrecorder clean --parts` removes late attempts at old ones",
                path=self.destination,
            )


_TOGETHER = 1024  # number of encoded records to pass to the writer at a time

PART = "part"
"""Metadata key for the number or name of a part."""

IDENTITY = "identified_by"
"""Metadata key for the names of the fields that identify a source, without the chunk number of `split` hooks."""

HOOKS = "hooks"
"""Metadata key for a flag that tells whether hooks or splits by time may have changed or dropped keys of a part."""

MODE = "mode"
"""Metadata key for the option of `commit` that a part was written for, `append` or `overwrite`; None for neither."""

OPENED = "opened"
"""Metadata key for the digests of the manifests from which records of a part were copied."""


@attrs.frozen
class Attempt:
    """Completed attempt at a part.

    Attributes:
        name: number or name of the part.
        manifest: manifest of the attempt.
        completed: time of completion in nanoseconds.
        opened: digests of the manifests of the destination from which the part copied selections.
    """

    name: int | str
    manifest: Manifest
    completed: int
    opened: tuple[str, ...] = ()


def read_attempts(source: PartsDirectory | UrlParts) -> list[Attempt]:
    """Read the manifests of all completed attempts."""
    attempts = []
    for path, completed in source.attempts:
        manifest = read_manifest(path)
        try:
            name, _ = checked_part(manifest.metadata[PART]), list(manifest.metadata[IDENTITY])
            opened = tuple(manifest.metadata.get(OPENED, ()))
        except (TypeError, KeyError, OptionError):
            text = f"{path / MANIFEST}: expected the manifest of a part; only parts belong into {source.path}"
            raise ManifestError(text, path=path) from None
        attempts.append(Attempt(name, manifest, completed, opened))
    return attempts


def parts(destination: str | os.PathLike[str]) -> list[int | str]:
    """List the completed parts of a dataset that await `commit`.

    Numbers are listed first, and then names.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> destination = tempfile.mkdtemp() + "/corpus"
    >>> _ = sr.write_part([Word("to")], destination, 7)
    >>> sr.parts(destination)
    [7]

    Args:
        destination: directory or URL of the dataset, the same as for `write_part`.

    Raises:
        ManifestError: the directory of the parts contains a manifest that is not that of a part.
    """
    return sorted(_finished(destination), key=lambda name: (isinstance(name, str), name))


def _finished(destination: str | os.PathLike[str], part: int | str | None = None) -> dict[int | str, Manifest]:
    """Map parts to the manifests of their last completed attempts.

    If `part` is given, other parts may be missing from the result.
    """
    source = UrlParts.of(str(destination), part) if is_url(destination) else PartsDirectory.of(destination, part)
    attempts = sorted(read_attempts(source), key=attrgetter("completed", "manifest.path"))
    return {attempt.name: attempt.manifest for attempt in attempts}


@shows_options
def write_part(
    records: Iterable[Any] | Mapping[str, Iterable[Any]],
    destination: str | os.PathLike[str],
    part: int | str,
    *,
    schema: object = None,
    skip_finished: bool = False,
    **options: Unpack[WriteKeywords],
) -> Manifest:
    """Write one part of a dataset; other processes or machines write the other parts.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str, key=True)
    >>> destination = tempfile.mkdtemp() + "/corpus"
    >>> for part, texts in enumerate([["to", "be"], ["or", "not"]]):  # in processes of their own, in any order
    ...     _ = sr.write_part(map(Word, texts), destination, part)
    >>> sr.commit(destination, expected=2).records
    4

    No dataset appears at the destination before `commit`. The parts of `corpus` are stored beside it in `corpus.parts`,
    a directory that all processes must share; remove it to abandon the job. At a URL, shards are written in place, and
    `clean(url, parts=True)` removes them. A part may be written again, even by two processes at once: each attempt has
    its own files, and the last completed attempt is used.

    If `splits` gives proportions, the split of a record depends only on its key or on `split_by`, not on the part.
    Without a key field or `split_by`, it depends on the part and on the position of the record in the part.

    Args:
        records: records of this part, in any form that `write` accepts.
        destination: directory or URL of the dataset, as for `write`; the same for all parts.
        part: number or name of the part; a string of digits counts as a number.
        schema: the record class, as for `write`; required if the part may have no records.
        skip_finished: whether to keep the part and read no records if it is already complete, which is useful for
            restarted jobs. A part with a schema other than `schema` is written again.
        **options: the fields of `WriteOptions`, the same for all parts. Pass `metadata` and `assets` to `commit`.
            `csv`, `stats`, `stratify` and `Balanced` are not supported, because they need all records in one process.
            With `append` or `overwrite`, the destination may contain a dataset; pass the same option to `commit`.
            `shards` is the number of shards per part.

    Returns:
        The manifest of this part; its `path` is valid until the commit.

    Raises:
        DatasetExistsError: there is a dataset at the destination; perhaps the parts are already committed.
        RecordError: a record cannot be encoded; the files of this attempt are removed.
        SourceError: the iterable raised; the files of this attempt are removed.
        OptionError: an option is invalid or not supported for parts.
    """
    part = checked_part(part)
    done = _finished(destination, part).get(part) if skip_finished else None
    if done is not None and (schema is None or Schema.of(schema).written.fingerprint == done.schema.fingerprint):
        return done
    stream, wanted = stream_of(records, schema, options)
    writer = PartWriter(destination, wanted, part, **options)
    with writer:
        writer.write_all(stream)
    return writer.manifest


class PartWriter(Writer[Any]):
    """Writer of one part of a dataset that takes its records one by one.

    The hashes of their keys are stored with the part.

    Args:
        destination: destination of the whole dataset.
        schema: the record class, or its schema.
        part: number or name of the part.
        **options: the same as for `write_part`.

    Raises:
        DatasetExistsError: there is a dataset at the destination.
        OptionError: an option is invalid or not supported for parts.
    """

    def __init__(
        self, destination: str | os.PathLike[str], schema: object, part: int | str, **options: Unpack[WriteKeywords]
    ) -> None:
        part = checked_part(part)
        for name in ("metadata", "assets"):
            if options.get(name) is not None:
                raise OptionError(f"write_part: give {name} to commit, since it is of the whole dataset")
        for name in ("stats", "csv"):
            if options.get(name):
                raise OptionError(f"write_part: {name}=True is for datasets that one process writes; leave it out")
        parts = None if is_url(destination) else PartsDirectory.of(destination)
        target = destination if parts is None else parts.destination
        append, overwrite = bool(options.pop("append", False)), bool(options.pop("overwrite", False))
        if not (append or overwrite) and is_dataset(target):
            raise DatasetExistsError(
                f"there is a dataset at {target}; if it was committed already, nothing is left to do; otherwise "
                "choose another destination, or pass append=True or overwrite=True here and to commit",
                path=target,
            )
        whole = read_manifest(target) if append else None
        if isinstance(options.get("split_by"), Balanced) or (whole is not None and whole.splitting.groups is not None):
            raise OptionError("write_part: Balanced needs all records in one process; split by hash, without it")
        if options.get("stratify") is not None or (whole is not None and whole.splitting.stratify):
            raise OptionError(
                "write_part: stratify needs all records in one process; commit parts without splits, and write what "
                "seqrecorder.open(path).all().split(shares, stratify=...) returns, which copies the records"
            )
        record_schema = Schema.of(schema)
        hooks = [callable(getattr(record_schema.record_class, name, None)) for name in ("load", "split")]
        # Like hooks, splits by time may drop records.
        timed = options.get("time") is not None or (whole is not None and whole.splitting.time is not None)
        opened = list[str]()
        options["metadata"] = {
            PART: part,
            IDENTITY: UniqueKeys(record_schema, "error").needs,
            HOOKS: any(hooks) or timed,
            OPENED: opened,
            MODE: "append" if append else "overwrite" if overwrite else None,
        }
        attempt = attempt_at(str(destination), part) if parts is None else parts.new_attempt(part)
        of_whole = attempt.place if isinstance(attempt, Destination) else target
        self._prepare(attempt, record_schema, WriteOptions.of(options), Part(part, whole, of_whole, opened))

    def write_encoded(self, pieces: Sequence[EncodedPiece]) -> None:
        """Add encoded records whose splits are known.

        Raises:
            DuplicateKeyError: a key has already been added.
            ShardWriteError: the disk is full or failed.
        """
        size = len(pieces)
        doubled = self._keys.add(np.frombuffer(b"".join(piece.key for piece in pieces), "<u8").astype(np.uint64))
        if doubled is not None:
            piece = [piece for piece in pieces if piece.key][doubled]
            name = self._keys.needs[0]
            record = RecordDecoder(self.schema.select([name])).decode_batch([piece.data])[0]
            raise DuplicateKeyError("has the same key as another record; make keys unique", key=getattr(record, name))
        lengths = np.frombuffer(b"".join(piece.lengths for piece in pieces), "<i8").reshape(size, -1)
        self._intake.add_encoded([piece.data for piece in pieces], lengths, [piece.split for piece in pieces])


def is_dataset(path: Any) -> bool:
    """Check whether there is a manifest at a directory or URL."""
    if is_url(path):
        return Place.of(path).version(MANIFEST) is not None
    return os.path.exists(path / MANIFEST)  # noqa: PTH110 - treats any OSError as False


def write_pieces(
    pieces: Iterable[EncodedPiece],
    destination: str | os.PathLike[str],
    schema: object,
    part: int | str,
    options: WriteOptions,
) -> Manifest:
    """Write encoded records as one part; arguments and errors are those of `write_part`."""
    kept = ("splits", "split_by", "seed", "shards", "compression", "overwrite")
    keywords: Any = {name: getattr(options, name) for name in kept}
    writer = PartWriter(destination, schema, part, **keywords)
    left = iter(pieces)
    with writer:
        while batch := list(itertools.islice(left, _TOGETHER)):
            writer.write_encoded(batch)
    return writer.manifest


def checked_part(part: object) -> int | str:
    """Check the number or name of a part.

    A string of digits is converted to a number.

    >>> checked_part("00017"), checked_part("a-m")
    (17, 'a-m')

    Raises:
        OptionError: `part` is neither a number of 0 or more nor a valid name.
    """
    if isinstance(part, str) and part.isascii() and part.isdecimal():
        part = int(part)
    if isinstance(part, str):
        return check_name(part, "part")
    number = part.item() if isinstance(part, np.integer) else part
    if not isinstance(number, int) or isinstance(number, bool):
        raise OptionError(f"part: expected a number or a name, got {part!r}")
    if number < 0:
        raise OptionError(f"part: expected 0 or more, got {number}")
    return number


class EncodedPiece(NamedTuple):
    """Encoded record, with the values that determine its shard and its position in the shard.

    Attributes:
        tag: 64-bit hash of `data`. It assigns records to shards and sorts them, because they arrive in no fixed order.
        split: name of the record's split.
        key: 8-byte hash of the key of the record's source; empty if the source has no key, and for all chunks except
            the first.
        lengths: length in each alignment group, little-endian int64, `(groups,)`.
        data: serialized SequenceExample.
    """

    tag: int
    split: str
    key: bytes
    lengths: bytes
    data: bytes


def check_unsorted(schema: Schema, options: Mapping[str, Any]) -> WriteOptions:
    """Check the options for writing records that arrive in no fixed order.

    Raises:
        OptionError: an option is invalid, or needs a fixed order or a single process.
    """
    checked = WriteOptions.of(options)
    for name in options:
        if name not in _UNSORTED:
            raise OptionError(f"{name} is not supported if many processes write records in no order; leave it out")
    if isinstance(checked.split_by, Balanced):
        raise OptionError("split_by: Balanced needs all records in one process; split by hash, without it")
    if Router(schema, checked.splits, checked.split_by, checked.seed).by_position:
        raise OptionError("records have no order, so positions cannot decide splits: pass split_by= or declare a key")
    check_params(schema.record_class, checked.params)
    return checked


@attrs.define(slots=False)
class PieceEncoder:
    """Encoder of records, dictionaries and tables that runs in any process.

    Only its schema and options are pickled.

    Args:
        schema: schema of the records.
        options: options of the write; only those for splits, the seed and the parameters of the hooks are used.

    Attributes:
        skipped: number of sources that hooks have skipped so far.
    """

    schema: Schema
    options: WriteOptions
    skipped: int = attrs.field(default=0, init=False)

    def __reduce__(self) -> tuple[object, ...]:
        return PieceEncoder, (self.schema, self.options)

    @functools.cached_property
    def _tools(self) -> tuple[LifeCycle, Router, UniqueKeys]:
        options = self.options
        router = Router(self.schema, options.splits, options.split_by, options.seed)
        return LifeCycle(self.schema, options.params), router, UniqueKeys(self.schema, "error")

    def encode(self, rows: Sequence[Any], split: str | None = None) -> Iterator[EncodedPiece]:
        """Encode records, and yield them one by one.

        Args:
            rows: records or dictionaries, or a list that contains only a table with one record per row or only a
                `ColumnSource`.
            split: name of the split for all rows; None if `splits` decides.

        Raises:
            RecordError: a record cannot be encoded.
            OptionError: the columns of a table do not match the fields.
        """
        try:
            if len(rows) == 1 and isinstance(rows[0], ColumnSource):
                yield from self._of_columns(rows[0], split)
            elif len(rows) == 1 and is_table(rows[0]):
                yield from self._of_columns(TableRecords(table_of(rows[0]), self.schema), split)
            else:
                make = maker_from_mapping(self.schema)
                records = [make(one, at) if isinstance(one, dict) else one for at, one in enumerate(rows)]
                yield from self._of_records(records, split)
        except RecordError as error:
            error.position = None  # the position in an arbitrary batch would be misleading
            raise

    def _of_columns(self, source: ColumnSource, split: str | None) -> Iterator[EncodedPiece]:
        for whole, size in source.columns():
            for _, columns in cut(whole, size):
                rows = None if self._tools[0].has_hooks else columns
                yield from self._of_records(records_of(source.in_columns, columns), split, rows)

    def _of_records(
        self, records: Sequence[Any], split: str | None, columns: dict[str, Column] | None = None
    ) -> Iterator[EncodedPiece]:
        life_cycle, router, keys = self._tools
        if not records:
            return
        sources, last = Sources(np.arange(len(records)), records, columns=columns), -1
        chosen = router.assign(sources, [split] * len(records))
        names, numbers = np.unique([chosen] * len(records) if isinstance(chosen, str) else chosen, return_inverse=True)
        for block in life_cycle.encode(attrs.evolve(sources, splits=numbers)):
            self.skipped += len(block.skipped)
            hashes, usable = keys.hashes_of([sources.records[position] for position in block.sources.tolist()])
            # Only the first chunk of a source carries its key. This block may begin with more chunks of a source whose
            # first chunk is in the previous block.
            usable &= np.diff(block.sources, prepend=last) != 0
            splits = names[block.splits].tolist()
            rows = zip(block.data, splits, hashes.tolist(), usable.tolist(), block.lengths, strict=True)
            for data, name, key, is_first, lengths in rows:
                tag = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
                packed = key.to_bytes(8, "little") if is_first else b""
                yield EncodedPiece(tag, name, packed, lengths.astype("<i8").tobytes(), bytes(data))
            last = max([last, *block.sources[-1:].tolist()])


_MOST_OF_PIECE = 16_384  # maximum number of records that one task reads


def pieces_of(shards: Iterable[ShardInfo]) -> Iterator[tuple[int, int, int]]:
    """Divide shards into tasks for reading.

    Each task lies within one shard, and consists of the start, stop and step of the positions to read.
    """
    for shard in shards:
        stop = shard.start + shard.step * shard.records
        for start in range(shard.start, stop, shard.step * _MOST_OF_PIECE):
            yield start, min(stop, start + shard.step * _MOST_OF_PIECE), shard.step


def same_everywhere(destination: str | os.PathLike[str]) -> str:
    """Make a path absolute, because workers have other working directories.

    A URL is returned unchanged.

    Raises:
        OptionError: `destination` is neither a URL nor a path.
    """
    return str(destination if is_url(destination) else local_path(destination))


_UNSORTED = ("splits", "split_by", "seed", "shards", "compression", "params", "metadata", "assets", "overwrite")
"""Options that make sense if records arrive in no fixed order and in many processes."""
