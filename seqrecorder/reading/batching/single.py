"""No batching: single records, which is what `read` gives without `batch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.parse import SEQUENCE_LENGTH
from seqrecorder.reading.strategy import Batches

if TYPE_CHECKING:
    from seqrecorder.reading.elements import Carried
    from seqrecorder.reading.strategy import Feed
    from seqrecorder.schema.schema import Schema


@attrs.frozen
class Single:
    """Single records, each parsed on its own.

    Attributes:
        length_name: not used: the length of a record is that of its feature lists.
        mask_name: not used.
    """

    length_name: str = SEQUENCE_LENGTH
    mask_name: str | None = None

    def carried(self, schema: Schema) -> Carried | None:  # noqa: ARG002 - as every strategy has it
        """Return None: single records carry their fields alone."""
        return None

    def read(self, feed: Feed) -> Batches:
        """Return single records."""
        singles = feed.stream(lambda windows, _: windows.unbatch())
        parsed = feed.made(singles, lambda serialized: feed.shape(feed.parser.parse(serialized)), 1)
        return Batches(parsed, feed.records)

    def shapes(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the shapes of single records (see `Strategy`)."""
        import tensorflow as tf

        group = feed.group()
        windows = feed.stream(lambda windows, _: windows, group=group)
        return windows.map(lambda _, lengths: tf.stack([tf.ones_like(lengths), lengths, lengths], 1))
