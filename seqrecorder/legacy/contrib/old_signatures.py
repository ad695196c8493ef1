"""Arguments of functions that had many of them, in the order that TensorFlow 1 had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def by_name(signature: str, more: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a function was given behind its first arguments, by name.

    >>> by_name("num_epochs shuffle seed", [2], {"seed": 7})
    {'num_epochs': 2, 'seed': 7}

    Args:
        signature: the names, in order.
        more: what was given by position.
        named: what was given by name.

    Raises:
        TypeError: there are more arguments than names, or one is unknown or given twice.
    """
    names = signature.split()
    given = dict(zip(names, more, strict=False))
    wrong = [*more[len(names) :], *(name for name in named if name not in names or name in given)]
    if wrong:
        raise TypeError(f"expected at most one each of {', '.join(names)}, got {wrong[0]!r} beside them")
    return {**given, **named}
