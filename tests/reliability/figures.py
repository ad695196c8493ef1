"""Write the README's table of figures from what the tests of reliability did: `python tests/reliability/figures.py`.

With `--nightly` the long runs are run too, which takes hours. Nothing in the table is typed by hand.
"""

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def rows_of(lines):
    """Return a row per promise and kind of trial: what was tried, how often in all, and what was looked for."""
    table = {}
    for line in lines:
        place = (line["promise"], line["tried"], line["found"])
        largest = line["tried"].startswith("MiB")
        table[place] = max(table.get(place, 0), line["count"]) if largest else table.get(place, 0) + line["count"]
    return [(promise, tried, count, found) for (promise, tried, found), count in sorted(table.items())]


def render(lines, nightly):
    """Return the table as Markdown."""
    today = dt.datetime.now(dt.timezone.utc).date()
    kind = "with the long runs" if nightly else "of the ordinary test command"
    rows = [f"| {tried} | {count:,} | {found}: none |" for _, tried, count, found in rows_of(lines)]
    head = [f"Figures {kind}, {today}:", "", "| tried | how often | found |", "|---|---|---|"]
    return "\n".join([*head, *rows])


def main():
    """Run the tests, and put their figures between the marks in the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nightly", action="store_true", help="run the long runs too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory, "figures")
        marks = "nightly or not nightly" if options.nightly else "not nightly"
        command = [sys.executable, "-m", "pytest", "-q", "-m", marks, str(ROOT / "tests" / "reliability")]
        code = subprocess.run(command, env={**os.environ, "SEQRECORDER_FIGURES": str(place)}, check=False).returncode
        if code:
            return code  # a figure of a test that failed is none
        lines = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines()]
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    readme.write_text(f"{before}{BEGIN}\n{render(lines, options.nightly)}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
