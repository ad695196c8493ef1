"""`write`, `Writer` and their options.

A dataset is published completely or not at all: shards are written to a staging directory beside the destination, which
a single rename publishes. Records are grouped and encoded in `intake`, the hooks of their class are called in
`load_hooks`, worker processes are managed in `workers`, and shards are written in `splits`.
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

from seqrecorder.dataset.append_and_overwrite import ASSET_GENERATION, clean_destination, publish, standing
from seqrecorder.dataset.keys import UniqueKeys
from seqrecorder.dataset.manifest import Manifest, check_metadata, combine, splitting_of, write_assets
from seqrecorder.dataset.push_pull_clean import Destination
from seqrecorder.dataset.selection import Selection, rows_of
from seqrecorder.dataset.splits_in_time import TimeRule
from seqrecorder.errors import DatasetError, ManifestError, OptionError, check_count, did_you_mean
from seqrecorder.schema.display import number_of
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.files import STATISTICS, check_compression, check_names, is_url, local_path, origin_of, writing
from seqrecorder.storage.processes_and_signals import Progress, cleanup_when_terminated, kept_from_children, scratch
from seqrecorder.storage.publish import Staging
from seqrecorder.writing.columns import ColumnSource, check_choice
from seqrecorder.writing.intake import LifeCycle, Placement, RecordIntake, RecordStream
from seqrecorder.writing.load_hooks import check_params
from seqrecorder.writing.splits import DEFAULT_SPLIT, EarlyUploads, Router, ShardOptions, warn_of_missed_shares
from seqrecorder.writing.workers import PoolEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from seqrecorder.analysis.stats import Stats
    from seqrecorder.dataset.manifest import Splitting
    from seqrecorder.dataset.split_shares import Balanced


T = TypeVar("T")
R = TypeVar("R")

_SEE = "    **options: the fields of `WriteOptions`.\n"


class WriteKeywords(TypedDict, total=False):
    """Types of the keyword arguments of `write` and `Writer`, the fields of `WriteOptions`."""

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


def _own_assets(value: Mapping[str, str | bytes | os.PathLike[str]] | None) -> Mapping[str, Any]:
    return _own_dict(value, "assets")


def _own_dict(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, (Mapping, NoneType)):
        raise OptionError(f"{name}: expected a mapping of names, got {value!r}")
    return dict(value or {})


@attrs.frozen(kw_only=True)
class WriteOptions:
    """Options for writing, which `write` and `Writer` take as keyword arguments.

    >>> import seqrecorder as sr
    >>> sr.WriteOptions(splits={"train": 0.9, "eval": 0.1}, shards=4).shards
    4

    Args:
        splits: mapping from split name to share of the records, such as `{"train": .8, "eval": .1, "test": .1}`; or the
            name of an attribute with the split name, or a function that returns the split name of a record; or None for
            a single split, `train`. With `time`, a mapping from split name to start time, with `...` for the first:
            `{"train": ..., "eval": "2026-01-01"}`.
        split_by: name of a field, or a function of a record, whose value is hashed to choose the split. Records with
            equal values always go to the same split. By default, the key field is hashed, or the position of the record
            if the class has no key field. The value is read before `load` runs. If the groups of records with equal
            values are few or large, splits can miss their shares by a wide margin; a warning is logged, and
            `manifest.missed_shares` lists the splits affected. To avoid that, wrap `split_by` in `Balanced(...)`, which
            deals each group to the split that is furthest below its share.
        stratify: name of a field, or a function that returns the stratum of a record. Each split gets its share of
            every stratum and of all records, within a few records. Records are dealt in order: each goes to the split
            with the largest deficit plus a random number below 1. With `split_by`, a whole group goes where its first
            record goes. Strata with few or large groups can then miss their shares, in which case a warning is logged;
            `selection.split` counts all records first and gets closer. `manifest.shares` contains the result; its
            strata count the records as they were dealt, including those that `rewrite` drops later.
        time: name of the field with the time of a record, for splits by time. If it is a feature list, the time of a
            record is that of its first step.
        end: name of the field with the end time of a record; default: the last step of `time`.
        straddling: treatment of records that begin in one split and end in another: raise an `"error"`, `"drop"` them,
            or `"cut"` them at the boundary, for which `time` must be a feature list. The pieces share their key, and a
            field declared with `chunk=True` numbers them.
        seed: seed of the hash that determines splits, and of the random order on disk.
        shards: number n of shards of each split; record i of a split goes to shard i mod n.
        shard_bytes: size in bytes at which a shard ends; 128 MiB if neither `shards` nor `shard_bytes` is set.
        compression: None or `"GZIP"` (level 1), which takes several times as long to write.
        shuffle: whether to write records in a random order that depends on `seed`; memory stays bounded.
        workers: number of processes that run `load`, `split` and the encoding; `"auto"` chooses the number, at most one
            per core. The written bytes do not depend on it. Processes start only if timing the first chunks shows that
            they save time. Otherwise, this process writes alone and logs the reason once, as a warning, or at level
            INFO for `"auto"`.
        params: keyword arguments of the hooks of the class.
        csv: whether to write an `examples.csv` for each split, with the shard and index of each record.
        metadata: any JSON data to store with the dataset; `info` returns it.
        assets: mapping from name to text, bytes, or the `Path` of a file, to store with the dataset.
        on_duplicate: treatment of records with the same key: raise an `"error"`, or keep only the `"first"` and count
            the others as skipped. `write_part` compares only the records of its own part.
        overwrite: whether to replace a dataset at the destination once the new one is complete. This removes the files
            that its manifest names, its `examples.csv` files, and leftovers of killed writers; other files in the
            directory stay. If the manifest is damaged, the files of the dataset are unknown, so an error is raised.
        append: whether to add records to the dataset at the destination, with the same seed and splitting rule. If its
            splits were named record by record, new records need the name of their split, too. `compression` must be
            passed again.
        progress: True shows a progress bar, False does not; None shows it on a terminal if tqdm is installed.
        stats: whether to store statistics with the dataset, which takes one more pass over the records. If a dataset
            already has statistics, an append always updates them.

    Raises:
        OptionError: an option is invalid, or two options contradict each other.
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
    def of(cls, keywords: Mapping[str, Any]) -> WriteOptions:
        """Build options from the keyword arguments of a call.

        Raises:
            OptionError: an option is unknown, or its value is invalid.
        """
        known = [attribute.name for attribute in attrs.fields(cls)]
        unknown = sorted(set(keywords) - set(known))
        if unknown:
            of_source = unknown[0] in ("by", "cast", "on_error", "order")
            advice = " (from_table takes it)" if of_source else did_you_mean(unknown[0], known)
            raise OptionError(f"unknown options: {', '.join(unknown)}{advice}")
        return cls(**keywords)

    def __attrs_post_init__(self) -> None:
        if type(self.seed) is not int:  # a bool is an instance of int
            raise OptionError(f"seed: expected an int, got {self.seed!r}")
        if self.workers != "auto" and (type(self.workers) is not int or self.workers < 1):
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

    def _check_shards(self) -> None:
        if self.shards is not None and self.shard_bytes is not None:
            raise OptionError(f"give shards or shard_bytes, not both (got {self.shards} and {self.shard_bytes})")
        for name in ("shards", "shard_bytes"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))

    def _check_assets(self) -> None:
        check_names(self.assets, "asset")
        for name, content in self.assets.items():
            if ASSET_GENERATION.fullmatch(name):
                raise OptionError(f"asset {name!r}: the name is reserved for the dataset itself; choose another")
            if not isinstance(content, (bytes, str, os.PathLike)):
                kind = type(content).__name__
                raise OptionError(f"asset {name!r}: expected text, bytes or the Path of a file, got {kind}")


def shows_options(target: T) -> T:
    """Add each option to the signature and docstring of a function or class that takes `**options`."""
    shown: Any = target
    signature = inspect.signature(shown)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    shown.__signature__ = signature.replace(parameters=[*own, *inspect.signature(WriteOptions).parameters.values()])
    words = inspect.cleandoc(WriteOptions.__doc__ or "").partition("Args:\n")[2].partition("\n\n")[0]
    shown.__doc__ = inspect.cleandoc(shown.__doc__ or "").replace(_SEE, words + "\n")
    return target


_LOG = logging.getLogger("seqrecorder")

KEYS = "keys"
"""Name of the asset in which a part stores the hashes of its keys."""


@attrs.frozen
class Part:
    """One part of a dataset that several processes write.

    Attributes:
        number: number or name of the part.
        whole: manifest of the dataset being appended to, whose splitting rule applies; None for a new dataset.
        destination: destination of the whole dataset.
        opened: digests of the manifests from which the part copies records; the writer appends to the list.
    """

    number: int | str
    whole: Manifest | None
    destination: Any
    opened: list[str]


@shows_options
class Writer(Generic[R]):
    """Writer of a dataset that takes its records one by one.

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

    The complete dataset appears at the destination when the `with` block ends without an error, not before. In type
    annotations, the record class is the parameter of the writer: `Writer[Sentence]`.

    Args:
        destination: directory of the dataset, or a URL for fsspec, such as `s3://bucket/corpus`. For a URL, shards are
            written to the temporary directory and uploaded when they are full. Unless `overwrite` or `append` is set,
            the destination must be missing or empty; an existing directory keeps its mode and owner.
        schema: the record class, or its schema.
        **options: the fields of `WriteOptions`.

    Attributes:
        manifest: manifest of the dataset; set at the end of the `with` block.

    Raises:
        DatasetExistsError: the destination exists and may not be overwritten, or it appeared during the write.
        ChangedError: at the end of the block, another process has changed the dataset to overwrite or append to; the
            version of the other process stays.
        DatasetError: in `write_all`, the dataset to overwrite has changed since a selection was made from it.
        OptionError: an option is invalid, or the destination is not a path.
    """

    manifest: Manifest
    _splits = True  # whether the hook `split` runs

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
        """Check the destination and the options, and set up the splitting rule."""
        schema = schema.written
        self.options, self.schema, self._part = options, schema, part
        self._remote = destination if isinstance(destination, Destination) else self._url_of(destination)
        # A dataset for a URL is written to the local disk first.
        self.destination = local_path(destination) if self._remote is None else scratch() / "dataset"
        self._target = self.destination if self._remote is None else self._remote.place
        self._target = self._target if part is None else part.destination
        if options.params:
            check_params(schema.record_class, options.params)
        find = partial(standing, self.destination) if self._remote is None else self._remote.standing
        compression = check_compression(options.compression)
        with writing("look for a dataset in", self.destination):
            clean_destination(self.destination)
            self._standing = find(schema, append=options.append, overwrite=options.overwrite, compression=compression)
        self._generation = self._standing.generation
        # The dataset to append to; None for a new one, even if that replaces another.
        self._old = self._standing.manifest if self.options.append else None
        time = options.time
        self._router = Router(
            schema,
            options.splits,
            options.split_by,
            options.seed,
            self._old if part is None else part.whole,
            part=None if part is None else part.number,
            stratify=options.stratify,
            time=None if time is None else TimeRule.of(options.splits, time, options.end, options.straddling),
        )
        self._keys = UniqueKeys(schema, options.on_duplicate)
        self._shard_options = ShardOptions(
            shards=options.shards,
            shard_bytes=options.shard_bytes,
            compression=compression,
            shuffle_seed=self._router.seed if options.shuffle else None,
            generation=self._generation,
            csv_generation=self._generation if options.append else 0,
            groups=max(1, len(schema.groups)),
        )
        self._splitting: Splitting | None = None
        self._skipped: tuple[int, tuple[str, ...]] = (0, ())
        self._open_intake: RecordIntake | None = None
        self._entered = False
        self._process = os.getpid()
        self._lock = threading.RLock()  # delays the exit of the interpreter while files are in use

    def _url_of(self, destination: Any) -> Destination | None:
        """Open the destination if it is a URL.

        The result is None for a directory.
        """
        if not is_url(destination):
            if copied := origin_of(local_path(destination)):
                raise OptionError(f"{destination} is in the cache of {copied}; write to {copied} instead")
            return None
        if unsupported := [name for name in ("csv", "stats") if getattr(self.options, name)]:
            raise OptionError(f"{unsupported[0]}=True is not supported at a URL; write to a directory, and send it")
        return Destination.of(destination)

    # The with block -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Create the staging directory, and start accepting records."""
        if self._entered:
            raise OptionError("a Writer can be entered only once; create another one")
        self._entered, self._process = True, os.getpid()
        options = self.options
        with contextlib.ExitStack() as undo:
            undo.enter_context(cleanup_when_terminated())
            hooks = self._life_cycle = LifeCycle(self.schema, options.params, rows=options.csv, splits=self._splits)
            encoder: LifeCycle | PoolEncoder = hooks if options.workers == 1 else PoolEncoder(hooks, options.workers)
            # Callbacks run in reverse order, so files are removed before we wait for the workers.
            undo.callback(encoder.close)
            self._staging = undo.enter_context(Staging(self.destination, overwrite=options.overwrite or options.append))
            undo.enter_context(kept_from_children(self._staging.path))
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
            undo.callback(placement.abandon)
            if self._uploads is not None:
                undo.callback(self._uploads.close)  # end uploads before the files that they read are removed
            progress = Progress(options.progress, f"writing {self.destination.name}")
            undo.callback(progress.close)
            if self._old is not None:
                self._keys.register(self._old, self._standing.text or b"")
            for name in self._router.names:
                placement.open(name)
            self._open_intake = RecordIntake(
                self._life_cycle, encoder, placement, workers=options.workers, progress=progress, lock=self._lock
            )
            self._cleanup = undo.pop_all()
        # A `with` block may never end, and files that are open when the interpreter exits can crash it.
        self._finalizer = weakref.finalize(self, _abandon, self._cleanup, self._lock, self._process)
        return self

    @property
    def _intake(self) -> RecordIntake:
        if self._open_intake is None:
            raise OptionError("a Writer writes inside its `with` block")
        self._check_process()
        self._open_intake.placement.require_open()
        return self._open_intake

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise OptionError(
                f"this Writer belongs to process {self._process}; the forked process {os.getpid()} can neither write "
                "nor publish with it: leave the child by os._exit, or fork outside of the `with` block"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Publish the dataset, or remove all its files after an error.

        In a forked child, neither is done.
        """
        if self._process != os.getpid():
            self._open_intake = None
            if kind is None:
                self._check_process()
            return
        try:
            with self._lock, self._cleanup:
                if kind is None:
                    self._finish()
        except Exception as failure:
            # If the dataset is already published, an error would make the caller write it again.
            if not hasattr(self, "manifest"):
                raise
            _LOG.warning("%s is written, but the cleanup after that failed: %r", self.manifest.where, failure)
        finally:
            self._finalizer.detach()
            self._open_intake = None  # a later write must raise, because its records would be lost

    # Records --------------------------------------------------------------------------------------------------------

    def write(self, record: R, *, split: str | None = None) -> None:
        """Add a record.

        Args:
            record: an instance of the writer's class. Its values are read or copied now, so the object, its arrays and
                its lists may be reused for the next record.
            split: name of the record's split, if `splits` does not determine it.

        Raises:
            RecordError: this or an earlier record cannot be encoded. The message says which one, and nothing is
                published.
            ShardWriteError: the disk is full or failed.
        """
        self._intake.add(record, split)

    def write_batch(self, columns: Any, *, split: str | None = None) -> None:
        """Add many records as columns, without creating objects.

        The checks and the stored bytes are the same as with `write`.

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
            columns: mapping from field name to column. A context field takes values of shape `(N, *shape)`. A feature
                list takes `(values, steps)`: the concatenated steps of all records, `(S, *shape)`, and the number of
                steps of each record, `(N,)`. If the first dimension of the shape is None, a context field takes
                `(values, lengths)`, with the number of values of each record, and a feature list takes
                `(values, lengths, steps)`, with the number of values of each step. Fields that are optional or have a
                default may be left out. Pass an `sr.Column` for a sparse field, and for a field that is None in some
                records. If pyarrow is installed, a column may also be an array of any library with the Arrow C
                interface, and `columns` may be a table. A list array contains both values and lengths. Null means
                None, or NaN in a field that cannot be None.
            split: name of the split of these records, if `splits` does not determine it.

        Raises:
            OptionError: the columns have the wrong form, or the class has `load` or `split` hooks, which need records.
            RecordError: values do not fit their fields. The message contains the position of the record, and nothing is
                published.
            ShardWriteError: the disk is full or failed.
        """
        intake = self._intake
        if self._life_cycle.has_hooks:
            raise OptionError(f"write_batch: {self.schema.name} has load or split, which take records: write those")
        intake.add_columns(columns, split)

    def write_all(self, records: Iterable[R] | Mapping[str, Iterable[R]] | RecordStream) -> None:
        """Add all records of a source.

        Records of a columnar source are added in batches, all others one by one.

        Args:
            records: any source that `write` accepts.

        Raises:
            RecordError: a record cannot be encoded; nothing is published.
            SourceError: the iterable failed; the message contains the number of the record.
        """
        intake = self._intake
        stream = records if isinstance(records, RecordStream) else RecordStream(records, self.schema)
        for _, source in stream.columns:
            if isinstance(source, Selection) and rows_of(source).store.manifest.is_at(self._target):
                self._check_opened(rows_of(source).store.digest)
        intake.add_all(stream)

    def keep_splitting(self, splitting: Splitting) -> None:
        """Set the splitting rule to store in the manifest, so that a rewrite keeps the rule of the old dataset."""
        self._splitting = splitting

    def keep_chunks(self, stored: Sequence[Schema]) -> None:
        """Treat the records to write as stored chunks, which stay as they are.

        `split` is not called for them, and the number of a chunk counts as part of its key.

        This has no effect unless the schema of every dataset has a field for the chunk number.

        Args:
            stored: schemas of the datasets that hold all records to write.
        """
        needs = [field.name for field in self.schema.fields if field.key or field.chunk]
        if stored and all(any(field.chunk for field in schema.fields) for schema in stored):
            self._splits, self._keys = False, UniqueKeys(self.schema, self.options.on_duplicate, needs=needs)

    def keep_history(self, old: Manifest, *, keys: bool) -> None:
        """Keep the history of the dataset to rewrite.

        It consists of the splitting rule, the skipped records and the keys.

        Args:
            old: manifest of the dataset.
            keys: whether to keep its keys without checking them, because pieces of a record share a key.
        """
        self.keep_splitting(splitting_of(old, self.schema))
        self._skipped = old.skipped, old.skip_reasons
        self.keep_chunks([old.schema])
        if keys:
            self._keys = UniqueKeys(self.schema, "error", needs=[])

    def _check_opened(self, digest: str) -> None:
        """Raise `DatasetError` if the dataset to overwrite has changed since a selection was made from it."""
        if self._part is not None:  # `commit` will check this
            self._part.opened.append(digest)
        elif self.options.overwrite:
            self._standing.check_opened(digest, self._target)

    # The end --------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        intake, placement = self._intake, self._intake.placement
        intake.finish()
        if placement.skipped:
            where = self.destination if self._remote is None else self._remote.place.url
            _LOG.warning("%s: %s skipped", where, number_of(placement.skipped, "record"))
        placement.skip(*self._skipped)
        added = placement.finish()
        # A part without records opens no default split, because other parts may have records; `commit` sees them all.
        if not added and self._part is None and not self.options.append:
            added = {DEFAULT_SPLIT: placement.open(DEFAULT_SPLIT).finish()}
        manifest = Manifest(
            path=self.destination,
            schema=self.schema,
            splits=added,
            compression=self._shard_options.compression,
            generation=self._generation,
            skipped=placement.skipped,
            skip_reasons=placement.reasons,
            splitting=self._splitting or self._router.splitting(intake.position),
            metadata=json.loads(json.dumps(self.options.metadata)),  # as readers get it: tuples become lists
            asset_infos=write_assets(
                self.options.assets if self._part is None else _asset_of_keys(self._keys),
                self._staging.path,
                self._generation if self.options.append else 0,
            ),
        )
        if self._splitting is None and self.options.overwrite:
            _check_replacement(self._standing.manifest, manifest)
        if self._old is not None:
            manifest = combine(self._old, manifest)
        known = None
        if self._remote is not None and self._uploads is not None:
            over = self._old is not None or self.options.overwrite
            self.manifest = self._remote.publish(manifest, self._staging.path, overwrite=over, there=self._uploads.sent)
        else:
            known = self._known_stats()
            self.manifest = publish(self._staging, manifest, self._standing, keep=self._old is not None)
        if self._part is None:
            warn_of_missed_shares(self.manifest)
            if not self.manifest.records:
                _LOG.warning("%s: no record was written", self.manifest.where)
        if self._remote is None and (self.options.stats or known is not None):
            from seqrecorder.analysis.stats import keep_stats

            keep_stats(self.manifest, known)
        if self._remote is None and self._old is not None:
            self._keys.save(self.manifest, added, hooks=self._life_cycle.has_hooks or self._router.in_time is not None)

    def _known_stats(self) -> Stats | None:
        """Read the statistics of the dataset being appended to.

        The result is None if there are none, or if they cannot be read.
        """
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


def _abandon(cleanup: contextlib.ExitStack, lock: threading.RLock, process: int) -> None:
    """Remove the files of a writer if its `with` block never ended."""
    if process == os.getpid():
        with lock:  # a thread may still be writing to the files
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

    Writing a large record needs about three times its encoded size in memory, including the record itself.

    Args:
        records: an iterable of records of one class, or of dictionaries from field name to value, which is consumed one
            record at a time and never held in memory as a whole; or a table with one record per row, from Hugging Face
            or any library with the Arrow C interface; or the result of `from_table`, `from_rows` or a similar function;
            or a selection, whose encoded records are copied if the schema is the same; or a mapping from split name to
            one of these. The values of a record are read immediately, so the next record may reuse its arrays.
        destination: directory of the dataset, or its URL, as for `Writer`.
        schema: the record class; required for dictionaries and tables, and if `records` may be empty.
        **options: the fields of `WriteOptions`.

    Returns:
        The manifest of the dataset.

    Raises:
        DatasetExistsError: the destination exists and is not empty.
        RecordError: a record cannot be encoded; nothing is published.
        SourceError: the iterable raised; nothing is published.
        OptionError: an option is invalid, or the columns of a table do not match the fields.
    """
    stream, wanted = stream_of(records, schema, options)
    writer = Writer[Any](destination, wanted, **options)
    writer.keep_chunks(stream.stored)
    with writer:
        writer.write_all(stream)
    return writer.manifest


def _check_replacement(old: Manifest | None, new: Manifest) -> None:
    """Raise `DatasetError` if an overwrite would replace all records with none.

    Splits that are lost in an overwrite are logged.
    """
    if old is None or not old.records:
        return
    if not new.records:
        text = f"{old.where}: no record came to replace its {number_of(old.records, 'record')}, which stay"
        raise DatasetError(f"{text}; seqrecorder.rewrite(path, drop=...) drops all", path=old.path)
    if gone := [name for name, split in old.splits.items() if split.records and name not in new.splits]:
        _LOG.warning("%s: no longer has the split %s; give splits= again", old.where, ", ".join(gone))


def stream_of(records: Any, schema: object, options: WriteKeywords) -> tuple[RecordStream, Schema]:
    """Open a stream of the records to write, and infer their schema; see `write` for arguments and errors."""
    if isinstance(records, Mapping) and options.get("splits") is not None:
        raise OptionError("the mapping names the splits already: leave `splits` out")
    if isinstance(records, (str, bytes, os.PathLike)):
        raise OptionError(
            f"expected records, dictionaries or a table, got the path {records!r}: seqrecorder.from_table, from_rows, "
            "from_jsonl and the like read files"
        )
    if schema is None:
        sources = records.values() if isinstance(records, Mapping) else [records]
        schema = next((source.schema for source in sources if isinstance(source, (ColumnSource, Selection))), None)
    stream = RecordStream(records, None if schema is None else Schema.of(schema))
    if schema is None:
        first = stream.peek()
        if isinstance(first, Mapping):
            raise OptionError("dictionaries do not say what records they are: pass schema=Class")
        if first is None:
            raise OptionError("expected at least one record, got none; pass schema= to write an empty dataset")
        schema = first
    return stream, Schema.of(schema)
