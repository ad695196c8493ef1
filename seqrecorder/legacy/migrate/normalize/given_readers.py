"""Readers and queues that callers give: the former are made where they read, the latter are marked."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import (
    arguments_of,
    binds,
    given_to,
    loads,
    only,
    own_nodes,
    scopes,
    target_of,
    walk,
)
from seqrecorder.legacy.migrate.analyze.names import BATCHERS, OF_QUEUES, PRODUCERS, QUEUES, Names
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.analyze.stages import GIVEN
from seqrecorder.legacy.migrate.normalize.readers import is_plain
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope


def readers_of_parameters(text: str) -> str:
    """Make a reader in the function that it is given to, if all callers give the same kind."""
    source = Source(text)
    names = Names(source.tree)
    for function in only(ast.FunctionDef, walk(source.tree)):
        for parameter in function.args.args:
            if edits := _inside(source, names, function, parameter):
                return readers_of_parameters(source.edited(edits))
    return text


def _inside(source: Source, names: Names, function: ast.FunctionDef, parameter: ast.arg) -> list[Edit]:
    """Return the edits by which a parameter goes that is a reader; none where that is not known of all calls."""
    attributes = [n for n in only(ast.Attribute, own_nodes(function)) if n.attr in ("read", "read_up_to")]
    reading = [n.value for n in attributes if isinstance(n.value, ast.Name) and n.value.id == parameter.arg]
    uses, given = loads(function, parameter.arg) if reading else [], function.args
    if len(uses) != 1 or given.defaults or not (calls := _calls(source, function, parameter)):
        return []
    if uses[0] not in reading or names.module_in(function) != names.module:
        return []
    edits, made = [_shorter(source, given.args, parameter)], set[str]()
    for scope, call in calls:
        given_one = _given(call, function, parameter, source)
        reader: ast.AST | None = given_one
        if isinstance(reader, ast.Name):
            before = [*reaching(scope).of(reader)]
            statement = before[0] if len(before) == 1 else None
            if not isinstance(statement, ast.Assign) or target_of(statement) is None or not source.alone(statement):
                return []
            if len(reaching(scope).uses([statement], reader.id)) != 1:
                return []
            edits += source.gone([statement])
            reader = statement.value
        if given_one is None or not is_plain(reader, names):
            return []
        made.add(source.segment(reader))
        item = next((k for k in call.keywords if k.value is given_one), given_one)
        edits.append(_shorter(source, [*call.args, *call.keywords], item))
    edits += source.replacing([(uses[0], made.pop())])
    known = [edit for edit in edits if edit is not None]
    lines = [number for edit in known for number in range(edit.first, edit.last + 1)]
    return known if not made and len(known) == len(edits) and len({*lines}) == len(lines) else []


def queues_given(text: str, elsewhere: AbstractSet[str] = frozenset()) -> str:
    """Mark the queues that callers give to functions which read from them and batch: they become datasets of files.

    Args:
        text: of the script.
        elsewhere: functions that other files call, which batch what these read.
    """
    source = Source(text)
    names = Names(source.tree)
    edits: list[Edit] = []
    for function in only(ast.FunctionDef, walk(source.tree)):
        called = {names.called(n) for n in own_nodes(function)}
        if not called & {*PRODUCERS}:
            known = function.name in elsewhere and function in source.tree.body
            if (known or called & {*BATCHERS, *QUEUES}) and (edit := _marked(source, names, function, known=known)):
                edits.append(edit)
    return source.edited(edits)


def _marked(source: Source, names: Names, function: ast.FunctionDef, *, known: bool) -> Edit | None:
    """Return the edit that marks the one parameter of a function that is a queue, None where there is no such."""
    for parameter in function.args.args:
        uses = loads(function, parameter.arg)
        place = next((s for s in function.body if uses and uses[0] in walk(s)), None)
        if place is None or len(uses) != 1 or not source.alone(place) or parameter.arg in binds(function):
            continue
        calls = _calls(source, function, parameter)
        queues = [(scope, _given(call, function, parameter, source)) for scope, call in calls]
        if (known and _reads(function, uses[0], source)) or any(_is_queue(queue, s, names) for s, queue in queues):
            return source.before(place, f"{source.indent(place)}{parameter.arg} = {GIVEN}({parameter.arg})")
    return None


def _reads(function: ast.FunctionDef, queue: ast.Name, source: Source) -> bool:
    """Whether a function reads from a queue, or gives it to a function of the script that does."""
    taking = [n for n in only(ast.Call, own_nodes(function)) if queue in arguments_of(n)]
    for call in list(taking):
        inner = [f for f in only(ast.FunctionDef, source.tree.body) if f.name == ast.unparse(call.func)]
        given = [(f, p) for f in inner for p in f.args.args if _given(call, f, p, source) is queue]
        uses = [use for f, parameter in given for use in loads(f, parameter.arg)]
        taking += [n for f in inner for n in only(ast.Call, own_nodes(f)) if {*uses} & {*n.args}]
    return any(getattr(call.func, "attr", "") in ("read", "read_up_to") for call in taking)


def _is_queue(value: ast.expr | None, scope: Scope, names: Names) -> bool:
    made = reaching(scope).of(value) if isinstance(value, ast.Name) else ()
    given = [each.value for each in made if isinstance(each, ast.Assign)]
    return any(names.called(each) in OF_QUEUES for each in given)


def _calls(source: Source, function: ast.FunctionDef, parameter: ast.arg) -> list[tuple[Scope, ast.Call]]:
    """Return the calls of a function with their scopes; none where it is used otherwise, or binds the parameter."""
    same = [n for n in only(ast.FunctionDef, walk(source.tree)) if n.name == function.name]
    kind, attribute = (ast.Name, "id") if function in source.tree.body else (ast.Attribute, "attr")
    named = [n for n in walk(source.tree) if isinstance(n, kind) and getattr(n, attribute) == function.name]
    calls = [(s, n) for s in scopes(source.tree) for n in only(ast.Call, own_nodes(s)) if n.func in named]
    bound = parameter.arg in {name for s in function.body for name in binds(s)}
    return [] if bound or len(same) > 1 or function.decorator_list or len(calls) != len(named) else calls


def _given(call: ast.Call, function: ast.FunctionDef, parameter: ast.arg, source: Source) -> ast.expr | None:
    """Return what a call gives to a parameter, None where that cannot be told."""
    return (given_to(function, call, method=function not in source.tree.body) or {}).get(parameter.arg)


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
