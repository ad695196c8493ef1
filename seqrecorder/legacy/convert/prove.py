"""Comparison of a new reader with the old input function, which runs in a session with its queue runners."""

from __future__ import annotations

import collections
import contextlib
import itertools
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import attrs
import numpy as np

from seqrecorder.errors import LiftError, first_line
from seqrecorder.legacy.convert.trace import trace_function
from seqrecorder.legacy.graph import QUEUE_RUNNERS, READS, back_from, is_pull, source_of
from seqrecorder.legacy.tf1_behaviour import eagerly, quiet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from seqrecorder.legacy.convert.trace import Trace

Batch = list[Any]
_SECONDS = 60.0
"""Limit of a run, in seconds of processor time."""
_BYTES = 1 << 28
"""Limit of a run's batches, in bytes; up to six runs are in memory at a time."""
_PATIENCE = 60_000  # milliseconds that a session waits for a batch
_OFTEN = 4
"""If distinct records occur this often on average, all records are assumed to have been seen."""
_IN_PYTHON = "Graph execution error:"
"""First line of an error in a session, if a Python function raised it."""
_IN_DATASET = r"Error in user-defined function passed to \S+ transformation with iterator: \S+: "
"""Pattern of the prefix of an error in a `tf.data` transformation."""
RUNS = 3
"""Number of runs of a reader whose order is random."""


@attrs.frozen
class Comparison:
    """Result of comparing the batches of two readers.

    Attributes:
        batches: the number of compared batches.
        difference: a description of the first difference; None if there is none.
        ordered: whether the batches came in the same order; if not, records were compared regardless of their order.
        ended: whether both readers reached their end.
        sampled: whether only dtypes and shapes were compared, because batches sample or mix the records.
        rounded: whether floats differ in their last digits; graph optimisation turns divisions into multiplications.
        error: the error with which both readers end, as text; empty if there is none.
    """

    batches: int
    difference: str | None = None
    ordered: bool = True
    ended: bool = False
    sampled: bool = False
    rounded: bool = False
    error: str = ""

    @property
    def equal(self) -> bool:
        """True if there is no difference."""
        return self.difference is None

    def __str__(self) -> str:
        if self.difference is not None:
            return f"different: {self.difference}"
        bad = f"; then both end with an error{self.error}; the files hold something that cannot be read"
        end = bad if self.error else ", to the end" * self.ended
        if not self.batches:
            return f"no batch to compare{end.removeprefix(', to the end')}"
        if self.sampled:
            return f"{self.batches} batches of the same kinds, whose records cannot be compared without their order"
        exact = "but for the rounding of floats" if self.rounded else "bit for bit"
        chance = "the same records in random order" + f", {exact}" * self.rounded
        how = f"in the same order, {exact}" if self.ordered else chance
        return f"{self.batches} batches equal, {how}{end}"


def compare(old: Any, new: Any, *, batches: int = 100) -> Comparison:
    """Compare the batches of a TensorFlow 1 input function with the batches of a new reader.

    >>> import tensorflow as tf, seqrecorder as sr
    >>> def old():
    ...     queue = tf.compat.v1.train.range_input_producer(5, num_epochs=1, shuffle=False)
    ...     return tf.compat.v1.train.batch([queue.dequeue()], 2)
    >>> print(sr.legacy.compare(old, lambda: tf.data.Dataset.range(5).batch(2, drop_remainder=True)))
    different: batch 0, tensor 0: int32 became int64

    The old function runs in a session, with its own queue runners. Batches are compared in order. If they differ,
    records are compared regardless of their order and without padding.

    Args:
        old: a dataset, or a function without arguments that returns tensors or a `tf.data.Dataset`.
        new: the reader to compare with, in the same forms.
        batches: the maximum number of batches to compare.

    Returns:
        The result, with the first difference.

    Raises:
        LiftError: neither reader returns a batch.
    """
    first, second = (Run.of(reader, batches) for reader in (old, new))
    if not first.batches and not second.batches:
        raise LiftError(f"neither reader gives a batch{first.why or second.why}", advice="check the files they read")
    ordered = in_order(first, second)
    if ordered.equal or first.why or second.why:
        return ordered
    again = [[Run.of(reader, batches) for _ in range(RUNS - 1)] for reader in (old, new)]
    records = by_records([first, *again[0]], [second, *again[1]])
    return records if records.equal else ordered


@attrs.frozen(eq=False)
class Run:
    """Result of running a reader for some batches.

    Attributes:
        batches: the batches, each as a flat list of arrays.
        ended: whether the reader reached its end.
        why: the error that ended the run, as text; an empty string if there was none.
        sparse: the positions of the indices of sparse tensors in a batch; their values and shapes follow.
        apart: the positions of the tensors of each pipeline, if pipelines of the graph are independent.
    """

    batches: list[Batch]
    ended: bool
    why: str = ""
    sparse: tuple[int, ...] = ()
    apart: Sequence[Sequence[int]] = ()

    def columns(self, batch: Batch) -> list[Any]:
        """Split the sparse tensors of a batch into rows.

        The indices and the values of each sparse tensor are grouped by row. Its shape is replaced by a list of empty
        tuples, one for each row.
        """
        parts = list(batch)
        for start in reversed(self.sparse):
            indices, values, shape = batch[start : start + 3]
            if len(shape) > 1:  # otherwise, the tensor has no batch axis
                ends = np.searchsorted(indices[:, 0], np.arange(1, shape[0]))
                # Indices are shifted by 1, because a trailing 0 counts as padding.
                parts[start : start + 3] = np.split(indices[:, 1:] + 1, ends), np.split(values, ends), [()] * shape[0]
        return parts

    @classmethod
    def of(cls, reader: Any, most: int) -> Run:
        """Run a reader for at most `most` batches.

        A reader is a dataset, or a function that returns a dataset or tensors. A function that returns tensors runs in
        a session.
        """
        import tensorflow as tf

        if callable(reader) and not isinstance(reader, tf.data.Dataset):
            eager = True
            # Building the graph may fail in any way, such as by a call of .numpy().
            with contextlib.suppress(Exception), tf.Graph().as_default(), quiet():
                eager = isinstance(reader(), tf.data.Dataset)
            if not eager:
                return session_run(trace_function(reader), most)
            with eagerly():
                reader = reader()
        return dataset_run(reader, most)


def _goes_on(batches: list[Batch], most: int, until: float) -> bool:
    """Check whether a run is below its limits of memory, batches and time."""
    small = sum(getattr(part, "nbytes", 0) for batch in batches for part in batch) < _BYTES
    return small and len(batches) < most and time.process_time() < until


def dataset_run(dataset: Any, most: int) -> Run:
    """Read the first batches of a dataset."""
    import tensorflow as tf

    batches: list[Batch] = []
    until = time.process_time() + _SECONDS
    why, leaves = "", list[Any]()
    with eagerly():
        iterator = iter(dataset)
        while _goes_on(batches, most, until):
            try:
                element = next(iterator, None)
            except (tf.errors.OpError, UnicodeDecodeError) as error:
                element, why = None, explain(error)
            if element is None:
                return Run(batches, ended=True, why=why, sparse=_find_sparse(leaves))
            leaves = tf.nest.flatten(element)
            parts = tf.nest.flatten(element, expand_composites=True)
            batches.append([_array(part.numpy()) for part in parts if part is not None])
    return Run(batches, ended=False, sparse=_find_sparse(leaves))


def _find_sparse(leaves: Sequence[Any]) -> tuple[int, ...]:
    """Find the positions at which the sparse tensors of a batch begin.

    A batch is a flat list of arrays, which contains a separate array for each component of a sparse tensor.
    """
    import tensorflow as tf

    tensors = [leaf for leaf in leaves if tf.is_tensor(leaf)]
    starts = itertools.accumulate((len(tf.nest.flatten(x, expand_composites=True)) for x in tensors), initial=0)
    return tuple(start for x, start in zip(tensors, starts, strict=False) if isinstance(x, tf.SparseTensor))


def session_run(trace: Trace, most: int, replaced: Mapping[str, str] | None = None) -> Run:
    """Read the first batches of a graph in a session with its queue runners.

    Args:
        trace: the trace of an input function.
        most: the maximum number of batches.
        replaced: mapping from each path in the constants of the graph to a new path.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    graph, names = trace.graph, [tensor.name for tensor in trace.returned.tensors]
    if replaced is not None:
        graph = _with_paths(graph, replaced)
    batches: list[Batch] = []
    why, ended = "", False
    until = time.process_time() + _SECONDS
    options = v1.RunOptions(timeout_in_ms=_PATIENCE)
    # Optimisers turn divisions into multiplications, which changes the last bit of floats.
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    with graph.as_default(), quiet(), v1.Session(graph=graph, config=config) as session:
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
        coordinator = v1.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coordinator) if graph.get_collection(QUEUE_RUNNERS) else []
        try:
            while _goes_on(batches, most, until):
                batches.append([_array(part) for part in session.run(names, options=options)])
        except tf.errors.OutOfRangeError:
            ended = True
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            ended, why = True, explain(error)
        coordinator.request_stop()
        try:
            coordinator.join(threads, stop_grace_period_secs=10, ignore_live_threads=True)
        except Exception as error:  # noqa: BLE001 - whatever the threads raised
            why = explain(error) if ended and not isinstance(error, tf.errors.CancelledError) else why
    return Run(batches, ended, why, _find_sparse(trace.returned.leaves), _find_apart(trace.returned.tensors))


def explain(error: Exception) -> str:
    """Describe an error of TensorFlow, even if Python cannot decode it because it quotes bytes of the data."""
    if isinstance(error, UnicodeDecodeError):
        error = ValueError(error.object.decode(errors="backslashreplace"))
    text = f"{type(error).__name__}: {first_line(error)}"
    if text.endswith(_IN_PYTHON):  # the lines below quote the error of a Python function, with its type
        text = first_line(ValueError(str(error).partition(_IN_PYTHON)[2].strip()))
    return f": {re.sub(_IN_DATASET, '', text)[:300]}"


def _find_apart(tensors: Sequence[Any]) -> list[list[int]]:
    """Group tensors that depend on the same dequeues or reads.

    A group lists the positions of its tensors. Tensors in different groups have no dequeue or read in common.
    """
    groups = list[tuple[set[Any], list[int]]]()
    for position, tensor in enumerate(tensors):
        pulls, positions = {op for op in back_from([tensor.op]) if is_pull(op)}, [position]
        for group in [group for group in groups if group[0] & pulls]:
            groups.remove(group)
            pulls, positions = pulls | group[0], group[1] + positions
        groups.append((pulls, positions))
    return [positions for _, positions in groups]


def _array(value: Any) -> Any:
    """Convert a value to an array.

    Strings become an array of `bytes` objects, because NumPy's own strings lose trailing zeros.
    """
    return np.asarray(value, object if isinstance(value, bytes) else None)


def _with_paths(graph: Any, replaced: Mapping[str, str]) -> Any:
    """Copy a graph with its queue runners, replacing the paths in its constants."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with graph.as_default(), quiet():
        meta = v1.train.export_meta_graph(graph=graph)
    for node in meta.graph_def.node:
        if node.op == "Const" and node.attr["dtype"].type == tf.string.as_datatype_enum:
            texts = tf.make_ndarray(node.attr["value"].tensor)
            new = [replaced.get(text.decode(errors="replace"), text) for text in np.ravel(texts).tolist()]
            if new != np.ravel(texts).tolist():
                array = np.array(new, object).reshape(np.shape(texts))
                node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(array, tf.string, array.shape))
    copy = tf.Graph()
    copy.original = graph  # keeps the Python functions alive that the copy calls
    with copy.as_default(), quiet():
        v1.train.import_meta_graph(meta)
    return copy


# Comparisons ----------------------------------------------------------------------------------------------


def in_order(old: Run, new: Run) -> Comparison:
    """Compare the batches of two runs one by one."""
    rounded = False
    for number, (one, other) in enumerate(zip(old.batches, new.batches, strict=False)):
        if (difference := _difference(one, other)) is not None:
            if _difference(one, other, rtol=1e-5, atol=1e-6) is not None:
                return Comparison(number, f"batch {number}{difference}")
            rounded = True
    count = min(len(old.batches), len(new.batches))
    for (which, run), (rival, more) in itertools.permutations([("new", new), ("old", old)]):
        longer = len(more.batches) > count
        if run.ended and len(run.batches) == count and (longer or (run.why and not more.why)):
            rest = ("ends later, with an error" if run.why and more.why else "goes on") if longer else "has no error"
            return Comparison(count, f"the {which} reader ends after {count} batches{run.why}; the {rival} one {rest}")
    ended = old.ended and new.ended and not new.why
    return Comparison(count, ended=ended, rounded=rounded, error=new.why)


def _difference(one: Batch, other: Batch, *, rtol: float = 0, atol: float = 0) -> str | None:
    if len(one) != len(other):
        return f": {len(one)} tensors became {len(other)}"
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        where = f", tensor {number}: "
        if _kind(a) != _kind(b):
            return f"{where}{_kind(a)} became {_kind(b)}"
        if np.shape(a) != np.shape(b):
            return f"{where}shape {np.shape(a)} became {np.shape(b)}"
        floats = _kind(a).startswith("float")
        same = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True) if floats else np.asarray(a == b)
        if not np.all(same):
            position = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
            first, second = (np.atleast_1d(x)[position] for x in (a, b))
            return f"{where}{_short(first)} became {_short(second)} at {list(position)}"
    return None


def _kind(value: Any) -> str:
    kind = np.asarray(value).dtype
    return "string" if kind.kind in "OSU" else kind.name


def _short(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) and not isinstance(value, bytes) else value)
    return text if len(text) < 80 else text[:77] + "..."  # noqa: PLR2004 - a line


def by_records(
    old: Sequence[Run], new: Sequence[Run], *, mixed: bool = False, proved: bool = False, dropped: int | None = None
) -> Comparison:
    """Compare the records of runs whose order is random.

    Over all runs together, both readers must return the same set of records. If both end, each record must occur
    equally often, except for records dropped with an incomplete last batch.

    Args:
        old: runs of the old reader.
        new: runs of the new reader.
        mixed: whether a row may depend on other rows of its batch; if so, only dtypes and shapes are compared.
        proved: whether the readers were equal in a fixed order; if so, a record that is missing in all runs of one
            reader may have been dropped with the last batch of each run.
        dropped: the maximum number of records that a run drops with incomplete batches; None for the batch size minus
            one, or 0 if batches differ in size.
    """
    new = [attrs.evolve(run, apart=old[0].apart) for run in new]
    if dropped is None:
        sizes = {size for run in (*old, *new) for size in _sizes(run)}
        dropped = max(sizes) - 1 if len(sizes) == 1 else 0
    exact = _by_records(old, new, mixed=mixed, proved=proved, left=dropped)
    if exact.equal:
        return exact
    olds, news = ([_rounded(run) for run in runs] for runs in (old, new))
    rounded = _by_records(olds, news, mixed=mixed, proved=proved, left=dropped)
    return attrs.evolve(rounded, rounded=True) if rounded.equal else exact


def _rounded(run: Run) -> Run:
    """Round the floats of a run to four digits."""
    batches = [[_four_digits(x) if _kind(x).startswith("float") else x for x in batch] for batch in run.batches]
    return attrs.evolve(run, batches=batches)


def _four_digits(values: Any) -> Any:
    safe = np.where(values == 0, 1, np.abs(values))
    scale = 10.0 ** (3 - np.floor(np.log10(safe, where=np.isfinite(safe), out=np.zeros_like(safe))))
    return np.round(values * scale) / scale + 0.0  # turns -0.0 into 0.0


def _by_records(old: Sequence[Run], new: Sequence[Run], *, mixed: bool, proved: bool, left: int) -> Comparison:
    count = min(len(run.batches) for run in (*old, *new))
    ended = all(run.ended for run in (*old, *new))
    for one, other in zip(old, new, strict=True):
        difference = _other_kind(one, other) or (_other_counts(one, other, left) if ended and not mixed else None)
        if difference is not None:
            return Comparison(count, difference, ordered=False)
    drawn = [collections.Counter(itertools.chain.from_iterable(map(_records, runs))) for runs in (old, new)]
    if mixed or (not ended and drawn[0].total() < _OFTEN * len(drawn[0])):
        return Comparison(count, ordered=False, sampled=True)
    for verb, which in (("new", drawn[1].keys() - drawn[0]), ("missing", drawn[0].keys() - drawn[1])):
        if len(which) > left * (ended and proved):
            return Comparison(count, f"a record is {verb}: {_shown(next(iter(which)))}", ordered=False)
    return Comparison(count, ordered=False, ended=ended)


def _other_kind(one: Run, other: Run) -> str | None:
    """Compare two runs by their errors, dtypes, ranks and batch sizes.

    The result describes an error or the first difference. It is None if there is neither.
    """
    if one.why or other.why:
        return f"a reader ends with an error{one.why or other.why}"
    if not one.batches or not other.batches:
        return f"{len(one.batches)} batches became {len(other.batches)}" if one.batches or other.batches else None
    kinds = [[(_kind(part), np.ndim(part)) for part in run.batches[0]] for run in (one, other)]
    if kinds[0] != kinds[1]:
        return f"batch 0: {kinds[0]} became {kinds[1]}"
    largest = [max(_sizes(run), default=0) for run in (one, other)]
    return None if largest[0] == largest[1] else f"batches of {largest[0]} became batches of {largest[1]}"


def _other_counts(one: Run, other: Run, left: int) -> str | None:
    """Describe a record that one run contains more often than the other.

    The result is None if the counts differ by at most `left` records, which may have been dropped with incomplete
    batches.
    """
    before, after = (collections.Counter(_records(run)) for run in (one, other))
    fewer, more = before - after, after - before
    if max(fewer.total(), more.total()) <= left:
        return None
    return f"a record comes {'less' if fewer else 'more'} often: {_shown(next(iter(fewer or more)))}"


def _sizes(run: Run) -> list[int]:
    return [len(columns[0]) for columns in map(run.columns, run.batches) if getattr(columns[0], "ndim", 1)]


def _records(run: Run) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of all batches of a run, without padding.

    If a run contains several independent pipelines, each of them has its own rows. Each row therefore comes with a
    number that identifies its pipeline: the position of the first tensor of the row in the batch.
    """
    for batch in run.batches:
        columns = run.columns(batch)
        for positions in run.apart or [range(len(batch))]:
            parts = [columns[position] for position in positions]
            sizes = {len(part) if getattr(part, "ndim", 1) else -1 for part in parts}
            whole = tuple(batch[position] for position in positions)
            for row in zip(*parts, strict=True) if len(sizes) == 1 and sizes != {-1} else [whole]:
                yield positions[0], tuple(_stripped(part) for part in row)


def _stripped(value: Any) -> Any:
    """Convert a value to a hashable form without padding.

    Padding consists of zeros or empty strings at the end of an axis. The result is a tuple of dtype, shape and values.
    """
    array = _array(value)
    filled = np.argwhere(array != (b"" if array.dtype == object else 0))
    slices: Any = (Ellipsis, *map(slice, filled.max(0) + 1 if len(filled) else [0] * array.ndim))
    array = array[slices]
    return array.dtype.str, array.shape, tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes()


def _shown(record: tuple[Any, ...]) -> str:
    columns = [values if kind == "|O" else np.frombuffer(values, kind) for kind, _, values in record[1]]
    return _short([np.reshape(np.array(x), y).tolist() for x, (_, y, _) in zip(columns, record[1], strict=True)])


# Randomness -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def fixed_random_numbers() -> Iterator[None]:
    """Make random operations return constants.

    A shuffle inside a record reverses its argument instead. The order of records is still random.
    """
    import tensorflow as tf
    from tensorflow.python.ops import gen_image_ops, gen_random_ops  # all random functions call these modules

    def fraction(shape: Any, dtype: Any, *_: Any, **__: Any) -> Any:
        return tf.fill(shape, tf.cast(0.0625, dtype))

    def first(logits: Any, num_samples: Any, *_: Any, output_dtype: Any = tf.int64, **__: Any) -> Any:
        return tf.zeros(tf.stack([tf.shape(logits)[0], num_samples]), output_dtype)

    def half(image_size: Any, *_: Any, **__: Any) -> Any:
        size = tf.concat([tf.cast(image_size[:2], tf.int32) // 2, [-1]], 0)
        return tf.zeros([3], tf.int32), size, tf.constant([[[0.0, 0.0, 0.5, 0.5]]])

    shuffle = gen_random_ops.random_shuffle

    def reversed_record(value: Any, seed: int = 0, seed2: int = 0, name: str | None = None) -> Any:
        return tf.reverse(value, [0], name) if _is_of_a_record(value) else shuffle(value, seed, seed2, name)

    def least(shape: Any, minval: Any, *_: Any, **__: Any) -> Any:
        return tf.fill(shape, minval)

    names = ("random_uniform", "random_standard_normal", "truncated_normal")
    fractions: dict[str, Any] = dict.fromkeys(names, fraction)
    others: dict[str, Any] = {"random_shuffle": reversed_record, "random_uniform_int": least, "multinomial": first}
    boxes = mock.patch.object(gen_image_ops, "sample_distorted_bounding_box_v2", half)
    with boxes, mock.patch.multiple(gen_random_ops, **fractions, **others):
        yield


def _is_of_a_record(value: Any) -> bool:
    """Check whether a tensor is part of a record.

    In the graph of a function, all tensors count as parts of a record. In other graphs, this holds for tensors that
    depend on a queue or reader.
    """
    import tensorflow as tf

    symbolic = tf.is_symbolic_tensor(value)
    return symbolic and (hasattr(value.graph, "outer_graph") or any(map(is_pull, back_from([value.op]))))


@contextlib.contextmanager
def fixed_order() -> Iterator[None]:
    """Disable unseeded shuffles, and fill each queue from one thread that runs its operations in turn.

    If several readers share a queue of files, only one of them reads; otherwise each reader would get random files.
    """
    import tensorflow as tf
    from tensorflow.python.ops import gen_data_flow_ops, gen_random_ops
    from tensorflow.python.training.queue_runner_impl import QueueRunner  # tf.compat.v1 only has an alias

    shuffle = gen_random_ops.random_shuffle

    def unshuffled(value: Any, seed: int = 0, seed2: int = 0, name: str | None = None) -> Any:
        return shuffle(value, seed, seed2, name) if seed or seed2 else tf.identity(value, name)

    def first_in_first_out(component_types: Any, *, shapes: Any = (), capacity: int = -1, **named: Any) -> Any:
        kept = {name: named[name] for name in ("shared_name", "name") if name in named}
        return gen_data_flow_ops.fifo_queue_v2(component_types, shapes=shapes, capacity=capacity, **kept)

    def one_thread(runner: Any, session: Any, coord: Any = None, **_: Any) -> list[threading.Thread]:
        fills = threading.Thread(target=_fill_in_turn, args=(runner, session, coord), daemon=True)
        ends = threading.Thread(target=runner._close_on_stop, args=(session, runner.cancel_op, coord), daemon=True)  # noqa: SLF001
        for thread in (fills, ends):
            coord.register_thread(thread)
            thread.start()
        return [fills, ends]

    with (
        mock.patch.object(gen_random_ops, "random_shuffle", unshuffled),
        mock.patch.object(gen_data_flow_ops, "random_shuffle_queue_v2", first_in_first_out),
        mock.patch.object(QueueRunner, "create_threads", one_thread),
        mock.patch.object(tf.data.Dataset, "shuffle", lambda dataset, *_, **__: dataset),
        mock.patch.object(tf.data.Dataset, "interleave", lambda dataset, f, **_: dataset.flat_map(f)),
    ):
        yield


def _fill_in_turn(runner: Any, session: Any, coord: Any) -> None:
    """Run the enqueue operations of a queue in turn until all of them end, and then close the queue."""
    import tensorflow as tf

    ops = [*dict.fromkeys(getattr(op, "op", op) for op in runner.enqueue_ops)]
    reads = [[pull for pull in back_from([op]) if pull.type in READS] for op in ops]
    readers = {source_of(pull.inputs[0]): source_of(pull.inputs[1]) for pulls in reads for pull in pulls}
    if len(readers) > len(set(readers.values())):
        ops = ops[:1]
    with coord.stop_on_exception():
        while ops and not coord.should_stop():
            for op in list(ops):
                try:
                    session.run(op)
                except (tf.errors.OutOfRangeError, tf.errors.CancelledError):
                    ops.remove(op)
        session.run(runner.close_op)


# Truncated files ------------------------------------------------------------------------------------------


def cut_files(files: Sequence[str], reader: Any, batch: int, directory: Path) -> list[str]:
    """Copy the first records of each file.

    The number of records is chosen so that the last batch is incomplete.

    Args:
        files: the paths.
        reader: the operation that reads the files.
        batch: the batch size.
        directory: the directory of the copies, whose names sort in the order of `files`.
    """
    each = max(-(-(2 * batch + 1) // len(files)), 1)
    copies = [str(directory / f"{number:05d}-{Path(file).name}") for number, file in enumerate(files)]
    for number, (file, copy) in enumerate(zip(files, copies, strict=True)):
        count = each if number or len(files) == 1 or each * len(files) % max(batch, 2) else each + 1
        _copy_first(file, copy, reader, count)
    return copies


def _copy_first(file: str, copy: str, reader: Any, count: int) -> None:
    import tensorflow as tf

    get = reader.get_attr
    if reader.type == "TFRecordReaderV2":
        packed = get("compression_type").decode()
        with tf.io.TFRecordWriter(copy, packed) as writer:
            for record in tf.data.TFRecordDataset(file, packed).take(count).as_numpy_iterator():
                writer.write(record)
        return
    content = tf.io.gfile.GFile(file, "rb").read()
    if reader.type == "TextLineReaderV2":
        lines = content.splitlines(keepends=True)
        content = b"".join(lines[: count + get("skip_header_lines")])
    elif reader.type == "FixedLengthRecordReaderV2" and not get("encoding"):
        hop = get("hop_bytes") or get("record_bytes")
        size = get("header_bytes") + get("record_bytes") + (count - 1) * hop
        footer = content[len(content) - get("footer_bytes") :] if get("footer_bytes") else b""
        content = content if len(content) <= size + len(footer) else content[:size] + footer
    Path(copy).write_bytes(content)
