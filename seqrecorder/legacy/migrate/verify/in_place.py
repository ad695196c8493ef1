"""Functions with tensors of a pipeline in the midst of what they do: called as far as that, for the tensors alone.

What such a function does after its pipeline, a model as a rule, and sessions, is not run. Where its tensors are lifted,
the old one is the new one with `lift` and `get_next` giving what they are given, which is what its queues give; where
they are those of a rewritten pipeline, they are what the same names hold in both.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

from seqrecorder import legacy
from seqrecorder.legacy.migrate.verify.coverage import functions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_SESSIONS = ("Session", "InteractiveSession")
_MANAGED = ("MonitoredSession", "MonitoredTrainingSession", "Supervisor")
_RUNS = 50  # of a session, after which there will be no batch


class _ReachedError(Exception):
    """A function has made what it lifts."""


def places(tree: ast.Module, name: str) -> set[int]:
    r"""Return the lines at which a function, of a class or of the module, takes what it lifts; none if it is wrapped.

    >>> places(ast.parse("def f(x):\n    return sr.legacy.get_next(sr.legacy.lift(x))"), "f")
    {2}
    """
    of_name = [node for named, node in functions_of(tree) if f".{named}".endswith(f".{name}")]
    inside = [tree] if name == "<module>" else of_name
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

    with mock.patch.multiple(legacy, get_next=take, lift=lifted):
        _call(call, file, lambda: bool(found))
    return found


def kept(call: Callable[[], Any], file: str, function: str, names: Collection[str]) -> dict[str, Any]:
    """Call a function that keeps its batches to itself, as far as it has them all, and return what names of it hold.

    Args:
        call: calls it.
        file: in which it stands.
        function: its own name.
        names: of the batches.
    """
    found: dict[str, Any] = {}

    def note(frame: Any) -> None:
        if frame.f_code.co_filename == file and frame.f_code.co_name == function:
            own = frame.f_locals
            found.update({name: own[name] for name in names if is_tensor(own.get(name))})

    def has_all() -> bool:
        frame = sys._getframe(1)  # noqa: SLF001 - that of the function is one of those that called
        while frame is not None and len(found) < len(names):
            note(frame)
            frame = frame.f_back  # type: ignore[assignment]
        return len(found) == len(names)

    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: note(frame) if event == "return" else None)
    try:
        _call(call, file, has_all)
    finally:
        sys.setprofile(before)
    return dict(sorted(found.items()))


def is_tensor(item: Any) -> bool:
    """Whether something is a tensor, or a sparse one."""
    import tensorflow as tf

    return isinstance(item, (tf.Tensor, tf.SparseTensor, tf.compat.v1.SparseTensor))


def _call(call: Callable[[], Any], file: str, done: Callable[[], bool]) -> None:
    """Call a function until it has what it is called for; sessions that it opens run nothing."""
    import tensorflow as tf

    runs = itertools.count()

    def run(*_: Any, **__: Any) -> Any:
        if done() or next(runs) == _RUNS:
            raise _ReachedError
        return mock.MagicMock()

    def opening(own: Any, *arguments: Any, **options: Any) -> Any:
        if sys._getframe(1).f_code.co_filename != file:  # noqa: SLF001 - others make variables with one
            return own(*arguments, **options)
        if done():
            raise _ReachedError
        session = mock.MagicMock()
        session.__enter__.return_value = session
        session.run.side_effect = run
        return session

    v1 = tf.compat.v1
    with contextlib.ExitStack() as stack:
        for place, names in ((v1, _SESSIONS), (v1.train, _MANAGED)):
            for name in names:
                own = getattr(place, name)
                replaced = functools.wraps(own, updated=())(functools.partial(opening, own))
                stack.enter_context(mock.patch.object(place, name, replaced))
        stack.enter_context(contextlib.suppress(_ReachedError))
        try:
            call()
        except Exception:
            if not done():  # else it is what comes after
                raise
