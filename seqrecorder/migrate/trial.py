"""An input function run twice, as it was and as it became, on the same made-up records. Runs in a process of its own.

Of a script only imports, definitions and plain values are carried out, in an empty directory. The functions themselves
are the user's code, and run as such.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import inspect
import itertools
import json
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from seqrecorder.migrate.python2 import as_python3
from seqrecorder.migrate.synthesis import watched, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from seqrecorder.migrate.synthesis import Asked

_BATCHES = 24  # of an endless pipeline
_PATIENCE = 20_000  # milliseconds, for one batch
_RECORDS = (6, 6)  # in each of two files: with two epochs, and batches of three, nothing is left over
_ALONE = 7  # in a single file: there something is
_DRAWING = frozenset(
    ("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "Multinomial", "PyFunc")
)
_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)
_PLAIN = frozenset(("dict", "float", "int", "len", "list", "namedtuple", "range", "set", "sorted", "str", "tuple"))


class CannotTryError(Exception):
    """Why a function cannot be tried."""


def main(arguments: list[str]) -> int:
    """Try the functions that a file of JSON names, and write what was found beside it."""
    [place] = arguments
    given = json.loads(Path(place).read_text(encoding="utf-8"))
    sys.path.append(given["directory"])
    found = {}
    for name in given["functions"]:
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)  # functions may name files of their own
            try:
                found[name] = ["equal", compared(given["old"], given["new"], name, given["target"], Path(directory))]
            except CannotTryError as why:
                found[name] = ["unverified", str(why)]
            except AssertionError as difference:
                found[name] = ["differs", str(difference)]
            finally:
                os.chdir(given["directory"])
    Path(place).with_suffix(".found").write_text(json.dumps(found), encoding="utf-8")
    return 0


def compared(old: str, new: str, name: str, target: str, directory: Path) -> str:
    """Run a function of two scripts on the same records, and return in words how they were found to be equal.

    Raises:
        AssertionError: they are not; the message says how.
        CannotTryError: it cannot be told.
    """
    import tensorflow as tf

    if target == "graph":
        tf.compat.v1.disable_v2_behavior()
    before = _Function(old, name, "graph")
    after = _Function(new, name, target)
    said = []
    for files in (1, 2):
        paths = [directory / f"records-{number}" for number in range(files)]
        for path in paths:
            path.touch()  # some functions look whether there are files, while they build their graph
        values, asked = before.arguments(paths)
        own = [Path(name) for name in asked.files if name not in map(str, paths)]
        if files > 1 and (own or not any(isinstance(value, list) for value in values.values())):
            break
        said.append(_compared_once(before, after, values, asked, own or paths))
    return "; ".join(said)


def _compared_once(before: _Function, after: _Function, values: dict[str, Any], asked: Asked, paths: list[Path]) -> str:
    """Run both functions on the same files, and return in words how they were found to be equal."""
    counts = _RECORDS if len(paths) > 1 else (_ALONE,)
    try:
        _write(paths, asked, counts)
        old, shuffled = before.batches(values)
        if shuffled and len(paths) == 1:  # which records a last batch that is dropped would have had is chance then
            counts = _RECORDS[:1]
            _write(paths, asked, counts)
            old, shuffled = before.batches(values)
    except Exception as error:
        raise CannotTryError(f"the old function fails: {_brief(error)}") from error
    if not old:
        raise CannotTryError("the old function gives no batch")
    try:
        new, _ = after.batches(values)
    except Exception as error:
        raise AssertionError(f"the new function fails: {_brief(error)}") from error
    try:
        return _compare(old, new, ordered=not shuffled, records=sum(counts))
    except AssertionError:
        if before.draws and _shapes(old) == _shapes(new):
            raise CannotTryError("it draws random numbers for its values; their shapes and dtypes are equal") from None
        raise


def _write(paths: list[Path], asked: Asked, counts: tuple[int, ...]) -> None:
    random = np.random.default_rng(len(counts))
    for path, count in zip(paths, itertools.cycle(counts), strict=False):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, asked, count, random)


def _brief(error: Exception) -> str:
    lines = str(getattr(error, "message", None) or error).strip().splitlines()
    # AutoGraph puts the place first, and the error last.
    return f"{type(error).__name__}: {lines[-1 if lines[0].endswith(':') else 0].strip() if lines else ''}"


class _Function:
    """One function of a script, which can be called in a graph or eagerly."""

    def __init__(self, text: str, name: str, target: str) -> None:
        self.target = target
        text = as_python3(text)
        tree = ast.parse(text)
        outer = _outermost(tree, name)
        place = Path(tempfile.mkdtemp(), "script.py")  # a file, because AutoGraph looks for the source code
        place.write_text(text, encoding="utf-8")
        self._namespace = _defined(tree, str(place), v1=target == "graph")
        self.function: Callable[..., Any] = self._namespace[outer]
        self.draws = False  # random numbers, other than for an order

    def arguments(self, paths: list[Path]) -> tuple[dict[str, Any], Asked]:
        """Return arguments under which the function builds a graph, and what it asks of records then."""
        problems = []
        choices = [_candidates(parameter, paths) for parameter in inspect.signature(self.function).parameters.values()]
        for chosen in itertools.product(*choices):
            values = dict(chosen)
            try:
                with watched() as asked, _graph():
                    self.call(values)
            except Exception as error:  # noqa: BLE001 - whatever the user's code raises
                problems.append(_brief(error))
                continue
            given = {str(path) for path in paths}
            if not asked.reader and any(given & set(map(str, _items(value))) for value in values.values()):
                problems.append("it reads no files")
                continue
            strange = [name for name in asked.files if name not in given]
            if not strange or all(not Path(name).is_absolute() and ".." not in Path(name).parts for name in strange):
                return values, asked
            problems.append(f"it reads {strange[0]}")
        raise CannotTryError(f"the old function cannot be called: {problems[0]}")

    def call(self, values: dict[str, Any]) -> Any:
        """Return what the function returns; what it returns is called if it is a function."""
        result = self.function(**values)
        return result() if isinstance(result, types.FunctionType) else result

    def batches(self, values: dict[str, Any]) -> tuple[list[Any], bool]:
        """Return the batches that the function gives, flat, and whether their order was left to chance."""
        import tensorflow as tf

        if self.target == "eager":
            with contextlib.suppress(tf.errors.OutOfRangeError):
                dataset = self.call(values)
                return [tf.nest.flatten(_numpy(item)) for item in itertools.islice(dataset, _BATCHES)], False
        v1 = tf.compat.v1
        with _graph():
            tensors = [item for item in tf.nest.flatten(self.call(values)) if _is_tensor(item)]
            graph = v1.get_default_graph()  # the function may have made another one
            session = v1.Session(graph=graph)
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
            coordinator = v1.train.Coordinator()
            threads = v1.train.start_queue_runners(session, coordinator)
            found = list(_until_the_end(session, tensors))
            coordinator.request_stop()
            with contextlib.suppress(RuntimeError):  # threads that are late
                coordinator.join(threads, stop_grace_period_secs=5)
            session.close()
        self.draws = any(op.type in _DRAWING for op in graph.get_operations())
        return found, _is_shuffled(graph)


@contextlib.contextmanager
def _graph() -> Iterator[None]:
    """Build a graph: the default one, as scripts of TensorFlow 1 did, where there is one."""
    import tensorflow as tf

    if tf.executing_eagerly():
        with tf.Graph().as_default():
            yield
    else:
        tf.compat.v1.reset_default_graph()
        yield


def _is_tensor(item: Any) -> bool:
    import tensorflow as tf

    return isinstance(item, (tf.Tensor, tf.SparseTensor, tf.compat.v1.SparseTensor))


def _until_the_end(session: Any, tensors: list[Any]) -> Iterator[list[Any]]:
    import tensorflow as tf

    patience = tf.compat.v1.RunOptions(timeout_in_ms=_PATIENCE)
    with contextlib.suppress(tf.errors.OutOfRangeError):
        for _ in range(_BATCHES):
            yield session.run(tensors, options=patience)


def _numpy(item: Any) -> Any:
    import tensorflow as tf

    return tf.nest.map_structure(lambda part: part.numpy(), item)


def _is_shuffled(graph: Any) -> bool:
    import tensorflow as tf

    with graph.as_default():
        runners = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.QUEUE_RUNNERS)
    several = any(len(runner.enqueue_ops) > 1 for runner in runners)
    shuffles = [op for op in graph.get_operations() if op.type == "RandomShuffle" and not op.get_attr("seed2")]
    of_one = all(op.inputs[0].shape.as_list() == [1] for op in shuffles if op.inputs[0].shape.rank)
    return several or not of_one or any(op.type.startswith("RandomShuffleQueue") for op in graph.get_operations())


# The script -----------------------------------------------------------------------------------------------------------


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _outermost(tree: ast.Module, name: str) -> str:
    """Return the function of the module that a function is, or stands in."""
    for node in tree.body:
        inside = ast.walk(node) if isinstance(node, ast.FunctionDef) else ()
        if isinstance(node, ast.FunctionDef) and name in {n.name for n in inside if isinstance(n, ast.FunctionDef)}:
            return node.name
    where = "the module itself" if name == "<module>" else "a method"
    raise CannotTryError(f"the pipeline is made by {where}, which cannot be called alone")


def _defined(tree: ast.Module, place: str, *, v1: bool) -> dict[str, Any]:
    """Return the names that a script defines: its imports, functions, classes and plain values."""
    namespace: dict[str, Any] = {"__name__": "migrated"}
    for node in tree.body:
        code: ast.stmt = node
        if isinstance(node, ast.Import) and v1:
            code = ast.fix_missing_locations(ast.copy_location(ast.Import([_v1(a) for a in node.names]), node))
        elif not isinstance(node, _DEFINING) or (isinstance(node, ast.Assign) and not _is_plain(node.value)):
            continue
        try:
            exec(compile(ast.Module([code], []), place, "exec"), namespace)  # noqa: S102 - the user asked for it
        except Exception:  # noqa: BLE001 - what is missing shows where it is needed
            for name in _imported(node):
                namespace.setdefault(name, mock.MagicMock(name=name))
    return namespace


def _v1(alias: ast.alias) -> ast.alias:
    if alias.name == "tensorflow":
        return ast.alias("tensorflow.compat.v1", alias.asname or "tensorflow")
    return alias


def _is_plain(value: ast.expr) -> bool:
    calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
    return all((isinstance(f, ast.Name) and f.id in _PLAIN) or ast.unparse(f) == "os.path.join" for f in calls)


def _imported(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    return []


_VALUES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("batch",), 3),
    (("epoch",), 2),
    (("thread", "reader", "worker", "preprocess"), 1),
    (("shuffle", "train", "distort", "augment", "random"), False),
    (("min_after", "min_queue", "capacity", "buffer", "shard"), 20),
    (("size", "length", "dim", "classes", "width", "height", "depth", "channels", "num", "steps", "n_", "max"), 3),
)


def _candidates(parameter: inspect.Parameter, paths: list[Path]) -> list[tuple[str, Any]]:
    """Return values to try for a parameter, by its name."""
    name, lower = parameter.name, parameter.name.lower()
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise CannotTryError(f"no value is known for *{name}")
    names = [str(path) for path in paths]
    if any(word in lower for word in ("file", "path", "pattern", "record", "tfr", "glob")) and "num" not in lower:
        return [(name, names), (name, names[0])]
    known = [(name, value) for words, value in _VALUES if any(word in lower for word in words)][:1]
    chance = any(word in lower for word in ("epoch", "batch", "shuffle", "thread"))
    if known and (chance or parameter.default is parameter.empty):
        return known
    if parameter.default is not parameter.empty:
        return [(name, parameter.default)]
    if any(word in lower for word in ("input", "data", "source", "pattern")):
        return [(name, names), (name, names[0]), (name, list(range(60)))]
    raise CannotTryError(f"no value is known for the argument {name!r}")


# Batches --------------------------------------------------------------------------------------------------------------


def _compare(old: list[Any], new: list[Any], *, ordered: bool, records: int = 1) -> str:
    """Return in words how batches are equal.

    Args:
        old: each a list of arrays.
        new: likewise.
        ordered: whether the order was fixed.
        records: how many there are in an epoch.

    Raises:
        AssertionError: they are not.
    """
    sizes = [[_size(part) for part in batch] for batch in old], [[_size(part) for part in batch] for batch in new]
    assert len(old) == len(new), f"{len(old)} batches became {len(new)}"  # noqa: S101 - main catches it
    assert sizes[0] == sizes[1], f"batches of {sizes[0][-1]} became batches of {sizes[1][-1]}"  # noqa: S101
    if all(_same(a, b) for x, y in zip(old, new, strict=True) for a, b in zip(x, y, strict=True)):
        return f"{len(old)} batches equal"
    assert not ordered, "the batches hold other values, or in another order"  # noqa: S101
    rows = collections.Counter(_rows(old)), collections.Counter(_rows(new))
    if len(old) == _BATCHES:
        # Endless and shuffled: how often each record came so far is a matter of chance.
        assert set(rows[0]) == set(rows[1]), "the batches hold other records"  # noqa: S101
        return f"{len(old)} batches of the same records"
    # Unless all were given, it is chance which records the last batch would have had, and lacks.
    lacking = 0 if sum(rows[0].values()) % records == 0 else max(max(row, default=0) for row in sizes[0]) - 1
    assert sum((rows[0] - rows[1]).values()) <= lacking, "the batches hold other records"  # noqa: S101
    return f"{len(old)} batches with the same records, in an order that was left to chance"


def _shapes(batches: list[Any]) -> list[Any]:
    return [[(np.asarray(part).shape, np.asarray(part).dtype) for part in batch] for batch in batches]


def _size(part: Any) -> int:
    return len(part) if np.ndim(part) else 0


def _same(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    floats = one.dtype.kind == "f" and other.dtype.kind == "f"
    return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other, equal_nan=floats)


def _rows(batches: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the records of batches, without their padding."""
    for batch in batches:
        parts = [np.asarray(part) for part in batch]
        if all(part.ndim for part in parts) and len({len(part) for part in parts}) == 1:
            for index in range(len(parts[0])):
                yield tuple(_stripped(part[index]) for part in parts)
        else:
            yield tuple(_stripped(part) for part in parts)


def _stripped(value: Any) -> Any:
    flat = np.ravel(value).tolist()
    while flat and flat[-1] in (0, b"", False):
        flat.pop()
    return tuple(flat)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
