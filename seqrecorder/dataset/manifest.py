"""The manifest: what a finished dataset contains.

`manifest.json` is written last, so a directory with one is a complete dataset. It holds no time and no path, so equal
data give equal manifests. It is data of unknown origin when read: every name is checked, nothing is evaluated.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.dataset.lengths_picture import lengths_picture
from seqrecorder.dataset.shard_info import COLUMNS, ShardTable, bins_of, column
from seqrecorder.dataset.shard_info import ShardInfo as ShardInfo  # noqa: PLC0414 - one of the manifest's words
from seqrecorder.dataset.split_shares import Shares, missed_shares, shares_of
from seqrecorder.errors import DatasetNotFoundError, OptionError, did_you_mean
from seqrecorder.schema.display import bytes_text, cut, html_table, number_of, some
from seqrecorder.storage.names import ASSETS, inside
from seqrecorder.storage.object_cache import Wanted, fetch_cached
from seqrecorder.storage.paths import is_same_directory
from seqrecorder.storage.place import Place
from seqrecorder.storage.shard import read_lengths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.dataset.strata import Stratum
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


BY_FUNCTION = "()"
"""What `Splitting.by` says of a function, which a manifest cannot hold; no attribute has such a name."""


@attrs.frozen
class Splitting:
    """How records found their splits, so that an append continues in the same way.

    Attributes:
        seed: of the hash.
        shares: share of each split; None where splits were named record by record.
        by: name of the attribute that was hashed, as `split_by` gave it, or `BY_FUNCTION`; None for the key field, or
            the position where there is none.
        sources: how many source records were seen, which is the next one's position.
        groups: for each split, the hashes of its groups, where `Balanced` dealt them or strata were; else None.
        stratify: what strata go by, named like `by`; None without any.
        strata: by the hash of its value, how many of a stratum each split has.
        time: `TimeRule.to_dict` of splits in time; None of others.
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
        """Return what JSON holds; there, groups have 16 hexadecimal digits each."""
        names = ["seed", "shares", "by", "sources"]
        names += [name for name in ("stratify", "time") if getattr(self, name) is not None]
        data: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.shares is not None:
            data["shares"] = dict(self.shares)
        if self.strata is not None:
            data["strata"] = [[f"{value:016x}", part.name, part.counts] for value, part in self.strata.items()]
        if self.groups is not None:
            hashes = {name: map("{:016x}".format, members) for name, members in self.groups.items()}
            data["groups"] = {name: "".join(members) for name, members in hashes.items()}
        return data


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

    def is_at(self, destination: Path | Place) -> bool:
        """Whether the dataset's place is a directory, or that of a URL."""
        if isinstance(destination, Place):
            return self.url is not None and destination.is_same(Place.of(self.url))
        return self.url is None and is_same_directory(self.path, destination)

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


# Its text -------------------------------------------------------------------------------------------------------------

_SEAL = ',\n "checksum": "'

MOST_ROWS = 1000
"""Shards of a split that are objects of JSON, one each, which are easily looked at; more are a table, easily read."""


def manifest_text(data: Mapping[str, Any], splits: Mapping[str, Any]) -> str:
    """Return the text of a manifest.

    Args:
        data: what stands in it before the splits.
        splits: `SplitInfo` by name.
    """
    parts = [
        f'\n  {json.dumps(name, ensure_ascii=False)}: {{\n   "shards": {_shards_text(split.shards)}\n  }}'
        for name, split in splits.items()
    ]
    text = json.dumps(data, indent=1, ensure_ascii=False).removesuffix("\n}")
    end = "\n " if parts else ""
    return _sealed(f'{text},\n "splits": {{{",".join(parts)}{end}}}\n}}')


def is_as_written(text: str) -> bool:
    """Return whether the text of a manifest has the checksum that stands in it, so that nobody changed it since.

    Reading does not ask for that: a manifest that somebody edited with care is still one.
    """
    unsealed, _, _ = text.rpartition(_SEAL)
    return text == _sealed(f"{unsealed}\n}}")


def _shards_text(shards: Any) -> str:
    """Return the shards of a split as JSON, a line each; many as a table, a column a line."""
    if len(shards) <= MOST_ROWS:
        rows = ({name: getattr(shard, name) for name in COLUMNS} for shard in shards)
        lines = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in rows)
        return f"[\n{lines}\n   ]" if lines else "[]"
    columns = ShardTable.of(shards).to_dict()
    lines = ",\n".join(f'    "{name}": {json.dumps(values, ensure_ascii=False)}' for name, values in columns.items())
    return f"{{\n{lines}\n   }}"


def _sealed(text: str) -> str:
    """Return the text of a mapping with the checksum of that text as its last item."""
    checksum = hashlib.sha256(f"{text}\n".encode()).hexdigest()
    unfinished = text.removesuffix("\n}")
    return f'{unfinished}{_SEAL}{checksum}"\n}}\n'
