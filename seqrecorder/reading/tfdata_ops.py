"""Stages of `tf.data` pipelines that have no method of `tf.data.Dataset`, or one that takes much longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


_KEPT = 64
_once: dict[Hashable, Any] = {}


def made_once(key: Hashable, taken: Any, make: Callable[[], Any]) -> Any:
    """Trace a function, once for all pipelines of this process where it has a key.

    Args:
        key: of all that the function is made of: it captures no tensor. None traces it anew.
        taken: the structure, shapes and dtypes of elements.
        make: traces it.
    """
    import tensorflow as tf

    if key is None or not tf.executing_eagerly():  # of a graph, which may come to its end before the process does
        return make()
    key = key, *tf.nest.flatten(taken)
    if key not in _once:
        if len(_once) == _KEPT:
            _once.clear()
        _once[key] = make()
    return _once[key]


@attrs.frozen(eq=False)
class Traced:
    """A function of elements, traced for operations on datasets.

    Attributes:
        function: from flat tensors to flat tensors.
        spec: structure, shapes and dtypes of what it makes.
    """

    function: Any
    spec: Any

    @classmethod
    def of(cls, function: Callable[..., Any], taken: Any, *, dense: bool = False) -> Traced:
        """Return a function, traced.

        Args:
            function: of an element; a tuple is taken apart.
            taken: the structure, shapes and dtypes of elements: dense tensors.
            dense: whether it is certain to make dense tensors.
        """
        import tensorflow as tf

        spec: list[Any] = []

        def flat(*tensors: Any) -> list[Any]:
            element = tf.nest.pack_sequence_as(taken, tensors)
            result = function(*element) if isinstance(element, tuple) else function(element)
            result = tf.nest.map_structure(_tensor_of, result)
            spec[:] = [tf.nest.map_structure(tf.type_spec_from_value, result)]
            flattened: list[Any] = tf.nest.flatten(result)
            # What is asserted of values that are dropped is to be found true, too.
            checks = [each for each in tf.compat.v1.get_default_graph().get_operations() if each.type == "Assert"]
            with tf.control_dependencies(checks):
                return [tf.identity(flattened[0]), *flattened[1:]] if checks else flattened

        # For a function on one CPU the attribute only says that it is not divided among devices. Then it is run as it
        # was traced, and neither placed nor rewritten first, which takes long whenever an iterator is made. Nor does
        # TensorFlow look for effects to put in order, a tenth of the time, but where another function may call it.
        attributes = {"_disable_acd": True} if dense else {}
        attributes["experimental_ints_on_device"] = tf.compat.v1.executing_eagerly_outside_functions()  # no session
        traced = tf.function(
            flat, input_signature=tf.nest.flatten(taken), autograph=False, experimental_attributes=attributes
        ).get_concrete_function()
        return cls(traced, spec[0])

    @property
    def is_dense(self) -> bool:
        """Check whether it makes dense tensors alone."""
        import tensorflow as tf

        return all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(self.spec))

    def mapped(self, dataset: Any, *, parallel: int | None = None) -> Any:
        """Map the function over a dataset of the elements that it was traced for (see `mapped`)."""
        import tensorflow as tf

        if not self.is_dense:
            # How others are packed into an element is TensorFlow's secret.
            return dataset.map(lambda *element: self._called(element), num_parallel_calls=parallel)
        # A call that waits for functions of its own could keep the thread that these need.
        nodes = self.function.function_def.node_def
        calls = any(attr.HasField("func") for node in nodes for attr in node.attr.values())
        options: dict[str, Any] = {"use_inter_op_parallelism": calls, "preserve_cardinality": True}
        if parallel is None:
            return self.applied(tf.raw_ops.MapDataset, dataset, self.spec, **options)
        options["num_parallel_calls"] = tf.constant(parallel, tf.int64)
        return self.applied(tf.raw_ops.ParallelMapDatasetV2, dataset, self.spec, **options)

    def _called(self, element: Any) -> Any:
        import tensorflow as tf

        return tf.nest.pack_sequence_as(self.spec, self.function(*tf.nest.flatten(element)))

    def reduced(self, dataset: Any, state: Any) -> Any:
        """Reduce a dataset to a scalar, as `tf.data.Dataset.reduce` does."""
        import tensorflow as tf

        return tf.raw_ops.ReduceDataset(
            input_dataset=tf.data.experimental.to_variant(dataset),
            initial_state=[state],
            f=self.function,
            other_arguments=list(self.function.captured_inputs),
            output_types=[state.dtype],
            output_shapes=[state.shape],
            use_inter_op_parallelism=False,
        )[0]

    def applied(
        self, operation: Callable[..., Any], dataset: Any, spec: Any, *, name: str = "f", **options: Any
    ) -> Any:
        """Apply an operation of `tf.raw_ops` that takes a dataset and the function.

        Args:
            operation: gives an element for each.
            dataset: its input.
            spec: structure, shapes and dtypes of what it makes: dense tensors.
            name: by which the operation takes the function.
            options: its other arguments.
        """
        options[name] = self.function
        return staged(
            operation, spec, input_dataset=dataset, other_arguments=list(self.function.captured_inputs), **options
        )


def _tensor_of(value: Any) -> Any:
    """Return a tensor; ragged and sparse ones as they are."""
    import tensorflow as tf

    return value if isinstance(value, tf.RaggedTensor | tf.SparseTensor) else tf.convert_to_tensor(value)


_ZEROS = 1 << 12


def undealt() -> Any:
    """Return a `tf.data.Dataset` of int64 without end, of which each worker of tf.data's service has all."""
    import tensorflow as tf

    return staged(tf.raw_ops.RandomDataset, tf.TensorSpec([], tf.int64), seed=0, seed2=1)


def _zeros(_: Any) -> Any:
    import tensorflow as tf

    return tf.zeros([_ZEROS], tf.int64)


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
    scalar = tf.TensorSpec([], tf.int64)
    zeros = made_once("zeros", scalar, lambda: Traced.of(_zeros, scalar, dense=True)).mapped(undealt())
    turns = staged(tf.raw_ops.UnbatchDataset, scalar, input_dataset=zeros)
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
        values = tf.zeros([0, *(size or 0 for size in spec.shape[spec.ragged_rank + 1 :])], spec.dtype)
        for _ in range(spec.ragged_rank):
            values = tf.RaggedTensor.from_row_splits(values, tf.zeros([1], spec.row_splits_dtype))
        return values
    return tf.zeros([size or 0 for size in spec.shape], spec.dtype)


def staged(operation: Callable[..., Any], spec: Any, **inputs: Any) -> Any:
    """Return the dataset that an operation of `tf.raw_ops` makes.

    Args:
        operation: makes a dataset.
        spec: structure, shapes and dtypes of its elements: dense tensors.
        inputs: its arguments; datasets are taken as they are.
    """
    import tensorflow as tf

    parts = tf.nest.flatten(spec)
    for name, value in inputs.items():
        if isinstance(value, tf.data.Dataset):
            inputs[name] = tf.data.experimental.to_variant(value)
    variant = operation(
        **inputs, output_types=[part.dtype for part in parts], output_shapes=[part.shape for part in parts]
    )
    return tf.data.experimental.from_variant(variant, spec)


def one_element(element: Any) -> Any:
    """Make a dataset of one element of dense tensors, as `tf.data.Dataset.from_tensors` does."""
    import tensorflow as tf

    parts = tf.nest.flatten(element)
    variant = tf.raw_ops.TensorDataset(components=parts, output_shapes=[part.shape for part in parts])
    return tf.data.experimental.from_variant(variant, tf.nest.map_structure(tf.type_spec_from_value, element))


def beside(first: Any, second: Any, spec: Any) -> Any:
    """Return the elements of two datasets side by side, as `tf.data.Dataset.zip` does, in a structure of their own."""
    import tensorflow as tf

    return staged(
        tf.raw_ops.ZipDataset, spec, input_datasets=[tf.data.experimental.to_variant(each) for each in (first, second)]
    )


def rebatched(dataset: Any, sizes: Any, *, drop_remainder: bool = False) -> Any:
    """Cut batches of dense tensors anew, as `tf.data.Dataset.rebatch` does, without the function that it traces.

    >>> import tensorflow as tf
    >>> [part.numpy().tolist() for part in rebatched(tf.data.Dataset.range(3).batch(3), 2)]
    [[0, 1], [2]]

    Args:
        dataset: a `tf.data.Dataset` of tensors that have rows.
        sizes: rows of an element; or int64 `(n,)`, of the first, the second and so on.
        drop_remainder: leave out a last one of fewer rows.
    """
    import tensorflow as tf

    rows = sizes if drop_remainder and isinstance(sizes, int) else None
    spec = tf.nest.map_structure(lambda part: tf.TensorSpec([rows, *part.shape[1:]], part.dtype), dataset.element_spec)
    sizes = tf.constant([sizes], tf.int64) if isinstance(sizes, int) else sizes
    return staged(
        tf.raw_ops.RebatchDatasetV2, spec, input_dataset=dataset, batch_sizes=sizes, drop_remainder=drop_remainder
    )


def mapped(dataset: Any, function: Callable[..., Any], *, parallel: int | None = None) -> Any:
    """Map a function over a dataset, as `tf.data.Dataset.map` does.

    That one optimises the function anew for each iterator, and hands the operations of a call to other threads, which
    takes as long as to parse a batch of small records.

    >>> import tensorflow as tf
    >>> [int(i) for i in mapped(tf.data.Dataset.range(3), lambda i: i * i)]
    [0, 1, 4]

    Args:
        dataset: a `tf.data.Dataset` of dense tensors.
        function: from an element (a tuple taken apart) to another.
        parallel: how many calls run at a time, each in one thread; None calls it in turn, in the consumer's thread.
    """
    return Traced.of(function, dataset.element_spec, dense=True).mapped(dataset, parallel=parallel)


def flat_mapped(dataset: Any, function: Callable[..., Any], *, key: Hashable = None) -> Any:
    """Return the elements of the datasets that a function makes of each element, as `tf.data.Dataset.flat_map` does.

    >>> import tensorflow as tf
    >>> [int(i) for i in flat_mapped(tf.data.Dataset.range(3), tf.data.Dataset.range)]
    [0, 0, 1]

    Args:
        dataset: a `tf.data.Dataset` of dense tensors.
        function: from an element (a tuple taken apart) to a `tf.data.Dataset` of dense tensors.
        key: of all that the function is made of, where it captures no tensor: it is traced once for each in a process.
    """
    import tensorflow as tf

    taken = dataset.element_spec
    traced, spec = made_once(key, taken, lambda: _traced_datasets(function, taken))
    return traced.applied(tf.raw_ops.FlatMapDataset, dataset, spec)


def interleaved(dataset: Any, function: Callable[..., Any], *, cycle: int, parallel: int) -> Any:
    """Interleave datasets, as `tf.data.Dataset.interleave` does, one element of each ahead.

    That one would choose how many elements to hold; here these are windows, of which as few as can be are in memory.

    >>> import tensorflow as tf
    >>> [int(i) for i in interleaved(tf.data.Dataset.range(4), tf.data.Dataset.range, cycle=4, parallel=2)]
    [0, 0, 0, 1, 1, 2]

    Args:
        dataset: as for `flat_mapped`.
        function: as for `flat_mapped`.
        cycle: from how many of the datasets elements come in turn.
        parallel: how many of these are read at a time. The order is the same.
    """
    import tensorflow as tf

    traced, spec = _traced_datasets(function, dataset.element_spec)
    return traced.applied(
        tf.raw_ops.ParallelInterleaveDatasetV4,
        dataset,
        spec,
        cycle_length=tf.constant(cycle, tf.int64),
        block_length=tf.constant(1, tf.int64),
        buffer_output_elements=tf.constant(1, tf.int64),
        prefetch_input_elements=tf.constant(0, tf.int64),
        num_parallel_calls=tf.constant(parallel, tf.int64),
    )


def _traced_datasets(function: Callable[..., Any], taken: Any) -> tuple[Traced, Any]:
    """Return a function to datasets, traced, and the structure, shapes and dtypes of their elements."""
    import tensorflow as tf

    spec: list[Any] = []

    def make(*element: Any) -> Any:
        dataset = function(*element)
        spec[:] = [dataset.element_spec]
        return tf.data.experimental.to_variant(dataset)

    return Traced.of(make, taken, dense=True), spec[0]


def scanned(dataset: Any, state: Any, function: Callable[[Any, Any], tuple[Any, Any]], *, key: Hashable = None) -> Any:
    """Scan a dataset with a state that is carried on, as `tf.data.Dataset.scan` does.

    That one finds the shapes of the state by tracing the function again and again.

    >>> import tensorflow as tf
    >>> sums = scanned(tf.data.Dataset.range(4), tf.constant(0, tf.int64), lambda sum, i: (sum + i, sum + i))
    >>> [int(i) for i in sums]
    [0, 1, 3, 6]

    Args:
        dataset: a `tf.data.Dataset` of dense tensors.
        state: tensors before the first element. One without rows may get any number of them; all others keep their
            shapes.
        function: from the state and an element to the next state and a new element of dense tensors.
        key: as for `flat_mapped`.
    """
    import tensorflow as tf

    before = tf.nest.map_structure(tf.convert_to_tensor, state)
    taken = (tf.nest.map_structure(_growing, before), dataset.element_spec)
    traced = made_once(key, taken, lambda: Traced.of(function, taken, dense=True))
    return traced.applied(
        tf.raw_ops.ScanDataset,
        dataset,
        traced.spec[1],
        initial_state=tf.nest.flatten(before),
        preserve_cardinality=True,
    )


def _growing(tensor: Any) -> Any:
    """Return the static shape and dtype of a tensor of a state."""
    import tensorflow as tf

    shape = tensor.shape.as_list()
    return tf.TensorSpec([None, *shape[1:]] if shape[:1] == [0] else shape, tensor.dtype)
