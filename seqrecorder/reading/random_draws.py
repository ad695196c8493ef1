"""Random numbers of an epoch, drawn in vectors: the same for the same seed, whatever a program draws besides."""

from __future__ import annotations

from typing import Any

_PURPOSES = 4


def draw_below(sizes: Any, number: Any, index: Any, purpose: int = 0) -> Any:
    """Return an int64 for each size, of which all from 0 up to that size are equally likely.

    >>> import tensorflow as tf
    >>> draw_below(tf.constant([1, 10, 10], tf.int64), 7, 0).numpy().tolist()
    [0, 3, 1]

    Args:
        sizes: int64, `(n,)`, 1 or more.
        number: int64 scalar: stands for the order of the epoch.
        index: int64 scalar: of the window or batch in the epoch.
        purpose: different numbers give draws that have nothing to do with each other.
    """
    import tensorflow as tf

    # The orders of windows are drawn with indices that are not negative.
    key = tf.stack([tf.cast(number, tf.int64), -1 - (tf.cast(index, tf.int64) * _PURPOSES + purpose)])
    # 63 bits, so that the sizes of sequences divide them evenly enough.
    most = tf.int64.max
    drawn = tf.random.stateless_uniform(tf.shape(sizes), key, minval=0, maxval=most, dtype=tf.int64, alg="philox")
    return drawn % sizes
