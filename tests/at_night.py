"""Cases that only the nightly run needs: `python tests/at_night.py` measures them and writes `at_night.txt`.

It runs the suite once under coverage.py, which keeps the branches of the package that each case takes. From the slowest
down, a case of a parametrized test is left to the night if another of the day takes each of its branches. A fifth of
the cases of every test stays, and all of the promises' (`tests/reliability`): what a kill or a damaged byte does, no
branch shows. `conftest.py` marks those of the list; a name that no case has any more does nothing.
"""

import collections
import os
import sqlite3
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import coverage
import pytest
from reached import ROOT, SETTINGS

LIST = Path(__file__).with_name("at_night.txt")
SECONDS = 0.2
"""Cases that take less are run by day: they would save nothing."""

ALL_BY_DAY = ("tests/test_", "tests/reliability/")
OTHERS = 1
STAY = 0.2


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Count what runs as the case's (this module is a plugin of the measured run)."""
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(item.nodeid)
    return (yield)


def measured(place: Path) -> tuple[dict[str, float], dict[str, set[tuple[int, int, int]]]]:
    """Run the suite, and return the seconds and the branches of each case."""
    settings = place / "coveragerc"
    settings.write_text(SETTINGS.format(place=place).replace("parallel", "branch = true\nparallel"), encoding="utf-8")
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-n", "2"]
    command += ["--dist", "loadfile", "-q", "-p", "at_night", f"--junitxml={place}/cases.xml", *sys.argv[1:]]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path})
    subprocess.run([sys.executable, "-m", "coverage", "combine", "-q", f"--rcfile={settings}"], check=True, cwd=ROOT)
    seconds = {}
    for case in ET.parse(place / "cases.xml").iter("testcase"):  # noqa: S314 - pytest wrote it
        seconds[f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"] = float(case.get("time", 0))
    branches = collections.defaultdict(set)
    rows = "select context, file_id, fromno, tono from arc join context on context.id = context_id"
    for case, *branch in sqlite3.connect(place / "data").execute(rows):
        branches[case].add(tuple(branch))
    return {name: time for name, time in seconds.items() if name in branches}, branches


def chosen(seconds: dict[str, float], branches: dict[str, set[tuple[int, int, int]]]) -> list[str]:
    """List the cases that are left to the night."""
    tests = collections.Counter(name.partition("[")[0] for name in seconds)
    by_day, found = tests.copy(), []
    takers = collections.Counter(branch for taken in branches.values() for branch in taken)
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        test = name.partition("[")[0]
        stays = seconds[name] < SECONDS or test.startswith(ALL_BY_DAY) or by_day[test] - 1 < max(1, STAY * tests[test])
        if not stays and all(takers[branch] > OTHERS for branch in branches[name]):
            takers.subtract(branches[name])
            by_day[test] -= 1
            found.append(name)
    return sorted(found)


def main() -> None:
    """Measure, and write the list."""
    LIST.write_text("", encoding="utf-8")
    with tempfile.TemporaryDirectory() as place:
        seconds, branches = measured(Path(place))
    found = chosen(seconds, branches)
    LIST.write_text("".join(f"{name}\n" for name in found), encoding="utf-8")
    print(f"{len(found)} cases, {sum(map(seconds.get, found)):.0f} of {sum(seconds.values()):.0f} seconds")


if __name__ == "__main__":
    main()
