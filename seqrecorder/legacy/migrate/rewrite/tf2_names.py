"""The names by which TensorFlow 2 has what an old name means, found by asking TensorFlow itself."""

from __future__ import annotations

import ast
import functools
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqrecorder.legacy.migrate.analyze.names import Names

# Not the same object, but the same function for so many positional arguments and for these keywords.
_PARSING = ("serialized", "features", "out_type", "input_bytes", "records", "record_defaults", "field_delim")
_REDUCING = ("axis", "keepdims")
_ALIKE: dict[str, tuple[str, int, tuple[str, ...]]] = {
    **{f"tf.{name}": (f"tf.io.{name}", 2, _PARSING) for name in ("decode_raw", "decode_csv")},
    **{f"tf.{name}": (f"tf.io.{name}", 2, _PARSING) for name in ("parse_example", "parse_single_example")},
    **{
        f"tf.reduce_{name}": (f"tf.reduce_{name}", 2, _REDUCING) for name in ("all", "any", "max", "mean", "min", "sum")
    },
    "tf.cond": ("tf.cond", 3, ("pred", "true_fn", "false_fn", "name")),
    "tf.shape": ("tf.shape", 1, ("out_type", "name")),
    "tf.size": ("tf.size", 1, ("out_type", "name")),
    "tf.expand_dims": ("tf.expand_dims", 2, ("axis", "name")),
    "tf.constant": ("tf.constant", 3, ("dtype", "shape", "name")),
    "tf.convert_to_tensor": ("tf.convert_to_tensor", 2, ("dtype", "name")),
    "tf.device": ("tf.device", 1, ()),
    "tf.gfile.Exists": ("tf.io.gfile.exists", 1, ()),
    "tf.py_func": ("tf.numpy_function", 3, ("func", "inp", "Tout", "name")),
    "tf.serialize_sparse": ("tf.io.serialize_sparse", 1, ("name", "out_type")),
    "tf.gfile.Glob": ("tf.io.gfile.glob", 1, ()),
    "tf.strings.length": ("tf.strings.length", 1, ("unit", "name")),
    "tf.squeeze": ("tf.squeeze", 2, ("axis", "name")),
}


@functools.cache
def modern_name(name: str) -> str | None:
    """Return an expression for an old name that means the same in TensorFlow 2, None where there is none.

    >>> modern_name("tf.FixedLenFeature"), modern_name("tf.reshape"), modern_name("tf.contrib.slim")
    ('tf.io.FixedLenFeature', 'tf.reshape', None)
    """
    import tensorflow as tf
    from tensorflow.tools.compatibility import renames_v2

    whole, rest = _split(tf.compat.v1, name)
    old = _found(tf.compat.v1, whole)
    if old is None:
        return None
    renamed = renames_v2.renames.get(whole, whole)
    for candidate in (whole, renamed):
        if _found(tf, candidate) is old:
            return candidate + rest
    return "tf.compat.v1" + whole.removeprefix("tf") + rest


def is_there(path: str) -> bool:
    """Whether TensorFlow 2 has a name as it is written, `tf.compat.v1.app` say.

    >>> is_there("tf.compat.v1.app.flags.FLAGS.rows"), is_there("tf.app")
    (True, False)
    """
    import tensorflow as tf

    return _found(tf, _split(tf, path)[0]) is not None


def _split(module: Any, name: str) -> tuple[str, str]:
    """Return what of a name is TensorFlow's, and the attributes that are those of an object: `FLAGS` and `.rows`."""
    parts = name.split(".")
    for number, part in enumerate(parts[1:], start=2):
        module = getattr(module, part, None)
        if not isinstance(module, (types.ModuleType, type)):
            return ".".join(parts[:number]), "".join(f".{part}" for part in parts[number:])
    return name, ""


def _found(module: Any, name: str) -> Any:
    for part in name.split(".")[1:]:
        module = getattr(module, part, None)
    return module


def modernised(node: ast.AST, names: Names) -> Iterator[tuple[ast.expr, str]]:
    """Yield the expressions inside of another that need a new name, and the name."""
    waiting: list[ast.AST] = [node]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, ast.JoinedStr):  # where names stand in it, Python does not tell before 3.12
            continue
        if (
            isinstance(inner, ast.Call)
            and (old := names.resolve(inner.func)) in _ALIKE
            and _is_alike(inner, old, names)
        ):
            if _ALIKE[old][0] != old:
                yield inner.func, f"{names.module}{_ALIKE[old][0][2:]}"
            waiting += [*inner.args, *inner.keywords]
            continue
        old = names.resolve(inner) if isinstance(inner, (ast.Attribute, ast.Name)) else None
        if old is None or old in ("tf", "tf.data") or old.startswith("tf.data."):  # those are written for TensorFlow 2
            waiting += ast.iter_child_nodes(inner)
            continue
        new = modern_name(old)
        if new not in (None, old) and isinstance(inner, ast.expr) and names.rooted(inner):  # else where it is imported
            yield inner, f"{names.module}{new[2:]}"


def _is_alike(call: ast.Call, old: str, names: Names) -> bool:
    _, most, keywords = _ALIKE[old]
    if len(call.args) > most or not all(keyword.arg in keywords for keyword in call.keywords):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return old != "tf.cond" or any(_gives_a_tensor(value, names) for value in given)


def _gives_a_tensor(branch: ast.expr, names: Names) -> bool:
    """Whether a branch of `tf.cond` surely gives no list, out of which TensorFlow 1 took a single tensor."""
    return (
        isinstance(branch, ast.Lambda) and isinstance(branch.body, ast.Call) and bool(names.resolve(branch.body.func))
    )
