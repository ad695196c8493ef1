"""`report`: what a dataset is like and what is remarkable in it, as one HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.analysis.findings import LEVELS, Finding, find, tally
from seqrecorder.analysis.report_page import page
from seqrecorder.analysis.survey import survey
from seqrecorder.errors import printable
from seqrecorder.schema.display import cut, html_table
from seqrecorder.storage.files import write_file
from seqrecorder.storage.paths import local_path

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from seqrecorder.analysis.record_stats import Stats


@attrs.frozen(repr=False)
class Report:
    """What was found in a dataset: print it for the findings, save it for the page.

    Attributes:
        path: of the dataset.
        findings: what is remarkable, the gravest first.
        html: the page: one file, that loads nothing and runs nothing.
        stats: of all records that can be read; None where the manifest cannot be read.
    """

    path: str
    findings: tuple[Finding, ...]
    html: str
    stats: Stats | None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        write_file(local_path(path), self.html.encode())

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        return ((LEVELS[each.level], each.rule, each.about, cut(each.message, 160)) for each in self.findings)

    def __repr__(self) -> str:
        return f"<Report on {cut(self.path, 120)!r}: {tally(self.findings)}>"

    def __str__(self) -> str:
        lines = [
            f"{level}: {rule}{' of ' + about if about else ''}: {text}" for level, rule, about, text in self._rows()
        ]
        return "\n".join([repr(self)[1:-1], *map(printable, lines)])

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], ("", "rule", "about", "found"), self._rows())


def report(
    source: Any,
    destination: str | os.PathLike[str] | None = None,
    *,
    by: str | None = None,
    time: str | None = None,
    batch_size: int = 64,
    progress: bool | None = None,
) -> Report:
    """Return what a dataset is like, as a page of HTML with what is remarkable on top.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Series:
    ...     key: str = sr.context(str, key=True)
    ...     price: np.ndarray = sr.feature_list("float64")
    >>> corpus = tempfile.mkdtemp()
    >>> series = [Series(f"s{n}", np.random.default_rng(n % 9).normal(size=20)) for n in range(10)]
    >>> _ = sr.write(series, corpus)
    >>> print(sr.report(corpus))  # doctest: +ELLIPSIS
    Report on '...': 1 finding: 1 to look at
    Look at it: exact copies: 1 record in train repeats an earlier one exactly (first: s9 = s0).

    It shows lengths and what each strategy of batching wastes on them, the values of each field by split and where they
    differ, missing values, labels, what splits share, the most extreme records, and damage, which is reported, not
    raised. The page is under 2 MB, loads nothing and runs no script. Records are read some times; statistics, 16
    bytes of each record, and its key are held.

    Args:
        source: a dataset's directory, what `seqrecorder.open` gives, or a selection of its records.
        destination: of the page; `Report.save` writes it, too.
        by: name of a context field that no two splits should share a value of, as for `leakage`.
        time: name of the field of a record's time, in which no two splits should overlap, as for `leakage`.
        batch_size: of the strategies that are compared.
        progress: as for `write`: None shows a bar on a terminal when tqdm is installed.

    Raises:
        DatasetNotFoundError: there is no dataset.
        OptionError: nothing is selected.
        SchemaError: there is no field of a name.
    """
    found = survey(source, by=by, time=time, batch_size=batch_size, progress=progress)
    findings = find(found)
    made = Report(found.where, findings, page(found, findings), found.stats)
    if destination is not None:
        made.save(destination)
    return made
