"""Scripts that go on with their queues: lifted, or, where sessions fill or share them, in the graphs of TensorFlow 2.

What Python code will put into a queue no text says, so that nothing can take its place. TensorFlow 2 still has all
queues, readers and queue runners wherever sessions run graphs: a script that fills one goes on as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import qualified
from seqrecorder.legacy.migrate.analyze.names import PIPELINE, Names, may_have_queues
from seqrecorder.legacy.migrate.findings import Finding, with_findings, without_comments
from seqrecorder.legacy.migrate.normalize.python2 import PYTHON2, left_of_python2
from seqrecorder.legacy.migrate.rewrite.contrib_names import with_shims
from seqrecorder.legacy.migrate.rewrite.imports import imports_of_graphs
from seqrecorder.legacy.migrate.rewrite.lifted import lift_functions
from seqrecorder.legacy.migrate.rewrite.lifted_in_place import filled_by_sessions
from seqrecorder.legacy.migrate.rewrite.names import left, missing, without_old_names
from seqrecorder.legacy.migrate.rewrite.script import Rewritten, read_script
from seqrecorder.legacy.migrate.rewrite.taken_once import DIVIDED
from seqrecorder.legacy.migrate.rewrite.text import folds
from seqrecorder.legacy.migrate.source import Edit, Source
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from seqrecorder.legacy.migrate.rewrite.output import Target

_SWITCHES = frozenset({"tf.disable_v2_behavior", "tf.disable_eager_execution"})
_LATER = (
    "a generator of what is put in, for tf.data.Dataset.from_generator, or feed= of seqrecorder.legacy.lift, does "
    "without it: see migrating_a_fed_queue.md in the guide"
)
_APART = (
    "seqrecorder.legacy.lift gives all that a queue holds each time: lift the function that makes the whole pipeline"
)


def lift_script(
    text: str, target: Target = "graph", others: AbstractSet[str] = frozenset(), kept: str = ""
) -> Rewritten:
    r"""Let the input functions of a script be called through `seqrecorder.legacy.lift`, with their queues as they are.

    A script in which sessions fill queues, or several take from one, which cannot be lifted, is `kept` where TensorFlow
    2 has all that it names.

    >>> old = '''import tensorflow as tf
    ... def batches(files):
    ...     queue = tf.train.string_input_producer(files)
    ...     _, record = tf.TFRecordReader().read(queue)
    ...     return tf.train.batch([record], 4)
    ... '''
    >>> print(lift_script(old).text.partition("tf.train.batch([record], 4)")[2])
    <BLANKLINE>
    <BLANKLINE>
    <BLANKLINE>
    def batches(files):
        dataset = sr.legacy.lift(lambda: batches_with_queues(files))
        return sr.legacy.get_next(dataset)
    <BLANKLINE>

    Args:
        text: of the script.
        target: whether functions go on to return tensors, or return the dataset.
        others: functions of other scripts that lift what they take from queues which this one gives them, and
            functions of this one which such scripts call for queues.
        kept: why the script is kept, whether or not it could be lifted.
    """
    if not may_have_queues(text):
        return Rewritten("nothing", text)
    bare, _ = without_comments(text)
    source = read_script(bare)
    if isinstance(source, Finding):
        return Rewritten("refused", text, (source,))
    names = Names(source.tree)
    if not any(names.mentions(source.tree, PIPELINE)):
        return Rewritten("nothing", text)
    try:
        done = _kept(source, names, kept, _APART) if kept else _staying(source, names, target, others)
    except Unclear as error:
        return Rewritten("flagged", text, (Finding(getattr(error.node, "lineno", 1), error.code, error.reason),))
    written = Source(done.text)
    written = Source(written.edited([*folds(written, source)]))
    remaining, notes = [*left(written, target, done.functions)], done.notes
    gone = [*left_of_python2(written.tree)]
    if source.text != bare:
        notes = (*notes, PYTHON2)
    elif done.status != "kept" or all(reason.startswith("/") for _, reason in gone):
        gone = []  # names that Python 3 lacks tell that a script which it can read was not for it
    remaining += [Finding(line, "python2", reason) for line, reason in gone]
    new, found = with_findings(written, remaining)
    return attrs.evolve(done, text=new, findings=tuple(found), notes=notes)


def _staying(source: Source, names: Names, target: Target, others: AbstractSet[str]) -> Rewritten:
    """Return a script that is lifted, or that stays in graphs, without what is left of it to a person."""
    try:
        found = lift_functions(source, names, target, others)
    except Unclear as error:
        if target == "eager":
            raise
        if queues := filled_by_sessions(names):
            lines = ", ".join(str(made.lineno) for made in queues)
            return _kept(source, names, f"sessions fill queues, made in line{'s' * (len(queues) > 1)} {lines}", _LATER)
        if error.code != DIVIDED:
            raise
        return _kept(source, names, f"line {getattr(error.node, 'lineno', 1)}: {error.reason}", _APART)
    imports = imports_of_graphs(source, names, target, behaving=target == "graph")
    written = without_old_names(Source(source.edited([*imports, *found.edits])))
    if found.edits:
        written = with_shims(written, "sr" if "import seqrecorder as sr" in written.lines else "seqrecorder")
    functions = tuple(qualified(source.tree, function) for function in found.functions)
    notes = (
        f"lifted, with its queues as they are: {', '.join(functions)}"
        if found.edits
        else f"other files lift what they take from the queues of {', '.join(functions)}",
        "numbers and lists that a lifted function returns beside tensors become tensors and tuples",
    )
    changed = functions if target == "eager" else ()
    return Rewritten("converted", written.text, (), notes, functions * bool(found.edits), changed, lifted=True)


def _kept(source: Source, names: Names, said: str, later: str) -> Rewritten:
    """Return a script whose queues stay under the names that TensorFlow 2 has for them, with what keeps them there.

    Raises:
        Unclear: TensorFlow 2 lacks something that the script names.
    """
    written = without_old_names(Source(source.edited(imports_of_graphs(source, names, "graph", behaving=True))))
    known = Names(written.tree)
    if lacking := sorted({name for _, name in missing(written.tree, known)}):
        said = f"{said}: they could stay, but that TensorFlow 2 lacks {', '.join(lacking)}"
        raise Unclear("fed", said, source.tree.body[0])
    if not any(known.mentions(written.tree, _SWITCHES)):
        first = min(known.imports, key=lambda node: node.lineno)
        switch = f"{written.indent(first)}{known.module}.disable_v2_behavior()"
        written = Source(written.edited([Edit.behind(first, switch)]))
    notes = (f"{said}: all queues stay, and run in graphs by sessions alone", later)
    return Rewritten("kept", written.text, (), notes)
