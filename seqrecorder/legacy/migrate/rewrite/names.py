"""Names of TensorFlow 1 in a script whose pipelines are rewritten: new ones, and what has none."""

from __future__ import annotations

import ast
import contextlib
import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import last_name, only, reads, walk
from seqrecorder.legacy.migrate.analyze.effects import effects_of
from seqrecorder.legacy.migrate.analyze.names import Names
from seqrecorder.legacy.migrate.findings import Finding
from seqrecorder.legacy.migrate.rewrite.tf2_names import is_there, modernised
from seqrecorder.legacy.migrate.source import Source
from seqrecorder.legacy.tensorflow0 import KEYWORDS, RENAMED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seqrecorder.legacy.migrate.rewrite.output import Target
    from seqrecorder.legacy.migrate.source import Edit

_MODES = {f"tf.contrib.learn.ModeKeys.{mode.upper()}": f'"{mode}"' for mode in ("train", "eval", "infer")}
_ITERATE = "the input function returns a tf.data.Dataset now: iterate over it"
_CONSUMERS = {
    **dict.fromkeys(("tf.train.start_queue_runners", "tf.Session", "tf.train.Supervisor"), _ITERATE),
    **dict.fromkeys(
        ("tf.disable_v2_behavior", "tf.disable_eager_execution"),
        "{} keeps datasets from being iterated over: take it away",
    ),
}
_OLD_ORDER = {"tf.concat": 2, "tf.split": 3}
"""Arguments of functions whose axis came first."""
_OLD = {f"tf.{old}": f"tf.{new}" for old, new in RENAMED.items()}
_KEYWORDS = {f"tf.{RENAMED[old]}": keywords for old, keywords in KEYWORDS.items()}


def renamed(source: Source, functions: set[str]) -> list[Edit]:
    """Return the edits that give a module names of TensorFlow 2; of `tensorflow.compat.v1`, only some functions.

    Those call others, which are meant too.
    """
    names = Names(source.tree)
    made = [function for function in only(ast.FunctionDef, walk(source.tree)) if function.name in functions]
    places = [*effects_of(names).reached(made)] if names.first else [source.tree]
    changes = [change for place in places for change in modernised(place, names)]
    return source.replacing(changes)


def without_old_names(source: Source) -> Source:
    """Return a script in which names that TensorFlow 1.0 renamed, or tf.contrib had for strings, are today's."""
    names = Names(source.tree)
    changes = list[tuple[ast.expr, str]]()
    for node in walk(source.tree):
        if isinstance(node, ast.Attribute) and (found := names.resolve(node)) is not None:
            if found in _MODES:
                changes.append((node, _MODES[found]))
            elif found in _OLD and names.rooted(node) and isinstance(node.ctx, ast.Load):
                changes.append((node, ast.unparse(node).partition(".")[0] + _OLD[found].removeprefix("tf")))
    renamed = Source(source.edited(source.replacing(changes))) if changes else source
    keywords = [
        (given, f"{_KEYWORDS[called][given.arg]}={renamed.segment(given.value)}")
        for node in only(ast.Call, walk(renamed.tree))
        if (called := Names(renamed.tree).called(node) or "") in _KEYWORDS
        for given in node.keywords if given.arg in _KEYWORDS[called]
    ]  # fmt: skip
    renamed = Source(renamed.edited(renamed.replacing(keywords))) if keywords else renamed
    swapped = [
        change for node in walk(renamed.tree)
        if isinstance(node, ast.Call) and _is_old_order(Names(renamed.tree), node) and node.lineno == node.end_lineno
        and not any(_is_old_order(Names(renamed.tree), inner) for inner in walk(node.args[-1]))
        for change in zip(node.args, map(renamed.segment, node.args[::-1]), strict=True)
    ]  # fmt: skip
    return Source(renamed.edited(renamed.replacing(swapped))) if swapped else renamed


def _is_old_order(names: Names, node: ast.AST) -> bool:
    """Whether a call joins or splits tensors as before TensorFlow 1.0, with the axis first."""
    if not isinstance(node, ast.Call) or len(node.args) != _OLD_ORDER.get(names.called(node) or ""):
        return False
    return _is_axis(node.args[:1]) and not _is_axis(node.args[-1:])


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
    yield from _lacking(source.tree, names) if target == "eager" else ()
    for node in walk(source.tree):
        if isinstance(node, ast.Call) and (called := last_name(node.func)) in returning:
            yield Finding(node.lineno, "consumer", f"{called} returns a tf.data.Dataset now: iterate over it")
        if target == "eager" and isinstance(node, ast.BinOp) and _unites_items(node):
            yield Finding(node.lineno, "unhashable", "tensors of TensorFlow 2 have no hash: unite as {**one, **other}")
        modules = _imported(node)
        if any(module.startswith("tensorflow.contrib") for module in modules) and isinstance(node, ast.stmt):
            yield Finding(node.lineno, "contrib", f"{modules[0]} is in no TensorFlow after 1.15")
        if _is_old_order(names, node) and isinstance(node, ast.Call):
            yield Finding(node.lineno, "old-api", f"{names.called(node)} takes the axis last, since TensorFlow 1.0")
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        name, inner = names.resolve(node) or "", names.resolve(node.value)
        if name in _OLD:
            yield Finding(node.lineno, "old-api", f"{name} is {_OLD[name]} since TensorFlow 1.0")
        elif name.startswith("tf.contrib.") and inner == "tf.contrib":
            yield Finding(node.lineno, "contrib", f"{name} is in no TensorFlow after 1.15")
        elif target == "eager" and name in _CONSUMERS:
            yield Finding(node.lineno, "consumer", _CONSUMERS[name].format(name))


def verdict(source: Source) -> str:
    """Return in words whether a module imports under TensorFlow 2, as far as its names of TensorFlow go."""
    early = [node for node in source.tree.body if not _is_main(node)]
    lines = {node.lineno for node, _ in missing(ast.Module(early, []), Names(source.tree), early=True)}
    if not lines:
        return "the module imports under TensorFlow 2, as far as its names of TensorFlow tell"
    return f"the module does not import under TensorFlow 2 before what its TODOs say is done: {len(lines)} lines"


def of_keras_2(source: Source) -> bool:
    """Whether a script names layers of TensorFlow 1."""
    names = Names(source.tree)
    named = [names.resolve(node) or "" for node in walk(source.tree) if isinstance(node, ast.Attribute)]
    return any(name.startswith(("tf.layers.", "tf.nn.rnn_cell.")) for name in named)


def _lacking(tree: ast.Module, names: Names) -> Iterator[Finding]:
    for node, name in missing(tree, names):
        if name not in _OLD and not name.startswith("tf.contrib"):  # of which other findings say more
            yield Finding(node.lineno, "missing", f"{name} is not in TensorFlow 2")


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in reads(statement.test)


def missing(tree: ast.AST, names: Names, *, early: bool = False) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Yield the expressions and imports of what TensorFlow 2 lacks, where the script looks for it.

    Args:
        tree: in which they are looked for.
        names: of the module.
        early: whether only what is carried out when the module is imported counts.
    """
    roots = {"tf.compat.v1" if alias.name.endswith("v1") else "tf" for each in names.imports for alias in each.names}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if early and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting += [*node.decorator_list, node.args]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for module in _imported(node):
                path = module.replace("tensorflow", "tf", 1)
                if module.startswith("tensorflow.") and "*" not in path and not _importable(path):
                    yield node, path
        elif isinstance(node, (ast.Attribute, ast.Name)) and names.resolve(node) is not None:
            path = ast.unparse(node)
            rest = path[path.find(".") :] * ("." in path)
            if names.rooted(node) and not any(is_there(root + rest) for root in roots):
                yield node, names.resolve(node) or path
        elif not (early and isinstance(node, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _importable(path: str) -> bool:
    """Whether TensorFlow has a module, or something in one."""
    module, _, name = path.replace("tf", "tensorflow", 1).rpartition(".")
    if is_there(path):
        return True
    with contextlib.suppress(ImportError):
        return hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None
    return False


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _unites_items(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return isinstance(node.op, ast.BitOr) and all(ast.unparse(side).endswith(".items()") for side in sides)
