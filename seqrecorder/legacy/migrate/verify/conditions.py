"""The conditions of a script, and the arguments under which its functions take their other ways."""

from __future__ import annotations

import ast
import itertools
import operator
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.legacy.migrate.verify.stand_ins import StandIn, known_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_MOST = 7
"""Positions that are tried besides the one that a function has by itself: all of three switches."""


_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_SEVERAL = (ast.Tuple, ast.List)
_OPENING = frozenset(("open", "codecs.open", "tf.gfile.Open", "tf.gfile.GFile", "tf.gfile.Glob", "os.listdir"))
_OF_TEXTS = frozenset(dir(str)) - frozenset(dir(list)) - frozenset(dir(dict))
_OF_OTHERS = frozenset(("shape", "get_shape", "set_shape", "dtype", "dequeue", "dequeue_many", "enqueue", "size")) | {
    name for kind in (int, list, dict, set) for name in dir(kind)
}


@attrs.frozen
class Conditions:
    """What the conditions of a script look at.

    Attributes:
        texts: those that names are compared with.
        numbers: likewise, each with how.
        tested: names that are conditions by themselves.
        optional: names that are compared with None.
    """

    texts: dict[str, list[Any]]
    tested: set[str]
    optional: set[str]
    numbers: dict[str, list[tuple[Callable[[Any, Any], Any], int]]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, tree: ast.AST) -> Conditions:
        """Return the conditions of a script.

        >>> found = Conditions.of(ast.parse("x = (1 if not a else 2) if b and c is None and mode == 'train' else y"))
        >>> found.texts, sorted(found.tested), found.optional
        ({'mode': ['train']}, ['a', 'b'], {'c'})
        """
        texts: dict[str, list[Any]] = {}
        optional: set[str] = set()
        numbers: dict[str, list[tuple[Callable[[Any, Any], Any], int]]] = {}
        aliases = _aliases(tree)
        lists = {_name(n.targets[0]): n.value for n in ast.walk(tree) if isinstance(n, ast.Assign)}
        refusing = [n.test for n in ast.walk(tree) if isinstance(n, ast.If) and isinstance(n.body[-1], ast.Raise)]
        compared = [n for test in refusing for n in ast.walk(test) if isinstance(n, ast.Compare)]
        refused = {node for node in compared if isinstance(node.ops[0], ast.Eq)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and _is_name(node.left) and node not in refused:
                among = [lists[_name(c)] for c in node.comparators if _name(c) in lists]
                constants = [c.value for part in (node, *among) for c in ast.walk(part) if isinstance(c, ast.Constant)]
                name = aliases.get(_name(node.left), _name(node.left))
                if found := [text for text in constants if isinstance(text, str)]:
                    texts.setdefault(name, []).extend(found)
                optional |= {name} if None in constants else set()
                if (how := _COMPARED.get(type(node.ops[0]))) and (limits := [n for n in constants if type(n) is int]):
                    numbers.setdefault(name, []).append((how, limits[0]))
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and "thread" in _name(node.left):
                multiple = node.right.value if isinstance(node.right, ast.Constant) else 1
                texts.setdefault(_name(node.left), []).append(multiple)
        return cls(texts, {_name(part) for part in _parts(tree) if _is_name(part)}, optional, numbers)

    def positions(self, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield changes of arguments by which conditions come out otherwise: each alone, then several at once.

        >>> conditions = Conditions({"mode": ["train"]}, set(), set())
        >>> list(conditions.positions({"mode": "train", "shuffle": False, "size": 3}))
        [{'mode': 'eval'}, {'shuffle': True}, {'mode': 'eval', 'shuffle': True}]
        >>> list(Conditions.of(ast.parse("if epochs <= 0: pass")).positions({"epochs": 2}))
        [{'epochs': 0}]
        """
        found = {name: self._others(name.removeprefix("."), value) for name, value in values.items()}
        alone = sum(map(len, found.values()))
        every = deviations({name: [(name, other) for other in others] for name, others in found.items() if others})
        return itertools.islice(every, 1, max(alone, _MOST) + 1)

    def _others(self, name: str, value: Any) -> list[Any]:
        """Return the other values of an argument that a condition may tell from its own."""
        if isinstance(value, bool):
            return [not value]
        if isinstance(value, str) and (known := self.texts.get(name, ["train"] if value == "train" else [])):
            return [text for text in dict.fromkeys([*known, "eval" if "train" in known else "other"]) if text != value]
        if type(value) is int and name in self.numbers:
            compared = [(how, limit, limit + step) for how, limit in self.numbers[name] for step in (0, -1, 1)]
            others = [n for how, limit, n in compared if n >= 0 and how(n, limit) != how(value, limit)]
            return list(dict.fromkeys(others))[: len(self.numbers[name])]
        if value is None and name in self.optional:
            instead = known_value(name)
            return [StandIn() if instead is None else instead]
        return [None if isinstance(value, int) else False] if name in self.tested and value is not None else []


def deviations(others: Mapping[str, list[tuple[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield other values of arguments: none, then those of each alone, then of several at once.

    >>> list(deviations({"a": [("a", 1)], "b": [("b", 2)]}))
    [{}, {'a': 1}, {'b': 2}, {'a': 1, 'b': 2}]
    """
    for number in range(len(others) + 1):
        for names in itertools.combinations(others, number):
            for chosen in itertools.product(*(others[name] for name in names)):
                yield dict(chosen)


def attributes_tested(tree: ast.AST, lines: set[int]) -> set[str]:
    r"""Return the attributes, of flags as a rule, of conditions under which some lines stand.

    >>> attributes_tested(ast.parse("if FLAGS.crop and mode == self.mode:\n  pass\nif FLAGS.flip:\n  pass"), {2})
    {'crop'}
    """
    heads = [part.left if isinstance(part, ast.Compare) else part for part in _parts(tree, lines)]
    aliases = _aliases(tree)
    named = {aliases[head.id] for head in heads if isinstance(head, ast.Name) and head.id in aliases}
    return named | {head.attr for head in heads if isinstance(head, ast.Attribute)}


def _aliases(tree: ast.AST) -> dict[str, str]:
    """Return the names of flags, and other attributes, by those that a script gives them."""
    given = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)]
    return {_name(node.targets[0]): node.value.attr for node in given if isinstance(node.value, ast.Attribute)}


def _parts(tree: ast.AST, lines: set[int] | None = None) -> list[ast.expr]:
    """Return the parts of conditions, without their `not`; of those under which some lines stand, if they are given."""
    tests = [
        node.test for node in ast.walk(tree) if isinstance(node, (ast.If, ast.IfExp))
        and (lines is None or lines & set(range(node.lineno, (node.end_lineno or node.lineno) + 1)))
    ]  # fmt: skip
    parts = [part for test in tests for part in (test.values if isinstance(test, ast.BoolOp) else [test])]
    return [part.operand if isinstance(part, ast.UnaryOp) else part for part in parts]


def uses(tree: ast.AST) -> dict[str, str]:
    r"""Return what a script uses names as.

    An `object` with attributes of its own, a `text`, `files`, a `queue` of them, `two` numbers, `three`, or `pictures`,
    the names of some.

    >>> found = uses(ast.parse("for line in open(path): pass\nh, w = size\nconfig.reader.read(x)\ny.append(1)"))
    >>> found == {"path": "text", "size": "two", "config": "object", "reader": "object", "x": "queue"}
    True
    """
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _OPENING and node.args and _is_name(node.args[0]):
            found[_name(node.args[0])] = "text"
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name) and _is_read(node):
            found[_name(node.args[0])] = "queue"
        elif isinstance(node, ast.Call) and node.args and _is_name(node.args[0]) and _is_of_texts(node):
            found[_name(node.args[0])] = "pictures"
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("string_input_producer"):
            found.setdefault(_name(node.args[0]), "files")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], _SEVERAL) and _is_name(node.value):
            parts = len(node.targets[0].elts)
            found.setdefault(_name(node.value), {2: "two", 3: "three"}.get(parts, "object"))
        elif isinstance(node, ast.Attribute) and _is_name(node.value) and node.attr not in _OF_OTHERS:
            found.setdefault(_name(node.value), "text" if node.attr in _OF_TEXTS else "object")
    return found


def _is_read(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("read", "read_up_to")


def _is_of_texts(call: ast.Call) -> bool:
    """Whether a call makes a tensor of texts of what it is given."""
    dtypes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "dtype")]
    made = ast.unparse(call.func).rpartition(".")[2] in ("cast", "convert_to_tensor")
    return made and any(ast.unparse(dtype).endswith(".string") for dtype in dtypes)


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute))


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
