"""`Bucket`, and the planning of batches from the lengths of records, which other strategies share."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import checked, count_up_to, index_range, joined, longest_of, rows_at, to_longest
from seqrecorder.codec.parse import length_name
from seqrecorder.errors import OptionError, check_count
from seqrecorder.reading.batching.strategy import Batches, PaddedBatches, not_empty, one_of, positive, shape_of
from seqrecorder.reading.batching.warm_up import largest_batch
from seqrecorder.reading.order_and_seeds import (
    LARGE,
    LENGTH_OF,
    JointLength,
    count_lengths,
    groups_of,
    permutation,
    record_length,
    shuffle_window,
)
from seqrecorder.reading.tfdata_ops import beside, flat_mapped, mapped, one_element, rebatched, scanned, undealt

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import ArrayLike, NDArray

    from seqrecorder.codec.graph_ops import Padding
    from seqrecorder.reading.batching.strategy import Carried, Feed
    from seqrecorder.reading.order_and_seeds import LengthCounts, LengthOf, RecordLength
    from seqrecorder.schema.schema import Schema

    Plan = Callable[[Any, "Turn"], tuple[Any, Any]]


PLANNED_RECORDS = 2048
"""Number of records to plan at a time, unless a strategy sorts larger windows."""


@attrs.frozen(kw_only=True)
class LengthPlan(ABC):
    """Plan of a strategy for records of known lengths.

    A plan determines the batches, their padding, and the number of batches.

    Attributes:
        in_buckets: whether each batch belongs to one bucket; if so, `apply` permutes the windows of shuffled records.
        rows: maximum or mean number of records in a batch.
        sorted_window: number of records to sort by length at a time; 0 for no sorting.
    """

    in_buckets: ClassVar[bool]

    rows: int
    sorted_window: int

    @property
    def window(self) -> int:
        """Number of records to plan at a time."""
        # On average, half a batch per bucket waits for the next window, and is planned again.
        return self.sorted_window or max(PLANNED_RECORDS, 4 * self.rows)

    def turns(self, windows: Any, number: Any) -> Any:
        """Prepare the windows of an epoch for `apply`.

        Args:
            windows: `tf.data.Dataset` of `(serialized: string [w], lengths: int64 [w])`.
            number: int64 scalar that determines the order of the epoch; None if records are not shuffled.
        """
        # Incoming windows may be too small: they end at every file, and may be as small as `shuffle`.
        return in_turns(rebatched(windows, self.sorted_window) if self.sorted_window else windows, number)

    @abstractmethod
    def apply(self, turns: Any, *, shuffle: int) -> Any:
        """Divide the records into batches.

        The result is a `tf.data.Dataset` of `PlannedBatch`.

        Args:
            turns: windows of all epochs, prepared by `turns` and concatenated.
            shuffle: size of the shuffle window, in records; 1 for records that are shuffled already, 0 for no
                shuffling.
        """

    def batches(self, lengths: LengthCounts) -> int:  # noqa: ARG002 - subclasses use it
        """Count the batches of an epoch with records of these lengths.

        The result is -1 if the number of batches depends on the order of the records.
        """
        return -1

    @abstractmethod
    def largest(self, lengths: LengthCounts) -> tuple[int, int]:
        """Find the largest possible batch.

        The result is its number of rows, and the length of its longest record.
        """

    def width(self, lengths: Any) -> Any:
        """Return the padded length of a batch, before it is rounded up to a multiple.

        `lengths` contains the lengths of the records in the batch.
        """
        return longest_of(lengths)

    @property
    def widths(self) -> Sequence[int]:
        """Possible results of `width`, if they are known and few.

        Otherwise, the sequence is empty.
        """
        return ()


def _length_field(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@attrs.frozen(kw_only=True)
class BatchesByLength(PaddedBatches):
    """Base class of strategies that batch records of similar length; `Bucket` describes the attributes."""

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
        """Plan the batches of a feed.

        The result is the plan, the feed of the records that fit, and their lengths. The lengths are None if they are
        not stored and the plan does not need them.

        Raises:
            OptionError: a record is too long.
        """

    def carried(self, schema: Schema) -> Carried:
        """Describe the tensors that batches contain in addition to fields and lengths."""
        return attrs.evolve(super().carried(schema), weighted=self.warm_up is not None)

    def read(self, feed: Feed) -> Batches:
        """Read batches of records of similar length.

        Raises:
            OptionError: options do not fit the fields, or a record is too long.
        """
        import tensorflow as tf

        group = self._record_length(feed)
        plan, feed, lengths = self.resolve(feed, group)
        padding = self._padding(feed, group, plan)
        names = {name: length_name(name) for name in groups_of(group)}

        def parse(serialized: Any, planned: Any) -> dict[str, Any]:
            if self.empty == "error":
                planned = not_empty(planned, feed, group)
            values = feed.parser.parse_batch(serialized, padding)
            # Without a parsed field of the group, the planned lengths are the only ones available.
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
        batches = feed.map_batches(
            planned, lambda batch: feed.shape(parse(batch.serialized(), batch.lengths)), plan.rows, width=width
        )
        count = -1 if lengths is None else plan.batches(lengths)
        if self.warm_up is None or lengths is None or not lengths.records:
            return Batches(batches, count)
        rows, width = plan.largest(lengths)
        widths = {g: int(padding.width(g, tf.constant([width], tf.int64))) for g in feed.parser.schema.groups}
        return Batches(largest_batch(feed, parse, rows, widths).concatenate(batches), count, before=1)

    def shapes(self, feed: Feed) -> Any:
        """Compute the shapes of batches (see `Strategy`)."""
        group = self._record_length(feed)
        plan, feed, _ = self.resolve(feed, group)
        width = self._padding(feed, group, plan).width
        planned = self._planned(feed, plan, group)
        return planned.map(lambda batch: shape_of(batch.lengths, width(groups_of(group)[0], batch.lengths)))

    def _record_length(self, feed: Feed) -> RecordLength:
        return record_length(feed.origin.schema, self.length_field, self.length_of)

    def _planned(self, feed: Feed, plan: LengthPlan, group: RecordLength) -> Any:
        """Divide the records into batches.

        The result is a `tf.data.Dataset` of `PlannedBatch`.
        """
        turns = feed.turns(plan.turns, window=plan.window, group=group, permute=not plan.in_buckets)
        return plan.apply(turns, shuffle=feed.options.shuffle)

    def _padding(self, feed: Feed, group: RecordLength, plan: LengthPlan) -> Padding:
        # A boundary of a sum of lengths is not the padded length of any list.
        planned = () if isinstance(group, JointLength) and group.of == "sum" else groups_of(group)
        widths = plan.widths
        fixed = dict.fromkeys(planned, widths[0]) if len(widths) == 1 else {}
        return self.padding(feed, lambda g, n: plan.width(n) if g in planned else to_longest(g, n), fixed)


_INT64_MAX = int(np.iinfo(np.int64).max)


def optimal_boundaries(lengths: ArrayLike, counts: ArrayLike, buckets: int) -> list[int]:
    """Compute the boundaries of at most `buckets` buckets that need the fewest padded steps.

    >>> optimal_boundaries([2, 3, 50, 60], [100, 100, 10, 10], buckets=2)
    [4]
    >>> optimal_boundaries([2, 3, 50, 60], [100, 100, 10, 10], buckets=3)
    [3, 4]

    Bucket `i` contains the lengths `boundaries[i - 1] <= length < boundaries[i]`, as in
    `tf.data.Dataset.bucket_by_sequence_length`. Each boundary is one more than the largest length in its bucket, so
    `pad_to_bucket_boundary` adds no needless steps.

    Args:
        lengths: int64, `(n,)`, in steps, not negative. A length may be repeated; its counts are added.
        counts: int64, `(n,)`, number of records of each length. Lengths with a count of 0 are ignored.
        buckets: maximum number of buckets, 1 or more. There are never more buckets than distinct lengths.

    Returns:
        Ascending boundaries, one fewer than buckets.
    """
    distinct, weights = _histogram(lengths, counts)
    n = len(distinct)
    if n <= buckets:
        return [int(length) + 1 for length in distinct[:-1]]

    before = np.concatenate([weights[:1] * 0, np.cumsum(weights)])  # number of records shorter than distinct[i]
    # best[j]: fewest padded steps for the j shortest lengths, with one bucket at first and one more in each round.
    best = before[1:] * distinct
    best = np.concatenate([best[:1] * 0, best])
    cuts = []
    for classes in range(2, buckets + 1):
        best, cut = _add_class(best, before, distinct, classes)
        cuts.append(cut)

    boundaries = []
    end = n
    for cut in reversed(cuts):
        end = int(cut[end])
        boundaries.append(int(distinct[end - 1]) + 1)
    return boundaries[::-1]


def quantile_boundaries(lengths: ArrayLike, counts: ArrayLike, buckets: int) -> list[int]:
    """Compute the boundaries of at most `buckets` buckets with about equal numbers of records.

    >>> quantile_boundaries([2, 3, 50, 60], [100, 100, 10, 10], buckets=2)
    [4]

    Args:
        lengths: int64, `(n,)`, in steps; see `optimal_boundaries`.
        counts: int64, `(n,)`, number of records of each length.
        buckets: maximum number of buckets, 1 or more.
    """
    distinct, weights = _histogram(lengths, counts)
    if not len(distinct):
        return []
    upto = np.cumsum(weights)
    wanted = [upto[-1] * share // buckets for share in range(1, buckets)]
    ends = np.searchsorted(upto, wanted)
    # A bucket ends with the length at its quantile; the last length always ends the last bucket.
    return sorted({int(distinct[end]) + 1 for end in ends.tolist() if end < len(distinct) - 1})


def _histogram(lengths: ArrayLike, counts: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct lengths and the number of records of each, in a dtype that cannot overflow."""
    flat, weights = np.asarray(lengths, np.int64), np.asarray(counts, np.int64)
    distinct, inverse = np.unique(flat[weights > 0], return_inverse=True)
    total = sum(weights.tolist())
    # There are at most (records x largest length) padded steps; if that exceeds int64, use Python integers.
    exact = np.int64 if total * max(1, int(flat.max(initial=0))) <= _INT64_MAX else object
    summed = np.zeros(len(distinct), exact)
    np.add.at(summed, inverse, weights[weights > 0].astype(exact))
    return distinct.astype(exact), summed


def _add_class(
    best: NDArray[Any], before: NDArray[Any], distinct: NDArray[Any], classes: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Add a bucket to the best partitions.

    For each number of shortest lengths, the result is the cost of the new partition, and the index at which its last
    bucket starts.

    `best[i]` is the cost, in padded steps, of the best partition of the `i` shortest lengths. A further bucket with the
    lengths from `i` to `j - 1` costs `(before[j] - before[i]) * distinct[j - 1]`. This cost satisfies the quadrangle
    inequality, so the best `i` does not decrease with `j` (F. F. Yao, "Efficient dynamic programming using quadrangle
    inequalities", 1980). Therefore, every second `j` is solved first. For each `j` in between, the solutions of its two
    neighbours then limit the range to search. Array operations are used, and there are O(n log n) comparisons.
    """
    n = len(distinct)
    cost = best.copy()
    cut = np.full(n + 2, classes - 1, np.int64)
    cut[n + 1] = n - 1  # bound for the rows after the last solved one
    step = 1 << n.bit_length()
    while step:
        # Solve the odd multiples of `step`. The even ones are solved already, and bound the search.
        rows = np.arange(step, n + 1, 2 * step)
        low = cut[rows - step]
        high = np.minimum(cut[np.minimum(rows + step, n + 1)], rows - 1)
        keep = rows >= classes  # buckets cannot outnumber lengths
        rows, low, high = rows[keep], low[keep], high[keep]
        step >>= 1
        if not rows.size:
            continue
        width = high - low + 1
        first = np.cumsum(width) - width
        row = np.repeat(np.arange(rows.size), width)
        start = np.arange(row.size) - first[row] + low[row]
        end = rows[row]
        steps = best[start] + (before[end] - before[start]) * distinct[end - 1]
        cost[rows] = np.minimum.reduceat(steps, first)
        # Of equal minima, take the leftmost: only its start is certain never to decrease with `j`.
        at = np.flatnonzero(steps == cost[rows][row])
        hit, leftmost = np.unique(row[at], return_index=True)
        cut[rows[hit]] = start[at[leftmost]]
    return cost, cut[: n + 1]


_SORTED_BATCHES = 64
"""Minimum number of batches in a window that is sorted by length; a larger shuffle window raises it."""


@attrs.frozen(kw_only=True)
class BucketPlan(LengthPlan):
    """Plan of a `Bucket` for records of known lengths.

    Attributes:
        options: the strategy.
        boundaries: boundaries of the buckets.
        last: length of the longest record; None if unknown.
        sizes: number of records per batch in each bucket.
        one_by_one: whether to bucket one record at a time, because copying the waiting records from window to window
            would take longer.
    """

    in_buckets: ClassVar[bool] = True

    options: Bucket
    boundaries: tuple[int, ...]
    last: int | None
    sizes: tuple[int, ...]
    one_by_one: bool

    def turns(self, windows: Any, number: Any) -> Any:
        """Prepare the windows of an epoch for `apply`.

        With `one_by_one`, the result is not windows but whole batches: each record is put into the batch of its bucket
        here.
        """
        import tensorflow as tf

        if not self.one_by_one:
            return super().turns(windows, number)
        bounds = tf.constant(self.boundaries, tf.int64, [len(self.boundaries)])
        sizes = tf.constant(self.sizes, tf.int64)
        static, drop = self.sizes[0] if len(set(self.sizes)) == 1 else None, self.options.drop_remainder
        marked = mapped(windows, lambda *window: (tf.cast(count_up_to(bounds, window[1]), tf.int64), *window))
        batches = marked.unbatch().group_by_window(
            lambda bucket, *_: bucket,
            lambda bucket, records: records.batch(static or sizes[bucket], drop_remainder=drop),
            window_size_func=lambda bucket: sizes[bucket],
        )
        return mapped(batches, lambda _, serialized, lengths: PlannedBatch(serialized, lengths[:0], lengths))

    def apply(self, turns: Any, *, shuffle: int) -> Any:
        """Divide the records into batches.

        The result is a `tf.data.Dataset` of `PlannedBatch`.
        """
        if self.one_by_one:
            return turns
        if self.sorted_window:
            return sorted_batches(
                turns,
                self.sizes[0],
                self.boundaries,
                drop_remainder=self.options.drop_remainder,
                permute=shuffle > 1,
                at_random=shuffle > 0,
            )
        return bucket_batches(
            turns, self.boundaries, self.sizes, drop_remainder=self.options.drop_remainder, permute=shuffle > 1
        )

    def batches(self, lengths: LengthCounts) -> int:
        """Count the batches in an epoch with records of these lengths."""
        counts = np.zeros(len(self.sizes), np.int64)
        np.add.at(counts, self._buckets(lengths.values), lengths.counts)
        sizes = np.asarray(self.sizes)
        return int((counts // sizes if self.options.drop_remainder else -(-counts // sizes)).sum())

    def largest(self, lengths: LengthCounts) -> tuple[int, int]:
        """Find the largest possible batch.

        The result is its number of rows, and the length of its longest record.
        """
        sizes = np.asarray(self.sizes)[self._buckets(lengths.values)]
        largest = int((lengths.values * sizes).argmax())
        return int(sizes[largest]), max(1, int(lengths.values[largest]))

    def width(self, lengths: Any) -> Any:
        """Return the padded length of a batch, before it is rounded up to a multiple.

        `lengths` contains the lengths of the records in the batch.
        """
        import tensorflow as tf

        longest = super().width(lengths)
        if not self.options.pad_to_bucket_boundary:
            return longest
        bounds = tf.constant(self.boundaries, tf.int64)
        widths = tf.concat([bounds - 1, [self.last or 0]], 0)
        bucket = tf.searchsorted(bounds, longest[tf.newaxis], side="right")[0]
        return tf.maximum(longest, widths[bucket])

    @property
    def widths(self) -> Sequence[int]:
        """Padded length of each bucket.

        The sequence is empty unless batches are padded to boundaries and the longest record is known.
        """
        if not self.options.pad_to_bucket_boundary or self.last is None:
            return ()
        used = int(np.searchsorted(np.asarray(self.boundaries, np.int64), self.last, side="right"))
        return [max(1, last) for last in (*(b - 1 for b in self.boundaries[: used + 1]), self.last)[: used + 1]]

    def _buckets(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(np.asarray(self.boundaries, np.int64), lengths, side="right")


def bucket_batches(
    turns: Any,
    boundaries: Sequence[int],
    batch_sizes: Sequence[int],
    *,
    drop_remainder: bool = False,
    permute: bool = False,
) -> Any:
    """Plan the same batches as `bucket_by_sequence_length`, in the same order, one window at a time.

    The size of the windows makes no difference: a batch is emitted when its last record arrives, and the incomplete
    batches follow at the end of an epoch, shortest bucket first.

    >>> import tensorflow as tf
    >>> from seqrecorder.reading.batching.bucket import in_turns
    >>> lengths = tf.constant([1, 3, 1, 3], tf.int64)
    >>> records = tf.data.Dataset.from_tensor_slices((["a", "bbb", "c", "ddd"], lengths))
    >>> batches = bucket_batches(in_turns(records.batch(3)), boundaries=[2], batch_sizes=[2, 2])
    >>> for batch in batches:
    ...     print(batch.serialized().numpy().tolist(), batch.lengths.numpy().tolist())
    [b'a', b'c'] [1, 1]
    [b'bbb', b'ddd'] [3, 3]

    Args:
        turns: `tf.data.Dataset` of the windows of all epochs, from `in_turns`.
        boundaries: ascending lengths; bucket `i` contains `boundaries[i - 1] <= length < boundaries[i]`.
        batch_sizes: number of rows per batch in each of the `len(boundaries) + 1` buckets.
        drop_remainder: whether to drop the incomplete batches at the end.
        permute: whether to permute the rows of each window first; see `plan_batches`.

    Returns:
        A `tf.data.Dataset` of `PlannedBatch`. Its iterator can be saved with `tf.train.Checkpoint(iterator=...)` before
        any batch. The number of rows is static if all batches have the same size.
    """
    import tensorflow as tf

    def plan(lengths: Any, turn: Turn) -> Any:
        bucket = count_up_to(tf.constant(boundaries, tf.int64, [len(boundaries)]), lengths)
        rows, bucket = order_of(bucket)  # bucket by bucket, in the order of arrival
        n, first, after = tf.size(rows), count_up_to(bucket, bucket, less=True), count_up_to(bucket, bucket)
        alike = len(set(batch_sizes)) == 1
        size = tf.constant(batch_sizes[0]) if alike else rows_at(tf.constant(batch_sizes), bucket)
        position = index_range(n)
        final = position - (position - first) % size + (size - 1)  # position of the last row of the row's batch
        # A batch leaves when its last record arrives; that record is never a leftover of the previous window.
        # Incomplete batches leave after all others.
        leaves = tf.where(final < after, rows_at(rows, tf.minimum(final, n - 1)), n + bucket)
        order, leaves = order_of(leaves)
        batch, _, rows_of_batch = tf.raw_ops.UniqueWithCounts(x=leaves)
        go = batch < n if drop_remainder else turn.last | (batch < n)
        return rows_at(rows, order), tf.where(go, rows_of_batch, 0)

    static = batch_sizes[0] if drop_remainder and len(set(batch_sizes)) == 1 else None
    key = ("bucket", tuple(boundaries), tuple(batch_sizes), drop_remainder)
    return plan_batches(turns, plan, key, batch_size=static, permute=permute)


def sorted_batches(
    turns: Any,
    batch_size: int,
    boundaries: Sequence[int] = (),
    *,
    drop_remainder: bool = False,
    permute: bool = False,
    at_random: bool = False,
) -> Any:
    """Plan batches of similar lengths: sort each window by length, and cut it into batches bucket by bucket.

    If the longest rows of a bucket do not fill a batch, they wait for the next window. At the end of the epoch, they
    form an incomplete batch. No batch mixes rows of two buckets, so there are as many batches as with `bucket_batches`,
    and none is padded beyond its bucket.

    >>> import tensorflow as tf
    >>> from seqrecorder.reading.batching.bucket import in_turns
    >>> lengths = tf.constant([4, 1, 3, 2, 9], tf.int64)
    >>> records = tf.data.Dataset.from_tensor_slices((["dddd", "a", "ccc", "bb", "iiiiiiiii"], lengths))
    >>> for batch in sorted_batches(in_turns(records.batch(4)), 2, boundaries=[6]):
    ...     print(batch.serialized().numpy().tolist(), batch.lengths.numpy().tolist())
    [b'a', b'bb'] [1, 2]
    [b'ccc', b'dddd'] [3, 4]
    [b'iiiiiiiii'] [9]

    Args:
        turns: `tf.data.Dataset` of the windows of all epochs, from `in_turns`.
        batch_size: rows per batch. The last batch of each bucket may have fewer.
        boundaries: ascending lengths; bucket `i` contains `boundaries[i - 1] <= length < boundaries[i]`.
        drop_remainder: whether to drop the incomplete batches; if so, `batch_size` is the static number of rows.
        permute: whether to permute the rows of each window first, so that rows of equal length come in random order.
        at_random: whether to emit the batches of a window in random order, so that similar lengths do not follow each
            other. If False, the batches of the shortest rows come first.

    Returns:
        A `tf.data.Dataset` of `PlannedBatch`, ascending by length inside a batch. Its iterator can be saved with
        `tf.train.Checkpoint(iterator=...)` before any batch.
    """
    import tensorflow as tf

    def plan(lengths: Any, turn: Turn) -> Any:
        n = tf.size(lengths, tf.int64)
        rows = tf.cast(tf.argsort(lengths, stable=True), tf.int64)
        bounds = tf.constant(boundaries, tf.int64, [len(boundaries)])
        ends = tf.concat([tf.searchsorted(tf.gather(lengths, rows), bounds, out_type=tf.int64), [n]], 0)
        firsts = tf.concat([[0], ends[:-1]], 0)
        kept = tf.zeros_like(ends) if drop_remainder else tf.where(turn.last, ends - firsts, 0) % batch_size
        leaving = (ends - firsts) // batch_size * batch_size + kept
        batches = -(-leaving // batch_size)
        places = rows_of(tf.zeros_like(batches), batches) * batch_size  # offset of each batch in its bucket
        starts = tf.repeat(firsts, batches) + places
        sizes = tf.minimum(tf.repeat(leaving, batches) - places, batch_size)
        if at_random:
            starts, sizes = drawn(starts, sizes, turn)
        order = tf.concat([rows_of(starts, sizes), rows_of(firsts + leaving, ends - firsts - leaving)], 0)
        return tf.gather(rows, order), sizes

    key = ("sorted", tuple(boundaries), batch_size, drop_remainder, at_random)
    return plan_batches(turns, plan, key, batch_size=batch_size if drop_remainder else None, permute=permute)


def _batch_sizes(size: Any) -> int | tuple[int, ...]:
    if isinstance(size, Sequence) and not isinstance(size, str):
        return tuple(check_count("batch_size", each) for each in size)
    return check_count("batch_size", size)


_COMPUTED = ("auto", "quantile", "sorted")


def _boundaries(value: Any) -> str | tuple[int, ...]:
    """Check and convert the option `boundaries`: ascending ints, or the name of a method that computes them."""
    expected = f"boundaries: expected {', '.join(map(repr, _COMPUTED))} or ascending"
    if isinstance(value, str):
        if value not in _COMPUTED:
            raise OptionError(f"{expected} lengths, got {value!r}")
        return value
    values = tuple(value) if isinstance(value, Iterable) else None
    if values is None or any(isinstance(b, bool) or not isinstance(b, (int, np.integer)) for b in values):
        raise OptionError(f"{expected} ints, got {value!r}")
    for position, (low, high) in enumerate(itertools.pairwise([0, *values])):
        if not low < high <= _INT64_MAX:
            raise OptionError(
                f"boundaries[{position}]: expected more than {low} (boundaries are positive lengths in "
                f"ascending order, without repetition), got {high}; sort them and remove repetitions"
            )
    return tuple(map(int, values))


@attrs.frozen
class Bucket(BatchesByLength):
    """Batches of records of similar length, padded to the longest of each batch.

    >>> import seqrecorder as sr
    >>> sr.Bucket(64, boundaries=[10, 20, 40]).boundaries
    (10, 20, 40)

    The batches and their order are the same as with `tf.data.Dataset.bucket_by_sequence_length`, unless
    `boundaries="sorted"`. Bucket i contains `boundaries[i-1] <= length < boundaries[i]`; a batch is emitted when it is
    full, and the incomplete batches follow at the end of the epoch. Shuffled records fill the buckets in random order,
    so equal shapes do not follow each other.

    `boundaries="sorted"` needs the least padding, but gives the most distinct shapes. `seqrecorder.plan` compares the
    choices for your dataset. To limit the steps of a batch instead of its records, use `TokenBudget`.

    Attributes:
        batch_size: records per batch, or one size for each of the `len(boundaries) + 1` buckets.
        boundaries: ascending lengths, or the method that computes them from the lengths of the data. `"auto"` minimizes
            the padded steps, by exact dynamic programming. `"quantile"` gives buckets with equal numbers of records.
            `"sorted"` uses the boundaries of `"auto"`, and sorts the records of each bucket by length, in windows of
            `shuffle` records or 64 batches, whichever is more. Its batches come in random order if the records are
            shuffled, otherwise shortest first. The longest records of a bucket wait for the next window if they do not
            fill a batch. If lengths are not stored, as in bare shards, `"sorted"` uses one bucket.
        buckets: maximum number of buckets if `boundaries` are computed.
        pad_to_bucket_boundary: whether to pad batches to the largest length of their bucket, `boundaries[i] - 1`; the
            last bucket is padded to the longest record. This gives few distinct shapes, and therefore few retracings of
            a model.
        drop_remainder: whether to drop the incomplete batches at the end of an epoch.
        length_field: name of the feature list that determines the length, or names of several lists with different
            lengths (`align=`), such as `("source", "target")`; None for the first alignment group.
        length_of: length of a record with several lists: the `"longest"` of its lengths, or their `"sum"`. Each list is
            padded to the longest list of that name in the batch, or to the next boundary.
        warm_up: `"largest"` adds a first batch of the largest shape with sample weights of 0, so that a run with too
            little memory fails at the first step; it requires `targets`. None adds no batch.
        padding_values: mapping from field to padding value; see `Pad`.
        padding_side: side of the padding; see `Pad`.
        pad_to_multiple_of: padded lengths are rounded up to a multiple of this number; see `Pad`.
        empty: treatment of records without steps; see `Pad`.
        length_name: name of the tensor with the true lengths, int64 `(B,)`.
        mask_name: name of the mask of real steps; see `Pad`.
        seed_name: name of the tensor with a random seed per record; see `Pad`.
    """

    batch_size: int | tuple[int, ...] = attrs.field(converter=_batch_sizes)
    boundaries: str | tuple[int, ...] = attrs.field(default="auto", converter=_boundaries, kw_only=True)
    buckets: int = attrs.field(default=8, validator=positive, kw_only=True)
    pad_to_bucket_boundary: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.pad_to_bucket_boundary and self.length_of == "sum":
            raise OptionError("pad_to_bucket_boundary: boundaries of sums are no widths; use pad_to_multiple_of")
        if self.pad_to_bucket_boundary and self.boundaries == "sorted":
            raise OptionError("pad_to_bucket_boundary: sorted windows have no buckets; use pad_to_multiple_of")
        if self.pad_to_bucket_boundary and self.pad_to_multiple_of != 1:
            raise OptionError("give pad_to_bucket_boundary or pad_to_multiple_of, one of them")
        if isinstance(self.batch_size, int):
            return
        if isinstance(self.boundaries, str):
            raise OptionError(f"batch_size: one size for each bucket needs given boundaries, not {self.boundaries!r}")
        if len(self.batch_size) != len(self.boundaries) + 1:
            raise OptionError(
                f"batch_size: expected {len(self.boundaries) + 1} sizes, one for each bucket, "
                f"got {len(self.batch_size)}"
            )

    def resolve(self, feed: Feed, group: RecordLength) -> tuple[BucketPlan, Feed, LengthCounts | None]:
        """Plan the batches of a feed.

        The result is the plan, the feed, and the lengths of its records. The lengths are None if they are not stored
        and the plan does not need them.
        """
        feed = feed.leave_out_empty() if self.empty == "drop" else feed
        parse = self.boundaries in ("auto", "quantile") or self.warm_up is not None
        lengths = feed.length_counts(group, parse=parse)
        boundaries: tuple[int, ...] = ()
        if not isinstance(self.boundaries, str):
            boundaries = self.boundaries
        elif lengths is not None and lengths.records:
            compute = quantile_boundaries if self.boundaries == "quantile" else optimal_boundaries
            boundaries = tuple(compute(lengths.values, lengths.counts, self.buckets))
        sizes = self.batch_size if isinstance(self.batch_size, tuple) else (self.batch_size,) * (len(boundaries) + 1)
        sorted_records = max(sizes[0] * _SORTED_BATCHES, feed.options.shuffle)
        plan = BucketPlan(
            options=self,
            boundaries=boundaries,
            last=None if lengths is None else lengths.longest,
            sizes=sizes,
            rows=max(sizes),
            sorted_window=shuffle_window(feed.origin, sorted_records) if self.boundaries == "sorted" else 0,
            one_by_one=self.boundaries != "sorted" and feed.origin.mean_bytes >= LARGE,
        )
        return plan, feed, lengths


@attrs.frozen
class Turn:
    """Window of records, described by scalar tensors.

    The lengths of its records are passed separately.

    Attributes:
        index: int64, index of the window in its epoch.
        last: bool, whether the epoch has ended. If so, the window is empty, and all rows are leftovers.
        number: int64, random number that determines the order of the epoch.
    """

    index: Any
    last: Any
    number: Any


def in_turns(windows: Any, number: Any = None) -> Any:
    """Add a flag `last` to the windows of one epoch, and append an empty window with `last=True`.

    >>> import tensorflow as tf
    >>> windows = tf.data.Dataset.from_tensor_slices((["a", "b"], tf.constant([1, 2], tf.int64))).batch(2)
    >>> [bool(last) for _, _, last, _ in in_turns(windows)]
    [False, True]

    Args:
        windows: finite `tf.data.Dataset` of `(serialized: tf.string [w], lengths: tf.int64 [w])`, in stream order. `w`
            may vary, and may be 0.
        number: random number that determines the order of the epoch, int64 scalar; None if nothing is drawn.

    Returns:
        A `tf.data.Dataset` of `(serialized, lengths, last: bool, number: int64)`.
    """
    import tensorflow as tf

    if number is None:
        return with_end(windows, tf.zeros([], tf.int64))
    nothing = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
    # The tf.data service shards nothing inside the function of an epoch (see `at_end`); this saves two functions.
    flat = (*windows.element_spec, tf.TensorSpec([], tf.bool), tf.TensorSpec([], tf.int64))
    number = tf.convert_to_tensor(number, tf.int64)
    turns = beside(windows, one_element((tf.zeros([], tf.bool), number)).repeat(), flat)
    return turns.concatenate(one_element((*nothing, tf.ones([], tf.bool), number)))


@attrs.frozen(eq=False)
class PlannedBatch:
    """Planned batch, whose records need not be gathered yet.

    Until then, each record is a row of a window, or of the leftovers of the previous window.

    Attributes:
        sources: variant scalar, a list of two string vectors: the window and the leftovers. Or string `(b,)`, the
            records themselves.
        rows: int64, `(b,)`: for each record, its row in the window; or -1 minus its row in the leftovers.
        lengths: int64, `(b,)`: steps of each record.
    """

    sources: Any
    rows: Any
    lengths: Any

    def serialized(self) -> Any:
        """Gather the serialized records, string `(b,)`."""
        return self.sources if self.sources.dtype == "string" else _taken(self.sources, self.rows)


def plan_batches(turns: Any, plan: Plan, key: Hashable, *, batch_size: int | None = None, permute: bool = False) -> Any:
    """Divide the rows of each window, and the leftovers of the previous window, into planned batches.

    The state consists of the leftovers and the number of windows seen. So an iterator can be saved with
    `tf.train.Checkpoint(iterator=...)` before any batch, and memory is bounded by the leftovers and two windows (the
    next one is planned ahead).

    The stage takes all epochs as one stream, because TensorFlow would instantiate its functions again for each epoch
    inside a `flat_map` over epochs.

    Args:
        turns: `tf.data.Dataset` of the windows of all epochs, from `in_turns`.
        plan: traceable function of the lengths (leftovers first) and the turn. It returns the rows in the order in
            which they are emitted, and the sizes of the batches (0 for no batch). The remaining rows are the leftovers
            for the next window, in the returned order; at the end of an epoch, they are dropped.
        key: values that determine the plan; plans with equal keys are traced once per process.
        batch_size: static number of rows of all batches; None if batches may differ.
        permute: whether to permute the rows of each window first, in an order drawn from the epoch's random number.

    Returns:
        A `tf.data.Dataset` of `PlannedBatch`.
    """
    import tensorflow as tf

    def step(carried: Any, turn: Any) -> Any:
        (waiting, waiting_lengths, index), (serialized, lengths, last, number) = carried, turn
        first, zero = tf.size(waiting, tf.int64), tf.constant(0, tf.int64)
        lengths_ = joined(waiting_lengths, lengths)
        drawn_rows = None
        if permute:
            arrived = index_range(first + tf.size(lengths, tf.int64), first)
            drawn_rows = joined(index_range(first), permutation(number, index, arrived))
            lengths_ = rows_at(lengths_, drawn_rows)
        rows, sizes = plan(lengths_, Turn(index, last, number))
        sizes = tf.cast(sizes, tf.int64)
        leaving = tf.raw_ops.Sum(input=sizes, axis=0)
        lengths_ = rows_at(lengths_, rows)
        order = tf.cast(rows, tf.int64) if drawn_rows is None else rows_at(drawn_rows, rows)
        order = tf.raw_ops.SelectV2(condition=order < first, t=tf.bitwise.invert(order), e=order - first)
        # The rest waits for the next window, or is dropped at the end of the epoch.
        rest = tf.size(order, tf.int64) - leaving
        kept = tf.raw_ops.SelectV2(condition=last, t=zero, e=rest)
        parts = tf.raw_ops.Pack(values=[leaving, kept, rest - kept])
        planned_lengths, left_lengths, _ = tf.split(lengths_, parts, num=3)
        planned, later, _ = tf.split(order, parts, num=3)
        sources = _listed(serialized, waiting)
        following = tf.raw_ops.SelectV2(condition=last, t=zero, e=index + 1)
        return (_taken(sources, later), left_lengths, following), (sources, planned, planned_lengths, sizes)

    def cut(sources: Any, rows: Any, lengths: Any, sizes: Any) -> Any:
        # `rebatched` calls no function per batch, and slices without copying.
        parts = one_element((rows, lengths))
        if batch_size is not None:
            batches = rebatched(parts, batch_size, drop_remainder=True)
        else:
            # A 1 is appended because `sizes` may be empty; the rows end before it is used.
            filled = tf.dynamic_partition(sizes, tf.cast(sizes > 0, tf.int32), 2)[1]
            batches = rebatched(parts, joined(filled, tf.constant([1], tf.int64)))
        spec = PlannedBatch(tf.TensorSpec([], tf.variant), *batches.element_spec)
        return beside(one_element(sources).repeat(), batches, spec)

    state = (tf.constant([], tf.string), tf.constant([], tf.int64), tf.constant(0, tf.int64))
    planned = scanned(turns, state, step, key=("plan", key, permute))
    return flat_mapped(planned.prefetch(1), cut, key=("cut", batch_size))


def _taken(sources: Any, rows: Any) -> Any:
    """Gather rows of a window and of the leftovers (see `PlannedBatch`)."""
    import tensorflow as tf

    def source(index: Any) -> Any:
        return tf.raw_ops.TensorListGetItem(
            input_handle=sources, index=index, element_shape=tf.constant([-1]), element_dtype=tf.string
        )

    # Gather all rows from the window, then overwrite the leftovers: this copies the other rows only once.
    none = tf.raw_ops.Max(input=rows, axis=0) < 0
    left = tf.bitwise.invert(rows)
    taken = rows_at(source(tf.cast(none, tf.int32)), tf.raw_ops.SelectV2(condition=none, t=left, e=tf.maximum(rows, 0)))
    others = tf.where(rows < 0)
    updates = rows_at(source(tf.constant(1)), tf.gather_nd(left, others))
    return tf.raw_ops.TensorScatterUpdate(tensor=taken, indices=others, updates=updates)


def _listed(*vectors: Any) -> Any:
    """Pack string vectors into a TensorFlow list, a variant scalar."""
    import tensorflow as tf

    listed = tf.raw_ops.EmptyTensorList(element_shape=[-1], max_num_elements=len(vectors), element_dtype=tf.string)
    for vector in vectors:
        listed = tf.raw_ops.TensorListPushBack(input_handle=listed, tensor=vector)
    return listed


def with_end(windows: Any, *more: Any, end: bool = True) -> Any:
    """Add `last=False` to each window, and append an empty window with `last=True`.

    Args:
        windows: finite `tf.data.Dataset` of tuples of tensors whose first dimension is rows.
        *more: tensors to add to each tuple after `last`.
        end: whether to append the empty window.
    """
    import tensorflow as tf

    going = mapped(windows, lambda *window: (*window, False, *more))
    if not end:
        return going
    nothing = [tf.zeros([0, *part.shape[1:]], part.dtype) for part in windows.element_spec]
    return going.concatenate(at_end((*nothing, True, *more)))


def at_end(element: Any) -> Any:
    """Return a `tf.data.Dataset` of one element that marks the end of a stream.

    The tf.data service shards sources among its workers: an ordinary source of one element would reach one worker, and
    the others would never emit their leftovers. It does not shard the source of random numbers that is used here.
    """
    return mapped(undealt().take(1), lambda _: element)


def drawn(starts: Any, sizes: Any, turn: Turn) -> tuple[Any, Any]:
    """Put the batches of a window in random order.

    Args:
        starts: int64, `(m,)`: first row of each batch.
        sizes: int64, `(m,)`: rows of each batch.
        turn: window of the batches, which determines the order.
    """
    import tensorflow as tf

    # A fixed algorithm gives the same order on every device.
    key = tf.stack([turn.number, turn.index])
    order = tf.argsort(tf.random.stateless_uniform(tf.shape(sizes), key, alg="philox"), stable=True)
    return tf.gather(starts, order), tf.gather(sizes, order)


def order_of(keys: Any) -> tuple[Any, Any]:
    """Sort rows by int32 keys with a stable sort.

    The result is the sorted rows and the sorted keys.
    """
    import tensorflow as tf

    negative, rows = tf.raw_ops.TopKV2(input=-keys, k=tf.size(keys))
    return rows, -negative


def rows_of(starts: Any, sizes: Any) -> Any:
    """Concatenate ranges of integers.

    Range `i` begins at `starts[i]` and contains `sizes[i]` numbers. The result is int64.
    """
    import tensorflow as tf

    return tf.ragged.range(starts, starts + sizes).flat_values
