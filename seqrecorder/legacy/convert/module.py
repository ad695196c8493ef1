"""Code generation: the module with its constants, its functions, and the lines that build the dataset."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import first_line
from seqrecorder.legacy.convert.text import NotPrintableError, fold, items, literal, numbered, plain
from seqrecorder.legacy.subgraph import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from seqrecorder.legacy.convert.body import Body
    from seqrecorder.legacy.convert.trace import Trace
    from seqrecorder.legacy.subgraph import State

ARRAYS = "constants.npz"
"""File name of the large constants of a module."""
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
    """Module that is being printed; each line runs immediately, so that shapes are known.

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
        """Trace a function on the elements of a dataset, and declare the static shapes that it loses."""
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
        """Run the definition of a function again after a change."""
        self._run("\n".join(function.source()))

    def free(self, base: str) -> str:
        """Return a name that no constant or function has yet, numbered if needed."""
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
            definitions.append(f'with np.load(Path(__file__).with_name("{ARRAYS}")) as arrays:')
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
        """Return the contents of the module's data files by file name."""
        if not self.arrays:
            return {}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **self.arrays)
        return {ARRAYS: buffer.getvalue()}


_IMPORTS = (("numpy as np", "np"), ("seqrecorder as sr", "sr"), ("tensorflow as tf", "tf"))
