"""The commands that bring over files of other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.cli import arguments, selection_arguments, table_commands
from seqrecorder.cli.command import add, add_command, load_class
from seqrecorder.cli.quiet_tensorflow import quieten_tensorflow
from seqrecorder.dataset.read_manifest import dataset_at
from seqrecorder.errors import OptionError
from seqrecorder.storage.names import MANIFEST
from seqrecorder.storage.paths import is_url

if TYPE_CHECKING:
    import argparse


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    schema = add_command(commands, "schema", _schema, "a class to paste, for files of unknown contents")
    add(schema, "paths FILES", "TFRecord files or tables, or globs of them", nargs="+")
    looked = "how many records to look at, or `all` (default: 1000)"
    add(schema, "--records N", looked, type=arguments.records, default=1000)
    _add_inference(schema)
    table_commands.add_options(schema, converts=False)

    convert = add_command(commands, "convert", _convert, "files that others wrote, as a dataset")
    add(convert, "paths FILES", "TFRecord files or tables, or globs; or datasets", nargs="*")
    add(convert, "destination DIR", "directory of the new dataset")
    files = "the files of one split, instead of FILES; may be repeated"
    add(convert, "--split NAME=FILES ...", files, dest="splits")
    share = "a split and its share of the records, such as eval=0.1; repeat it for each"
    add(convert, "--share NAME=SHARE ...", share, dest="shares")
    add(convert, "--seed N", "of the shares and the order (default: 0)", type=int, default=0)
    add(convert, "--shards N", "files to a split (default: by their size)")
    add(convert, "--compression GZIP", "of the new files (default: none)")
    add(convert, "--shuffle", "write the records in a random order")
    add(convert, "--overwrite", "replace a dataset at DIR")
    add(convert, "--schema MODULE:CLASS", "read as this class (default: inferred from all records)")
    add(convert, "--leave-out FEATURE ...", "a feature that the dataset does without; may be repeated")
    _add_inference(convert)
    table_commands.add_options(convert, converts=True)
    selection_arguments.add_options(convert, keys=False)


def _add_inference(parser: argparse.ArgumentParser) -> None:
    add(parser, "--name CLASS", "name of the class (default: Record)", default="Record")
    add(parser, "--key FEATURE", "the feature that identifies a record")
    add(parser, "--raw FEATURE=DTYPE ...", "bytes that decode_raw makes numbers of; may be repeated")
    add(parser, "--shape FEATURE=SHAPE ...", "the shape of such bytes, as 28,28 or ?,28 (default: they are flat)")


def _schema(options: argparse.Namespace) -> tuple[Any, str]:
    if table_commands.are_tables(options):
        return table_commands.schema_of(options)
    from seqrecorder.cli import report
    from seqrecorder.sources.foreign import infer

    found = infer.infer(
        options.paths,
        name=options.name,
        raw=dict(options.raw),
        shapes=dict(options.shape),
        key=options.key,
        records=options.records,
    )
    return report.inference_summary(found), report.inference_text(found)


def _convert(options: argparse.Namespace) -> tuple[Any, str]:
    from seqrecorder.cli import report
    from seqrecorder.sources.foreign import convert

    options.shares += options.share_list
    if options.splits and options.paths:
        raise OptionError("name the files once: FILES, or --split NAME=FILES for each split")
    if not options.splits and not options.paths:
        raise OptionError("which files? FILES, or --split NAME=FILES for each split")
    if selection_arguments.are_given(options) or any(map(_is_dataset, options.paths)):
        return _copy(options)
    if table_commands.are_tables(options):
        return table_commands.convert(options, load_class(options.schema))
    by_split: dict[str, list[str]] = {}
    for name, path in options.splits:
        by_split.setdefault(name, []).append(path)
    done = convert.convert(
        by_split or options.paths,
        options.destination,
        schema=load_class(options.schema),
        name=options.name,
        raw=dict(options.raw),
        shapes=dict(options.shape),
        key=options.key,
        leave_out=options.leave_out,
        **arguments.of_writing(options),
    )
    return report.conversion_summary(done), report.conversion_text(done)


def _is_dataset(path: str) -> bool:
    return is_url(path) or (dataset_at(path) / MANIFEST).is_file()


def _copy(options: argparse.Namespace) -> tuple[Any, str]:
    """Write what is selected of datasets as one."""
    from seqrecorder.cli import report
    from seqrecorder.writing.edits import merge

    others = [path for path in options.paths if not _is_dataset(path)]
    if options.splits or others or not options.paths:
        raise OptionError(f"records are selected of datasets, got {', '.join(others) or 'other files'}")
    if options.raw or options.shape or options.leave_out or options.by or options.order or options.cast:
        raise OptionError("--raw, --shape, --leave-out, --by, --order and --cast are not for datasets")
    quieten_tensorflow()
    schema = load_class(options.schema)
    manifest = merge(
        [selection_arguments.selection(path, options, schema) for path in options.paths],
        options.destination,
        schema=schema,
        **arguments.of_writing(options),
    )
    return {"dataset": report.manifest_summary(manifest)}, report.manifest_line(manifest)
