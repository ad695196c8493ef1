"""Where the stages of a queue pipeline stand in one scope."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.batch_join import joined
from seqrecorder.legacy.migrate.analyze.data_flow import block_of, only, own_nodes, reads, walk
from seqrecorder.legacy.migrate.analyze.names import (
    BATCHERS,
    DATASET,
    OF_QUEUES,
    PIPELINE,
    PRODUCERS,
    PROVIDER,
    QUEUES,
    READERS,
    SIGNATURES,
    UNCONVERTED,
    Arguments,
)
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.analyze.stages import GIVEN, Batch, Producer, Read, Reader, Stages, bound
from seqrecorder.legacy.migrate.normalize.filled_queues import batches_of_queues, not_filled
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from seqrecorder.legacy.migrate.analyze.data_flow import Scope
    from seqrecorder.legacy.migrate.analyze.names import Names


def find_stages(scope: Scope, names: Names) -> Stages:
    """Return the stages that stand in a scope.

    Raises:
        Unclear: a part of a pipeline is written in a way that is none of these.
    """
    stages = Stages(scope)
    for node in own_nodes(scope):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            _take_assignment(stages, node, names)
        elif isinstance(node, ast.Return) and names.called(node.value) in BATCHERS:
            _take_batch(stages, node, names)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
            kind = names.called(node.value)
            if kind in OF_QUEUES:
                stages.producers.append(Producer(node, kind, bound(node.value, kind), node.value))
                stages.account(node.value.func)
    _take_reads(stages, names)
    _take_described(stages, names)
    for batch, parts in batches_of_queues(scope, names):
        stages.batches.append(batch)
        for part in parts:
            stages.account(part)
    for name, node in names.mentions(ast.Module([n for n in scope.body if not _is_scope(n)], []), PIPELINE):
        if id(node) not in stages.accounted and name not in UNCONVERTED and _stands_in(scope, node):
            handed = not any(isinstance(call, ast.Call) and call.func is node for call in walk(scope))
            raise Unclear(*_why(name, scope, names, handed=handed), node)
    return stages


def _is_scope(node: ast.stmt) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _stands_in(scope: Scope, node: ast.AST) -> bool:
    return any(node is inner for inner in own_nodes(scope))


_FED = frozenset({"tf.placeholder", "tf.placeholder_with_default"})


def _why(name: str, scope: Scope, names: Names, *, handed: bool) -> tuple[str, str]:
    """Return the code and the reason of a name that is no part of a known stage.

    Args:
        name: of TensorFlow.
        scope: that it stands in.
        names: of the script.
        handed: whether it is not called there.
    """
    short = name.removeprefix("tf.")
    if name == PROVIDER:
        return "datasetdataprovider", "what it gives is not taken by one get(...) alone, beside which it is made"
    if name in READERS and handed:
        return "reader-class", f"the class {short} is given to something else, which reads with it"
    if name in QUEUES or name in ("tf.train.QueueRunner", "tf.train.add_queue_runner"):
        if any(names.mentions(scope, _FED)):
            return "fed", f"{short}: a queue that Python code fills, through placeholders"
        return "explicit-queue", f"{short}: a queue that is filled by hand: {not_filled(scope, names)}"
    if name in BATCHERS:
        return "batch-elsewhere", f"{short} is not the value of an assignment or of a return"
    if name in PRODUCERS:
        return "producer-elsewhere", f"{short} is not simply assigned to a name"
    return "reader-elsewhere", f"{short} is not simply assigned and read in the same function"


def _take_assignment(stages: Stages, node: ast.Assign, names: Names) -> None:
    value, target = node.value, node.targets[0]
    kind = names.called(value)
    if names.resolve(value) in PIPELINE and isinstance(target, ast.Name) and names.resolve(target) in PIPELINE:
        stages.account(value)  # another name for it
    elif kind in PRODUCERS and isinstance(value, ast.Call):
        stages.producers.append(Producer(node, kind, bound(value, kind), target))
        stages.account(value.func)
    elif isinstance(value, ast.Call) and ast.unparse(value.func) == GIVEN:
        stages.producers.append(Producer(node, "given", Arguments(value, {}), target))
    elif kind in READERS and isinstance(value, ast.Call):
        stages.readers.setdefault(ast.unparse(target), []).append(_reader(stages, node, value, kind))
        stages.account(value.func)
    elif kind in BATCHERS:
        _take_batch(stages, node, names)
    elif (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "dequeue"
        and isinstance(value.func.value, ast.Call)
        and (inner := names.called(value.func.value)) in PRODUCERS
    ):
        call = value.func.value
        stages.producers.append(Producer(node, inner, bound(call, inner), target, dequeued=True))
        stages.account(call.func)
    elif isinstance(value, ast.Call):
        match value:
            case ast.Call(ast.Attribute(ast.Call() as made, "get"), [items], []) if names.called(made) == PROVIDER:
                given = bound(made, PROVIDER)
                options = attrs.evolve(given, given={**given.given, "items": items})
                stages.producers.append(Producer(node, PROVIDER, options, target))
                stages.account(made.func)


def _reader(stages: Stages, statement: ast.Assign | None, made: ast.Call, kind: str) -> Reader:
    """Return a reader, with its options as they are written where they are made, if that is one place."""
    arguments = bound(made, kind)
    options = arguments["options"]
    flow = reaching(stages.scope)
    written = [*flow.of(options)] if isinstance(options, ast.Name) else []
    once = isinstance(options, ast.Name) and len(written) == 1 and len(flow.uses(written, options.id)) == 1
    if once and isinstance(written[0], ast.Assign) and isinstance(written[0].targets[0], ast.Name):
        arguments.given["options"] = written[0].value
    return Reader(statement, kind, arguments)


def _take_batch(stages: Stages, node: ast.Assign | ast.Return, names: Names) -> None:
    call = node.value
    if isinstance(call, ast.Call) and (kind := names.called(call)) is not None:
        given_to = bound(call, kind)
        stages.account(call.func)
        plain = kind.replace("maybe_", "").removesuffix("_join")
        if "tensors_list" not in SIGNATURES[kind]:
            stages.batches.append(Batch(node, plain, given_to))
            return
        made = joined(stages.scope, given_to["tensors_list"])
        given = {**given_to.given, "tensors": made.example}
        if made.readers is not None:
            given["num_threads"] = made.readers
        arguments = attrs.evolve(given_to, given=given)
        stages.batches.append(Batch(node, plain, arguments, made.extras, made.readers, made.loop))


def _take_reads(stages: Stages, names: Names) -> None:
    for node in own_nodes(stages.scope):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or len(node.targets) != 1:
            continue
        func = node.value.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("read", "read_up_to"):
            continue
        reader = _reader_before(stages, ast.unparse(func.value), node)
        choices = _choices(stages, func.value) if reader is None else ()
        reader = choices[0] if choices else reader
        inline = names.called(func.value)
        if reader is None and inline in READERS and isinstance(func.value, ast.Call):
            reader = _reader(stages, None, func.value, inline)
            stages.account(func.value.func)
        if reader is not None:
            read = _read(node, node.value, func.attr, reader, stages.scope)
            stages.reads.append(attrs.evolve(read, choices=choices))
            stages.account(func)


def _take_described(stages: Stages, names: Names) -> None:
    """Take the datasets of TF-Slim, and account for the classes of readers that are given to nothing else."""
    found = [call for call in only(ast.Call, own_nodes(stages.scope)) if names.called(call) == DATASET]
    readers = [v for call in found for v in (*call.args[1:2], *(k.value for k in call.keywords if k.arg == "reader"))]
    stages.described = bool(found)
    for node in readers:
        made = [*reaching(stages.scope).of(node)] if isinstance(node, ast.Name) else []
        stages.account(node)
        for each in only(ast.Assign, made):
            uses = stages.uses([each], ast.unparse(node))
            if names.resolve(each.value) in READERS and all(use in readers for use in uses):
                stages.account(each.value)


def _reader_before(stages: Stages, name: str, read: ast.Assign) -> Reader | None:
    """Return the reader that a name is where it reads: branches may each have one of that name."""
    found = None
    for reader in stages.readers.get(name, []):
        block = [] if reader.statement is None else block_of(stages.scope, reader.statement)
        if any(read in walk(statement) for statement in block) and reader.arguments.call.lineno <= read.lineno:
            found = reader
    return found


def _choices(stages: Stages, name: ast.expr) -> tuple[Reader, ...]:
    """Return the readers that a name may be where it reads; none where it may be something else."""
    made = reaching(stages.scope).of(name) if isinstance(name, ast.Name) else set[ast.AST]()
    found = [reader for reader in stages.readers.get(ast.unparse(name), []) if reader.statement in made]
    return tuple(found) if len(found) == len(made) else ()


def _read(node: ast.Assign, call: ast.Call, verb: str, reader: Reader, scope: Scope) -> Read:
    target = node.targets[0]
    pair = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
    if len(pair) != 2 or not isinstance(pair[1], ast.Name):  # noqa: PLR2004 - a key and a value
        raise Unclear("read-result", "the result of the read is not unpacked into a key and a value", node)
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg != "name")]
    wanted = 1 if verb == "read" else 2
    if len(given) != wanted:
        raise Unclear("arguments", f"the arguments of {verb} cannot be told apart", node)
    up_to = given[1] if verb == "read_up_to" else None
    key, value = pair[0], pair[1].id
    if not isinstance(key, ast.Name):
        taken = {inner.id for inner in walk(scope) if isinstance(inner, ast.Name)}
        name = "key" if "key" not in taken else "record_key"
        return Read(node, reader, given[0], name, value, up_to, key)
    used = any(key.id in reads(inner) for inner in own_nodes(scope) if isinstance(inner, ast.Name))
    return Read(node, reader, given[0], key.id if used else None, value, up_to)
