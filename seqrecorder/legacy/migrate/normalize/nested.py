"""Stages of a pipeline that stand inside of other expressions, in plainer words: each in a statement of its own."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import (
    COMPREHENSIONS,
    names_in,
    only,
    own_nodes,
    scopes,
    target_of,
    walk,
    writes,
)
from seqrecorder.legacy.migrate.analyze.names import BATCHERS, PRODUCERS, QUEUES, Names
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.normalize.filled_queues import TAKING
from seqrecorder.legacy.migrate.normalize.readers import is_read
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope

_LATER = (ast.Lambda, *COMPREHENSIONS, ast.IfExp, ast.BoolOp)
"""What may carry out its parts later, more than once, or not at all."""


def stages_by_themselves(text: str) -> str:
    """Let `batch(read(producer(files)))` be `queue = producer(files)`, `tensors = read(queue)`, `batch(tensors)`."""
    source = Source(text)
    names = Names(source.tree)
    functions = only(ast.FunctionDef, walk(source.tree))
    making = {f.name: f for f in functions if _makes(f, names)}
    several = [f.name for f in functions]
    reading = {f.name: own for f in functions if several.count(f.name) == 1 and (own := _read_from(f))}
    for scope in scopes(source.tree):
        for node in own_nodes(scope):
            if not isinstance(node, (ast.Assign, ast.Return, ast.Expr)) or node.value is None:
                continue
            if not source.alone(node) or writes(node.value):
                continue
            inner = _Inner(scope, names, making, reading)
            if found := next(inner.stages(node.value, whole=True), None):
                return stages_by_themselves(source.edited([_apart(source, node, *found)]))
    return text


def _makes(function: ast.FunctionDef, names: Names) -> bool:
    """Whether a function makes a queue, or what is read from one, and no batch."""
    called = {names.called(node) for node in own_nodes(function)}
    return bool(called & set(PRODUCERS)) and not called & set(BATCHERS)


def _read_from(function: ast.FunctionDef) -> str | None:
    """Return the first parameter of a function, if it reads from that, None where it does not."""
    given = [argument.arg for argument in function.args.args if argument.arg != "self"][:1]
    reads = [n for n in only(ast.Call, own_nodes(function)) if getattr(n.func, "attr", "").startswith("read")]
    return next((n.id for call in reads for n in only(ast.Name, call.args[:1]) if n.id in given), None)


class _Inner:
    """Finds stages inside of the expressions of one scope."""

    def __init__(self, scope: Scope, names: Names, making: dict[str, ast.FunctionDef], reading: dict[str, str]) -> None:
        self._scope, self._names, self._making, self._reading = scope, names, making, reading

    def stages(
        self, node: ast.AST, *, whole: bool = False, given: bool = False
    ) -> Iterator[tuple[ast.expr | ast.keyword, str, str]]:
        """Yield parts of an expression, the outer ones first, with the variables that they become and what sets those.

        Args:
            node: the expression, or a part of it.
            whole: whether it is the whole of a statement.
            given: whether it is given to what reads or batches.
        """
        if isinstance(node, _LATER):
            return
        called = self._names.called(node)
        function = ast.unparse(node.func).removeprefix("self.") if isinstance(node, ast.Call) else ""
        taken = _record_of(node)
        method = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if taken is not None and is_read(taken, self._scope, self._names):
            yield node, "record", "_, {} = "  # type: ignore[misc]
        elif method is not None and method.attr in TAKING and self._is_queue(method.value):
            if not whole:
                yield node, "element", "{} = "  # type: ignore[misc]
            return
        elif not whole and isinstance(node, ast.Call):
            name = "queue" if called in PRODUCERS else "batch" if called in BATCHERS else ""
            name = name or ("tensors" if given and function in self._making else "")
            if name:
                yield node, name, "{} = "
        if function in self._reading and isinstance(node, ast.Call) and node.keywords and not node.args:
            [first, *_] = node.keywords
            if first.arg == self._reading[function] and first.lineno == first.value.lineno:
                yield first, "", ""
        given = given or called in BATCHERS or function in self._reading or taken is not None
        for child in ast.iter_child_nodes(node):
            yield from self.stages(child, given=given or is_read(node, self._scope, self._names))

    def _is_queue(self, node: ast.expr) -> bool:
        """Whether an expression makes the queue of a producer, or is a variable that is a queue made here."""
        if not isinstance(node, ast.Name):
            return self._names.called(node) in PRODUCERS
        made = reaching(self._scope).of(node)
        return bool(made) and all(self._names.called(getattr(s, "value", None)) in {*PRODUCERS, *QUEUES} for s in made)


def _record_of(node: ast.AST) -> ast.expr | None:
    """Return `reader.read(queue)` in `reader.read(queue)[1]` and in `reader.read(queue).value`, None for all else."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "1":
        return node.value
    return node.value if isinstance(node, ast.Attribute) and node.attr == "value" else None


def _apart(
    source: Source,
    statement: ast.Assign | ast.Return | ast.Expr,
    inner: ast.expr | ast.keyword,
    name: str,
    setting: str,
) -> Edit:
    """Return the edit by which a part of a statement stands before it, or a keyword loses its name."""
    while name in names_in(source.tree):
        name += "_"
    indent, [lines] = source.indent(statement), [source.lines[statement.lineno - 1 : statement.end_lineno]]
    if isinstance(inner, ast.keyword):
        new, made = source.segment(inner.value), []
    else:
        new, made = name, [indent + setting.format(name) + source.segment(_record_of(inner) or inner)]
    if inner is statement.value and isinstance(target := target_of(statement), ast.Name):
        made = [indent + setting.format(target.id) + source.segment(_record_of(inner) or inner)]
        return Edit.instead(statement, *made)
    first, last = inner.lineno - statement.lineno, (inner.end_lineno or inner.lineno) - statement.lineno
    before = lines[first].encode()[: inner.col_offset].decode()
    after = lines[last].encode()[inner.end_col_offset :].decode()
    lines[first : last + 1] = [before + new + after]
    return Edit.instead(statement, *made, *lines)
