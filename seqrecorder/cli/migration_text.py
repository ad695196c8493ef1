"""What `seqrecorder migrate` prints: for people, as wide as their terminal, and for programs.

The document for programs has these keys, which stay: `format` (1), `counts` (of files by outcome) and `files`; each
file has `path`, `outcome`, `written`, `findings` (each with `line`, which is 0 for the whole file, `code`, `reason` and
`advice`), `trials` (each with `function`, `outcome`, which is `equal`, `partly`, `differs` or `unverified`, and
`reason`), `notes`, `diff` and `lifted` (names of functions). Outcomes are those of
`seqrecorder.legacy.migrate.project.FileReport`.
"""

from __future__ import annotations

import collections
import textwrap
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import printable
from seqrecorder.legacy.migrate.findings_advice import advice
from seqrecorder.legacy.migrate.project import counted
from seqrecorder.legacy.migrate.source import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from seqrecorder.legacy.migrate.project import FileReport

FORMAT = 1
"""Of the document for programs."""

_WORDS = {
    "verified": "converted and verified",
    "converted": "converted",
    "kept": "kept in graphs",
    "flagged": "flagged",
    "refused": "refused",
    "nothing": "without queues",
}
_LEAST = 40  # columns
_TRIED = {"equal": "verified", "partly": "verified in part", "differs": "DIFFERS", "unverified": "not verified"}


def migration_summary(reports: list[FileReport]) -> dict[str, Any]:
    """Return the document for programs."""
    files = [
        {
            **{name: getattr(report, name) for name in ("outcome", "notes", "diff", "written", "lifted")},
            "path": str(report.path),
            "findings": [{**attrs.asdict(finding), "advice": advice(finding.code)} for finding in report.findings],
            "trials": [attrs.asdict(trial) for trial in report.trials],
        }
        for report in reports
    ]
    return {"format": FORMAT, "files": files, "counts": counted(reports)}


def migration_text(reports: list[FileReport], *, write: bool, width: int = 80) -> str:
    """Return the text for people: of each file what became of it, and what is left; in the end how many there are.

    Args:
        reports: of the files.
        write: whether files were to be changed; what was written is not shown.
        width: of the terminal, in columns.
    """
    page = _Page(max(width, _LEAST))
    blocks = ["\n".join(page.file(report)) for report in reports if report.outcome != "nothing" or report.findings]
    return "\n\n".join([*blocks, "\n".join(page.end(reports, write=write))])


@attrs.frozen
class _Page:
    width: int

    def file(self, report: FileReport) -> Iterator[str]:
        """Yield the lines about one file."""
        yield printable(f"{report.path}: {_headline(report)}")
        for trial in report.trials:
            yield from self._folded(f"{trial.function}: {_TRIED[trial.outcome]}: {trial.reason}", "  ")
        grouped: dict[tuple[str, str], list[int]] = {}
        for finding in report.findings:
            grouped.setdefault((finding.code, finding.reason), []).append(finding.line)
        for (code, reason), lines in grouped.items():
            yield from self._folded(f"{_places(lines)}[{code}] {reason}", "  ")
        for note in dict.fromkeys(report.notes):
            yield from self._folded(f"note: {note}", "  ")
        if report.outcome in ("verified", "converted", "kept") and report.diff and not report.written:
            yield ""
            for line in lines_of(report.diff):
                yield "\t".join(map(printable, line.rstrip("\r\n").split("\t")))

    def end(self, reports: list[FileReport], *, write: bool) -> Iterator[str]:
        """Yield the lines about all files."""
        counts = counted(reports)
        said = ", ".join(f"{count} {_WORDS[outcome]}" for outcome, count in counts.items() if count)
        yield from self._folded(f"{_counted(len(reports), 'script')}: {said}" if said else "no script", "")
        yield from self._advice(reports)
        changed = [report for report in reports if report.diff]
        commented = sum(report.outcome == "flagged" for report in changed)
        only = f", {commented} of them by comments only" if commented else ""
        if write:
            yield from self._folded(f"written: {sum(report.written for report in reports)}", "")
        elif changed:
            changing = f"--write changes {_counted(len(changed), 'script')}{only}"
            yield from self._folded(f"nothing was written: {changing}", "")
        if not write and any(report.outcome == "converted" and not report.trials for report in reports):
            yield from self._folded(
                "next: --verify runs old and new functions on made-up records, and compares what they give", ""
            )

    def _advice(self, reports: list[FileReport]) -> Iterator[str]:
        """Yield what to do about what is left, each kind of it once."""
        codes = collections.Counter(code for report in reports for code in sorted({f.code for f in report.findings}))
        by_advice: dict[str, list[str]] = {}
        for code, number in codes.most_common():
            by_advice.setdefault(advice(code), []).append(f"{code} ({number})")
        if by_advice:
            yield from self._folded("what to do, by the reason and the number of its scripts:", "")
        for what, listed in by_advice.items():
            yield from self._folded(f"{', '.join(listed)}: {what}", "  ")

    def _folded(self, text: str, indent: str) -> list[str]:
        return textwrap.wrap(
            printable(text),
            self.width,
            initial_indent=indent,
            subsequent_indent=indent + "    " * bool(indent),
            break_long_words=False,
            break_on_hyphens=False,
        )


def _headline(report: FileReport) -> str:
    parts = [_WORDS[report.outcome].replace("converted", "lifted" if report.lifted else "converted")]
    if report.trials and report.outcome == "converted":
        equal = sum(trial.outcome == "equal" for trial in report.trials)
        partly = sum(trial.outcome == "partly" for trial in report.trials)
        also = f", {partly} in part" if partly else ""
        parts.append(f"{equal} of {_counted(len(report.trials), 'function')} verified{also}")
    if report.findings and report.outcome != "refused":
        kinds = "reason" if report.outcome == "flagged" else "place"
        parts.append(f"{_counted(len(report.findings), kind=kinds)}{' left to do' * (report.outcome != 'flagged')}")
    if report.written:
        parts.append("written")
    return ", ".join(parts)


def _counted(number: int, kind: str) -> str:
    return f"{number} {kind}{'s' * (number != 1)}"


def _places(lines: Iterable[int]) -> str:
    known = sorted(line for line in lines if line)
    if not known:
        return ""
    return f"line{'s' * (len(known) > 1)} {', '.join(map(str, known))}: "
