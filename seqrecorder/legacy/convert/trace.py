"""Tracing of a TensorFlow 1 input function, which records its graph, API calls and variable names."""

from __future__ import annotations

import ast
import contextlib
import functools
import keyword
import linecache
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import attrs

from seqrecorder.errors import LiftError
from seqrecorder.legacy.compatibility import compat
from seqrecorder.legacy.graph import packages, user_frame
from seqrecorder.legacy.lifting import Returned, call_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CALLS = {
    "tf.clip_by_value": "clip_by_value",
    "tf.one_hot": "one_hot",
    "tf.sequence_mask": "sequence_mask",
    "tf.sparse.to_dense": "sparse.to_dense",
    "tf.sparse.to_indicator": "sparse.to_indicator",
    "tf.image.random_crop": "random_crop",
    "tf.compat.v1.string_split": "string_split",
    "tf.compat.v1.nn.moments": "nn.moments",
    "tf.compat.v1.nn.l2_normalize": "nn.l2_normalize",
    "tf.map_fn": "map_fn",
}
"""Functions printed as calls, in addition to `tf.image`: mapping from printed names to names in `tf.compat.v1`."""
_RENAMED = {
    "resize_image_with_crop_or_pad": "tf.image.resize_with_crop_or_pad",
    "resize_images": "tf.compat.v1.image.resize",
}


@attrs.frozen(eq=False)
class Call:
    """Call of a TensorFlow function.

    Attributes:
        path: the printed name of the function.
        arguments: the positional arguments.
        keywords: the keyword arguments.
        result: the return value.
        operations: the names of the operations that the call added to the graph.
        inside: for `tf.map_fn`, the argument and the result of the mapped function; otherwise None.
    """

    path: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    result: Any
    operations: frozenset[str]
    inside: tuple[Any, Any] | None = None


Calls = dict[tuple[int, str], Call]


@attrs.frozen(eq=False)
class Trace:
    """Graph of an input function, with its API calls.

    Attributes:
        graph: a `tf.Graph`.
        returned: the return value of the function.
        calls: mapping from graph id and tensor name to the API call that returned the tensor.
    """

    graph: Any
    returned: Returned
    calls: Calls


def trace_function(function: Callable[[], Any]) -> Trace:
    """Call a function in a new graph, with TensorFlow 1 imported as `tensorflow`."""
    import tensorflow as tf

    graph = tf.Graph()
    with compat(), graph.as_default(), recorded_calls() as calls, _no_session():
        returned = Returned(call_function(function), graph)
    return Trace(graph, returned, calls)


@contextlib.contextmanager
def _no_session() -> Iterator[None]:
    """Raise `LiftError` if the function starts a session, which input functions do not."""
    from tensorflow.python.client.session import BaseSession  # the base of all sessions has no public name

    making = BaseSession.__init__

    def make(session: Any, *arguments: Any, **named: Any) -> None:
        here, ours = sys._getframe(1), packages()  # noqa: SLF001 - the frames of the caller
        while here.f_code.co_filename.startswith(ours[0]):
            here = here.f_back or here
        if not here.f_code.co_filename.startswith(ours):
            session._session = None  # noqa: SLF001 - its __del__ reads it
            text = "the function starts a Session before it returns its tensors"
            advice = "name the function that builds the input tensors, not the one that trains"
            raise LiftError(text, advice=advice, location=f"{here.f_code.co_filename}, line {here.f_lineno}")
        making(session, *arguments, **named)

    with mock.patch.object(BaseSession, "__init__", make):
        yield


@contextlib.contextmanager
def recorded_calls() -> Iterator[Calls]:
    """Record the calls of functions that are printed as calls, not as operations.

    Calls inside the recorded calls are not recorded.
    """
    import tensorflow as tf

    v1, image = tf.compat.v1, tf.compat.v1.image
    calls: Calls = {}
    depth = 0

    def recording(path: str, function: Any) -> Any:
        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            nonlocal depth
            graph = v1.get_default_graph()
            inside: list[tuple[Any, Any]] = []
            if path == "tf.map_fn":
                arguments = _record_inside(inside, *arguments)
            before = len(graph.get_operations())
            depth += 1
            try:
                result = function(*arguments, **keywords)
            finally:
                depth -= 1
            operations = frozenset(op.name for op in graph.get_operations()[before:])
            outputs = [x for x in tf.nest.flatten(result, expand_composites=True) if tf.is_symbolic_tensor(x)]
            if not depth and outputs and all(x.op.name in operations for x in outputs):
                record = Call(path, arguments, keywords, result, operations, next(iter(inside), None))
                calls.update(((id(x.graph), x.name), record) for x in outputs)
            return result

        return call

    with contextlib.ExitStack() as stack:

        def patch(owner: Any, name: str, path: str) -> None:
            stack.enter_context(mock.patch.object(owner, name, recording(path, getattr(owner, name))))

        for name in [name for name in dir(image) if name.islower() and not name.startswith("_")]:
            same = getattr(tf.image, name, None) is getattr(image, name)
            path = f"tf.image.{name}" if same else f"tf.compat.v1.image.{name}"
            patch(image, name, _RENAMED.get(name, path))
        for name in [name for name in dir(tf.image) if name.islower() and not name.startswith("_")]:
            patch(tf.image, name, f"tf.image.{name}")
        for path, old in _CALLS.items():
            owner, _, name = old.rpartition(".")
            patch(getattr(v1, owner) if owner else v1, name, path)
        patch(v1, "sparse_tensor_to_dense", "tf.sparse.to_dense")
        patch(v1, "sparse_to_indicator", "tf.sparse.to_indicator")
        yield calls


def _record_inside(inside: list[tuple[Any, Any]], function: Any, *more: Any) -> tuple[Any, ...]:
    """Wrap the function of `tf.map_fn` to record its argument and result."""

    def noting(value: Any) -> Any:
        result = function(value)
        inside.append((value, result))
        return result

    return noting, *more


@attrs.frozen
class Line:
    """Script statement that created an operation.

    Attributes:
        file: the path of the script; None if there is no script.
        number: the line number at which the statement starts.
        targets: the names of the assignment targets; an empty string for a target without a name.
    """

    file: str | None
    number: int
    targets: tuple[str, ...]


def line_of(op: Any) -> Line:
    """Find the statement that created an operation."""
    frame = user_frame(op.traceback or [])
    return Line(None, 0, ()) if frame is None else _line(frame.filename, frame.lineno)


@functools.cache
def _line(file: str, number: int) -> Line:
    for first, last, targets in _statements(file):
        if first <= number <= last:
            return Line(file, first, targets)
    return Line(file, number, ())


@functools.cache
def _statements(file: str) -> list[tuple[int, int, tuple[str, ...]]]:
    """List the simple statements of a file, the shortest first.

    Each of them is a tuple of its first line, its last line, and the names to which it assigns.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    statements = [
        (node.lineno, node.end_lineno or node.lineno, _targets(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and not hasattr(node, "body")
    ]
    return sorted(statements, key=lambda statement: statement[1] - statement[0])


def _targets(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, ast.AugAssign):
        return (_name(node.target),)
    if not isinstance(node, ast.Assign):
        return ()
    target = node.targets[0]
    return tuple(map(_name, target.elts)) if isinstance(target, (ast.Tuple, ast.List)) else (_name(target),)


def _name(target: ast.expr) -> str:
    """Derive a variable name from an assignment target, or return an empty string."""
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        name = target.slice.value
    else:
        name = getattr(target, "id", getattr(target, "attr", ""))
    return identifier(name) if isinstance(name, str) else ""


def identifier(text: str) -> str:
    """Convert a string to a lower-case variable name, or to an empty string if that is impossible."""
    name = "".join(c.lower() if c.isascii() and c.isalnum() else "_" for c in text).strip("_")
    return name if name.isidentifier() and not keyword.iskeyword(name) else ""
