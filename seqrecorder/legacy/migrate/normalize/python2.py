"""Scripts that only Python 2 reads, made Python 3 before anything else; the rest of their text stays."""

from __future__ import annotations

import ast
import functools
import warnings
from typing import TYPE_CHECKING, Any

from seqrecorder.legacy.migrate.analyze.data_flow import bound_by, only, walk
from seqrecorder.legacy.migrate.source import lines_inside_strings

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIXERS = ("except", "exec", "funcattrs", "ne", "numliterals", "print", "raise", "repr", "throw", "tuple_params")


PYTHON2 = (
    "it was Python 2, and is Python 3 now: text is Unicode, and map, filter, zip and the methods of dictionaries give "
    "no lists"
)
"""What a script that is Python 3 now has to be looked at for."""
_GONE = {
    **dict.fromkeys(("xrange", "raw_input"), "is {} in Python 3"),
    **dict.fromkeys(("unicode", "unichr", "basestring", "long", "reduce", "file", "cmp"), "is no name of Python 3"),
    **dict.fromkeys(("has_key", "iteritems", "iterkeys", "itervalues"), "is no method of Python 3's dictionaries"),
    "next": "is no method of Python 3's iterators: next(...) calls it",
}
_NEW = {"xrange": "range", "raw_input": "input"}


def left_of_python2(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines of a script that was Python 2, and what in them means something else, or nothing, now.

    >>> list(left_of_python2(ast.parse("half = n / 2")))
    [(1, '/ of whole numbers gives a fraction in Python 3: // is what it was')]
    """
    own = {n.arg for n in only(ast.arg, walk(tree))} | {*filter(None, map(bound_by, walk(tree)))}
    for node in walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        name = "" if isinstance(node, ast.Name) and name == "next" else name
        if name in _GONE and name not in own:
            yield node.lineno, f"{name} {_GONE[name].format(_NEW.get(name))}"  # type: ignore[attr-defined]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and "division" not in own:
            sides = [inner for side in (node.left, node.right) for inner in walk(side)]
            floats = [n for n in sides if isinstance(n, ast.Constant) and isinstance(n.value, float)]
            if not floats and not any(isinstance(n, ast.Name) and n.id == "float" for n in sides):
                yield node.lineno, "/ of whole numbers gives a fraction in Python 3: // is what it was"


def as_python3(text: str) -> str:
    """Return a script as Python 3: itself, where it is.

    >>> as_python3("print(1)")
    'print(1)'

    Raises:
        SyntaxError: it is neither; or it is Python 2, and fissix is not installed.
    """
    problem = _problem(text)
    if problem is None:
        return text
    try:
        import fissix  # noqa: F401 - whether it is there
    except ImportError:
        raise SyntaxError(
            f"{problem}; if it is Python 2, `pip install fissix` makes it readable",
            (None, problem.lineno, None, None),
        ) from None
    fixed = _fixed(text, str(problem))
    if isinstance(_problem(fixed), TabError):
        fixed = _without_tabs(fixed)
    left = _problem(fixed)
    if left is not None:
        raise left
    return fixed


@functools.lru_cache(maxsize=256)
def _fixed(text: str, problem: str) -> str:
    """Return a script of Python 2 as Python 3, but for its tabs; what keeps it from being Python 3 is a problem."""
    from fissix import refactor
    from fissix.pgen2 import parse, tokenize

    tool: Any = refactor.RefactoringTool([f"fissix.fixes.fix_{name}" for name in _FIXERS], {}, explicit=[])
    try:
        fixed = str(tool.refactor_string(text if text.endswith("\n") else text + "\n", "script"))
    except (parse.ParseError, tokenize.TokenError, ValueError) as error:
        raise SyntaxError(f"neither Python 3 ({problem}) nor Python 2 ({error})") from None
    return fixed if text.endswith("\n") else fixed[:-1]


def _without_tabs(text: str) -> str:
    """Return a script that is indented with spaces, each tab as far as Python 2 took it to go."""
    inside, found = lines_inside_strings(text), list[str]()
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        bare = line.lstrip(" \t")
        indent = line[: len(line) - len(bare)]
        found.append(line if number in inside else indent.expandtabs(8) + bare)
    return "".join(found)


@functools.lru_cache(maxsize=1024)
def _problem(text: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return error
    return None
