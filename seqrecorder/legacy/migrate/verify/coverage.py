"""Which lines of a script's functions ran while they were tried: what did not run was not compared."""

from __future__ import annotations

import ast
import contextlib
import itertools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SILENT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
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

    Those are the functions whose text has changed, and those that are mapped over records now; in them, what only
    raises an error is not counted.

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
    for function in _functions(old):
        own = {node.lineno for node in _statements(function.body)}
        left |= own - ran if own & ran and function.name in concerned else set()
    return sorted(left)


def _concerned(old: ast.Module, new: ast.Module) -> set[str]:
    """Return the names of functions that have changed, or that are called for single records now."""
    before = {function.name: ast.unparse(function) for function in _functions(old)}
    changed = [f for f in _functions(new) if ast.unparse(f) != before.get(f.name)]
    mapped = [f for f in changed if f.name not in before]
    mapped_by_name = {
        name for f in changed for call in ast.walk(f)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "map"
        for argument in call.args for name in _names(argument)
    }  # fmt: skip
    chosen = [s.value for f in changed for s in ast.walk(f) if isinstance(s, ast.Assign) and _names(s) & mapped_by_name]
    found, waiting = set[str](), set().union(mapped_by_name, *map(_names, [*mapped, *chosen]))
    while waiting:
        found |= waiting
        waiting = set().union(*(_names(f) for f in _functions(new) if f.name in waiting)) - found
    return {f.name for f in changed} | found


def _functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _names(node: ast.AST) -> set[str]:
    """Return the names in an expression or a statement, those of attributes too."""
    named = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return named | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def _statements(block: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block that do something, those in statements of it too."""
    for statement in block:
        text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not isinstance(statement, (*_SILENT, *_IDLE)) and not text:
            yield statement
        if not isinstance(statement, _SILENT):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, name, []))


def in_words(lines: list[int]) -> str:
    """Return lines in words.

    >>> in_words([3]), in_words([3, 5, 6, 7])
    ('line 3', 'lines 3, 5-7')
    """
    runs = [list(run) for _, run in itertools.groupby(enumerate(lines), lambda item: item[1] - item[0])]
    parts = [str(run[0][1]) if len(run) == 1 else f"{run[0][1]}-{run[-1][1]}" for run in runs]
    return f"line{'s' * (len(lines) > 1)} {', '.join(parts)}"
