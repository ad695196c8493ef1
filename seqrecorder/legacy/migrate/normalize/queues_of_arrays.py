"""Queues that are filled with whole arrays, over and over, in plainer words: slices of the arrays."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import own_nodes, reads, scopes, walk
from seqrecorder.legacy.migrate.analyze.names import BATCHERS, PRODUCERS, READERS, Names, arguments
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.normalize.filled_queues import filled_queues
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from seqrecorder.legacy.migrate.analyze.data_flow import Scope
    from seqrecorder.legacy.migrate.normalize.filled_queues import FilledQueue

_STARTED = frozenset({"tf.train.start_queue_runners", *PRODUCERS, *BATCHERS, *READERS})
_HELD = frozenset({"tf.constant", "tf.convert_to_tensor", "tf.range", "tf.zeros", "tf.ones"})
_TAKING = 3


def runners_started_by_hand(text: str) -> str:
    """Let the one runner of a script be started with all others there are: `start_queue_runners`."""
    if text.count(".create_threads(") != 1:
        return text
    source = Source(text)
    names = Names(source.tree)
    if any(names.mentions(source.tree, _STARTED | {"tf.train.add_queue_runner"})):
        return text
    for scope in scopes(source.tree):
        for made in own_nodes(scope):
            if isinstance(made, ast.Assign) and names.called(made.value) == "tf.train.QueueRunner":
                return source.edited(_started(source, names, scope, made))
    return text


def _started(source: Source, names: Names, scope: Scope, made: ast.Assign) -> list[Edit]:
    name = made.targets[0].id if len(made.targets) == 1 and isinstance(made.targets[0], ast.Name) else ""
    uses = reaching(scope).uses([made], name) if name else []
    calls = [
        n for n in own_nodes(scope)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.value in uses
        and n.func.attr == "create_threads" and len(n.args) < _TAKING
    ]  # fmt: skip
    if len(uses) != 1 or len(calls) != 1 or not source.alone(made):
        return []
    [call], options = calls, {k.arg: ast.unparse(k.value) for k in calls[0].keywords}
    if options.get("start") != "True" or not {*options} <= {"sess", "coord", "daemon", "start"}:
        return []
    line = source.substituted(call.lineno, [(call.func, f"{names.module}.train.start_queue_runners")])
    last = made.end_lineno or made.lineno
    added = f"{source.indent(made)}{names.module}.train.add_queue_runner({name})"
    return [Edit(last + 1, last, (added,)), Edit(call.lineno, call.lineno, (line,))]


def queues_of_arrays(text: str) -> str:
    """Let `queue.enqueue_many([xs, ys])`, run for ever, and `queue.dequeue()` be slices of `xs` and `ys`."""
    if "enqueue_many(" not in text:
        return text
    source = Source(text)
    names = Names(source.tree)
    if any(
        names.mentions(source.tree, frozenset({*PRODUCERS, *READERS, "tf.placeholder", "tf.placeholder_with_default"}))
    ):
        return text  # it may be of a record
    found = [(scope, queue) for scope in scopes(source.tree) for queue in filled_queues(scope, names) if queue.many]
    return source.edited([edit for scope, queue in found for edit in _sliced(source, names, scope, queue)])


def _sliced(source: Source, names: Names, scope: Scope, queue: FilledQueue) -> list[Edit]:
    """Return the edits by which arrays are sliced; none where what is put in may differ each time."""
    [made, *others], [kind, *_], put = queue.made, queue.kinds, queue.put
    given = arguments(made.value, kind) if isinstance(made.value, ast.Call) else None
    items = put.elts if isinstance(put, (ast.List, ast.Tuple)) else [put]
    dtypes = given["dtypes"] if given is not None else None
    types = dtypes.elts if isinstance(dtypes, (ast.List, ast.Tuple)) else [dtypes]
    target = queue.taken.targets[0] if isinstance(queue.taken, ast.Assign) else None
    if given is None or others or given["names"] or given["shared_name"] or queue.call.keywords:
        return []
    if queue.verb != "dequeue" or kind != "tf.FIFOQueue" or target is None:
        return []
    if dtypes is None or len(types) != len(items) or not all(_is_held(names, scope, item) for item in items):
        return []
    if not all(source.alone(s) for s in (*queue.gone, queue.taken)):
        return []
    tf, pairs = names.module, zip(items, types, strict=True)
    tensors = [f"{tf}.convert_to_tensor({source.segment(i)}, {source.segment(t)})" for i, t in pairs if t is not None]
    single = isinstance(target, ast.Name) and len(items) == 1
    taking = f"({source.segment(target)},)" if single else source.segment(target)
    slices = f"{tf}.train.slice_input_producer([{', '.join(tensors)}], shuffle=False)"
    line = f"{source.indent(queue.taken)}{taking} = {slices}"
    edits = [Edit(*source.span(s), ()) for s in queue.gone]
    return [*edits, Edit(queue.taken.lineno, queue.taken.end_lineno or queue.taken.lineno, (line,))]


def _is_held(names: Names, scope: Scope, item: ast.expr) -> bool:
    """Whether an expression is the same each time that a session runs: an array, say, and no tensor of chance."""
    tree = names.bindings.tree
    drawing = {f.name for f in walk(tree) if isinstance(f, ast.FunctionDef) and any(map(names.resolve, walk(f)))}
    waiting: list[ast.AST] = [item]
    seen = set[ast.AST]()
    while waiting:
        node = waiting.pop()
        called = {names.called(n) for n in walk(node)} - {None}
        if called - _HELD or drawing & {getattr(n, "id", getattr(n, "attr", "")) for n in walk(node)}:
            return False
        if isinstance(node, ast.stmt) and not isinstance(node, ast.Assign):
            return False
        for name in [n for n in walk(node) if isinstance(n, ast.Name) and n.id in reads(node)]:
            bound = reaching(scope).of(name) or reaching(tree).of(name)
            made = {
                s for s in bound if not isinstance(s, (ast.arg, ast.FunctionDef, ast.Import, ast.ImportFrom))
            } - seen
            waiting += made
            seen |= made
    return True
