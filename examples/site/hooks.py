"""Hooks of mkdocs: the reference, a page a room, and the example scripts as pages."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import seqrecorder as sr

_EXAMPLES = Path(__file__).parents[1]
_ROOMS = {
    "declare": ("Declare", "schema codec"),
    "write": ("Write", "writing sources"),
    "read": ("Read", "reading"),
    "select": ("Datasets and selections", "dataset"),
    "analyse": ("Analyse", "analysis"),
    "errors": ("Errors", "errors"),
}
_MODULES = ("keras", "legacy", "testing")


def _reference() -> dict[str, str]:
    """Return the pages of the reference by name, made of the public names and where each is defined."""
    pages = {}
    homes = {name: getattr(getattr(sr, name), "__module__", None) or "" for name in sr.__all__}
    for page, (title, rooms) in _ROOMS.items():
        names = [name for name, home in homes.items() if home.split(".")[1:2] and home.split(".")[1] in rooms.split()]
        pages[page] = f"# {title}\n\n" + "\n\n".join(map(_entry, [f"{homes[name]}.{name}" for name in names]))
    for module in _MODULES:
        home = f"seqrecorder.{module}"
        found = [value for name, value in vars(getattr(sr, module)).items() if not name.startswith("_")]
        found = [value for value in found if str(getattr(value, "__module__", "")).startswith(home)]
        entries = [_entry(f"{value.__module__}.{value.__name__}") for value in found]
        pages[module] = f"# sr.{module}\n\n" + "\n\n".join(entries)
    index = [f"- [{text.splitlines()[0][2:]}]({name}.md)" for name, text in pages.items()]
    pages["index"] = "# Reference\n\nMade of the docstrings: `help(sr.read)` shows the same.\n\n" + "\n".join(index)
    return pages


def _entry(path: str) -> str:
    # What a strategy has beside its options is for `read`.
    return f"::: {path}" + ("\n    options: { members: false }" if ".batching." in path else "")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for name, text in _reference().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for path in [*_EXAMPLES.glob("*.py"), *_EXAMPLES.glob("*/__main__.py")]:
        name = path.parent.name if path.stem == "__main__" else path.stem
        text = f"# {name}.py\n\n```python\n{path.read_text(encoding='utf-8')}```\n"
        files.append(File.generated(config, f"scripts/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to scripts to the pages that show them."""
    markdown = re.sub(r"\]\(\.\./(\w+)(?:/__main__)?\.py\)", r"](scripts/\1.md)", markdown)
    return markdown.replace("](../../README.md", "](README.md")
