"""What is left to a person, and the comments in a script that say so."""

from __future__ import annotations

import ast
import difflib
import re
import tokenize
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import walk
from seqrecorder.legacy.migrate.source import Edit, lines_inside_strings, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from seqrecorder.legacy.migrate.source import Source

MARK = "# seqrecorder: TODO"
_LAST = ("summary", "python2")  # reasons that a second run cannot see


@attrs.frozen
class Finding:
    """One thing that is left to a person.

    Attributes:
        line: where, in the script as it was, or, once it is converted, as it is written; 0 for the whole of it.
        code: a short name of the reason.
        reason: in words.
    """

    line: int
    code: str
    reason: str


def found_in(lines: list[str], plain: list[str], findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings with the lines of the script, where they have those of its text in plainer words."""
    blocks = difflib.SequenceMatcher(None, plain, lines, autojunk=False).get_opcodes()
    for finding in findings:
        [(kind, first, _, old, end)] = [b for b in blocks if b[1] < finding.line <= b[2]] or [("equal", 0, 0, 0, 0)]
        own = [number for number in range(old, end) if lines[number].strip() and lines[number].lstrip()[0] != "#"]
        line = old + finding.line - first if kind == "equal" else own[0] + 1 if own else finding.line
        yield attrs.evolve(finding, line=line)


def comment(finding: Finding) -> str:
    """Return the comment that says what is left.

    >>> comment(Finding(3, "fed", "a queue that Python code fills"))
    '# seqrecorder: TODO[fed] a queue that Python code fills'
    """
    return f"{MARK}[{finding.code}] {finding.reason}"


def without_comments(text: str) -> tuple[str, dict[int, int]]:
    r"""Return a text without the comments of an earlier run, and the numbers that its lines have in the text with them.

    Kept are those about what is no longer in the text.

    >>> without_comments("a\n# seqrecorder: TODO[fed] by Python\nb\n# seqrecorder: TODO[summary] of x\n")
    ('a\nb\n# seqrecorder: TODO[summary] of x\n', {1: 1, 2: 3, 3: 4})
    """
    try:
        inside = lines_inside_strings(text) if MARK in text else frozenset()
    except (SyntaxError, tokenize.TokenError):  # of which nothing will be written either
        return text, {}
    lines = dict(enumerate(lines_of(text), start=1))
    ours = [number for number, line in lines.items() if line.strip().startswith(f"{MARK}[") and number not in inside]
    gone = {number for number in ours if not any(f"{MARK}[{code}]" in lines[number] for code in _LAST)}
    kept = [number for number in lines if number not in gone]
    return "".join(lines[number] for number in kept), dict(enumerate(kept, start=1))


def written_in(text: str) -> Iterator[Finding]:
    """Yield the findings whose comments a text has."""
    for number, line in enumerate(lines_of(text), start=1):
        if (said := re.match(rf"\s*{MARK}\[([\w-]+)\] (.+)", line)) is not None:
            yield Finding(number, said[1], said[2])


def with_findings(written: Source, findings: Iterable[Finding]) -> tuple[str, list[Finding]]:
    """Return a script with the comments that say what is left to a person, and that in order, each once.

    The lines of the findings are those that the script has with the comments.
    """
    found = sorted(dict.fromkeys(findings), key=lambda finding: (finding.line, finding.code, finding.reason))
    edits = comments(written, found)
    above = [sum(len(edit.lines) for edit in edits if edit.first <= finding.line) for finding in found]
    return written.edited(edits), [attrs.evolve(f, line=f.line + n) for f, n in zip(found, above, strict=True)]


def comments(source: Source, findings: Iterable[Finding]) -> list[Edit]:
    """Return the edits that write findings above the statements that they are about."""
    starts = _statement_starts(source.tree)
    by_line: dict[int, list[str]] = {}
    for finding in findings:
        line = max((start for start in starts if start <= finding.line), default=1)
        text = source.lines[line - 1]
        said = text[: len(text) - len(text.lstrip())] + comment(finding)
        first = line
        while first > 1 and source.lines[first - 2].lstrip().startswith(MARK):
            first -= 1
        if said not in source.lines[first - 1 : line - 1]:
            by_line.setdefault(line, []).append(said)
    return [Edit(line, line - 1, tuple(dict.fromkeys(lines))) for line, lines in by_line.items()]


def _statement_starts(tree: ast.Module) -> list[int]:
    """Return the lines at which statements begin; a decorated function begins with its decorators."""
    found = [node for node in walk(tree) if isinstance(node, ast.stmt)]
    return [min(each.lineno for each in [node, *getattr(node, "decorator_list", [])]) for node in found]
