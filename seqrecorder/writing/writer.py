"""Writing a dataset: records in, complete and published files out, or nothing.

Records are gathered into chunks, given their splits, taken through their life cycle (here or in worker processes), and
placed into shards inside a staging directory beside the destination, which one rename publishes.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
import os
import threading
import weakref
from collections.abc import Mapping
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, overload

import attrs

from seqrecorder.dataset.generations import ASSET_GENERATION, clean_destination, publish, standing
from seqrecorder.dataset.keys import UniqueKeys
from seqrecorder.dataset.manifest import Manifest, check_metadata, combined, write_assets
from seqrecorder.dataset.remote import Destination
from seqrecorder.dataset.selection import Selection, rows_of
from seqrecorder.dataset.splits import TimeRule, missed_strata
from seqrecorder.errors import ManifestError, OptionError, did_you_mean
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.files import STATISTICS, check_names, is_url, local_path, origin_of
from seqrecorder.storage.publish import Staging
from seqrecorder.storage.tfrecord import check_compression
from seqrecorder.storage.threads import Progress, cleanup_when_terminated, kept_from_children, scratch
from seqrecorder.writing.columns import ColumnSource, check_choice
from seqrecorder.writing.intake import LifeCycle, Placement, RecordIntake, RecordStream, check_params
from seqrecorder.writing.splits import DEFAULT_SPLIT, EarlyUploads, Router, ShardOptions
from seqrecorder.writing.workers import PoolEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from seqrecorder.analysis.stats import Stats
    from seqrecorder.dataset.manifest import Splitting
    from seqrecorder.dataset.splits import Balanced


T = TypeVar("T")
R = TypeVar("R")

_SEE = "    **options: the fields of `WriteOptions`.\n"


class WriteKeywords(TypedDict, total=False):
    """The keyword arguments of `write` and `Writer`, for type checkers: the fields of `WriteOptions`."""

    splits: Mapping[str, Any] | str | Callable[[Any], str] | None
    split_by: str | Callable[[Any], Any] | Balanced | None
    stratify: str | Callable[[Any], Any] | None
    time: str | None
    end: str | None
    straddling: Literal["error", "drop", "cut"]
    seed: int
    shards: int | None
    shard_bytes: int | None
    compression: str | None
    shuffle: bool
    workers: int | Literal["auto"]
    params: Mapping[str, Any] | None
    csv: bool
    metadata: Any
    assets: Mapping[str, str | bytes | os.PathLike[str]] | None
    on_duplicate: Literal["error", "first"]
    overwrite: bool
    append: bool
    progress: bool | None
    stats: bool


def _own_params(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return _own_dict(value, "params")


def _own_assets(
    value: Mapping[str, str | bytes | os.PathLike[str]] | None,
) -> Mapping[str, Any]:
    return _own_dict(value, "assets")


def _own_dict(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, (Mapping, NoneType)):
        raise OptionError(f"{name}: expected a mapping of names, got {value!r}")
    return dict(value or {})


@attrs.frozen(kw_only=True)
class WriteOptions:
    """Options of writing: `write` and `Writer` take each of these as a keyword argument.

    >>> import seqrecorder as sr
    >>> sr.WriteOptions(splits={"train": 0.9, "eval": 0.1}, shards=4).shards
    4

    Args:
        splits: a share for each split, such as `{"train": .8, "eval": .1, "test": .1}`; or the name of an attribute, or
            a function of the record, that gives the split's name; or None for one split, `train`. With `time`, the
            time from which on each split is, `...` for the first: `{"train": ..., "eval": "2026-01-01"}`.
        split_by: the name of a field, or a function of the record, that gives the key to hash. Records with equal keys
            never straddle splits. Without it the key field decides, else the position. It is asked before `load`. Few
            or large groups can miss the shares widely, which is logged as a warning and told by
            `manifest.missed_shares`; `Balanced(...)` around it deals groups by what is missing.
        stratify: the name of a field, or a function of the record, that gives its stratum: each split gets its share of
            every one, within a few records, and of all. Records are dealt as they come, by what is lacking and by
            chance. Of `split_by`, a group goes where its first record is dealt, so that strata of few or large groups
            can miss their shares, which is logged as a warning: `selection.split` counts all records first, and comes
            nearer. `manifest.shares` tells what came out.
        time: name of the field of a record's time, of a feature list the first step's, for splits in time.
        end: name of the field of the time at which a record ends; the last step of `time`, or that time itself.
        straddling: what records are that begin in one split and end in another: an `"error"`, left out (`"drop"`), or
            cut at that time (`"cut"`): `time` is a feature list then. The pieces share their key, numbered by a field
            that is declared with `chunk=True`.
        seed: of the hash that decides splits, and of the order on disk.
        shards: number of shards of each split; record i of a split goes to shard i mod n.
        shard_bytes: size in bytes at which shards end; 128 MiB where neither is given.
        compression: None or `"GZIP"` (level 1), which takes several times as long.
        shuffle: whether records stand on disk in a random, seeded order; memory stays bounded.
        workers: number of processes that run `load`, `split` and the encoding, or `"auto"` for as many as have work,
            and cores; the bytes do not depend on it. They start once the first chunks have shown that it pays; where it
            does not, this process writes alone, and a warning says so, once (`"auto"` says it as information).
        params: for the hooks of the class.
        csv: whether each split gets an `examples.csv` of what went where.
        metadata: anything that JSON holds; `info` gives it back.
        assets: files to keep with the data: name to text, bytes, or the `Path` of a file.
        on_duplicate: what a second record with the same key is: an `"error"`, or left out (`"first"` stays).
        overwrite: whether a dataset at the destination is replaced, once the new one is complete. Its own files go:
            those that its manifest names, its listings, and what killed writers left. Others in the directory stay.
            Where the manifest is damaged, it counts as a dataset's if it says `"format": "seqrecorder"`, or is no JSON
            while shards with their files of lengths lie beside it; files that are named as shards of their directory,
            and have lengths, go then.
        append: whether records are added to the dataset at the destination, under its own seed and splits. Where these
            were named record by record, new records must name theirs too.
        progress: True forces a progress bar, False silences it; None shows it on a terminal when tqdm is installed.
        stats: whether what `stats` tells of the records is kept with them, for which they are read once more when they
            are written. Where it is kept, an append keeps it, too.

    Raises:
        OptionError: an option makes no sense, alone or beside another.
    """

    splits: Mapping[str, Any] | str | Callable[[Any], str] | None = None
    split_by: str | Callable[[Any], Any] | Balanced | None = None
    stratify: str | Callable[[Any], Any] | None = None
    time: str | None = None
    end: str | None = None
    straddling: Literal["error", "drop", "cut"] = "error"
    seed: int = 0
    shards: int | None = None
    shard_bytes: int | None = None
    compression: str | None = None
    shuffle: bool = False
    workers: int | Literal["auto"] = 1
    params: Mapping[str, Any] = attrs.field(default=None, converter=_own_params)
    csv: bool = False
    metadata: Any = None
    assets: Mapping[str, Any] = attrs.field(default=None, converter=_own_assets)
    on_duplicate: Literal["error", "first"] = "error"
    overwrite: bool = False
    append: bool = False
    progress: bool | None = None
    stats: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> WriteOptions:
        """Return the options of a call.

        Raises:
            OptionError: a name is none of an option, or its value makes no sense.
        """
        known = [attribute.name for attribute in attrs.fields(cls)]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise OptionError(f"unknown options: {', '.join(unknown)}{did_you_mean(unknown[0], known)}")
        return cls(**given)

    def __attrs_post_init__(self) -> None:
        if not _is_int(self.seed):
            raise OptionError(f"seed: expected an int, got {self.seed!r}")
        if self.workers != "auto" and (not _is_int(self.workers) or self.workers < 1):
            raise OptionError(f"workers: expected a number of processes, 1 or more, or 'auto', got {self.workers!r}")
        check_choice("on_duplicate", self.on_duplicate, ("error", "first"))
        for name in ("shuffle", "csv", "overwrite", "append", "stats"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        self._check_rules()
        if self.append and self.overwrite:
            raise OptionError("give append=True or overwrite=True, not both")
        self._check_shards()
        check_compression(self.compression)
        self._check_assets()
        check_metadata(self.metadata)

    def _check_rules(self) -> None:
        for name in ("stratify", "split_by") if self.time is not None else ("end",):
            if getattr(self, name) is not None:
                raise OptionError(f"{name} {'does not go with' if self.time is not None else 'needs'} time")
        if self.straddling != "error" and self.time is None and not self.append:
            raise OptionError("straddling needs time")

    @property
    def time_rule(self) -> TimeRule | None:
        """Rule of the splits in time; None without `time`."""
        return None if self.time is None else TimeRule.of(self.splits, self.time, self.end, self.straddling)

    def _check_shards(self) -> None:
        if self.shards is not None and self.shard_bytes is not None:
            raise OptionError(f"give shards or shard_bytes, not both (got {self.shards} and {self.shard_bytes})")
        for name in ("shards", "shard_bytes"):
            value = getattr(self, name)
            if value is not None and (not _is_int(value) or value < 1):
                raise OptionError(f"{name}: expected an int of 1 or more, got {value!r}")

    def _check_assets(self) -> None:
        check_names(self.assets, "asset")
        for name, content in self.assets.items():
            if ASSET_GENERATION.fullmatch(name):
                raise OptionError(
                    f"asset {name!r}: such names are those of the dataset's own directories; choose another"
                )
            if not isinstance(content, (bytes, str, os.PathLike)):
                kind = type(content).__name__
                raise OptionError(f"asset {name!r}: expected text, bytes or the Path of a file, got {kind}")

    def of_shards(self, *, seed: int, generation: int, groups: int) -> ShardOptions:
        """Return the options of the shards.

        Args:
            seed: of the dataset, which for an append is not the one that was given.
            generation: of the dataset that is written.
            groups: alignment groups of the schema.
        """
        return ShardOptions(
            shards=self.shards,
            shard_bytes=self.shard_bytes,
            compression=check_compression(self.compression),
            shuffle_seed=seed if self.shuffle else None,
            generation=generation,
            csv_generation=generation if self.append else 0,
            groups=groups,
        )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def shows_options(target: T) -> T:
    """Decorate a function or class that takes `**options`, so that `help` and notebooks show each with its words."""
    shown: Any = target
    signature = inspect.signature(shown)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    options = inspect.signature(WriteOptions).parameters.values()
    shown.__signature__ = signature.replace(parameters=[*own, *options])
    words = inspect.cleandoc(WriteOptions.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    shown.__doc__ = inspect.cleandoc(shown.__doc__ or "").replace(_SEE, words + "\n")
    return target


_LOG = logging.getLogger("seqrecorder")

KEYS = "keys"
"""The asset of a part that holds the hashes of its keys."""


@attrs.frozen
class Part:
    """One part of a dataset that many processes write: what its writer knows of the whole.

    Attributes:
        number: of the part, or its name.
        whole: the dataset that is appended to, whose rules of splits hold; None for a new one.
        destination: of the whole dataset.
        opened: gets the digests of the manifests whose records the part holds.
    """

    number: int | str
    whole: Manifest | None
    destination: Any
    opened: list[str]


@shows_options
class Writer(Generic[R]):
    """Writes a dataset record by record; type checkers know the class of the records.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> destination = tempfile.mkdtemp()
    >>> with sr.Writer(destination, Sentence) as writer:
    ...     writer.write(Sentence([1, 2, 3]))
    ...     writer.write(Sentence([4]))
    >>> writer.manifest.splits["train"].records
    2

    Nothing stands at the destination until the `with` block ends without an error; then the whole dataset does.

    Args:
        destination: directory of the dataset, or a URL of fsspec, such as `s3://bucket/corpus`: shards are
            written to the place of temporary files, and sent when they are full. It must not exist yet, or be empty,
            unless `overwrite` or `append`; a directory that is there keeps its mode and owner.
        schema: the record class, or its schema.
        **options: the fields of `WriteOptions`.

    Attributes:
        manifest: what was written; there once the `with` block has ended.

    Raises:
        DatasetExistsError: something stands at the destination, which is no dataset to overwrite; or came meanwhile.
        DatasetError: at the end of the block: the dataset to be overwritten, or appended to, has been changed by
            somebody else meanwhile, and is left as it is. In `write_all`: so has the dataset to be overwritten since
            a selection of it was made.
        OptionError: options make no sense, or the destination is no path.
    """

    manifest: Manifest

    @overload
    def __init__(
        self, destination: str | os.PathLike[str], schema: type[R], **options: Unpack[WriteKeywords]
    ) -> None: ...
    @overload
    def __init__(
        self: Writer[Any], destination: str | os.PathLike[str], schema: object, **options: Unpack[WriteKeywords]
    ) -> None: ...
    def __init__(self, destination: str | os.PathLike[str], schema: object, **options: Unpack[WriteKeywords]) -> None:
        self._prepare(destination, Schema.of(schema), WriteOptions.of(options))

    def _prepare(self, destination: Any, schema: Schema, options: WriteOptions, part: Part | None = None) -> None:
        """Look at what stands at the destination, and decide how records find their splits."""
        schema = schema.written
        self.options, self.schema, self._part = options, schema, part
        self._remote = destination if isinstance(destination, Destination) else self._url_of(destination)
        # What goes to a URL is written on this disk first, all of it.
        self.destination = local_path(destination) if self._remote is None else scratch() / "dataset"
        self._place = self.destination if self._remote is None else self._remote.place
        self._place = self._place if part is None else part.destination
        check_params(self.schema.record_class, self.options.params)
        clean_destination(self.destination)
        find = partial(standing, self.destination) if self._remote is None else self._remote.standing
        self._standing = find(
            self.schema,
            append=self.options.append,
            overwrite=self.options.overwrite,
            compression=check_compression(self.options.compression),
        )
        self._generation = self._standing.generation
        # The dataset that is appended to; None for a new one, also where it replaces one.
        self._old = self._standing.manifest if self.options.append else None
        self._router = Router(
            schema,
            options.splits,
            options.split_by,
            options.seed,
            self._old if part is None else part.whole,
            part=None if part is None else part.number,
            stratify=options.stratify,
            time=options.time_rule,
        )
        self._keys = UniqueKeys(schema, options.on_duplicate)
        self._shard_options = self.options.of_shards(
            seed=self._router.seed, generation=self._generation, groups=max(1, len(self.schema.groups))
        )
        self._splitting: Splitting | None = None
        self._placement: Placement | None = None
        self._taker: RecordIntake | None = None
        self._entered = False
        self._process = os.getpid()
        self._lock = threading.RLock()  # against the end of the interpreter
        self._finalizer: weakref.finalize[..., Self] | None = None
        self._staging: Staging | None = None
        self._cleanup = contextlib.ExitStack()

    def _url_of(self, destination: Any) -> Destination | None:
        """Return the destination at a URL; None for a directory."""
        if not is_url(destination):
            copied = origin_of(local_path(destination))
            if copied is not None:
                raise OptionError(f"{destination} is in the cache: write to {copied}, of which it has copies")
            return None
        given = [name for name in ("csv", "stats") if getattr(self.options, name)]
        if given:
            raise OptionError(
                f"{given[0]}=True makes files beside a dataset, which a URL has not; write to a directory"
            )
        return Destination.of(destination)

    # The with block -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Make the staging directory."""
        if self._entered:
            raise OptionError("a Writer is used once: make another one")
        self._entered, self._process = True, os.getpid()
        options = self.options
        with contextlib.ExitStack() as stack:
            stack.enter_context(cleanup_when_terminated())
            self._life_cycle = LifeCycle(self.schema, options.params, rows=options.csv)
            encoder = self._new_encoder()
            # Left in the opposite order: the files go before we wait for the workers.
            stack.callback(encoder.close)
            self._staging = stack.enter_context(
                Staging(self.destination, overwrite=options.overwrite or options.append)
            )
            stack.enter_context(kept_from_children(self._staging.path))
            self._uploads = None if self._remote is None else EarlyUploads(self._remote)
            placement = Placement(
                self.schema,
                self._router,
                self._keys,
                options=self._shard_options,
                directory=self._staging.path,
                old=self._old.splits if self._old is not None else {},
                uploads=self._uploads,
            )
            stack.callback(placement.abandon)
            if self._uploads is not None:
                stack.callback(self._uploads.close)  # before its files go
            progress = Progress(options.progress, f"writing {self.destination.name}")
            stack.callback(progress.close)
            if self._old is not None:
                self._keys.register(self._old, self._standing.text or b"")
            for name in self._router.names:
                placement.open(name)
            self._placement = placement
            self._taker = RecordIntake(
                self.schema,
                self._life_cycle,
                encoder,
                csv=options.csv,
                workers=options.workers,
                placement=placement,
                progress=progress,
                lock=self._lock,
            )
            self._cleanup = stack.pop_all()
        # Of one that is never left: files that are still open when the interpreter ends can crash it.
        self._finalizer = weakref.finalize(self, _abandon, self._cleanup, self._lock, self._process)
        return self

    def _new_encoder(self) -> LifeCycle | PoolEncoder:
        options = self.options
        if options.workers == 1:
            return self._life_cycle
        return PoolEncoder(self.schema, self._life_cycle, options.params, rows=options.csv, workers=options.workers)

    @property
    def _intake(self) -> RecordIntake:
        if self._placement is None or self._taker is None:
            raise OptionError("a Writer writes inside its `with` block")
        self._check_process()
        self._placement.opened()
        return self._taker

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise OptionError(
                f"this Writer is of process {self._process}, and this one, {os.getpid()}, was forked from it: only "
                "that one writes and publishes; leave the child by os._exit, or fork outside of the `with` block"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Publish the dataset, or remove every trace of it after an error; a forked child does neither."""
        if self._process != os.getpid():
            self._placement = None
            if kind is None:
                self._check_process()
            return
        try:
            with self._lock, self._cleanup:
                if kind is None:
                    self._finish()
        except Exception as failure:
            # Of a dataset that is there, no error may say that it was not written: it would be written twice.
            if not hasattr(self, "manifest"):
                raise
            _LOG.warning("%s is written, but not all was tidied up after that: %r", self.destination, failure)
        finally:
            if self._finalizer is not None:
                self._finalizer.detach()
            self._placement = None  # what is written from now on would go nowhere

    # Records --------------------------------------------------------------------------------------------------------

    def write(self, record: R, *, split: str | None = None) -> None:
        """Add a record.

        Args:
            record: of the writer's class. Its values are taken now, so that it, its arrays and its lists may be filled
                again for the next one; arrays of records that wait for others are copied for that.
            split: name of its split, where `splits` does not decide.

        Raises:
            RecordError: this or an earlier record cannot be encoded; it says which. After that nothing is published.
            ShardWriteError: the disk is full, or failed.
        """
        self._intake.add(record, split)

    def write_batch(self, columns: Any, *, split: str | None = None) -> None:
        """Add many records, given as columns: the same checks and the same bytes, without an object for each.

        >>> import tempfile, numpy as np, seqrecorder as sr
        >>> @sr.record
        ... class Sentence:
        ...     label: int = sr.context("int32")
        ...     ids: np.ndarray = sr.feature_list("int64")
        >>> with sr.Writer(tempfile.mkdtemp(), Sentence) as writer:
        ...     writer.write_batch({"label": np.array([0, 1]), "ids": (np.array([7, 8, 9]), np.array([2, 1]))})
        >>> [shard.steps for shard in writer.manifest.splits["train"].shards]
        [3]

        Args:
            columns: a mapping of field to column. Of a context field: values of shape `(N, *shape)`. Of a feature list:
                `(values, steps)`, the values of all steps of all records flat, `(S, *shape)`, and the steps of each
                record, `(N,)`. Where the first dimension of the shape is None: `(values, lengths)`, and for feature
                lists `(values, lengths, steps)`, with the values of each step. Fields that have a default or are
                optional may be left out. What is sparse, or None in some records, is a
                `sr.Column`. With pyarrow installed, arrays of any library with the Arrow C
                interface are taken, and tables for the mapping: a list array is the values and lengths in one; a null
                is None, or NaN where None cannot be.
            split: name of their split, where `splits` does not decide.

        Raises:
            OptionError: columns are not of that form, or the class has `load` or `split`, which take records.
            RecordError: values do not fit their fields; the position of the record is named. After that nothing is
                published.
            ShardWriteError: the disk is full, or failed.
        """
        intake = self._intake
        if self._life_cycle.has_hooks:
            raise OptionError(f"write_batch: {self.schema.name} has load or split, which take records: write those")
        intake.add_columns(columns, split)

    def write_all(self, records: Iterable[R] | Mapping[str, Iterable[R]] | RecordStream) -> None:
        """Add all records of a source, one by one, or batch by batch where it gives columns.

        Args:
            records: what `write` takes.

        Raises:
            RecordError: see `write`.
            SourceError: the iterable failed; the number of the record is named.
        """
        intake = self._intake
        stream = records if isinstance(records, RecordStream) else RecordStream(records, self.schema)
        for _, source in stream.columns:
            if isinstance(source, Selection) and rows_of(source).store.manifest.is_at(self._place):
                self._check_opened(rows_of(source).store.digest)
        intake.add_all(stream)

    def keep_splitting(self, splitting: Splitting) -> None:
        """Have the manifest say that records find their splits as in another one: of a dataset that is rewritten."""
        self._splitting = splitting

    def _check_opened(self, digest: str) -> None:
        """Raise `DatasetError` where records replace their own dataset, and that was changed since it was opened."""
        if self._part is not None:  # `commit` checks it
            self._part.opened.append(digest)
        elif self.options.overwrite:
            self._standing.check_opened(digest, self._place)

    # The end --------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if self._staging is None:  # pragma: no cover - asked inside the block only
            raise RuntimeError("no staging directory")
        intake, placement = self._intake, self._placement
        if placement is None:  # pragma: no cover - asked inside the block only
            raise RuntimeError("no placement")
        intake.finish()
        # Which splits there are is said by all parts together.
        if placement.is_empty and self._part is None and not self.options.append:
            placement.open(DEFAULT_SPLIT)
        added = placement.finish()
        manifest = Manifest(
            path=self.destination,
            schema=self.schema,
            splits=added,
            compression=self._shard_options.compression,
            generation=self._generation,
            skipped=placement.skipped,
            skip_reasons=placement.reasons,
            splitting=self._splitting or self._router.splitting(intake.position),
            metadata=json.loads(json.dumps(self.options.metadata)),  # as it will be read
            asset_infos=write_assets(
                self.options.assets if self._part is None else _asset_of_keys(self._keys),
                self._staging.path,
                self._generation if self.options.append else 0,
            ),
        )
        if self._old is not None:
            manifest = combined(self._old, manifest)
        known = None
        if self._remote is not None and self._uploads is not None:
            replaces = self._old is not None or self.options.overwrite
            self.manifest = self._remote.publish(
                manifest, self._staging.path, overwrite=replaces, there=self._uploads.sent
            )
        else:
            known = self._known_stats()
            self.manifest = publish(self._staging, manifest, self._standing, keep=self._old is not None)
        if self._part is None:
            tell_missed_shares(self.manifest)
        if self._remote is None and (self.options.stats or known is not None):
            from seqrecorder.analysis.stats import keep_stats

            keep_stats(self.manifest, known)
        if self._remote is None and self._old is not None:
            self._keys.save(self.manifest, added, hooks=self._life_cycle.has_hooks or self._router.drops)

    def _known_stats(self) -> Stats | None:
        """Return the statistics that are kept with the dataset that is appended to."""
        if self._old is None or not (self._old.path / STATISTICS).exists():
            return None
        from seqrecorder.analysis.stats import kept_stats

        try:
            return kept_stats(self._old.path)
        except ManifestError as error:
            _LOG.warning("%s", error)
            return None


def _asset_of_keys(keys: UniqueKeys) -> dict[str, bytes]:
    return {} if keys.hashes is None else {KEYS: keys.hashes.astype("<u8", copy=False).tobytes()}


def tell_missed_shares(manifest: Manifest) -> None:
    """Log a warning for each split that groups have kept far from its share, and one for strata."""
    for name, (share, got) in manifest.missed_shares.items():
        _LOG.warning(
            "%s: split %r has %.1f %% of the records for a share of %.1f %%: groups of split_by= stay whole, and "
            "few or large ones miss the shares; split_by=seqrecorder.Balanced(...) deals them by what is missing",
            *(manifest.where, name, 100 * got, 100 * share),
        )
    rule = manifest.splitting
    missed = missed_strata(rule.shares or {}, (rule.strata or {}).values())
    if missed:
        _, stratum, name, records, got = missed[0]
        _LOG.warning(
            "%s: %d of %d strata miss their shares by more than 5 points, most of all %r: split %r has %.1f %% of its "
            "%d records for a share of %.1f %%; groups stay whole, and go where their first record is dealt: "
            "seqrecorder.open(path).all().split(shares, by=..., stratify=...) counts all records first: nearer",
            *(manifest.where, len({stratum for _, stratum, *_ in missed}), len(rule.strata or {}), stratum),
            *(name, 100 * got, records, 100 * (rule.shares or {})[name]),
        )


def _abandon(cleanup: contextlib.ExitStack, lock: threading.RLock, process: int) -> None:
    """Remove every trace of what a Writer that nobody left has written."""
    if process == os.getpid():
        with lock:  # a thread may be writing into files that are to be closed
            cleanup.close()


@shows_options
def write(
    records: Iterable[Any] | Mapping[str, Iterable[Any]],
    destination: str | os.PathLike[str],
    *,
    schema: object = None,
    **options: Unpack[WriteKeywords],
) -> Manifest:
    """Write records as a dataset.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> records = (Sentence(np.arange(n)) for n in range(10))
    >>> manifest = sr.write(records, tempfile.mkdtemp(), splits={"train": 0.8, "eval": 0.2})
    >>> manifest.records
    10

    A large record takes about three times its encoded size of memory while it is written, itself included.

    Args:
        records: any iterable of records of one class, taken one by one and never held as a whole; of dictionaries of
            field to value; a table whose rows are records, of any library with the Arrow C interface or of Hugging
            Face, or what `from_table`, `from_rows` and the like give; a selection, whose records are copied
            as they are encoded where the schema is the same; or a mapping of a split's name to any of these.
            Values are taken as a record comes; the next may use its arrays.
        destination: directory of the dataset, or its URL, as for `Writer`.
        schema: the record class; needed for dictionaries and tables, and where there may be no record at all.
        **options: the fields of `WriteOptions`.

    Returns:
        What was written.

    Raises:
        DatasetExistsError: something stands at the destination.
        RecordError: a record cannot be encoded; nothing is published.
        SourceError: the iterable raised; nothing is published.
        OptionError: options make no sense, or the columns of a table are not the fields.
    """
    stream, wanted = stream_of(records, schema, options)
    writer = Writer[Any](destination, wanted, **options)
    with writer:
        writer.write_all(stream)
    return writer.manifest


def stream_of(records: Any, schema: object, options: WriteKeywords) -> tuple[RecordStream, Schema]:
    """Return the records to write as a stream, and their schema; takes and raises what `write` does."""
    if isinstance(records, Mapping) and options.get("splits") is not None:
        raise OptionError("the mapping names the splits already: leave `splits` out")
    if isinstance(records, (str, bytes, os.PathLike)):
        raise OptionError(
            f"expected records, dictionaries or a table, got the path {records!r}: seqrecorder.from_table, from_rows, "
            "from_jsonl and the like read files"
        )
    if schema is None:
        parts = records.values() if isinstance(records, Mapping) else [records]
        schema = next((part.schema for part in parts if isinstance(part, (ColumnSource, Selection))), None)
    stream = RecordStream(records, None if schema is None else Schema.of(schema))
    if schema is None:
        first = stream.peek()
        if isinstance(first, Mapping):
            raise OptionError("dictionaries do not say what records they are: pass schema=Class")
        if first is None:
            raise OptionError("there is no record to write; pass schema= to write an empty dataset")
        schema = first
    return stream, Schema.of(schema)
