"""Functions of elements, traced for operations on datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_KEPT = 64
_once: dict[Hashable, Any] = {}


def made_once(key: Hashable, taken: Any, make: Callable[[], Any]) -> Any:
    """Return what is traced of a function, for all pipelines of this process where it has a key.

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


def traced_once(function: Callable[[Any], Any]) -> Traced:
    """Return a function of an int64 scalar, which captures nothing, traced for all pipelines of this process."""
    import tensorflow as tf

    scalar = tf.TensorSpec([], tf.int64)
    traced: Traced = made_once(function, scalar, lambda: Traced.of(function, scalar, dense=True))
    return traced


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
            made = function(*element) if isinstance(element, tuple) else function(element)
            made = tf.nest.map_structure(_tensor_of, made)
            spec[:] = [tf.nest.map_structure(tf.type_spec_from_value, made)]
            flattened: list[Any] = tf.nest.flatten(made)
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
        """Whether it makes dense tensors alone."""
        import tensorflow as tf

        return all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(self.spec))

    def mapped(self, dataset: Any, *, parallel: int | None = None) -> Any:
        """Return what the function makes of each element of a dataset of what it was traced for (see `mapped`)."""
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
        """Return what is left of a scalar state after all elements of a dataset, as `tf.data.Dataset.reduce` does."""
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
        """Return what an operation of `tf.raw_ops` makes of a dataset with the function.

        Args:
            operation: gives an element for each.
            dataset: its input.
            spec: structure, shapes and dtypes of what it makes: dense tensors.
            name: by which the operation takes the function.
            options: its other arguments.
        """
        import tensorflow as tf

        parts = tf.nest.flatten(spec)
        variant = operation(
            input_dataset=tf.data.experimental.to_variant(dataset),
            **{name: self.function},
            other_arguments=list(self.function.captured_inputs),
            output_types=[part.dtype for part in parts],
            output_shapes=[part.shape for part in parts],
            **options,
        )
        return tf.data.experimental.from_variant(variant, spec)


def _tensor_of(value: Any) -> Any:
    """Return a tensor; ragged and sparse ones as they are."""
    import tensorflow as tf

    return value if isinstance(value, tf.RaggedTensor | tf.SparseTensor) else tf.convert_to_tensor(value)
