"""`Unroll`, segments of long sequences, for truncated backpropagation through time."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.parse import length_name
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket import with_end
from seqrecorder.reading.batching.step_slices import buffered_apart, cut_batches, groups_of_steps, only_needed
from seqrecorder.reading.batching.strategy import WINDOW, Batches, Carried, Strategy, one_of, positive
from seqrecorder.reading.order_and_seeds import Limits
from seqrecorder.reading.tfdata_ops import mapped, rebatched, scanned

if TYPE_CHECKING:
    from seqrecorder.reading.batching.step_slices import Parsed
    from seqrecorder.reading.batching.strategy import Feed
    from seqrecorder.schema.schema import Schema

_CARRIES = ("reset", "segment_index", "segment_count", "total_length")


@attrs.frozen
class Unroll(Strategy):
    """Batches of segments of `length` steps; each row continues its record from batch to batch.

    Each of the `batch_size` rows (slots) processes one record at a time, one segment per batch. When a record ends, its
    slot starts the next record of the stream in the next batch; the lowest free slot is filled first. A recurrent model
    keeps the state of each row between batches, and resets it if `reset` is true. In TensorFlow 1, this was
    `batch_sequences_with_states`.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> from seqrecorder.reading.batching.unroll import Unroll
    >>> @sr.record
    ... class Series:
    ...     x: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Series([1, 2, 3]), Series([4]), Series([5, 6])], corpus)
    >>> for batch in sr.read(corpus, batch=Unroll(2, 2)):
    ...     print(batch["x"].numpy().tolist(), batch["reset"].numpy().tolist())
    [[1, 2], [4, 0]] [True, True]
    [[3, 0], [5, 6]] [False, True]

    In addition to the fields, batches contain `reset`, bool `(B,)`, true for the first segment of a record, and four
    int64 tensors `(B,)`: `segment_index`, `segment_count`, `sequence_length` (real steps in the segment) and
    `total_length` (steps in its record). Feature lists are `(B, length, ...)`, padded at the end of a record with zeros
    or empty text; context fields are repeated for each segment. An empty slot has `sequence_length` 0, `reset` False
    and zeros or empty text everywhere. Records without steps are left out.

    With `split_records=True`, all slots read parts of one record in parallel: slot n of B starts at step `n * T // B`
    of a record of T steps, so that one long text gives full batches. All slots start the next record together; until
    then, a slot whose part has ended is empty. `segment_index` numbers the segments of the whole record, starting in
    the first part, and `segment_count` is their total number; with `tail="drop"`, both leave out the segments that are
    not read. The number of batches is known in advance.

    Records are planned and parsed in windows of 1,024 records (or 16 MiB); a record that continues in the next window
    is parsed again. A checkpoint contains at most one window of serialized records, and the records in the slots. With
    several slots and without `split_records`, the number of batches depends on the order of the records, so the
    cardinality is unknown: for `model.fit`, read with `epochs=None` and take `steps_per_epoch` from `seqrecorder.plan`.
    `seqrecorder.keras.Unrolled` is the matching layer, and `seqrecorder.next_step` selects the targets of a language
    model.

    Attributes:
        batch_size: number of slots, which are the rows of a batch.
        length: number of steps in a segment; each segment is one row of the batch.
        tail: treatment of the end of an epoch, when no record is left for a free slot. `"drain"` goes on with empty
            slots until all records have ended; `"drop"` ends the epoch before the first batch with an empty slot.
        bucket: whether to start the records of a window (1,024 records or 16 MiB) in descending order of their number
            of segments, instead of in stream order. Records that start together then end together, and no long record
            runs alone at the end, so few segments are empty.
        split_records: whether all slots read parts of the same record, instead of one record each. `tail="drop"` then
            leaves out records with fewer steps than slots, and ends each record before its first batch with an empty
            slot.
        length_name: name of the tensor with the number of real steps in each segment.
        mask_name: name of the mask of real steps, bool `(B, length)`; None for no mask.
        seed_name: name of the tensor with the random seed of each slot's record, int32 `(B, 2)`; see `Pad`.
    """

    batch_size: int = attrs.field(validator=positive)
    length: int = attrs.field(validator=positive)
    tail: Literal["drain", "drop"] = attrs.field(default="drain", validator=one_of("drain", "drop"), kw_only=True)
    bucket: bool = attrs.field(default=False, kw_only=True)
    split_records: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.bucket and self.split_records:
            raise OptionError("bucket: orders records in slots, which split_records=True does not have; leave it out")

    @property
    def _in_turn(self) -> bool:
        """Check whether the slots process only one record at a time."""
        return self.split_records or (self.batch_size == 1 and not self.bucket)

    def carried(self, schema: Schema) -> Carried:  # noqa: ARG002 - a parameter of all strategies
        """Describe the tensors that batches contain in addition to fields and lengths."""
        return Carried(dict.fromkeys(_CARRIES), vacant=True)

    def read(self, feed: Feed) -> Batches:
        """Read batches of segments.

        If a slot is empty, context targets in it have the sample weight 0.

        Raises:
            OptionError: a field cannot be cut.
        """
        group, feed = self._prepare(feed)
        apart = buffered_apart(feed) if self._in_turn else []

        def segments(windows: Any, _: Any) -> Any:
            plans, size = self._plans(feed, windows), self.batch_size
            assemble = functools.partial(self._assemble, group)
            return cut_batches(feed, plans, size, self.length, assemble, whole=True, apart=apart)

        known = feed.length_counts(group, parse=False) if self._in_turn else None
        count = -1 if known is None else int(self._batches(known.values) @ known.counts)
        return Batches(feed.stream(segments, group=group), count)

    def shapes(self, feed: Feed) -> Any:
        """Compute the shapes of batches (see `Strategy`)."""
        import tensorflow as tf

        def shape(_: Any, lengths: Any, rows: Any, indices: Any) -> Any:
            total = tf.gather(tf.concat([lengths, [0]], 0), rows)
            first, stop = self._stretches(total, indices)[:2]
            real = tf.reduce_sum(tf.reshape(tf.clip_by_value(stop - first, 0, self.length), [-1, self.batch_size]), 1)
            size = tf.fill(tf.shape(real), tf.constant(self.batch_size, tf.int64))
            return tf.stack([size, size * self.length, real], 1)

        group, feed = self._prepare(feed)
        return feed.stream(lambda windows, _: self._plans(feed, windows), group=group).map(shape)

    def _prepare(self, feed: Feed) -> tuple[str, Feed]:
        group = groups_of_steps(self, feed.parser.schema)[0]
        if self.split_records and self.tail == "drop":
            return group, feed.limit(Limits(group, self.batch_size, after_cropping=True))
        feed.count_empty(group)
        return group, feed

    def _plans(self, feed: Feed, windows: Any) -> Any:
        """Plan the segment of each slot in each batch (see `cut_batches`)."""
        import tensorflow as tf

        if self._in_turn:
            return mapped(rebatched(windows, feed.origin.window(WINDOW)), self._in_parallel)
        # If a window had no more records than slots, most records would be parsed twice.
        windows = rebatched(windows, max(feed.origin.window(WINDOW), 2 * self.batch_size))
        if self.bucket:
            windows = mapped(windows, self._longest_first)
        numbers = tf.zeros([self.batch_size], tf.int64)
        slots = tf.fill([self.batch_size], ""), numbers, numbers
        windows = with_end(windows, end=self.tail == "drain")
        return scanned(windows, slots, lambda slots, window: deal_records(slots, window, self.length))

    def _longest_first(self, serialized: Any, lengths: Any) -> tuple[Any, Any]:
        import tensorflow as tf

        order = tf.argsort(segment_counts(lengths, self.length), direction="DESCENDING", stable=True)
        return tf.gather(serialized, order), tf.gather(lengths, order)

    def _batches(self, lengths: Any) -> Any:
        """Count the batches that each record needs with `split_records`.

        `lengths` is an array or a tensor.
        """
        more = 0 if self.tail == "drop" else self.batch_size - 1
        return segment_counts((lengths + more) // self.batch_size, self.length)

    def _in_parallel(self, serialized: Any, lengths: Any) -> tuple[Any, ...]:
        """Plan the batches of a window with `split_records`.

        All slots read parts of the same record, and then start the next record together.
        """
        import tensorflow as tf

        batches = self._batches(lengths)
        record = tf.repeat(tf.range(tf.size(lengths, tf.int64)), batches)[:, tf.newaxis]
        slots = tf.range(self.batch_size, dtype=tf.int64)
        indices = slots * tf.gather(batches, record) + tf.ragged.range(batches).flat_values[:, tf.newaxis]
        first, stop = self._stretches(tf.gather(lengths, record), indices)[:2]
        real = tf.reshape(first < stop, [-1])
        rows = tf.where(real, tf.repeat(record[:, 0], self.batch_size), tf.size(lengths, tf.int64))
        return serialized, lengths, rows, tf.where(real, tf.reshape(indices, [-1]), 0)

    def _stretches(self, total: Any, indices: Any) -> tuple[Any, ...]:
        """Locate segments in their records.

        The result is the first step of each segment, the end of its record or part, and its values for `reset`,
        `segment_index` and `segment_count`.

        Args:
            total: int64, steps of the records.
            indices: int64, index of each segment in its record, where all parts of a record count as equally long; its
                shape broadcasts with the shape of `total`.
        """
        import tensorflow as tf

        if not self.split_records:
            reset, count = tf.equal(indices, 0) & (total > 0), segment_counts(total, self.length)
            return indices * self.length, total, reset, indices, count
        batches = self._batches(total)
        slot, index = indices // tf.maximum(batches, 1), indices % tf.maximum(batches, 1)
        first = slot * total // self.batch_size + index * self.length
        stop = (slot + 1) * total // self.batch_size
        least = total // self.batch_size  # each part has this many steps or one more, which may need one more segment
        more = tf.where((least % self.length == 0) & (self.tail == "drain"), total - self.batch_size * least, 0)

        def before(slot: Any) -> Any:
            return slot * segment_counts(least, self.length) + slot * more // self.batch_size

        return first, stop, tf.equal(index, 0) & (total > 0), before(slot) + index, before(self.batch_size)

    def _assemble(self, group: str, records: Parsed, rows: Any, indices: Any) -> dict[str, Any]:
        import tensorflow as tf

        total = tf.gather(records.lengths, rows)
        first, stop, *carried = self._stretches(total, indices)
        steps = first[:, tf.newaxis] + tf.range(self.length, dtype=tf.int64)
        # Steps after the end of a part point past the end of the record, which gives padding.
        values = records.fields(rows, tf.where(steps < stop[:, tf.newaxis], steps, total[:, tf.newaxis]))
        values[length_name(group)] = tf.clip_by_value(stop - first, 0, self.length)
        return values | dict(zip(_CARRIES, (*carried, total), strict=True))


def segment_counts(lengths: Any, length: int) -> Any:
    """Count the segments of records of these lengths."""
    return (lengths + length - 1) // length


def deal_records(slots: Any, window: Any, length: Any) -> tuple[Any, Any]:
    """Assign the records of a window to slots.

    The result is the updated slots, and the plan of the batches.

    Args:
        slots: `(serialized: string [B], lengths: int64 [B], indices: int64 [B])`: record of each slot (length 0 for an
            empty slot), and the index of its next segment.
        window: `(serialized: string [w], lengths: int64 [w], last: bool)`. With `last`, the plan continues until all
            records in slots have ended.
        length: steps of a segment.
    """
    import tensorflow as tf

    (waiting, waiting_lengths, indices), (serialized, lengths, last) = slots, window
    active = lengths > 0
    serialized = tf.concat([waiting, tf.boolean_mask(serialized, active)], 0)
    lengths = tf.concat([waiting_lengths, tf.boolean_mask(lengths, active)], 0)
    rows, all_indices, row, index = fill_slots(segment_counts(lengths, length), indices, last)
    # Index B + w means no record: an empty slot has length 0.
    later = tf.gather(tf.concat([serialized, [""]], 0), row), tf.gather(tf.concat([lengths, [0]], 0), row), index
    return later, (*only_needed(serialized, lengths, rows), all_indices)


def fill_slots(counts: Any, indices: Any, last: Any) -> tuple[Any, Any, Any, Any]:
    """Assign records to slots, until a slot is free and no record is left for it.

    At the end of the stream (`last`), slots are filled until all records have ended.

    The loop visits only batches in which a slot starts a record. In the batches in between, only the segment indices
    change; they are filled in afterwards.

    Args:
        counts: int64, `(B + w,)`: segments of the records in the B slots (0 for an empty slot), then of the next
            records.
        indices: int64, `(B,)`: index of the next segment of each slot.
        last: bool scalar, whether the stream has ended.

    Returns:
        `(rows: int64 [n * B], indices: int64 [n * B], row: int64 [B], index: int64 [B])`: record and segment of each
        slot, first for n batches, then for the batch after them. A record is an index in `counts`; `B + w` means no
        record.
    """
    import tensorflow as tf

    batch_size = indices.shape[0]
    size = tf.size(counts, tf.int64)
    counts = tf.concat([counts, [0]], 0)
    first_rows = tf.range(batch_size, dtype=tf.int64)

    def advance(_: Any, number: Any, taken: Any, row: Any, index: Any, history: Any) -> Any:
        free = index >= tf.gather(counts, row)
        candidate = tf.minimum(taken + tf.cumsum(tf.cast(free, tf.int64), exclusive=True), size)
        row = tf.where(free, candidate, row)
        index = tf.where(free, tf.zeros_like(index), index)
        taken = tf.minimum(taken + tf.math.count_nonzero(free), size)
        left = tf.gather(counts, row) - index
        active = left > 0
        go = tf.where(last, tf.reduce_any(active), tf.reduce_all(active))
        batches = tf.where(go, tf.reduce_min(tf.where(active, left, tf.int64.max)), 0)
        event = tf.concat([row, index, [batches]], 0)
        return go, number + 1, taken, row, tf.where(active, index + batches, 0), history.write(number, event)

    history = tf.TensorArray(tf.int64, 0, dynamic_size=True, element_shape=[2 * batch_size + 1])
    start = tf.ones([], tf.bool), tf.constant(0), tf.constant(batch_size, tf.int64), first_rows, indices, history
    *_, row, index, history = tf.while_loop(lambda go, *_: go, advance, start, parallel_iterations=1)
    events = history.stack()
    batches = events[:, -1]
    offsets = tf.ragged.range(batches).flat_values
    rows = tf.repeat(events[:, :batch_size], batches, axis=0)
    all_indices = tf.repeat(events[:, batch_size:-1], batches, axis=0)
    # The index of an empty slot stays 0.
    all_indices += tf.where(rows < size, offsets[:, tf.newaxis], 0)
    return tf.reshape(rows, [-1]), tf.reshape(all_indices, [-1]), row, index
