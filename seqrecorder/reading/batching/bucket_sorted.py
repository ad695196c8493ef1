"""Batches of buckets whose rows are sorted by length first, a window at a time: the least padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket_boundaries import check_boundaries
from seqrecorder.reading.batching.window_plan import Turn, drawn, plan_batches, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    Raises:
        OptionError: there is no row to a batch, or boundaries make no sense.
    """
    import tensorflow as tf

    if batch_size < 1:
        raise OptionError(f"batch_size: expected 1 or more rows, got {batch_size}")
    check_boundaries(boundaries)

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
