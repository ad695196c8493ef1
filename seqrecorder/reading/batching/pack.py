"""`Pack`: several sequences to a row of fixed length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.parse import SEQUENCE_LENGTH, length_name
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.bucket import at_end
from seqrecorder.reading.batching.step_slices import check_names, group_of_steps, parse_records
from seqrecorder.reading.elements import Carried
from seqrecorder.reading.strategy import Batches, fit_lengths, one_of, positive
from seqrecorder.reading.tfdata_ops import flat_mapped, mapped, one_element, rebatched, scanned

if TYPE_CHECKING:
    from seqrecorder.reading.batching.step_slices import Parsed
    from seqrecorder.reading.strategy import Feed
    from seqrecorder.schema.schema import Schema


_CLASS = 16
"""Lengths of one class differ by at most a sixteenth; up to 31 each length is a class."""


def length_classes(length: int) -> list[int]:
    """Return the least length of each class, ascending, for lengths up to `length`.

    >>> length_classes(40)[-4:]
    [34, 36, 38, 40]
    >>> length_classes(3)
    [1, 2, 3]
    """
    classes = []
    least = 1
    while least <= length:
        classes.append(least)
        least += max(1, least // _CLASS)
    return classes


def best_fit_rows(sizes: Any, length: int) -> Any:
    """Return the row of each sequence, so that no row holds more than `length` steps and few rows are needed.

    The sequences go from the longest to the shortest, a class of about equal lengths at a time. The rows with the least
    free space come first, and each takes as many sequences of the class as it has room for when all are as long as the
    longest of them. Among short sequences, of which every length is a class, that is best-fit decreasing itself: what
    is counted there once for all sequences of one length is where each of them would have gone, one after the other.
    So the loop goes over classes, of which there are few, instead of sequences. Rows are nearly as full as by best-fit
    decreasing one by one.

    >>> import tensorflow as tf
    >>> best_fit_rows(tf.constant([3, 9, 6, 1, 1], tf.int64), 10).numpy().tolist()
    [1, 0, 1, 0, 1]

    Args:
        sizes: int64, `(n,)`, in steps: 1 or more, and at most `length`.
        length: steps of a row.

    Returns:
        int64, `(n,)`: rows are numbered from 0, without gaps.
    """
    import tensorflow as tf

    order = tf.argsort(sizes, direction="DESCENDING", stable=True)
    ordered = tf.gather(sizes, order)
    kinds = tf.searchsorted(tf.constant(length_classes(length), tf.int64), ordered, side="right")
    counts = tf.unique_with_counts(kinds, tf.int64).count
    starts = tf.cumsum(counts, exclusive=True)
    longest = tf.gather(ordered, starts)
    # One class of nothing more, as the loop must run for its results to have a shape.
    counts, starts = tf.concat([counts, [0]], 0), tf.concat([starts, [tf.size(sizes, tf.int64)]], 0)
    longest = tf.concat([longest, [length]], 0)
    before = tf.concat([[0], tf.cumsum(ordered)], 0)
    # Every row but one is filled to more than 8/17 on average: a new one is begun when no other has room for a sequence
    # 1/16 longer than those that come.
    rows = tf.minimum(tf.size(sizes, tf.int64), before[-1] * 17 // (8 * length) + 1) + 1

    def place(kind: Any, keys: Any, all_keys: Any, all_ends: Any) -> Any:
        # A key is the free space of a row, and its number; sorted, the fullest rows come first and unused ones last.
        room = keys // (longest[kind] * rows)
        ends = starts[kind] + tf.minimum(tf.cumsum(room), counts[kind])
        filled = tf.gather(before, tf.concat([starts[kind : kind + 1], ends], 0))
        negative = (filled[1:] - filled[:-1]) * rows - keys
        # `tf.sort` is this and three more operations.
        ascending = -tf.math.top_k(negative, tf.cast(rows, tf.int32)).values
        return kind + 1, ascending, all_keys.write(kind, keys), all_ends.write(kind, ends)

    classes = tf.size(counts)
    empty = length * rows + tf.range(rows)
    arrays = [tf.TensorArray(tf.int64, classes, element_shape=[None]) for _ in range(2)]
    _, _, all_keys, all_ends = tf.while_loop(lambda kind, *_: kind < classes, place, (0, empty, *arrays))
    # The ends never decrease, so a search finds in which row, of which class, each sequence was placed.
    ends = tf.reshape(all_ends.stack(), [-1])
    at = tf.searchsorted(ends, tf.range(tf.size(sizes, tf.int64)), side="right")
    placed = tf.gather(tf.reshape(all_keys.stack(), [-1]) % rows, at)
    return tf.scatter_nd(tf.cast(order, tf.int64)[:, tf.newaxis], placed, tf.shape(sizes, tf.int64))


TOO_LONG = ("error", "drop", "cut_end", "split")

PLANNED = 1024
"""Records whose rows are planned together: more hardly fill rows better, and wait in memory, serialized."""

_CARRIES = ("segment_ids", "positions", "segment_count", "segment_start")


@attrs.frozen
class Pack:
    """Batches whose rows have `length` steps and hold several sequences each, one after the other.

    For transformers and other models that are told which steps belong together: every step attends to those of its own
    segment. Shapes are fixed, and hardly any step is padding.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> from seqrecorder.reading.batching.pack import Pack
    >>> @sr.record
    ... class Sentence:
    ...     key: str = sr.context(str)
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence("a", [1, 2, 3]), Sentence("b", [4, 5]), Sentence("c", [6])], corpus)
    >>> for batch in sr.read(corpus, batch=Pack(4, 2)):
    ...     for name in ("ids", "segment_ids", "positions", "key"):
    ...         print(name, batch[name].numpy().tolist())
    ids [[1, 2, 3, 6], [4, 5, 0, 0]]
    segment_ids [[1, 1, 1, 2], [1, 1, 0, 0]]
    positions [[0, 1, 2, 0], [0, 1, 0, 0]]
    key [[b'a', b'c'], [b'b', b'']]

    Feature lists are `(B, length, ...)`, padded at the end of a row with zeros (empty text). Beside them come, int64:

    - `segment_ids` `(B, length)`: 1 for the steps of a row's first sequence, 2 for its second; 0 for padding.
    - `positions` `(B, length)`: the position of a step in its segment, from 0 on; 0 for padding.
    - `sequence_length` `(B,)`: the used steps of a row.
    - `segment_count` `(B,)`: the segments of a row.
    - `segment_start` `(B, S)`, with `too_long="split"` only: at which step of its record a segment begins.

    A row has no context of its own, but each of its segments has: context fields are `(B, S, ...)`, with S the most
    segments of a row in the batch, padded. Records without steps take no place: they are left out, context and all.

    Rows are planned from the lengths of 1,024 records at a time by best-fit decreasing
    (`seqrecorder.reading.batching.pack`). Those that are left when their rows are dealt into batches, the
    emptiest, are planned again with the next ones. Segments stand in a row in the order of the stream. Rows come in the
    order of their first segments; where the records are shuffled, in random order among those planned together.

    Of lengths that differ much nearly all steps are real, which `seqrecorder.plan` tells for a dataset of yours. How
    many batches an epoch has depends on the order of the records, so there is no cardinality.

    Attributes:
        length: steps of a row.
        batch_size: rows to a batch.
        too_long: what happens to records of more than `length` steps: an `"error"`, raised before anything is read;
            they are left out (`"drop"`); or their last steps are (`"cut_end"`); or they are cut into segments of
            `length` steps and what remains (`"split"`), each with the record's context, and parsed once for each. A
            warning counts what is left out or cut, where files of lengths tell.
        fill: with `too_long="split"`: lay the records end to end and cut the whole into rows, as language models take
            texts. Rows come in the order of the stream and are full, all but the last of an epoch; a record goes on in
            the next row as a segment of its own.
        drop_remainder: whether the last batch of an epoch is dropped where it is smaller, with all its sequences.
        length_name: name under which batches carry the used steps of each row.
        mask_name: name under which batches carry a mask, bool `(B, length)`, true for real steps; None for no mask.
    """

    length: int = attrs.field(validator=positive)
    batch_size: int = attrs.field(default=32, validator=positive)
    too_long: Literal["error", "drop", "cut_end", "split"] = attrs.field(
        default="error", validator=one_of(*TOO_LONG), kw_only=True
    )
    fill: bool = attrs.field(default=False, kw_only=True)
    drop_remainder: bool = attrs.field(default=False, kw_only=True)
    length_name: str = attrs.field(default=SEQUENCE_LENGTH, kw_only=True)
    mask_name: str | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.fill and self.too_long != "split":
            raise OptionError(f"fill: cuts records at the ends of rows, give too_long='split', not {self.too_long!r}")

    def carried(self, schema: Schema) -> Carried:  # noqa: ARG002 - as every strategy has it
        """Describe what batches carry beside fields and lengths."""
        lengths = {"segment_ids": self.length_name, "positions": self.length_name}
        if self.too_long == "split":
            lengths["segment_start"] = "segment_count"
        return Carried(dict.fromkeys(self._made), lengths, context="segment_count", places="segment_ids")

    @property
    def _made(self) -> tuple[str, ...]:
        return _CARRIES if self.too_long == "split" else _CARRIES[:-1]

    def read(self, feed: Feed) -> Batches:
        """Return batches of packed rows; their number depends on the order of the records.

        Raises:
            OptionError: a field cannot be packed, or has the name of something that batches carry; or a record is
                longer than a row.
        """
        group = group_of_steps(self, feed.parser.schema)
        check_names(self, feed.parser.schema, self._made)
        feed = self._fit(feed, group)
        feed.count_empty(group)

        def assemble(serialized: Any, table: Any) -> Any:
            start, size, total, row = (table[:, column] for column in range(4))
            records = parse_records(feed.parser, serialized, total, feed.origin.record)
            values = self._fields(records, start, size, row)
            values[length_name(group)] = values.pop(SEQUENCE_LENGTH)
            return feed.shape(values)

        packed = feed.stream(self._plan, window=PLANNED, group=group)
        return Batches(feed.made(packed, assemble, self.batch_size), -1)

    def shapes(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the shapes of batches (see `Strategy`)."""
        import tensorflow as tf

        group = group_of_steps(self, feed.parser.schema)
        feed = self._fit(feed, group)
        feed.count_empty(group)

        def shape(_: Any, table: Any) -> Any:
            rows = tf.constant(self.batch_size, tf.int64) if self.drop_remainder else table[-1, 3] + 1
            return tf.stack([rows, rows * self.length, tf.reduce_sum(table[:, 1])])[tf.newaxis]

        return feed.stream(self._plan, window=PLANNED, group=group).map(shape)

    def _plan(self, windows: Any, number: Any) -> Any:
        return pack_batches(
            rebatched(windows, PLANNED),  # windows end at every file, and may be as small as `shuffle`
            self.length,
            self.batch_size,
            split=self.too_long == "split",
            fill=self.fill,
            drop_remainder=self.drop_remainder,
            seed=number,
        )

    def _fit(self, feed: Feed, group: str) -> Feed:
        """Return the feed of records that are no longer than a row, or are still to be split."""
        if self.too_long == "split":
            return feed
        option, parse = f"length={self.length}", self.too_long == "error"
        return fit_lengths(feed, group, self.length, self.too_long, option=option, words=TOO_LONG, parse=parse)

    def _fields(self, records: Parsed, start: Any, size: Any, row: Any) -> dict[str, Any]:
        """Return the tensors of a batch.

        Args:
            records: of the segments, in the order of the rows and of the segments in them.
            start: int64, `(n,)`: at which step of its record each segment begins.
            size: int64, `(n,)`: steps of each segment.
            row: int64, `(n,)`: the row of each segment, ascending.
        """
        import tensorflow as tf

        rows = self.batch_size if self.drop_remainder else row[-1] + 1
        counts = tf.math.unsorted_segment_sum(tf.ones_like(row), row, rows)
        used = tf.math.unsorted_segment_sum(size, row, rows)
        first = tf.cumsum(counts, exclusive=True)
        ends = tf.cumsum(size)

        # Of each step of the batch, all rows after one another: its segment, and its position there.
        begins = row * self.length + ends - size - tf.gather(tf.cumsum(used, exclusive=True), row)
        step = tf.range(rows * self.length, dtype=tf.int64)
        segment = tf.searchsorted(begins, step, side="right", out_type=tf.int64) - 1
        inside = step - tf.gather(begins, segment)
        real = inside < tf.gather(size, segment)
        at = inside + tf.gather(start, segment)
        shape = [self.batch_size if self.drop_remainder else -1, self.length]

        def of_steps(values: Any) -> Any:
            return tf.reshape(tf.where(real, values, 0), shape)

        # Of each row: its segments, and the last of the parsed records, which is none, where it has fewer than others.
        slot = tf.range(tf.reduce_max(counts))
        slots = tf.where(slot < counts[:, tf.newaxis], first[:, tf.newaxis] + slot, tf.size(row, tf.int64))

        out: dict[str, Any] = {}
        for name in records.names:
            if name in records.lists:
                steps = records.lists[name]
                index = tf.where(at < tf.gather(steps.sizes, segment), tf.gather(steps.first, segment) + at + 1, 0)
                out[name] = tf.gather(steps.pool, of_steps(index))
            else:
                out[name] = tf.gather(records.context[name], slots)
        out[SEQUENCE_LENGTH] = used
        number = tf.range(tf.size(row, tf.int64)) - tf.gather(first, row) + 1
        made = [of_steps(tf.gather(number, segment)), of_steps(inside), counts]
        if self.too_long == "split":
            made.append(tf.gather(tf.concat([start, [0]], 0), slots))
        return out | dict(zip(self._made, made, strict=True))


def pack_batches(
    windows: Any,
    length: int,
    batch_size: int,
    *,
    split: bool = False,
    fill: bool = False,
    drop_remainder: bool = False,
    seed: Any = None,
) -> Any:
    """Return the batches of rows into which the records of each window, and the leftovers before it, are packed.

    >>> import tensorflow as tf
    >>> lengths = tf.constant([3, 2, 1, 4], tf.int64)
    >>> records = tf.data.Dataset.from_tensor_slices((["aaa", "bb", "c", "dddd"], lengths))
    >>> for serialized, table in pack_batches(records.batch(4), 4, 2):
    ...     print(serialized.numpy().tolist(), table[:, 3].numpy().tolist())
    [b'aaa', b'c', b'dddd'] [0, 0, 1]
    [b'bb'] [0]

    Args:
        windows: a finite `tf.data.Dataset` of `(serialized: tf.string [w], lengths: tf.int64 [w])`, in stream order;
            `w` may differ from window to window, and may be 0. Records of length 0 are left out.
        length: steps of a row.
        batch_size: rows of a batch. The last batch of all may have fewer.
        split: cut records of more than `length` steps; else they are left out.
        fill: cut all records at the ends of rows, which are filled in the order of the stream.
        drop_remainder: leave out that last batch.
        seed: a number, or an int64 scalar such as a function of the epoch: the rows of a window leave in an order drawn
            from it. None: in the order of their first segments.

    Returns:
        A `tf.data.Dataset` of `(serialized: tf.string [n], table: tf.int64 [n, 4])`, a segment to a line: its record;
        and its first step there, its steps, the steps of the whole record, and its row in the batch, ascending. It can
        be saved with `tf.train.Checkpoint(iterator=...)` before any batch.
    """
    import tensorflow as tf

    def step(carried: Any, window: Any) -> Any:
        (old_serialized, old_table, index), (serialized, lengths, last) = carried, window
        steps = tf.reduce_sum(old_table[:, 1])
        record, table = _filling(lengths, length, steps) if fill else _segments(lengths, length, split=split)
        serialized = tf.concat([old_serialized, tf.gather(serialized, record)], 0)
        table = tf.concat([old_table, table], 0)
        number = tf.range(tf.size(serialized, tf.int64))
        finish = tf.zeros_like(last) if drop_remainder else last
        if fill:
            ends = tf.cumsum(table[:, 1])
            place, steps = (ends - 1) // length, tf.reduce_sum(table[:, 1])
            placed = tf.where(finish, -(-steps // length), steps // (length * batch_size) * batch_size)
        else:
            row = best_fit_rows(table[:, 1], length)
            key = None if seed is None else tf.stack([tf.cast(seed, tf.int64), index])
            old = tf.size(old_serialized, tf.int64)
            place, placed = _places(row, table[:, 1], old, batch_size, finish=finish, key=key)
        leaves = place < placed
        now = tf.boolean_mask(number, leaves)
        place = tf.boolean_mask(place, leaves)
        order = tf.argsort(place, stable=True)
        now, place = tf.gather(now, order), tf.gather(place, order)
        later = tf.boolean_mask(number, tf.logical_not(leaves))
        batches = (placed + batch_size - 1) // batch_size
        sizes = tf.math.unsorted_segment_sum(tf.ones_like(place), place // batch_size, batches)
        lines = tf.concat([tf.gather(table, now), (place % batch_size)[:, tf.newaxis]], 1)
        planned = tf.gather(serialized, now), lines, sizes
        return (tf.gather(serialized, later), tf.gather(table, later), index + 1), planned

    def cut(serialized: Any, table: Any, sizes: Any) -> Any:
        # `rebatched` needs no function for each batch. The sizes may be none; the lines end with the last of them.
        return rebatched(one_element((serialized, table)), tf.concat([sizes, [1]], 0))

    nothing = tf.zeros([0], tf.string)
    end = at_end((nothing, tf.zeros([0], tf.int64), True))
    stream = mapped(windows, lambda serialized, lengths: (serialized, lengths, False)).concatenate(end)
    plans = scanned(stream, (nothing, tf.zeros([0, 3], tf.int64), tf.zeros([], tf.int64)), step)
    return flat_mapped(plans, cut)


def _segments(lengths: Any, length: int, *, split: bool) -> tuple[Any, Any]:
    """Return the record of each segment, and a table of first steps, steps, and steps of the record."""
    import tensorflow as tf

    fits = (lengths > 0) & (lengths <= length)
    counts = (lengths + length - 1) // length if split else tf.cast(fits, tf.int64)
    record = tf.repeat(tf.range(tf.size(lengths, tf.int64)), counts)
    total = tf.gather(lengths, record)
    before = tf.gather(tf.cumsum(counts, exclusive=True), record)
    start = (tf.range(tf.size(record, tf.int64)) - before) * length
    return record, tf.stack([start, tf.minimum(total - start, length), total], 1)


def _filling(lengths: Any, length: int, before: Any) -> tuple[Any, Any]:
    """Cut records that are laid end to end at the ends of rows (see `_segments`).

    Args:
        lengths: int64, `(n,)`.
        length: steps of a row.
        before: steps of the rows that wait; their first row begins where a row does.
    """
    import tensorflow as tf

    ends = before + tf.cumsum(lengths)
    begins = ends - lengths
    first = begins // length
    counts = tf.where(lengths > 0, (ends - 1) // length - first + 1, 0)
    record = tf.repeat(tf.range(tf.size(lengths, tf.int64)), counts)
    number = tf.range(tf.size(record, tf.int64)) - tf.gather(tf.cumsum(counts, exclusive=True), record)
    begin, edge = tf.gather(begins, record), (tf.gather(first, record) + number) * length
    start = tf.maximum(edge, begin)
    stop = tf.minimum(edge + length, tf.gather(ends, record))
    return record, tf.stack([start - begin, stop - start, tf.gather(lengths, record)], 1)


def _places(row: Any, sizes: Any, old: Any, batch_size: int, *, finish: Any, key: Any) -> tuple[Any, Any]:
    """Return the place of each segment's row among the rows that leave, and how many rows leave.

    As many leave as fill batches: first those with segments that were left over before, so that none waits for long,
    then the fullest. The places of rows that stay come after theirs.

    Args:
        row: int64, `(n,)`.
        sizes: int64, `(n,)`: steps of each segment.
        old: how many segments, the first ones, were left over before.
        batch_size: rows of a batch.
        finish: bool scalar: all rows leave.
        key: int64, `(2,)`, from which the order of the rows is drawn; None: that of their first segments.
    """
    import tensorflow as tf

    rows = tf.reduce_max(tf.concat([row, [-1]], 0)) + 1
    leaving = tf.where(finish, rows, rows // batch_size * batch_size)
    first = tf.math.unsorted_segment_min(tf.range(tf.size(row, tf.int64)), row, rows)
    used = tf.math.unsorted_segment_sum(sizes, row, rows)
    chosen = tf.argsort(tf.where(first < old, tf.int64.max, used), direction="DESCENDING", stable=True)
    chosen, staying = chosen[:leaving], chosen[leaving:]
    # The algorithm is named so that the order is the same on every device.
    order = tf.gather(first, chosen) if key is None else tf.random.stateless_uniform([leaving], key, alg="philox")
    ranked = tf.concat([tf.gather(chosen, tf.argsort(order, stable=True)), staying], 0)
    return tf.gather(tf.cast(tf.math.invert_permutation(ranked), tf.int64), row), leaving
