"""Input functions made at random give what they gave, or are left to a person."""

import ast
import contextlib

import pytest
import random_scripts

from seqrecorder.legacy.migrate.rewrite.script import rewrite
from seqrecorder.legacy.migrate.verify.call import Callee
from seqrecorder.legacy.migrate.verify.equality import compare

_LEAST = 0.35  # share that is converted


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Two files of numbers, of which the second is longer."""
    directory = tmp_path_factory.mktemp("numbers")
    files = [directory / "a.txt", directory / "b.txt"]
    for number, file in enumerate(files):
        file.write_text("".join(f"{10 * number + line}\n" for line in range(5 + number)))
    return [str(file) for file in files]


def _run(text, function, target, paths, *, old):
    callee = Callee(text, function, target, {}, old=old)
    batches, shuffled = callee.batches({"files": paths})
    return batches, shuffled, callee.structure


def _check(seed, paths):
    """Check one script, and return how many of its functions were converted."""
    text, functions = random_scripts.Writer(seed).script()
    ast.parse(text)
    done = {target: rewrite(text, target) for target in ("graph", "eager")}
    assert {each.status for each in done.values()} <= {"converted", "flagged"}, (seed, done)
    converted = 0
    for function in functions:
        expected = None
        for target, each in done.items():
            if each.status != "converted":
                continue
            if expected is None:
                with contextlib.suppress(Exception):  # what never worked may go on not to
                    expected = _run(text, function, "graph", paths, old=True)
            if expected is None or not expected[0]:
                break
            batches, shuffled, structure = expected
            try:
                new, _, became = _run(each.text, function, target, paths, old=False)
                compare(batches, new, ordered=not shuffled, records=11, most=24)
                assert target == "eager" or became == structure
            except Exception as error:
                raise AssertionError(f"seed {seed}, {target}:\n{text}\nbecame\n{each.text}") from error
            converted += 1
    return converted


def test_random_scripts_give_what_they_gave(paths):
    """Whatever is done to the variables around a pipeline, converted functions give equal batches."""
    assert sum(_check(seed, paths) for seed in range(12)) > 2 * 12 * _LEAST


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(10))
def test_many_random_scripts_give_what_they_gave(paths, block):
    """The same of ten thousand scripts."""
    assert sum(_check(seed, paths) for seed in range(1000 * block + 100, 1000 * block + 1100)) > 2000 * _LEAST
