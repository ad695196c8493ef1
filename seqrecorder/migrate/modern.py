"""The names by which TensorFlow 2 has what an old name means, found by asking TensorFlow itself."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqrecorder.migrate.names import Names

# The same for their first arguments, though the functions are not the same object.
_ALIKE = {
    "tf.decode_raw": "tf.io.decode_raw",
    "tf.decode_csv": "tf.io.decode_csv",
    "tf.parse_example": "tf.io.parse_example",
    "tf.parse_single_example": "tf.io.parse_single_example",
}
_ALIKE_ARGUMENTS = ("serialized", "features", "out_type", "input_bytes", "records", "record_defaults", "field_delim")


@functools.cache
def modern_name(name: str) -> str | None:
    """Return an expression for an old name that means the same in TensorFlow 2, None where there is none.

    >>> modern_name("tf.FixedLenFeature"), modern_name("tf.reshape"), modern_name("tf.contrib.slim")
    ('tf.io.FixedLenFeature', 'tf.reshape', None)
    """
    import tensorflow as tf
    from tensorflow.tools.compatibility import renames_v2

    old = _found(tf.compat.v1, name)
    if old is None:
        return None
    renamed = renames_v2.renames.get(name, name)
    for candidate in (name, renamed):
        if _found(tf, candidate) is old:
            return candidate
    return "tf.compat.v1" + name.removeprefix("tf")


def _found(module: Any, name: str) -> Any:
    for part in name.split(".")[1:]:
        module = getattr(module, part, None)
    return module


def modernised(node: ast.AST, names: Names) -> Iterator[tuple[ast.expr, str | None]]:
    """Yield the expressions inside of another that need a new name, and the name; None where there is none."""
    waiting: list[ast.AST] = [node]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, ast.Call) and (old := names.resolve(inner.func)) in _ALIKE and _is_alike(inner):
            yield inner.func, f"{names.module}{_ALIKE[old][2:]}"
            waiting += [*inner.args, *inner.keywords]
            continue
        old = names.resolve(inner) if isinstance(inner, (ast.Attribute, ast.Name)) else None
        if old is None or old == "tf":
            waiting += ast.iter_child_nodes(inner)
            continue
        new = modern_name(old)
        if new != old and isinstance(inner, ast.expr):
            yield inner, None if new is None else f"{names.module}{new[2:]}"


def _is_alike(call: ast.Call) -> bool:
    return len(call.args) <= len(("input", "options")) and all(k.arg in _ALIKE_ARGUMENTS for k in call.keywords)
