"""Random values between queues, with no state but how many were drawn: so that iterators over them can be saved.

A random operation of TensorFlow 1 takes its numbers from a stream of its own, that of Philox for its two seeds (Salmon
et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), and counts in a place that no checkpoint sees. Stateless
operations begin anywhere in such a stream, so that they give the same when they are told the count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.graph import through_identities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STATELESS = {
    "RandomUniform": "StatelessRandomUniformV2",
    "RandomUniformInt": "StatelessRandomUniformIntV2",
    "RandomStandardNormal": "StatelessRandomNormalV2",
    "TruncatedNormal": "StatelessTruncatedNormalV2",
}
"""What gives the same from a place in a stream."""

PHILOX = 1
_EACH = 256
"""Counts by which the old operations went on for each value, enough for those that throw numbers away."""

_INPUTS = ("key", "counter", "alg")


def seeds(op: Any) -> tuple[int, int] | None:
    """Return the seeds of a random operation, None for another."""
    attributes = op.node_def.attr
    return (attributes["seed"].i, attributes["seed2"].i) if "seed2" in attributes else None


def branches(op: Any) -> list[tuple[Any, int]]:
    """Return the conditions under which an operation runs, from the inside out, each with its value as a number."""
    return [(through_identities(each.pred), each.branch) for each in contexts(op) if hasattr(each, "pred")]


def can_count(op: Any) -> bool:
    """Whether an operation draws values whose number can be told: all but those in loops of the graph."""
    return op.type in STATELESS and all(hasattr(context, "pred") for context in contexts(op))


def contexts(op: Any) -> list[Any]:
    """Return the branches and loops of a graph that an operation stands in, from the inside out."""
    found, context = [], op._get_control_flow_context()  # noqa: SLF001 - there is no public way
    while context is not None:
        found.append(context)
        context = context.outer_context
    return found


def along(elements: Any, ops: Sequence[Any], run: Callable[[Any, dict[str, Any]], tuple[Any, Any]]) -> Any:
    """Return a dataset of what a function makes of elements and random values, one after the other.

    Args:
        elements: a `tf.data.Dataset`.
        ops: the operations that draw, all of which `can_count` is true. Where their seeds are zero, others are drawn in
            each iteration.
        run: takes an element, as a tuple, and for each operation, by its name, what follows the shape among the inputs
            of the stateless one. Returns what is made of them, and how many values each operation drew.
    """
    import tensorflow as tf

    fixed = tf.constant([seeds(op) for op in ops], tf.int64)
    is_fixed = tf.reduce_any(fixed != 0, 1, keepdims=True)
    fresh = tf.data.Dataset.random(rerandomize_each_iteration=True).batch(2 * len(ops), drop_remainder=True)

    def step(state: Any, both: Any) -> Any:
        (begun, streams, drawn), (element, numbers) = state, both
        streams = tf.where(begun | is_fixed, streams, tf.reshape(numbers, [-1, 2]))
        places = {op.name: _place(streams[i], drawn[i]) for i, op in enumerate(ops)}
        made, counts = run(element if isinstance(element, tuple) else (element,), places)
        return (True, streams, drawn + _EACH * counts), made

    start = tf.constant(value=False), fixed, tf.zeros([len(ops)], tf.int64)
    return tf.data.Dataset.zip((elements, fresh)).scan(start, step)


def _place(stream: Any, drawn: Any) -> tuple[Any, Any, Any]:
    import tensorflow as tf

    return (
        tf.bitcast(stream[:1], tf.uint64),
        tf.bitcast(tf.stack([drawn, stream[1]]), tf.uint64),
        tf.constant(PHILOX),
    )


def make_stateless(node: Any) -> list[str]:
    """Turn the definition of a random operation into that of the stateless one; return the names of its new inputs."""
    names = [f"{node.name}/{name}/drawn" for name in _INPUTS]
    shape, *rest = node.input
    del node.input[:]
    node.input.extend([shape, *names, *rest])
    kind = node.attr.pop("Tout" if "Tout" in node.attr else "dtype")
    of_shape = node.attr.pop("T")
    node.attr["dtype"].CopyFrom(kind)
    node.attr["Tshape"].CopyFrom(of_shape)
    for name in ("seed", "seed2"):
        node.attr.pop(name)
    node.op = STATELESS[node.op]
    return names
