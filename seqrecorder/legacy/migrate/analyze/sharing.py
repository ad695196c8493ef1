"""Which variables of a module may hold the same objects, or parts of one another: one group of them.

Numbers, texts and tensors are plain: nothing changes them, so it does not matter who holds them.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import arguments_of, only, own_nodes, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from seqrecorder.legacy.migrate.analyze.names import Names

Variable = tuple[int, str]
"""The id of a scope, and the name of its variable."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_PLAIN = {"abs", "bool", "chr", "float", "hash", "id", "int", "isinstance", "len", "ord", "print", "range", "repr"}
_PLAIN |= {"round", "str"}
"""Functions of Python whose results hold nothing of what they are given, and which leave that as it is."""
LEAVING = _PLAIN | {"callable", "getattr", "hasattr", "iter", "super", "type", "vars"}
_TELLING = {"endswith", "format", "index", "join", "lower", "read", "read_up_to", "readline", "replace", "startswith"}
_TELLING |= {"strip", "upper"}
"""Methods whose results hold nothing of what they are called on."""
TAKING = {"as_list", "astype", "copy", "eval", "get", "get_shape", "info", "items", "keys", "reshape", "set_shape"}
TAKING |= _TELLING - {"read", "readline"} | {"split", "values"}
"""Methods that leave what they are called on, and what they are given, as it is."""
_SETTING = ("setattr", "vars", "__dict__")
"""What may set any attribute."""
_RESULT, _SELF = "what it returns", "itself"
RAISED, DEFAULTED = (0, "what is raised"), (0, "what a look-up adds to")
"""Stand for all exceptions, and for all objects of `collections.defaultdict`, among the variables."""


class Sharing:
    r"""The variables of a module that share objects.

    >>> from seqrecorder.legacy.migrate.analyze.names import Names
    >>> tree = ast.parse("def f(a): return [a]\nb = {}\nc = f(b)\nd = 1")
    >>> shared = Sharing(Names(tree)).group((id(tree), "b"))
    >>> sorted(name for _, name in shared)
    ['a', 'b', 'c', 'what it returns']

    Args:
        names: of the module.

    Attributes:
        methods: of all classes, by their names.
        classes: the variables of classes.
    """

    def __init__(self, names: Names) -> None:
        self._names, self._bindings = names, names.bindings
        self.methods: dict[str, list[ast.FunctionDef]] = {}
        self.classes = set[Variable]()
        self._own: dict[Variable, set[str]] = {}  # the methods of the object that a variable `self` is
        self._lambdas: dict[Variable, ast.Lambda] = {}
        self._groups: dict[Variable, set[Variable]] = {}
        self._values: dict[ast.AST, list[ast.expr | None]] = {}  # of what binds a name; None for what is not told
        self._plain = set[Variable]()
        nodes = walk(self._bindings.tree)
        self._take_classes(nodes)
        for node in nodes:
            if isinstance(node, ast.Lambda):
                self._lambdas[id(node), _SELF] = node
            for target, value in _assigned(node):
                for name in names_of(target):  # what is added to a number or a tensor makes one again
                    self._values.setdefault(name, []).extend([value] * (not isinstance(node, ast.AugAssign)))
        self._take_calls(nodes)
        self._find_plain(nodes)
        found = -1
        while found != (found := sum(map(len, self._groups.values()))):  # functions are called by other names too
            for node in nodes:
                self._link(node)

    def group(self, variable: Variable) -> set[Variable]:
        """Return the variables that may share an object with one, and that."""
        return self._groups.get(variable, {variable})

    def groups(self, variables: Iterable[Variable]) -> set[Variable]:
        """Return the variables that may share an object with some, and those."""
        return set[Variable]().union(*map(self.group, variables))

    def _unite(self, variables: Iterable[Variable]) -> None:
        several = {id(group): group for group in map(self.group, variables)}
        if len(several) > 1:
            largest = max(several.values(), key=len)
            for group in several.values():
                largest |= group
            self._groups |= dict.fromkeys(largest, largest)

    def _take_classes(self, nodes: Sequence[ast.AST]) -> None:
        """Take in classes, and which methods are those of `self`: no attribute of that name is set."""
        used = [node for node in nodes if isinstance(node, (ast.Attribute, ast.Name))]
        several = any(getattr(node, "id", getattr(node, "attr", "")) in _SETTING for node in used)
        given = {node.attr for node in only(ast.Attribute, used) if not isinstance(node.ctx, ast.Load)}
        for node in only(ast.ClassDef, nodes):
            self.classes |= {bound} if (bound := self._bindings.bound_by(node)) is not None else set()
            methods = only(ast.FunctionDef, node.body)
            plain = {m.name for m in methods if not (m.decorator_list or several)} - given
            for method in methods:
                self.methods.setdefault(method.name, []).append(method)
                first = method.args.args[0].arg if method.args.args and not method.decorator_list else ""
                if len(self._bindings.of_id(id(method), first)) == 1:
                    self._own[id(method), first] = plain

    def _take_calls(self, nodes: Iterable[ast.AST]) -> None:
        """Take in what parameters are given, of functions that are only called, and by their own names."""
        calls = [(call, call.func) for call in only(ast.Call, nodes) if isinstance(call.func, ast.Name)]
        called = {func for _, func in calls}
        others = {self.variable(name) for name in only(ast.Name, nodes) if name not in called}
        for call, func in calls:
            place = self.variable(func)
            for function in only(ast.FunctionDef, self._bindings.of_id(*place)):
                for parameter, value in _given(function, call, bound=False):
                    self._values.setdefault(parameter, []).append(None if place in others else value)

    def _link(self, node: ast.AST) -> None:
        for target, value in _assigned(node):
            if not isinstance(node, ast.AugAssign) or not self.is_plain(target):
                self._unite({*map(self.variable, names_of(target)), *self.held(value)})
        if isinstance(node, FUNCTIONS):
            self._link_function(node)
        elif isinstance(node, ast.ClassDef):
            first = [(id(m), m.args.args[0].arg) for m in only(ast.FunctionDef, node.body) if m.args.args]
            self._unite([*self._bound(node), *first, *(v for base in node.bases for v in self.held(base))])
        elif isinstance(node, ast.Call) and self._names.called(node) is None:
            self._link_call(node)
        elif isinstance(node, (ast.Raise, ast.ExceptHandler)):
            raised = node.exc if isinstance(node, ast.Raise) else None
            self._unite([RAISED, *self._bound(node), *(self.held(raised) if raised is not None else ())])

    def _link_function(self, function: Function) -> None:
        given = function.args
        inner = () if isinstance(function, ast.Lambda) else own_nodes(function)
        returned = [n.value for n in inner if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom)) and n.value]
        returned += [function.body] if isinstance(function, ast.Lambda) else []
        later = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in inner)  # its results carry it out
        results = [v for value in returned for v in self.held(value)]
        self._unite([(id(function), _RESULT), *results, *(self._bound(function) if later else ())])
        defaults = zip(reversed([*given.posonlyargs, *given.args]), reversed(given.defaults), strict=False)
        for parameter, value in (*defaults, *zip(given.kwonlyargs, given.kw_defaults, strict=True)):
            self._unite({(id(function), parameter.arg), *(self.held(value) if value is not None else ())})
        for decorator in getattr(function, "decorator_list", []):
            self._unite([*self._bound(function), *self.held(decorator)])

    def _link_call(self, call: ast.Call) -> None:
        meant = self.meant_by(call)
        base = call.func.value if isinstance(call.func, ast.Attribute) else None
        for function in meant:
            method = base is not None or getattr(function, "name", "") in ("__init__", "__call__")
            for parameter, value in _given(function, call, bound=method):
                self._unite({(id(function), parameter.arg), *self.held(value)})
            own = base or (call.func if getattr(function, "name", "") == "__call__" else None)
            if own is not None and function.args.args:
                self._unite({(id(function), function.args.args[0].arg), *self.held(own)})
        shared = self.held(base or call.func).union(*map(self.held, arguments_of(call)))
        if not meant and ast.unparse(call.func).rpartition(".")[2] not in (LEAVING if base is None else TAKING):
            self._unite(shared)
        named = self._bindings.of_id(*self.variable(call.func)) if isinstance(call.func, ast.Name) else []
        known = isinstance(call.func, ast.Attribute) and self._is_own(call.func)
        others = {f for f in self.functions(shared) if getattr(f, "name", "") != "__init__" and not known} - {*named}
        if named and all(isinstance(each, FUNCTIONS) for each in named):  # nobody is given what is called
            shared = set[Variable]().union(*map(self.held, arguments_of(call)))
        for function in others:  # by other names, they may be given what those hold
            self._unite([*shared, *((id(function), parameter.arg) for parameter in only(ast.arg, walk(function.args)))])

    def _bound(self, node: ast.AST) -> list[Variable]:
        bound = self._bindings.bound_by(node)
        return [] if bound is None else [bound]

    def held(self, value: ast.AST) -> set[Variable]:
        """Return the variables whose objects an expression may be, hold or be a part of."""
        if self.is_plain(value) or isinstance(value, (ast.Compare, ast.JoinedStr)):
            return set()
        if isinstance(value, ast.Name):
            bound = self._bindings.of_id(*self.variable(value))
            if all(isinstance(each, ast.alias) for each in bound):
                return {DEFAULTED} if any(getattr(each, "name", "") == "defaultdict" for each in bound) else set()
            return {self.variable(value)}
        if isinstance(value, ast.Attribute) and value.attr == "defaultdict":
            return {DEFAULTED}
        if isinstance(value, ast.Lambda):
            return {(id(value), _SELF)}
        if isinstance(value, ast.Call) and (meant := self.meant_by(value)):
            made = {(id(f), f.args.args[0].arg) for f in meant if getattr(f, "name", "") == "__init__" and f.args.args}
            return made | {(id(function), _RESULT) for function in meant}
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            kind = self.variable(value.func)
            if kind in self.classes and len(self.group(kind)) == 1:  # whose objects have no methods
                return set[Variable]().union(*map(self.held, arguments_of(value)))
        return set[Variable]().union(*map(self.held, ast.iter_child_nodes(value)))

    def is_plain(self, value: ast.AST | None) -> bool:
        """Whether an expression is a number, a text or a tensor, which nothing changes."""
        if isinstance(value, (ast.Name, ast.Attribute)) and self._names.resolve(value) is not None:
            return True
        if isinstance(value, ast.Name):
            return self.variable(value) in self._plain
        if isinstance(value, ast.Call):
            func = value.func
            if self._names.called(value) is not None or ast.unparse(func) in _PLAIN or self.is_plain(func):
                return True
            if isinstance(func, ast.Attribute):
                return func.attr in _TELLING - {*self.methods}
            place = self.variable(value.func) if isinstance(value.func, ast.Name) else (0, "")
            functions = self._bindings.of_id(*place)
            return bool(functions) and all((id(each), _RESULT) in self._plain for each in functions)
        if isinstance(value, (ast.Attribute, ast.Subscript, ast.Starred)):
            return self.is_plain(value.value)
        parts = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.IfExp, ast.Tuple)
        inner = [n for n in ast.iter_child_nodes(value) if isinstance(n, ast.expr)] if isinstance(value, parts) else []
        return isinstance(value, (ast.Constant, ast.JoinedStr)) or (bool(inner) and all(map(self.is_plain, inner)))

    def _find_plain(self, nodes: Iterable[ast.AST]) -> None:
        """Find the variables that are always plain, and functions whose results are: all, but what hangs on others."""
        found = [(v, self._bindings.of_id(*v)) for node in nodes if (v := self._bindings.bound_by(node)) is not None]
        values: dict[Variable, list[ast.expr | None]] = {
            variable: [value for each in bound for value in self._values.get(each, [None])]
            for variable, bound in found
            if not all(isinstance(each, FUNCTIONS) for each in bound)
        }
        for function in [f for f in only(ast.FunctionDef, nodes) if not f.decorator_list]:
            returned = [n for n in own_nodes(function) if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom))]
            told = [n.value if isinstance(n, ast.Return) else None for n in returned if n.value is not None]
            values[id(function), _RESULT] = told
        self._plain = set(values)
        while gone := [v for v in self._plain if not all(map(self.is_plain, values[v]))]:
            self._plain -= {*gone}

    def _is_own(self, func: ast.Attribute) -> bool:
        """Whether something is a method of `self`: defined by its class, where no attribute hides it."""
        own = self._own.get(self.variable(func.value), set()) if isinstance(func.value, ast.Name) else set()
        return func.attr in own

    def meant_by(self, call: ast.Call) -> list[Function]:
        """Return the functions of the script that a call may call."""
        func = call.func
        if self._names.resolve(func) is not None:
            return []
        found = self.functions(self.held(func.value if isinstance(func, ast.Attribute) else func))
        if isinstance(func, ast.Attribute):
            methods = self.methods.get(func.attr, [])
            if self._is_own(func):
                return [*methods]
            return [*methods, *(f for f in found if getattr(f, "name", "") != "__init__")]
        made = self._bindings.of_id(*self.variable(func)) if isinstance(func, ast.Name) else [func]
        objects = any(not isinstance(each, (*FUNCTIONS, ast.ClassDef, ast.alias)) for each in made)
        return found + (self.methods.get("__call__", []) if objects else [])

    def functions(self, variables: Iterable[Variable]) -> list[Function]:
        """Return the functions that are in the groups of some variables."""
        found = list[Function]()
        for variable in sorted(self.groups(variables)):
            found += [self._lambdas[variable]] if variable in self._lambdas else []
            for bound in self._bindings.of_id(*variable):
                if isinstance(bound, ast.ClassDef):
                    found += [m for m in only(ast.FunctionDef, bound.body) if m.name == "__init__"]
                elif isinstance(bound, FUNCTIONS):
                    found.append(bound)
        return found

    def variable(self, name: ast.Name) -> Variable:
        """Return the variable that a name is."""
        scope = self._bindings.scope_of(name)
        return id(scope) if scope is not None else 0, name.id


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a statement, or an expression, assigns to what."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            pair = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            parts = [getattr(each, "elts", []) for each in (target, node.value)] if pair else [[target], [node.value]]
            starred = any(isinstance(part, ast.Starred) for each in parts for part in each)
            same = len(parts[0]) == len(parts[1]) and not starred
            yield from zip(*parts, strict=True) if same else [(target, node.value)]
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def names_of(target: ast.AST) -> Iterator[ast.Name]:
    """Yield the names of what is assigned to, or whose objects are changed by that."""
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred)):
        yield from names_of(target.value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        yield from (name for part in target.elts for name in names_of(part))


def _given(function: Function, call: ast.Call, *, bound: bool) -> Iterator[tuple[ast.arg, ast.expr]]:
    """Yield the parameters of a function with what a call gives to each, or may give."""
    own = [*function.args.posonlyargs, *function.args.args]
    static = any("staticmethod" in ast.unparse(each) for each in getattr(function, "decorator_list", []))
    several = [p for p in (function.args.vararg, function.args.kwarg) if p is not None]
    hidden = any(isinstance(item, ast.Starred) for item in call.args) or any(k.arg is None for k in call.keywords)
    places = own[1:] if bound and not static else own
    named = {p.arg: p for p in (*own, *function.args.kwonlyargs)}
    if hidden:
        yield from ((p, value) for p in (*named.values(), *several) for value in arguments_of(call))
        return
    yield from zip(places, call.args, strict=False)
    yield from ((named[k.arg], k.value) for k in call.keywords if k.arg in named)
    yield from ((p, value) for p in several for value in arguments_of(call))
