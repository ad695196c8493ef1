"""Context managers that switch TensorFlow to version 1 behaviour for old code, and back to version 2 for datasets."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    """Switch to eager execution and to the behaviour of TensorFlow 2.

    This also works inside a graph, and after a script has disabled them.
    """
    from tensorflow.python.eager import context  # not public; `tf.init_scope` would not leave a `tf.Graph`

    with context.eager_mode(), _switched(first=False):
        yield


@contextlib.contextmanager
def in_default_graph() -> Iterator[None]:
    """Add the operations of the block to the global default graph, as in TensorFlow 1.

    The graph is reset before and after the block.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context  # inside a `tf.Graph`, nothing may reset the default graph

    with context.graph_mode():
        tf.compat.v1.reset_default_graph()
        try:
            yield
        finally:
            tf.compat.v1.reset_default_graph()


@contextlib.contextmanager
def first_behaviour() -> Iterator[None]:
    """Switch to the shapes and variables of TensorFlow 1, on which old code relies.

    Conditionals stay as in TensorFlow 2: each is one operation, with a function for each branch. `tf.train.maybe_batch`
    and similar functions would store sparse tensors inside such a branch, which hides the operation that the batch
    needs. Inside the block, they store sparse tensors before the branch. A session then keeps the sparse tensors of
    dropped examples in memory until it ends.
    """
    import tensorflow as tf
    from tensorflow.python.training import input as batching  # the module has no public name

    store = batching._store_sparse_tensors  # noqa: SLF001

    def stored(tensors: Any, enqueue_many: Any, keep: Any, shared: Any = None) -> Any:
        sparse = any(isinstance(tensor, tf.SparseTensor) for tensor in tensors)
        if sparse and keep.shape.rank == 0 and tf.get_static_value(keep) is None:
            keep = tf.constant(value=True)
        return store(tensors, enqueue_many, keep, shared)

    with _switched(first=True), mock.patch.object(batching, "_store_sparse_tensors", stored):
        yield


@contextlib.contextmanager
def _switched(*, first: bool) -> Iterator[None]:
    import tensorflow as tf
    from tensorflow.python import tf2  # not public; datasets warn if it is off

    v1 = tf.compat.v1
    shapes_are_second = isinstance(tf.TensorShape([1])[0], int)
    switches = [
        (not v1.control_flow_v2_enabled(), v1.enable_control_flow_v2, v1.disable_control_flow_v2),
        (not first and not tf2.enabled(), tf2.enable, tf2.disable),
        (not (first or tf.Tensor._USE_EQUALITY), v1.enable_tensor_equality, v1.disable_tensor_equality),  # noqa: SLF001
    ]
    for is_second, disable, enable in (
        (shapes_are_second, v1.disable_v2_tensorshape, v1.enable_v2_tensorshape),
        (v1.resource_variables_enabled(), v1.disable_resource_variables, v1.enable_resource_variables),
    ):
        switches.append((is_second is first, *((disable, enable) if first else (enable, disable))))
    with contextlib.ExitStack() as stack:
        for needed, switch, back in switches:
            if needed:
                switch()
                stack.callback(back)
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress TensorFlow's deprecation warnings about queues."""
    import tensorflow as tf

    def keep(record: logging.LogRecord) -> bool:
        return "Instructions for updating" not in str(record.msg)

    logger = tf.get_logger()
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


def with_shape(value: Any, shape: Any) -> Any:
    """Set and check the shape of a tensor, unless its rank is unknown."""
    import tensorflow as tf

    return value if tf.TensorShape(shape).rank is None else tf.ensure_shape(value, shape)
