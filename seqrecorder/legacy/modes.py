"""How TensorFlow behaves while old code runs, and while what takes its place is built."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator


def eagerly() -> Any:
    """Return a context in which operations run at once, inside graphs too, and where the process has that turned off."""
    from tensorflow.python.eager import context  # it has no public name: `tf.init_scope` stays inside a `tf.Graph`

    return context.eager_mode()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hold back TensorFlow's advice to give up queues, which is being followed."""
    import tensorflow as tf

    def keep(record: logging.LogRecord) -> bool:
        return "Instructions for updating" not in str(record.msg)

    logger = tf.get_logger()
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


@contextlib.contextmanager
def first_behaviour() -> Iterator[None]:
    """Let shapes, variables and the equality of tensors be those of TensorFlow 1, which old code relies on.

    Conditionals are those of TensorFlow 2: one operation each, with a function for each branch.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    switches = (
        (isinstance(tf.TensorShape([1])[0], int), v1.disable_v2_tensorshape, v1.enable_v2_tensorshape),
        (v1.resource_variables_enabled(), v1.disable_resource_variables, v1.enable_resource_variables),
        (_tensors_compare(), v1.disable_tensor_equality, v1.enable_tensor_equality),
        (not v1.control_flow_v2_enabled(), v1.enable_control_flow_v2, v1.disable_control_flow_v2),
    )
    with contextlib.ExitStack() as stack:
        for needed, switch, back in switches:
            if needed:
                switch()
                stack.callback(back)
        yield


def _tensors_compare() -> bool:
    """Return whether `==` of tensors compares their values."""
    import tensorflow as tf

    with tf.Graph().as_default():
        return bool(tf.is_tensor(tf.constant(1) == tf.constant(1)))
