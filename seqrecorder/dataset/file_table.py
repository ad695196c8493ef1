"""The files of a table of shards, of which objects are made as they are asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import attrs

from seqrecorder.dataset.shard_set import ShardFile
from seqrecorder.storage.names import inside, lengths_name

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.dataset.shard_info import ShardTable


@attrs.frozen(eq=False)
class FileTable(Sequence[ShardFile]):
    """Files of the shards of a split, with the attributes of `ShardFile` as columns.

    Attributes:
        directory: of the split.
        shards: all of the split.
        chosen: which of these.
    """

    directory: Path
    shards: ShardTable = attrs.field(repr=False)
    chosen: slice = slice(None)

    @classmethod
    def of(cls, manifest: Manifest, split: str, shards: ShardTable) -> FileTable:
        """Return the files of a split, none of which is reached by a link that leads out of the dataset.

        Raises:
            ManifestError: one is.
        """
        directory = inside(manifest.path, split)
        if directory.is_dir():
            with os.scandir(directory) as entries:
                odd = [entry.name for entry in entries if not entry.is_file(follow_symlinks=False)]
            known = {*shards.name, *map(lengths_name, shards.name)} if odd else ()
            for name in sorted({*odd}.intersection(known)):
                inside(manifest.path, f"{split}/{name}")
        return cls(directory, shards)

    def __len__(self) -> int:
        return len(self.name)

    @overload
    def __getitem__(self, index: int) -> ShardFile: ...
    @overload
    def __getitem__(self, index: slice) -> FileTable: ...

    def __getitem__(self, index: Any) -> Any:
        places = range(len(self.shards))[self.chosen][index]
        if isinstance(places, range):
            return attrs.evolve(self, chosen=slice(places.start, places.stop, places.step))
        name = self.shards.name[places]
        records, size, start, step = (
            int(column[places])
            for column in (self.shards.records, self.shards.bytes, self.shards.start, self.shards.step)
        )
        return ShardFile(
            self.directory / name,
            self.directory / lengths_name(name),
            records,
            size,
            start,
            step,
            lengths_sha256=str(self.shards.lengths_sha256[places]),
        )

    @property
    def name(self) -> list[str]:
        """Names of the shards, which all end as `shard_name` ends them."""
        return self.shards.name[self.chosen]

    @property
    def path(self) -> list[str]:
        """Paths of the shards."""
        return [f"{self.directory}{os.sep}{name}" for name in self.name]

    @property
    def lengths_path(self) -> list[str]:
        """Paths of their lengths."""
        return list(map(lengths_name, self.path))

    @property
    def records(self) -> NDArray[np.int64]:
        """Numbers of records."""
        return self.shards.records[self.chosen]

    @property
    def bytes(self) -> NDArray[np.int64]:
        """Sizes."""
        return self.shards.bytes[self.chosen]

    @property
    def start(self) -> NDArray[np.int64]:
        """Positions of the first records."""
        return self.shards.start[self.chosen]

    @property
    def step(self) -> NDArray[np.int64]:
        """Distances of two records."""
        return self.shards.step[self.chosen]

    @property
    def runs(self) -> list[None]:
        """None for each: files are read."""
        return [None] * len(self)
