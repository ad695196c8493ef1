"""Names of `tf.contrib` in a lifted script: those of `seqrecorder.legacy.contrib`, as far as that has them."""

from __future__ import annotations

import ast

from seqrecorder.legacy import contrib
from seqrecorder.legacy.migrate.analyze.data_flow import walk
from seqrecorder.legacy.migrate.analyze.names import DATASET, Names
from seqrecorder.legacy.migrate.source import Edit, Source
from seqrecorder.legacy.migrate.unclear import Unclear

_OLD = "tf.contrib."
_NEW = "legacy.contrib"
_INSIDE = frozenset({"python", "data", "ops", "training", "bucket_ops", "slim", "learn", "learn_io", "layers"})
"""Names on the way to a module inside a package of `tf.contrib`."""


def with_shims(source: Source, package: str) -> Source:
    """Return a script that takes what it uses of `tf.contrib` from this package, which it calls by some name.

    A package of `tf.contrib` of which anything is used that is not here stays as it is.
    """
    names = Names(source.tree)
    found = [(node, name) for node in walk(source.tree) if (name := names.resolve(node) or "").startswith(_OLD)]
    inner = {id(node.value) for node, _ in found if isinstance(node, ast.Attribute)}
    used = [(node, name) for node, name in found if id(node) not in inner]
    if any(names.resolve(node) == "tf.contrib" and id(node) not in inner for node in walk(source.tree)):
        return source
    imports = [(node, _imported(node)) for node in walk(source.tree) if _is_of_contrib(node)]
    lacking = {_package(name) for _, name in used if _here(name) is None}
    lacking |= {
        _package(name) for node, wanted in imports for name, _ in wanted
        if _here(name) is None or not isinstance(node, ast.stmt) or not _is_plain(source, node)
    }  # fmt: skip
    changes = [
        (node, f"{package}.{_NEW}.{here}") for node, name in used
        if isinstance(node, ast.expr) and names.rooted(node) and _package(name) not in lacking
        and (here := _here(name)) is not None
    ]  # fmt: skip
    edits = source.replacing(changes)
    for node, wanted in imports:
        if isinstance(node, ast.stmt) and not {_package(name) for name, _ in wanted} & lacking:
            lines = [source.indent(node) + _line(name, called) for name, called in wanted]
            edits.append(Edit(node.lineno, node.lineno, tuple(lines)))
    return Source(source.edited(edits)) if edits else source


def check_shims(source: Source) -> None:
    """Raise `Unclear` where a script describes a dataset of TF-Slim, and uses of that what this package lacks."""
    shimmed = with_shims(source, "sr")
    if any(Names(shimmed.tree).mentions(shimmed.tree, frozenset({DATASET}))):
        [node, *_] = [node for _, node in Names(source.tree).mentions(source.tree, frozenset({DATASET}))]
        said = "the dataset is TF-Slim's, of which seqrecorder.legacy.contrib lacks what else is used here"
        raise Unclear("reader-class", said, node)


def _package(name: str) -> str:
    return name.removeprefix(_OLD).partition(".")[0]


def _here(name: str) -> str | None:
    """Return a name of `tf.contrib` as one of this package's, None where it is not here.

    >>> _here("tf.contrib.slim.python.slim.data.tfexample_decoder"), _here("tf.contrib.slim.conv2d")
    ('slim.tfexample_decoder', None)
    """
    first, *rest = name.removeprefix(_OLD).split(".")
    parts = [first, *(part for part in rest if part not in _INSIDE)]
    place: object = contrib
    for part in parts:
        place = getattr(place, part, None)
    return None if place is None else ".".join(parts)


def _is_of_contrib(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not node.level and f"{node.module}.".startswith("tensorflow.contrib.")
    return isinstance(node, ast.Import) and any(f"{a.name}.".startswith("tensorflow.contrib.") for a in node.names)


def _imported(node: ast.AST) -> list[tuple[str, str]]:
    """Return the old names that a statement imports, and how it calls them; an empty one where that is by no name."""
    if isinstance(node, ast.ImportFrom):
        module = (node.module or "").replace("tensorflow", "tf", 1)
        return [(f"{module}.{alias.name}", alias.asname or alias.name) for alias in node.names]
    aliases = node.names if isinstance(node, ast.Import) else []
    return [(alias.name.replace("tensorflow", "tf", 1), alias.asname or "") for alias in aliases]


def _is_plain(source: Source, node: ast.stmt) -> bool:
    """Whether an import stands on a line of its own, and binds names, not the package."""
    return node.lineno == node.end_lineno and source.alone(node) and all(called for _, called in _imported(node))


def _line(name: str, called: str) -> str:
    module, _, last = f"seqrecorder.{_NEW}.{_here(name)}".rpartition(".")
    return f"from {module} import {last}" + f" as {called}" * (called != last)
