"""Stages of `tf.data` pipelines that are one operation each, and start fast.

What TensorFlow's methods of the same purpose wrap around an operation is a traced function each, and every function of
a pipeline is optimised anew whenever an iterator is made: about 5 ms, which is a thousand short records. So there are
fewer functions here, and those that remain are traced in a way that spares them that (see
`seqrecorder.reading.tracing`). Measured on two cores, for a shuffled `Bucket` of 20,000 records: making the iterator
took 64 ms with TensorFlow's methods and 8 with these, the first batch 49 and 23; the rest of an epoch takes as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.reading.tracing import dataset_of, growing, in_graph, output_of, tensor_of, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.reading.tracing import Traced

_GROUPS_WAITING = 2
_ZEROS = 1 << 12

_PROGRAM_SEED = 87654321
"""What TensorFlow takes for the seed of a program that has none."""


def rebatched(dataset: Any, sizes: Any, *, drop_remainder: bool = False) -> Any:
    """Return batches of other sizes of the rows of a dataset's batches.

    >>> import tensorflow as tf
    >>> list(rebatched(tf.data.Dataset.range(5).batch(2), 3).as_numpy_iterator())
    [array([0, 1, 2]), array([3, 4])]

    Args:
        dataset: a `tf.data.Dataset` of dense tensors that have their number of rows in common.
        sizes: rows to a batch; or an int64 vector of the sizes that batches have in turn.
        drop_remainder: whether an incomplete batch at the end is left out; then one size is a static shape.
    """
    import tensorflow as tf

    rows = sizes if drop_remainder and isinstance(sizes, int) else None
    spec = tf.nest.map_structure(lambda t: tf.TensorSpec([rows, *t.shape[1:]], t.dtype), dataset.element_spec)
    batch_sizes = tf.cast(sizes, tf.int64)
    return dataset_of(
        tf.raw_ops.RebatchDatasetV2, dataset, spec, batch_sizes=batch_sizes, drop_remainder=drop_remainder
    )


def unbatched(dataset: Any) -> Any:
    """Return the rows of the batches of a dataset, as `tf.data.Dataset.unbatch` does.

    >>> import tensorflow as tf
    >>> [int(i) for i in unbatched(tf.data.Dataset.range(3).batch(2))]
    [0, 1, 2]

    Args:
        dataset: a `tf.data.Dataset` of dense tensors that have their number of rows in common.
    """
    import tensorflow as tf

    spec = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape[1:], t.dtype), dataset.element_spec)
    return dataset_of(tf.raw_ops.UnbatchDataset, dataset, spec)


def random_numbers(seed: int) -> Any:
    """Return a `tf.data.Dataset` of random int64 without end: others each iteration, the same series for a seed.

    `tf.data.Dataset.random` would draw others where a program has a seed of its own (`tf.random.set_seed`).

    >>> first, second = (list(random_numbers(1).take(2).as_numpy_iterator()) for _ in range(2))
    >>> first == second
    True

    Args:
        seed: of the series.
    """
    import tensorflow as tf

    made = tf.raw_ops.RandomDatasetV2(
        seed=tf.constant(_PROGRAM_SEED, tf.int64),
        seed2=tf.constant(seed, tf.int64),
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    return tf.data.experimental.from_variant(made, tf.TensorSpec([], tf.int64))


def iterations_begun() -> Any:
    """Return a `tf.data.Dataset` of one int64 again and again: how many iterations over this object began before.

    An iterator of which no element is asked for, such as those that Keras makes and throws away, does not count.

    >>> begun = iterations_begun().take(2)
    >>> [[int(number) for number in begun] for _ in range(3)]
    [[0, 0], [1, 1], [2, 2]]
    """
    import tensorflow as tf

    # The one state that iterators share, and that can be saved and sent to other machines, is a seed that is drawn anew
    # for each. A series made here starts from the first, so the seed's place in it is the number of the iteration.
    def place(first: Any, drawn: Any) -> tuple[Any, Any]:
        first = tf.where(first < 0, drawn, first)
        before = random_numbers(0).take(1).repeat().take_while(lambda number: number != first)
        return first, before.reduce(tf.constant(0, tf.int64), lambda count, _: count + 1)

    nothing = random_numbers(0).take(0)  # what is concatenated is begun when it is asked for
    return scanned(nothing.concatenate(random_numbers(0)), tf.constant(-1, tf.int64), place)


def counted(dataset: Any, count: int) -> Any:
    """Return a dataset of which `tf.data` knows how many elements it has, and so what it makes of it.

    `assert_cardinality` would fail in every worker of tf.data's service, which deals the files among them. What takes
    elements by turns from two datasets, of which one has no end, has none either, as `tf.data` reckons, and some are
    taken of that. Here it is always the turn of the first, and all ends when that does.

    >>> import tensorflow as tf
    >>> some = tf.data.Dataset.range(9).filter(lambda i: i % 2 == 1)
    >>> known = counted(some, 4)
    >>> int(some.cardinality()), int(known.cardinality()), int(known.skip(1).cardinality()), len(list(known))
    (-2, 4, 3, 4)

    Args:
        dataset: a `tf.data.Dataset`.
        count: of its elements; -1 (`tf.data.INFINITE_CARDINALITY`) where it has no end.
    """
    import tensorflow as tf

    other = tf.data.Dataset.from_tensors(tf.nest.map_structure(_blank, dataset.element_spec)).repeat()
    # Random numbers are a source that the service does not deal: each worker has all turns.
    turns = unbatched(mapped(tf.data.Dataset.random(seed=0), lambda _: tf.zeros([_ZEROS], tf.int64)))
    taken = tf.data.Dataset.choose_from_datasets([dataset, other], turns, stop_on_empty_dataset=True)
    taken = taken if count == tf.data.INFINITE_CARDINALITY else taken.take(count)
    return tf.data.experimental.from_variant(tf.data.experimental.to_variant(taken), dataset.element_spec)


def _blank(spec: Any) -> Any:
    """Return an element of a spec, with nothing in it where its size is not known."""
    import tensorflow as tf

    if isinstance(spec, tf.SparseTensorSpec):
        rank = spec.shape.rank
        return tf.SparseTensor(tf.zeros([0, rank], tf.int64), tf.zeros([0], spec.dtype), tf.zeros([rank], tf.int64))
    if isinstance(spec, tf.RaggedTensorSpec):
        values = tf.zeros([0, *spec.shape[spec.ragged_rank + 1 :]], spec.dtype)
        for _ in range(spec.ragged_rank):
            values = tf.RaggedTensor.from_row_splits(values, tf.zeros([1], spec.row_splits_dtype))
        return values
    return tf.zeros([size or 0 for size in spec.shape], spec.dtype)


def shuffled(dataset: Any, size: int, number: Any) -> Any:
    """Return the elements of a dataset in random order, as `tf.data.Dataset.shuffle` does.

    >>> import tensorflow as tf
    >>> sorted(int(i) for i in shuffled(tf.data.Dataset.range(5), 2, tf.constant(7, tf.int64)))
    [0, 1, 2, 3, 4]

    Args:
        dataset: a `tf.data.Dataset` of dense tensors.
        size: elements that the next one is drawn from.
        number: int64 scalar: stands for the order, which depends on nothing else.
    """
    import tensorflow as tf

    return dataset_of(
        tf.raw_ops.ShuffleDataset,
        dataset,
        dataset.element_spec,
        buffer_size=tf.constant(size, tf.int64),
        seed=number,
        seed2=tf.constant(1, tf.int64),  # two zeros would stand for any order
        reshuffle_each_iteration=False,
    )


def mapped(dataset: Any, function: Callable[..., Any], *, parallel: int | None = None) -> Any:
    """Return what a function makes of each element, as `tf.data.Dataset.map` does.

    >>> import tensorflow as tf
    >>> [int(i) for i in mapped(tf.data.Dataset.range(3), lambda i: i * i)]
    [0, 1, 4]

    Args:
        dataset: a `tf.data.Dataset`; of ragged and sparse tensors there are none.
        function: from an element (a tuple taken apart) to another.
        parallel: how many calls run at a time; None calls it in turn, in the thread of the consumer.
    """
    return _mapped(dataset, function, trace(function, dataset.element_spec), parallel)


def _mapped(dataset: Any, function: Callable[..., Any], traced: Traced, parallel: int | None) -> Any:
    import tensorflow as tf

    if not _is_dense(traced.spec):
        # How composite tensors are packed into one element is TensorFlow's secret.
        return dataset.map(function, num_parallel_calls=parallel)
    options: dict[str, Any] = {
        "preserve_cardinality": True,
        # One thread to a call: handing small operations from thread to thread cost an eighth of reading short records.
        # But a call that waits for functions of its own could keep the thread that these need.
        "use_inter_op_parallelism": traced.calls,
    }
    if parallel is None:
        return dataset_of(tf.raw_ops.MapDataset, dataset, traced.spec, **traced.arguments(), **options)
    options["num_parallel_calls"] = tf.constant(parallel, tf.int64)
    return dataset_of(tf.raw_ops.ParallelMapDatasetV2, dataset, traced.spec, **traced.arguments(), **options)


def mapped_in_groups(
    dataset: Any, function: Callable[..., Any], size: int, *, fits: Callable[[Any], bool], parallel: int
) -> Any:
    """Return what `mapped` does, made in turn by a thread of its own and handed over so many elements at a time.

    To hand over an element wakes a thread, which takes longer than to make a small one. An error takes the place of its
    group, so that the other elements of that do not come. (`tf.data.Dataset.window` would make the same groups; but an
    error that comes where a part of its input has ended, it takes for the end of all.)

    >>> import tensorflow as tf
    >>> numbers = mapped_in_groups(tf.data.Dataset.range(5), lambda i: i * i, 2, fits=lambda _: True, parallel=2)
    >>> [int(i) for i in numbers]
    [0, 1, 4, 9, 16]

    Args:
        dataset: as for `mapped`.
        function: as for `mapped`.
        size: elements to a group; two groups wait for the consumer, beside the one that is made and that it has.
        fits: from the structure, shapes and dtypes of elements to whether groups of them fit the memory. Those with
            ragged or sparse tensors are not put into groups either.
        parallel: as for `mapped`, for elements that are not put into groups.
    """
    import tensorflow as tf

    made_spec: list[Any] = []

    def packed(*element: Any) -> Any:
        made = tf.nest.map_structure(tensor_of, function(*element))
        made_spec[:] = [tf.nest.map_structure(tf.type_spec_from_value, made)]
        return tf.raw_ops.OptionalFromValue(components=tf.nest.flatten(made)) if grouped(made_spec[0]) else made

    def grouped(spec: Any) -> bool:
        return _is_dense(spec) and fits(spec)

    traced = trace(packed, dataset.element_spec)
    [spec] = made_spec
    if not grouped(spec):
        return _mapped(dataset, function, traced, parallel)
    waiting = unbatched(_mapped(dataset, packed, traced, None).batch(size).prefetch(_GROUPS_WAITING))
    return mapped(waiting, lambda whole: _unpacked(whole, spec))


def _unpacked(whole: Any, spec: Any) -> Any:
    import tensorflow as tf

    parts = tf.raw_ops.OptionalGetValue(optional=whole, **output_of(spec))
    return tf.nest.pack_sequence_as(spec, parts)


def _is_dense(spec: Any) -> bool:
    import tensorflow as tf

    return all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(spec))


def filtered(dataset: Any, predicate: Callable[..., Any]) -> Any:
    """Return the elements of which a predicate holds, as `tf.data.Dataset.filter` does.

    >>> import tensorflow as tf
    >>> [int(i) for i in filtered(tf.data.Dataset.range(4), lambda i: i % 2 == 1)]
    [1, 3]

    Args:
        dataset: a `tf.data.Dataset` of dense tensors.
        predicate: from an element (a tuple taken apart) to a bool scalar.
    """
    import tensorflow as tf

    traced = trace(predicate, dataset.element_spec)
    return dataset_of(tf.raw_ops.FilterDataset, dataset, dataset.element_spec, **traced.arguments("predicate"))


def bucketed(dataset: Any, bucket: Callable[..., Any], sizes: Sequence[int], *, drop_remainder: bool = False) -> Any:
    """Return batches of elements of one bucket each, as `tf.data.Dataset.bucket_by_sequence_length` orders them.

    An element is moved into its bucket, and copied into its batch. Through `tf.data.Dataset.group_by_window`, its
    bucket would be worked out by another thread, whose waking took 50 microseconds an element on two cores; here 3.

    >>> import tensorflow as tf
    >>> batches = bucketed(tf.data.Dataset.range(6), lambda i: i % 2, [2, 3])
    >>> [batch.tolist() for batch in batches.as_numpy_iterator()]
    [[0, 2], [1, 3, 5], [4]]

    Args:
        dataset: a `tf.data.Dataset` of dense tensors.
        bucket: from an element (a tuple taken apart) to an int64 scalar, below the number of sizes.
        sizes: elements to a batch, for each bucket.
        drop_remainder: whether incomplete batches are left out at the end; else the lowest bucket comes first.
    """
    import tensorflow as tf

    spec, scalar = dataset.element_spec, tf.TensorSpec([], tf.int64)
    static = sizes[0] if drop_remainder and len(set(sizes)) == 1 else None
    batch_spec = tf.nest.map_structure(lambda t: tf.TensorSpec([static, *t.shape], t.dtype), spec)

    def size_of(number: Any) -> Any:
        return tf.gather(tf.constant(sizes, tf.int64), number)

    def batch(number: Any, elements: Any) -> Any:
        collected = tf.data.experimental.from_variant(elements, spec)
        return tf.data.experimental.to_variant(collected.batch(size_of(number), drop_remainder=drop_remainder))

    def made() -> Any:
        key, size = trace(bucket, spec), trace(size_of, scalar)
        reduce = trace(batch, (scalar, tf.TensorSpec([], tf.variant)))
        functions = {
            **key.arguments("key_func", "key_func_other_arguments", inline=True),
            **size.arguments("window_size_func", "window_size_func_other_arguments", inline=True),
            **reduce.arguments("reduce_func", "reduce_func_other_arguments"),
        }
        variant = tf.data.experimental.to_variant(dataset)
        return tf.raw_ops.GroupByWindowDataset(input_dataset=variant, **output_of(batch_spec), **functions)

    return tf.data.experimental.from_variant(in_graph(made), batch_spec)


def flat_mapped(dataset: Any, function: Callable[..., Any], *, cycle: int = 1, parallel: int | None = None) -> Any:
    """Return the elements of the datasets that a function makes of each element.

    With a cycle of one this is `tf.data.Dataset.flat_map`, else `tf.data.Dataset.interleave`.

    >>> import tensorflow as tf
    >>> [int(i) for i in flat_mapped(tf.data.Dataset.range(3), tf.data.Dataset.range)]
    [0, 0, 1]
    >>> [int(i) for i in flat_mapped(tf.data.Dataset.range(4), tf.data.Dataset.range, cycle=4)]
    [0, 0, 0, 1, 1, 2]

    Args:
        dataset: a `tf.data.Dataset` of dense tensors.
        function: from an element (a tuple taken apart) to a `tf.data.Dataset`.
        cycle: from how many of these datasets elements come in turn.
        parallel: how many of the cycle are read at a time, an element of each ahead; None reads them in turn, in the
            thread of the consumer. The order of elements is the same.
    """
    import tensorflow as tf

    made_spec: list[Any] = []

    def make(*element: Any) -> Any:
        made = function(*element)
        made_spec[:] = [made.element_spec]
        return tf.data.experimental.to_variant(made)

    traced = trace(make, dataset.element_spec)
    if cycle == 1:
        return dataset_of(tf.raw_ops.FlatMapDataset, dataset, made_spec[0], **traced.arguments())
    turns = {"cycle_length": tf.constant(cycle, tf.int64), "block_length": tf.constant(1, tf.int64)}
    if parallel is None:
        return dataset_of(tf.raw_ops.InterleaveDataset, dataset, made_spec[0], **traced.arguments(), **turns)
    return dataset_of(
        tf.raw_ops.ParallelInterleaveDatasetV4,
        dataset,
        made_spec[0],
        **traced.arguments(),
        **turns,
        num_parallel_calls=tf.constant(parallel, tf.int64),
        buffer_output_elements=tf.constant(1, tf.int64),
        prefetch_input_elements=tf.constant(0, tf.int64),
    )


def scanned(dataset: Any, state: Any, function: Callable[[Any, Any], tuple[Any, Any]]) -> Any:
    """Return what a function makes of each element and a state that it carries on, as `tf.data.Dataset.scan` does.

    >>> import tensorflow as tf
    >>> sums = scanned(tf.data.Dataset.range(4), tf.constant(0, tf.int64), lambda sum, i: (sum + i, sum + i))
    >>> [int(i) for i in sums]
    [0, 1, 3, 6]

    Args:
        dataset: a `tf.data.Dataset` of dense tensors.
        state: tensors before the first element. One without rows may get any number of them; all others keep their
            shapes.
        function: from the state and an element to the next state and a new element.
    """
    import tensorflow as tf

    before = tf.nest.map_structure(tf.convert_to_tensor, state)
    traced = trace(function, (tf.nest.map_structure(growing, before), dataset.element_spec))
    return dataset_of(
        tf.raw_ops.ScanDataset,
        dataset,
        traced.spec[1],
        **traced.arguments(),
        initial_state=tf.nest.flatten(before),
        preserve_cardinality=True,
    )
