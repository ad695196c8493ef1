"""Selections on the command line: splits and ranges, keys, and values of fields; nothing is evaluated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from seqrecorder.cli.command import add
from seqrecorder.errors import OptionError, SourceError, printable
from seqrecorder.sources.text import value_of_text

if TYPE_CHECKING:
    import argparse

    from seqrecorder.dataset.selection import Corpus, Selection
    from seqrecorder.schema.field import Field

_FORM = re.compile(r"(?P<splits>[^\[\]]*)(?:\[(?P<places>[-+:,\d\s]*)\])?")


def add_options(parser: argparse.ArgumentParser, *, keys: bool = True) -> None:
    """Add the options that select records of a dataset; `--key` means something else to some commands."""
    group = parser.add_argument_group("selected records of a dataset")
    places = "splits and places in them, as in Python: train, train,eval, 'train[:100]', '[::10]', 'eval[3,-1]'; may "
    add(group, "--select SPLIT[RANGE] ...", places + "be repeated")
    parser.set_defaults(keys=[])
    if keys:
        add(group, "--key K ...", "the record of this key", dest="keys")
    values = "records with this value; of one field any of several, of several fields all"
    add(group, "--where FIELD=VALUE ...", values)


def are_given(options: argparse.Namespace) -> bool:
    """Whether any of the options is."""
    return bool(options.select or options.keys or options.where)


def selection(path: Any, options: argparse.Namespace, schema: Any = None) -> Selection:
    """Return the records that the options select: of `--select`, those that `--where` lets through, those of `--key`.

    Raises:
        OptionError: an option is not of its form, or names what there is not.
        DatasetNotFoundError: there is no dataset, or no split of a name.
    """
    import seqrecorder as sr

    corpus = sr.open(path, schema=schema)
    split = getattr(options, "split", None)
    if split is not None and options.select:
        raise OptionError("--select says itself which splits are meant: leave --split out")
    parts = [_places(corpus, text) for text in options.select]
    parts = parts or [corpus.all() if split is None else corpus[split]]
    some = parts[0]
    for part in parts[1:]:
        some = some | part
    wanted: dict[str, list[Any]] = {}
    for name, text in options.where:
        wanted.setdefault(name, []).append(_value(corpus.schema[name], text))
    if wanted:
        some = some.where(**wanted)
    if options.keys:
        field = corpus.schema.key_field
        some = some[[key if field is None else _value(field, key) for key in options.keys]]
    return some


def _places(corpus: Corpus, text: str) -> Selection:
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise OptionError(f"--select: expected SPLIT or SPLIT[RANGE], such as train[:100], got {text!r}")
    names = [name.strip() for name in match["splits"].split(",") if name.strip()]
    some = corpus[tuple(names)] if names else corpus.all()
    if match["places"] is None:
        return some
    parts = match["places"].split(":")
    try:
        if len(parts) == 1:
            return some[[int(place) for place in parts[0].split(",")]]
        return some[slice(*(int(part) if part.strip() else None for part in parts))]
    except (ValueError, TypeError):
        raise OptionError(
            f"--select: expected places as in Python, such as [:100], [::10] or [3,-1], got {text!r}"
        ) from None


def _value(field: Field, text: str) -> Any:
    """Return the value of a field that a text stands for."""
    try:
        return value_of_text(field, text)
    except SourceError as error:
        raise OptionError(str(error)) from None


def describe(some: Selection) -> tuple[Any, str]:
    """Return what `info` gives of a selection: a document, and text."""
    from seqrecorder.cli.report import table

    positions = some.positions
    splits = {
        name: int(((positions >= split.start) & (positions < split.stop)).sum())
        for name, split in some.store.splits.items()
    }
    steps: dict[str, dict[str, float]] = {}
    for group in some.store.manifest.schema.groups:
        lengths = some.lengths(group)
        steps[group] = {"total": int(lengths.sum())}
        if lengths.size:
            steps[group] |= {"least": int(lengths.min()), "mean": float(lengths.mean()), "most": int(lengths.max())}
    document = {"path": some.store.manifest.where, "records": len(some), "splits": splits, "steps": steps}
    rows = [
        [printable(group), *(f"{found[name]:,.6g}" if name in found else "" for name in ("total", *_LENGTHS))]
        for group, found in steps.items()
    ]
    lines = [
        printable(repr(some)[1:-1]),
        *(f"  {printable(name)}  {count:,}" for name, count in splits.items() if count),
    ]
    if rows:
        lines += ["", table(["steps", "total", *_LENGTHS], rows, ["total", *_LENGTHS])]
    return document, "\n".join(lines)


_LENGTHS = ("least", "mean", "most")
