"""Shared code of the commands: their arguments, loading of a record class, and selection of records."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError, SourceError, printable
from seqrecorder.schema.exact_values import Mismatch
from seqrecorder.sources.text import value_of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from seqrecorder.dataset.selection import Corpus, Selection
    from seqrecorder.schema.field import Field


OK, PROBLEM = 0, 1

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
"""Environment variable with the minimum level of TensorFlow's log messages."""

_NOTHING = "3"


def pair(text: str) -> tuple[str, str]:
    """Parse `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def share(text: str) -> tuple[str, float]:
    """Parse `SPLIT=SHARE`."""
    name, value = pair(text)
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=SHARE, such as eval=0.1, got {text!r}") from None


def shares(text: str) -> list[tuple[str, float]]:
    """Parse `SPLIT=SHARE,...`."""
    return [share(part.strip()) for part in text.split(",")]


def names(text: str) -> list[str]:
    """Parse `NAME,...`."""
    return [part.strip() for part in text.split(",") if part.strip()]


def shape(text: str) -> tuple[str, Any]:
    """Parse `FEATURE=SIZE,...`; a size of `?` is None."""
    name, value = pair(text)
    sizes = [size.strip() for size in value.split(",")]
    if not all(size == "?" or size.isdecimal() for size in sizes):
        raise argparse.ArgumentTypeError(f"expected FEATURE=SIZES, such as image=28,28 or image=?,3, got {text!r}")
    return name, tuple(None if size == "?" else int(size) for size in sizes)


def records(text: str) -> int | None:
    """Parse a number of records, or `all` (None)."""
    return None if text == "all" else positive(text)


def class_name(text: str) -> str:
    """Validate an argument of the form `MODULE:CLASS`."""
    module, colon, name = text.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise argparse.ArgumentTypeError(f"expected MODULE:CLASS, got {text!r}")
    return text


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, got {text!r}")
    return int(text)


def of_writing(options: argparse.Namespace) -> dict[str, Any]:
    """Collect the options of `seqrecorder.write` from the arguments of `convert`."""
    names = ("seed", "shards", "compression", "shuffle", "overwrite")
    return {"splits": dict(options.shares) or None, **{name: getattr(options, name) for name in names}}


TYPES: dict[str, Callable[[str], Any]] = {
    "N": positive,
    "NAME=SHARE": share,
    "NAME=SHARE,...": shares,
    "NAME=FILES": pair,
    "FEATURE=DTYPE": pair,
    "FEATURE=SHAPE": shape,
    "FIELD=VALUE": pair,
    "COLUMN,...": names,
    "MODULE:CLASS": class_name,
    "HOURS": float,
}
"""Functions that parse values, by the placeholder in a usage line."""


def add_command(commands: Any, name: str, run: Any, summary: str) -> argparse.ArgumentParser:
    """Add a command; return the parser of its arguments.

    Args:
        commands: the subparsers of the program.
        name: name of the command.
        run: function that maps the parsed arguments to a document for `--json`, the text to print, and optionally an
            exit code.
        summary: description of the command, for its help.
    """

    def show(options: argparse.Namespace) -> int:
        from seqrecorder.cli.output import show_result

        return show_result(*run(options), as_json=options.json)

    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=f"{name}: {summary}.")
    parser.set_defaults(run=show)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def add(parser: Any, usage: str, summary: str, **more: Any) -> None:
    """Add an argument that a usage line describes.

    >>> import argparse
    >>> parser = argparse.ArgumentParser()
    >>> add(parser, "path PATH", "a dataset's directory")
    >>> add(parser, "--field F ...", "look at this field; may be repeated", dest="fields")
    >>> add(parser, "--shards N", "files to a split")
    >>> add(parser, "--quick", "look at sizes only")
    >>> parser.parse_args(["corpus", "--field", "a", "--field", "b", "--shards", "4"])
    Namespace(path='corpus', fields=['a', 'b'], shards=4, quick=False)

    Args:
        parser: parser of the command, or a group of its arguments.
        usage: name, placeholder for the value (see `TYPES`), and an ellipsis if the argument may be repeated.
        summary: description of the argument, for the help.
        **more: other arguments of `add_argument`.
    """
    name, *words = usage.split()
    if not words:
        parser.add_argument(name, action="store_true", help=summary, **more)
        return
    several: dict[str, Any] = {"action": "append", "default": []} if words[1:] else {}
    kind = {"type": TYPES[words[0]]} if words[0] in TYPES else {}
    parser.add_argument(name, metavar=words[0], help=summary, **{**several, **kind, **more})


def load_class(name: str | None) -> Any:
    """Import a class named as `module:Class`, from the Python path or the current directory."""
    if name is None:
        return None
    module_name, _, class_name = name.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 - entries of sys.path are strings
        # At the end of the path, so that no file in the current directory shadows an installed module.
        sys.path.append(os.getcwd())  # noqa: PTH109
    try:
        value = importlib.import_module(module_name)
        for part in class_name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise OptionError(f"--schema {name}: {error}") from error
    return value


def quieten_tensorflow() -> None:
    """Import TensorFlow without its start-up messages, unless it is imported already or the user has set `LOG_LEVEL`.

    The setting applies to this process and its children. Errors are still raised as exceptions.
    """
    if "tensorflow" in sys.modules or os.environ.get(LOG_LEVEL, _NOTHING) != _NOTHING:
        return
    os.environ[LOG_LEVEL] = _NOTHING
    with _buffered_stderr():  # TensorFlow writes some messages before it reads the variable
        import tensorflow  # noqa: F401, ICN001 - imported for its effect


@contextlib.contextmanager
def _buffered_stderr() -> Iterator[None]:
    """Buffer all output to the file descriptor of stderr, and write it only if an error is raised."""
    try:
        stderr = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    with tempfile.TemporaryFile() as buffer:
        os.dup2(buffer.fileno(), 2)
        try:
            yield
        except BaseException:
            buffer.seek(0)
            os.write(stderr, buffer.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


_FORM = re.compile(r"(?P<splits>[^\[\]]*)(?:\[(?P<places>[-+:,\d\s]*)\])?")


def add_selection_options(parser: argparse.ArgumentParser, *, keys: bool = True) -> None:
    """Add the options that select records; without `keys`, a command may define `--key` differently."""
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
        raise OptionError(
            f"--select: expected positions as in Python, such as [:100], [::10] or [3,-1], got {text!r}"
        ) from None


def _value(field: Field, text: str) -> Any:
    """Parse a string as a value of a field."""
    try:
        return value_of_text(field, text)
    except SourceError as error:
        raise OptionError(str(error)) from None
    except Mismatch as error:
        raise OptionError(f"field {field.name!r}: expected {error.expected}, got {text!r}; UTC ends with Z") from None


def describe_selection(selection: Selection) -> tuple[Any, str]:
    """Describe a selection for `info`; return the document and the text."""
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
    rows = [
        [printable(group), *(f"{figures[name]:,.6g}" if name in figures else "" for name in ("total", *_LENGTHS))]
        for group, figures in steps.items()
    ]
    lines = [
        printable(repr(selection)[1:-1]),
        *(f"  {printable(name)}  {count:,}" for name, count in splits.items() if count),
    ]
    if rows:
        lines += ["", table(["steps", "total", *_LENGTHS], rows, ["total", *_LENGTHS])]
    return document, "\n".join(lines)


_LENGTHS = ("least", "mean", "most")
