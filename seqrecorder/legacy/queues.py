"""Queues as stages of a `tf.data.Dataset`: enqueueing, order and batching."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from seqrecorder.errors import LiftError, OptionError
from seqrecorder.legacy.graph import ENQUEUES, SparseSlot, back_from, seeds
from seqrecorder.legacy.tf1_behaviour import with_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.legacy.graph import Feed
    from seqrecorder.legacy.subgraph import Section


def lowest_first(contents: Any, capacity: int) -> Any:
    """Sort elements by priority within a buffer, the lowest priority first.

    The buffer holds `capacity` elements. TensorFlow 1 had this order if the queue was full at each dequeue, because the
    threads that filled it were faster. Elements of equal priority keep their order.

    Args:
        contents: a `tf.data.Dataset` of tuples, whose first component is the priority, an int64 scalar.
        capacity: the capacity of the queue; below 1 for no limit, in which case all elements are sorted before the
            first one is yielded.
    """
    import tensorflow as tf

    specs = contents.element_spec
    limit = capacity if capacity > 0 else tf.int64.max
    packed = contents.map(lambda *row: (row[0], tf.stack([tf.io.serialize_tensor(x) for x in row]), False))
    end = tf.data.Dataset.from_tensors((tf.constant(0, tf.int64), tf.fill([len(specs)], ""), True))

    def step(state: Any, element: Any) -> Any:
        (priorities, rows), (priority, row, last) = state, element
        new = tf.where(last, 0, 1)  # drop the end marker
        priorities = tf.concat([priorities, priority[tf.newaxis][:new]], 0)
        rows = tf.concat([rows, row[tf.newaxis][:new]], 0)
        size = tf.size(priorities, tf.int64)
        count = tf.where(last, size, tf.cast(size >= limit, tf.int64))
        order = tf.argsort(priorities, stable=True)
        kept = tf.sort(order[count:])
        return (tf.gather(priorities, kept), tf.gather(rows, kept)), tf.gather(rows, order[:count])

    nothing = tf.zeros([0], tf.int64), tf.zeros([0, len(specs)], tf.string)
    out = packed.concatenate(end).scan(nothing, step).unbatch()
    return out.map(
        lambda row: tuple(with_shape(tf.io.parse_tensor(row[j], s.dtype), s.shape) for j, s in enumerate(specs))
    )


def count_rows(feed: Feed) -> int | str:
    """Return the number of elements that a feed enqueues at a time, or "?" if it is unknown."""
    if not feed.many:
        return 1
    count = next((x.shape[0] for x in feed.components if not isinstance(x, SparseSlot) and x.shape.rank), None)
    return "?" if count is None else int(count)


def explain_order(section: Section) -> str | None:
    """Explain why the order of a producer changed between runs.

    The result is None if the order did not change.
    """
    for op in () if section.pulls else section.shuffles:
        if not (op.inputs[0].shape.rank and op.inputs[0].shape[0] == 1) and seeds(op) == (0, 0):
            return f"{op.type} {op.name!r} has no seed"
    return None


def explain_values(sections: Sequence[Section], threads: int, *, unordered: bool) -> str | None:
    """Explain why random values in elements changed between runs.

    The result is None if the values did not change.

    Args:
        sections: the sections that compute the elements.
        threads: the number of threads that ran them.
        unordered: whether the order of their inputs was random.
    """
    for section in sections:
        for op in section.stateful:
            if seeds(op) is None or (op.type == "RandomShuffle" and not section.pulls):
                continue
            if seeds(op) == (0, 0):
                return f"{op.type} {op.name!r} has no seed"
            if threads > 1:
                return f"{threads} threads shared the generator of {op.type} {op.name!r}"
            if unordered:
                return f"the values of {op.type} {op.name!r} followed the order of the examples"
    return None


def check_kept(queue: Any, feed: Feed, section: Section) -> None:
    """Check that a shared queue has the same elements in each iteration.

    This is necessary because each user of the queue iterates over it separately.

    Raises:
        LiftError: a stateful operation decides which elements are kept.
    """
    for op in back_from(keep.op for keep in feed.selects):
        if op in section.stateful:
            text = f"{op.type} {op.name!r} decides at random what is enqueued, and several operations dequeue"
            advice = "take from the source once, and use the result in each place"
            raise LiftError(text, advice=advice, op=queue.name)


def describe_put(feed: Feed) -> list[str]:
    """List the names of the transformations that `put` applies."""
    return ["filter"] * (feed.keep is not None) + ["unbatch()"] * feed.many


def put(raw: Any, feed: Feed) -> Any:
    """Turn the outputs of a feed into elements of its queue.

    Elements that are not to be kept are left out. If the feed enqueues many elements at a time, they are unbatched.
    """
    if feed.keep is not None:
        value = feed.keep[1]
        raw = raw.filter(lambda keep, *_: keep if value else ~keep).map(lambda _, *row: row)
    return raw.unbatch() if feed.many else raw


ShuffleBuffer: TypeAlias = Literal["capacity", "min_after_dequeue"] | int
"""Buffer size of a random queue."""

SPARSE = 3
"""Number of strings in the serialized form of a sparse tensor."""


def check_shuffle_buffer(value: Any) -> None:
    """Validate the option `shuffle_buffer`, or raise `OptionError`."""
    size = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not size and value not in ("capacity", "min_after_dequeue"):
        raise OptionError(f"shuffle_buffer: expected 'capacity', 'min_after_dequeue' or an int, got {value!r}")


def fed_contents(queue: Any, dataset: Any) -> Any:
    """Validate the dataset that the user feeds into a queue, and return it as a dataset of tuples.

    Raises:
        OptionError: the value is not a dataset, belongs to a graph, or differs from the queue in dtypes or shapes.
    """
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
    actual = tf.nest.flatten(dataset.element_spec, expand_composites=True)
    if len(actual) != len(wanted) or not all(map(tf.TensorSpec.is_compatible_with, wanted, actual)):
        expected, got = (", ".join(f"{spec.dtype.name} {spec.shape}" for spec in specs) for specs in (wanted, actual))
        ranks = [(one.shape.rank, other.shape.rank) for one, other in zip(actual, wanted, strict=False)]
        batches = all(other is None or one == other + 1 for one, other in ranks) and len(actual) == len(wanted)
        advice = ": unbatch() it" if batches else ""
        raise OptionError(
            f"feed: {queue.name!r} takes elements of ({expected}) one by one, but the dataset has ({got}){advice}"
        )
    shapes = [spec.shape for spec in wanted]
    return flat(dataset).map(lambda *row: tuple(with_shape(x, s) for x, s in zip(row, shapes, strict=True)))


def flat(dataset: Any) -> Any:
    """Flatten the elements of a dataset to tuples of dense tensors."""
    import tensorflow as tf

    return dataset.map(lambda *element: tuple(tf.nest.flatten(element, expand_composites=True)))


def _shapes_put(queue: Any, count: int) -> list[Any]:
    """Infer the component shapes of a queue from its enqueue operations."""
    import tensorflow as tf

    shapes: list[Any] = []
    for op in queue.outputs[0].consumers():
        if op.type in ENQUEUES:
            put = [tensor.shape[int(ENQUEUES[op.type]) :] for tensor in op.inputs[1:]]
            shapes = [a.most_specific_compatible_shape(b) for a, b in zip(shapes or put, put, strict=True)]
    return shapes or [tf.TensorShape(None)] * count


def ordered(queue: Any, contents: Any, shuffle_buffer: ShuffleBuffer, fallback: int) -> tuple[Any, str, str | None]:
    """Reorder the elements of a queue from enqueue order to dequeue order.

    Args:
        queue: the operation of the queue.
        contents: a `tf.data.Dataset` of tuples, in enqueue order.
        shuffle_buffer: the buffer size of random queues.
        fallback: the seed of an unseeded queue; 0 to reshuffle in each iteration.

    Returns:
        The dataset, the name of the transformation, and the reason why the original order was random (None if fixed).
    """
    capacity = queue.get_attr("capacity")
    if queue.type == "RandomShuffleQueueV2":
        size = _buffer(queue, capacity, shuffle_buffer)
        seed = queue.get_attr("seed2") or queue.get_attr("seed") or fallback or None
        shuffled = contents.shuffle(size, seed=seed, reshuffle_each_iteration=seed is None)
        return shuffled, f"shuffle({size})", f"shuffled with a buffer of {size}"
    if queue.type == "PriorityQueueV2":
        why = f"by priority among the {capacity if capacity > 0 else 'whole'} that the queue held when it was full"
        return lowest_first(contents, capacity), f"the lowest first, of {capacity}", why
    return contents, "", None


def _buffer(queue: Any, capacity: int, shuffle_buffer: ShuffleBuffer) -> int:
    least = max(1, int(queue.get_attr("min_after_dequeue")))
    if shuffle_buffer == "min_after_dequeue":
        return least
    if shuffle_buffer == "capacity":
        # Without a capacity, the size of the queue would depend on the unknown speed of its threads.
        return int(capacity) if capacity > 0 else least
    return shuffle_buffer


def grouped(queue: Any, contents: Any, count: int, *, rest: bool, sparse: Sequence[bool]) -> tuple[Any, str]:
    """Batch the elements of a queue as `dequeue_many` and `dequeue_up_to` did.

    Args:
        queue: the operation of the queue.
        contents: a `tf.data.Dataset` of tuples.
        count: the batch size.
        rest: whether to keep a smaller last batch.
        sparse: for each component, whether it is a serialized sparse tensor.

    Returns:
        The dataset and the name of the transformation.
    """
    import tensorflow as tf

    if count < 1:
        raise LiftError(f"expected a batch size of 1 or more, got {count}", advice="dequeue at least 1", op=queue.name)
    if queue.type != "PaddingFIFOQueueV2":
        return contents.batch(count, drop_remainder=not rest), f"batch({count}, drop_remainder={not rest})"
    declared = [tf.TensorShape(shape) for shape in queue.get_attr("shapes")]
    shapes = tuple(tf.TensorShape([SPARSE]) if s else shape for s, shape in zip(sparse, declared, strict=True))
    if any(spec.shape.rank is None for spec in contents.element_spec):
        contents = contents.map(lambda *row: tuple(with_shape(x, s) for x, s in zip(row, shapes, strict=True)))
    padded = contents.padded_batch(count, shapes, drop_remainder=not rest)
    return padded, f"padded_batch({count}, drop_remainder={not rest})"
