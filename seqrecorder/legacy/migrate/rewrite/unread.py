"""Lines that set what only queues took, their threads and sizes, say: they go with the queues."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import block_of, loads, only, own_nodes, scopes, target_of, walk
from seqrecorder.legacy.migrate.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope

_PLAIN = (ast.Constant, ast.Name, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Call)
_NUMBERS = {"int", "float", "len", "max", "min", "round"}
_LOOKING = {"locals", "vars", "eval", "exec", "dir"}


def without_unread(written: Source, old: ast.Module) -> Source:
    r"""Return a script without the numbers in its functions that nothing reads any more, and something did before.

    >>> old = "def f(n):\n    threads = 4\n    more = 2 * threads\n    g(more)\n    return n\n"
    >>> print(without_unread(Source(old.replace("    g(more)\n", "")), ast.parse(old)).text)
    def f(n):
        return n
    <BLANKLINE>

    Args:
        written: the script, rewritten.
        old: what it was.
    """
    before: dict[str, bool] = {}  # whether a line is read wherever it stands
    for scope, statement, name in _set(old):
        before[ast.dump(statement)] = before.get(ast.dump(statement), True) and bool(loads(scope, name))
    found = [*_set(written.tree)]
    for scope, _, name in found:
        same = [statement for other, statement, of in found if other is scope and of == name]
        spare = [s for s in same if before.get(ast.dump(s)) and written.alone(s) and len(block_of(scope, s)) > 1]
        if len(spare) == len(same) and not loads(scope, name):
            return without_unread(Source(written.edited(written.gone(same))), old)
    return written


def _set(tree: ast.Module) -> Iterator[tuple[Scope, ast.Assign, str]]:
    """Yield the statements that set a variable of a function to a number, or what is made of some, with its name."""
    for scope in scopes(tree):
        nodes = () if isinstance(scope, ast.Module) else own_nodes(scope)
        shared = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
        looked = any(isinstance(node, ast.Name) and node.id in _LOOKING for node in nodes)
        for statement in only(ast.Assign, () if looked else nodes):
            target, parts = target_of(statement), walk(statement.value)
            called = {ast.unparse(call.func) for call in only(ast.Call, parts)}
            plain = called <= _NUMBERS and all(isinstance(part, (*_PLAIN, ast.keyword)) for part in parts)
            if plain and isinstance(target, ast.Name) and target.id not in shared:
                yield scope, statement, target.id
