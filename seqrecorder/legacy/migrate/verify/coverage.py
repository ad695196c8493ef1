"""Which lines of a script's functions ran while they were tried: what did not run was not compared."""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope

_SILENT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
_IDLE_CALLS = ("print", "os.mkdir", "os.makedirs", "tf.gfile.MakeDirs")
_IDLE = (ast.Pass, ast.Raise, ast.Break, ast.Continue)


@contextlib.contextmanager
def lines_run(place: str, ran: set[int]) -> Iterator[None]:
    """Add the lines of one file that run meanwhile, in this thread.

    Args:
        place: the file's name, as its code was compiled with.
        ran: the lines, to which more come.
    """

    def inside(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            ran.add(frame.f_lineno)
        return inside

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: inside if frame.f_code.co_filename == place else None)
    try:
        yield
    finally:
        sys.settrace(before)


def lines_left(old: ast.Module, new: ast.Module, ran: set[int]) -> list[int]:
    r"""Return the lines of statements that did not run, of functions that did, and that do something else now.

    Those are the functions whose text has changed, and those that are mapped over records now. In them, what no batch
    hangs on is not counted: blocks that end by raising an error, and statements that only print or log.

    >>> old = ast.parse('''
    ... def f(x):
    ...     if x is None:
    ...         raise ValueError
    ...     if x:
    ...         return tf.train.batch([x], 3)
    ...     return x
    ... def g(x):
    ...     return 1 if x else 2
    ... ''')
    >>> new = ast.parse("def f(x):\n  return x\ndef g(x):\n  return 1 if x else 2")
    >>> lines_left(old, new, {3, 5, 7})
    [6]
    """
    left: set[int] = set()
    concerned = _concerned(old, new)
    for name, function in functions_of(old):
        own = {node.lineno for node in _statements(function.body)}
        left |= own - ran - _never(old, function) if own & ran and name in concerned else set()
    return sorted(left)


def _never(tree: ast.Module, function: ast.FunctionDef) -> set[int]:
    """Return the lines of a function for itself alone, `_named` so, that no call of the script comes to.

    Those are the arms of conditions on a parameter for which all calls give constants.
    """
    named = [node for node in ast.walk(tree) if function.name in (getattr(node, "id", ""), getattr(node, "attr", ""))]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.func in named]
    plain = not any(isinstance(part, ast.Starred) for call in calls for part in call.args)
    if not function.name.startswith("_") or not calls or len(calls) < len(named) or not plain:
        return set()
    parameters = [parameter.arg for parameter in function.args.args]
    own = parameters[parameters[:1] == ["self"] :]
    given = [dict(zip(own, call.args, strict=False)) | {str(k.arg): k.value for k in call.keywords} for call in calls]
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    found: set[int] = set()
    for node in (node for node in ast.walk(function) if isinstance(node, ast.If)):
        test, arms = node.test, (node.orelse, node.body)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, arms = test.operand, arms[::-1]
        values = [call.get(test.id) if isinstance(test, ast.Name) and test.id not in stored else None for call in given]
        known = {bool(value.value) for value in values if isinstance(value, ast.Constant)}
        if len(known) == 1 and all(isinstance(value, ast.Constant) for value in values):
            never = arms[not known.pop()]
            found |= {line for s in never for line in range(s.lineno, (s.end_lineno or s.lineno) + 1)}
    return found


@functools.lru_cache(maxsize=8)
def _concerned(old: ast.Module, new: ast.Module) -> frozenset[str]:
    """Return the full names of functions that have changed, or that are called for single records now."""
    functions, before = functions_of(new), {name: ast.unparse(function) for name, function in functions_of(old)}
    changes = {name: function for name, function in functions if ast.unparse(function) != before.get(name)}
    changed = [*changes.values()]
    mapped = [f for name, f in changes.items() if name not in before]
    mapped_by_name = {
        name for f in changed for call in ast.walk(f)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "map"
        for argument in call.args for name in _names(argument)
    }  # fmt: skip
    chosen = [s.value for f in changed for s in ast.walk(f) if isinstance(s, ast.Assign) and _names(s) & mapped_by_name]
    found, waiting = set[str](), set().union(mapped_by_name, *map(_names, [*mapped, *chosen]))
    while waiting:
        found |= waiting
        waiting = set().union(*(_names(f) for _, f in functions if f.name in waiting)) - found
    return frozenset((*changes, *(name for name, f in functions_of(old) if f.name in found)))


def functions_of(tree: ast.AST, within: str = "") -> list[tuple[str, ast.FunctionDef]]:
    """Return the functions of a script with their names, before which those stand that they are inside of."""
    found: list[tuple[str, ast.FunctionDef]] = []
    for node in ast.iter_child_nodes(tree):
        inside = f"{within}{node.name}." if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else within
        found += [(inside[:-1], node)] if isinstance(node, ast.FunctionDef) else []
        found += functions_of(node, inside)
    return found


def scope_of(tree: ast.Module, name: str) -> Scope | None:
    """Return the function of a script that has a name, or the script itself for `<module>`."""
    return tree if name == "<module>" else dict(functions_of(tree)).get(name)


def _names(node: ast.AST) -> set[str]:
    """Return the names in an expression or a statement, those of attributes too."""
    named = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return named | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def _statements(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block that do something, those in statements of it too."""
    for statement in block:
        if not isinstance(statement, (*_SILENT, *_IDLE)) and not _says(statement):
            yield statement
        if not isinstance(statement, _SILENT):
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(statement, name, [])
                yield from _statements(inner) if inner and not isinstance(inner[-1], ast.Raise) else ()


def _says(statement: ast.stmt) -> bool:
    """Whether a statement is a text, or only prints, logs or makes a directory, and calls no function for that."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.Constant)
    calls = [ast.unparse(node.func) for given in value.args for node in ast.walk(given) if isinstance(node, ast.Call)]
    said = ast.unparse(value.func)
    return (said in _IDLE_CALLS or "logging." in said) and all(name in ("len", "str", "repr") for name in calls)


def in_words(lines: list[int]) -> str:
    """Return lines in words.

    >>> in_words([3]), in_words([3, 5, 6, 7])
    ('line 3', 'lines 3, 5-7')
    """
    runs = [list(run) for _, run in itertools.groupby(enumerate(lines), lambda item: item[1] - item[0])]
    parts = [str(run[0][1]) if len(run) == 1 else f"{run[0][1]}-{run[-1][1]}" for run in runs]
    return f"line{'s' * (len(lines) > 1)} {', '.join(parts)}"
