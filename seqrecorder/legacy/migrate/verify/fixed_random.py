"""Random numbers held still, so that two runs can be compared."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def held_still() -> Iterator[set[str]]:
    """Let operations that draw random numbers give the same one always; orders are shuffled as ever.

    Returns:
        The names of the operations that were called, which fills while they are.
    """
    import tensorflow as tf
    from tensorflow.python.ops import gen_image_ops, gen_random_ops  # what all functions of chance call in the end

    drawn: set[str] = set()

    def fraction(shape: Any, dtype: Any, *_: Any, **__: Any) -> Any:
        drawn.add("fraction")
        return tf.fill(shape, tf.cast(0.0625, dtype))

    def lowest(shape: Any, minval: Any, *_: Any, **__: Any) -> Any:
        drawn.add("lowest")
        return tf.fill(shape, minval)

    def first(logits: Any, num_samples: Any, *_: Any, output_dtype: Any = tf.int64, **__: Any) -> Any:
        drawn.add("first")
        return tf.zeros(tf.stack([tf.shape(logits)[0], num_samples]), output_dtype)

    def half(image_size: Any, *_: Any, **__: Any) -> Any:
        drawn.add("half")
        size = tf.concat([tf.cast(image_size[:2], tf.int32) // 2, [-1]], 0)
        return tf.zeros([3], tf.int32), size, tf.constant([[[0.0, 0.0, 0.5, 0.5]]])

    replaced = {
        **dict.fromkeys(("random_uniform", "random_standard_normal", "truncated_normal"), fraction),
        "random_uniform_int": lowest,
        "multinomial": first,
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(gen_image_ops, "sample_distorted_bounding_box_v2", half))
        for name, function in replaced.items():
            stack.enter_context(mock.patch.object(gen_random_ops, name, function))
        yield drawn
