"""What a function makes, whatever it does with it: returned, or kept under names of its own and of its object.

A function that trains is run until a session is asked for what hangs on the records: sessions themselves run nothing.
What of it fails before its pipeline, as models do of which there is a part alone, is passed over if the other version
of the script has the same statement.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import sys
import traceback
from typing import TYPE_CHECKING, Any
from unittest import mock

from seqrecorder.legacy.contrib import learn
from seqrecorder.legacy.migrate.analyze.data_flow import own_nodes
from seqrecorder.legacy.migrate.verify.equality import flat
from seqrecorder.legacy.migrate.verify.sessions import ancestors
from seqrecorder.legacy.migrate.verify.stand_ins import loaded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope

NOTE, PASS = "__note__", "__pass__"
"""What a function calls with its names when it ends, and for what it assigns where a statement fails."""

_SESSIONS = ("Session", "InteractiveSession")
_MANAGED = ("MonitoredSession", "MonitoredTrainingSession", "Supervisor", "Server")
_RUNS = 50  # of a session, after which there will be no batch
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
_QUEUES = ("Reader", "QueueDequeue")
_OTHERS = ("Placeholder", "Variable", "VarHandle")


class StoppedError(BaseException):
    """A function has asked a session for its batches."""


def last_change(scope: Scope, other: Scope) -> int:
    """Return the line of the last assignment of a function that another version of it lacks; else of its last."""
    texts = _texts(other)
    own = [n for n in own_nodes(scope) if isinstance(n, (ast.Assign, ast.Return)) and not _is_of_session(n)]
    return max((n.lineno for n in own if ast.unparse(n) not in texts), default=max((n.lineno for n in own), default=0))


def _is_of_session(statement: ast.stmt) -> bool:
    return any(word in ast.unparse(statement) for word in ("Session", "Coordinator", "start_queue_runners"))


def lines_of(error: BaseException, file: str) -> list[int]:
    """Return the lines of a file at which an error came, the outermost first."""
    return [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]


def line_of(error: BaseException, file: str, name: str) -> int:
    """Return the line of a function of a file at which an error came; 0 where it came elsewhere."""
    steps = traceback.walk_tb(error.__traceback__)
    own = [line for frame, line in steps if (frame.f_code.co_filename, frame.f_code.co_name) == (file, name)]
    return own[0] if own else 0


def prepare(scope: Scope, other: Scope, last: int) -> None:
    """Change a function: its names are noted when it ends, and statements that another version has too may fail.

    Args:
        scope: the function, or the module.
        other: what it is in the other version.
        last: the line before which they may.
    """
    scope.body = _passing(scope.body, _texts(other), last)
    if isinstance(scope, ast.FunctionDef):
        note = ast.parse(f"{NOTE}(locals())").body
        for node in ast.walk(note[0]):
            ast.copy_location(node, scope)
        scope.body = [ast.copy_location(ast.Try(scope.body, [], [], note), scope)]


def _texts(scope: Scope) -> set[str]:
    return {ast.unparse(node) for node in own_nodes(scope) if isinstance(node, ast.stmt)}


def _passing(block: list[ast.stmt], texts: set[str], last: int) -> list[ast.stmt]:
    """Return statements of which those that have one of some texts, above a line, may fail."""
    found: list[ast.stmt] = []
    for statement in block:
        if isinstance(statement, (ast.If, ast.For, ast.While, ast.With)):
            for name in ("body", "orelse"):
                if inner := getattr(statement, name, None):
                    setattr(statement, name, _passing(inner, texts, last))
        if isinstance(statement, _SIMPLE) and statement.lineno < last and ast.unparse(statement) in texts:
            names = [ast.unparse(target) for target in getattr(statement, "targets", [])]
            said = f"{''.join(f'{name} = ' for name in names)}{PASS}({ast.unparse(statement)!r}, {names[:1]!r})"
            handling = ast.parse(f"try: pass\nexcept Exception: {said}").body[0]
            for node in ast.walk(handling):
                ast.copy_location(node, statement)
            handling.body = [statement]  # type: ignore[attr-defined]
            statement = handling  # noqa: PLW2901 - in its place
        found.append(statement)
    return found


def passed(text: str, targets: list[str], uses: Mapping[str, str]) -> Any:
    """Return what takes the place of what a statement assigns that failed; names that are lacking are given first."""
    error = sys.exc_info()[1]
    if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        raise error
    target = ast.parse(targets[0]).body[0].value if targets else None  # type: ignore[attr-defined]
    parts = [ast.unparse(part) for part in getattr(target, "elts", [target] if target else [])]
    return loaded(parts, uses, known="tf." not in text)


def is_tensor(item: Any) -> bool:
    """Whether something is a tensor, or a sparse one."""
    import tensorflow as tf

    return isinstance(item, (tf.Tensor, tf.SparseTensor, tf.compat.v1.SparseTensor))


def hangs(item: Any, *, old: bool) -> bool:
    """Whether something is a tensor, or an operation, that hangs on records: of queues, or else of a dataset."""
    import tensorflow as tf

    nodes = ancestors(item) if is_tensor(item) or isinstance(item, tf.Operation) else []
    if old:
        # The second is what functions of contrib give, which have made a dataset of their queues.
        return any(n.type.startswith(_QUEUES) or (n.type.endswith("PyFunc") and not n.inputs) for n in nodes)
    return any(node.type == "IteratorGetNext" or "get_next" in node.name for node in nodes)


def batches_among(names: Mapping[str, Any], *, old: bool) -> dict[str, Any]:
    """Return the tensors among some names, and among the attributes of their objects, that hang on records alone."""
    held = dict(names)
    for name, value in names.items():
        if type(value).__module__ == "migrated" and hasattr(value, "__dict__"):
            held |= {f"{name}.{attribute}": part for attribute, part in vars(value).items()}
    found = {n: [i for i in flat(v) if hangs(i, old=old) and not _needs_more(i)] for n, v in sorted(held.items())}
    return {name: items for name, items in found.items() if items}


def nearest(kept: Mapping[str, Any]) -> set[str]:
    """Return the names of which the tensors are not made of those of others: what a model makes may need more."""
    needed = {name: {node.name for item in items for node in ancestors(item)} for name, items in kept.items()}
    own = {name: {item.op.name for item in items} for name, items in kept.items()}
    return {name for name in kept if not any(own[other] - own[name] and own[other] <= needed[name] for other in kept)}


def _needs_more(tensor: Any) -> bool:
    return any(node.type.startswith(_OTHERS) for node in ancestors(tensor))


@contextlib.contextmanager
def sessions_stopped(file: str, *, old: bool) -> Iterator[None]:
    """Let sessions that a file opens, or `learn.run_n`, run nothing, and stop where one is asked for records."""
    import tensorflow as tf
    from tensorflow.python.framework import ops, tensor

    runs = itertools.count()

    def run(fetches: Any = None, *_: Any, **__: Any) -> Any:
        if next(runs) == _RUNS or any(hangs(item, old=old) for item in flat(fetches)):
            raise StoppedError
        return mock.MagicMock()

    def opening(own: Any, *arguments: Any, **options: Any) -> Any:
        if sys._getframe(1).f_code.co_filename not in (file, learn.__file__):  # noqa: SLF001 - others make variables
            return own(*arguments, **options)
        session = mock.MagicMock()
        session.__enter__.return_value = session.managed_session.return_value = session
        session.run.side_effect, session.graph = run, tf.compat.v1.get_default_graph()
        return session

    v1 = tf.compat.v1
    with contextlib.ExitStack() as stack:
        for place, names in ((v1, _SESSIONS), (v1.train, _MANAGED)):
            for name in names:
                own = getattr(place, name)
                replaced = functools.wraps(own, updated=())(functools.partial(opening, own))
                stack.enter_context(mock.patch.object(place, name, replaced))
        stack.enter_context(mock.patch.object(tensor, "_eval_using_default_session", run))
        stack.enter_context(mock.patch.object(ops, "_run_using_default_session", run))
        stack.enter_context(mock.patch.object(v1.train, "start_queue_runners", return_value=[]))
        stack.enter_context(mock.patch.object(v1.train.QueueRunner, "create_threads", return_value=[]))
        yield
