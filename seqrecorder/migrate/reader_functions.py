"""Functions that take a queue of file names and return the tensors of one record."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.migrate.flow import binds, loads, own_nodes, reads
from seqrecorder.migrate.source import Edit
from seqrecorder.migrate.stages import Unclear
from seqrecorder.migrate.structure import of_returns

if TYPE_CHECKING:
    from seqrecorder.migrate.names import Names
    from seqrecorder.migrate.source import Source
    from seqrecorder.migrate.stages import Read, Stages
    from seqrecorder.migrate.structure import Structure


@attrs.frozen(eq=False)
class Helper:
    """`def read_and_decode(filename_queue): ...`, which becomes a function of one serialized record.

    Attributes:
        function: the definition.
        read: where it reads.
        parameter: the one that is the queue.
        position: of the parameter.
        structure: what it returns; None where that cannot be told.
    """

    function: ast.FunctionDef
    read: Read
    parameter: ast.arg
    position: int
    structure: Structure | None

    def argument(self, call: ast.Call) -> ast.expr | None:
        """Return what a call gives for the queue by its position, None for all else."""
        if any(isinstance(item, ast.Starred) for item in call.args) or self.position >= len(call.args):
            return None
        return call.args[self.position]


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
    if not given or function not in tree.body:
        return None
    [parameter] = given
    if read.key is not None:
        raise Unclear("keys", "the function uses the key of the record, and gets the record alone", read.statement)
    local = {node.arg for node in parameters} | {name for node in function.body for name in binds(node)}
    for part in (*read.reader.arguments.given.values(), *([read.up_to] if read.up_to else [])):
        if reads(part) & local:
            raise Unclear("helper-local", "the reader depends on what the function has computed", part)
    uses = sum(isinstance(n, ast.Name) and n.id == parameter.arg for n in ast.walk(function))
    if uses != 1:
        raise Unclear("queue-used", "the queue is used for more than reading", read.statement)
    check_reader(read, tree)
    bound_before = [p for p in parameters if p.arg == read.value]
    if bound_before or read.statement not in function.body:
        raise Unclear("read-elsewhere", "the read stands under a condition, or rebinds a parameter", read.statement)
    return Helper(function, read, parameter, parameters.index(parameter), of_returns(function, names))


def check_reader(read: Read, tree: ast.Module) -> None:
    """Raise `Unclear` where a reader that is to go is used for more than its read."""
    made = read.reader.statement
    if made is None:
        return
    target = made.targets[0]
    if isinstance(target, ast.Name):
        scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and made in ast.walk(node)]
        uses = len(loads(scopes[-1] if scopes else tree, target.id))
    else:
        text = ast.unparse(target)
        loaded = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)]
        uses = sum(ast.unparse(node) == text for node in loaded)
    if uses != 1:
        raise Unclear("reader-used", "the reader is used for more than one read", made)


def check_uses(helper: Helper, tree: ast.Module, accounted: set[int]) -> None:
    """Raise `Unclear` where a helper is used otherwise than by the pipelines that are rewritten."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == helper.function.name and id(node) not in accounted:
            raise Unclear("helper-used", f"{helper.function.name} is also used elsewhere, with a queue", node)
    if not any(id(node) in accounted for node in ast.walk(tree)):
        raise Unclear("queue-from-elsewhere", "the queue comes from another module", helper.function)


def helper_edits(helper: Helper, source: Source) -> list[Edit]:
    """Return the edits that make a helper a function of one serialized record."""
    gone = [helper.read.statement]
    if helper.read.reader.statement is not None:
        gone.append(helper.read.reader.statement)
    edits = []
    for statement in gone:
        if not source.alone(statement):
            raise Unclear("one-line", "several statements stand on one line", statement)
        edits.append(Edit(statement.lineno, statement.end_lineno or statement.lineno, ()))
    number = helper.parameter.lineno
    return [*edits, Edit(number, number, (source.substituted(number, [(helper.parameter, helper.read.value)]),))]


def calls_of(stages: Stages, helpers: dict[str, Helper]) -> list[tuple[Helper, ast.Call]]:
    """Return the calls of helpers in a scope."""
    return [
        (helpers[node.func.id], node)
        for node in own_nodes(stages.scope)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in helpers
    ]
