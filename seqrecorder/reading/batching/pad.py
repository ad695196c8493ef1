"""`Pad`, batches of consecutive records, padded to the longest record or to a fixed length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.graph_ops import checked, to_longest
from seqrecorder.errors import OptionError, check_count
from seqrecorder.reading.batching.strategy import (
    Batches,
    PaddedBatches,
    by_group,
    fit_lengths,
    one_of,
    positive,
    shape_of,
)
from seqrecorder.reading.cardinality import batch_count
from seqrecorder.reading.tfdata_ops import rebatched

if TYPE_CHECKING:
    from seqrecorder.codec.graph_ops import Padding
    from seqrecorder.reading.batching.strategy import Feed

TOO_LONG = ("error", "drop", "cut_end", "cut_start")


@attrs.frozen
class Pad(PaddedBatches):
    """Batches of consecutive records, padded to the longest record of each batch or to a fixed length.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
    >>> [batch] = sr.read(corpus, batch=sr.Pad(2))
    >>> batch["ids"].numpy().tolist(), batch["sequence_length"].numpy().tolist()
    ([[1, 2, 3], [4, 0, 0]], [3, 1])
    >>> options = sr.Pad(2, padding_values={"ids": -1}, padding_side="left", length=2, too_long="cut_start")
    >>> [batch] = sr.read(corpus, batch=options)
    >>> batch["ids"].numpy().tolist(), batch["sequence_length"].numpy().tolist()
    ([[2, 3], [-1, 4]], [2, 1])

    Feature lists are `(B, T, *shape)`. Ragged steps are also padded in their own dimension, to the longest step of the
    batch: `(B, T, N, ...)`. T and N are at least 1, since layers such as `Masking` and `LSTM` fail on length 0.

    Of all strategies, this one takes the least time and pads the most: with log-normal lengths, 80 % of the steps are
    padding.

    Attributes:
        batch_size: records per batch.
        length: number of steps in a row, or a mapping from field to that number, which applies to the whole alignment
            group of the field. None pads to the longest record of each batch.
        too_long: treatment of records with more than `length` steps: `"error"`, `"drop"` (leave them out), `"cut_end"`
            (cut off their last steps) or `"cut_start"` (cut off their first steps). Lengths count the remaining steps.
            If the lengths are stored, a warning reports the number of such records.
        drop_remainder: whether to drop the last batch of an epoch if it is smaller.
        padding_values: mapping from field to padding value; by default, zeros or empty text.
        padding_side: side of the padding, `"right"` or `"left"`, or a mapping from field to side, which applies to the
            whole alignment group of the field. With `"left"`, the last steps of all records are in one column.
        pad_to_multiple_of: T is rounded up to a multiple of this number, to get fewer distinct shapes.
        empty: treatment of records without steps in a list that is read: `"keep"` (a row of padding), `"drop"` (leave
            them out) or `"error"` (raise an error while iterating).
        length_name: name of the tensor with the true lengths, int64 `(B,)`.
        mask_name: name of the mask of real steps, bool `(B, T)`; None for no mask. The mask of an alignment group other
            than the first is `<group>_<mask_name>`.
        seed_name: name of the tensor with a random seed per record, int32 `(B, 2)`, which differs in each epoch; None
            for no seeds.
    """

    batch_size: int = attrs.field(validator=positive)
    length: int | Mapping[str, int] | None = attrs.field(default=None, kw_only=True)
    too_long: Literal["error", "drop", "cut_end", "cut_start"] = attrs.field(
        default="error", validator=one_of(*TOO_LONG), kw_only=True
    )
    drop_remainder: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.length is None and self.too_long != "error":
            raise OptionError("too_long: goes with length, which says how many steps there may be")
        lengths = [] if self.length is None else [self.length]
        for steps in self.length.values() if isinstance(self.length, Mapping) else lengths:
            check_count("length", steps)

    def read(self, feed: Feed) -> Batches:
        """Read padded batches.

        Raises:
            OptionError: options do not fit the fields, or records are too long.
        """
        targets, feed = self._prepare(feed)
        padding = self._padding(feed, targets)
        batches = feed.map_batches(
            consecutive_batches(feed, self.batch_size, drop_remainder=self.drop_remainder),
            lambda serialized: feed.shape(feed.parser.parse_batch(serialized, padding)),
            self.batch_size,
            width=max([*targets.values(), self.pad_to_multiple_of]),
        )
        return Batches(batches, batch_count(feed.records, self.batch_size, drop_remainder=self.drop_remainder))

    def shapes(self, feed: Feed) -> Any:
        """Compute the shapes of batches (see `Strategy`)."""
        targets, feed = self._prepare(feed)
        group = feed.group()
        width = self._padding(feed, targets).width

        def shape(_: Any, lengths: Any) -> Any:
            return shape_of(lengths, width(group, lengths))

        batches = consecutive_batches(feed, self.batch_size, group, drop_remainder=self.drop_remainder)
        return batches.map(shape)

    def _padding(self, feed: Feed, targets: dict[str, int]) -> Padding:
        import tensorflow as tf

        def width(name: str, lengths: Any) -> Any:
            if name not in targets:
                return to_longest(name, lengths)
            message = f"{feed.origin.where}: length={targets[name]} is less than the length of a record, lengths"
            return checked(tf.constant(targets[name], tf.int64), lengths <= targets[name], message, lengths)

        return self.padding(feed, width, targets)

    def _prepare(self, feed: Feed) -> tuple[dict[str, int], Feed]:
        """Apply the options `empty`, `length` and `too_long` to a feed.

        The result is a mapping from alignment group to its fixed length, and the changed feed. Without `length`, the
        mapping is empty.
        """
        targets: dict[str, int] = {}
        feed = feed.leave_out_empty() if self.empty == "drop" else feed
        if isinstance(self.length, Mapping):
            targets = by_group("length", self.length, feed.origin.schema)
        elif self.length is not None:
            targets = dict.fromkeys(feed.parser.schema.groups, self.length)
        for group, steps in targets.items():
            feed = fit_lengths(feed, group, steps, self.too_long, option=f"length={steps}", words=TOO_LONG, parse=False)
        return targets, feed


def consecutive_batches(feed: Feed, size: int, group: str | None = None, *, drop_remainder: bool) -> Any:
    """Batch consecutive serialized records.

    The elements are the records, string `(b,)`. If `group` is given, they also contain the lengths, int64 `(b,)`.
    """
    return feed.stream(lambda read, _: rebatched(read, size, drop_remainder=drop_remainder), multiple=size, group=group)
