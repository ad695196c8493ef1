"""Code generation: the operations between two queues become the body of a Python function."""

from __future__ import annotations

import collections
import inspect
import keyword
import operator
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.legacy.convert.parsing import PARSERS, group_tensors, print_parse
from seqrecorder.legacy.convert.text import NotPrintableError, literal, numbered, plain, unique
from seqrecorder.legacy.convert.trace import identifier, line_of
from seqrecorder.legacy.graph import CONDITIONALS, DEFAULT_SEED, PYTHON, SparseSlot, seeds
from seqrecorder.legacy.subgraph import TABLES, Section, slot_of_take, tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from seqrecorder.legacy.convert.trace import Call

_INFIX = {
    "Sub": "-",
    "Add": "+",
    "AddV2": "+",
    "Mul": "*",
    "RealDiv": "/",
    "FloorDiv": "//",
    "FloorMod": "%",
    "Less": "<",
    "LessEqual": "<=",
    "Greater": ">",
    "GreaterEqual": ">=",
    "Pow": "**",
    "LogicalAnd": "&",
    "LogicalOr": "|",
}
_ELEMENTWISE = ("Maximum", "Minimum", "Equal", "NotEqual")


def _snake_case(kind: str) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", kind).lower()


_SAME_NAME = (
    *("Reshape", "Transpose", "Pad", "Tile", "Fill", "Slice", "Sqrt", "Square", "Range", "Abs", "Floor", "Exp", "Sign"),
    *("Where", "Round", "Sin", "Cos", "Tanh", "Rank", "Sigmoid", "ExpandDims", "LogicalNot", "ZerosLike", "OnesLike"),
    *("BroadcastTo", "GatherNd", "ScatterNd", "Cast", "Squeeze", "Shape", "Size"),
)
_FUNCTIONS = {
    **{kind: _snake_case(kind) for kind in _SAME_NAME},
    **{kind: f"math.{_snake_case(kind)}" for kind in ("Log", "Rsqrt", "Ceil", "InvertPermutation")},
    **{kind: f"reduce_{kind.lower()}" for kind in ("Sum", "Mean", "Prod", "Max", "Min", "All", "Any")},
    **{f"Decode{kind}": f"io.decode_{kind.lower()}" for kind in ("Raw", "Jpeg", "Png", "Bmp", "Gif")},
    **{f"String{kind}": f"strings.{kind.lower()}" for kind in ("Length", "Lower", "Strip", "Join")},
    "AsString": "strings.as_string",
    "ConcatV2": "concat",
    "LinSpace": "linspace",
    "MirrorPad": "pad",
    "Neg": "negative",
    "Pack": "stack",
    "ReadFile": "io.read_file",
    "ReverseV2": "reverse",
    "SelectV2": "where",
    "StringToNumber": "strings.to_number",
    "Unpack": "unstack",
}
"""TensorFlow 2 functions by operation type, with the same inputs in the same order, and the same attributes."""
_RENAMED = {"keep_dims": "keepdims", "squeeze_dims": "axis"}
"""Mapping from attributes of operations to the different names that functions use for them."""
_PASSES = ("Identity", "StopGradient", "Snapshot", "PreventGradient", "CheckNumerics")
_CONTROL = ("If", "StatelessIf", "While", "StatelessWhile", "Case", "PartitionedCall", "StatefulPartitionedCall")
_LARGEST = 16
"""Constants of at most this many values are printed inline."""
_SHORT = 60
"""Expressions shorter than this many characters may be nested in others."""
_MARK = re.compile("\x01([0-9]+)\x02")
_RESERVED = frozenset({"tf", "sr", "np", "dataset", "files", "batch_size", "num_epochs", *keyword.kwlist})


class Infix(str):
    """Expression with a binary operator.

    `level` is the precedence of the operator.
    """

    __slots__ = ("level",)
    level: int

    @classmethod
    def of(cls, text: str, operator: str) -> Infix:
        """Attach the precedence of an operator to an expression."""
        infix = cls(text)
        infix.level = next(level for level, operators in enumerate(_LEVELS) if operator in operators)
        return infix


_LEVELS = (("<", "<=", ">", ">="), ("|",), ("&",), ("+", "-"), ("*", "/", "//", "%"), ("**",))
"""Operators by precedence, the lowest first."""


class Body:
    """Body of a printed function: the statements of one section.

    Values are numbered until `named` replaces the numbers by names.

    Args:
        module: the `Module` that contains the constants and the API calls.
        section: the section to print.
        arguments: mapping from tensor names to the argument that contains each tensor.
        constants: mapping from the names of other known tensors to expressions.
    """

    def __init__(
        self, module: Any, section: Section, arguments: Mapping[str, str], constants: Mapping[str, str] | None = None
    ) -> None:
        self.module = module
        self.section = section
        self._names: list[str] = []
        self._statements: list[tuple[list[int], str]] = []
        self._texts: dict[str, str] = dict(constants or {})
        self._swallowed: set[str] = set()
        self._uses: dict[str, list[Any]] = collections.defaultdict(list)
        for op in section.inner.values():
            for tensor in op.inputs:
                self._uses[tensor.name].append(op)
        for target in section.targets:
            for tensor in tensors_of(target):
                self._uses[tensor.name].append(None)
        self._arguments = {name: self._new(name) for name in dict.fromkeys(arguments.values())}
        self._texts |= {tensor: self._arguments[name] for tensor, name in arguments.items()}
        for op in section.takes:  # sparse tensors that a batch serialized
            slot = slot_of_take(op).name
            holder = self._texts[slot]
            if slot in module.packed:
                rank, dtype = op.outputs[2].shape.as_list()[0], op.outputs[1].dtype.name
                text = f"tf.io.deserialize_many_sparse({holder}, tf.{dtype}, rank={rank})"
                [holder] = self.assign(line_of(op).targets[:1] or ["sparse"], text)
            fields = (f"{holder}.{field}" for field in ("indices", "values", "dense_shape"))
            self._texts |= dict(zip((x.name for x in op.outputs), fields, strict=True))

    # Results ----------------------------------------------------------------------------------------------

    def results(self) -> list[str]:
        """Print the section and return an expression for each target."""
        results = [self._result(target) for target in self.section.targets]
        scopes = [re.match("(.*?/)??Parse[^/]*/", op.name) for op in self.section.inner.values() if op.type in PARSERS]
        checked = tuple(scope[0] for scope in scopes if scope)  # parse functions repeat these assertions
        for op in self.section.inner.values():
            if op.name in self._swallowed or (not op.outputs and (op.type == "NoOp" or op.name.startswith(checked))):
                continue
            if not op.outputs:
                self._check(op)
            elif op.op_def.is_stateful and seeds(op) is None:
                self.value(op.outputs[0])
        return results

    def _result(self, target: Any) -> str:
        if not isinstance(target, SparseSlot):
            return self.value(target)
        text = self.sparse(target.components)
        if target not in self.module.serialized:
            return text
        return f"tf.io.serialize_{'many_' if target.many else ''}sparse({text})"

    def sparse(self, components: Sequence[Any]) -> str:
        """Return an expression for a sparse tensor."""
        indices, values, shape = map(self.value, components)
        holder = indices.removesuffix(".indices")
        if (indices, values, shape) == tuple(f"{holder}.{part}" for part in ("indices", "values", "dense_shape")):
            return holder
        return f"tf.SparseTensor({indices}, {values}, {shape})"

    def named(self, results: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """Replace the numbers of values by variable names from the script.

        When a value is no longer needed, its name may be used for another one.

        Args:
            results: the expressions that the function returns.

        Returns:
            The arguments, the statements and the results, with names.
        """
        statements = [(list(range(len(self._arguments))), ""), *self._statements, ([], " ".join(results))]
        last: dict[int, int] = {}
        for number, (_, text) in enumerate(statements):
            last.update((int(value), number) for value in _MARK.findall(text))
        busy: dict[str, int] = dict.fromkeys((*self.module.names, *_RESERVED), len(statements))
        names: dict[str, str] = {}
        for number, (targets, _) in enumerate(statements):
            for value in targets:
                base = self._names[value]
                if value not in last and number:
                    names[str(value)] = "_"
                    continue
                name = next(name for name in numbered(base) if busy.get(name, -1) <= number)
                names[str(value)] = name
                busy[name] = last.get(value, len(statements))

        def final(text: str) -> str:
            return _MARK.sub(lambda match: names[match[1]], text)

        lines = []
        for targets, text in self._statements:
            left = ", ".join(names[str(value)] for value in targets)
            lines.append(final(f"{left} = {text}" if left.strip("_, ") else text))
        arguments = [names[str(value)] for value in range(len(self._arguments))]
        return arguments, lines, [final(result) for result in results]

    # Values -----------------------------------------------------------------------------------------------

    def value(self, tensor: Any) -> str:
        """Add the statements that compute a tensor and return an expression for it."""
        import tensorflow as tf

        if tensor.name in self._texts:
            return self._texts[tensor.name]
        op = tensor.op
        known = None if tensor.dtype in (tf.resource, tf.variant) else tf.get_static_value(tensor)
        if known is not None:
            return self._constant(tensor, known)
        if op.name in self.section.cut and op.type not in TABLES:
            return self._constant(tensor, self.module.state.value_of(op))
        if op.name in self.section.pulls or op.name not in self.section.inner:
            raise NotPrintableError(f"{op.type} {op.name!r}")
        call = self.module.calls.get((id(tensor.graph), tensor.name))
        if call is None or not self._call(call):
            self._operation(op)
        return self._texts[tensor.name]

    def operand(self, tensor: Any) -> str:
        """Return an expression for a tensor that is used as an operand, in parentheses if needed."""
        import tensorflow as tf

        text = self.value(tensor)
        if text.startswith("["):
            text = self.module.constant(line_of(tensor.op).targets, tf.get_static_value(tensor))
        return _atom(text)

    def number(self, tensor: Any) -> str:
        """Return an expression for an operand.

        A scalar constant becomes a plain number, so that it adopts the dtype of the other operand.
        """
        import tensorflow as tf

        known = None if tensor.name in self._texts else tf.get_static_value(tensor)
        return self.value(tensor) if known is None or known.ndim else plain(known)

    def assign(self, names: Sequence[str], text: str) -> list[str]:
        """Add an assignment to new variables.

        The result contains a placeholder for the name of each variable. `named` later replaces the placeholders by
        names.
        """
        values = [self._new(name) for name in names]
        self._statements.append(([int(value[1:-1]) for value in values], text))
        return values

    def _new(self, name: str) -> str:
        self._names.append(name or "value")
        return f"\x01{len(self._names) - 1}\x02"

    def _constant(self, tensor: Any, value: Any) -> str:
        if np.size(value) > _LARGEST:
            return str(self.module.constant(line_of(tensor.op).targets, value))
        return literal(value, tensor.dtype)

    def _operation(self, op: Any) -> None:
        if op.type in PARSERS:
            self._texts |= print_parse(self, op)
            return
        if op.type in CONDITIONALS:
            self._bind(op.outputs, self._print_branches(op), "chosen")
        else:
            self._bind(op.outputs, self._text(op), op.type)

    def _print_branches(self, op: Any) -> str:
        """Print the branches of a conditional as functions and return the `tf.cond` call."""
        from tensorflow.python.ops.cond_v2 import get_func_graphs  # the graphs of branches have no public name

        base = next(iter(line_of(op).targets), "") or "branch"
        calls = [self.value(op.inputs[0])]
        for name, graph in zip(("true", "false"), get_func_graphs(op), strict=True):
            pairs = [*zip(op.inputs[1:], graph.inputs, strict=True)]
            function, passed = self._print_inner(graph.outputs, {}, pairs, f"{base}_if_{name}")
            if function is not None and (function.arguments or function.lines):
                calls.append(f"lambda: {function.name}({passed})")
                continue
            shown = passed if function is None else ", ".join(function.results)
            calls.append(f"lambda: ({shown})" if len(graph.outputs) > 1 else f"lambda: {shown}")
        return f"tf.cond({', '.join(calls)})"

    def _print_map(self, call: Call) -> bool:
        """Print `tf.map_fn` and its function.

        The result is False if they cannot be printed.
        """
        import tensorflow as tf

        inputs, outputs = map(tf.nest.flatten, call.inside or ((), ()))
        if not all(tf.is_symbolic_tensor(x) and x.shape.rank is not None for x in [*inputs, *outputs]):
            return False
        [rows, *_] = [*call.arguments[1:], call.keywords.get("elems")]
        results = tf.nest.flatten(call.result)
        row = line_of(results[0].op).targets[0] if len(results) == len(line_of(results[0].op).targets) == 1 else "row"
        names = {x.name: identifier(f"{row}_{number}" if number else row) for number, x in enumerate(inputs)}
        pairs = inputs[0].graph.captures
        function, passed = self._print_inner(outputs, names, pairs, f"map_{row}")
        kinds = ", ".join(f"tf.{x.dtype.name}" for x in outputs)
        kinds = f"({kinds},)" if isinstance(call.result, (tuple, list)) else kinds
        star = "*" * isinstance(rows, (tuple, list))
        more = f", {passed}" * bool(passed)
        mapped = "tf.identity" if function is None else function.name
        shown = mapped if not star and not more else f"lambda row: {mapped}({star}row{more})"
        self._swallowed |= call.operations
        self._bind(results, f"tf.map_fn({shown}, {self.show(rows)}, fn_output_signature={kinds})", "mapped")
        return True

    def _print_inner(
        self, targets: Sequence[Any], names: Mapping[str, str], pairs: Sequence[tuple[Any, Any]], base: str
    ) -> tuple[Any, str]:
        """Print the operations of an inner graph as a function.

        Args:
            targets: the results of the function.
            names: mapping from tensor names to argument names, for the first arguments.
            pairs: captured tensors, as pairs of the outer and the inner tensor.
            base: the name of the function.

        Returns:
            The function, or None if it returns its arguments unchanged; and the captured arguments, as source text.
        """
        captured = {inside.name: outside for outside, inside in pairs}
        inner, waiting, needed = dict[str, Any](), [*targets], set[str]()
        while waiting:
            tensor = waiting.pop()
            needed.add(tensor.name)
            if tensor.name not in captured and tensor.name not in names and tensor.op.name not in inner:
                inner[tensor.op.name] = tensor.op
                waiting += tensor.op.inputs
        known = {inside: self.value(outside) for inside, outside in captured.items() if inside in needed}
        distinct = [text for text in dict.fromkeys(known.values()) if _MARK.search(text)]
        chosen = unique([*names.values(), *map(self._base, distinct)])[len(names) :]
        by_text = dict(zip(distinct, chosen, strict=True))
        own = {x.name for op in inner.values() for x in op.outputs}
        known = {captured[x].name: text for x, text in known.items() if captured[x].name not in own} | known
        arguments = {tensor: by_text[text] for tensor, text in known.items() if text in by_text} | dict(names)
        constants = {tensor: text for tensor, text in known.items() if text not in by_text}
        order = {**names, **arguments}
        body = Body(self.module, Section(targets, inner), order, constants)
        return self.module.function(base, body, body.results()), ", ".join(distinct)

    def _base(self, text: str) -> str:
        """Derive a variable name from an expression."""
        mark = _MARK.fullmatch(text)
        return self._names[int(mark[1])] if mark else identifier(text.rpartition("[")[2])

    def _bind(self, tensors: Sequence[Any], text: str, kind: str) -> None:
        """Bind tensors to an expression.

        An expression that merely refers to a variable, or that is short and used once, is inserted where the tensor is
        used. Other expressions are assigned to variables.
        """
        line = line_of(tensors[0].op)
        if len(tensors) == 1:
            [tensor] = tensors
            users = self._uses[tensor.name]
            alone = len(users) == 1 and len(text) < _SHORT
            alone = alone and (line_of(users[0]) == line if users[0] is not None else not line.targets)
            if alone or re.fullmatch(r"\x01[0-9]+\x02(\[[^\[\]()]*\]|\.\w+)*", text):
                self._texts[tensor.name] = text
                return
        fits = len(line.targets) == len(tensors)
        if len(tensors) > len(line.targets) == 1 and line.targets[0]:  # the script assigns all results to one name
            [holder] = self.assign(line.targets, text)
            self._texts |= {tensor.name: f"{holder}[{number}]" for number, tensor in enumerate(tensors)}
            return
        base = identifier(_snake_case(kind.removesuffix("V2"))) or "value"
        names = line.targets if fits else [line.targets[0] if len(line.targets) == 1 else base] * len(tensors)
        marks = self.assign([name or base for name in names], text)
        self._texts |= dict(zip((x.name for x in tensors), marks, strict=True))

    # API calls --------------------------------------------------------------------------------------------

    def _call(self, call: Call) -> bool:
        """Print a call of the TensorFlow API.

        The result is False if the call cannot be printed, because its arguments or results have unsuitable types.
        """
        import tensorflow as tf

        if call.path == "tf.map_fn":
            return self._print_map(call)
        results = call.result if isinstance(call.result, (list, tuple)) else [call.result]
        sparse = len(results) == 1 and isinstance(results[0], tf.SparseTensor)
        if not sparse and not all(isinstance(result, tf.Tensor) for result in results):
            return False
        keywords = {name: value for name, value in call.keywords.items() if name != "name"}
        if not all(map(_shows, (*call.arguments, *keywords.values()))):
            return False
        shown = [*map(self.show, call.arguments), *(f"{name}={self.show(v)}" for name, v in keywords.items())]
        self._swallowed |= call.operations
        text = f"{call.path}({', '.join(shown)})"
        if sparse:
            [whole] = results
            fields = {"indices": whole.indices, "values": whole.values, "dense_shape": whole.dense_shape}
            if len(needed := [name for name, field in fields.items() if self._uses[field.name]]) == 1:
                self._bind([fields[needed[0]]], f"{text}.{needed[0]}", "sparse")
                return True
            [holder] = self.assign(line_of(whole.op).targets[:1] or ["sparse"], text)
            self._texts |= {field.name: f"{holder}.{name}" for name, field in fields.items()}
            return True
        self._bind(results, text, call.path.rpartition(".")[2])
        return True

    def show(self, value: Any) -> str:
        """Return an expression for a tensor or a Python value."""
        import tensorflow as tf

        if isinstance(value, tf.SparseTensor):
            return self.sparse((value.indices, value.values, value.dense_shape))
        if isinstance(value, tf.Tensor):
            return self.value(value)
        if isinstance(value, (list, tuple)):
            inside = ", ".join(map(self.show, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
        if isinstance(value, tf.DType):
            return f"tf.{value.base_dtype.name}"
        if isinstance(value, (tf.TensorShape, type(tf.TensorShape([]).as_proto()))):  # the latter in attributes
            return repr(tf.TensorShape(value).as_list())
        if isinstance(value, tf.compat.v1.Dimension):
            return repr(value.value)
        if isinstance(value, tf.image.ResizeMethod) or type(value).__module__.startswith("tensorflow"):
            return f"tf.image.{type(value).__name__}.{value.name}"
        return plain(value)

    # Operations -------------------------------------------------------------------------------------------

    def _check(self, op: Any) -> None:
        """Print an assertion.

        Assertions are the only operations without outputs that can be printed. Other operations raise
        `NotPrintableError`.
        """
        if op.type == "Assert" or (op.type in _CONTROL and op.name.endswith("AssertGuard")):
            data = ", ".join(map(self.value, op.inputs[1:]))
            self._statements.append(([], f"tf.debugging.Assert({self.value(op.inputs[0])}, [{data}])"))
            return
        raise NotPrintableError(f"{op.type} {op.name!r}")

    def _text(self, op: Any) -> str:
        kind, inputs = op.type, op.inputs
        if kind in _PASSES:
            return self.value(inputs[0])
        if kind in _INFIX or (kind == "Div" and not inputs[0].dtype.is_integer):
            operator = _INFIX.get(kind, "/")
            left, right = self._left(inputs), self.number(inputs[1])
            level = Infix.of("", operator).level
            left = f"({left})" if isinstance(left, Infix) and (left.level < level or level == 0) else left
            return Infix.of(f"{left} {operator} {_atom(right)}", operator)
        if kind in _ELEMENTWISE:
            return f"tf.{_snake_case(kind)}({self._left(inputs)}, {self.number(inputs[1])})"
        if kind == "Reshape" and inputs[1].shape.num_elements() == 0:
            return f"tf.reshape({self.value(inputs[0])}, [])"
        if kind in _SPECIAL and (text := _SPECIAL[kind](self, op)) is not None:
            return text
        if kind in _FUNCTIONS and (text := self._print_call(op, _FUNCTIONS[kind])) is not None:
            return text
        return self._print_raw(op)

    def _left(self, inputs: Sequence[Any]) -> str:
        import tensorflow as tf

        both = all(x.name not in self._texts and tf.get_static_value(x) is not None for x in inputs)
        return literal(tf.get_static_value(inputs[0]), inputs[0].dtype) if both else self.number(inputs[0])

    def _print_call(self, op: Any, path: str) -> str | None:
        """Print an operation as a function call.

        The result is None if the function has no parameter for one of the attributes of the operation.
        """
        import tensorflow as tf

        shown = list(self._inputs(op).values())
        parameters = inspect.signature(operator.attrgetter(path)(tf)).parameters
        for attribute in _changed_attributes(op):
            name, text = _RENAMED.get(attribute.name, attribute.name), self.show(op.get_attr(attribute.name))
            if attribute.type == "type" and not attribute.HasField("default_value"):
                shown.append(text)
            elif name in parameters:
                shown.append(f"{name}={text}")
            else:
                return None
        return f"tf.{path}({', '.join(shown)})"

    def _print_raw(self, op: Any) -> str:
        """Print an operation as a call to `tf.raw_ops`."""
        import tensorflow as tf

        if op.type in (*PYTHON, *_CONTROL) or not hasattr(tf.raw_ops, op.type):
            raise NotPrintableError(f"{op.type} {op.name!r}")
        shown = [f"{name}={text}" for name, text in self._inputs(op).items()]
        return f"tf.raw_ops.{op.type}({', '.join([*shown, *self.attributes(op)])})"

    def attributes(self, op: Any) -> list[str]:
        """Print the attributes of an operation that differ from their default values, as keyword arguments."""
        changed = _changed_attributes(op)
        if any(attribute.type == "func" for attribute in changed):
            raise NotPrintableError(f"{op.type} {op.name!r}")
        return [f"{attribute.name}={self.show(op.get_attr(attribute.name))}" for attribute in changed]

    def _inputs(self, op: Any) -> dict[str, str]:
        """Map each input name in the definition of an operation to an expression."""
        groups, shown = group_tensors(op, op.op_def.input_arg, op.inputs), {}
        for argument in op.op_def.input_arg:
            inside = ", ".join(map(self.value, groups[argument.name]))
            shown[argument.name] = f"[{inside}]" if argument.number_attr or argument.type_list_attr else inside
        return shown


def _changed_attributes(op: Any) -> list[Any]:
    """List the attributes of an operation that differ from their default values.

    This includes attributes without a default value, and excludes those that follow from the inputs.
    """
    implied = {name for x in op.op_def.input_arg for name in (x.type_attr, x.number_attr, x.type_list_attr)}
    return [
        attribute
        for attribute in op.op_def.attr
        if attribute.name not in implied
        and not (attribute.HasField("default_value") and op.node_def.attr[attribute.name] == attribute.default_value)
    ]


def _atom(text: str) -> str:
    """Parenthesize an expression that contains an operator."""
    return f"({text})" if isinstance(text, Infix) else text


def _shows(value: Any) -> bool:
    """Check whether an argument of a call can be printed."""
    import tensorflow as tf

    if isinstance(value, (list, tuple)):
        return all(map(_shows, value))
    known = (tf.Tensor, tf.SparseTensor, tf.DType, tf.TensorShape, tf.compat.v1.Dimension, np.generic)
    simple = (int, float, str, bytes, bool, type(None))
    named = type(value).__module__.startswith("tensorflow") and hasattr(value, "name") and hasattr(value, "value")
    return isinstance(value, (*known, *simple)) or named


def _decode_csv(body: Body, op: Any) -> str:
    import tensorflow as tf

    defaults = []
    for tensor in op.inputs[1:]:
        known = tf.get_static_value(tensor)
        if known is not None and not np.size(known):
            defaults.append(f"tf.constant([], tf.{tensor.dtype.base_dtype.name})")
        else:
            defaults.append(body.value(tensor) if known is None else literal(np.ravel(known), tensor.dtype))
    shown = [body.value(op.inputs[0]), f"[{', '.join(defaults)}]", *body.attributes(op)]
    return f"tf.io.decode_csv({', '.join(shown)})"


def _split(body: Body, op: Any) -> str:
    axis, value = map(body.value, op.inputs)
    return f"tf.split({value}, {op.get_attr('num_split')}" + (f", axis={axis}" if axis != "0" else "") + ")"


def _gather(body: Body, op: Any) -> str | None:
    import tensorflow as tf

    rows, index, axis = op.inputs
    if tf.get_static_value(axis) != 0 or op.get_attr("batch_dims"):
        return None
    alike = [o for o in body.section.inner.values() if o.type == op.type and o.inputs[1].name == index.name]
    targets, known = line_of(op).targets, tf.get_static_value(rows)
    if known is None:
        return f"tf.gather({body.value(rows)}, {body.value(index)})"
    name = targets[alike.index(op)] if len(alike) == len(targets) else ""  # as in `tf.train.slice_input_producer`
    name = name or ("path" if rows.dtype == tf.string else "value")
    text = f"tf.gather({body.module.constant([f'{name}s'], known)}, {body.value(index)})"
    return body.assign([name], text)[0]


def _select(body: Body, op: Any) -> str | None:
    one, other = op.inputs[0].shape, op.inputs[1].shape
    if one.rank is None or one.rank != other.rank:
        return None
    return f"tf.where({', '.join(map(body.value, op.inputs))})"


def _uniform(body: Body, op: Any) -> str | None:
    import tensorflow as tf

    kind = op.outputs[0].dtype
    if op.get_attr("seed") not in (0, DEFAULT_SEED) or (op.type != "RandomUniformInt" and kind != tf.float32):
        return None
    name = {"RandomStandardNormal": "normal", "TruncatedNormal": "truncated_normal"}.get(op.type, "uniform")
    scalar = op.inputs[0].shape.num_elements() == 0
    shown = ["[]" if scalar else body.value(op.inputs[0]), *map(body.number, op.inputs[1:])]
    shown += [f"dtype=tf.{kind.name}"] * (kind != tf.float32)
    shown += [f"seed={op.get_attr('seed2')}"] * (op.get_attr("seed") != 0)
    return f"tf.random.{name}({', '.join(shown)})"


def _shuffled(body: Body, op: Any) -> str | None:
    if op.get_attr("seed") not in (0, DEFAULT_SEED):
        return None
    seed = f", seed={op.get_attr('seed2')}" * (op.get_attr("seed") != 0)
    return f"tf.random.shuffle({body.value(op.inputs[0])}{seed})"


def _lookup(body: Body, op: Any) -> str:
    asked = "size()" if op.type == "LookupTableSizeV2" else f"lookup({body.value(op.inputs[1])})"
    return f"{body.module.table(op)}.{asked}"


def _elements(body: Body, tensor: Any) -> list[str] | None:
    """Return an expression for each element of a vector.

    The vector is a constant, or is stacked from scalars. For other tensors, the result is None.
    """
    import tensorflow as tf

    known = tf.get_static_value(tensor)
    if known is not None:
        return [str(number) for number in known.tolist()]
    return [body.number(element) for element in tensor.op.inputs] if tensor.op.type == "Pack" else None


def _slices(body: Body, op: Any) -> str | None:
    """Print a strided slice as an index expression.

    The result is None if the bounds are neither constants nor stacked from scalars.
    """
    begin, end, step = (_elements(body, tensor) for tensor in op.inputs[1:4])
    masks = {name: op.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    if begin is None or end is None or step is None:
        return None
    items = []
    for axis in range(len(begin)):
        has = {name: mask >> axis & 1 for name, mask in masks.items()}
        if has["new_axis"]:
            items.append("tf.newaxis")
        elif has["ellipsis"]:
            items.append("...")
        elif has["shrink_axis"]:
            items.append(begin[axis])
        else:
            first = "" if has["begin"] or begin[axis] == "0" else begin[axis]
            bounds = [first, "" if has["end"] else end[axis], *([step[axis]] if step[axis] != "1" else [])]
            simple = all(re.fullmatch(r"-?\w*", bound) for bound in bounds)
            items.append((":" if simple else " : ").join(bounds).strip())
    sliced = body.operand(op.inputs[0])
    if sliced.isupper() and len(items) > 1:  # a constant printed as a Python list
        sliced = f"tf.constant({sliced})"
    return f"{sliced}[{', '.join(items)}]"


_SPECIAL: dict[str, Callable[[Body, Any], str | None]] = {
    "DecodeCSV": _decode_csv,
    "Split": _split,
    "GatherV2": _gather,
    "Select": _select,
    **dict.fromkeys(("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal"), _uniform),
    "RandomShuffle": _shuffled,
    "StridedSlice": _slices,
    **dict.fromkeys(("LookupTableFindV2", "LookupTableSizeV2"), _lookup),
}
"""Printers, by operation type, of operations whose functions have different arguments."""
