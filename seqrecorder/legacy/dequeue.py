"""What taking from a queue means for a `tf.data.Dataset` of what was put into it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from seqrecorder.errors import LiftError, OptionError
from seqrecorder.legacy.priority_queue import lowest_first
from seqrecorder.legacy.tf1_behaviour import with_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

ShuffleBuffer: TypeAlias = Literal["capacity", "min_after_dequeue"] | int
"""From how many elements a random queue chooses."""

SPARSE = 3
"""Strings that stand for a sparse tensor."""


def check_shuffle_buffer(value: Any) -> Any:
    """Return the option, or raise `OptionError`."""
    if value in ("capacity", "min_after_dequeue"):
        return value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise OptionError(f"shuffle_buffer: expected 'capacity', 'min_after_dequeue' or an int, got {value!r}")
    return value


def given_contents(queue: Any, dataset: Any) -> Any:
    """Return a dataset of tuples of what a queue holds, from one that somebody gives, or raise `OptionError`."""
    import tensorflow as tf

    dataset = dataset() if inspect.isroutine(dataset) else dataset
    if not isinstance(dataset, tf.data.Dataset):
        raise OptionError(
            f"feed: {queue.name!r} is a queue, so give a tf.data.Dataset of what is put into it, not {dataset!r}"
        )
    if tf.is_symbolic_tensor(tf.data.experimental.to_variant(dataset)):
        raise OptionError(
            f"feed: the dataset for {queue.name!r} belongs to a graph, where lift has one of its own: give a function "
            "that makes the dataset"
        )
    types, shapes = list(queue.get_attr("component_types")), list(queue.get_attr("shapes"))
    if queue.type == "PriorityQueueV2":
        types, shapes = [tf.int64, *types], [[], *shapes]
    shapes = shapes or _shapes_put(queue, len(types))
    wanted = [tf.TensorSpec(shape, dtype) for shape, dtype in zip(shapes, types, strict=True)]
    found = tf.nest.flatten(dataset.element_spec, expand_composites=True)
    if len(found) != len(wanted) or not all(map(_fits, found, wanted)):
        expected, got = (", ".join(f"{spec.dtype.name} {spec.shape}" for spec in specs) for specs in (wanted, found))
        ranks = [(one.shape.rank, other.shape.rank) for one, other in zip(found, wanted, strict=False)]
        batches = all(other is None or one == other + 1 for one, other in ranks) and len(found) == len(wanted)
        advice = ": unbatch() it" if batches else ""
        raise OptionError(
            f"feed: {queue.name!r} takes elements of ({expected}) one by one, but the dataset has ({got}){advice}"
        )
    shapes = [spec.shape for spec in wanted]
    return flat(dataset).map(lambda *row: tuple(with_shape(x, s) for x, s in zip(row, shapes, strict=True)))


def flat(dataset: Any) -> Any:
    """Return a dataset of tuples of the dense tensors of another's elements."""
    import tensorflow as tf

    return dataset.map(lambda *element: tuple(tf.nest.flatten(element, expand_composites=True)))


def _shapes_put(queue: Any, count: int) -> list[Any]:
    """Return the shapes of what the graph puts into a queue that declares none, as far as they are known."""
    import tensorflow as tf

    shapes: list[Any] = []
    for op in queue.outputs[0].consumers():
        if op.type in ("QueueEnqueueV2", "QueueEnqueueManyV2"):
            put = [tensor.shape[int(op.type == "QueueEnqueueManyV2") :] for tensor in op.inputs[1:]]
            shapes = [a.most_specific_compatible_shape(b) for a, b in zip(shapes or put, put, strict=True)]
    return shapes or [tf.TensorShape(None)] * count


def _fits(found: Any, wanted: Any) -> bool:
    return bool(found.dtype == wanted.dtype and found.shape.is_compatible_with(wanted.shape))


def ordered(queue: Any, contents: Any, shuffle_buffer: ShuffleBuffer, fallback: int = 0) -> tuple[Any, str, str | None]:
    """Put what a queue holds into the order in which it comes out.

    Args:
        queue: the operation that makes it.
        contents: a `tf.data.Dataset` of tuples, in the order in which they were enqueued.
        shuffle_buffer: how many elements a random queue chooses from.
        fallback: the seed of a queue that has none; 0 for another order in each iteration.

    Returns:
        The dataset, what was done, in the words of tf.data, and, where the order of the original was not fixed, why.
    """
    capacity = queue.get_attr("capacity")
    if queue.type == "RandomShuffleQueueV2":
        size = _buffer(queue, capacity, shuffle_buffer)
        seed = queue.get_attr("seed2") or queue.get_attr("seed") or fallback or None
        shuffled = contents.shuffle(size, seed=seed, reshuffle_each_iteration=seed is None)
        return shuffled, f"shuffle({size})", f"random, by a buffer of {size}"
    if queue.type == "PriorityQueueV2":
        why = f"by priority among the {capacity if capacity > 0 else 'whole'} that the queue held when it was full"
        return lowest_first(contents, capacity), f"the lowest first, of {capacity}", why
    return contents, "", None


def _buffer(queue: Any, capacity: int, shuffle_buffer: ShuffleBuffer) -> int:
    least = max(1, int(queue.get_attr("min_after_dequeue")))
    if shuffle_buffer == "min_after_dequeue":
        return least
    if shuffle_buffer == "capacity":
        # A queue without a capacity holds whatever the threads are ahead, which nothing says.
        return int(capacity) if capacity > 0 else least
    return shuffle_buffer


def grouped(queue: Any, contents: Any, count: int, *, rest: bool, sparse: Sequence[bool]) -> tuple[Any, str]:
    """Stack what comes out of a queue, as `dequeue_many` and `dequeue_up_to` did.

    Args:
        queue: the operation that makes it.
        contents: a `tf.data.Dataset` of tuples.
        count: rows to an element.
        rest: whether the last, which may have fewer, comes at all.
        sparse: which components stand for sparse tensors.

    Returns:
        The dataset, and what was done, in the words of tf.data.
    """
    import tensorflow as tf

    if count < 1:
        raise LiftError(f"{count} elements are taken at a time", advice="take at least 1", op=queue.name)
    if queue.type != "PaddingFIFOQueueV2":
        return contents.batch(count, drop_remainder=not rest), f"batch({count}, drop_remainder={not rest})"
    declared = [tf.TensorShape(shape) for shape in queue.get_attr("shapes")]
    shapes = tuple(tf.TensorShape([SPARSE]) if s else shape for s, shape in zip(sparse, declared, strict=True))
    if any(spec.shape.rank is None for spec in contents.element_spec):
        contents = contents.map(lambda *row: tuple(with_shape(x, s) for x, s in zip(row, shapes, strict=True)))
    padded = contents.padded_batch(count, shapes, drop_remainder=not rest)
    return padded, f"padded_batch({count}, drop_remainder={not rest})"


def several_at_once(contents: Any, count: int) -> Any:
    """Return elements of `count` consecutive ones each, whatever their shapes: a tuple of tuples."""
    import tensorflow as tf

    specs = contents.element_spec
    packed = contents.map(lambda *row: tf.stack([tf.io.serialize_tensor(x) for x in row]))

    def unpack(rows: Any) -> Any:
        return tuple(
            tuple(with_shape(tf.io.parse_tensor(rows[i, j], s.dtype), s.shape) for j, s in enumerate(specs))
            for i in range(count)
        )

    return packed.batch(count, drop_remainder=True).map(unpack)
