"""`tf.contrib.layers`, reduced to the one function that input functions used."""

from __future__ import annotations

from typing import Any


def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Any:
    """Convert labels to one-hot rows, as `tf.contrib.layers.one_hot_encoding` did.

    Args:
        labels: integers.
        num_classes: the width of the rows.
        on_value: the value at the index of the label.
        off_value: the value elsewhere.
        outputs_collections: graph collections to which the result is added.
        scope: the name scope of the operations.
    """
    import tensorflow as tf

    with tf.compat.v1.name_scope(scope, "OneHotEncoding", [labels, num_classes]):
        labels = tf.convert_to_tensor(labels)
        if labels.dtype == tf.int32:
            labels = tf.cast(labels, tf.int64)
        encoded = tf.one_hot(labels, num_classes, on_value, off_value)
        if outputs_collections:
            tf.compat.v1.add_to_collections(outputs_collections, encoded)
        return encoded
