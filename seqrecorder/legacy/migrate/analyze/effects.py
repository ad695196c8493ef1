"""What statements take and change once they are carried out, in the functions of the script that they call too.

Statements change places where records become a mapped function. Variables are told apart by their scopes here, and an
object is known by every variable that may hold it.
"""

from __future__ import annotations

import ast
import builtins
import functools
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import CHANGING, own_nodes, walk
from seqrecorder.legacy.migrate.analyze.names import READERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope
    from seqrecorder.legacy.migrate.analyze.names import Names

Variable = tuple[int, str]
"""The id of a scope, and the name of its variable."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CHANGING_ARGUMENTS = frozenset({"next", "setattr", "delattr"})
_HOLDING = frozenset({"dict", "enumerate", "getattr", "iter", "list", "next", "reversed", "sorted", "tuple", "zip"})
_GIVING = frozenset({"copy", "get", "items", "pop", "setdefault", "values"})
_CHANGING_ALL = frozenset({"exec", "eval", "globals", "locals"})
_ALL: Variable = 0, "everything"


@attrs.frozen
class _Effect:
    taken: frozenset[Variable] = frozenset()
    bound: frozenset[Variable] = frozenset()
    changed: frozenset[Variable] = frozenset()  # whose objects may be changed


class Effects:
    r"""The effects of a module's statements.

    >>> tree = ast.parse("k = [1]\ndef f(): k.append(2)\ny = k[0]\nf()")
    >>> from seqrecorder.legacy.migrate.analyze.names import Names
    >>> Effects(Names(tree)).between(tree, tree.body[2], 3, 5)
    ['k']

    Args:
        names: of the module.
    """

    def __init__(self, names: Names) -> None:
        self._names, self._bindings = names, names.bindings
        self._known: dict[ast.AST, _Effect] = {}
        self._methods: dict[str, list[ast.FunctionDef]] = {}
        self._holders: dict[Variable, set[Variable]] = {}  # of which a change of the object is one too
        self._parts: dict[Variable, set[Variable]] = {}
        self._lambdas: dict[Variable, list[ast.Lambda]] = {}
        for node in walk(self._bindings.tree):
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, ast.FunctionDef):
                        self._methods.setdefault(method.name, []).append(method)
            for target, value in _assigned(node):
                for name, own in _objects(target):
                    self._lambdas.setdefault(self._variable(name), []).extend(
                        n for n in walk(value) if isinstance(n, ast.Lambda)
                    )
                    for other, level in _objects(value):
                        if level >= own:
                            self._hold(name, other)
                        if level <= own:
                            self._hold(other, name)

    def _hold(self, holder: ast.Name, part: ast.Name) -> None:
        one, other = self._variable(holder), self._variable(part)
        self._holders.setdefault(other, set()).add(one)
        self._parts.setdefault(one, set()).add(other)

    def changed(self, node: ast.AST) -> set[str]:
        """Return the variables outside of a statement that it binds, or whose objects it may change."""
        effect = self._of(_defined(node))
        return {name for _, name in effect.bound | effect.changed}

    def clash(self, node: ast.AST, later: ast.AST) -> list[str]:
        """Return the names of what a statement, or an expression, reads and a later one changes."""
        taken, effect = self._of(_defined(node)).taken, self._of(_defined(later))
        changed = effect.bound | effect.changed
        return sorted({name for _, name in (taken if _ALL in changed else taken & changed)})

    def between(self, scope: Scope, node: ast.AST, first: int, last: int) -> list[str]:
        """Return the names of what an expression reads and statements between two lines of its scope change."""
        first, last = sorted((first, last))
        found = [s for s in own_nodes(scope) if isinstance(s, ast.stmt) and first < s.lineno < last]
        found = [s for s in found if not isinstance(s, (ast.FunctionDef, ast.ClassDef))]  # of which each name means one
        return sorted({name for statement in found for name in self.clash(node, statement)})

    # Inside ---------------------------------------------------------------------------------------------------------

    def _of(self, node: ast.AST) -> _Effect:
        if node not in self._known:
            self._known[node] = _Effect()  # functions may call themselves
            self._known[node] = self._found(node)
        return self._known[node]

    def _found(self, node: ast.AST) -> _Effect:
        taken, bound, changed = set[Variable](), set[Variable](), set[Variable]()
        readers = set[ast.AST]()  # of which each use is checked, and which go
        for inner in _carried_out(node):
            if isinstance(inner, ast.Assign) and self._names.called(inner.value) in READERS:
                readers |= {*inner.targets}
            if (variable := self._bindings.bound_by(inner)) is not None:
                bound.add(variable)
            if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Store):
                taken.add(self._variable(inner))
            elif isinstance(inner, ast.AugAssign):
                taken |= {self._variable(name) for name, _ in _objects(inner.target)}
                changed |= self._seen(inner.target) if not isinstance(inner.value, ast.Constant) else set()
            elif isinstance(inner, (ast.Attribute, ast.Subscript)) and not isinstance(inner.ctx, ast.Load):
                changed |= self._seen(inner) if inner not in readers else set()
            elif isinstance(inner, ast.Call):
                changed |= self._changed_by(inner)
            for function in self._meant(inner):
                effect, own = self._of(function), id(function)
                taken |= {each for each in effect.taken if each[0] != own}
                bound |= {each for each in effect.bound if each[0] != own}
                changed |= {each for each in effect.changed if each[0] != own}
                base = getattr(inner, "value", None) or getattr(inner, "func", None)
                if base is not None and (own, "self") in effect.changed:
                    changed |= self._seen(base, deep=True)
        inside = {id(part) for part in walk(node)} - ({id(node)} if isinstance(node, _FUNCTIONS) else set())
        return _Effect(*(frozenset(v for v in each if v[0] not in inside) for each in (taken, bound, changed)))

    def _changed_by(self, call: ast.Call) -> set[Variable]:
        """Return the variables whose objects a call may change: those that it is given, or that it is a method of."""
        func = call.func
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        found = set[Variable]()
        if isinstance(func, ast.Name) and hasattr(builtins, func.id):
            found |= {_ALL} if func.id in _CHANGING_ALL else set()
            return found | (self._seen(*given) if func.id in _CHANGING_ARGUMENTS else set())
        if isinstance(func, ast.Attribute) and self._names.resolve(func) is None:
            parts = ast.unparse(func).split(".")
            if {"random", "shuffle"} & {*parts}:
                found |= self._seen(func, *given)
            elif func.attr in CHANGING:
                found |= self._seen(*(given if hasattr(builtins, parts[0]) else [func]))
        for function in self._meant(func) or self._meant(call):
            parameters = [p.arg for p in (*function.args.posonlyargs, *function.args.args) if p.arg != "self"]
            by_name = dict(zip(parameters, call.args, strict=False)) | {k.arg: k.value for k in call.keywords}
            changed = {name for own, name in self._of(function).changed if own == id(function)}
            several = {p.arg for p in (function.args.vararg, function.args.kwarg) if p is not None}
            taken = [by_name[name] for name in changed & {*by_name}]
            found |= self._seen(*taken, *(given if changed & several else ()), deep=True)
        return found

    def _meant(self, node: ast.AST) -> list[_Function]:
        """Return the functions of the script that may be carried out where an expression is read."""
        if isinstance(node, ast.Attribute) and self._names.resolve(node) is None:
            return list(self._methods.get(node.attr, ()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            made = self._bindings.of_id(*self._variable(node.func))
            objects = any(isinstance(each, (ast.Name, ast.arg)) for each in made)
            return list(self._methods.get("__call__", ())) if objects else []
        if not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Store):
            return []
        found = list[_Function]()
        for scope, name in self._seen(node, deep=True):
            found += self._lambdas.get((scope, name), ())
            for bound in self._bindings.of_id(scope, name):
                if isinstance(bound, ast.ClassDef):
                    found += [m for m in bound.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"]
                elif isinstance(bound, _FUNCTIONS):
                    found.append(bound)
        return found

    def _variable(self, name: ast.Name) -> Variable:
        scope = self._bindings.scope_of(name)
        return id(scope) if scope is not None else 0, name.id

    def _seen(self, *changed: ast.AST, deep: bool = False) -> set[Variable]:
        """Return the variables by which it is seen that objects are changed, or deep inside those of their parts."""
        objects = [found for node in changed for found in _objects(node)]
        found = [self._variable(name) for name, _ in objects]
        deep = deep or any(level < -1 for _, level in objects)
        for each in found:
            found += self._holders.get(each, set()) - {*found}
            found += self._parts.get(each, set()) - {*found} if deep else ()
        return {*found}


@functools.lru_cache(maxsize=16)
def effects_of(names: Names) -> Effects:
    """Return the effects of a module's statements, whose tree stays as it is."""
    return Effects(names)


def _defined(node: ast.AST) -> ast.AST:
    """Return what a statement is when it is not called, but carried out: of a function its definition."""
    return ast.Module([node], []) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else node


def _carried_out(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is carried out with a statement, or when a function is called: no insides of functions in it."""
    waiting: list[ast.AST] = [node]
    if isinstance(node, _FUNCTIONS):
        waiting = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
    while waiting:
        yield (inner := waiting.pop())
        if isinstance(inner, _FUNCTIONS):
            waiting += [*inner.args.defaults, *filter(None, inner.args.kw_defaults)]
            waiting += getattr(inner, "decorator_list", [])
        else:
            waiting += ast.iter_child_nodes(inner)


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a statement, or an expression, assigns to what."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield node.target, node.iter


def _objects(value: ast.AST, level: int = 0) -> Iterator[tuple[ast.Name, int]]:
    """Yield the names whose objects an expression is, with how many levels deeper or, if negative, higher it is."""
    if isinstance(value, ast.Name):
        yield value, level
    elif isinstance(value, (ast.Attribute, ast.Subscript)):
        yield from _objects(value.value, level - 1)
    elif isinstance(value, ast.Call):
        name = ast.unparse(value.func)
        if name in _HOLDING:
            given = [*value.args, *(keyword.value for keyword in value.keywords)]
            yield from (found for part in given for found in _objects(part, level))
        elif name.rpartition(".")[2] in _GIVING:
            yield from _objects(value.func, level)
    elif isinstance(value, (ast.Starred, ast.IfExp, ast.BoolOp)):
        yield from (found for part in ast.iter_child_nodes(value) for found in _objects(part, level))
    elif isinstance(value, (ast.Tuple, ast.List, ast.Dict, ast.ListComp)):
        yield from (found for part in ast.iter_child_nodes(value) for found in _objects(part, level + 1))
