"""A `Bucket` for records whose lengths are known: which batches, and how many.

The batches are those of `bucket_by_sequence_length`, or of windows sorted by length, planned a window at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import count_up_to, index_range, rows_at
from seqrecorder.reading.batching.by_length import PLANNED_RECORDS, LengthPlan
from seqrecorder.reading.batching.window_plan import Turn, drawn, in_turns, order_of, plan_batches, rows_of
from seqrecorder.reading.record_stream import shuffle_window
from seqrecorder.reading.tfdata_ops import rebatched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seqrecorder.reading.record_length import LengthCounts
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
        boundaries: of the buckets.
        pad_to_boundary: whether batches are padded to the largest length of their bucket.
        last: the most steps of a record, None where that is not known.
        sizes: records to a batch, for each bucket.
        sorted_window: records that are sorted by length at a time, within their buckets; 0 for none.
    """

    boundaries: tuple[int, ...]
    pad_to_boundary: bool
    last: int | None
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
            # Windows end at every file, and may be as small as `shuffle`.
            windows = rebatched(windows, self.sorted_window)
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

    def width(self, lengths: Any) -> Any:
        """Return how many steps a batch of records of these lengths has, before it is rounded up to a multiple."""
        import tensorflow as tf

        longest = super().width(lengths)
        if not self.pad_to_boundary:
            return longest
        bounds = tf.constant(self.boundaries, tf.int64)
        widths = tf.concat([bounds - 1, [self.last or 0]], 0)
        bucket = tf.searchsorted(bounds, longest[tf.newaxis], side="right")[0]
        return tf.maximum(longest, widths[bucket])

    @property
    def widths(self) -> Sequence[int]:
        """What `width` gives, where batches are padded to the boundaries and the most steps of a record are known."""
        if not self.pad_to_boundary or self.last is None:
            return ()
        used = int(np.searchsorted(np.asarray(self.boundaries, np.int64), self.last, side="right"))
        return [max(1, last) for last in (*(b - 1 for b in self.boundaries[: used + 1]), self.last)[: used + 1]]

    def _buckets(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(np.asarray(self.boundaries, np.int64), lengths, side="right")


def bucket_batches(
    turns: Any,
    boundaries: Sequence[int],
    batch_sizes: Sequence[int],
    *,
    drop_remainder: bool = False,
    permute: bool = False,
) -> Any:
    """Return the batches of `bucket_by_sequence_length`, in its order, planned a window at a time.

    Whatever the windows, these are exactly the batches that their rows give through `bucket_by_sequence_length`: a
    batch leaves when the last of its records arrives, and at the end of an epoch the incomplete ones follow, shortest
    bucket first.

    >>> import tensorflow as tf
    >>> from seqrecorder.reading.batching.window_plan import in_turns
    >>> lengths = tf.constant([1, 3, 1, 3], tf.int64)
    >>> records = tf.data.Dataset.from_tensor_slices((["a", "bbb", "c", "ddd"], lengths))
    >>> batches = bucket_batches(in_turns(records.batch(3)), boundaries=[2], batch_sizes=[2, 2])
    >>> for batch in batches:
    ...     print(batch.serialized().numpy().tolist(), batch.lengths.numpy().tolist())
    [b'a', b'c'] [1, 1]
    [b'bbb', b'ddd'] [3, 3]

    Args:
        turns: a `tf.data.Dataset` of epochs of windows, as `in_turns` gives them.
        boundaries: ascending; bucket `i` holds `boundaries[i - 1] <= length < boundaries[i]`.
        batch_sizes: rows of a batch, for each of the `len(boundaries) + 1` buckets.
        drop_remainder: leave out the incomplete batches at the end.
        permute: as for `plan_batches`.

    Returns:
        A `tf.data.Dataset` of `PlannedBatch`. It can be saved with `tf.train.Checkpoint(iterator=...)` before any
        batch. The number of rows is static where all batches have one size.
    """
    import tensorflow as tf

    def plan(lengths: Any, turn: Turn) -> Any:
        bucket = count_up_to(tf.constant(boundaries, tf.int64, [len(boundaries)]), lengths)
        rows, bucket = order_of(bucket)  # bucket by bucket, in the order of arrival
        n, first, after = tf.size(rows), count_up_to(bucket, bucket, less=True), count_up_to(bucket, bucket)
        alike = len(set(batch_sizes)) == 1
        size = tf.constant(batch_sizes[0]) if alike else rows_at(tf.constant(batch_sizes), bucket)
        position = index_range(n)
        final = position - (position - first) % size + (size - 1)  # where the last row of the row's batch is
        # A batch leaves when its last record arrives, which is never one of those left over from before; incomplete
        # ones leave after all others.
        leaves = tf.where(final < after, rows_at(rows, tf.minimum(final, n - 1)), n + bucket)
        order, leaves = order_of(leaves)
        batch, _, rows_of_batch = tf.raw_ops.UniqueWithCounts(x=leaves)
        go = batch < n if drop_remainder else turn.last | (batch < n)
        return rows_at(rows, order), tf.where(go, rows_of_batch, 0)

    static = batch_sizes[0] if drop_remainder and len(set(batch_sizes)) == 1 else None
    key = ("bucket", tuple(boundaries), tuple(batch_sizes), drop_remainder)
    return plan_batches(turns, plan, key, batch_size=static, permute=permute)


def sorted_batches(
    turns: Any,
    batch_size: int,
    boundaries: Sequence[int] = (),
    *,
    drop_remainder: bool = False,
    permute: bool = False,
    at_random: bool = False,
) -> Any:
    """Return batches of rows of similar length: the rows of a window are sorted by length, and cut bucket by bucket.

    The longest rows of each bucket, as many as do not fill a batch, wait for the next window, and at the end of the
    epoch they are the incomplete batch of their bucket. So there are as many batches as buckets give, and none needs
    more padding than there, since no batch holds rows of two buckets.

    >>> import tensorflow as tf
    >>> from seqrecorder.reading.batching.window_plan import in_turns
    >>> lengths = tf.constant([4, 1, 3, 2, 9], tf.int64)
    >>> records = tf.data.Dataset.from_tensor_slices((["dddd", "a", "ccc", "bb", "iiiiiiiii"], lengths))
    >>> for batch in sorted_batches(in_turns(records.batch(4)), 2, boundaries=[6]):
    ...     print(batch.serialized().numpy().tolist(), batch.lengths.numpy().tolist())
    [b'a', b'bb'] [1, 2]
    [b'ccc', b'dddd'] [3, 4]
    [b'iiiiiiiii'] [9]

    Args:
        turns: a `tf.data.Dataset` of epochs of windows, as `in_turns` gives them.
        batch_size: rows of a batch. The last one of each bucket may have fewer.
        boundaries: ascending; bucket `i` holds `boundaries[i - 1] <= length < boundaries[i]`.
        drop_remainder: leave out the incomplete batches; then `batch_size` is the static shape.
        permute: as for `plan_batches`: rows of one length then come in random order.
        at_random: whether the batches of a window leave in an order drawn from the number of the epoch, so that lengths
            do not come in runs; else they leave shortest first.

    Returns:
        A `tf.data.Dataset` of `PlannedBatch`, ascending by length inside a batch. It can be saved with
        `tf.train.Checkpoint(iterator=...)` before any batch.
    """
    import tensorflow as tf

    def plan(lengths: Any, turn: Turn) -> Any:
        n = tf.size(lengths, tf.int64)
        rows = tf.cast(tf.argsort(lengths, stable=True), tf.int64)
        bounds = tf.constant(boundaries, tf.int64, [len(boundaries)])
        ends = tf.concat([tf.searchsorted(tf.gather(lengths, rows), bounds, out_type=tf.int64), [n]], 0)
        firsts = tf.concat([[0], ends[:-1]], 0)
        kept = tf.zeros_like(ends) if drop_remainder else tf.where(turn.last, ends - firsts, 0) % batch_size
        leaving = (ends - firsts) // batch_size * batch_size + kept
        batches = -(-leaving // batch_size)
        places = rows_of(tf.zeros_like(batches), batches) * batch_size  # of batches in their buckets
        starts = tf.repeat(firsts, batches) + places
        sizes = tf.minimum(tf.repeat(leaving, batches) - places, batch_size)
        if at_random:
            starts, sizes = drawn(starts, sizes, turn)
        order = tf.concat([rows_of(starts, sizes), rows_of(firsts + leaving, ends - firsts - leaving)], 0)
        return tf.gather(rows, order), sizes

    key = ("sorted", tuple(boundaries), batch_size, drop_remainder, at_random)
    return plan_batches(turns, plan, key, batch_size=batch_size if drop_remainder else None, permute=permute)
