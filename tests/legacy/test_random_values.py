"""Random values between queues: those of the old operations."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from queue_runs import assert_equal_elements, assert_lifts_exactly, v1

from seqrecorder import legacy
from seqrecorder.errors import LiftError


def numbers(limit=20):
    return v1.train.range_input_producer(limit, num_epochs=1, shuffle=False).dequeue()


@contextlib.contextmanager
def old_control_flow():
    """Let conditions and loops be operations of the graph, as those of scripts of TensorFlow 1 are."""
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


def test_all_kinds_of_draws():
    """Every operation has the values of its own stream, whatever their number, dtype and bounds."""

    def input_fn():
        number = numbers()
        many = [number % 4, 3]
        tensors = {
            "uniform": tf.cast(number, tf.float32) + v1.random_uniform([2], seed=11),
            "wide": v1.random_uniform([], -5, tf.cast(number, tf.int64) + 1, tf.int64, seed=0),
            "bounds": v1.random_uniform(many, number, 2 * number + 1, tf.int32, seed=12),
            "normal": v1.random_normal(many, stddev=2.0, seed=13, dtype=tf.float64),
            "cut": v1.truncated_normal([5], seed=14),
            "half": v1.random_uniform([3], seed=11, dtype=tf.float16),
            "nothing": v1.random_uniform([0], seed=2),
            "crop": v1.random_crop(tf.reshape(tf.range(20), [5, 4]), [2, 2], seed=3),
            "flip": v1.image.random_flip_left_right(tf.reshape(tf.range(12.0), [2, 2, 3]), seed=4),
        }
        return v1.train.batch(tensors, 3, dynamic_pad=True, allow_smaller_final_batch=True)

    lifted, outputs = assert_lifts_exactly(input_fn, graph_seed=5)
    for ours, theirs in zip(lifted.dataset.as_numpy_iterator(), outputs, strict=True):  # again
        assert_equal_elements(ours, theirs)


def test_draws_in_branches():
    """A stream goes on where its branch is taken only; branches may be nested, and be chosen by chance."""

    @old_control_flow()
    def input_fn():
        number = numbers()
        chance = v1.random_uniform([], seed=4)

        def inner():
            return v1.cond(chance > 0.5, lambda: v1.random_normal([], seed=1), lambda: tf.zeros([]))

        return v1.cond(number % 3 > 0, inner, lambda: v1.random_uniform([], seed=2)), number

    _, outputs = assert_lifts_exactly(input_fn)
    assert len({str(value) for value, _ in outputs}) > 10


def test_what_has_a_state_does_not_wait_for_branches():
    """Checks in a branch that is not taken are none, whatever else has a state."""

    @old_control_flow()
    def input_fn():
        def flipped(x, number):
            number = v1.py_func(lambda n: n + 1, [number], tf.int32)
            unknown = v1.placeholder_with_default(x, [None, None, None])
            return v1.cond(number % 3 > 0, lambda: v1.image.flip_left_right(unknown), lambda: unknown), number

        return flipped(*flipped(tf.zeros([2, 3, 3]), numbers()))

    _, outputs = assert_lifts_exactly(input_fn)
    assert len(outputs) == 20


def test_draws_without_a_source():
    """A queue of nothing but random vectors, and random operations behind it as well."""

    def input_fn():
        queue = tf.queue.FIFOQueue(20, [tf.float32], shapes=[[3]])
        vector = v1.train.limit_epochs(v1.random_uniform([3], seed=2), 21)
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(vector)]))
        return queue.dequeue() * v1.random_normal([], seed=8)

    _, outputs = assert_lifts_exactly(input_fn)
    assert len(outputs) == 21


def test_draws_without_a_seed():
    """A new iterator draws anew what has no seed, and the same again of what has one."""

    def input_fn():
        return tf.stack([v1.random_uniform([]), v1.random_uniform([], seed=1)]) + tf.cast(numbers(), tf.float32)

    dataset = legacy.lift(input_fn)
    one, other = (np.array(list(dataset.as_numpy_iterator())) for _ in range(2))
    np.testing.assert_array_equal(one[:, 1], other[:, 1])
    assert (one[:, 0] != other[:, 0]).all()
    assert len(np.unique(one[:, 0] - np.arange(20))) > 10


def of_python():
    return v1.py_func(lambda x: x, [numbers()], tf.int32)


def in_a_branch():
    return tf.cond(numbers() > 3, lambda: v1.random_uniform([], seed=1), lambda: 0.0)


def in_a_loop():
    return tf.while_loop(lambda x: x < 9, lambda x: x + v1.random_uniform([], 1, 3, x.dtype, seed=1), [numbers()])


in_an_old_loop = old_control_flow()(in_a_loop)


def of_chance():
    return v1.random_uniform([], seed=1) + tf.cast(numbers(), tf.float32)


def of_a_shuffle():
    return v1.random_shuffle(tf.range(5) + numbers(), seed=1)


@pytest.mark.parametrize("input_fn", [of_python, in_a_branch, in_a_loop, in_an_old_loop, of_chance, of_a_shuffle])
def test_what_has_a_state_is_not_saved(input_fn, tmp_path):
    """What keeps a state elsewhere works, and TensorFlow refuses to save."""
    iterator = iter(legacy.lift(input_fn))
    assert next(iterator) is not None
    with pytest.raises(tf.errors.FailedPreconditionError, match="is stateful"):
        tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "no"))


def test_a_seed_from_outside_is_not_lost():
    """A seed that was set before, eagerly, is none of the function's graph: what draws by it is refused without one."""

    def shuffled():
        return v1.train.range_input_producer(9, num_epochs=2, seed=3).dequeue()

    def drawn():
        return v1.train.range_input_producer(9, num_epochs=1, shuffle=False).dequeue(), tf.random.uniform([])

    def fixed():
        return v1.train.range_input_producer(9, num_epochs=1, shuffle=False).dequeue()

    tf.random.set_seed(5)
    try:
        for input_fn in (shuffled, drawn):
            with pytest.raises(LiftError, match=r"draws by the seed of the graph.*give graph_seed=5"):
                legacy.lift(input_fn)
        assert len(list(legacy.lift(fixed))) == 9
        assert_lifts_exactly(shuffled, graph_seed=5)
        with tf.Graph().as_default():
            v1.set_random_seed(5)
            inside = legacy.lift(shuffled)
        assert [*inside.as_numpy_iterator()] == [*legacy.lift(shuffled, graph_seed=5).as_numpy_iterator()]
    finally:
        tf.random.set_seed(None)
