"""How a rewritten script imports TensorFlow."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import names_in, walk
from seqrecorder.legacy.migrate.analyze.names import PIPELINE
from seqrecorder.legacy.migrate.rewrite.tf2_names import modern_name
from seqrecorder.legacy.migrate.source import Edit
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from seqrecorder.legacy.migrate.analyze.names import Names
    from seqrecorder.legacy.migrate.rewrite.output import Target
    from seqrecorder.legacy.migrate.source import Source


def imports_of_graphs(source: Source, names: Names, target: Target, *, behaving: bool | None = None) -> list[Edit]:
    """Return the edits that make a script one for `tensorflow.compat.v1`, where it goes on in a graph.

    Args:
        source: the script.
        names: what it calls TensorFlow's names.
        target: what its functions become.
        behaving: whether it behaves like TensorFlow 1 too; None where it goes on in a graph.

    Raises:
        Unclear: TensorFlow is imported in a way that cannot be changed.
    """
    if not any(names.mentions(source.tree, PIPELINE)):
        return []
    parts = [node for node in walk(source.tree) if isinstance(node, ast.ImportFrom) and _is_old(node)]
    if target == "eager" and behaving is None:
        return [_from_first(source, node) for node in parts]
    edits: list[Edit] = []
    for node in names.imports:
        called = [alias.asname or alias.name for alias in node.names if alias.name == "tensorflow"]
        if not isinstance(node, ast.Import) or not called:
            continue
        if not source.alone(node):
            raise Unclear("import", "TensorFlow is imported on a line that other statements share", node)
        lines = [f"import tensorflow.compat.v1 as {name}" for name in called]
        lines += [f"{called[0]}.disable_v2_behavior()"] * (not edits and behaving is not False)
        others = [source.segment(alias) for alias in node.names if alias.name != "tensorflow"]
        lines += [f"import {', '.join(others)}"] * bool(others)
        edits.append(Edit.instead(node, *(source.indent(node) + line for line in lines)))
    if not names.imports:
        raise Unclear("import", "TensorFlow is not imported by a name of its own", source.tree.body[0])
    return edits + [_from_first(source, node) for node in parts]


def _is_old(node: ast.ImportFrom) -> bool:
    """Whether names are imported from TensorFlow that are others in TensorFlow 2, or are not in it."""
    if node.module != "tensorflow" or node.level:
        return False
    found = [f"tf.{alias.name}" for alias in node.names if alias.name not in ("contrib", "compat", "*")]
    return any(modern_name(name) != name for name in found)


def _from_first(source: Source, node: ast.ImportFrom) -> Edit:
    """Return the edit by which names are imported from TensorFlow 1."""
    line = source.lines[node.lineno - 1].replace("from tensorflow ", "from tensorflow.compat.v1 ", 1)
    return Edit(node.lineno, node.lineno, (line,))


def package_in(tree: ast.Module) -> str:
    """Return how a script calls this package once it imports it."""
    return "sr" if "sr" not in names_in(tree) else "seqrecorder"


def import_of_package(source: Source, names: Names, package: str) -> Edit:
    """Return the edit that imports this package: before TensorFlow, on a line of its own."""
    first: ast.stmt | None = min(names.imports, key=lambda node: node.lineno, default=None)
    if first is not None and first not in source.tree.body:
        first = source.tree.body[0]  # it may be imported under a condition, or in a function
    if first is None or not source.alone(first) or isinstance(first, ast.Expr):
        said = "TensorFlow is not imported by a name of its own, or in a place of its own"
        raise Unclear("import", said, first or source.tree.body[0])
    said = "import seqrecorder as sr" if package == "sr" else "import seqrecorder"
    return Edit(first.lineno, first.lineno - 1, (said,))
