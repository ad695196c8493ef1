"""What `Pad` and `Ragged` have in common: batches of consecutive records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.graph_ops import numbers
from seqrecorder.reading.batching.window_plan import PlannedBatch, Turn, in_turns, plan_batches
from seqrecorder.reading.strategy import batch_count
from seqrecorder.reading.tfdata_ops import mapped, rebatched

if TYPE_CHECKING:
    from seqrecorder.reading.strategy import Feed


@attrs.frozen
class Consecutive:
    """Batches of consecutive records.

    Attributes:
        batch_size: records to a batch.
        drop_remainder: whether the last batch is dropped where it is smaller.
        drop_empty: whether records without steps in the first alignment group are left out.
    """

    batch_size: int
    drop_remainder: bool
    drop_empty: bool

    def batches(self, feed: Feed, group: str | None = None) -> Any:
        """Return batches whose elements `parts_of` takes apart.

        Where records are shuffled, the rows of a window stay where they are until their batch is parsed: to permute
        them at once would copy every record in turn.

        Args:
            feed: the records.
            group: an alignment group whose lengths are wanted.
        """
        size = self.batch_size
        drop = self._drops(feed)
        group = feed.group() if drop else group
        options: dict[str, Any] = {"multiple": size, "group": group, "drop_empty": drop}
        if feed.options.shuffle <= 1:
            return feed.stream(
                lambda windows, _: rebatched(windows, size, drop_remainder=self.drop_remainder), **options
            )

        def in_order(windows: Any, number: Any) -> Any:
            windows = windows if group else mapped(windows, _without_lengths)
            return in_turns(windows, number)

        def plan(lengths: Any, turn: Turn) -> tuple[Any, Any]:
            import tensorflow as tf

            n = tf.size(lengths, tf.int64)
            rows, whole = numbers(n), n // size * size
            planned = whole if self.drop_remainder else tf.where(turn.last, n, whole)
            starts = tf.range(0, planned, size, tf.int64)
            return rows, tf.minimum(planned - starts, size)

        turns = feed.stream(in_order, permute=False, **options)
        key = ("consecutive", size, self.drop_remainder)
        return plan_batches(turns, plan, key, batch_size=size if self.drop_remainder else None, permute=True)

    def count(self, feed: Feed) -> int:
        """Return how many batches an epoch has, -1 where that is not known."""
        records = feed.kept(group=feed.group(), drop_empty=True) if self._drops(feed) else feed.records
        return batch_count(records, self.batch_size, drop_remainder=self.drop_remainder)

    def serialized(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the serialized records of each batch."""
        return self.batches(feed).map(lambda *batch: parts_of(*batch)[0])

    def _drops(self, feed: Feed) -> bool:
        return self.drop_empty and bool(feed.origin.schema.groups)


def _without_lengths(serialized: Any) -> tuple[Any, Any]:
    """Return a window whose lengths nobody asks for."""
    import tensorflow as tf

    return serialized, tf.zeros_like(serialized, tf.int64)


def parts_of(batch: Any, *lengths: Any) -> tuple[Any, ...]:
    """Return the serialized records of an element of `Consecutive.batches`, and their lengths where these came."""
    return (batch.serialized(), batch.lengths) if isinstance(batch, PlannedBatch) else (batch, *lengths)
