"""The command line: arguments to one call each. Everything heavy is imported inside the handlers.

    seqrecorder demo [DIR]      write, read and train on the standard library's source code
    seqrecorder info PATH       what a dataset, or an unknown shard, contains
    seqrecorder head PATH       the first records
    seqrecorder verify PATH     everything that is wrong
    seqrecorder stats PATH      what the values are like, field by field
    seqrecorder plan PATH       what each way of batching costs in padding
    seqrecorder vocabulary PATH the tokens of a field
    seqrecorder plot PATH       a picture of some records
    seqrecorder schema FILES    a class to paste, for files of unknown contents
    seqrecorder migrate PATH    input queues of TensorFlow 1 in scripts, rewritten for tf.data
    seqrecorder convert FILES DIR   files that others wrote, TFRecord or tables, as a dataset
    seqrecorder salvage PATH TO what is whole, to a new place
    seqrecorder bench           what writing and reading cost here, beside other ways
    seqrecorder legacy run SCRIPT   run a script of TensorFlow 1

Exit codes: 0 all is well, 1 a problem, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from seqrecorder import __version__
from seqrecorder.cli import analysis_commands, arguments, table_commands
from seqrecorder.cli.quiet_tensorflow import quieten_tensorflow
from seqrecorder.errors import OptionError, SeqrecorderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OK, PROBLEM, USAGE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: without the program's name; None takes those of the process.
    """
    options = _parser().parse_args(arguments)
    # Without a console, or closed by the shell, there are none.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    # Names of files may hold what the terminal's encoding lacks.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has seen enough. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROBLEM
    except (SeqrecorderError, OSError) as error:
        return _fail(error, as_json=options.json)
    except KeyboardInterrupt:
        print("seqrecorder: interrupted", file=sys.stderr)
        return PROBLEM
    return code


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - for the rest of the process


def _fail(error: Exception, *, as_json: bool) -> int:
    from seqrecorder.cli.report import to_json
    from seqrecorder.cli.terminal import printable

    message = printable(" ".join(str(error).split()))
    print(f"seqrecorder: {message}", file=sys.stderr)
    if as_json:
        print(to_json({"error": {"type": type(error).__name__, "message": str(error)}}))
    return PROBLEM


# Handlers -------------------------------------------------------------------------------------------------


def _demo(options: argparse.Namespace) -> int:
    from seqrecorder.cli import demo, report
    from seqrecorder.cli.terminal import printable

    quieten_tensorflow()

    def say(line: str) -> None:
        print(printable(line), file=sys.stderr if options.json else sys.stdout, flush=True)

    done = demo.run(
        options.directory,
        functions=options.functions,
        overwrite=options.overwrite,
        say=say,
    )
    _print(options, done, "\n" + report.demo_text(done))
    return OK


def _info(options: argparse.Namespace) -> int:
    from seqrecorder.cli import inspect, report

    if Path(options.path).is_file():  # what a manifest says is told without TensorFlow, at once
        quieten_tensorflow()
    found = inspect.describe(options.path)
    if isinstance(found, inspect.ShardDescription):
        _print(options, found, report.shard_text(found))
        return PROBLEM if found.problem else OK
    _print(options, report.manifest_summary(found), report.manifest_text(found))
    return OK


def _head(options: argparse.Namespace) -> int:
    from seqrecorder.cli import inspect, report

    if Path(options.path).exists():
        quieten_tensorflow()
    schema = _load(options.schema)
    found = inspect.head(options.path, options.split, count=options.count, schema=schema)
    _print(options, found, report.head_text(found))
    return OK


def _verify(options: argparse.Namespace) -> int:
    from seqrecorder.cli import report
    from seqrecorder.dataset import verify as checks

    if Path(options.path).exists() and not options.quick:
        quieten_tensorflow()
    found = checks.verify(options.path, level="quick" if options.quick else "full", schema=_load(options.schema))
    _print(options, report.verification_summary(found), report.verification_text(found))
    return OK if found.ok else PROBLEM


def _bench(options: argparse.Namespace) -> int:
    from seqrecorder.cli.bench import run, table

    quieten_tensorflow()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    report = run.run(
        options.workload or run.ALL,
        quick=options.quick,
        rounds=options.rounds,
        seconds=options.seconds,
        peers=options.peers,
        say=say,
    )
    _print(options, report, table.text(report))
    return OK


def _schema(options: argparse.Namespace) -> int:
    if table_commands.are_tables(options):
        _print(options, *table_commands.schema_of(options))
        return OK
    from seqrecorder.cli import report
    from seqrecorder.sources.foreign import infer

    quieten_tensorflow()
    found = infer.infer(
        options.paths,
        name=options.name,
        raw=dict(options.raw),
        shapes=dict(options.shape),
        key=options.key,
        records=options.records,
    )
    _print(options, report.inference_summary(found), report.inference_text(found))
    return OK


def _convert(options: argparse.Namespace) -> int:
    from seqrecorder.cli import report
    from seqrecorder.sources.foreign import convert

    options.shares += options.share_list
    if options.splits and options.paths:
        raise OptionError("name the files once: FILES, or --split NAME=FILES for each split")
    if not options.splits and not options.paths:
        raise OptionError("which files? FILES, or --split NAME=FILES for each split")
    if table_commands.are_tables(options):
        _print(options, *table_commands.convert(options, _load(options.schema)))
        return OK
    quieten_tensorflow()
    done = convert.convert(
        _by_split(options.splits) or options.paths,
        options.destination,
        schema=_load(options.schema),
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
    _print(options, report.conversion_summary(done), report.conversion_text(done))
    return OK


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
    _print(options, summary.migration_summary(done), text)
    return PROBLEM if any(report.outcome in ("flagged", "refused") for report in done) else OK


def _by_split(given: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    paths: dict[str, list[str]] = {}
    for name, path in given:
        paths.setdefault(name, []).append(path)
    return paths


def _legacy_run(options: argparse.Namespace) -> int:
    quieten_tensorflow()
    from seqrecorder.legacy.run_script import run, traceback_in

    try:
        run(options.script, options.arguments)
    except Exception as error:
        shown = traceback_in(options.script, error)
        if shown is None:
            raise
        print(shown, end="", file=sys.stderr)
        return PROBLEM
    return OK


def _salvage(options: argparse.Namespace) -> int:
    from seqrecorder.cli import report
    from seqrecorder.dataset.salvage import salvage

    if Path(options.path).exists():
        quieten_tensorflow()
    found = salvage(options.path, options.destination, schema=_load(options.schema), compression=options.compression)
    _print(options, report.salvage_summary(found), report.salvage_text(found))
    return OK


def _shown(told: Callable[[argparse.Namespace], tuple[Any, str]]) -> Callable[[argparse.Namespace], int]:
    """Return the handler of a function from arguments to a document and its text."""

    def run(options: argparse.Namespace) -> int:
        quieten_tensorflow()
        _print(options, *told(options))
        return OK

    return run


def _print(options: argparse.Namespace, document: Any, text: str) -> None:
    from seqrecorder.cli.report import to_json

    print(to_json(document) if options.json else text)


def _load(name: str | None) -> Any:
    """Return the class that the user named as `module:Class`, from the path or the current directory."""
    if name is None:
        return None
    module_name, _, class_name = name.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 - entries of sys.path are text
        # At the end, so that nothing in this directory hides an installed module.
        sys.path.append(os.getcwd())  # noqa: PTH109
    try:
        found = importlib.import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise OptionError(f"--schema {name}: {error}") from error
    return found


# Arguments ------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="seqrecorder",
        description="Sequence data in TensorFlow's SequenceExample format: look at it, verify it, try it.",
        epilog="Exit codes: 0 all is well, 1 a problem, 2 wrong usage. `COMMAND --help` says more.",
    )
    parser.add_argument("--version", action="version", version=f"seqrecorder {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = _command(commands, "demo", _demo, "write, read and train on the standard library's source code")
    demo.add_argument(
        "directory",
        metavar="DIR",
        nargs="?",
        type=Path,
        help="keep the dataset here (default: do not keep it)",
    )
    demo.add_argument(
        "--functions", metavar="N", type=arguments.positive, help="take at most so many functions (default: all)"
    )
    demo.add_argument("--overwrite", action="store_true", help="replace a dataset at DIR")

    info = _command(commands, "info", _info, "what a dataset, or an unknown TFRecord file, contains")
    info.add_argument("path", metavar="PATH", help="a dataset's directory, or a shard")

    head = _command(commands, "head", _head, "the first records")
    head.add_argument("path", metavar="PATH", help="a dataset's directory, or a shard")
    head.add_argument("--split", metavar="S", help="name of the split (default: the first one)")
    head.add_argument(
        "-n", dest="count", metavar="N", type=arguments.positive, default=5, help="how many records (default: 5)"
    )
    _add_schema(head, "read as this class (default for a shard: what its messages hold)")

    verify = _command(commands, "verify", _verify, "check files and records; list everything that is wrong")
    verify.add_argument("path", metavar="PATH", help="a dataset's directory, or a shard")
    verify.add_argument("--quick", action="store_true", help="look at the manifest and the files' sizes only")
    _add_schema(verify, "the class that a shard's records are checked against")

    analysis_commands.add_commands(commands, _command, _shown)
    _add_old_data(commands)
    salvage = _command(commands, "salvage", _salvage, "write every record that is whole to a new place")
    salvage.add_argument("path", metavar="PATH", help="a damaged dataset's directory, or a shard; it is only read")
    salvage.add_argument("destination", metavar="DESTINATION", help="the new dataset, or file")
    salvage.add_argument("--compression", choices=["GZIP"], help="of a shard (default: by its first bytes)")
    _add_schema(salvage, "the class of the records, where no manifest says it")

    bench = _command(commands, "bench", _bench, "measure writing and reading, beside other ways")
    bench.add_argument("--workload", metavar="W1,...", type=arguments.workloads, help="some of W1 to W5 (default: all)")
    bench.add_argument("--quick", action="store_true", help="a tenth of the data, three rounds of a second")
    bench.add_argument("--rounds", metavar="N", type=arguments.positive, help="how often everything runs (default: 5)")
    bench.add_argument("--seconds", metavar="N", type=arguments.positive, help="of each reading (default: 5)")
    bench.add_argument("--no-peers", dest="peers", action="store_false", help="leave other libraries out")

    summary = "work with scripts of TensorFlow 1"
    legacy = commands.add_parser("legacy", help=summary, description=f"legacy: {summary}.")
    actions = legacy.add_subparsers(title="actions", metavar="ACTION", required=True)
    what = "run a script that uses tf.contrib and other names of TensorFlow 1"
    run = actions.add_parser(
        "run",
        help=what,
        description=f"legacy run: {what}, as it is. Of tf.contrib there is what reads data. "
        "TF_CPP_MIN_LOG_LEVEL=0 shows TensorFlow's own log.",
    )
    run.set_defaults(run=_legacy_run, json=False)
    run.add_argument("script", metavar="SCRIPT", help="a Python file")
    run.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="what the script is given")
    return parser


def _add_old_data(commands: Any) -> None:
    """Add the commands that bring over what other programs wrote: their files, and the scripts that read them."""
    schema = _command(commands, "schema", _schema, "a class to paste, for files of unknown contents")
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

    convert = _command(commands, "convert", _convert, "files that others wrote, as a dataset")
    convert.add_argument("paths", metavar="FILES", nargs="*", help="TFRecord files or tables, or globs of them")
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
    _add_schema(convert, "read as this class (default: inferred from all records)")
    convert.add_argument(
        "--leave-out",
        metavar="FEATURE",
        action="append",
        default=[],
        help="a feature that the dataset does without; may be repeated",
    )
    _add_inference(convert)
    table_commands.add_options(convert, converts=True)

    migrate = _command(commands, "migrate", _migrate, "rewrite the input queues of TensorFlow 1 scripts for tf.data")
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


def _command(commands: Any, name: str, run: Any, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=f"{name}: {summary}.")
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def _add_schema(parser: argparse.ArgumentParser, summary: str) -> None:
    parser.add_argument("--schema", metavar="MODULE:CLASS", type=arguments.class_name, help=summary)


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
