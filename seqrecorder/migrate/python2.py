"""Scripts that only Python 2 reads, made Python 3 before anything else; the rest of their text stays."""

from __future__ import annotations

import ast
import warnings
from typing import Any

_FIXERS = ("except", "exec", "funcattrs", "ne", "numliterals", "print", "raise", "repr", "throw", "tuple_params")


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
        from fissix import refactor
        from fissix.pgen2 import parse, tokenize
    except ImportError:
        raise SyntaxError(
            f"{problem}; if it is Python 2, `pip install 'seqrecorder[migrate]'` reads it",
            (None, problem.lineno, None, None),
        ) from None
    tool: Any = refactor.RefactoringTool([f"fissix.fixes.fix_{name}" for name in _FIXERS], {}, explicit=[])
    try:
        fixed = str(tool.refactor_string(text if text.endswith("\n") else text + "\n", "script"))
    except (parse.ParseError, tokenize.TokenError, ValueError) as error:
        raise SyntaxError(f"neither Python 3 ({problem}) nor Python 2 ({error})") from None
    fixed = fixed if text.endswith("\n") else fixed[:-1]
    left = _problem(fixed)
    if left is not None:
        raise left
    return fixed


def _problem(text: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return error
    return None
