"""Functions that take a queue of file names and return the tensors of one record."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import (
    binds,
    called_as,
    given_to,
    only,
    own_nodes,
    reads,
    target_of,
    walk,
)
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.analyze.stages import check_only, mentions_of
from seqrecorder.legacy.migrate.analyze.structure import of_returns
from seqrecorder.legacy.migrate.source import Edit
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seqrecorder.legacy.migrate.analyze.names import Names
    from seqrecorder.legacy.migrate.analyze.stages import Read, Stages
    from seqrecorder.legacy.migrate.analyze.structure import Structure
    from seqrecorder.legacy.migrate.source import Source


@attrs.frozen(eq=False)
class Helper:
    """`def read_and_decode(filename_queue): ...`, which becomes a function of one serialized record.

    Attributes:
        function: the definition.
        called: how it is called, such as `read_and_decode` or `self.read`.
        read: where it reads.
        parameter: the one that is the queue.
        position: of the parameter, among the arguments of a call.
        structure: what it returns; None where that cannot be told.
        names: of the parameters that take the queue's place.
        known: constants that the reader depends on, by name.
    """

    function: ast.FunctionDef
    called: str
    read: Read
    parameter: ast.arg
    position: int
    structure: Structure | None
    names: tuple[str, ...]
    known: dict[str, Any]

    @property
    def note(self) -> str:
        """What callers in other files have to know."""
        taken = "one serialized record" if len(self.names) == 1 else "the key and the data of one record"
        said = f"{self.function.name} takes {taken} for its parameter {self.parameter.arg!r}, which was a queue"
        return f"{said}: callers in other files have to follow"

    def argument(self, call: ast.Call) -> ast.expr | None:
        """Return what a call gives for the queue by its position, None for all else."""
        if any(isinstance(item, ast.Starred) for item in call.args) or self.position >= len(call.args):
            return None
        return call.args[self.position]

    def given(self, call: ast.Call) -> dict[str, ast.expr]:
        """Return what a call, or a default, gives for the parameters."""
        parameters = [*self.function.args.posonlyargs, *self.function.args.args]
        defaults = self.function.args.defaults
        found = {p.arg: value for p, value in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True)}
        return found | (given_to(self.function, call, method=self.called.startswith("self.")) or {})

    def reader_parts(self) -> list[ast.expr]:
        """Return the expressions that the reader takes."""
        return [*self.read.reader.arguments.given.values(), *([self.read.up_to] if self.read.up_to else [])]


def as_helper(stages: Stages, tree: ast.Module, names: Names) -> Helper | None:
    """Return the helper that a scope is, None where it is none.

    Raises:
        Unclear: it is one, but cannot become a function of a record.
    """
    function = stages.scope
    if stages.producers or stages.batches or len(stages.reads) != 1 or not isinstance(function, ast.FunctionDef):
        return None
    read = stages.reads[0]
    parameters = [*function.args.posonlyargs, *function.args.args]
    given = [p for p in parameters if isinstance(read.queue, ast.Name) and p.arg == read.queue.id]
    called = called_as(function, tree)
    if not given or called is None:
        return None
    [parameter] = given
    local = {name for node in function.body for name in binds(node)}
    known = _constants(function, read.statement)
    for part in (*read.reader.arguments.given.values(), *([read.up_to] if read.up_to else [])):
        if reads(part) & local - set(known):
            raise Unclear("helper-local", "the reader depends on what the function has computed", part)
    if sum(n.id == parameter.arg for n in only(ast.Name, walk(function))) != 1:
        raise Unclear("queue-used", "the queue is used for more than reading", read.statement)
    check_reader(read, tree, stages)
    new = (read.value,) if read.key is None else (read.key, read.value)
    if {p.arg for p in parameters} & set(new) or read.statement not in function.body:
        raise Unclear("read-elsewhere", "the read stands under a condition, or rebinds a parameter", read.statement)
    position = parameters.index(parameter) - called.startswith("self.")
    return Helper(function, called, read, parameter, position, of_returns(function, names), new, known)


def _constants(function: ast.FunctionDef, before: ast.stmt) -> dict[str, Any]:
    """Return the variables of a function that are numbers known from its text, at one of its statements."""
    known: dict[str, Any] = {}
    for statement in function.body[: function.body.index(before) if before in function.body else 0]:
        if not isinstance(statement, ast.Assign) or (target := target_of(statement)) is None:
            continue
        value = statement.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = [*zip(target.elts, value.elts, strict=True)]
        found = {ast.unparse(name): _number(given, known) for name, given in pairs}
        known = {name: number for name, number in (known | found).items() if number is not None}
    return known


_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}


def _number(node: ast.expr, known: dict[str, Any]) -> int | None:
    match node:
        case ast.Constant(int(value)):
            return value
        case ast.BinOp(left, operation, right) if type(operation) in _ARITHMETIC:
            sides = [_number(side, known) for side in (left, right)]
            return None if None in sides else int(_ARITHMETIC[type(operation)](*sides))
    return known.get(ast.unparse(node))


def check_reader(read: Read, tree: ast.Module, stages: Stages) -> None:
    """Raise `Unclear` where a reader that is to go is used for more than its read."""
    made = read.reader.statement
    if made is None:
        return
    target = made.targets[0]
    if isinstance(target, ast.Name):
        choices = [each.statement for each in read.choices if each.statement is not None] or [made]
        flow = reaching(stages.scope) if stages.beside else stages  # beside others, it may read for them too
        named = flow.uses(choices, target.id)
        if any(stages.others_of(use, choices) for use in named):
            raise Unclear("reader-used", "the reader may be another one where it reads", made)
        uses = len(named)
    else:
        text = ast.unparse(target)
        loaded = [n for n in walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)]
        uses = sum(ast.unparse(node) == text for node in loaded)
    if uses != 1:
        raise Unclear("reader-used", "the reader is used for more than one read", made)


def check_uses(helper: Helper, names: Names, accounted: set[int], reads: set[int], lost: Mapping[str, str]) -> None:
    """Raise `Unclear` where a helper is used otherwise than by the pipelines that are rewritten.

    Args:
        helper: the function.
        names: of the script.
        accounted: ids of the names by which those call it.
        reads: ids of the expressions that belong to reads, whose name may be the method's.
        lost: why functions that other scripts call are not rewritten together with those.
    """
    known, tree = accounted | reads, names.bindings.tree
    if other := next(
        (node for node in mentions_of(helper.function, helper.called, names) if id(node) not in known), None
    ):
        raise Unclear("helper-used", f"{helper.function.name} is also used elsewhere, with a queue", other)
    if helper.called in lost or not any(id(node) in accounted for node in walk(tree)):
        said = lost.get(helper.called, "nothing in this file gives it a queue that is made here")
        raise Unclear("queue-from-elsewhere", said, helper.function)
    check_only(helper.function, tree)


def helper_edits(helper: Helper, source: Source) -> list[Edit]:
    """Return the edits that make a helper a function of one serialized record."""
    number, new = helper.parameter.lineno, ", ".join(helper.names)
    changed = Edit(number, number, (source.substituted(number, [(helper.parameter, new)]),))
    gone = [helper.read.statement]
    if helper.read.reader.statement is not None:
        gone.append(helper.read.reader.statement)
    edits = []
    target = helper.read.key_target
    for statement in gone:
        if not source.alone(statement):
            raise Unclear("one-line", "several statements stand on one line", statement)
        kept = statement is helper.read.statement and target is not None
        line = f"{source.indent(statement)}{ast.unparse(target)} = {helper.read.key}" if kept and target else ""
        edits.append(Edit.instead(statement, *[line] * kept))
    return [*edits, changed]


def calls_of(stages: Stages, helpers: Mapping[str, Helper]) -> list[tuple[Helper, ast.Call, list[ast.expr]]]:
    """Return the calls of helpers in a scope, and the expressions that name them there."""
    calls = [(call, _named(stages, call.func, helpers)) for call in only(ast.Call, stages.nodes())]
    return [(helpers[ast.unparse(named[-1])], call, [call.func, *named]) for call, named in calls if named]


def _named(stages: Stages, func: ast.expr, helpers: Mapping[str, Helper]) -> list[ast.expr]:
    """Return the names of helpers that a call may mean: one, or those that a variable may be."""
    if ast.unparse(func) in helpers:
        return [func]
    if not isinstance(func, ast.Name):
        return []
    assigned = [node for node in only(ast.Assign, own_nodes(stages.scope)) if func.id in binds(node)]
    values = [node.value for node in assigned if isinstance(node.targets[0], ast.Name)]
    wanted = [helpers.get(ast.unparse(value)) for value in values]
    kinds = {helper and (len(helper.names), helper.position, helper.structure) for helper in wanted}
    return values if len(kinds) == 1 and None not in kinds else []


def reader_of(helper: Helper) -> tuple[str, ...]:
    """Return what its reader is, by which two functions are told apart that read differently."""
    return helper.read.reader.kind, *map(ast.unparse, helper.reader_parts()), str(len(helper.names))
