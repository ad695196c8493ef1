"""What `Pad` and `Ragged` have in common: batches of consecutive records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.reading.strategy import batch_count

if TYPE_CHECKING:
    from seqrecorder.reading.strategy import Feed


def consecutive_batches(
    feed: Feed, batch_size: int, *, drop_remainder: bool, drop_empty: bool, group: str | None = None
) -> Any:
    """Return batches of serialized records, with their lengths where a group is named or empty records are dropped.

    Args:
        feed: the records.
        batch_size: records to a batch.
        drop_remainder: whether the last batch is dropped where it is smaller.
        drop_empty: whether records without steps in the first alignment group are left out.
        group: an alignment group.
    """
    drop = drop_empty and bool(feed.origin.schema.groups)
    return feed.stream(
        lambda windows, _: windows.rebatch(batch_size, drop_remainder=drop_remainder),
        multiple=batch_size,
        group=feed.group() if drop else group,
        drop_empty=drop,
    )


def consecutive_count(feed: Feed, batch_size: int, *, drop_remainder: bool, drop_empty: bool) -> int:
    """Return how many batches `consecutive_batches` has in an epoch, -1 where that is not known."""
    drop = drop_empty and bool(feed.origin.schema.groups)
    records = feed.kept(group=feed.group(), drop_empty=True) if drop else feed.records
    return batch_count(records, batch_size, drop_remainder=drop_remainder)
