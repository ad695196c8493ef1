"""The command line: arguments to one call each. Everything heavy is imported inside the handlers.

    seqrecorder info PATH       what a dataset, or an unknown shard, contains
    seqrecorder head PATH       the first records
    seqrecorder verify PATH     everything that is wrong
    seqrecorder stats PATH      what the values are like, field by field
    seqrecorder plan PATH       what each way of batching costs in padding
    seqrecorder vocabulary PATH the tokens of a field
    seqrecorder report PATH     what is in a dataset and what is remarkable, as one HTML page
    seqrecorder plot PATH       a picture of some records
    seqrecorder leakage PATH    what splits share, and should not
    seqrecorder schema FILES    a class to paste, for files of unknown contents
    seqrecorder convert FILES DIR   files that others wrote, TFRecord or tables, as a dataset
    seqrecorder salvage PATH TO what is whole, to a new place
    seqrecorder commit PATH     parts that many processes wrote, as a dataset
    seqrecorder merge PATHS TO  several datasets as one
    seqrecorder push PATH URL   a dataset to an object store
    seqrecorder pull URL DIR    and back
    seqrecorder clean URL       what killed writers have left there
    seqrecorder legacy run SCRIPT   run a script of TensorFlow 1
    seqrecorder legacy convert SCRIPT   print an input function of it for TensorFlow 2

Exit codes: 0 all is well, 1 a problem, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from seqrecorder import __version__
from seqrecorder.cli import (
    analysis_commands,
    convert_commands,
    dataset_commands,
    legacy_commands,
)
from seqrecorder.cli.command import (
    OK,
    PROBLEM,
    add,
    add_command,
    add_selection_options,
    describe_selection,
    load_class,
    selection_of,
    selects,
)
from seqrecorder.errors import SeqrecorderError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: without the program's name; None takes those of the process.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    # Without a console, or closed by the shell, there are none.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    # Names of files may hold what the terminal's encoding lacks.
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
        # The reader of our output has seen enough. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROBLEM
    except (SeqrecorderError, OSError) as error:
        return _fail(error, as_json=options.json)
    except KeyboardInterrupt:
        print("seqrecorder: interrupted", file=sys.stderr)
        return PROBLEM
    return code


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - for the rest of the process


def _fail(error: Exception, *, as_json: bool) -> int:
    from seqrecorder.cli.report import to_json
    from seqrecorder.errors import printable

    message = printable(" ".join(str(error).split()))
    print(f"seqrecorder: {message}", file=sys.stderr)
    if as_json:
        print(to_json({"error": {"type": type(error).__name__, "message": str(error)}}))
    return PROBLEM


# Handlers -------------------------------------------------------------------------------------------------


def _info(options: argparse.Namespace) -> tuple[Any, str] | tuple[Any, str, int]:
    from seqrecorder.cli import inspect, report

    if selects(options):
        return describe_selection(selection_of(options.path, options))
    found = inspect.describe(options.path)
    if isinstance(found, inspect.ShardDescription):
        return found, report.shard_text(found), PROBLEM if found.problem else OK
    return report.manifest_summary(found), report.manifest_text(found)


def _head(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.cli import inspect
    from seqrecorder.cli.report import head_table, head_text

    schema = load_class(options.schema)
    if selects(options):
        found = inspect.head_of_selection(selection_of(options.path, options, schema), options.count)
    else:
        found = inspect.head(options.path, options.split, count=options.count, schema=schema)
    return found, head_table(found) if options.table else head_text(found)


def _verify(options: argparse.Namespace) -> tuple[Any, str, int]:
    from seqrecorder.cli import report
    from seqrecorder.dataset import verify as checks

    found = checks.verify(options.path, level="quick" if options.quick else "full", schema=load_class(options.schema))
    return report.verification_summary(found), report.verification_text(found), OK if found.ok else PROBLEM


def _salvage(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.cli import report
    from seqrecorder.dataset.salvage import salvage

    found = salvage(
        options.path, options.destination, schema=load_class(options.schema), compression=options.compression
    )
    return report.salvage_summary(found), report.salvage_text(found)


# Arguments ------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Adds the nearest name to an error about an unknown one."""

    def error(self, message: str) -> NoReturn:
        unknown = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if unknown is not None:
            message += did_you_mean(unknown[1], re.findall(r"[\w-]+", unknown[2]))
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="seqrecorder",
        description="Sequence data in TensorFlow's SequenceExample format: look at it, verify it, try it.",
        epilog="Exit codes: 0 all is well, 1 a problem, 2 wrong usage. `COMMAND --help` says more.",
    )
    parser.add_argument("--version", action="version", version=f"seqrecorder {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    parser.set_defaults(run=None)

    info = add_command(commands, "info", _info, "what a dataset, or an unknown TFRecord file, contains")
    add(info, "path PATH", "a dataset's directory, or a shard")
    add_selection_options(info)

    head = add_command(commands, "head", _head, "the first records")
    add(head, "path PATH", "a dataset's directory, or a shard")
    add(head, "--split S", "name of the split (default: the first one)")
    add(head, "-n N", "how many records (default: 5)", dest="count", default=5)
    add(head, "--table", "a line for each record")
    add(head, "--schema MODULE:CLASS", "read as this class (default for a shard: what its messages hold)")
    add_selection_options(head)

    verify = add_command(commands, "verify", _verify, "check files and records; list everything that is wrong")
    add(verify, "path PATH", "a dataset's directory, or a shard")
    add(verify, "--quick", "look at the manifest and the files' sizes only")
    add(verify, "--schema MODULE:CLASS", "the class that a shard's records are checked against")

    analysis_commands.add_commands(commands)
    convert_commands.add_commands(commands)
    salvage = add_command(commands, "salvage", _salvage, "write every record that is whole to a new place")
    add(salvage, "path PATH", "a damaged dataset's directory, or a shard; it is only read")
    add(salvage, "destination DESTINATION", "the new dataset, or file")
    salvage.add_argument("--compression", choices=["GZIP"], help="of a shard (default: by its first bytes)")
    add(salvage, "--schema MODULE:CLASS", "the class of the records, where no manifest says it")

    dataset_commands.add_commands(commands)
    legacy_commands.add_commands(commands)
    return parser
