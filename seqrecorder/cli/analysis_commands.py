"""The commands that look at what a dataset's records are like."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from seqrecorder.cli.terminal import table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    Command = Callable[[Any, str, Any, str], argparse.ArgumentParser]


def add_commands(commands: Any, command: Command, shown: Callable[[Any], Any]) -> None:
    """Add the commands to the parser.

    Args:
        commands: of the parser.
        command: makes one, from its name, handler and summary.
        shown: makes a handler of a function from arguments to a document and its text.
    """
    stats = command(commands, "stats", shown(_stats), "what the values are like, field by field")
    stats.add_argument("path", metavar="PATH", help="a dataset's directory")
    stats.add_argument("--split", metavar="S", help="name of the split (default: all of them)")
    stats.add_argument("--by", metavar="FIELD", help="tell records apart by the value of this field, too")
    stats.add_argument("--field", metavar="F", action="append", help="look at this field; may be repeated")


def _stats(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.analysis.field_stats import HEADS
    from seqrecorder.analysis.stats import Stats, stats

    found = stats(options.path, options.split, by=options.by, fields=options.field)

    def shown(part: Stats) -> str:
        rows = part.rows()
        kept = [at for at in range(len(HEADS)) if any(row[at] not in ("", "0") for row in rows)]
        right = [HEADS[at] for at in kept if HEADS[at] not in ("field", "dtype", "steps", "top")]
        return table([HEADS[at] for at in kept], [[row[at] for at in kept] for row in rows], right)

    parts = {repr(found)[1:-1]: found}
    if options.by is not None:
        parts |= {f"{options.by} {value}: {part.records:,} records": part for value, part in found.by.items()}
    elif len(found.splits) > 1:
        parts |= {f"{name}: {part.records:,} records": part for name, part in found.splits.items()}
    return json.loads(found.to_json()), "\n\n".join(f"{title}\n\n{shown(part)}" for title, part in parts.items())
