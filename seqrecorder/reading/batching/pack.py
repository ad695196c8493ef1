"""`Pack`, batches of rows of fixed length, each row with several sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from seqrecorder.codec.parse import length_name
from seqrecorder.errors import OptionError, check_count
from seqrecorder.reading.batching.bucket import with_end
from seqrecorder.reading.batching.step_slices import groups_of_steps, parse_records
from seqrecorder.reading.batching.strategy import Batches, Carried, Strategy, by_group, fit_lengths, one_of, positive
from seqrecorder.reading.order_and_seeds import JointLength
from seqrecorder.reading.tfdata_ops import flat_mapped, one_element, rebatched, scanned

if TYPE_CHECKING:
    from seqrecorder.reading.batching.step_slices import Parsed
    from seqrecorder.reading.batching.strategy import Feed
    from seqrecorder.schema.schema import Schema


_CLASS = 16
"""Divisor that sets the classes of lengths: those of a class differ by at most 1/16; up to 31, each has its own."""


def length_classes(length: int) -> list[int]:
    """Divide the lengths up to `length` into classes.

    The result is the smallest length of each class, in ascending order.

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
    """Assign sequences to few rows of at most `length` steps, by best-fit decreasing over classes of lengths.

    Classes of similar lengths are assigned from the longest to the shortest, and rows with the least free space are
    filled first. To decide how many sequences of a class fit into a row, all are treated as long as the longest of the
    class. Short lengths have classes of their own, so for short sequences the result equals best-fit decreasing. For
    long ones, rows are nearly as full, and the loop runs over few classes instead of many sequences.

    >>> import tensorflow as tf
    >>> best_fit_rows(tf.constant([3, 9, 6, 1, 1], tf.int64), 10).numpy().tolist()
    [1, 0, 1, 0, 1]

    Args:
        sizes: int64, `(n,)`: steps of each sequence, from 1 to `length`.
        length: steps of a row.

    Returns:
        Row of each sequence, int64, `(n,)`, numbered from 0 without gaps.
    """
    import tensorflow as tf

    order = tf.argsort(sizes, direction="DESCENDING", stable=True)
    ordered = tf.gather(sizes, order)
    kinds = tf.searchsorted(tf.constant(length_classes(length), tf.int64), ordered, side="right")
    counts = tf.unique_with_counts(kinds, tf.int64).count
    starts = tf.cumsum(counts, exclusive=True)
    longest = tf.gather(ordered, starts)
    # An extra empty class: the loop must run once, or its results have no shape.
    counts, starts = tf.concat([counts, [0]], 0), tf.concat([starts, [tf.size(sizes, tf.int64)]], 0)
    longest = tf.concat([longest, [length]], 0)
    before = tf.concat([[0], tf.cumsum(ordered)], 0)
    # All rows but one are filled to more than 8/17 on average, because a new row starts only if no other has room for a
    # sequence that is 1/16 longer than the next one.
    rows = tf.minimum(tf.size(sizes, tf.int64), before[-1] * 17 // (8 * length) + 1) + 1

    def fill_class(kind: Any, keys: Any, all_keys: Any, all_ends: Any) -> Any:
        # A key combines the free space of a row with its number; in sorted order the fullest rows come first.
        room = keys // (longest[kind] * rows)
        ends = starts[kind] + tf.minimum(tf.cumsum(room), counts[kind])
        filled = tf.gather(before, tf.concat([starts[kind : kind + 1], ends], 0))
        negative = (filled[1:] - filled[:-1]) * rows - keys
        # `tf.sort` would add three operations.
        ascending = -tf.math.top_k(negative, tf.cast(rows, tf.int32)).values
        return kind + 1, ascending, all_keys.write(kind, keys), all_ends.write(kind, ends)

    classes = tf.size(counts)
    empty = length * rows + tf.range(rows)
    arrays = [tf.TensorArray(tf.int64, classes, element_shape=[None]) for _ in range(2)]
    _, _, all_keys, all_ends = tf.while_loop(lambda kind, *_: kind < classes, fill_class, (0, empty, *arrays))
    # The ends never decrease, so a binary search finds the row of each sequence.
    ends = tf.reshape(all_ends.stack(), [-1])
    at = tf.searchsorted(ends, tf.range(tf.size(sizes, tf.int64)), side="right")
    placed = tf.gather(tf.reshape(all_keys.stack(), [-1]) % rows, at)
    return tf.scatter_nd(tf.cast(order, tf.int64)[:, tf.newaxis], placed, tf.shape(sizes, tf.int64))


def first_fit_rows(sizes: Any, lengths: Sequence[int]) -> Any:
    """Assign segments, each of several sequences, to few rows, by first-fit in the best of three orders.

    Each segment goes to the first row with room for all of its sequences. The share of a sequence is its length divided
    by the length of its row. Three orders of segments are tried: stream order, descending by largest share, and
    descending by sum of shares. The one that needs the fewest rows is used, so there are never more rows than with
    plain first-fit.

    >>> import tensorflow as tf
    >>> first_fit_rows(tf.constant([[4, 3], [5, 2], [9, 9], [1, 1]], tf.int64), [10, 10]).numpy().tolist()
    [0, 0, 1, 0]

    Args:
        sizes: int64, `(n, groups)`: steps of each segment in each group: at most the length of the row, and not 0 in
            all groups.
        lengths: steps of a row, for each group.

    Returns:
        Row of each segment, int64, `(n,)`, numbered from 0 without gaps.
    """
    import tensorflow as tf

    shares = tf.cast(sizes, tf.float64) / tf.constant(lengths, tf.float64)
    keys = tf.stack([tf.zeros_like(shares[:, 0]), tf.reduce_max(shares, 1), tf.reduce_sum(shares, 1)])
    orders = tf.argsort(keys, direction="DESCENDING", stable=True)
    ordered = tf.transpose(tf.gather(tf.cast(sizes, tf.int32), orders), [1, 2, 0])
    # The shares in two consecutive rows add up to more than 1, or the segments of the second would be in the first.
    rows = tf.cast(2 * tf.reduce_sum(shares), tf.int32) + 2

    def put_first(number: Any, free: Any, placed: Any) -> Any:
        size = ordered[number][..., tf.newaxis]
        row = tf.argmax(tf.cast(tf.reduce_all(free >= size, 0), tf.uint8), 1)
        return number + 1, free - tf.one_hot(row, rows, dtype=tf.int32) * size, placed.write(number, row)

    count = tf.size(orders[0])
    free = tf.tile(tf.constant(lengths)[:, tf.newaxis, tf.newaxis], [1, keys.shape[0], rows])
    placed = tf.TensorArray(tf.int64, count, element_shape=[keys.shape[0]])
    *_, placed = tf.while_loop(lambda number, *_: number < count, put_first, (0, free, placed), parallel_iterations=1)
    by_order = tf.transpose(placed.stack())
    best = tf.argmin(tf.reduce_max(by_order, 1))
    return tf.scatter_nd(orders[best][:, tf.newaxis], by_order[best], tf.shape(orders[0]))


TOO_LONG = ("error", "drop", "cut_end", "split")

PLANNED = 1024
"""Number of records whose rows are planned together; more would hardly fill rows better, and all wait in memory."""


@attrs.frozen
class Pack(Strategy):
    """Batches of rows of `length` steps, each with several concatenated sequences.

    Use it for transformers and other models that can restrict attention to the steps of one segment. Shapes are fixed,
    and hardly any steps are padding.

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

    Feature lists of different lengths (`align=`), such as a sentence and its translation, stay together in one row:
    segment n of one list belongs to segment n of the others.

    >>> @sr.record
    ... class Pair:
    ...     source: np.ndarray = sr.feature_list("int64", align="source")
    ...     target: np.ndarray = sr.feature_list("int64", align="target")
    >>> pairs = tempfile.mkdtemp()
    >>> _ = sr.write([Pair([1, 2, 3], [4]), Pair([5], [6, 7])], pairs)
    >>> [batch] = sr.read(pairs, batch=Pack({"source": 5, "target": 3}, 2))
    >>> for name in ("source", "segment_ids", "target", "target_segment_ids"):
    ...     print(name, batch[name].numpy().tolist())
    source [[1, 2, 3, 5, 0]]
    segment_ids [[1, 1, 1, 2, 0]]
    target [[4, 6, 7]]
    target_segment_ids [[1, 2, 2]]

    Feature lists are `(B, length, ...)`, padded at the end of a row with zeros or empty text. Batches also contain
    these int64 tensors:

    - `segment_ids` `(B, length)`: 1 for the steps of the first sequence of a row, 2 for the second and so on; 0 for
      padding.
    - `positions` `(B, length)`: position of a step in its segment, counting from 0; 0 for padding.
    - `sequence_length` `(B,)`: number of real steps in a row.
    - `segment_count` `(B,)`: number of segments in a row.
    - `segment_start` `(B, S)`, only with `too_long="split"`: first step of a segment in its record.
    - For each alignment group except the first: `<group>_segment_ids`, `<group>_positions` and `<group>_length`. A
      group with `per_step=` has only its length, since its segments are those of the group that it follows:
      `tf.repeat(segment_ids, per_step, axis=1)`.

    Context fields have one value per segment: `(B, S, ...)`, padded, where S is the largest number of segments in a row
    of the batch. Records with no steps in any list are left out.

    Rows are planned for 1,024 records at a time, by best-fit decreasing (see `best_fit_rows`) or, for lists of
    different lengths, by first-fit in the best of three orders. If the emptiest rows do not fill a batch, they are
    planned again with the next records. Within a row, segments keep the order of the stream. Rows are in the order of
    their first segments; if records are shuffled, the rows planned together are in random order.

    If lengths vary widely, nearly all steps are real; `seqrecorder.plan` gives the figures for your dataset. The number
    of batches depends on the order of the records, so the cardinality is unknown.

    Attributes:
        length: number of steps in a row, or a mapping from field to that number, which applies to the whole alignment
            group of the field.
        batch_size: rows per batch.
        too_long: treatment of records with more than `length` steps: `"error"` (before anything is read), `"drop"`
            (leave them out), `"cut_end"` (cut off their last steps) or `"split"` (cut them into segments of `length`
            steps and a remainder). After a split, each segment has the context of its record, and the record is parsed
            once per segment. Lists of different lengths cannot be split. If the lengths are stored, a warning reports
            how many records are left out or cut.
        fill: whether to concatenate all records and cut the result into rows, as is usual for language models; requires
            `too_long="split"`. Rows keep the order of the stream, and all rows are full except the last of an epoch. A
            record that is cut continues in the next row as a new segment.
        drop_remainder: whether to drop the last batch of an epoch if it is smaller, including all its sequences.
        length_name: name of the tensor with the number of real steps in each row.
        mask_name: name of the mask of real steps, bool `(B, length)`; None for no mask.
        seed_name: name of the tensor with a random seed per segment (the seed of its record), int32 `(B, S, 2)`; see
            `Pad`.
    """

    length: int | Mapping[str, int]
    batch_size: int = attrs.field(default=32, validator=positive)
    too_long: Literal["error", "drop", "cut_end", "split"] = attrs.field(
        default="error", validator=one_of(*TOO_LONG), kw_only=True
    )
    fill: bool = attrs.field(default=False, kw_only=True)
    drop_remainder: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for steps in self.length.values() if isinstance(self.length, Mapping) else [self.length]:
            check_count("length", steps)
        if self.fill and self.too_long != "split":
            raise OptionError(f"fill: cuts records at the ends of rows, give too_long='split', not {self.too_long!r}")

    def carried(self, schema: Schema) -> Carried:
        """Describe the tensors that batches contain in addition to fields and lengths."""
        carried_names: list[str] = []
        places, lengths = dict[str, str](), dict[str, str]()
        for index, group in enumerate(schema.groups):
            followed, _ = schema.rates.get(group, (group, 1))
            own = _of_steps(followed, schema.in_one_rate().groups.index(followed))
            count = length_name(group) if index else self.length_name
            carried_names += own
            places[count] = own[0]
            lengths |= dict.fromkeys(own if group == followed else (), count)
        carried_names.append("segment_count")
        if self.too_long == "split":
            carried_names.append("segment_start")
            lengths["segment_start"] = "segment_count"
        return Carried(dict.fromkeys(carried_names), lengths, context="segment_count", places=places)

    def read(self, feed: Feed) -> Batches:
        """Read batches of packed rows.

        Raises:
            OptionError: a field cannot be packed, or a record is longer than a row.
        """
        lengths = self._lengths(feed)
        feed = self._fit(feed, lengths)

        def assemble(serialized: Any, table: Any, row: Any) -> Any:
            records = parse_records(feed.parser, serialized, table[:, 2], feed.origin.record)
            return feed.shape(self._fields(feed.parser.schema, records, lengths, table, row))

        return Batches(feed.map_batches(self._packed(feed, lengths), assemble, self.batch_size), -1)

    def shapes(self, feed: Feed) -> Any:
        """Compute the shapes of batches (see `Strategy`), counting the steps of all groups."""
        import tensorflow as tf

        lengths = self._lengths(feed)
        steps = sum(lengths.values())

        def shape(_: Any, table: Any, row: Any) -> Any:
            rows = tf.constant(self.batch_size, tf.int64) if self.drop_remainder else row[-1] + 1
            return tf.stack([rows, rows * steps, tf.reduce_sum(table[:, 1])])[tf.newaxis]

        return self._packed(self._fit(feed, lengths), lengths).map(shape)

    def _packed(self, feed: Feed, lengths: Mapping[str, int]) -> Any:
        group = JointLength(tuple(lengths), "each")
        feed.count_empty(JointLength(group.groups, "sum"))

        def plan(windows: Any, number: Any) -> Any:
            return pack_batches(
                rebatched(windows, PLANNED),  # incoming windows may be small: files and `shuffle` limit them
                tuple(lengths.values()),
                self.batch_size,
                split=self.too_long == "split",
                fill=self.fill,
                drop_remainder=self.drop_remainder,
                seed=number,
            )

        return feed.stream(plan, window=PLANNED, group=group)

    def _lengths(self, feed: Feed) -> dict[str, int]:
        """Return the number of steps in a row for each alignment group.

        Raises:
            OptionError: a field cannot be packed, or `length` does not name it.
        """
        schema = feed.parser.schema
        groups = groups_of_steps(self, schema, several=True)
        if len(groups) > 1 and self.too_long == "split":
            raise OptionError(
                f"too_long='split': the lists of {schema.name} have lengths of their own ({', '.join(groups)}), whose "
                "pieces would not belong together; pass 'cut_end' or 'drop', or keep the lists of one, by fields= or "
                "by `.map()` before batch"
            )
        if not isinstance(self.length, Mapping):
            return dict.fromkeys(groups, self.length)
        lengths = by_group("length", self.length, feed.origin.schema)
        for field in schema.fields:
            if field.is_list and field.group not in lengths:
                raise OptionError(f"length: expected the steps of a row for {field.name!r} too, got {self.length!r}")
        return {group: lengths[group] for group in groups}

    def _fit(self, feed: Feed, lengths: Mapping[str, int]) -> Feed:
        """Apply `too_long` to the records that do not fit into a row.

        The result is the feed of the records that fit. With `too_long="split"`, the feed stays as it is, because the
        records are split later.
        """
        if self.too_long == "split":
            return feed
        parse = self.too_long == "error"
        words = [word for word in TOO_LONG if word != "split" or len(lengths) == 1]
        for group, most in lengths.items():
            option = f"length={self.length}"
            feed = fit_lengths(feed, group, most, self.too_long, option=option, words=words, parse=parse)
        return feed

    def _fields(
        self, schema: Schema, records: Parsed, lengths: Mapping[str, int], table: Any, row: Any
    ) -> dict[str, Any]:
        """Build the tensors of a batch.

        Args:
            schema: fields to build.
            records: parsed record of each segment, ordered by row and then by position in the row.
            lengths: steps of a row, for each group.
            table: for each segment, its first step, its number of steps and the length of its record, int64
                `(n, 3, groups)`.
            row: int64, `(n,)`: row of each segment, ascending.
        """
        import tensorflow as tf

        rows = self.batch_size if self.drop_remainder else row[-1] + 1
        counts = tf.math.unsorted_segment_sum(tf.ones_like(row), row, rows)
        first = tf.cumsum(counts, exclusive=True)
        number = tf.range(tf.size(row, tf.int64)) - tf.gather(first, row) + 1

        # The segments of each row; missing ones refer to the last parsed record, which is empty.
        slot = tf.range(tf.reduce_max(counts))
        slots = tf.where(slot < counts[:, tf.newaxis], first[:, tf.newaxis] + slot, tf.size(row, tf.int64))

        out = {name: tf.gather(records.context[name], slots) for name in records.context}
        carried: dict[str, Any] = {}
        for column, (group, length) in enumerate(lengths.items()):
            start, size = table[:, 0, column], table[:, 1, column]
            used = tf.math.unsorted_segment_sum(size, row, rows)
            # The segment of each step of the concatenated rows, and the position of the step in it.
            begins = row * length + tf.cumsum(size, exclusive=True) - tf.gather(tf.cumsum(used, exclusive=True), row)
            step = tf.range(rows * length, dtype=tf.int64)
            segment = tf.searchsorted(begins, step, side="right", out_type=tf.int64) - 1
            inside = step - tf.gather(begins, segment)
            real = inside < tf.gather(size, segment)
            at = inside + tf.gather(start, segment)
            shape = [self.batch_size if self.drop_remainder else -1, length]

            def of_steps(values: Any, real: Any = real, shape: Any = shape) -> Any:
                return tf.reshape(tf.where(real, values, 0), shape)

            for name in [field.name for field in schema.fields if field.is_list and field.group == group]:
                steps = records.lists[name]
                index = tf.where(at < tf.gather(steps.sizes, segment), tf.gather(steps.first, segment) + at + 1, 0)
                out[name] = tf.gather(steps.pool, of_steps(index))
            carried[length_name(group)] = used
            values = [of_steps(tf.gather(number, segment)), of_steps(inside)]
            carried |= zip(_of_steps(group, column), values, strict=True)
        carried["segment_count"] = counts
        if self.too_long == "split":
            carried["segment_start"] = tf.gather(tf.concat([table[:, 0, 0], [0]], 0), slots)
        return {name: out[name] for name in records.names} | carried


def _of_steps(group: str, index: int) -> tuple[str, str]:
    """Return the names of the segment ids and the positions of a group."""
    prefix = f"{group}_" if index else ""
    return f"{prefix}segment_ids", f"{prefix}positions"


def pack_batches(
    windows: Any,
    lengths: Sequence[int],
    batch_size: int,
    *,
    split: bool = False,
    fill: bool = False,
    drop_remainder: bool = False,
    seed: Any = None,
) -> Any:
    """Pack the records of each window, and the leftovers of the previous window, into batches of rows.

    >>> import tensorflow as tf
    >>> lengths = tf.constant([[3], [2], [1], [4]], tf.int64)
    >>> records = tf.data.Dataset.from_tensor_slices((["aaa", "bb", "c", "dddd"], lengths))
    >>> for serialized, _, row in pack_batches(records.batch(4), [4], 2):
    ...     print(serialized.numpy().tolist(), row.numpy().tolist())
    [b'aaa', b'c', b'dddd'] [0, 0, 1]
    [b'bb'] [0]

    Args:
        windows: finite `tf.data.Dataset` of `(serialized: tf.string [w], lengths: tf.int64 [w, groups])`, in stream
            order. `w` may vary, and may be 0. Records without steps are left out.
        lengths: steps of a row, for each group.
        batch_size: rows per batch. The very last batch may have fewer.
        split: whether to split records that are longer than a row; False leaves them out.
        fill: whether to fill rows in the order of the stream, and cut records at the ends of rows; for one group only.
        drop_remainder: whether to drop the very last batch if it is smaller.
        seed: int or int64 scalar that determines the random order of the rows of a window; None for the order of their
            first segments.

    Returns:
        A `tf.data.Dataset` of `(serialized: tf.string [n], table: tf.int64 [n, 3, groups], row: tf.int64 [n])` with one
        entry per segment. `serialized` is the record of the segment. `table` contains, for each group, the first step
        and the number of steps of the segment, and the length of the record. `row` is the row of the segment in the
        batch, ascending. The iterator can be saved with `tf.train.Checkpoint(iterator=...)` before any batch.
    """
    import tensorflow as tf

    def step(carried: Any, window: Any) -> Any:
        (old_serialized, old_table, index), (serialized, totals, last) = carried, window
        before = tf.reduce_sum(old_table[:, 1])
        record, table = _filling(totals[:, 0], length, before) if fill else _segments(totals, lengths, split=split)
        serialized = tf.concat([old_serialized, tf.gather(serialized, record)], 0)
        table = tf.concat([old_table, table], 0)
        number = tf.range(tf.size(serialized, tf.int64))
        finish = tf.zeros_like(last) if drop_remainder else last
        if fill:
            slot, steps = (tf.cumsum(table[:, 1, 0]) - 1) // length, tf.reduce_sum(table[:, 1])
            placed = tf.where(finish, -(-steps // length), steps // (length * batch_size) * batch_size)
        else:
            sizes = table[:, 1]
            row = best_fit_rows(sizes[:, 0], length) if len(lengths) == 1 else first_fit_rows(sizes, lengths)
            key = None if seed is None else tf.stack([tf.cast(seed, tf.int64), index])
            old = tf.size(old_serialized, tf.int64)
            slot, placed = _places(row, tf.reduce_sum(sizes, 1), old, batch_size, finish=finish, key=key)
        leaves = slot < placed
        now = tf.boolean_mask(number, leaves)
        slot = tf.boolean_mask(slot, leaves)
        order = tf.argsort(slot, stable=True)
        now, slot = tf.gather(now, order), tf.gather(slot, order)
        later = tf.boolean_mask(number, tf.logical_not(leaves))
        batches = (placed + batch_size - 1) // batch_size
        rows = tf.math.unsorted_segment_sum(tf.ones_like(slot), slot // batch_size, batches)
        planned = tf.gather(serialized, now), tf.gather(table, now), slot % batch_size, rows
        return (tf.gather(serialized, later), tf.gather(table, later), index + 1), planned

    def cut(serialized: Any, table: Any, row: Any, sizes: Any) -> Any:
        # `rebatched` calls no function per batch. A 1 is appended because `sizes` may be empty; it is never reached.
        return rebatched(one_element((serialized, table, row)), tf.concat([sizes, [1]], 0))

    length, index = lengths[0], tf.zeros([], tf.int64)
    start = tf.zeros([0], tf.string), tf.zeros([0, 3, len(lengths)], tf.int64), index
    return flat_mapped(scanned(with_end(windows), start, step), cut)


def _segments(totals: Any, lengths: Sequence[int], *, split: bool) -> tuple[Any, Any]:
    """Divide records into segments.

    The result is the record to which each segment belongs, and the table for `pack_batches`.
    """
    import tensorflow as tf

    most = tf.constant(lengths, tf.int64)
    fits = tf.reduce_any(totals > 0, 1) & tf.reduce_all(totals <= most, 1)
    counts = (totals[:, 0] + most[0] - 1) // most[0] if split else tf.cast(fits, tf.int64)
    record = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    total = tf.gather(totals, record)
    before = tf.gather(tf.cumsum(counts, exclusive=True), record)
    start = (tf.range(tf.size(record, tf.int64)) - before)[:, tf.newaxis] * most
    return record, tf.stack([start, tf.minimum(total - start, most), total], 1)


def _filling(lengths: Any, length: int, before: Any) -> tuple[Any, Any]:
    """Cut concatenated records at the ends of rows.

    The result is the record to which each segment belongs, and the table for `pack_batches`.

    Args:
        lengths: int64, `(n,)`: steps of each record.
        length: steps of a row.
        before: number of leftover steps, which fill the start of the first row.
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
    return record, tf.stack([start - begin, stop - start, tf.gather(lengths, record)], 1)[..., tf.newaxis]


def _places(row: Any, sizes: Any, old: Any, batch_size: int, *, finish: Any, key: Any) -> tuple[Any, Any]:
    """Rank the rows in the order in which they are emitted.

    The result is the rank of the row of each segment, and the number of rows to emit now.

    Until the end of the epoch, only whole batches are emitted. Rows with leftover segments are chosen first, so that no
    segment waits for long, and then the fullest rows. The chosen rows have the lowest ranks, in the order that `key`
    determines.

    Args:
        row: int64, `(n,)`: row of each segment.
        sizes: int64, `(n,)`: steps of each segment.
        old: number of leftover segments, which come first.
        batch_size: rows per batch.
        finish: bool scalar, whether all rows are emitted.
        key: int64, `(2,)`, seed of the random order of the rows; None for the order of their first segments.
    """
    import tensorflow as tf

    rows = tf.reduce_max(tf.concat([row, [-1]], 0)) + 1
    leaving = tf.where(finish, rows, rows // batch_size * batch_size)
    first = tf.math.unsorted_segment_min(tf.range(tf.size(row, tf.int64)), row, rows)
    used = tf.math.unsorted_segment_sum(sizes, row, rows)
    chosen = tf.argsort(tf.where(first < old, tf.int64.max, used), direction="DESCENDING", stable=True)
    chosen, staying = chosen[:leaving], chosen[leaving:]
    # A fixed algorithm gives the same order on every device.
    order = tf.gather(first, chosen) if key is None else tf.random.stateless_uniform([leaving], key, alg="philox")
    ranked = tf.concat([tf.gather(chosen, tf.argsort(order, stable=True)), staying], 0)
    return tf.gather(tf.cast(tf.math.invert_permutation(ranked), tf.int64), row), leaving
