"""Importing TensorFlow without its start-up chatter, for the command line."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
"""TensorFlow's own variable for how much of its log is seen."""

_NOTHING = "3"


def quieten_tensorflow() -> None:
    """Import TensorFlow without its start-up chatter, unless it is imported or the user has set `LOG_LEVEL`.

    The setting stays for the process, and for those that it starts. Nothing of use is lost: what goes wrong is raised
    as an exception.
    """
    if "tensorflow" in sys.modules or os.environ.get(LOG_LEVEL, _NOTHING) != _NOTHING:
        return
    os.environ[LOG_LEVEL] = _NOTHING
    with _held_stderr():  # some of it is written before TensorFlow looks at its setting
        import tensorflow  # noqa: F401, ICN001 - imported for its effect


@contextlib.contextmanager
def _held_stderr() -> Iterator[None]:
    """Hold back what is written to stderr's file descriptor; only an error lets it out."""
    try:
        stderr = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
