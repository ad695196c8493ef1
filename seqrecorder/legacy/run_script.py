"""Run an unchanged TensorFlow 1 script as the main program of this process."""

from __future__ import annotations

import codecs
import re
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from seqrecorder.errors import SourceError
from seqrecorder.legacy.compatibility import compat
from seqrecorder.legacy.tf1_behaviour import in_default_graph

if TYPE_CHECKING:
    from collections.abc import Sequence


KERAS_2 = "Layers of TensorFlow 1 are those of Keras 2: pip install tf_keras, and set TF_USE_LEGACY_KERAS=1\n"
"""Advice for a script that fails because of missing layers."""


def run(script: str, arguments: Sequence[str] = ()) -> None:
    """Run a script as the main program of this process, with TensorFlow 1 as `tensorflow` (see `compat`).

    Operations are added to TensorFlow's default graph, which is reset before and after, so that queues, placeholders
    and sessions work. `tf.contrib` has the contents of `seqrecorder.legacy.contrib`. Exceptions of the script
    propagate.

    Args:
        script: the path of a Python file.
        arguments: the command-line arguments of the script, without its name.

    Raises:
        SourceError: the file does not exist, or is not valid Python 3.
    """
    path = check_script(script)
    before, sys.argv = sys.argv, [script, *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with compat(), in_default_graph():
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = before
        sys.path.remove(str(path.resolve().parent))


def check_script(script: str) -> Path:
    """Check that a script exists and is valid Python 3, and return its path.

    Raises:
        SourceError: the script does not exist, or is not valid Python 3.
    """
    path = Path(script)
    try:
        compile(path.read_bytes(), script, "exec")
    except OSError as error:
        raise SourceError(f"{script}: {error.strerror}; give the path of a Python file") from error
    except (SyntaxError, ValueError) as error:
        advice = f"if it is written for Python 2, convert it: pip install fissix, then python -m fissix -w {script}"
        if hidden := re.search(r"non-printable character U\+(\w+)", str(error)):
            escaped = "".join(f"\\x{byte:02x}" for byte in chr(int(hidden[1], 16)).encode())
            advice = f"remove it: LC_ALL=C sed -i 's/{escaped}//g' {script}"
        elif path.read_bytes().startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            advice = f"it is UTF-16: iconv -f UTF-16 -t UTF-8 {script}"
        raise SourceError(f"{script}: {error}; {advice}") from error
    return path


def traceback_in(script: str, error: BaseException) -> str | None:
    """Format the traceback of an error, starting at the script.

    The result is None if no frame belongs to the script.
    """
    here = error.__traceback__
    while here is not None and here.tb_frame.f_code.co_filename != script:
        here = here.tb_next
    if here is None:
        return None
    advice = KERAS_2 if "not available with Keras 3" in str(error) else ""
    return "".join(traceback.format_exception(type(error), error, here)) + advice
