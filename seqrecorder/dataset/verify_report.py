"""What `verify` tells: each thing that is wrong, and what was looked at."""

from __future__ import annotations

import attrs

from seqrecorder.schema.display import cut, html_table, number_of, some


@attrs.frozen
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the file, relative to the dataset.
        message: what was expected and what came.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@attrs.frozen(repr=False)
class VerifyReport:
    """What a verification found.

    Attributes:
        path: what was verified.
        level: `quick` or `full`.
        shards: how many shards were looked at.
        records: how many records they hold by the manifest, or by count for bare shards.
        bytes: their size.
        problems: everything that is wrong; empty where nothing is.
    """

    path: str
    level: str
    shards: int
    records: int
    bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        found = some([cut(str(problem), 80) for problem in self.problems], 1) or "no problem"
        facts = f"{number_of(self.shards, 'shard')}, {number_of(self.records, 'record')}"
        return f"<Report on {cut(self.path, 120)!r} ({self.level}): {facts}; {found}>"

    def _repr_html_(self) -> str:
        rows = [(problem.path, problem.message) for problem in self.problems]
        return html_table(repr(self)[1:-1], ("file", "problem"), rows)
