"""The commands that bring over what other programs wrote: their files, and the scripts that read them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from seqrecorder.cli import arguments, selection_arguments, table_commands
from seqrecorder.cli.command import OK, PROBLEM, add, add_command, load_class
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

    migrate = add_command(commands, "migrate", _migrate, "rewrite the input queues of TensorFlow 1 scripts for tf.data")
    add(migrate, "path PATH", "a script, or a directory of scripts")
    add(migrate, "--write", "change the files (default: show what would change)")
    migrate.add_argument(
        "--target",
        choices=("graph", "eager", "lift"),
        default="graph",
        help="graph: functions return tensors, as before; eager: they return a tf.data.Dataset; "
        "lift: they keep their queues, and their callers get the tensors of what legacy.lift makes of them "
        "(default: graph)",
    )
    migrate.add_argument(
        "--fallback",
        choices=("lift",),
        help="lift: scripts whose pipelines cannot be rewritten keep them, and are lifted; those whose queues sessions "
        "fill run in graphs of tensorflow.compat.v1, as they did (default: they are flagged)",
    )
    made = "make an attrs class of the features of SequenceExamples, and read with it (needs --target=eager)"
    add(migrate, "--records", made)
    compared = "run the old and the new functions on made-up records and compare (runs the scripts' code)"
    add(migrate, "--verify", compared)


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


def _migrate(options: argparse.Namespace) -> tuple[Any, str, int]:
    from seqrecorder.cli import migration_text as summary
    from seqrecorder.legacy.migrate import project

    if options.target == "eager" and project.may_have_queues(options.path):
        quieten_tensorflow()
    done = project.migrate(
        options.path,
        target=options.target,
        records=options.records,
        write=options.write,
        verify=options.verify,
        fallback=options.fallback,
    )
    text = summary.migration_text(done, write=options.write, width=shutil.get_terminal_size().columns)
    code = PROBLEM if any(report.outcome in ("flagged", "refused") for report in done) else OK
    return summary.migration_summary(done), text, code
