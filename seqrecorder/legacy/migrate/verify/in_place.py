"""Functions whose tensors are lifted in the midst of what they do: called as far as that, for the tensors alone.

What such a function does after its pipeline, a model as a rule, is not run. The old one is the new one with `lift` and
`get_next` giving what they are given, which is what its queues give.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

from seqrecorder import legacy

if TYPE_CHECKING:
    from collections.abc import Callable

_RUNNING = ("Session", "InteractiveSession")


class _ReachedError(Exception):
    """A function has made what it lifts."""


def places(tree: ast.Module, name: str) -> set[int]:
    r"""Return the lines at which a function, of a class or of the module, takes what it lifts; none if it is wrapped.

    >>> places(ast.parse("def f(x):\n    return sr.legacy.get_next(sr.legacy.lift(x))"), "f")
    {2}
    """
    named = name.rpartition(".")[2]
    inside = [tree] if name == "<module>" else [n for n in ast.walk(tree) if getattr(n, "name", None) == named]
    calls = [
        node for scope in inside for node in ast.walk(scope)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("legacy.get_next")
    ]  # fmt: skip
    return {call.lineno for call in calls if not any(isinstance(part, ast.Name) for part in call.args)}


def gathered(call: Callable[[], Any], file: str, lines: set[int], ran: set[int], *, old: bool) -> list[Any]:
    """Call a function, and return what it takes at its places, in their order.

    Args:
        call: calls it.
        file: in which it stands.
        lines: its places.
        ran: those that were reached, to which more come.
        old: whether it is to give what its queues give.
    """
    import tensorflow as tf

    found: list[Any] = []
    get_next, lift = legacy.get_next, legacy.lift

    def take(dataset: Any) -> Any:
        tensors = dataset if old else get_next(dataset)
        caller = sys._getframe(1)  # noqa: SLF001 - whose tensors they are
        if caller.f_code.co_filename == file and caller.f_lineno in lines:
            found.append(tensors)
            ran.add(caller.f_lineno)
            if caller.f_lineno == max(lines):
                raise _ReachedError
        return tensors

    def lifted(given: Any, **options: Any) -> Any:
        if old:
            return given() if callable(given) else given
        return lift(given, **options)

    def session(*arguments: Any, **options: Any) -> Any:
        if sys._getframe(1).f_code.co_filename == file:  # noqa: SLF001 - others make variables with one
            raise _ReachedError
        return own(*arguments, **options)

    v1 = tf.compat.v1
    own = v1.Session
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(legacy, get_next=take, lift=lifted))
        for name in _RUNNING:
            stack.enter_context(mock.patch.object(v1, name, session))
        with contextlib.suppress(_ReachedError):
            _call(call, found)
    return found


def _call(call: Callable[[], Any], found: list[Any]) -> None:
    try:
        call()
    except Exception:
        if not found:  # else it is what comes after
            raise
