"""A script in plainer words, before its pipelines are rewritten: without queues in the middle, to begin with.

A queue between the read and the batch changes no record: it shuffles, or does nothing that a dataset needs. It goes,
and a mark stays in its place that becomes `dataset = dataset.shuffle(...)`, before the records are parsed, where a
buffer of them is small. What is not plain stays, and the rewriter says why it cannot be rewritten.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import (
    block_of,
    only,
    own_nodes,
    parts_of,
    reads,
    scopes,
    simple,
    walk,
    writes,
)
from seqrecorder.legacy.migrate.analyze.effects import effects_of
from seqrecorder.legacy.migrate.analyze.names import PRODUCERS, Names, arguments
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.normalize.filled_queues import filled_queues
from seqrecorder.legacy.migrate.normalize.given_readers import queues_given, readers_of_parameters
from seqrecorder.legacy.migrate.normalize.joined_arms import lists_behind_arms
from seqrecorder.legacy.migrate.normalize.nested import stages_by_themselves
from seqrecorder.legacy.migrate.normalize.own_lines import on_own_lines
from seqrecorder.legacy.migrate.normalize.providers import providers_asked
from seqrecorder.legacy.migrate.normalize.readers import (
    readers_by_use,
    readers_of_objects,
    without_local_variables,
)
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from seqrecorder.legacy.migrate.analyze.data_flow import Scope
    from seqrecorder.legacy.migrate.normalize.filled_queues import FilledQueue

SHUFFLED = "__seqrecorder_shuffled__"
"""What is called, in a script in plainer words, where the dataset is to be shuffled, with the arguments for that."""


def plainer(
    text: str,
    elsewhere: AbstractSet[str] = frozenset(),
    sources: AbstractSet[str] = frozenset(),
) -> str:
    """Return a script with fewer kinds of expressions in its pipelines, which does the same once its marks are read.

    >>> print(plainer('''
    ... import tensorflow as tf
    ... def f(queue):
    ...     return tf.size(tf.TFRecordReader().read(queue)[1])
    ... '''))
    <BLANKLINE>
    import tensorflow as tf
    def f(queue):
        _, record = tf.TFRecordReader().read(queue)
        return tf.size(record)
    <BLANKLINE>

    Args:
        text: of the script.
        elsewhere: functions that other files call with queues.
        sources: functions of other files that make records, as they are called.
    """
    for change in (
        *(on_own_lines, without_local_variables, readers_of_objects, readers_of_parameters, readers_by_use),
        *(stages_by_themselves, providers_asked, lambda text: queues_given(text, elsewhere)),
        *(lambda text: _queues_between(text, sources), lists_behind_arms),
    ):
        changed = change(text)
        if not _is_python(changed):  # a block without statements, say
            break
        text = changed
    return text


def _is_python(text: str) -> bool:
    try:
        Source(text)
    except SyntaxError:
        return False
    return True


# Queues -------------------------------------------------------------------------------------------------------------


def _queues_between(text: str, sources: AbstractSet[str]) -> str:
    """Let queues go that stand between the read and the batch, or that are made differently in two branches."""
    while True:
        source = Source(text)
        names = Names(source.tree)
        found = [(scope, queue) for scope in scopes(source.tree) for queue in filled_queues(scope, names)]
        apart = [(scope, queue) for scope, queue in found if not _is_passed_by(scope, queue, names, sources)]
        texts = (source.edited(edits) for scope, queue in apart if (edits := _without(source, names, scope, queue)))
        changed = next(filter(_is_python, texts), None)
        if changed is None:
            return text
        text = changed


def _without(source: Source, names: Names, scope: Scope, queue: FilledQueue) -> list[Edit] | None:
    """Return the edits by which a queue goes, None where it does not."""
    if (queue.verb != "dequeue" and len(queue.made) == 1) or not isinstance(queue.taken, ast.Assign) or queue.many:
        return None  # it makes batches, which the rewriter knows, or takes records apart
    shuffling = [(made, kind) for made, kind in zip(queue.made, queue.kinds, strict=True) if "Shuffle" in kind]
    if len(shuffling) > 1 or not all(source.alone(s) for s in (*queue.gone, queue.taken)):
        return None
    found = [_mark(source, scope, queue, made, kind) for made, kind in shuffling]
    marks = [mark for mark in found if mark is not None]
    instead = _taken(source, names, scope, queue, queue.taken)
    if instead is None or len(marks) < len(found):
        return None
    taken = f"{source.segment(queue.taken.targets[0])} = {instead}"
    edits = [Edit.instead(queue.taken, source.indent(queue.taken) + taken)]
    placed = {edit.first for edit in marks}
    hollow = [n for n in only(ast.If, own_nodes(scope)) if {*n.body, *n.orelse} <= {*queue.gone}]
    apart = {inner for condition in hollow for inner in (*condition.body, *condition.orelse)}
    edits += source.gone(s for s in (*hollow, *queue.gone) if s.lineno not in placed and s not in apart)
    return [*edits, *marks]


def _is_passed_by(scope: Scope, queue: FilledQueue, names: Names, sources: AbstractSet[str]) -> bool:
    """Whether something of a record does not go through a queue, but by it: that is of another record then."""
    flow, effects = reaching(scope), effects_of(names)
    for made in simple(scope):
        inner = [part for node in effects.reached([made]) for part in walk(node)]
        if any(
            getattr(part, "attr", "") in ("read", "read_up_to")
            or names.called(part) in PRODUCERS
            or (isinstance(part, ast.Call) and ast.unparse(part.func) in sources)
            for part in inner
        ):
            hanging = flow.hanging(made, queue.gone)
            by = any(s.lineno > queue.filling.lineno for s in hanging if s not in queue.gone)
            if by and queue.filling in hanging:
                return True
    given = [(place, item.id) for item in only(ast.Name, parts_of(queue.put)) for place in flow.of(item)]
    uses = [use for place, name in given if isinstance(place, ast.arg) for use in flow.uses([place], name)]
    return any(use.lineno > queue.taken.lineno for use in uses)


def _taken(source: Source, names: Names, scope: Scope, queue: FilledQueue, taken: ast.Assign) -> str | None:
    """Return what takes the place of what is taken from the queue; None where its structure cannot be told."""
    put = queue.put
    if isinstance(put, ast.Name) and not _are_several(scope, put.id, taken):
        return None
    said = source.segment(put)
    if queue.verb == "dequeue":
        [first, *others] = parts_of(put)
        return said if others else source.segment(first)
    options = [source.segment(item) for item in queue.call.args[:1]]
    options += ["dynamic_pad=True"] * ("tf.PaddingFIFOQueue" in queue.kinds)
    options += ["allow_smaller_final_batch=True"] * (queue.verb == "dequeue_up_to")
    return f"{names.module}.train.batch({', '.join([said, *options])})"


def _mark(source: Source, scope: Scope, queue: FilledQueue, made: ast.Assign, kind: str) -> Edit | None:
    """Return the edit by which the dataset is shuffled: where the queue was filled, if it was made to shuffle."""
    given = arguments(made.value, kind) if isinstance(made.value, ast.Call) else None
    capacity = given["capacity"] if given is not None else None
    if given is None or capacity is None:
        return None
    seed = given["seed"]
    said = source.segment(capacity) + (f", seed={source.segment(seed)}" if seed is not None else "")
    mark = f"{SHUFFLED}({said})"
    used = reads(capacity) | (reads(seed) if seed is not None else set())
    block, place = block_of(scope, made), block_of(scope, queue.filling)
    making: ast.stmt = made
    indent = source.indent(queue.filling)
    lines = [f"{indent}{mark}"]
    if block is not place:
        holding = [n for n in only(ast.If, own_nodes(scope)) if block in (n.body, n.orelse)]
        if not holding or holding[0] not in place:
            return None
        [condition] = holding
        making = condition
        if any(isinstance(node, ast.Call) for node in walk(condition.test)):
            return None  # asked twice, it may answer otherwise
        test = source.segment(condition.test)
        test = test if block is condition.body else f"not ({test})"
        used |= reads(condition.test)
        lines = [f"{indent}if {test}:", f"{indent}{source.unit(indent)}{mark}"]
    between = place[place.index(making) : place.index(queue.filling)]
    if used & {name for statement in between for name in writes(statement)}:
        return None
    return Edit.instead(queue.filling, *lines)


def _are_several(scope: Scope, name: str, taking: ast.Assign) -> bool:
    """Whether a name is that of several tensors, which are put and taken: of one in a list, a queue gives it alone."""
    made = [node for node in only(ast.Assign, own_nodes(scope)) if node is not taking and name in writes(node)]
    return bool(made) and all(len(parts_of(node.value)) > 1 for node in made)
