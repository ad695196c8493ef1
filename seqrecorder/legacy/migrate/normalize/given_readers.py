"""Readers that callers give, in plainer words: made where they read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import binds, loads, own_nodes, scopes, walk
from seqrecorder.legacy.migrate.analyze.names import Names
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.normalize.readers import is_plain
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from collections.abc import Sequence


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
