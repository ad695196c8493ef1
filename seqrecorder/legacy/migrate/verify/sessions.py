"""What the queues of a graph give, run in a session, and whether its order was fixed."""

from __future__ import annotations

import collections
import contextlib
import time
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from seqrecorder.legacy.migrate.verify.refusals import NoBatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE = 20_000  # milliseconds, for one batch


@contextlib.contextmanager
def graph() -> Iterator[None]:
    """Build a graph: the default one, as scripts of TensorFlow 1 did, where there is one."""
    import tensorflow as tf

    if tf.executing_eagerly():
        with tf.Graph().as_default():
            yield
    else:
        tf.compat.v1.reset_default_graph()
        yield


@contextlib.contextmanager
def runners_added() -> Iterator[None]:
    """Let queue runners that a script makes be those of its graph, even where it starts their threads itself."""
    import tensorflow as tf

    v1 = tf.compat.v1
    making, made = v1.train.QueueRunner.__init__, list[Any]()

    def make(runner: Any, *arguments: Any, **named: Any) -> None:
        making(runner, *arguments, **named)
        made.append(runner)

    with mock.patch.object(v1.train.QueueRunner, "__init__", make):
        yield
    for runner in made:  # not before: what is lifted meanwhile would find twice those that the script adds, too
        known = runner.queue.queue_ref.graph.get_collection_ref(v1.GraphKeys.QUEUE_RUNNERS)
        known += [] if runner in known else [runner]


def until_the_end(session: Any, tensors: list[Any], most: int, seconds: float) -> Iterator[list[Any]]:
    """Yield what tensors give, as arrays, until their queues end, or so many times; raise where they take too long."""
    import tensorflow as tf

    started = time.process_time()
    patience = tf.compat.v1.RunOptions(timeout_in_ms=_PATIENCE)
    with contextlib.suppress(tf.errors.OutOfRangeError):
        for _ in range(most):
            yield [_dense(part) for part in session.run(tensors, options=patience)]
            if time.process_time() - started > seconds:
                raise NoBatchError("its batches take too long")


def as_arrays(item: Any) -> Any:
    """Return an element of a dataset with arrays for tensors."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda part: _dense(part) if hasattr(part, "dense_shape") else part.numpy(), item)


def _dense(part: Any) -> Any:
    """Return an array; what a sparse one lacks is zero, or empty."""
    if not hasattr(part, "dense_shape"):
        return part
    indices, values, shape = (np.asarray(item) for item in (part.indices, part.values, part.dense_shape))
    dense = np.full(tuple(shape), b"", object) if values.dtype == object else np.zeros(tuple(shape), values.dtype)
    dense[tuple(indices.T)] = values
    return dense


def one_thread_each() -> bool:
    """Let one thread fill the queues that all threads fill from one reader: what they give has an order then.

    Returns:
        whether some threads do other things with what they take of one reader, so that chance makes the batches.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    runners = v1.get_collection_ref(v1.GraphKeys.QUEUE_RUNNERS)
    runners[:] = dict.fromkeys(runners)
    chance = False
    for place, runner in enumerate(runners):
        first, *others = runner.enqueue_ops
        of_one = bool(others) and all(_reads_of(op) == _reads_of(first) for op in others)
        alike = all(_work_of(op) == _work_of(first) for op in others)
        chance |= of_one and not alike
        if of_one and alike:
            closed = runner.queue_closed_exception_types
            runners[place] = v1.train.QueueRunner(
                runner.queue, [first], runner.close_op, runner.cancel_op, queue_closed_exception_types=closed
            )
    return chance


def divided() -> bool:
    """Whether threads that do other things with records than others take them from one place, as chance has it."""
    import tensorflow as tf

    v1 = tf.compat.v1
    pairs = [
        pair
        for runner in v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS)
        for pair in zip(runner.enqueue_ops, runner.enqueue_ops[1:], strict=False)
    ]
    return any(_reads_of(one) & _reads_of(other) and _work_of(one) != _work_of(other) for one, other in pairs)


def _reads_of(op: Any) -> set[str]:
    """Return the names of the operations that take something out of a queue, or of files, for an operation."""
    return {node.name for node in _taking(op)}


def _work_of(op: Any) -> collections.Counter[Any]:
    """Return what an operation needs, without names: some threads do other things with records than others."""
    return collections.Counter((n.type, n.type == "Const" and str(n.get_attr("value"))) for n in ancestors(op))


def _taking(op: Any) -> list[Any]:
    return [node for node in ancestors(op) if node.type.startswith(("Reader", "QueueDequeue"))]


def ancestors(item: Any) -> list[Any]:
    """Return the operations that a tensor, or an operation, needs, and its own."""
    found, waiting = dict[str, Any](), [getattr(item, "op", item)]
    while waiting:
        node = waiting.pop()
        if node.name not in found:
            found[node.name] = node
            waiting += [tensor.op for tensor in node.inputs] + list(node.control_inputs)
    return [*found.values()]


def is_shuffled(built: Any) -> bool:
    """Whether threads or chance decide in which order the queues of a graph give what they hold."""
    import tensorflow as tf

    with built.as_default():
        runners = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.QUEUE_RUNNERS)
    several = any(len(runner.enqueue_ops) > 1 for runner in runners)  # which one reader's were is one by now
    several |= len({runner.name for runner in runners}) < len(runners)  # of one queue
    shuffles = [op for op in built.get_operations() if op.type == "RandomShuffle" and not op.get_attr("seed2")]
    read = [name for runner in runners for name in set[str]().union(*map(_reads_of, runner.enqueue_ops))]
    of_one = all(shape.rank == 1 and shape.as_list() == [1] for shape in (op.inputs[0].shape for op in shuffles))
    shared = len(set(read)) < len(read)  # threads decide which queue gets what
    drawn = any(op.type.startswith("RandomShuffleQueue") for op in built.get_operations())
    return several or shared or not of_one or drawn


def together(tensors: list[Any]) -> list[list[int]]:
    """Return the places of tensors that come out of the same queue, for each queue; chance decides what others give."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, tensor in enumerate(tensors):
        queues = {op.inputs[0].name for op in _taking(tensor.op)}
        joined = [group for group in groups if group[0] & queues or not queues]
        places = [other for group in joined for other in group[1]]
        groups = [group for group in groups if group not in joined]
        groups.append((queues.union(*(group[0] for group in joined)), [*places, place]))
    return [places for _, places in groups]
