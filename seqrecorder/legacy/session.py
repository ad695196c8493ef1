"""Datasets as tensors of a graph, for TensorFlow 1 training loops."""

from __future__ import annotations

import functools
import threading
import traceback
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import location_in
from seqrecorder.legacy.lifted import Lifted, Stage, register
from seqrecorder.legacy.lifting import translate
from seqrecorder.legacy.tf1_behaviour import eagerly, quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.legacy.lifted import Recipe


def get_next(dataset: Any, *, name: str = "get_next") -> Any:
    """Return tensors of the default graph that yield the next element of a dataset in each run.

    The training loop of an old script stays unchanged: write `x = get_next(lift(inputs))` instead of `x = inputs()`. At
    the end, a `Session` raises `OutOfRangeError` as before. `Coordinator` and `start_queue_runners` can stay, and have
    no effect. A missing file, or another error in the dataset, used to end the queue; now it raises a
    `tf.errors.UnknownError` whose message begins with the original error.

    >>> import tensorflow as tf
    >>> from seqrecorder.legacy import get_next, lift
    >>> numbers = lift(lambda: tf.compat.v1.train.range_input_producer(2, num_epochs=1, shuffle=False))
    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    ...     number = get_next(numbers)
    ...     print(session.run(number), session.run(number))
    0 1

    Args:
        dataset: a `tf.data.Dataset` created outside of graphs, or the result of `trace`.
        name: the name of the operation.

    Returns:
        Tensors in the structure of the dataset's elements. They come from one operation, which runs once per step. All
        sessions of this process share one iterator.

    Raises:
        LiftError: eager execution is on, so there is no graph.
    """
    import tensorflow as tf

    if tf.executing_eagerly():
        advice = "call it inside `with tf.Graph().as_default():`, or iterate over the dataset"
        raise LiftError("eager execution is on, so there is no graph", advice=advice)
    lifted = dataset if isinstance(dataset, Lifted) else Lifted(dataset, ())
    specs = tf.nest.flatten(lifted.dataset.element_spec, expand_composites=True)
    take = _taking(lifted.dataset)
    types = [spec.dtype for spec in specs]
    with quiet(), tf.device("CPU:0"):  # `py_func` only has a CPU kernel
        tensors = tf.compat.v1.py_func(take, [], types, stateful=True, name=name)
    for tensor, spec in zip(tensors, specs, strict=True):
        tensor.set_shape(spec.shape)
    register(tensors[0].op, lifted)
    return tf.nest.pack_sequence_as(lifted.dataset.element_spec, tensors, expand_composites=True)


def replaced(
    targets: Sequence[Any], transform: Callable[[Any], Any], stage: Stage, recipe: Recipe | None = None
) -> Any:
    """Lift tensors of the default graph into a dataset, transform it, and return its elements as graph tensors.

    The `tf.contrib` functions that use this work in sessions, and can be lifted themselves. Existing queue runners
    stay, because their queues may have other users.

    Args:
        targets: tensors of the default graph, and `SparseSlot`s.
        transform: a function that takes a `tf.data.Dataset` of tuples of the targets, and returns another dataset.
        stage: the stage that describes the transformation.
        recipe: the parameters from which `convert` prints the transformation; None if it cannot be printed.
    """
    import tensorflow as tf

    lifted = translate(tf.compat.v1.get_default_graph(), targets)
    with eagerly():
        dataset = tf.autograph.experimental.do_not_convert(transform)(lifted.dataset)
    stages = *lifted.stages, attrs.evolve(stage, location=location_in(traceback.extract_stack()))
    return get_next(attrs.evolve(lifted, dataset=dataset, stages=stages, recipe=recipe), name=stage.name)


def _taking(dataset: Any) -> Callable[[], list[Any]]:
    """Build a thread-safe function that returns the next element of a dataset as arrays."""
    import tensorflow as tf

    lock, started = threading.Lock(), functools.cache(lambda: iter(dataset))

    def take() -> list[Any]:
        with lock, eagerly():
            element = next(started())  # TensorFlow turns StopIteration into OutOfRangeError
            return [part.numpy() for part in tf.nest.flatten(element, expand_composites=True)]

    return take
