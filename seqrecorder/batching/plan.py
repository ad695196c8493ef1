"""Batches planned for whole windows of serialized records, in vector operations.

An element that meets a traced function costs more than parsing a short record does. So records are never
handled one by one: a plan looks at the lengths of a window (and of the rows that the windows before left
over), and says which rows form which batch. The strings are gathered once, and cut into batches without being
copied again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    # (lengths: int64 [n], window: int64 scalar, last: bool scalar) -> (rows: int [n], sizes: int64 [m])
    Plan = Callable[[Any, Any, Any], tuple[Any, Any]]


def plan_batches(windows: Any, plan: Plan, *, batch_size: int | None = None) -> Any:
    """Return the batches into which `plan` divides the rows of each window and of the leftovers before it.

    Nothing but the leftovers and the number of windows seen is carried on, so memory is bounded by one window
    and its leftovers, and an iterator can be saved with `tf.train.Checkpoint(iterator=...)` before any batch.

    Args:
        windows: a finite `tf.data.Dataset` of `(serialized: tf.string [w], lengths: tf.int64 [w])`, in
            stream order; `w` may differ from window to window, and may be 0.
        plan: a traceable function of the lengths (leftovers first), the index of the window, and whether the
            stream has ended (then there is no window: all rows are leftovers). It returns the rows in the
            order in which they leave, and the sizes of the batches (0 for none). Rows in no batch are left
            over for the next window, in that order.
        batch_size: the one size of all batches, when that is certain: it becomes their static shape.

    Returns:
        A `tf.data.Dataset` of `(serialized: tf.string [b], lengths: tf.int64 [b])`.
    """
    import tensorflow as tf

    def step(carried: Any, window: Any) -> Any:
        (old_serialized, old_lengths, index), (serialized, lengths, last) = carried, window
        serialized = tf.concat([old_serialized, serialized], 0)
        lengths = tf.concat([old_lengths, lengths], 0)
        rows, sizes = plan(lengths, index, last)
        planned = tf.reduce_sum(sizes)
        now, later = rows[:planned], rows[planned:]
        batches = tf.gather(serialized, now), tf.gather(lengths, now), tf.boolean_mask(sizes, sizes > 0)
        return (tf.gather(serialized, later), tf.gather(lengths, later), index + 1), batches

    def cut(serialized: Any, lengths: Any, sizes: Any) -> Any:
        # `rebatch` needs no function for each batch, and slices without copying.
        rows = tf.data.Dataset.from_tensors((serialized, lengths))
        if batch_size is not None:
            return rows.rebatch(batch_size, drop_remainder=True)
        # The sizes may be none; the rows end with the last of them.
        return rows.rebatch(tf.concat([sizes, [1]], 0))

    strings, numbers = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)
    index, last = tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.bool)
    # `scan` traces its function twice to find out that the state has no static shape: let that be a call.
    traced = tf.function(step, input_signature=((strings, numbers, index), (strings, numbers, last)), autograph=False)
    nothing = tf.zeros([0], tf.string), tf.zeros([0], tf.int64)
    stream = windows.map(lambda serialized, lengths: (serialized, lengths, False)).concatenate(at_end((*nothing, True)))
    return stream.scan((*nothing, tf.zeros([], tf.int64)), traced).flat_map(cut)


def at_end(element: Any) -> Any:
    """Return a `tf.data.Dataset` of one element, to follow a stream and to say that it has ended.

    Under tf.data's service each source is dealt among the workers, so that an element of its own would reach one of
    them alone, and the others would keep back what they hold. Random numbers are a source that is not dealt.
    """
    import tensorflow as tf

    return tf.data.Dataset.random(seed=0).take(1).map(lambda _: element)


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


def at_random(starts: Any, sizes: Any, seed: Any, window: Any) -> tuple[Any, Any]:
    """Return the batches, given by their starts and their sizes, in the order drawn for this window.

    Args:
        starts: int64, `(m,)`.
        sizes: int64, `(m,)`.
        seed: a number, or an int64 scalar such as a function of the epoch; None leaves the order as it is.
        window: int64 scalar, the index of the window.
    """
    import tensorflow as tf

    if seed is None:
        return starts, sizes
    # The algorithm is named so that the order is the same on every device.
    key = tf.stack([tf.cast(seed, tf.int64), window])
    order = tf.argsort(tf.random.stateless_uniform(tf.shape(sizes), key, alg="philox"), stable=True)
    return tf.gather(starts, order), tf.gather(sizes, order)


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
