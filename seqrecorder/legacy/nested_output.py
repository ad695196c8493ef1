"""What an input function returns, as tensors to be computed and a way to put them back together."""

from __future__ import annotations

from typing import Any

from seqrecorder.errors import LiftError


class Returned:
    """A nested structure of tensors of one graph.

    tf.data takes lists for tensors, so they become tuples. What is no tensor, such as a number of batches, becomes a
    constant, and None stays None. For a queue, its next element.

    Attributes:
        tensors: the dense tensors in it, those of sparse and ragged ones included.

    Args:
        value: what the function returned.
        graph: in which it ran.

    Raises:
        LiftError: something in it cannot be part of an element of a dataset.
    """

    def __init__(self, value: Any, graph: Any) -> None:
        import tensorflow as tf

        self._graph = graph
        with graph.as_default():
            self._structure = _tuples(value)
            self._leaves = [self._leaf(leaf) for leaf in tf.nest.flatten(self._structure)]
        self.tensors = [part for leaf in self._leaves if tf.is_tensor(leaf) for part in _parts(leaf)]

    def pack(self, tensors: Any) -> Any:
        """Return the structure with other tensors in the places of `tensors`, inside the graph that is being built."""
        import tensorflow as tf

        new = iter(tensors)
        leaves = []
        for leaf in self._leaves:
            if tf.is_tensor(leaf):
                mine = [next(new) for _ in _parts(leaf)]
                leaves.append(tf.nest.pack_sequence_as(leaf, mine, expand_composites=True))
            else:
                leaves.append(leaf if leaf is None else tf.constant(leaf))
        return tf.nest.pack_sequence_as(self._structure, leaves)

    def _leaf(self, leaf: Any) -> Any:
        import tensorflow as tf

        if isinstance(leaf, tf.queue.QueueBase):
            leaf = leaf.dequeue()
        if isinstance(leaf, tf.Variable):
            leaf = tf.convert_to_tensor(leaf)
        if isinstance(leaf, tf.data.Dataset):
            raise LiftError(
                "the function returns a tf.data.Dataset",
                advice="there are no queues of TensorFlow 1 in it: call the function itself, outside of any graph",
            )
        if tf.is_tensor(leaf):
            if any(getattr(part, "graph", None) is not self._graph for part in _parts(leaf)):
                raise LiftError(
                    f"{leaf!r} was made outside of the function's graph",
                    advice="make all tensors inside the function that is lifted",
                )
            return leaf
        try:
            if leaf is not None:
                tf.constant(leaf)
        except (TypeError, ValueError):
            raise LiftError(
                f"the function returns something of type {type(leaf).__name__}, which is no tensor",
                advice="return the tensors that it holds, as in lift(lambda: (x.images, x.labels))",
            ) from None
        return leaf


def _parts(leaf: Any) -> list[Any]:
    import tensorflow as tf

    return list(tf.nest.flatten(leaf, expand_composites=True))


def _tuples(value: Any) -> Any:
    """Return a structure with tuples in the place of lists."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_tuples(item) for item in value))
    if isinstance(value, (list, tuple)):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value
