"""A `Bucket` for records whose lengths are known: which batches, and how many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.reading.batching.bucket_by_length import bucket_batches
from seqrecorder.reading.batching.bucket_sorted import sorted_batches
from seqrecorder.reading.batching.by_length import PLANNED_RECORDS, LengthPlan
from seqrecorder.reading.batching.window_plan import in_turns
from seqrecorder.reading.record_stream import shuffle_window
from seqrecorder.reading.tfdata_ops import rebatched

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.reading.length_counts import LengthCounts
    from seqrecorder.reading.strategy import Feed

_SORTED_BATCHES = 64
"""Batches to a window that is sorted by length, at least; more where more records are shuffled at a time."""


def sorted_window(feed: Feed, batch_size: int) -> int:
    """Return how many records of a feed are sorted by length at a time."""
    return shuffle_window(feed.origin, max(batch_size * _SORTED_BATCHES, feed.options.shuffle))


@attrs.frozen(kw_only=True)
class BucketPlan(LengthPlan):
    """A `Bucket` for records whose lengths are known.

    Attributes:
        sizes: records to a batch, for each bucket.
        sorted_window: records that are sorted by length at a time, within their buckets; 0 for none.
    """

    sizes: tuple[int, ...]
    sorted_window: int

    @property
    def window(self) -> int:
        """How many records are planned at a time."""
        return self.sorted_window or PLANNED_RECORDS

    @property
    def least_window(self) -> int:
        """How many records are planned at a time at least, however large they are.

        What incomplete batches hold, half of their rows on average, is copied from window to window.
        """
        return max(1, sum(self.sizes) // 2)

    @property
    def in_buckets(self) -> bool:
        """Whether batches are of one bucket each. Then `apply` permutes the rows of windows of shuffled records."""
        return True

    def rows(self, lengths: LengthCounts | None) -> int:  # noqa: ARG002 - as every plan has it
        """Return the most records of a batch."""
        return max(self.sizes)

    def turns(self, windows: Any, number: Any) -> Any:
        """Return the windows of an epoch, as `apply` takes them."""
        if self.sorted_window:
            windows = rebatched(
                windows, self.sorted_window
            )  # windows end at every file, and may be as small as `shuffle`
        return in_turns(windows, number)

    def apply(self, turns: Any, *, shuffle: int) -> Any:
        """Return a `tf.data.Dataset` of `PlannedBatch`."""
        if self.sorted_window:
            return sorted_batches(
                turns,
                self.sizes[0],
                self.boundaries,
                drop_remainder=self.drop_remainder,
                permute=shuffle > 1,
                at_random=shuffle > 0,
            )
        return bucket_batches(
            turns, self.boundaries, self.sizes, drop_remainder=self.drop_remainder, permute=shuffle > 1
        )

    def batches(self, lengths: LengthCounts) -> int:
        """Return how many batches an epoch of records of these lengths has."""
        counts = np.zeros(len(self.sizes), np.int64)
        np.add.at(counts, self._buckets(lengths.values), lengths.counts)
        sizes = np.asarray(self.sizes)
        return int((counts // sizes if self.drop_remainder else -(-counts // sizes)).sum())

    def largest(self, lengths: LengthCounts) -> tuple[int, int]:
        """Return the rows of the largest batch that records of these lengths can make, and its longest record."""
        sizes = np.asarray(self.sizes)[self._buckets(lengths.values)]
        largest = int((lengths.values * sizes).argmax())
        return int(sizes[largest]), max(1, int(lengths.values[largest]))

    def _buckets(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(np.asarray(self.boundaries, np.int64), lengths, side="right")
