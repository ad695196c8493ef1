"""The README and the guide are true: code runs, commands are those that run elsewhere, names and links exist."""

import importlib
import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.cli.main import main

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "examples" / "guide"
README = ROOT / "README.md"
PAGES = [README, *sorted(GUIDE.glob("*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).with_suffix("").as_posix())


def blocks(page: Path, language: str) -> list[str]:
    return [code for name, code in BLOCK.findall(TEXTS[page]) if name == language]


TRAINED = [GUIDE / f"{name}.md" for name in ("forecasting", "language_model", "start", "training", "translation")]
"""Pages that train a network, which takes longest: two batches stand for all, but for at night."""

LEARNED = re.compile(r"^assert history\[.*\n", re.MULTILINE)
"""What only a network that has learned holds to."""


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every `fit` end after two batches, and two of validation."""
    whole = keras.Model.fit

    def fit(model: keras.Model, data: tf.data.Dataset, **options: Any) -> Any:
        validation = {"validation_steps": 2} if "validation_data" in options else {}
        model._symbolic_build(data_batch=data.element_spec)  # Keras traces a step twice if it has to make variables
        return whole(model, data, **{**options, "epochs": 1, "steps_per_epoch": 2, **validation})

    monkeypatch.setattr(keras.Model, "fit", fit)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras, when it saves weights
@pytest.mark.parametrize(
    ("page", "short"),
    [
        *(pytest.param(page, page in TRAINED, id=page.relative_to(ROOT).with_suffix("").as_posix()) for page in PAGES),
        *(pytest.param(page, False, id=f"{page.stem}, whole", marks=pytest.mark.nightly) for page in TRAINED),
    ],
)
def test_blocks_run_in_order(page: Path, short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's Python blocks and `seqrecorder` commands run, one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    if short:
        shorten(monkeypatch)
    tf.random.set_seed(None)  # which another page has set
    # Records are rebuilt by their class's module, so the blocks of a page run as one.
    namespace: dict[str, object] = {"__name__": page.stem}
    for number, (language, code) in enumerate(BLOCK.findall(TEXTS[page])):
        if language == "python":
            source = compile(LEARNED.sub("", code) if short else code, f"{page.name}, block {number}", "exec")
            exec(source, namespace)  # noqa: S102 - our own text
        for command in code.splitlines() if language == "console" else ():
            if command.startswith("seqrecorder "):
                assert main(shlex.split(command)[1:]) == 0


@each_page
def test_every_block_is_of_a_language_that_is_checked(page: Path) -> None:
    """No block is of a language that nothing here runs, but for pictures of directories and lines to add to a file."""
    assert {name for name, _ in BLOCK.findall(TEXTS[page])} <= {"python", "console", "text"}


def test_the_manual_has_code() -> None:
    """The blocks are found: most pages have some, and the README too."""
    assert sum(bool(blocks(page, "python")) for page in PAGES) > len(PAGES) / 2
    assert blocks(README, "python")


def test_readme_is_short() -> None:
    """The README fits on a few screens; the rest is in the guide."""
    assert len(TEXTS[README].splitlines()) <= 200


def test_install_commands_are_those_of_ci() -> None:
    """The two commands that install are found and run by continuous integration, in an empty environment."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line for code in blocks(README, "console") for line in code.splitlines() if "pip install" in line]
    marks = ["pip install . && .venv/bin/python examples/tag_python_tokens.py", "'.[test]'"]
    assert len(commands) == len(marks)
    for command, mark in zip(commands, marks, strict=True):
        assert mark in command
        assert [line for line in TEXTS[README].splitlines() if mark in line] == [command]
        assert mark in script


def test_no_advice_installs_another_project() -> None:
    """No text names this project to `pip`: on the index of packages that name belongs to another one."""
    files = [*PAGES, *(ROOT / "seqrecorder").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    advice = re.compile(r"""pip install (?:-\S+ |['"])*seqrecorder\b""")
    assert not [path.name for path in files if advice.search(path.read_text(encoding="utf-8"))]


INNER = {"Manifest.fetch", "Manifest.fetch_files", "Selection.resolve", "Writer.keep_history"}
"""Methods of public classes that only the package calls."""


def callables() -> dict[str, Callable[..., object]]:
    """Collect the public functions and constructors, and the methods of the public classes that are no errors."""
    public = {name: getattr(sr, name) for name in dir(sr) if not name.startswith("_")}
    public = {name: value for name, value in public.items() if callable(value) and not is_error(value)}
    classes = {name: value for name, value in public.items() if inspect.isclass(value)}
    methods = {
        f"{name}.{method}": function
        for name, kind in classes.items()
        for method, function in vars(kind).items()
        if inspect.isfunction(function) and not method.startswith("_")
    }
    return {name: value for name, value in {**public, **methods}.items() if name not in INNER}


def is_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


@pytest.mark.parametrize("name", callables())
def test_every_option_has_a_line_in_the_guide(name: str) -> None:
    """Each keyword of what is public stands in code that the tests run."""
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").rglob("*.py")]
    text = "\n".join([*TEXTS.values(), *scripts])
    parameters = inspect.signature(callables()[name]).parameters.values()
    keywords = [parameter.name for parameter in parameters if parameter.kind == inspect.Parameter.KEYWORD_ONLY]
    assert not [keyword for keyword in keywords if not re.search(rf"\b{keyword}=", text)]


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link is to a file that exists."""
    targets = re.findall(r"\]\(([^)#:]+)\)", TEXTS[page])
    assert [target for target in targets if not (page.parent / target).exists()] == []


@each_page
def test_named_files_and_modules_exist(page: Path) -> None:
    """Every file of this repository that a page names is there, and so is every module of ours, with its name."""
    words = set(re.findall(r"(?<![\w/.-])(?:seqrecorder|tests|examples|\.ci)/[\w./-]*\w", TEXTS[page]))
    assert [word for word in sorted(words) if not (ROOT / word).exists()] == []
    for dotted in set(re.findall(r"`(seqrecorder(?:\.\w+)+)", TEXTS[page])):
        found: object = importlib.import_module("seqrecorder")
        for name in dotted.split(".")[1:]:
            found = getattr(found, name, None) or importlib.import_module(f"{found.__name__}.{name}")  # type: ignore[attr-defined]  # a module


def test_the_index_has_every_page_and_example() -> None:
    """The guide's index links each page and each example script once."""
    linked = re.findall(r"\]\(([^)#:]+)\)", TEXTS[GUIDE / "README.md"])
    pages = {page.name for page in GUIDE.glob("*.md")} - {"README.md"}
    examples = ROOT / "examples"
    scripts = {
        f"../{path.relative_to(examples).as_posix()}"
        for pattern in ("*.py", "*/__main__.py")
        for path in examples.glob(pattern)
    }
    assert sorted(linked) == sorted(pages | scripts)
