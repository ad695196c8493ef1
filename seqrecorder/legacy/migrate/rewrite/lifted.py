"""Input functions that keep their queues, and are called through `seqrecorder.legacy.lift`.

A function that makes a whole pipeline, from files to what it returns, goes on under another name; one of its old name
gives its callers, in other files too, the tensors of the dataset that it is lifted to, or the dataset itself. What no
such function makes is lifted where it comes out of its last queue, if tensors are asked for.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import (
    LOOPS,
    arguments_of,
    binds,
    is_method,
    last_name,
    only,
    own_nodes,
    reads,
    scopes,
    walk,
)
from seqrecorder.legacy.migrate.analyze.names import PIPELINE, PRODUCERS, PROVIDERS, RUNNERS, UNCONVERTED
from seqrecorder.legacy.migrate.analyze.structure import of_returns
from seqrecorder.legacy.migrate.rewrite.imports import import_of_package, package_in
from seqrecorder.legacy.migrate.rewrite.lifted_in_place import check_filled, check_given, goes_on, lifting, taken_in
from seqrecorder.legacy.migrate.rewrite.unliftable import check_liftable, takes_from_outside
from seqrecorder.legacy.migrate.source import Edit
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope
    from seqrecorder.legacy.migrate.analyze.names import Names
    from seqrecorder.legacy.migrate.rewrite.output import Target
    from seqrecorder.legacy.migrate.source import Source

_ONE_STEP = ("tf.train.slice_input_producer",)  # the producer that gives tensors, and no queue
_RUNNING = {
    f"tf.train.{name}" for name in ("Coordinator", "MonitoredSession", "MonitoredTrainingSession", "Supervisor")
}
_RUNNING |= {"tf.Session", "tf.InteractiveSession", "tf.train.start_queue_runners"}
WITH_QUEUES = "_with_queues"


@attrs.frozen
class LiftedFunctions:
    """The functions of a script that are lifted.

    Attributes:
        edits: that lift them.
        functions: their definitions, and what has tensors that are lifted where they come out.
    """

    edits: tuple[Edit, ...]
    functions: tuple[Scope, ...]


def lift_functions(
    source: Source, names: Names, target: Target, others: AbstractSet[str] = frozenset()
) -> LiftedFunctions:
    """Return the edits by which all pipelines of a script are lifted.

    Args:
        source: the script.
        names: what it calls TensorFlow's names.
        target: what its functions become.
        others: functions of other scripts that lift what they take from queues, and functions of this one that such
            scripts call.

    Raises:
        Unclear: one of them is not made by a function that returns what it gives.
    """
    found = _Pipelines(source.tree, names, target)
    whole = found.whole()
    reached = {scope for function in whole for scope in found.closure(function)}
    package = package_in(source.tree)
    sources = PRODUCERS.keys() | PROVIDERS.keys() | UNCONVERTED.keys() | RUNNERS.keys()
    edits: list[Edit] = []
    placed: list[Scope] = []
    for scope in scopes(source.tree):
        if scope in reached:
            continue
        makes = scope in found.making and found.closure_makes(scope, sources)
        if target == "eager" and (makes or found.is_left_over(scope, whole)):
            said = "a pipeline that is not made by a function that returns its tensors, and so cannot be lifted alone"
            raise Unclear("not-lifted", said, scope if not isinstance(scope, ast.Module) else found.first_of(scope))
        lasting = [] if target == "eager" or found.goes_on(scope) else taken_in(scope, names)
        if lasting:
            check_filled(names)
            check_given(names, scope)
            edits += lifting(source, names, scope, lasting, f"{package}.legacy")
            placed.append(scope)
    if not whole and not placed and others and all(found.is_handed_on(scope, others) for scope in found.making):
        return LiftedFunctions((), tuple(found.making))
    if not whole and not placed:
        raise Unclear("not-lifted", "no function of this file makes a whole pipeline", found.first_of(source.tree))
    edits.append(import_of_package(source, names, package))
    for function in whole:
        check_liftable(names, function, only(ast.Return, own_nodes(function)))
        method = is_method(function, source.tree)
        edits += _wrapped(source, names, function, f"{package}.legacy", target, method=method)
    return LiftedFunctions(tuple(edits), tuple(sorted([*whole, *placed], key=lambda one: getattr(one, "lineno", 0))))


class _Pipelines:
    """Which functions make pipelines, and which call each other."""

    def __init__(self, tree: ast.Module, names: Names, target: Target) -> None:
        self._tree, self._names, self._target = tree, names, target
        self._mentions: dict[Scope, set[str]] = {}
        for scope in scopes(tree):
            nodes = [node for node in own_nodes(scope) if isinstance(node, (ast.Attribute, ast.Name))]
            self._mentions[scope] = {name for node in nodes if (name := names.resolve(node)) is not None}
        self.making = [scope for scope, found in self._mentions.items() if found & PIPELINE]
        self._methods = {each for kind in only(ast.ClassDef, walk(tree)) for each in kind.body}
        self._defined: dict[tuple[str, bool], list[Scope]] = {}
        for scope in self._mentions:
            if not isinstance(scope, ast.Module):
                self._defined.setdefault((scope.name, scope in self._methods), []).append(scope)
        self._calls = {scope: self._called_by(scope) for scope in self._mentions}

    def _called_by(self, scope: Scope) -> set[Scope]:
        inside = [n for n in own_nodes(scope) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        named = {name for node in own_nodes(scope) if (name := self._used(node)) is not None}
        if isinstance(scope, ast.Module):
            return {f for name in named for f in self._defined.get(name, ())}
        return {*inside, *(f for name in named for f in self._defined.get(name, ()))}

    def _used(self, node: ast.AST) -> tuple[str, bool] | None:
        """Return the name by which a function may be called, and whether that is a method.

        `train` in `tf.train` calls none, nor does a variable; `reader.read` is no function `read` of the script.
        """
        if self._names.resolve(node) is not None:
            return None
        if isinstance(node, ast.Attribute):
            return node.attr, True
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return None
        bindings = self._names.bindings
        scope = bindings.scope_of(node)
        bound = bindings.of(scope, node.id) if scope is not None else []
        called = any(isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) for each in bound)
        return (node.id, False) if called else None

    def closure(self, scope: Scope) -> set[Scope]:
        """Return a scope and the functions that it calls, and so on."""
        found: set[Scope] = set()
        waiting = [scope]
        while waiting:
            if (each := waiting.pop()) not in found:
                found.add(each)
                waiting += self._calls[each]
        return found

    def closure_makes(self, scope: Scope, wanted: Iterable[str]) -> bool:
        """Whether a scope, or what it calls, mentions some names."""
        return any(self._mentions[each] & {*wanted} for each in self.closure(scope))

    def whole(self) -> list[ast.FunctionDef]:
        """Return the functions that make pipelines as wholes, but those that only others of them call."""
        found = [scope for scope in self.making if isinstance(scope, ast.FunctionDef) and self._is_whole(scope)]
        found += self._composing(found)
        return [
            function for function in found
            if not (callers := [s for s, called in self._calls.items() if function in called and s is not function])
            or any(not self._within(caller, found) for caller in callers)
        ]  # fmt: skip

    def _composing(self, found: list[ast.FunctionDef]) -> list[ast.FunctionDef]:
        """Return the innermost functions that make no pipeline themselves, but call those that make parts of one."""
        parts = {scope for scope in self.making if not self._within(scope, found)}
        composing = [
            scope for scope in self._mentions
            if scope not in self.making and isinstance(scope, ast.FunctionDef) and self._is_whole(scope)
            and parts & self.closure(scope)
        ]  # fmt: skip
        return [each for each in composing if not self.closure(each) & {*composing} - {each}]

    def _within(self, scope: Scope, whole: list[ast.FunctionDef]) -> bool:
        return any(scope in self.closure(function) for function in whole)

    def _is_whole(self, function: ast.FunctionDef) -> bool:
        """Whether a function goes from files to tensors, and returns those to whoever runs them."""
        sources = {*PRODUCERS, *PROVIDERS, *UNCONVERTED}
        steps = PIPELINE - PRODUCERS.keys() | {*_ONE_STEP}
        returns = [n.value for n in only(ast.Return, own_nodes(function)) if n.value is not None]
        yields = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(function))
        made = only(ast.Assign, own_nodes(function))
        queues = {name for n in made if last_name(n.value).endswith("Queue") for name in binds(n)}
        dequeues = any(getattr(n, "attr", "") == "dequeue" for n in own_nodes(function))
        return (
            bool(returns) and not yields and not any(ast.unparse(value) in queues for value in returns)
            and not self._has_others(function, returns)
            and not function.decorator_list and function.name != "__init__"
            and self.closure_makes(function, sources) and not self.closure_makes(function, _RUNNING)
            and (dequeues or self.closure_makes(function, steps))
            and not takes_from_outside(self._names, function, self.closure(function))
        )  # fmt: skip

    def _has_others(self, function: ast.FunctionDef, returns: list[ast.expr]) -> bool:
        """Whether a function returns other functions, or numbers of Python's, or lets what it is given read a queue."""
        inner = {n.name for n in own_nodes(function) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        parts = [part for value in returns for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
        if any(isinstance(part, ast.Lambda) or getattr(part, "id", None) in inner for part in parts):
            return True
        if self._target == "eager":
            return False  # what is returned becomes a dataset anyhow, and there is no other place to lift it
        made = only(ast.Assign, own_nodes(function))
        queues = {name for n in made if self._names.called(n.value) in PRODUCERS for name in binds(n)}
        given = {parameter.arg for parameter in only(ast.arg, walk(function.args))}
        calls = [n for n in only(ast.Call, own_nodes(function)) if getattr(n.func, "id", None) in given]
        numbers = {name for n in made if _counts(n.value) for name in binds(n)}
        return any(reads(call) & queues for call in calls) or any(getattr(p, "id", None) in numbers for p in parts)

    def is_left_over(self, scope: Scope, whole: list[ast.FunctionDef]) -> bool:
        """Whether a scope makes a part of a pipeline, and who calls it calls a function, too, that is lifted."""
        callers = [each for each in self._calls if scope in self.closure(each) and each is not scope]
        return scope in self.making and any({*whole} & self.closure(caller) for caller in callers)

    def goes_on(self, scope: Scope) -> bool:
        """Whether what a function returns goes on into a queue of its callers in this file."""
        waiting, seen = [scope], {scope}
        while waiting:
            callee = waiting.pop()
            name = (getattr(callee, "name", ""), callee in self._methods)
            for caller in (each for each, called in self._calls.items() if callee in called and each not in seen):
                calls = [n for n in only(ast.Call, own_nodes(caller)) if self._used(n.func) == name]
                if any(goes_on(caller, call, self._names) for call in calls):
                    return True
                seen.add(caller)
                waiting.append(caller)
        return False

    def is_handed_on(self, scope: Scope, others: AbstractSet[str]) -> bool:
        """Whether a scope is called by other scripts for its queues, or gives each of them to a function of theirs."""
        if not isinstance(scope, ast.Module) and scope.name in others:
            return True
        calls = only(ast.Call, own_nodes(scope))
        taking = [n for n in calls if last_name(n) in others]
        given = [ast.unparse(part) for n in taking for part in arguments_of(n)]
        made = [n for n in only(ast.Assign, own_nodes(scope)) if self._names.called(n.value) in PRODUCERS]
        again = any(isinstance(n, LOOPS) and {*taking} & {*walk(n)} for n in own_nodes(scope))
        return (
            bool(made) and not again and all(given.count(ast.unparse(n.targets[0])) == 1 for n in made)
            and len(made) == sum(self._names.called(n) in PIPELINE for n in calls)
        )  # fmt: skip

    def first_of(self, scope: Scope) -> ast.AST:
        """Return the first mention of a pipeline in a scope."""
        return next((node for _, node in self._names.mentions(scope, PIPELINE)), scope)


def _counts(value: ast.expr) -> bool:
    """Whether an expression is a number of Python's: of lengths and of other numbers."""
    calls = only(ast.Call, walk(value))
    return bool(calls) and all(getattr(call.func, "id", "") in ("len", "int", "float", "round") for call in calls)


def _wrapped(
    source: Source, names: Names, function: ast.FunctionDef, legacy: str, target: Target, *, method: bool
) -> list[Edit]:
    """Return the edits by which a function has another name, and another one calls it as it is lifted."""
    line = source.lines[function.lineno - 1]
    new = function.name + WITH_QUEUES
    old = f"def {function.name}"
    if line.count(old) != 1 or not source.alone(function):
        raise Unclear("not-lifted", f"{function.name} shares its line with others, or its header is folded", function)
    given = function.args
    own = [*given.posonlyargs, *given.args][method:]
    passed = [parameter.arg for parameter in own]
    passed += [f"*{given.vararg.arg}"] if given.vararg is not None else []
    passed += [f"{parameter.arg}={parameter.arg}" for parameter in given.kwonlyargs]
    passed += [f"**{given.kwarg.arg}"] if given.kwarg is not None else []
    receiver = f"{given.args[0].arg}." if method and given.args else ""
    indent = source.indent(function)
    inner = indent + source.unit(indent)
    called = f"lambda: {receiver}{new}({', '.join(passed)})" if passed else f"{receiver}{new}"
    lifting = f"{legacy}.lift({called})"
    taken = f"{legacy}.get_next(dataset)"
    taken = f"list({taken})" if of_returns(function, names) == "list" else taken
    body = [f"return {lifting}"] if target == "eager" else [f"dataset = {lifting}", f"return {taken}"]
    blank = [""] * (1 if indent else 2)
    lines = [*blank, f"{indent}def {function.name}({ast.unparse(given)}):", *(inner + each for each in body)]
    renamed = Edit(function.lineno, function.lineno, (line.replace(old, f"def {new}"),))
    return [renamed, Edit.behind(function, *lines)]
