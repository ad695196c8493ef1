"""Batches cut from windows that are sorted by length: the least padding for batches of one size."""

from __future__ import annotations

from typing import Any

from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.window_plan import Turn, drawn, plan_batches, rows_of, sort_rows


def sorted_batches(turns: Any, batch_size: int, *, drop_remainder: bool = False, at_random: bool = False) -> Any:
    """Return batches of rows of similar length: each window is sorted by length and cut.

    A window is filled up with the rows that the one before it left over, which are its newest: as many as do
    not fill a batch. So no record waits for longer than one window, and there are as many batches as records
    allow, whatever their lengths. Windows of dozens of batches need less padding than any few buckets.

    >>> import tensorflow as tf
    >>> from seqrecorder.reading.batching.window_plan import in_turns
    >>> lengths = tf.constant([4, 1, 3, 2], tf.int64)
    >>> records = tf.data.Dataset.from_tensor_slices((["dddd", "a", "ccc", "bb"], lengths))
    >>> for batch in sorted_batches(in_turns(records.batch(4)), 2):
    ...     print(batch.serialized().numpy().tolist(), batch.lengths.numpy().tolist())
    [b'a', b'bb'] [1, 2]
    [b'ccc', b'dddd'] [3, 4]

    Args:
        turns: a `tf.data.Dataset` of epochs of windows, as `in_turns` gives them.
        batch_size: rows of a batch. The last batch of all may have fewer.
        drop_remainder: leave out that last batch; then `batch_size` is the static shape.
        at_random: whether the batches of a window leave in an order drawn from the number of the epoch, so that lengths
            do not come in runs; else they leave shortest first.

    Returns:
        A `tf.data.Dataset` of `PlannedBatch`, ascending by length inside a batch. It can be saved with
        `tf.train.Checkpoint(iterator=...)` before any batch.

    Raises:
        OptionError: there is no row to a batch.
    """
    import tensorflow as tf

    if batch_size < 1:
        raise OptionError(f"batch_size: expected 1 or more rows, got {batch_size}")

    def plan(lengths: Any, turn: Turn) -> Any:
        rows, planned = sort_rows(
            lengths, batch_size, keep_rest=tf.zeros_like(turn.last) if drop_remainder else turn.last
        )
        starts = tf.range(0, planned, batch_size, tf.int64)
        sizes = tf.minimum(planned - starts, batch_size)
        if at_random:
            starts, sizes = drawn(starts, sizes, turn)
        return tf.concat([tf.gather(rows, rows_of(starts, sizes)), rows[planned:]], 0), sizes

    return plan_batches(turns, plan, batch_size=batch_size if drop_remainder else None)
