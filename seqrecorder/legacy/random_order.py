"""The order in which `tf.random_shuffle` put values each time that it ran, with no state but a number.

The old operation counts how often it ran where no checkpoint sees it, so a `tf.data` iterator over it cannot be saved.
Its numbers are those of Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), so those of any
run can be had at once; and its swaps can be followed for all places at once, in place of one after the other.
"""

from __future__ import annotations

from typing import Any

_PHILOX = 1
_LANES = 4
"""Numbers that one step of Philox's counter gives."""


def numbered(times: Any, seeds: tuple[int, int]) -> Any:
    """Return a dataset of `(run, seeds)`, from one of the numbers of runs.

    Args:
        times: a `tf.data.Dataset` of int64 scalars, from 0.
        seeds: of the operation; zeros draw others in each iteration.
    """
    import tensorflow as tf

    if seeds != (0, 0):
        return times.map(lambda run: (run, tf.constant(seeds, tf.int64)))
    drawn = tf.data.Dataset.random(rerandomize_each_iteration=True).batch(2).take(1)
    return drawn.flat_map(lambda pair: times.map(lambda run: (run, pair)))


def shuffled(values: Any, run: Any, seeds: Any) -> Any:
    """Return what `tf.random_shuffle` gave for some values when it ran for the nth time.

    Args:
        values: a tensor `(n, ...)`, with the same n in each run.
        run: int64 scalar, counted from 0.
        seeds: int64 `(2,)`, of the graph and of the operation.
    """
    import tensorflow as tf

    count = tf.shape(values, tf.int64)[0]
    steps = tf.maximum(count - 1 + _LANES - 1, 0) // _LANES
    drawn = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=tf.stack([count]),
        key=tf.bitcast(seeds[:1], tf.uint64),
        counter=tf.bitcast(tf.stack([run * steps, seeds[1]]), tf.uint64),
        alg=_PHILOX,
        dtype=tf.uint32,
    )
    here = tf.range(count)
    # In step i the value at i and that at other[i], which is not before i, change places.
    other = here + tf.cast(drawn, tf.int64) % (count - here)
    return tf.ensure_shape(tf.gather(values, _after_swaps(here, other)), values.shape)


def _after_swaps(here: Any, other: Any) -> Any:
    """Return which value stands in each place after all steps."""
    import tensorflow as tf

    count = tf.size(here, tf.int64)
    nothing = -tf.ones_like(here)
    # What step i finds at i was put there by the last step before it that changed places with i, which found that at
    # its own place, and so on; following all of these ways to their start takes log2(n) rounds.
    swaps = other > here
    before = tf.math.unsorted_segment_max(tf.where(swaps, here, nothing), other, count)
    start = tf.where(before >= 0, before, here)
    [found] = tf.while_loop(
        lambda way: tf.reduce_any(tf.not_equal(tf.gather(way, way), way)), lambda way: [tf.gather(way, way)], [start]
    )
    # What step i takes from other[i] was put there by the last step before it with the same other place.
    order = tf.argsort(other, stable=True)
    places = tf.gather(other, order)
    again = tf.concat([tf.zeros([1], tf.bool), tf.equal(places[1:], places[:-1])], 0)[:count]
    previous = tf.concat([nothing[:1], tf.cast(order[:-1], tf.int64)], 0)[:count]
    last = tf.scatter_nd(order[:, tf.newaxis], tf.where(again, previous, nothing), tf.shape(here))
    return tf.where(last >= 0, tf.gather(found, tf.maximum(last, 0)), other)
