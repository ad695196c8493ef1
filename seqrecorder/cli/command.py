"""Code shared by the commands: parsing of their arguments, and loading of a record class."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


OK, PROBLEM = 0, 1

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
"""Environment variable with the minimum level of TensorFlow's log messages."""

_NOTHING = "3"


def pair(text: str) -> tuple[str, str]:
    """Parse `NAME=VALUE`.

    The value may be empty, as in `label=`.
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def share(text: str) -> tuple[str, float]:
    """Parse `SPLIT=SHARE`."""
    name, value = pair(text)
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=SHARE, such as eval=0.1, got {text!r}") from None


def shares(text: str) -> list[tuple[str, float]]:
    """Parse `SPLIT=SHARE,...`."""
    return [share(part.strip()) for part in text.split(",")]


def names(text: str) -> list[str]:
    """Parse `NAME,...`."""
    return [part.strip() for part in text.split(",") if part.strip()]


def shape(text: str) -> tuple[str, Any]:
    """Parse `FEATURE=SIZE,...`; a size of `?` is None."""
    name, value = pair(text)
    sizes = [size.strip() for size in value.split(",")]
    if not all(size == "?" or size.isdecimal() for size in sizes):
        raise argparse.ArgumentTypeError(f"expected FEATURE=SIZES, such as image=28,28 or image=?,3, got {text!r}")
    return name, tuple(None if size == "?" else int(size) for size in sizes)


def records(text: str) -> int | None:
    """Parse the number of records from an argument.

    The argument `all` becomes None.
    """
    return None if text == "all" else positive(text)


def class_name(text: str) -> str:
    """Validate an argument of the form `MODULE:CLASS`."""
    module, colon, name = text.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise argparse.ArgumentTypeError(f"expected MODULE:CLASS, got {text!r}")
    return text


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, got {text!r}")
    return int(text)


def of_writing(options: argparse.Namespace) -> dict[str, Any]:
    """Collect the options of `seqrecorder.write` from the arguments of a command."""
    names = ("seed", "split_by", "shards", "compression", "shuffle", "overwrite")
    named = {key: each for key, each in vars(options).items() if key in names}
    return named | {"splits": dict(options.shares) or None}


TYPES: dict[str, Callable[[str], Any]] = {
    "N": positive,
    "NAME=SHARE": share,
    "NAME=SHARE,...": shares,
    "NAME=FILES": pair,
    "FEATURE=DTYPE": pair,
    "FEATURE=SHAPE": shape,
    "FIELD=VALUE": pair,
    "COLUMN,...": names,
    "MODULE:CLASS": class_name,
    "HOURS": float,
}
"""Mapping from the placeholder in a usage line to the function that parses the value."""


def add_command(commands: Any, name: str, run: Any, summary: str) -> argparse.ArgumentParser:
    """Add a command; return the parser of its arguments.

    Args:
        commands: the subparsers of the program.
        name: name of the command.
        run: function that maps the parsed arguments to a document for `--json`, the text to print, and optionally an
            exit code.
        summary: description of the command, for its help.
    """

    def show(options: argparse.Namespace) -> int:
        from seqrecorder.cli.output import show_result

        return show_result(*run(options), as_json=options.json)

    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=f"{name}: {summary}.")
    parser.set_defaults(run=show)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def add(parser: Any, usage: str, summary: str, **more: Any) -> None:
    """Add an argument described by a usage line.

    >>> import argparse
    >>> parser = argparse.ArgumentParser()
    >>> add(parser, "path PATH", "a dataset's directory")
    >>> add(parser, "--field F ...", "look at this field; may be repeated", dest="fields")
    >>> add(parser, "--shards N", "files to a split")
    >>> add(parser, "--quick", "look at sizes only")
    >>> parser.parse_args(["corpus", "--field", "a", "--field", "b", "--shards", "4"])
    Namespace(path='corpus', fields=['a', 'b'], shards=4, quick=False)

    Args:
        parser: parser of the command, or a group of its arguments.
        usage: name, placeholder for the value (see `TYPES`), and an ellipsis if the argument may be repeated.
        summary: description of the argument, for the help.
        **more: other arguments of `add_argument`.
    """
    name, *words = usage.split()
    if not words:
        parser.add_argument(name, action="store_true", help=summary, **more)
        return
    several: dict[str, Any] = {"action": "append", "default": []} if words[1:] else {}
    kind = {"type": TYPES[words[0]]} if words[0] in TYPES else {}
    parser.add_argument(name, metavar=words[0], help=summary, **{**several, **kind, **more})


def load_class(name: str | None) -> Any:
    """Import a class named as `module:Class`, from the Python path or the current directory."""
    if name is None:
        return None
    module_name, _, class_name = name.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 - entries of sys.path are strings
        # At the end of the path, so that no file in the current directory shadows an installed module.
        sys.path.append(os.getcwd())  # noqa: PTH109
    try:
        value = importlib.import_module(module_name)
        for part in class_name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise OptionError(f"--schema {name}: {error}") from error
    return value


def quieten_tensorflow() -> None:
    """Import TensorFlow without its start-up messages.

    The messages are switched off by the environment variable in `LOG_LEVEL`, so child processes do not print them
    either. Nothing happens if TensorFlow is already imported, or if the user has set another level. Errors are still
    raised as exceptions.
    """
    if "tensorflow" in sys.modules or os.environ.get(LOG_LEVEL, _NOTHING) != _NOTHING:
        return
    os.environ[LOG_LEVEL] = _NOTHING
    with _buffered_stderr():  # TensorFlow writes some messages before it reads the variable
        import tensorflow  # noqa: F401, ICN001 - imported for its effect


@contextlib.contextmanager
def _buffered_stderr() -> Iterator[None]:
    """Buffer all output to the file descriptor of stderr, and write it only if an error is raised."""
    try:
        stderr = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    with tempfile.TemporaryFile() as buffer:
        os.dup2(buffer.fileno(), 2)
        try:
            yield
        except BaseException:
            buffer.seek(0)
            os.write(stderr, buffer.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
