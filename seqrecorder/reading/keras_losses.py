"""What the losses of Keras take: targets with the axis over which they average, and sample weights of their shape.

Most losses compare numbers, and average over the last axis of a target: of scalars per step, `(B, T)`, that would be
the steps, real ones and padding alike, and weights per step would fit nothing. So such scalars get a last axis of 1.
Integers stand for classes, which are no numbers to average: the sparse losses take `(B, T)` as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def with_last_axis(target: Any) -> Any:
    """Return a target of one value per step, `(B, T)`, as `(B, T, 1)`, unless its values are classes.

    >>> import tensorflow as tf
    >>> [with_last_axis(tf.zeros([2, 3], dtype)).shape.as_list() for dtype in (tf.float32, tf.bool, tf.int64)]
    [[2, 3, 1], [2, 3, 1], [2, 3]]

    Args:
        target: a tensor whose second dimension counts steps; any other structure and rank is returned as it is.
    """
    import tensorflow as tf

    if not isinstance(target, tf.Tensor) or target.shape.rank != 2:  # noqa: PLR2004 - batch and steps
        return target
    return target[..., tf.newaxis] if target.dtype.is_floating or target.dtype == tf.bool else target


def loss_rank(target: Any, outer: int) -> int:
    """Return the rank of what a loss makes of a target: without its last axis, which it takes together.

    Args:
        target: a tensor, before `with_last_axis`.
        outer: its dimensions of records, and of steps where it has some; classes and scalars have no other.
    """
    rank: int = target.shape.rank
    return max(outer, rank - 1)


def loss_weights(target: Any, outer: int, parts: Sequence[Any]) -> Any:
    """Return sample weights of the shape that a loss makes of a target.

    >>> import tensorflow as tf
    >>> target, real = tf.zeros([2, 3]), tf.sequence_mask([3, 1])
    >>> loss_weights(target, 2, [tf.constant([2.0, 5.0]), real]).numpy().tolist()
    [[2.0, 2.0, 2.0], [5.0, 0.0, 0.0]]

    Args:
        target: a tensor, before `with_last_axis`.
        outer: as for `loss_rank`.
        parts: what weights are made of: numbers, and bool where 0 stands for False, whatever the numbers are. Their
            dimensions are the first ones of the loss; there may be none, for weights of 1.
    """
    import tensorflow as tf

    rank = loss_rank(target, outer)
    static = target.shape[:rank]
    shape = tf.shape(target)[:rank]

    def spread(part: Any) -> Any:
        more = [1] * (rank - part.shape.rank)
        return tf.broadcast_to(tf.reshape(part, tf.concat([tf.shape(part), more], 0)), shape)

    weights = tf.ones(shape)
    for part in parts:
        if part.dtype != tf.bool:
            weights *= spread(tf.cast(part, tf.float32))
    for part in parts:
        if part.dtype == tf.bool:
            weights = tf.where(spread(part), weights, 0.0)
    return tf.ensure_shape(weights, static)
