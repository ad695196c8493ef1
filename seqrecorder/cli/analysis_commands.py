"""The commands that look at what a dataset's records are like."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.cli.command import OK, PROBLEM, add, add_command, quieten_tensorflow
from seqrecorder.schema.display import number_of

if TYPE_CHECKING:
    import argparse

_SHOWN = 20


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    stats = add_command(commands, "stats", _stats, "what the values are like, field by field")
    add(stats, "path PATH", "a dataset's directory")
    add(stats, "--split S", "name of the split (default: all of them)")
    add(stats, "--by FIELD", "tell records apart by the value of this field, too")
    add(stats, "--field F ...", "look at this field; may be repeated", default=None)

    plan = add_command(commands, "plan", _plan, "what each way of batching costs in padding")
    add(plan, "path PATH", "a dataset's directory")
    add(plan, "--split S", "name of the split (default: train, or the only one)")
    add(plan, "--batch-size N", "records to a batch (default: 64)", default=64)
    add(plan, "--shuffle N", "as for `read` (default: 0)", default=0)
    add(plan, "--seed N", "of the order", type=int)

    vocabulary = add_command(commands, "vocabulary", _vocabulary, "the tokens of a field, the frequent ones first")
    add(vocabulary, "path PATH", "a dataset's directory")
    add(vocabulary, "--field F", "the field of tokens", required=True)
    add(vocabulary, "--split S", "count those of this split (default: train, or all)")
    add(vocabulary, "--min-count N", "leave out what is rarer (default: 1)", default=1)
    add(vocabulary, "--max-size N", "at most so many ids")
    add(vocabulary, "--characters", "of texts, take the characters")
    add(vocabulary, "-o FILE", "write what Vocabulary.load reads", dest="output")

    shared = "what splits share, and should not: keys, contents, groups, time"
    leakage = add_command(commands, "leakage", _leakage, shared)
    add(leakage, "path PATH", "a dataset's directory")
    add(leakage, "--by FIELD", "no two splits should share a value of this field")
    add(leakage, "--time FIELD", "a record's time: no two splits should overlap")
    add(leakage, "--end FIELD", "the time at which it ends (default: the same)")

    page = "what is in a dataset and what is remarkable, as one HTML page"
    report = add_command(commands, "report", _report, page)
    add(report, "path PATH", "a dataset's directory, damaged or not")
    add(report, "-o FILE", "the page (report.html)", dest="output", default="report.html")
    add(report, "--by FIELD", "what no two splits should share a value of")
    add(report, "--time FIELD", "the time of a record, in which splits should not overlap")
    add(report, "--batch-size N", "of the strategies compared (default: 64)", default=64)

    plot = add_command(commands, "plot", _plot, "a picture of some records, over their steps or over time")
    add(plot, "path PATH", "a dataset's directory")
    add(plot, "--split S", "name of the split (default: the first one)")
    add(plot, "--key K ...", "the record of this key; may be repeated")
    add(plot, "-n N", "else the first N", dest="count", default=1)
    add(plot, "--field F ...", "draw this field; may be repeated", default=None)
    add(plot, "-o FILE", "PNG, SVG or PDF (plot.png)", dest="output", default="plot.png")


def _plan(options: argparse.Namespace) -> tuple[Any, str]:
    quieten_tensorflow()
    import seqrecorder as sr
    from seqrecorder.analysis.survey import compare

    corpus = sr.open(options.path)
    split = "train" if options.split is None and "train" in corpus else corpus.manifest.split(options.split).name
    plans = compare(corpus[split], options.batch_size, shuffle=options.shuffle, seed=options.seed)
    names = ("batches", "rows", "steps", "padded_steps", "most_steps", "efficiency")
    lines = [{"strategy": str(each.strategy), **{name: getattr(each, name) for name in names}} for each in plans]
    return {"split": split, "plans": lines}, f"split {split}\n\n{plans}"


def _vocabulary(options: argparse.Namespace) -> tuple[Any, str]:
    import seqrecorder as sr
    from seqrecorder.cli.report import table

    vocabulary = sr.Vocabulary.build(
        options.path,
        options.field,
        split=options.split,
        min_count=options.min_count,
        max_size=options.max_size,
        pieces=list if options.characters else None,
    )
    if options.output is not None:
        vocabulary.save(options.output)
    known = vocabulary.coverage(options.path, options.field)
    splits = known if isinstance(known, dict) else {"all": known}
    shown = vocabulary.tokens[:_SHOWN]
    rows = [[str(vocabulary.ids[token]), str(token), f"{vocabulary.counts[token]:,}"] for token in shown]
    more = [f"  and {len(vocabulary.tokens) - _SHOWN:,} more"] if len(vocabulary.tokens) > _SHOWN else []
    text = [
        repr(vocabulary)[1:-1],
        "",
        table(["id", "token", "count"], rows, ["id", "count"]),
        *more,
        "",
        *(f"{name}: {repr(part)[1:-1]}" for name, part in splits.items()),
        *([] if options.output is None else ["", f"written to {options.output}"]),
    ]
    covered = {name: {"tokens": part.tokens, "known": part.known, "share": part.share} for name, part in splits.items()}
    return {**json.loads(vocabulary.to_json()), "coverage": covered}, "\n".join(text)


def _leakage(options: argparse.Namespace) -> tuple[Any, str, int]:
    """List what splits share; anything that they do is a problem."""
    import seqrecorder as sr

    quieten_tensorflow()
    result = sr.leakage(options.path, by=options.by, time=options.time, end=options.end)
    document = {
        "clean": result.is_clean,
        "looked_for": result.looked_for,
        "shared": list(map(attrs.asdict, result.shared)),
    }
    return document, str(result), OK if result.is_clean else PROBLEM


def _plot(options: argparse.Namespace) -> tuple[Any, str]:
    import seqrecorder as sr

    corpus = sr.open(options.path)
    splits = {name: corpus[name] for name in (corpus if options.split is None else [options.split])}
    if options.split is None and options.key:
        splits = {name: part for name, part in splits.items() if any(key in part for key in options.key)} or splits
    name, selection = next(iter(splits.items()))
    records = [selection[key] for key in options.key] if options.key else list(selection[: options.count])
    figure = sr.plot(records, options.field)
    figure.savefig(options.output)
    return {"path": options.output, "split": name, "records": len(records)}, (
        f"{number_of(len(records), 'record')} of {name}: written to {options.output}"
    )


def _report(options: argparse.Namespace) -> tuple[Any, str]:
    import seqrecorder as sr

    result = sr.report(options.path, options.output, by=options.by, time=options.time, batch_size=options.batch_size)
    document = {"path": result.path, "output": options.output, "findings": result.findings}
    return document, f"{result}\n\nwritten to {options.output}"


def _stats(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.analysis.stats import stats

    result = stats(options.path, options.split, by=options.by, fields=options.field)
    blocks = [str(result)]
    if options.by is not None:
        blocks += [f"{options.by} {value}\n{part}" for value, part in result.by.items()]
    elif len(result.splits) > 1:
        blocks += [f"{name}\n{part}" for name, part in result.splits.items()]
    return json.loads(result.to_json()), "\n\n".join(blocks)
