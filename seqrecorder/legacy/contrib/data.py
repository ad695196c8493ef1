"""`tf.contrib.data`: transformations that TensorFlow holds under no name any more.

Inside `compat`, `tf.contrib.data` also has what `tf.data.experimental` and TensorFlow 1's `tf.data` have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def batch_and_drop_remainder(batch_size: Any) -> Callable[[Any], Any]:
    """Return `tf.contrib.data.batch_and_drop_remainder`, for `Dataset.apply`.

    Args:
        batch_size: elements of a batch.
    """
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Any, padded_shapes: Any, padding_values: Any = None
) -> Callable[[Any], Any]:
    """Return `tf.contrib.data.padded_batch_and_drop_remainder`, for `Dataset.apply`.

    Args:
        batch_size: elements of a batch.
        padded_shapes: see `tf.data.Dataset.padded_batch`.
        padding_values: likewise.
    """
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)
