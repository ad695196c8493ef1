"""Commands on whole datasets: `commit`, `merge`, `push`, `pull` and `clean`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.cli.command import add, add_command, quieten_tensorflow
from seqrecorder.schema.display import bytes_text, number_of

if TYPE_CHECKING:
    import argparse


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    commit = add_command(commands, "commit", _commit, "join parts that several processes wrote into a dataset")
    add(commit, "path PATH", "the new dataset; its parts are in PATH.parts")
    add(commit, "--expected N", "fail unless there are N parts (default: take all)")
    there = commit.add_mutually_exclusive_group()
    add(there, "--overwrite", "replace a dataset at PATH")
    add(there, "--append", "add the parts to the dataset at PATH")

    merge = add_command(commands, "merge", _merge, "write the records of several datasets as one")
    add(merge, "paths PATHS", "directories of datasets, in this order", nargs="+")
    add(merge, "destination DESTINATION", "the new dataset")
    new = "a new split and its share of the records; repeat it for each (default: records keep their splits)"
    add(merge, "--share NAME=SHARE ...", new, dest="shares")
    add(merge, "--shards N", "files per split (default: by size)")
    add(merge, "--first", "keep the first record of each key")
    add(merge, "--overwrite", "replace a dataset at DESTINATION")

    push = add_command(commands, "push", _transfer, "copy a dataset to a URL, such as s3://bucket/corpus")
    add(push, "source PATH", "a dataset's directory")
    add(push, "destination URL", "destination")
    pull = add_command(commands, "pull", _transfer, "copy a dataset from a URL into a directory")
    add(pull, "source URL", "URL of the dataset")
    add(pull, "destination DIR", "destination")
    for parser, name in ((push, "push"), (pull, "pull")):
        parser.set_defaults(transfer=name)
        add(parser, "--overwrite", "replace an existing dataset")

    clean = add_command(commands, "clean", _clean, "remove leftovers of interrupted writers at a URL")
    add(clean, "url URL", "URL of a dataset")
    young = "keep younger files, which a writer may still need (default: 24)"
    add(clean, "--older-than HOURS", young, default=24.0)
    add(clean, "--parts", "also remove parts that were never committed")
    add(clean, "--dry-run", "only list the files")


def _commit(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.cli import output
    from seqrecorder.writing.commit import commit

    quieten_tensorflow()
    done = commit(options.path, expected=options.expected, overwrite=options.overwrite, append=options.append)
    return output.manifest_summary(done), output.manifest_text(done)


def _merge(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.cli import output
    from seqrecorder.writing.rewrite_merge_compact import merge

    quieten_tensorflow()
    done = merge(
        options.paths,
        options.destination,
        splits=dict(options.shares) or None,
        shards=options.shards,
        on_duplicate="first" if options.first else "error",
        overwrite=options.overwrite,
    )
    return output.manifest_summary(done), output.manifest_text(done)


def _transfer(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.cli import output
    from seqrecorder.dataset import push_pull_clean

    done = getattr(push_pull_clean, options.transfer)(options.source, options.destination, overwrite=options.overwrite)
    return output.manifest_summary(done), output.manifest_text(done)


def _clean(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.dataset.push_pull_clean import clean

    gone = clean(options.url, older_than=options.older_than, parts=options.parts, dry_run=options.dry_run)
    state = "to be removed" if options.dry_run else "removed"
    lines = [*gone, f"{number_of(len(gone), 'file')} {state}, {bytes_text(sum(gone.values()))}"]
    return {"removed": gone, "dry_run": options.dry_run}, "\n".join(lines)
