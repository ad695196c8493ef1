"""The commands that make one dataset of several pieces: parts of many processes, or whole datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.cli import arguments
from seqrecorder.cli.command import OK, add_command, print_result
from seqrecorder.cli.quiet_tensorflow import quieten_tensorflow

if TYPE_CHECKING:
    import argparse


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    commit = add_command(commands, "commit", _commit, "make the parts that many processes wrote one dataset")
    commit.add_argument("path", metavar="PATH", help="the dataset that shall be; its parts are in PATH.parts")
    commit.add_argument(
        "--expected", metavar="N", type=arguments.positive, help="how many parts there are (default: those that are)"
    )
    there = commit.add_mutually_exclusive_group()
    there.add_argument("--overwrite", action="store_true", help="replace a dataset at PATH")
    there.add_argument("--append", action="store_true", help="add the parts to the dataset at PATH")

    merge = add_command(commands, "merge", _merge, "write the records of several datasets as one")
    merge.add_argument("paths", metavar="PATHS", nargs="+", help="directories of datasets, in this order")
    merge.add_argument("destination", metavar="DESTINATION", help="the new dataset")
    merge.add_argument(
        "--share",
        dest="shares",
        metavar="NAME=SHARE",
        type=arguments.share,
        action="append",
        default=[],
        help="a new split and its share of the records; repeat it for each (default: records keep their splits)",
    )
    merge.add_argument("--shards", metavar="N", type=arguments.positive, help="files to a split (default: by size)")
    merge.add_argument("--first", action="store_true", help="leave out records whose keys came before")
    merge.add_argument("--overwrite", action="store_true", help="replace a dataset at DESTINATION")


def _commit(options: argparse.Namespace) -> int:
    from seqrecorder.cli import report
    from seqrecorder.writing.commit import commit

    quieten_tensorflow()
    done = commit(options.path, expected=options.expected, overwrite=options.overwrite, append=options.append)
    print_result(options, report.manifest_summary(done), report.manifest_text(done))
    return OK


def _merge(options: argparse.Namespace) -> int:
    from seqrecorder.cli import report
    from seqrecorder.writing.edits import merge

    quieten_tensorflow()
    done = merge(
        options.paths,
        options.destination,
        splits=dict(options.shares) or None,
        shards=options.shards,
        on_duplicate="first" if options.first else "error",
        overwrite=options.overwrite,
    )
    print_result(options, report.manifest_summary(done), report.manifest_text(done))
    return OK
