"""A `Bucket` for records whose lengths are known: which batches, and how many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.reading.batching.bucket_by_length import bucket_batches
from seqrecorder.reading.batching.bucket_sorted import sorted_batches
from seqrecorder.reading.batching.by_length import PLANNED_RECORDS, LengthPlan
from seqrecorder.reading.batching.window_plan import in_turns

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SORTED_BATCHES = 64  # a window; smaller ones pad more


@attrs.frozen(kw_only=True)
class BucketPlan(LengthPlan):
    """A `Bucket` for records whose lengths are known.

    Attributes:
        sizes: records to a batch, for each bucket.
        by_length: whether windows are sorted by length, instead of put into buckets.
    """

    sizes: tuple[int, ...]
    by_length: bool

    @property
    def window(self) -> int:
        """How many records are planned at a time."""
        return self.sizes[0] * _SORTED_BATCHES if self.by_length else PLANNED_RECORDS

    @property
    def least_window(self) -> int:
        """How many records are planned at a time at least, however large they are.

        What incomplete batches hold, half of their rows on average, is copied from window to window.
        """
        return max(1, sum(self.sizes) // 2)

    @property
    def in_buckets(self) -> bool:
        """Whether batches are of one bucket each. Then `apply` permutes the rows of windows of shuffled records."""
        return not self.by_length

    def rows(self, lengths: NDArray[np.int64] | None) -> int:  # noqa: ARG002 - as every plan has it
        """Return the most records of a batch."""
        return max(self.sizes)

    def turns(self, windows: Any, number: Any) -> Any:
        """Return the windows of an epoch, as `apply` takes them."""
        if self.by_length:
            windows = windows.rebatch(self.window)  # windows end at every file, and may be as small as `shuffle`
        return in_turns(windows, 0 if number is None else number)

    def apply(self, turns: Any, *, shuffled: bool) -> Any:
        """Return a `tf.data.Dataset` of `PlannedBatch`."""
        if self.by_length:
            return sorted_batches(turns, self.sizes[0], drop_remainder=self.drop_remainder, at_random=shuffled)
        return bucket_batches(turns, self.boundaries, self.sizes, drop_remainder=self.drop_remainder, permute=shuffled)

    def batches(self, lengths: NDArray[np.int64]) -> int:
        """Return how many batches an epoch of records of these lengths has."""
        counts = np.bincount(self._buckets(lengths), minlength=len(self.sizes))
        sizes = np.asarray(self.sizes)
        return int((counts // sizes if self.drop_remainder else -(-counts // sizes)).sum())

    def largest(self, lengths: NDArray[np.int64]) -> tuple[int, int]:
        """Return the rows of the largest batch that records of these lengths can make, and its longest record."""
        sizes = np.asarray(self.sizes)[self._buckets(lengths)]
        largest = int((lengths * sizes).argmax())
        return int(sizes[largest]), max(1, int(lengths[largest]))

    def _buckets(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(np.asarray(self.boundaries, np.int64), lengths, side="right")
