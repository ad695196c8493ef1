"""The conditions of a script, and the arguments under which its functions take their other ways."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.legacy.migrate.verify.stand_ins import known_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST = 7
"""Positions that are tried besides the one that a function has by itself: all of three switches."""


class _Everything(tuple[()]):
    """What has whatever is sought in it."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "everything"


@attrs.frozen
class Conditions:
    """What the conditions of a script look at.

    Attributes:
        texts: those that names are compared with.
        tested: names that are conditions by themselves.
        optional: names that are compared with None.
        sought: names in which something is sought.
    """

    texts: dict[str, list[str]]
    tested: set[str]
    optional: set[str]
    sought: set[str] = attrs.field(factory=set)

    @classmethod
    def of(cls, tree: ast.AST) -> Conditions:
        """Return the conditions of a script.

        >>> found = Conditions.of(ast.parse("x = (1 if not a else 2) if b and c is None and mode == 'train' else y"))
        >>> found.texts, sorted(found.tested), found.optional
        ({'mode': ['train']}, ['a', 'b'], {'c'})
        """
        tests = [node.test for node in ast.walk(tree) if isinstance(node, (ast.If, ast.IfExp))]
        parts = [part for test in tests for part in (test.values if isinstance(test, ast.BoolOp) else [test])]
        bare = [part.operand if isinstance(part, ast.UnaryOp) else part for part in parts]
        texts: dict[str, list[str]] = {}
        optional: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and isinstance(node.left, (ast.Name, ast.Attribute)):
                constants = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant)]
                name = node.left.id if isinstance(node.left, ast.Name) else node.left.attr
                if found := [text for text in constants if isinstance(text, str)]:
                    texts.setdefault(name, []).extend(found)
                optional |= {name} if None in constants else set()
        asked = [node for node in ast.walk(tree) if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In)]
        sought = {node.comparators[0].id for node in asked if isinstance(node.comparators[0], ast.Name)}
        return cls(texts, {part.id for part in bare if isinstance(part, ast.Name)}, optional, sought)

    def positions(self, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield changes of arguments by which conditions come out otherwise: each alone, then several at once.

        >>> conditions = Conditions({"mode": ["train"]}, set(), set())
        >>> list(conditions.positions({"mode": "train", "shuffle": False, "size": 3}))
        [{'mode': 'eval'}, {'shuffle': True}, {'mode': 'eval', 'shuffle': True}]
        >>> found = Conditions.of(ast.parse("if keys is not None: x = [y for y in z if y in keys]"))
        >>> list(found.positions({"keys": None}))
        [{'keys': everything}]
        """
        axes = {name: others for name, value in values.items() if (others := self._others(name, value))}
        alone = sum(map(len, axes.values()))
        every = (
            dict(zip(names, chosen, strict=True))
            for number in range(1, len(axes) + 1)
            for names in itertools.combinations(axes, number)
            for chosen in itertools.product(*(axes[name] for name in names))
        )
        return itertools.islice(every, max(alone, _MOST))

    def _others(self, name: str, value: Any) -> list[Any]:
        """Return the other values of an argument that a condition may tell from its own."""
        if isinstance(value, bool):
            return [not value]
        if isinstance(value, str) and (known := self.texts.get(name, ["train"] if value == "train" else [])):
            return [text for text in dict.fromkeys([*known, "eval" if "train" in known else "other"]) if text != value]
        if value is None and name in self.optional:
            instead = _Everything() if name in self.sought else known_value(name)
            return [instead] if instead is not None else []
        return [None if isinstance(value, int) else False] if name in self.tested and value is not None else []
