"""The commands that bring over what other programs wrote: their files, and the scripts that read them."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from seqrecorder.cli import arguments, selection_arguments, table_commands
from seqrecorder.cli.command import OK, PROBLEM, add_command, add_schema, load_class, print_result
from seqrecorder.cli.quiet_tensorflow import quieten_tensorflow
from seqrecorder.dataset.read_manifest import dataset_at
from seqrecorder.errors import OptionError
from seqrecorder.storage.names import MANIFEST
from seqrecorder.storage.place import is_url

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
    schema = add_command(commands, "schema", _schema, "a class to paste, for files of unknown contents")
    schema.add_argument("paths", metavar="FILES", nargs="+", help="TFRecord files or tables, or globs of them")
    schema.add_argument(
        "--records",
        metavar="N",
        type=arguments.records,
        default=1000,
        help="how many records to look at, or `all` (default: 1000)",
    )
    _add_inference(schema)
    table_commands.add_options(schema, converts=False)

    convert = add_command(commands, "convert", _convert, "files that others wrote, as a dataset")
    convert.add_argument("paths", metavar="FILES", nargs="*", help="TFRecord files or tables, or globs; or datasets")
    convert.add_argument("destination", metavar="DIR", help="directory of the new dataset")
    convert.add_argument(
        "--split",
        dest="splits",
        metavar="NAME=FILES",
        type=arguments.pair,
        action="append",
        default=[],
        help="the files of one split, instead of FILES; may be repeated",
    )
    convert.add_argument(
        "--share",
        dest="shares",
        metavar="NAME=SHARE",
        type=arguments.share,
        action="append",
        default=[],
        help="a split and its share of the records, such as eval=0.1; repeat it for each",
    )
    convert.add_argument("--seed", metavar="N", type=int, default=0, help="of the shares and the order (default: 0)")
    convert.add_argument(
        "--shards", metavar="N", type=arguments.positive, help="files to a split (default: by their size)"
    )
    convert.add_argument("--compression", metavar="GZIP", help="of the new files (default: none)")
    convert.add_argument("--shuffle", action="store_true", help="write the records in a random order")
    convert.add_argument("--overwrite", action="store_true", help="replace a dataset at DIR")
    add_schema(convert, "read as this class (default: inferred from all records)")
    convert.add_argument(
        "--leave-out",
        metavar="FEATURE",
        action="append",
        default=[],
        help="a feature that the dataset does without; may be repeated",
    )
    _add_inference(convert)
    table_commands.add_options(convert, converts=True)
    selection_arguments.add_options(convert, keys=False)

    migrate = add_command(commands, "migrate", _migrate, "rewrite the input queues of TensorFlow 1 scripts for tf.data")
    migrate.add_argument("path", metavar="PATH", help="a script, or a directory of scripts")
    migrate.add_argument("--write", action="store_true", help="change the files (default: show what would change)")
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
        help="lift: scripts whose pipelines cannot be rewritten keep them, and are lifted (default: they are flagged)",
    )
    migrate.add_argument(
        "--records",
        action="store_true",
        help="make an attrs class of the features of SequenceExamples, and read with it (needs --target=eager)",
    )
    migrate.add_argument(
        "--verify",
        action="store_true",
        help="run the old and the new functions on made-up records and compare (runs the scripts' code)",
    )


def _add_inference(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", metavar="CLASS", default="Record", help="name of the class (default: Record)")
    parser.add_argument("--key", metavar="FEATURE", help="the feature that identifies a record")
    parser.add_argument(
        "--raw",
        metavar="FEATURE=DTYPE",
        type=arguments.pair,
        action="append",
        default=[],
        help="bytes that decode_raw makes numbers of; may be repeated",
    )
    parser.add_argument(
        "--shape",
        metavar="FEATURE=SHAPE",
        type=arguments.shape,
        action="append",
        default=[],
        help="the shape of such bytes: sizes (28,28 or ?,28), the feature that holds it, or the features of its "
        "dimensions (height,width,depth)",
    )


def _schema(options: argparse.Namespace) -> int:
    if table_commands.are_tables(options):
        print_result(options, *table_commands.schema_of(options))
        return OK
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
    print_result(options, report.inference_summary(found), report.inference_text(found))
    return OK


def _convert(options: argparse.Namespace) -> int:
    from seqrecorder.cli import report
    from seqrecorder.sources.foreign import convert

    options.shares += options.share_list
    if options.splits and options.paths:
        raise OptionError("name the files once: FILES, or --split NAME=FILES for each split")
    if not options.splits and not options.paths:
        raise OptionError("which files? FILES, or --split NAME=FILES for each split")
    if selection_arguments.are_given(options) or any(map(_is_dataset, options.paths)):
        print_result(options, *_copy(options))
        return OK
    if table_commands.are_tables(options):
        print_result(options, *table_commands.convert(options, load_class(options.schema)))
        return OK
    done = convert.convert(
        _by_split(options.splits) or options.paths,
        options.destination,
        schema=load_class(options.schema),
        name=options.name,
        raw=dict(options.raw),
        shapes=dict(options.shape),
        key=options.key,
        leave_out=options.leave_out,
        splits=dict(options.shares) or None,
        seed=options.seed,
        shards=options.shards,
        compression=options.compression,
        shuffle=options.shuffle,
        overwrite=options.overwrite,
    )
    print_result(options, report.conversion_summary(done), report.conversion_text(done))
    return OK


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
        splits=dict(options.shares) or None,
        seed=options.seed,
        shards=options.shards,
        compression=options.compression,
        shuffle=options.shuffle,
        overwrite=options.overwrite,
    )
    return {"dataset": report.manifest_summary(manifest)}, report.manifest_line(manifest)


def _by_split(given: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    paths: dict[str, list[str]] = {}
    for name, path in given:
        paths.setdefault(name, []).append(path)
    return paths


def _migrate(options: argparse.Namespace) -> int:
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
    width, colours = shutil.get_terminal_size().columns, summary.has_colours(sys.stdout)
    text = summary.migration_text(done, write=options.write, width=width, colours=colours)
    print_result(options, summary.migration_summary(done), text)
    return PROBLEM if any(report.outcome in ("flagged", "refused") for report in done) else OK
