"""`slim.prefetch_queue`: a queue between two parts of a graph."""

from __future__ import annotations

from typing import Any


def prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Return `slim.prefetch_queue.prefetch_queue`: a queue of tensors, whose `dequeue` has their structure.

    Args:
        tensors: a list or dict of tensors.
        capacity: of the queue.
        num_threads: that fill it.
        dynamic_pad: whether the queue can pad.
        shared_name: of the queue.
        name: of the operations.
    """
    import tensorflow as tf

    names = sorted(tensors) if isinstance(tensors, dict) else None
    values = [tensors[key] for key in names] if names is not None else list(tensors)
    with tf.name_scope(name or "prefetch_queue"):
        kind = tf.queue.PaddingFIFOQueue if dynamic_pad else tf.queue.FIFOQueue
        shapes = [value.shape for value in values]
        known = dynamic_pad or all(shape.is_fully_defined() for shape in shapes)
        options = {"shapes": shapes} if known else {}
        queue = kind(capacity, [value.dtype for value in values], names=names, shared_name=shared_name, **options)
        content = tensors if names is not None else values
        runner = tf.compat.v1.train.QueueRunner(queue, [queue.enqueue(content)] * num_threads)
        tf.compat.v1.train.add_queue_runner(runner)
        return queue
