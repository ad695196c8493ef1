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
    """Finds structures, as they are after some statements.

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
        self._known: dict[str, Structure | None] = dict(known or {})
        self.returned: list[Structure | None] = []
        self._run(statements)

    def _run(self, statements: Sequence[ast.stmt]) -> None:
        """Carry out statements, as far as structures go; after branches holds what holds after each of them."""
        for statement in statements:
            if isinstance(statement, ast.Assign):
                structure = self.of(statement.value)
                for target in statement.targets:
                    self._take(target, statement.value, structure)
            elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                operation = ast.BinOp(ast.Name(statement.target.id, ast.Load()), statement.op, statement.value)
                self._known[statement.target.id] = self._of_operation(operation, 0)
            elif isinstance(statement, ast.Return):
                self.returned.append(self.of(statement.value))
            elif isinstance(statement, ast.With):
                self._forget(*(item.optional_vars for item in statement.items))
                self._run(statement.body)
            elif isinstance(statement, (ast.If, ast.For, ast.While, ast.Try)):
                self._forget(getattr(statement, "target", None))
                branches = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
                branches += [handler.body for handler in getattr(statement, "handlers", [])]
                if isinstance(statement, (ast.For, ast.While)):
                    self._forget(*statement.body)  # what the first round leaves, the second one finds
                before, after = self._known, list[dict[str, Structure | None]]()
                for branch in branches[: 2 if isinstance(statement, ast.If) else None]:
                    self._known = dict(before)
                    self._run(branch)
                    after.append(self._known)
                names = set().union(*after)
                self._known = {n: one[n] for one in after[:1] for n in one if all(o.get(n) == one[n] for o in after)}
                self._known |= dict.fromkeys(names - set(self._known))
            else:
                self._forget(statement)

    def _forget(self, *nodes: ast.AST | None) -> None:
        """Take away what is known of the names that something binds."""
        for node in filter(None, nodes):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                    self._known[inner.id] = None

    def _take(self, target: ast.expr, value: ast.expr, structure: Structure | None) -> None:
        if isinstance(target, ast.Name):
            self._known[target.id] = structure
        elif isinstance(target, (ast.Tuple, ast.List)):
            pair = self._names.called(value) in _PAIRS
            for item in target.elts:
                if isinstance(item, ast.Name):
                    self._known[item.id] = "dict" if pair else "one"

    def of(self, node: ast.expr | None, depth: int = 0) -> Structure | None:
        """Return the structure of an expression, None where it cannot be told."""
        if node is None or depth > _STEPS:
            return None
        for kinds, structure in _LITERALS:
            if isinstance(node, kinds):
                return structure
        if isinstance(node, ast.BinOp):
            return self._of_operation(node, depth)
        if isinstance(node, ast.IfExp):
            sides = {self.of(node.body, depth + 1), self.of(node.orelse, depth + 1)}
            return sides.pop() if len(sides) == 1 else None
        if isinstance(node, ast.Name):
            return self._known.get(node.id)
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
    found = set(Structures(names, function.body, {}).returned)
    return found.pop() if len(found) == 1 else None
