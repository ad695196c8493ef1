"""The operations that parse Examples and SequenceExamples: their features, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.legacy.convert.text import NotPrintableError, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


PARSERS = (
    "ParseSingleExample",
    "ParseExample",
    "ParseExampleV2",
    "ParseSingleSequenceExample",
    "ParseSequenceExampleV2",
)
_FLAT = PARSERS[:3]


@attrs.frozen(eq=False)
class Parse:
    """The features that a parse operation reads.

    Attributes:
        op: the operation.
        features: of the Example, or of the context: the text of each by its name.
        steps: of the feature lists.
        outputs: for each tensor that is used, the feature and what of it: None, `indices`, `values`, `dense_shape`.
    """

    op: Any
    features: dict[str, str]
    steps: dict[str, str]
    outputs: list[tuple[Any, str, str | None, bool]]


def parsed(body: Any, op: Any) -> dict[str, str]:
    """Print a parse operation into a `Body`; return an expression for each of its tensors."""
    parse = read_parse(op)
    serialized = body.value(op.inputs[0])
    if op.type in _FLAT:
        function = "parse_single_example" if op.inputs[0].shape.rank == 0 else "parse_example"
        constant = body.module.features("FEATURES", parse.features)
        [mark] = body.assign(["features"], f"tf.io.{function}({serialized}, {constant})")
        marks = [mark, mark]
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
    outputs = _groups(op, op.op_def.output_arg, op.outputs)
    inputs = _groups(op, op.op_def.input_arg, op.inputs)
    parse = Parse(op, {}, {}, [])
    if op.type in _FLAT:
        keys = {}
        for kind in ("sparse", "dense"):
            by_attribute = op.type == "ParseSingleExample"
            keys[kind] = (
                [k.decode() for k in op.get_attr(f"{kind}_keys")] if by_attribute else _texts(inputs[f"{kind}_keys"])
            )
        if inputs.get("ragged_keys") and _texts(inputs["ragged_keys"]):
            raise NotPrintableError(f"ragged features of {op.name!r}")
        _add_sparse(parse, keys["sparse"], outputs, "sparse", in_steps=False)
        defaults = inputs["dense_defaults"]
        shapes = op.get_attr("dense_shapes")
        for name, tensor, shape, default in zip(keys["dense"], outputs["dense_values"], shapes, defaults, strict=True):
            parse.features[name] = _dense(tensor, shape, default)
            parse.outputs.append((tensor, name, None, False))
        return parse
    if any(
        inputs.get(f"{part}_ragged_keys") and _texts(inputs[f"{part}_ragged_keys"])
        for part in ("context", "feature_list")
    ):
        raise NotPrintableError(f"ragged features of {op.name!r}")
    for part, in_steps in (("context", False), ("feature_list", True)):
        _add_sparse(parse, _texts(inputs[f"{part}_sparse_keys"]), outputs, f"{part}_sparse", in_steps=in_steps)
        defaults = inputs["context_dense_defaults"] if part == "context" else ()
        shapes = op.get_attr(f"{part}_dense_shapes")
        names = _texts(inputs[f"{part}_dense_keys"])
        for i, (name, tensor) in enumerate(zip(names, outputs[f"{part}_dense_values"], strict=True)):
            if in_steps:
                parse.steps[name] = f"tf.io.FixedLenSequenceFeature({_dimensions(shapes[i])}, tf.{tensor.dtype.name})"
            else:
                parse.features[name] = _dense(tensor, shapes[i], defaults[i])
            parse.outputs.append((tensor, name, None, in_steps))
    return parse


def _groups(op: Any, arguments: Iterable[Any], tensors: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Sort tensors by the arguments of an operation's definition."""
    groups, position = {}, 0
    for argument in arguments:
        several = argument.number_attr or argument.type_list_attr
        count = 1
        if several:
            count = op.get_attr(several) if argument.number_attr else len(op.get_attr(several))
        groups[argument.name] = tensors[position : position + count]
        position += count
    return groups


def _texts(tensors: Sequence[Any]) -> list[str]:
    """Return the texts of constants, scalars or vectors."""
    import numpy as np
    import tensorflow as tf

    return [text.decode() for tensor in tensors for text in np.ravel(tf.get_static_value(tensor)).tolist()]


def _add_sparse(parse: Parse, names: Sequence[str], outputs: Any, prefix: str, *, in_steps: bool) -> None:
    parts = [outputs[f"{prefix}_{part}"] for part in ("indices", "values", "shapes")]
    for name, indices, values, shape in zip(names, *parts, strict=True):
        (parse.steps if in_steps else parse.features)[name] = f"tf.io.VarLenFeature(tf.{values.dtype.name})"
        for tensor, part in ((indices, "indices"), (values, "values"), (shape, "dense_shape")):
            parse.outputs.append((tensor, name, part, in_steps))


def _dense(tensor: Any, shape: Any, default: Any) -> str:
    import numpy as np
    import tensorflow as tf

    kind, sizes = f"tf.{tensor.dtype.name}", tf.TensorShape(shape).as_list()
    if sizes[:1] == [None]:
        return f"tf.io.FixedLenSequenceFeature({sizes[1:]}, {kind}, allow_missing=True)"
    if default.op.type == "Reshape":
        default = default.op.inputs[0]
    known = tf.get_static_value(default)
    if known is None or not np.size(known):
        return f"tf.io.FixedLenFeature({sizes}, {kind})"
    return f"tf.io.FixedLenFeature({sizes}, {kind}, {plain(np.reshape(known, sizes))})"


def _dimensions(shape: Any) -> str:
    import tensorflow as tf

    return repr(tf.TensorShape(shape).as_list())
