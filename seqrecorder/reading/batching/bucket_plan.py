"""A `Bucket` for records whose lengths are known: which batches, how wide, and how many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import longest_of
from seqrecorder.reading.batching.bucket_by_length import bucket_batches, collected_batches
from seqrecorder.reading.batching.bucket_by_steps import budget_batches
from seqrecorder.reading.batching.bucket_sorted import sorted_batches
from seqrecorder.reading.batching.window_plan import in_turns
from seqrecorder.reading.tfdata_ops import mapped, rebatched

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WINDOW = 2048
_SORTED_BATCHES = 64  # measured: windows of 64 batches need 91 % padding-free steps, of 16 batches 72 %


@attrs.frozen
class Budget:
    """Batches of at most so many steps.

    Attributes:
        max_steps: as in `Bucket`.
        batch_size_multiple: as in `Bucket`.
        max_batch_size: as in `Bucket`.
        longest: the most steps of a record that fits.
        drop: whether records that do not fit are left out.
    """

    max_steps: int
    batch_size_multiple: int
    max_batch_size: int | None
    longest: int
    drop: bool


@attrs.frozen
class BucketPlan:
    """A `Bucket` for records whose lengths are known.

    Attributes:
        boundaries: of the buckets.
        sizes: records to a batch, for each bucket.
        drop_remainder: as in `Bucket`.
        pad_to_bucket_boundary: as in `Bucket`.
        pad_to_multiple_of: as in `Bucket`.
        by_length: whether windows are sorted by length, instead of put into buckets.
        budget: with `max_steps`, what it is about.
        last: the most steps of a record, None where that is not known.
    """

    boundaries: tuple[int, ...]
    sizes: tuple[int, ...]
    drop_remainder: bool = attrs.field(kw_only=True)
    pad_to_bucket_boundary: bool = attrs.field(kw_only=True)
    pad_to_multiple_of: int = attrs.field(kw_only=True)
    by_length: bool = attrs.field(kw_only=True)
    budget: Budget | None = attrs.field(kw_only=True)
    last: int | None = attrs.field(kw_only=True)

    @property
    def window(self) -> int:
        """How many records are planned at a time."""
        return self.sizes[0] * _SORTED_BATCHES if self.by_length else _WINDOW

    @property
    def least_window(self) -> int:
        """How many records are planned at a time at least, however large they are.

        What incomplete batches hold, half of their rows on average, is copied from window to window.
        """
        return max(1, sum(self.sizes) // 2)

    @property
    def in_buckets(self) -> bool:
        """Whether batches are of one bucket each. Then `apply` permutes the rows of windows, if that is to be done."""
        return self.budget is None and not self.by_length

    def turns(self, windows: Any, number: Any) -> Any:
        """Return the windows of an epoch, as `apply` takes them.

        Args:
            windows: elements `(serialized: string [w], lengths: int64 [w])`.
            number: int64 scalar that stands for the order of the epoch; None where records are not shuffled.
        """
        if not self.in_buckets:
            windows = rebatched(windows, self.window)  # windows end at every file, and may be as small as `shuffle`
        if self.budget is not None and self.budget.drop:
            windows = mapped(windows, self._fitting)
        return in_turns(windows, 0 if number is None else number)

    def apply(self, turns: Any, *, shuffled: bool, permute: bool) -> Any:
        """Return a `tf.data.Dataset` of `PlannedBatch`.

        Args:
            turns: what `turns` made of each epoch, one after the other.
            shuffled: whether records are shuffled.
            permute: whether the rows of windows are still to be permuted, if this plan does that.
        """
        budget = self.budget
        if budget is not None:
            return budget_batches(
                turns,
                budget.max_steps,
                boundaries=self._counted(budget.longest),
                batch_size_multiple=budget.batch_size_multiple,
                max_batch_size=budget.max_batch_size,
                drop_remainder=self.drop_remainder,
                at_random=shuffled,
            )
        if self.by_length:
            return sorted_batches(turns, self.sizes[0], drop_remainder=self.drop_remainder, at_random=shuffled)
        return bucket_batches(turns, self.boundaries, self.sizes, drop_remainder=self.drop_remainder, permute=permute)

    def collect(self, records: Any) -> Any:
        """Return what `apply` makes of windows `in_buckets`, made of single records as they come.

        Args:
            records: a `tf.data.Dataset` of `(serialized: string [], length: int64 [])`.

        Returns:
            A `tf.data.Dataset` of `CollectedBatch`.
        """
        return collected_batches(records, self.boundaries, self.sizes, drop_remainder=self.drop_remainder)

    def _counted(self, longest: int) -> tuple[int, ...]:
        """Return the boundaries up to which the budget counts steps, for they are padded so far."""
        if self.pad_to_bucket_boundary:
            last = () if self.last is None else (self.last + 1,)
            return tuple(b for b in dict.fromkeys((*self.boundaries, *last)) if b - 1 <= longest)
        multiple = self.pad_to_multiple_of
        return () if multiple == 1 else tuple(range(multiple + 1, longest + 2, multiple))

    def _fitting(self, serialized: Any, lengths: Any) -> tuple[Any, Any]:
        import tensorflow as tf

        fits = lengths <= (self.budget.longest if self.budget else tf.int64.max)
        return tf.boolean_mask(serialized, fits), tf.boolean_mask(lengths, fits)

    def width(self, lengths: Any) -> Any:
        """Return how many steps a batch of records of these lengths has, before it is rounded up to a multiple."""
        import tensorflow as tf

        longest = longest_of(lengths)
        if not self.pad_to_bucket_boundary:
            return longest
        bounds = tf.constant(self.boundaries, tf.int64)
        widths = tf.concat([bounds - 1, [self.last or 0]], 0)
        bucket = tf.searchsorted(bounds, longest[tf.newaxis], side="right")[0]
        return tf.maximum(longest, widths[bucket])

    @property
    def widths(self) -> list[int]:
        """What `width` gives, where batches are padded to the boundaries and the most steps of a record are known."""
        if not self.pad_to_bucket_boundary or self.last is None:
            return []
        used = int(self._buckets(np.asarray([self.last]))[0])
        return [max(1, last) for last in (*(b - 1 for b in self.boundaries[: used + 1]), self.last)[: used + 1]]

    def batches(self, lengths: NDArray[np.int64]) -> int:
        """Return how many batches an epoch of records of these lengths has, -1 where that depends on their order."""
        if self.budget is not None:
            return -1
        counts = np.bincount(self._buckets(lengths), minlength=len(self.sizes))
        sizes = np.asarray(self.sizes)
        return int((counts // sizes if self.drop_remainder else -(-counts // sizes)).sum())

    def _buckets(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(np.asarray(self.boundaries, np.int64), lengths, side="right")

    def largest(self, lengths: NDArray[np.int64]) -> tuple[int, int]:
        """Return the rows of the largest batch that records of these lengths can make, and its longest record."""
        budget = self.budget
        if budget is not None:
            distinct = np.maximum(np.unique(lengths), 1)
            widths = -(-distinct // self.pad_to_multiple_of) * self.pad_to_multiple_of
            rows = np.minimum(budget.max_steps // widths, budget.max_batch_size or budget.max_steps)
            rows = rows // budget.batch_size_multiple * budget.batch_size_multiple
            steps = rows * widths
            largest = int(np.flatnonzero(steps == steps.max())[-1])  # of equal ones that of the longest
            return int(rows[largest]), int(distinct[largest])
        sizes = np.asarray(self.sizes)[self._buckets(lengths)]
        largest = int((lengths * sizes).argmax())
        return int(sizes[largest]), max(1, int(lengths[largest]))
