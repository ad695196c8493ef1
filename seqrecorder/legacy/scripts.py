"""Running a script of TensorFlow 1 as it is."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from seqrecorder.errors import SourceError
from seqrecorder.legacy.compatibility import compat

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(script: str, arguments: Sequence[str] = ()) -> None:
    """Run a script in this process as its main program, with TensorFlow 1 under `tensorflow` (see `compat`).

    Its graph is a `tf.Graph`, so that queues, placeholders and sessions work; `tf.contrib` has what
    `seqrecorder.legacy.contrib` has. What the script raises comes through.

    Args:
        script: a Python file.
        arguments: what it finds in `sys.argv` after its name.

    Raises:
        SourceError: there is no such file, or it is not written in Python 3.
    """
    import tensorflow as tf

    path = Path(script)
    try:
        compile(path.read_bytes(), script, "exec")
    except OSError as error:
        raise SourceError(f"{script}: {error.strerror}; give the path of a Python file") from error
    except (SyntaxError, ValueError) as error:
        raise SourceError(f"{script}: {error}; a script for Python 2 must be converted to Python 3 first") from error
    before, sys.argv = sys.argv, [script, *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with compat(), tf.Graph().as_default():
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = before
        sys.path.remove(str(path.resolve().parent))
