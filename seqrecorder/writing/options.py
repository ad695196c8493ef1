"""The options of `write` and `Writer`: what they are, what is wrong with them, and what shards take from them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

import attrs

from seqrecorder.dataset.generations import ASSET_GENERATION
from seqrecorder.dataset.manifest import check_metadata
from seqrecorder.dataset.splits import TimeRule
from seqrecorder.errors import OptionError, did_you_mean
from seqrecorder.storage.names import check_names
from seqrecorder.storage.tfrecord import check_compression

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.dataset.splits import Balanced
    from seqrecorder.storage.tfrecord import Compression

T = TypeVar("T")

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
    """How records become a dataset: `write` and `Writer` take each of these as a keyword argument.

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
        if self.on_duplicate not in ("error", "first"):
            raise OptionError(f"on_duplicate: expected 'error' or 'first', got {self.on_duplicate!r}")
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
        """Which times are of which split; None without `time`."""
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
        """Return how records become shards.

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


@attrs.frozen
class ShardOptions:
    """How records become shards.

    Attributes:
        shards: their number; record i goes to shard i mod n.
        shard_bytes: their size; records fill one shard after the other.
        compression: None or `GZIP`.
        shuffle_seed: seed of the order on disk; None keeps the order of arrival.
        generation: which stands in the names of shards.
        csv_generation: which stands in the name of the CSV.
        groups: alignment groups of the schema.
    """

    shards: int | None = None
    shard_bytes: int | None = None
    compression: Compression = None
    shuffle_seed: int | None = None
    generation: int = 0
    csv_generation: int = 0
    groups: int = 1


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
