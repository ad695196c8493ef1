"""Measure writing and reading here, beside hand-written TensorFlow and other libraries: `python -m tests.bench`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from seqrecorder.cli.command import quieten_tensorflow
from seqrecorder.cli.output import to_json

from . import cores, recordings, run, table, training
from .timing import Effort
from .workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

EXTRAS = {"training": training, "cores": cores, "recordings": recordings}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Args:
        arguments: without the program's name; None takes those of the process.
    """
    options = _parser().parse_args(arguments)
    quieten_tensorflow()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    names = options.workload or list(WORKLOADS)
    rounds, seconds = (3, 1.0) if options.quick else (5, 5.0)
    effort = Effort(options.quick, options.rounds or rounds, options.seconds or seconds)
    if options.extra is None:
        report = run.run(names, effort, peers=options.peers, say=say)
        print(to_json(report) if options.json else table.text(report))
    else:
        measured = EXTRAS[options.extra].measure(names, effort, say)
        print(to_json(measured) if options.json else EXTRAS[options.extra].text(measured))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--workload", type=_workloads, metavar="W1,...", help="some of W1 to W6 (default: all)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, three rounds of a second")
    extra = parser.add_mutually_exclusive_group()
    for name, summary in (
        ("training", "how long a GRU waits for batches of W1 and W2"),
        ("cores", "how reading uses one core, two, four and so on"),
        ("recordings", "long recordings of 64 channels, a buffer each, beside HDF5, Arrow and Parquet"),
    ):
        extra.add_argument(f"--{name}", dest="extra", action="store_const", const=name, help=summary)
    parser.add_argument("--rounds", type=_positive(int), metavar="N", help="how often everything runs (default: 5)")
    parser.add_argument("--seconds", type=_positive(float), metavar="N", help="of each reading (default: 5)")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave other libraries out")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def _workloads(text: str) -> list[str]:
    names = text.split(",")
    if set(names) - set(WORKLOADS):
        raise argparse.ArgumentTypeError(f"expected some of {','.join(WORKLOADS)}, got {text!r}")
    return names


def _positive(kind: type[int | float]):
    def convert(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = kind(0)
        if not 0 < number < float("inf"):
            raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
        return number

    return convert


if __name__ == "__main__":
    main()
