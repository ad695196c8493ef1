"""The stages of a queue pipeline that are written in one scope: producer, reader, read, batches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.migrate.flow import block_of, loads, own_nodes, reads
from seqrecorder.migrate.joins import joined
from seqrecorder.migrate.names import BATCHERS, PIPELINE, PRODUCERS, QUEUES, READERS, SIGNATURES, UNCONVERTED, arguments
from seqrecorder.migrate.unclear import Unclear

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqrecorder.migrate.flow import Scope
    from seqrecorder.migrate.names import Arguments, Names


@attrs.frozen(eq=False)
class Producer:
    """`queue = tf.train.string_input_producer(...)`, or the tensors of `slice_input_producer`.

    Attributes:
        statement: the assignment.
        kind: old name of the function.
        arguments: of the call.
        target: what is assigned to.
        dequeued: whether the queue's elements are taken in the same statement.
    """

    statement: ast.Assign
    kind: str
    arguments: Arguments
    target: ast.expr
    dequeued: bool = False


@attrs.frozen(eq=False)
class Reader:
    """`reader = tf.TFRecordReader()`.

    Attributes:
        statement: the assignment; None where the reader is made where it reads.
        kind: old name of the class.
        arguments: of the call.
    """

    statement: ast.Assign | None
    kind: str
    arguments: Arguments


@attrs.frozen(eq=False)
class Read:
    """`key, value = reader.read(queue)`.

    Attributes:
        statement: the assignment.
        reader: what reads.
        queue: the expression of the queue.
        key: name of the key, None where it is thrown away.
        value: name of the value.
        up_to: how many records at a time, None for one.
        key_target: what the key is assigned to, where that is not a name.
    """

    statement: ast.Assign
    reader: Reader
    queue: ast.expr
    key: str | None
    value: str
    up_to: ast.expr | None = None
    key_target: ast.expr | None = None


@attrs.frozen(eq=False)
class Batch:
    """`x = tf.train.batch(...)` or `return tf.train.batch(...)`.

    Attributes:
        statement: the assignment or return.
        kind: old name of the function, or of the class of a queue that was filled by hand.
        arguments: of the call; for a queue its own, and what was put in and taken out.
        extras: the statements that made, filled and ran such a queue, or a list of examples.
        readers: how many make such a list, None for one.
        loop: in which they do; None where there is none.
    """

    statement: ast.Assign | ast.Return
    kind: str
    arguments: Arguments
    extras: tuple[ast.stmt, ...] = ()
    readers: ast.expr | None = None
    loop: ast.For | None = None


@attrs.define(eq=False)
class Stages:
    """What one scope has of a pipeline, or one branch of a condition in it.

    Attributes:
        scope: a function or the module.
        producers: where elements come from.
        readers: by the text that they are assigned to.
        reads: of records.
        batches: of records.
        accounted: ids of the expressions that belong to these.
        others: branches of which each has a pipeline of its own.
    """

    scope: Scope
    producers: list[Producer] = attrs.field(factory=list)
    readers: dict[str, list[Reader]] = attrs.field(factory=dict)
    reads: list[Read] = attrs.field(factory=list)
    batches: list[Batch] = attrs.field(factory=list)
    accounted: set[int] = attrs.field(factory=set)
    others: tuple[list[ast.stmt], ...] = ()

    def nodes(self) -> list[ast.AST]:
        """Return what stands in the scope, without the other branches."""
        apart = {id(inner) for branch in self.others for statement in branch for inner in ast.walk(statement)}
        return [node for node in own_nodes(self.scope) if id(node) not in apart]

    def loads(self, name: str) -> list[ast.Name]:
        """Return where a name is read, but in the other branches."""
        apart = {id(inner) for branch in self.others for statement in branch for inner in ast.walk(statement)}
        return [node for node in loads(self.scope, name) if id(node) not in apart]

    def branches(self) -> list[Stages]:
        """Return the pipelines of branches that have one each; the one of the scope where they do not."""
        blocks = [block_of(self.scope, producer.statement) for producer in self.producers]
        parts = [self._branch(block, [b for b in blocks if b is not block]) for block in blocks]
        whole = all(
            sum(len(getattr(part, name)) for part in parts) == len(getattr(self, name))
            for name in ("producers", "reads", "batches")
        )
        return parts if len(parts) > 1 and whole and all(part.batches for part in parts) else [self]

    def _branch(self, block: list[ast.stmt], others: list[list[ast.stmt]]) -> Stages:
        inside = {id(inner) for statement in block for inner in ast.walk(statement)}
        return attrs.evolve(
            self,
            producers=[producer for producer in self.producers if id(producer.statement) in inside],
            reads=[read for read in self.reads if id(read.statement) in inside],
            batches=[batch for batch in self.batches if id(batch.statement) in inside],
            others=tuple(others),
        )

    def account(self, node: ast.AST) -> None:
        """Note that an expression belongs to a stage."""
        self.accounted |= {id(inner) for inner in ast.walk(node)}


def _bound(call: ast.Call, kind: str) -> Arguments:
    found = arguments(call, kind)
    if found is None:
        raise Unclear("arguments", f"the arguments of {kind} cannot be told apart", call)
    return found


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
    _take_reads(stages, names)
    for batch, parts in filled_queues(scope, names):
        stages.batches.append(batch)
        for part in parts:
            stages.account(part)
    for name, node in names.mentions(ast.Module([n for n in scope.body if not _is_scope(n)], []), PIPELINE):
        if id(node) not in stages.accounted and name not in UNCONVERTED and _stands_in(scope, node):
            raise Unclear(*_why(name), node)
    return stages


def _is_scope(node: ast.stmt) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _stands_in(scope: Scope, node: ast.AST) -> bool:
    return any(node is inner for inner in own_nodes(scope))


def _why(name: str) -> tuple[str, str]:
    short = name.removeprefix("tf.")
    if name in QUEUES or name in ("tf.train.QueueRunner", "tf.train.add_queue_runner"):
        return "explicit-queue", f"{short}: a queue that is filled by hand; seqrecorder.legacy.lift runs it as it is"
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
        stages.producers.append(Producer(node, kind, _bound(value, kind), target))
        stages.account(value.func)
    elif kind in READERS and isinstance(value, ast.Call):
        stages.readers.setdefault(ast.unparse(target), []).append(Reader(node, kind, _bound(value, kind)))
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
        stages.producers.append(Producer(node, inner, _bound(call, inner), target, dequeued=True))
        stages.account(call.func)


def _take_batch(stages: Stages, node: ast.Assign | ast.Return, names: Names) -> None:
    call = node.value
    if isinstance(call, ast.Call) and (kind := names.called(call)) is not None:
        bound = _bound(call, kind)
        stages.account(call.func)
        plain = kind.replace("maybe_", "").removesuffix("_join")
        if "tensors_list" not in SIGNATURES[kind]:
            stages.batches.append(Batch(node, plain, bound))
            return
        made = joined(stages.scope, bound["tensors_list"])
        given = {**bound.given, "tensors": made.example}
        if made.readers is not None:
            given["num_threads"] = made.readers
        arguments = attrs.evolve(bound, given=given)
        stages.batches.append(Batch(node, plain, arguments, made.extras, made.readers, made.loop))


def _take_reads(stages: Stages, names: Names) -> None:
    for node in own_nodes(stages.scope):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or len(node.targets) != 1:
            continue
        func = node.value.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("read", "read_up_to"):
            continue
        reader = _reader_before(stages, ast.unparse(func.value), node)
        inline = names.called(func.value)
        if reader is None and inline in READERS and isinstance(func.value, ast.Call):
            reader = Reader(None, inline, _bound(func.value, inline))
            stages.account(func.value.func)
        if reader is not None:
            stages.reads.append(_read(node, node.value, func.attr, reader, stages.scope))
            stages.account(func)


def _reader_before(stages: Stages, name: str, read: ast.Assign) -> Reader | None:
    """Return the reader that a name is where it reads: branches may each have one of that name."""
    found = None
    for reader in stages.readers.get(name, []):
        block = [] if reader.statement is None else block_of(stages.scope, reader.statement)
        if any(read in ast.walk(statement) for statement in block) and reader.arguments.call.lineno <= read.lineno:
            found = reader
    return found


def _read(node: ast.Assign, call: ast.Call, verb: str, reader: Reader, scope: Scope) -> Read:
    target = node.targets[0]
    pair = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
    if len(pair) != len(("key", "value")) or not isinstance(pair[1], ast.Name):
        raise Unclear("read-result", "the result of the read is not unpacked into a key and a value", node)
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg != "name")]
    wanted = 1 if verb == "read" else 2
    if len(given) != wanted:
        raise Unclear("arguments", f"the arguments of {verb} cannot be told apart", node)
    up_to = given[1] if verb == "read_up_to" else None
    key, value = pair[0], pair[1].id
    if not isinstance(key, ast.Name):
        taken = {inner.id for inner in ast.walk(scope) if isinstance(inner, ast.Name)}
        name = "key" if "key" not in taken else "record_key"
        return Read(node, reader, given[0], name, value, up_to, key)
    used = any(key.id in reads(inner) for inner in own_nodes(scope) if isinstance(inner, ast.Name))
    return Read(node, reader, given[0], key.id if used else None, value, up_to)


# Queues that are filled by hand -------------------------------------------------------------------------------------


def filled_queues(scope: Scope, names: Names) -> Iterator[tuple[Batch, list[ast.AST]]]:
    """Yield the queues that one operation fills, a queue runner runs and one statement takes batches from.

    Besides each come the expressions that belong to it.
    """
    for node in own_nodes(scope):
        value = node.value if isinstance(node, ast.Assign) else None
        kind = names.called(value)
        if kind not in QUEUES or not isinstance(value, ast.Call) or not isinstance(node, ast.Assign):
            continue
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found = _filled(_Queue(scope, names, node, node.targets[0].id, kind), value)
            if found is not None:
                yield found


@attrs.frozen(eq=False)
class _Queue:
    scope: Scope
    names: Names
    statement: ast.Assign
    name: str
    kind: str

    def calls(self, *verbs: str) -> list[ast.Call]:
        """Return the calls of some methods of the queue."""
        return [
            node
            for node in own_nodes(self.scope)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in verbs
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == self.name
        ]

    def statement_of(self, inner: ast.AST) -> ast.stmt:
        """Return the innermost statement that an expression stands in."""
        holding = [n for n in own_nodes(self.scope) if isinstance(n, ast.stmt) and inner in ast.walk(n)]
        return holding[-1]


def _filled(queue: _Queue, made: ast.Call) -> tuple[Batch, list[ast.AST]] | None:
    put, taken = queue.calls("enqueue"), queue.calls("dequeue_many", "dequeue_up_to")
    runners = [n for n in own_nodes(queue.scope) if queue.names.called(n) == "tf.train.QueueRunner"]
    runners = [n for n in runners if isinstance(n, ast.Call) and n.args and _is_name(n.args[0], queue.name)]
    if len(put) != 1 or len(taken) != 1 or len(runners) != 1 or len(loads(queue.scope, queue.name)) != len("123"):
        return None
    statement = queue.statement_of(taken[0])
    whole = isinstance(statement, (ast.Assign, ast.Return)) and statement.value is taken[0]
    if (
        not whole
        or len(put[0].args) != 1
        or len(taken[0].args) != 1
        or not isinstance(statement, (ast.Assign, ast.Return))
    ):
        return None
    extras: list[ast.stmt] = [queue.statement]
    runner = runners[0]
    parts: list[ast.AST] = [made.func, *([runner.func] if isinstance(runner, ast.Call) else [])]
    for inner in (put[0], runner):
        if not _take_named(queue, inner, extras, parts):
            return None
    bound = _bound(made, queue.kind)
    given = {
        **bound.given,
        "tensors": put[0].args[0],
        "batch_size": taken[0].args[0],
        "allow_smaller_final_batch": ast.Constant(_verb(taken[0]) == "dequeue_up_to"),
    }
    return Batch(statement, queue.kind, attrs.evolve(bound, given=given), tuple(extras)), parts


def _take_named(queue: _Queue, inner: ast.AST, extras: list[ast.stmt], parts: list[ast.AST]) -> bool:
    """Add the statement of an operation, and those that use it by the name that it is given; False if one cannot go."""
    statement = queue.statement_of(inner)
    if statement not in extras:
        extras.append(statement)
    if isinstance(statement, ast.Expr):
        call = statement.value
        adding = isinstance(call, ast.Call) and queue.names.called(call) == "tf.train.add_queue_runner"
        parts += [call.func] if adding and isinstance(call, ast.Call) else []
        return adding
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    return all(_take_named(queue, use, extras, parts) for use in loads(queue.scope, statement.targets[0].id))


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _verb(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
