"""The list of examples that `batch_join` takes: one for each reader, all of which are made alike."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import binds, loads, own_nodes, reads, statements, walk, writes
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    if isinstance(examples, (ast.List, ast.ListComp, ast.BinOp)):
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
    if isinstance(value, (ast.ListComp, ast.BinOp)) or (isinstance(value, ast.List) and value.elts):
        calls = [n for n in own_nodes(scope) if isinstance(n, ast.Call) and ast.unparse(n.func).endswith("batch_join")]
        given = [item for call in calls for item in (*call.args, *(keyword.value for keyword in call.keywords))]
        if len(uses) != 1 and any(use not in given for use in uses):  # several batches may be of one each in arms
            raise Unclear("batch-join", "the list of examples is used for more than the batch", examples)
        return _written(value, (made[0],))
    loops = [node for node in own_nodes(scope) if isinstance(node, ast.For) and any(use in walk(node) for use in uses)]
    if not isinstance(value, ast.List) or len(uses) != 2 or len(loops) != 1:  # noqa: PLR2004 - to append, and to batch
        raise Unclear("batch-join", "the list of examples is not filled by one loop", examples)
    return _filled(scope, examples.id, loops[0], made[0])


def _written(value: ast.List | ast.ListComp | ast.BinOp, extras: tuple[ast.stmt, ...]) -> Joined:
    repeated, times = (value.left, value.right) if isinstance(value, ast.BinOp) else (value, None)
    if isinstance(repeated, ast.List):
        if len(repeated.elts) != 1 or (isinstance(value, ast.BinOp) and not isinstance(value.op, ast.Mult)):
            raise Unclear("batch-join", "the examples are written out one by one, and may differ", value)
        return Joined(repeated.elts[0], times, extras)
    if not isinstance(repeated, ast.ListComp) or times is not None:
        raise Unclear("batch-join", f"which examples are joined is not clear: {ast.unparse(value)}", value)
    generator = repeated.generators[0]
    count = repetitions(generator.iter)
    if len(repeated.generators) != 1 or generator.ifs or count is None:
        raise Unclear(
            "batch-join", f"how often examples are made is no range(n): {ast.unparse(generator).strip()}", value
        )
    _check_alike(generator.target, [repeated.elt])
    return Joined(repeated.elt, count, extras)


def _check_alike(target: ast.expr, made: Sequence[ast.AST]) -> None:
    """Raise `Unclear` where examples hang on the number of their reader."""
    if any(reads(node) & binds(target) for node in made):
        raise Unclear("batch-join", "the examples differ by the number of their reader", made[0])


def _filled(scope: Scope, name: str, loop: ast.For, made: ast.stmt) -> Joined:
    count = repetitions(loop.iter)
    appends = [s for s in loop.body if isinstance(s, ast.Expr) and ast.unparse(s.value).startswith(f"{name}.append(")]
    inside = walk(loop)
    later = [use for bound in binds(loop.target) for use in reaching(scope).uses([loop], bound) if use not in inside]
    if count is None or loop.orelse or len(appends) != 1 or later:
        raise Unclear("batch-join", "the loop over the readers is no plain one over range(n)", loop)
    call = appends[0].value
    if not isinstance(call, ast.Call) or len(call.args) != 1:
        raise Unclear("batch-join", "the examples are not all made alike", loop)
    uses = [use for bound in binds(loop) for use in loads(scope, bound) if use in inside]
    flow = reaching(scope)
    carried = next((n for n in uses if any(s in inside and not_before(s, n) for s in flow.of(n) - {loop})), None)
    kept = {name for s in loop.body if s is not appends[0] for name in writes(s)} - binds(loop)
    if carried is not None or kept:
        raise Unclear("batch-join", "the examples hang on those that were made before them", carried or loop)
    jumps = [s for s in statements(loop.body) if isinstance(s, (ast.Break, ast.Continue))]
    if jumps:
        raise Unclear("batch-join", "the loop over the readers is left early", jumps[0])
    _check_alike(loop.target, loop.body)
    return Joined(call.args[0], count, (made, appends[0]), loop)


def not_before(statement: ast.AST, use: ast.Name) -> bool:
    """Whether what a statement of a loop binds is used there in the next round."""
    last = statement.lineno if isinstance(statement, (ast.With, ast.For, ast.Try)) else statement.end_lineno  # type: ignore[attr-defined]
    return bool(last >= use.lineno)


def repetitions(iterated: ast.expr) -> ast.expr | None:
    """Return how often `range(n)` or `range(0, n)` repeats, None where that is not what is iterated over."""
    if not isinstance(iterated, ast.Call) or ast.unparse(iterated.func) not in ("range", "xrange"):
        return None
    *first, count = iterated.args or [iterated]
    return count if [ast.unparse(each) for each in first] in ([], ["0"]) and count is not iterated else None


def _holds(node: ast.stmt) -> bool:
    return isinstance(node, (ast.If, ast.With, ast.For, ast.While, ast.Try, ast.FunctionDef, ast.ClassDef))
