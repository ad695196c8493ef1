"""What `Bucket` and `TokenBudget` have in common: batches of records of about the same length, planned from lengths."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.graph_ops import checked, longest_of, to_longest
from seqrecorder.codec.parse import length_name
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.options import NO_STEPS, PaddedBatches, one_of
from seqrecorder.reading.record_length import (
    LENGTH_OF,
    JointLength,
    count_lengths,
    groups_of,
    record_length,
)
from seqrecorder.reading.strategy import Batches, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from seqrecorder.codec.graph_ops import Padding
    from seqrecorder.reading.elements import Carried
    from seqrecorder.reading.record_length import LengthCounts, LengthOf, RecordLength
    from seqrecorder.reading.strategy import Feed
    from seqrecorder.schema.schema import Schema


PLANNED_RECORDS = 2048
"""Records that are planned at a time."""


@attrs.frozen(kw_only=True)
class LengthPlan(ABC):
    """A strategy for records whose lengths are known: which batches, how wide, and how many.

    Attributes:
        pad_to_multiple_of: as in `Pad`.
        drop_remainder: as in `Pad`.
    """

    pad_to_multiple_of: int
    drop_remainder: bool

    @property
    def window(self) -> int:
        """How many records are planned at a time."""
        return PLANNED_RECORDS

    @property
    def least_window(self) -> int:
        """How many records are planned at a time at least, however large they are."""
        return 1

    @property
    def in_buckets(self) -> bool:
        """Whether batches are of one bucket each. Then `apply` permutes the rows of windows of shuffled records."""
        return False

    @abstractmethod
    def rows(self, lengths: LengthCounts | None) -> int:
        """Return how many records of these lengths a batch has, about or at most."""

    @abstractmethod
    def turns(self, windows: Any, number: Any) -> Any:
        """Return the windows of an epoch, as `apply` takes them.

        Args:
            windows: elements `(serialized: string [w], lengths: int64 [w])`.
            number: int64 scalar that stands for the order of the epoch; None where records are not shuffled.
        """

    @abstractmethod
    def apply(self, turns: Any, *, shuffle: int) -> Any:
        """Return a `tf.data.Dataset` of `PlannedBatch`.

        Args:
            turns: what `turns` made of each epoch, one after the other.
            shuffle: how many records are permuted at a time: 1 where they come shuffled already, 0 where they are not.
        """

    @abstractmethod
    def batches(self, lengths: LengthCounts) -> int:
        """Return how many batches an epoch of records of these lengths has, -1 where that depends on their order."""

    @abstractmethod
    def largest(self, lengths: LengthCounts) -> tuple[int, int]:
        """Return the rows of the largest batch that records of these lengths can make, and its longest record."""

    def width(self, lengths: Any) -> Any:
        """Return how many steps a batch of records of these lengths has, before it is rounded up to a multiple."""
        return longest_of(lengths)

    @property
    def widths(self) -> Sequence[int]:
        """What `width` gives, where it gives no more than some numbers that are known; else none."""
        return ()


def _length_field(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@attrs.frozen(kw_only=True)
class BatchesByLength(PaddedBatches, ABC):
    """Batches of records of about the same length; the attributes are described in `Bucket`."""

    drop_remainder: bool = False
    length_field: str | tuple[str, ...] | None = attrs.field(default=None, converter=_length_field)
    length_of: LengthOf = attrs.field(default="longest", validator=one_of(*LENGTH_OF))
    warm_up: Literal["largest"] | None = None

    def __attrs_post_init__(self) -> None:
        if self.warm_up not in (None, "largest"):
            raise OptionError(f"warm_up: expected 'largest' or None, got {self.warm_up!r}")
        if self.length_of == "sum" and not (isinstance(self.length_field, tuple) and self.length_field[1:]):
            raise OptionError("length_of='sum': goes with the names of several feature lists in length_field")
        if self.length_of == "sum" and self.warm_up is not None:
            raise OptionError("warm_up: a sum does not tell the shapes of the largest batch; use length_of='longest'")

    @abstractmethod
    def resolve(self, feed: Feed, group: RecordLength) -> tuple[LengthPlan, Feed, LengthCounts | None]:
        """Return what will be done with the records of a feed, the feed of those that fit, and their lengths.

        Raises:
            OptionError: records do not fit.
        """

    def carried(self, schema: Schema) -> Carried:
        """Return what batches carry beside the fields of a schema and their lengths."""
        return attrs.evolve(super().carried(schema), weighted=self.warm_up is not None)

    def read(self, feed: Feed) -> Batches:
        """Return batches of about the same length.

        Raises:
            OptionError: options do not fit the fields, or records do not fit.
        """
        import tensorflow as tf

        group = self._record_length(feed)
        plan, feed, lengths = self.resolve(feed, group)
        padding = self._padding(feed, group, plan)
        names = {name: length_name(name) for name in groups_of(group)}

        def parse(serialized: Any, planned: Any) -> dict[str, Any]:
            if self.empty == "error":
                planned = checked(planned, planned > 0, f"{feed.origin.where}: {NO_STEPS}", planned)
            values = feed.parser.parse_batch(serialized, padding)
            # Without fields of the groups among those that are parsed, the planned lengths are all there is.
            if isinstance(group, str):
                values.setdefault(names[group], planned)
            if all(name in values for name in names.values()):
                parsed = {of: values[name] for of, name in names.items()}
                agree = tf.equal(count_lengths(group, parsed, tf), planned)
                message = f"the lengths files disagree with {feed.origin.record}"
                values |= {name: checked(parsed[of], agree, message) for of, name in names.items()}
            return values

        planned = self._planned(feed, plan, group)
        width = max([*plan.widths, self.pad_to_multiple_of])
        rows = plan.rows(lengths)
        batches = feed.made(planned, lambda b: feed.shape(parse(b.serialized(), b.lengths)), rows, width=width)
        count = -1 if lengths is None else plan.batches(lengths)
        if self.warm_up is None or lengths is None or not lengths.records:
            return Batches(batches, count)
        rows, width = plan.largest(lengths)
        widths = {g: int(padding.width(g, tf.constant([width], tf.int64))) for g in feed.parser.schema.groups}
        return Batches(largest_batch(feed, parse, rows, widths).concatenate(batches), count, before=1)

    def shapes(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the shapes of batches (see `Strategy`)."""
        group = self._record_length(feed)
        plan, feed, _ = self.resolve(feed, group)
        width = self._padding(feed, group, plan).width
        planned = self._planned(feed, plan, group)
        return planned.map(lambda batch: shape_of(batch.lengths, width(groups_of(group)[0], batch.lengths)))

    def order(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the serialized records of each batch."""
        group = self._record_length(feed)
        plan, feed, _ = self.resolve(feed, group)
        return self._planned(feed, plan, group).map(lambda batch: batch.serialized())

    def _record_length(self, feed: Feed) -> RecordLength:
        return record_length(feed.origin.schema, self.length_field, self.length_of)

    def _planned(self, feed: Feed, plan: LengthPlan, group: RecordLength) -> Any:
        """Return a `tf.data.Dataset` of `PlannedBatch`."""
        drop = self.empty == "drop"
        turns = feed.turns(
            plan.turns,
            window=plan.window,
            multiple=plan.least_window,
            group=group,
            drop_empty=drop,
            permute=not plan.in_buckets,
        )
        return plan.apply(turns, shuffle=feed.options.shuffle)

    def _padding(self, feed: Feed, group: RecordLength, plan: LengthPlan) -> Padding:
        # The boundaries of sums are those of no feature list.
        planned = () if isinstance(group, JointLength) and group.of == "sum" else groups_of(group)
        widths = plan.widths
        fixed = dict.fromkeys(planned, widths[0]) if len(widths) == 1 else {}
        return self.padding(feed, None, lambda g, n: plan.width(n) if g in planned else to_longest(g, n), fixed)


def largest_batch(feed: Feed, parse: Callable[..., dict[str, Any]], rows: int, widths: Mapping[str, int]) -> Any:
    """Return a `tf.data.Dataset` of one shaped batch, of zeros (empty text) and with sample weights of 0.

    Args:
        feed: the records.
        parse: from serialized records and their lengths to the tensors of a batch, before they are shaped.
        rows: of the batch.
        widths: steps of the batch, by alignment group. Ragged steps have one element.

    Raises:
        OptionError: elements have no sample weights.
    """
    import tensorflow as tf

    signature = [tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)]
    traced = tf.function(parse, input_signature=signature, autograph=False).get_concrete_function()
    groups = {field.name: field.group for field in feed.parser.schema.fields if field.is_list}
    lengths = {length_name(group): width for group, width in widths.items()}

    def zeros(name: str, spec: Any) -> Any:
        if name in lengths:
            return tf.fill([rows], tf.constant(lengths[name], tf.int64))
        shape = [rows, *(size or 1 for size in spec.shape[1:])]
        if name in groups:
            shape[1] = widths[groups[name]]
        if isinstance(spec, tf.SparseTensorSpec):
            return tf.SparseTensor(tf.zeros([0, len(shape)], tf.int64), tf.zeros([0], spec.dtype), shape)
        return tf.zeros(shape, spec.dtype)

    def make(_: Any) -> Any:
        values = {name: zeros(name, spec) for name, spec in traced.structured_outputs.items()}
        match feed.shape(values):
            case (inputs, targets, weights):
                return inputs, targets, tf.nest.map_structure(tf.zeros_like, weights)
        raise OptionError("warm_up: goes with inputs and targets, whose sample weights it sets to 0")

    return tf.data.Dataset.range(1).map(make)
