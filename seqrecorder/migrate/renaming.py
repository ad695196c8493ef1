"""Names of TensorFlow 1 in a script whose pipelines are rewritten: new ones, and what has none."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.migrate.findings import Finding
from seqrecorder.migrate.flow import reads
from seqrecorder.migrate.modern import modernised
from seqrecorder.migrate.names import Names
from seqrecorder.migrate.source import Edit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from seqrecorder.migrate.delivery import Target
    from seqrecorder.migrate.source import Source

_MODES = {f"tf.contrib.learn.ModeKeys.{mode.upper()}": f'"{mode}"' for mode in ("train", "eval", "infer")}
_CONSUMERS = frozenset({"tf.train.start_queue_runners", "tf.Session", "tf.train.Supervisor"})
_OLD = {
    "tf.batch_matmul": "tf.matmul",
    "tf.mul": "tf.multiply",
    "tf.neg": "tf.negative",
    "tf.pack": "tf.stack",
    "tf.select": "tf.where",
    "tf.sub": "tf.subtract",
    "tf.unpack": "tf.unstack",
}


def renamed(source: Source, functions: set[str]) -> list[Edit]:
    """Return the edits that give names of TensorFlow 2 to what some functions use, and those that they call."""
    names = Names(source.tree)
    inner = [n for n in ast.walk(source.tree) if isinstance(n, ast.FunctionDef) and n.name in functions]
    waiting, found = inner, list[ast.FunctionDef]()
    own = {node.name: node for node in source.tree.body if isinstance(node, ast.FunctionDef)}
    while waiting:
        function = waiting.pop()
        if function not in found:
            found.append(function)
            waiting += [own[name] for name in reads(function) & set(own)]
    changes = [change for function in found for change in (*modernised(function, names), *_united(function))]
    return substituted(source, changes)


def substituted(source: Source, changes: Iterable[tuple[ast.expr, str | None]]) -> list[Edit]:
    """Return the edits that write other expressions for some that stand on one line."""
    wanted = {(n.lineno, n.col_offset): (n, new) for n, new in changes if new is not None and n.lineno == n.end_lineno}
    lines = {line for line, _ in wanted}
    return [Edit(line, line, (source.substituted(line, list(wanted.values())),)) for line in sorted(lines)]


def modes(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Yield the names that tf.contrib had for strings, and the strings."""
    names = Names(source.tree)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and (found := names.resolve(node)) in _MODES:
            yield node, _MODES[found or ""]


def _united(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, str]]:
    """Yield unions of dictionaries' items, whose tensors have no hash any more, and what can be written instead."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict" and len(node.args) == 1:
            union = node.args[0]
            if isinstance(union, ast.BinOp) and _unites_items(union):
                parts = [ast.unparse(side).removesuffix(".items()") for side in (union.left, union.right)]
                yield node, f"{{**{parts[0]}, **{parts[1]}}}"


def _is_axis(given: list[ast.expr]) -> bool:
    return any(isinstance(item, ast.Constant) and isinstance(item.value, int) for item in given)


def left(source: Source, target: Target, functions: Sequence[str]) -> Iterator[Finding]:
    """Yield what of a converted script a person has to look at.

    Args:
        source: the script.
        target: of the new pipelines.
        functions: names of those that make pipelines; under the eager target they return a dataset where they
            returned tensors.
    """
    names = Names(source.tree)
    returning = {name.rpartition(".")[2] for name in functions} if target == "eager" else set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and (called := _last_name(node.func)) in returning:
            yield Finding(node.lineno, "consumer", f"{called} returns a tf.data.Dataset now: iterate over it")
        if target == "eager" and isinstance(node, ast.BinOp) and _unites_items(node):
            yield Finding(node.lineno, "unhashable", "tensors of TensorFlow 2 have no hash: unite as {**one, **other}")
        modules = _imported(node)
        if any(module.startswith("tensorflow.contrib") for module in modules) and isinstance(node, ast.stmt):
            yield Finding(node.lineno, "contrib", f"{modules[0]} is in no TensorFlow after 1.15")
        if names.called(node) == "tf.concat" and isinstance(node, ast.Call) and _is_axis(node.args[:1]):
            yield Finding(node.lineno, "old-api", "tf.concat takes the tensors first, since TensorFlow 1.0")
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        name, inner = names.resolve(node) or "", names.resolve(node.value)
        if name in _OLD:
            yield Finding(node.lineno, "old-api", f"{name} is {_OLD[name]} since TensorFlow 1.0")
        elif name.startswith("tf.contrib.") and inner == "tf.contrib":
            yield Finding(node.lineno, "contrib", f"{name} is in no TensorFlow after 1.15")
        elif target == "eager" and name in _CONSUMERS:
            yield Finding(node.lineno, "consumer", "the input function returns a tf.data.Dataset now: iterate over it")


def _last_name(func: ast.expr) -> str | None:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else None


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _unites_items(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return isinstance(node.op, ast.BitOr) and all(ast.unparse(side).endswith(".items()") for side in sides)
