"""Commands for TensorFlow 1 scripts: `legacy run` and `legacy convert`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from seqrecorder.cli.command import OK, PROBLEM, add, add_command, of_writing, quieten_tensorflow
from seqrecorder.errors import OptionError


def add_commands(commands: Any) -> None:
    """Add the commands to the parser."""
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
    run.set_defaults(run=_run, json=False)
    run.add_argument("script", metavar="SCRIPT", help="a Python file")
    run.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="arguments of the script")

    convert = add_command(actions, "convert", _convert, "print an equivalent input function for TensorFlow 2")
    add(convert, "script SCRIPT", "a Python file, which is imported")
    call = "a call of an input function, in Python, such as 'inputs([\"train.tfrecord\"], 32)'; may be repeated"
    add(convert, "--call CALL ...", f"{call} (default: list the functions)", dest="calls")
    add(convert, "--graph-seed N", "argument of tf.set_random_seed in the program (default: not called)", type=int)
    add(convert, "--write FILE", "write the module (default: print it)")
    add(convert, "--data DIR", "write the parsed records as a dataset; print a script that reads it")
    add(convert, "--share NAME=SHARE ...", "a split of the dataset and its share; may be repeated", dest="shares")
    add(convert, "--split-by FIELD", "records of the same value go to the same split")
    add(convert, "--overwrite", "replace a dataset at DIR")
    add(convert, "--seed N", "seed of the split (default: 0)", type=int, default=0)


def _run(options: argparse.Namespace) -> int:
    quieten_tensorflow()
    from seqrecorder.legacy.run_script import run, traceback_in

    try:
        run(options.script, options.arguments)
    except Exception as error:
        shown = traceback_in(options.script, error)
        if shown is None:
            raise
        sys.stderr.write(shown)
        return PROBLEM
    return OK


def _convert(options: argparse.Namespace) -> tuple[Any, str]:
    quieten_tensorflow()
    from seqrecorder.legacy.convert.script import convert_script, functions_of

    if not options.data and (options.shares or options.split_by or options.overwrite):
        raise OptionError("--share, --split-by and --overwrite are for a dataset: give --data DIR")
    if not options.calls:
        if options.write or options.data:
            raise OptionError("which function? give --call 'function(arguments)'")
        functions = functions_of(options.script)
        lines = [f"functions of {options.script}, for --call:", *(f"  {function}" for function in functions)]
        return {"functions": functions}, "\n".join(lines)
    conversions = convert_script(options.script, options.calls, options.graph_seed)
    calls = options.calls
    if len(conversions) > 1 and not options.data and all(each.printed and not each.files for each in conversions):
        conversions, calls = [conversions[0].together(*conversions[1:])], ["; ".join(options.calls)]
    blocks, documents = [], []
    for number, (call, conversion) in enumerate(zip(calls, conversions, strict=True)):
        suffix = f"_{number + 1}" if number else ""
        report, source = conversion.report, conversion.source
        document = {"call": call, "printed": conversion.printed, "report": report, "source": source}
        blocks += [f"{call}\n{conversion.report}"]
        if options.write:
            target = options.write.removesuffix(".py") + suffix + ".py"
            conversion.write(target)
            document["written"] = target
            blocks += [f"written to {target}"]
        if options.data:
            target = f"{options.data}{suffix}"
            document["read"] = conversion.write_data(target, **of_writing(options))
            blocks += [f"written to {target}; it is read by", document["read"]]
        elif not options.write:
            blocks += [conversion.source]
        documents.append(document)
    return {"conversions": documents}, "\n\n".join(blocks)
