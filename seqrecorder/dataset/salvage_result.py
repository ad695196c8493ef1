"""What a salvage tells: what it recovered, and what was lost."""

from __future__ import annotations

import attrs

from seqrecorder.schema.display import cut, html_table, number_of
from seqrecorder.storage.tfrecord import UNKNOWN, Loss


@attrs.frozen
class SalvagedShard:
    """What came out of one shard.

    Attributes:
        path: of the damaged shard, relative to the dataset, or as it was given.
        records: how many records were recovered.
        expected: how many there should be by the manifest; -1 where nothing says so.
        losses: the ranges of bytes that held no whole record, in order; empty where nothing was lost.
    """

    path: str
    records: int
    expected: int
    losses: tuple[Loss, ...]

    @property
    def lost(self) -> int:
        """How many records were lost; -1 where that is not known."""
        if self.expected != UNKNOWN:
            return max(0, self.expected - self.records)
        counts = [loss.records for loss in self.losses]
        return UNKNOWN if UNKNOWN in counts else sum(counts)


@attrs.frozen(repr=False)
class Salvage:
    """What a salvage recovered, and what it lost.

    Attributes:
        path: what was damaged.
        destination: where the recovered records are.
        shards: each shard, with what was lost of it.
        problems: what else could not be recovered, a line each.
    """

    path: str
    destination: str
    shards: tuple[SalvagedShard, ...]
    problems: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lost = "an unknown number" if self.lost == UNKNOWN else f"{self.lost:,}"
        facts = f"{number_of(self.records, 'record')} recovered, {lost} lost"
        more = "".join(f"; {number_of(len(self.problems), 'further problem')}" for _ in self.problems[:1])
        return f"<Salvage of {cut(self.path, 100)!r} to {cut(self.destination, 100)!r}: {facts}{more}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [
            (shard.path, shard.records, "?" if shard.lost == UNKNOWN else shard.lost) for shard in self.shards
        ]
        rows += [(problem, "", "") for problem in self.problems]
        return html_table(repr(self)[1:-1], ("shard", "recovered", "lost"), rows)

    @property
    def records(self) -> int:
        """How many records were recovered."""
        return sum(shard.records for shard in self.shards)

    @property
    def lost(self) -> int:
        """How many records were lost; -1 where that is not known."""
        counts = [shard.lost for shard in self.shards]
        return UNKNOWN if UNKNOWN in counts else sum(counts)

    @property
    def lost_bytes(self) -> int:
        """How many bytes, uncompressed, held no whole record."""
        return sum(loss.stop - loss.start for shard in self.shards for loss in shard.losses)

    @property
    def complete(self) -> bool:
        """Whether nothing was lost."""
        return self.lost == 0 and not self.problems and not any(shard.losses for shard in self.shards)
