"""The batches of `bucket_by_sequence_length`, planned a window at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.codec.graph_ops import count_up_to, numbers, rows_at
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket_boundaries import check_boundaries
from seqrecorder.reading.batching.window_plan import Turn, order_of, plan_batches

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    Raises:
        OptionError: boundaries or batch_sizes make no sense.
    """
    import tensorflow as tf

    buckets = _checked_buckets(boundaries, batch_sizes)

    def plan(lengths: Any, turn: Turn) -> Any:
        bucket = count_up_to(tf.constant(boundaries, tf.int64, [buckets - 1]), lengths)
        rows, bucket = order_of(bucket)  # bucket by bucket, in the order of arrival
        n, first, after = tf.size(rows), count_up_to(bucket, bucket, less=True), count_up_to(bucket, bucket)
        alike = len(set(batch_sizes)) == 1
        size = tf.constant(batch_sizes[0]) if alike else rows_at(tf.constant(batch_sizes), bucket)
        position = numbers(n)
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


def _checked_buckets(boundaries: Sequence[int], batch_sizes: Sequence[int]) -> int:
    """Return how many buckets there are."""
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
    return buckets
