"""The order of a priority queue that is kept full."""

from __future__ import annotations

from typing import Any

from seqrecorder.legacy.tf1_behaviour import with_shape


def lowest_first(contents: Any, capacity: int) -> Any:
    """Let the element of the lowest priority come first, of those that a queue of a capacity holds.

    In TensorFlow 1 that was the order where the threads that filled the queue were ahead of what emptied it, so that it
    was full each time that something was taken. Among equal priorities, the first that came is the first to go.

    Args:
        contents: a `tf.data.Dataset` of tuples, whose first component is the priority, an int64 scalar.
        capacity: elements that the queue holds; below 1 for no limit: all are held before the first comes.
    """
    import tensorflow as tf

    specs = contents.element_spec
    limit = capacity if capacity > 0 else tf.int64.max
    packed = contents.map(lambda *row: (row[0], tf.stack([tf.io.serialize_tensor(x) for x in row]), False))
    end = tf.data.Dataset.from_tensors((tf.constant(0, tf.int64), tf.fill([len(specs)], ""), True))

    def step(held: Any, element: Any) -> Any:
        (priorities, rows), (priority, row, last) = held, element
        new = tf.where(last, 0, 1)  # the end is no element
        priorities = tf.concat([priorities, priority[tf.newaxis][:new]], 0)
        rows = tf.concat([rows, row[tf.newaxis][:new]], 0)
        size = tf.size(priorities, tf.int64)
        count = tf.where(last, size, tf.cast(size >= limit, tf.int64))
        order = tf.argsort(priorities, stable=True)
        kept = tf.sort(order[count:])
        return (tf.gather(priorities, kept), tf.gather(rows, kept)), tf.gather(rows, order[:count])

    nothing = tf.zeros([0], tf.int64), tf.zeros([0, len(specs)], tf.string)
    out = packed.concatenate(end).scan(nothing, step).unbatch()
    return out.map(
        lambda row: tuple(with_shape(tf.io.parse_tensor(row[j], s.dtype), s.shape) for j, s in enumerate(specs))
    )
