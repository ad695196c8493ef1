"""The share of the package's statements that nothing reaches which users read: it may only fall.

Those are the blocks of the README and of the guide, the examples, and the promises' tests. `python tests/reached.py`
runs them under coverage.py, and names the modules of which most is left.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

MOST = 17.5
"""Percent of the statements. Lower it when the run says so; what raises it needs an example, or is not needed."""

WHAT = ("tests/test_readme.py", "tests/test_examples.py", "tests/reliability")
ROOT = Path(__file__).parents[1]

# Examples, killed writers and workers are processes of their own: started, forked, and ended without a farewell. Some
# import the checkout, and others the installed package.
SETTINGS = """
[run]
parallel = true
data_file = {place}/data
source_pkgs = seqrecorder
disable_warnings = no-data-collected, module-not-measured, module-not-imported, couldnt-parse, already-imported
patch =
  subprocess
  fork
  _exit
[paths]
package =
  seqrecorder
  */seqrecorder
"""


def measured(what: list[str]) -> dict[str, dict[str, int]]:
    """Run tests under coverage, and return the figures of each module and of all."""
    with tempfile.TemporaryDirectory() as place:
        settings = Path(place, "coveragerc")
        settings.write_text(SETTINGS.format(place=place), encoding="utf-8")

        def coverage(*arguments: str) -> None:
            command, *rest = arguments
            line = [sys.executable, "-m", "coverage", command, f"--rcfile={settings}", *rest]
            subprocess.run(line, check=True, cwd=ROOT)

        coverage("run", "-m", "pytest", "-n", "2", "--dist", "loadfile", "-q", *what)
        coverage("combine", "-q")
        coverage("json", "-i", "-q", "-o", f"{place}/figures.json")
        figures = json.loads(Path(place, "figures.json").read_text(encoding="utf-8"))
    return {name: file["summary"] for name, file in figures["files"].items()} | {"all": figures["totals"]}


def main() -> None:
    """Print the share, and exit with 1 where it has risen."""
    figures = measured(sys.argv[1:] or list(WHAT))
    total = figures.pop("all")
    for name, module in sorted(figures.items(), key=lambda item: -item[1]["missing_lines"])[:15]:
        print(f"{module['missing_lines']:6} of {module['num_statements']:5}  {name}")
    share = 100 * total["missing_lines"] / total["num_statements"]
    print(f"{share:.1f} % of {total['num_statements']} statements are not reached; at most {MOST} % may be")
    if share > MOST:
        sys.exit(1)
    if share < MOST - 1:
        print(f"lower MOST to {share:.1f}")


if __name__ == "__main__":
    main()
