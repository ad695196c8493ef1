"""Where the records of a dataset go while it is written: those with a known key out, the others to their splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.errors import OptionError
from seqrecorder.storage.names import check_names
from seqrecorder.storage.shard import OpenShards
from seqrecorder.writing.encoder import check_columns
from seqrecorder.writing.split_writer import SplitWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from seqrecorder.dataset.manifest import SplitInfo
    from seqrecorder.schema.schema import Schema
    from seqrecorder.writing.early_uploads import EarlyUploads
    from seqrecorder.writing.encoder import Block, Sources
    from seqrecorder.writing.options import ShardOptions
    from seqrecorder.writing.split_assignment import Router
    from seqrecorder.writing.unique_keys import UniqueKeys


class Placement:
    """Sends records to the files of their splits.

    Sources are given their splits before they are encoded, which the blocks that they become are placed by.

    Args:
        schema: what the records are.
        router: gives records their splits.
        keys: finds records whose key came before.
        options: how records become shards.
        directory: of the dataset that is being made.
        old: the splits of the dataset that is appended to.
        uploads: takes shards that are full; None for a directory.

    Attributes:
        skipped: how many sources were left out, here or by a hook.
    """

    def __init__(
        self,
        schema: Schema,
        router: Router,
        keys: UniqueKeys,
        *,
        options: ShardOptions,
        directory: Path,
        old: Mapping[str, SplitInfo],
        uploads: EarlyUploads | None = None,
    ) -> None:
        self._schema, self._router, self._keys, self._options = schema, router, keys, options
        self._directory, self._old, self._uploads = directory, old, uploads
        self.skipped = 0
        self._writers: dict[str, SplitWriter] = {}
        self._open_shards = OpenShards()
        self._columns: list[str] | None = None
        self._is_abandoned = False

    def opened(self) -> Placement:
        """Return this, while its files are open.

        Raises:
            OptionError: they were closed.
        """
        if self._is_abandoned:
            raise OptionError("this Writer was closed, since the interpreter ends: nothing is published")
        return self

    def open(self, name: str) -> SplitWriter:
        """Return the writer of a split, which is there even without a record from now on."""
        if name not in self._writers:
            start = self._old[name].records if name in self._old else 0
            check_names(dict.fromkeys([*self._old, *self._writers, name]), "split")
            self._writers[name] = SplitWriter(
                name,
                self._directory / name,
                self._options,
                self._directory,
                start,
                open_shards=self._open_shards,
                uploads=self._uploads,
            )
        return self._writers[name]

    @property
    def is_empty(self) -> bool:
        """Whether there is no split yet."""
        return not self._writers

    def check_given(self, split: str | None) -> None:
        """Raise `OptionError` for a split that was given with a record and cannot be."""
        if split is not None and (self._router.is_in_time or split not in self._writers):
            self._router.check_given(split)

    def keep(self, sources: Sources) -> list[int] | None:
        """Return the indices of the records whose keys are new, and whose times are of one split, or None for all.

        Raises:
            DuplicateKeyError: a key came before, and that is an error.
            RecordError: a record has no time.
        """
        kept = self._keys.keep(sources)
        in_time = self._router.keep(sources if kept is None else sources.only(kept))
        if in_time is not None:
            kept = in_time if kept is None else [kept[place] for place in in_time]
        if kept is not None:
            self.skipped += len(sources.records) - len(kept)
        return kept

    def route(self, sources: Sources, given: Sequence[str | None]) -> Sources:
        """Return records with their splits.

        Args:
            sources: records that are not encoded yet, one at least.
            given: the split that each was given, if any.

        Raises:
            RecordError: a record does not say its split.
        """
        names = self._router.assign(sources, given)
        for name in [names] if isinstance(names, str) else dict.fromkeys(names):
            self.open(name)
        numbers = {name: number for number, name in enumerate(self._writers)}
        if isinstance(names, str):
            splits = np.full(len(given), numbers[names], np.int64)
        else:
            splits = np.fromiter(map(numbers.__getitem__, names), np.int64, len(names))
        return attrs.evolve(sources, splits=splits)

    def place(self, block: Block) -> None:
        """Write the records of a block into the files of their splits.

        Raises:
            ShardWriteError: the disk is full, or failed.
            RecordError: lines of the CSV have different columns.
        """
        self.skipped += len(block.skipped)
        if not block.data:
            return
        if block.columns is not None:
            self._columns = self._columns or block.columns
            check_columns(self._schema.name, self._columns, block.columns, int(block.sources[0]))
        writers = list(self._writers.values())
        if len(writers) == 1:
            writers[0].add(block.data, block.lengths, block.columns, block.rows)
            return
        for number in np.unique(block.splits).tolist():
            where = np.flatnonzero(block.splits == number)
            part = block if where.size == len(block.data) else block.only(where.tolist())
            writers[number].add(part.data, part.lengths, part.columns, part.rows)

    def finish(self) -> dict[str, SplitInfo]:
        """Close all files and return what the splits contain.

        Raises:
            ShardWriteError: the disk is full, or failed.
        """
        return {name: writer.finish() for name, writer in self._writers.items()}

    def abandon(self) -> None:
        """Close all files without caring for their contents."""
        self._is_abandoned = True
        for writer in self._writers.values():
            writer.abandon()
