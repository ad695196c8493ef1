"""Queues, readers and queue runners of a TensorFlow 1 graph.

A **source** is a queue or a reader. A **pull** is a dequeue or read operation, which consumes elements of a source. A
**feed** is an enqueue operation that the threads of a queue runner run.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import LiftError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

_KINDS = ("TFRecord", "TextLine", "FixedLengthRecord", "WholeFile", "Identity")
QUEUES = frozenset(f"{kind}QueueV2" for kind in ("FIFO", "PaddingFIFO", "RandomShuffle", "Priority"))
READERS = frozenset(f"{kind}ReaderV2" for kind in _KINDS)
DEQUEUES = {"QueueDequeueV2": "dequeue", "QueueDequeueManyV2": "dequeue_many", "QueueDequeueUpToV2": "dequeue_up_to"}
READS = {"ReaderReadV2": "read", "ReaderReadUpToV2": "read_up_to"}
ENQUEUES = {"QueueEnqueueV2": False, "QueueEnqueueManyV2": True}
CONDITIONALS = ("If", "StatelessIf")
PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
DEFAULT_SEED = 87654321
"""The graph seed that TensorFlow uses if only an operation seed is set."""
QUEUE_RUNNERS = "queue_runners"
_LIFTED_RUNNERS = "seqrecorder_lifted_queue_runners"
"""The name of the collection of queue runners that are not started, because the tensors of their queues are lifted."""


@attrs.frozen(eq=False)
class Feed:
    """Enqueue operation of a queue runner.

    Attributes:
        op: the operation that the threads run.
        after: operations that run with it, for their side effects.
        components: the enqueued tensors, and a `SparseSlot` for each serialized sparse tensor.
        many: whether the components are enqueued row by row.
        keep: a bool tensor, and its value for elements that are enqueued; None if every element is.
        threads: the number of threads that run the operation.
    """

    op: Any
    after: tuple[Any, ...]
    components: tuple[Any, ...]
    many: bool
    keep: tuple[Any, bool] | None
    threads: int

    @property
    def selects(self) -> list[Any]:
        """Tensors that decide whether an element is enqueued.

        The list contains one tensor, or none if every element is enqueued.
        """
        return [] if self.keep is None else [self.keep[0]]


@attrs.frozen(eq=False)
class SparseSlot:
    """Sparse tensor that is serialized before it is enqueued.

    Attributes:
        components: the tensors `indices`, `values` and `dense_shape`.
        many: whether its rows are enqueued one by one.
    """

    components: tuple[Any, Any, Any]
    many: bool


def through_identities(tensor: Any) -> Any:
    """Follow a chain of `Identity` operations back to the original tensor."""
    while tensor.op.type in ("Identity", "RefIdentity"):
        tensor = tensor.op.inputs[0]
    return tensor


def source_of(tensor: Any) -> Any:
    """Return the queue or reader operation behind a handle.

    Operations of one type that have the same shared name are the same queue or reader, so the first of them is
    returned.

    Raises:
        LiftError: the tensor is no handle of a queue or reader.
    """
    op = through_identities(tensor).op
    if op.type in QUEUES or op.type in READERS:
        name = op.get_attr("shared_name")
        if name:  # operations that share a name share the queue
            return next(o for o in op.graph.get_operations() if o.type == op.type and o.get_attr("shared_name") == name)
        return op
    text = f"expected a queue or a reader, got an operation of type {op.type}"
    advice = "choose the queue in Python, before the graph is built, and lift once for each choice"
    raise LiftError(text, advice=advice, op=op.name)


def describe(op: Any) -> str:
    """Describe a source or a pull for a message.

    >>> import tensorflow as tf
    >>> with tf.Graph().as_default():
    ...     describe(tf.queue.FIFOQueue(3, [tf.int32], name="examples").queue_ref.op)
    "FIFOQueue 'examples'"
    """
    return f"{DEQUEUES.get(op.type) or READS.get(op.type) or op.type.removesuffix('V2')} {op.name!r}"


def seeds(op: Any) -> tuple[int, int] | None:
    """Return the graph seed and the operation seed of a random operation, or None for other operations."""
    attributes = op.node_def.attr
    return (attributes["seed"].i, attributes["seed2"].i) if "seed2" in attributes else None


def location_of(op: Any) -> str | None:
    """Return the file and the line of user code that created an operation, or None if they are unknown."""
    return location_in(op.traceback or [])


def location_in(frames: Sequence[Any]) -> str | None:
    """Return the file and the line of the innermost frame of user code, or None if there is none."""
    frame = user_frame(frames)
    return None if frame is None else f"{frame.filename}, line {frame.lineno}"


def user_frame(frames: Sequence[Any]) -> Any:
    """Return the innermost frame of user code, outside this package and TensorFlow.

    Frames whose source is unknown are skipped. The result is None if no frame is left.
    """
    outside = (frame for frame in reversed(frames) if not frame.filename.startswith(packages()))
    return next((frame for frame in outside if linecache.getlines(frame.filename)), None)


@functools.cache
def packages() -> tuple[str, str]:
    """Return the directories of TensorFlow and of this package."""
    tensorflow, ours = (Path(str(sys.modules[name].__file__)).parent for name in ("tensorflow", "seqrecorder"))
    return str(tensorflow) + os.sep, str(ours) + os.sep


def _component(component: Any) -> Any:
    """Return the sparse tensor behind a component that `tf.train.batch` serialized.

    Any other component is returned unchanged.
    """
    tensor = through_identities(component)
    if tensor.op.type == "ExpandDims":
        tensor = through_identities(tensor.op.inputs[0])
    if tensor.op.type in ("AddSparseToTensorsMap", "AddManySparseToTensorsMap"):
        indices, values, shape = tensor.op.inputs
        return SparseSlot((indices, values, shape), tensor.op.type.startswith("AddMany"))
    return component


class Runners:
    """Queue runners of a graph, grouped by queue.

    Attributes:
        filled: mapping from queue names to the feeds of each queue.

    Args:
        graph: a `tf.Graph`.
    """

    def __init__(self, graph: Any) -> None:
        self.filled: dict[str, list[Feed]] = {}
        self._python: dict[str, str] = {}
        for runner in [*graph.get_collection(QUEUE_RUNNERS), *graph.get_collection(_LIFTED_RUNNERS)]:
            self._add(runner)

    def feeds(self, queue: Any) -> list[Feed]:
        """Return the feeds of a queue.

        The list is never empty, because a queue without feeds raises an error.

        Raises:
            LiftError: no queue runner fills the queue, or one fills it from Python code.
        """
        if queue.name in self._python:
            text = f"the queue is filled by {self._python[queue.name]}, which runs Python"
            advice = f"{_advice(queue)}; or, in a plain QueueRunner, enqueue the result of a tf.py_func"
            raise LiftError(text, advice=advice, op=queue.name)
        if queue.name in self.filled:
            return self.filled[queue.name]
        fillers = [op for op in consumers(queue) if op.type in ENQUEUES or op.type in CONDITIONALS]
        if not fillers:
            raise LiftError("nothing fills the queue", advice="enqueue into it and add a QueueRunner", op=queue.name)
        users = consumers(queue)
        users += [tensor.op for user in users for tensor in user.inputs]
        if any(filler in user.control_inputs for user in users for filler in fillers):
            raise filled_while_read(queue)
        raise LiftError(
            f"no QueueRunner fills the queue; {fillers[0].name!r} does, whenever the script runs it",
            advice=f"add a QueueRunner for that operation in the input function, or, where it is fed from Python, "
            f"{_advice(queue)}",
            op=queue.name,
        )

    def _add(self, runner: Any) -> None:
        import tensorflow as tf

        queue = source_of(runner.queue.queue_ref)
        if type(runner)._run is not tf.compat.v1.train.QueueRunner._run:  # noqa: SLF001 - subclasses run Python code instead
            self._python[queue.name] = f"a {type(runner).__name__}"
            return
        ops = [getattr(op, "op", op) for op in runner.enqueue_ops]
        for op in dict.fromkeys(ops):
            enqueues, after = _run_by(op, queue)
            if len(enqueues) != 1:
                text = f"a thread runs {op.name!r}, which fills the queue {len(enqueues)} times at once"
                advice = "give the QueueRunner one enqueue operation for each thread"
                raise LiftError(text, advice=advice, op=queue.name)
            components, many, keep = enqueues[0]
            feed = Feed(op, tuple(after), tuple(map(_component, components)), many, keep, ops.count(op))
            self.filled.setdefault(queue.name, []).append(feed)


def put_runners_aside(graph: Any, sources: Collection[str], pulls: Collection[str]) -> None:
    """Remove the queue runners of lifted queues.

    Otherwise, their threads would consume records of the dataset. A queue with other users keeps its runner, which
    reads the same files a second time.

    Args:
        graph: the graph of the queues.
        sources: names of the lifted queues and readers.
        pulls: names of the lifted operations that consume their elements.

    Raises:
        LiftError: the threads of a lifted queue have started; or a Python function fills the queue, and the dataset
            and another user would each see only a part of its values.
    """
    runners = graph.get_collection_ref(QUEUE_RUNNERS)
    mine = {runner: source_of(runner.queue.queue_ref) for runner in runners}
    mine = {runner: queue for runner, queue in mine.items() if queue.name in sources}
    others = {q: op.name for q in mine.values() for op in consumers(q) if is_pull(op) and op.name not in pulls}
    aside = dict(mine)
    while kept := next((runner for runner, queue in aside.items() if queue in others), None):
        queue = aside.pop(kept)
        filling = [*back_from(getattr(op, "op", op) for op in kept.enqueue_ops)]
        if any(op.type in PYTHON for op in filling):
            text = f"a Python function fills the queue, and {others[queue]!r} takes from it, too"
            advice = "take from it once, for both; or remove the operation that nothing needs"
            raise LiftError(text, advice=advice, op=queue.name, location=location_of(queue))
        others |= {source: others[queue] for op in filling if is_pull(op) for source in sources_of(op)}
    for runner, queue in aside.items():
        if runner._runs_per_session:  # noqa: SLF001 - number of running threads by session
            text = "its threads have started, and would take records from the dataset"
            advice = "lift before tf.train.start_queue_runners"
            raise LiftError(text, advice=advice, op=queue.name, location=location_of(queue))
    for runner in aside:
        runners.remove(runner)
        runner.create_threads = lambda *_, **__: []  # scripts may call this method of each runner
        graph.add_to_collection(_LIFTED_RUNNERS, runner)


def filled_while_read(queue: Any) -> LiftError:
    """Build the error for a queue that is filled by the same step that reads it."""
    return LiftError(
        "each step fills the queue just before it reads it, and no QueueRunner does",
        advice="leave the queue out: give each reader its own tf.train.string_input_producer(names, shuffle=False), "
        "which keeps readers in step; use tensors directly where they are only dequeued",
        op=queue.name,
    )


def _advice(queue: Any) -> str:
    """Format advice on how to lift a queue that Python code fills."""
    return (
        f"lift(..., feed={{{queue.name!r}: dataset}}) with a tf.data.Dataset of what is put into it "
        "(tf.data.Dataset.from_generator, from_tensor_slices)"
    )


def consumers(source: Any) -> list[Any]:
    """List the operations that use the handle of a source, directly or through `Identity` operations."""
    ops = []
    for op in source.outputs[0].consumers():
        ops += consumers(op) if op.type == "Identity" else [op]
    return ops


_Enqueue = tuple[tuple[Any, ...], bool, "tuple[Any, bool] | None"]


def _run_by(op: Any, queue: Any) -> tuple[list[_Enqueue], list[Any]]:
    """List the enqueues into a queue that an operation triggers.

    Each of them is a tuple `(components, many, keep)`. The second result lists the other operations that are triggered.
    """
    puts: list[_Enqueue] = []
    after: list[Any] = []
    seen, stack = {op}, [op]
    while stack:
        here = stack.pop()
        before = list(here.control_inputs)
        if here.type in ENQUEUES and _leads_to(here.inputs[0], queue):
            puts.append((tuple(here.inputs[1:]), ENQUEUES[here.type], None))
        elif here.type in CONDITIONALS and (enqueues := list(_conditional_enqueues(here, queue))):
            puts += enqueues
        elif here.type in ("NoOp", "Identity", "IdentityN"):  # tf.group, tf.tuple and tf.cond add these
            before += [tensor.op for tensor in here.inputs]
        else:
            after.append(here)
            continue
        stack += [other for other in before if other not in seen]
        seen.update(before)
    return puts, after


def _conditional_enqueues(op: Any, queue: Any) -> Iterator[_Enqueue]:
    """Yield the enqueues into a queue that are made in the branches of an `If` operation.

    `tf.train.maybe_batch` creates such an operation for its argument `keep_input`.
    """
    arguments = op.inputs[1:]
    if not any(_leads_to(tensor, queue) for tensor in arguments):
        return
    for branch, value in (("then_branch", True), ("else_branch", False)):
        library, name = op.graph.as_graph_def().library, op.get_attr(branch).name
        definition = next(function for function in library.function if function.signature.name == name)
        names = [argument.name for argument in definition.signature.input_arg]
        for node in definition.node_def:
            if node.op not in ENQUEUES:
                continue
            wanted = [name for name in node.input if not name.startswith("^")]
            if not set(wanted) <= set(names):
                text = "tensors are computed inside the tf.cond that fills the queue"
                advice = "compute them before it, so that the branch only enqueues"
                raise LiftError(text, advice=advice, op=op.name)
            tensors = [arguments[names.index(name)] for name in wanted]
            if _leads_to(tensors[0], queue):
                yield tuple(tensors[1:]), ENQUEUES[node.op], (op.inputs[0], value)


def _leads_to(tensor: Any, queue: Any) -> bool:
    return through_identities(tensor).op.type in QUEUES and source_of(tensor) is queue


def sources_of(pull: Any) -> list[Any]:
    """List the sources of a pull.

    A dequeue operation has one source, its queue. A read operation has two: the reader and its queue of files. A
    registered dataset operation is its own source.
    """
    return [source_of(handle) for handle in pull.inputs[: 2 if pull.type in READS else 1]] if is_pull(pull) else [pull]


def is_pull(op: Any) -> bool:
    """Check whether an operation is a dequeue or a read."""
    return op.type in DEQUEUES or op.type in READS


def back_from(ops: Iterable[Any]) -> Iterator[Any]:
    """Yield operations and all operations on which they depend.

    The search ends at the pulls, which are also yielded.
    """
    waiting = [*ops]
    seen = {*waiting}
    while waiting:
        yield (here := waiting.pop())
        before = [] if is_pull(here) else [*(tensor.op for tensor in here.inputs), *here.control_inputs]
        waiting += [op for op in dict.fromkeys(before) if op not in seen]
        seen.update(before)
