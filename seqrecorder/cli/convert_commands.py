"""Commands that import and export files of other formats: `schema`, `convert` and `export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.cli.command import add, add_command, load_class, of_writing, quieten_tensorflow, records
from seqrecorder.cli.selection_arguments import add_selection_options, selection_of, selects
from seqrecorder.dataset.manifest import dataset_at
from seqrecorder.errors import OptionError, printable
from seqrecorder.schema.display import number_of
from seqrecorder.storage.files import MANIFEST, is_url

if TYPE_CHECKING:
    import argparse

    from seqrecorder.schema.schema import Schema


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    schema = add_command(commands, "schema", _schema, "draft a record class from files of unknown contents")
    add(schema, "paths FILES", "TFRecord files or tables, or globs of them", nargs="+")
    looked = "number of records to read, or `all` (default: 1000)"
    add(schema, "--records N", looked, type=records, default=1000)
    _add_inference(schema)
    _add_table_options(schema, converts=False)

    convert = add_command(commands, "convert", _convert, "write TFRecord files or tables as a dataset")
    add(convert, "paths FILES", "TFRecord files or tables, or globs; or datasets", nargs="*")
    add(convert, "destination DIR", "directory of the new dataset")
    files = "the files of one split, instead of FILES; may be repeated"
    add(convert, "--split NAME=FILES ...", files, dest="splits")
    share = "a split and its share of the records, such as eval=0.1; repeat it for each"
    add(convert, "--share NAME=SHARE ...", share, dest="shares")
    add(convert, "--split-by FIELD", "keep records with one value of this field in one split")
    add(convert, "--seed N", "seed of the split and the shuffle (default: 0)", type=int, default=0)
    add(convert, "--shards N", "files per split (default: by their size)")
    add(convert, "--compression GZIP", "compress the new files (default: no)")
    add(convert, "--shuffle", "write the records in a random order")
    add(convert, "--overwrite", "replace a dataset at DIR")
    add(convert, "--schema MODULE:CLASS", "read as this class (default: inferred from all records)")
    add(convert, "--leave-out FEATURE ...", "feature or column to leave out; may be repeated")
    _add_inference(convert)
    _add_table_options(convert, converts=True)
    add_selection_options(convert, keys=False)

    export = add_command(commands, "export", _export, "write records as a table or JSON lines")
    add(export, "path PATH", "a dataset's directory or URL")
    add(export, "output FILE", "file to write or replace: .parquet, .jsonl or .jsonl.gz")
    add(export, "--leave-out FIELD ...", "field to leave out; may be repeated")
    add_selection_options(export)


def _add_inference(parser: argparse.ArgumentParser) -> None:
    add(parser, "--name CLASS", "name of the class (default: Record)", default="Record")
    add(parser, "--key FEATURE", "the feature that identifies a record")
    add(parser, "--raw FEATURE=DTYPE ...", "dtype of numbers stored as bytes; may be repeated")
    add(parser, "--shape FEATURE=SHAPE ...", "shape of these numbers, such as 28,28 or ?,28 (default: flat)")


def _drafting(options: argparse.Namespace) -> dict[str, Any]:
    """Collect the keyword arguments of `infer` and `convert` from the options of `_add_inference`."""
    return {"name": options.name, "key": options.key, "raw": dict(options.raw), "shapes": dict(options.shape)}


def _schema(options: argparse.Namespace) -> tuple[Any, str]:
    if _are_tables(options):
        drafted = _inferred(options)
        return {"schema": drafted.to_dict(), "draft": repr(drafted)}, repr(drafted)
    from seqrecorder.cli import output
    from seqrecorder.sources.foreign import infer

    inference = infer.infer(options.paths, records=options.records, **_drafting(options))
    return output.inference_summary(inference), output.inference_text(inference)


def _convert(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.cli import output
    from seqrecorder.sources.foreign import convert

    options.shares += options.share_list
    if options.splits and options.paths:
        raise OptionError("name the files once: FILES, or --split NAME=FILES for each split")
    if not options.splits and not options.paths:
        raise OptionError("which files? FILES, or --split NAME=FILES for each split")
    if selects(options) or any(map(_is_dataset, options.paths)):
        return _copy(options)
    if _are_tables(options):
        return _convert_tables(options, load_class(options.schema))
    by_split: dict[str, list[str]] = {}
    for name, path in options.splits:
        by_split.setdefault(name, []).append(path)
    done = convert.convert(
        by_split or options.paths,
        options.destination,
        schema=load_class(options.schema),
        leave_out=options.leave_out,
        **_drafting(options),
        **of_writing(options),
    )
    return output.conversion_summary(done), output.conversion_text(done)


def _export(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.dataset import exports
    from seqrecorder.dataset.selection import rows_of

    selection = selection_of(options.path, options)
    left_out = {selection.schema[name].name for name in options.leave_out}
    fields = [field.name for field in selection.schema.fields if field.name not in left_out]
    exports.to_file(rows_of(selection), options.output, fields)
    document = {"path": options.output, "records": len(selection), "fields": fields}
    return document, f"{options.output}: {number_of(len(selection), 'record')} of {', '.join(fields)}"


def _is_dataset(path: str) -> bool:
    return is_url(path) or (dataset_at(path) / MANIFEST).is_file()


def _copy(options: argparse.Namespace) -> tuple[Any, str]:
    """Write the selected records of several datasets as one dataset."""
    from seqrecorder.cli import output
    from seqrecorder.writing.rewrite_merge_compact import merge

    others = [path for path in options.paths if not _is_dataset(path)]
    if options.splits or others or not options.paths:
        raise OptionError(f"records are selected of datasets, got {', '.join(others) or 'other files'}")
    if options.raw or options.shape or options.leave_out or options.by or options.order or options.cast:
        raise OptionError("--raw, --shape, --leave-out, --by, --order and --cast are not for datasets")
    quieten_tensorflow()
    schema = load_class(options.schema)
    selections = [selection_of(path, options, schema) for path in options.paths]
    if selects(options) and not any(map(len, selections)):
        raise OptionError(f"no record of {', '.join(options.paths)} is selected: nothing is written")
    manifest = merge(selections, options.destination, schema=schema, **of_writing(options))
    return {"dataset": output.manifest_summary(manifest)}, output.manifest_line(manifest)


# Tables ---------------------------------------------------------------------------------------------------


def _add_table_options(parser: argparse.ArgumentParser, *, converts: bool) -> None:
    """Add the options for tables to a command that also reads TFRecord files."""
    group = parser.add_argument_group("tables (.parquet, .arrow, .csv, .tsv, .jsonl)")
    add(group, "--by COLUMN,...", "each row is a step; rows with equal values here form a record")
    add(group, "--order COLUMN,...", "order of the rows of a record")
    if converts:
        add(group, "--cast", "with --schema: allow numbers to lose precision")
        splits = "all splits and their shares, such as train=.8,eval=.2"
        add(group, "--splits NAME=SHARE,...", splits, dest="share_list", default=[])


def _are_tables(options: argparse.Namespace) -> bool:
    """Check whether the input files of a command are tables.

    Raises:
        OptionError: tables are mixed with other files, or options for tables are used without a table.
    """
    from seqrecorder.sources.tables import is_table_file

    kinds = {is_table_file(path) for path in options.paths}
    if kinds == {True}:
        return True
    if True in kinds:
        raise OptionError("tables and other files cannot be taken together")
    if options.by or options.order or getattr(options, "cast", False):
        raise OptionError("--by, --order and --cast are for tables: .parquet, .arrow, .csv, .tsv, .jsonl")
    return False


def _convert_tables(options: argparse.Namespace, schema: Any) -> tuple[Any, str]:
    """Write tables as a dataset.

    The result consists of the JSON document and the text to print.

    Args:
        options: the parsed arguments.
        schema: a record class; None infers one.
    """
    from seqrecorder.cli.output import manifest_line, manifest_summary
    from seqrecorder.sources.row_per_step import from_rows
    from seqrecorder.sources.tables import from_table
    from seqrecorder.writing.writer import write

    if options.raw or options.shape:
        raise OptionError("--raw and --shape are for TFRecord files")
    if schema is not None and options.leave_out:
        raise OptionError("--leave-out is for a class that is inferred; the one of --schema says it all")
    inferred = None if schema is not None else _inferred(options)
    # Columns that cannot be declared are left out, and listed in the output.
    common: dict[str, Any] = {"extra": "ignore", "cast": options.cast}
    if options.by:
        source: Any = from_rows(options.paths, schema or inferred, by=options.by, order=options.order, **common)
    else:
        source = from_table(options.paths, schema or inferred, **common)
    manifest = write(source, options.destination, **of_writing(options))
    draft = None if inferred is None else repr(inferred)
    document = {"dataset": manifest_summary(manifest), "ignored": list(source.ignored), "draft": draft}
    text = manifest_line(manifest)
    if source.ignored:
        text += f"\nleft out: {', '.join(map(printable, source.ignored))}"
    return document, text if inferred is None else f"{text}\n\n{inferred!r}"


def _inferred(options: argparse.Namespace) -> Schema:
    from seqrecorder.sources.infer import infer_table

    columns = {"by": options.by, "order": options.order, "leave_out": getattr(options, "leave_out", ())}
    return infer_table(options.paths, name=options.name, key=options.key, **columns)
