"""Code generation: the operations that parse Examples and SequenceExamples, and the specs of their features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.legacy.convert.text import NotPrintableError, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


PARSERS = ("ParseExampleV2", "ParseSequenceExampleV2")


@attrs.frozen(eq=False)
class Parse:
    """Features that a parse operation reads.

    Attributes:
        features: mapping from feature names to printed specs, for the Example or the context.
        steps: mapping from feature names to printed specs, for the feature lists.
        outputs: for each output: the tensor, the feature name, the component (`indices`, `values`, `dense_shape`, or
            None if dense), and whether the feature is a feature list.
    """

    features: dict[str, str]
    steps: dict[str, str]
    outputs: list[tuple[Any, str, str | None, bool]]


def print_parse(body: Any, op: Any) -> dict[str, str]:
    """Print a parse operation into a `Body`, and return an expression for each output tensor."""
    parse = read_parse(op)
    serialized = body.value(op.inputs[0])
    if op.type == PARSERS[0]:
        function = "parse_single_example" if op.inputs[0].shape.rank == 0 else "parse_example"
        constant = body.module.features("FEATURES", parse.features)
        marks = body.assign(["features"], f"tf.io.{function}({serialized}, {constant})") * 2
    else:
        single = op.inputs[0].shape.rank == 0
        names = ["context" if parse.features else "_", "steps" if parse.steps else "_", *["_"] * (not single)]
        shown = [serialized]
        if parse.features:
            shown.append(body.module.features("CONTEXT", parse.features))
        if parse.steps:
            steps = body.module.features("STEPS", parse.steps)
            shown.append(steps if parse.features else f"sequence_features={steps}")
        function = "parse_single_sequence_example" if single else "parse_sequence_example"
        marks = body.assign(names, f"tf.io.{function}({', '.join(shown)})")
    return {
        tensor.name: f"{marks[in_steps]}[{plain(name)}]" + (f".{part}" if part else "")
        for tensor, name, part, in_steps in parse.outputs
    }


def read_parse(op: Any) -> Parse:
    """Read the features of a parse operation from its attributes and constants."""
    import tensorflow as tf

    outputs = group_tensors(op, op.op_def.output_arg, op.outputs)
    inputs = group_tensors(op, op.op_def.input_arg, op.inputs)
    parse = Parse({}, {}, [])
    for prefix in ("",) if op.type == PARSERS[0] else ("context_", "feature_list_"):
        if _texts(inputs[f"{prefix}ragged_keys"]):
            raise NotPrintableError(f"ragged features of {op.name!r}")
        in_steps = prefix == "feature_list_"
        features = parse.steps if in_steps else parse.features
        sparse = [outputs[f"{prefix}sparse_{part}"] for part in ("indices", "values", "shapes")]
        for name, *tensors in zip(_texts(inputs[f"{prefix}sparse_keys"]), *sparse, strict=True):
            features[name] = f"tf.io.VarLenFeature(tf.{tensors[1].dtype.name})"
            components = zip(tensors, ("indices", "values", "dense_shape"), strict=True)
            parse.outputs.extend((tensor, name, part, in_steps) for tensor, part in components)
        names, dense = _texts(inputs[f"{prefix}dense_keys"]), outputs[f"{prefix}dense_values"]
        defaults = inputs.get(f"{prefix}dense_defaults")
        if defaults is None:
            defaults = tf.get_static_value(inputs[f"{prefix}dense_missing_assumed_empty"][0]).tolist()
        shapes = op.get_attr(f"{prefix}dense_shapes")
        for name, tensor, shape, default in zip(names, dense, shapes, defaults, strict=True):
            features[name] = _dense(tensor, shape, default)
            parse.outputs.append((tensor, name, None, in_steps))
    return parse


def flat_shapes(op: Any) -> dict[str, list[int | None]]:
    """Map the names of dense features to their declared shapes, if an inferred schema lacks them.

    It lacks shapes with several dimensions, and the shape `[1]`.
    """
    import tensorflow as tf

    inputs, known = group_tensors(op, op.op_def.input_arg, op.inputs), dict[str, list[int | None]]()
    for prefix in ("",) if op.type == PARSERS[0] else ("context_", "feature_list_"):
        shapes = [tf.TensorShape(shape).as_list() for shape in op.get_attr(f"{prefix}dense_shapes")]
        known |= dict(zip(_texts(inputs[f"{prefix}dense_keys"]), shapes, strict=True))
    return {name: shape for name, shape in known.items() if len(shape) > 1 or shape == [1]}


def group_tensors(op: Any, arguments: Iterable[Any], tensors: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Group the input or output tensors of an operation by the argument names of its definition."""
    groups, position = {}, 0
    for argument in arguments:
        several = argument.number_attr or argument.type_list_attr
        known: Any = op.get_attr(several) if several else 1
        count = len(known) if argument.type_list_attr else known
        groups[argument.name] = tensors[position : position + count]
        position += count
    return groups


def _texts(tensors: Sequence[Any]) -> list[str]:
    """Decode the strings of constant tensors, which are scalars or vectors."""
    import numpy as np
    import tensorflow as tf

    return [text.decode() for tensor in tensors for text in np.ravel(tf.get_static_value(tensor)).tolist()]


def _dense(tensor: Any, shape: Any, default: Any) -> str:
    """Print the spec of a dense feature.

    Args:
        tensor: the parsed feature.
        shape: its shape in one record.
        default: the tensor with its default value; for a feature list, whether records may lack it.
    """
    import numpy as np
    import tensorflow as tf

    kind, sizes = f"tf.{tensor.dtype.name}", tf.TensorShape(shape).as_list()
    if isinstance(default, bool):
        return f"tf.io.FixedLenSequenceFeature({sizes}, {kind}{', allow_missing=True' * default})"
    known = tf.get_static_value(default.op.inputs[0] if default.op.type == "Reshape" else default)
    if sizes[:1] == [None]:
        padding = f", default_value={plain(np.ravel(known)[0])}" if np.any(known) else ""
        return f"tf.io.FixedLenSequenceFeature({sizes[1:]}, {kind}, allow_missing=True{padding})"
    shown = "" if known is None or not np.size(known) else f", {plain(np.reshape(known, sizes))}"
    return f"tf.io.FixedLenFeature({sizes}, {kind}{shown})"
