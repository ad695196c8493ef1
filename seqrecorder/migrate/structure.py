"""Whether an expression is a dictionary, several tensors or one, as far as that can be told from the text."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.migrate.names import Names

Structure = Literal["dict", "tuple", "list", "one"]

_DICTIONARIES = {"tf.parse_single_example", "tf.io.parse_single_example", "tf.parse_example", "tf.io.parse_example"}
_CONSTRUCTORS: dict[str, Structure] = {"dict": "dict", "list": "list", "tuple": "tuple"}
_LITERALS: tuple[tuple[Any, Structure], ...] = (
    ((ast.List, ast.ListComp), "list"),
    (ast.Tuple, "tuple"),
    ((ast.Dict, ast.DictComp), "dict"),
)
_LISTS = frozenset(
    (
        *("tf.decode_csv", "tf.io.decode_csv", "tf.dynamic_partition", "tf.meshgrid", "tf.split", "tf.tuple"),
        *("tf.unpack", "tf.unstack"),
    )
)
"""Functions of TensorFlow that return lists; `tf.data` would stack them to one tensor."""
_SEVERAL = re.compile(
    r"tf\.(case|cond|while_loop|map_fn|scan|fold[lr]|py_func|py_function|numpy_function|unique\w*|setdiff1d|svd|qr|lu|"
    r"self_adjoint_eig|gradients|hessians|identity_n|clip_by_global_norm|(io\.)?decode_proto|sparse_split|"
    r"nn\.(moments|top_k|\w+_moments|sufficient_statistics|fused_batch_norm|max_pool_with_argmax|ctc_\w+|\w*rnn\w*|"
    r"\w+_sampler)|image\.sample_distorted_bounding_box|(contrib|data|train|layers|keras|linalg|sparse\.split)\b.*)"
)
"""Functions of TensorFlow that return, or may return, several tensors."""
_STEPS = 3  # into an expression, besides those from name to name, which may lead in a circle
_PARTS_OF_SPARSE = {"indices", "values", "dense_shape"}
_PAIRS = {"tf.parse_single_sequence_example", "tf.io.parse_single_sequence_example"}


class Structures:
    """Finds structures.

    Args:
        names: of the module.
        statements: where names get their values, in order.
        helpers: the structure that functions of the module return, by name.
        known: the structures of names that have their values before the statements.
    """

    def __init__(
        self,
        names: Names,
        statements: Sequence[ast.stmt],
        helpers: Mapping[str, Structure | None],
        known: Mapping[str, Structure] | None = None,
    ) -> None:
        self._names, self._helpers = names, helpers
        self._values: dict[str, ast.expr] = {}
        self._known: dict[str, Structure] = dict(known or {})
        for statement in statements:
            for node in ast.walk(statement):
                if isinstance(node, ast.Assign):
                    self._take(node)

    def _take(self, node: ast.Assign) -> None:
        pair = self._names.called(node.value) in _PAIRS
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._values[target.id] = node.value
                self._known.pop(target.id, None)
            elif isinstance(target, (ast.Tuple, ast.List)):
                for item in target.elts:
                    if isinstance(item, ast.Name):
                        self._values.pop(item.id, None)
                        self._known[item.id] = "dict" if pair else "one"

    def of(self, node: ast.expr | None, depth: int = 0) -> Structure | None:
        """Return the structure of an expression, None where it cannot be told."""
        if node is None or depth > len(self._values) + _STEPS:
            return None
        for kinds, structure in _LITERALS:
            if isinstance(node, kinds):
                return structure
        if isinstance(node, ast.BinOp):
            return self._of_operation(node, depth)
        if isinstance(node, ast.Name):
            if node.id in self._known:
                return self._known[node.id]
            return self.of(self._values.get(node.id), depth + 1)
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            return "one" if self.of(node.value, depth + 1) is not None else None
        if isinstance(node, ast.Attribute) and node.attr in _PARTS_OF_SPARSE:
            return self.of(node.value, depth + 1)
        return None

    def _of_operation(self, node: ast.BinOp, depth: int) -> Structure | None:
        """Return the structure of a sum and its like: of lists it is a list, of anything else one tensor."""
        sides = {self.of(side, depth) for side in (node.left, node.right)}
        if not isinstance(node.op, (ast.Add, ast.Mult)):
            return "one"
        several = sides & {"list", "tuple"}
        if several or "dict" in sides:
            return "list" if several == {"list"} else None
        known = "one" in sides or any(isinstance(side, ast.Constant) for side in (node.left, node.right))
        return "one" if known else None

    def _of_call(self, node: ast.Call) -> Structure | None:
        if ast.unparse(node.func) in self._helpers:
            return self._helpers[ast.unparse(node.func)]
        if isinstance(node.func, ast.Name) and node.func.id in _CONSTRUCTORS:
            return _CONSTRUCTORS[node.func.id]
        called = self._names.called(node)
        if called in _DICTIONARIES:
            return "dict"
        if called in _LISTS:
            return "list"
        return "one" if called and not _SEVERAL.fullmatch(called) else None


def of_returns(function: ast.FunctionDef, names: Names) -> Structure | None:
    """Return the structure that a function returns, None where it cannot be told or differs."""
    structures = Structures(names, function.body, {})
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    found: set[Structure | None] = {structures.of(node.value) for node in returns}
    return found.pop() if len(found) == 1 else None
