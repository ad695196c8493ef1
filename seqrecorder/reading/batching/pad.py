"""`Pad`: consecutive records, padded to the longest of each batch or to a length of your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.graph_ops import checked
from seqrecorder.codec.padding import to_longest
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.option_checks import check_batch_size, check_choice, check_count
from seqrecorder.reading.batching.padded import PaddedBatches, by_group
from seqrecorder.reading.strategy import Batches, batch_count, shape_of
from seqrecorder.reading.tfdata_ops import mapped, rebatched

if TYPE_CHECKING:
    from seqrecorder.codec.padding import Padding
    from seqrecorder.reading.strategy import Feed

TRUNCATIONS = ("error", "end", "start")


@attrs.frozen
class Pad(PaddedBatches):
    """Batches of consecutive records, padded to the longest of each batch or to a length of your own.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
    >>> [batch] = sr.read(corpus, batch=sr.Pad(2))
    >>> batch["ids"].numpy().tolist(), batch["sequence_length"].numpy().tolist()
    ([[1, 2, 3], [4, 0, 0]], [3, 1])
    >>> options = sr.Pad(2, padding_values={"ids": -1}, padding_side="left", pad_to=2, truncation="start")
    >>> [batch] = sr.read(corpus, batch=options)
    >>> batch["ids"].numpy().tolist(), batch["sequence_length"].numpy().tolist()
    ([[2, 3], [-1, 4]], [2, 1])

    Feature lists are `(B, T, *shape)`; ragged steps are padded in their own dimension too, `(B, T, N, ...)`, each to
    the longest of the batch. T and N are at least 1: layers such as `Masking` and `LSTM` fail on sequences of length 0.

    Costs nothing beside the parsing, and pads the most: on log-normal lengths 80 % of what it gives is padding.

    Attributes:
        batch_size: records to a batch.
        drop_remainder: whether the last batch of an epoch is dropped where it is smaller.
        pad_to: steps of every batch; None is the longest of each. Or a mapping of field to steps, for its alignment
            group.
        truncation: with `pad_to`: what happens to longer records: an `"error"`; steps are left out at the `"end"`, or
            at the `"start"`. Lengths count what is left.
        padding_values: by field, what padding consists of; zeros (empty text) where none is named.
        padding_side: `"right"`, or `"left"`: padding comes first, and the last steps of all records are in one column.
            Or a mapping of field to side, for its alignment group.
        pad_to_multiple_of: T is rounded up to a multiple of it, for fewer distinct shapes.
        empty: what a record without steps (in the first alignment group) is: a row of padding (`"keep"`), left out
            (`"drop"`), or an `"error"` while iterating.
        length_name: name under which batches carry the true lengths, int64 `(B,)`.
        mask_name: name under which batches carry a mask, bool `(B, T)`, true for real steps; None for no mask. That of
            another alignment group than the first is `<group>_<mask_name>`.
    """

    batch_size: int = attrs.field(converter=check_batch_size)
    drop_remainder: bool = attrs.field(default=False, kw_only=True)
    pad_to: int | Mapping[str, int] | None = attrs.field(default=None, kw_only=True)
    truncation: Literal["error", "end", "start"] = attrs.field(default="error", kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_choice("truncation", self.truncation, TRUNCATIONS)
        if self.pad_to is None and self.truncation != "error":
            raise OptionError("truncation: goes with pad_to, which says to how many steps")
        for steps in self.pad_to.values() if isinstance(self.pad_to, Mapping) else [self.pad_to]:
            if steps is not None:
                check_count("pad_to", steps)

    def read(self, feed: Feed) -> Batches:
        """Return padded batches.

        Raises:
            OptionError: options do not fit the fields, or a record is too long.
        """
        targets, feed = self._prepare(feed)
        padding = self._padding(feed, targets)
        batches = feed.made(
            self._batches(feed),
            lambda serialized, *_: feed.shape(feed.parser.parse_batch(serialized, padding)),
            self.batch_size,
            width=max([*targets.values(), self.pad_to_multiple_of]),
        )
        return Batches(batches, self._count(feed))

    def shapes(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the shapes of batches (see `Strategy`)."""
        targets, feed = self._prepare(feed)
        group = feed.group(None)
        width = self._padding(feed, targets).width
        return mapped(self._batches(feed, group), lambda _, lengths: shape_of(lengths, width(group, lengths)))

    def _padding(self, feed: Feed, targets: dict[str, int]) -> Padding:
        import tensorflow as tf

        def width(name: str, lengths: Any) -> Any:
            if name not in targets:
                return to_longest(name, lengths)
            message = f"{feed.origin.where}: pad_to={targets[name]} is less than the length of a record, lengths"
            return checked(tf.constant(targets[name], tf.int64), lengths <= targets[name], message, lengths)

        return self.padding(feed, feed.group(None) if feed.parser.schema.groups else None, width, targets)

    def _prepare(self, feed: Feed) -> tuple[dict[str, int], Feed]:
        """Return the steps to which each group is padded, and the feed of records that are no longer."""
        targets: dict[str, int] = {}
        if isinstance(self.pad_to, Mapping):
            targets = by_group("pad_to", self.pad_to, feed.origin.schema)
        elif self.pad_to is not None:
            targets = dict.fromkeys(feed.parser.schema.groups, self.pad_to)
        for group, steps in targets.items():
            if self.truncation != "error":
                feed = feed.crop(group, slice(steps) if self.truncation == "end" else slice(-steps, None))
                continue
            lengths = feed.lengths(group, parse=False)
            if lengths is not None and (lengths > steps).any():
                raise OptionError(
                    f"pad_to={steps}: {(lengths > steps).sum()} records are longer, the longest has {lengths.max()} "
                    "steps; raise pad_to, or pass truncation='end' or 'start' to cut them"
                )
        return targets, feed

    def _batches(self, feed: Feed, group: str | None = None) -> Any:
        """Return batches of serialized records, with their lengths where a group is named."""
        drop = self.empty == "drop" and bool(feed.origin.schema.groups)
        return feed.stream(
            lambda windows, _: rebatched(windows, self.batch_size, drop_remainder=self.drop_remainder),
            window=feed.window_of_batches(self.batch_size),
            multiple=self.batch_size,
            group=feed.group(None) if drop else group,
            drop_empty=drop,
        )

    def _count(self, feed: Feed) -> int:
        """Return how many batches an epoch has, -1 where that is not known."""
        drop = self.empty == "drop" and bool(feed.origin.schema.groups)
        records = feed.kept(group=feed.group(None), drop_empty=True) if drop else feed.records
        return batch_count(records, self.batch_size, drop_remainder=self.drop_remainder)
