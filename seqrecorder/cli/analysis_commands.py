"""The commands that look at what a dataset's records are like."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.cli import arguments
from seqrecorder.cli.command import OK, PROBLEM, print_result
from seqrecorder.cli.quiet_tensorflow import quieten_tensorflow
from seqrecorder.cli.terminal import printable, table
from seqrecorder.schema.display import number_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from seqrecorder.analysis.record_stats import Stats

    Command = Callable[[Any, str, Any, str], argparse.ArgumentParser]


_SHOWN = 20


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

    plan = command(commands, "plan", shown(_plan), "what each way of batching costs in padding")
    plan.add_argument("path", metavar="PATH", help="a dataset's directory")
    plan.add_argument("--split", metavar="S", help="name of the split (default: train, or the only one)")
    plan.add_argument(
        "--batch-size", metavar="N", type=arguments.positive, default=64, help="records to a batch (default: 64)"
    )
    plan.add_argument("--shuffle", metavar="N", type=arguments.positive, default=0, help="as for `read` (default: 0)")
    plan.add_argument("--seed", metavar="N", type=int, help="of the order")

    vocabulary = command(commands, "vocabulary", shown(_vocabulary), "the tokens of a field, the frequent ones first")
    vocabulary.add_argument("path", metavar="PATH", help="a dataset's directory")
    vocabulary.add_argument("--field", metavar="F", required=True, help="the field of tokens")
    vocabulary.add_argument("--split", metavar="S", help="count those of this split (default: train, or all)")
    vocabulary.add_argument(
        "--min-count", metavar="N", type=arguments.positive, default=1, help="leave out what is rarer (default: 1)"
    )
    vocabulary.add_argument("--max-size", metavar="N", type=arguments.positive, help="at most so many ids")
    vocabulary.add_argument("--characters", action="store_true", help="of texts, take the characters")
    vocabulary.add_argument("-o", dest="output", metavar="FILE", help="write what Vocabulary.load reads")

    leakage = command(commands, "leakage", _leakage, "what splits share, and should not: keys, contents, groups, time")
    leakage.add_argument("path", metavar="PATH", help="a dataset's directory")
    leakage.add_argument("--by", metavar="FIELD", help="no two splits should share a value of this field")
    leakage.add_argument("--time", metavar="FIELD", help="a record's time: no two splits should overlap")
    leakage.add_argument("--end", metavar="FIELD", help="the time at which it ends (default: the same)")

    report = command(
        commands, "report", shown(_report), "what is in a dataset and what is remarkable, as one HTML page"
    )
    report.add_argument("path", metavar="PATH", help="a dataset's directory, damaged or not")
    report.add_argument("-o", dest="output", metavar="FILE", default="report.html", help="the page (report.html)")
    report.add_argument("--by", metavar="FIELD", help="what no two splits should share a value of")
    report.add_argument("--time", metavar="FIELD", help="the time of a record, in which splits should not overlap")
    report.add_argument(
        "--batch-size",
        metavar="N",
        type=arguments.positive,
        default=64,
        help="of the strategies compared (default: 64)",
    )

    plot = command(commands, "plot", shown(_plot), "a picture of some records, over their steps or over time")
    plot.add_argument("path", metavar="PATH", help="a dataset's directory")
    plot.add_argument("--split", metavar="S", help="name of the split (default: the first one)")
    plot.add_argument("--key", metavar="K", action="append", default=[], help="the record of this key; may be repeated")
    plot.add_argument("-n", dest="count", metavar="N", type=arguments.positive, default=1, help="else the first N")
    plot.add_argument("--field", metavar="F", action="append", help="draw this field; may be repeated")
    plot.add_argument("-o", dest="output", metavar="FILE", default="plot.png", help="PNG, SVG or PDF (plot.png)")


def _plan(options: argparse.Namespace) -> tuple[Any, str]:
    quieten_tensorflow()
    import seqrecorder as sr
    from seqrecorder.analysis.strategies import compare

    corpus = sr.open(options.path)
    split = "train" if options.split is None and "train" in corpus else corpus.manifest.split(options.split).name
    plans = compare(corpus[split], options.batch_size, shuffle=options.shuffle, seed=options.seed)
    names = ("batches", "rows", "steps", "padded_steps", "most_steps", "efficiency")
    lines = [{"strategy": str(each.strategy), **{name: getattr(each, name) for name in names}} for each in plans]
    return {"split": split, "plans": lines}, f"split {split}\n\n{plans}"


def _vocabulary(options: argparse.Namespace) -> tuple[Any, str]:
    import seqrecorder as sr

    found = sr.Vocabulary.build(
        options.path,
        options.field,
        split=options.split,
        min_count=options.min_count,
        max_size=options.max_size,
        pieces=list if options.characters else None,
    )
    if options.output is not None:
        found.save(options.output)
    known = found.coverage(options.path, options.field)
    parts = known if isinstance(known, dict) else {"all": known}
    shown = found.tokens[:_SHOWN]
    rows = [[str(found.ids[token]), str(token), f"{found.counts[token]:,}"] for token in shown]
    more = [f"  and {len(found.tokens) - _SHOWN:,} more"] if len(found.tokens) > _SHOWN else []
    text = [
        repr(found)[1:-1],
        "",
        table(["id", "token", "count"], rows, ["id", "count"]),
        *more,
        "",
        *(f"{name}: {repr(part)[1:-1]}" for name, part in parts.items()),
        *([] if options.output is None else ["", f"written to {options.output}"]),
    ]
    covered = {name: {"tokens": part.tokens, "known": part.known, "share": part.share} for name, part in parts.items()}
    return {**json.loads(found.to_json()), "coverage": covered}, "\n".join(
        "\n".join(map(printable, line.split("\n"))) for line in text
    )


def _leakage(options: argparse.Namespace) -> int:
    """Print what splits share; that any do is a problem."""
    import seqrecorder as sr

    quieten_tensorflow()
    found = sr.leakage(options.path, by=options.by, time=options.time, end=options.end)
    document = {
        "clean": found.is_clean,
        "looked_for": found.looked_for,
        "shared": list(map(attrs.asdict, found.shared)),
    }
    print_result(options, document, "\n".join(map(printable, str(found).split("\n"))))
    return OK if found.is_clean else PROBLEM


def _plot(options: argparse.Namespace) -> tuple[Any, str]:
    import seqrecorder as sr

    corpus = sr.open(options.path)
    parts = {name: corpus[name] for name in (corpus if options.split is None else [options.split])}
    if options.split is None and options.key:
        parts = {name: part for name, part in parts.items() if any(key in part for key in options.key)} or parts
    name, selection = next(iter(parts.items()))
    records = [selection[key] for key in options.key] if options.key else list(selection[: options.count])
    figure = sr.plot(records, options.field)
    figure.savefig(options.output)
    return {"path": options.output, "split": name, "records": len(records)}, (
        f"{number_of(len(records), 'record')} of {name}: written to {options.output}"
    )


def _report(options: argparse.Namespace) -> tuple[Any, str]:
    import seqrecorder as sr

    made = sr.report(options.path, options.output, by=options.by, time=options.time, batch_size=options.batch_size)
    text = "\n".join(map(printable, [*str(made).split("\n"), "", f"written to {options.output}"]))
    return {"path": made.path, "output": options.output, "findings": made.findings}, text


def _stats(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.analysis.field_stats import HEADS
    from seqrecorder.analysis.stats import stats

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
