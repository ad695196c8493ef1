"""The list of examples that `batch_join` takes: one for each reader, all of which are made alike."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import binds, loads, own_nodes, reads, statements, walk
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from seqrecorder.legacy.migrate.analyze.data_flow import Scope


@attrs.frozen(eq=False)
class Joined:
    """How a list of examples is made.

    Attributes:
        example: the expression of one of them.
        readers: how many there are; None for one.
        extras: statements that only make the list.
        loop: that makes it; None where it is written as an expression.
    """

    example: ast.expr
    readers: ast.expr | None
    extras: tuple[ast.stmt, ...] = ()
    loop: ast.For | None = None


def joined(scope: Scope, examples: ast.expr | None) -> Joined:
    """Return how the list of examples is made that `batch_join` is given.

    Raises:
        Unclear: that cannot be told, or not all are made alike.
    """
    if isinstance(examples, (ast.List, ast.ListComp)):
        return _written(examples, ())
    if not isinstance(examples, ast.Name):
        raise Unclear("batch-join", "the list of examples is not made in this function", examples or scope)
    made = [
        node
        for node in own_nodes(scope)
        if isinstance(node, ast.stmt) and not _holds(node) and examples.id in binds(node)
    ]
    value = made[0].value if len(made) == 1 and isinstance(made[0], ast.Assign) else None
    if value is None or not isinstance(made[0].targets[0], ast.Name):  # type: ignore[attr-defined]
        raise Unclear("batch-join", "the list of examples is not made in one place of this function", examples)
    uses = loads(scope, examples.id)
    if isinstance(value, ast.ListComp) or (isinstance(value, ast.List) and value.elts):
        if len(uses) != 1:
            raise Unclear("batch-join", "the list of examples is used for more than the batch", examples)
        return _written(value, (made[0],))
    loops = [node for node in own_nodes(scope) if isinstance(node, ast.For) and any(use in walk(node) for use in uses)]
    if not isinstance(value, ast.List) or len(uses) != 2 or len(loops) != 1:  # noqa: PLR2004 - to append, and to batch
        raise Unclear("batch-join", "the list of examples is not filled by one loop", examples)
    return _filled(examples.id, loops[0], made[0])


def _written(value: ast.List | ast.ListComp, extras: tuple[ast.stmt, ...]) -> Joined:
    if isinstance(value, ast.List):
        if len(value.elts) != 1:
            raise Unclear("batch-join", "the examples are written out one by one, and may differ", value)
        return Joined(value.elts[0], None, extras)
    generator = value.generators[0]
    count = _count(generator.iter)
    varies = reads(value.elt) & binds(generator.target)
    if len(value.generators) != 1 or generator.ifs or count is None or varies:
        raise Unclear("batch-join", "the examples are not all made alike", value)
    return Joined(value.elt, count, extras)


def _filled(name: str, loop: ast.For, made: ast.stmt) -> Joined:
    count = _count(loop.iter)
    appends = [s for s in loop.body if isinstance(s, ast.Expr) and ast.unparse(s.value).startswith(f"{name}.append(")]
    varies = any(reads(statement) & binds(loop.target) for statement in loop.body)
    if count is None or loop.orelse or varies or len(appends) != 1:
        raise Unclear("batch-join", "the examples are not all made alike", loop)
    call = appends[0].value
    if not isinstance(call, ast.Call) or len(call.args) != 1:
        raise Unclear("batch-join", "the examples are not all made alike", loop)
    jumps = [s for s in statements(loop.body) if isinstance(s, (ast.Break, ast.Continue))]
    if jumps:
        raise Unclear("batch-join", "the loop over the readers is left early", jumps[0])
    return Joined(call.args[0], count, (made, appends[0]), loop)


def _count(iterated: ast.expr) -> ast.expr | None:
    """Return how often `range(n)` repeats, None where that is not what is iterated over."""
    plain = isinstance(iterated, ast.Call) and ast.unparse(iterated.func) in ("range", "xrange")
    return iterated.args[0] if isinstance(iterated, ast.Call) and plain and len(iterated.args) == 1 else None


def _holds(node: ast.stmt) -> bool:
    return isinstance(node, (ast.If, ast.With, ast.For, ast.While, ast.Try, ast.FunctionDef, ast.ClassDef))
