"""Merging of printed modules: values that differ become parameters, code that differs stays in separate functions."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from typing import TYPE_CHECKING

from seqrecorder.legacy.convert.text import fold, unique

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NAMES = {"shuffle": "buffer_size", "batch": "batch_size", "padded_batch": "batch_size", "repeat": "num_epochs"}
"""Parameter names for the arguments of dataset methods; for other methods, the name of the method is used."""


def join(sources: Sequence[str]) -> tuple[str, list[str]]:
    """Merge modules into one; return its source text, and for each module the call that replaces it.

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
        definitions: mapping of name to source text, for constants and functions.
        defaults: mapping of parameter name to default value, as source text, for `inputs`.
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
        """Return a copy in which `inputs` has the parameter `num_epochs`; the default None repeats forever."""
        self.defaults.setdefault("num_epochs", "None")
        return _Printed(self.with_parameters({}).replace(".repeat()", ".repeat(num_epochs)"))

    def frame(self) -> tuple[object, ...]:
        """Build a key that is the same for modules that differ only in the constants of `inputs`."""
        others = {n: text for n, text in self.definitions.items() if n not in {"inputs", *self.defaults.values()}}
        lines = re.sub(r"Constant\(value=[^()]*\)", "Constant()", "\n".join(map(ast.dump, self._inputs.body)))
        return others, lines, [*self.defaults]

    def constants(self) -> Iterator[tuple[str, ast.Constant]]:
        """Yield the constant arguments in the body of `inputs`, each with a parameter name."""
        for node in itertools.chain.from_iterable(map(ast.walk, self._inputs.body)):
            if isinstance(node, ast.Call):
                method = getattr(node.func, "attr", "value")
                pairs = [(_NAMES.get(method, method), value) for value in node.args]
                pairs += [(keyword.arg or method, keyword.value) for keyword in node.keywords]
                yield from ((name, value) for name, value in pairs if isinstance(value, ast.Constant))

    def with_parameters(self, names: Mapping[ast.Constant, str]) -> str:
        """Print the module, with constants of `inputs` replaced by parameters and with the current defaults."""
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
    """Merge modules into one source text; definitions that differ are renamed, equal ones are kept once."""
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
