"""The commands that bring datasets to URLs and from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.cli import arguments
from seqrecorder.cli.command import OK, add_command, print_result
from seqrecorder.schema.display import bytes_text, number_of

if TYPE_CHECKING:
    import argparse


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    push = add_command(commands, "push", _transfer, "send a dataset to a URL, such as s3://bucket/corpus")
    push.add_argument("source", metavar="PATH", help="a dataset's directory")
    push.add_argument("destination", metavar="URL", help="where it shall be")
    pull = add_command(commands, "pull", _transfer, "bring a dataset from a URL into a directory")
    pull.add_argument("source", metavar="URL", help="of the dataset")
    pull.add_argument("destination", metavar="DIR", help="where it shall be")
    for parser, name in ((push, "push"), (pull, "pull")):
        parser.set_defaults(transfer=name)
        parser.add_argument("--overwrite", action="store_true", help="replace a dataset that is there")
        parser.add_argument(
            "--threads", metavar="N", type=arguments.positive, default=8, help="files at a time (default: 8)"
        )

    clean = add_command(commands, "clean", _clean, "remove what killed or replaced writers have left at a URL")
    clean.add_argument("url", metavar="URL", help="of a dataset")
    clean.add_argument(
        "--older-than",
        metavar="HOURS",
        type=float,
        default=24.0,
        help="leave what is younger, which a writer may be about to use (default: 24)",
    )
    clean.add_argument("--parts", action="store_true", help="remove parts, too, that were never committed")
    clean.add_argument("--dry-run", action="store_true", help="list only")


def _transfer(options: argparse.Namespace) -> int:
    from seqrecorder.cli import report
    from seqrecorder.dataset import transfer

    done = getattr(transfer, options.transfer)(
        options.source, options.destination, overwrite=options.overwrite, threads=options.threads
    )
    print_result(options, report.manifest_summary(done), report.manifest_text(done))
    return OK


def _clean(options: argparse.Namespace) -> int:
    from seqrecorder.dataset.transfer import clean

    gone = clean(options.url, older_than=options.older_than, parts=options.parts, dry_run=options.dry_run)
    said = "to be removed" if options.dry_run else "removed"
    lines = [*gone, f"{number_of(len(gone), 'file')} {said}, {bytes_text(sum(gone.values()))}"]
    print_result(options, {"removed": gone, "dry_run": options.dry_run}, "\n".join(lines))
    return OK
