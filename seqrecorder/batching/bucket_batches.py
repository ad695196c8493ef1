"""The batches of `bucket_by_sequence_length`, planned a window at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.batching.boundaries import check_boundaries
from seqrecorder.batching.plan import check_windows, plan_batches, rows_of
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence


def bucket_batches(
    windows: Any, boundaries: Sequence[int], batch_sizes: Sequence[int], *, drop_remainder: bool = False
) -> Any:
    """Return the batches of `bucket_by_sequence_length`, in its order, planned a window at a time.

    Whatever the windows, these are exactly the batches that `windows.unbatch()` gives through
    `bucket_by_sequence_length`: a batch leaves when the last of its records arrives, and at the end of the
    stream the incomplete ones follow, shortest bucket first.

    >>> import tensorflow as tf
    >>> lengths = tf.constant([1, 3, 1, 3], tf.int64)
    >>> records = tf.data.Dataset.from_tensor_slices((["a", "bbb", "c", "ddd"], lengths))
    >>> for serialized, lengths in bucket_batches(records.batch(3), boundaries=[2], batch_sizes=[2, 2]):
    ...     print(serialized.numpy().tolist(), lengths.numpy().tolist())
    [b'a', b'c'] [1, 1]
    [b'bbb', b'ddd'] [3, 3]

    Args:
        windows: a finite `tf.data.Dataset` of `(serialized: tf.string [w], lengths: tf.int64 [w])`, in
            stream order; `w` may differ from window to window, and may be 0.
        boundaries: ascending; bucket `i` holds `boundaries[i - 1] <= length < boundaries[i]`.
        batch_sizes: rows of a batch, for each of the `len(boundaries) + 1` buckets.
        drop_remainder: leave out the incomplete batches at the end.

    Returns:
        A `tf.data.Dataset` of `(serialized: tf.string [b], lengths: tf.int64 [b])`. It can be saved with
        `tf.train.Checkpoint(iterator=...)` before any batch. `b` is static where all batches have one size.

    Raises:
        OptionError: windows, boundaries or batch_sizes make no sense.
    """
    import tensorflow as tf

    check_windows(windows)
    check_boundaries(boundaries)
    buckets = len(boundaries) + 1
    if len(batch_sizes) != buckets:
        raise OptionError(
            f"batch_sizes: expected one for each of the {buckets} buckets ({len(boundaries)} boundaries), "
            f"got {len(batch_sizes)}"
        )
    for bucket, size in enumerate(batch_sizes):
        if size < 1:
            raise OptionError(f"batch_sizes[{bucket}]: expected 1 or more rows, got {size}")

    def plan(lengths: Any, _: Any, last: Any) -> Any:
        sizes = tf.constant(batch_sizes, tf.int64)
        bucket = tf.searchsorted(tf.constant(boundaries, tf.int64), lengths, side="right")
        rows = tf.argsort(bucket, stable=True)  # bucket by bucket, in the order of arrival
        first = tf.searchsorted(tf.gather(bucket, rows), tf.range(buckets + 1), out_type=tf.int64)
        first, counts = first[:-1], first[1:] - first[:-1]

        complete = counts // sizes
        end = tf.cumsum(complete)
        number = tf.range(tf.reduce_sum(complete))
        of_bucket = tf.searchsorted(end, number, side="right")
        size = tf.gather(sizes, of_bucket)
        start = tf.gather(first, of_bucket) + (number - tf.gather(end - complete, of_bucket)) * size
        # A batch leaves when its last record arrives, which is never one of those left over from before.
        leaves = tf.argsort(tf.gather(rows, start + size - 1))
        start, size = tf.gather(start, leaves), tf.gather(size, leaves)

        rest = counts - complete * sizes
        order = rows_of(tf.concat([start, first + counts - rest], 0), tf.concat([size, rest], 0))
        at_end = tf.zeros_like(rest) if drop_remainder else tf.where(last, rest, 0)
        return tf.gather(rows, order), tf.concat([size, at_end], 0)

    static = batch_sizes[0] if drop_remainder and len(set(batch_sizes)) == 1 else None
    return plan_batches(windows, plan, batch_size=static)
