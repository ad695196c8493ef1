"""Batches cut from windows that are sorted by length: the least padding for batches of one size."""

from __future__ import annotations

from typing import Any

from seqrecorder.batching.plan import at_random, check_windows, plan_batches, rows_of, sort_rows
from seqrecorder.errors import OptionError


def sorted_batches(windows: Any, batch_size: int, *, drop_remainder: bool = False, seed: Any = None) -> Any:
    """Return batches of rows of similar length: each window is sorted by length and cut.

    A window is filled up with the rows that the one before it left over, which are its newest: as many as do
    not fill a batch. So no record waits for longer than one window, and there are as many batches as records
    allow, whatever their lengths. Windows of dozens of batches need less padding than any few buckets.

    >>> import tensorflow as tf
    >>> lengths = tf.constant([4, 1, 3, 2], tf.int64)
    >>> records = tf.data.Dataset.from_tensor_slices((["dddd", "a", "ccc", "bb"], lengths))
    >>> for serialized, lengths in sorted_batches(records.batch(4), 2):
    ...     print(serialized.numpy().tolist(), lengths.numpy().tolist())
    [b'a', b'bb'] [1, 2]
    [b'ccc', b'dddd'] [3, 4]

    Args:
        windows: a finite `tf.data.Dataset` of `(serialized: tf.string [w], lengths: tf.int64 [w])`, in
            stream order; `w` may differ from window to window, and may be 0.
        batch_size: rows of a batch. The last batch of all may have fewer.
        drop_remainder: leave out that last batch; then `batch_size` is the static shape.
        seed: a number, or an int64 scalar such as a function of the epoch: the batches of a window leave in
            an order drawn from it, so that lengths do not come in runs. None: they leave shortest first.

    Returns:
        A `tf.data.Dataset` of `(serialized: tf.string [b], lengths: tf.int64 [b])`, ascending by length
        inside a batch. It can be saved with `tf.train.Checkpoint(iterator=...)` before any batch.

    Raises:
        OptionError: windows or batch_size make no sense.
    """
    import tensorflow as tf

    check_windows(windows)
    if batch_size < 1:
        raise OptionError(f"batch_size: expected 1 or more rows, got {batch_size}")

    def plan(lengths: Any, window: Any, last: Any) -> Any:
        rows, planned = sort_rows(lengths, batch_size, keep_rest=tf.zeros_like(last) if drop_remainder else last)
        starts = tf.range(0, planned, batch_size, tf.int64)
        starts, sizes = at_random(starts, tf.minimum(planned - starts, batch_size), seed, window)
        return tf.concat([tf.gather(rows, rows_of(starts, sizes)), rows[planned:]], 0), sizes

    return plan_batches(windows, plan, batch_size=batch_size if drop_remainder else None)
