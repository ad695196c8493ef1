"""Best-fit decreasing: sequences to rows of a fixed length, planned for thousands at a time in vector operations."""

from __future__ import annotations

from typing import Any

_CLASS = 16
"""Lengths of one class differ by at most a sixteenth; up to 31 each length is a class."""


def length_classes(length: int) -> list[int]:
    """Return the least length of each class, ascending, for lengths up to `length`.

    >>> length_classes(40)[-4:]
    [34, 36, 38, 40]
    >>> length_classes(3)
    [1, 2, 3]
    """
    classes = []
    least = 1
    while least <= length:
        classes.append(least)
        least += max(1, least // _CLASS)
    return classes


def best_fit_rows(sizes: Any, length: int) -> Any:
    """Return the row of each sequence, so that no row holds more than `length` steps and few rows are needed.

    The sequences go from the longest to the shortest, a class of about equal lengths at a time. The rows with the least
    free space come first, and each takes as many sequences of the class as it has room for when all are as long as the
    longest of them. Among short sequences, of which every length is a class, that is best-fit decreasing itself: what
    is counted there once for all sequences of one length is where each of them would have gone, one after the other.
    So the loop goes over classes, of which there are few, instead of sequences. Rows are nearly as full as by best-fit
    decreasing one by one.

    >>> import tensorflow as tf
    >>> best_fit_rows(tf.constant([3, 9, 6, 1, 1], tf.int64), 10).numpy().tolist()
    [1, 0, 1, 0, 1]

    Args:
        sizes: int64, `(n,)`, in steps: 1 or more, and at most `length`.
        length: steps of a row.

    Returns:
        int64, `(n,)`: rows are numbered from 0, without gaps.
    """
    import tensorflow as tf

    order = tf.argsort(sizes, direction="DESCENDING", stable=True)
    ordered = tf.gather(sizes, order)
    kinds = tf.searchsorted(tf.constant(length_classes(length), tf.int64), ordered, side="right")
    counts = tf.unique_with_counts(kinds, tf.int64).count
    starts = tf.cumsum(counts, exclusive=True)
    longest = tf.gather(ordered, starts)
    # One class of nothing more, as the loop must run for its results to have a shape.
    counts, starts = tf.concat([counts, [0]], 0), tf.concat([starts, [tf.size(sizes, tf.int64)]], 0)
    longest = tf.concat([longest, [length]], 0)
    before = tf.concat([[0], tf.cumsum(ordered)], 0)
    # Every row but one is filled to more than 8/17 on average: a new one is begun when no other has room for a sequence
    # 1/16 longer than those that come.
    rows = tf.minimum(tf.size(sizes, tf.int64), before[-1] * 17 // (8 * length) + 1) + 1

    def place(kind: Any, keys: Any, all_keys: Any, all_ends: Any) -> Any:
        # A key is the free space of a row, and its number; sorted, the fullest rows come first and unused ones last.
        room = keys // (longest[kind] * rows)
        ends = starts[kind] + tf.minimum(tf.cumsum(room), counts[kind])
        filled = tf.gather(before, tf.concat([starts[kind : kind + 1], ends], 0))
        negative = (filled[1:] - filled[:-1]) * rows - keys
        # `tf.sort` is this and three more operations.
        ascending = -tf.math.top_k(negative, tf.cast(rows, tf.int32)).values
        return kind + 1, ascending, all_keys.write(kind, keys), all_ends.write(kind, ends)

    classes = tf.size(counts)
    empty = length * rows + tf.range(rows)
    arrays = [tf.TensorArray(tf.int64, classes, element_shape=[None]) for _ in range(2)]
    _, _, all_keys, all_ends = tf.while_loop(lambda kind, *_: kind < classes, place, (0, empty, *arrays))
    # The ends never decrease, so a search finds in which row, of which class, each sequence was placed.
    ends = tf.reshape(all_ends.stack(), [-1])
    at = tf.searchsorted(ends, tf.range(tf.size(sizes, tf.int64)), side="right")
    placed = tf.gather(tf.reshape(all_keys.stack(), [-1]) % rows, at)
    return tf.scatter_nd(tf.cast(order, tf.int64)[:, tf.newaxis], placed, tf.shape(sizes, tf.int64))
