"""Entry point of the command line, and the commands `info`, `head`, `verify` and `salvage`.

`seqrecorder` without arguments lists all commands. Slow imports are made inside the handlers.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from seqrecorder import __version__
from seqrecorder.cli import analysis_commands, convert_commands, dataset_commands, legacy_commands
from seqrecorder.cli.command import OK, PROBLEM, add, add_command, load_class
from seqrecorder.cli.selection_arguments import add_selection_options, describe_selection, selection_of, selects
from seqrecorder.errors import SeqrecorderError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: command-line arguments without the program's name; None reads `sys.argv`.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    # The streams are None without a console, or if the shell closed them.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    # File names may contain characters that the encoding of the terminal lacks.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if options.run is None:
        parser.print_help()
        return OK
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()  # the reader closed the pipe, as `head` does
        return PROBLEM
    except (SeqrecorderError, OSError) as error:
        return _fail(error, as_json=options.json)
    except KeyboardInterrupt:
        print("seqrecorder: interrupted", file=sys.stderr)
        return PROBLEM
    return code


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - for the rest of the process


def _drop_output() -> None:
    """Redirect standard output to the null device.

    Otherwise, Python would flush the rest of the output at exit, and fail again.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_AS_OPTION = {"overwrite=True": "--overwrite", "schema= ": "--schema ", "(leave_out)": "(--leave-out)"}
_AS_OPTION |= {", append=True to add to it": ""}
"""Mapping from arguments in the library's messages to the options of the command line."""


def _fail(error: Exception, *, as_json: bool) -> int:
    from seqrecorder.cli.output import to_json
    from seqrecorder.errors import printable

    message = printable(" ".join(str(error).split()))
    for argument, option in _AS_OPTION.items():
        message = message.replace(argument, option)
    print(f"seqrecorder: {message}", file=sys.stderr)
    try:
        if as_json:
            print(to_json({"error": {"type": type(error).__name__, "message": str(error)}}))
        sys.stdout.flush()
    except OSError:  # the disk that receives the output is full, for example
        _drop_output()
    return PROBLEM


# Handlers -------------------------------------------------------------------------------------------------


def _info(options: argparse.Namespace) -> tuple[Any, str] | tuple[Any, str, int]:
    from seqrecorder.cli import inspect, output

    if selects(options):
        return describe_selection(selection_of(options.path, options))
    description = inspect.describe(options.path)
    if isinstance(description, inspect.ShardDescription):
        return description, output.shard_text(description), PROBLEM if description.problem else OK
    return output.manifest_summary(description), output.manifest_text(description)


def _head(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.cli import inspect
    from seqrecorder.cli.output import head_table, head_text

    schema = load_class(options.schema)
    if selects(options):
        head = inspect.head_of_selection(selection_of(options.path, options, schema), options.count)
    else:
        head = inspect.head(options.path, options.split, count=options.count, schema=schema)
    return head, head_table(head) if options.table else head_text(head)


def _verify(options: argparse.Namespace) -> tuple[Any, str, int]:
    from seqrecorder.cli import output
    from seqrecorder.dataset import verify as checks

    result = checks.verify(options.path, level="quick" if options.quick else "full", schema=load_class(options.schema))
    return output.verification_summary(result), output.verification_text(result), OK if result.ok else PROBLEM


def _salvage(options: argparse.Namespace) -> tuple[Any, str, int]:
    from seqrecorder.cli import output
    from seqrecorder.dataset.salvage import salvage

    schema = load_class(options.schema)
    result = salvage(options.path, options.destination, schema=schema, compression=options.compression)
    return output.salvage_summary(result), output.salvage_text(result), OK if result.complete else PROBLEM


# Arguments ------------------------------------------------------------------------------------------------


_TASKS = {
    "inspect data": "info head stats plan vocabulary plot report leakage",
    "import and export": "schema convert export",
    "check and repair": "verify salvage",
    "combine and move datasets": "commit merge push pull clean",
    "migrate from TensorFlow 1": "legacy",
}


class _Parser(argparse.ArgumentParser):
    """Argument parser that suggests the nearest name for an unknown command, and groups the commands by task.

    Attributes:
        commands: the action that `add_subparsers` returned; None in the parser of a command.
    """

    commands: Any = None

    def format_help(self) -> str:
        """Format the help, with a table of commands for each task."""
        if self.commands is None:
            return super().format_help()
        summaries = {action.dest: action.help for action in self.commands._choices_actions}  # noqa: SLF001 - no public way
        lines = [self.format_usage(), f"{self.description}\n"]
        for task, names in _TASKS.items():
            lines += [f"{task}:", *(f"  {name:<12}{summaries[name]}" for name in names.split()), ""]
        return "\n".join([*lines, f"{self.epilog}\n"])

    # Otherwise, the parser of a command would leave this error to the main parser, which does not know its options.
    # Pyright mistakes an overload in typeshed for a different signature.
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        known, rest = super().parse_known_args(args, namespace)
        if rest and self.commands is None:
            text = f"unrecognized arguments: {' '.join(rest)}"
            self.error(text + did_you_mean(rest[0], re.findall(r"--[\w-]+", self.format_usage())))
        return known, rest

    def error(self, message: str) -> NoReturn:
        unknown = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if unknown is not None:
            message += did_you_mean(unknown[1], re.findall(r"[\w-]+", unknown[2]))
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="seqrecorder",
        description="Sequence data in TensorFlow's SequenceExample format, on the command line.",
        epilog="`seqrecorder COMMAND --help` says more.\nExit codes: 0 all is well, 1 a problem, 2 wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"seqrecorder {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    parser.set_defaults(run=None)

    info = add_command(commands, "info", _info, "describe a dataset or an unknown TFRecord file")
    add(info, "path PATH", "a dataset's directory, or a shard")
    add_selection_options(info)

    head = add_command(commands, "head", _head, "print the first records")
    add(head, "path PATH", "a dataset's directory, or a shard")
    add(head, "--split S", "name of the split (default: the first one)")
    add(head, "-n N", "how many records (default: 5)", dest="count", default=5)
    add(head, "--table", "one line per record")
    add(head, "--schema MODULE:CLASS", "read as this class (default for a shard: raw features)")
    add_selection_options(head)

    verify = add_command(commands, "verify", _verify, "check files and records; list what is wrong")
    add(verify, "path PATH", "a dataset's directory, or a shard")
    add(verify, "--quick", "check only the manifest and the sizes of files")
    add(verify, "--schema MODULE:CLASS", "record class to check a shard against")

    analysis_commands.add_commands(commands)
    convert_commands.add_commands(commands)
    salvage = add_command(commands, "salvage", _salvage, "copy the intact records of a damaged dataset")
    add(salvage, "path PATH", "a damaged dataset or shard; it is not changed")
    add(salvage, "destination DESTINATION", "the new dataset, or file")
    salvage.add_argument("--compression", choices=["GZIP"], help="compression of a shard (default: detected)")
    add(salvage, "--schema MODULE:CLASS", "record class, if there is no manifest")

    dataset_commands.add_commands(commands)
    parser.commands = commands
    legacy_commands.add_commands(commands)
    return parser
