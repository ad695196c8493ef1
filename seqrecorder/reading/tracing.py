"""Functions of `tf.data` pipelines, traced so that they start and run fast; and operations that take them.

They are marked `experimental_ints_on_device`, which for a function that runs on one CPU only says that it is not to be
divided among devices: then it is run as it was traced, and neither placed, rewritten nor partitioned first, which took
some 5 ms for each function whenever an iterator was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable


def dataset_of(operation: Callable[..., Any], dataset: Any, spec: Any, **options: Any) -> Any:
    """Return what an operation makes of a dataset.

    Args:
        operation: of `tf.raw_ops`.
        dataset: its input.
        spec: structure, shapes and dtypes of what it makes: dense tensors.
        options: its other arguments.
    """
    import tensorflow as tf

    variant = operation(input_dataset=tf.data.experimental.to_variant(dataset), **output_of(spec), **options)
    return tf.data.experimental.from_variant(variant, spec)


def output_of(spec: Any) -> dict[str, list[Any]]:
    """Return the arguments that tell an operation what it makes."""
    import tensorflow as tf

    parts = tf.nest.flatten(spec)
    return {"output_types": [part.dtype for part in parts], "output_shapes": [part.shape for part in parts]}


@attrs.frozen(eq=False)
class Traced:
    """A traced function, as operations of datasets take it.

    Attributes:
        function: from flat tensors to flat tensors.
        captured: tensors that it uses and is not given.
        spec: structure, shapes and dtypes of what it makes.
        calls: whether it calls functions: conditionals and loops do.
    """

    function: Any
    captured: list[Any]
    spec: Any
    calls: bool

    def arguments(self, name: str = "f", captured: str = "other_arguments", *, inline: bool = False) -> dict[str, Any]:
        """Return what an operation takes of it.

        Args:
            name: by which the operation calls the function.
            captured: by which it calls the tensors that are not given.
            inline: whether the function is run in the thread that needs it. It must be a short one that calls no other
                function, and the operation must be made in a graph (see `in_graph`).
        """
        return {name: self._inline() if inline else self.function, captured: self.captured}

    def _inline(self) -> Any:
        import tensorflow as tf

        # An operation that has no option for it asks the attributes of the function for its executor.
        self.function.add_to_graph(tf.compat.v1.get_default_graph())
        named = tf.compat.v1.NameAttrList(name=self.function.name)
        named.attr["_executor"].s = b"SINGLE_THREADED_EXECUTOR"
        return named


def trace(function: Callable[..., Any], taken: Any) -> Traced:
    """Return a function of elements, traced.

    Args:
        function: of an element; a tuple is taken apart.
        taken: the structure, shapes and dtypes of elements.
    """
    import tensorflow as tf

    spec: list[Any] = []

    def flat(*tensors: Any) -> list[Any]:
        element = tf.nest.pack_sequence_as(taken, tensors)
        made = function(*element) if isinstance(element, tuple) else function(element)
        made = tf.nest.map_structure(tensor_of, made)
        spec[:] = [tf.nest.map_structure(tf.type_spec_from_value, made)]
        flattened: list[Any] = tf.nest.flatten(made)
        return flattened

    traced = tf.function(
        flat,
        input_signature=tf.nest.flatten(taken),
        autograph=False,
        experimental_attributes={"experimental_ints_on_device": True},
    ).get_concrete_function()
    calls = any(attr.HasField("func") for node in traced.function_def.node_def for attr in node.attr.values())
    return Traced(traced, list(traced.captured_inputs), spec[0], calls)


def in_graph(make: Callable[[], Any]) -> Any:
    """Return the tensor that operations make in a graph, which is run at once where no graph is being made."""
    import tensorflow as tf

    return tf.function(make, autograph=False).get_concrete_function()() if tf.executing_eagerly() else make()


def growing(tensor: Any) -> Any:
    """Return the static shape and dtype of a tensor of a state: `tf.data` finds them by tracing twice."""
    import tensorflow as tf

    shape = tensor.shape.as_list()
    return tf.TensorSpec([None, *shape[1:]] if shape[:1] == [0] else shape, tensor.dtype)


def tensor_of(value: Any) -> Any:
    """Return a tensor; ragged and sparse ones as they are."""
    import tensorflow as tf

    return value if isinstance(value, tf.RaggedTensor | tf.SparseTensor) else tf.convert_to_tensor(value)
