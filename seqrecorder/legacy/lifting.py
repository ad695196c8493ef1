"""`lift`: conversion of an unchanged TensorFlow 1 input function to a `tf.data.Dataset`."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import LiftError, OptionError
from seqrecorder.legacy.graph import QUEUES, location_of, packages, put_runners_aside, seeds
from seqrecorder.legacy.lifted import Lifted, check_apart
from seqrecorder.legacy.queues import check_shuffle_buffer
from seqrecorder.legacy.subgraph import State
from seqrecorder.legacy.tf1_behaviour import eagerly, first_behaviour, quiet
from seqrecorder.legacy.translation import Translation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from seqrecorder.legacy.queues import ShuffleBuffer


class Returned:
    """Nested structure of tensors that an input function returned.

    Lists become tuples, because tf.data treats lists as tensors. Plain values, such as a number of batches, become
    constants, and None stays None. A queue is replaced by its next element.

    Attributes:
        tensors: the dense tensors, including the components of sparse and ragged tensors.

    Args:
        value: the return value of the function.
        graph: the graph in which the function ran.

    Raises:
        LiftError: a value cannot be part of a dataset element.
    """

    def __init__(self, value: Any, graph: Any) -> None:
        import tensorflow as tf

        self.graph = graph
        with graph.as_default():
            self.structure = _tuples(value)
            self.leaves = [self._leaf(leaf) for leaf in tf.nest.flatten(self.structure)]
        symbolic = [leaf for leaf in self.leaves if tf.is_tensor(leaf)]
        self.tensors = tf.nest.flatten(symbolic, expand_composites=True)

    def pack(self, tensors: Any) -> Any:
        """Pack new tensors into the structure that the input function returned.

        They are in the same order as in `tensors`.
        """
        import tensorflow as tf

        rest = iter(tensors)
        leaves = []
        for leaf in self.leaves:
            mine = [part if part is None else next(rest) for part in tf.nest.flatten(leaf, expand_composites=True)]
            leaves.append(tf.nest.pack_sequence_as(leaf, mine, expand_composites=True))
        return tf.nest.pack_sequence_as(self.structure, leaves)

    def _leaf(self, leaf: Any) -> Any:
        import tensorflow as tf

        if isinstance(leaf, tf.queue.QueueBase):
            leaf = leaf.dequeue()
        if isinstance(leaf, tf.Variable):
            leaf = tf.convert_to_tensor(leaf)
        if isinstance(leaf, tf.data.Dataset):
            advice = "there are no queues of TensorFlow 1 in it: call the function itself, outside of any graph"
            raise LiftError("the function returns a tf.data.Dataset", advice=advice)
        if tf.is_tensor(leaf):
            dense = tf.nest.flatten(leaf, expand_composites=True)
            if any(getattr(tensor, "graph", None) is not self.graph for tensor in dense):
                text = f"{leaf!r} does not belong to the function's graph"
                raise LiftError(text, advice="make all tensors inside the function that is lifted")
            return leaf
        try:
            return leaf if leaf is None else tf.constant(leaf)
        except (TypeError, ValueError):
            text = f"expected a function that returns tensors, got {type(leaf).__name__}"
            advice = "return the tensors inside, as in lift(lambda: (x.images, x.labels))"
            raise LiftError(text, advice=advice) from None


def _tuples(value: Any) -> Any:
    """Replace the lists in a nested structure with tuples."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_tuples(item) for item in value))
    if isinstance(value, (list, tuple)):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value


_AHEAD = 2
"""Number of elements to prefetch, because queues, too, were filled while a model trained on the last batch."""


def lift(
    input_fn: Callable[[], Any] | Any,
    *,
    feed: Mapping[str, Any] | None = None,
    graph_seed: int | None = None,
    shuffle_buffer: ShuffleBuffer = "capacity",
    explain: bool = False,
) -> Any:
    r"""Turn a TensorFlow 1 input function that reads through queues into a `tf.data.Dataset`.

    The function is called once, in its own graph. The graph between the readers and the returned tensors is translated
    stage by stage: queue runners, queues, readers and producers become tf.data transformations, and the operations
    between them run unchanged in `map`. Helper functions, loops and hand-written queues are translated, too. Nothing is
    read and no thread starts before the dataset is iterated. The iterator then raises the original errors; with queues,
    the main thread only saw `OutOfRangeError`, which looked like the end of the data.

    >>> import tempfile, pathlib, tensorflow as tf
    >>> path = pathlib.Path(tempfile.mkdtemp(), "numbers.csv")
    >>> _ = path.write_text("1,2\n3,4\n5,6\n")
    >>> def input_fn():
    ...     queue = tf.compat.v1.train.string_input_producer([str(path)], num_epochs=2)
    ...     _, line = tf.compat.v1.TextLineReader().read(queue)
    ...     x, y = tf.io.decode_csv(line, [[0], [0]])
    ...     return tf.compat.v1.train.batch({"x": x, "y": y}, 4, allow_smaller_final_batch=True)
    >>> for batch in lift(input_fn):
    ...     print(batch["x"].numpy(), batch["y"].numpy())
    [1 3 5 1] [2 4 6 2]
    [3 5] [4 6]

    The dataset yields the elements of the queues, in the same order if the original order was fixed: seeded orders of
    files and the keys of readers match bit for bit. Random queues, several threads or several readers left the order to
    chance. The dataset then has another one of the possible orders, and `explain` says so.

    Operations run as they are written. A `Session` optimised its graph, for example by turning divisions by
    constants into multiplications, so its floats may differ in the last bit.

    An iterator can be saved in a `tf.train.Checkpoint` and resumes where it was, even within shuffled files. TensorFlow
    refuses to save it if Python functions or random operations run between the queues, because it cannot save their
    state.

    Tensors of the default graph can also be lifted, for scripts that create queues in one function and use them in
    another: `x = get_next(lift(x))`. Threads no longer fill the lifted queues.

    Args:
        input_fn: a function without arguments that returns a nested structure of tensors; or such a structure from the
            default graph.
        feed: mapping from the name of a placeholder to a constant value, or from the name of a queue that Python fills
            to a `tf.data.Dataset` of its elements (tuples of the components, one element at a time) or, inside a graph,
            to a function that returns such a dataset.
        graph_seed: the argument of a `tf.set_random_seed` call before the function, if any; by default, the seed of the
            graph in which `lift` is called. In eager execution, an error is raised if a global seed is set and random
            operations depend on it.
        shuffle_buffer: the buffer size of random queues: `"capacity"` (reading is faster than training),
            `"min_after_dequeue"` (reading is slower), or a number.
        explain: whether to print the stages.

    Returns:
        A `tf.data.Dataset` with the structure that the function returned, in which tuples replace lists. It runs no
        Python, except for a `tf.py_func` in the function.

    Raises:
        LiftError: an operation cannot be translated; or other tensors of the same queue were lifted before; or several
            operations take elements from one source, and a session can run them separately. The error says what to do.
        OptionError: an option is invalid.
    """
    lifted = trace(input_fn, feed=feed, graph_seed=graph_seed, shuffle_buffer=shuffle_buffer)
    if explain:
        print(lifted)  # noqa: T201 - the user asked for it
    return lifted.dataset


def trace(
    input_fn: Callable[[], Any] | Any,
    *,
    feed: Mapping[str, Any] | None = None,
    graph_seed: int | None = None,
    shuffle_buffer: ShuffleBuffer = "capacity",
) -> Lifted:
    """Lift an input function, and return the dataset together with its stages.

    This function is meant for programs. See `lift` for arguments and errors.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context  # the seed has no public name

    check_shuffle_buffer(shuffle_buffer)
    if callable(input_fn):
        outside = None
        if graph_seed is None and tf.executing_eagerly():
            outside = context.global_seed()
        elif graph_seed is None:
            graph_seed = tf.compat.v1.get_default_graph().seed
        graph = tf.Graph()
        with graph.as_default(), quiet(), first_behaviour():
            if graph_seed is not None:
                tf.compat.v1.set_random_seed(graph_seed)
            returned = Returned(call_function(input_fn), graph)
        if outside is not None:
            _check_seeds(graph, outside)
    elif tf.executing_eagerly():
        text = f"expected a function, got {type(input_fn).__name__}; only a graph has tensors to lift"
        raise LiftError(text, advice="give the function that makes the tensors, without calling it")
    elif graph_seed is not None:
        raise OptionError("graph_seed: the tensors are in a graph, which has its seed already")
    else:
        graph = tf.compat.v1.get_default_graph()
        with first_behaviour():
            returned = Returned(input_fn, graph)
    lifted = translate(graph, returned.tensors, feed=feed, shuffle_buffer=shuffle_buffer)
    if not callable(input_fn):
        check_apart(graph, lifted.sources, returned.tensors)
        put_runners_aside(graph, lifted.sources, lifted.pulls)
    with eagerly():
        options = tf.data.Options()
        options.deterministic = True
        # With autotuning, the end of an iterator may wait for the next tick of a timer.
        options.autotune.enabled = False
        packed = lifted.dataset.map(lambda *tensors: returned.pack(tensors)).prefetch(_AHEAD)
        dataset = packed.with_options(options)
    return attrs.evolve(lifted, dataset=dataset)


def _check_seeds(graph: Any, outside: int) -> None:
    """Raise `LiftError` if the graph has random operations.

    This check is needed if a global seed was set outside of the lifted function. Random operations depend on this seed,
    but it does not apply to the graph of the function.
    """
    for op in graph.get_operations():
        if seeds(op) is not None:
            raise LiftError(
                f"{op.type} draws by the seed of the graph, and tf.set_random_seed({outside}) or tf.random.set_seed "
                "was called outside of the function that is lifted",
                advice=f"give graph_seed={outside} if the old program set it; else lift before the seed is set",
                op=op.name,
                location=location_of(op),
            )


def call_function(input_fn: Callable[[], Any]) -> Any:
    """Call an input function in the current graph.

    Raises:
        LiftError: the function uses a name of TensorFlow 1 that TensorFlow 2 lacks, or a variable or tensor that was
            made outside of the function.
    """
    try:
        return input_fn()
    except AttributeError as error:
        if str(error).startswith("module 'tensorflow"):
            text = f"the function uses a name of TensorFlow 1, and finds TensorFlow 2 ({error})"
            raise LiftError(text, advice="import its module inside `with seqrecorder.legacy.compat():`") from error
        raise
    except RuntimeError as error:
        if "EagerTensor" not in str(error):
            raise
        here = [at for at in traceback.extract_tb(error.__traceback__) if not at.filename.startswith(packages())][-1]
        text = f"{here.filename}, line {here.lineno} uses a variable or tensor that was made outside of the function"
        advice = "make it in the function, such as by tf.train.get_or_create_global_step()"
        raise LiftError(text, advice=advice) from error


def translate(
    graph: Any,
    targets: Sequence[Any],
    *,
    feed: Mapping[str, Any] | None = None,
    shuffle_buffer: ShuffleBuffer = "capacity",
) -> Lifted:
    """Translate the pipeline of graph tensors into a dataset of tuples (see `lift`)."""
    import tensorflow as tf

    values = {name.removesuffix(":0"): value for name, value in (feed or {}).items()}
    placeholders = {op.name for op in graph.get_operations() if op.type == "Placeholder"}
    queues = {op.name for op in graph.get_operations() if op.type in QUEUES}
    if not values.keys() <= placeholders | queues:
        unknown = min(values.keys() - placeholders - queues)
        raise OptionError(
            f"feed: there is no placeholder or queue {unknown!r}, only {sorted(placeholders)} and {sorted(queues)}"
        )
    constants, filled = ({name: values[name] for name in values.keys() & names} for names in (placeholders, queues))
    try:
        with contextlib.closing(State(graph, constants)) as state, eagerly():
            translation = Translation(graph, state, shuffle_buffer, filled, {})
            # The functions of this package have no control flow for AutoGraph to convert.
            dataset = tf.autograph.experimental.do_not_convert(translation.outputs)(targets)
            if counts := {name: len(users) for name, users in translation.users.items() if len(users) > 1}:
                translation = Translation(graph, state, shuffle_buffer, filled, counts)
                dataset = tf.autograph.experimental.do_not_convert(translation.outputs)(targets)
    except LiftError as error:
        if error.op is None or error.location is not None:
            raise
        op = graph.get_operation_by_name(error.op)
        raise LiftError(error.reason, advice=error.advice, op=error.op, location=location_of(op)) from error.__cause__
    notes = tuple(dict.fromkeys(translation.notes))
    for note in notes:
        warnings.warn(f"lift: {note}", stacklevel=4)
    sources, pulls = frozenset(translation.users), frozenset(translation.pulls)
    return Lifted(dataset, tuple(translation.stages), notes, sources, pulls)
