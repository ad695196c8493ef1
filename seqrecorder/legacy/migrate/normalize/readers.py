"""How a script finds and reads its files, in plainer words: no readers without a read, no variables of files."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeGuard

from seqrecorder.legacy.migrate.analyze.data_flow import (
    LOOPS,
    arguments_of,
    calls_to,
    loads,
    only,
    own_nodes,
    scopes,
    target_of,
    walk,
)
from seqrecorder.legacy.migrate.analyze.names import READERS, Names
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from seqrecorder.legacy.migrate.analyze.data_flow import Scope

_WHOLE = ("tf.WholeFileReader", "tf.IdentityReader")


def without_local_variables(text: str) -> str:
    """Let a pattern's files be what the graph finds, in the same order, and tensors without a limit be themselves."""
    if "match_filenames_once" not in text and "limit_epochs" not in text:
        return text
    source = Source(text)
    names = Names(source.tree)
    changes = list[tuple[ast.expr, str]]()
    for node in only(ast.Call, walk(source.tree)):
        if len(node.args) != 1 or any(k.arg != "name" for k in node.keywords):
            continue
        if names.called(node) == "tf.train.match_filenames_once" and names.module:
            changes.append((node.func, f"{names.module}.io.matching_files"))
        elif names.called(node) == "tf.train.limit_epochs":
            changes.append((node, source.segment(node.args[0])))
    return source.edited(source.replacing(changes))


def readers_by_use(text: str) -> str:
    """Take away readers that nothing reads with, in functions, and make one that several queues share where it reads.

    The latter is of whole files: it keeps nothing between two reads.
    """
    source = Source(text)
    names = Names(source.tree)
    edits: dict[int, Edit] = {}
    for scope in scopes(source.tree):
        shared = {n for s in own_nodes(scope) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
        for node in only(ast.Assign, own_nodes(scope)):
            if not isinstance(target := target_of(node), ast.Name) or not source.alone(node):
                continue
            kind, value, uses = names.called(node.value), node.value, loads(scope, target.id)
            gone = Edit.instead(node)
            if kind in READERS and not uses and not isinstance(scope, ast.Module) and target.id not in shared:
                edits[node.lineno] = gone
            if kind not in _WHOLE or not is_plain(value, names) or value.keywords:
                continue
            reading = {id(n.value) for n in only(ast.Attribute, own_nodes(scope)) if n.attr == "read"}
            lines = {use.lineno for use in uses}
            apart = len(uses) == len(lines) > 1 and not {*lines, node.lineno} & {*edits}
            if apart and all(id(use) in reading for use in uses) and _bound_last(scope, node, target.id):
                edits[node.lineno] = gone
                edits |= {edit.first: edit for edit in source.replacing((use, source.segment(value)) for use in uses)}
    return source.edited([*edits.values()])


def readers_of_objects(text: str) -> str:
    """Make a reader that `__init__` keeps for one method where that reads: `self.reader = tf.TextLineReader()`.

    Of several calls each would go on in the file that another one has begun, but with a reader of whole files.
    """
    source = Source(text)
    names = Names(source.tree)
    attributes = only(ast.Attribute, walk(source.tree))
    edits: list[Edit] = []
    for kind in only(ast.ClassDef, walk(source.tree)):
        methods = only(ast.FunctionDef, kind.body)
        making = [node for method in methods if method.name == "__init__" for node in method.body]
        for node in only(ast.Assign, making):
            made, target = node.value, target_of(node)
            if not is_plain(made, names) or not source.alone(node):
                continue
            if not isinstance(target, ast.Attribute) or ast.unparse(target.value) != "self":
                continue
            same = [a for a in attributes if a.attr == target.attr and a is not target]
            if len(same) != 1:
                continue
            [used] = same
            reading = [m for m in methods if m.name != "__init__" and used in own_nodes(m)]
            calls = [a for a in attributes if a.value is used and a.attr in ("read", "read_up_to")]
            inside = len(reading) == 1 and names.module_in(reading[0]) == names.module
            inside = inside and (names.called(made) in _WHOLE or _called_once(source.tree, reading[0]))
            if inside and calls and ast.unparse(used) == ast.unparse(target) and used.lineno == used.end_lineno:
                gone = (source.indent(node) + "pass",) if len(making) == 1 else ()
                edits.append(Edit(*source.span(node), gone))
                edits += source.replacing([(used, source.segment(made))])
    return source.edited(edits)


def _called_once(tree: ast.Module, method: ast.FunctionDef) -> bool:
    """Whether a script calls a method once for each object, or leaves that to others."""
    calls = calls_to(tree, method)
    objects = {ast.unparse(call.func).rpartition(".")[0] for _, call in calls}
    looped = any(call in walk(n) for scope, call in calls for n in own_nodes(scope) if isinstance(n, LOOPS))
    return len(calls) == len(objects) and not looped


def is_plain(made: ast.AST | None, names: Names) -> TypeGuard[ast.Call]:
    """Whether an expression makes a reader of nothing but constants, so that it may stand elsewhere."""
    if not isinstance(made, ast.Call) or names.called(made) not in READERS or not names.rooted(made.func):
        return False
    return all(isinstance(value, ast.Constant) for value in arguments_of(made))


def is_read(call: ast.AST, scope: Scope, names: Names) -> bool:
    """Whether an expression reads a record with a reader of a scope."""
    func = call.func if isinstance(call, ast.Call) else None
    if not isinstance(func, ast.Attribute) or func.attr not in ("read", "read_up_to"):
        return False
    reader = ast.unparse(func.value)
    made = [n.value for n in only(ast.Assign, own_nodes(scope)) if ast.unparse(n.targets[0]) == reader]
    return any(names.called(value) in READERS for value in (*made, func.value))


def _bound_last(scope: Scope, statement: ast.stmt, name: str) -> bool:
    """Whether a statement, which no loop repeats, is the last that gives a name its value."""
    loops = [n for n in own_nodes(scope) if isinstance(n, (ast.For, ast.While)) and statement in walk(n)]
    bound = [n for n in only(ast.Name, own_nodes(scope)) if n.id == name and isinstance(n.ctx, ast.Store)]
    return not loops and all(n.lineno <= statement.lineno for n in bound)
