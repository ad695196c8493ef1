"""Lists of examples for `batch_join` that both arms of a condition make, in plainer words: made once, behind it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.batch_join import Joined, joined
from seqrecorder.legacy.migrate.analyze.data_flow import binds, names_in, only, own_nodes, scopes, walk
from seqrecorder.legacy.migrate.analyze.names import BATCHERS, Names, arguments
from seqrecorder.legacy.migrate.source import Edit, Source
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from seqrecorder.legacy.migrate.analyze.data_flow import Scope


def lists_behind_arms(text: str) -> str:
    """Let `if c: l = [f(x) for _ in range(3)] else: l = [x]` be `if c: e = f(x) else: e = x`, and one list of `e`."""
    if "_join" not in text:
        return text
    source = Source(text)
    names = Names(source.tree)
    for scope in scopes(source.tree):
        for name in _joined_names(scope, names):
            for node in only(ast.If, own_nodes(scope)):
                if edits := _behind(source, scope, node, name):
                    return lists_behind_arms(source.edited(edits))
    return text


def _joined_names(scope: Scope, names: Names) -> set[str]:
    """Return the names of the lists that are joined in a scope."""
    calls = [(n, kind) for n in only(ast.Call, own_nodes(scope)) if (kind := names.called(n)) in BATCHERS]
    given = [found["tensors_list"] for call, kind in calls if kind and (found := arguments(call, kind)) is not None]
    return {examples.id for examples in given if isinstance(examples, ast.Name)}


def _behind(source: Source, scope: Scope, condition: ast.If, name: str) -> list[Edit]:
    """Return the edits by which a list is made behind a condition; none where its arms do not both just make it."""
    arms = [condition.body, condition.orelse]
    before = _emptied_before(scope, condition, name)
    made = [_made([*before, *arm] if before and not _sets(arm, name) else arm, name) for arm in arms]
    if any(isinstance(node, ast.Call) for node in walk(condition.test)) or None in made:
        return []
    lists = [each for each in made if each is not None]
    if not all(source.alone(s) for each in lists for s in each.extras):
        return []
    indent, test = source.indent(condition), source.segment(condition.test)
    counts = [source.segment(each.readers) if each.readers is not None else "1" for each in lists]
    count = counts[0] if counts[0] == counts[1] else f"{counts[0]} if {test} else {counts[1]}"
    taken = names_in(source.tree)
    example = next(each for each in ("example", "one_example", "joined_example") if each not in taken)
    same = ast.unparse(lists[0].example) == ast.unparse(lists[1].example)
    if same and all(arm == list(each.extras) for arm, each in zip(arms, lists, strict=True)):
        line = f"{indent}{name} = [{source.segment(lists[0].example)} for _ in range({count})]"
        return [Edit(*source.span(condition), (line,)), *source.gone(before)]
    edits = source.gone(before)
    for each in lists:
        last = each.extras[-1]
        made_in = last if each.loop is None else each.loop
        lines = [f"{source.indent(made_in)}{example} = {source.segment(each.example)}"]
        if each.loop is not None:
            body = [s for s in each.loop.body if s is not last]
            lines = [line for s in body for line in source.moved(s, source.indent(each.loop))] + lines
        edits.append(Edit(*source.span(made_in), tuple(lines)))
        edits += source.gone(s for s in each.extras[:-1] if s not in before)
    return [*edits, Edit.behind(condition, f"{indent}{name} = [{example} for _ in range({count})]")]


def _sets(arm: list[ast.stmt], name: str) -> bool:
    return any(isinstance(s, ast.Assign) and name in binds(s) for s in arm)


def _emptied_before(scope: Scope, condition: ast.If, name: str) -> list[ast.stmt]:
    """Return the statement that makes a list empty before a condition whose arms fill it; none where they make it."""
    made = [n for n in only(ast.Assign, own_nodes(scope)) if name in binds(n)]
    return [s for s in made if len(made) == 1 and ast.unparse(s) == f"{name} = []" and s.lineno < condition.lineno]


def _made(arm: list[ast.stmt], name: str) -> Joined | None:
    """Return how an arm makes a list with its last statement, or with a loop that is its last."""
    last = arm[-1] if arm else None
    appended = last.value if isinstance(last, ast.Expr) else None
    used = [n for s in arm for n in only(ast.Name, walk(s)) if n.id == name]
    if isinstance(last, ast.Expr) and isinstance(appended, ast.Call) and len(appended.args) == 1 and len(arm) > 1:
        made = [s for s in arm if ast.unparse(s) == f"{name} = []"]
        one = len(made) == 1 and ast.unparse(appended.func) == f"{name}.append" and len(used) == len("[]")
        return Joined(appended.args[0], None, (*made, last)) if one else None
    taking = ast.parse(f"{name}").body[0]
    try:
        found = joined(ast.Module([*arm, taking], []), taking.value)  # type: ignore[attr-defined]
    except Unclear:
        return None
    return found if last in (found.extras[-1], found.loop) else None
