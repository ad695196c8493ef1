"""Stages of `tf.data` pipelines that `tf.data.Dataset` lacks, or has only in a much slower form.

They are independent of records and files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


_KEPT = 64  # maximum number of traces in memory; once it is reached, all are dropped
_once: dict[Hashable, Any] = {}


def made_once(key: Hashable, taken: Any, make: Callable[[], Any]) -> Any:
    """Trace a function, or reuse the trace from another pipeline of this process.

    Args:
        key: values that determine the function, which must not capture tensors; None always traces it anew.
        taken: structure, shapes and dtypes of the elements.
        make: function that traces the function and returns the trace.
    """
    import tensorflow as tf

    if key is None or not tf.executing_eagerly():  # a trace is tied to its graph, which may be dropped
        return make()
    key = key, *tf.nest.flatten(taken)
    if key not in _once:
        if len(_once) == _KEPT:
            _once.clear()
        _once[key] = make()
    return _once[key]


@attrs.frozen(eq=False)
class Traced:
    """Traced function that takes an element of a dataset, and can be applied to whole datasets.

    Attributes:
        function: concrete function that takes and returns flat tensors.
        spec: structure, shapes and dtypes of its results.
    """

    function: Any
    spec: Any

    @classmethod
    def of(cls, function: Callable[..., Any], taken: Any, *, dense: bool = False) -> Traced:
        """Trace a function.

        Args:
            function: function that takes an element; tuples are unpacked.
            taken: structure, shapes and dtypes of the elements, which are dense tensors.
            dense: whether the results are certain to be dense tensors.
        """
        import tensorflow as tf

        spec: list[Any] = []

        def flat(*tensors: Any) -> list[Any]:
            element = tf.nest.pack_sequence_as(taken, tensors)
            result = function(*element) if isinstance(element, tuple) else function(element)
            result = tf.nest.map_structure(_tensor_of, result)
            spec[:] = [tf.nest.map_structure(tf.type_spec_from_value, result)]
            flattened: list[Any] = tf.nest.flatten(result)
            # Assertions on unused values must run as well.
            checks = [each for each in tf.compat.v1.get_default_graph().get_operations() if each.type == "Assert"]
            with tf.control_dependencies(checks):
                return [tf.identity(flattened[0]), *flattened[1:]] if checks else flattened

        # On a single CPU, `experimental_ints_on_device` has one effect: TensorFlow runs the function as traced, instead
        # of placing and rewriting it for each new iterator, which is slow. `_disable_acd` skips the search for side
        # effects to order, a tenth of the tracing time; it is set only if no other function may call this one.
        attributes = {"_disable_acd": True} if dense else {}
        attributes["experimental_ints_on_device"] = tf.compat.v1.executing_eagerly_outside_functions()  # no session
        traced = tf.function(
            flat, input_signature=tf.nest.flatten(taken), autograph=False, experimental_attributes=attributes
        ).get_concrete_function()
        return cls(traced, spec[0])

    @property
    def is_dense(self) -> bool:
        """Check whether all results are dense tensors."""
        import tensorflow as tf

        return all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(self.spec))

    def mapped(self, dataset: Any, *, parallel: int | None = None) -> Any:
        """Map the function over a dataset (see `mapped`)."""
        import tensorflow as tf

        if not self.is_dense:
            # TensorFlow has no public flat form of ragged and sparse elements.
            return dataset.map(lambda *element: self._called(element), num_parallel_calls=parallel)
        # A call that waits for inner functions could block the thread that they need.
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
        """Reduce a dataset to a scalar, like `tf.data.Dataset.reduce`."""
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
        """Apply an operation of `tf.raw_ops` to a dataset.

        The operation takes a function as an argument, and gets this one.

        Args:
            operation: operation that takes a dataset and a function.
            dataset: input of the operation.
            spec: structure, shapes and dtypes of the results, which are dense tensors.
            name: name of the operation's argument for the function.
            options: other arguments of the operation.
        """
        options[name] = self.function
        return staged(
            operation, spec, input_dataset=dataset, other_arguments=list(self.function.captured_inputs), **options
        )


def _tensor_of(value: Any) -> Any:
    """Convert a value to a tensor.

    Ragged and sparse tensors are returned unchanged.
    """
    import tensorflow as tf

    return value if isinstance(value, tf.RaggedTensor | tf.SparseTensor) else tf.convert_to_tensor(value)


def undealt() -> Any:
    """Build an endless `tf.data.Dataset` of int64 that the tf.data service does not shard among workers."""
    import tensorflow as tf

    return staged(tf.raw_ops.RandomDataset, tf.TensorSpec([], tf.int64), seed=0, seed2=1)


def staged(operation: Callable[..., Any], spec: Any, **inputs: Any) -> Any:
    """Create a dataset with an operation of `tf.raw_ops`.

    Args:
        operation: operation that returns a dataset.
        spec: structure, shapes and dtypes of the elements, which are dense tensors.
        inputs: arguments of the operation; datasets are converted to variants.
    """
    import tensorflow as tf

    parts = tf.nest.flatten(spec)
    for name, value in inputs.items():
        if isinstance(value, tf.data.Dataset):
            inputs[name] = tf.data.experimental.to_variant(value)
    types, shapes = [part.dtype for part in parts], [part.shape for part in parts]
    variant = operation(**inputs, output_types=types, output_shapes=shapes)
    return tf.data.experimental.from_variant(variant, spec)


def one_element(element: Any) -> Any:
    """Create a dataset with a single element of dense tensors, like `tf.data.Dataset.from_tensors`."""
    import tensorflow as tf

    parts = tf.nest.flatten(element)
    variant = tf.raw_ops.TensorDataset(components=parts, output_shapes=[part.shape for part in parts])
    return tf.data.experimental.from_variant(variant, tf.nest.map_structure(tf.type_spec_from_value, element))


def beside(first: Any, second: Any, spec: Any) -> Any:
    """Zip two datasets, like `tf.data.Dataset.zip`, into elements with the structure of `spec`."""
    import tensorflow as tf

    return staged(
        tf.raw_ops.ZipDataset, spec, input_datasets=[tf.data.experimental.to_variant(each) for each in (first, second)]
    )


def rebatched(dataset: Any, sizes: Any, *, drop_remainder: bool = False) -> Any:
    """Change the number of rows per element, like `tf.data.Dataset.rebatch`, but without tracing a function.

    >>> import tensorflow as tf
    >>> [part.numpy().tolist() for part in rebatched(tf.data.Dataset.range(3).batch(3), 2)]
    [[0, 1], [2]]

    Args:
        dataset: `tf.data.Dataset` of tensors with rows.
        sizes: rows per element; or int64 `(n,)`, rows of each consecutive element.
        drop_remainder: whether to drop the last element if it has fewer rows.
    """
    import tensorflow as tf

    rows = sizes if drop_remainder and isinstance(sizes, int) else None
    spec = tf.nest.map_structure(lambda part: tf.TensorSpec([rows, *part.shape[1:]], part.dtype), dataset.element_spec)
    sizes = tf.constant([sizes], tf.int64) if isinstance(sizes, int) else sizes
    return staged(
        tf.raw_ops.RebatchDatasetV2, spec, input_dataset=dataset, batch_sizes=sizes, drop_remainder=drop_remainder
    )


def mapped(dataset: Any, function: Callable[..., Any], *, parallel: int | None = None) -> Any:
    """Map a function over a dataset, like `tf.data.Dataset.map`, but faster.

    `tf.data.Dataset.map` optimizes the function again for each iterator. It also hands the operations of a call to
    other threads, which takes as long as parsing a batch of small records.

    >>> import tensorflow as tf
    >>> [int(i) for i in mapped(tf.data.Dataset.range(3), lambda i: i * i)]
    [0, 1, 4]

    Args:
        dataset: `tf.data.Dataset` of dense tensors.
        function: function that converts an element (tuples are unpacked) to another.
        parallel: number of concurrent calls, each in one thread; None calls the function in the consumer's thread.
    """
    return Traced.of(function, dataset.element_spec, dense=True).mapped(dataset, parallel=parallel)


def flat_mapped(dataset: Any, function: Callable[..., Any], *, key: Hashable = None) -> Any:
    """Map each element to a dataset, and concatenate these datasets, like `tf.data.Dataset.flat_map`.

    >>> import tensorflow as tf
    >>> [int(i) for i in flat_mapped(tf.data.Dataset.range(3), tf.data.Dataset.range)]
    [0, 0, 1]

    Args:
        dataset: `tf.data.Dataset` of dense tensors.
        function: function that returns a `tf.data.Dataset` of dense tensors for an element (tuples are unpacked).
        key: values that determine the function, if it captures no tensors: it is traced once per process and key. None
            always traces it anew.
    """
    import tensorflow as tf

    taken = dataset.element_spec
    traced, spec = made_once(key, taken, lambda: _traced_datasets(function, taken))
    return traced.applied(tf.raw_ops.FlatMapDataset, dataset, spec)


def interleaved(dataset: Any, function: Callable[..., Any], *, cycle: Any, parallel: int | None) -> Any:
    """Map elements to datasets and interleave these, like `tf.data.Dataset.interleave`, reading one element ahead.

    `tf.data.Dataset.interleave` would choose the number of buffered elements itself. Elements are whole windows of
    records here, so as few as possible should be in memory.

    >>> import tensorflow as tf
    >>> [int(i) for i in interleaved(tf.data.Dataset.range(4), tf.data.Dataset.range, cycle=4, parallel=2)]
    [0, 0, 0, 1, 1, 2]

    Args:
        dataset: `tf.data.Dataset` of dense tensors.
        function: function that returns a `tf.data.Dataset` of dense tensors for an element (tuples are unpacked).
        cycle: number of datasets that take turns.
        parallel: maximum number of these datasets to read in parallel, each an element ahead; it does not change the
            order. None reads one element at a time.
    """
    import tensorflow as tf

    traced, spec = _traced_datasets(function, dataset.element_spec)
    one, cycle = tf.constant(1, tf.int64), tf.cast(cycle, tf.int64)
    if parallel is None:
        return traced.applied(tf.raw_ops.InterleaveDataset, dataset, spec, cycle_length=cycle, block_length=one)
    return traced.applied(
        tf.raw_ops.ParallelInterleaveDatasetV4,
        dataset,
        spec,
        cycle_length=cycle,
        block_length=one,
        buffer_output_elements=one,
        prefetch_input_elements=tf.constant(0, tf.int64),
        num_parallel_calls=tf.minimum(cycle, parallel),
    )


def _traced_datasets(function: Callable[..., Any], taken: Any) -> tuple[Traced, Any]:
    """Trace a function that returns datasets.

    The result is the trace, and the spec of the elements of the datasets.
    """
    import tensorflow as tf

    spec: list[Any] = []

    def make(*element: Any) -> Any:
        dataset = function(*element)
        spec[:] = [dataset.element_spec]
        return tf.data.experimental.to_variant(dataset)

    return Traced.of(make, taken, dense=True), spec[0]


def scanned(dataset: Any, state: Any, function: Callable[[Any, Any], tuple[Any, Any]], *, key: Hashable = None) -> Any:
    """Scan a dataset with a state, like `tf.data.Dataset.scan`.

    `tf.data.Dataset.scan` would trace the function repeatedly to find the shapes of the state.

    >>> import tensorflow as tf
    >>> sums = scanned(tf.data.Dataset.range(4), tf.constant(0, tf.int64), lambda sum, i: (sum + i, sum + i))
    >>> [int(i) for i in sums]
    [0, 1, 3, 6]

    Args:
        dataset: `tf.data.Dataset` of dense tensors.
        state: tensors of the initial state. A tensor with 0 rows may grow; all others keep their shapes.
        function: function that takes the state and an element, and returns the next state and a new element of dense
            tensors.
        key: values that determine the function, if it captures no tensors; None always traces it anew.
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
    """Build the spec of a state tensor.

    If the tensor is empty now, its number of rows is unknown.
    """
    import tensorflow as tf

    shape = tensor.shape.as_list()
    return tf.TensorSpec([None, *shape[1:]] if shape[:1] == [0] else shape, tensor.dtype)
