"""`Crop`, batches of random crops, one per record, which differ in each epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.graph_ops import Stretch, checked, to_longest
from seqrecorder.codec.parse import length_name
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.step_slices import advise_dropping
from seqrecorder.reading.batching.strategy import Batches, PaddedBatches, one_of, positive, shape_of
from seqrecorder.reading.cardinality import batch_count
from seqrecorder.reading.order_and_seeds import JointLength, Limits, draw_below, record_length
from seqrecorder.reading.tfdata_ops import Traced, mapped, rebatched

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.codec.graph_ops import Padding
    from seqrecorder.reading.batching.strategy import Carried, Feed
    from seqrecorder.schema.schema import Schema

CROP_START = "crop_start"


@attrs.frozen
class Crop(PaddedBatches):
    """Batches of random crops of `length` steps, one per record, drawn again in each epoch.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     x: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Series(range(10)), Series([7, 8])], corpus)
    >>> for batch in sr.read(corpus, batch=sr.Crop(4, batch_size=2), seed=3, epochs=2):
    ...     print(batch["x"].numpy().tolist(), batch["crop_start"].numpy().tolist())
    [[1, 2, 3, 4], [7, 8, 0, 0]] [1, 0]
    [[2, 3, 4, 5], [7, 8, 0, 0]] [2, 0]

    Each position at which the crop fits into its record is equally likely. The positions depend on the `seed` of
    `read`, even if records are not shuffled. All feature lists of one alignment group are cropped alike. The lists of
    other groups are not cropped, but padded to the longest list in the batch. If the lengths are stored, images and
    buffers outside the crop are not decoded.

    In addition to the fields, batches contain `crop_start`, the first step of each crop, int64 `(B,)`.

    Attributes:
        length: number of steps in a crop; each crop is one row of the batch.
        stride: distance between consecutive steps of a crop; 5 takes every fifth frame.
        batch_size: records per batch; default: 32, as in Keras.
        too_short: treatment of records that are shorter than a crop: `"pad"`, or `"drop"` (leave them out).
        drop_remainder: whether to drop the last batch of an epoch if it is smaller.
        length_field: name of the feature list to crop, together with the lists aligned with it; None for the first
            list.
        padding_values: mapping from field to padding value; see `Pad`.
        padding_side: side of the padding; see `Pad`.
        pad_to_multiple_of: padded lengths are rounded up to a multiple of this number; see `Pad`.
        empty: treatment of records without steps; see `Pad`.
        length_name: name of the tensor with the true lengths, int64 `(B,)`.
        mask_name: name of the mask of real steps; see `Pad`.
        seed_name: name of the tensor with a random seed per record; see `Pad`.
    """

    length: int = attrs.field(validator=positive)
    stride: int = attrs.field(default=1, validator=positive, kw_only=True)
    batch_size: int = attrs.field(default=32, validator=positive, kw_only=True)
    too_short: Literal["pad", "drop"] = attrs.field(default="pad", validator=one_of("pad", "drop"), kw_only=True)
    drop_remainder: bool = attrs.field(default=False, kw_only=True)
    length_field: str | None = attrs.field(default=None, kw_only=True)

    def carried(self, schema: Schema) -> Carried:
        """Describe the tensors that batches contain in addition to fields and lengths."""
        return attrs.evolve(super().carried(schema), names={CROP_START: None})

    def read(self, feed: Feed) -> Batches:
        """Read batches of crops.

        Raises:
            OptionError: options do not fit the fields, or a field cannot be cropped.
        """
        import tensorflow as tf

        group, feed = self._prepare(feed)
        padding = self._padding(feed, group)
        name, message = length_name(group), f"the lengths files disagree with {feed.origin.record}"

        def parse(serialized: Any, planned: Any, starts: Any) -> Any:
            cut = feed.crop(group, Stretch(starts, self._span)).crop(group, slice(None, None, self.stride))
            values = cut.parser.parse_batch(serialized, padding)
            values[CROP_START] = starts
            if name in values:
                expected = self._kept(planned)
                values[name] = checked(values[name], tf.equal(values[name], expected), message)
            return values

        batches, make = self._batches(feed, group), lambda *batch: feed.shape(parse(*batch))
        if feed.origin.window(2) == 1:  # records have 8 MiB or more on average; crops may have the same shape
            crops = tf.nest.flatten(Traced.of(parse, batches.element_spec).spec)
            if all(part.shape[1:].is_fully_defined() for part in crops):
                batches, make = self._batches(feed, group, parse), feed.shape
        batches = feed.map_batches(batches, make, self.batch_size, width=self.length)
        return Batches(batches, batch_count(feed.records, self.batch_size, drop_remainder=self.drop_remainder))

    def shapes(self, feed: Feed) -> Any:
        """Compute the shapes of batches (see `Strategy`)."""
        group, feed = self._prepare(feed)
        width = self._padding(feed, group).width
        return self._batches(feed, group).map(
            lambda _, lengths, __: shape_of(self._kept(lengths), width(group, self._kept(lengths)))
        )

    @property
    def _span(self) -> int:
        """Number of steps of the record that a crop spans, from its first to its last step."""
        return (self.length - 1) * self.stride + 1

    def _kept(self, lengths: Any) -> Any:
        import tensorflow as tf

        return (tf.minimum(lengths, self._span) + self.stride - 1) // self.stride

    def _prepare(self, feed: Feed) -> tuple[str, Feed]:
        """Return the alignment group to crop, and the feed of the records that are long enough."""
        schema = feed.parser.schema
        group = record_length(feed.origin.schema, self.length_field)
        if isinstance(group, JointLength):
            raise OptionError(f"length_field: Crop crops a feature list and those aligned with it, got {group.groups}")
        for field in schema.fields:
            if field.is_list and field.group == group and field.has_filling:
                raise OptionError(
                    f"Crop: field {field.name!r} has a default for records that lack it, which cannot be cropped; "
                    f"{advise_dropping(schema, [field.name])}"
                )
        feed = feed.leave_out_empty() if self.empty == "drop" else feed
        if self.too_short == "drop":
            feed = feed.limit(Limits(group, self._span, after_cropping=True))
        return group, feed

    def _padding(self, feed: Feed, group: str) -> Padding:
        import tensorflow as tf

        def width(name: str, lengths: Any) -> Any:
            return tf.constant(self.length, tf.int64) if name == group else to_longest(name, lengths)

        return self.padding(feed, width, {group: self.length})

    def _batches(self, feed: Feed, group: str, parse: Callable[..., Any] | None = None) -> Any:
        """Batch the records, and draw where their crops start.

        Without `parse`, the elements are the records, their lengths, and the starts of their crops, `[b]` each.

        With `parse`, the elements are batches of the crops that it makes from these three. Each record is then cropped
        before its batch is complete, so that long records are in memory one at a time.
        """
        import tensorflow as tf

        size = 1 if parse else self.batch_size

        def batches(windows: Any, number: Any) -> Any:
            def draw(index: Any, batch: tuple[Any, Any]) -> tuple[Any, Any, Any]:
                serialized, lengths = batch
                return serialized, lengths, draw_below(tf.maximum(lengths - self._span, 0) + 1, number, index)

            drawn = mapped(rebatched(windows, size, drop_remainder=self.drop_remainder).enumerate(), draw)
            if parse is None:
                return drawn
            return rebatched(mapped(drawn, parse), self.batch_size, drop_remainder=self.drop_remainder)

        return feed.stream(batches, multiple=size, group=group, draw=True)
