"""Scripts and directories of them, migrated: what becomes of each file. Nothing is written unless that is asked for."""

from __future__ import annotations

import difflib
import functools
import io
import re
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from seqrecorder.errors import DatasetNotFoundError, OptionError
from seqrecorder.legacy.migrate.analyze import names
from seqrecorder.legacy.migrate.analyze.names import PIPELINE
from seqrecorder.legacy.migrate.analyze.pipeline_functions import Shared
from seqrecorder.legacy.migrate.findings import Finding, written_in
from seqrecorder.legacy.migrate.links import lifted_together, shared
from seqrecorder.legacy.migrate.rewrite.lift_script import lift_script
from seqrecorder.legacy.migrate.rewrite.script import Rewritten, rewrite
from seqrecorder.legacy.migrate.saving import ChangedError, save
from seqrecorder.legacy.migrate.source import lines_of
from seqrecorder.legacy.migrate.verify.verify import tried

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from seqrecorder.legacy.migrate.rewrite.output import Target
    from seqrecorder.legacy.migrate.verify.verify import Trial

Outcome = Literal["verified", "converted", "kept", "flagged", "refused", "nothing"]
OUTCOMES: tuple[Outcome, ...] = ("verified", "converted", "kept", "flagged", "refused", "nothing")

_NOTEBOOK = ".ipynb"
_QUEUES = re.compile("|".join(rf"\b{re.escape(name.removeprefix('tf.'))}\b" for name in sorted(PIPELINE)))
_LEFT_OUT = ("__pycache__", "build", "dist", "node_modules", "site-packages")


@attrs.frozen
class FileReport:
    """What becomes of one script.

    Attributes:
        path: of the script.
        outcome: `verified`: converted, and every function gives what it gave; `converted`: but not all of it could be
            tried; `kept`: all its queues stay, as sessions fill one, or several take from it, and run in graphs of
            TensorFlow 2; `flagged`: unchanged but for comments that say why; `refused`: unchanged; `nothing`: it has no
            queue pipeline.
        findings: what is left to a person.
        notes: how the new pipelines differ from the old ones.
        trials: what became of each function, where that was asked for.
        diff: from the old text to the new one.
        written: whether the new text was written.
        changed: names of functions that take or return something else than before.
        lifted: names of functions that keep their queues, and are called through `lift`; all others of a converted
            script are rewritten.
    """

    path: Path
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()
    diff: str = ""
    written: bool = False
    changed: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()


_Made = tuple[FileReport, bytes, bytes]


def migrate(
    path: str | os.PathLike[str],
    *,
    target: Target | Literal["lift"] = "graph",
    records: bool = False,
    write: bool = False,
    verify: bool = False,
    fallback: Literal["lift"] | None = None,
) -> list[FileReport]:
    """Rewrite the input queues of a script, or of every script in a directory, as tf.data.

    >>> import pathlib, tempfile
    >>> script = pathlib.Path(tempfile.mkdtemp(), "train.py")
    >>> _ = script.write_text("print('no queues here')")
    >>> [(report.path.name, report.outcome) for report in migrate(script)]
    [('train.py', 'nothing')]

    Args:
        path: of a script, or of a directory.
        target: `graph`: input functions go on to return tensors, and scripts run under `tensorflow.compat.v1`; `eager`:
            they return a `tf.data.Dataset`; `lift`: nothing is rewritten, and functions that make pipelines go on to
            return tensors, which `seqrecorder.legacy.lift` makes of their queues each time the script is run; where no
            function makes a whole one, its tensors are lifted where they come out of their last queue. Scripts whose
            queues sessions fill, or of which several take from one, are kept.
        records: whether the features of SequenceExamples become an attrs class, which `seqrecorder.read` reads where
            the files come in their own order; for the eager target.
        write: whether files are changed. Otherwise the diffs say what would be.
        verify: whether the old and the new functions are run on records that are made up for them, and compared. This
            runs the scripts' functions, and what the scripts import.
        fallback: `lift`: scripts whose pipelines cannot be rewritten are lifted, to tensors or, for the eager target,
            to a `tf.data.Dataset`. Those whose queues sessions fill, or of which several take from one, are kept, but
            for the eager target.

    Returns:
        A report for each script.

    Raises:
        DatasetNotFoundError: there is no such file or directory.
        OptionError: the target is unknown, or is not one for records.
    """
    if target not in ("graph", "eager", "lift"):
        raise OptionError(f"target: expected 'graph', 'eager' or 'lift', got {target!r}")
    if fallback not in (None, "lift"):
        raise OptionError(f"fallback: expected 'lift' or None, got {fallback!r}")
    if records and target != "eager":
        raise OptionError("records: seqrecorder.read gives a tf.data.Dataset, which is for target='eager'")
    scripts = list(_scripts(Path(path)))

    tested: Target = "eager" if target == "eager" else "graph"

    run = functools.partial(_rewritten, target=target, records=records, fallback=fallback)
    alone = functools.cache(run)

    def change(
        text: str, common: Shared | None = None, others: frozenset[str] = frozenset(), kept: str = ""
    ) -> Rewritten:
        if kept:
            return lift_script(text, kept=kept)
        return alone(text, None, others) if common is None else run(text, common, others)

    def findings(script: Path, common: Shared) -> Sequence[Finding]:
        done = run(texts[script], common, frozenset(), fallback=None)
        return () if done.status == "converted" else done.findings or (Finding(1, done.status, "it has no pipeline"),)

    texts = {script: text for script in scripts if (text := _with_queues(script))}
    linked = shared(texts, scripts, findings) if target != "lift" else {}
    common = {script: each for script, each in linked.items() if each.parts or each.wanted}
    lifting = target == "lift" or (fallback and target == "graph")
    rest = {script: text for script, text in texts.items() if script not in common}
    tied, kept = lifted_together(rest, change) if lifting and len(rest) > 1 else ({}, {})
    new = {s.resolve(): change(texts[s], each).text for s, each in common.items()} if verify else {}
    made = [
        _migrated(
            script,
            functools.partial(
                change,
                common=linked.get(script),
                others=tied.get(script, frozenset()),
                kept=kept.get(script, ""),
            ),
            tested,
            verify=verify,
            common=common.get(script, Shared()),
            others={file: text for file, text in new.items() if script in common and file != script.resolve()},
        )
        for script in scripts
    ]
    together = {*common, *(rest if kept or any(tied.values()) else ())}
    reports = _saved(made, together) if write else [report for report, *_ in made]
    others = [script for script in scripts if script not in common or not common[script].parts]
    return [_with_callers(report, others) if report.changed else report for report in reports]


def _with_queues(script: Path) -> str:
    """Return the text of a script that may have queues, nothing of all others."""
    try:
        data = script.read_bytes()
        return _decoded(data)[0] if script.suffix == ".py" and names.may_have_queues(data.decode("latin-1")) else ""
    except (OSError, SyntaxError, UnicodeError, LookupError):
        return ""


def may_have_queues(path: str | os.PathLike[str]) -> bool:
    """Whether one of some scripts may have a pipeline of queues, for which TensorFlow is asked for names."""
    return any(names.may_have_queues(script.read_bytes().decode("latin-1")) for script in _scripts(Path(path)))


def _with_callers(report: FileReport, scripts: list[Path]) -> FileReport:
    """Return a report that names the other scripts that seem to call what has changed."""
    functions = [re.escape(name.rpartition(".")[2]) for name in report.changed]  # of objects whose class is not known
    called = re.compile(rf"\b(?<!def )({'|'.join(functions)})\s*\(")
    found: list[Finding] = []
    for other in scripts:
        if other == report.path or report.path.stem not in (text := other.read_bytes().decode("latin-1")):
            continue  # a module is named where it is imported
        for number, line in enumerate(lines_of(text), start=1):
            if (call := called.search(line)) is not None:
                found.append(Finding(0, "callers", f"{other}, line {number}, seems to call {call[1]} as it was"))
    return attrs.evolve(report, findings=(*report.findings, *found))


def _scripts(path: Path) -> Iterator[Path]:
    if path.is_dir():
        for found in sorted([*path.rglob("*.py"), *path.rglob(f"*{_NOTEBOOK}")]):
            inner = found.relative_to(path).parts
            if not any(part.startswith(".") or part in _LEFT_OUT for part in inner) and not found.is_symlink():
                yield found
    elif path.is_file():
        yield path
    else:
        raise DatasetNotFoundError(f"there is no script or directory {path}", path=path)


def _migrated(
    path: Path,
    change: Callable[[str], Rewritten],
    target: Target,
    *,
    verify: bool,
    common: Shared,
    others: Mapping[Path, str],
) -> _Made:
    """Return what becomes of a script, its bytes and its new ones.

    Args:
        path: of the script.
        change: says what becomes of its text.
        target: of the new text.
        verify: whether its functions are tried; those that others call are tried with the others.
        common: what it has in common with others.
        others: new texts of the scripts that it goes together with.
    """
    report = FileReport(path, "refused")
    try:
        data = path.read_bytes()
        text, encoding = _decoded(data)
    except (OSError, SyntaxError, UnicodeError, LookupError) as error:
        return _refused(report, "unreadable", f"cannot be read: {error}"), b"", b""
    if path.suffix == _NOTEBOOK:
        if not _QUEUES.search(text):
            return FileReport(path, "nothing"), data, data
        return _refused(report, "notebook", "queues in a notebook, which is no script"), data, data
    done = change(text)
    left = () if done.status != "nothing" else tuple(written_in(text))  # by an earlier run
    report = FileReport(
        path,
        done.status,
        done.findings or left,
        done.notes,
        diff=_diff(path, text, done.text),
        changed=done.changed,
        lifted=done.functions if done.lifted else (),
    )
    if verify and done.status == "converted":
        functions = [name for name in done.functions if name not in common.wanted]
        needed = [file.resolve() for file in common.files]
        place = path.resolve().parent
        trials = tried(text, done.text, functions, target, place, others=others, needed=needed)
        equal = trials and all(trial.outcome == "equal" for trial in trials)
        report = attrs.evolve(report, trials=trials, outcome="verified" if equal else "converted")
        if wrong := [f"{trial.function}: {trial.reason}" for trial in trials if trial.outcome == "differs"]:
            return _refused(report, "differs", *wrong), data, data
    return report, data, done.text.encode(encoding) if done.text != text else data


def _refused(report: FileReport, code: str, *reasons: object) -> FileReport:
    findings = tuple(Finding(0, code, str(reason)) for reason in reasons)
    return FileReport(report.path, "refused", findings, report.notes, report.trials)


def _saved(made: Sequence[_Made], together: AbstractSet[Path]) -> list[FileReport]:
    """Write the scripts that change, of those that go together all or none, and return the reports of all."""
    done: dict[Path, FileReport] = {}
    for group in (together, *({report.path} for report, *_ in made if report.path not in together)):
        reports = [report for report, *_ in made if report.path in group]
        texts = {report.path: (old, new) for report, old, new in made if report in reports and old != new}
        wrong = [report for report in reports if any(finding.code == "differs" for finding in report.findings)]
        refused = [str(report.path) for report in wrong if report.outcome == "refused"]
        code, why = "together", f"goes together with {', '.join(refused)}" if refused else ""
        try:
            save({} if refused else texts)
        except (ChangedError, OSError) as error:
            code, why = "changed" if isinstance(error, ChangedError) else "unwritable", str(error)
        done |= {report.path: _after(report, code, why, texts.get(report.path)) for report in reports}
    return [done[report.path] for report, *_ in made]


def _after(report: FileReport, code: str, why: str, text: tuple[bytes, bytes] | None) -> FileReport:
    """Return the report of a script that was to be written, where it was to change."""
    if text is None:
        return report
    if why and report.path.read_bytes() != text[1]:
        return _refused(report, code, why)
    late = Finding(0, "unsynced", f"written, but a crash of the machine now may bring the old text back: {why}")
    return attrs.evolve(report, findings=(*report.findings, *[late] * bool(why)), written=True)


def _rewritten(
    text: str,
    common: Shared | None,
    others: frozenset[str],
    *,
    target: Target | Literal["lift"],
    records: bool,
    fallback: Literal["lift"] | None,
) -> Rewritten:
    """Return what becomes of a script; refused where it cannot be taken apart, which stops no others of a directory."""
    try:
        if others and (lifted := lift_script(text, "graph", others)).status == "converted":
            return lifted
        if target == "lift":
            return lift_script(text)
        done = rewrite(text, target, records=records, shared=common)
        if fallback is None or done.status != "flagged":
            return done
        lifted = lift_script(text, target)
    except Exception as error:  # noqa: BLE001 - a fault of ours
        said = f"a fault of seqrecorder's own, of which the script stays as it is: {type(error).__name__}: {error}"
        return Rewritten("refused", text, (Finding(0, "internal", said),))
    return lifted if lifted.status in ("converted", "kept") else done


def _decoded(data: bytes) -> tuple[str, str]:
    """Return the text of a script, with its own ends of lines, and its encoding."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding), encoding


def _diff(path: Path, old: str, new: str) -> str:
    lines = difflib.unified_diff(lines_of(old), lines_of(new), f"{path} (old)", f"{path} (new)")
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def counted(reports: list[FileReport]) -> dict[Outcome, int]:
    """Return how many scripts there are of each outcome."""
    return {outcome: sum(report.outcome == outcome for report in reports) for outcome in OUTCOMES}
