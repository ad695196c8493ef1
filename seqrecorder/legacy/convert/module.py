"""Code generation: the module with its constants, its functions, and the lines that build the dataset."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import first_line
from seqrecorder.legacy.convert.text import NotPrintableError, fold, items, literal, numbered, plain, unique
from seqrecorder.legacy.subgraph import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from seqrecorder.legacy.convert.body import Body
    from seqrecorder.legacy.convert.trace import Trace
    from seqrecorder.legacy.subgraph import State

ARRAYS = ".npz"
"""Suffix of the file with the large constants of a module; the rest of its name is that of the module."""
_LONGEST = 400
"""Constants with more values than this are stored in `ARRAYS`, not in the source text."""


@attrs.define(eq=False)
class Function:
    """Function of a printed module.

    Attributes:
        name: the name of the function.
        arguments: the names of the arguments.
        lines: the statements before the return statement.
        results: an expression for each returned component.
        returned: the return expression; None to return the tuple of the results.
        random: whether the function draws random numbers and so must not run in parallel.
    """

    name: str
    arguments: list[str]
    lines: list[str]
    results: list[str]
    returned: str | None = None
    random: bool = False

    def source(self) -> list[str]:
        """Print the definition, line by line."""
        value = ", ".join(self.results) if self.returned is None else self.returned
        lines = [*self.lines, f"return {value}"]
        head = fold(f"def {self.name}({', '.join(self.arguments)}):")
        return [*head, *(folded for line in lines for folded in _body(line))]


def _body(line: str) -> list[str]:
    inside = line.removeprefix("return ")
    several = inside != line and len(line) > 90 and len([*items(inside)]) > 1  # noqa: PLR2004 - a tuple needs brackets to be folded
    return fold(f"return ({inside})" if several else line, 4)


class Module:
    """Module that is being printed.

    Each line is run as soon as it is added, so that shapes are known.

    Args:
        trace: the trace of the input function.
        state: the state of its graph.
    """

    def __init__(self, trace: Trace, state: State) -> None:
        self.calls = trace.calls
        self.functions: list[Function] = []
        self.lines: list[str] = []
        self.parameters: dict[str, str] = {}
        self.arrays: dict[str, Any] = {}
        self.serialized: set[Any] = set()
        self.packed: set[str] = set()
        self.state = state
        self._constants: dict[str, str] = {}
        self._namespace: dict[str, Any] = {"__name__": "seqrecorder.printed_reader"}  # as in `_import_module`
        self._run("import numpy as np\nimport seqrecorder as sr\nimport tensorflow as tf")

    @property
    def names(self) -> list[str]:
        """Names of the constants."""
        return [*self._constants, *self.arrays]

    # Constants --------------------------------------------------------------------------------------------

    def features(self, base: str, features: Mapping[str, str]) -> str:
        """Define a constant with the specs of parsed features, and return its name."""
        return self.define(base, "{" + ", ".join(f"{plain(name)}: {text}" for name, text in features.items()) + "}")

    def constant(self, targets: Sequence[str], value: Any) -> str:
        """Define a constant named after the variable in the script, and return its name."""
        array = np.asarray(value)
        base = (targets[0] if len(targets) == 1 and targets[0] else "values").upper()
        if array.size > _LONGEST:
            name = self.free(base)
            self.arrays[name] = array.astype(bytes) if array.dtype == object else array
            self._namespace[name] = array
            return name
        return self.define(base, literal(value, None))

    def define(self, base: str, text: str) -> str:
        """Return the name of the constant with this source text, and define the constant if it is new."""
        for name, known in self._constants.items():
            if known == text:
                return name
        name = self.free(base)
        self._constants[name] = text
        self._run(f"{name} = {text}")
        return name

    def table(self, op: Any) -> str:
        """Define the table of a lookup operation, and return its name."""
        import tensorflow as tf

        holder = op.inputs[0].op
        asks = [user for user in op.inputs[0].consumers() if user.type == "LookupTableFindV2"]
        defaults = [tf.get_static_value(user.inputs[2]) for user in asks]
        if holder.type not in TABLES or len(defaults) != 1 or defaults[0] is None:
            raise NotPrintableError(f"{holder.type} {holder.name!r}")
        keys, values = self.state.contents(holder)
        order = np.argsort(values, kind="stable")
        keys, values = keys[order], values[order]
        names = [self.constant([name], part) for name, part in (("keys", keys), ("values", values))]
        default = literal(defaults[0], asks[0].inputs[2].dtype)
        initializer = f"tf.lookup.KeyValueTensorInitializer({', '.join(names)})"
        return self.define("TABLE", f"tf.lookup.StaticHashTable({initializer}, {default})")

    # Functions and lines ----------------------------------------------------------------------------------

    def parameter(self, name: str, default: str) -> str:
        """Add a parameter to `inputs`, and return its name."""
        self.parameters[name] = default
        self._run(f"{name} = {default}")
        return name

    def add(self, line: str) -> None:
        """Add a line to `inputs`, and run it."""
        self._run(line)
        self.lines.append(line)

    def function(
        self,
        base: str,
        body: Body,
        results: Sequence[str],
        variable: str | None = None,
        shapes: Sequence[Any] = (),
        *,
        pack: Callable[[Sequence[str]], str] | None = None,
    ) -> Function | None:
        """Add a function to the module, unless an equal one exists.

        Args:
            base: the name of the function; numbered if it is taken.
            body: the statements of the function.
            results: an expression of the body for each result.
            variable: the name of the dataset that the function is mapped over, if any.
            shapes: the static shape of each result in the graph, declared if the printed code loses it.
            pack: a function that joins the expressions of the results into one return expression.

        Returns:
            The function in the module, or None if it would return its arguments unchanged.
        """
        names, lines, results = body.named(results)
        function = Function(self.free(base), names, lines, results, random=bool(body.section.stateful))
        self.redefine(function)
        if variable is not None:
            self._declare_shapes(function, shapes, variable)
        if pack is not None:
            function.returned = pack(function.results)
        elif not function.lines and function.results == function.arguments:
            return None
        self.redefine(function)
        for known in self.functions:
            if attrs.evolve(function, name=known.name).source() == known.source():
                return known
        self.functions.append(function)
        return function

    def _declare_shapes(self, function: Function, shapes: Sequence[Any], variable: str) -> None:
        """Declare the static shapes that are lost in a printed function.

        To find its static shapes, the function is traced on the elements of the dataset in `variable`. An output whose
        shape is less precise than the one in `shapes` gets a `tf.ensure_shape`.
        """
        import tensorflow as tf

        specs = self._namespace[variable].element_spec
        specs = specs if isinstance(specs, tuple) else (specs,)
        run = tf.function(self._namespace[function.name], autograph=False)
        try:
            outputs = run.get_concrete_function(*specs).structured_outputs
        except Exception as error:  # tracing may raise any error
            raise NotPrintableError(f"the printed code does not run: {first_line(error)}") from error
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        for i, (output, shape) in enumerate(zip(outputs, shapes, strict=False)):
            wanted = tf.TensorShape(shape)
            if wanted.rank is not None and isinstance(output, tf.Tensor) and not output.shape.is_subtype_of(wanted):
                function.results[i] = f"tf.ensure_shape({function.results[i]}, {wanted.as_list()})"

    def redefine(self, function: Function) -> None:
        """Run the source of a function again, after the function has been changed."""
        self._run("\n".join(function.source()))

    def free(self, base: str) -> str:
        """Return a name that no constant or function has yet.

        The name is `base`, followed by a number if necessary.
        """
        taken = {*self.names, *(function.name for function in self.functions)}
        return next(name for name in numbered(base) if name not in taken)

    def _run(self, source: str) -> None:
        import tensorflow as tf

        def run() -> None:
            exec(source, self._namespace)  # noqa: S102 - the source was printed here

        try:
            tf.autograph.experimental.do_not_convert(run)()
        except Exception as error:  # running may raise any error
            raise NotPrintableError(f"the printed code does not run: {first_line(error)}") from error

    # The text ---------------------------------------------------------------------------------------------

    def source(self, title: str) -> str:
        """Return the source text of the module."""
        definitions = [line for name, text in self._constants.items() for line in fold(f"{name} = {text}")]
        if self.arrays:
            definitions.append(f'with np.load(Path(__file__).with_suffix("{ARRAYS}")) as arrays:')
            definitions += [f'    {name} = arrays["{name}"]' for name in self.arrays]
        order = [name for name in ("files", "batch_size", "num_epochs") if name in self.parameters]
        parameters = ", ".join(f"{name}={self.parameters[name]}" for name in order)
        lines = [*self.lines, "return dataset.prefetch(tf.data.AUTOTUNE)"]
        inputs = [*fold(f"def inputs({parameters}):"), *(part for line in lines for part in fold(line, 4))]
        functions = [["", "", *function.source()] for function in self.functions if self._calls(function)]
        blocks = [*definitions, *(line for function in functions for line in function), "", "", *inputs]
        text = "\n".join(blocks)
        imports = [f"import {name}" for name, short in _IMPORTS if f"{short}." in text]
        first = ["from pathlib import Path", ""] if self.arrays else []
        return "\n".join([f'"""{title}"""', "", *first, *imports, *[""] * bool(definitions), *blocks, ""])

    def _calls(self, function: Function) -> bool:
        """Check whether the module calls one of its functions."""
        rest = [line for other in self.functions if other is not function for line in other.source()]
        return any(re.search(rf"\b{function.name}\b", line) for line in [*self.lines, *rest])

    def files(self) -> dict[str, bytes]:
        """Return the contents of the module's data files.

        The result maps the suffix of each file to its contents.
        """
        if not self.arrays:
            return {}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **self.arrays)
        return {ARRAYS: buffer.getvalue()}


_IMPORTS = (("numpy as np", "np"), ("seqrecorder as sr", "sr"), ("tensorflow as tf", "tf"))


# Merging of modules: values that differ become parameters, code that differs stays in separate functions. ------------


_NAMES = {"shuffle": "buffer_size", "batch": "batch_size", "padded_batch": "batch_size", "repeat": "num_epochs"}
"""Parameter names for the arguments of dataset methods; for other methods, the name of the method is used."""


def join(sources: Sequence[str]) -> tuple[str, list[str]]:
    """Merge modules into one.

    The result is the source text of the merged module, and a list of the calls that replace the original modules.

    Args:
        sources: source texts of printed modules, each with a function `inputs`.
    """
    modules = [_Printed(source) for source in sources]
    if len({"num_epochs" in module.defaults for module in modules}) > 1:
        modules = [module.with_epochs() for module in modules]
    first = modules[0]
    if any(module.frame() != first.frame() for module in modules):
        calls = ["inputs()", *(f"inputs_{number}()" for number in range(2, len(modules) + 1))]
        return _merge(modules), calls
    named = [*zip(*(module.constants() for module in modules), strict=True)]
    changing = [same for same in named if len({ast.unparse(constant) for _, constant in same}) > 1]
    names = unique([*first.defaults, *(same[0][0] for same in changing)])[len(first.defaults) :]
    for module, constants in zip(modules, zip(*changing, strict=True), strict=bool(changing)):
        module.defaults |= {name: ast.unparse(c) for name, (_, c) in zip(names, constants, strict=True)}
    text = first.with_parameters({same[0][1]: name for same, name in zip(changing, names, strict=True)})
    return text, [module.call(first) for module in modules]


class _Printed:
    """Printed module, parsed for merging.

    Attributes:
        source: the source text of the module.
        definitions: mapping from the names of constants and functions to their source text.
        defaults: mapping from the parameter names of `inputs` to their default values, as source text.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.definitions: dict[str, str] = {}
        for node in ast.parse(source).body:
            if isinstance(node, (ast.Assign, ast.FunctionDef)):
                name = node.name if isinstance(node, ast.FunctionDef) else ast.unparse(node.targets[0])
                self.definitions[name] = ast.get_source_segment(source, node) or ""
                if name == "inputs" and isinstance(node, ast.FunctionDef):
                    self._inputs = node
        arguments = self._inputs.args
        self.defaults = {a.arg: ast.unparse(d) for a, d in zip(arguments.args, arguments.defaults, strict=True)}

    def with_epochs(self) -> _Printed:
        """Return a copy in which `inputs` has the parameter `num_epochs`.

        With the default None, the data repeats forever.
        """
        self.defaults.setdefault("num_epochs", "None")
        return _Printed(self.with_parameters({}).replace(".repeat()", ".repeat(num_epochs)"))

    def frame(self) -> tuple[object, ...]:
        """Build a key that is equal for modules that differ only in the constants of `inputs`."""
        others = {n: text for n, text in self.definitions.items() if n not in {"inputs", *self.defaults.values()}}
        lines = re.sub(r"Constant\(value=[^()]*\)", "Constant()", "\n".join(map(ast.dump, self._inputs.body)))
        return others, lines, [*self.defaults]

    def constants(self) -> Iterator[tuple[str, ast.Constant]]:
        """Yield the constants that are arguments of calls in the body of `inputs`.

        Each constant is preceded by the name that it would have as a parameter.
        """
        for node in itertools.chain.from_iterable(map(ast.walk, self._inputs.body)):
            if isinstance(node, ast.Call):
                method = getattr(node.func, "attr", "value")
                pairs = [(_NAMES.get(method, method), value) for value in node.args]
                pairs += [(keyword.arg or method, keyword.value) for keyword in node.keywords]
                yield from ((name, value) for name, value in pairs if isinstance(value, ast.Constant))

    def with_parameters(self, names: Mapping[ast.Constant, str]) -> str:
        """Print the module with some of its constants turned into parameters of `inputs`.

        `names` maps each of these constants to the name of its parameter. `defaults` contains the default values of all
        parameters.
        """
        lines = self.source.splitlines()
        for node in sorted(names, key=lambda node: (node.lineno, node.col_offset), reverse=True):
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = line[: node.col_offset] + names[node] + line[node.end_col_offset :]
        head = fold(f"def inputs({', '.join(f'{name}={default}' for name, default in self.defaults.items())}):")
        rest = lines[self._inputs.body[0].lineno - 1 :]
        return "\n".join([*lines[: self._inputs.lineno - 1], *head, *rest, ""])

    def call(self, first: _Printed) -> str:
        """Print the call of the merged `inputs` that replaces this module."""
        values = {name: self._value(name) for name in self.defaults if self._value(name) != first._value(name)}
        return f"inputs({', '.join(f'{name}={value}' for name, value in values.items())})"

    def _value(self, name: str) -> str:
        default = self.defaults[name]
        text = self.definitions.get(default, f"{default} = {default}").partition(" = ")[2]
        return ast.unparse(ast.parse(text, mode="eval"))


def _merge(modules: Sequence[_Printed]) -> str:
    """Merge modules into one source text.

    Definitions that are equal in several modules are kept once. If definitions differ, those of later modules are
    renamed.
    """
    added: list[str] = []
    known = dict(modules[0].definitions)
    for number, module in enumerate(modules[1:], 2):
        changed = {name for name, text in module.definitions.items() if known.get(name, text) != text} | {"inputs"}
        while more := {n for n, text in module.definitions.items() if n not in changed and changed & _words(text)}:
            changed |= more
        names = {name: f"{name}_{number}" for name in changed}
        for name, text in module.definitions.items():
            if name in changed or name not in known:
                known[names.get(name, name)] = _rename(text, names)
                apart = text.startswith("def ") or not added or added[-1].startswith("def ")
                added += ["", ""] * apart + [known[names.get(name, name)]]
    lines = modules[0].source.rstrip("\n").splitlines()
    imports = [line for module in modules for line in module.source.splitlines() if line.startswith("import ")]
    first_import = next(number for number, line in enumerate(lines) if line.startswith("import "))
    lines = [line for line in lines if not line.startswith("import ")]
    return "\n".join([*lines[:first_import], *sorted(set(imports)), *lines[first_import:], *added, ""])


def _words(source: str) -> set[str]:
    return {token.string for token in tokenize.generate_tokens(io.StringIO(source).readline)}


def _rename(source: str, names: Mapping[str, str]) -> str:
    """Rename identifiers in a source text."""
    lines = source.splitlines(keepends=True)
    for token in reversed([*tokenize.generate_tokens(io.StringIO(source).readline)]):
        if token.type == tokenize.NAME and token.string in names:
            (row, start), (_, end) = token.start, token.end
            lines[row - 1] = lines[row - 1][:start] + names[token.string] + lines[row - 1][end:]
    return "".join(lines)
