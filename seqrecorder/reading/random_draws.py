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


_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def figures_of(positions: Any, number: Any) -> Any:
    """Return a figure in [0, 1) for each position, float64, which depends on nothing but that and the epoch.

    It is the generator SplitMix64 (Steele, Lea and Flood, 2014), which gives the n-th number of a series at once.

    >>> import tensorflow as tf
    >>> figures_of(tf.constant([0, 1, 2], tf.int64), tf.constant(7, tf.int64)).numpy().round(3).tolist()
    [0.39, 0.017, 0.901]

    Args:
        positions: int64, `(n,)`.
        number: int64 scalar: stands for the order of the epoch.
    """
    import tensorflow as tf

    def constant(value: int) -> Any:
        return tf.constant(value, tf.uint64)

    def folded(value: Any, by: int) -> Any:
        return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, constant(by)))

    mixed = tf.bitcast(number, tf.uint64) + (tf.bitcast(positions, tf.uint64) + constant(1)) * constant(_STEP)
    mixed = folded(folded(folded(mixed, 30) * constant(_FIRST), 27) * constant(_SECOND), 31)
    # 53 bits are what a float64 holds.
    return tf.cast(tf.bitwise.right_shift(mixed, constant(11)), tf.float64) * 2.0**-53
