"""Batches planned for whole windows of serialized records, in vector operations.

An element that meets a traced function costs more than parsing a short record does. So records are never
handled one by one: a plan looks at the lengths of a window (and of the rows that the windows before left
over), and says which rows form which batch. The strings stay where they are until a batch is parsed: then they
are copied, by as many threads as parse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.graph_ops import index_range, joined, rows_at
from seqrecorder.reading.epochs import permutation
from seqrecorder.reading.strategy import AHEAD_BYTES, batch_count
from seqrecorder.reading.tfdata_ops import beside, flat_mapped, mapped, one_element, rebatched, scanned, undealt

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from seqrecorder.reading.strategy import Feed

    # From the lengths, int64 [n], to (rows: int [n], sizes: int [m]).
    Plan = Callable[[Any, "Turn"], tuple[Any, Any]]


@attrs.frozen
class Turn:
    """What a plan knows of a window beside its lengths, as scalar tensors.

    Attributes:
        index: int64: how many windows of the epoch came before.
        last: bool: whether the epoch has ended. Then there is no window: all rows are leftovers.
        number: int64: stands for the order of the epoch.
    """

    index: Any
    last: Any
    number: Any


def in_turns(windows: Any, number: Any = None) -> Any:
    """Return the windows of one epoch as `plan_batches` takes them: each says that it is not the last, an end is.

    >>> import tensorflow as tf
    >>> windows = tf.data.Dataset.from_tensor_slices((["a", "b"], tf.constant([1, 2], tf.int64))).batch(2)
    >>> [bool(last) for _, _, last, _ in in_turns(windows)]
    [False, True]

    Args:
        windows: a finite `tf.data.Dataset` of `(serialized: tf.string [w], lengths: tf.int64 [w])`, in
            stream order; `w` may differ from window to window, and may be 0.
        number: stands for the order of the epoch: int64 scalar; None where nothing is drawn.

    Returns:
        A `tf.data.Dataset` of `(serialized, lengths, last: bool, number: int64)`.
    """
    import tensorflow as tf

    none = tf.zeros([], tf.int64)
    nothing = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
    if number is None:
        return mapped(windows, lambda *window: (*window, False, none)).concatenate(at_end((*nothing, True, none)))
    # Within the function of an epoch nothing is dealt to others (see `at_end`), which spares two functions.
    flat = (*windows.element_spec, tf.TensorSpec([], tf.bool), tf.TensorSpec([], tf.int64))
    number = tf.convert_to_tensor(number, tf.int64)
    turns = beside(windows, one_element((tf.zeros([], tf.bool), number)).repeat(), flat)
    return turns.concatenate(one_element((*nothing, tf.ones([], tf.bool), number)))


@attrs.frozen(eq=False)
class PlannedBatch:
    """An element of a `tf.data.Dataset`: which records form a batch, and where they are.

    Attributes:
        sources: a variant scalar: a list of two string vectors, a whole window and what was left over before it.
        rows: int64, `(b,)`: the rows of the batch in the first; or in the second, counted down from -1.
        lengths: int64, `(b,)`.
    """

    sources: Any
    rows: Any
    lengths: Any

    def serialized(self) -> Any:
        """Return the records, string `(b,)`."""
        return _taken(self.sources, self.rows)


def plan_batches(
    turns: Any,
    plan: Plan,
    key: Hashable,
    *,
    batch_size: int | None = None,
    permute: bool = False,
    ahead: bool = True,
) -> Any:
    """Return the batches into which `plan` divides the rows of each window and of the leftovers before it.

    Nothing but the leftovers and the number of windows seen is carried on, so memory is bounded by two windows (the
    next is planned ahead) and the leftovers, and an iterator can be saved with `tf.train.Checkpoint(iterator=...)`
    before any batch.

    All epochs are one stream. Made inside the function of a `flat_map` over epochs, the functions of this stage would
    be instantiated again for each epoch.

    Args:
        turns: a `tf.data.Dataset` of epochs of windows, as `in_turns` gives them.
        plan: a traceable function of the lengths (leftovers first) and the turn. It returns the rows in the
            order in which they leave, and the sizes of the batches (0 for none). Rows in no batch are left
            over for the next window, in that order; after the last they are dropped.
        key: all that the plan is made of: equal plans are traced once in a process.
        batch_size: the one size of all batches, when that is certain: it becomes their static shape.
        permute: whether the rows of each window are put in an order drawn from the number of the epoch first.
        ahead: whether the next window is planned while batches of this one are parsed.

    Returns:
        A `tf.data.Dataset` of `PlannedBatch`.
    """
    import tensorflow as tf

    def step(carried: Any, turn: Any) -> Any:
        (held, held_lengths, index), (serialized, lengths, last, number) = carried, turn
        first, zero = tf.size(held, tf.int64), tf.constant(0, tf.int64)
        lengths_ = joined(held_lengths, lengths)
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
        # Rows are kept for the next window, but after the last they are dropped.
        rest = tf.size(order, tf.int64) - leaving
        kept = tf.raw_ops.SelectV2(condition=last, t=zero, e=rest)
        parts = tf.raw_ops.Pack(values=[leaving, kept, rest - kept])
        planned_lengths, left_lengths, _ = _split(lengths_, parts, 3)
        planned, later, _ = _split(order, parts, 3)
        sources = _listed(serialized, held)
        following = tf.raw_ops.SelectV2(condition=last, t=zero, e=index + 1)
        return (_taken(sources, later), left_lengths, following), (sources, planned, planned_lengths, sizes)

    def cut(sources: Any, rows: Any, lengths: Any, sizes: Any) -> Any:
        # `rebatched` needs no function for each batch, and slices without copying.
        parts = one_element((rows, lengths))
        if batch_size is not None:
            batches = rebatched(parts, batch_size, drop_remainder=True)
        else:
            # The sizes may be none; the rows end with the last of them.
            some = tf.dynamic_partition(sizes, tf.cast(sizes > 0, tf.int32), 2)[1]
            batches = rebatched(parts, joined(some, tf.constant([1], tf.int64)))
        spec = PlannedBatch(tf.TensorSpec([], tf.variant), *batches.element_spec)
        return beside(one_element(sources).repeat(), batches, spec)

    state = (tf.constant([], tf.string), tf.constant([], tf.int64), tf.constant(0, tf.int64))
    planned = scanned(turns, state, step, key=("plan", key, permute))
    return flat_mapped(planned.prefetch(1) if ahead else planned, cut, key=("cut", batch_size))


def _split(vector: Any, sizes: Any, parts: int) -> Any:
    """Return parts of a vector, of given sizes."""
    import tensorflow as tf

    return tf.raw_ops.SplitV(value=vector, size_splits=sizes, axis=0, num_split=parts)


def _taken(sources: Any, rows: Any) -> Any:
    """Return rows of a window and of what was left over (see `PlannedBatch`)."""
    import tensorflow as tf

    def source(index: Any) -> Any:
        return tf.raw_ops.TensorListGetItem(
            input_handle=sources, index=index, element_shape=tf.constant([-1]), element_dtype=tf.string
        )

    # All are taken from one vector first, and those left over are written into it then: the others are copied once.
    none = tf.raw_ops.Max(input=rows, axis=0) < 0
    left = tf.bitwise.invert(rows)
    taken = rows_at(source(tf.cast(none, tf.int32)), tf.raw_ops.SelectV2(condition=none, t=left, e=tf.maximum(rows, 0)))
    others = tf.where(rows < 0)
    updates = rows_at(source(tf.constant(1)), tf.gather_nd(left, others))
    return tf.raw_ops.TensorScatterUpdate(tensor=taken, indices=others, updates=updates)


def _listed(*vectors: Any) -> Any:
    """Return a list of string vectors, as a variant scalar."""
    import tensorflow as tf

    listed = tf.raw_ops.EmptyTensorList(element_shape=[-1], max_num_elements=len(vectors), element_dtype=tf.string)
    for vector in vectors:
        listed = tf.raw_ops.TensorListPushBack(input_handle=listed, tensor=vector)
    return listed


def at_end(element: Any) -> Any:
    """Return a `tf.data.Dataset` of one element, to follow a stream and to say that it has ended.

    Under tf.data's service each source is dealt among the workers, so that an element of its own would reach one of
    them alone, and the others would keep back what they hold. Random numbers are a source that is not dealt.
    """
    return mapped(undealt().take(1), lambda _: element)


def sort_rows(lengths: Any, multiple: int, *, keep_rest: Any) -> tuple[Any, Any]:
    """Return the rows with the oldest sorted by length, and how many those are.

    Args:
        lengths: int64, `(n,)`, in the order of arrival.
        multiple: the largest multiple of it is sorted, and the newest rows stay behind where they are.
        keep_rest: bool scalar: sort all rows.

    Returns:
        `(rows: int64 [n], sorted: int64 scalar)`. Rows of one length stay in the order of arrival.
    """
    import tensorflow as tf

    n = tf.size(lengths, tf.int64)
    planned = tf.where(keep_rest, n, n // multiple * multiple)
    rows = tf.cast(tf.argsort(lengths[:planned], stable=True), tf.int64)
    return tf.concat([rows, tf.range(planned, n)], 0), planned


def drawn(starts: Any, sizes: Any, turn: Turn) -> tuple[Any, Any]:
    """Return the batches, given by their starts and their sizes, in the order drawn for this window.

    Args:
        starts: int64, `(m,)`.
        sizes: int64, `(m,)`.
        turn: which window it is.
    """
    import tensorflow as tf

    # The algorithm is named so that the order is the same on every device.
    key = tf.stack([turn.number, turn.index])
    order = tf.argsort(tf.random.stateless_uniform(tf.shape(sizes), key, alg="philox"), stable=True)
    return tf.gather(starts, order), tf.gather(sizes, order)


def order_of(keys: Any) -> tuple[Any, Any]:
    """Return the rows in ascending order of int32 keys, those of one key in the order of arrival; and their keys."""
    import tensorflow as tf

    negative, rows = tf.raw_ops.TopKV2(input=-keys, k=tf.size(keys))
    return rows, -negative


def rows_of(starts: Any, sizes: Any) -> Any:
    """Return the concatenation of `range(start, start + size)`, int64."""
    import tensorflow as tf

    return tf.ragged.range(starts, starts + sizes).flat_values


# Consecutive records --------------------------------------------------------------------------------------------------


@attrs.frozen
class Consecutive:
    """Batches of consecutive records.

    Attributes:
        batch_size: records to a batch.
        drop_remainder: whether the last batch is dropped where it is smaller.
        drop_empty: whether records without steps in the first alignment group are left out.
    """

    batch_size: int
    drop_remainder: bool
    drop_empty: bool

    def batches(self, feed: Feed, group: str | None = None) -> Any:
        """Return batches whose elements `parts_of` takes apart.

        Where records are shuffled, the rows of a window stay where they are until their batch is parsed: to permute
        them at once would copy every record in turn.

        Args:
            feed: the records.
            group: an alignment group whose lengths are wanted.
        """
        size = self.batch_size
        drop = self._drops(feed)
        group = feed.group() if drop else group
        options: dict[str, Any] = {"multiple": size, "group": group, "drop_empty": drop}
        if feed.options.shuffle <= 1:
            return feed.stream(
                lambda windows, _: rebatched(windows, size, drop_remainder=self.drop_remainder), **options
            )

        def in_order(windows: Any, number: Any) -> Any:
            windows = windows if group else mapped(windows, _without_lengths)
            return in_turns(windows, number)

        def plan(lengths: Any, turn: Turn) -> tuple[Any, Any]:
            import tensorflow as tf

            n = tf.size(lengths, tf.int64)
            rows, whole = index_range(n), n // size * size
            planned = whole if self.drop_remainder else tf.where(turn.last, n, whole)
            starts = tf.range(0, planned, size, tf.int64)
            return rows, tf.minimum(planned - starts, size)

        turns = feed.turns(in_order, permute=False, **options)
        key = ("consecutive", size, self.drop_remainder)
        static = size if self.drop_remainder else None
        # To read a second window of the largest would keep the first batch waiting; batches are parsed ahead anyway.
        return plan_batches(turns, plan, key, batch_size=static, permute=True, ahead=feed.permuted_bytes <= AHEAD_BYTES)

    def count(self, feed: Feed) -> int:
        """Return how many batches an epoch has, -1 where that is not known."""
        records = feed.kept(group=feed.group(), drop_empty=True) if self._drops(feed) else feed.records
        return batch_count(records, self.batch_size, drop_remainder=self.drop_remainder)

    def serialized(self, feed: Feed) -> Any:
        """Return a `tf.data.Dataset` of the serialized records of each batch."""
        return self.batches(feed).map(lambda *batch: parts_of(*batch)[0])

    def _drops(self, feed: Feed) -> bool:
        return self.drop_empty and bool(feed.origin.schema.groups)


def _without_lengths(serialized: Any) -> tuple[Any, Any]:
    """Return a window whose lengths nobody asks for."""
    import tensorflow as tf

    return serialized, tf.zeros_like(serialized, tf.int64)


def parts_of(batch: Any, *lengths: Any) -> tuple[Any, ...]:
    """Return the serialized records of an element of `Consecutive.batches`, and their lengths where these came."""
    return (batch.serialized(), batch.lengths) if isinstance(batch, PlannedBatch) else (batch, *lengths)
