"""What the commands of the command line share: how one is added, which class it reads with, and how it prints."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from seqrecorder.cli import arguments
from seqrecorder.errors import OptionError, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

OK, PROBLEM = 0, 1

TYPES: dict[str, Callable[[str], Any]] = {
    "N": arguments.positive,
    "NAME=SHARE": arguments.share,
    "NAME=SHARE,...": arguments.shares,
    "NAME=FILES": arguments.pair,
    "FEATURE=DTYPE": arguments.pair,
    "FEATURE=SHAPE": arguments.shape,
    "FIELD=VALUE": arguments.pair,
    "COLUMN,...": arguments.names,
    "MODULE:CLASS": arguments.class_name,
    "HOURS": float,
}
"""What texts become that stand where a usage line has these words."""


def add_command(commands: Any, name: str, run: Any, summary: str) -> argparse.ArgumentParser:
    """Add a command to the parser, and return its own.

    Args:
        commands: of the parser.
        name: of the command.
        run: takes the arguments, and returns a document for programs, its text, and perhaps an exit code.
        summary: what the command does.
    """

    def show(options: argparse.Namespace) -> int:
        from seqrecorder.cli.report import to_json

        document, text, *code = run(options)
        print(to_json(document) if options.json else "\n".join(map(printable, text.split("\n"))))
        return code[0] if code else OK

    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=f"{name}: {summary}.")
    parser.set_defaults(run=show)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def add(parser: Any, usage: str, summary: str, **more: Any) -> None:
    """Add an argument as its usage line has it.

    >>> import argparse
    >>> parser = argparse.ArgumentParser()
    >>> add(parser, "path PATH", "a dataset's directory")
    >>> add(parser, "--field F ...", "look at this field; may be repeated", dest="fields")
    >>> add(parser, "--shards N", "files to a split")
    >>> add(parser, "--quick", "look at sizes only")
    >>> parser.parse_args(["corpus", "--field", "a", "--field", "b", "--shards", "4"])
    Namespace(path='corpus', fields=['a', 'b'], shards=4, quick=False)

    Args:
        parser: of the command, or a group of its arguments.
        usage: the name, what stands for its value (see `TYPES`), and dots where it may come again.
        summary: what it is.
        more: whatever else `add_argument` takes.
    """
    name, *words = usage.split()
    if not words:
        parser.add_argument(name, action="store_true", help=summary, **more)
        return
    several: dict[str, Any] = {"action": "append", "default": []} if words[1:] else {}
    kind = {"type": TYPES[words[0]]} if words[0] in TYPES else {}
    parser.add_argument(name, metavar=words[0], help=summary, **{**several, **kind, **more})


def load_class(name: str | None) -> Any:
    """Return the class that the user named as `module:Class`, from the path or the current directory."""
    if name is None:
        return None
    module_name, _, class_name = name.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 - entries of sys.path are text
        # At the end, so that nothing in this directory hides an installed module.
        sys.path.append(os.getcwd())  # noqa: PTH109
    try:
        found = importlib.import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise OptionError(f"--schema {name}: {error}") from error
    return found
