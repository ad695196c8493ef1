"""What the commands of the command line share: how one is added, which class it reads with, and how it prints."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from seqrecorder.cli import arguments
from seqrecorder.errors import OptionError

if TYPE_CHECKING:
    import argparse

OK, PROBLEM = 0, 1


def add_command(commands: Any, name: str, run: Any, summary: str) -> argparse.ArgumentParser:
    """Add a command to the parser, and return its own."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=f"{name}: {summary}.")
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def add_schema(parser: argparse.ArgumentParser, summary: str) -> None:
    """Add the option that names a record class."""
    parser.add_argument("--schema", metavar="MODULE:CLASS", type=arguments.class_name, help=summary)


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


def print_result(options: argparse.Namespace, document: Any, text: str) -> None:
    """Print what a command found: as text, or as JSON where that was asked for."""
    from seqrecorder.cli.report import to_json

    print(to_json(document) if options.json else text)
