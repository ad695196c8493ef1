"""What one arm of a condition does to records before it batches them, in plainer words: before the condition."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import own_nodes, reads, scopes, walk, writes
from seqrecorder.legacy.migrate.analyze.names import BATCHERS, PIPELINE, Names, arguments
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from collections.abc import Sequence


def work_before_arms(text: str) -> str:
    """Let `if c: x = f(x); b = batch(x) else: b = batch(x)` be `if c: x = f(x)`, and then the condition again."""
    source = Source(text)
    names = Names(source.tree)
    for scope in scopes(source.tree):
        for node in own_nodes(scope):
            if isinstance(node, ast.If) and (edits := _parted(source, names, node)):
                return work_before_arms(source.edited(edits))
    return text


def _parted(source: Source, names: Names, condition: ast.If) -> list[Edit]:
    """Return the edits by which the work goes before a condition; none where it does not, or there is none."""
    arms = [condition.body, condition.orelse]
    batches = [[s for s in arm if _tensors(names, s) is not None] for arm in arms]
    plain = not any(isinstance(node, ast.Call) for node in walk(condition.test))
    if not plain or [len(found) for found in batches] != [1, 1] or condition.lineno != condition.test.lineno:
        return []
    works = [_work(names, arm, batch) for arm, [batch] in zip(arms, batches, strict=True)]
    moved = [statement for work in works or [] for statement in work or []]
    told = any(reads(condition.test) & writes(statement) for statement in moved)
    told = told or any(any(names.mentions(statement, PIPELINE)) for statement in moved)  # a pipeline of its own
    if not moved or None in works or told or not all(source.alone(statement) for statement in moved):
        return []
    indent, test = source.indent(condition), source.segment(condition.test)
    lines: list[str] = []
    for work, said in zip(works, (test, f"not ({test})"), strict=True):
        if work:
            lines.append(f"{indent}if {said}:")
            lines += [line for statement in work for line in source.moved(statement, source.indent(statement))]
    edits = [Edit(condition.lineno, condition.lineno - 1, tuple(lines))]
    return edits + [Edit(*source.span(statement), ()) for statement in moved]


def _work(names: Names, arm: Sequence[ast.stmt], batch: ast.stmt) -> list[ast.stmt] | None:
    """Return the statements of an arm that make what it batches; None where they hang on others of the arm."""
    before = arm[: arm.index(batch)]
    tensors = _tensors(names, batch)
    wanted = reads(tensors) if tensors is not None else set[str]()
    found: list[ast.stmt] = []
    for statement in reversed(before):
        if writes(statement) & wanted:
            found.insert(0, statement)
            wanted |= reads(statement)
    rest = [statement for statement in before if statement not in found]
    changed = {name for statement in rest for name in writes(statement)}
    return None if changed & {name for statement in found for name in reads(statement) | writes(statement)} else found


def _tensors(names: Names, statement: ast.stmt) -> ast.expr | None:
    """Return what a statement batches, None where it does not."""
    call = statement.value if isinstance(statement, (ast.Assign, ast.Return)) else None
    kind = names.called(call)
    given = arguments(call, kind) if isinstance(call, ast.Call) and kind in BATCHERS and kind is not None else None
    return given["tensors"] if given is not None else None
