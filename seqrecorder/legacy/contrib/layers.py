"""`tf.contrib.layers`: what input functions used of it."""

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
    """Return `tf.contrib.layers.one_hot_encoding`, which slim had too: a row of a vector for each label.

    Args:
        labels: integers.
        num_classes: width of the rows.
        on_value: at the label's place.
        off_value: elsewhere.
        outputs_collections: of the graph, into which the result is put.
        scope: name of the operations.
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
