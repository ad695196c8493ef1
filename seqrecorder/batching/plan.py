"""Batches planned for whole windows of serialized records, in vector operations.

An element that meets a traced function costs more than parsing a short record does. So records are never
handled one by one: a plan looks at the lengths of a window (and of the rows that the windows before left
over), and says which rows form which batch. The strings are copied once, into the order of the batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import OptionError
from seqrecorder.pipelines import flat_mapped, mapped, rebatched, scanned
from seqrecorder.streams import permutation

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
    return mapped(windows, lambda *window: (*window, False, number)).concatenate(at_end((*nothing, True, number)))


def plan_batches(turns: Any, plan: Plan, *, batch_size: int | None = None, permute: bool = False) -> Any:
    """Return the batches into which `plan` divides the rows of each window and of the leftovers before it.

    Nothing but the leftovers and the number of windows seen is carried on, so memory is bounded by one window
    and its leftovers, and an iterator can be saved with `tf.train.Checkpoint(iterator=...)` before any batch.

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
        A `tf.data.Dataset` of `(serialized: tf.string [b], lengths: tf.int64 [b])`.
    """
    import tensorflow as tf

    def step(carried: Any, turn: Any) -> Any:
        (held, held_lengths, index), (serialized, lengths, last, number) = carried, turn
        first = tf.size(held)
        lengths_ = tf.concat([held_lengths, lengths], 0)
        drawn_rows = None
        if permute:
            arrived = permutation(number, index, tf.size(lengths))
            drawn_rows = tf.concat([tf.range(first), arrived + first], 0)
            lengths_ = tf.gather(lengths_, drawn_rows)
        rows, sizes = plan(lengths_, Turn(index, last, number))
        # The strings are copied once, whatever is done to their order; the rest are views. Rows are kept for the next
        # window, but after the last they are dropped.
        leaving = tf.reduce_sum(sizes)
        rest = tf.size(rows, sizes.dtype) - leaving
        kept = rest * tf.cast(~last, rest.dtype)
        parts = tf.stack([leaving, kept, rest - kept])
        order = rows if drawn_rows is None else tf.gather(drawn_rows, rows)
        places = tf.math.invert_permutation(tf.cast(order, tf.int32))
        placed = tf.dynamic_stitch([places[:first], places[first:]], [held, serialized])
        batches, left, _ = tf.split(placed, parts)
        of_batches, left_lengths, _ = tf.split(tf.gather(lengths_, rows), parts)
        following = (index + 1) * tf.cast(~last, index.dtype)
        return (left, left_lengths, following), (batches, of_batches, tf.cast(sizes, tf.int64))

    def cut(serialized: Any, lengths: Any, sizes: Any) -> Any:
        # `rebatch` needs no function for each batch, and slices without copying.
        rows = tf.data.Dataset.from_tensors((serialized, lengths))
        if batch_size is not None:
            return rebatched(rows, batch_size, drop_remainder=True)
        # The sizes may be none; the rows end with the last of them.
        some = tf.dynamic_partition(sizes, tf.cast(sizes > 0, tf.int32), 2)[1]
        return rebatched(rows, tf.concat([some, [1]], 0))

    nothing = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
    return flat_mapped(scanned(turns, (*nothing, tf.zeros([], tf.int64)), step), cut)


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
