"""The records of the demo: the functions of the standard library, token by token."""

from __future__ import annotations

import ast
import bisect
import collections
import io
import sysconfig
import token
import tokenize
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.dataset.splits import Ratios, key_hash
from seqrecorder.schema.declarations import context, feature_list, record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SPLITS = {"train": 0.8, "eval": 0.1, "test": 0.1}
UNKNOWN = 1
"""Token id of every string that is not in the vocabulary; 0 is that of padding."""
SEED = 0
_ORDER_SEED = 1  # not the splits' seed: the first modules in order would all fall into one split
_LEAST_MODULES = 50
_WORDS = 400
_SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
KINDS = tuple(
    name
    for name in (
        *("NAME", "NUMBER", "STRING", "OP", "COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT"),
        *("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END"),
    )
    if hasattr(token, name)  # f-strings are taken apart from Python 3.12 on
)
_KIND_IDS = {getattr(token, name): index for index, name in enumerate(KINDS)}


@record
class Function:
    """The tokens of one function or method.

    Attributes:
        key: module, qualified name and line.
        module: dotted name of the module.
        name: qualified name inside the module.
        ids: index of each token's string in the vocabulary.
        tokens: the strings.
        kinds: index of each token's kind in the metadata's `kinds`.
        columns: where each token begins in its line, from 0.
    """

    key: str = context(str, key=True)
    module: str = context(str)
    name: str = context(str)
    ids: np.ndarray[Any, Any] = feature_list("int64")
    tokens: np.ndarray[Any, Any] = feature_list(str)
    kinds: np.ndarray[Any, Any] = feature_list("uint8")
    columns: np.ndarray[Any, Any] = feature_list("int32")


@attrs.frozen
class Tokenized:
    """A function before there is a vocabulary."""

    module: str
    name: str
    line: int
    tokens: list[str] = attrs.field(factory=list)
    kinds: list[int] = attrs.field(factory=list)
    columns: list[int] = attrs.field(factory=list)


def library() -> Path:
    """Return the directory of the standard library."""
    return Path(sysconfig.get_path("stdlib"))


def scan_functions(limit: int | None) -> list[Tokenized]:
    """Return the functions of the standard library, module by module in an order that is always the same."""
    modules = dict(_modules(library(), ""))
    found: list[Tokenized] = []
    for module in sorted(modules, key=lambda name: key_hash(name, _ORDER_SEED)):
        functions = functions_of(module, modules[module])
        found += functions if limit is None else functions[: limit // _LEAST_MODULES]
        if limit is not None and len(found) >= limit:
            return found[:limit]
    return found


def _modules(directory: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for path in directory.iterdir():
        if path.is_dir() and path.name.isidentifier() and path.name not in _SKIPPED:
            yield from _modules(path, f"{prefix}{path.name}.")
        elif path.suffix == ".py" and path.stem.isidentifier():
            yield f"{prefix}{path.stem}".removesuffix(".__init__"), path


def functions_of(module: str, path: Path) -> list[Tokenized]:
    """Return the functions of a module; none of one that this Python cannot parse."""
    source = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in strings and the like
            tree = ast.parse(source)
        tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return []
    spans = sorted(_spans(tree, ""))
    functions = [Tokenized(module, name, line) for line, _, name in spans]
    starts = [line for line, _, _ in spans]
    for item in tokens:
        line, column = item.start
        index = bisect.bisect_right(starts, line) - 1
        kind = _KIND_IDS.get(item.type)
        if index < 0 or line > spans[index][1] or kind is None:
            continue
        function = functions[index]
        function.tokens.append(item.string)
        function.kinds.append(kind)
        function.columns.append(column)
    return functions


def _spans(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    """Yield first line, last line and qualified name of each function; one inside another is a part of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            yield first, child.end_lineno or first, prefix + child.name
        else:
            yield from _spans(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)


def to_records(found: Sequence[Tokenized]) -> tuple[list[str], list[Function]]:
    """Return the string of each token id, learnt from the train split alone, and the records."""
    ratios = Ratios(SPLITS)  # what `write` will decide
    counts: collections.Counter[str] = collections.Counter()
    for function in found:
        if ratios.assign(key_hash(function.module, SEED)) == "train":
            counts.update(function.tokens)
    # Equal counts in the order of their strings: the vocabulary shall not depend on anything else.
    common = sorted(counts, key=lambda string: (-counts[string], string))[:_WORDS]
    vocabulary = ["<padding>", "<unknown>", *common]
    ids = {string: index for index, string in enumerate(vocabulary) if index > UNKNOWN}
    records = [
        Function(
            key=f"{function.module}:{function.name}:{function.line}",
            module=function.module,
            name=function.name,
            ids=np.array([ids.get(string, UNKNOWN) for string in function.tokens], np.int64),
            tokens=np.array(function.tokens, object),
            kinds=np.array(function.kinds, np.uint8),
            columns=np.array(function.columns, np.int32),
        )
        for function in found
    ]
    return vocabulary, records
