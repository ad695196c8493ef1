"""The order of `tf.random_shuffle`, without its state: against the operation itself."""

import numpy as np
import pytest
import tensorflow as tf

from seqrecorder.legacy.readers import numbered, shuffled


def runs(values, seeds, times):
    dataset = numbered(tf.data.Dataset.range(times), seeds)
    return list(dataset.map(lambda run, drawn: shuffled(values, run, drawn)).as_numpy_iterator())


@pytest.mark.parametrize(
    ("count", "seeds"),
    [(1, (3, 3)), (2, (1, 1)), (3, (0, 5)), (5, (87654321, 7)), (6, (99, -3)), (1001, (2**40, 2**50)), (4096, (1, 0))],
)
def test_orders_are_those_of_the_operation(count, seeds):
    """Any run's order is what the operation gave when it ran for that time, whatever the seeds and the count."""
    kernel = tf.data.Dataset.range(5).map(
        lambda _: tf.raw_ops.RandomShuffle(value=tf.range(count), seed=seeds[0], seed2=seeds[1])
    )
    np.testing.assert_array_equal(runs(tf.range(count), seeds, 5), list(kernel.as_numpy_iterator()))


def test_rows_move_as_a_whole():
    """Values of any dtype and shape are shuffled along their first dimension, and keep their shape."""
    words = tf.constant([["a", "b"], ["c", "d"], ["e", "f"]])
    rows = runs(words, (4, 2), 40)
    assert sorted(map(tuple, rows[3].tolist())) == [(b"a", b"b"), (b"c", b"d"), (b"e", b"f")]
    assert len({tuple(map(tuple, r.tolist())) for r in rows}) == 6, "all orders come"


def test_orders_are_the_same_where_tensors_are_compared_as_objects():
    """After `tf.disable_v2_behavior()`, as old scripts have it, tensors are equal only to themselves: orders stay."""
    expected = runs(tf.range(9), (4, 2), 3)
    tf.compat.v1.disable_tensor_equality()
    try:
        np.testing.assert_array_equal(runs(tf.range(9), (4, 2), 3), expected)
    finally:
        tf.compat.v1.enable_tensor_equality()


def test_without_seeds_orders_are_drawn():
    """Zeros stand for no seed: each iteration has orders of its own."""
    dataset = numbered(tf.data.Dataset.range(2), (0, 0)).map(lambda run, drawn: shuffled(tf.range(50), run, drawn))
    first, second, third, fourth = (tuple(order) for _ in range(2) for order in dataset.as_numpy_iterator())
    assert len({first, second, third, fourth}) == 4
