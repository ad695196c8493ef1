"""Datasets in graphs: tensors for the training loops of TensorFlow 1, and the other way round."""

from __future__ import annotations

import functools
import threading
import traceback
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import place_in
from seqrecorder.legacy.lifted import Lifted, Stage, register
from seqrecorder.legacy.lifting import translate
from seqrecorder.legacy.tf1_behaviour import compared_by_value, eagerly, quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.legacy.lifted import Recipe


def get_next(dataset: Any, *, name: str = "get_next") -> Any:
    """Return tensors of the default graph that are the next element of a dataset each time they are run.

    With it the training loop of an old script stays as it is: `x = get_next(lift(inputs))` in the place of
    `x = inputs()`, and at the end a `Session` raises `OutOfRangeError` as it always did. `Coordinator` and
    `start_queue_runners` may stay, and have nothing to do. What goes wrong in the dataset, such as a missing file, was
    the end for queues; here it is a `tf.errors.UnknownError`, whose message begins with the true error.

    >>> import tensorflow as tf
    >>> from seqrecorder.legacy import get_next, lift
    >>> numbers = lift(lambda: tf.compat.v1.train.range_input_producer(2, num_epochs=1, shuffle=False))
    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    ...     number = get_next(numbers)
    ...     print(session.run(number), session.run(number))
    0 1

    Args:
        dataset: a `tf.data.Dataset`, made outside of graphs, or what `trace` returned.
        name: of the operation.

    Returns:
        Tensors in the structure of the dataset's elements. All of them are of one operation, which runs once a step.
        All sessions take from one iterator, in this process.

    Raises:
        LiftError: there is no graph to put them into.
    """
    import tensorflow as tf

    if tf.executing_eagerly():
        raise LiftError(
            "eager execution is on, so there is no graph",
            advice="call it inside `with tf.Graph().as_default():`, or iterate over the dataset",
        )
    lifted = dataset if isinstance(dataset, Lifted) else Lifted(dataset, ())
    specs = tf.nest.flatten(lifted.dataset.element_spec, expand_composites=True)
    take = _taking(lifted.dataset)
    types = [spec.dtype for spec in specs]
    with quiet(), tf.device("CPU:0"):  # it has no other kernel, whatever device the script asks for
        tensors = tf.compat.v1.py_func(take, [], types, stateful=True, name=name)
    for tensor, spec in zip(tensors, specs, strict=True):
        tensor.set_shape(spec.shape)
    register(tensors[0].op, lifted)
    return tf.nest.pack_sequence_as(lifted.dataset.element_spec, tensors, expand_composites=True)


def replaced(
    targets: Sequence[Any], transform: Callable[[Any], Any], stage: Stage, recipe: Recipe | None = None
) -> Any:
    """Lift what gives some tensors of the default graph, transform the dataset, and return its tensors in their place.

    This is how functions that TensorFlow no longer has join a graph: they work in sessions, and are lifted themselves.
    The queue runners that were there stay, for what else may take from their queues.

    Args:
        targets: tensors of the default graph, and `SparseSlot`s.
        transform: takes a `tf.data.Dataset` of tuples of what the targets give, and returns another.
        stage: what the transformation is.
        recipe: how it is printed, if it can be.
    """
    import tensorflow as tf

    lifted = translate(tf.compat.v1.get_default_graph(), targets)
    with eagerly(), compared_by_value():
        dataset = tf.autograph.experimental.do_not_convert(transform)(lifted.dataset)
    stages = *lifted.stages, attrs.evolve(stage, place=place_in(traceback.extract_stack()))
    return get_next(attrs.evolve(lifted, dataset=dataset, stages=stages, recipe=recipe), name=stage.name)


def _taking(dataset: Any) -> Callable[[], list[Any]]:
    """Return a function of the next element of a dataset, as arrays, that all threads of all sessions share."""
    import tensorflow as tf

    lock, started = threading.Lock(), functools.cache(lambda: iter(dataset))

    def take() -> list[Any]:
        with lock, eagerly():
            element = next(started())  # its StopIteration becomes OutOfRangeError
            return [part.numpy() for part in tf.nest.flatten(element, expand_composites=True)]

    return take
