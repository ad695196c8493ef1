"""Write the guide's table of figures from what the tests did: `python tests/reliability/figures.py`.

With `--nightly` the long runs are run too, which takes an hour or more. They may be run one by one instead, with the
name of a file in SEQRECORDER_FIGURES, and their figures taken from there: `--collected FILE`. Of a test that ran
several times the last run counts; the runs of `fuzz.py`, whose figures go to the same file, add up. Nothing in the
table is typed by hand.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "examples" / "guide" / "promises.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
TESTS = (
    "codec/test_records.py",
    "dataset/test_key_hashes.py",
    "reliability",
    "reading/test_schema_evolution.py",
    "storage/test_names.py",
    "storage/test_staging.py",
    "writing/test_writer.py",
)
"""Where there are tests with figures."""


def last_runs(lines):
    """Return the lines of the last run of each test."""
    last = {}
    for line in lines:
        last[line["test"]] = max(line["run"], last.get(line["test"], 0))
    return [line for line in lines if line["run"] == last[line["test"]]]


def rows_of(lines):
    """Return a row per promise and kind of trial: what was tried, how often in all, and what held."""
    table = {}
    for line in lines:
        row = (line["promise"], line["tried"], line["kept"])
        largest = line["tried"].startswith("MiB")
        table[row] = max(table.get(row, 0), line["count"]) if largest else table.get(row, 0) + line["count"]
    return [(promise, tried, count, kept) for (promise, tried, kept), count in sorted(table.items())]


def render(lines):
    """Return the table as Markdown."""
    lines = last_runs(lines)
    days = sorted({line["date"] for line in lines})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    rows = [f"| {tried} | {count:,} | {kept} |" for _, tried, count, kept in rows_of(lines)]
    return "\n".join([f"Figures of {when}:", "", "| tried | how often | kept |", "|---|---|---|", *rows])


def run(place, *, nightly):
    """Run the tests that have figures, which go to a file, and return their exit code."""
    marks = "not perf" if nightly else "not perf and not nightly"
    command = [sys.executable, "-m", "pytest", "-q", "-m", marks, *(str(ROOT / "tests" / name) for name in TESTS)]
    return subprocess.run(command, env={**os.environ, "SEQRECORDER_FIGURES": str(place)}, check=False).returncode


def main():
    """Run the tests, or take their figures, and put them between the marks in the page of the promises."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nightly", action="store_true", help="run the long runs too")
    parser.add_argument("--collected", type=Path, nargs="+", help="take the figures of these files, and run nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        places = options.collected or [Path(directory, "figures")]
        code = 0 if options.collected else run(places[0], nightly=options.nightly)
        if code:
            return code  # a figure of a test that failed is none
        lines = [json.loads(line) for place in places for line in place.read_text(encoding="utf-8").splitlines()]
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{render(lines)}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
