"""A script in plainer words, before its pipelines are rewritten: without queues in the middle, to begin with.

A queue between the read and the batch changes no record: it shuffles, or does nothing that a dataset needs. It goes,
and a mark stays in its place that becomes `dataset = dataset.shuffle(...)`, before the records are parsed, where a
buffer of them is small. What is not plain stays, and the rewriter says why it cannot be rewritten.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import block_of, own_nodes, reads, scopes, walk, writes
from seqrecorder.legacy.migrate.analyze.names import Names, arguments
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.normalize.arms import work_before_arms
from seqrecorder.legacy.migrate.normalize.filled_queues import filled_queues
from seqrecorder.legacy.migrate.normalize.given_readers import (
    readers_of_loops,
    readers_of_parameters,
    readers_of_queues,
)
from seqrecorder.legacy.migrate.normalize.heads_of_arms import heads_in_arms
from seqrecorder.legacy.migrate.normalize.joined_arms import lists_behind_arms
from seqrecorder.legacy.migrate.normalize.learn_readers import without_contrib_learn
from seqrecorder.legacy.migrate.normalize.nested import stages_by_themselves
from seqrecorder.legacy.migrate.normalize.queues_of_arrays import queues_of_arrays, runners_started_by_hand
from seqrecorder.legacy.migrate.normalize.readers import (
    matched_files,
    readers_of_objects,
    readers_of_several_queues,
    records_by_attribute,
    unused_readers,
)
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from seqrecorder.legacy.migrate.analyze.data_flow import Scope
    from seqrecorder.legacy.migrate.normalize.filled_queues import FilledQueue

SHUFFLED = "__seqrecorder_shuffled__"
"""What is called, in a script in plainer words, where the dataset is to be shuffled, with the arguments for that."""
HANDED = "__seqrecorder_handed__"
"""What is called where a function, the first argument, is to be called with the dataset and the other arguments."""


def plainer(text: str) -> str:
    """Return a script with fewer kinds of expressions in its pipelines, which does the same once its marks are read.

    >>> print(plainer('''
    ... import tensorflow as tf
    ... def f(queue):
    ...     pair = tf.TFRecordReader().read(queue)
    ...     return tf.size(pair.value)
    ... '''))
    <BLANKLINE>
    import tensorflow as tf
    def f(queue):
        _, pair = tf.TFRecordReader().read(queue)
        return tf.size(pair)
    <BLANKLINE>
    """
    for change in (
        *(without_contrib_learn, matched_files, unused_readers, readers_of_objects, readers_of_parameters),
        *(runners_started_by_hand, queues_of_arrays, readers_of_loops, readers_of_queues, readers_of_several_queues),
        *(stages_by_themselves, records_by_attribute, _shuffling_functions, _queues_between, work_before_arms),
        *(lists_behind_arms, heads_in_arms),
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


def _queues_between(text: str) -> str:
    """Let queues go that stand between the read and the batch, or that are made differently in two branches."""
    while True:
        source = Source(text)
        names = Names(source.tree)
        found = [(scope, queue) for scope in scopes(source.tree) for queue in filled_queues(scope, names)]
        texts = (source.edited(edits) for scope, queue in found if (edits := _without(source, names, scope, queue)))
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
    if _is_passed_by(scope, queue):
        return None
    marks: list[Edit] = []
    for made, kind in shuffling:
        mark = _mark(source, scope, queue, made, kind)
        if mark is None:
            return None
        marks.append(mark)
    instead = _taken(source, names, scope, queue, queue.taken)
    if instead is None:
        return None
    taken = f"{source.segment(queue.taken.targets[0])} = {instead}"
    first, last = queue.taken.lineno, queue.taken.end_lineno or queue.taken.lineno
    edits = [Edit(first, last, (source.indent(queue.taken) + taken,))]
    placed = {edit.first for edit in marks}
    hollow = [n for n in own_nodes(scope) if isinstance(n, ast.If) and {*n.body, *n.orelse} <= {*queue.gone}]
    apart = {inner for condition in hollow for inner in (*condition.body, *condition.orelse)}
    edits += [Edit(*source.span(s), ()) for s in (*hollow, *queue.gone) if s.lineno not in placed and s not in apart]
    return [*edits, *marks]


def _is_passed_by(scope: Scope, queue: FilledQueue) -> bool:
    """Whether something of a record does not go through a queue, but by it: that is of another record then."""
    flow = reaching(scope)
    simple = [n for n in own_nodes(scope) if isinstance(n, ast.stmt) and not hasattr(n, "body")]
    holding = {id(part): statement for statement in simple for part in walk(statement)}
    waiting: list[ast.AST] = [queue.put]
    before = list[ast.AST]()
    while waiting:  # what is put in hangs on these
        for taken in [n for n in walk(waiting.pop()) if isinstance(n, ast.Name)]:
            for made in flow.of(taken):
                if made not in before and made in simple:
                    before.append(made)
                    waiting.append(made)
    read = [s for s in before if any(getattr(part, "attr", "") in ("read", "read_up_to") for part in walk(s))]
    waiting, seen = list(read), set[ast.AST]()
    while waiting:  # these hang on a record
        made = waiting.pop()
        for name in writes(made):
            for use in flow.uses([made], name):
                user = holding.get(id(use))
                if user is None or user in queue.gone or user in seen:
                    continue
                if user.lineno > queue.filling.lineno:
                    return True
                seen.add(user)
                waiting.append(user)
    return False


def _taken(source: Source, names: Names, scope: Scope, queue: FilledQueue, taken: ast.Assign) -> str | None:
    """Return what takes the place of what is taken from the queue; None where its structure cannot be told."""
    put = queue.put
    if isinstance(put, ast.Name) and not _are_several(scope, put.id, taken):
        return None
    said = source.segment(put)
    if queue.verb == "dequeue":
        single = isinstance(put, (ast.List, ast.Tuple)) and len(put.elts) == 1
        return source.segment(put.elts[0]) if isinstance(put, (ast.List, ast.Tuple)) and single else said
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
        holding = [n for n in own_nodes(scope) if isinstance(n, ast.If) and block in (n.body, n.orelse)]
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
    last = queue.filling.end_lineno or queue.filling.lineno
    return Edit(queue.filling.lineno, last, tuple(lines))


# Functions that shuffle ---------------------------------------------------------------------------------------------


def _shuffling_functions(text: str) -> str:
    """Let functions that send tensors through a queue shuffle a dataset."""
    source = Source(text)
    names = Names(source.tree)
    edits: list[Edit] = []
    for function in source.tree.body:
        if isinstance(function, ast.FunctionDef):
            for queue in filled_queues(function, names):
                edits += _shuffling(source, function, queue) or []
    return source.edited(edits) if edits else text


def _shuffling(source: Source, function: ast.FunctionDef, queue: FilledQueue) -> list[Edit] | None:
    """Return the edits by which a function takes a dataset and returns it shuffled, None where it does more."""
    [made, *others], [kind, *_] = queue.made, queue.kinds
    given = arguments(made.value, kind) if isinstance(made.value, ast.Call) else None
    parameters = [argument.arg for argument in function.args.args]
    if not isinstance(queue.taken, ast.Assign) or queue.many:
        return None
    put, out = queue.put, queue.taken.targets[0]
    if others or given is None or given["capacity"] is None or not parameters or queue.call not in walk(function):
        return None
    if not isinstance(put, ast.Name) or put.id != parameters[0] or not isinstance(out, ast.Name):
        return None
    rest = [s for s in function.body if s not in queue.gone and s is not queue.taken and not _is_text(s)]
    returned = rest[-1] if rest else None
    if not isinstance(returned, ast.Return) or ast.unparse(returned) != f"return {out.id}":
        return None
    if not all(_sets_shapes(statement) for statement in rest[:-1]):
        return None
    calls = _handing(source.tree, function)
    if calls is None:
        return None
    capacity, seed = given["capacity"], given["seed"]
    if capacity is not None and "Shuffle" in kind:
        said = source.segment(capacity) + (f", seed={source.segment(seed)}" if seed is not None else "")
        result = f"dataset.shuffle({said})"
    else:
        result = "dataset"
    edits = [Edit(*source.span(s), ()) for s in (*queue.gone, queue.taken, *rest[:-1])]
    edits.append(Edit(*source.span(returned), (f"{source.indent(returned)}return {result}",)))
    header = function.args.args[0]
    edits.append(Edit(header.lineno, header.lineno, (source.substituted(header.lineno, [(header, "dataset")]),)))
    for statement, call in calls:
        options = [source.segment(item) for item in call.args[1:]]
        options += [f"{keyword.arg}={source.segment(keyword.value)}" for keyword in call.keywords]
        line = f"{source.indent(statement)}{HANDED}({', '.join([function.name, *options])})"
        edits.append(Edit(statement.lineno, statement.end_lineno or statement.lineno, (line,)))
    return edits


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _sets_shapes(statement: ast.stmt) -> bool:
    """Whether a statement only sets shapes, which records keep in a dataset."""
    if isinstance(statement, ast.For):
        return not statement.orelse and all(_sets_shapes(inner) for inner in statement.body)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "set_shape"


def _handing(tree: ast.Module, function: ast.FunctionDef) -> list[tuple[ast.Assign, ast.Call]] | None:
    """Return the calls `tensors = f(tensors, ...)` of a function, None where it is used otherwise, or not at all."""
    uses = [n for n in walk(tree) if isinstance(n, ast.Name) and n.id == function.name]
    found = [
        (n, n.value) for scope in scopes(tree) for n in own_nodes(scope)
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and n.value.func in uses and n.value.args
        and len(n.targets) == 1 and ast.unparse(n.targets[0]) == ast.unparse(n.value.args[0])
        and not any(isinstance(a, ast.Starred) for a in n.value.args) and all(k.arg for k in n.value.keywords)
        and _are_several(scope, ast.unparse(n.targets[0]), n)
    ]  # fmt: skip
    return found if found and len(found) == len(uses) else None


def _are_several(scope: Scope, name: str, taking: ast.Assign) -> bool:
    """Whether a name is that of several tensors, which are put and taken: of one in a list, a queue gives it alone."""
    values = [
        node.value for node in own_nodes(scope)
        if isinstance(node, ast.Assign) and node is not taking and name in writes(node)
    ]  # fmt: skip
    return bool(values) and all(isinstance(v, (ast.List, ast.Tuple)) and len(v.elts) > 1 for v in values)
