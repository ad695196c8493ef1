"""Weights of classes, looked up for every target, of steps and of records alike."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

from seqrecorder.errors import OptionError


def check_class_weight(value: Any) -> Mapping[int, float]:
    """Return the weight of each class of one target.

    Raises:
        OptionError: it is no mapping of classes, which are ints, to weights of 0 or more.
    """
    if isinstance(value, Mapping) and value and all(map(_is_class, value)) and all(map(_is_weight, value.values())):
        return {int(key): float(weight) for key, weight in value.items()}
    raise OptionError(
        f"class_weight: expected a mapping of classes (ints) to weights of 0 or more, such as {{0: 1.0, 1: 5.0}}; for "
        f"several targets one for each, structured as they are; got {value!r}"
    )


def _is_class(key: Any) -> bool:
    return isinstance(key, numbers.Integral)


def _is_weight(weight: Any) -> bool:
    is_number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
    return is_number and 0 <= float(weight) < math.inf


def weights_of_classes(target: Any, outer: int, class_weight: Mapping[int, float], name: str) -> Any:
    """Return the weight of the class of each value of a target, 1 for those that are not named.

    >>> import tensorflow as tf
    >>> weights_of_classes(tf.constant([[3, 7], [0, 3]]), 2, {3: 0.5, 0: 4.0}, "tags").numpy().tolist()
    [[0.5, 1.0], [4.0, 0.5]]

    Args:
        target: ints or bools, one for each record or step; a last axis of 1 may follow.
        outer: its dimensions of records and steps.
        class_weight: weights by class.
        name: of the target, for errors.

    Raises:
        OptionError: the values are no classes.
    """
    import tensorflow as tf

    is_class = isinstance(target, tf.Tensor) and (target.dtype.is_integer or target.dtype == tf.bool)
    if is_class and target.shape.rank == outer + 1 and target.shape[-1] == 1:
        target = target[..., 0]
    if not is_class or target.shape.rank != outer:
        raise OptionError(
            f"class_weight: expected ints or bools for the target {name!r}, one for each "
            f"{'step' if outer > 1 else 'record'}, got {target.dtype.name} of shape {target.shape}"
        )
    keys = sorted(class_weight)
    classes, known = tf.cast(target, tf.int64), tf.constant(keys, tf.int64)
    at = tf.minimum(tf.searchsorted(known, tf.reshape(classes, [-1])), len(keys) - 1)
    at = tf.reshape(at, tf.shape(classes))
    weights = tf.gather(tf.constant([class_weight[key] for key in keys], tf.float32), at)
    return tf.where(tf.gather(known, at) == classes, weights, 1.0)
