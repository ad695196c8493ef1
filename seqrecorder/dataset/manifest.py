"""The manifest: what a finished dataset contains.

`manifest.json` is written last, so a directory with one is a complete dataset. It holds no time and no path, so equal
data give equal manifests. It is data of unknown origin when read: every name is checked, nothing is evaluated.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.dataset.lengths_picture import lengths_picture
from seqrecorder.dataset.manifest_text import manifest_text
from seqrecorder.dataset.share_report import Shares, shares_of
from seqrecorder.dataset.split_shares import Splitting, missed_shares, splitting_of
from seqrecorder.dataset.user_metadata import DEEPEST, is_too_deep
from seqrecorder.errors import DatasetNotFoundError, ManifestError, OptionError, did_you_mean
from seqrecorder.schema.display import bytes_text, cut, html_table, number_of, some
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.names import ASSETS, MANIFEST, check_names, inside, is_special, lengths_name
from seqrecorder.storage.object_cache import Wanted, cached, fetch_cached, origin_of
from seqrecorder.storage.paths import local_path
from seqrecorder.storage.place import Place, is_url
from seqrecorder.storage.shard import read_lengths
from seqrecorder.storage.tfrecord.format import check_compression

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.storage.tfrecord.format import Compression

FORMAT = "seqrecorder"
FORMAT_VERSION = 1
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # in an escape, where UTF-8 has none
_DIGEST = re.compile("[0-9a-f]{64}")


@attrs.frozen
class ShardInfo:
    """One shard of a split.

    Attributes:
        name: file name inside the split's directory.
        records: number of records.
        steps: sum of the records' lengths in the first alignment group.
        bytes: size of the file.
        sha256: of the file, in hex.
        lengths_sha256: of the lengths file beside it, in hex.
        histogram: `(largest length, records)` of each bin of lengths, ascending.
        start: position in the split of the shard's first record, in written order.
        step: distance in positions between two records of the shard.
    """

    name: str
    records: int
    steps: int
    bytes: int
    sha256: str = attrs.field(repr=False)
    lengths_sha256: str = attrs.field(repr=False)
    histogram: tuple[tuple[int, int], ...] = attrs.field(repr=False)
    start: int = attrs.field(repr=False)
    step: int = attrs.field(repr=False)

    @property
    def lengths_name(self) -> str:
        """File name of the lengths, inside the split's directory."""
        return lengths_name(self.name)

    def files(self, split: str) -> list[Wanted]:
        """Return the shard and its lengths, as files of the dataset."""
        lengths = Wanted(f"{split}/{self.lengths_name}", self.lengths_sha256)
        return [Wanted(f"{split}/{self.name}", self.sha256, self.bytes), lengths]


@attrs.frozen(repr=False)
class SplitInfo:
    """One split.

    Attributes:
        name: name of the split, and of its directory.
        shards: in order.
    """

    name: str
    shards: tuple[ShardInfo, ...]

    def __repr__(self) -> str:
        counts = f"records={self.records}, steps={self.steps}, bytes={self.bytes}, shards={len(self.shards)}"
        return f"SplitInfo(name={self.name!r}, {counts})"

    @property
    def records(self) -> int:
        """Number of records."""
        return sum(shard.records for shard in self.shards)

    @property
    def steps(self) -> int:
        """Sum of the records' lengths in the first alignment group."""
        return sum(shard.steps for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Size of all shards."""
        return sum(shard.bytes for shard in self.shards)


@attrs.frozen
class AssetInfo:
    """One of the user's own files.

    Attributes:
        sha256: of the file, in hex.
        generation: which brought it: in place, a file never changes, so a later one has a directory of its own.
    """

    sha256: str
    generation: int = 0

    def relative(self, name: str) -> str:
        """Return the path inside the dataset of the asset of that name."""
        return f"{ASSETS}/g{self.generation:04d}/{name}" if self.generation else f"{ASSETS}/{name}"


@attrs.frozen(slots=False, repr=False)
class Manifest:
    """What a finished dataset contains.

    >>> import seqrecorder as sr  # doctest: +SKIP
    >>> sr.info("corpus/").splits["train"].records  # doctest: +SKIP
    8000

    Attributes:
        path: the dataset's directory; of a URL, that in the cache, with the files that were asked for.
        schema: the stored fields.
        splits: by name, in the order in which they were declared.
        compression: of the shards: None or `GZIP`.
        generation: 0 when first written, one more for each append or overwrite.
        skipped: source records that were left out, by a hook or because their key came before.
        splitting: how records found their splits.
        metadata: the user's own, any JSON.
        asset_infos: the user's own files, by name.
        url: where the dataset is, whose files are fetched from there; None where `path` holds it.
    """

    path: Path
    schema: Schema
    splits: Mapping[str, SplitInfo]
    compression: Compression = None
    generation: int = 0
    skipped: int = 0
    splitting: Splitting = attrs.field(factory=Splitting)
    metadata: Any = None
    asset_infos: Mapping[str, AssetInfo] = attrs.field(factory=dict)
    url: str | None = None

    def __repr__(self) -> str:
        splits = some([f"{cut(name, 30)} {split.records:,}" for name, split in self.splits.items()])
        facts = f"{number_of(self.records, 'record')} ({splits}), {bytes_text(self.bytes)}"
        return f"<Manifest of {cut(self.schema.name, 40)} in {cut(self.where, 120)!r}: {facts}>"

    @property
    def where(self) -> str:
        """What users call the dataset: its URL, or its directory."""
        return self.url or str(self.path)

    def _histograms(self) -> dict[str, list[tuple[int, int]]]:
        return {
            name: [pair for shard in split.shards for pair in shard.histogram] for name, split in self.splits.items()
        }

    def _repr_html_(self) -> str:
        rows = [
            (name, f"{s.records:,}", f"{s.steps:,}", bytes_text(s.bytes), len(s.shards))
            for name, s in self.splits.items()
        ]
        heads = ("split", "records", "steps", "size", "shards")
        return html_table(repr(self)[1:-1], heads, rows) + lengths_picture(self._histograms())

    @property
    def records(self) -> int:
        """Number of records in all splits."""
        return sum(split.records for split in self.splits.values())

    @property
    def steps(self) -> int:
        """Steps in all splits."""
        return sum(split.steps for split in self.splits.values())

    @property
    def bytes(self) -> int:
        """Size of the shards of all splits."""
        return sum(split.bytes for split in self.splits.values())

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the schema."""
        return self.schema.fingerprint

    @property
    def assets(self) -> dict[str, Path]:
        """The path of each of the user's own files, by name; `read_text()` or `read_bytes()` gives its contents."""
        self.fetch_files([Wanted(info.relative(name), info.sha256) for name, info in self.asset_infos.items()])
        return {name: inside(self.path, info.relative(name)) for name, info in self.asset_infos.items()}

    @property
    def asset_digests(self) -> dict[str, str]:
        """SHA-256 of each of the user's own files, by name."""
        return {name: info.sha256 for name, info in self.asset_infos.items()}

    def split(self, name: str | None) -> SplitInfo:
        """Return the split of that name, or the only one for None.

        Raises:
            OptionError: no name was given and there are several splits.
            DatasetNotFoundError: there is no split of that name.
        """
        names = list(self.splits)
        if name is None:
            if len(names) == 1:
                return self.splits[names[0]]
            raise OptionError(f"{self.where} has several splits: name one of {', '.join(names)}")
        if not isinstance(name, str):
            raise OptionError(
                f"split: expected the name of one, got {name!r}; read each, and join what comes: "
                "`dataset.concatenate(other)`, `itertools.chain(records, others)`"
            )
        if name not in self.splits:
            raise DatasetNotFoundError(
                f"{self.where} has no split {name!r}{did_you_mean(name, names)}; it has {', '.join(names)}",
                path=self.path,
            )
        return self.splits[name]

    def shard_path(self, split: str, shard: ShardInfo) -> Path:
        """Return the path of a shard."""
        return inside(self.path, f"{split}/{shard.name}")

    def fetch(self, shards: Iterable[tuple[str, ShardInfo]], *, lengths_only: bool = False) -> None:
        """Have shards in the cache, and their lengths; nothing is done for a dataset on this disk.

        Args:
            shards: with the names of their splits.
            lengths_only: whether the shards themselves are not needed.

        Raises:
            ShardReadError: one cannot be fetched, or is not as it was written.
            ShardWriteError: there is no room.
        """
        if self.url is not None:
            self.fetch_files([file for split, shard in shards for file in shard.files(split)[lengths_only:]])

    def fetch_files(self, files: Sequence[Wanted]) -> None:
        """Have files in the cache; raises what `fetch` does."""
        if self.url is not None:
            fetch_cached(Place.of(self.url), self.path, files)

    def lengths(self, split: str, shard: ShardInfo) -> NDArray[np.int64]:
        """Return the lengths of a shard's records, int64 of shape (records, groups), from its lengths file.

        Raises:
            ShardReadError: the file is missing, or not what was written.
        """
        path = inside(self.path, f"{split}/{shard.lengths_name}")
        if self.url is not None and not path.exists():  # whoever asks for one asks for the others next
            self.fetch([(split, each) for each in self.splits[split].shards], lengths_only=True)
        return read_lengths(path, max(1, len(self.schema.groups)), shard.records, shard.lengths_sha256)

    @property
    def missed_shares(self) -> dict[str, tuple[float, float]]:
        """Splits that groups have kept far from their shares: the share asked for, and that of the records."""
        if self.splitting.shares is None or self.splitting.by is None:
            return {}
        return missed_shares(self.splitting.shares, {name: split.records for name, split in self.splits.items()})

    @property
    def shares(self) -> Shares | None:
        """How near splits by shares came to these, in each stratum too; None where splits have no shares.

        Strata count the records that were written, before hooks left any out or made several of one.
        """
        wanted, strata = self.splitting.shares, self.splitting.strata or {}
        if wanted is None:
            return None
        counts = [self.splits[name].records if name in self.splits else 0 for name in wanted]
        each = {part.name: shares_of(wanted, part.counts) for part in strata.values()}
        return Shares(dict(wanted), shares_of(wanted, counts), each)

    def to_json(self) -> str:
        """Return the text of `manifest.json`."""
        data = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "schema": self.schema.to_dict(),
            "fingerprint": self.schema.fingerprint,
            "groups": list(self.schema.groups),
            "compression": self.compression,
            "generation": self.generation,
            "skipped": self.skipped,
            "splitting": self.splitting.to_dict(),
            "metadata": self.metadata,
            "assets": {name: attrs.asdict(info) for name, info in self.asset_infos.items()},
        }
        return manifest_text(data, self.splits)


def read_manifest(directory: str | os.PathLike[str]) -> Manifest:
    """Return the manifest of a dataset.

    Raises:
        DatasetNotFoundError: there is no dataset.
        ManifestError: the manifest is damaged, or of a newer format.
    """
    path = dataset_at(directory) if is_url(directory) else local_path(directory)
    return parse_manifest(read_text(path), path)


def dataset_at(given: Any) -> Path:
    """Return the directory of a dataset that is named by itself, by its manifest, or by a URL: then that in the cache.

    Raises:
        DatasetNotFoundError: there is no dataset at the URL.
        DatasetError: the place cannot be asked.
        OptionError: it is no path.
    """
    if not is_url(given):
        path = local_path(given)
        return path.parent if path.name == MANIFEST and not path.is_dir() else path
    place = Place.of(given)
    text = place.read(MANIFEST)
    if text is None:
        raise DatasetNotFoundError(f"there is no dataset at {place.url}: it has no {MANIFEST}", path=place.url)
    return cached(place, text)


def read_text(path: Path) -> str:
    """Return the text of the manifest of a dataset; raises what `read_manifest` does where there is none."""
    file = path / MANIFEST
    if is_special(file):
        raise ManifestError(f"{file}: expected a file, got a pipe or a device", path=file)
    try:
        return file.read_bytes().decode()  # as it is, without other line ends
    except (FileNotFoundError, NotADirectoryError):
        if path.is_dir():
            why = f"{path} is a directory without {MANIFEST}, so not a finished dataset; for bare shards pass "
            why += "their paths (or a glob) and `schema=`"
        else:
            why = f"there is no dataset at {path}"
        raise DatasetNotFoundError(why, path=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{file}: cannot be read: {error}", path=file) from error


def parse_manifest(text: str, path: Path) -> Manifest:
    """Return the manifest of a dataset at `path` from the text of its file.

    Raises:
        ManifestError: the text is damaged, or of a newer format.
    """
    file = path / MANIFEST
    try:
        with _uncollected():
            return _manifest(text, path)
    except ManifestError as error:
        raise ManifestError(f"{file}: {error}", path=file) from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ManifestError(f"{file}: damaged, or not a manifest: {error!r:.1000}", path=file) from None


def _manifest(text: str, path: Path) -> Manifest:
    data = json.loads(text, parse_constant=_refuse_constant)
    if _SURROGATE.search(text):
        json.dumps(data, ensure_ascii=False).encode()
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError("not a manifest of seqrecorder")
    version = data["format_version"]
    if version != FORMAT_VERSION:
        raise ValueError(f"format version {version!r}, where this release reads {FORMAT_VERSION}; update seqrecorder")
    schema = Schema.from_dict(data["schema"])
    if data["fingerprint"] != schema.fingerprint:
        raise ValueError("the schema does not have the fingerprint that stands beside it")
    check_names(data["splits"], "split")
    check_names(data["assets"], "asset")
    return Manifest(
        path=path,
        schema=schema,
        splits={name: _split(name, split) for name, split in data["splits"].items()},
        compression=check_compression(data["compression"]),
        generation=_count(data["generation"]),
        skipped=_count(data["skipped"]),
        splitting=splitting_of(data["splitting"], _count),
        metadata=_metadata(data["metadata"]),
        asset_infos={
            name: AssetInfo(_digest(info["sha256"]), _count(info["generation"]))
            for name, info in data["assets"].items()
        },
        url=origin_of(path),
    )


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from going through millions of values, none of which is garbage, while they come."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _metadata(value: Any) -> Any:
    if is_too_deep(value):
        raise ValueError(f"metadata of more than {DEEPEST} levels")
    return value


def _split(name: str, data: Mapping[str, Any]) -> SplitInfo:
    shards = tuple(map(_shard, data["shards"]))
    check_names([shard.name for shard in shards], "shard")
    return SplitInfo(name, shards)


def _shard(data: Mapping[str, Any]) -> ShardInfo:
    lengths_name(data["name"])  # which raises where it is not a shard's
    return ShardInfo(
        name=data["name"],
        records=_count(data["records"]),
        steps=_count(data["steps"]),
        bytes=_count(data["bytes"]),
        sha256=_digest(data["sha256"]),
        lengths_sha256=_digest(data["lengths_sha256"]),
        histogram=_bins(data["histogram"]),
        start=_count(data["start"]),
        step=max(1, _count(data["step"])),
    )


def _bins(pairs: Any) -> tuple[tuple[int, int], ...]:
    bins = tuple(map(tuple, pairs))
    flat = list(itertools.chain.from_iterable(bins))
    # Looked at all at once: of a hundred thousand shards they are millions.
    if (
        set(map(len, bins)) - {2}
        or set(map(type, flat)) - {int}
        or min(flat, default=0) < 0
        or max(flat, default=0) >> 63
    ):
        raise ValueError(f"expected a histogram, pairs of counts, got {pairs!r:.100}")
    return bins


def _digest(value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError(f"expected a SHA-256 in hex, got {value!r}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ValueError(f"expected a count, got {value!r}")
    return value


def combined(old: Manifest, new: Manifest) -> Manifest:
    """Return the manifest of a dataset with the shards of both generations."""
    splits = {name: SplitInfo(name, split.shards) for name, split in old.splits.items()}
    for name, split in new.splits.items():
        earlier = splits[name].shards if name in splits else ()
        splits[name] = SplitInfo(name, earlier + split.shards)
    return attrs.evolve(
        new,
        splits=splits,
        skipped=old.skipped + new.skipped,
        metadata=old.metadata if new.metadata is None else new.metadata,
        asset_infos={**old.asset_infos, **new.asset_infos},
    )
