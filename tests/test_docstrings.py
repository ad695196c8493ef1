"""Every example in a docstring runs and gives what it says."""

import ast
import doctest
import importlib
import inspect
import tempfile
from pathlib import Path

import pytest
import tensorflow as tf

import seqrecorder

PACKAGE = Path(seqrecorder.__file__).parent
MODULES = sorted(
    ".".join(("seqrecorder", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in PACKAGE.rglob("*.py")
    if any(">>> " in line and "SKIP" not in line for line in path.read_text(encoding="utf-8").splitlines())
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a module give what stands below them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.getbasetemp()))  # `scratch` keeps its directory
    module = importlib.import_module(name.removesuffix(".__init__"))
    tf.random.set_seed(None)  # of the process, which another test has set, and which TensorFlow's seeds go by
    names = {"__name__": "example"}  # they are read as a user's code, not as the package's own
    results = doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted
    assert not results.failed


def test_read_is_a_screen() -> None:
    """The docstring of `read` is a sentence a parameter; what needs more stands in the guide."""
    assert len((seqrecorder.read.__doc__ or "").splitlines()) <= 70
    keywords = [
        each for each in inspect.signature(seqrecorder.read).parameters.values() if each.kind == each.KEYWORD_ONLY
    ]
    assert len(keywords) <= 28


def test_docstrings_begin_with_the_verb_of_what_is_done() -> None:
    """No docstring begins with "Return what": "Split ..." says it, and ruff's D401 looks at the rest."""
    found = {
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if '"""Return what ' in line
    }
    assert not found


NO_NAMES = {"found", "given", "made", "held", "said", "told", "some"}
"""Words that stand for a noun that was not looked for."""


def test_names_are_nouns_and_verbs() -> None:
    """No value, argument, attribute or function is named by a participle that says nothing."""
    bad = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else ""
            name = node.name if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else name
            name = node.attr if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) else name
            if name.strip("_") in NO_NAMES:
                bad.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: {name}")
    assert not bad


def test_first_lines_are_short() -> None:
    """The first line of a docstring is one sentence, of 25 words at most."""
    bad = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                first = (ast.get_docstring(node) or "").partition("\n")[0]
                if len(first.split()) > 25:
                    bad.append(f"{path.relative_to(PACKAGE)}: {first}")
    assert not bad
