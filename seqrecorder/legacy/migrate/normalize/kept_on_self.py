"""What `__init__` keeps of a pipeline for one method that batches it, in plainer words: it becomes a dataset."""

from __future__ import annotations

import ast
from itertools import count
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import (
    LOOPS,
    bound_by,
    last_name,
    names_in,
    only,
    own_nodes,
    parts_of,
    reads,
    scopes,
    target_of,
    walk,
    writes,
)
from seqrecorder.legacy.migrate.analyze.names import OF_QUEUES, PRODUCERS, Names
from seqrecorder.legacy.migrate.analyze.stages import GIVEN, KEPT, RECORDS
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from collections.abc import Iterable


def kept_on_self(text: str, callers: Iterable[str] = ()) -> str:
    """Mark the queues, or the tensors of a record, that `__init__` keeps, where each object batches them once.

    Args:
        text: of the script.
        callers: texts of other scripts that import it.
    """
    source = Source(text)
    names = Names(source.tree)
    for kind in only(ast.ClassDef, source.tree.body):
        methods = {method.name: method for method in only(ast.FunctionDef, kind.body)}
        plain = not (kind.decorator_list or kind.keywords) and {*map(ast.unparse, kind.bases)} <= {"object"}
        start = methods.get("__init__") if plain and not any("__new__" in writes(node) for node in kind.body) else None
        for node in only(ast.Assign, start.body if start is not None else ()):
            if names.called(node.value) in PRODUCERS and start is not None:
                edits = _Kept(source, kind, start, node).edits(callers, queue=names.called(node.value) in OF_QUEUES)
                if edits:
                    return kept_on_self(source.edited(edits), callers)
    return text


class _Kept:
    """What `__init__` keeps of one pipeline.

    Args:
        source: the script.
        kind: the class.
        start: its `__init__`.
        producer: the statement that makes a queue, or slices.
    """

    def __init__(self, source: Source, kind: ast.ClassDef, start: ast.FunctionDef, producer: ast.Assign) -> None:
        self._source, self._kind, self._start, self._producer = source, kind, start, producer
        self._hanging = {ast.unparse(part) for target in producer.targets for part in parts_of(target)}
        self._last: ast.stmt = producer
        for node in start.body[start.body.index(producer) + 1 :]:
            if self._hangs(node):
                targets = node.targets if isinstance(node, ast.Assign) else []
                parts = [part for target in targets for part in parts_of(target)]
                given: list[ast.AST] = [*getattr(getattr(node, "value", None), "elts", ())]
                given = given if len(given) == len(parts) else [node] * len(parts)
                self._hanging |= {ast.unparse(p) for p, v in zip(parts, given, strict=True) if self._hangs(v)}
                self._last = node

    def _hangs(self, node: ast.AST) -> bool:
        """Whether something hangs on a record."""
        return any(ast.unparse(n) in self._hanging for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute)))

    def edits(self, callers: Iterable[str], *, queue: bool) -> list[Edit]:
        """Return the edits; none where something else may take from the pipeline, or an object does so twice."""
        source, tree = self._source, self._source.tree
        kept = sorted(text.removeprefix("self.") for text in self._hanging if text.startswith("self."))
        found = _attributes(tree, kept)
        inside = [n for n in only(ast.Attribute, own_nodes(self._start)) if n in found]
        methods = [m for m in only(ast.FunctionDef, self._kind.body) if {*own_nodes(m)} & {*found} - {*inside}]
        if len(methods) != 1 or methods[0].decorator_list or not all(name.isidentifier() for name in kept):
            return []
        [method] = methods
        if any([a.arg for a in f.args.args][:1] != ["self"] for f in (self._start, method)):
            return []
        outside = [n for n in only(ast.Attribute, own_nodes(method)) if n in found]
        stored = [n for n in found if not isinstance(n.ctx, ast.Load)]
        once = len(stored) == len(kept) and {*stored} <= {*inside} and {*found} == {*inside, *outside}
        looking = [n for n in only(ast.Call, walk(tree)) if last_name(n).endswith(("attr", "attrgetter", "vars"))]
        said = any(
            (isinstance(n, ast.Constant) and n.value in (*kept, method.name)) or ast.unparse(n) == "self"
            for call in looking
            for n in call.args
        )
        looped = [n for loop in own_nodes(method) if isinstance(loop, LOOPS) for n in walk(loop)]
        other = any(ast.unparse(n.value) != "self" or n.lineno != n.end_lineno or n in looped for n in found)
        if not once or said or other or not _once(tree, self._kind, method, callers, kept):
            return []
        taken = names_in(self._start) | names_in(method)
        local = {name: next(n for i in count() if (n := name + "_" * i) not in taken) for name in kept}
        using = [s for s in only(ast.stmt, own_nodes(method)) if {*outside} & {*walk(s)}]
        place = using[-1] if {*outside} <= {*walk(using[-1])} else using[0]
        if not source.alone(place) or not source.alone(self._last):
            return []
        handed = [name for name in kept if any(n.attr == name for n in outside)]
        first = ast.unparse(target) if (target := target_of(self._producer)) is not None else ""
        changes = [(n, local[n.attr]) for n in outside]
        indent = source.indent(place)
        if [f"self.{name}" for name in handed] == [first] and queue:
            used = [n for n in only(ast.Call, walk(method)) if ast.unparse(n.func) == GIVEN and n.args[0] in outside]
            line = f"{indent}{local[handed[0]]} = {GIVEN}({first})"
            return [] if used or kept != handed else [source.before(place, line), *source.replacing(changes)]
        if first in [f"self.{name}" for name in handed] or KEPT in reads(self._start):
            return []
        held = {n.attr for n in only(ast.Attribute, walk(tree))}
        name = next(n for i in count() if (n := "dataset" + "_" * i) not in held)
        given = ", ".join(local[each] for each in handed)
        changes += [(n, local[n.attr]) for n in inside]
        return [
            *source.replacing(changes),
            Edit.behind(self._last, f"{source.indent(self._last)}self.{name} = {KEPT}({given})"),
            source.before(place, f"{indent}{given} = {RECORDS}(self.{name})"),
        ]


def _once(
    tree: ast.Module, kind: ast.ClassDef, method: ast.FunctionDef, callers: Iterable[str], kept: list[str]
) -> bool:
    """Whether a method is called, and no more than once for each object; who calls it twice divides the records."""
    same = [f for f in only(ast.FunctionDef, walk(tree)) if f.name in (method.name, "__init__")]
    if sum(f.name == method.name for f in same) != 1:
        return False
    called = False
    try:
        others = [Source(text).tree for text in callers]
    except SyntaxError:
        return False
    for each in (tree, *others):
        bound = [n for n in walk(each) if kind.name in (bound_by(n), getattr(n, "arg", None))]
        if any(n is not kind and not (isinstance(n, ast.alias) and each is not tree) for n in bound):
            return False
        if any(last_name(base) == kind.name for n in only(ast.ClassDef, walk(each)) for base in n.bases):
            return False
        mentions = _attributes(each, [method.name])
        if each is not tree and _attributes(each, kept):
            return False
        calls = [(s, n) for s in scopes(each) for n in only(ast.Call, own_nodes(s)) if n.func in mentions]
        objects = set[ast.AST]()
        for scope, call in calls:
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else call
            before = [n for n in only(ast.Assign, own_nodes(scope)) if n.lineno < call.lineno]
            made = [n for n in before if ast.unparse(receiver) in map(ast.unparse, n.targets)][-1:]
            given = [n.value for n in made] or [receiver]
            loops = [n for n in own_nodes(scope) if isinstance(n, LOOPS) and call in walk(n)]
            new = isinstance(given[0], ast.Call) and last_name(given[0]) == kind.name and given[0] not in objects
            if not new or any(given[0] not in walk(loop) for loop in loops):
                return False
            objects |= {*given}
        if len(calls) != len(mentions):
            return False
        called = called or bool(calls)
    return called


def _attributes(tree: ast.Module, wanted: Iterable[str]) -> list[ast.Attribute]:
    """Return the attributes of some names, but for those of modules."""
    modules = {bound_by(alias) for alias in only(ast.alias, walk(tree))}
    named = [n for n in only(ast.Attribute, walk(tree)) if n.attr in wanted]
    return [n for n in named if not (isinstance(n.value, ast.Name) and n.value.id in modules)]
