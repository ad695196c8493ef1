"""The manifest, which describes the contents of a finished dataset.

`manifest.json` is written last, so a directory that contains one is a complete dataset. It contains neither times nor
paths, so equal data have equal manifests. Its contents are not trusted: every name is checked, and nothing is
evaluated.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import itertools
import json
import re
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import numpy as np

from seqrecorder.dataset.split_shares import Ratios, Shares, Stratum, missed_shares, shares_of
from seqrecorder.dataset.splits_in_time import TimeRule
from seqrecorder.errors import DatasetNotFoundError, ManifestError, OptionError, ShardReadError, did_you_mean
from seqrecorder.schema.display import bytes_text, cut, html_table, join, number_of, outlines
from seqrecorder.schema.evolution import source_of
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.cache import Wanted, cached, fetch_cached
from seqrecorder.storage.files import (
    ASSETS,
    MANIFEST,
    STATISTICS,
    check_compression,
    check_names,
    has_digest,
    inside,
    is_same_directory,
    is_special,
    is_url,
    lengths_name,
    local_path,
    origin_of,
    read_lengths,
    sha256,
    write_file,
)
from seqrecorder.storage.locks import exclusive
from seqrecorder.storage.object_store import Place

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from seqrecorder.storage.files import Compression


_MOST_SPLITS = 6  # maximum number of curves in a picture
_BINS = 30


def lengths_picture(splits: Mapping[str, Sequence[tuple[int, int]]]) -> str:
    """Draw the distribution of the lengths in each split as SVG.

    Args:
        splits: mapping from split name to pairs of a length and the number of records with that length.

    Returns:
        The SVG, or an empty string if all lengths are 0.
    """
    known = {name: np.array(pairs, np.float64).reshape(-1, 2) for name, pairs in list(splits.items())[:_MOST_SPLITS]}
    longest = max((float(pairs[:, 0].max(initial=0)) for pairs in known.values()), default=0.0)
    if not longest:
        return ""
    edges = np.linspace(0, longest + 1, _BINS + 1)
    counts = {name: np.histogram(pairs[:, 0], edges, weights=pairs[:, 1])[0] for name, pairs in known.items()}
    shares = {name: each / max(1.0, float(each.sum())) for name, each in counts.items()}
    ticks = [(0.0, "0"), (longest / 2, "steps"), (longest, f"{longest:,.0f}")]
    return outlines("steps of the records, by split", edges, shares, ticks)


_MAGIC = b"SRSTAT03"  # versions 01 and 02 counted values that do not occur, so their statistics are computed again
_HEAD = len(_MAGIC) + 64


def read_statistics(directory: Path, text: bytes) -> bytes | None:
    """Read the statistics stored with a dataset.

    Args:
        directory: directory of the dataset.
        text: text of the manifest.

    Returns:
        The statistics, or None if there are none, or if they belong to another manifest.

    Raises:
        ManifestError: the statistics are damaged.
    """
    try:
        data = (directory / STATISTICS).read_bytes()
    except OSError:
        return None
    owner = _MAGIC + hashlib.sha256(text).digest()
    if not data.startswith(owner):
        return None
    if hashlib.sha256(data[_HEAD:]).digest() != data[len(owner) : _HEAD]:
        raise ManifestError(f"{directory / STATISTICS} is damaged; remove it: statistics are computed again on demand")
    return data[_HEAD:]


def write_statistics(directory: Path, text: bytes, data: bytes) -> None:
    """Store statistics with a dataset, unless it has changed in the meantime.

    Raises:
        DatasetNotFoundError: the dataset was removed.
        ShardWriteError: the file could not be written.
    """
    head = _MAGIC + hashlib.sha256(text).digest() + hashlib.sha256(data).digest()
    with exclusive(directory) as locked:
        if locked.read(MANIFEST) == text:
            locked.replace(STATISTICS, head + data, like=MANIFEST)


_COUNTS = ("records", "steps", "bytes", "start", "step")
_NO_BINS = bytes(range(128)).translate(None, b"0123456789: ")
_NO_HEX = bytes(range(128)).translate(None, b"0123456789abcdef")


@attrs.frozen
class ShardInfo:
    """Entry of a shard in the manifest.

    Attributes:
        name: file name in the directory of the split.
        records: number of records.
        steps: sum of the lengths of the records in the first alignment group.
        bytes: size of the file.
        sha256: SHA-256 of the file, in hexadecimal.
        lengths_sha256: SHA-256 of its lengths file, in hexadecimal.
        bins: histogram of the lengths, as a string (see `bins_text`). It is parsed on demand, because a dataset may
            have a million shards.
        start: position of the first record in the written order of the split.
        step: distance between the positions of consecutive records of the shard.
    """

    name: str
    records: int
    steps: int
    bytes: int
    sha256: str = attrs.field(repr=False)
    lengths_sha256: str = attrs.field(repr=False)
    bins: str = attrs.field(repr=False)
    start: int = attrs.field(repr=False)
    step: int = attrs.field(repr=False)

    @property
    def histogram(self) -> tuple[tuple[int, int], ...]:
        """Histogram of the lengths, as pairs `(largest length, records)` in ascending order.

        Raises:
            ManifestError: the histogram is invalid.
        """
        return _bins(self.bins)

    @property
    def lengths_name(self) -> str:
        """Name of the lengths file in the directory of the split."""
        return lengths_name(self.name)

    def files(self, split: str) -> list[Wanted]:
        """List the shard and its lengths file, with paths relative to the dataset."""
        lengths = Wanted(f"{split}/{self.lengths_name}", self.lengths_sha256)
        return [Wanted(f"{split}/{self.name}", self.sha256, self.bytes), lengths]


COLUMNS = ("name", "records", "steps", "bytes", "sha256", "lengths_sha256", "histogram", "start", "step")
"""Columns of shards in a manifest, in the order of the fields of `ShardInfo`."""


# A histogram is exact up to this many distinct lengths; otherwise it keeps this many leading bits of each length.
_EXACT_BINS, _BITS_KEPT = 512, 5


def histogram(lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Count records by length, in ascending bins.

    A bin is `(largest length, records)`. If there are at most 512 distinct lengths, each of them has its own bin.

    >>> histogram(np.array([3, 5, 3]))
    [(3, 2), (5, 1)]
    """
    values, counts = np.unique(lengths, return_counts=True)
    if values.size > _EXACT_BINS:
        # Bins grow with the length: keep the upper five bits of each length, rounded up.
        shift = np.maximum(0, np.floor(np.log2(np.maximum(values, 1))).astype(np.int64) + 1 - _BITS_KEPT)
        edges = ((values >> shift) + ((values & ((1 << shift) - 1)) > 0)) << shift
        values, inverse = np.unique(edges, return_inverse=True)
        counts = np.bincount(inverse, weights=counts).astype(np.int64)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def bins_text(bins: Any) -> str:
    """Format a histogram as a string.

    >>> bins_text([(3, 2), (5, 1)])
    '3:2 5:1'
    """
    return " ".join(f"{length!r}:{records!r}" for length, records in bins)


_HISTOGRAM = re.compile(r"(?:[0-9]{1,19}:[0-9]{1,19}(?: +|$))*")


def _bins(text: Any) -> tuple[tuple[int, int], ...]:
    """Parse a histogram from a string; raise `ManifestError` if it is invalid."""
    is_one = isinstance(text, str) and _HISTOGRAM.fullmatch(text)
    numbers = list(map(int, text.replace(":", " ").split())) if is_one else [-1]
    if not 0 <= min(numbers, default=0) <= max(numbers, default=0) < 1 << 63:
        raise ManifestError(f"expected a histogram, pairs of counts such as '3:2 5:1', got {text!r:.100}")
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _only(text: str, others: bytes) -> bool:
    """Check whether a string is ASCII and contains no character of `others`."""
    return text.isascii() and len(text.encode().translate(None, others)) == len(text)


def _check_digests(values: list[Any]) -> None:
    wrong = [value for value in values if not isinstance(value, str) or len(value) != 64]  # noqa: PLR2004 - SHA-256
    if wrong or not _only("".join(values), _NO_HEX):
        raise ValueError(f"expected SHA-256s in hex, got {(wrong or values)[0]!r:.100}")


def _check_counts(values: list[Any]) -> None:
    if set(map(type, values)) - {int} or not 0 <= min(values, default=0) <= max(values, default=0) < 1 << 63:
        wrong = [value for value in values if type(value) is not int or not 0 <= value < 1 << 63]
        raise ValueError(f"expected a count, got {wrong[0]!r:.100}")


def _parse_shards(data: Mapping[str, Any]) -> tuple[ShardInfo, ...]:
    """Build the entries of a split's shards from untrusted columns.

    All values are checked. Histograms remain strings, of which only the characters are checked.

    Raises:
        ValueError: a value is invalid, or a name is not a plain file name.
        KeyError: a column is missing.
    """
    columns = [data[name] for name in COLUMNS]
    if set(map(type, columns)) - {list} or len(set(map(len, columns))) != 1:
        raise ValueError("expected columns of shards, lists of one length")
    names, histograms = data["name"], data["histogram"]
    check_names(names, "shard")
    for name in names if not all(name.endswith(".tfrecord") for name in names) else ():
        lengths_name(name)  # raises an error if it is not the name of a shard
    for each in ("sha256", "lengths_sha256"):
        _check_digests(data[each])
    for each in _COUNTS:
        _check_counts(data[each])
    if set(map(type, histograms)) - {str} or not _only("".join(histograms), _NO_BINS):
        raise ValueError(f"expected histograms, pairs of counts, got {histograms!r:.100}")
    columns[-1] = [max(step, 1) for step in data["step"]]
    return tuple(map(ShardInfo, *columns))


FORMAT = "seqrecorder"
FORMAT_VERSION = 1
DEEPEST = 100
"""Maximum depth of lists and dictionaries in the user's metadata."""


@attrs.frozen(slots=False, repr=False)
class SplitInfo:
    """Entry of a split in the manifest.

    Attributes:
        name: name of the split and of its directory.
        shards: shards, in order.
        together: histogram of all shards as a string; None if the manifest does not contain it.
    """

    name: str
    shards: tuple[ShardInfo, ...]
    together: str | None = attrs.field(default=None, eq=False)

    def __repr__(self) -> str:
        counts = f"records={self.records}, steps={self.steps}, bytes={self.bytes}, shards={len(self.shards)}"
        return f"SplitInfo(name={self.name!r}, {counts})"

    @functools.cached_property
    def records(self) -> int:
        """Number of records."""
        return sum(shard.records for shard in self.shards)

    @functools.cached_property
    def steps(self) -> int:
        """Sum of the lengths of the records in the first alignment group."""
        return sum(shard.steps for shard in self.shards)

    @functools.cached_property
    def bytes(self) -> int:
        """Size of all shards in bytes."""
        return sum(shard.bytes for shard in self.shards)

    @functools.cached_property
    def bins(self) -> list[tuple[int, int]]:
        """Histogram of the lengths of all records, as pairs `(largest length, records)` in ascending order.

        Raises:
            ManifestError: a histogram is invalid.
        """
        return self.sum_bins() if self.together is None else list(_bins(self.together))

    def sum_bins(self) -> list[tuple[int, int]]:
        """Add up the histograms of the shards."""
        total = collections.Counter[int]()
        for shard in self.shards:
            for length, records in shard.histogram:
                total[length] += records
        return sorted(total.items())


@attrs.frozen
class AssetInfo:
    """Manifest entry of an asset, which is one of the user's own files.

    Attributes:
        sha256: SHA-256 of the file, in hexadecimal.
        generation: generation that added the file. A later version of the file is stored in another directory.
    """

    sha256: str
    generation: int = 0

    def relative(self, name: str) -> str:
        """Build the path of the asset relative to the dataset."""
        return f"{ASSETS}/g{self.generation:04d}/{name}" if self.generation else f"{ASSETS}/{name}"


BY_FUNCTION = "()"
"""Value of `Splitting.by` for a function, which a manifest cannot store; no attribute can have this name."""


@attrs.frozen
class Splitting:
    """Rule by which records were assigned to splits, stored so that appends can continue it.

    Attributes:
        seed: seed of the hash.
        shares: proportion of each split; None if records were not assigned by proportion.
        by: name of the attribute in `split_by`, or `BY_FUNCTION`. None if the key field was hashed, or the position if
            there is no key field.
        sources: number of source records so far, which is also the position of the next one.
        groups: mapping from split to the hashes of its groups, for `Balanced` and strata; otherwise None.
        stratify: name of the attribute that determines the stratum, or `BY_FUNCTION`; None without strata.
        strata: mapping from the hash of a stratum's value to the stratum; None without strata.
        time: JSON data from `TimeRule.to_dict` for splits by time; otherwise None.
    """

    seed: int = 0
    shares: Mapping[str, float] | None = None
    by: str | None = None
    sources: int = 0
    groups: Mapping[str, Sequence[int]] | None = None
    stratify: str | None = None
    strata: Mapping[int, Stratum] | None = None
    time: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Convert the rule to JSON data; each group is stored as 16 hexadecimal digits."""
        names = ["seed", "shares", "by", "sources"]
        names += [name for name in ("stratify", "time") if getattr(self, name) is not None]
        data: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.shares is not None:
            data["shares"] = dict(self.shares)
        if self.strata is not None:
            data["strata"] = [[f"{value:016x}", each.name, each.counts] for value, each in self.strata.items()]
        if self.groups is not None:
            hashes = {name: map("{:016x}".format, members) for name, members in self.groups.items()}
            data["groups"] = {name: "".join(members) for name, members in hashes.items()}
        return data


@attrs.frozen(slots=False, repr=False)
class Manifest:
    """Description of the contents of a finished dataset.

    >>> import seqrecorder as sr  # doctest: +SKIP
    >>> sr.info("corpus/").splits["train"].records  # doctest: +SKIP
    8000

    Attributes:
        path: directory of the dataset; for a URL, the cache directory with the fetched files.
        schema: stored schema.
        splits: mapping from name to split, in order of declaration.
        compression: compression of the shards, None or `GZIP`.
        generation: number of the last write: 0 for the first, plus one for each append or overwrite.
        skipped: number of source records that were skipped by a hook or because of a duplicate key, in all writes.
        skip_reasons: first three distinct messages of `SkipRecord`, and of errors under `on_error="skip"`.
        splitting: rule that assigned records to splits.
        metadata: the user's own data, which can be any JSON value.
        asset_infos: mapping from name to the entry of an asset (one of the user's own files).
        url: URL from which the files of the dataset are fetched; None for a dataset on a local disk.
        parts: number of parts that `commit` published as this dataset; 0 if it was written otherwise. Appends do not
            change it.
    """

    path: Path
    schema: Schema
    splits: Mapping[str, SplitInfo]
    compression: Compression = None
    generation: int = 0
    skipped: int = 0
    skip_reasons: tuple[str, ...] = ()
    splitting: Splitting = attrs.field(factory=Splitting)
    metadata: Any = None
    asset_infos: Mapping[str, AssetInfo] = attrs.field(factory=dict)
    url: str | None = None
    parts: int = 0

    def __repr__(self) -> str:
        splits = join([f"{cut(name, 30)} {split.records:,}" for name, split in self.splits.items()])
        facts = f"{number_of(self.records, 'record')} ({splits}), {bytes_text(self.bytes)}"
        return f"<Manifest of {cut(self.schema.name, 40)} in {cut(self.where, 120)!r}: {facts}>"

    @property
    def where(self) -> str:
        """URL or directory of the dataset, for messages."""
        return self.url or str(self.path)

    def _repr_html_(self) -> str:
        rows = [
            (name, f"{s.records:,}", f"{s.steps:,}", bytes_text(s.bytes), len(s.shards))
            for name, s in self.splits.items()
        ]
        picture = lengths_picture({name: split.bins for name, split in self.splits.items()})
        return html_table(repr(self)[1:-1], ("split", "records", "steps", "size", "shards"), rows) + picture

    @property
    def records(self) -> int:
        """Number of records in all splits."""
        return sum(split.records for split in self.splits.values())

    @property
    def steps(self) -> int:
        """Number of steps in all splits."""
        return sum(split.steps for split in self.splits.values())

    @property
    def bytes(self) -> int:
        """Size in bytes of the shards of all splits."""
        return sum(split.bytes for split in self.splits.values())

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the schema."""
        return self.schema.fingerprint

    @property
    def assets(self) -> dict[str, Path]:
        """Mapping from the name of each asset to its path.

        Assets are files of the user that are stored with the dataset. Read them with `read_text()` or `read_bytes()`.
        """
        wanted = [Wanted(info.relative(name), info.sha256) for name, info in self.asset_infos.items()]
        self.fetch_files(wanted, verify=True)
        return {name: inside(self.path, info.relative(name)) for name, info in self.asset_infos.items()}

    def split(self, name: str | None) -> SplitInfo:
        """Look up a split by name; None means the only split.

        Raises:
            OptionError: `name` is None and there are several splits.
            DatasetNotFoundError: the split does not exist.
        """
        names = list(self.splits)
        if name is None:
            if len(names) == 1:
                return self.splits[names[0]]
            raise OptionError(f"{self.where} has several splits: name one of {', '.join(names)}")
        if not isinstance(name, str):
            raise OptionError(
                f"split: expected the name of one, got {name!r}; a strategy goes to `batch=`; of several splits, read "
                "each, and join what comes: `dataset.concatenate(other)`, `itertools.chain(records, others)`"
            )
        if name not in self.splits:
            text = f"{self.where} has no split {name!r}{did_you_mean(name, names)}; it has {', '.join(names)}"
            raise DatasetNotFoundError(text, path=self.path)
        return self.splits[name]

    def is_at(self, destination: Path | Place) -> bool:
        """Check whether the dataset is at a given directory or URL."""
        if isinstance(destination, Place):
            return self.url is not None and destination.is_same(Place.of(self.url))
        return self.url is None and is_same_directory(self.path, destination)

    def shard_path(self, split: str, shard: ShardInfo) -> Path:
        """Build the path of a shard."""
        return inside(self.path, f"{split}/{shard.name}")

    def fetch(
        self, shards: Iterable[tuple[str, ShardInfo]], *, lengths_only: bool = False, verify: bool = False
    ) -> None:
        """Fetch shards and their lengths files into the cache.

        This does nothing for a dataset on a local disk.

        Args:
            shards: pairs of split name and shard.
            lengths_only: whether to fetch only the lengths files.
            verify: whether to compare files in the cache with their digests, and fetch damaged ones again.

        Raises:
            ShardReadError: a file cannot be fetched, or has changed since it was written.
            ShardWriteError: the disk is full.
        """
        if self.url is not None:
            wanted = [file for split, shard in shards for file in shard.files(split)[lengths_only:]]
            self.fetch_files(wanted, verify=verify)

    def fetch_files(self, files: Sequence[Wanted], *, verify: bool = False) -> None:
        """Fetch files into the cache; raise the same errors as `fetch`."""
        if self.url is not None:
            fetch_cached(Place.of(self.url), self.path, files, verify=verify)

    def lengths(self, split: str, shard: ShardInfo) -> NDArray[np.int64]:
        """Read the lengths file of a shard.

        Returns:
            Lengths, int64 `(records, max(1, groups))`.

        Raises:
            ShardReadError: the file is missing, or has changed since it was written.
        """
        path = inside(self.path, f"{split}/{shard.lengths_name}")
        if self.url is not None and not has_digest(path, shard.lengths_sha256):
            # Callers read the lengths files of all shards in turn.
            self.fetch([(split, each) for each in self.splits[split].shards], lengths_only=True, verify=True)
        return read_lengths(path, max(1, len(self.schema.groups)), shard.records, shard.lengths_sha256)

    @property
    def missed_shares(self) -> dict[str, tuple[float, float]]:
        """Requested and actual proportion of each split that misses its requested proportion by a wide margin."""
        if self.splitting.shares is None:
            return {}
        return missed_shares(self.splitting.shares, {name: split.records for name, split in self.splits.items()})

    @property
    def shares(self) -> Shares | None:
        """Requested and actual proportions of the splits, overall and in each stratum.

        This is None if no proportions were requested. Strata count source records, before hooks skip or split them and
        before a rewrite drops any of them.
        """
        wanted, strata = self.splitting.shares, self.splitting.strata or {}
        if wanted is None:
            return None
        counts = [self.splits[name].records if name in self.splits else 0 for name in wanted]
        each = {stratum.name: shares_of(wanted, stratum.counts) for stratum in strata.values()}
        return Shares(dict(wanted), shares_of(wanted, counts), each)

    def to_json(self) -> str:
        """Format the manifest as the JSON text of `manifest.json`."""
        data = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "schema": self.schema.to_dict(),
            "fingerprint": self.schema.fingerprint,
            "groups": list(self.schema.groups),
            "compression": self.compression,
            "generation": self.generation,
            "skipped": self.skipped,
            **({"skip_reasons": list(self.skip_reasons)} if self.skip_reasons else {}),
            **({"parts": self.parts} if self.parts else {}),
            "splitting": self.splitting.to_dict(),
            "metadata": self.metadata,
            "assets": {name: attrs.asdict(info) for name, info in self.asset_infos.items()},
        }
        items = [
            f'\n  {json.dumps(name, ensure_ascii=False)}: {{\n   "shards": {_shards_text(split)}\n  }}'
            for name, split in self.splits.items()
        ]
        text = json.dumps(data, indent=1, ensure_ascii=False).removesuffix("\n}")
        end = "\n " if items else ""
        return _seal(f'{text},\n "splits": {{{",".join(items)}{end}}}\n}}')


def splitting_of(manifest: Manifest, schema: Schema) -> Splitting:
    """Adapt the splitting rule of a dataset to the names that its fields have in another schema.

    The schema belongs to a later version of the record class. If it lacks a field that the rule uses, only the seed and
    the number of source records are kept.
    """
    fields, rule = manifest.schema.fields, manifest.splitting
    names = {source.name: field.name for field in schema.fields if (source := source_of(field, fields))}
    time = {} if rule.time is None else dict(rule.time)
    if {rule.by, rule.stratify, time.get("time"), time.get("end")} & ({field.name for field in fields} - names.keys()):
        return Splitting(rule.seed, sources=rule.sources)
    time |= {end: names.get(time[end], time[end]) for end in ("time", "end") if end in time}
    by, stratify = (name and names.get(name, name) for name in (rule.by, rule.stratify))
    return attrs.evolve(rule, by=by, stratify=stratify, time=time or None)


def schema_to_read(manifest: Manifest, schema: object, where: str) -> Schema:
    """Build the schema with which to read a dataset.

    `schema` is a class or a schema. If it is None, the result is the schema that is stored in the manifest.

    Raises:
        SchemaMismatchError: the dataset cannot be read as the schema.
    """
    if schema is None:
        return manifest.schema
    wanted = Schema.of(schema)
    wanted.require_readable(manifest.schema, where)
    return wanted.reading(manifest.schema)


F = TypeVar("F")


def shards_of(manifest: Manifest) -> list[tuple[str, ShardInfo]]:
    """List all shards as pairs of split name and shard."""
    return [(split.name, shard) for split in manifest.splits.values() for shard in split.shards]


def in_written_order(files: Sequence[F]) -> list[list[F]]:
    """Divide the files of a split into groups.

    Files among which records were dealt round-robin form a group. Every other file is a group of its own.
    """
    firsts = first_of_groups(files)
    return [list(files[first:stop]) for first, stop in itertools.pairwise([*firsts, len(files)])]


def first_of_groups(files: Sequence[Any]) -> list[int]:
    """Find the first file of each group of `in_written_order`; return the indices of these files."""
    firsts: list[int] = []
    for number, file in enumerate(files):
        first = files[firsts[-1]] if firsts else file
        is_dealt = file.step > 1 and file.step == first.step and 0 < file.start - first.start < file.step
        if not is_dealt:
            firsts.append(number)
    return firsts


def files_of(manifest: Manifest) -> list[Wanted]:
    """List the shards, lengths files and assets, in the order of the manifest."""
    assets = [Wanted(info.relative(name), info.sha256) for name, info in manifest.asset_infos.items()]
    return [*(file for split, shard in shards_of(manifest) for file in shard.files(split)), *assets]


_REASONS, _LONGEST_REASON = 3, 200  # limits that keep a manifest small


def first_reasons(*reasons: Iterable[str]) -> tuple[str, ...]:
    """Select the first three distinct strings that are not empty, cut to 200 characters."""
    texts = (text[:_LONGEST_REASON] for group in reasons for text in group if text)
    return tuple(itertools.islice(dict.fromkeys(texts), _REASONS))


def combine(old: Manifest, new: Manifest) -> Manifest:
    """Combine the manifest of a dataset with that of an append to it."""
    splits = {name: SplitInfo(name, split.shards) for name, split in old.splits.items()}
    for name, split in new.splits.items():
        earlier = splits[name].shards if name in splits else ()
        splits[name] = SplitInfo(name, (*earlier, *split.shards))
    return attrs.evolve(
        new,
        splits=splits,
        skipped=old.skipped + new.skipped,
        skip_reasons=first_reasons(old.skip_reasons, new.skip_reasons),
        metadata=old.metadata if new.metadata is None else new.metadata,
        asset_infos={**old.asset_infos, **new.asset_infos},
        parts=old.parts,
    )


def _check_tree(value: Any, left: int = DEEPEST) -> None:
    """Raise `ValueError` if metadata are too deep for recursive functions, or have keys that JSON would change."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else None
    if inner is None:
        return
    if not left:
        raise ValueError(f"metadata: expected at most {DEEPEST} levels; write deeper ones as text, or as an asset")
    for key in value if isinstance(value, dict) else ():
        if not isinstance(key, str):
            raise ValueError(f"metadata: keys of JSON are text, which would change {key!r}; write it as text")  # noqa: TRY004 - all damage is one error
    for item in inner:
        _check_tree(item, left - 1)


# Text of the manifest -------------------------------------------------------------------------------------------------

_SEAL = ',\n "checksum": "'

_MOST_ROWS = 1000
"""Maximum number of shards that are written as one JSON object per line, for human readers.

More shards are written as a table, which parses faster.
"""


def is_as_written(text: str) -> bool:
    """Check whether the text of a manifest matches its checksum.

    Readers do not check it, because a carefully edited manifest is still valid.
    """
    unsealed, _, _ = text.rpartition(_SEAL)
    return text == _seal(f"{unsealed}\n}}")


def _shards_text(split: SplitInfo, most_rows: int = _MOST_ROWS) -> str:
    """Format the shards of a split as JSON.

    There is one line per shard or, if there are many shards, one line per column.
    """
    if len(split.shards) <= most_rows:
        rows = ({name: getattr(shard, name) for name in COLUMNS} for shard in split.shards)
        lines = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rows)
        return f"[\n{lines}\n   ]" if lines else "[]"
    columns: dict[str, Any] = {name: [getattr(shard, name) for shard in split.shards] for name in COLUMNS}
    columns |= {"histogram": [shard.bins for shard in split.shards], "together": bins_text(split.bins)}
    lines = ",\n".join(f'    "{name}": {json.dumps(values, ensure_ascii=False)}' for name, values in columns.items())
    return f"{{\n{lines}\n   }}"


def _seal(text: str) -> str:
    """Append a checksum to the text of a JSON object, as its last item."""
    checksum = hashlib.sha256(f"{text}\n".encode()).hexdigest()
    unfinished = text.removesuffix("\n}")
    return f'{unfinished}{_SEAL}{checksum}"\n}}\n'


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # possible in JSON as an escape, but not in UTF-8


def read_manifest(directory: str | os.PathLike[str]) -> Manifest:
    """Read the manifest of a dataset.

    Raises:
        DatasetNotFoundError: there is no dataset.
        ManifestError: the manifest is damaged, or its format is newer than this release.
    """
    path = dataset_at(directory) if is_url(directory) else local_path(directory)
    return parse_manifest(manifest_bytes(path), path)


def dataset_at(location: Any) -> Path:
    """Find the directory of a dataset.

    The location can be the path of the directory or of the manifest in it. It can also be a URL, for which the
    directory is in the cache.

    Raises:
        DatasetNotFoundError: there is no dataset at the URL.
        DatasetError: the URL cannot be reached.
        OptionError: `location` is not a path.
    """
    if not is_url(location):
        path = local_path(location)
        return path.parent if path.name == MANIFEST and not path.is_dir() else path
    remote = Place.of(location)
    text = remote.read(MANIFEST)
    if text is None:
        why = f"there is no dataset at {remote.url}: it has no {MANIFEST}; bare shards are read from local paths only"
        raise DatasetNotFoundError(why, path=remote.url)
    return cached(remote, text)


def manifest_bytes(path: Path) -> bytes:
    """Read the manifest of a dataset as bytes; raise the same errors as `read_manifest`."""
    file = path / MANIFEST
    if is_special(file):
        raise ManifestError(f"{file}: expected a file, got a pipe or a device", path=file)
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if path.is_dir():
            why = f"{path} is a directory without {MANIFEST}, so not a finished dataset; for bare shards pass "
            why += "their paths (or a glob) and `schema=`"
        else:
            why = f"{path} is a file, not a dataset's directory" if path.exists() else f"there is no dataset at {path}"
        raise DatasetNotFoundError(why, path=path) from None
    except OSError as error:
        raise ManifestError(f"{file}: cannot be read: {error}", path=file) from error


@contextlib.contextmanager
def explaining_replacement(manifest: Manifest | None) -> Iterator[None]:
    """Explain read errors that occur because the dataset was replaced.

    The new message says that the dataset was replaced or removed, and that nothing is damaged.

    Args:
        manifest: manifest of the dataset when it was opened; None for bare shards.

    Raises:
        ShardReadError: the error raised inside the block, with the explanation.
    """
    try:
        yield
    except ShardReadError as error:
        if manifest is None or not was_replaced(manifest):
            raise
        raise ShardReadError(
            f"{manifest.where} was replaced or removed since it was opened, so that {error.path} has changed; nothing "
            "is damaged: open it again",
            path=error.path,
        ) from error


def was_replaced(manifest: Manifest) -> bool:
    """Check whether the dataset has lost shards that a manifest names, for example because it was overwritten."""
    try:
        now = read_manifest(manifest.path)
    except DatasetNotFoundError:
        return True
    except ManifestError:
        return False
    return not _shards(manifest) <= _shards(now)


def _shards(manifest: Manifest) -> set[tuple[str, str, str]]:
    """List the split, name and digest of each shard.

    An overwrite changes the names even if the records are equal.
    """
    return {(split, shard.name, shard.sha256) for split, shard in shards_of(manifest)}


def parse_manifest(text: str | bytes, path: Path) -> Manifest:
    """Parse the manifest of a dataset at `path`.

    Raises:
        ManifestError: the text is damaged, or its format is newer than this release.
    """
    file = path / MANIFEST
    try:
        return _manifest(text if isinstance(text, str) else text.decode(), path)
    except ManifestError as error:
        raise ManifestError(f"{file}: {error}", path=file) from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ManifestError(f"{file}: damaged, or not a manifest: {error!r:.1000}", path=file) from None


def _manifest(text: str, path: Path) -> Manifest:
    data = json.loads(text, parse_constant=_refuse_constant)
    if "\\u" in text and _SURROGATE.search(text):  # searching for a substring is a hundred times faster
        json.dumps(data, ensure_ascii=False).encode()
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError("not a manifest of seqrecorder")
    version = data["format_version"]
    if version != FORMAT_VERSION:
        raise ValueError(f"format version {version!r}, where this release reads {FORMAT_VERSION}; update seqrecorder")
    schema = Schema.from_dict(data["schema"])
    if data["fingerprint"] != schema.fingerprint:
        raise ValueError("the fingerprint does not match the schema")
    check_names(data["splits"], "split")
    check_names(data["assets"], "asset")
    _check_digests([info["sha256"] for info in data["assets"].values()])
    _check_tree(data["metadata"])
    return Manifest(
        path=path,
        schema=schema,
        splits={name: _split(name, split) for name, split in data["splits"].items()},
        compression=check_compression(data["compression"]),
        generation=_count(data["generation"]),
        skipped=_count(data["skipped"]),
        skip_reasons=first_reasons(map(str, data.get("skip_reasons", ()))),
        splitting=_splitting(data["splitting"]),
        metadata=data["metadata"],
        asset_infos={
            name: AssetInfo(info["sha256"], _count(info["generation"])) for name, info in data["assets"].items()
        },
        url=origin_of(path),
        parts=_count(data.get("parts", 0)),
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _split(name: str, data: Mapping[str, Any]) -> SplitInfo:
    shards = data["shards"]
    if isinstance(shards, dict):
        _bins(shards["together"])
        return SplitInfo(name, _parse_shards(shards), shards["together"])
    columns = {column: [shard[column] for shard in shards] for column in COLUMNS}
    columns["histogram"] = list(map(bins_text, columns["histogram"]))
    return SplitInfo(name, _parse_shards(columns))


def _splitting(data: Mapping[str, Any]) -> Splitting:
    """Parse JSON data from `Splitting.to_dict`; raise `ValueError` if they are damaged."""
    seed, by, stratify = data["seed"], data["by"], data.get("stratify")
    if type(seed) is not int or not isinstance(by, (str, NoneType)) or not isinstance(stratify, (str, NoneType)):
        raise ValueError(f"expected a seed and names of attributes, got {seed!r:.80}, {by!r:.80} and {stratify!r:.80}")
    shares, groups, strata, rule = data["shares"], data.get("groups"), data.get("strata"), data.get("time")
    if shares is not None:
        shares = dict(Ratios(shares).shares)
    if groups is not None:
        groups = {str(name): _hashes(text) for name, text in groups.items()}
    if set(groups or ()) - set(shares or ()) or (strata is not None and shares is None):
        raise ValueError("expected shares of the splits that have groups or strata")
    if (stratify is None) != (strata is None):
        raise ValueError(f"expected strata and the name of their attribute, got {stratify!r:.80}")
    if strata is not None:
        strata = {_hash(value): _stratum(name, counts, len(shares or ())) for value, name, counts in strata}
    if rule is not None:
        TimeRule(**rule)
    return Splitting(seed, shares, by, _count(data["sources"]), groups, stratify, strata, rule)


def _stratum(name: Any, counts: Any, splits: int) -> Stratum:
    if not isinstance(name, str) or not isinstance(counts, list) or len(counts) != splits:
        raise ValueError(f"expected a stratum and its counts, got {name!r:.80} and {counts!r:.80}")
    return Stratum(name, list(map(_count, counts)))


def _hash(text: Any) -> int:
    (value,) = _hashes(text)
    return value


def _hashes(text: Any) -> tuple[int, ...]:
    if not isinstance(text, str) or len(text) % 16 or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"expected hashes of 16 hexadecimal digits each, got {text!r:.80}")
    return tuple(int(text[start : start + 16], 16) for start in range(0, len(text), 16))


def _count(value: Any) -> int:
    _check_counts([value])
    return int(value)


def write_assets(assets: Mapping[str, Any], staging: Path, generation: int) -> dict[str, AssetInfo]:
    """Write assets to a staging directory; return their entries for the manifest.

    Args:
        assets: mapping from name to text, bytes, or the path of a file.
        staging: staging directory.
        generation: generation of an append; 0 for a new dataset.

    Raises:
        DatasetNotFoundError: a file cannot be read.
    """
    infos = {}
    for name, content in assets.items():
        info = AssetInfo("", generation)
        path = staging / info.relative(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, _contents(name, content))
        infos[name] = attrs.evolve(info, sha256=sha256(path))
    return infos


def _contents(name: str, content: Any) -> bytes:
    if isinstance(content, (bytes, str)):
        return content.encode() if isinstance(content, str) else content
    try:
        return local_path(content).read_bytes()
    except OSError as error:
        raise DatasetNotFoundError(f"asset {name!r}: cannot read {content}: {error.strerror}", path=content) from error


def check_metadata(value: Any) -> None:
    """Raise `OptionError` for metadata that JSON would not preserve."""
    try:
        # This also raises an error for text that UTF-8 cannot encode, and for NaN, which is not valid JSON.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"metadata: expected JSON data, got {error}") from error
    try:
        _check_tree(value)
    except ValueError as error:
        raise OptionError(str(error)) from None
