"""Import of TensorFlow 1 scripts, to convert their input functions."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import itertools
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import SourceError, first_line
from seqrecorder.legacy.compatibility import compat
from seqrecorder.legacy.convert.conversion import Conversion, convert_call, import_file
from seqrecorder.legacy.lifting import call_function
from seqrecorder.legacy.run_script import check_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROOTS = (".git", "setup.py", "pyproject.toml", "requirements.txt")
"""Files that mark the root of a project."""
_OF_NUMPY = {
    **{name: f"Python's {name}" for name in ("int", "float", "bool", "object", "str", "complex")},
    "tostring": "tobytes",
    "fromstring": "frombuffer",
    "pad": "np.pad",
    "product": "prod",
    "alltrue": "all",
}
"""Replacements for names that NumPy has removed."""


def convert_script(script: str, calls: Sequence[str], graph_seed: int | None = None) -> list[Conversion]:
    """Import a script and convert the result of each call, such as `inputs(["a.tfrecord"], 32)`.

    Args:
        script: the path of a Python file; it is executed.
        calls: Python expressions, evaluated in the script's module.
        graph_seed: the argument of a `tf.set_random_seed` call before the function, if any.

    Raises:
        SourceError: the script or a call fails, or the script imports a module that is not installed.
        LiftError: a function cannot be lifted, or the batches of its printed module differ.
    """
    with _import_script(script) as module:
        for call in calls:
            try:
                compile(call, "--call", "eval")
            except SyntaxError as error:
                raise SourceError(f"--call {call!r}: {error.msg}; give one call, such as 'inputs(...)'") from error
        return [
            convert_call(functools.partial(_evaluate, call, module), module.__name__, call, graph_seed=graph_seed)
            for call in calls
        ]


def functions_of(script: str) -> list[str]:
    """List the functions that a script defines, with their signatures."""
    with _import_script(script) as module:
        functions = filter(inspect.isfunction, vars(module).values())
        return [f"{f.__name__}{inspect.signature(f)}" for f in functions if f.__module__ == module.__name__]


def _evaluate(call: str, module: Any) -> Any:
    from seqrecorder.errors import SeqrecorderError

    try:
        result = call_function(lambda: eval(call, vars(module)))  # noqa: S307 - the user's own call of his own script
        if inspect.isfunction(result):
            raise SourceError(f"--call {call!r} is a function; call it, as in '{call}()'")
    except SeqrecorderError:
        raise
    except Exception as error:
        raise SourceError(f"{call}: {_message(error)}") from error
    return result


def _message(error: BaseException) -> str:
    """Format the first line of an error.

    If the error is about a name that NumPy has removed, the text also contains the replacement.
    """
    text = first_line(error)
    removed = re.search(r"numpy\S* .*has no attribute '(\w+)'", text)
    new = _OF_NUMPY.get(removed[1]) if removed else None
    return f"{type(error).__name__}: {text}" + (f"; NumPy has removed it: write {new} in the script" if new else "")


@contextlib.contextmanager
def _import_script(script: str) -> Iterator[Any]:
    """Import a script by its path, with the root of its project on `sys.path`."""
    import tensorflow as tf

    check_script(script)
    path = Path(script).resolve()
    root = next((parent for parent in path.parents if any((parent / name).exists() for name in _ROOTS)), path.parent)
    before, arguments = list(sys.path), sys.argv
    sys.path[:0] = list(dict.fromkeys((str(path.parent), str(root))))
    sys.argv = [script]  # flags of the script keep their defaults
    package = _package(path)
    name = ".".join([*package, path.stem])
    if package:
        sys.path.insert(0, str(path.parents[len(package)]))
    known, flags = _modules_of(name), tf.compat.v1.flags.FLAGS
    defined = {*flags}
    try:
        with compat():
            yield _run(name, path, script)
    finally:
        sys.path[:], sys.argv = before, arguments
        for module in _modules_of(name):
            del sys.modules[module]
        sys.modules.update(known)
        flags.remove_flag_values({*flags} - defined)  # otherwise, a second import would fail to define them


def _modules_of(name: str) -> dict[str, Any]:
    """Return the imported modules of the top-level package to which a module belongs."""
    top = name.partition(".")[0]
    return {key: module for key, module in sys.modules.items() if key.partition(".")[0] == top}


def _package(path: Path) -> tuple[str, ...]:
    """List the packages that enclose a script, the outermost first.

    The list is empty if the script has no relative imports.
    """
    levels = [node.level for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.ImportFrom)]
    if not any(levels):
        return ()
    marked = [*itertools.takewhile(lambda parent: (parent / "__init__.py").exists(), path.parents)]
    return tuple(parent.name for parent in path.parents[: max(len(marked), *levels)])[::-1]


def _run(name: str, path: Path, script: str) -> Any:
    try:
        for package in itertools.accumulate(name.split(".")[:-1], "{}.{}".format):
            importlib.import_module(package)
        return import_file(name, path)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError)
        missing = f"imports {error.name}, which is not installed" if absent else f"does not run: {error.msg}"
        remedy = "install it, or run from the project's root; or remove imports that reading does not need"
        if error.name in ("cPickle", "StringIO", "Queue", "ConfigParser", "urllib2", "urlparse", "cStringIO"):
            missing, remedy = f"imports {error.name}, a module of Python 2", "import the one that Python 3 has instead"
        raise SourceError(f"{script} {missing}: {remedy}") from error
    except (Exception, SystemExit) as error:
        raise SourceError(
            f"{script}: {_message(error)}; importing a script must only define functions: build the pipeline in one "
            'that returns its tensors, and put the rest under `if __name__ == "__main__":`'
        ) from error
