"""Epochs: one after the other, each in an order of its own, which the seed decides, like all that is drawn in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.codec.graph_ops import index_range, rows_at
from seqrecorder.reading.tfdata_ops import flat_mapped, mapped, one_element, staged
from seqrecorder.reading.traced import Traced

if TYPE_CHECKING:
    from collections.abc import Callable


_ENDLESS = 1 << 40
"""Epochs of an iteration without end."""

_AUTO = 3
"""The number of `tf.random.Algorithm.AUTO_SELECT`."""


_PROGRAM_SEED = 87654321
"""What TensorFlow takes for the seed of a program that has none."""


def in_epochs(
    epoch: Callable[[Any], Any], *, drawn: bool, seed: int | None, epochs: int | None, first_epoch: int = 0
) -> Any:
    """Return the `tf.data.Dataset`s of all epochs, one after the other.

    Args:
        epoch: from the number that stands for the order of an epoch, None where nothing is drawn.
        drawn: whether records are shuffled, or anything is drawn.
        seed: of the orders; None draws one.
        epochs: how many; None is for ever.
        first_epoch: of the seed, which comes first.
    """
    import tensorflow as tf

    if not drawn:
        return epoch(None).repeat(epochs)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
    # The epochs are counted by a source that tf.data's service deals, so that each goes to one worker; what counts the
    # iterations goes to all.
    each = _ENDLESS if epochs is None else epochs
    indices = tf.data.Dataset.range(first_epoch, first_epoch + each)
    index_range = tf.data.Dataset.zip((indices, iterations_begun()))
    return flat_mapped(index_range, lambda index, begun: epoch(_order_of(seed, index + begun * each)))


def iterations_begun() -> Any:
    """Return a `tf.data.Dataset` of one int64 again and again: how many iterations over this object began before.

    An iterator of which no element is asked for, such as those that Keras makes and throws away, does not count.

    >>> begun = iterations_begun().take(2)
    >>> [[int(number) for number in begun] for _ in range(3)]
    [[0, 0], [1, 1], [2, 2]]
    """
    drawn = random_numbers(0)
    drawn = drawn.take(0).concatenate(drawn.take(1))  # what is concatenated is begun when it is asked for
    return flat_mapped(drawn, _place_of_seed, key=_place_of_seed)


def _place_of_seed(drawn: Any) -> Any:
    """Return the place of a seed in the series of those that are drawn, again and again."""
    import tensorflow as tf

    # The one state that iterators share, and that can be saved and sent to other machines, is a seed that is drawn anew
    # for each. A series made here starts from the first, so the seed's place in it is the number of the iteration.
    scalar = tf.TensorSpec([], tf.int64)
    other = Traced.of(lambda number: tf.not_equal(number, drawn), scalar)
    count = Traced.of(lambda count, _: count + 1, (scalar, scalar))
    index_range = random_numbers(0).take(1).repeat()
    before = other.applied(tf.raw_ops.TakeWhileDataset, index_range, scalar, name="predicate")
    return one_element(count.reduced(before, tf.constant(0, tf.int64))).repeat()


def _order_of(seed: int, epoch: Any) -> Any:
    """Return the number that stands for the order of an epoch of a seed: int64 scalar."""
    import tensorflow as tf

    # As `tf.random.stateless_uniform` gives it with alg="philox", in a tenth of the operations.
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.stack([tf.constant(seed, tf.int64), epoch]))
    scalar = tf.zeros([0], tf.int32)
    return tf.raw_ops.StatelessRandomUniformFullIntV2(shape=scalar, key=key, counter=counter, alg=1, dtype=tf.int64)


def permutation(number: Any, index: Any, rows: Any) -> Any:
    """Return the rows of a window in random order.

    Args:
        number: int64 scalar: stands for the order of the epoch.
        index: int64 scalar: of the window in the epoch.
        rows: their numbers.
    """
    import tensorflow as tf

    # As `tf.random.experimental.stateless_shuffle` gives it.
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.raw_ops.Pack(values=[number, index + 1]))
    return tf.raw_ops.StatelessShuffle(value=rows, key=key, counter=counter, alg=_AUTO)


def permuted(windows: Any, number: Any) -> Any:
    """Return windows with their rows in random order."""
    import tensorflow as tf

    def permute(index: Any, window: tuple[Any, ...]) -> tuple[Any, ...]:
        order = permutation(number, index, index_range(tf.size(window[0])))
        return tuple(rows_at(part, order) for part in window)

    return mapped(windows.enumerate(), permute)


# What is drawn beside the order ---------------------------------------------------------------------------------------


def random_numbers(seed: int) -> Any:
    """Return a `tf.data.Dataset` of random int64 without end: others each iteration, the same series for a seed.

    `tf.data.Dataset.random` would draw others where a program has a seed of its own (`tf.random.set_seed`).

    >>> first, second = (list(random_numbers(1).take(2).as_numpy_iterator()) for _ in range(2))
    >>> first == second
    True

    Args:
        seed: of the series.
    """
    import tensorflow as tf

    return staged(
        tf.raw_ops.RandomDatasetV2,
        tf.TensorSpec([], tf.int64),
        seed=_PROGRAM_SEED,
        seed2=seed,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
    )


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
