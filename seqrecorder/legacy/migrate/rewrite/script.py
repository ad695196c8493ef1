"""One script: what is rewritten of it, what is left, and why. Either all of its pipelines are rewritten, or none."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import tokenize
from typing import TYPE_CHECKING, Literal

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import only, own_nodes, parameters_gone, qualified, scopes, walk
from seqrecorder.legacy.migrate.analyze.find_stages import find_stages
from seqrecorder.legacy.migrate.analyze.names import OF_QUEUES, PIPELINE, READERS, UNCONVERTED, Names, may_have_queues
from seqrecorder.legacy.migrate.analyze.pipeline_functions import Shared, check_calls, find_parts
from seqrecorder.legacy.migrate.analyze.structure import of_returns
from seqrecorder.legacy.migrate.findings import Finding, comments, found_in, with_findings, without_comments, written_in
from seqrecorder.legacy.migrate.normalize.python2 import PYTHON2, as_python3, left_of_python2
from seqrecorder.legacy.migrate.normalize.script import SHUFFLED, plainer
from seqrecorder.legacy.migrate.rewrite.contrib_names import check_shims, with_shims
from seqrecorder.legacy.migrate.rewrite.elsewhere import of_elsewhere
from seqrecorder.legacy.migrate.rewrite.imports import import_of_package, imports_of_graphs, package_in
from seqrecorder.legacy.migrate.rewrite.names import left, of_keras_2, renamed, verdict, without_old_names
from seqrecorder.legacy.migrate.rewrite.pipeline import Rewriter
from seqrecorder.legacy.migrate.rewrite.reader_functions import (
    Helper,
    as_helper,
    check_uses,
    helper_edits,
)
from seqrecorder.legacy.migrate.rewrite.reading import handed_edits
from seqrecorder.legacy.migrate.rewrite.record_class import with_record_class
from seqrecorder.legacy.migrate.rewrite.record_statements import draws
from seqrecorder.legacy.migrate.rewrite.text import folds
from seqrecorder.legacy.migrate.rewrite.unread import without_unread
from seqrecorder.legacy.migrate.source import Edit, Source, comments_gone, lines_about_queues, lines_of
from seqrecorder.legacy.migrate.unclear import Unclear
from seqrecorder.legacy.run_script import KERAS_2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from seqrecorder.legacy.migrate.analyze.pipeline_functions import Part
    from seqrecorder.legacy.migrate.analyze.stages import Stages
    from seqrecorder.legacy.migrate.analyze.structure import Structure
    from seqrecorder.legacy.migrate.rewrite.output import Target

Status = Literal["converted", "kept", "flagged", "refused", "nothing"]

_SEEDS = frozenset({"tf.set_random_seed", "tf.random.set_random_seed"})


@attrs.frozen
class Rewritten:
    """What became of one script.

    Attributes:
        status: `converted`: every pipeline of queues is one of tf.data; `kept`: all queues stay, and run in graphs
            under TensorFlow 2; `flagged`: they do not, and comments say why; `refused`: the script cannot be read, and
            stays as it is; `nothing`: it has no such pipeline.
        text: the new text; the old one where nothing changes.
        findings: what is left to a person.
        notes: how the new pipelines differ from the old ones.
        functions: names of the functions that make pipelines, `Class.method` of methods; `<module>` for the module.
        changed: names of functions that take or return something else than before.
        lifted: whether the functions keep their queues, and are called through `lift`.
    """

    status: Status
    text: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    lifted: bool = False


def rewrite(text: str, target: Target = "graph", *, records: bool = False, shared: Shared | None = None) -> Rewritten:
    r"""Rewrite the queue pipelines of a script.

    >>> old = '''import tensorflow as tf
    ... def batches(files):
    ...     queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    ...     reader = tf.TFRecordReader()
    ...     _, record = reader.read(queue)
    ...     return tf.train.batch([record], 4)
    ... '''
    >>> print(rewrite(old, target="eager").text)
    import tensorflow as tf
    def batches(files):
        dataset = tf.data.Dataset.from_tensor_slices(files).repeat(1)
        dataset = dataset.flat_map(tf.data.TFRecordDataset)
        dataset = dataset.batch(4, drop_remainder=True)
        return dataset.prefetch(tf.data.AUTOTUNE)
    <BLANKLINE>

    Args:
        text: of the script.
        target: `graph`: functions go on to return tensors, and the script runs under `tensorflow.compat.v1`; `eager`:
            they return a `tf.data.Dataset`.
        records: whether the features of SequenceExamples become an attrs class, for the eager target.
        shared: what it has in common with other scripts that are rewritten too.
    """
    if not may_have_queues(text):
        return Rewritten("nothing", text)
    # What an earlier run has left may be done by now; what is still left gets its comment anew.
    bare, numbers = without_comments(text)
    done = _rewritten(bare, target, shared or Shared(), records=records)
    if done.status == "converted":
        return done
    findings = tuple(attrs.evolve(each, line=numbers.get(each.line, each.line)) for each in done.findings)
    return attrs.evolve(done, text=done.text if done.status == "flagged" else text, findings=findings)


def read_script(text: str) -> Source | Finding:
    """Return a script as Python 3, or why it cannot be read."""
    try:
        return Source(as_python3(text))
    except (SyntaxError, ValueError, tokenize.TokenError) as error:
        return Finding(getattr(error, "lineno", None) or 0, "syntax", f"cannot be read: {error}")


@functools.lru_cache(maxsize=256)
def shared_parts(text: str, wanted: frozenset[str]) -> dict[str, Part]:
    """Return the functions of a script that do a part of a pipeline, of those that other scripts call, by name."""
    source = read_script(without_comments(text)[0])
    if isinstance(source, Finding):
        return {}
    plain = Source(plainer(source.text, wanted))
    _, _, parts = _Script(plain, "graph", shared=Shared(wanted))._scopes()  # noqa: SLF001 - the same module's
    found = {name: parts[name] for name in sorted(wanted & {*parts}) if parts[name].role in ("given", "source")}
    return {name: part for name, part in found.items() if not part.function.decorator_list}


def _rewritten(text: str, target: Target, shared: Shared, *, records: bool) -> Rewritten:
    """Return a script that has no comments of an earlier run with its pipelines rewritten."""
    source = read_script(text)
    if isinstance(source, Finding):
        return Rewritten("refused", text, (source,))
    current = source.text
    script = _Script(source, target, shared=shared)
    if (found := _not_followed(script)) is not None:
        return Rewritten("flagged", with_findings(source, [found])[0], (found,))
    if not script.mentioned:
        return Rewritten("nothing", text)
    plain = plainer(current, script.shared.wanted, {*script.shared.parts})
    if plain != current:
        script = _Script(Source(plain), target, script.unbound, script.shared)
    done = _converted(script, source, target, records=records, python2=current != text)
    if done is not None and _emptied(source, script) - {*done.functions, *script.helpers}:
        # Queues went of which no pipeline was made.
        plain, script = current, _Script(source, target, shared=script.shared)
        done = _converted(script, source, target, records=records, python2=current != text)
    if done is not None and not (done.functions or script.helpers or script.described):
        return Rewritten("nothing", text)  # names, and no pipeline
    if done is not None:
        parameters = parameters_gone(source.tree, Source(plain).tree)
        said = "{} has no parameter {} any more: callers in other files have to follow"
        gone = [said.format(*each) for each in parameters]
        gone += [f"gone with its line: {text}" for text in comments_gone(current, done.text)]
        if told := lines_about_queues(done.text):
            gone.append(f"still speak of queues, in comments or docstrings: lines {', '.join(map(str, told))}")
        changed = dict.fromkeys((*done.changed, *(function for function, _ in parameters)))
        return attrs.evolve(done, notes=(*done.notes, *gone), changed=tuple(changed))
    findings = tuple(found_in(lines_of(current), lines_of(plain), script.findings))
    # Python 2 stays Python 2; where the lines of the two differ, only the report has the comments.
    alike = len(lines_of(current)) == len(lines_of(text))
    flagged = source.edited(comments(source, findings), text) if alike else text
    return Rewritten("flagged", flagged, findings)


def _not_followed(script: _Script) -> Finding | None:
    """Return why the names of a script are not followed: Python of later years, or a `tf` of unknown origin."""
    later = (ast.NamedExpr, ast.Match, getattr(ast, "TryStar", ast.Match))
    for node in walk(script.source.tree):
        line = getattr(node, "lineno", 1)
        if script.mentioned and isinstance(node, later):
            said = "names are bound here in a way that no Python of TensorFlow 1 had, and are not followed"
            return Finding(line, "later-python", said)
        if not script.mentioned and isinstance(node, ast.Attribute) and (name := ast.unparse(node)) in PIPELINE:
            said = f"{name} is used, and no import of this file says that tf is TensorFlow"
            return Finding(line, "not-tensorflow", said)
    return None


def _emptied(source: Source, plain: _Script) -> set[str]:
    """Return the scopes of a script that have nothing of a pipeline any more once it is in plainer words."""
    names = Names(source.tree)
    making = PIPELINE - frozenset(READERS) - OF_QUEUES  # these may be made elsewhere in plainer words
    before, after = (
        {qualified(tree, scope) for scope in scopes(tree) if any(known.called(n) in making for n in own_nodes(scope))}
        for tree, known in ((source.tree, names), (plain.source.tree, plain.names))
    )
    return before - after


def _converted(script: _Script, old: Source, target: Target, *, records: bool, python2: bool) -> Rewritten | None:
    """Return the script with its pipelines rewritten, None where one of them is not clear."""
    edits = script.edits()
    written = None if script.findings else _written(script, edits)
    if written is None:
        return None
    written = without_old_names(written)
    written = with_shims(written, package_in(script.source.tree)) if script.slim else written
    if target == "eager":
        names = {name.rpartition(".")[2] for name in (*script.functions, *script.helpers, *script.described)}
        written = Source(written.edited(renamed(written, names)))
        script.notes.append(verdict(written))
    elif of_keras_2(written):
        script.notes.append(KERAS_2.strip())
    if records:
        try:
            written = Source(with_record_class(written.text))
        except Unclear as why:
            script.notes.append(f"no attrs class: {why.reason}")
    written = without_unread(Source(written.edited([*folds(written, script.source)])), old.tree)
    together = sorted({*script.parts} & {*script.shared.parts})
    script.notes += [f"{called} is of a file that is rewritten together with this one" for called in together]
    batching = [part.called for part in script.parts.values() if part.role == "given"]
    found = [*left(written, target, [*script.functions, *batching])]
    if python2:
        script.notes.append(PYTHON2)
        found += [Finding(line, "python2", reason) for line, reason in left_of_python2(written.tree)]
    by_chance = ".shuffle(" in written.text or draws(written.tree, Names(written.tree))
    if by_chance and any(script.names.mentions(script.source.tree, _SEEDS)):
        script.notes.append("the seed of the graph gives another order, and other numbers, than it gave the queues")
    new, remaining = with_findings(written, found)
    remaining += [each for each in written_in(new) if each.code == "summary"]
    changed = (*script.helpers, *script.functions) if target == "eager" else (*script.helpers,)
    return Rewritten("converted", new, tuple(remaining), tuple(script.notes), tuple(script.functions), changed)


def _written(script: _Script, edits: list[Edit]) -> Source | None:
    """Return the edited script; None where something would be left of its queues, or nothing of a block."""
    lines = [getattr(node, "lineno", 1) for _, node in script.names.mentions(script.source.tree, PIPELINE)]
    first = min(lines, default=1)
    try:
        written = Source(script.source.edited(edits))
    except SyntaxError:
        script.findings.append(Finding(first, "branches", "nothing would be left of a block, or of one half of it"))
        return None
    for node in only(ast.Name, walk(script.source.tree) if SHUFFLED in written.text else ()):
        if node.id == SHUFFLED:
            said = "a queue that is filled by hand, outside of a pipeline that is known"
            script.findings.append(Finding(node.lineno, "explicit-queue", said))
            return None
    names = Names(written.tree)
    left = next((name for node in walk(written.tree) if (name := names.called(node)) in PIPELINE), None)
    if left is not None:
        said = f"{left.removeprefix('tf.')} is made, and nothing of a known pipeline"
        script.findings.append(Finding(first, "left-over", said))
    lost = sorted(names.bindings.unbound() - script.unbound - {*dir(builtins)})
    if lost:
        script.findings.append(Finding(first, "left-over", f"{', '.join(lost)}: of a record, but used beside it"))
    return written if left is None and not lost else None


class _Script:
    """The pipelines of one script."""

    def __init__(
        self, source: Source, target: Target, unbound: AbstractSet[str] | None = None, shared: Shared | None = None
    ) -> None:
        self.source, self.shared = source, shared or Shared()
        self.target: Target = target
        self.names = Names(source.tree)
        self.unbound = self.names.bindings.unbound() if unbound is None else unbound  # in the script as it was
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.functions: list[str] = []
        self.helpers: list[str] = []
        self.described: list[str] = []  # functions that describe datasets of TF-Slim
        self.slim = False  # whether it takes names of TF-Slim from this package
        self.accounted: set[int] = set()
        self.parts: dict[str, Part] = {}
        self.mentioned = {id(node): name for name, node in self.names.mentions(source.tree, PIPELINE)}

    def edits(self) -> list[Edit]:
        """Return the edits of all pipelines; what is unclear is found instead."""
        tree, edits = self.source.tree, list[Edit]()
        for name, node in self.names.mentions(tree, frozenset(UNCONVERTED)):
            self.find(Unclear(name.rpartition(".")[2].replace("_", "-").lower(), UNCONVERTED[name], node))
        stages, helpers, parts = self._scopes()
        self.parts = parts
        structures: dict[str, Structure | None] = {
            node.name: of_returns(node, self.names) for node in only(ast.FunctionDef, tree.body)
        }
        used = set[int]()
        for each in stages:
            if any(self.names.mentions(each.scope, frozenset(UNCONVERTED))):
                continue  # it stays, and why has been said
            with self.catching():
                part = next((part for part in parts.values() if part.stages is each), None)
                edits += handed_edits(self.source, self.names, each)
                if not each.producers and each.handed and not each.batches and not each.reads:
                    self.functions += [qualified(tree, each.scope)]
                    continue
                if part is None and (not each.producers or any(p.kind == "given" for p in each.producers)):
                    raise Unclear(*of_elsewhere(each, helpers, self.names, self.shared.lost))
                taken: set[str] = set()
                for branch in each.branches() if part is None else [each]:
                    rewriter = Rewriter(
                        self.source,
                        self.names,
                        branch,
                        helpers=helpers,
                        structures=structures,
                        target=self.target,
                        part=part if part is not None and part.role != "given" else None,
                        parts=parts,
                        taken=taken if branch.beside else None,
                    )
                    edits += rewriter.edits()
                    used |= rewriter.used
                    self.notes += rewriter.notes
                self.functions += [qualified(tree, each.scope)] * (part is None)
                if part is not None:
                    self.helpers.append(part.function.name)
                    self.notes.append(part.note)
        clear = not self.findings  # else helpers are used by what stays
        for helper in helpers.values() if clear else ():
            with self.catching():
                check_uses(helper, self.names, used, self.accounted, self.shared.lost)
                edits += helper_edits(helper, self.source)
                self.helpers.append(helper.function.name)
                self.notes.append(helper.note)
        with self.catching():
            if self.slim:
                check_shims(self.source)
                edits.append(import_of_package(self.source, self.names, package_in(tree)))
            edits += imports_of_graphs(self.source, self.names, self.target)
        self.findings.sort(key=lambda finding: finding.line)
        return edits

    def _scopes(self) -> tuple[list[Stages], dict[str, Helper], dict[str, Part]]:
        """Return the stages of scopes, and the functions that do a part of their pipelines."""
        found: list[Stages] = []
        helpers: dict[str, Helper] = {}
        parts: dict[str, Part] = {}
        tree = self.source.tree
        for scope in scopes(tree):
            with self.catching():
                stages = find_stages(scope, self.names)
                self.accounted |= stages.accounted
                self.described += [qualified(tree, scope)] * stages.described
                self.slim |= stages.of_slim
                helper = as_helper(stages, tree, self.names)
                if helper is not None:
                    helpers[helper.called] = helper
                else:
                    found.append(stages)
                self._check_seed(stages)
        known = False
        with self.catching():
            parts = find_parts(found, tree, self.names, self.shared)
            known = True
        for part in parts.values():
            with self.catching():
                check_calls(part, self.names)
        mains = [s for s in found if s.producers or s.readers or s.reads or s.batches or s.handed]
        return [each for each in mains if known or not each.uses_parts], helpers, parts

    def _check_seed(self, stages: Stages) -> None:
        seeded = any(producer.arguments["seed"] is not None for producer in stages.producers)
        if seeded and any(self.names.mentions(self.source.tree, _SEEDS)):
            raise Unclear(
                "graph-seed",
                "the graph has a seed too, from which the order of the files follows",
                stages.producers[0].statement,
            )

    @contextlib.contextmanager
    def catching(self) -> Iterator[None]:
        """Note what is unclear, and go on."""
        try:
            yield
        except Unclear as error:
            self.find(error)

    def find(self, unclear: Unclear) -> None:
        """Note what is unclear."""
        line = getattr(unclear.node, "lineno", 1)
        node, reason = unclear.node, unclear.reason
        if unclear.code.startswith("queue-"):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else getattr(node, "name", "")
            reason = self.shared.lost.get(called, reason)
        finding = Finding(line, unclear.code, reason)
        if finding not in self.findings:
            self.findings.append(finding)
