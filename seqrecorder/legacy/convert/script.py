"""Scripts of TensorFlow 1 whose input functions are converted: how they are imported, and which functions they have."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import SourceError
from seqrecorder.legacy.compatibility import compat
from seqrecorder.legacy.convert.conversion import Conversion, convert_call
from seqrecorder.legacy.run_script import check_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROOTS = (".git", "setup.py", "pyproject.toml", "requirements.txt")
"""Names that mark the root of a project."""


def convert_script(script: str, calls: Sequence[str]) -> list[Conversion]:
    """Import a script, and convert what each of some calls returns, such as `inputs(["a.tfrecord"], 32)`.

    Args:
        script: a Python file, which runs.
        calls: Python expressions, evaluated in the script's module.

    Raises:
        SourceError: the script or a call fails, or imports what is not installed.
        LiftError: see `convert`.
    """
    with _imported(script) as module:
        for call in calls:
            try:
                compile(call, "--call", "eval")
            except SyntaxError as error:
                raise SourceError(f"--call {call!r}: {error.msg}; give one call, such as 'inputs(...)'") from error
        return [convert_call(functools.partial(_evaluated, call, module), module.__name__, call) for call in calls]


def functions_of(script: str) -> list[str]:
    """Return the functions that a script defines, with their arguments."""
    with _imported(script) as module:
        own = [
            value
            for value in vars(module).values()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        ]
        return [f"{function.__name__}{inspect.signature(function)}" for function in own]


def _evaluated(call: str, module: Any) -> Any:
    from seqrecorder.errors import SeqrecorderError

    try:
        return eval(call, vars(module))  # noqa: S307 - the user's own call of his own script
    except SeqrecorderError:
        raise
    except Exception as error:
        raise SourceError(f"{call}: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _imported(script: str) -> Iterator[Any]:
    """Import a script by its path, with its project's root on the path of imports."""
    check_script(script)
    path = Path(script).resolve()
    root = next((parent for parent in path.parents if any((parent / name).exists() for name in _ROOTS)), path.parent)
    before, arguments = list(sys.path), sys.argv
    sys.path[:0] = list(dict.fromkeys((str(path.parent), str(root))))
    sys.argv = [script]  # flags are the script's own, with their defaults
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101 - for type checkers
    assert spec.loader is not None  # noqa: S101 - for type checkers
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        with compat():
            _run(spec.loader, module, script)
            yield module
    finally:
        sys.path[:], sys.argv = before, arguments
        del sys.modules[path.stem]


def _run(loader: Any, module: Any, script: str) -> None:
    try:
        loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise SourceError(
            f"{script} imports {error.name}, which is not installed: install it, or run from the project's root"
        ) from error
    except (Exception, SystemExit) as error:
        raise SourceError(
            f"{script}: {type(error).__name__}: {error}; what a script does when it is imported should be functions "
            'alone: put the rest under `if __name__ == "__main__":`'
        ) from error
