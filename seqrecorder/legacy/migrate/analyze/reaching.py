"""Which statements a name may have its value from, where it is read: equal names of other values are told apart."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import (
    COMPREHENSIONS,
    bound_by,
    loads,
    only,
    simple,
    walk,
    writes,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope

_State = dict[str, frozenset[ast.AST]]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Reaching:
    r"""The statements that bind what names mean, for each place in a scope where they are read.

    >>> tree = ast.parse("a = 1\nf(a)\na = 2\ng(a)")
    >>> [use.lineno for use in Reaching(tree).uses([tree.body[0]], "a")]
    [2]

    Args:
        scope: a function or the module.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._reached: dict[int, frozenset[ast.AST]] = {}
        self._all: dict[str, set[ast.AST]] = {}  # every statement that binds a name
        self._left: list[list[_State]] = []  # of the loops around, where they are left
        self._begun: list[list[_State]] = []  # likewise, where they are begun again
        self._raising: list[list[_State]] = []  # of the tries around
        given = [] if isinstance(scope, ast.Module) else only(ast.arg, walk(scope.args))
        self._block(scope.body, {argument.arg: frozenset([argument]) for argument in given})

    def of(self, name: ast.Name) -> frozenset[ast.AST]:
        """Return the statements, or the parameter, that may have bound what is read; none where others did."""
        return self._reached.get(id(name), frozenset(self._all.get(name.id, ())))

    def uses(self, statements: Iterable[ast.AST], name: str) -> list[ast.Name]:
        """Return where it may be read what some statements bind to a name, in functions inside of the scope too."""
        wanted = frozenset(statements)
        return [use for use in loads(self._scope, name) if self.of(use) & wanted]

    def hanging(self, statement: ast.stmt, ends: Collection[ast.stmt] = ()) -> list[ast.stmt]:
        """Return a statement and the simple ones of the scope that hang on what it binds, but through some ends."""
        holding = {id(inner): other for other in simple(self._scope) for inner in walk(other)}
        found = [statement]
        for each in found:
            uses = [use for name in writes(each) if each not in ends for use in self.uses([each], name)]
            found += dict.fromkeys(holding[id(use)] for use in uses if holding.get(id(use), each) not in found)
        return found

    # How it flows -----------------------------------------------------------------------------------------------------

    def _block(self, statements: Sequence[ast.stmt], state: _State | None) -> _State | None:
        """Return what holds after statements; None where their end is not reached."""
        for statement in statements:
            if state is None:
                state = {}  # dead code reads nothing
            for raising in self._raising:
                raising.append(state)
            state = self._statement(statement, state)
        return state

    def _statement(self, node: ast.stmt, state: _State) -> _State | None:
        if isinstance(node, ast.If):
            self._read(node.test, state)
            return _either(self._block(node.body, state), self._block(node.orelse, state))
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node, state)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self._read(item.context_expr, state)
                state = self._bound(node, item.optional_vars, state)
            self._raising.append([])
            after, left = self._block(node.body, state), self._raising.pop()
            swallows = any("suppress" in ast.unparse(item.context_expr) for item in node.items)
            return _either(after, *left) if swallows else after
        if isinstance(node, ast.Try):
            return self._try(node, state)
        return self._simple(node, state)

    def _simple(self, node: ast.stmt, state: _State) -> _State | None:
        self._read(node, state)
        if isinstance(node, (ast.Break, ast.Continue)) and self._left:
            (self._left if isinstance(node, ast.Break) else self._begun)[-1].append(state)
            return None
        if isinstance(node, (ast.Return, ast.Raise)):
            return None
        return self._bound(node, node, state)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, state: _State) -> _State | None:
        if not isinstance(node, ast.While):
            self._read(node.iter, state)
        before: _State = {}
        left: list[_State] = []
        start = state
        while before != start:  # what one round leaves, the next one finds
            before = start
            if isinstance(node, ast.While):
                self._read(node.test, start)
                inside = start
            else:
                inside = self._bound(node, node.target, start)
            self._left.append([])
            self._begun.append([])
            after = self._block(node.body, inside)
            left = self._left.pop()
            start = _either(start, after, *self._begun.pop()) or start
        return _either(self._block(node.orelse, start), *left)

    def _try(self, node: ast.Try, state: _State) -> _State | None:
        self._raising.append([state])
        after = self._block(node.body, state)
        raised = _either(*self._raising.pop(), after) or state
        ends = [self._block(node.orelse, after) if after is not None else None]
        for handler in node.handlers:
            if handler.type is not None:
                self._read(handler.type, raised)
            ends.append(self._block(handler.body, self._binding(node, handler.name, raised)))
        if not node.finalbody:
            return _either(*ends)
        done = self._block(node.finalbody, _either(raised, *ends))
        return done if any(end is not None for end in ends) else None

    def _bound(self, statement: ast.AST, part: ast.AST | None, state: _State) -> _State:
        """Return what holds once a part of a statement has bound its names."""
        for name in _names_bound(part) if part is not None else ():
            state = self._binding(statement, name, state)
        return state

    def _binding(self, statement: ast.AST, name: str | None, state: _State) -> _State:
        if name is None:
            return state
        self._all.setdefault(name, set()).add(statement)
        return {**state, name: frozenset([statement])}

    def _read(self, part: ast.AST, state: _State) -> None:
        """Note what the names of an expression, or of a simple statement, may mean."""
        waiting = [part]
        while waiting:
            node = waiting.pop()
            if isinstance(node, _FUNCTIONS):
                continue  # they run later: all that binds the name may hold by then
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._note(node.target, state)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
                self._note(node, state)
            waiting += ast.iter_child_nodes(node)

    def _note(self, name: ast.Name, state: _State) -> None:
        self._reached[id(name)] = self._reached.get(id(name), frozenset()) | state.get(name.id, frozenset())


@functools.lru_cache(maxsize=64)
def reaching(scope: Scope) -> Reaching:
    """Return what reaches the names of a scope, whose tree stays as it is."""
    return Reaching(scope)


def _either(*states: _State | None) -> _State | None:
    """Return what holds after one of several ways; None where none of them comes to an end."""
    found = [state for state in states if state is not None]
    if not found:
        return None
    return {
        name: frozenset[ast.AST]().union(*(state.get(name, frozenset()) for state in found))
        for name in sorted({name for state in found for name in state})
    }


def _names_bound(part: ast.AST) -> list[str]:
    """Return the names that a statement without statements in it binds, or a target."""
    found: list[str] = []
    waiting = [part]
    while waiting:
        node = waiting.pop()
        found += [name] if (name := bound_by(node)) is not None else []
        if not isinstance(node, (*_FUNCTIONS, *COMPREHENSIONS)):
            waiting += ast.iter_child_nodes(node)
    return found
