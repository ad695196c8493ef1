"""The commands that make one dataset of several pieces: parts of many processes, or whole datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.cli.command import add, add_command
from seqrecorder.cli.quiet_tensorflow import quieten_tensorflow

if TYPE_CHECKING:
    import argparse


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    commit = add_command(commands, "commit", _commit, "make the parts that many processes wrote one dataset")
    add(commit, "path PATH", "the dataset that shall be; its parts are in PATH.parts")
    add(commit, "--expected N", "how many parts there are (default: those that are)")
    there = commit.add_mutually_exclusive_group()
    add(there, "--overwrite", "replace a dataset at PATH")
    add(there, "--append", "add the parts to the dataset at PATH")

    merge = add_command(commands, "merge", _merge, "write the records of several datasets as one")
    add(merge, "paths PATHS", "directories of datasets, in this order", nargs="+")
    add(merge, "destination DESTINATION", "the new dataset")
    new = "a new split and its share of the records; repeat it for each (default: records keep their splits)"
    add(merge, "--share NAME=SHARE ...", new, dest="shares")
    add(merge, "--shards N", "files to a split (default: by size)")
    add(merge, "--first", "leave out records whose keys came before")
    add(merge, "--overwrite", "replace a dataset at DESTINATION")


def _commit(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.cli import report
    from seqrecorder.writing.commit import commit

    quieten_tensorflow()
    done = commit(options.path, expected=options.expected, overwrite=options.overwrite, append=options.append)
    return report.manifest_summary(done), report.manifest_text(done)


def _merge(options: argparse.Namespace) -> tuple[Any, str]:
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
    return report.manifest_summary(done), report.manifest_text(done)
