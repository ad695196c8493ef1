"""What a script defines, without the rest of it: imports, functions, classes, plain values, flags."""

from __future__ import annotations

import ast
import contextlib
from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.migrate.analyze.data_flow import depending, reads, writes
from seqrecorder.legacy.migrate.analyze.names import PIPELINE
from seqrecorder.legacy.migrate.source import lines_of
from seqrecorder.legacy.migrate.verify.modules import found
from seqrecorder.legacy.migrate.verify.refusals import CannotTryError
from seqrecorder.legacy.migrate.verify.stand_ins import StandIn, is_file, known_value, scaled

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.For)
_PLAIN = frozenset(("dict", "float", "int", "len", "list", "namedtuple", "range", "set", "sorted", "str", "tuple"))
_PLAIN_METHODS = ("append", "format", "join")
_SIZES = ("batch", "capacity", "min_after")
_LONG = 1000  # times that a loop goes round
_PARSED = {"DEFINE_integer": int, "DEFINE_float": float}  # of which a default may be a text
_FLAGS = ("FLAGS", "parse_args()", "parse_known_args()")
_QUEUES = frozenset(name.rpartition(".")[2] for name in PIPELINE)


def defined(tree: ast.Module, place: str, *, v1: bool, package: str = "") -> dict[str, Any]:
    """Return the names that a script defines.

    Args:
        tree: the script.
        place: of its text.
        package: that it is of.
        v1: whether TensorFlow is that of `tensorflow.compat.v1`.
    """
    namespace: dict[str, Any] = {"__name__": "migrated", "__file__": place, "__package__": package}
    flags = StandIn()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            _take_flag(node)
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).endswith(_FLAGS):
            namespace.update(dict.fromkeys(writes(node), flags))
        elif isinstance(node, _DEFINING) and not (isinstance(node, (ast.Assign, ast.For)) and not _is_plain(node)):
            _carry_out(node, place, namespace, v1=v1)
    return namespace


def with_main(tree: ast.Module) -> ast.Module:
    """Return a script with what it does when it is run, `if __name__ == "__main__"`, as statements of its own."""
    body = [(s.body if isinstance(s, ast.If) and "__main__" in ast.unparse(s.test) else [s]) for s in tree.body]
    return ast.Module([statement for statements in body for statement in statements], tree.type_ignores)


def _carry_out(node: ast.stmt, place: str, namespace: dict[str, Any], *, v1: bool) -> None:
    code = node
    if isinstance(node, ast.Import) and v1:
        code = ast.fix_missing_locations(ast.copy_location(ast.Import([_v1(a) for a in node.names]), node))
    importing = isinstance(node, (ast.Import, ast.ImportFrom))
    try:
        with found(node) if importing else contextlib.nullcontext():
            exec(compile(ast.Module([code], []), place, "exec"), namespace)  # noqa: S102 - the user asked for it
    except Exception:  # noqa: BLE001 - what is missing shows where it is needed
        for name in _imported(node):
            namespace.setdefault(name, StandIn(name=name))
    if isinstance(node, ast.Assign):
        for name in writes(node) & set(namespace):
            namespace[name] = scaled(name, namespace[name])


def _v1(alias: ast.alias) -> ast.alias:
    if alias.name == "tensorflow":
        return ast.alias("tensorflow.compat.v1", alias.asname or "tensorflow")
    return alias


def _is_plain(statement: ast.stmt) -> bool:
    calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return all(getattr(f, "id", "") in _PLAIN or getattr(f, "attr", "") in _PLAIN_METHODS for f in calls)


def _imported(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    return []


def _take_flag(call: ast.Call) -> None:
    """Take in `DEFINE_integer("batch_size", 128, "...")`, and argparse's, with a value that a trial can bear."""
    named = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
    texts = [item.value if isinstance(item, ast.Constant) else None for item in call.args]
    words = ast.unparse(call.func)
    if "DEFINE_" in words:
        texts += [named.get(name) for name in ("flag_name", "default_value")[len(texts) :]]
    elif words.endswith("add_argument"):
        switched = named["action"] == "store_false" if "action" in named else None
        texts = [named.get("dest", str(texts[-1]).lstrip("-").replace("-", "_")) if texts else None]
        texts += [named.get("default", switched)]
    if len(texts) < 2 or not isinstance(name := texts[0], str) or (default := texts[1]) in (None, ""):  # noqa: PLR2004
        return
    if isinstance(default, str):
        default = _PARSED.get(words.rpartition(".")[2], str)(default)
    StandIn.texts |= {name} if isinstance(default, str) else set()
    if not is_file(name) and not (isinstance(default, bool) and known_value(name) is not None):
        StandIn.given[name] = scaled(name, default)


def large_sizes(tree: ast.AST) -> dict[int, int]:
    r"""Return the sizes of batches and of queues that a script says, and those in their place that a trial can bear.

    >>> large_sizes(ast.parse("batch_size = 64\nx = tf.train.batch([y], batch_size=9, num_threads=16, capacity=500)"))
    {64: 3, 500: 20, 9: 3}
    """
    named = [(str(node.arg), node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword)]
    named += [(n, node.value) for node in ast.walk(tree) if isinstance(node, ast.Assign) for n in writes(node)]
    sizes = {
        node.value: 3 if "batch" in name.lower() else scaled(name, node.value) for name, node in reversed(named)
        if isinstance(node, ast.Constant) and type(node.value) is int and any(word in name.lower() for word in _SIZES)
    }  # fmt: skip
    return {size: small for size, small in sizes.items() if small < size}


def long_loops(tree: ast.AST) -> set[int]:
    r"""Return the numbers of a script that say how often Python does something, and are larger than a trial can bear.

    >>> long_loops(ast.parse("n = 200000\nfor _ in range(n): pass\nx = tf.range(100000)"))
    {200000}
    """
    counted = [
        node.args[-1] for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("range", "xrange") and node.args
    ]  # fmt: skip
    names = {node.id for node in counted if isinstance(node, ast.Name)}
    given = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign) and writes(node) & names]
    numbers = [node.value for node in (*counted, *given) if isinstance(node, ast.Constant)]
    return {number for number in numbers if type(number) is int and number > _LONG}


def module_pipeline(tree: ast.Module, place: str, namespace: dict[str, Any], outputs: set[str]) -> None:
    """Carry out the statements of a module that some names need."""
    wanted = _needed(tree, outputs)
    body = [statement for statement in tree.body if statement in wanted]
    exec(compile(ast.Module(body, []), place, "exec"), namespace)  # noqa: S102 - the user asked for it


def outputs_of(tree: ast.Module) -> set[str]:
    """Return the names of a module that hang on its pipeline."""
    statements = [s for s in tree.body if not _is_definition(s)]
    first = [s for s in statements if _makes(s)]
    hanging, _ = depending(statements, {name for s in first for name in writes(s)})
    return {name for s in {*first, *hanging} for name in writes(s)}


def _needed(tree: ast.Module, outputs: set[str]) -> list[ast.stmt]:
    """Return the statements of a module that some names need, but for its definitions."""
    needed, found = set(outputs), list[ast.stmt]()
    for statement in reversed(tree.body):
        wanted = writes(statement) & needed or _runs(statement)
        if wanted and not _is_definition(statement):
            found.append(statement)
            needed |= reads(statement)
        elif isinstance(statement, ast.FunctionDef) and statement.name in needed:
            found.append(statement)  # anew, for the names that it finds are those of this run
            needed |= reads(statement)
    return [*found, *(statement for statement in tree.body if _closes(statement, needed))]


def _is_definition(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef))


def _makes(statement: ast.stmt) -> bool:
    """Whether a statement makes a part of a pipeline, old or new."""
    named = {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
    return bool(named & (_QUEUES | {"make_one_shot_iterator"})) or "data.Dataset" in ast.unparse(statement)


def _runs(statement: ast.stmt) -> bool:
    return "add_queue_runner" in ast.unparse(statement) or "QueueRunner(" in ast.unparse(statement)


def _closes(statement: ast.stmt, needed: set[str]) -> bool:
    """Whether a statement closes a file that others write."""
    func = statement.value.func if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr in ("close", "flush") and bool(reads(func) & needed)


def outermost(tree: ast.Module, name: str) -> str:
    """Return the function of the module that a function is, or stands in."""
    for node in tree.body:
        inside = ast.walk(node) if isinstance(node, ast.FunctionDef) else ()
        if isinstance(node, ast.FunctionDef) and name in {n.name for n in inside if isinstance(n, ast.FunctionDef)}:
            return node.name
    raise CannotTryError("the pipeline is made by a function inside of a method, which cannot be called alone")


def with_literals(text: str, literals: Mapping[Any, Any]) -> str:
    r"""Return the text of a script with other constants in place of some; AutoGraph reads the text.

    >>> with_literals('x = f("ä", 64) + "a" "64"; y = f"{64}"\n', {64: 3, "ä": "b"})
    'x = f(\'b\', 3) + "a" "64"; y = f"{64}"\n'
    """
    lines = [line.encode() for line in lines_of(text)]
    tree = ast.parse(text)
    inside = {id(node) for whole in ast.walk(tree) if isinstance(whole, ast.JoinedStr) for node in ast.walk(whole)}
    found = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) in (str, int) and node.value in literals
        and node.lineno == node.end_lineno and id(node) not in inside
    ]  # fmt: skip
    for node in sorted(found, key=lambda node: node.col_offset, reverse=True):
        line, place = lines[node.lineno - 1], slice(node.col_offset, node.end_col_offset)
        lines[node.lineno - 1] = line[: place.start] + repr(literals[node.value]).encode() + line[place.stop :]
    return b"".join(lines).decode()
