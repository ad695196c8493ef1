"""Readers and queues that callers give, in plainer words: made in the function that reads and batches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import binds, block_of, loads, own_nodes, reads, scopes, walk, writes
from seqrecorder.legacy.migrate.analyze.names import BATCHERS, OF_QUEUES, SIGNATURES, Names, arguments
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.normalize.readers import is_plain
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope


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
    uses, given, calls = loads(function, parameter.arg), function.args, _calls(source, function, parameter)
    reading = [n for n in own_nodes(function) if isinstance(n, ast.Attribute) and n.attr in ("read", "read_up_to")]
    if len(uses) != 1 or not calls or given.defaults:
        return []
    if not any(each.value is uses[0] for each in reading) or names.module_in(function) != names.module:
        return []
    edits, made = [_shorter(source, given.args, parameter)], set[str]()
    for scope, call in calls:
        value = _given(call, function, parameter, source)
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


def queues_of_parameters(text: str) -> str:
    """Make a queue of files in the function that batches what it reads from it, if all callers make it alike for it."""
    source = Source(text)
    names = Names(source.tree)
    for function in scopes(source.tree):
        if isinstance(function, ast.FunctionDef) and any(names.called(n) in BATCHERS for n in own_nodes(function)):
            for parameter in function.args.args:
                if edits := _made_inside(source, names, function, parameter):
                    return queues_of_parameters(source.edited(edits))
    return text


def _made_inside(source: Source, names: Names, function: ast.FunctionDef, parameter: ast.arg) -> list[Edit]:
    """Return the edits by which a function is given files for a queue of them; none where that is not known."""
    uses, calls = loads(function, parameter.arg), _calls(source, function, parameter)
    taken = {n.id for n in walk(source.tree) if isinstance(n, ast.Name)} | {function.name}
    taken |= {n.arg for n in walk(source.tree) if isinstance(n, ast.arg)}
    files = next((name for name in ("filenames", "names_of_files") if name not in taken), None)
    place = next((s for s in function.body if any(use in walk(s) for use in uses)), None)
    if files is None or place is None or not calls or not source.alone(place):
        return []
    first, _ = source.span(place)
    edits = [Edit(parameter.lineno, parameter.lineno, (source.substituted(parameter.lineno, [(parameter, files)]),))]
    made = set[str]()
    for number, (scope, call) in enumerate(calls):
        value = _given(call, function, parameter, source)
        queue = value.value if isinstance(value, ast.keyword) else value
        user = next((s for s in own_nodes(scope) if isinstance(s, (ast.Assign, ast.Return)) and s.value is call), None)
        before = [*reaching(scope).of(queue)] if isinstance(queue, ast.Name) else []
        making = before[0] if len(before) == 1 else None
        if not isinstance(making, ast.Assign) or not isinstance(queue, ast.Name) or user is None or scope is function:
            return []
        kind = names.called(making.value)
        alone = len(reaching(scope).uses([making], queue.id)) == 1 and len(making.targets) == 1
        alone = alone and making in block_of(scope, user) and source.alone(making) and queue.lineno == call.lineno
        producer = making.value if isinstance(making.value, ast.Call) and kind in OF_QUEUES else None
        given = arguments(producer, kind) if producer is not None and kind is not None else None
        if given is None or not alone or not names.rooted(given.call.func):
            return []
        listed = given.given.pop(SIGNATURES[kind or ""][0], None)
        if listed is None or not all(isinstance(option, ast.Constant) for option in given.given.values()):
            return []
        block, name = block_of(scope, user), f"{files}_{number}" if number else files
        between = block[block.index(making) : block.index(user)]
        if reads(listed) & {changed for statement in between for changed in writes(statement)}:
            return []
        options = sorted(f"{option}={source.segment(value)}" for option, value in given.given.items())
        made.add(f"{source.segment(given.call.func)}({', '.join([files, *options])})")
        if isinstance(listed, ast.Name):
            name = listed.id
            edits.append(Edit(*source.span(making), ()))
        else:
            line = f"{source.indent(making)}{name} = {source.segment(listed)}"
            edits.append(Edit(making.lineno, making.end_lineno or making.lineno, (line,)))
        now: tuple[ast.expr | ast.keyword, str] = (queue, name)
        now = (value, f"{files}={name}") if isinstance(value, ast.keyword) else now
        edits.append(Edit(call.lineno, call.lineno, (source.substituted(queue.lineno, [now]),)))
    edits.append(Edit(first, first - 1, (f"{source.indent(place)}{parameter.arg} = {made.pop()}",)))
    return [] if made or names.module_in(function) != names.module else edits


def _calls(source: Source, function: ast.FunctionDef, parameter: ast.arg) -> list[tuple[Scope, ast.Call]]:
    """Return the calls of a function with their scopes; none where it is used otherwise, or binds the parameter."""
    same = [n for n in walk(source.tree) if isinstance(n, ast.FunctionDef) and n.name == function.name]
    kind, attribute = (ast.Name, "id") if function in source.tree.body else (ast.Attribute, "attr")
    named = [n for n in walk(source.tree) if isinstance(n, kind) and getattr(n, attribute) == function.name]
    calls = [(s, n) for s in scopes(source.tree) for n in own_nodes(s) if isinstance(n, ast.Call) and n.func in named]
    bound = parameter.arg in {name for s in function.body for name in binds(s)}
    return [] if bound or len(same) > 1 or function.decorator_list or len(calls) != len(named) else calls


def _given(
    call: ast.Call, function: ast.FunctionDef, parameter: ast.arg, source: Source
) -> ast.expr | ast.keyword | None:
    """Return what a call gives to a parameter, None where that cannot be told."""
    if any(isinstance(item, ast.Starred) for item in call.args) or any(k.arg is None for k in call.keywords):
        return None
    parameters = [each.arg for each in function.args.args][function not in source.tree.body :]
    found = dict(zip(parameters, call.args, strict=False))
    return found.get(parameter.arg) or next((k for k in call.keywords if k.arg == parameter.arg), None)


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
