"""Whether an expression is a dictionary, several tensors or one, as far as that can be told from the text."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Literal

from seqrecorder.legacy.migrate.analyze.data_flow import bound_by, only, own_nodes, walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope
    from seqrecorder.legacy.migrate.analyze.names import Names

Structure = Literal["dict", "tuple", "list", "one"]

_DICTIONARIES = {"tf.parse_single_example", "tf.io.parse_single_example", "tf.parse_example", "tf.io.parse_example"}
_CONSTRUCTORS: dict[str, Structure] = {"dict": "dict", "list": "list", "tuple": "tuple"}
_LITERALS: tuple[tuple[Any, Structure], ...] = (
    ((ast.List, ast.ListComp), "list"),
    (ast.Tuple, "tuple"),
    ((ast.Dict, ast.DictComp), "dict"),
)
_LISTS = re.compile(r"tf\.((io\.)?decode_csv|dynamic_partition|meshgrid|split|tuple|unpack|unstack)")
"""Functions of TensorFlow that return lists; `tf.data` would stack them to one tensor."""
_SEVERAL = re.compile(
    r"tf\.(case|cond|while_loop|map_fn|scan|fold[lr]|py_func|py_function|numpy_function|unique\w*|setdiff1d|svd|qr|lu|"
    r"self_adjoint_eig|gradients|hessians|identity_n|clip_by_global_norm|(io\.)?decode_proto|sparse_split|"
    r"nn\.(moments|top_k|\w+_moments|sufficient_statistics|fused_batch_norm|max_pool_with_argmax|ctc_\w+|\w*rnn\w*|"
    r"\w+_sampler)|image\.sample_distorted_bounding_box|(contrib|data|train|layers|keras|linalg|sparse\.split)\b.*)"
)
"""Functions of TensorFlow that return, or may return, several tensors."""
_STEPS = 3  # into an expression, besides those from name to name, which may lead in a circle
_SEVERAL_ITEMS = 2
"""Items from which on a batch of a list is a list too: that of one tensor is a tensor."""
_SHORTENING = ("pop", "remove", "clear")
_PARTS_OF_SPARSE = {"indices", "values", "dense_shape"}
_PAIRS = {"tf.parse_single_sequence_example", "tf.io.parse_single_sequence_example"}


class Structures:
    """Finds structures, as they are after some statements.

    Args:
        names: of the module.
        scope: the function, or the module.
        statements: those of it where names get their values, in order.
        helpers: the structure that functions of the module return, by name.
        known: the structures of names that have their values before the statements; lists have two items or more.
    """

    def __init__(
        self,
        names: Names,
        scope: Scope,
        statements: Sequence[ast.stmt],
        helpers: Mapping[str, Structure | None],
        known: Mapping[str, Structure] | None = None,
    ) -> None:
        self._names, self._helpers = names, helpers
        inside = {node for statement in statements for node in walk(statement)}
        others = [node for node in own_nodes(scope) if node not in inside]
        given = [p.arg for p in only(ast.arg, walk(getattr(scope, "args", ast.Pass())))]
        elsewhere = [*given, *filter(None, map(bound_by, others))]
        self._known: dict[str, Structure | None] = {**dict.fromkeys(elsewhere), **(known or {})}
        self._least = dict.fromkeys(known or {}, _SEVERAL_ITEMS)
        self.returned: list[Structure | None] = []
        self._run(statements)

    def _run(self, statements: Sequence[ast.stmt]) -> None:
        """Carry out statements, as far as structures go; after branches holds what holds after each of them."""
        for statement in statements:
            if isinstance(statement, ast.Assign):
                structure, least = self.of(statement.value), self.least(statement.value)
                self._least |= {t.id: least for t in statement.targets if isinstance(t, ast.Name)}
                for target in statement.targets:
                    self._take(target, statement.value, structure)
            elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                operation = ast.BinOp(ast.Name(statement.target.id, ast.Load()), statement.op, statement.value)
                self._known[statement.target.id] = self._of_operation(operation, 0)
            elif isinstance(statement, ast.Return):
                structure = self.of(statement.value)
                few = structure in ("list", "tuple") and self.least(statement.value) < _SEVERAL_ITEMS
                self.returned.append(None if few else structure)
            elif isinstance(statement, ast.With):
                self._forget(*(item.optional_vars for item in statement.items))
                self._run(statement.body)
            elif isinstance(statement, (ast.If, ast.For, ast.While, ast.Try)):
                self._branch(statement)
            else:
                self._forget(statement)
                if any(isinstance(n, ast.Delete) or getattr(n, "attr", "") in _SHORTENING for n in walk(statement)):
                    self._least.clear()

    def _branch(self, statement: ast.If | ast.For | ast.While | ast.Try) -> None:
        """Carry out each branch; what holds after all of them holds then."""
        self._forget(getattr(statement, "target", None))
        branches = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        branches += [handler.body for handler in getattr(statement, "handlers", [])]
        if isinstance(statement, (ast.For, ast.While)):
            self._forget(*statement.body)  # what the first round leaves, the second one finds
        known, least = self._known, self._least
        after, fewest = list[dict[str, Structure | None]](), list[dict[str, int]]()
        for branch in branches[: 2 if isinstance(statement, ast.If) else None]:
            self._known, self._least = dict(known), dict(least)
            self._run(branch)
            after.append(self._known)
            fewest.append(self._least)
        names = {name for one in after for name in one}
        bound = {name: [one for one in after if name in one] for name in names}  # where it is not, nothing reads it
        found: dict[str, set[Structure | None]] = {n: {one.get(n) for one in several} for n, several in bound.items()}
        self._known = {name: kinds.pop() if len(kinds) == 1 else None for name, kinds in found.items()}
        self._least = {name: min(one.get(name, 0) for one in fewest) for name in names}

    def _forget(self, *nodes: ast.AST | None) -> None:
        """Take away what is known of the names that something binds."""
        for node in filter(None, nodes):
            for inner in walk(node):
                if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                    self._known[inner.id] = None
                    self._least.pop(inner.id, None)

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
            sides: set[Structure | None] = {self.of(node.body, depth + 1), self.of(node.orelse, depth + 1)}
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

    def least(self, node: ast.expr | None) -> int:
        """Return how many items a list has at least, as far as that can be told."""
        if isinstance(node, (ast.List, ast.Tuple)):
            return sum(not isinstance(item, ast.Starred) for item in node.elts)
        if isinstance(node, ast.Name):
            return self._least.get(node.id, 0)
        if isinstance(node, ast.ListComp):
            plain = len(node.generators) == 1 and not node.generators[0].ifs
            return self.least(node.generators[0].iter) if plain else 0
        if isinstance(node, ast.BinOp):
            factor = node.right.value if isinstance(node.right, ast.Constant) else None
            if isinstance(node.op, ast.Mult):
                return self.least(node.left) * factor if isinstance(factor, int) else 0
            return self.least(node.left) + self.least(node.right)
        if not isinstance(node, ast.Call):
            return 0
        if ast.unparse(node.func) in self._helpers:
            return _SEVERAL_ITEMS
        called = self._names.called(node)
        given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg in ("record_defaults", "num"))]
        if called is not None and _LISTS.fullmatch(called) and "csv" in called:
            return max(map(self.least, given), default=0)
        if called is not None and _LISTS.fullmatch(called):  # of so many parts
            return max((g.value for g in given if isinstance(g, ast.Constant) and isinstance(g.value, int)), default=0)
        return self.least(node.args[0]) if _is_copy(node) else 0

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
        if called is not None and _LISTS.fullmatch(called):
            return "list"
        return "one" if called and not _SEVERAL.fullmatch(called) else None


def _is_copy(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple") and len(node.args) == 1


def of_returns(
    function: ast.FunctionDef, names: Names, helpers: Mapping[str, Structure | None] | None = None
) -> Structure | None:
    """Return the structure that a function returns, None where it cannot be told, or differs, or is a list of one."""
    found = set(Structures(names, function, function.body, helpers or {}).returned)
    return found.pop() if len(found) == 1 else None
