"""Readers that loops and callers give, in plainer words: made where they read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.batch_join import repetitions
from seqrecorder.legacy.migrate.analyze.data_flow import binds, loads, own_nodes, reads, scopes, walk, writes
from seqrecorder.legacy.migrate.analyze.names import READERS, Names
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.normalize.readers import is_plain
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope

MANY = "readers"
"""The argument of a read, in a script in plainer words, that says how many readers there are."""


def readers_of_loops(text: str) -> str:
    """Let `for reader in [Reader() for _ in range(n)]` be `for _ in range(n)`, with `reader = Reader()` inside."""
    source = Source(text)
    names = Names(source.tree)
    for scope in scopes(source.tree):
        for loop in own_nodes(scope):
            if isinstance(loop, ast.For) and (edits := _numbered(source, names, scope, loop)):
                return readers_of_loops(source.edited(edits))
    return text


def _numbered(source: Source, names: Names, scope: Scope, loop: ast.For) -> list[Edit]:
    made = reaching(scope).of(loop.iter) if isinstance(loop.iter, ast.Name) else frozenset[ast.AST]()
    listing = next(iter(made)) if len(made) == 1 else None
    value: ast.AST = loop.iter
    if isinstance(loop.iter, ast.Name):
        if not isinstance(listing, ast.Assign) or len(loads(scope, loop.iter.id)) != 1 or not source.alone(listing):
            return []
        value = listing.value
    if not isinstance(value, ast.ListComp) or len(value.generators) != 1 or not isinstance(loop.target, ast.Name):
        return []
    [generator], first = value.generators, loop.body[0]
    if generator.ifs or not is_plain(value.elt, names) or first.lineno == loop.lineno or not source.alone(first):
        return []
    counted = reads(generator.iter)
    inside = {id(n) for n in walk(value)}
    same = {n.id for n in own_nodes(scope) if isinstance(n, ast.Name) and id(n) not in inside}
    stored = [n for n in own_nodes(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    later = [n for n in stored if n.id in counted and value.lineno < n.lineno < loop.lineno]
    if later or binds(generator.target) & same - {"_"}:
        return []  # what is counted may be another number then, or the number another variable
    header = f"for {source.segment(generator.target)} in {source.segment(generator.iter)}:"
    edits = [Edit(loop.lineno, source.span(first)[0] - 1, (
        source.indent(loop) + header,
        f"{source.indent(first)}{loop.target.id} = {source.segment(value.elt)}",
    ))]  # fmt: skip
    return edits + ([Edit(*source.span(listing), ())] if isinstance(listing, ast.stmt) else [])


# Parameters -----------------------------------------------------------------------------------------------------------


def readers_of_parameters(text: str) -> str:
    """Make a reader in the function that it is given to, if all callers give the same kind."""
    source = Source(text)
    names = Names(source.tree)
    for function in scopes(source.tree):
        for parameter in function.args.args if isinstance(function, ast.FunctionDef) else ():
            if isinstance(function, ast.FunctionDef) and (edits := _inside(source, names, function, parameter)):
                return readers_of_parameters(source.edited(edits))
    return text


def _inside(source: Source, names: Names, function: ast.FunctionDef, parameter: ast.arg) -> list[Edit]:
    """Return the edits by which a parameter goes that is a reader; none where that is not known of all calls."""
    uses, given = loads(function, parameter.arg), function.args
    reading = [n for n in own_nodes(function) if isinstance(n, ast.Attribute) and n.attr in ("read", "read_up_to")]
    same = [n for n in walk(source.tree) if isinstance(n, ast.FunctionDef) and n.name == function.name]
    kind, attribute = (ast.Name, "id") if function in source.tree.body else (ast.Attribute, "attr")
    named = [n for n in walk(source.tree) if isinstance(n, kind) and getattr(n, attribute) == function.name]
    calls = [(s, n) for s in scopes(source.tree) for n in own_nodes(s) if isinstance(n, ast.Call) and n.func in named]
    bound = parameter.arg in {name for s in function.body for name in binds(s)}
    if len(uses) != 1 or bound or len(same) > 1 or not calls or len(calls) != len(named) or given.defaults:
        return []
    if not any(each.value is uses[0] for each in reading) or names.module_in(function) != names.module:
        return []
    edits, made = [_shorter(source, given.args, parameter)], set[str]()
    for scope, call in calls:
        value = _given(call, [each.arg for each in given.args][kind is ast.Attribute :], parameter.arg)
        reader: ast.AST | None = value.value if isinstance(value, ast.keyword) else value
        if isinstance(reader, ast.Name):
            before = [*reaching(scope).of(reader)]
            statement = before[0] if len(before) == 1 else None
            if not isinstance(statement, ast.Assign) or len(reaching(scope).uses([statement], reader.id)) != 1:
                return []
            if len(statement.targets) != 1 or not source.alone(statement):
                return []
            edits.append(Edit(*source.span(statement), ()))
            reader = statement.value
        if value is None or not is_plain(reader, names):
            return []
        made.add(source.segment(reader) if reader is not None else "")
        edits.append(_shorter(source, [*call.args, *call.keywords], value))
    use = uses[0]
    line = source.substituted(use.lineno, [(use, made.pop())])
    edits.append(Edit(use.lineno, use.lineno, (line,)))
    known = [edit for edit in edits if edit is not None]
    lines = [number for edit in known for number in range(edit.first, edit.last + 1)]
    return known if not made and len(known) == len(edits) and len({*lines}) == len(lines) else []


def _given(call: ast.Call, parameters: Sequence[str], name: str) -> ast.expr | ast.keyword | None:
    """Return what a call gives to a parameter, None where that cannot be told."""
    if any(isinstance(item, ast.Starred) for item in call.args) or any(k.arg is None for k in call.keywords):
        return None
    found = dict(zip(parameters, call.args, strict=False))
    return found.get(name) or next((keyword for keyword in call.keywords if keyword.arg == name), None)


def _shorter(source: Source, items: Sequence[ast.AST], gone: ast.AST) -> Edit | None:
    """Return the edit by which one of several things with commas between them goes, None where lines end there."""
    places = [(n.lineno, n.col_offset, n.end_lineno, n.end_col_offset) for n in items]  # type: ignore[attr-defined]
    at = [*items].index(gone)
    line, start, last_line, end = places[at]
    if at + 1 < len(places) and places[at + 1][0] == last_line == line:
        end = places[at + 1][1]
    elif at and places[at - 1][2] == last_line == line:
        start = places[at - 1][3]
    elif len(places) > 1 or line != last_line:
        return None
    said = source.lines[line - 1].encode()
    return Edit(line, line, ((said[:start] + said[end:]).decode(),))


# Queues that loops fill -----------------------------------------------------------------------------------------------


def readers_of_queues(text: str) -> str:
    """Let a loop that reads into a queue once for each reader read once, with as many readers."""
    if "enqueue" not in text:
        return text
    source = Source(text)
    names = Names(source.tree)
    for scope in scopes(source.tree):
        for loop in own_nodes(scope):
            if isinstance(loop, ast.For) and (edits := _once(source, names, scope, loop)):
                return readers_of_queues(source.edited(edits))
    return text


def _once(source: Source, names: Names, scope: Scope, loop: ast.For) -> list[Edit]:
    *body, last = loop.body
    call = last.value if isinstance(last, ast.Expr) else None
    count = repetitions(loop.iter)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
        return []
    listed, operation = call.func.value, call.args[0] if len(call.args) == 1 else None
    put = operation.func if isinstance(operation, ast.Call) else None
    if not isinstance(listed, ast.Name) or not isinstance(put, ast.Attribute) or put.attr != "enqueue" or count is None:
        return []
    made = [*reaching(scope).of(listed)]
    empty = made[0] if len(made) == 1 else None
    if not isinstance(empty, ast.Assign) or ast.unparse(empty) != f"{listed.id} = []" or not source.alone(empty):
        return []
    plain = all(isinstance(s, ast.Assign) and source.alone(s) for s in body) and source.alone(last)
    bound = {name for s in body for name in writes(s)}
    inner = [name for n, s in enumerate(body) for name in reads(s) & bound - {w for b in body[:n] for w in writes(b)}]
    inside = walk(loop)
    later = [u for s in (loop, *body) for name in binds(s) for u in reaching(scope).uses([s], name) if u not in inside]
    taken = binds(loop.target) & {name for s in loop.body for name in reads(s)}
    if not plain or inner or later or taken or reads(count) & bound or loop.orelse or body[0].lineno == loop.lineno:
        return []
    reading = [n for s in body for n in walk(s) if isinstance(n, ast.Call) and ast.unparse(n.func).endswith(".read")]
    own = any(names.called(n) in READERS for s in body for n in walk(s))
    indent, lines = source.indent(loop), list[str]()
    if len(reading) != 1 or len(reading[0].args) != 1 or reading[0].keywords:
        return []
    for statement in body:
        several = f"{source.segment(reading[0].args[0])}, {MANY}={source.segment(count)}"
        changed = [(reading[0].args[0], several)] if own and reading[0] in walk(statement) else []
        lines += source.moved(statement, indent, changed)
    lines.append(f"{indent}{listed.id} = [{source.segment(operation) if operation else ''}]")
    return [Edit(*source.span(empty), ()), Edit(loop.lineno, loop.end_lineno or loop.lineno, tuple(lines))]
