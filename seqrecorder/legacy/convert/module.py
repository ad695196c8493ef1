"""A Python module that is being printed: its constants, its functions, and the lines that make the dataset."""

from __future__ import annotations

import io
import itertools
import re
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.errors import first_line
from seqrecorder.legacy.convert.body import Body
from seqrecorder.legacy.convert.text import NotPrintableError, fold, items, literal, plain
from seqrecorder.legacy.subgraph import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.legacy.convert.trace import Trace
    from seqrecorder.legacy.subgraph import Section, State

ARRAYS = "constants.npz"
"""The file beside a module that holds its large constants."""
_LONGEST = 400
"""Values of a constant in the text of a module."""


@attrs.define(eq=False)
class Function:
    """A function of the module.

    Attributes:
        name: of the function.
        arguments: their names.
        lines: its statements.
        results: an expression for each component of what it returns.
        returned: what it returns, where that is no tuple of the results; `{}` stands for a result.
        random: whether it draws, so that calls must come in order.
    """

    name: str
    arguments: list[str]
    lines: list[str]
    results: list[str]
    returned: str | None = None
    random: bool = False

    def source(self) -> list[str]:
        """Return its lines."""
        value = ", ".join(self.results) if self.returned is None else self.returned
        lines = [*self.lines, f"return {value}"]
        head = fold(f"def {self.name}({', '.join(self.arguments)}):")
        return [*head, *(part for line in lines for part in _body(line))]


def _body(line: str) -> list[str]:
    inside = line.removeprefix("return ")
    several = inside != line and len(line) > 90 and len([*items(inside)]) > 1  # noqa: PLR2004 - a tuple needs brackets to be folded
    return fold(f"return ({inside})" if several else line, 4)


class Module:
    """The text of a module, each part of which is run as it is printed, so that shapes are known.

    Args:
        trace: of the input function.
        state: of its graph.
    """

    def __init__(self, trace: Trace, state: State) -> None:
        self.calls = trace.calls
        self.functions: list[Function] = []
        self.lines: list[str] = []
        self.parameters: dict[str, str] = {}
        self.arrays: dict[str, Any] = {}
        self.serialized: set[Any] = set()
        self.packed: set[str] = set()
        self._state = state
        self._constants: dict[str, str] = {}
        self._namespace: dict[str, Any] = {"__name__": "seqrecorder.printed_reader"}  # see `_module` in `conversion`
        self._run("import numpy as np\nimport seqrecorder as sr\nimport tensorflow as tf")

    @property
    def names(self) -> list[str]:
        """The names of the constants."""
        return [*self._constants, *self.arrays]

    # Constants --------------------------------------------------------------------------------------------

    def features(self, base: str, features: Mapping[str, str]) -> str:
        """Return the name of a constant that holds features to parse."""
        return self.define(base, "{" + ", ".join(f"{plain(name)}: {text}" for name, text in features.items()) + "}")

    def constant(self, targets: Sequence[str], value: Any, *, typed: bool = True) -> str:
        """Return the name of a constant, which a script assigned to some name."""
        array = np.asarray(value)
        base = (targets[0] if len(targets) == 1 and targets[0] else "values").upper()
        if array.size > _LONGEST:
            name = self.free(base)
            self.arrays[name] = array.astype(bytes) if array.dtype == object else array
            self._namespace[name] = array
            return name
        return self.define(base, literal(value, None) if typed else plain(array))

    def define(self, base: str, text: str) -> str:
        """Return the name of a constant with some text, which may stand there already."""
        for name, known in self._constants.items():
            if known == text:
                return name
        name = self.free(base)
        self._constants[name] = text
        self._run(f"{name} = {text}")
        return name

    def initial(self, op: Any) -> Any:
        """Return the value of a variable that the graph reads."""
        return self._state.value_of(op)

    def table(self, op: Any) -> str:
        """Return the name of a lookup table that an operation asks."""
        import tensorflow as tf

        holder = op.inputs[0].op
        asks = [user for user in op.inputs[0].consumers() if user.type == "LookupTableFindV2"]
        defaults = [tf.get_static_value(user.inputs[2]) for user in asks]
        if holder.type not in TABLES or len(defaults) != 1 or defaults[0] is None:
            raise NotPrintableError(f"{holder.type} {holder.name!r}")
        keys, values = self._state.contents(holder)
        order = np.argsort(values, kind="stable")
        keys, values = keys[order], values[order]
        names = [self.constant([name], part) for name, part in (("keys", keys), ("values", values))]
        default = literal(defaults[0], asks[0].inputs[2].dtype)
        initializer = f"tf.lookup.KeyValueTensorInitializer({', '.join(names)})"
        return self.define("TABLE", f"tf.lookup.StaticHashTable({initializer}, {default})")

    # Functions and lines ----------------------------------------------------------------------------------

    def parameter(self, name: str, default: str) -> str:
        """Return the name of a parameter of the function that makes the dataset."""
        self.parameters[name] = default
        self._run(f"{name} = {default}")
        return name

    def add(self, line: str) -> None:
        """Add a line to the function that makes the dataset, and run it."""
        self._run(line)
        self.lines.append(line)

    def spec(self, variable: str = "dataset") -> Any:
        """Return the element spec of a dataset that the lines have made."""
        return self._namespace[variable].element_spec

    def function(
        self, base: str, section: Section, arguments: Mapping[str, str], shapes: Sequence[Any], variable: str
    ) -> Function | None:
        """Print a section as a function of the elements of a dataset.

        Args:
            base: its name.
            section: to print.
            arguments: names by tensors.
            shapes: what the graph knows of the shape of each target.
            variable: the dataset whose elements it takes.

        Returns:
            The function; None where it would return its arguments as they are.
        """
        body = Body(self, section, arguments)
        results = body.results()
        names, lines, results = body.named(results, self.names)
        function = Function(self.free(base), names, lines, results, random=bool(section.stateful))
        self.refine(function, shapes, variable)
        if not function.lines and function.results == function.arguments:
            return None
        return self.add_function(function)

    def branch(self, body: Body, base: str) -> Function | None:
        """Print a branch of a conditional as a function; None where it returns its arguments as they are.

        One that returns constants is not part of the module.
        """
        names, lines, results = body.named(body.results(), self.names)
        if not lines and results == names:
            return None
        function = Function(self.free(base), names, lines, results)
        if not lines and not names:
            return function
        self.redefine(function)
        return self.add_function(function)

    def add_function(self, function: Function) -> Function:
        """Add a function, unless there is one that does the same; return that."""
        for known in self.functions:
            if attrs.evolve(function, name=known.name).source() == known.source():
                return known
        self.functions.append(function)
        return function

    def refine(self, function: Function, shapes: Sequence[Any], variable: str) -> None:
        """Run a function on the specs of a dataset; declare the shapes that it does not see."""
        import tensorflow as tf

        self._run("\n".join(function.source()))
        specs = self.spec(variable)
        specs = specs if isinstance(specs, tuple) else (specs,)
        run = tf.function(self._namespace[function.name], autograph=False)
        try:
            outputs = run.get_concrete_function(*specs).structured_outputs
        except Exception as error:  # whatever TensorFlow raises while it traces
            raise NotPrintableError(f"what is printed does not run: {first_line(error)}") from error
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        for i, (output, shape) in enumerate(zip(outputs, shapes, strict=False)):
            wanted = tf.TensorShape(shape)
            if wanted.rank is not None and isinstance(output, tf.Tensor) and not _knows(output.shape, wanted):
                function.results[i] = f"tf.ensure_shape({function.results[i]}, {wanted.as_list()})"
        self.redefine(function)

    def redefine(self, function: Function) -> None:
        """Run a function again that has changed."""
        self._run("\n".join(function.source()))

    def free(self, base: str) -> str:
        """Return a name that no constant and no function has."""
        taken = {*self.names, *(function.name for function in self.functions)}
        names = itertools.chain([base], (f"{base}_{number}" for number in itertools.count(2)))
        return next(name for name in names if name not in taken)

    def _run(self, source: str) -> None:
        import tensorflow as tf

        def run() -> None:
            exec(source, self._namespace)  # noqa: S102 - what was printed here

        try:
            tf.autograph.experimental.do_not_convert(run)()
        except Exception as error:  # whatever TensorFlow raises
            raise NotPrintableError(f"what is printed does not run: {first_line(error)}") from error

    # The text ---------------------------------------------------------------------------------------------

    def source(self, title: str) -> str:
        """Return the text of the module."""
        definitions = [line for name, text in self._constants.items() for line in fold(f"{name} = {text}")]
        if self.arrays:
            definitions.append(f'with np.load(Path(__file__).with_name("{ARRAYS}")) as arrays:')
            definitions += [f'    {name} = arrays["{name}"]' for name in self.arrays]
        order = [name for name in ("files", "batch_size", "num_epochs") if name in self.parameters]
        parameters = ", ".join(f"{name}={self.parameters[name]}" for name in order)
        lines = [*self.lines, "return dataset.prefetch(tf.data.AUTOTUNE)"]
        inputs = [*fold(f"def inputs({parameters}):"), *(part for line in lines for part in fold(line, 4))]
        functions = [["", "", *function.source()] for function in self.functions if self._calls(function)]
        parts = [*definitions, *(line for function in functions for line in function), "", "", *inputs]
        text = "\n".join(parts)
        imports = [f"import {name}" for name, short in _IMPORTS if f"{short}." in text]
        first = ["from pathlib import Path", ""] if self.arrays else []
        return "\n".join([f'"""{title}"""', "", *first, *imports, *[""] * bool(definitions), *parts, ""])

    def _calls(self, function: Function) -> bool:
        """Check that the text calls a function that is printed."""
        rest = [line for other in self.functions if other is not function for line in other.source()]
        return any(re.search(rf"\b{function.name}\b", line) for line in [*self.lines, *rest])

    def files(self) -> dict[str, bytes]:
        """Return the contents of the files beside the module, by name."""
        if not self.arrays:
            return {}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **self.arrays)
        return {ARRAYS: buffer.getvalue()}


_IMPORTS = (("numpy as np", "np"), ("seqrecorder as sr", "sr"), ("tensorflow as tf", "tf"))


def _knows(shape: Any, wanted: Any) -> bool:
    """Check that a shape is as specific as another."""
    if shape.rank is None:
        return False
    return all(theirs is None or ours == theirs for ours, theirs in zip(shape, wanted, strict=False))
