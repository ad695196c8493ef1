"""What `seqrecorder migrate` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.migrate.project import counted
from seqrecorder.report import printable

if TYPE_CHECKING:
    from seqrecorder.migrate.project import FileReport

_WORDS = {
    "verified": "converted and verified",
    "converted": "converted",
    "flagged": "flagged",
    "refused": "refused",
    "nothing": "no queue pipeline",
}


def migration_summary(reports: list[FileReport]) -> dict[str, Any]:
    """Return what `migrate --json` gives."""
    files = [
        {
            **{name: getattr(report, name) for name in ("outcome", "notes", "diff", "written")},
            "path": str(report.path),
            "findings": [attrs.asdict(finding) for finding in report.findings],
            "trials": [attrs.asdict(trial) for trial in report.trials],
        }
        for report in reports
    ]
    return {"files": files, "counts": counted(reports)}


def migration_text(reports: list[FileReport], *, write: bool) -> str:
    """Return what `migrate` prints: diffs, a report for each file, and how many there are of each kind."""
    blocks = ["\n".join(map(_printable_line, report.diff.splitlines())) for report in reports if report.diff]
    blocks += ["\n".join(_lines(report)) for report in reports if report.outcome != "nothing"]
    counts = counted(reports)
    said = ", ".join(f"{count} {_WORDS[outcome]}" for outcome, count in counts.items() if count)
    changed = sum(bool(report.diff) for report in reports)
    if changed and not write:
        said += f"; nothing was written: --write changes {changed} file{'s' * (changed != 1)}"
    return "\n\n".join([*blocks, said or "no script"])


def _lines(report: FileReport) -> list[str]:
    lines = [f"{printable(report.path)}: {_WORDS[report.outcome]}"]
    for finding in report.findings:
        place = f"line {finding.line}: " if finding.line else ""
        lines.append(printable(f"  {place}[{finding.code}] {finding.reason}"))
    lines += [printable(f"  note: {note}") for note in dict.fromkeys(report.notes)]
    lines += [printable(f"  {trial.function}: {trial.outcome}: {trial.reason}") for trial in report.trials]
    return lines


def _printable_line(line: str) -> str:
    return "\t".join(printable(part) for part in line.split("\t"))
