"""What statements read and write, and which of them depend on a value."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

CHANGING = frozenset({"add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse"})
CHANGING |= {"set_shape", "setdefault", "sort", "update"}
"""Methods that change what they are called on."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.While, ast.AsyncFor, *COMPREHENSIONS)
"""What carries out statements or expressions several times."""

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
_Kind = TypeVar("_Kind", bound=ast.AST)


@functools.lru_cache(maxsize=1024)
def walk(node: ast.AST) -> tuple[ast.AST, ...]:
    """Return a node and all that is inside, as `ast.walk` does, but for contexts and operators."""
    found = [node]
    for each in found:
        for name in each._fields:
            value = getattr(each, name, None)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:
                found.append(value)
    return tuple(found)


def only(kind: type[_Kind], nodes: Iterable[ast.AST]) -> list[_Kind]:
    """Return the nodes that are of a kind."""
    return [node for node in nodes if isinstance(node, kind)]


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """Return what a call is given."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def given_to(function: Scope, call: ast.Call, *, method: bool) -> dict[str, ast.expr] | None:
    r"""Return what a call gives the parameters of a function, None where `*` and `**` hide it.

    >>> tree = ast.parse("def f(a, b=1): pass\nf(2, b=3)")
    >>> {name: ast.unparse(value) for name, value in given_to(tree.body[0], tree.body[1].value, method=False).items()}
    {'a': '2', 'b': '3'}
    """
    if isinstance(function, ast.Module) or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    own = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)][method:]
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    if len(named) < len(call.keywords) or len(call.args) > len(own):
        return None
    return dict(zip(own, call.args, strict=False)) | named


def last_name(node: ast.AST) -> str:
    """Return the name of a variable, or of an attribute of whatever object; of a call, of what it calls."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def target_of(statement: ast.AST | None) -> ast.expr | None:
    """Return what an assignment assigns to, if that is one target."""
    several = statement.targets if isinstance(statement, ast.Assign) else []
    return several[0] if len(several) == 1 else None


def parts_of(target: ast.expr) -> list[ast.expr]:
    """Return the items of a tuple or a list that is written out; of all else itself."""
    return target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]


def bound_by(node: ast.AST) -> str | None:
    """Return the name that a node binds by itself."""
    if isinstance(node, ast.alias):
        return node.asname or node.name.partition(".")[0]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
        return node.name
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None


def names_in(tree: ast.AST) -> set[str]:
    """Return the names of the variables and the parameters inside, which no new name may be."""
    inner = walk(tree)
    return (
        {n.id for n in only(ast.Name, inner)}
        | {n.arg for n in only(ast.arg, inner)}
        | {*filter(None, map(bound_by, inner))}
    )


def is_method(function: ast.AST, tree: ast.Module) -> bool:
    """Whether a function stands in a class."""
    return any(function in kind.body for kind in only(ast.ClassDef, walk(tree)))


def called_as(scope: ast.AST, tree: ast.Module) -> str | None:
    """Return how a function of a module is called, `f` or `self.f`; None for all other scopes."""
    if not isinstance(scope, ast.FunctionDef):
        return None
    return scope.name if scope in tree.body else f"self.{scope.name}" if is_method(scope, tree) else None


def reads(node: ast.AST) -> set[str]:
    """Return the names that are read anywhere inside, those of nested functions too.

    >>> sorted(reads(ast.parse("a += b; del c; d = e")))
    ['a', 'b', 'c', 'e']
    """
    changed = only(ast.Name, (inner.target for inner in only(ast.AugAssign, walk(node))))
    found = [name for name in only(ast.Name, walk(node)) if not isinstance(name.ctx, ast.Store)]
    return {name.id for name in (*found, *changed)}


def writes(node: ast.AST) -> set[str]:
    """Return the names whose values a statement sets or may change.

    >>> sorted(writes(ast.parse("a, b[0] = f(c); d.e = 1; g.append(h); i.items()")))
    ['a', 'b', 'd', 'g']
    """
    inner = walk(node)
    changed = [call.func for call in only(ast.Call, inner) if getattr(call.func, "attr", "") in CHANGING]
    changed += [n for n in inner if isinstance(n, ast.expr) and not isinstance(getattr(n, "ctx", _LOAD), ast.Load)]
    return {*filter(None, (*map(bound_by, inner), *map(_base, changed)))}


_LOAD = ast.Load()


def _base(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def binds(node: ast.AST) -> set[str]:
    """Return the names that a statement binds anew."""
    return {inner.id for inner in only(ast.Name, walk(node)) if isinstance(inner.ctx, ast.Store)}


def loads(scope: Scope, name: str) -> list[ast.Name]:
    """Return where a name is read in a scope, and in functions inside of it that have none of that name themselves."""
    found: list[ast.Name] = []
    for node in own_nodes(scope):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            found.append(node.target)
        elif isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store):
            found.append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            own = {argument.arg for argument in given} | {*map(bound_by, only(ast.Name, own_nodes(node)))}
            found += loads(node, name) if name not in own else []
        elif isinstance(node, (ast.ClassDef, ast.Lambda)):
            found += [n for n in only(ast.Name, walk(node)) if n.id == name]
    return found


def scopes(tree: ast.Module) -> Iterator[Scope]:
    """Yield every function of a module, and the module itself."""
    yield from (node for node in walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)))


def qualified(tree: ast.Module, scope: Scope) -> str:
    """Return the name of a scope; of its class and its method, with a point between, where it is in one."""
    for kind in only(ast.ClassDef, tree.body):
        for method in only(ast.FunctionDef, kind.body):
            if scope in walk(method):
                return f"{kind.name}.{method.name}"
    return getattr(scope, "name", "<module>")


@functools.lru_cache(maxsize=1024)
def own_nodes(scope: Scope) -> tuple[ast.AST, ...]:
    """Return what stands in a scope, without the insides of the functions and classes in it; trees stay as they are."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [*reversed(scope.body)]
    while waiting:
        found.append(node := waiting.pop())
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += [child for child in ast.iter_child_nodes(node) if child._fields][::-1]
    return tuple(found)


def calls_to(tree: ast.Module, scope: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[Scope, ast.Call]]:
    """Return the calls of a function, by its name, outside of it, each with where it stands."""
    by = "attr" if is_method(scope, tree) else "id"
    return [
        (caller, call) for caller in scopes(tree) if caller is not scope for call in only(ast.Call, own_nodes(caller))
        if getattr(call.func, by, "") == scope.name
    ]  # fmt: skip


@functools.lru_cache(maxsize=256)
def simple(scope: Scope) -> tuple[ast.stmt, ...]:
    """Return the statements of a scope that have no others inside, in the order of the text."""
    return tuple(node for node in only(ast.stmt, own_nodes(scope)) if not hasattr(node, "body"))


def block_of(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """Return the list of statements that a statement of the scope stands in."""
    for node in [scope, *own_nodes(scope)]:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and statement in block:
                return block
    raise LookupError("the statement is not in the scope")


def flattened(
    block: Sequence[ast.stmt], loops: Sequence[ast.For | None], inside: Callable[[ast.With], bool]
) -> list[ast.stmt]:
    """Return the statements of a block, with those of some loops, and of some `with`, in their places."""
    found: list[ast.stmt] = []
    for statement in block:
        opened = statement in loops or (isinstance(statement, ast.With) and inside(statement))
        if opened and isinstance(statement, (ast.For, ast.With)):
            found += flattened(statement.body, loops, inside)
        else:
            found.append(statement)
    return found


def statements(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block, and those inside of `if` and `with` in it."""
    for statement in block:
        yield statement
        if isinstance(statement, ast.If):
            yield from statements(statement.body)
            yield from statements(statement.orelse)
        elif isinstance(statement, ast.With):
            yield from statements(statement.body)


def covers(condition: ast.If, wanted: Sequence[ast.stmt]) -> bool:
    """Whether each branch of a condition has one of some statements."""
    branches = [condition.body, condition.orelse]
    if len(condition.orelse) == 1 and isinstance(condition.orelse[0], ast.If):
        return covers(condition.orelse[0], wanted) and any(s in wanted for s in statements(condition.body))
    return all(any(statement in wanted for statement in statements(branch)) for branch in branches)


def hanging_after(block: Sequence[ast.stmt], names: set[str]) -> set[str]:
    r"""Return all names that may hang on some names after statements, each by its own statement in `with` and `if`.

    >>> sorted(hanging_after(ast.parse("with d:\n b = a\n c = 1\nif e:\n f = c\n").body, {"a"}))
    ['a', 'b']
    """
    hanging = set(names)
    for statement in block:
        if isinstance(statement, ast.With):
            if any(reads(item) & hanging for item in statement.items):
                hanging |= {name for item in statement.items for name in writes(item)}
            hanging = hanging_after(statement.body, hanging)
        elif isinstance(statement, ast.If) and not reads(statement.test) & hanging:
            hanging = hanging_after(statement.body, hanging) | hanging_after(statement.orelse, hanging)
        elif reads(statement) & hanging:
            hanging |= writes(statement)
    return hanging


def depending(block: Sequence[ast.stmt], names: set[str]) -> tuple[list[ast.stmt], set[str]]:
    """Return the statements that depend on some names, in order, and all names that hang on them then."""
    found, hanging = [], set(names)
    for statement in block:
        if reads(statement) & hanging:
            found.append(statement)
            hanging |= writes(statement)
    return found, hanging


def hanging_surely(block: Sequence[ast.stmt], names: set[str], ignoring: frozenset[str] = frozenset()) -> set[str]:
    r"""Return the names whose values hang on some names after statements, whichever branches are taken.

    >>> sorted(hanging_surely(ast.parse("if c: b = a; a = 0\nelse: b = [a]").body, {"a"}))
    ['b']

    Args:
        block: the statements.
        names: on which others may hang.
        ignoring: functions whose results do not hang on what they are given.
    """
    found = set(names)
    for statement in block:
        if isinstance(statement, ast.With):
            found = hanging_surely(statement.body, found, ignoring)
        elif isinstance(statement, (ast.For, ast.While)):
            found = _after_loop(statement, found, ignoring)
        elif isinstance(statement, (ast.If, ast.Try)):
            parts = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
            parts += [handler.body for handler in getattr(statement, "handlers", [])]
            afterwards = [
                hanging_surely(part, found, ignoring) for part in parts[: 2 if isinstance(statement, ast.If) else None]
            ]
            found = set.intersection(*afterwards)
        elif isinstance(statement, ast.Assign):
            found = {name for name, value in _assigned(statement) if _taken(value, ignoring) & found} | (
                found - binds(statement)
            )
        elif _taken(statement, ignoring) & found:
            found |= writes(statement)
        else:
            found -= binds(statement)
    return found


def _after_loop(loop: ast.For | ast.While, names: set[str], ignoring: frozenset[str]) -> set[str]:
    r"""Return what `hanging_surely` does of a loop, whose statements are carried out any number of times.

    >>> _after_loop(ast.parse("for a in b: c = a").body[0], {"a"}, frozenset())
    set()
    """
    if any(isinstance(inner, (ast.Break, ast.Continue)) for inner in walk(loop)):
        names = names - binds(loop)  # of which any may be the last
    while True:
        before = names
        if isinstance(loop, ast.For):
            bound = binds(loop.target)
            before = names | bound if reads(loop.iter) & names else names - bound
        left = names & hanging_surely(loop.body, before, ignoring)
        if left == names:
            return left & hanging_surely(loop.orelse, left, ignoring)
        names = left


def ignoring(tree: ast.AST) -> frozenset[str]:
    r"""Return the names of functions of which some return value may not hang on any parameter.

    >>> sorted(ignoring(ast.parse("def f(x): return x\ndef g(x):\n x = 1\n return x")))
    ['g']
    """
    found = set[str]()
    for node in only(ast.FunctionDef, walk(tree)):
        given = {argument.arg for argument in only(ast.arg, walk(node.args))}
        rebound = {name for statement in node.body for name in binds(statement)}
        hanging = (given - rebound) | hanging_surely(node.body, given)
        returned = [n.value for n in only(ast.Return, own_nodes(node))]
        found |= {node.name} if any(value is None or not reads(value) & hanging for value in returned) else set()
    return frozenset(found)


def _taken(node: ast.AST, ignoring: frozenset[str]) -> set[str]:
    """Return the names that are read, but for what functions are given that ignore it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ignoring:
        return set()
    if not any(isinstance(inner, ast.Call) for inner in walk(node)):
        return reads(node)
    own = reads(node) if isinstance(node, (ast.Name, ast.AugAssign)) else set[str]()
    return own.union(*(_taken(inner, ignoring) for inner in ast.iter_child_nodes(node)))


def _assigned(statement: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that an assignment writes, each with the expression that it is given."""
    for target in statement.targets:
        value = statement.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for part, given in zip(target.elts, value.elts, strict=True):
                yield from ((name, given) for name in writes(part))
        else:
            yield from ((name, value) for name in writes(target))


def only_indexed(nodes: Sequence[ast.AST], name: str) -> bool:
    """Whether a variable is only read by its items, `pair[0]` say, and never changed."""
    inner = [node for part in nodes for node in walk(part)]
    indexed = {id(n.value) for n in only(ast.Subscript, inner) if isinstance(n.ctx, ast.Load)}
    return all(id(n) in indexed for n in only(ast.Name, inner) if n.id == name)


def parameters_gone(old: ast.Module, new: ast.Module) -> list[tuple[str, str]]:
    r"""Return the functions that lack a parameter that they have in another version of a module, with its name.

    >>> parameters_gone(ast.parse("def f(a, b): pass"), ast.parse("def f(b): pass"))
    [('f', 'a')]
    """
    before, after = (
        {f.name: [arg.arg for arg in f.args.args] for f in only(ast.FunctionDef, walk(tree))} for tree in (old, new)
    )
    return [(name, arg) for name, args in before.items() for arg in args if arg not in after.get(name, args)]
