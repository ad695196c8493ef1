"""Batches planned for whole windows of serialized records, in vector operations.

An element that meets a traced function costs more than parsing a short record does. So records are never
handled one by one: a plan looks at the lengths of a window (and of the rows that the windows before left
over), and says which rows form which batch. The strings stay where they are until a batch is parsed: then they
are copied, by as many threads as parse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import OptionError
from seqrecorder.reading.epochs import permutation
from seqrecorder.reading.tfdata_ops import flat_mapped, mapped, scanned

if TYPE_CHECKING:
    from collections.abc import Callable

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


def in_turns(windows: Any, number: Any = 0) -> Any:
    """Return the windows of one epoch as `plan_batches` takes them: each says that it is not the last, an end is.

    >>> import tensorflow as tf
    >>> windows = tf.data.Dataset.from_tensor_slices((["a", "b"], tf.constant([1, 2], tf.int64))).batch(2)
    >>> [bool(last) for _, _, last, _ in in_turns(windows)]
    [False, True]

    Args:
        windows: a finite `tf.data.Dataset` of `(serialized: tf.string [w], lengths: tf.int64 [w])`, in
            stream order; `w` may differ from window to window, and may be 0.
        number: stands for the order of the epoch: int64 scalar.

    Returns:
        A `tf.data.Dataset` of `(serialized, lengths, last: bool, number: int64)`.
    """
    import tensorflow as tf

    check_windows(windows)
    number = tf.cast(number, tf.int64)
    nothing = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
    turns = mapped(windows, lambda *window: (*window, False, number))
    return turns.concatenate(at_end((*nothing, True, number)))


@attrs.frozen(eq=False)
class PlannedBatch:
    """An element of a `tf.data.Dataset`: which records form a batch, and where they are.

    Attributes:
        sources: a variant scalar: a list of two string vectors, a whole window and the records of those batches that
            have some of earlier windows.
        rows: int64, `(b,)`: the rows of the batch in the first; or in the second, counted down from -1.
        lengths: int64, `(b,)`.
    """

    sources: Any
    rows: Any
    lengths: Any

    def serialized(self) -> Any:
        """Return the records, string `(b,)`."""
        import tensorflow as tf

        source = tf.raw_ops.TensorListGetItem(
            input_handle=self.sources,
            index=tf.cast(self.rows[0] < 0, tf.int32),
            element_shape=tf.constant([-1]),
            element_dtype=tf.string,
        )
        return tf.gather(source, tf.maximum(self.rows, -1 - self.rows))


def plan_batches(turns: Any, plan: Plan, *, batch_size: int | None = None, permute: bool = False) -> Any:
    """Return the batches into which `plan` divides the rows of each window and of the leftovers before it.

    Nothing but the leftovers and the number of windows seen is carried on, so memory is bounded by two windows (the
    next is read ahead) and the leftovers, and an iterator can be saved with `tf.train.Checkpoint(iterator=...)`
    before any batch.

    All epochs are one stream. Made inside the function of a `flat_map` over epochs, the functions of this stage would
    be instantiated again for each epoch.

    Args:
        turns: a `tf.data.Dataset` of epochs of windows, as `in_turns` gives them.
        plan: a traceable function of the lengths (leftovers first) and the turn. It returns the rows in the
            order in which they leave, and the sizes of the batches (0 for none). Rows in no batch are left
            over for the next window, in that order; after the last they are dropped.
        batch_size: the one size of all batches, when that is certain: it becomes their static shape.
        permute: whether the rows of each window are put in an order drawn from the number of the epoch first.

    Returns:
        A `tf.data.Dataset` of `PlannedBatch`.
    """
    import tensorflow as tf

    def step(carried: Any, turn: Any) -> Any:
        (held, held_lengths, index), (serialized, lengths, last, number) = carried, turn
        first = tf.size(held, tf.int64)
        lengths_ = tf.concat([held_lengths, lengths], 0)
        drawn_rows = None
        if permute:
            arrived = tf.cast(permutation(number, index, tf.size(lengths)), tf.int64)
            drawn_rows = tf.concat([tf.range(first), arrived + first], 0)
            lengths_ = tf.gather(lengths_, drawn_rows)
        rows, sizes = plan(lengths_, Turn(index, last, number))
        sizes = tf.cast(sizes, tf.int64)
        leaving = tf.reduce_sum(sizes)
        lengths_ = tf.gather(lengths_, rows)
        order = tf.cast(rows, tf.int64) if drawn_rows is None else tf.gather(drawn_rows, rows)
        # Rows are kept for the next window, but after the last they are dropped.
        rest = tf.size(order, tf.int64) - leaving
        kept = rest * tf.cast(~last, tf.int64)
        parts = tf.stack([leaving, kept, rest - kept])
        planned_lengths, left_lengths, _ = tf.split(lengths_, parts, num=3)
        planned, later, _ = tf.split(order, parts, num=3)
        places, copied = _places(planned, sizes, first)
        strings = _taken(held, serialized, tf.concat([copied, later], 0))
        others, left = tf.split(strings, tf.stack([tf.size(copied, tf.int64), kept]))
        following = (index + 1) * tf.cast(~last, index.dtype)
        return (left, left_lengths, following), (_listed(serialized, others), places, planned_lengths, sizes)

    def cut(sources: Any, rows: Any, lengths: Any, sizes: Any) -> Any:
        # `rebatch` needs no function for each batch, and slices without copying.
        parts = tf.data.Dataset.from_tensors((rows, lengths))
        if batch_size is not None:
            batches = parts.rebatch(batch_size, drop_remainder=True)
        else:
            # The sizes may be none; the rows end with the last of them.
            some = tf.dynamic_partition(sizes, tf.cast(sizes > 0, tf.int32), 2)[1]
            batches = parts.rebatch(tf.concat([some, [1]], 0))
        whole = tf.data.Dataset.zip(tf.data.Dataset.from_tensors(sources).repeat(), batches)
        spec = PlannedBatch(tf.TensorSpec([], tf.variant), *batches.element_spec)
        return tf.data.experimental.from_variant(tf.data.experimental.to_variant(whole), spec)

    nothing = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
    # The next window is read while batches of this one are parsed.
    return flat_mapped(scanned(turns.prefetch(1), (*nothing, tf.zeros([], tf.int64)), step), cut)


def _places(order: Any, sizes: Any, first: Any) -> tuple[Any, Any]:
    """Return where the records of batches will be (see `PlannedBatch.rows`), and which of them must be copied there.

    Args:
        order: int64, `(n,)`: the rows of the batches, those left over from before first.
        sizes: int64, `(m,)`: of the batches.
        first: int64 scalar: how many rows are left over from before.
    """
    import tensorflow as tf

    batches = tf.size(sizes)
    # What `tf.repeat` and `tf.boolean_mask` would give, in far fewer operations.
    ends = tf.cumsum(sizes)[tf.newaxis]
    batch = tf.raw_ops.UpperBound(sorted_inputs=ends, values=tf.range(tf.size(order, tf.int64))[tf.newaxis])[0]
    mixed = tf.gather(tf.math.unsorted_segment_min(order, batch, batches) < first, batch)
    number = tf.cumsum(tf.cast(mixed, tf.int64))
    return tf.where(mixed, -number, order - first), tf.dynamic_partition(order, tf.cast(mixed, tf.int32), 2)[1]


def _taken(held: Any, serialized: Any, rows: Any) -> Any:
    """Return rows of two string vectors one after the other, without copying any other."""
    import tensorflow as tf

    first = tf.size(held, tf.int64)
    source = tf.cast(rows >= first, tf.int32)
    old, new = tf.dynamic_partition(rows, source, 2)
    return tf.dynamic_stitch(
        tf.dynamic_partition(tf.range(tf.size(rows)), source, 2),
        [tf.gather(held, old), tf.gather(serialized, new - first)],
    )


def _listed(*vectors: Any) -> Any:
    """Return a list of string vectors, as a variant scalar."""
    import tensorflow as tf

    listed = tf.raw_ops.EmptyTensorList(
        element_shape=tf.constant([-1]), max_num_elements=tf.constant(len(vectors)), element_dtype=tf.string
    )
    for vector in vectors:
        listed = tf.raw_ops.TensorListPushBack(input_handle=listed, tensor=vector)
    return listed


def at_end(element: Any) -> Any:
    """Return a `tf.data.Dataset` of one element, to follow a stream and to say that it has ended.

    Under tf.data's service each source is dealt among the workers, so that an element of its own would reach one of
    them alone, and the others would keep back what they hold. Random numbers are a source that is not dealt.
    """
    import tensorflow as tf

    return mapped(tf.data.Dataset.random(seed=0).take(1), lambda _: element)


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

    sorted_keys, rows = tf.math.top_k(-keys, tf.size(keys))
    return rows, -sorted_keys


def rows_of(starts: Any, sizes: Any) -> Any:
    """Return the concatenation of `range(start, start + size)`, int64."""
    import tensorflow as tf

    return tf.ragged.range(starts, starts + sizes).flat_values


def check_windows(windows: Any) -> None:
    """Raise `OptionError` unless windows are vectors of strings with their lengths."""
    import tensorflow as tf

    expected = (tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64))
    spec = getattr(windows, "element_spec", windows)
    matches = (
        isinstance(spec, tuple)
        and len(spec) == len(expected)
        and all(isinstance(s, tf.TensorSpec) and e.is_compatible_with(s) for s, e in zip(spec, expected, strict=True))
    )
    if not matches:
        raise OptionError(
            "windows: expected a tf.data.Dataset of (serialized: tf.string [w], lengths: tf.int64 [w]), "
            f"got elements {spec}; zip the windows of records with the windows of their lengths"
        )
