"""The manifest: what a finished dataset contains.

`manifest.json` is written last, so a directory with one is a complete dataset. It holds no time and no path, so equal
data give equal manifests. It is data of unknown origin when read: every name is checked, nothing is evaluated.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.dataset.lengths_picture import lengths_picture
from seqrecorder.dataset.manifest_text import manifest_text
from seqrecorder.dataset.shard_info import ShardInfo as ShardInfo  # noqa: PLC0414 - one of the manifest's words
from seqrecorder.dataset.shard_info import bins_of, column
from seqrecorder.dataset.share_report import Shares, shares_of
from seqrecorder.dataset.split_shares import Splitting, missed_shares
from seqrecorder.errors import DatasetNotFoundError, OptionError, did_you_mean
from seqrecorder.schema.display import bytes_text, cut, html_table, number_of, some
from seqrecorder.storage.names import ASSETS, inside
from seqrecorder.storage.object_cache import Wanted, fetch_cached
from seqrecorder.storage.place import Place
from seqrecorder.storage.shard import read_lengths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.tfrecord.format import Compression

FORMAT = "seqrecorder"
FORMAT_VERSION = 1
DEEPEST = 100
"""Levels of lists and dictionaries in the user's metadata."""


@attrs.frozen(slots=False, repr=False)
class SplitInfo:
    """One split.

    Attributes:
        name: name of the split, and of its directory.
        shards: in order: a tuple, or a table of them that is read where there are thousands.
    """

    name: str
    shards: Sequence[ShardInfo]

    def __repr__(self) -> str:
        counts = f"records={self.records}, steps={self.steps}, bytes={self.bytes}, shards={len(self.shards)}"
        return f"SplitInfo(name={self.name!r}, {counts})"

    @functools.cached_property
    def records(self) -> int:
        """Number of records."""
        return sum(column(self.shards, "records"))

    @functools.cached_property
    def steps(self) -> int:
        """Sum of the records' lengths in the first alignment group."""
        return sum(column(self.shards, "steps"))

    @functools.cached_property
    def bytes(self) -> int:
        """Size of all shards."""
        return sum(column(self.shards, "bytes"))


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
        return {name: bins_of(split.shards) for name, split in self.splits.items()}

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


def combined(old: Manifest, new: Manifest) -> Manifest:
    """Return the manifest of a dataset with the shards of both generations."""
    splits = {name: SplitInfo(name, split.shards) for name, split in old.splits.items()}
    for name, split in new.splits.items():
        earlier = splits[name].shards if name in splits else ()
        splits[name] = SplitInfo(name, (*earlier, *split.shards))
    return attrs.evolve(
        new,
        splits=splits,
        skipped=old.skipped + new.skipped,
        metadata=old.metadata if new.metadata is None else new.metadata,
        asset_infos={**old.asset_infos, **new.asset_infos},
    )


def is_too_deep(value: Any) -> bool:
    """Return whether metadata have more than `DEEPEST` levels, through which not every function can walk."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inner: list[Any] = []
        for item in level:
            inner += item.values() if isinstance(item, dict) else item if isinstance(item, (list, tuple)) else ()
        if not inner:
            return False
        level = inner
    return True
