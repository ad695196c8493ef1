"""Queues that are filled by hand: one operation fills one, a queue runner runs it, one statement takes from it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import (
    COMPREHENSIONS,
    LOOPS,
    binds,
    only,
    own_nodes,
    parts_of,
    reads,
    target_of,
    walk,
)
from seqrecorder.legacy.migrate.analyze.effects import effects_of
from seqrecorder.legacy.migrate.analyze.names import QUEUES, RUNNERS, arguments
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.analyze.stages import Batch, bound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope
    from seqrecorder.legacy.migrate.analyze.names import Names

TAKING = ("dequeue", "dequeue_many", "dequeue_up_to")
"""Methods of queues that take out."""


@attrs.frozen(eq=False)
class FilledQueue:
    """A queue that is filled by hand, and what is taken from it.

    Attributes:
        name: of the queue.
        made: the assignments that make it: one, or one in each branch of a condition.
        kinds: of the queue, in the same order.
        filling: the statement that makes the operation that puts in.
        put: what is put in.
        taken: the statement that takes out.
        call: that takes out.
        gone: all statements that only make, fill and run the queue.
        many: whether what is put in are several elements.
    """

    name: str
    made: list[ast.Assign]
    kinds: list[str]
    filling: ast.stmt
    put: ast.expr
    taken: ast.Assign | ast.Return
    call: ast.Call
    gone: list[ast.stmt]
    many: bool

    @property
    def verb(self) -> str:
        """The name of the method that takes out."""
        return self.call.func.attr if isinstance(self.call.func, ast.Attribute) else ""


def filled_queues(scope: Scope, names: Names) -> Iterator[FilledQueue]:
    """Yield the queues of a scope that are filled by one operation and taken from by one statement."""
    for name, assigned, uses in _queues(scope, names):
        queue = _filled(scope, names, name, assigned, uses)
        if isinstance(queue, FilledQueue):
            yield queue


def not_filled(scope: Scope, names: Names) -> str:
    """Return why a queue of a scope is not simply filled and taken from."""
    found = [_filled(scope, names, *queue) for queue in _queues(scope, names)]
    for each in sorted(found, key=lambda each: isinstance(each, FilledQueue)):
        if isinstance(each, FilledQueue):
            return f"what {each.name} gives is of no record that is read here, or is not told, or records go by it"
        return each
    return "other functions, or objects, have a part in it"


def _queues(scope: Scope, names: Names) -> Iterator[tuple[str, list[ast.Assign], list[ast.Name]]]:
    """Yield the queues of a scope: their names, the statements that make them, and their uses."""
    made: dict[str, list[ast.Assign]] = {}
    for node in only(ast.Assign, own_nodes(scope)):
        if names.called(node.value) in QUEUES and isinstance(target := target_of(node), ast.Name):
            made.setdefault(target.id, []).append(node)
    flow = reaching(scope)
    for name, several in made.items():
        each = several
        while each:  # those of one name that have no use in common
            first, *others = each
            uses = flow.uses([first], name)
            same = [first, *(other for other in others if set(flow.uses([other], name)) & set(uses))]
            yield name, same, flow.uses(same, name)
            each = [other for other in others if other not in same]


def _filled(
    scope: Scope, names: Names, name: str, assigned: list[ast.Assign], uses: list[ast.Name]
) -> FilledQueue | str:
    """Return a queue and what is done to it; in words where that is more than to fill it, and to take from it."""
    puts, takes = _calls(scope, uses, ("enqueue", "enqueue_many")), _calls(scope, uses, TAKING)
    calls = only(ast.Call, own_nodes(scope))
    runners = [n for n in calls if names.called(n) == "tf.train.QueueRunner" and {*n.args[:1]} & {*uses}]
    for said, found in (("filled by", puts), ("taken from by", takes), ("run by", runners)):
        if len(found) != 1:
            return f"{name} is {said} {len(found) or 'no'} operations of this function"
    known = {id(node) for call in (*puts, *takes, *runners) for node in walk(call)}
    if other := next((use for use in uses if id(use) not in known), None):
        return f"{name} is used beside what fills it, and what takes from it, on line {other.lineno}"
    if len(uses) != 3 or len(puts[0].args) != 1:  # noqa: PLR2004 - to put, to take and to run
        return f"what is put into {name} is not one argument"
    if any(reaching(scope).of(use) - {*assigned} for use in uses):
        return f"{name} may be another queue where it is used"
    [put], [take], [runner] = puts, takes, runners
    taken = _statement_of(scope, take)
    others = [
        n for n in only(ast.Assign, own_nodes(scope)) if getattr(target_of(n), "id", "") == name and n not in assigned
    ]
    unused = [n for n in others if isinstance(n.value, ast.Constant) and not reaching(scope).uses([n], name)]
    gone: list[ast.stmt] = [*assigned, *unused]
    if not isinstance(taken, (ast.Assign, ast.Return)) or taken.value is not take:
        return f"what is taken from {name} is not simply assigned"
    effects = effects_of(names)
    given = [put.args[0], *(part for made in assigned for part in _staying(made.value, names))]
    if late := {each for node in given for each in effects.between(scope, node, node.end_lineno or 0, taken.lineno)}:
        return f"{', '.join(sorted(late))}: put into {name}, and changed before it is taken from"
    if odd := _oddly_put(scope, put):
        return f"{name} is {odd}"
    if not all(_go(scope, names, inner, gone) for inner in (put, runner)):
        return f"the operation that fills {name}, or its runner, is used for more than that"
    kinds = [names.called(node.value) or "" for node in assigned]
    many = isinstance(put.func, ast.Attribute) and put.func.attr == "enqueue_many"
    return FilledQueue(name, assigned, kinds, _statement_of(scope, put), put.args[0], taken, take, gone, many)


def batches_of_queues(scope: Scope, names: Names) -> Iterator[tuple[Batch, list[ast.AST]]]:
    """Yield the batches that are taken from queues that are filled by hand, and the expressions that belong to each."""
    for queue in filled_queues(scope, names):
        if len(queue.made) != 1 or queue.verb == "dequeue" or len(queue.call.args) != 1:
            continue
        [made], [kind] = queue.made, queue.kinds
        if isinstance(made.value, ast.Call):
            arguments = bound(made.value, kind)
            given = {
                **arguments.given,
                "tensors": queue.put,
                "batch_size": queue.call.args[0],
                "allow_smaller_final_batch": ast.Constant(queue.verb == "dequeue_up_to"),
                "enqueue_many": ast.Constant(queue.many),
            }
            parts = [node for gone in queue.gone for _, node in names.mentions(gone, frozenset({kind, *RUNNERS}))]
            yield Batch(queue.taken, kind, attrs.evolve(arguments, given=given), tuple(queue.gone)), parts


def _calls(scope: Scope, queue: list[ast.Name], verbs: tuple[str, ...]) -> list[ast.Call]:
    calls = [(n, n.func) for n in only(ast.Call, own_nodes(scope)) if isinstance(n.func, ast.Attribute)]
    return [call for call, func in calls if func.attr in verbs and func.value in queue]


def _staying(made: ast.expr, names: Names) -> list[ast.expr]:
    """Return what stays of the call that makes a queue once that has gone: how large it is, and how it shuffles."""
    given = arguments(made, names.called(made) or "") if isinstance(made, ast.Call) else None
    if given is None:
        return [made]
    return [value for name in ("capacity", "min_after_dequeue", "seed") if (value := given[name]) is not None]


def _oddly_put(scope: Scope, put: ast.Call) -> str:
    """Return what else than tensors, once, is put in: numbers, which become tensors, or what rounds of a loop make."""
    around = [loop for loop in own_nodes(scope) if isinstance(loop, LOOPS) and put in walk(loop)]
    if any(not isinstance(loop, COMPREHENSIONS) or binds(loop) & reads(put) for loop in around):
        return "filled in a loop"
    numbers = (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp)
    return "given numbers" if any(isinstance(item, numbers) for item in parts_of(put.args[0])) else ""


def _registers(call: ast.expr, names: Names) -> bool:
    """Whether a call lets sessions know of a queue runner."""
    if not isinstance(call, ast.Call) or names.called(call) != "tf.add_to_collection":
        return names.called(call) == "tf.train.add_queue_runner"
    place = call.args[0] if len(call.args) == 2 else call  # noqa: PLR2004 - a collection, and what is added
    return names.resolve(place) == "tf.GraphKeys.QUEUE_RUNNERS" or ast.unparse(place) == "'queue_runners'"


def _statement_of(scope: Scope, inner: ast.AST) -> ast.stmt:
    """Return the innermost statement that an expression stands in."""
    return [n for n in only(ast.stmt, own_nodes(scope)) if inner in walk(n)][-1]


def _go(scope: Scope, names: Names, inner: ast.AST, gone: list[ast.stmt]) -> bool:
    """Add the statement of an operation, and those of what it is called; False if one of them has to stay."""
    statement = _statement_of(scope, inner)
    if statement in gone:
        return True
    gone.append(statement)
    if isinstance(statement, ast.Expr):
        return _registers(statement.value, names)
    if not isinstance(target := target_of(statement), ast.Name):
        return False
    return all(_go(scope, names, use, gone) for use in reaching(scope).uses([statement], target.id))
