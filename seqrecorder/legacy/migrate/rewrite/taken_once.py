"""Whether what comes out of a queue is taken in one place only, so that it may be lifted there.

Who takes from one queue divides what is in it. Each lift gives all of it.
"""

from __future__ import annotations

import ast
from itertools import combinations
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import (
    LOOPS,
    calls_to,
    given_to,
    is_method,
    only,
    own_nodes,
    parts_of,
    walk,
)
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope

DIVIDED = "divided"


def check_once(
    tree: ast.Module, scope: Scope, feeding: Mapping[ast.Call, Iterable[tuple[ast.Call, str | None]]]
) -> None:
    """Check what is lifted in a scope.

    Args:
        tree: of the script.
        scope: in which tensors are lifted.
        feeding: for each call whose tensors are lifted, the calls that take what goes into them, with the queues.

    Raises:
        Unclear: several lifts, or one that is carried out several times, would give what one queue holds.
    """
    taken = {lifted: [(call, _known(scope, queue, call)) for call, queue in fed] for lifted, fed in feeding.items()}
    for one, other in combinations(taken, 2):
        same = {call for call, _ in taken[one]} & {call for call, _ in taken[other]}
        queues = {key for _, key in taken[one] if key} & {key for _, key in taken[other] if key}
        if (same or queues) and not either(scope, one, other):
            said = "what is read here goes to several, who divide it between them"
            raise Unclear(DIVIDED, said, max((one, other), key=lambda call: call.lineno))
    for lifted, fed in taken.items():
        for call, known in fed:
            if known is not None and not _once(tree, scope, lifted, *known):
                said = f"what is in {known[0]} is taken here several times, or, as far as this file says, may be"
                raise Unclear(DIVIDED, said, call)


def _known(scope: Scope, queue: str | None, before: ast.AST) -> tuple[str, ast.stmt | None] | None:
    """Return a queue by its name, with the statement of the scope that gives it that name last."""
    if queue is None:
        return None
    made = [s for s in only(ast.Assign, own_nodes(scope)) if s.lineno <= getattr(before, "lineno", 0)]
    made = [s for s in made if queue in [ast.unparse(part) for target in s.targets for part in parts_of(target)]]
    return queue, max(made, key=lambda statement: statement.lineno, default=None)


def either(scope: Scope, one: ast.AST, other: ast.AST) -> bool:
    """Whether at most one of two calls is carried out."""
    for node in only(ast.If, own_nodes(scope)):
        body, rest = ({n for part in block for n in walk(part)} for block in (node.body, node.orelse))
        for here, there in ((one, other), (other, one)):
            leaves = isinstance(node.body[-1], (ast.Return, ast.Raise)) and there not in body
            if here in body and (there in rest or leaves):
                return True
    return False


def _once(tree: ast.Module, scope: Scope, lifted: ast.Call, queue: str, made: ast.stmt | None) -> bool:
    """Whether a call whose tensors are lifted is carried out once for each queue that it takes from."""
    if made is not None:
        return not any(made not in walk(loop) for loop in _loops(scope, lifted))
    if isinstance(scope, ast.Module) or not queue.replace(".", "").isidentifier():
        return not any(True for _ in _loops(scope, lifted))
    calls, method = calls_to(tree, scope), is_method(scope, tree)
    own = f"self.{scope.name}" if method else scope.name
    called = {call.func for _, call in calls}
    named = (n for n in walk(tree) if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load))
    if any(ast.unparse(node) == own for node in named if node not in called):
        return False  # who is given it may call it several times
    names = [parameter.arg for parameter in (*scope.args.posonlyargs, *scope.args.args)]
    if not calls and queue in names:
        return True  # other scripts call it, who are asked whether they do so once
    if not calls or any(True for caller, call in calls for _ in _loops(caller, call)):
        return False
    if queue not in names:
        return len(calls) == 1
    given = [(c, call, (given_to(scope, call, method=method) or {}).get(queue)) for c, call in calls]
    keys = {(caller, _known(caller, ast.unparse(value), call)) for caller, call, value in given if value is not None}
    return len(keys) == len(calls)


def _loops(scope: Scope, node: ast.AST) -> Iterator[ast.AST]:
    return (loop for loop in own_nodes(scope) if isinstance(loop, LOOPS) and node in walk(loop))
