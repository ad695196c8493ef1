"""Commands that analyse the records of a dataset, such as `stats`, `leakage` and `report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.cli.command import OK, PROBLEM, add, add_command, quieten_tensorflow
from seqrecorder.errors import DatasetNotFoundError
from seqrecorder.schema.display import number_of

if TYPE_CHECKING:
    import argparse

_SHOWN = 20


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    stats = add_command(commands, "stats", _stats, "show statistics of each field")
    add(stats, "path PATH", "a dataset's directory")
    add(stats, "--split S", "name of the split (default: all of them)")
    add(stats, "--by FIELD", "also group the statistics by this field")
    add(stats, "--field F ...", "only this field; may be repeated", default=None)

    plan = add_command(commands, "plan", _plan, "compare the padding of the batching strategies")
    add(plan, "path PATH", "a dataset's directory")
    add(plan, "--split S", "name of the split (default: train, or the only one)")
    add(plan, "--batch-size N", "records per batch (default: 64)", default=64)
    add(plan, "--shuffle N", "shuffle buffer, as for `read` (default: 0)", default=0)
    add(plan, "--seed N", "seed of the shuffle", type=int)

    vocabulary = add_command(commands, "vocabulary", _vocabulary, "count the tokens of a field, most frequent first")
    add(vocabulary, "path PATH", "a dataset's directory")
    add(vocabulary, "--field F", "the field of tokens", required=True)
    add(vocabulary, "--split S", "split to count (default: train, or all)")
    add(vocabulary, "--min-count N", "leave out rarer tokens (default: 1)", default=1)
    add(vocabulary, "--max-size N", "limit the number of ids")
    add(vocabulary, "--characters", "count characters instead of whole texts")
    add(vocabulary, "-o FILE", "write a file for Vocabulary.load", dest="output")

    shared = "find what splits must not share: keys, contents, groups, time"
    leakage = add_command(commands, "leakage", _leakage, shared)
    add(leakage, "path PATH", "a dataset's directory")
    add(leakage, "--by FIELD", "splits must not share a value of this field")
    add(leakage, "--time FIELD", "splits must not overlap in this time field")
    add(leakage, "--end FIELD", "field with the end of that time (default: the same field)")

    page = "write an HTML page on the contents and any problems"
    report = add_command(commands, "report", _report, page)
    add(report, "path PATH", "a dataset's directory, damaged or not")
    add(report, "-o FILE", "file to write (default: report.html)", dest="output", default="report.html")
    add(report, "--by FIELD", "splits must not share a value of this field")
    add(report, "--time FIELD", "splits must not overlap in this time field")
    add(report, "--batch-size N", "records per batch of the compared strategies (default: 64)", default=64)

    plot = add_command(commands, "plot", _plot, "draw a few records over their steps or over time")
    add(plot, "path PATH", "a dataset's directory")
    add(plot, "--split S", "name of the split (default: the first one)")
    add(plot, "--key K ...", "the record of this key; may be repeated")
    add(plot, "-n N", "without --key: the first N records (default: 1)", dest="count", default=1)
    add(plot, "--field F ...", "field to draw; may be repeated", default=None)
    add(plot, "-o FILE", "PNG, SVG or PDF file (default: plot.png)", dest="output", default="plot.png")


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
    from seqrecorder.cli.output import table

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
    """Find what splits share.

    If anything is found, the exit code is 1.
    """
    import seqrecorder as sr

    quieten_tensorflow()
    result = sr.leakage(options.path, by=options.by, time=options.time, end=options.end)
    shared = list(map(attrs.asdict, result.shared))
    document = {"clean": result.is_clean, "looked_for": result.looked_for, "shared": shared}
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


def _report(options: argparse.Namespace) -> tuple[Any, str, int]:
    import seqrecorder as sr

    if not Path(options.output).parent.is_dir():
        raise DatasetNotFoundError(f"cannot write {options.output}: there is no such directory", path=options.output)
    quieten_tensorflow()
    result = sr.report(options.path, options.output, by=options.by, time=options.time, batch_size=options.batch_size)
    document = {"path": result.path, "output": options.output, "findings": result.findings}
    code = PROBLEM if any(finding.level == "error" for finding in result.findings) else OK
    return document, f"{result}\n\nwritten to {options.output}", code


def _stats(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.analysis.stats import stats

    result = stats(options.path, options.split, by=options.by, fields=options.field)
    blocks = [str(result)]
    if options.by is not None:
        blocks += [f"{options.by} {value}\n{part}" for value, part in result.by.items()]
    elif len(result.splits) > 1:
        blocks += [f"{name}\n{part}" for name, part in result.splits.items()]
    return json.loads(result.to_json()), "\n\n".join(blocks)
