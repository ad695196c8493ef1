"""`write_part`, one process's share of a dataset; and what Beam and Spark write and read record by record."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import itertools
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
from seqrecorder.dataset.generations import named
from seqrecorder.dataset.keys import UniqueKeys
from seqrecorder.dataset.manifest import parse_manifest, read_manifest, shards_of
from seqrecorder.dataset.push_pull import PARTS, Destination
from seqrecorder.dataset.splits import Balanced
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
from seqrecorder.storage.processes import in_threads
from seqrecorder.storage.publish import PartsDirectory
from seqrecorder.writing.columns import ColumnSource, Sources, TableRecords
from seqrecorder.writing.intake import LifeCycle, check_params
from seqrecorder.writing.splits import Router
from seqrecorder.writing.writer import Part, WriteOptions, Writer, shows_options, stream_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Unpack

    from seqrecorder.codec.columns import Column
    from seqrecorder.dataset.manifest import Manifest, ShardInfo
    from seqrecorder.writing.writer import WriteKeywords


_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.timezone.utc)


def attempt_at(url: str, part: int | str) -> Destination:
    """Return a destination of its own for another attempt at a part."""
    token = secrets.token_hex(4)
    label = f"p{part:05d}" if isinstance(part, int) else "p" + part.encode().hex()[:16]
    return Destination(Place.of(url), name=f"{PARTS}{part}-{token}.json", label=f"-{label}-{token}")


@attrs.frozen
class UrlParts:
    """The parts of one dataset; what `PartsDirectory` is for a directory.

    Attributes:
        whole: where the dataset shall be, and what stood there.
        known: the attempts that are complete by the names of their manifests: their directories in the cache, and when
            each was, in nanoseconds.
    """

    whole: Destination
    known: Mapping[str, tuple[Path, int]]

    @classmethod
    def of(cls, url: str, part: int | str | None = None) -> UrlParts:
        """Return those at a URL; of one part, and those whose names begin like its, if it is named."""
        whole, known = Destination.of(url), dict[str, tuple[Path, int]]()
        begin = PARTS if part is None else f"{PARTS}{part}-"
        names = {name: item for name, item in whole.place.items().items() if name.startswith(begin)}

        def bring(name: str) -> None:
            text = whole.place.read(name)
            if text is not None:
                path = cached(whole.place, text)
                _ = parse_manifest(text, path).assets  # the hashes of its keys
                known[name] = path, int((names[name].modified or _LONG_AGO).timestamp() * 1e9)

        in_threads(bring, list(names))
        return cls(whole, dict(sorted(known.items())))

    @property
    def destination(self) -> str:
        """The URL of the dataset."""
        return self.whole.place.url

    @property
    def path(self) -> str:
        """The URL under which the manifests of parts are."""
        return f"{self.destination}/{PARTS}"

    @property
    def attempts(self) -> list[tuple[Path, int]]:
        """The attempts that are complete, as directories in the cache, and when each was."""
        return list(self.known.values())

    def check_files(self, parts: Sequence[Manifest]) -> None:
        """Raise `DatasetNotFoundError` where a shard of a part is missing or has another size; else see `require_fit`.

        Raises:
            ShardReadError: lengths are not what the manifest of a part says.
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

        in_threads(check_lengths, parts)  # each waits for the place

    def remove(self, taken: Sequence[bool], published: Manifest) -> None:
        """Remove the manifests of attempts that are committed, and their files that are not of the dataset.

        Args:
            taken: of each attempt, whether it is.
            published: what the dataset contains.

        Raises:
            DatasetError: there are other attempts, that came since an earlier commit was killed.
        """
        ours, files, names = named(published), set[str](), list[str]()
        for name, (path, _) in itertools.compress(self.known.items(), taken):
            shards = named(read_manifest(path))
            files |= shards - ours
            # What proves that the others are committed goes last.
            names.insert(len(names) if shards & ours else 0, name)
        self.whole.place.remove([*sorted(files), *names])
        others = sorted(self.known.keys() - set(names))
        if others:
            raise DatasetError(
                f"{self.destination} is committed, by a run that was killed behind that; {others[0]} and "
                f"{len(others) - 1} more came since: commit again for new parts; late attempts at old ones go by "
                "`seqrecorder clean --parts`",
                path=self.destination,
            )


_TOGETHER = 1024

PART = "part"
"""Key of a part's metadata: its number or name."""

IDENTITY = "identified_by"
"""Key of a part's metadata: the fields that identify a source; of chunks that the class makes, not their number."""

HOOKS = "hooks"
"""Key of a part's metadata: whether hooks or times decided, so that other keys may be stored than came."""

OPENED = "opened"
"""Key of a part's metadata: digests of the manifests whose records the part holds."""

_WHOLE = ("metadata", "assets")


@attrs.frozen
class Attempt:
    """An attempt at a part that is complete.

    Attributes:
        name: its number or name.
        manifest: of what the attempt wrote.
        completed: when, in nanoseconds.
        opened: the digest of what stood at the destination, for each selection of its records that is in the part.
    """

    name: int | str
    manifest: Manifest
    completed: int
    opened: tuple[str, ...] = ()


def read_attempts(source: PartsDirectory | UrlParts) -> list[Attempt]:
    """Read the manifests of all attempts that are complete."""
    attempts = []
    for path, completed in source.attempts:
        manifest = read_manifest(path)
        try:
            name, _ = checked_part(manifest.metadata[PART]), list(manifest.metadata[IDENTITY])
            opened = tuple(manifest.metadata.get(OPENED, ()))
        except (TypeError, KeyError, OptionError):
            raise ManifestError(
                f"{path / MANIFEST}: expected the manifest of a part; only parts belong into {source.path}", path=path
            ) from None
        attempts.append(Attempt(name, manifest, completed, opened))
    return attempts


def parts(destination: str | os.PathLike[str]) -> list[int | str]:
    """List the parts of a dataset that are complete and wait for `commit`: numbers first, then names.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> destination = tempfile.mkdtemp() + "/corpus"
    >>> _ = sr.write_part([Word("to")], destination, 7)
    >>> sr.parts(destination)
    [7]

    Args:
        destination: as for `write_part`, a directory or a URL.

    Raises:
        ManifestError: something else than parts lies where they do.
    """
    return sorted(_finished(destination), key=lambda name: (isinstance(name, str), name))


def _finished(destination: str | os.PathLike[str], part: int | str | None = None) -> dict[int | str, Manifest]:
    """Return by part what its last complete attempt contains; of one part if that is named."""
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
    """Write one part of a dataset, which other processes, on other machines too, write the other parts of.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str, key=True)
    >>> destination = tempfile.mkdtemp() + "/corpus"
    >>> for part, texts in enumerate([["to", "be"], ["or", "not"]]):  # in processes of their own, in any order
    ...     _ = sr.write_part(map(Word, texts), destination, part)
    >>> sr.commit(destination, expected=2).records
    4

    Nothing is at the destination before `commit`. Parts wait beside it, those of `corpus` in `corpus.parts`, which all
    processes must see and may remove if the work is given up (at a URL, where their shards stay, by
    `clean(url, parts=True)`). A part may be written again, also by two processes at
    once: each attempt has files of its own, and of those that were completed the last one counts.

    Splits by shares depend on the key, or on what `split_by` names, alone, and so not on the parts. For a class without
    a key, and without `split_by`, they depend on the part and the position in it.

    Args:
        records: of this part, as for `write`.
        destination: as for `write`; the same for all parts.
        part: its number, or its name; a text of digits is the number.
        schema: as for `write`; needed where a part may have no record.
        skip_finished: whether a part that is complete stays as it is, and no record is drawn: for a job that is started
            again. One of another schema than `schema` is written again.
        **options: the fields of `WriteOptions`, the same for all parts. `metadata` and `assets` are given to `commit`;
            there is no `csv`, `stratify` nor `Balanced`, which take all records in one process. With `append` or
            `overwrite`, there may be a dataset already; `commit` needs the same. `shards` is their number in
            each part.

    Returns:
        What this part contains, which lies at its `path` until it is committed.

    Raises:
        DatasetExistsError: there is a dataset at the destination already, committed perhaps.
        RecordError: a record cannot be encoded; nothing is left of this attempt.
        SourceError: the iterable raised; nothing is left of this attempt.
        OptionError: options make no sense.
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
    """Writes one part of a dataset record by record: a dataset of its own, with the hashes of its keys beside.

    Args:
        destination: of the whole dataset.
        schema: the record class, or its schema.
        part: its number or name.
        **options: as for `write_part`.

    Raises:
        DatasetExistsError: see `write_part`.
        OptionError: see `write_part`.
    """

    def __init__(
        self, destination: str | os.PathLike[str], schema: object, part: int | str, **options: Unpack[WriteKeywords]
    ) -> None:
        part = checked_part(part)
        for name in _WHOLE:
            if options.get(name) is not None:
                raise OptionError(f"write_part: give {name} to commit, since it is of the whole dataset")
        for name in ("stats", "csv"):
            if options.get(name):
                raise OptionError(f"write_part: {name}=True is for datasets that one process writes; leave it out")
        parts = None if is_url(destination) else PartsDirectory.of(destination)
        target = destination if parts is None else parts.destination
        append, overwrite = bool(options.pop("append", False)), bool(options.pop("overwrite", False))
        if not (append or overwrite) and _is_dataset(target):
            raise DatasetExistsError(
                f"there is a dataset at {target}, so that no part is written for it; if it was committed "
                "already, all is done; else choose another destination, or pass append=True or overwrite=True here "
                "and to commit",
                path=target,
            )
        whole = read_manifest(target) if append else None
        if isinstance(options.get("split_by"), Balanced) or (whole is not None and whole.splitting.groups is not None):
            raise OptionError("write_part: Balanced needs all records in one process; split by hash, without it")
        if options.get("stratify") is not None or (whole is not None and whole.splitting.stratify):
            raise OptionError(
                "write_part: stratify counts what all records are; commit parts without splits, and write what "
                "seqrecorder.open(path).all().split(shares, stratify=...) gives, whose records are copied"
            )
        record_schema = Schema.of(schema)
        hooks = [callable(getattr(record_schema.record_class, name, None)) for name in ("load", "split")]
        # Splits in time may leave records out, too.
        timed = options.get("time") is not None or (whole is not None and whole.splitting.time is not None)
        opened = list[str]()
        options["metadata"] = {
            PART: part,
            IDENTITY: UniqueKeys(record_schema, "error").needs,
            HOOKS: any(hooks) or timed,
            OPENED: opened,
        }
        attempt = attempt_at(str(destination), part) if parts is None else parts.new_attempt(part)
        of_whole = attempt.place if isinstance(attempt, Destination) else target
        self._prepare(attempt, record_schema, WriteOptions.of(options), Part(part, whole, of_whole, opened))

    def write_encoded(self, pieces: Sequence[EncodedPiece]) -> None:
        """Add records that are encoded already, and know their splits.

        Raises:
            DuplicateKeyError: a key came before.
            ShardWriteError: the disk is full, or failed.
        """
        size = len(pieces)
        doubled = self._keys.add(np.frombuffer(b"".join(piece.key for piece in pieces), "<u8").astype(np.uint64))
        if doubled is not None:
            piece = [piece for piece in pieces if piece.key][doubled]
            key = self.schema.key_field
            name = "" if key is None else key.name
            record = RecordDecoder(self.schema.select([name])).decode_batch([piece.data])[0]
            raise DuplicateKeyError("has the key of another record; make keys unique", key=getattr(record, name))
        lengths = np.frombuffer(b"".join(piece.lengths for piece in pieces), "<i8").reshape(size, -1)
        self._intake.add_encoded([piece.data for piece in pieces], lengths, [piece.split for piece in pieces])


def _is_dataset(path: Any) -> bool:
    return Place.of(path).version(MANIFEST) is not None if is_url(path) else (path / MANIFEST).exists()


def write_pieces(
    pieces: Iterable[EncodedPiece],
    destination: str | os.PathLike[str],
    schema: object,
    part: int | str,
    options: WriteOptions,
) -> Manifest:
    """Write one part of records that are encoded already; takes and raises what `write_part` does."""
    kept = ("splits", "split_by", "seed", "shards", "compression", "overwrite")
    keywords: Any = {name: getattr(options, name) for name in kept}
    writer = PartWriter(destination, schema, part, **keywords)
    left = iter(pieces)
    with writer:
        while batch := list(itertools.islice(left, _TOGETHER)):
            writer.write_encoded(batch)
    return writer.manifest


def checked_part(part: object) -> int | str:
    """Return the number or the name of a part.

    >>> checked_part("00017"), checked_part("a-m")
    (17, 'a-m')

    Raises:
        OptionError: it is neither.
    """
    if isinstance(part, str) and part.isascii() and part.isdecimal():
        part = int(part)
    if isinstance(part, str):
        return check_name(part, "part")
    number = part.item() if isinstance(part, np.integer) else part
    if not isinstance(number, int) or isinstance(number, bool):
        raise OptionError(f"part: expected its number or its name, got {part!r}")
    if number < 0:
        raise OptionError(f"part: expected 0 or more, got {number}")
    return number


class EncodedPiece(NamedTuple):
    """A record that is encoded, with what decides its place.

    Attributes:
        tag: 64 bits of a hash of the bytes, by which records are dealt to shards and sorted: they come in no order.
        split: name of its split.
        key: the hash of its source's key, 8 bytes; empty for a source without one, and for its later chunks.
        lengths: int64 (groups), little-endian.
        data: the serialized SequenceExample.
    """

    tag: int
    split: str
    key: bytes
    lengths: bytes
    data: bytes


def check_unsorted(schema: Schema, options: Mapping[str, Any]) -> WriteOptions:
    """Return the options of a write whose records come in no order.

    Raises:
        OptionError: one makes no sense there.
    """
    checked = WriteOptions.of(options)
    for name in options:
        if name not in _UNSORTED:
            raise OptionError(f"{name}: not where many processes write records in any order; leave it out")
    if isinstance(checked.split_by, Balanced):
        raise OptionError("split_by: Balanced needs all records in one process; split by hash, without it")
    router = Router(schema, checked.splits, checked.split_by, checked.seed)
    if router.by_position:
        raise OptionError("records come in no order, so that positions cannot decide splits: name split_by=, or a key")
    check_params(schema.record_class, checked.params)
    return checked


@attrs.define(slots=False)
class PieceEncoder:
    """Encodes records, dictionaries and tables, in any process; pickles as what it was made of.

    Args:
        schema: what the records are.
        options: the splits and their rule, the seed, and parameters of hooks.

    Attributes:
        skipped: sources that a hook has left out by now.
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
        """Encode records, one by one.

        Args:
            rows: records or dictionaries; or one table, whose rows are records; or one source that gives columns.
            split: the name of their split, where no rule decides.

        Raises:
            RecordError: a record cannot be encoded.
            OptionError: the columns of a table are not the fields.
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
            error.position = None  # which is that among records that came together by chance
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
            # The first chunk of a source answers for its key; the last source of the block before may go on.
            usable &= np.diff(block.sources, prepend=last) != 0
            splits = names[block.splits].tolist()
            rows = zip(block.data, splits, hashes.tolist(), usable.tolist(), block.lengths, strict=True)
            for data, name, key, is_first, lengths in rows:
                tag = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
                packed = key.to_bytes(8, "little") if is_first else b""
                yield EncodedPiece(tag, name, packed, lengths.astype("<i8").tobytes(), bytes(data))
            last = max([last, *block.sources[-1:].tolist()])


_MOST_OF_PIECE = 16_384


def pieces_of(shards: Iterable[ShardInfo]) -> Iterator[tuple[int, int, int]]:
    """Yield start, stop and step of the positions of some records of one shard, which a task reads together."""
    for shard in shards:
        stop = shard.start + shard.step * shard.records
        for start in range(shard.start, stop, shard.step * _MOST_OF_PIECE):
            yield start, min(stop, start + shard.step * _MOST_OF_PIECE), shard.step


def same_everywhere(destination: str | os.PathLike[str]) -> str:
    """Return a URL, or a path that is absolute: workers have other working directories.

    Raises:
        OptionError: it is neither.
    """
    return str(destination if is_url(destination) else local_path(destination))


_UNSORTED = ("splits", "split_by", "seed", "shards", "compression", "params", "metadata", "assets", "overwrite")
"""The options that make sense where records come in no order, and in many processes."""
