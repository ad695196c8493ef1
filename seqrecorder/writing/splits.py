"""Assignment of records to splits, and writing of the shards of each split.

Records are encoded by `intake`.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.dataset.manifest import BY_FUNCTION, ShardInfo, SplitInfo, Splitting, bins_text, histogram
from seqrecorder.dataset.push_pull_clean import unique_name
from seqrecorder.dataset.split_shares import (
    Balanced,
    Ratios,
    StratifiedDealer,
    Stratum,
    key_hash,
    key_hashes,
    missed_strata,
)
from seqrecorder.dataset.splits_in_time import DROPPED, SplitsInTime, TimeRule
from seqrecorder.errors import OptionError, RecordError
from seqrecorder.storage.files import (
    check_name,
    examples_name,
    faults_around,
    lengths_name,
    sha256,
    shard_name,
    writing,
)
from seqrecorder.storage.processes_and_signals import in_threads, submit
from seqrecorder.storage.shard_writer import OpenShards, ShardWriter
from seqrecorder.wire.byte_rows import sizes
from seqrecorder.writing.examples_csv import SURROGATES, ExamplesCsv
from seqrecorder.writing.shuffle import SortedSpill, shuffle_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.dataset.push_pull_clean import Destination
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.files import Compression
    from seqrecorder.writing.columns import Sources


DEFAULT_SPLIT = "train"
_LOG = logging.getLogger("seqrecorder")
_OF_ALL = key_hash(None)  # the single stratum of balanced splits without `stratify`


class Router:
    """Rule that chooses the split of each record.

    Args:
        schema: schema of the records.
        splits: mapping from split name to share of the records; or the name of an attribute with the split name, or a
            function that returns the split name of a record; or None for a single split.
        split_by: name of an attribute, or a function of a record, whose value is hashed to choose the split. By
            default, the key field is hashed, or the position of the record if the schema has no key field.
        seed: seed of the hash.
        old: manifest of the dataset being appended to, whose rule applies; None for a new dataset.
        part: number or name of the part to write, in which positions count from 0; None for a whole dataset.
        stratify: name of an attribute, or a function that returns the stratum of a record; None for no strata.
        time: rule for splitting by time; None if the time of a record does not determine its split.

    Attributes:
        ratios: rule for splits in given proportions; None for other rules.
        seed: seed of the hash.
        in_time: rule for splits by time; None if the time of a record does not determine its split.
        drops: whether to drop records that straddle two splits by time.
        cuts: whether to cut records at the boundaries between splits by time.
        by_position: whether the position of a record determines its split.

    Raises:
        OptionError: an option is invalid, or contradicts the old dataset.
    """

    def __init__(
        self,
        schema: Schema,
        splits: Any,
        split_by: Any,
        seed: int,
        old: Manifest | None = None,
        *,
        part: int | str | None = None,
        stratify: Any = None,
        time: TimeRule | None = None,
    ) -> None:
        self._schema, self.seed, self._part = schema, seed, part
        self._first, self._old_splits = 0, tuple[str, ...]()
        balanced = isinstance(split_by, Balanced)
        if old is not None:
            splits, split_by, stratify, time = _continue(old, splits, split_by, stratify, time, seed=seed)
            self.seed, self._first, self._old_splits = old.splitting.seed, old.splitting.sources, tuple(old.splits)
            balanced = old.splitting.groups is not None
        split_by = split_by.by if isinstance(split_by, Balanced) else split_by
        self.in_time = None if time is None else SplitsInTime(time, schema)
        self.drops = time is not None and time.straddling == "drop"
        self.cuts = time is not None and time.straddling == "cut"
        splits = splits if time is None else None
        self.ratios = Ratios(splits) if isinstance(splits, Mapping) else None
        self._name_of = None if splits is None or self.ratios else _getter(splits, "splits", "its split", schema)
        if split_by is not None and self.ratios is None:
            raise OptionError("split_by needs splits with shares, such as splits={'train': 0.9, 'eval': 0.1}")
        key = schema.key_field
        by = split_by if split_by is not None else (key and key.name)
        self._splits_option, self._by_option = splits, by
        self._key_of = None if by is None else _getter(by, "split_by", "its key", schema)
        self._by = BY_FUNCTION if callable(split_by) else split_by
        self.by_position = self.ratios is not None and by is None
        self._dealer: StratifiedDealer | None = None
        if stratify is not None and self.ratios is None:
            raise OptionError("stratify needs splits with shares, such as splits={'train': 0.9, 'eval': 0.1}")
        # Chunks of a source share its key, so they must stay together.
        self._is_grouped = balanced or split_by is not None or any(field.chunk for field in schema.fields)
        self._stratify = stratify
        self._stratum_of = None if stratify is None else _getter(stratify, "stratify", "its stratum", schema)
        if self.ratios is not None and (balanced or stratify is not None):
            strata, groups = (None, None) if old is None else (old.splitting.strata, old.splitting.groups)
            if old is not None and stratify is None:
                counts = [old.splits[name].records if name in old.splits else 0 for name in self.ratios.shares]
                strata = {_OF_ALL: Stratum("", counts)}
            self._dealer = StratifiedDealer(self.ratios.shares, self.seed, strata, groups)

    @property
    def needs(self) -> list[str] | None:
        """Names of the attributes that determine splits.

        The value is None if a function determines them, because a function may read any attribute.
        """
        if any(map(callable, (self._splits_option, self._by_option, self._stratify))):
            return None
        if self.in_time is not None:
            return self.in_time.needs
        if self._dealer is not None:
            return [str(name) for name in (self._by_option if self._is_grouped else None, self._stratify) if name]
        name = self._by_option if self.ratios is not None else self._splits_option
        return [] if name is None else [str(name)]

    @property
    def names(self) -> list[str]:
        """Names of the declared splits, which exist even if no record belongs to them."""
        if self.in_time is not None:
            return self.in_time.names
        return [] if self.ratios is None else list(self.ratios.shares)

    def splitting(self, count: int) -> Splitting:
        """Build the splitting rule in the form that the manifest stores.

        It is the rule as it stands after `count` records.
        """
        shares = dict(self.ratios.shares) if self.ratios else None
        groups = self._dealer.groups if self._dealer and self._is_grouped else None
        stratify = BY_FUNCTION if callable(self._stratify) else self._stratify
        strata = self._dealer.strata if self._dealer and stratify else None
        rule = None if self.in_time is None else self.in_time.rule.to_dict(self._schema)
        return Splitting(self.seed, shares, self._by, self._first + count, groups, stratify, strata, rule)

    def check_split(self, split: Any) -> None:
        """Raise `OptionError` if the split that the caller names for a record is not allowed.

        It must be one of those in `splits`, if there are any. With `time`, no split can be named.
        """
        if self.ratios is not None and split not in self.ratios.shares:
            raise OptionError(f"split {split!r} is not one of {', '.join(self.ratios.shares)}")
        if self.in_time is not None:
            raise OptionError("time: the split of a record follows from its time; do not name one")
        check_name(split, "split")

    def keep(self, sources: Sources) -> list[int] | None:
        """Select the records that belong to a split.

        The result is their indices, or None if all records are selected.

        Raises:
            RecordError: a record has no time.
        """
        if self.in_time is None or not self.drops or not len(sources.records):
            return None
        splits = self.in_time.assign(sources.records, sources.positions)
        return None if (splits != DROPPED).all() else np.flatnonzero(splits != DROPPED).tolist()

    def assign(self, sources: Sources, named: Sequence[str | None]) -> list[str] | str:
        """Choose the split of each record.

        The result is a list of names, or a single name if it is the same for all records.

        Args:
            sources: at least one source record.
            named: split name from the caller for each record; None if the caller named none.

        Raises:
            RecordError: a record lacks the attribute, or its value is not a valid split name.
            OptionError: no rule decides which split of the old dataset a record belongs to.
        """
        first = named[0]
        distinct = {first} if named.count(first) == len(named) else set(named)  # `count` takes a fifth of the time
        if first is not None and len(distinct) == 1:
            return first
        if self.ratios is not None:
            if self._dealer is not None:
                return self._deal(self._dealer, sources, named)
            names = self.ratios.assign_all(key_hashes(self._keys(sources, named), self.seed))
            left = iter(names)
            return names if distinct == {None} else [split or next(left) for split in named]
        if self.in_time is not None:
            numbers = self.in_time.assign(sources.records, sources.positions)
            return [self.in_time.names[number] for number in numbers.tolist()]
        if self._name_of is not None:
            rows = zip(sources.records, sources.positions.tolist(), named, strict=True)
            return [split or _name_of(self._name_of, record, position) for record, position, split in rows]
        if self._old_splits not in ((), (DEFAULT_SPLIT,)) and None in distinct:
            raise OptionError(
                f"append=True: the dataset has the splits {', '.join(self._old_splits)}, named record by record, "
                "without a rule; say where new records belong: pass a mapping of split names to records, "
                "splits= with the name of an attribute or a function of the record, or write(record, split=...)"
            )
        return DEFAULT_SPLIT if distinct == {None} else [split or DEFAULT_SPLIT for split in named]

    def _deal(self, dealer: StratifiedDealer, sources: Sources, named: Sequence[str | None]) -> list[str]:
        free = [index for index, split in enumerate(named) if split is None]
        rest = sources.only(free)
        values: list[Any] = [None] * len(free)
        if self._stratum_of is not None:
            values = list(map(self._stratum_of, rest.records, rest.positions.tolist()))
        groups = None
        if self._is_grouped:
            groups = key_hashes(self._keys(rest, [None] * len(free)), self.seed).tolist()
        left = iter(dealer.assign(values, self._first + rest.positions, groups))
        return [split or next(left) for split in named]

    def _keys(self, sources: Sources, named: Sequence[str | None]) -> list[Any]:
        """List the keys of the records for which the caller named no split."""
        rows = zip(sources.positions.tolist(), sources.records, named, strict=True)
        if self._key_of is None:
            positions = [self._first + position for position, _, split in rows if split is None]
            return positions if self._part is None else [(self._part, position) for position in positions]
        return [self._key_of(record, position) for position, record, split in rows if split is None]


def _continue(
    old: Manifest, splits: Any, split_by: Any, stratify: Any, time: TimeRule | None, *, seed: int
) -> tuple[Any, Any, Any, TimeRule | None]:
    """Take the splitting rule from the old dataset.

    An option that contradicts the rule raises `OptionError`.
    """
    was = old.splitting
    _keep_option("seed", seed or None, was.seed)
    if time is not None and time.to_dict(old.schema) != was.time:
        raise OptionError("append=True: the dataset has other splits in time, or none; leave splits and time out")
    if time is not None:
        splits = None
    elif was.shares is not None:
        splits = _keep_option("splits", splits, dict(was.shares))
    elif isinstance(splits, Mapping):
        were = "has no splits" if list(old.splits) == [DEFAULT_SPLIT] else "has splits that were named record by record"
        raise OptionError(f"append=True: the dataset {were}; leave splits= out, or write all records again with it")
    if isinstance(split_by, Balanced):
        _keep_option("split_by", "balanced", "by hash" if was.groups is None else "balanced")
        split_by = split_by.by
    if was.shares is not None:
        split_by = _keep_option("split_by", split_by, was.by)
    rule = None if was.time is None else TimeRule(**was.time)
    return splits, split_by, _keep_option("stratify", stratify, was.stratify), rule


def _keep_option(option: str, value: Any, known: Any) -> Any:
    """Take an option from the dataset to which records are appended.

    A function must be passed again, because a manifest cannot contain it. Another value raises an error if it differs.
    """
    if value is None and known == BY_FUNCTION:
        raise OptionError(f"append=True: the dataset was written with a function; pass the same as {option}=")
    if value is not None and (BY_FUNCTION if callable(value) else value) != known:
        raise OptionError(f"append=True: the dataset was written with {option}={known!r}; leave it out, got {value!r}")
    return known if value is None else value


def _name_of(ask: Callable[[Any, int], Any], record: Any, position: int) -> str:
    name = ask(record, position)
    if not isinstance(name, str):
        raise RecordError(f"its split: expected a name, got {name!r}", position=position)
    return check_name(name, "split")


def _getter(source: Any, option: str, what: str, schema: Schema) -> Callable[[Any, int], Any]:
    """Build a function that computes a value for each record.

    The value is an attribute of the record, or the result of the user's function for this record.

    Raises:
        OptionError: `source` is neither a function nor the name of an attribute with a single value per record.
    """
    if not isinstance(source, str) and not callable(source):
        raise OptionError(f"{option}: expected the name of an attribute or a function of the record, got {source!r}")
    known = [attribute.name for attribute in attrs.fields(schema.record_class)]
    if isinstance(source, str) and source not in known:
        raise OptionError(f"{option}: {schema.name} has no attribute {source!r}; it has {', '.join(known)}")
    get = attrgetter(source) if isinstance(source, str) else source
    field = next((field for field in schema.fields if field.name == source), None)
    if field is not None and not field.is_scalar:
        problem = "is a feature list" if field.is_list else "has more than one value"
        raise OptionError(f"{option}: expected one value of each record, or a function; field {source!r} {problem}")
    late = field is not None and field.deferred

    def ask(record: Any, position: int) -> Any:
        try:
            value = get(record)
        except Exception as error:
            raise RecordError(f"{what}: {type(error).__name__}: {error}", position=position) from error
        if late and value is None:
            raise RecordError(f"{what}: {source!r} is None, because `load` runs later", position=position)
        return value

    return ask


_AT_ONCE = 4  # number of shards to upload at a time; each takes space on the local disk until it is sent


def _facts(name: str, path: Path, sha256: str, lengths_sha256: str) -> dict[str, Any]:
    """Collect the attributes of `ShardInfo` that are unknown until a shard is complete."""
    return {"name": name, "bytes": path.stat().st_size, "sha256": sha256, "lengths_sha256": lengths_sha256}


class EarlyUploads:
    """Background uploader that deletes each local shard once it has been sent.

    Args:
        destination: URL of the dataset, with the label to put into the names of its shards.

    Attributes:
        sent: names of the uploaded files, relative to the dataset.
    """

    def __init__(self, destination: Destination) -> None:
        self._destination, self.sent = destination, set[str]()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="seqrecorder-uploads")
        self._running: deque[Future[dict[str, Any]]] = deque()

    def send(self, split: str, name: str, shard: ShardWriter) -> Future[dict[str, Any]]:
        """Start the upload of a closed shard.

        If too many uploads are running, wait for the oldest one first.

        Args:
            split: name of the split.
            name: file name of the shard, without its digest.
            shard: writer of the shard.

        Raises:
            ShardWriteError: the upload of an earlier shard failed.
        """
        while self._running and (len(self._running) >= _AT_ONCE or self._running[0].done()):
            self._running.popleft().result()
        self._running.append(submit(self._pool, self._send, (split, name, shard)))
        return self._running[-1]

    def _send(self, task: tuple[str, str, ShardWriter]) -> dict[str, Any]:
        split, name, shard = task
        digests = shard.digest.finish(), sha256(shard.lengths_path)
        name = unique_name(name, *digests, self._destination.label)
        files = _facts(name, shard.path, *digests)
        for path, remote in ((shard.path, name), (shard.lengths_path, lengths_name(name))):
            self._destination.place.upload(path, f"{split}/{remote}")
            self.sent.add(f"{split}/{remote}")
            path.unlink()
        return files

    def close(self) -> None:
        """Wait for running uploads, and cancel those that have not started."""
        self._pool.shutdown(cancel_futures=True)


DEFAULT_SHARD_BYTES = 128 << 20
"""Default size at which a shard ends, if neither `shards` nor `shard_bytes` is set."""

_FRAME = 16  # bytes of the TFRecord frame around each record
_SPILL_BATCH = 1024  # records to write at a time
_SPILL_BYTES = 64 << 20  # memory limit per split, in bytes


class SplitWriter:
    """Writer of the files of one split.

    Args:
        name: name of the split.
        directory: directory of the split, created if it does not exist; temporary files go beside it.
        options: options of the shards.
        start: number of records of the split in earlier generations.
        open_shards: tracker of open files, shared by splits that are written together; None for a single split.
        uploads: uploader of full shards; None to keep them in the directory.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        options: ShardOptions,
        start: int = 0,
        *,
        open_shards: OpenShards | None = None,
        uploads: EarlyUploads | None = None,
    ) -> None:
        self.name, self.directory, self.options, self.start = name, directory, options, start
        self._open_shards = open_shards or OpenShards()
        self._uploads = uploads
        self._sent: list[Future[dict[str, Any]]] = []  # uploads of the shards sent so far
        self.records = 0
        self._shards: list[ShardWriter] = []
        self._closed: list[ShardInfo] = []  # entries of the closed shards, still without names, sizes and digests
        self._filled = 0
        self._csv: ExamplesCsv | None = None
        with writing("create the directory of split", directory), faults_around("mkdir", directory):
            directory.mkdir(exist_ok=True)
        self._spill = None
        if options.shuffle_seed is not None:
            # Names of splits never begin with a dot, so this name cannot clash with one.
            self._spill = SortedSpill(directory.with_name(f".shuffle-{name}"), memory_bytes=_SPILL_BYTES)
        self._spilled = 0

    def add(
        self,
        data: Sequence[bytes],
        lengths: NDArray[np.int64],
        columns: Sequence[str] | None,
        rows: Sequence[str] | None,
    ) -> None:
        """Add encoded records.

        `lengths` contains their lengths, int64 `(records, groups)`. `rows` contains their CSV lines, or is None if
        there is no CSV.

        Raises:
            ShardWriteError: the disk is full or failed.
            OptionError: the CSV would have two columns with the same name.
        """
        if columns is not None and self._csv is None:
            self._csv = ExamplesCsv(self.directory / examples_name(self.options.csv_generation), columns)
        if self._spill is None or self.options.shuffle_seed is None:
            self._write_rows(data, lengths, rows)
            return
        tags = shuffle_tags(self.options.shuffle_seed, self._spilled, len(data))
        for position, (tag, item) in enumerate(zip(tags.tolist(), data, strict=True)):
            line = b"" if rows is None else rows[position].encode("utf-8", SURROGATES)
            self._spill.add(tag, (item, lengths[position].astype("<i8").tobytes(), line))
        self._spilled += len(data)

    def _write_rows(self, data: Sequence[bytes], lengths: NDArray[np.int64], rows: Sequence[str] | None) -> None:
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
                if self._filled:  # the shard is full; a record larger than the limit gets a shard of its own
                    self._close_first()
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
        # Shards are renamed at the end, because their names contain the number of shards.
        path = self.directory / f"{len(self._shards):05d}.part"
        return ShardWriter(path, path.with_suffix(".lengths"), self.options.compression, self._open_shards)

    def _write(self, shard: int, data: Sequence[bytes], lengths: NDArray[np.int64], rows: Sequence[str] | None) -> None:
        writer = self._shards[shard]
        if self._csv is not None and rows is not None:
            self._csv.add(shard, writer.records, lengths[:, 0].tolist(), rows)
        writer.write(data, lengths)

    def _close_first(self) -> None:
        """Close the first shard that is not closed yet.

        Each shard is closed as soon as it is complete, so that only shards that are still being written are open.
        """
        steps = self._shards[len(self._closed)].close(self.options.groups)[:, 0]
        self._closed.append(ShardInfo("", steps.size, int(steps.sum()), 0, "", "", bins_text(histogram(steps)), 0, 1))

    def finish(self) -> SplitInfo:
        """Close all files, and return the entry of the split for the manifest.

        Raises:
            ShardWriteError: the disk is full or failed.
        """
        if self._spill is not None:
            items = self._spill.drain()
            while batch := list(itertools.islice(items, _SPILL_BATCH)):
                self._write_spilled(batch)
        while len(self._closed) < len(self._shards):
            self._close_first()
        if self._csv is not None:
            self._csv.flush()
        infos, filled = [], self.start
        for index, (files, info) in enumerate(zip(self._finish_files(), self._closed, strict=True)):
            start, step = (filled, 1) if self.options.shards is None else (self.start + index, len(self._shards))
            infos.append(attrs.evolve(info, **files, start=start, step=step))
            filled += info.records
        return SplitInfo(self.name, tuple(infos))

    def _finish_files(self) -> list[dict[str, Any]]:
        """Give all shards their final names, and wait for uploads.

        The result is the names, sizes and digests of the files.
        """
        left = self._shards[len(self._sent) :]
        digests = in_threads(lambda shard: shard.digest.finish(), left)
        lengths_digests = in_threads(sha256, [shard.lengths_path for shard in left])
        paths = [self._rename(index) for index in range(len(self._sent), len(self._shards))]
        kept = zip(paths, digests, lengths_digests, strict=True)
        return [*(sent.result() for sent in self._sent), *(_facts(path.name, path, *both) for path, *both in kept)]

    def _rename(self, index: int) -> Path:
        shard = self._shards[index]
        name = shard_name(self.name, index, None if self._sent else len(self._shards), self.options.generation)
        for source, final in ((shard.path, name), (shard.lengths_path, lengths_name(name))):
            target = self.directory / final
            with writing("name shard", target), faults_around("rename", target):
                source.rename(target)
        return self.directory / name

    def _write_spilled(self, batch: list[tuple[bytes, ...]]) -> None:
        data = [item[0] for item in batch]
        lengths = np.frombuffer(b"".join(item[1] for item in batch), "<i8").reshape(-1, self.options.groups)
        rows = None if self._csv is None else [item[2].decode("utf-8", SURROGATES) for item in batch]
        self._write_rows(data, lengths, rows)

    def abandon(self) -> None:
        """Close all files without finishing them."""
        for shard in self._shards:
            shard.abandon()
        if self._spill is not None:
            self._spill.close()


@attrs.frozen
class ShardOptions:
    """Options of the shards of a split.

    Attributes:
        shards: number n of shards; record i goes to shard i mod n.
        shard_bytes: size of a shard in bytes; records fill one shard after the other.
        compression: None or `GZIP`.
        shuffle_seed: seed of a random order on disk; None for the order of arrival.
        generation: generation number in the names of shards.
        csv_generation: generation number in the name of the CSV.
        groups: number of alignment groups of the schema.
    """

    shards: int | None = None
    shard_bytes: int | None = None
    compression: Compression = None
    shuffle_seed: int | None = None
    generation: int = 0
    csv_generation: int = 0
    groups: int = 1


_MISSED_BY_HASH = (
    "few or large groups of split_by=, an earlier split by this seed=, or dropped records cause this: pass another "
    "seed= to a new dataset, or sr.Balanced(...); of an old one, write what sr.open(path).all().split(...) returns"
)
_MISSED_BY_GROUPS = (
    "groups stay whole, and one is larger than its share, or came late, or they take turns: another seed= does not "
    "help; sort the records by group, or write what sr.open(path).all().split(shares, by=...) returns"
)


def warn_of_missed_shares(manifest: Manifest) -> None:
    """Log a warning for each split that is empty, or whose proportion of the records is far from its share.

    If there are strata in which this is so, one more warning is logged for all of them together.
    """
    rule, missing = manifest.splitting, manifest.missed_shares
    why = _MISSED_BY_HASH if rule.groups is None else _MISSED_BY_GROUPS
    for name, (share, got) in missing.items():
        text = "%s: split %r has %.1f %% of the records for a share of %.1f %%: %s"
        _LOG.warning(text, manifest.where, name, 100 * got, 100 * share, why)
    if (rule.shares or rule.time) and manifest.records:
        for name in [name for name, split in manifest.splits.items() if not split.records and name not in missing]:
            _LOG.warning("%s: split %r has no record", manifest.where, name)
    missed = missed_strata(rule.shares or {}, (rule.strata or {}).values())
    if missed:
        _, stratum, name, records, got = missed[0]
        _LOG.warning(
            "%s: %d of %d strata miss their shares by more than 5 points, most of all %r: split %r has %.1f %% of its "
            "%d records for a share of %.1f %%; groups stay whole, and go where their first record is dealt: "
            "seqrecorder.open(path).all().split(shares, by=..., stratify=...) counts all records first",
            *(manifest.where, len({stratum for _, stratum, *_ in missed}), len(rule.strata or {}), stratum),
            *(name, 100 * got, records, 100 * (rule.shares or {})[name]),
        )
