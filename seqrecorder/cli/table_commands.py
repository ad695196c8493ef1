"""Tables on the command line: `schema` and `convert` of Parquet, Arrow, CSV and JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.cli import arguments
from seqrecorder.cli.command import add
from seqrecorder.errors import OptionError, printable

if TYPE_CHECKING:
    import argparse

    from seqrecorder.schema.schema import Schema


def add_options(parser: argparse.ArgumentParser, *, converts: bool) -> None:
    """Add what tables need to a command that else takes TFRecord files."""
    group = parser.add_argument_group("tables (.parquet, .arrow, .csv, .tsv, .jsonl)")
    add(group, "--by COLUMN,...", "rows are steps; those with equal values here are one record")
    add(group, "--order COLUMN,...", "what rows of a record are ordered by")
    if converts:
        add(group, "--cast", "with --schema: numbers may lose precision to fit it")
        splits = "all splits and their shares, such as train=.8,eval=.2; as --share for each"
        add(group, "--splits NAME=SHARE,...", splits, dest="share_list", default=[])


def are_tables(options: argparse.Namespace) -> bool:
    """Whether the files that a command is given are tables.

    Raises:
        OptionError: some are, and some are not; or options of tables are given with other files.
    """
    from seqrecorder.sources.table_files import is_table_file

    found = {is_table_file(path) for path in options.paths}
    if found == {True}:
        return True
    if True in found:
        raise OptionError("tables and other files cannot be taken together")
    if options.by or options.order or getattr(options, "cast", False):
        raise OptionError("--by, --order and --cast are for tables: .parquet, .arrow, .csv, .tsv, .jsonl")
    return False


def schema_of(options: argparse.Namespace) -> tuple[Any, str]:
    """Return what `schema` gives for tables: a document, and text."""
    schema = _inferred(options)
    return {"schema": schema.to_dict(), "draft": repr(schema)}, _printed(schema)


def convert(options: argparse.Namespace, schema: Any) -> tuple[Any, str]:
    """Write tables as a dataset and return what `convert` gives: a document, and text.

    Args:
        options: of the command.
        schema: a record class; None infers one.
    """
    from seqrecorder.cli.report import manifest_line, manifest_summary
    from seqrecorder.sources.rows import from_rows
    from seqrecorder.sources.tables import from_table
    from seqrecorder.writing.write import write

    if options.raw or options.shape or options.leave_out:
        raise OptionError("--raw, --shape and --leave-out are for TFRecord files")
    inferred = None if schema is not None else _inferred(options)
    # What cannot be declared is listed under the class, and left out.
    common: dict[str, Any] = {"extra": "ignore", "cast": options.cast}
    if options.by:
        source: Any = from_rows(options.paths, schema or inferred, by=options.by, order=options.order, **common)
    else:
        source = from_table(options.paths, schema or inferred, **common)
    manifest = write(
        source,
        options.destination,
        **arguments.of_writing(options),
    )
    document = {
        "dataset": manifest_summary(manifest),
        "ignored": list(source.ignored),
        "draft": None if inferred is None else repr(inferred),
    }
    text = manifest_line(manifest)
    if source.ignored:
        text += f"\nleft out: {', '.join(map(printable, source.ignored))}"
    return document, text if inferred is None else f"{text}\n\n{_printed(inferred)}"


def _inferred(options: argparse.Namespace) -> Schema:
    from seqrecorder.sources.infer_tables import infer_table

    return infer_table(options.paths, by=options.by, order=options.order, name=options.name, key=options.key)


def _printed(schema: Schema) -> str:
    return "\n".join(map(printable, repr(schema).split("\n")))
