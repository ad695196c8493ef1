"""Arguments that select records of a dataset: `--select`, `--where` and `--key`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from seqrecorder.cli.command import add
from seqrecorder.errors import OptionError, SourceError, printable
from seqrecorder.schema.exact_values import Mismatch
from seqrecorder.sources.text import value_of_text

if TYPE_CHECKING:
    import argparse

    from seqrecorder.dataset.selection import Corpus, Selection
    from seqrecorder.schema.field import Field


_FORM = re.compile(r"(?P<splits>[^\[\]]*)(?:\[(?P<places>[-+:,\d\s]*)\])?")


def add_selection_options(parser: argparse.ArgumentParser, *, keys: bool = True) -> None:
    """Add the options that select records to a command.

    If `keys` is false, the option `--key` is left out, so that the command can define it differently.
    """
    group = parser.add_argument_group("selected records of a dataset")
    ranges = "splits and positions in them: train, train,eval, 'train[:100]', '[::10]', 'eval[3,-1]'; may be repeated"
    add(group, "--select SPLIT[RANGE] ...", ranges)
    parser.set_defaults(keys=[])
    if keys:
        add(group, "--key K ...", "record with this key; may be repeated", dest="keys")
    values = "records with this value; repeated: any value of one field, and all of several fields"
    add(group, "--where FIELD=VALUE ...", values)


def selects(options: argparse.Namespace) -> bool:
    """Check whether the user passed any option that selects records."""
    return bool(options.select or options.keys or options.where)


def selection_of(path: Any, options: argparse.Namespace, schema: Any = None) -> Selection:
    """Select records by the options `--select`, `--where` and `--key`, applied in this order.

    Raises:
        OptionError: an option is malformed, or names an unknown split, field or key.
        DatasetNotFoundError: the dataset or the split does not exist.
    """
    import seqrecorder as sr

    corpus = sr.open(path, schema=schema)
    split = getattr(options, "split", None)
    if split is not None and options.select:
        raise OptionError("--select says itself which splits are meant: leave --split out")
    chosen = [_select(corpus, text) for text in options.select]
    chosen = chosen or [corpus.all() if split is None else corpus[split]]
    selection = chosen[0]
    for part in chosen[1:]:
        selection = selection | part
    wanted: dict[str, list[Any]] = {}
    for name, text in options.where:
        wanted.setdefault(name, []).append(_value(corpus.schema[name], text))
    if wanted:
        selection = selection.where(**wanted)
    if options.keys:
        field = corpus.schema.key_field
        selection = selection[[key if field is None else _value(field, key) for key in options.keys]]
    return selection


def _select(corpus: Corpus, text: str) -> Selection:
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise OptionError(f"--select: expected SPLIT or SPLIT[RANGE], such as train[:100], got {text!r}")
    names = [name.strip() for name in match["splits"].split(",") if name.strip()]
    selection = corpus[tuple(names)] if names else corpus.all()
    if match["places"] is None:
        return selection
    bounds = match["places"].split(":")
    try:
        if len(bounds) == 1:
            return selection[[int(index) for index in bounds[0].split(",")]]
        return selection[slice(*(int(part) if part.strip() else None for part in bounds))]
    except (ValueError, TypeError):
        raise OptionError(f"--select: expected positions as in Python, like [:100] or [3,-1], got {text!r}") from None


def _value(field: Field, text: str) -> Any:
    """Parse a string as a value of a field."""
    try:
        return value_of_text(field, text)
    except SourceError as error:
        raise OptionError(str(error)) from None
    except Mismatch as error:
        raise OptionError(f"field {field.name!r}: expected {error.expected}, got {text!r}; UTC ends with Z") from None


def describe_selection(selection: Selection) -> tuple[Any, str]:
    """Describe a selection for `info`.

    The result consists of the JSON document and the text to print.
    """
    from seqrecorder.cli.output import table
    from seqrecorder.dataset.selection import rows_of

    inside = rows_of(selection)
    manifest = inside.store.manifest
    splits = dict.fromkeys(manifest.splits, 0) | {name: len(part) for name, part in inside.by_split().items()}
    steps: dict[str, dict[str, float]] = {}
    for group in manifest.schema.groups:
        lengths = selection.lengths(group)
        steps[group] = {"total": int(lengths.sum())}
        if lengths.size:
            steps[group] |= {"least": int(lengths.min()), "mean": float(lengths.mean()), "most": int(lengths.max())}
    document = {"path": manifest.where, "records": len(selection), "splits": splits, "steps": steps}
    names = ("total", "least", "mean", "most")
    rows = [[printable(at), *(f"{of[name]:,.6g}" if name in of else "" for name in names)] for at, of in steps.items()]
    lines = [printable(repr(selection)[1:-1])]
    lines += [f"  {printable(name)}  {count:,}" for name, count in splits.items() if count]
    if rows:
        lines += ["", table(["steps", *names], rows, names)]
    return document, "\n".join(lines)
