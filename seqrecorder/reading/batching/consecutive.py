"""What `Pad` and `Ragged` have in common: batches of consecutive records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.reading.batching.window_plan import PlannedBatch, Turn, in_turns, plan_batches
from seqrecorder.reading.strategy import batch_count
from seqrecorder.reading.tfdata_ops import mapped

if TYPE_CHECKING:
    from seqrecorder.reading.strategy import Feed


def consecutive_batches(
    feed: Feed, batch_size: int, *, drop_remainder: bool, drop_empty: bool, group: str | None = None
) -> Any:
    """Return batches of consecutive records, whose elements `parts_of` takes apart.

    Where records are shuffled, the rows of a window stay where they are until their batch is parsed: to permute them at
    once would copy every record in turn.

    Args:
        feed: the records.
        batch_size: records to a batch.
        drop_remainder: whether the last batch is dropped where it is smaller.
        drop_empty: whether records without steps in the first alignment group are left out.
        group: an alignment group whose lengths are wanted.
    """
    drop = drop_empty and bool(feed.origin.schema.groups)
    group = feed.group() if drop else group
    options: dict[str, Any] = {"multiple": batch_size, "group": group, "drop_empty": drop}
    if feed.options.shuffle <= 1:
        return feed.stream(lambda windows, _: windows.rebatch(batch_size, drop_remainder=drop_remainder), **options)

    def in_order(windows: Any, number: Any) -> Any:
        windows = windows if group else mapped(windows, _without_lengths)
        return in_turns(windows, 0 if number is None else number)  # nothing is drawn where there are no files

    turns = feed.stream(in_order, permute=False, **options)

    def plan(lengths: Any, turn: Turn) -> tuple[Any, Any]:
        import tensorflow as tf

        rows = tf.range(tf.size(lengths, tf.int64))
        whole = tf.size(lengths, tf.int64) // batch_size * batch_size
        planned = whole if drop_remainder else tf.where(turn.last, tf.size(lengths, tf.int64), whole)
        starts = tf.range(0, planned, batch_size, tf.int64)
        return rows, tf.minimum(planned - starts, batch_size)

    return plan_batches(turns, plan, batch_size=batch_size if drop_remainder else None, permute=True)


def _without_lengths(serialized: Any) -> tuple[Any, Any]:
    """Return a window whose lengths nobody asks for."""
    import tensorflow as tf

    return serialized, tf.zeros_like(serialized, tf.int64)


def parts_of(batch: Any, *lengths: Any) -> tuple[Any, ...]:
    """Return the serialized records of an element of `consecutive_batches`, and their lengths where these came."""
    return (batch.serialized(), batch.lengths) if isinstance(batch, PlannedBatch) else (batch, *lengths)


def consecutive_count(feed: Feed, batch_size: int, *, drop_remainder: bool, drop_empty: bool) -> int:
    """Return how many batches `consecutive_batches` has in an epoch, -1 where that is not known."""
    drop = drop_empty and bool(feed.origin.schema.groups)
    records = feed.kept(group=feed.group(), drop_empty=True) if drop else feed.records
    return batch_count(records, batch_size, drop_remainder=drop_remainder)
