"""Queues that are filled by hand: one operation fills one, a queue runner runs it, one statement takes batches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.migrate.flow import loads, own_nodes
from seqrecorder.migrate.names import QUEUES
from seqrecorder.migrate.stages import Batch, bound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqrecorder.migrate.flow import Scope
    from seqrecorder.migrate.names import Names


def filled_queues(scope: Scope, names: Names) -> Iterator[tuple[Batch, list[ast.AST]]]:
    """Yield the queues that one operation fills, a queue runner runs and one statement takes batches from.

    Besides each come the expressions that belong to it.
    """
    for node in own_nodes(scope):
        value = node.value if isinstance(node, ast.Assign) else None
        kind = names.called(value)
        if kind not in QUEUES or not isinstance(value, ast.Call) or not isinstance(node, ast.Assign):
            continue
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found = _filled(_Queue(scope, names, node, node.targets[0].id, kind), value)
            if found is not None:
                yield found


@attrs.frozen(eq=False)
class _Queue:
    scope: Scope
    names: Names
    statement: ast.Assign
    name: str
    kind: str

    def calls(self, *verbs: str) -> list[ast.Call]:
        """Return the calls of some methods of the queue."""
        return [
            node
            for node in own_nodes(self.scope)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in verbs
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == self.name
        ]

    def statement_of(self, inner: ast.AST) -> ast.stmt:
        """Return the innermost statement that an expression stands in."""
        holding = [n for n in own_nodes(self.scope) if isinstance(n, ast.stmt) and inner in ast.walk(n)]
        return holding[-1]


def _filled(queue: _Queue, made: ast.Call) -> tuple[Batch, list[ast.AST]] | None:
    put, taken = queue.calls("enqueue"), queue.calls("dequeue_many", "dequeue_up_to")
    runners = [n for n in own_nodes(queue.scope) if queue.names.called(n) == "tf.train.QueueRunner"]
    runners = [n for n in runners if isinstance(n, ast.Call) and n.args and _is_name(n.args[0], queue.name)]
    if len(put) != 1 or len(taken) != 1 or len(runners) != 1 or len(loads(queue.scope, queue.name)) != len("123"):
        return None
    statement = queue.statement_of(taken[0])
    whole = isinstance(statement, (ast.Assign, ast.Return)) and statement.value is taken[0]
    if (
        not whole
        or len(put[0].args) != 1
        or len(taken[0].args) != 1
        or not isinstance(statement, (ast.Assign, ast.Return))
    ):
        return None
    extras: list[ast.stmt] = [queue.statement]
    runner = runners[0]
    parts: list[ast.AST] = [made.func, *([runner.func] if isinstance(runner, ast.Call) else [])]
    for inner in (put[0], runner):
        if not _take_named(queue, inner, extras, parts):
            return None
    given_to = bound(made, queue.kind)
    given = {
        **given_to.given,
        "tensors": put[0].args[0],
        "batch_size": taken[0].args[0],
        "allow_smaller_final_batch": ast.Constant(_verb(taken[0]) == "dequeue_up_to"),
    }
    return Batch(statement, queue.kind, attrs.evolve(given_to, given=given), tuple(extras)), parts


def _take_named(queue: _Queue, inner: ast.AST, extras: list[ast.stmt], parts: list[ast.AST]) -> bool:
    """Add the statement of an operation, and those that use it by the name that it is given; False if one cannot go."""
    statement = queue.statement_of(inner)
    if statement not in extras:
        extras.append(statement)
    if isinstance(statement, ast.Expr):
        call = statement.value
        adding = isinstance(call, ast.Call) and queue.names.called(call) == "tf.train.add_queue_runner"
        parts += [call.func] if adding and isinstance(call, ast.Call) else []
        return adding
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    return all(_take_named(queue, use, extras, parts) for use in loads(queue.scope, statement.targets[0].id))


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _verb(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
